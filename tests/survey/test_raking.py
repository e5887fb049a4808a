"""Raking: what it is where it works, what it says where it does not, and a bound on its error."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cubes import controlled, shaped
from eree.errors import Refusal
from eree.random.source import SeededRandom
from eree.survey.calibrate.calibration import Calibrated, NoiseModel, calibrate, rounded
from eree.survey.calibrate.controls import Control, CubeMarginal
from eree.survey.calibrate.rake import rake, rake_nonnegative
from eree.survey.query import Query
from eree.survey.settings import Method
from eree.survey.shape import Impossible, Shape
from eree.survey.tables import table
from selection import examples


def by_hand(cells: np.ndarray, controls: list[np.ndarray], cycles: int) -> np.ndarray:
    """Raking to one-way tables, cell by cell."""
    now = cells.astype(float)
    for _ in range(cycles):
        for axis, control in enumerate(controls):
            for code, wanted in enumerate(control):
                place = [slice(None)] * now.ndim
                place[axis] = code
                now[tuple(place)] *= wanted / now[tuple(place)].sum()
    return now


def one_way(cells: np.ndarray) -> tuple[list[CubeMarginal], list[np.ndarray]]:
    margins = [CubeMarginal(cells.shape, (axis,)) for axis in range(cells.ndim)]
    return margins, [margin.sums(cells).astype(float) for margin in margins]


@examples(12, torture=300)
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_cycles_are_those_of_raking_by_hand(seed: int, cycles: int) -> None:
    rng = np.random.default_rng(seed)
    truth, cells = rng.integers(1, 90, (3, 2, 4)), rng.integers(1, 90, (3, 2, 4))
    margins, controls = one_way(truth)
    found, report = rake(cells, margins, controls, cycles=cycles, tolerance=1e-15)
    assert found == pytest.approx(by_hand(cells, controls, cycles))
    assert report.cycles == cycles


@pytest.mark.parametrize("cycles", [1, 4])
@pytest.mark.parametrize("seed", range(10))
def test_a_cube_of_few_filled_cells_is_raked_alike(seed: int, cycles: int) -> None:
    """20 cells of 1,000, with signs: the same factors by hand, wherever something is filled."""
    rng = np.random.default_rng(seed)
    cells, filled = np.zeros((5, 10, 20)), rng.choice(1_000, 20, replace=False)
    cells.reshape(-1)[filled] = rng.integers(1, 9, 20) * rng.choice([-1, 1], 20, p=[0.1, 0.9])
    truth = np.zeros_like(cells)
    truth.reshape(-1)[filled] = rng.integers(1, 9, 20)
    margins = [CubeMarginal(cells.shape, kept) for kept in ((0,), (1,), (0, 2))]
    controls = [margin.sums(truth) for margin in margins]
    found, _ = rake(cells, margins, controls, cycles=cycles, tolerance=1e-15)
    now = cells.copy()
    for _ in range(cycles):
        before = now.copy()
        for margin, control in zip(margins, controls, strict=True):
            thin = [n if k in margin.kept else 1 for k, n in enumerate(cells.shape)]
            sums = now.sum(axis=tuple({0, 1, 2} - set(margin.kept)), keepdims=True)
            now = now * np.divide(control.reshape(thin), sums, out=np.ones(thin), where=sums != 0)
        if np.abs(now).max() > 1e4 * max(control.max() for control in controls):
            now = before  # given up
            break
    assert found == pytest.approx(now, rel=1e-6, abs=1e-9)
    assert not found.reshape(-1)[np.setdiff1d(np.arange(1_000), filled)].any()


def test_positive_cells_converge_and_the_report_says_how_near() -> None:
    rng = np.random.default_rng(1)
    truth = rng.integers(1, 90, (3, 2, 4))
    margins, controls = one_way(truth)
    found, report = rake(rng.integers(1, 90, (3, 2, 4)), margins, controls, cycles=100)
    assert report.converged and 1 < report.cycles < 100 and report.stuck == 0
    apart = [
        np.abs(m.sums(found) - c).max() / c.min() for m, c in zip(margins, controls, strict=True)
    ]
    assert max(apart) >= report.difference and report.difference <= 1e-6


def test_signed_cells_may_never_settle() -> None:
    margins, _ = one_way(np.ones((2, 2)))
    cells = np.array([[4.0, 2.0], [1.0, -2.0]])
    found, report = rake(cells, margins, [np.array([3.0, 2.0])] * 2, cycles=1_000)
    assert (report.converged, report.diverged, report.cycles) == (False, False, 1_000)
    assert report.difference > 1 and np.isfinite(found).all()


def test_signed_cells_that_run_away_are_given_up() -> None:
    margins, _ = one_way(np.ones((2, 2)))
    cells = np.array([[-1.0, 2.0], [5.0, 2.0]])
    found, report = rake(cells, margins, [np.array([7.0, 5.0])] * 2, cycles=10_000)
    assert (report.converged, report.diverged) == (False, True)
    assert report.cycles < 10_000 and np.abs(found).max() <= 7e4


def test_a_control_without_cells_to_carry_it_is_reported() -> None:
    cells = np.array([[0.0, 0.0], [4.0, 2.0]])
    margins, _ = one_way(cells)
    controls = [np.array([3.0, 3.0]), np.array([3.0, 3.0])]
    for method in (rake, rake_nonnegative):
        found, report = method(cells, margins, controls)
        assert report.stuck == 1 and not report.converged and report.difference >= 1
        assert not found[0].any()
    balanced = np.array([[5.0, -5.0], [4.0, 2.0]])  # nothing to divide by either
    found, report = rake(balanced, margins, controls, cycles=1)
    assert report.stuck == 1 and np.isfinite(found).all()


def test_a_control_of_zero_empties_its_cells() -> None:
    margins, _ = one_way(np.zeros((2, 2)))
    controls = [np.array([0.0, 6.0]), np.array([2.0, 4.0])]
    found, report = rake(np.array([[1.0, 2.0], [3.0, 4.0]]), margins, controls, cycles=50)
    assert report.converged
    assert found == pytest.approx(np.array([[0.0, 0.0], [2.0, 4.0]]))


def test_contradicting_controls_are_not_converged_to() -> None:
    margins, _ = one_way(np.zeros((2, 2)))
    controls = [np.array([3.0, 6.0]), np.array([4.0, 8.0])]
    _, report = rake_nonnegative(np.ones((2, 2)), margins, controls)
    assert not report.converged
    assert report.difference == pytest.approx(1 / 3)


def test_negative_cells_and_controls_are_clipped_and_counted() -> None:
    margins, _ = one_way(np.zeros((2, 2)))
    controls = [np.array([-3.0, 6.0]), np.array([2.0, 4.0])]
    found, report = rake_nonnegative(np.array([[1.0, -2.0], [3.0, 4.0]]), margins, controls)
    assert (report.clipped, report.clipped_controls) == (1, 1)
    assert (found >= 0).all() and report.converged


def test_settings_that_cannot_be_are_refused() -> None:
    margins, controls = one_way(np.ones((2, 2)))
    with pytest.raises(Refusal, match="a cycle or more"):
        rake(np.ones((2, 2)), margins, controls, cycles=0)
    with pytest.raises(Refusal, match="too large"):
        rounded(np.array([1e300]), SeededRandom(1))


# ------------------------------------------------------------------------------- whole cubes


def drawn(
    shape: Shape,
    truth: np.ndarray,
    method: Method,
    rng: np.random.Generator,
    *,
    cell: float,
    control: float,
    reconcile: bool = False,
    cycles: int | None = None,
) -> Calibrated:
    """A cube with noise of some standard deviations, calibrated to its one-way tables."""
    noisy = truth + np.rint(rng.laplace(0, cell / 2**0.5, shape.levels)).astype(np.int64)
    if shape.possible is not None:
        noisy *= shape.possible
    tables = [((variable.name,), control**2) for variable in shape.variables]
    controls = controlled(shape, truth, tables, rng)
    noise = NoiseModel(shape, method, cell**2, tuple(c.noise for c in controls))
    return calibrate(
        noise, noisy, controls, random=SeededRandom(7), reconcile=reconcile, cycles=cycles
    )


def apart(made: Calibrated, truth: np.ndarray, by: tuple[str, ...]) -> np.ndarray:
    """The errors of a table."""
    true = table(made.noise.shape, truth, Query(by)).values
    return (made.table(Query(by)).values - true).astype(float)


@examples(10, torture=250)
@given(
    st.sampled_from(["none", "rake", "rake-nonnegative", "least-squares"]),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_every_method_gives_whole_cells_whose_tables_add_up_to_the_last_digit(
    method: Method, seed: int, zeros: bool
) -> None:
    rng = np.random.default_rng(seed)
    rules = [Impossible({"v0": ["0"], "v1": ["1", "2"]})] if zeros else []
    shape = shaped((2, 3, 2, 2), rules)
    truth = rng.integers(0, 90_000, shape.levels) * (rng.random(shape.levels) < 0.6)
    truth = truth if shape.possible is None else truth * shape.possible
    if method == "none":
        noise = NoiseModel(shape, "none", 5.0)
        made = calibrate(noise, truth, [], random=SeededRandom(1))
        assert (made.cells == truth).all()
    else:
        made = drawn(shape, truth, method, rng, cell=2_000, control=1_000)
    assert made.cells.dtype == np.int64
    json.dumps(dict(made.report))

    def values(*by: str, **where: list[str]) -> np.ndarray:
        return made.table(Query(by, where)).values

    fine = values("v3", "v1", "v0")
    assert (fine.sum(axis=0) == values("v1", "v0")).all()
    assert (fine.sum(axis=(1, 2)) == values("v3")).all()
    parts = [values(v1=codes) for codes in (["0"], ["1", "2"])]
    assert sum(parts) == values() == made.cells.sum()
    if shape.possible is not None:
        assert not made.cells[~shape.possible].any()
    if method == "rake-nonnegative":
        assert (made.cells >= 0).all()
    assert made.variances(Query(("v1", "v0"))).shape == (3, 2)


def test_raking_to_reconciled_controls_converges_where_noisy_ones_contradict() -> None:
    rng = np.random.default_rng(8)
    shape = shaped((4, 3, 3))
    truth = rng.integers(10_000, 90_000, shape.levels)
    for reconcile in (False, True):
        made = drawn(shape, truth, "rake", rng, cell=2_000, control=3_000, reconcile=reconcile)
        assert made.report["converged"] is reconcile


def test_the_total_alone_is_a_control_too() -> None:
    shape = shaped((2, 3))
    total = Control((), np.array(60_000), 0.0)
    for method in ("rake", "rake-nonnegative", "least-squares"):
        noise = NoiseModel(shape, method, 4e6, (total.noise,))
        cells = np.full(shape.levels, 9_000)
        made = calibrate(noise, cells, [total], random=SeededRandom(1))
        assert (made.cells == 10_000).all()


def test_a_control_over_impossible_cells_only_does_not_hold_raking_up() -> None:
    rng = np.random.default_rng(8)
    shape = shaped((3, 2), [Impossible({"v0": ["1"]})])
    truth = rng.integers(10_000, 90_000, shape.levels) * shape.possible
    made = drawn(shape, truth, "rake", rng, cell=500, control=400, reconcile=True)
    assert made.report["converged"] and made.report["stuck"] == 0


def test_a_clipped_cell_is_no_further_from_a_truth_that_is_not_negative() -> None:
    rng = np.random.default_rng(9)
    truth = rng.integers(0, 9, 10_000)
    noisy = truth + rng.integers(-9, 9, truth.shape)
    assert (np.abs(np.maximum(noisy, 0) - truth) <= np.abs(noisy - truth)).all()


@pytest.mark.parametrize("method", ["rake", "rake-nonnegative"])
@pytest.mark.parametrize("filled", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("noise", [0.02, 0.3, 2.0])
def test_the_mean_squared_error_of_raked_tables_stays_below_the_mean_bound(
    method: Method, filled: float, noise: float
) -> None:
    """Over cubes from nearly empty to full, and noise from 2% to twice the typical cell.

    The proof holds for means, so that 100 runs may exceed at random: 3 standard errors.
    """
    rng = np.random.default_rng(round(100 * filled + 10 * noise))
    shape, runs = shaped((4, 3, 2, 2)), 100
    truth = rng.integers(10_000, 90_000, shape.levels) * (rng.random(shape.levels) < filled)
    asked = [(), ("v0",), ("v1", "v2"), ("v0", "v1", "v2", "v3")]
    excess: dict[tuple[str, ...], list[np.ndarray]] = {by: [] for by in asked}
    for _ in range(runs):
        made = drawn(
            shape, truth, method, rng, cell=50_000 * noise, control=25_000 * noise, cycles=5
        )
        for by in asked:
            error = (made.table(Query(by)).values - table(shape, truth, Query(by)).values).astype(
                float
            )
            excess[by].append(error**2 - made.variances(Query(by)))
    for by in asked:
        found = np.array(excess[by])
        allowed = 3 * found.std(axis=0) / runs**0.5
        assert (found.mean(axis=0) <= allowed).all()


def test_the_variance_of_least_squares_alone_would_not_cover_a_clipped_cube() -> None:
    """Clipping fills empty cells, and raking takes what it added from the full ones."""
    rng = np.random.default_rng(6)
    shape = shaped((4, 4, 6, 6))
    truth = np.zeros(shape.levels, dtype=np.int64)
    for code in range(4):
        truth[code, code] = 200_000  # and all other cells are empty
    by = ("v0", "v1")
    errors, known = [], []
    for _ in range(20):
        made = drawn(shape, truth, "rake-nonnegative", rng, cell=40_000, control=2_000, cycles=5)
        errors.append(apart(made, truth, by) ** 2)
        known.append(made.noise.variances(Query(by)))
    worst = (np.mean(errors, axis=0) / (2 * np.mean(known, axis=0))).max()
    assert worst > 1


# ---------------------------------------------------------------------------------- rounding


def test_rounding_is_unbiased_and_adds_at_most_a_quarter_for_each_cell() -> None:
    """A million cells of the same fraction, as a correction is: false alarm below 1e-3."""
    random, cells = SeededRandom(3), 1_000_000
    for fraction in (0.1, 0.5, 0.75):
        values = np.arange(cells) % 7 - 3 + fraction
        errors = rounded(values, random) - values
        sd = (fraction * (1 - fraction)) ** 0.5
        assert abs(errors.sum()) <= 3.5 * sd * cells**0.5  # to the nearest: cells * fraction
        assert (errors**2).mean() == pytest.approx(sd**2, rel=0.01) and sd**2 <= 0.25
        assert (np.abs(errors) < 1).all()


def test_whole_numbers_stay() -> None:
    values = np.array([-5.0, 0.0, 7.0, 2.0**52])
    assert (rounded(np.tile(values, 1000), SeededRandom(1)) == np.tile(values, 1000)).all()
