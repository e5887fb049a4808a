"""Variables may have names with letters of all kinds, or those of the columns of an answer."""

from __future__ import annotations

import io
from collections.abc import Iterator
from urllib.parse import quote

import pyarrow.parquet as parquet
import pytest
from starlette.testclient import TestClient

import eree
from eree.survey.shape import Shape, Variable
from eree.web.app import application
from eree.web.catalogue import Catalogue
from eree.web.cubes import CubeSet
from small_cubes import count, survey

HOME = "http://testserver"
NAMES = ("Größe / Art", "rank", "rank_label", "estimate")


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    codes = ("one", "two", "three")
    form = Shape(tuple(Variable(name, name, codes, codes) for name in NAMES))
    made = eree.protect_cube(
        count(survey(1, form, 60), form, 2_000_000, 5),
        epsilon=2,
        random=eree.SeededRandom(1),
        ledger=None,
        out=tmp_path_factory.mktemp("odd") / "cube",
    )
    catalogue = Catalogue((CubeSet("cube", made, ()),))
    app = application(catalogue, HOME)
    with TestClient(app, base_url=HOME, follow_redirects=False) as found:
        yield found


@pytest.mark.parametrize("name", NAMES)
def test_the_codes_of_every_variable_have_a_page(odd: TestClient, name: str) -> None:
    sent = odd.get("/d/cube/build", params={"choose": name, f"at.{name}": "rows", "tab": ""})
    assert sent.status_code == 303
    page = odd.get(sent.headers["location"])
    assert page.status_code == 200 and f"Filter {name}" in page.text
    listed = odd.get(f"/d/cube/codes/{quote(name, safe='')}.json").json()
    assert [line["code"] for line in listed["codes"]] == ["one", "two", "three"]
    assert f"/d/cube/codes/{quote(name, safe='')}.json" in odd.get("/openapi.json").json()["paths"]


def test_codes_and_figures_do_not_take_each_others_names(odd: TestClient) -> None:
    found = odd.get("/d/cube.json?rows=rank&cols=estimate&show=margin").json()
    first = found["cells"][0]
    assert first["rank_"] == first["estimate_"] == "one" and isinstance(first["estimate"], float)
    area = odd.get("/d/cube/ranking.json?rows=rank&show=margin").json()["areas"][0]
    assert area["rank"] == 1 and area["rank_"] in ("one", "two", "three")
    damage = {"rows": "rank", "damage": "one 5", "show": "margin"}
    (decided,) = odd.get("/d/cube/threshold.json", params=damage).json()["areas"]
    assert decided["rank_"] == "one" and decided["damage"] == "5"


def test_files_have_a_column_for_each_code_label_and_figure(odd: TestClient) -> None:
    query = "?rows=rank&rows=rank_label&cols=estimate&show=margin"
    table = parquet.read_table(io.BytesIO(odd.get(f"/d/cube.parquet{query}").content))
    assert table.column_names[:6] == [
        *("rank_", "rank_label_", "rank_label", "rank_label_label"),
        *("estimate_", "estimate_label"),
    ]
    cells = odd.get(f"/d/cube.json{query}").json()["cells"]
    assert [float(n) for n in table["estimate"].to_pylist()] == [c["estimate"] for c in cells]
    assert table["rank_label"].to_pylist() == [c["rank_label"] for c in cells]
