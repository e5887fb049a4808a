"""Tables of a cube: every figure is the sum of its cells, whatever is asked and in what order."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eree.errors import Refusal
from eree.survey import tables
from eree.survey.query import Query
from eree.survey.shape import Impossible, Shape, Variable
from eree.survey.soc import LEVELS, Level, group_of
from eree.survey.tables import Table, Tabulator, table
from small_survey import Sampled, kept, queries, samples, shapes


def cells(sampled: Sampled) -> np.ndarray:
    found = np.zeros(sampled.shape.levels, dtype=np.int64)
    for places, weight in zip(sampled.places, sampled.weights, strict=True):
        found[places] += weight
    return found


def counted(sampled: Sampled, query: Query) -> dict[tuple[str, ...], int]:
    """The figures of a query, record by record."""
    found: Counter[tuple[str, ...]] = Counter()
    for places, weight in zip(sampled.places, sampled.weights, strict=True):
        codes = {
            v.name: v.codes[place] for v, place in zip(sampled.shape.variables, places, strict=True)
        }
        if all(kept(sampled.shape.variable(n), codes[n], c) for n, c in query.where.items()):
            key = tuple(
                group_of(codes[name], query.levels[name]) if name in query.levels else codes[name]
                for name in query.by
            )
            found[key] += weight
    return dict(found)


def figures(found: Table) -> dict[tuple[str, ...], int]:
    """The figures of a table that are not 0, by their codes."""
    assert found.values.shape == tuple(len(axis.codes) for axis in found.axes)
    return {
        tuple(axis.codes[place] for axis, place in zip(found.axes, places, strict=True)): int(value)
        for places, value in np.ndenumerate(found.values)
        if value
    }


@given(st.data(), samples())
def test_every_table_counts_what_the_records_say(data: st.DataObject, sampled: Sampled) -> None:
    query = data.draw(queries(sampled.shape))
    found = Tabulator(sampled.shape, cells(sampled)).table(query)
    assert [axis.name for axis in found.axes] == list(query.by)
    assert figures(found) == counted(sampled, query)
    for axis in found.axes:  # the codes that are shown are those that were kept, once each
        variable = sampled.shape.variable(axis.name)
        held = [
            code
            for code in variable.codes
            if axis.name not in query.where or kept(variable, code, query.where[axis.name])
        ]
        level = query.levels.get(axis.name)
        if level is None:
            assert list(axis.codes) == held
        else:  # groups stand where they stand without a filter
            groups = dict.fromkeys(group_of(code, level) for code in variable.codes)
            shown = {group_of(code, level) for code in held}
            assert list(axis.codes) == [group for group in groups if group in shown]
        assert len(axis.labels) == len(axis.codes)


@given(st.data(), samples())
def test_a_table_summed_over_a_variable_is_the_coarser_table(
    data: st.DataObject, sampled: Sampled
) -> None:
    tabulator = Tabulator(sampled.shape, cells(sampled))
    query = data.draw(queries(sampled.shape))
    fine = tabulator.table(query)
    for place, name in enumerate(query.by):
        rest = [other for other in query.by if other != name]
        levels = {n: level for n, level in query.levels.items() if n != name}
        coarse = tabulator.table(Query(rest, query.where, levels))
        assert np.array_equal(fine.values.sum(axis=place), coarse.values)
        assert coarse.axes == tuple(axis for axis in fine.axes if axis.name != name)


@given(st.data(), samples())
def test_the_order_of_variables_changes_no_figure(data: st.DataObject, sampled: Sampled) -> None:
    tabulator = Tabulator(sampled.shape, cells(sampled))
    query = data.draw(queries(sampled.shape))
    by = data.draw(st.permutations(query.by))
    where = dict(data.draw(st.permutations(list(query.where.items()))))
    one, other = tabulator.table(query), tabulator.table(Query(by, where, query.levels))
    places = [query.by.index(name) for name in by]
    assert np.array_equal(one.values.transpose(places), other.values)
    # and neither does the order of the cube's axes
    axes = data.draw(st.permutations(range(len(sampled.shape.levels))))
    names = [sampled.shape.variables[axis].name for axis in axes]
    turned = table(sampled.shape.of(names), cells(sampled).transpose(axes), query)
    assert np.array_equal(turned.values, one.values)


@given(samples())
def test_levels_of_occupations_add_up(sampled: Sampled) -> None:
    tabulator = Tabulator(sampled.shape, cells(sampled))
    found = {
        level: figures(tabulator.table(Query(["v0"], None, {"v0": level}))) for level in LEVELS
    }
    for coarse, fine in itertools.pairwise(LEVELS):
        sums: Counter[str] = Counter()
        for (code,), value in found[fine].items():
            sums[group_of(code, coarse)] += value
        assert {code: value for (code,), value in found[coarse].items()} == dict(sums)
    assert found["detailed"] == figures(tabulator.table(Query(["v0"])))
    for (group,), value in found["major"].items():  # a group in a filter holds the same cells
        assert int(tabulator.table(Query((), {"v0": [group]})).values) == value


@given(st.data(), shapes())
def test_filters_split_a_table_without_loss(data: st.DataObject, shape: Shape) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    tabulator = Tabulator(shape, rng.integers(-(10**9), 10**9, size=shape.levels))
    variable = data.draw(st.sampled_from(shape.variables))
    some = data.draw(
        st.lists(st.sampled_from(variable.codes), min_size=1, max_size=len(variable.codes) - 1)
    )
    rest = [code for code in variable.codes if code not in some]
    by = [v.name for v in shape.variables if v is not variable]
    halves = [tabulator.table(Query(by, {variable.name: part})).values for part in (some, rest)]
    assert np.array_equal(halves[0] + halves[1], tabulator.table(Query(by)).values)


LEVELS_OF_LARGE = (40, 5, 4, 3, 3, 2, 2, 2)


@pytest.mark.parametrize("seed", range(6))
def test_long_and_short_axes_are_summed_alike(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All ways of adding, of which each is taken at its own lengths, against numpy's plain sums."""
    if seed % 2:
        monkeypatch.setattr(tables, "MOST_KEPT", 0)  # no coarser cube is kept
    if seed % 3:
        small = "SMALL" if seed % 3 == 1 else "MOST_SMALL"
        monkeypatch.setattr(tables, small, 100)  # and few small ones
    rng = np.random.default_rng(seed)
    levels = tuple(int(n) for n in rng.permutation(LEVELS_OF_LARGE))
    variables = tuple(
        Variable(f"v{i}", f"v{i}", codes, codes)
        for i, n in enumerate(levels)
        for codes in [tuple(str(code) for code in range(n))]
    )
    shape = Shape(variables)
    array = rng.integers(-(10**12), 10**12, size=levels)
    tabulator = Tabulator(shape, array)
    for _ in range(40):
        shown = [axis for axis in range(len(levels)) if rng.random() < 0.5]
        where, chosen = {}, [np.arange(n) for n in levels]
        for axis, n in enumerate(levels):
            if rng.random() < 0.4:
                chosen[axis] = np.flatnonzero(rng.random(n) < 0.6)
                if not len(chosen[axis]):
                    chosen[axis] = np.array([n - 1])
                where[f"v{axis}"] = [str(code) for code in chosen[axis]]
        gone = tuple(axis for axis in range(len(levels)) if axis not in shown)
        wanted = array[np.ix_(*chosen)].sum(axis=gone)
        found = tabulator.table(Query([f"v{axis}" for axis in shown], where))
        assert np.array_equal(found.values, wanted)
    for held, most in ((tabulator._sums, tables.MOST_KEPT), (tabulator._small, tables.MOST_SMALL)):
        assert sum(one.size for one in held.values()) <= most


SHAPE = Shape(
    (
        Variable("job", "Job", ("15-1252", "15-1299", "29-1221"), ("Dev", "Other", "Ped"), "soc"),
        Variable("pay", "Pay", ("low", "high"), ("Low", "High")),
    ),
    (Impossible({"job": ["29-1221"], "pay": ["low"]}),),
)
CELLS = np.array([[1, 2], [3, 4], [0, 6]])


def test_groups_have_their_official_titles() -> None:
    found = table(SHAPE, CELLS, Query(["job"], levels={"job": "broad"}))
    (axis,) = found.axes
    assert axis.codes == ("15-1250", "15-1290", "29-1210")
    assert axis.labels == (
        "Software and Web Developers, Programmers, and Testers",
        "15-1290",
        "Physicians",
    )
    detailed = table(SHAPE, CELLS, Query(["job"], levels={"job": "detailed"}))
    assert detailed.axes[0].labels == ("Dev", "Other", "Ped")
    assert found.values.tolist() == [3, 7, 6]


def test_a_single_code_or_name_may_stand_alone() -> None:
    assert table(SHAPE, CELLS, Query("pay", {"job": "15-1200"})).values.tolist() == [4, 6]


def test_nothing_asked_is_the_total() -> None:
    found = table(SHAPE, CELLS, Query())
    assert (found.axes, found.values.shape, int(found.values)) == ((), (), 16)


@pytest.mark.parametrize(
    ("by", "where", "levels", "words"),
    [
        (["work"], {}, {}, "the cube has no variable 'work'; it has job, pay"),
        ([], {"work": ["x"]}, {}, "the cube has no variable 'work'"),
        (["job", "job"], {}, {}, "names a variable twice"),
        ([], {"pay": ["middle"]}, {}, "the variable 'pay' has no code 'middle'"),
        ([], {"job": ["11-0000"]}, {}, "the variable 'job' has no code and no group '11-0000'"),
        ([], {"job": ["nurse"]}, {}, "the variable 'job' has no code and no group 'nurse'"),
        ([], {"pay": []}, {}, "no code of 'pay' is kept"),
        (["pay"], {}, {"pay": "major"}, "the variable 'pay' has no levels"),
        (["pay"], {}, {"job": "major"}, "a level is given for 'job', which the table is not by"),
        (["job"], {}, {"job": "tiny"}, "'tiny' is no level of occupations"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(
    by: list[str], where: dict[str, list[str]], levels: dict[str, str], words: str
) -> None:
    with pytest.raises(Refusal, match=words):
        table(SHAPE, CELLS, Query(by, where, cast(dict[str, Level], levels)))


def test_sums_that_could_overflow_are_refused() -> None:
    edge = np.zeros((3, 2), dtype=np.int64)
    edge[0, 0], edge[1, 1] = 2**62, -(2**62) + 1
    assert int(table(SHAPE, edge, Query()).values) == 1
    edge[2, 1] = -1
    with pytest.raises(Refusal, match="too large for their sums to be exact"):
        Tabulator(SHAPE, edge)
    edge[:] = 0
    edge[0, 0] = -(2**63)
    with pytest.raises(Refusal, match="too large for their sums to be exact"):
        Tabulator(SHAPE, edge)


@pytest.mark.parametrize("wrong", [CELLS.astype(float), CELLS.astype(np.int32), CELLS.T])
def test_other_numbers_than_the_cells_of_the_shape_are_refused(wrong: np.ndarray) -> None:
    with pytest.raises(Refusal, match="integers, one for each cell"):
        Tabulator(SHAPE, wrong)


def test_no_answer_can_change_the_cells_or_show_them_by_its_name() -> None:
    own = CELLS.copy()
    tabulator = Tabulator(SHAPE, own)
    own[:] = 0  # the caller's array is the caller's
    for query in (Query(["job", "pay"]), Query(["pay", "job"]), Query(["pay"])):
        found = tabulator.table(query)
        with pytest.raises(ValueError, match="read-only"):
            found.values[...] = 0
    assert repr(tabulator.table(Query(["job", "pay"]))) == "<Table of job (3) x pay (2)>"
    assert repr(tabulator) == "<Tabulator of 6 cells>"
    assert int(tabulator.table(Query()).values) == 16


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many cells each step of an answer reads."""
    steps: list[int] = []
    without = Tabulator._without

    def noted(step: Callable[..., Any]) -> Callable[..., Any]:
        def noting(cells: Any, *given: Any) -> Any:
            steps.append(cells.size)
            return step(cells, *given)

        return noting

    def summed(tabulator: Tabulator, place: int) -> Any:
        if place not in tabulator._sums:
            steps.append(tabulator._cells.size)
        return without(tabulator, place)

    for name in ("_step", "_picked"):
        monkeypatch.setattr(tables, name, noted(getattr(tables, name)))
    monkeypatch.setattr(Tabulator, "_without", summed)
    return steps


@pytest.mark.parametrize(
    ("levels", "most"),
    [((5, 4, 3, 3, 3, 2, 2, 2, 2, 2), 1), ((400, 5, 4, 3, 3, 3, 2, 2, 2, 2), 9)],
)
def test_every_question_reads_the_cells_less_than_twice(
    levels: tuple[int, ...], most: int, read: list[int]
) -> None:
    """At 17,280 and 3,456,000 cells; asked again, in so many steps at most.

    How long that takes is measured by `make bench`.
    """
    rng = random.Random(1)
    shape = Shape(
        tuple(
            Variable(f"v{i}", f"v{i}", codes, codes)
            for i, n in enumerate(levels)
            for codes in [tuple(str(code) for code in range(n))]
        )
    )
    array = np.random.default_rng(1).integers(0, 10**9, size=levels)
    tabulator = Tabulator(shape, array)
    names = [variable.name for variable in shape.variables]
    asked = [Query(names)]
    for variable in shape.variables:
        others = [name for name in names if name != variable.name]
        some = {variable.name: variable.codes[:-1]}
        asked += [Query(others), Query(others, some), Query(names, some), Query([variable.name])]
    for _ in range(40):
        chosen = rng.sample(shape.variables, rng.randint(0, 10))
        where = {v.name: rng.sample(v.codes, rng.randint(1, len(v.codes))) for v in chosen}
        asked.append(Query(rng.sample(names, rng.randint(0, 10)), where))
    total = 0
    for query in asked:
        tabulator.table(query)
        first = sum(read)
        assert first < 2 * array.size, query
        total += first
        read.clear()
        tabulator.table(query)
        assert sum(read) <= first, query
        assert len(read) <= most, query
        read.clear()
    assert total > array.size  # the cells are read where this looks
