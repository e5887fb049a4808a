"""One of two margins that are hidden at once: its errors, reaches and chances against draws."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cases import FALSE_ALARM
from eree.mechanisms.margin import Margin
from eree.mechanisms.margins_radial import MarginsRadial
from eree.noise.coins import SeededCoins
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Strong
from selection import combinations

N = 60_000
CASES = [(1, "2"), (4, "1"), (4, "4"), (9, "3")]


def both(values: int, epsilon: str) -> MarginsRadial:
    return MarginsRadial.calibrate(Guarantee(Strong("0.1"), epsilon), values=values)


def errors(of: MarginsRadial, largest: int, seed: int) -> dict[bool, Any]:
    """Drawn errors of the halves and of the values, a row for each group."""
    counts = np.tile(np.arange(of.cells), (N, 1))
    drawn = of.draw(counts, np.full(N, largest), coins=SeededCoins(seed))
    v = of.values
    sums = counts[:, :v] + counts[:, v:]
    halves = np.column_stack([counts[:, :v].sum(axis=1), counts[:, v:].sum(axis=1)])
    return {True: drawn[:, v:] - halves, False: drawn[:, :v] - sums}


@pytest.mark.parametrize(
    ("values", "epsilon", "largest"), combinations(CASES, [0, 30, 400, 100_000], each=2)
)
def test_errors_are_as_large_as_stated(values: int, epsilon: str, largest: int) -> None:
    """Within five standard errors of draws, and 1% for those of the figures themselves."""
    of = both(values, epsilon)
    for halves, found in errors(of, largest, seed=11).items():
        sizes = np.abs(found[:, 0])
        mean, square = Margin(of, halves).mean_error(count=0, largest=largest)
        slack = 5 * sizes.std() / math.sqrt(N) + 0.01 * mean
        assert abs(sizes.mean() - mean) < slack
        squares = found[:, 0] ** 2.0
        slack = 5 * squares.std() / math.sqrt(N) + 0.03 * square**2
        assert abs(squares.mean() - square**2) < slack
        for off in (0.9, 1.1):
            assert abs(sizes.mean() - off * mean) > 0.02 * mean


@pytest.mark.parametrize(
    ("values", "epsilon", "largest"), combinations(CASES, [0, 30, 100_000], each=2)
)
def test_reaches_hold_and_are_not_much_too_wide(values: int, epsilon: str, largest: int) -> None:
    of = both(values, epsilon)
    drawn = errors(of, largest, seed=12)
    for (halves, found), level in product(drawn.items(), (0.6, 0.99)):
        margin = Margin(of, halves)
        reach = int(margin.reach(level, np.array([largest]))[0])
        exact = margin.quantile(level, count=0, largest=largest)
        rounding = (values + 1) / 4 + 0.5 if halves else 0
        assert exact <= reach <= exact + 2 * rounding + 1 + exact // 50
        outside = int((np.abs(found[:, 0]) > exact).sum())
        assert stats.binomtest(outside, N, 1 - level, alternative="greater").pvalue > FALSE_ALARM
        closer = math.floor(0.97 * exact - 1)  # what is stated is not far too wide
        if closer >= 0:
            missed = int((np.abs(found[:, 0]) > closer).sum())
            assert stats.binomtest(missed, N, 1 - level, alternative="less").pvalue > FALSE_ALARM
            assert missed > 0
        of_sum = int(margin.reach_of_sum(level, np.array([largest]))[0])
        outside = int((np.abs(found.sum(axis=1)) > of_sum).sum())
        assert stats.binomtest(outside, N, 1 - level, alternative="greater").pvalue > FALSE_ALARM


def test_what_errors_stay_within_is_the_same_from_draws_and_from_the_law() -> None:
    """On either side of the size from which on a half is no longer known from draws."""
    margin = Margin(both(4, "2"), halves=True)
    sizes = range(80, 200, 10)
    found = [margin.quantile(0.9, count=0, largest=size) / size for size in sizes]
    assert max(found) < 1.12 * min(found)
    ends = [float(margin.beyond(1, side, count=0, largest=5)) for side in (1, -1)]
    assert ends[0] == ends[1] <= 0.5


def test_a_half_with_many_others_is_not_taken_for_far_worse_than_it_is() -> None:
    margin = Margin(both(63, "7"), halves=True)
    drawn = errors(margin.both, 10, seed=13)[True]
    within = margin.quantile(0.9, count=0, largest=10)
    assert within == np.quantile(np.abs(drawn), 0.9, method="inverted_cdf")


def test_reaches_of_many_groups_are_those_of_each() -> None:
    of, sizes = both(4, "2"), np.array([0, 7, 30, 500, 10**9])
    for halves in (True, False):
        margin = Margin(of, halves)
        for reach in (margin.reach, margin.reach_of_sum):
            together = reach(0.9, sizes)
            assert (np.diff(together) >= 0).all()
            assert together.tolist() == [int(reach(0.9, sizes[i : i + 1])[0]) for i in range(5)]


def test_a_margin_has_the_guarantee_and_the_certificate_of_both() -> None:
    of = both(3, "2")
    for halves in (True, False):
        margin = Margin(of, halves)
        assert margin.cells == (2 if halves else 3)
        assert margin.guarantee == of.guarantee
        assert margin.parameters == of.parameters
        assert margin.statistics() == ("count", "largest_total")
    assert Margin(of, halves=True).certify() == of.certify()
    assert "Theorem" in (Margin.__doc__ or "")
