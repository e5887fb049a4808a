"""Intervals: they cover, from the noisy count alone, for every mechanism and every cell."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from cases import SCALED, TRANSFORMED, made
from eree.cells import Cell
from eree.mechanisms.intervals import UNBOUNDED, CountInterval
from eree.mechanisms.registry import MECHANISMS, mechanism
from eree.random.exact import Integers
from eree.random.source import SeededRandom

#: A right interval fails a test of its coverage less often than once in a million runs.
FALSE_ALARM = 1e-6
#: Counts and largest workplaces: one workplace alone is where an interval is tightest.
CELLS = [
    (0, 0),
    (1, 1),
    (4, 4),
    (9, 3),
    (15, 15),
    (40, 40),
    (200, 200),
    (3_000, 40),
    (9_000, 9_000),
]


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_intervals_cover_with_the_stated_probability(name: str, level: float) -> None:
    n = 40_000
    chosen = made(name)
    for count, largest in CELLS:
        noisy = chosen.draw(np.full(n, count), np.full(n, largest), random=SeededRandom(count))
        low, high = chosen.interval(noisy, level)
        assert (low >= 0).all()
        assert ((high == UNBOUNDED) | (high >= low)).all()
        covered = (low <= count) & ((high == UNBOUNDED) | (count <= high))
        shown = stats.binomtest(int(covered.sum()), n, level, alternative="less").pvalue
        assert shown > FALSE_ALARM, (count, largest, covered.mean())


@pytest.mark.parametrize("name", SCALED)
def test_an_interval_is_hardly_wider_than_brute_force_says(name: str) -> None:
    """All counts n whose own half-width holds the noisy count, one by one."""
    chosen = made(name)

    def wider(counts: Integers) -> tuple[Integers, Integers]:
        return (chosen.half_width(0.9, counts),) * 2

    ends = CountInterval(wider).ends
    widths = [chosen.quantile(0.9, Cell(0, n)) for n in range(700)]
    for noisy in (-40, -3, 0, 1, 7, 12, 60, 333):
        inside = [n for n in range(700) if abs(noisy - n) <= widths[n]]
        low, high = (int(end[0]) for end in ends(np.array([noisy])))
        if not inside:
            assert (low, high) == (0, 0)
            continue
        assert inside[0] - 1 <= low <= inside[0]
        assert high >= inside[-1]
        assert high <= inside[-1] + 1 or inside[-1] == 699


def test_where_noise_outgrows_the_count_there_is_no_high_end() -> None:
    wide = mechanism("smooth-pareto", alpha="0.1", epsilon="0.25")
    low, high = wide.interval(np.array([0, 500]), 0.99)
    assert (high == UNBOUNDED).all()
    assert (low >= 0).all()
    nothing = np.array([0])
    assert (made("smooth-pareto").interval(nothing, 0.9)[1] != UNBOUNDED).all()
    assert (made("truncated-laplace").interval(nothing, 0.9)[1] == UNBOUNDED).all()


@pytest.mark.parametrize("name", TRANSFORMED)
def test_an_interval_on_a_bent_scale_is_as_tight_as_the_noise(name: str) -> None:
    """Coverage is close to the level, not far above it, where counts are large."""
    n, count = 60_000, 5_000
    chosen = made(name)
    low, high = chosen.interval(chosen.draw(np.full(n, count), random=SeededRandom(2)), 0.9)
    covered = ((low <= count) & (count <= high)).mean()
    assert abs(covered - 0.9) < 5.5 * math.sqrt(0.09 / n) + 0.01


def test_noisy_counts_at_the_ends_of_the_range_have_ends() -> None:
    for name in ("smooth-pareto", "linlog", "edge-geometric"):
        low, high = made(name).interval(np.array([-(2**61), -5, 2**49]), 0.9)
        assert (low >= 0).all()
        assert (low[:2] == 0).all()
        assert high[0] == 0
