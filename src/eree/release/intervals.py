"""Intervals for true counts that need no confidential number.

A noisy count tells where the count may be if the scale of the noise is known; the scale depends on
the largest workplace, which is confidential.  But no workplace is larger than its cell, x <= n: so
n belongs to the interval if the noisy count is within Q(n) of it, Q(n) the reach of the noise in a
cell of n workers at one workplace, or in one of fewer if that is further.  So it covers n with the
chance.  Noise that leans has a reach of its own below and above the count.

Reaches are taken on a grid of counts, each for all counts since the one before it: an interval may
be a little wider than it need be, never narrower.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from eree.mechanisms.mechanism import Mechanism
from eree.mechanisms.published.fixed import FixedMechanism, TruncatedLaplace
from eree.mechanisms.scaled.scaled import SizedMechanism
from eree.mechanisms.transformed.laplace import BentMechanism
from eree.mechanisms.transformed.transform import Transform
from eree.mechanisms.vector.knorm_staircase import KNormStaircase
from eree.mechanisms.vector.two_stage import TwoStageClip
from eree.random.exact import Integers
from eree.workload import GREATEST_BOUND

#: Stands for "no finite bound" in a column of high ends; written as null.
UNBOUNDED = -1
_ALL_UP_TO = 4_096
_GREATEST = 1 << 50

Reaches = Callable[[Integers], tuple[Integers, Integers]]
Ends = Callable[[Integers], tuple[Integers, Integers]]


@dataclass(frozen=True)
class CountInterval:
    """Ends of intervals for counts n with -below(n) <= noisy - n <= above(n).

    `reaches` gives both, for some counts; they grow with n.
    """

    reaches: Reaches

    @cached_property
    def _grid(self) -> tuple[Integers, Integers, Integers, Integers]:
        """Counts, their reaches below and above, and the least noisy value from each count on."""
        steps = int(np.log(_GREATEST / _ALL_UP_TO) / np.log(1.005))
        far = np.geomspace(_ALL_UP_TO, _GREATEST, steps).astype(np.int64)
        counts = np.unique(np.concatenate([np.arange(_ALL_UP_TO), far]))
        below, above = (np.maximum.accumulate(reach) for reach in self.reaches(counts))
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
    cell's workers does.  Half of the chance to miss goes to an upper bound of that count, from the
    sum of the noisy counts, whose noise leaves its reach on either side with half of the chance to
    leave it; the other half to the cell itself, at the scale that the bound allows.
    """

    reach: Callable[[float, Integers], Integers]
    reach_of_sum: Callable[[float, Integers], Integers]
    level: float

    @cached_property
    def _total(self) -> CountInterval:
        return CountInterval(alike(lambda counts: self.reach_of_sum(self.level, counts)))

    def ends(self, noisy: Integers) -> tuple[Integers, Integers]:
        """Ends for groups of worker cells, one group to a row."""
        _, most = self._total.ends(noisy.sum(1))
        open_ = most == UNBOUNDED
        reach = self.reach((1 + self.level) / 2, np.where(open_, 0, most))[:, None]
        low = np.where(open_[:, None], 0, np.maximum(noisy - reach, 0))
        top = np.minimum(np.maximum(noisy + reach, 0), most[:, None])  # no cell is above them all
        high = np.where(open_[:, None], UNBOUNDED, top)
        return np.where(open_[:, None], low, np.minimum(low, high)), high


@dataclass(frozen=True)
class ClippedIntervals:
    """Ends for cells of workplaces that were scaled to a noisy bound T, which is public.

    Scaling takes workers away, so what is certain of the scaled count is certain from below.  From
    above: if no workplace has more than x workers, scaling leaves at least T / x of what it takes
    from, less a thousandth of a job at each workplace.  A quarter of the chance to miss goes to
    each side of the noise, half of it to an upper bound of x from T.
    """

    mechanism: TwoStageClip
    level: float

    def ends(
        self, noisy: Integers, totals: Integers, workplaces: Integers
    ) -> tuple[Integers, Integers]:
        """Ends for noisy counts, with the T and the number of workplaces of their cells."""
        away = self.mechanism.near_scale(totals) * np.log(2 / (1 - self.level)) * (1 + 1e-9) + 0.5
        _, most = intervals(self.mechanism.bounding, self.level)(totals)
        growth = np.maximum(most / totals, 1)
        lost = np.where(growth > 1, workplaces / 1_000, 0)
        low = np.maximum(np.ceil(noisy - away - 1e-9), 0).astype(np.int64)
        high = np.floor(np.maximum(noisy + away + lost, 0) * growth * (1 + 1e-9) + 1e-9)
        known = (totals < GREATEST_BOUND) & (high < _GREATEST)
        last = np.where(known, high, _GREATEST).astype(np.int64)
        return np.minimum(low, last), np.where(known, last, UNBOUNDED)


def alike(reach: Callable[[Integers], Integers]) -> Reaches:
    """The same reach below and above."""

    def both(counts: Integers) -> tuple[Integers, Integers]:
        found = reach(counts)
        return found, found

    return both


@lru_cache(maxsize=64)  # tables of one mechanism are many, and each asks more than once
def intervals(mechanism: Mechanism, level: float) -> Ends:
    """Ends of intervals at a level for the cells of a mechanism that sees their own largest."""
    if isinstance(mechanism, SizedMechanism):
        return CountInterval(lambda counts: mechanism.reaches(level, counts)).ends
    if isinstance(mechanism, BentMechanism):
        away = float(mechanism.spread) * -np.log(1 - level)
        return lambda noisy: _bent(mechanism.transform, away, noisy)
    if isinstance(mechanism, KNormStaircase):
        far = mechanism.height_reach(level)
        return lambda noisy: _bent(mechanism.transform, far, noisy)
    assert isinstance(mechanism, FixedMechanism)
    reach = mechanism.quantile(level)
    above = isinstance(mechanism, TruncatedLaplace)  # what the bound left out is not known

    def ends(noisy: Integers) -> tuple[Integers, Integers]:
        low, high = np.maximum(noisy - reach, 0), np.maximum(noisy + reach, 0)
        return low, np.full_like(high, UNBOUNDED) if above else high

    return ends


def _bent(transform: Transform, distance: float, noisy: Integers) -> tuple[Integers, Integers]:
    """On a bent scale the noise is the same everywhere: heights stay within a distance.

    A noisy count stands for all that are rounded to it, from half below to half above.
    """
    away = distance * (1 + 1e-9) + 1e-9

    def count_at(values: NDArray[np.float64], shift: float) -> NDArray[np.float64]:
        return transform.near_count(transform.near_preimage(values) + shift)

    values: NDArray[np.float64] = noisy.astype(np.float64)
    low = count_at(values - 0.5, -away)
    high = count_at(values + 0.5, away)
    slack = 1e-9 * (1 + np.abs(high))
    ends = np.maximum(np.ceil(low - slack), 0), np.maximum(np.floor(high + slack), 0)
    return ends[0].astype(np.int64), np.minimum(ends[1], _GREATEST).astype(np.int64)
