"""Calibrated intervals of counts and of sums, from what is known of the largest workplaces.

The interval of a count is the noisy count minus the shortest interval that the noise K lies in with
the probability of the level, K with the noise of each size of the largest workplace at its
posterior probability.  What is not used is that K depends on the noisy count by more than that: an
interval leans on the sizes for its width alone, and never for its place.

Sums have the moments of their cells; where noise is of a few jobs, all probabilities of the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eree.estimate.largest import Points
from eree.estimate.noise import RING, NoiseBySize
from eree.estimate.quantiles import bucket, ends_around, reach, shortest, upper_variance
from eree.estimate.runs import SumsOfRuns, members
from eree.random.exact import Array, Integers

#: Intervals that are looked for at once.
_AT_ONCE = 4_096
#: Levels of which the intervals of all cells are kept.
_LEVELS = 16
#: Draws that have to lie beyond an end, else tails are the mechanism's own.
_SHOWN = 50
#: Variances of sums up to which they are added up on a ring.
_SMALL_VARIANCE = (RING / 24) ** 2


@dataclass(frozen=True, eq=False)
class Moments:
    """Of the noise of sums: mean, variance, fourth cumulant, and the variance of the variance."""

    mean: Array
    variance: Array
    fourth: Array
    uncertain: Array


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of estimates beside the noise of the same counts: how large, and how much it is own.

    `factor` is their standard deviation in that of the noise, `own` the part of their variance that
    is the noise of the count itself.  The rest is of other tables: of many cells, so about normal.
    """

    factor: Array
    own: Array

    def some(self, cells: Integers) -> Errors:
        """The errors of some cells."""
        return Errors(self.factor[cells], self.own[cells])

    def reach(self, noise: Array, normal: Array) -> Array:
        """How far errors go, if noise and normal noise as large as it go so far."""
        found: Array = self.factor * (self.own * noise + (1 - self.own) * normal)
        return found


@dataclass(frozen=True, eq=False)
class Calibrated:
    """The noise of groups of cells of which equally likely classes of largest workplaces are known.

    `points` has a row of classes for each group, `cells` is the number of cells of a group.  Noise
    is taken to be `widened` by a factor, where the model of sizes was found not to fit.
    """

    noise: NoiseBySize
    points: Points
    cells: int = 1
    widened: float = 1.0

    def bias(self) -> Array:
        """The mean of the noise of a cell, for each group."""
        found: Array = self.noise.mean[self.points].mean(1)
        return found

    def cell_ends(self, noisy: Integers, level: float) -> tuple[Integers, Integers]:
        """Ends of the calibrated intervals of all cells, cell after cell of each group."""
        groups = np.arange(len(self.points))
        down, up = (np.repeat(side, self.cells) for side in self.cell_reach(level, groups))
        return np.maximum(noisy - up, 0), np.maximum(noisy + down, 0)

    def cell_reach(self, level: float, groups: Integers) -> tuple[Integers, Integers]:
        """How far the noise of a cell of some groups reaches down and up; few levels are kept."""
        if 1 - level < _SHOWN / self.noise.draws.shape[1]:
            far = self.noise.far(bucket(level))
            top = self.points[groups].max(1)
            return far[0][top], far[1][top]
        distinct, back = self.distinct
        found = self.reaches.get(level)
        if found is None:
            found = np.full((2, len(distinct)), -1)
            if len(self.reaches) < _LEVELS:
                self.reaches[level] = found
        rows = back[groups]
        wanted = np.zeros(len(distinct), dtype=np.bool_)
        wanted[rows] = True
        new = np.flatnonzero(wanted & (found[1] < 0))
        if new.size:
            found[:, new] = self._shortest(distinct[new], level)
        return found[0, rows], found[1, rows]

    def _shortest(self, points: Points, level: float) -> Integers:
        """How far the shortest intervals reach down and up that hold the noise of some points."""
        distances, (below, above), miss = self.noise.distances, self.noise.tails, 1 - level
        # half of what may be missed on each side: the shortest is twice as long at most
        enough = (np.maximum(below, above) > miss / 2).sum(1)
        twice = np.append(2 * distances, 2 * distances[-1])[enough]
        columns = np.minimum(np.searchsorted(distances, twice) + 1, len(distances))[points].max(1)
        # where every class misses more than that on each side, so does what is made of them
        surely = (np.minimum(below, above) > miss + 1e-9).sum(1)[points].min(1)
        found = np.empty((2, len(points)), dtype=np.int64)
        for some in _cut(np.lexsort((surely, columns)), _AT_ONCE):
            part = slice(int(surely[some].min()), int(columns[some].max()))
            first, last = int(points[some].min()), int(points[some].max()) + 1
            weights = _weights(points[some] - first, last - first)
            one, two = (weights @ side[first:last, part] for side in (below, above))
            ends = shortest(one, two, distances[part], miss)
            found[:, some] = np.ceil(self.widened * np.stack(ends))
        return found

    @cached_property
    def reaches(self) -> dict[float, Integers]:
        """What is known of some levels of the points that differ; -1 where nothing is."""
        return {}

    @cached_property
    def additive(self) -> Array:
        """What moments of sums need of each group, a row for each thing; of groups they add up.

        Of single cells that is their mean, variance, fourth cumulant and variance of the variance;
        of groups what these follow from, however many cells of each are in a sum.
        """
        distinct, back = self.distinct
        return self._of_points(distinct).take(back, axis=1)

    def _of_points(self, points: Points) -> Array:
        noise, square = self.noise, self.widened**2
        v, c = square * noise.variance, square * noise.covariance
        fourth = square**2 * noise.fourth
        numbers = [noise.mean, v, fourth, v**2]
        if self.cells > 1:
            numbers += [c, square**2 * noise.joint_fourth, v * c, c**2]
        by_class = np.stack(numbers, axis=1)  # looked up in rows, which is quicker
        found = np.zeros((len(points), len(numbers)))
        for column in points.T:
            found += by_class.take(column, axis=0)
        found /= points.shape[1]
        mean, variance, fourth, of_squares, *joint = found.T
        spread = of_squares - variance**2
        if self.cells == 1:
            return np.stack([mean, variance, fourth + 3 * spread, spread])
        covariance, joint_fourth, of_both, of_covariance = joint
        both, of_covariance = of_both - variance * covariance, of_covariance - covariance**2
        own = mean, variance, fourth, spread
        return np.stack([*own, covariance, joint_fourth, both, of_covariance])

    @cached_property
    def variance(self) -> Array:
        """The variance of the noise of a cell of each group, not widened."""
        found: Array = self.noise.variance[self.points].mean(1)
        return found

    def with_points(self, groups: Integers, points: Points, which: NDArray[np.intp]) -> Calibrated:
        """What moments and joint reaches need with other points of some groups.

        Those are the points that differ, and `which` each has; what is known of the others is kept.
        """
        known, top = self._of_points(points).take(which, axis=1), _largest(points)[which]
        if len(groups) < len(self.points):
            own, known_top = (known, top), self._top.copy()
            known = self.additive.copy()
            known[:, groups], known_top[groups] = own
            top = known_top
        found = replace(self)
        found.__dict__.update(additive=known, _top=top)
        return found

    @cached_property
    def _top(self) -> NDArray[np.uint8]:
        """The largest class of each group."""
        distinct, back = self.distinct
        found: NDArray[np.uint8] = _largest(distinct)[back]
        return found

    def moments(self, cells: Integers, starts: Integers) -> Moments:
        """Of the sums of runs of cells; those of one group in a run lie side by side."""
        if self.cells == 1:
            parts, runs = self.additive.take(cells, axis=1), starts
        else:
            groups = cells // self.cells
            new = np.diff(groups, prepend=-1) != 0
            new[starts] = True
            first = np.flatnonzero(new)
            n = np.diff(np.append(first, len(cells))).astype(np.float64)
            parts = np.stack(self._of_cells(n, self.additive.take(groups[first], axis=1)))
            runs = np.searchsorted(first, starts)
        mean, variance, fourth, spread = np.add.reduceat(parts, runs, axis=1)
        return Moments(mean, variance, fourth, np.maximum(spread, 0.0))

    def ends_of_runs(
        self, tables: Sequence[SumsOfRuns], level: float
    ) -> list[tuple[Integers, Integers]]:
        """Ends of the calibrated intervals of tables of sums, all found at once."""
        numbers = [dict.fromkeys(one.sums.numbers.tolist()) for one in tables]
        several = [(one, k) for one, own in zip(tables, numbers, strict=True) for k in own]
        reaches = self._reach_of_runs(several, level)
        found, at = [], 0
        for one, own in zip(tables, numbers, strict=True):
            middle, runs = one.table.astype(np.float64), len(one.table)
            low, high = np.empty((2, *middle.shape), dtype=np.int64)
            for number in own:
                column = slice(None) if len(own) == 1 else one.sums.numbers == number
                down, up = (side[at : at + runs, None] for side in reaches)
                low[:, column], high[:, column] = ends_around(middle[:, column], up, down)
                at += runs
            found.append((low, high))
        return found

    def _reach_of_runs(
        self, several: Sequence[tuple[SumsOfRuns, int]], level: float
    ) -> tuple[Array, Array]:
        """How far the noise of sums of so many cells of each group reaches down and up."""
        number = np.repeat([float(k) for _, k in several], [len(one.table) for one, _ in several])
        added = np.concatenate([one.of_runs for one, _ in several if one.of_runs is not None], 1)
        mean, variance, fourth, _ = self._of_cells(number, added)
        away = reach(variance, fourth, level)
        down, up = away - mean, away + mean
        alone = np.concatenate([one.sums.groups_of_runs for one, _ in several]) == 1
        single = alone & (number == 1)
        if single.any():
            down[single], up[single] = self.cell_reach(level, members(several, single)[0])
        if self.cells == 1 and self.widened == 1:
            small = (variance <= _SMALL_VARIANCE) & ~single
            if small.any():
                groups, starts = members(several, small)
                down[small], up[small] = self._small(groups, starts, np.arange(len(starts)), level)
        return down, up

    def _of_cells(self, n: Any, added: Array) -> tuple[Array, ...]:
        """Mean, variance, fourth cumulant and its spread of so many cells of each group."""
        if self.cells == 1:
            return tuple(added)
        mean, v, fourth, vv, c, joint, vc, cc = added
        pairs = n * (n - 1)
        spread = n**2 * vv + 2 * n * pairs * vc + pairs**2 * cc
        return n * mean, n * v + pairs * c, n * fourth + 3 * pairs * joint + 3 * spread, spread

    def shared(self, one: Integers, two: Integers) -> float:
        """The covariance of the noise of two sums of cells that have groups in common."""
        if self.cells == 1:
            return 0.0
        groups = len(self.points)
        number = [np.bincount(cells // self.cells, minlength=groups) for cells in (one, two)]
        both = np.flatnonzero(number[0] * number[1])
        each = self.widened**2 * self.noise.covariance[self.points[both]].mean(1)
        return float((number[0][both] * number[1][both] * each).sum())

    def sum_ends(
        self, noisy: Integers, cells: Integers, starts: Integers, level: float
    ) -> tuple[Integers, Integers]:
        """Ends of the calibrated intervals of sums of runs of cells."""
        down, up = self.sum_reach(cells, starts, level)
        return ends_around(noisy.astype(np.float64), up, down)

    def sum_reach(self, cells: Integers, starts: Integers, level: float) -> tuple[Array, Array]:
        """How far below and above zero the noise of sums of runs of cells is at most."""
        moments = self.moments(cells, starts)
        away = reach(moments.variance, moments.fourth, level)
        down, up = away - moments.mean, away + moments.mean
        single = np.diff(np.append(starts, len(cells))) == 1
        if single.any():
            own = cells[starts[single]] // self.cells
            down[single], up[single] = self.cell_reach(level, own)
        if self.cells == 1 and self.widened == 1:
            small = np.flatnonzero((moments.variance <= _SMALL_VARIANCE) & ~single)
            if small.size:
                down[small], up[small] = self._small(cells, starts, small, level)
        return down, up

    def joint_reach(
        self,
        cells: Integers,
        starts: Integers,
        level: float,
        moments: Moments | None = None,
        *,
        most: bool = False,
    ) -> Array:
        """How far sums are off at most, if so many are to hold that extremes count.

        That is as far as one cell may be alone, or as all of them together by their moments.  With
        `most` the workplace behind that cell is as large as any point has it.

        The variance of each sum is the one that its posterior stays below with a probability of
        95%: of many sums those are missed whose noise is more than its mean says.
        """
        level, moments = bucket(level), moments or self.moments(cells, starts)
        variance = upper_variance(moments.variance, moments.uncertain)
        known = np.maximum(moments.fourth - 3 * moments.uncertain, 0.0)  # the variance being known
        far = self._far(self._top, level) if most else self._far_of_mixture(level)
        alone = np.maximum.reduceat(far[cells // self.cells], starts)
        return np.maximum(reach(variance, known, level), self.widened * alone)

    def _far(self, classes: NDArray[np.uint8], level: float) -> Integers:
        """What the noise beside workplaces of some classes stays within at a high level."""
        found: Integers = np.maximum(*self.noise.far(bucket(level)))[classes]
        return found

    def _far_of_mixture(self, level: float) -> Integers:
        """What the noise of a cell of each group stays within at a high level.

        If it does not as often as 1 - level has it, then beside the k largest of the p points no
        more often than p / k times that, on average: of all k the one that reaches furthest.
        """
        distinct, back = self.distinct
        number, largest = distinct.shape[1], np.sort(distinct, axis=1)[:, ::-1]
        parts = (
            self._far(largest[:, k - 1], max(1 - (1 - level) * number / k, 0.5))
            for k in range(1, number + 1)
        )
        found: Integers = np.maximum.reduce(list(parts))[back]
        return found

    @cached_property
    def distinct(self) -> tuple[Points, NDArray[np.intp]]:
        """The rows of points that differ, and which of them each group has."""
        return _distinct(self.points)

    @cached_property
    def _waves(self) -> NDArray[np.complex64]:
        """The characteristic function of noise on a ring of integers, for points that differ."""
        waves, points = self.noise.waves.astype(np.complex64), self.distinct[0]
        found = waves[points[:, 0]]
        for column in points.T[1:]:
            found += waves[column]
        return found / np.float32(points.shape[1])

    def _small(
        self, cells: Integers, starts: Integers, chosen: Integers, level: float
    ) -> tuple[Integers, Integers]:
        """How far sums of small noise are off, from all probabilities of the sum."""
        number = np.append(starts[1:], len(cells))[chosen] - starts[chosen]
        own, waves = self.distinct[1], self._waves
        found = np.empty((2, len(chosen)), dtype=np.int64)
        for some in _cut(np.argsort(-number, kind="stable"), _AT_ONCE):  # sums of many cells first
            first, fewer = starts[chosen[some]], -number[some]
            product = waves[own[cells[first]]]
            for place in range(1, -int(fewer[0])):  # one more cell of all sums that have as many
                more = int(np.searchsorted(fewer, -place))
                product[:more] *= waves[own[cells[first[:more] + place]]]
            pmf = np.maximum(np.fft.irfft(product, RING, axis=1), 0.0)
            up, down = pmf[:, 1 : RING // 2 + 1], pmf[:, : RING // 2 - 1 : -1]
            below, above = (np.cumsum(side[:, ::-1], axis=1)[:, ::-1] for side in (down, up))
            found[:, some] = shortest(below, above, np.arange(RING // 2), 1 - level)
        return found[0], found[1]


def _largest(points: Points) -> NDArray[np.uint8]:
    """The largest class of each row."""
    found: NDArray[np.uint8] = np.maximum.reduce(np.ascontiguousarray(points.T))
    return found


def _distinct(points: Points) -> tuple[Points, NDArray[np.intp]]:
    """The rows that differ, and which of them each row is."""
    width = points.shape[1]
    if width == 1:
        seen = np.bincount(points[:, 0]) > 0
        return np.flatnonzero(seen).astype(np.uint8)[:, None], (np.cumsum(seen) - 1)[points[:, 0]]
    kind = f">u{width}" if width in (1, 2, 4, 8) else f"V{width}"  # integers are sorted faster
    texts = np.ascontiguousarray(points).view(kind).ravel()
    if texts.dtype.kind == "u":
        texts = texts.astype(f"u{width}")
    _, first, back = np.unique(texts, return_index=True, return_inverse=True)
    return points[first], back.reshape(-1)


def _cut(order: NDArray[np.intp], most: int) -> list[NDArray[np.intp]]:
    """Parts of an order, each of so many at most."""
    return [order[start : start + most] for start in range(0, len(order), most)]


def _weights(points: Points, classes: int) -> Array:
    """The share of each class among some points, a row for each cell."""
    found = np.zeros((len(points), classes))
    for column in points.T:
        found[np.arange(len(points)), column] += 1 / points.shape[1]
    return found
