"""Percents of rows, columns and all: right by hand, and never surer than part and whole are."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from eree.web.answer import answer
from eree.web.block import ABSENT, FLAGS, NEGATIVE, UNRELIABLE, Block
from eree.web.catalogue import Catalogue
from eree.web.cubes import CubeSet
from eree.web.dataset import DataSet
from eree.web.figures import Asked, Figures
from eree.web.linked import LinkedTable
from eree.web.query import Query
from eree.web.shares import level_of_parts, share
from eree.web.site import Site


def block(value: float, low: float, high: float, absent: bool = False) -> Block:
    flags = {name: np.array([absent and name == ABSENT]) for name in FLAGS}
    whole = np.array([round(value)])
    return Block(whole, 1, np.array([low]), np.array([high]), None, np.array([0.0]), flags)


def blocks(*lines: tuple[float, float, float]) -> Block:
    """Figures in a line, each with its interval."""
    return Block.in_a_line([block(*one) for one in lines])


#: Somebody else in a line, and how many.
OTHER = (3.0, 0.0, 9.0)
counts = st.integers(0, 10_000)
spread = st.integers(0, 3_000)


@given(counts, counts, spread, spread, spread, spread, st.integers(-500, 500))
def test_a_true_share_is_inside_wherever_part_and_whole_are(
    part: int, rest: int, a: int, b: int, c: int, d: int, off: int
) -> None:
    """Whatever the noise, and whatever the estimates came out as."""
    total = part + rest
    made = share(
        blocks((part + off, max(part - a, 0), part + b), OTHER),
        block(total - off, max(total - c, 0), total + d),
    )
    estimate, numbers = 100 * (part + off) / ((total - off) or 1), (made.low[0], made.high[0])
    if total - off > 0:
        assert made.low[0] <= made.jobs[0] <= made.high[0]
        assert made.jobs[0] == pytest.approx(estimate, abs=1e-9)
        assert made.flags[NEGATIVE][0] == (part + off < 0)
        assert made.margin[0] == pytest.approx(max(estimate - numbers[0], numbers[1] - estimate))
        assert min(0, estimate) - 1e-9 <= numbers[0] and numbers[1] <= max(100, estimate) + 1e-9
        if part + off > 0:
            assert made.relative[0] == pytest.approx(made.margin[0] / estimate)
            assert made.flags[UNRELIABLE][0] == (made.margin[0] > estimate / 2)
        if total:
            assert numbers[0] - 1e-9 <= 100 * part / total <= numbers[1] + 1e-9
    else:
        assert np.isnan([made.jobs[0], made.margin[0], *numbers]).all()
        assert made.flags[UNRELIABLE][0] and not made.flags[NEGATIVE][0]
        cell = json.loads(made.records())[0]
        assert [cell[name] for name in ("estimate", "low", "high", "margin")] == [None] * 4


@given(st.lists(st.integers(1, 10**9), min_size=2, max_size=50))
def test_exact_shares_are_exact_however_small_and_add_up(parts: list[int]) -> None:
    made = share(blocks(*((n, n, n) for n in parts)), block(sum(parts), sum(parts), sum(parts)))
    assert (made.jobs > 0).all() and (made.low == made.jobs).all() and (made.high == made.low).all()
    assert not made.flags[UNRELIABLE].any() and not made.relative.any()
    assert made.jobs.sum() == pytest.approx(100, abs=1e-6)


def test_nobody_is_no_percent_of_anything_and_what_is_unbounded_is_at_most_all() -> None:
    none = share(block(0, 0, 0, absent=True), block(9, 5, 12))
    assert (none.jobs[0], none.low[0], none.high[0]) == (0, 0, 0)
    assert not none.flags[UNRELIABLE][0]
    wide = share(blocks((5, 2, np.inf), OTHER), block(9, 0, np.inf))
    assert (wide.low[0], wide.high[0]) == (0, 100)


@pytest.mark.parametrize("estimate", [1, 7])
def test_a_part_beside_which_nobody_is_is_exactly_all(estimate: int) -> None:
    nobody = block(0, 0, 0, absent=True)
    line = Block.in_a_line([nobody, block(estimate, 0, 20), nobody])
    made = share(line, block(estimate, 0, 20))
    assert made.jobs.tolist() == made.low.tolist() == made.high.tolist() == [0, 100, 0]
    assert not any(made.flags[name].any() for name in (NEGATIVE, UNRELIABLE))
    assert not made.margin.any() and made.margin[0] == 0


@pytest.mark.parametrize("estimate", [-4, 0])
def test_of_a_total_of_0_or_less_nothing_is_known_though_it_is_all(estimate: int) -> None:
    line = Block.in_a_line([block(0, 0, 0, absent=True), block(estimate, 0, 20)])
    made = share(line, block(estimate, 0, 20))
    assert made.jobs[0] == 0 and np.isnan([made.jobs[1], made.low[1], made.high[1]]).all()


def test_an_end_of_0_that_holds_at_a_level_alone_makes_no_other_share_exact() -> None:
    made = share(blocks((10, 5, 15), *[(0, 0, 0)] * 4), block(10, 4, 16))
    assert made.jobs.tolist() == [100, 0, 0, 0, 0]
    assert made.low[0] == 31.25 and made.margin[0] == 68.75


@pytest.mark.parametrize("name", ["jobs", "people", "tracts", "cube"])
def test_an_estimate_lies_within_its_interval_in_every_file(
    client: TestClient, tables: dict[str, LinkedTable], cube: CubeSet, name: str
) -> None:
    data: DataSet = cube if name == "cube" else tables[name]
    one, two = [v.name for v in data.variables if len(v.codes) > 1][:2]
    for sides in (f"rows={one}", f"rows={one}&cols={two}"):
        for own in ("&share=rows", "&share=cols", "&share=all"):
            asked = f"/d/{data.name}{{}}?{sides}{own}&show=margin"
            found = client.get(asked.format(".json")).json()
            text = client.get(asked.format(".csv")).text.lstrip("\ufeff")
            table = parquet.read_table(io.BytesIO(client.get(asked.format(".parquet")).content))
            flat = client.get(asked.format(".jsonstat")).json()["value"]
            rows = list(csv.DictReader(io.StringIO(text)))
            names = ("estimate", "low", "high")
            kinds = [
                [[cell[n] for n in names] for cell in found["cells"]],
                [[float(row[n]) if row[n] else None for n in names] for row in rows],
                table.select(names).to_pandas().replace(np.nan, None).values.tolist(),
                [flat[k : k + 3] for k in range(0, len(flat), 4)],
            ]
            assert kinds[0] == kinds[1] == kinds[2]
            for estimate, low, high in [cell for kind in kinds for cell in kind]:
                assert (estimate is None) == (low is None) == (high is None)
                assert estimate is None or low <= estimate <= high
            if own == "&share=rows" and "cols" not in sides:
                unknown = (None,) * 3  # of totals of 0 or less
                assert {tuple(cell) for cell in kinds[0]} <= {(100,) * 3, (0,) * 3, unknown}
            if own == "&share=all":
                assert sum(cell[0] for cell in kinds[0]) == pytest.approx(100, abs=1e-5)


def test_a_share_that_is_not_known_is_no_figure_anywhere(
    client: TestClient, tables: dict[str, LinkedTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = copy(tables["jobs"])
    plain = LinkedTable.with_totals

    def lost(self: LinkedTable, asked: Asked, by: Sequence[tuple[str, ...]]) -> list[Figures]:
        """Totals of rows are 0 or less."""
        body, rows, *rest = plain(self, asked, by)
        return [body, replace(rows, values=-abs(rows.values)), *rest]

    monkeypatch.setattr(LinkedTable, "with_totals", lost)
    site = Site(Catalogue((data,)), "http://home")
    for own in ("confidence=0.8", "exact=yes"):
        query = f"rows=sector&cols=ownership&share=rows&show=interval&{own}"
        page = site.table(data.name, query, False).body.decode()
        assert '<span aria-hidden="true">–</span><span class="sr">not known</span>' in page
        assert not re.search(r"\bnan\b", page)
        for kind in ("grouped", "panels", "heat"):
            for file in (False, True):
                text = site.chart(data.name, f"{query}&as={kind}", file).body.decode()
                assert "–" in text and "not known" in text and not re.search(r"\bnan\b", text)
    rows = list(csv.DictReader(io.StringIO(site.export(data.name, "sdmx", query).body.decode())))
    assert {(row["OBS_VALUE"] == "") == (row["OBS_STATUS"] == "O") for row in rows} == {True}
    meta = json.loads(site.export(data.name, "csvm", query).body)
    columns = {one["name"]: one for one in meta["tableSchema"]["columns"]}
    assert not columns["estimate"]["required"] and columns["sector"]["required"]
    assert site.export(data.name, "xlsx", query).status == 200


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
            if part.value == part.high == 0 < whole.value:
                assert (found.value, found.low, found.high) == (0, 0, 0)
                continue
            if found.margin == 0:  # nobody is beside it
                assert part.value == whole.value and found.estimate == 100
                continue
            assert found.known == (whole.value > 0)
            if whole.value > 0:
                estimate = 100 * part.value / whole.value
                assert found.estimate == pytest.approx(estimate, abs=1e-9)
            if whole.value > 0 and whole.low > 0:
                high = max(estimate, min(100.0, 100 * part.high / whole.low))
                low = min(estimate, 100.0, 100 * part.low / whole.high)
                assert (found.low, found.high) == pytest.approx((low, high), abs=1e-8)
    assert made.total.cell(0).estimate == 100 and made.total.cell(0).margin == 0
    same = {"rows": made.row_totals, "cols": made.col_totals, "all": made.total}[of]
    assert set(same.jobs[totals.values > 0].tolist()) == {100.0}
    assert np.isnan(same.jobs[totals.values <= 0]).all()


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
    assert all(c["low"] <= c["estimate"] <= c["high"] for c in found["cells"] if c["flags"] == [])
    assert not any("guaranteed_low" in note for note in found["metadata"]["notes"])
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
