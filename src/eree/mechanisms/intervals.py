"""Confidence intervals for true counts that need no confidential number.

A noisy count says where the count may be if the scale of the noise is known; the scale depends on
the largest workplace, which is confidential.  But no workplace is larger than its cell, x <= n: so
n belongs to the interval if the noisy count is within Q(n) of it, Q(n) the half-width of the noise
in a cell of n workers at one workplace, or in one of fewer if that is wider.  So it covers n with
the stated probability.  Asymmetric noise has a half-width of its own below and above the count.

Half-widths are taken on a grid of counts, each for all counts since the one before it: an interval
may be a little wider than it need be, never narrower.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np

from eree.mechanisms.transformed.transform import Transform
from eree.random.exact import Array, Integers

#: Stands for "no finite bound" in a column of high ends; written as null.
UNBOUNDED = -1
#: No count is above this.
GREATEST = 1 << 50
_ALL_UP_TO = 4_096
#: No output is further from a count.
_FARTHEST = 1 << 62

HalfWidths = Callable[[Integers], tuple[Integers, Integers]]


@dataclass(frozen=True, eq=False)
class CutMoments:
    """Of asymmetric noise that is cut off, a column for each size: bounds for all sizes up to it.

    `up` is the greatest mean, `down` the greatest one below zero, both at least 0; `norms` has a
    row for each of the orders asked for.
    """

    up: Array
    down: Array
    norms: Array

    def at(self, chosen: np.ndarray) -> CutMoments:
        """Some of the columns."""
        return CutMoments(self.up[chosen], self.down[chosen], self.norms[:, chosen])


@dataclass(frozen=True)
class MeanNoise:
    """Bounds of the mean of the noise, from `least` to `greatest` up to a size of `up_to` workers.

    Beyond it is about `share` of the workers of the largest workplace; without `up_to` the bounds
    hold for all sizes.
    """

    least: float = 0.0
    greatest: float = 0.0
    up_to: int | None = None
    share: float = 0.0


class Noise(Hashable, Protocol):
    """What intervals ask of a mechanism."""

    def half_widths(self, level: float, sizes: Integers) -> tuple[Integers, Integers]:
        """What the noise of a cell stays within, below and above the count."""

    def group_half_width(self, level: float, sizes: Integers, cells: int) -> Integers:
        """What the sum of the noise of a group stays within."""


@dataclass(frozen=True)
class CountInterval:
    """Ends of intervals for counts n with -below(n) <= noisy - n <= above(n).

    `half_widths` gives both, for some counts; they grow with n.
    """

    half_widths: HalfWidths

    @cached_property
    def _grid(self) -> tuple[Integers, Integers, Integers, Integers]:
        """Counts, their half-widths, and the least noisy value from each count on."""
        steps = int(np.log(GREATEST / _ALL_UP_TO) / np.log(1.005))
        far = np.geomspace(_ALL_UP_TO, GREATEST, steps).astype(np.int64)
        counts = np.unique(np.concatenate([np.arange(_ALL_UP_TO), far]))
        below, above = (np.maximum.accumulate(side) for side in self.half_widths(counts))
        first = np.concatenate([[0], counts[:-1] + 1])  # the counts since the grid's last one
        least = np.minimum.accumulate((first - below)[::-1])[::-1]
        return counts, below, above, least

    def ends(self, noisy: Integers) -> tuple[Integers, Integers]:
        """The least and the greatest count for each noisy one; `UNBOUNDED` where there is none."""
        counts, below, above, least = self._grid
        at = np.minimum(np.searchsorted(counts + above, noisy), len(counts) - 1)
        first = np.where(at > 0, counts[np.maximum(at - 1, 0)] + 1, 0)
        low = np.maximum(first, noisy - above[at])
        last = np.searchsorted(least, noisy, side="right") - 1
        high = np.minimum(counts[np.maximum(last, 0)], noisy + below[np.maximum(last, 0)])
        high = np.where(last < 0, 0, high)  # a noisy count far below zero leaves zero
        high = np.where(last == len(counts) - 1, UNBOUNDED, np.maximum(high, 0))
        return np.where(high == UNBOUNDED, low, np.minimum(low, high)), high


@dataclass(frozen=True)
class WorkerIntervals:
    """Ends of intervals for worker cells whose noise scales with the largest whole workplace.

    The worker cell's own count does not bound that workplace, but the count of all its workplace
    cell's workers does.  Half of the probability to miss goes to an upper bound of that count, from
    the sum of the noisy counts, whose noise exceeds its half-width on either side with half of the
    probability to exceed it; the other half to the cell itself, at the scale that the bound allows.
    """

    half_width: Callable[[float, Integers], Integers]
    total: CountInterval
    level: float

    def ends(self, noisy: Integers) -> tuple[Integers, Integers]:
        """Ends for groups of worker cells, one group to a row."""
        _, most = self.total.ends(noisy.sum(1))
        open_ = most == UNBOUNDED
        width = self.half_width((1 + self.level) / 2, np.where(open_, 0, most))[:, None]
        low = np.where(open_[:, None], 0, np.maximum(noisy - width, 0))
        top = np.minimum(np.maximum(noisy + width, 0), most[:, None])  # no cell is above them all
        high = np.where(open_[:, None], UNBOUNDED, top)
        return np.where(open_[:, None], low, np.minimum(low, high)), high


@lru_cache(maxsize=64)  # tables of one mechanism are many, and each asks more than once
def count_interval(noise: Noise, level: float) -> CountInterval:
    """Intervals for single counts."""
    return CountInterval(lambda counts: noise.half_widths(level, counts))


@lru_cache(maxsize=64)
def group_interval(noise: Noise, level: float, cells: int) -> CountInterval:
    """Intervals for the sums of all worker cells of groups."""

    def both(counts: Integers) -> tuple[Integers, Integers]:
        width = noise.group_half_width(level, counts, cells)
        return width, width

    return CountInterval(both)


def transformed_ends(
    transform: Transform, distance: float, noisy: Integers
) -> tuple[Integers, Integers]:
    """On a transformed scale the noise is the same everywhere: it stays within a distance.

    A noisy count stands for all that are rounded to it, from half below to half above.
    """
    first = int(noisy.min(initial=0))
    if int(noisy.max(initial=0)) - first < noisy.size // 4:  # each number once, of which some come
        every = np.arange(first, int(noisy.max(initial=0)) + 1)
        low, high = _transformed_ends(transform, distance, every)
        return low[noisy - first], high[noisy - first]
    return _transformed_ends(transform, distance, noisy)


def _transformed_ends(
    transform: Transform, distance: float, noisy: Integers
) -> tuple[Integers, Integers]:
    away = distance * (1 + 1e-9) + 1e-9

    def count_at(values: Array, shift: float) -> Array:
        return transform.near_count(transform.near_preimage(values) + shift)

    values: Array = noisy.astype(np.float64)
    low = count_at(values - 0.5, -away)
    high = count_at(values + 0.5, away)
    slack = 1e-9 * (1 + np.abs(high))
    ends = np.maximum(np.ceil(low - slack), 0), np.maximum(np.floor(high + slack), 0)
    return ends[0].astype(np.int64), np.minimum(ends[1], GREATEST).astype(np.int64)


def least_error(enough: Callable[[int], bool]) -> int:
    """The least integer from which on errors are `enough`."""
    inside, outside = 0, -1
    while not enough(inside) and inside < _FARTHEST:
        inside, outside = 2 * inside + 1, inside
    while inside - outside > 1:
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if enough(middle) else (inside, middle)
    return inside
