"""Least squares calibration: brute force on small cubes, unbiased, never worse than no control."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cubes import brute_force, controlled, indicators, shaped
from eree.errors import Refusal
from eree.random.source import SeededRandom
from eree.survey.calibrate.calibration import NoiseModel, calibrate
from eree.survey.calibrate.controls import Control, CubeMarginal
from eree.survey.calibrate.least_squares import ControlSystem, correction
from eree.survey.query import Query
from eree.survey.shape import Impossible, Shape, Variable
from eree.survey.tables import table
from selection import examples

CELL = 40_000.0  # thousandths squared


@st.composite
def problems(draw: st.DrawFn, *, zeros: bool, exact: bool = True):
    """A cube, noisy cells, controls (overlapping, contradicting), and a table to ask for."""
    levels = draw(st.lists(st.integers(2, 4), min_size=1, max_size=3))
    names = [f"v{k}" for k in range(len(levels))]
    rules = []
    if zeros:
        for _ in range(draw(st.integers(1, 2))):
            some = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
            rules.append(
                Impossible(
                    {n: [str(draw(st.integers(0, levels[names.index(n)] - 1)))] for n in some}
                )
            )
    shape = shaped(levels, rules)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    truth = rng.integers(0, 3_000, levels) * (rng.random(levels) < 0.5)
    cells = truth + np.rint(rng.normal(0, CELL**0.5, levels)).astype(np.int64)
    if shape.possible is not None:
        truth, cells = truth * shape.possible, cells * shape.possible
    variances = [50.0, 3_000.0, 2e6] + ([0.0] if exact else [])
    tables = [
        (tuple(draw(st.permutations(some))), draw(st.sampled_from(variances)))
        for some in draw(
            st.lists(
                st.lists(st.sampled_from(names), max_size=3, unique=True), min_size=1, max_size=4
            )
        )
    ]
    by = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    where = {
        name: tuple(
            draw(
                st.lists(
                    st.sampled_from(shape.variable(name).codes), min_size=1, max_size=4, unique=True
                )
            )
        )
        for name in draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    }
    return shape, cells, controlled(shape, truth, tables, rng), by, where


def left(shape: Shape, covariance: np.ndarray, by, where) -> np.ndarray:
    """The variance of every cell of a table from a covariance of all cells."""
    sums = indicators(shape, by, where)
    dims = [len(where.get(name, shape.variable(name).codes)) for name in by]
    return np.einsum("ij,jk,ik->i", sums, covariance, sums).reshape(dims)


@examples(20, torture=600)
@given(problems(zeros=False))
def test_the_closed_form_is_the_dense_solution(problem) -> None:
    shape, cells, controls, by, where = problem
    estimate, covariance = brute_force(shape, cells, controls, CELL)
    added, _ = correction(cells, shape, controls, CELL)
    assert cells + added == pytest.approx(estimate, abs=0.02)
    noise = NoiseModel(shape, "least-squares", CELL, tuple(c.noise for c in controls))
    counts = table(shape, np.ones(shape.levels, dtype=np.int64), Query(by, where)).values
    found = noise.variances(Query(by, where)) - 0.25 * counts
    assert found == pytest.approx(left(shape, covariance, by, where), rel=1e-5, abs=0.01)
    assert (found <= CELL * counts * (1 + 1e-12)).all()


@examples(20, torture=600)
@given(problems(zeros=True))
def test_with_structural_zeros_the_solver_agrees_and_the_closed_form_is_a_bound(
    problem,
) -> None:
    shape, cells, controls, by, where = problem
    estimate, covariance = brute_force(shape, cells, controls, CELL)
    added, _ = correction(cells, shape, controls, CELL)
    assert cells + added == pytest.approx(estimate, abs=0.05)
    noise = NoiseModel(shape, "least-squares", CELL, tuple(c.noise for c in controls))
    made = calibrate(noise, cells, controls, random=SeededRandom(1))
    assert not made.cells[~shape.possible].any()
    asked = Query(by, where)
    counts = table(shape, shape.possible.astype(np.int64), asked).values
    exact = left(shape, covariance, by, where)
    bound = made.variances(asked) - 0.25 * counts
    assert (exact <= bound + 0.01).all()
    assert (bound <= CELL * counts * (1 + 1e-12)).all()


@examples(12, torture=300)
@given(problems(zeros=False))
def test_both_solvers_agree_where_no_cell_is_impossible(problem) -> None:
    shape, cells, controls, _, _ = problem
    closed, _ = correction(cells, shape, controls, CELL)
    margins = [control.noise.marginal(shape) for control in controls]
    system = ControlSystem(
        np.ones(shape.levels, bool), margins, CELL, [c.variance for c in controls]
    )
    apart = [
        (c.in_order(shape) - m.sums(cells)).astype(float)
        for c, m in zip(controls, margins, strict=True)
    ]
    assert system.correction(apart)[0] == pytest.approx(closed, abs=0.05)


def test_controls_without_noise_are_met_and_leave_no_variance() -> None:
    rng = np.random.default_rng(3)
    shape = shaped((3, 4, 2))
    truth = rng.integers(0, 9_000, shape.levels)
    cells = truth + rng.integers(-900, 900, shape.levels)
    controls = controlled(shape, truth, [(("v0", "v1"), 0.0), (("v2", "v1"), 0.0)], rng)
    noise = NoiseModel(shape, "least-squares", 270_000.0, tuple(c.noise for c in controls))
    added, _ = correction(cells, shape, controls, noise.cell)
    for names in (("v0", "v1"), ("v1", "v2"), ("v0",), ()):
        margin = CubeMarginal(shape.levels, shape.axes(names))
        assert margin.sums(cells + added) == pytest.approx(margin.sums(truth), abs=1e-6)
        rounding = 0.25 * shape.size / np.prod(margin.shape)
        assert noise.variances(Query(names)) == pytest.approx(rounding, abs=1e-6)
    assert (noise.variances(Query(("v0", "v2"))) > 1_000).all()


def test_estimates_are_unbiased_and_have_the_stated_variance() -> None:
    """4,000 runs: a mean is out of 4 standard errors with a probability of 6e-5, for 40 cells 0.3%.

    Pooled variances have a standard error of 1.3% or less: 5% is out with a probability below 1e-3.
    """
    shape, runs = shaped((3, 2, 4)), 4_000
    rng = np.random.default_rng(11)
    truth = rng.integers(0, 3_000, shape.levels) * (rng.random(shape.levels) < 0.4)
    tables = [(("v0",), 900.0), (("v1", "v2"), 40_000.0), ((), 0.0)]
    noise = NoiseModel(
        shape, "least-squares", CELL, tuple(c.noise for c in controlled(shape, truth, tables, rng))
    )
    asked = [(), ("v0",), ("v2", "v0"), ("v0", "v1", "v2")]
    errors: dict[tuple[str, ...], list[np.ndarray]] = {by: [] for by in asked}
    random = SeededRandom(5)
    for _ in range(runs):
        cells = truth + np.rint(rng.normal(0, CELL**0.5, shape.levels)).astype(np.int64)
        made = calibrate(noise, cells, controlled(shape, truth, tables, rng), random=random)
        for by in asked:
            errors[by].append(made.table(Query(by)).values - table(shape, truth, Query(by)).values)
    for by in asked:
        found = np.array(errors[by], dtype=float)
        stated = noise.variances(Query(by))
        assert (np.abs(found.mean(axis=0)) <= 4 * np.sqrt(stated / runs)).all()
        pooled = (found**2).mean() / stated.mean()
        if by:
            assert abs(pooled - 1) < 0.05
            assert all(abs(pooled / wrong - 1) > 0.05 for wrong in (0.9, 1.1))
        else:  # of the total only rounding is left: at most what is stated
            assert 0.3 < pooled <= 1.1


def test_more_controls_never_leave_more_variance() -> None:
    shape = shaped((4, 3, 2, 2))
    every = [variable.name for variable in shape.variables]
    tables = [(a,) for a in every] + list(combinations(every, 2))
    rng = np.random.default_rng(2)
    kept: list[tuple[tuple[str, ...], float]] = []
    before = {by: NoiseModel(shape, "none", CELL).variances(Query(by)) for by in [(), *tables]}
    for names in tables:
        kept.append((names, float(rng.choice([0.0, 10.0, 1e5]))))
        controls = controlled(shape, np.zeros(shape.levels, dtype=np.int64), kept, rng)
        noise = NoiseModel(shape, "least-squares", CELL, tuple(c.noise for c in controls))
        for by in before:
            counts = shape.size / np.prod([len(shape.variable(name).codes) for name in by])
            now = noise.variances(Query(by)) - 0.25 * counts
            assert (now <= before[by] * (1 + 1e-9) + 1e-6).all()
            before[by] = now


def test_groups_of_occupations_have_the_variance_of_the_codes_that_they_hold() -> None:
    codes = ("11-1021", "15-1252", "15-1299", "15-2051", "29-1215")
    shape = Shape((Variable("job", "job", codes, codes, "soc"), *shaped((3, 2)).variables))
    rng = np.random.default_rng(4)
    controls = controlled(
        shape, np.zeros(shape.levels, dtype=np.int64), [(("v1", "job"), 75.0), (("v0",), 9.0)], rng
    )
    noise = NoiseModel(shape, "least-squares", CELL, tuple(c.noise for c in controls))
    found = noise.variances(Query(["v1", "job"], {"v0": ["0", "2"]}, {"job": "major"}))
    for place, group in enumerate([("11-1021",), ("15-1252", "15-1299", "15-2051"), ("29-1215",)]):
        alone = noise.variances(Query(["v1"], {"v0": ["0", "2"], "job": group}))
        assert found[:, place] == pytest.approx(alone, rel=1e-12)


@examples(15, torture=400)
@given(st.lists(st.integers(2, 30), min_size=1, max_size=5), st.data())
def test_margins_are_sums_and_spread_back_to_every_cell(levels: list[int], data) -> None:
    kept = tuple(sorted(data.draw(st.sets(st.integers(0, len(levels) - 1)))))
    if np.prod(levels) > 200_000:
        levels = [min(level, 5) for level in levels]
    margin = CubeMarginal(tuple(levels), kept)
    cells = np.random.default_rng(0).integers(-9, 9, levels)
    dropped = tuple(a for a in range(len(levels)) if a not in kept)
    assert (margin.sums(cells) == cells.sum(axis=dropped)).all()
    values = np.random.default_rng(1).integers(-9, 9, margin.shape)
    spread = cells.copy()
    view = margin.wide(spread)
    view += margin.spread(values)
    thin = values.reshape([n if a in kept else 1 for a, n in enumerate(levels)])
    assert (spread == cells + thin).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s, c, k: (s, c.astype(float), k), "int64"),
        (lambda s, c, k: (s, c[:1], k), "shape"),
        (lambda s, c, k: (s, c, k[:1]), "noise model lists"),
        (lambda s, c, k: (s, c + 1, k), "structural zeros"),
        (lambda s, c, k: (s, c, [Control(("v0",), k[1].values, 5.0), *k[1:]]), "needs the shape"),
    ],
)
def test_what_does_not_fit_is_refused(change, words: str) -> None:
    shape = shaped((3, 2), [Impossible({"v0": ["0"], "v1": ["1"]})])
    zeros = np.zeros(shape.levels, dtype=np.int64)
    controls = controlled(shape, zeros, [(("v0",), 5.0), (("v1",), 5.0)], np.random.default_rng(1))
    noise = NoiseModel(shape, "least-squares", CELL, tuple(c.noise for c in controls))
    _, cells, given_controls = change(shape, zeros, controls)
    with pytest.raises(Refusal, match=words):
        calibrate(noise, cells, given_controls, random=SeededRandom(1))


def test_impossible_settings_are_refused() -> None:
    shape = shaped((3, 2))
    with pytest.raises(Refusal, match="above 0"):
        NoiseModel(shape, "none", 0.0)
    with pytest.raises(Refusal, match="by no method"):
        NoiseModel(shape, "least-squares", 1.0)
    with pytest.raises(Refusal, match="one of none, rake"):
        NoiseModel(shape, "x", 1.0)
    with pytest.raises(Refusal, match="no variable 'z'"):
        NoiseModel(shape, "none", 1.0).variances(Query(["z"]))
    with pytest.raises(Refusal, match="no code '9'"):
        NoiseModel(shape, "none", 1.0).variances(Query(["v0"], {"v1": ["9"]}))
    with pytest.raises(Refusal, match="once"):
        Control(("v0", "v0"), np.zeros((3, 3), dtype=np.int64), 1.0)
    with pytest.raises(Refusal, match="0 or more"):
        Control(("v0",), np.zeros(3, dtype=np.int64), -1.0)


def test_a_control_does_not_show_its_values() -> None:
    assert "41" not in repr(Control(("v0",), np.array([41, 41]), 2.0))


def test_cells_that_a_rule_left_out_are_zeros_like_those_that_cannot_be() -> None:
    rules = [Impossible({"v0": ["0"], "v1": ["1"]})]
    rng = np.random.default_rng(9)
    with_rule, without = shaped((3, 2, 2), rules), shaped((3, 2, 2))
    truth = rng.integers(0, 9_000, without.levels) * with_rule.possible
    cells = truth + rng.integers(-300, 300, without.levels) * with_rule.possible
    controls = controlled(without, truth, [(("v0",), 900.0), (("v1", "v2"), 900.0)], rng)
    made = []
    for shape, kept in ((with_rule, None), (without, with_rule.possible)):
        noise = NoiseModel(shape, "least-squares", CELL, tuple(c.noise for c in controls))
        made.append(calibrate(noise, cells, controls, random=SeededRandom(1), kept=kept))
    assert (made[0].cells == made[1].cells).all()
    assert (made[0].variances(Query("v0")) <= made[1].variances(Query("v0")) + 1e-9).all()
    with pytest.raises(Refusal, match="every cell of the cube"):
        calibrate(
            made[1].noise, cells, controls, random=SeededRandom(1), kept=with_rule.possible[:1]
        )
