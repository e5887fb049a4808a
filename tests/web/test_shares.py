"""Percents of rows, columns and all: right by hand, and never surer than part and whole are."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from eree.web.answer import answer
from eree.web.block import ABSENT, FLAGS, NEGATIVE, UNRELIABLE, Block
from eree.web.cubes import CubeSet
from eree.web.dataset import DataSet
from eree.web.linked import LinkedTable
from eree.web.query import Query
from eree.web.shares import level_of_parts, share


def block(value: float, low: float, high: float, absent: bool = False) -> Block:
    flags = {name: np.array([absent and name == ABSENT]) for name in FLAGS}
    whole = np.array([round(value)])
    return Block(whole, 1, np.array([low]), np.array([high]), None, np.array([0.0]), flags)


counts = st.integers(0, 10_000)
spread = st.integers(0, 3_000)


@given(counts, counts, spread, spread, spread, spread, st.integers(-500, 500))
def test_a_true_share_is_inside_wherever_part_and_whole_are(
    part: int, rest: int, a: int, b: int, c: int, d: int, off: int
) -> None:
    """Whatever the noise, and whatever the estimates came out as."""
    total = part + rest
    made = share(
        block(part + off, max(part - a, 0), part + b),
        block(total - off, max(total - c, 0), total + d),
    )
    assert 0 <= made.low[0] <= made.high[0] <= 100
    if total:
        assert made.low[0] - 1e-9 <= 100 * part / total <= made.high[0] + 1e-9
    if total - off > 0:
        assert made.jobs[0] == pytest.approx(100 * (part + off) / (total - off), abs=1e-3)
        assert made.flags[NEGATIVE][0] == (round(100_000 * (part + off) / (total - off)) < 0)
    else:
        assert made.jobs[0] == 0 and made.flags[UNRELIABLE][0]
    assert np.isfinite(made.margin[0])


def test_nobody_is_no_percent_of_anything_and_what_is_unbounded_is_at_most_all() -> None:
    none = share(block(0, 0, 0, absent=True), block(9, 5, 12))
    assert (none.jobs[0], none.low[0], none.high[0]) == (0, 0, 0)
    assert not none.flags[UNRELIABLE][0]
    wide = share(block(5, 2, np.inf), block(9, 0, np.inf))
    assert (wide.low[0], wide.high[0]) == (0, 100)


@pytest.mark.parametrize("of", ["rows", "cols", "all"])
@pytest.mark.parametrize("name", ["jobs", "people", "cube"])
def test_shares_are_quotients_of_the_counts_at_the_level_of_both(
    tables: dict[str, LinkedTable], cube: CubeSet, of: str, name: str
) -> None:
    data: DataSet = cube if name == "cube" else tables[name]
    one, two = [v.name for v in data.variables if 1 < len(v.codes) <= 60][:2]
    query = Query((one,), (two,), sort="-jobs")
    made = answer(data, replace(query, share=of))
    level = str(level_of_parts(0.9))
    known = answer(data, replace(query, confidence=level))
    assert made.rows.places == known.rows.places
    totals = {"rows": known.row_totals, "cols": known.col_totals, "all": known.total}[of]
    for i in range(len(known.rows)):
        for j in range(len(known.cols)):
            whole = totals.cell({"rows": i, "cols": j, "all": 0}[of])
            part, found = known.body.cell(i, j), made.body.cell(i, j)
            if ABSENT in part.flags:
                assert (found.value, found.low, found.high) == (0, 0, 0)
                continue
            if whole.value > 0:
                assert found.estimate == pytest.approx(100 * part.value / whole.value, abs=1e-3)
            if whole.low > 0:
                high = min(100.0, 100 * part.high / whole.low)
                assert (found.low, found.high) == pytest.approx(
                    (min(100.0, 100 * part.low / whole.high), high)
                )
    assert made.total.cell(0).estimate == 100 and made.total.cell(0).margin == 0
    same = {"rows": made.row_totals, "cols": made.col_totals, "all": made.total}[of]
    assert set(same.jobs.tolist()) == {100.0}


def test_pages_and_files_have_shares(client: TestClient, tables: dict[str, LinkedTable]) -> None:
    name = tables["jobs"].name
    asked = f"/d/{name}{{}}?rows=sector&cols=ownership&share=rows&show=interval"
    page = client.get(asked.format("")).text
    assert "Jobs: Percent of the row&#39;s total by " in page
    assert "Their intervals go from the low end" in page
    assert '<option value="rows" selected>' in page
    assert client.get(asked.format("/chart")).status_code == 200
    found = client.get(asked.format(".json")).json()
    assert found["metadata"]["measure"] == "Jobs: Percent of the row's total"
    assert all(-1e4 < c["estimate"] < 1e4 and 0 <= c["low"] <= c["high"] <= 100
               for c in found["cells"])  # fmt: skip
    rows = csv.DictReader(io.StringIO(client.get(asked.format(".csv")).text.lstrip("\ufeff")))
    first = next(rows)
    assert (
        "guaranteed_low" not in first
        and "percent-of-rows" in client.get(asked.format(".csv")).headers["content-disposition"]
    )
    assert float(first["estimate"]) == pytest.approx(found["cells"][0]["estimate"])


def test_a_ranking_and_a_map_are_of_counts(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    for path in ("/ranking", "/map", "/threshold"):
        asked = f"/d/{tables['jobs'].name}{path}?rows=place{{}}&show=margin"
        shares, counts = client.get(asked.format("&share=all")), client.get(asked.format(""))
        assert shares.status_code == 200
        assert shares.text == counts.text


@pytest.mark.parametrize("query", ["share=some", "share=rows&share=rows"])
def test_other_shares_are_refused(
    client: TestClient, tables: dict[str, LinkedTable], query: str
) -> None:
    asked = f"/d/{tables['jobs'].name}?rows=place&{query}&show=margin"
    assert client.get(asked).status_code == 400


def test_a_share_of_a_cube_has_no_standard_error(client: TestClient, cube: CubeSet) -> None:
    asked = f"/d/{cube.name}?rows=education&share=all&show=standard-error"
    assert client.get(asked).status_code == 400
    form = f"/d/{cube.name}/build?at.education=rows&share=all&show=standard-error"
    assert "show=margin" in client.get(form).headers["location"]


def test_a_cell_where_nobody_is_has_no_badge_and_one_note_says_it(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    page = client.get(f"/d/{tables['jobs'].name}?rows=place&cols=sector&show=margin").text
    body = page[page.index("<tbody>") : page.index("</tbody>")]
    assert '<span class="none">0</span>' in body and "absent" not in body
    assert page.count("no workplace is there, which is public") == 1
