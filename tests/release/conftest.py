"""A synthetic population and one release of it, shared by tests of what a release is good for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import eree
import eree_study

TABLES: list[dict[str, Any]] = [
    {"name": "places", "by": ["place", "sector", "ownership"], "epsilon": "2"},
    {"name": "tracts", "by": ["tract", "sector"], "epsilon": "4"},
    {"name": "totals", "by": ["tract"], "epsilon": "1"},
    {"name": "sexes", "by": ["tract", "sex"], "epsilon": "4"},
    {"name": "ages", "by": ["age", "tract"], "epsilon": "6"},
    {"name": "women", "by": ["county"], "where": {"sex": ["F"]}, "epsilon": "1"},
    {
        "name": "bent",
        "by": ["county", "sector"],
        "epsilon": "1",
        "mechanism": "log-laplace-tight",
    },
]


@pytest.fixture(scope="session")
def population(tmp_path_factory: pytest.TempPathFactory) -> eree.Tables:
    return eree.load(eree_study.synthesize(tmp_path_factory.mktemp("uses") / "data", jobs=20_000))


@pytest.fixture(scope="session")
def release(population: eree.Tables, tmp_path_factory: pytest.TempPathFactory) -> eree.Release:
    """Every kind of table, drawn from a seeded source: not private, and paid by no ledger."""
    plan = eree.Plan.of(
        {
            "data": str(population.folder),
            "privacy": {"neighbours": "strong", "alpha": "0.1", "epsilon": "100"},
            "table": TABLES,
        }
    )
    out: Path = tmp_path_factory.mktemp("uses") / "out"
    return eree.publish(plan, population, ledger=None, out=out, random=eree.SeededRandom(1))
