"""Answers add up from signed values, and their errors are those of the release."""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import replace
from math import isinf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eree
from eree.survey.query import Query as CubeQuery
from eree.survey.shape import Impossible
from eree.web.answer import TooLarge, answer
from eree.web.block import ABSENT, NEGATIVE, Cell, beside
from eree.web.catalogue import Catalogue, Missing
from eree.web.cubes import CubeSet
from eree.web.linked import LinkedTable
from eree.web.query import Query
from eree.web.site import Site
from questions import queries
from small_cubes import count, shape, survey


@settings(max_examples=15)
@given(st.data())
def test_rows_columns_and_totals_add_up(catalogue: Catalogue, data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(catalogue.data_sets))
    query = data.draw(queries(chosen, 2))
    found = answer(chosen, query)
    body = found.body.values
    assert (body.sum(1) == found.row_totals.values).all()
    assert (body.sum(0) == found.col_totals.values).all()
    assert body.sum() == found.total.values[0]
    for block in (found.body, found.row_totals, found.col_totals, found.total):
        assert (block.low <= block.high).all() and (block.low >= 0).all()
        assert (block.flags[NEGATIVE] == (block.values < 0)).all()
        assert not block.values[block.flags[ABSENT]].any()


@settings(max_examples=15)
@given(st.data())
def test_a_figure_is_the_same_in_every_table(catalogue: Catalogue, data: st.DataObject) -> None:
    """A cell of one table, asked for alone by filters, is the total of another."""
    chosen = data.draw(st.sampled_from(catalogue.data_sets))
    query = data.draw(queries(chosen, 2))
    found = answer(chosen, query)
    if not len(found.rows) or not len(found.cols):
        return  # no workplace is there
    i = data.draw(st.integers(0, len(found.rows) - 1))
    j = data.draw(st.integers(0, len(found.cols) - 1))
    where = dict(query.where)
    codes = found.rows.codes(i) + found.cols.codes(j)
    for name, code in zip(query.by, codes, strict=True):
        if name in where and name in query.groups:
            return  # a group that a filter cuts is not the whole group
        where[name] = chosen.variable(name).filter_of(code, query.groups.get(name))
    alone = answer(chosen, Query(where=where, measure=query.measure))
    assert alone.total.values[0] == found.body.values[i, j]


@pytest.mark.parametrize("confidence", ["0.9", "0.99"])
@pytest.mark.parametrize("name", ["jobs", "people", "tracts", "women", "bent"])
def test_tables_have_the_sums_and_intervals_of_the_release(
    name: str, confidence: str, tables: dict[str, LinkedTable]
) -> None:
    data = tables[name]
    every = [variable.name for variable in data.variables]
    for by in ([], every[:1], every):
        found = data.figures(Query(tuple(by), confidence=confidence).asked())
        want = eree.area_totals(data.release, name, by, None, confidence).rows
        mine = {
            tuple(axis.codes[p[i]] for axis, p in zip(found.axes, found.places, strict=True)): (
                int(found.values[i]),
                int(found.low[i]),
                None if isinf(found.high[i]) else int(found.high[i]),
            )
            for i in range(len(found))
        }
        theirs = {
            tuple(str(row[name]) for name in by): (row["noisy"], row["low"], row["high"])
            for row in want.to_pylist()
        }
        assert mine == theirs


def test_filters_are_those_of_the_release(tables: dict[str, LinkedTable]) -> None:
    data = tables["people"]
    found = data.figures(Query(("county",), where={"sex": ("F",)}).asked())
    want = eree.area_totals(data.release, "people", ["county"], {"sex": ["F"]}, "0.9").rows
    assert (found.values == want["noisy"].to_numpy()).all()
    assert (found.low == want["low"].to_numpy()).all()


@settings(max_examples=15)
@given(st.data())
def test_cubes_answer_as_the_cube_does(cube: CubeSet, data: st.DataObject) -> None:
    query = data.draw(queries(cube, 2))
    found = cube.figures(query.asked())
    want = cube.cube.table(CubeQuery(query.by, query.where, query.groups))
    assert (found.values == want.values.reshape(-1)).all()
    assert found.deviation is not None and found.margin is not None
    assert np.allclose(found.deviation, want.standard_error.reshape(-1) / 1000)
    assert np.allclose(found.margin, want.margin(query.confidence).reshape(-1) / 1000)
    assert cube.most(query.asked()) == len(found)
    assert (cube.unreliable(found) == want.unreliable().reshape(-1)).all()


@pytest.fixture(scope="module")
def cubes(cube: CubeSet, tmp_path_factory: pytest.TempPathFactory) -> list[CubeSet]:
    """Cubes whose tables are made in all ways: with zeros that are known, raked, and large."""
    form = shape(4, 3, 5, 2, impossible=[Impossible({"a": ["a1"], "b": ["b0", "b2"]})])
    counted = count(survey(1, form, 300), form, 2_000_000, 5)
    given = [
        {"controls": [("a",), ("b", "d")], "calibration": "rake", "squares": "none"},
        {"controls": [("a", "b")], "calibration": "least-squares", "squares": "records"},
    ]
    home = tmp_path_factory.mktemp("cubes")
    found = [cube]
    for number, settings_ in enumerate(given):
        out, random = home / str(number), eree.SeededRandom(number)
        made = eree.protect_cube(
            counted, epsilon=2, random=random, ledger=None, out=out, **settings_
        )
        found.append(CubeSet(f"cube-{number}", made, ()))
    return found


@settings(max_examples=40)
@given(st.data())
def test_an_answer_has_the_figures_of_four_tables_of_the_cube(
    cubes: list[CubeSet], data: st.DataObject
) -> None:
    """Made from one look at the cells, each is what the cube says when it is asked for it alone."""
    cube = data.draw(st.sampled_from(cubes))
    query = replace(data.draw(queries(cube)), sort="code")
    found = answer(cube, query)
    every = itertools.product(*(axis.codes for axis in found.rows.axes))
    shown = {found.rows.codes(i) for i in range(len(found.rows))}
    kept = np.array([codes in shown for codes in every])  # rows where nobody can be are left out
    for by, block in (
        (query.by, found.body),
        (query.rows, found.row_totals),
        (query.cols, found.col_totals),
        ((), found.total),
    ):
        levels = {name: level for name, level in query.groups.items() if name in by}
        alone = cube.cube.table(CubeQuery(by, query.where, levels))
        low, high = alone.interval(query.confidence)
        of_rows = block is found.body or block is found.row_totals
        for name, numbers in {
            "values": alone.values,
            "deviation": alone.standard_error / 1000,
            "margin": alone.margin(query.confidence) / 1000,
            "low": low / 1000,
            "high": high / 1000,
        }.items():
            wanted = numbers.reshape(len(kept), -1)[kept] if of_rows else numbers
            assert np.allclose(getattr(block, name).ravel(), wanted.ravel(), rtol=1e-12, atol=1e-9)
        records = json.loads(block.records())
        cells = [block.cell(*place) for place in np.ndindex(block.values.shape)]
        assert records == [recorded(cell) for cell in cells]


@settings(max_examples=15)
@given(st.data())
def test_plain_data_and_flags_of_an_answer_are_those_of_its_parts(
    catalogue: Catalogue, data: st.DataObject
) -> None:
    chosen = data.draw(st.sampled_from(catalogue.data_sets))
    query = data.draw(queries(chosen, 2))
    found = answer(chosen, query)
    made = {name: json.loads(text) for name, text in found.as_json().items()}
    parts = [(made["cells"], found.body), ([made["totals"]["all"]], found.total)]
    if query.rows and query.cols:
        totals = made["totals"]
        parts += [(totals["rows"], found.row_totals), (totals["columns"], found.col_totals)]
    names = {*query.by, *beside(query.by)}
    flags = set()
    for records, block in parts:
        plain = [{n: value for n, value in one.items() if n not in names} for one in records]
        assert plain == json.loads(block.records())
        assert [list(cell.flags) for cell in block.cells] == [one["flags"] for one in records]
        flags |= {flag for one in records for flag in one["flags"]}
    assert flags == {*found.found_flags} and found.decimals == max(b.decimals for _, b in parts)


def recorded(cell: Cell) -> dict[str, Any]:
    """One figure as plain data: what has no bound is null."""

    digits = max(3, len(str(cell.unit)) - 1)  # those of files

    def number(value: float, unit: int, digits: int = digits) -> float | int | None:
        if not np.isfinite(value):
            return None
        rounded = round(value, digits)
        return int(rounded) if unit == 1 and rounded == int(rounded) else rounded

    found: dict[str, Any] = {
        "estimate": cell.estimate,
        **{name: number(getattr(cell, name), cell.unit) for name in ("low", "high", "margin")},
        "relative": number(cell.relative, 1_000, max(digits, 4)),
    }
    if cell.deviation is not None:
        found["standard_error"] = number(cell.deviation, cell.unit)
    return found | {"flags": list(cell.flags)}


def test_cells_without_a_workplace_are_exactly_nothing(tables: dict[str, LinkedTable]) -> None:
    found = answer(tables["jobs"], Query(("place",), ("sector",)))
    gone = found.body.flags[ABSENT]
    assert gone.any() and not gone.all()
    assert not found.body.high[gone].any()


def test_a_filter_that_keeps_no_workplace_gives_exactly_zero(
    tables: dict[str, LinkedTable],
) -> None:
    data = tables["jobs"]
    cells = answer(data, Query(("place",), ("sector",))).body.flags[ABSENT]
    i, j = np.argwhere(cells)[0]
    where = {"place": (data.variables[0].codes[i],), "sector": (data.variables[1].codes[j],)}
    found = answer(data, Query(("ownership",), where=where))
    assert len(found.rows) == 0 and found.total.values[0] == 0 and found.total.high[0] == 0


def test_numbers_of_workplaces_are_exact_and_only_where_each_counts_once(
    tables: dict[str, LinkedTable],
) -> None:
    assert set(tables["jobs"].measures) == {"jobs", "workplaces"}
    assert set(tables["people"].measures) == {"jobs"}
    assert set(tables["women"].measures) == {"jobs"}
    found = answer(tables["jobs"], Query(measure="workplaces"))
    rows = tables["jobs"].release.table("jobs")
    assert found.total.values[0] == rows["workplaces"].to_numpy().sum() == found.total.high[0]


def test_too_many_cells_are_refused_before_any_is_summed(
    cube: CubeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eree.web.answer.MOST_CELLS", 10)
    monkeypatch.setattr(CubeSet, "with_totals", None)
    with pytest.raises(TooLarge, match="take off a variable"):
        answer(cube, Query(("occupation", "education")))


def test_rows_are_sorted_by_their_totals(tables: dict[str, LinkedTable]) -> None:
    for sort, sign in (("jobs", 1), ("-jobs", -1)):
        found = answer(tables["jobs"], Query(("sector",), ("ownership",), sort=sort))
        assert (np.diff(sign * found.row_totals.values) >= 0).all()


def test_pages_hold_all_rows_once(tables: dict[str, LinkedTable]) -> None:
    query = Query(("place", "sector"), sort="-jobs")
    whole = answer(tables["jobs"], query)
    count = whole.pages(7)
    assert count > 1
    pages = [answer(tables["jobs"], query.on_page(p + 1)).page(7) for p in range(count)]
    assert [place for page in pages for place in page.rows.places] == list(whole.rows.places)
    with pytest.raises(eree.Refusal, match="the last one is"):
        answer(tables["jobs"], query.on_page(count + 1)).page(7)


def test_a_long_table_is_refused_by_what_is_asked_of_it_alone(
    tables: dict[str, LinkedTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tables["jobs"]
    by = tuple(variable.name for variable in data.variables)
    monkeypatch.setattr("eree.web.answer.MOST_CELLS", data.rows - 1)
    assert len(answer(data, Query(("ownership",))).rows) == 2
    kept = Query(by, where={"ownership": ("private",)})
    assert data.most(kept.asked()) == len(answer(data, kept).rows) < data.rows
    with pytest.raises(TooLarge, match=f"would have {data.rows:,} cells"):
        answer(data, Query(by))


def test_what_is_not_there_is_missing(catalogue: Catalogue) -> None:
    with pytest.raises(Missing):
        catalogue.data_set("nothing")


def test_a_cube_as_published_promises_no_more_than_was_paid_for(tmp_path: Path) -> None:
    form = shape(3, 2, 2)
    counted = count(survey(1, form, 40), form, 2_000_000)
    total = eree.Guarantee(eree.RECORD, 100, "0.1")
    ledger = eree.Ledger.create(tmp_path / "ledger.db", total, data_set="data")
    eree.protect_cube(
        counted,
        epsilon=1,
        cap=3,
        mode="as-published",
        ledger=ledger,
        out=tmp_path / "cube",
        keep_empty="1/2",
    )
    catalogue = Catalogue.open([tmp_path / "cube"])
    (data,) = catalogue.data_sets
    assert data.warnings and not data.statements and "unweighted" in data.promise
    site = Site(catalogue, "http://home")
    for page in (site.about(data.name, "", False), site.table(data.name, "", False)):
        assert page.status == 200 and "The promise holds" not in page.body.decode()
        assert "protects those who are counted" not in page.body.decode()
        assert "Every figure here is protected" not in page.body.decode()
    assert "proven guarantee" not in site.first("", False).body.decode()


def test_a_release_that_was_touched_or_drawn_with_seeds_is_not_served(
    releases: list[Path], tmp_path: Path
) -> None:
    shutil.copytree(releases[0], tmp_path / "touched")
    with (tmp_path / "touched" / "tables" / "jobs.csv").open("a", encoding="utf-8") as file:
        file.write("\n")
    with pytest.raises(eree.Refusal, match="is not served"):
        Catalogue.open([tmp_path / "touched"])
    form = shape(2, 2)
    counted = count(survey(1, form, 8), form, 2_000_000, 5)
    seeded = eree.SeededRandom(1)
    eree.protect_cube(counted, epsilon=1, ledger=None, out=tmp_path / "seeded", random=seeded)
    with pytest.raises(eree.Refusal, match="a seeded source"):
        Catalogue.open([tmp_path / "seeded"])
    with pytest.raises(eree.Refusal, match="named twice"):
        Catalogue.open([releases[1], releases[1]])
