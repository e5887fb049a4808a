"""Assessing a cube: every measure is what plain counting gives."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

import eree
from cubes import indicators
from eree.random.source import SeededRandom
from eree.survey.assess.findings import cramers_v, hellinger, interval_overlap, normal_factor
from eree.survey.assess.public import Published
from eree.survey.assess.rules import Choice
from eree.survey.shape import Impossible, Shape
from selection import examples
from small_cubes import Cube, count, shape, survey

FULL = shape(3, 4, 2)
HOLED = shape(3, 4, 2, impossible=[Impossible({"a": ["a0"], "b": ["b1", "b2"]})])
CONTROLS = [("a",), ("b", "c")]


def protected(cube: Cube, out: Path, seed: int = 1, **chosen: Any) -> eree.ProtectedCube:
    usual = {"epsilon": 20, "controls": CONTROLS, "squares": "records", "calibration": "none"}
    chosen = usual | chosen
    return eree.protect_cube(cube, ledger=None, out=out, random=SeededRandom(seed), **chosen)


def with_cells(made: eree.ProtectedCube, cells: Any) -> eree.ProtectedCube:
    """The same release with other cells."""
    return replace(made, calibrated=replace(made.calibrated, cells=cells))


def counted(of: Shape, seed: int = 1, records: int = 60) -> Cube:
    return count(survey(seed, of, records), of, 2_000_000)


# ------------------------------------------------------------------------------- the measures

tables = arrays(
    np.float64, st.tuples(st.integers(2, 5), st.integers(2, 5)), elements=st.integers(1, 1000)
)


@given(tables)
def test_cramers_v_is_that_of_scipy(table: np.ndarray) -> None:
    expected = stats.contingency.association(table.astype(int), method="cramer")
    assert cramers_v(table) == pytest.approx(expected, abs=1e-9)


def test_cramers_v_goes_from_independent_to_decided_and_takes_negatives_for_zero() -> None:
    assert cramers_v(np.outer([1, 2, 3], [4, 5])) == pytest.approx(0, abs=1e-12)
    assert cramers_v(np.diag([3.0, 8.0, 1.0])) == pytest.approx(1)
    table = np.array([[5.0, -7.0], [2.0, 9.0]])
    assert cramers_v(table) == cramers_v(np.maximum(table, 0))
    assert cramers_v(np.array([[5.0, 1], [2, 9]])) != cramers_v(table)
    assert cramers_v(-np.ones((2, 2))) is None
    assert cramers_v(np.ones(3)) is None


@given(
    arrays(np.float64, 6, elements=st.integers(-20, 1000)),
    arrays(np.float64, 6, elements=st.integers(-20, 1000)),
)
def test_hellinger_is_its_formula_with_negatives_as_zero(
    one: np.ndarray, other: np.ndarray
) -> None:
    p, q = ([max(float(x), 0.0) for x in table] for table in (one, other))
    if not sum(p) or not sum(q):
        assert hellinger(one, other) is None
        return
    both = sum(sqrt(x / sum(p) * y / sum(q)) for x, y in zip(p, q, strict=True))
    assert hellinger(one, other) == pytest.approx(sqrt(max(1 - both, 0)), abs=1e-7)
    assert hellinger(one, one) == 0


numbers = st.integers(-50, 50).map(float)
errors = st.integers(0, 20).map(float)


@given(st.lists(st.tuples(numbers, errors, numbers, errors), min_size=1, max_size=5))
def test_overlap_is_the_mean_of_two_shares(cells: list[tuple[float, ...]]) -> None:
    ends = [(x, x + one, y, y + other) for x, one, y, other in cells]
    found = interval_overlap(*map(np.array, zip(*ends, strict=True)))
    for (x, one, y, other), overlap in zip(cells, found, strict=True):
        common = min(x + one, y + other) - max(x, y)
        shares = []
        for length in (one, other):
            if common < 0:
                shares.append(0.0)
            else:
                shares.append(common / length if length else 1.0)
        assert overlap == pytest.approx(sum(shares) / 2)
        assert interval_overlap(*map(np.array, (x, x + one, x, x + one))) == 1


def test_the_factor_of_an_interval_is_that_of_the_normal_distribution() -> None:
    assert normal_factor(0.95) == pytest.approx(1.959964, abs=1e-6)


# ------------------------------------------------------------------------- the known noise


@pytest.mark.parametrize("of", [FULL, HOLED], ids=["full", "holed"])
def test_a_published_table_is_that_of_the_release_without_cells_that_cannot_be(
    of: Shape, tmp_path: Path
) -> None:
    made = protected(counted(of), tmp_path / "out")
    published = Published(made)
    possible = np.ones(of.size) if of.possible is None else of.possible.ravel()
    for by in [(), ("b",), ("a", "c"), ("a", "b", "c")]:
        rows = indicators(of, by, {})
        rows = rows[rows @ possible > 0]
        found = published.table(by)
        assert found.estimates == pytest.approx(rows @ made.noisy.ravel() / 1000)
        variances = made.drawn_variance / 1e6 * (rows @ possible)
        assert found.noise_variances == pytest.approx(variances)
        assert made.sampling is not None
        ratio = made.sampling.squares[0].upper / made.sampling.total / 1000
        model = ratio * np.maximum(found.estimates, 0)
        assert found.standard_errors == pytest.approx(np.sqrt(model + variances))
        low, high = found.interval(0.95)
        margin = max(1.959964, -np.log(0.05) / sqrt(2)) * found.standard_errors
        middle = np.maximum(found.estimates, 0)
        assert low == pytest.approx(np.maximum(middle - margin, 0), rel=1e-6)
        assert high == pytest.approx(middle + margin, rel=1e-6)
    assert not published.bounded
    raked = protected(counted(of), tmp_path / "raked", calibration="rake-nonnegative")
    assert Published(raked).bounded


# --------------------------------------------------------------------- a whole assessment


@pytest.mark.parametrize("of", [FULL, HOLED], ids=["full", "holed"])
@pytest.mark.parametrize("near", [None, 900.0])
def test_every_finding_is_what_counting_cell_by_cell_gives(
    of: Shape, near: float | None, tmp_path: Path
) -> None:
    cube = counted(of, seed=3)
    made = protected(cube, tmp_path / "out", epsilon=4)
    rules = eree.Thresholds(weighted=2500, unweighted=3, variation=0.4, near_zero=near)
    found = eree.assess_cube(cube, made, thresholds=rules, most_dimensions=2)
    average = cube.sums.weight / cube.sums.records / 1000
    limit = average / 2 if near is None else near
    published = Published(made)
    names = ("a", "b", "c")
    for dimension in found.dimensions:
        cells = []
        distances = []
        for by in combinations(names, dimension):
            rows = indicators(of, by, {})
            if of.possible is not None:
                rows = rows[rows @ of.possible.ravel() > 0]
            values = [rows @ a.ravel() for a in (cube.weighted, made.noisy, cube.unweighted)]
            of_release = published.table(by)
            spread = [of_release.standard_errors, of_release.noise_variances]
            table = list(zip(values[0] / 1e3, values[1] / 1e3, values[2], *spread, strict=True))
            distances.append(hellinger(values[0], values[1]))
            cells.append(table)
        every = [cell for table in cells for cell in table]

        def value(measure: str, statistic: str, dimension: int = dimension) -> Any:
            return found.value(measure, statistic, dimension)

        assert value("tables looked at", "cells") == len(every)
        assert value("tables looked at", "tables") == len(cells)
        near_zero = [(abs(x) < limit, abs(y) < limit) for x, y, *_ in every]
        for statistic, was, now in (
            ("from near zero to non-zero", True, False),
            ("from non-zero to near zero", False, True),
        ):
            assert value("near zero", statistic) == near_zero.count((was, now))
        passes: dict[str, list[list[tuple[bool | None, bool]]]] = {
            "employment": [[(x >= 2500, y >= 2500) for x, y, *_ in t] for t in cells],
            "records": [[(n >= 3, y / average >= 3) for _, y, n, *_ in t] for t in cells],
            "coefficient of variation": [
                [(None, y > 0 and s / y <= 0.4) for _, y, _, s, _ in t] for t in cells
            ],
        }
        for rule, tables in passes.items():
            flat = [pair for table in tables for pair in table]
            assert value("publishable cells", f"{rule}: after") == sum(now for _, now in flat)
            whole = sum(all(now for _, now in table) for table in tables)
            assert value("publishable whole tables", f"{rule}: after") == whole
            if flat[0][0] is None:
                with pytest.raises(eree.Refusal, match="was not measured"):
                    value("publishable cells", f"{rule}: before")
                continue
            assert value("publishable cells", f"{rule}: before") == sum(was for was, _ in flat)
            became, ceased = flat.count((False, True)), flat.count((True, False))
            assert value("publishable cells", f"{rule}: become publishable") == became
            assert value("publishable cells", f"{rule}: cease to be") == ceased
            share = value("publishable cells", f"{rule}: share that changes")
            assert share == pytest.approx((became + ceased) / len(flat))
        apart = [y - x for x, y, *_ in every]
        sizes = sorted(map(abs, apart))
        for statistic, expected in (
            ("mean", sum(apart) / len(apart)),
            ("mean absolute", sum(sizes) / len(sizes)),
            ("root mean square", sqrt(sum(d * d for d in apart) / len(apart))),
            ("predicted root mean square", sqrt(sum(v for *_, v in every) / len(every))),
            ("absolute: largest", sizes[-1]),
            ("absolute: median", float(np.median(sizes))),
            (
                "sum of absolute ones, divided by employment",
                sum(sizes) / sum(x for x, *_ in every),
            ),
        ):
            assert value("differences of estimates", statistic) == pytest.approx(expected)
        relative = [abs(y - x) / x for x, y, *_ in every if x >= limit]
        assert value("differences of estimates", "relative, where not near zero: mean") == (
            pytest.approx(sum(relative) / len(relative))
        )
        errors = [s for *_, s, _ in every]
        assert value("standard errors", "published: mean") == pytest.approx(np.mean(errors))
        factor = -np.log(0.05) / sqrt(2)  # of a Laplace distribution, which has the heavier tails
        covered = [max(y - factor * s, 0) <= x <= max(y + factor * s, 0) for x, y, _, s, _ in every]
        assert value("intervals", "published covers") == pytest.approx(np.mean(covered))
        kept = [distance for distance in distances if distance is not None]
        assert value("Hellinger distance of tables", "mean") == pytest.approx(np.mean(kept))
        assert value("Hellinger distance of tables", "largest") == pytest.approx(max(kept))
    strengths = [
        (cramers_v(cube.weighted.sum(axis=axis)), cramers_v(made.noisy.sum(axis=axis)))
        for axis in range(3)
    ]
    change = [abs(x - y) for x, y in strengths if x is not None and y is not None]
    assert found.value("Cramér's V of two-way tables", "mean absolute change", 2) == (
        pytest.approx(np.mean(change))
    )
    after = [y for _, y in strengths]
    assert found.value("Cramér's V of two-way tables", "mean after", 2) == (
        pytest.approx(np.mean(after))
    )


@examples(6, torture=150)
@given(seed=st.integers(0, 10**6))
def test_a_cube_is_no_different_from_itself(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cube = counted(HOLED, seed)
    made = protected(cube, tmp_path_factory.mktemp("same") / "out")
    same = with_cells(made, cube.weighted)
    found = eree.assess_cube(cube, same)
    for dimension in found.dimensions:
        for measure, statistics in {
            "near zero": ("from near zero to non-zero", "from non-zero to near zero"),
            "publishable cells": ("employment: become publishable", "employment: cease to be"),
            "differences of estimates": ("mean", "mean absolute", "root mean square"),
            "Hellinger distance of tables": ("mean", "largest"),
        }.items():
            for statistic in statistics:
                assert found.value(measure, statistic, dimension) == 0
        assert found.value("intervals", "published covers", dimension) == 1
    assert found.value("Cramér's V of two-way tables", "largest change", 2) == 0


def test_what_was_not_kept_as_published_is_assessed_too(tmp_path: Path) -> None:
    cube = counted(HOLED)
    made = protected(
        cube,
        tmp_path / "out",
        epsilon=1,
        cap=2,
        mode="as-published",
        squares=None,
        calibration=None,
        keep_empty="1/2",
    )
    found = eree.assess_cube(cube, made, methods=True)
    assert HOLED.possible is not None
    assert found.value("tables looked at", "cells", 3) == HOLED.possible.sum()
    assert set(found.reports) == {"none", "rake", "rake-nonnegative", "least-squares"}
    assert found.reports["rake"]["reconciled"] is False  # its controls are exact


# --------------------------------------------------------------------- which tables, what if


def test_all_tables_are_taken_where_they_are_few_and_some_by_the_seed_where_not() -> None:
    wide = shape(*[2] * 8)
    few = Choice(most_dimensions=2, most_tables=100).tables(wide)
    assert {d: len(t) for d, t in few.items()} == {0: 1, 1: 8, 2: 28, 8: 1}
    assert few[2] == tuple(combinations("abcdefgh", 2))
    some = Choice(most_dimensions=3, most_tables=10)
    chosen = some.tables(wide)
    assert {d: len(t) for d, t in chosen.items()} == {0: 1, 1: 8, 2: 10, 3: 10, 8: 1}
    assert chosen == Choice(3, 10, 1).tables(wide)
    others = [Choice(3, 10, seed).tables(wide)[3] for seed in range(30)]
    seen = [by for tables in others for by in tables]
    assert len(set(seen)) == some.there_are(wide, 3)  # each can be drawn
    with pytest.raises(eree.Refusal, match="integers"):
        Choice(most_tables=0)


def test_what_if_is_each_method_on_the_draw_of_its_seed(tmp_path: Path) -> None:
    cube = counted(FULL)
    made = protected(cube, tmp_path / "out", seed=5)
    found = eree.assess_cube(cube, made, methods=True, seed=5)
    again = protected(cube, tmp_path / "ls", seed=5, calibration="least-squares")
    for method, cells in (("none", made.noisy), ("least-squares", again.noisy)):
        apart = (cells - cube.weighted) / 1000
        square = found.value("methods side by side", f"{method}: root mean square", 3)
        assert square == pytest.approx(sqrt((apart**2).mean()), abs=1e-3)
        below = found.value("methods side by side", f"{method}: cells below zero", 3)
        assert below == pytest.approx((cells < 0).sum(), abs=0 if method == "none" else 1)
    assert found.value("methods side by side", "rake-nonnegative: cells below zero", 3) == 0
    assert not any(item.public for item in found if item.measure == "methods side by side")
    with pytest.raises(eree.Refusal, match="no control tables"):
        bare = protected(cube, tmp_path / "bare", controls=[])
        eree.assess_cube(cube, bare, methods=True)
    with pytest.raises(eree.Refusal, match="other bounds"):
        eree.assess_cube(replace(cube, most_weight=1_000), made, methods=True)
