"""Sums over groups say what sums over cells say, and what was learnt before what is learnt now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eree.errors import Unreadable
from eree.estimate import calibrated
from eree.mechanisms.intervals import UNBOUNDED
from eree.random.exact import Integers
from eree.web.catalogue import Catalogue
from eree.web.columns import Added, Columns
from eree.web.figures import JOBS, Asked, Figures
from eree.web.linked import LinkedTable


@st.composite
def questions(draw: st.DrawFn, data: LinkedTable) -> Asked:
    names = [variable.name for variable in data.variables]
    by = draw(st.lists(st.sampled_from(names), unique=True, max_size=3))
    where, groups = {}, {}
    for variable in data.variables:
        if draw(st.booleans()):
            kept = st.lists(st.sampled_from(variable.codes), unique=True, min_size=1, max_size=9)
            where[variable.name] = variable.ordered(draw(kept))
        if variable.name in by and variable.levels and draw(st.booleans()):
            groups[variable.name] = draw(st.sampled_from([*variable.levels]))
    level = draw(st.sampled_from([0.8, 0.9, 0.99]))
    return Asked(tuple(by), where, groups, JOBS, level)


@pytest.mark.parametrize("table", ["jobs", "people", "women", "branches", "bent"])
@settings(deadline=None, max_examples=40)
@given(st.data())
def test_sums_over_groups_are_those_over_their_cells(
    table: str, tables: dict[str, LinkedTable], draw: st.DataObject
) -> None:
    data = tables[table]
    whole = draw.draw(questions(data))
    coarser = draw.draw(st.lists(st.sampled_from([*subsets(whole.by)]), unique=True, max_size=3))
    parts = data.with_totals(whole, coarser)
    for asked, found in zip([whole, *map(whole.by_some, coarser)], parts, strict=True):
        _check(data, asked, found)


def subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """All of some names, in their order."""
    return chain.from_iterable(combinations(names, n) for n in range(len(names) + 1))


def _check(data: LinkedTable, asked: Asked, found: Figures) -> None:
    sums, _ = data._new_sums(asked)
    if not len(sums):
        assert not found.values.any() and found.absent is not None and found.absent.all()
        return
    areas = data._each(asked, sums)
    low, high = areas.calibrated_ends(asked.confidence, simultaneous=False)
    assert found.values.tolist() == areas.sums.tolist()
    assert found.low.tolist() == low.tolist()
    assert found.high.tolist() == np.where(high == UNBOUNDED, np.inf, high).tolist()
    assert data.most(asked) == len(found) and (np.diff(found.keys) > 0).all()


@st.composite
def columns(draw: st.DrawFn) -> tuple[Columns, dict[str, Integers], list[str]]:
    """Codes of groups and of worker cells, and of all rows, which say the same."""
    groups, cells = draw(st.integers(1, 9)), draw(st.integers(1, 5))
    rows, workers = dict[str, Integers](), list[str]()
    for name in "abcd":
        of_worker = draw(st.booleans())
        code = st.integers(0, 3)
        size = cells if of_worker else groups
        own = np.array(draw(st.lists(code, min_size=size, max_size=size)), dtype=np.uint8)
        rows[name] = np.tile(own, groups) if of_worker else np.repeat(own, cells)
        workers += [name] * of_worker
    return Columns.of(rows, workers, groups * cells, cells), rows, workers


@settings(deadline=None, max_examples=200)
@given(columns(), st.data(), st.booleans())
def test_sums_are_those_of_rows_that_are_looked_at_one_by_one(
    made: tuple[Columns, dict[str, Integers], list[str]], draw: st.DataObject, small: bool
) -> None:
    found, rows, _ = made
    count = found.groups * found.cells
    number = st.integers(-9, 9) if small else st.integers(-(1 << 40), 1 << 40)
    numbers = np.array(draw.draw(st.lists(number, min_size=count, max_size=count)))
    held = {
        name: np.array(draw.draw(st.lists(st.booleans(), min_size=4, max_size=4)))
        for name in draw.draw(st.lists(st.sampled_from("abcd"), unique=True))
    }
    by = draw.draw(st.lists(st.sampled_from("abcd"), unique=True))
    level = np.array([0, 1, 1, 0])  # codes of a coarser level, on some of the sides
    coarse = {name: draw.draw(st.booleans()) for name in by}
    sides = [(n, 2 if coarse[n] else 4, level if coarse[n] else None) for n in by]
    sums = found.sums(held, sides)
    added = Added(sums, sums.of(found.by_cell(numbers)), sums.over(np.ones((1, found.groups))))
    for kept in draw.draw(st.lists(st.sampled_from([*subsets(by)]), max_size=2)):
        expected = defaultdict[tuple[int, ...], list[int]](list)
        for row in range(count):
            if all(mask[rows[name][row]] for name, mask in held.items()):
                codes = {n: int(level[rows[n][row]] if coarse[n] else rows[n][row]) for n in by}
                expected[tuple(codes[n] for n in kept)].append(row)
        part = added.coarser([name in kept for name in by])
        own = part.sums
        places = list(zip(*(place.tolist() for place in own.places()), strict=True))
        assert (places if kept else [()] * len(own)) == sorted(expected)
        wanted = [sum(numbers[expected[key]].tolist()) for key in sorted(expected)]
        assert part.table.ravel()[own.order].tolist() == wanted
        assert own.groups_of_runs.tolist() == part.of_runs[0].tolist()
        cells, starts = own.each()
        parts = np.split(cells, starts[1:]) if len(own) else []
        assert [one.tolist() for one in parts] == [expected[key] for key in sorted(expected)]
        if len(own):
            some = np.flatnonzero(np.arange(len(own)) % 2 == 0)
            cells, starts = own.each(some)
            assert [o.tolist() for o in np.split(cells, starts[1:])] == [
                parts[i].tolist() for i in some
            ]
            runs = np.arange(len(own.run_keys)) % 2 == 0
            groups, starts = own.members(runs)
            assert [len(one) for one in np.split(groups, starts[1:])] == own.groups_of_runs[
                runs
            ].tolist()


def test_a_table_without_rows_has_no_sums() -> None:
    nothing = np.zeros(0, dtype=np.uint8)
    found = Columns.of({"sex": nothing, "place": nothing}, ["sex"], 0, 2)
    held = {"sex": np.array([True, False])}
    for sides in ([("sex", 2, None)], [("place", 3, None), ("sex", 2, None)], []):
        sums = found.sums(held, sides)
        assert not len(sums) and not sums.of(found.by_cell(nothing.astype(np.int64))).size


def test_worker_cells_in_no_order_are_refused() -> None:
    codes = {"sex": np.array([0, 1, 1, 0], dtype=np.uint8)}
    with pytest.raises(Unreadable, match="in no order"):
        Columns.of(codes, ["sex"], 4, 2)


def test_what_was_learnt_is_kept_with_the_release_and_says_the_same(
    releases: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def figures(catalogue: Catalogue) -> list[object]:
        found: list[object] = []
        for data in catalogue.data_sets:
            for together in (False, True):
                asked = Asked(tuple(v.name for v in data.variables[:1]), {}, {}, together=together)
                made = data.figures(asked)
                found += [made.values.tolist(), made.low.tolist(), made.high.tolist()]
        return found

    def forget() -> None:
        for kept in (calibrated._calibrated, calibrated._table, calibrated._sizes):
            kept.cache_clear()

    def never(*_given: object) -> None:
        raise AssertionError("it was learnt before")

    monkeypatch.setenv("EREE_CACHE", "")
    forget()
    learnt = figures(Catalogue.open(releases[:1]))
    monkeypatch.setenv("EREE_CACHE", str(tmp_path / "cache"))
    forget()
    assert figures(Catalogue.open(releases[:1])) == learnt
    monkeypatch.setattr(calibrated, "_made", never)
    forget()
    assert figures(Catalogue.open(releases[:1])) == learnt
    forget()
    with pytest.raises(AssertionError, match="learnt before"):
        monkeypatch.setenv("EREE_CACHE", "")
        Catalogue.open(releases[:1])
    forget()
