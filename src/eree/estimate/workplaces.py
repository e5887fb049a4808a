"""Estimates for workplaces that were hidden one by one on a bent scale, from their noisy counts.

As for groups (`eree.estimate.groups`), everything comes from noisy counts and public facts.  What
differs is the noise: `knorm-staircase` adds the same noise to the heights g(h) of all counts h, so
that a large count has much noise and a small one little.  The model of a workplace of x workers:

- its counts h have the mean x p, p the usual shares of its kind, and the covariance
  x C + (x^2 - x) H: C that of one worker, by chance, H that of the workplace's habits;
- one count has about a gamma law with its mean and variance; quantiles of that law give the mean
  and the variance of its height, and heights are correlated as counts are;
- noisy heights are normal around heights, with the covariance of the noise;
- the chances of x are weights of a grid of sizes, by kind.

Weights and habits are learnt from the noisy heights of many workplaces.  An estimate is the mean of
a count given all noisy counts of its workplace, the height being about normal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eree.estimate.groups import factors, usual_shares
from eree.estimate.normal import NormalLaw, evenly
from eree.mechanisms.mechanism import Mechanism
from eree.random.exact import Integers

Array = NDArray[np.float64]

#: Sizes of the grid below the first step, and from one size to the next above.
_SMALL, _STEP = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0), 1.3
#: Quantiles of a count that its height is looked at.
_QUANTILES = 24
#: From each kind so many workplaces are learnt from, in so many rounds; then from all once more.
_LEARN_FROM, _ROUNDS = 1_500, 10
#: A kind is given so many workplaces with the sizes of all.
_OF_ALL = 20.0
#: What habits begin with, and the least they come to.
_FIRST, _LEAST = 0.05, 1e-4
#: Points of the grid that are less likely than this are left out of an estimate.
_UNLIKELY = 1e-5
#: So many workplaces are looked at together.
_AT_ONCE = 8_192


@dataclass(frozen=True)
class HeightNoise:
    """The noise of a mechanism that lifts counts to heights."""

    mechanism: Mechanism

    def heights(self, counts: Array) -> Array:
        """g of counts, which may be below 0."""
        assert self.mechanism.transform is not None
        return self.mechanism.transform.near_preimage(counts)

    def counts(self, heights: Array) -> Array:
        """The counts of heights."""
        assert self.mechanism.transform is not None
        return self.mechanism.transform.near_count(heights)

    @cached_property
    def covariance(self) -> Array:
        """That of the noise of all heights of a workplace."""
        assert self.mechanism.transformed_covariance is not None
        return self.mechanism.transformed_covariance


@dataclass(frozen=True)
class _Sites:
    """The workplaces of one kind: usual shares, and in how far workplaces differ from them."""

    shares: Array
    factors: Sequence[Array]

    def heights(
        self, sizes: Array, habits: Array, noise: HeightNoise
    ) -> tuple[Array, Array, Array]:
        """Means and covariances of the heights of workplaces of some sizes.

        And what deviations of counts are multiplied by, for those of their heights.
        """
        mean = sizes[:, None] * self.shares
        between = (sizes * (_STEP - 1) / 2) ** 2 + 0.1  # sizes between the points of the grid
        spread = between[:, None, None] * np.outer(self.shares, self.shares)
        for one, habit in zip(self.factors, habits, strict=True):
            variance = sizes + habit * np.maximum(sizes**2 - sizes, 0)
            spread = spread + variance[:, None, None] * (one @ one.T)
        deviation = np.sqrt(np.einsum("lii->li", spread))
        middle, width = _height_moments(mean, deviation, noise)
        scale = width / deviation
        return middle, spread * scale[:, :, None] * scale[:, None, :], scale


def _height_moments(mean: Array, deviation: Array, noise: HeightNoise) -> tuple[Array, Array]:
    """The mean and standard deviation of the height of counts with these, by quantiles."""
    from scipy.special import gammaincinv

    shape = np.maximum((mean / deviation) ** 2, 1e-3)[..., None]
    at = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    counts = gammaincinv(shape, at)
    counts *= (mean / np.maximum(counts.mean(-1), 1e-9))[..., None]
    lifted = noise.heights(counts)
    straight = noise.heights(mean + 3 * deviation) >= mean + 3 * deviation - 1e-9
    middle: Array = np.where(straight, mean, lifted.mean(-1))
    width: Array = np.where(straight, deviation, np.maximum(lifted.std(-1), 1e-6))
    return middle, width


@dataclass(frozen=True)
class ShrunkWorkplaces:
    """What was learnt from the noisy counts of many workplaces.

    `habits` has, for each set of worker attributes in turn, how alike two workers of one workplace
    are (intra-class correlations), as in `ShrunkGroups`.  `weights` has the chances of the sizes
    for each kind.
    """

    noisy: Array  # heights
    kinds: Integers
    noise: HeightNoise
    known: Sequence[_Sites]
    sizes: Array
    weights: Array
    habits: Array

    @classmethod
    def learn(
        cls, noisy: Integers, kinds: Integers, mechanism: Mechanism, shape: Sequence[int]
    ) -> ShrunkWorkplaces:
        """Learn from noisy counts, a row for each workplace; kinds are numbers from 0 on.

        `shape` has the number of values of each worker attribute, in the order of the columns.
        """
        counts, noise = noisy.astype(np.float64), HeightNoise(mechanism)
        known = [_Sites(shares, factors(shares, shape)) for shares in usual_shares(counts, kinds)]
        sizes = list(_SMALL)
        while sizes[-1] < 2 * counts.sum(1).max(initial=10.0):
            sizes.append(sizes[-1] * _STEP)
        weights = np.full((len(known), len(sizes)), 1 / len(sizes))
        habits = np.full(len(known[0].factors), _FIRST)
        model = cls(noise.heights(counts), kinds, noise, known, np.array(sizes), weights, habits)
        places = [np.flatnonzero(kinds == kind) for kind in range(len(known))]
        some = [place[evenly(len(place), _LEARN_FROM)] for place in places]
        for _ in range(_ROUNDS):
            model = model._better(some)
        return model._better(places)  # few workplaces are large: all of them are heard

    def estimates(self) -> Array:
        """The mean of every count given the noisy counts of its workplace."""
        found = np.zeros_like(self.noisy)
        for kind, law, spread, _scale, at in self._laws(
            [np.flatnonzero(self.kinds == kind) for kind in range(len(self.known))]
        ):
            gain = spread @ law.precision
            left = np.maximum(np.einsum("lii->li", spread - gain @ spread), 0.0)
            for start in range(0, len(at), _AT_ONCE):
                rows = at[start : start + _AT_ONCE]
                seen = self.noisy[rows]
                chances = law.chances(seen, np.log(self.weights[kind]))
                for point in np.flatnonzero(chances.max(0) > _UNLIKELY):
                    near = np.flatnonzero(chances[:, point] > _UNLIKELY)
                    middle = law.mean[point]
                    heights = middle + (seen[near] - middle) @ gain[point].T
                    means = self._mean_counts(heights, left[point])
                    found[rows[near]] += chances[near, point, None] * means
        return found

    def _mean_counts(self, heights: Array, variances: Array) -> Array:
        """The mean count of normal heights: Gauss and Hermite's rule of three points."""
        away = np.sqrt(3 * variances)
        ends = self.noise.counts(heights - away) + self.noise.counts(heights + away)
        found: Array = ends / 6 + self.noise.counts(heights) * 2 / 3
        return found

    def _laws(
        self, places: Sequence[Integers]
    ) -> Iterator[tuple[int, NormalLaw, Array, Array, Integers]]:
        """For every kind: the law of noisy heights, the law of heights, and workplaces."""
        for kind, (sites, at) in enumerate(zip(self.known, places, strict=True)):
            if at.size:
                middle, spread, scale = sites.heights(self.sizes, self.habits, self.noise)
                law = NormalLaw.of(middle, spread + self.noise.covariance)
                yield kind, law, spread, scale, at

    def _better(self, places: Sequence[Integers]) -> ShrunkWorkplaces:
        """One round: weights by expectation, habits by a step up the slope of the chance.

        With P the precision of noisy heights, A the sum of what they are off, squared, and M what a
        habit adds to their covariance, twice the slope by the logarithm of the habit is
        tr(P M P A) - n tr(P M) and twice the curvature n tr(P M P M), if the n heights keep their
        means and the scale on which they differ.
        """
        weights = np.zeros_like(self.weights)
        slopes, curves = np.zeros(len(self.habits)), np.full(len(self.habits), 1e-9)
        pairs = np.maximum(self.sizes**2 - self.sizes, 0)
        for kind, law, _spread, scale, at in self._laws(places):
            weight, about = np.zeros(len(self.sizes)), np.zeros_like(law.precision)
            for start in range(0, len(at), _AT_ONCE):
                seen = self.noisy[at[start : start + _AT_ONCE]]
                chances = law.chances(seen, np.log(self.weights[kind]))
                weight, about = weight + chances.sum(0), about + law.squares_about(seen, chances)
            weights[kind] = weight
            for i, one in enumerate(self.known[kind].factors):
                lifted = scale[:, :, None] * one  # (sizes, d, rank)
                pulled = law.precision @ lifted
                inner = lifted.swapaxes(1, 2) @ pulled
                gained = ((about @ pulled) * pulled).sum((1, 2))
                parts = self.habits[i] * pairs
                slopes[i] += parts @ (gained - weight * np.trace(inner, 0, 1, 2))
                curves[i] += parts**2 @ (weight * (inner**2).sum((1, 2)))
        everyone = weights.sum(0) + _UNLIKELY
        weights += _OF_ALL * everyone / everyone.sum()
        habits = self.habits * np.exp(np.clip(slopes / curves, -1.0, 1.0))
        return replace(
            self,
            weights=weights / weights.sum(1, keepdims=True),
            habits=np.clip(habits, _LEAST, 1.0),
        )
