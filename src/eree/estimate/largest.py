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

import numpy as np
from numpy.typing import NDArray

from eree.estimate.noise import NoiseBySize
from eree.estimate.size_distribution import SizeDistribution
from eree.random.exact import Array, Integers

#: Classes of sizes, a row for each group.
Points = NDArray[np.uint8]
#: As many sums stand for what the other workplaces have, and sizes for those of a class.
_OTHERS, _INSIDE = 8, 3
#: Prior probabilities below this are left out.
_UNLIKELY = 1e-15
#: A noisy count is taken to be within this share of itself, or half a job.
_NEAR = 0.01
#: The part of the prior in which all sizes are possible, so that a count that the model calls
#: impossible is believed.
_ANYHOW = 1e-3
#: As many equally likely sizes stand for the posterior of the largest workplace.
POINTS = 8
#: Cells that are looked at at once.
_AT_ONCE = 8_192


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
    low, high = noise.reach
    for j in range(len(sizes.least)):
        near_enough = (noisy + near - low[j] >= sizes.least[j]) & (
            noisy - near - high[j] <= workplaces * sizes.greatest[j]
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
    posterior = prior * found
    whole = posterior.sum(1, keepdims=True)
    result: Array = np.where(whole > 0, posterior / np.maximum(whole, 1e-300), prior)
    return result


def prior_of_largest(sizes: SizeDistribution, workplaces: Integers, kinds: Integers) -> Array:
    """The probability of each class of the largest of so many workplaces of a kind."""
    logs = np.log(np.maximum(sizes.up_to, 1e-300))[kinds]
    powers = np.exp(np.maximum(workplaces, 1)[:, None] * logs)
    model = np.maximum(np.diff(powers, axis=1, prepend=0.0), 0.0)
    anyhow = 1 / np.maximum(sizes.sizes, 1.0)
    found: Array = (1 - _ANYHOW) * model + _ANYHOW * anyhow / anyhow.sum()
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
