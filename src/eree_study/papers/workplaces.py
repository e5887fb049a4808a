"""Contenders that protect workplaces one by one, or the small ones of an area together.

Both are for the weak guarantee, and both are made of what a release would hold: noisy counts of
single workplaces, of groups of small ones, and noisy sizes by which they were sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eree.estimate.grids import classes_for
from eree.estimate.groups import Shown, ShrunkGroups
from eree.estimate.workplaces import ShrunkWorkplaces
from eree.mechanisms.mechanism import Mechanism
from eree.mechanisms.registry import automatic, automatic_vector, calibrate
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Weak
from eree.random.exact import Array, Integers
from eree.random.source import Random
from eree_study.papers.contenders import MOST_SHRUNK, SHRUNK_AT, Contender
from eree_study.papers.workloads import Counted, Workload

#: What noisy sizes are paid, and the step times which, 1 / alpha workers, a workplace is large.
SIZES_EPSILON = Fraction(3, 20)
LARGE_FROM = 4


@dataclass(frozen=True)
class ByWorkplace(Contender):
    """Every workplace protected by itself, and estimates of groups that are made of these alone."""

    mechanism: Mechanism
    shape: tuple[int, ...]
    slow = True

    def draw(self, cells: Counted, random: Random) -> Array:
        """Draw, shrink, and add up: integers of at least 0."""
        groups, counts = cells.by_workplace()
        noisy = self.mechanism.draw(counts, random=random)
        estimates = _alone(noisy, cells.kinds[groups], self.mechanism, self.shape)
        return np.rint(np.maximum(_added(estimates, groups, cells), 0)).ravel()


@dataclass(frozen=True)
class BySize(Contender):
    """Noisy sizes first; then large workplaces one by one, and small ones of a group together.

    `large` is the noisy size from which on a workplace is protected by itself.  The price of
    `sizes` and that of either other mechanism add up to the whole.
    """

    sizes: Mechanism
    alone: Mechanism
    together: Mechanism
    large: int
    slow: ClassVar[bool] = True

    def parts(self, cells: Counted, random: Random) -> tuple[_Noisy, _Noisy]:
        """What is released: noisy counts of the large workplaces, and of groups of small ones."""
        groups, counts = cells.by_workplace()
        size = counts.sum(1)
        single = self.sizes.draw(size, size, random=random) >= self.large
        noisy = self.alone.draw(counts[single], random=random)
        small, kept = groups[~single], np.zeros(len(cells.kinds), dtype=np.int64)
        largest = np.zeros_like(kept)
        np.add.at(kept, small, 1)
        np.maximum.at(largest, small, size[~single])
        there = np.flatnonzero(kept)
        sums = _added(counts[~single], small, cells).astype(np.int64)[there]
        pooled = self.together.draw(sums, largest[there], random=random)
        large = _Noisy(groups[single], noisy, np.ones(len(noisy), dtype=np.int64))
        return large, _Noisy(there, pooled, kept[there])

    def draw(self, cells: Counted, random: Random) -> Array:
        """The signed noisy counts, added up."""
        large, small = self.parts(cells, random)
        sums = _added(large.noisy, large.groups, cells)
        sums[small.groups] += small.noisy
        return sums.ravel()


@dataclass(frozen=True)
class BySizeShrunk(BySize):
    """The same, and estimates from what is released alone."""

    shape: tuple[int, ...]

    def draw(self, cells: Counted, random: Random) -> Array:
        """Draw, shrink, and add up: integers of at least 0."""
        large, small = self.parts(cells, random)
        sums = _added(
            _alone(large.noisy, cells.kinds[large.groups], self.alone, self.shape),
            large.groups,
            cells,
        )
        if len(small.noisy):
            kinds = _numbered(cells.kinds[small.groups])
            classed = classes_for(self.together, small.noisy, small.workplaces)
            learnt = ShrunkGroups.learn(small.noisy, kinds, classed, Shown([self.shape]))
            sums[small.groups] += learnt.moments()[0]
        return np.rint(np.maximum(sums, 0)).ravel()


@dataclass(frozen=True, repr=False)
class _Noisy:
    """Noisy counts, the group that each belongs to, and of how many workplaces each is."""

    groups: Integers
    noisy: Integers
    workplaces: Integers


def _alone(noisy: Integers, kinds: Integers, mechanism: Mechanism, shape: tuple[int, ...]) -> Array:
    """Estimates of single workplaces."""
    if not len(noisy):
        return noisy.astype(np.float64)
    return ShrunkWorkplaces.learn(noisy, _numbered(kinds), mechanism, shape).moments()[0]


def _added(counts: NDArray[np.generic], groups: Integers, cells: Counted) -> Array:
    """Counts of workplaces added up by group."""
    sums = np.zeros((len(cells.kinds), cells.workers))
    np.add.at(sums, groups, counts)
    return sums


def _numbered(kinds: Integers) -> Integers:
    """Kinds counted from 0 on, without gaps."""
    return np.unique(kinds, return_inverse=True)[1].astype(np.int64)


def by_workplace(
    workload: Workload, cells: int, alpha: Fraction | None, epsilon: Fraction
) -> Iterator[Contender]:
    """All three, for whole worker marginals under the weak guarantee where estimates are shrunk."""
    if workload.paying != "together" or workload.strong or cells > MOST_SHRUNK:
        return
    if alpha is None or (alpha, epsilon) not in SHRUNK_AT:
        return
    relation = Weak(alpha, ["type"])
    rest = Guarantee(relation, epsilon - SIZES_EPSILON)
    whole, alone = (
        automatic_vector(guarantee, cells, alone=True)[0]
        for guarantee in (Guarantee(relation, epsilon), rest)
    )
    yield ByWorkplace("by-workplace-shrunk", 0.0, whole, workload.worker_shape)
    sizes = automatic(Guarantee(relation, SIZES_EPSILON), alone=True)
    together = calibrate("vector-radial", rest, {"cells": cells})
    parts = (sizes, alone, together, ceil(LARGE_FROM / alpha))
    yield BySize("by-size", 0.0, *parts)
    yield BySizeShrunk("by-size-shrunk", 0.0, *parts, workload.worker_shape)
