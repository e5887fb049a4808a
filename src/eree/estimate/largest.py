"""The largest workplace of a cell given its noisy count.

The scale of the noise is confidential: it goes by S, the size of the largest workplace of a cell.
But much is public about S.  The cell has m workplaces; their sizes are taken to be independent and
distributed as those of all workplaces of their kind, so that S is at most x with the probability
F(x)^m, and given S the other m - 1 are distributed as sizes up to S.  Their sum O is taken to have
the quantiles of a gamma distribution with their mean and variance (of one other, its own).  By
Bayes' rule the posterior probability of S is in proportion to

    P(S) P(S + O + K = y),   K the noise in a cell whose largest workplace is S,

y the noisy count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eree.estimate.noise import NoiseBySize
from eree.estimate.size_distribution import SizeDistribution
from eree.random.exact import Array, Integers

#: Classes of sizes, a row for each group.
Points = NDArray[np.uint8]
#: As many sums stand for what the other workplaces have, and sizes for those of a class.
_OTHERS, _INSIDE = 8, 3
#: A noisy count is taken to be within this share of itself, or half a job.
_NEAR = 0.01
#: The part of the prior in which all sizes are possible, so that a count that the model calls
#: impossible is believed.
_ANYHOW = 1e-3
#: As many equally likely sizes stand for the posterior of the largest workplace.
POINTS = 8
#: Kinds and numbers of workplaces of which sums of others are kept.
_MOST_KEPT = 8_192
#: Cells that are looked at at once.
_AT_ONCE = 2_048


@dataclass(frozen=True, eq=False)
class LargestWorkplace:
    """What noisy counts say of the largest workplace of cells of some kinds and numbers.

    `workplaces` and `kinds` are of those that differ; `which` of them a cell has is asked with its
    noisy count.  Sums of other workplaces go by them alone, so they are made once.
    """

    noise: NoiseBySize
    sizes: SizeDistribution
    workplaces: Integers
    kinds: Integers

    @classmethod
    def of(
        cls, noise: NoiseBySize, sizes: SizeDistribution, workplaces: Integers, kinds: Integers
    ) -> tuple[LargestWorkplace, Integers]:
        """Those that differ among some cells, and which of them each cell has."""
        first, which = distinct(workplaces, kinds)
        return cls(noise, sizes, workplaces[first], kinds[first]), which

    @cached_property
    def _prior(self) -> Array:
        return prior_of_largest(self.sizes, self.workplaces, self.kinds)

    @cached_property
    def _others(self) -> list[Integers]:
        return [self._twice_others(j) for j in range(len(self.sizes.least))]

    def _twice_others(self, j: int) -> Integers:
        """Twice the equally likely sums of other workplaces, none above a class, in columns."""
        mean, variance = self.sizes.moments
        own = mean[:, j], variance[:, j]
        sums = 2 * _others(self.sizes, self.workplaces - 1, self.kinds, j, *own).T
        return np.ascontiguousarray(sums.astype(np.int64))

    def _sums(self, j: int, which: Integers) -> Integers:
        """These of some cells; of too many that differ none are kept."""
        if len(self.workplaces) <= _MOST_KEPT:
            return self._others[j].take(which, axis=1)
        some = replace(self, workplaces=self.workplaces[which], kinds=self.kinds[which])
        return some._twice_others(j)

    @cached_property
    def _inside(self) -> list[Array]:
        """Sizes that stand for those of each class."""
        ends = zip(self.sizes.least.tolist(), self.sizes.greatest.tolist(), strict=True)
        return [np.linspace(one, two, _INSIDE if one < two else 1) for one, two in ends]

    def posterior(self, noisy: Integers, which: Integers) -> Array:
        """The probability of each class of the largest workplace, a row for each cell."""
        first, back = distinct(noisy, which)
        found = np.empty((len(first), len(self.sizes.least)))
        for some in _parts(len(first)):
            found[some] = self._posterior(noisy[first[some]], which[first[some]])
        return found[back]

    def points(self, noisy: Integers, which: Integers, variance: Array) -> Points:
        """Equally likely classes that stand for the posterior, a row for each cell."""
        first, back = distinct(noisy, which)  # by the noisy count, so that few classes are near
        found: Points = np.empty((len(first), POINTS), dtype=np.uint8)
        for some in _parts(len(first)):
            posterior = self._posterior(noisy[first[some]], which[first[some]])
            found[some] = equally_likely(posterior, variance)
        return found[back]

    def _posterior(self, noisy: Integers, which: Integers) -> Array:
        sizes, (low, high) = self.sizes, self.noise.reach
        near = np.maximum(0.5, _NEAR * np.abs(noisy))
        most, least = noisy + near, noisy - near
        workplaces = self.workplaces[which].astype(np.float64)
        latest, greatest = most.max(initial=-np.inf), workplaces.max(initial=0.0)
        earliest = least.min(initial=np.inf)
        # sizes are halves of integers, so that twice the ends may be rounded down
        above, below = (np.floor(2 * v).astype(np.int64) for v in (most, least - 1e-6))
        likely = np.zeros((len(sizes.least), len(noisy)))
        for j, (size, top) in enumerate(zip(sizes.least, sizes.greatest, strict=True)):
            if latest - low[j] < size or earliest - high[j] > greatest * top:
                continue
            at = ((most - low[j] >= size) & (least - high[j] <= workplaces * top)).nonzero()[0]
            if not at.size:
                continue
            others, inside = self._sums(j, which.take(at)), self._inside[j]
            between = self.noise.up_to_all(j, above.take(at), others, inside)
            between -= self.noise.up_to_all(j, below.take(at), others, inside)
            likely[j, at] = between / len(others) / len(inside) / near.take(at)
        prior = self._prior[which]
        found: Array = prior * likely.T
        whole = found.sum(1, keepdims=True)
        found /= np.maximum(whole, 1e-300)
        nowhere = np.flatnonzero(whole[:, 0] == 0)  # no class is near: nothing is learnt
        found[nowhere] = prior[nowhere]
        return found


def distinct(one: Integers, two: Integers) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first place of each pair of numbers that differs from others, and which each one is."""
    if not len(one):
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
    least, span = int(two.min()), int(two.max()) - int(two.min()) + 1
    if (int(np.abs(one).max()) + 1) * span < 1 << 62:  # both in one number
        both = one.astype(np.int64) * span + (two - least)
        order = np.argsort(both)
        both = both[order]
        new = np.append(True, both[1:] != both[:-1])
    else:
        order = np.lexsort((two, one))
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = (np.diff(one[order]) != 0) | (np.diff(two[order]) != 0)
    back = np.empty(len(order), dtype=np.intp)
    back[order] = np.cumsum(new) - 1
    return order[new], back


def posterior_of_largest(
    noise: NoiseBySize,
    sizes: SizeDistribution,
    noisy: Integers,
    workplaces: Integers,
    kinds: Integers,
) -> Array:
    """The probability of each class of the largest workplace, a row for each cell."""
    known, which = LargestWorkplace.of(noise, sizes, workplaces, kinds)
    return known.posterior(noisy, which)


def _parts(number: int) -> list[slice]:
    return [slice(start, start + _AT_ONCE) for start in range(0, number, _AT_ONCE)]


def prior_of_largest(
    sizes: SizeDistribution, workplaces: Integers, kinds: Integers, anyhow: float = _ANYHOW
) -> Array:
    """The probability of each class of the largest of so many workplaces of a kind.

    With a probability of `anyhow` any size is possible.
    """
    logs = np.log(np.maximum(sizes.up_to, 1e-300))[kinds]
    powers = np.exp(np.maximum(workplaces, 1)[:, None] * logs)
    model = np.maximum(np.diff(powers, axis=1, prepend=0.0), 0.0)
    any_size = 1 / np.maximum(sizes.sizes, 1.0)
    found: Array = (1 - anyhow) * model + anyhow * any_size / any_size.sum()
    return found


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
    shape = np.maximum(shape, 0.05)
    roots = np.maximum(1 - 1 / (9 * shape) + ndtri(at) / (3 * np.sqrt(shape)), 0.0)
    cubes = roots * roots * roots
    cubes /= np.maximum(cubes.mean(1, keepdims=True), 1e-9)
    found: Array = np.rint(sums[:, None] * cubes)
    single = np.flatnonzero(number == 1)
    if single.size:
        below = sizes.up_to[:, : j + 1] / np.maximum(sizes.up_to[:, j : j + 1], 1e-300)
        of_kinds = (below[:, :, None] < at).sum(1)
        found[single] = sizes.sizes[np.minimum(of_kinds, j)][kinds[single]]
    return found


def equally_likely(posterior: Array, variance: Array) -> Points:
    """Classes that stand for a posterior, as likely as each other, a row for each cell.

    Each is the one whose noise has the variance that the part of the posterior has, which it stands
    for.
    """
    possible = np.flatnonzero(posterior.any(0))
    first, last = (int(possible[0]), int(possible[-1]) + 1) if possible.size else (0, None)
    posterior = posterior[:, first:last]  # beside these nothing is added up
    ends = np.cumsum(posterior, axis=1)
    ends /= ends[:, -1:]
    found: Points = np.empty((len(posterior), POINTS), dtype=np.uint8)
    rising = np.maximum.accumulate(variance)
    # of classes with the same noise the last one: a choice by the last bit would differ by machine
    alike = np.searchsorted(rising, rising * (1 + 1e-9), side="right") - 1
    before, inside = np.zeros(len(posterior)), rising[first:last]
    whole, places = np.cumsum(posterior * inside, axis=1), _up_to(ends)
    for i, place in enumerate(places):
        upto = _integral(ends, whole, inside, (i + 1) / POINTS, place)
        means = (upto - before) * POINTS
        before = upto
        above = np.searchsorted(rising, means)
        lower = np.maximum(above - 1, 0)
        above = np.minimum(above, len(rising) - 1)
        nearer = np.abs(rising[lower] - means) < np.abs(rising[above] - means)
        found[:, i] = alike[np.where(nearer, lower, above)]
    return found


def _up_to(ends: Array) -> Integers:
    """For each share that points stand for, the first class of each row that ends there or beyond.

    The last class stands for a share that no class ends at.  Shares are eighths, so that eight
    times an end, rounded down, says exactly which of them it is below.
    """
    rows, classes = ends.shape
    parts = (POINTS * ends).astype(np.int64)
    parts += np.arange(rows)[:, None] * (POINTS + 1)
    numbers = np.bincount(parts.ravel(), minlength=rows * (POINTS + 1)).reshape(rows, -1)
    found: Integers = np.minimum(np.cumsum(numbers, axis=1).T[:POINTS], classes - 1)
    return found


def _integral(ends: Array, whole: Array, rising: Array, share: float, place: Integers) -> Array:
    """The part of the mean variance that the smallest share of the posterior has."""
    row = np.arange(len(ends))
    below = np.where(place > 0, ends[row, place - 1], 0.0)
    before = np.where(place > 0, whole[row, place - 1], 0.0)
    found: Array = before + (share - below) * rising[place]
    return found
