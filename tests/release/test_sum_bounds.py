"""Intervals for sums: they hold, every step of their proof does, and they are not idle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import permutations
from math import comb
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cases import FALSE_ALARM, SCALED, made
from eree.cells import Cell
from eree.errors import Refusal
from eree.estimate import sum_bounds
from eree.estimate.sum_bounds import Envelope, _levels, roots, sum_intervals
from eree.mechanisms.intervals import UNBOUNDED, CutMoments
from eree.mechanisms.mechanism import Mechanism
from eree.mechanisms.staircase.leaning_staircase import LeaningStaircase
from eree.random.exact import Integers, exactly
from eree.random.source import SeededRandom

KINDS = ["equal", "one large", "small", "mixed"]
FIXED = ["edge-geometric", "capped-laplace"]


def counts_like(kind: str, sums: int, cells: int) -> Integers:
    """Counts of cells of one workplace each: there an interval is nearest to failing."""
    rng = np.random.default_rng(7)
    found = np.full((sums, cells), 100)
    if kind == "one large":
        found[:, 1:], found[:, 0] = 20, 3_000
    elif kind == "small":
        found = rng.integers(0, 6, (sums, cells))
    elif kind == "mixed":
        found = np.exp(rng.normal(3, 1.6, (sums, cells))).astype(np.int64)
    return found


@dataclass(frozen=True)
class Changed:
    """The noise of a mechanism, with a part that a test puts in its place."""

    mechanism: Mechanism
    widths: Callable[[float, Integers], tuple[Integers, Integers]] | None = None
    moments: Callable[[float, Integers, np.ndarray], CutMoments] | None = None

    @property
    def symmetric(self) -> bool:
        return self.mechanism.symmetric

    def half_widths(self, level: float, sizes: Integers) -> tuple[Integers, Integers]:
        return (self.widths or self.mechanism.half_widths)(level, sizes)

    def cut_moments(self, probability: float, sizes: Integers, orders: np.ndarray) -> Any:
        return (self.moments or self.mechanism.cut_moments)(probability, sizes, orders)


@pytest.mark.parametrize("name", [*SCALED, *FIXED])
@pytest.mark.parametrize(("cells", "sums", "miss"), [(2, 4_000, 0.5), (20, 1_200, 0.1)])
def test_sums_cover_with_the_stated_probability(
    name: str, cells: int, sums: int, miss: float
) -> None:
    """A right interval fails less often than once in a million runs."""
    chosen = made(name)
    for kind in KINDS:
        counts = counts_like(kind, sums, cells)
        drawn = chosen.draw(counts.ravel(), counts.ravel(), random=SeededRandom(cells))
        truth, starts = counts.sum(1), np.arange(0, counts.size, cells)
        low, high = sum_intervals(chosen, drawn, starts, miss, chosen.sum_share)
        assert (low >= 0).all()
        assert ((high == UNBOUNDED) | (high >= low)).all()
        covered = (low <= truth) & ((high == UNBOUNDED) | (truth <= high))
        shown = stats.binomtest(int(covered.sum()), sums, 1 - miss, alternative="less").pvalue
        assert shown > FALSE_ALARM, (kind, covered.mean())


def test_a_half_width_that_is_too_short_would_be_noticed() -> None:
    chosen = made("smooth-pareto")
    counts = counts_like("mixed", 1_000, 20)
    drawn = chosen.draw(counts.ravel(), counts.ravel(), random=SeededRandom(1))

    def short(level: float, sizes: Integers) -> tuple[Integers, Integers]:
        below, above = chosen.half_widths(level, sizes)
        return below // 3, above // 3

    low, high = sum_intervals(
        Changed(chosen, short), drawn, np.arange(0, counts.size, 20), 0.1, 1 / 2
    )
    covered = (low <= counts.sum(1)) & (counts.sum(1) <= high)
    shown = stats.binomtest(int(covered.sum()), 1_000, 0.9, alternative="less").pvalue
    assert shown < FALSE_ALARM, covered.mean()


@pytest.mark.parametrize("name", ["smooth-pareto", "radial"])
def test_sums_are_known_better_than_cells_added_up(name: str) -> None:
    chosen, cells, sums = made(name), 40, 200
    counts = counts_like("equal", sums, cells)
    drawn = chosen.draw(counts.ravel(), counts.ravel(), random=SeededRandom(1))
    low, high = sum_intervals(chosen, drawn, np.arange(0, counts.size, cells), 0.1, 1 / 2)
    width = (high - low).mean() / 2
    each = chosen.interval(drawn, 1 - 0.1 / cells)
    assert width < (each[1] - each[0]).sum() / sums / 2 / 5
    off = np.abs(drawn.reshape(sums, cells).sum(1) - counts.sum(1))
    assert width < 2 * np.quantile(off, 0.9)


def test_where_one_large_workplace_may_hide_there_is_no_high_end() -> None:
    chosen = made("smooth-pareto", epsilon="0.5")
    low, high = sum_intervals(chosen, np.array([500, 400]), np.array([0]), 0.1, 1 / 2)
    assert high[0] == UNBOUNDED
    assert 0 < low[0] < 900


def test_a_sum_of_noisy_counts_below_zero_has_an_interval() -> None:
    chosen = made("smooth-pareto", epsilon="4")
    low, high = sum_intervals(chosen, np.array([-3, -50]), np.array([0]), 0.1, 1 / 2)
    assert (low[0], high[0]) == (0, 0)


def test_ten_thousand_areas_of_forty_cells_are_worked_on_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The noise is asked no more than for ten areas, and every step is one for all of them."""
    chosen, cells, sums = made("smooth-pareto"), 40, 10_000
    counts = counts_like("mixed", sums, cells).ravel()
    drawn = chosen.draw(counts, counts, random=SeededRandom(1))
    steps: list[int] = []

    def counted(moments: Integers, *given: Any, **named: Any) -> Any:
        steps.append(moments.shape[1])
        return roots(moments, *given, **named)

    def asked(areas: int) -> tuple[list[tuple[float, int]], Integers, Integers]:
        noted: list[tuple[float, int]] = []

        def half_widths(level: float, sizes: Integers) -> tuple[Integers, Integers]:
            noted.append((level, len(sizes)))
            return chosen.half_widths(level, sizes)

        some = drawn[: areas * cells]
        return noted, *sum_intervals(
            Changed(chosen, half_widths), some, np.arange(0, len(some), cells), 1e-3, 1 / 2
        )

    few, _, _ = asked(10)
    monkeypatch.setattr(sum_bounds, "roots", counted)
    many, low, high = asked(sums)
    assert many == few != []
    assert set(steps) == {sums} and len(steps) <= 1 + 2 * sum_bounds._ROUNDS
    truth = counts.reshape(sums, cells).sum(1)
    assert ((low <= truth) & (truth <= high)).mean() > 0.999


def worst_sizes(chosen: LeaningStaircase, counts: Integers, side: int) -> Integers:
    """For each count the size up to it, and up to 150, of the greatest mean on a side."""
    means = np.array([side * chosen.bias(Cell(0, size)) for size in range(151)])
    best = np.maximum.accumulate(means)
    found: Integers = np.searchsorted(best, best[np.minimum(counts, 150)])
    return found


@pytest.mark.parametrize("epsilon", ["1", "2", "4"])
def test_sums_of_noise_as_biased_as_it_can_be_are_covered(epsilon: str) -> None:
    """Every cell has the size of the greatest mean, on the same side.

    A right interval fails less often than once in a million runs.
    """
    chosen, miss, rng = made("leaning-staircase", epsilon=epsilon), 0.1, np.random.default_rng(3)
    assert isinstance(chosen, LeaningStaircase)
    for cells, sums in ((2, 1_000), (400, 60)):
        some = rng.choice([20, 33, 43, 77, 88, 150], (sums, cells))
        mixed = np.where(rng.random((sums, cells)) < 0.02, 2_000, some)
        for counts in (some, mixed):
            for side in (1, -1):
                sizes = worst_sizes(chosen, counts.ravel(), side)
                random = SeededRandom(cells + side)
                drawn = chosen.draw(counts.ravel(), sizes, random=random)
                starts = np.arange(0, counts.size, cells)
                low, high = sum_intervals(chosen, drawn, starts, miss, 1 / 4)
                truth = counts.sum(1)
                covered = (low <= truth) & ((high == UNBOUNDED) | (truth <= high))
                shown = stats.binomtest(int(covered.sum()), sums, 1 - miss, alternative="less")
                assert shown.pvalue > FALSE_ALARM, (cells, side, covered.mean())


def leaning_sums(moments: Any = None) -> tuple[Integers, Integers, Integers, Integers]:
    """Low and high ends, truth and noisy sums of 400 cells of 20 workers."""
    chosen, cells, sums = made("leaning-staircase"), 400, 50
    assert isinstance(chosen, LeaningStaircase)
    counts = np.full(sums * cells, 20)
    drawn = chosen.draw(counts, counts, random=SeededRandom(2))
    starts = np.arange(0, len(counts), cells)
    ends = sum_intervals(Changed(chosen, None, moments), drawn, starts, 0.1, 1 / 4)
    return *ends, np.full(sums, 20 * cells), np.add.reduceat(drawn, starts)


def test_means_that_are_left_out_would_be_noticed() -> None:
    def right(probability: float, sizes: Integers, orders: np.ndarray) -> CutMoments:
        spread = made("leaning-staircase").cut_moments(probability, sizes, orders)
        return replace(spread, up=0 * spread.up, down=0 * spread.down)

    low, high, truth, _ = leaning_sums(right)
    covered = (low <= truth) & (truth <= high)
    shown = stats.binomtest(int(covered.sum()), len(truth), 0.9, alternative="less").pvalue
    assert shown < FALSE_ALARM, covered.mean()


def test_intervals_of_sums_of_asymmetric_noise_are_not_idle() -> None:
    """The greatest bias of a sum of 400 cells, and three standard deviations, are enough."""
    low, high, truth, drawn = leaning_sums()
    chosen = made("leaning-staircase")
    assert isinstance(chosen, LeaningStaircase)
    bias = max(abs(chosen.bias(Cell(0, size))) for size in range(23))
    most = 400 * bias + 3 * np.std(drawn - truth)
    assert (high - low).mean() / 2 < 1.35 * most


# --------------------------------------------------------------------- the steps of the proof


@pytest.mark.parametrize(("cells", "largest"), [(3, 60), (40, 300), (7, 5_000)])
def test_sums_of_means_are_bounded_however_counts_are_shared_out(cells: int, largest: int) -> None:
    chosen, level, rng = made("leaning-staircase"), 96, np.random.default_rng(cells)
    assert isinstance(chosen, LeaningStaircase)
    envelope = Envelope(chosen, level)
    spread = chosen.cut_moments(2.0**-12, np.arange(largest + 1), envelope.orders)
    tight = 0.0
    for _ in range(300):
        counts = rng.integers(0, 2 + int(largest * rng.random()), cells)
        total = np.array([float(counts.sum())])
        bounds = envelope.means(level, np.array([float(cells)]), total, np.array([float(largest)]))
        for side, bound in zip((spread.up, spread.down), bounds, strict=True):
            assert side[counts].sum() <= bound[0]
            tight = max(tight, float(side[counts].sum() / max(bound[0], 1e-9)))
    assert tight > 0.8


@pytest.mark.parametrize("cells", [1, 3, 30, 300])
def test_moments_bound_the_tail_of_an_asymmetric_sum(cells: int) -> None:
    """The exact distribution of a sum, by convolution."""
    k = np.arange(-6.0, 13.0)
    one = np.where(k > 0, np.exp(-0.5 * k), np.exp(1.2 * k))
    one /= one.sum()
    mean, exact = one @ k, np.ones(1)
    for _ in range(cells):
        exact = np.convolve(exact, one)
    values = np.abs(np.arange(len(exact)) - 6 * cells - cells * mean)
    orders = np.arange(2.0, 25)
    moments = np.array([cells * abs(one @ (k - mean) ** i) for i in orders])[:, None]
    for miss in (0.5, 0.1, 0.01, 1e-4):
        bounds = roots(moments, orders, miss, falling=False)[:, 0]
        for bound in bounds:
            assert exact[values >= bound].sum() <= miss
        least = min(w for w in range(1_000) if exact[values > w].sum() <= miss)
        assert bounds.min() <= 2.2 * least + 1


@pytest.fixture(scope="module")
def envelope() -> Envelope:
    return Envelope(made("smooth-pareto"), 120)


def test_levels_that_are_not_needed_change_no_other(envelope: Envelope) -> None:
    fewer = Envelope(made("smooth-pareto"), 75)
    for name in ("probabilities", "half_widths"):
        assert np.array_equal(getattr(fewer, name), getattr(envelope, name)[:75])
    for name in ("intercept", "slope"):
        assert np.array_equal(getattr(fewer.below, name), getattr(envelope.below, name)[:75])
    for level in (1, 40, 75):
        for mine, theirs in zip(fewer.moments(level), envelope.moments(level), strict=True):
            assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("cells", [1, 2, 3, 7, 40, 900, 20_000])
@pytest.mark.parametrize("miss", [0.25, 0.05, 1e-5])
def test_the_bounds_in_order_miss_together_with_the_stated_probability(
    cells: int, miss: float
) -> None:
    levels = _levels(np.full(cells, cells), np.arange(1, cells + 1), miss)
    assert (np.diff(levels) <= 0).all()  # stricter for the first ones
    probabilities = [2 ** (-float(level) / 8) for level in levels]
    assert probabilities[0] <= miss / (4 * cells)
    some = range(2, min(cells, 60) + 1)
    assert sum(comb(cells, r) * probabilities[r - 1] ** r for r in some) <= miss / 2


def test_lines_lie_above_the_half_widths(envelope: Envelope) -> None:
    rng = np.random.default_rng(1)
    counts = np.unique(np.concatenate([np.arange(300), rng.integers(0, 10**9, 500)]))
    for level in (1, 9, 40, 97, 120):
        width = made("smooth-pareto").half_width(1 - 2 ** (-level / 8), counts)
        for side in (envelope.below, envelope.above):
            assert (width <= side.intercept[level - 1] + side.slope[level - 1] * counts).all()


@pytest.mark.parametrize("count", [0, 3, 25, 64, 200])
def test_powers_lie_above_the_moments_of_noise_that_is_cut_off(
    envelope: Envelope, count: int
) -> None:
    """Moments from the exact probabilities of the noise."""
    level, chosen = 64, made("smooth-pareto")
    cut = chosen.quantile(1 - 2**-8, Cell(0, count))
    with exactly():
        tails = [float(2 * chosen.tail(Cell(count), k, 1)) for k in range(1, cut + 2)]
    probabilities = -np.diff(tails)
    fixed, power = envelope.moments(level)
    for j in (1, 2, 3, 6, 12):
        exact = (np.arange(1, cut + 1) ** (2.0 * j) * probabilities).sum()
        assert exact <= fixed[j - 1] + power[j - 1] * count ** (2.0 * j)


def test_sums_of_bounds_are_extreme_in_the_order_of_the_noisy_counts(envelope: Envelope) -> None:
    levels = np.array([96, 40, 23, 12, 5])
    rng = np.random.default_rng(5)
    for _ in range(20):
        y = -np.sort(-np.round(rng.normal(20, 40, 5)))
        lower, upper = envelope.bounds(y, levels)
        for order in permutations(range(5)):
            one, other = envelope.bounds(y, levels[list(order)])
            assert lower.sum() <= one.sum() + 1e-9
            for power in (1, 2, 6, 24):
                assert (upper**power).sum() >= (other**power).sum() * (1 - 1e-9)


@pytest.mark.parametrize("cells", [1, 3, 30])
def test_moments_bound_the_tail_of_a_sum(cells: int) -> None:
    """The exact distribution of a sum, by convolution."""
    one = np.exp(-0.7 * np.abs(np.arange(-12, 13)))
    one /= one.sum()
    exact = np.ones(1)
    for _ in range(cells):
        exact = np.convolve(exact, one)
    values = np.abs(np.arange(len(exact)) - len(exact) // 2)
    k = np.arange(-12.0, 13.0)
    even = [1 / ((2 * j + 1) * 4.0**j) for j in range(1, 13)]
    moments = [cells * (one * k ** (2 * j)).sum() + even[j - 1] for j in range(1, 13)]
    for miss in (0.5, 0.1, 0.01, 1e-4):
        found = roots(np.array(moments)[:, None], np.arange(2.0, 25, 2), miss, falling=True)
        bounds = np.ceil(found[:, 0] - 0.5)
        for bound in bounds:
            assert exact[values > bound].sum() <= miss
        least = min(w for w in range(1_000) if exact[values > w].sum() <= miss)
        assert bounds.min() <= 1.35 * least + 1


def test_a_probability_that_is_not_distinct_from_none_is_refused() -> None:
    with pytest.raises(Refusal, match="too small for so many areas and cells at once"):
        sum_intervals(made("smooth-pareto"), np.array([1, 2]), np.array([0]), 1e-13, 1 / 2)
