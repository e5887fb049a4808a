"""The largest workplace of a cell given its noisy count, and intervals that follow from it.

The scale of the noise is confidential: it goes by S, the size of the largest workplace of a cell.
But much is public about S.  The cell has m workplaces; their sizes are taken to be independent and
distributed as those of all workplaces of their kind, so that S is at most x with the probability
F(x)^m, and given S the other m - 1 are distributed as sizes up to S.  Their sum O is taken to have
the quantiles of a gamma distribution with their mean and variance (of one other, its own).  By
Bayes' rule the posterior probability of S is in proportion to

    P(S) P(S + O + K = y),   K the noise in a cell whose largest workplace is S,

y the noisy count.  The interval of a count is y minus the shortest interval that K lies in with the
probability of the level, K with the noise of each S at its posterior probability.  What is not used
is that K depends on y by more than S: an interval leans on the sizes for its width alone, and never
for its place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from eree.estimate.noise import RING, NoiseBySize
from eree.estimate.size_distribution import SizeDistribution
from eree.random.exact import Array, Integers

#: Classes of sizes, a row for each group.
Points = NDArray[np.uint8]
#: As many sums stand for what the other workplaces have, and sizes for those of a class.
_OTHERS, _INSIDE = 8, 3
#: Prior probabilities below this are left out.
_UNLIKELY = 1e-9
#: A noisy count is taken to be within this share of itself, or half a job.
_NEAR = 0.01
#: The part of the posterior that follows the prior alone, so that there is one for any noisy count.
_ANYHOW = 1e-6
#: As many equally likely sizes stand for the posterior of the largest workplace.
POINTS = 8
#: Cells that are looked at at once.
_AT_ONCE = 8_192
#: Cells whose noise is added up on a ring at once.
_ADDED_UP = 4_096
#: Variances of sums up to which they are added up on a ring.
_SMALL_VARIANCE = (RING / 24) ** 2


def posterior_of_largest(
    noise: NoiseBySize,
    sizes: SizeDistribution,
    noisy: Integers,
    workplaces: Integers,
    kinds: Integers,
) -> Array:
    """The probability of each class of the largest workplace, a row for each cell."""
    parts = [
        _posterior(noise, sizes, noisy[some], workplaces[some], kinds[some])
        for some in (
            slice(start, start + _AT_ONCE) for start in range(0, max(len(noisy), 1), _AT_ONCE)
        )
    ]
    return np.concatenate(parts)


def _posterior(
    noise: NoiseBySize,
    sizes: SizeDistribution,
    noisy: Integers,
    workplaces: Integers,
    kinds: Integers,
) -> Array:
    prior = prior_of_largest(sizes, workplaces, kinds)
    near = np.maximum(0.5, _NEAR * np.abs(noisy))
    mean, variance = sizes.moments
    found = np.zeros_like(prior)
    for j in range(len(sizes.least)):
        reach = noise.reach[j] + near
        near_enough = (noisy + reach >= sizes.least[j]) & (
            noisy - reach <= workplaces * sizes.greatest[j]
        )
        at = np.flatnonzero((prior[:, j] > _UNLIKELY) & near_enough)
        if not at.size:
            continue
        others = _others(sizes, workplaces[at] - 1, kinds[at], j, mean[:, j], variance[:, j])
        inside = np.linspace(sizes.least[j], sizes.greatest[j], _INSIDE)
        if sizes.least[j] == sizes.greatest[j]:
            inside = inside[:1]
        counts = (others[:, :, None] + inside).reshape(len(at), -1)
        above = noise.up_to(j, (noisy[at] + near[at])[:, None] - counts)
        below = noise.up_to(j, (noisy[at] - near[at])[:, None] - counts - 1e-6)
        found[at, j] = (above - below).mean(1) / near[at]
    found = prior * (found + _ANYHOW / np.maximum(sizes.sizes, 1))
    found /= found.sum(1, keepdims=True)
    return found


def prior_of_largest(sizes: SizeDistribution, workplaces: Integers, kinds: Integers) -> Array:
    """The probability of each class of the largest of so many workplaces of a kind."""
    logs = np.log(np.maximum(sizes.up_to, 1e-300))[kinds]
    found: Array = np.diff(np.exp(np.maximum(workplaces, 1)[:, None] * logs), axis=1, prepend=0.0)
    return np.maximum(found, 0.0)


def _others(
    sizes: SizeDistribution, number: Integers, kinds: Integers, j: int, mean: Array, variance: Array
) -> Array:
    """Equally likely sums of other workplaces, none above a class: a row for each cell."""
    from scipy.special import ndtri

    at = (np.arange(_OTHERS) + 0.5) / _OTHERS
    sums, spread = number * mean[kinds], number * variance[kinds]
    with np.errstate(divide="ignore", invalid="ignore"):
        shape = np.where(spread > 0, sums**2 / spread, 1e9)[:, None]
    # Wilson and Hilferty's quantiles of a gamma distribution, with its mean
    cubes = (
        np.maximum(
            1
            - 1 / (9 * np.maximum(shape, 0.05))
            + ndtri(at) / (3 * np.sqrt(np.maximum(shape, 0.05))),
            0.0,
        )
        ** 3
    )
    cubes /= np.maximum(cubes.mean(1, keepdims=True), 1e-9)
    found: Array = np.rint(sums[:, None] * cubes)
    single = np.flatnonzero(number == 1)
    if single.size:
        below = sizes.up_to[:, : j + 1] / np.maximum(sizes.up_to[:, j : j + 1], 1e-300)
        of_kinds = np.stack([np.searchsorted(row, at) for row in below])
        found[single] = sizes.sizes[np.minimum(of_kinds, j)][kinds[single]]
    return found


def equally_likely(posterior: Array, variance: Array) -> Points:
    """Classes that stand for a posterior, as likely as each other, a row for each cell.

    Each is the one whose noise has the variance that the part of the posterior has, which it stands
    for.
    """
    ends = np.cumsum(posterior, axis=1)
    ends /= ends[:, -1:]
    found: Points = np.empty((len(posterior), POINTS), dtype=np.uint8)
    rising = np.maximum.accumulate(variance)
    before = np.zeros(len(posterior))
    whole = np.cumsum(posterior * rising, axis=1)
    for i in range(POINTS):
        upto = _integral(ends, whole, rising, (i + 1) / POINTS)
        means = (upto - before) * POINTS
        before = upto
        place = np.searchsorted(rising, means)
        lower = np.maximum(place - 1, 0)
        place = np.minimum(place, len(rising) - 1)
        nearer = np.abs(rising[lower] - means) < np.abs(rising[place] - means)
        found[:, i] = np.where(nearer, lower, place)
    return found


def _integral(ends: Array, whole: Array, rising: Array, share: float) -> Array:
    """The part of the mean variance that the smallest share of the posterior has."""
    place = np.minimum((ends < share).sum(1), ends.shape[1] - 1)
    row = np.arange(len(ends))
    below = np.where(place > 0, ends[row, place - 1], 0.0)
    before = np.where(place > 0, whole[row, place - 1], 0.0)
    found: Array = before + (share - below) * rising[place]
    return found


@dataclass(frozen=True, eq=False)
class Moments:
    """Of the noise of sums: mean, variance, fourth cumulant, and the variance of the variance."""

    mean: Array
    variance: Array
    fourth: Array
    uncertain: Array


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
        distinct, back = np.unique(self.points, axis=0, return_inverse=True)
        weights = _weights(distinct, len(self.noise.sizes))
        below, above = (weights @ side for side in self.noise.tails)
        ends = shortest(below, above, self.noise.distances, 1 - level)
        down, up = (np.ceil(self.widened * side).astype(np.int64) for side in ends)
        place = np.repeat(back.reshape(-1), self.cells)
        return np.maximum(noisy - up[place], 0), np.maximum(noisy + down[place], 0)

    def moments(self, cells: Integers, starts: Integers) -> Moments:
        """Of the sums of runs of cells; those of one group in a run lie side by side."""
        groups = cells // self.cells
        new = np.diff(groups, prepend=-1) != 0
        new[starts] = True
        first = np.flatnonzero(new)
        number = np.diff(np.append(first, len(cells)))[:, None].astype(np.float64)
        points = self.points[groups[first]]
        noise, pairs = self.noise, number * (number - 1)
        square = self.widened**2
        each = square * (number * noise.variance[points] + pairs * noise.covariance[points])
        fourth = number * noise.fourth[points] + 3 * pairs * noise.joint_fourth[points]
        fourth *= square**2
        variance = each.mean(1)
        spread = each.var(1)
        runs = np.searchsorted(first, starts)
        return Moments(
            np.add.reduceat((number * noise.mean[points]).mean(1), runs),
            np.add.reduceat(variance, runs),
            np.add.reduceat(fourth.mean(1) + 3 * spread, runs),
            np.add.reduceat(spread, runs),
        )

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
        moments = self.moments(cells, starts)
        reach = _reach(moments.variance, moments.fourth, level)
        low, high = ends_around(noisy - moments.mean, reach, reach)
        single = np.diff(np.append(starts, len(cells))) == 1
        if single.any():
            own = cells[starts[single]] // self.cells
            alone = replace(self, points=self.points[own], cells=1)
            low[single], high[single] = alone.cell_ends(noisy[single], level)
        if self.cells == 1 and self.widened == 1:
            small = np.flatnonzero((moments.variance <= _SMALL_VARIANCE) & ~single)
            if small.size:
                down, up = self._small(cells, starts, small, level)
                low[small] = np.maximum(noisy[small] - up, 0)
                high[small] = np.maximum(noisy[small] + down, 0)
        return low, high

    def joint_reach(self, cells: Integers, starts: Integers, level: float) -> Array:
        """How far sums are off at most, if so many are to hold that extremes count.

        The variance of each sum is the one that its posterior stays below with a probability of
        95%: of many sums those are missed whose noise is more than its mean says.
        """
        moments = self.moments(cells, starts)
        variance = _upper(moments.variance, moments.uncertain)
        known = np.maximum(moments.fourth - 3 * moments.uncertain, 0.0)  # the variance being known
        return _reach(variance, known, level)

    def _small(
        self, cells: Integers, starts: Integers, chosen: Integers, level: float
    ) -> tuple[Integers, Integers]:
        """How far sums of small noise are off, from all probabilities of the sum."""
        ends = np.append(starts[1:], len(cells))[chosen]
        number = ends - starts[chosen]
        distances = np.arange(RING // 2)
        parts = []
        for some in np.array_split(np.arange(len(chosen)), 1 + int(number.sum()) // _ADDED_UP):
            own = np.concatenate([cells[starts[chosen[i]] : ends[i]] for i in some])
            waves = self.noise.waves[self.points[own]].mean(1)
            runs = np.cumsum(number[some]) - number[some]
            pmf = np.fft.irfft(np.multiply.reduceat(waves, runs, axis=0), RING, axis=1)
            pmf = np.maximum(pmf, 0.0)
            up, down = pmf[:, 1 : RING // 2 + 1], pmf[:, : RING // 2 - 1 : -1]
            below, above = (np.cumsum(side[:, ::-1], axis=1)[:, ::-1] for side in (down, up))
            parts.append(shortest(below, above, distances, 1 - level))
        return np.concatenate([one for one, _ in parts]), np.concatenate([two for _, two in parts])


def _weights(points: Points, classes: int) -> Array:
    """The share of each class among some points, a row for each cell."""
    found = np.zeros((len(points), classes))
    for column in points.T:
        found[np.arange(len(points)), column] += 1 / points.shape[1]
    return found


def shortest(
    below: Array, above: Array, distances: Integers, miss: float
) -> tuple[Integers, Integers]:
    """How far the shortest intervals around zero reach down and up, which miss no more than so.

    `below` and `above` have the probabilities beyond each distance, a row for each interval.
    """
    rows, last = len(below), len(distances) - 1
    best = np.full(rows, np.iinfo(np.int64).max)
    down, up = np.full((2, rows), distances[-1])
    for a, reach in enumerate(distances):
        left = miss - below[:, a] + 1e-12
        open_ = np.flatnonzero((left >= 0) & (best > reach))
        if not open_.size:
            if (best <= reach).all():
                break
            continue
        low, high = np.full(len(open_), -1), np.full(len(open_), last)
        while (high - low > 1).any():
            middle = np.maximum((low + high) // 2, 0)
            enough = above[open_, middle] <= left[open_]
            high, low = np.where(enough, middle, high), np.where(enough, low, middle)
        length = reach + distances[high]
        better = length < best[open_]
        chosen = open_[better]
        best[chosen], down[chosen], up[chosen] = length[better], reach, distances[high[better]]
    return down, up


def _upper(variance: Array, uncertain: Array) -> Array:
    """What a variance stays below with a probability of 95%: Wilson and Hilferty's quantile."""
    shape = variance**2 / np.maximum(uncertain, 1e-12 * np.maximum(variance, 1e-9) ** 2)
    found: Array = variance * np.maximum(1 - 1 / (9 * shape) + 1.645 / (3 * np.sqrt(shape)), 1) ** 3
    return found


def ends_around(middle: Array, down: Array, up: Array) -> tuple[Integers, Integers]:
    """The least and the greatest count within a reach; none is below zero."""
    low, high = np.ceil(middle - down), np.floor(middle + up)
    low = np.minimum(low, high)  # so narrow that no integer lies within: the nearest
    return np.maximum(low, 0).astype(np.int64), np.maximum(high, 0).astype(np.int64)


def _reach(variance: Array, fourth: Array, level: float) -> Array:
    """What the size of noise with such moments stays within."""
    kurtosis = np.clip(fourth / np.maximum(variance, 1e-9) ** 2, 0.0, MOST_KURTOSIS)
    found: Array = np.sqrt(variance) * quantiles(kurtosis, level)
    return found


#: Excess kurtosis of sums is taken to be no more than this.
MOST_KURTOSIS = 60.0
_KURTOSES = np.concatenate([[0.0], np.geomspace(0.02, MOST_KURTOSIS, 48)])


def quantiles(kurtosis: Array, level: float) -> Array:
    """What the size of a sum of noise stays within, in standard deviations.

    A sum is taken to be normal with a variance that has a gamma distribution, so that it has the
    kurtosis: with 0 it is normal, with 3 a Laplace distribution.
    """
    found: Array = np.interp(kurtosis, _KURTOSES, _quantiles_of_kurtoses(level))
    return found


@lru_cache(maxsize=256)
def _quantiles_of_kurtoses(level: float) -> Array:
    from scipy.special import erfc, erfcinv

    found = [float(np.sqrt(2) * erfcinv(1 - level))]
    for kurtosis in _KURTOSES[1:]:
        shape = 3 / kurtosis
        logs = np.linspace(-40 / min(shape, 1.0) ** 0.5 - 6, np.log(1 + 60 / shape), 4_000)
        weight = np.exp(shape * (logs - np.exp(logs) + 1))
        weight /= weight.sum()
        deviation = np.exp(logs / 2)
        low, high = 0.0, 200.0
        for _ in range(60):
            middle = (low + high) / 2
            beyond = float((weight * erfc(middle / (np.sqrt(2) * deviation))).sum())
            low, high = (middle, high) if beyond > 1 - level else (low, middle)
        found.append(high)
    return np.array(found)
