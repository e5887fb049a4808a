"""A release of tables and a protected cube, both real, that the query tool is tried on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import eree
import eree_study
from eree.web.app import application
from eree.web.catalogue import Catalogue
from eree.web.cubes import CubeSet
from eree.web.linked import LinkedTable
from eree.web.server import QueryTool
from shared import made_once

HOME = "http://testserver"
TABLES: list[dict[str, Any]] = [
    {"name": "jobs", "by": ["place", "sector", "ownership"], "epsilon": "2"},
    {"name": "people", "by": ["county", "sex", "education"], "epsilon": "4"},
    {"name": "tracts", "by": ["county", "tract"], "epsilon": "2"},
    {"name": "women", "by": ["county"], "where": {"sex": ["F"]}, "epsilon": "2"},
    {"name": "branches", "by": ["place", "county", "supersector"], "epsilon": "2"},
    {"name": "sizes", "count": "workplaces", "by": [], "epsilon": "1"},
    {"name": "bent", "by": ["county", "sector"], "epsilon": "1", "mechanism": "log-laplace-tight"},
]


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Folders of a release of tables and of a protected cube, beside what they were made of."""
    home = made_once(tmp_path_factory, "served", release)
    return [home / "tables", home / "cube"]


def release(home: Path) -> None:
    """Release the tables and the cube; what a query tool reads of the cache is there then."""
    tables = eree.load(eree_study.synthesize(home / "data", jobs=20_000, areas=True))
    privacy = {"neighbours": "strong", "alpha": "0.1", "epsilon": "100"}
    settings = {"data": str(tables.folder), "privacy": privacy, "table": TABLES}
    plan = eree.Plan.of(settings)
    total = eree.Guarantee(eree.Strong("0.1"), 100)
    ledger = eree.Ledger.create(home / "tables.db", total, data_set="data")
    eree.publish(plan, tables, ledger=ledger, out=home / "tables")
    survey = eree.read_survey(eree_study.synthesize_survey(home / "survey", shape="querytool"))
    cube = eree.build_cube(survey, most_weight="2500", most_records=4)
    total = eree.Guarantee(eree.ESTABLISHMENT, 100, "0.01")
    ledger = eree.Ledger.create(home / "cube.db", total, data_set="data")
    eree.protect_cube(
        cube,
        epsilon=20,
        delta="1e-6",
        unit="establishment",
        ledger=ledger,
        out=home / "cube",
    )
    tool = QueryTool([home / "tables", home / "cube"], port=0)
    tool.run(tool.stop)


@pytest.fixture(scope="session")
def maps(releases: list[Path]) -> list[str]:
    """Public maps of places and counties, as a command names them."""
    folder = releases[0].parent / "data"
    return [f"{name}={folder / name}.geojson" for name in ("place", "county")]


@pytest.fixture(scope="session")
def catalogue(releases: list[Path], maps: list[str]) -> Catalogue:
    return Catalogue.open(releases, maps=maps)


@pytest.fixture(scope="session")
def cube(catalogue: Catalogue) -> CubeSet:
    (found,) = (data for data in catalogue.data_sets if isinstance(data, CubeSet))
    return found


@pytest.fixture(scope="session")
def tables(catalogue: Catalogue) -> dict[str, LinkedTable]:
    return {d.table: d for d in catalogue.data_sets if isinstance(d, LinkedTable)}


@pytest.fixture(scope="session")
def client(catalogue: Catalogue) -> Iterator[TestClient]:
    app = application(catalogue, HOME)
    with TestClient(app, base_url=HOME, follow_redirects=False) as found:  # one loop for all
        yield found
