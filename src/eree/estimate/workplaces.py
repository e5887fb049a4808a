"""Empirical-Bayes estimates for workplaces whose transformed counts were given noise one by one.

As for groups (`eree.estimate.groups`), everything comes from noisy counts and public facts.  What
differs is the noise: `knorm-staircase` adds the same noise to the transformed counts g(h), so
that a large count has much noise and a small one little.  The model of a workplace of x workers:

- its counts h have the mean x p, p the shares of its kind, and the covariance
  x C + (x^2 - x) H: C that of one worker, by sampling, H that of two workers of one workplace;
- one count has about a gamma distribution with its mean and variance; quantiles of that give the
  mean and the variance of g(h), and transformed counts are correlated as counts are;
- noisy transformed counts are normal around these, with the covariance of the noise;
- the probabilities of x are weights of a grid of sizes, by kind.

Weights and the intra-class correlations in H are learnt from the noisy counts of many workplaces.
An estimate is the mean of a count given all noisy counts of its workplace, g(h) being about normal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from eree.estimate.groups import factors, shares_by_kind
from eree.estimate.normal import NormalDistributions, evenly
from eree.mechanisms.mechanism import Mechanism
from eree.random.exact import Array, Integers

#: Sizes of the grid below the first step, and from one size to the next above.
_SMALL, _STEP = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0), 1.3
#: Quantiles of a count at which its transform is looked at.
_QUANTILES = 24
#: From each kind so many workplaces are learnt from, in so many rounds; then from all once more.
_LEARN_FROM, _ROUNDS = 1_500, 10
#: A kind is given so many workplaces with the sizes of all.
_OF_ALL = 20.0
#: What correlations begin with, and the least they come to.
_FIRST, _LEAST = 0.05, 1e-4
#: Points of the grid that are less likely than this are left out of an estimate.
_UNLIKELY = 1e-5
#: So many workplaces are looked at together.
_AT_ONCE = 8_192


@dataclass(frozen=True)
class TransformedNoise:
    """The noise of a mechanism that adds it to transformed counts."""

    mechanism: Mechanism

    def transformed(self, counts: Array) -> Array:
        """g of counts, which may be below 0."""
        assert self.mechanism.transform is not None
        return self.mechanism.transform.near_preimage(counts)

    def counts(self, transformed: Array) -> Array:
        """The inverse."""
        assert self.mechanism.transform is not None
        return self.mechanism.transform.near_count(transformed)

    @cached_property
    def covariance(self) -> Array:
        """That of the noise of all transformed counts of a workplace."""
        assert self.mechanism.transformed_covariance is not None
        return self.mechanism.transformed_covariance


@dataclass(frozen=True)
class _Sites:
    """The workplaces of one kind: its shares, and in how far workplaces differ from them."""

    shares: Array
    factors: Sequence[Array]

    def moments(
        self, sizes: Array, correlations: Array, noise: TransformedNoise
    ) -> tuple[Array, Array, Array]:
        """Means and covariances of the transformed counts of workplaces of some sizes.

        And what deviations of counts are multiplied by, for those of transformed counts.
        """
        mean = sizes[:, None] * self.shares
        between = (sizes * (_STEP - 1) / 2) ** 2 + 0.1  # sizes between the points of the grid
        spread = between[:, None, None] * np.outer(self.shares, self.shares)
        for one, correlation in zip(self.factors, correlations, strict=True):
            variance = sizes + correlation * np.maximum(sizes**2 - sizes, 0)
            spread = spread + variance[:, None, None] * (one @ one.T)
        deviation = np.sqrt(np.einsum("lii->li", spread))
        middle, width = _transformed_moments(mean, deviation, noise)
        scale = width / deviation
        return middle, spread * scale[:, :, None] * scale[:, None, :], scale


def _transformed_moments(
    mean: Array, deviation: Array, noise: TransformedNoise
) -> tuple[Array, Array]:
    """The mean and standard deviation of transformed counts, from those of counts, by quantiles."""
    from scipy.special import gammaincinv

    shape = np.maximum((mean / deviation) ** 2, 1e-3)[..., None]
    at = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    counts = gammaincinv(shape, at)
    counts *= (mean / np.maximum(counts.mean(-1), 1e-9))[..., None]
    values = noise.transformed(counts)
    straight = noise.transformed(mean + 3 * deviation) >= mean + 3 * deviation - 1e-9
    middle: Array = np.where(straight, mean, values.mean(-1))
    width: Array = np.where(straight, deviation, np.maximum(values.std(-1), 1e-6))
    return middle, width


@dataclass(frozen=True)
class ShrunkWorkplaces:
    """What was learnt from the noisy counts of many workplaces.

    `correlations` has the intra-class correlation of two workers of one workplace for each set of
    worker attributes in turn, as in `ShrunkGroups`.  `weights` has the probabilities of the sizes
    for each kind.
    """

    noisy: Array  # transformed
    kinds: Integers
    noise: TransformedNoise
    known: Sequence[_Sites]
    sizes: Array
    weights: Array
    correlations: Array

    @classmethod
    def learn(
        cls, noisy: Integers, kinds: Integers, mechanism: Mechanism, shape: Sequence[int]
    ) -> ShrunkWorkplaces:
        """Learn from noisy counts, a row for each workplace; kinds are numbers from 0 on.

        `shape` has the number of values of each worker attribute, in the order of the columns.
        """
        counts, noise = noisy.astype(np.float64), TransformedNoise(mechanism)
        known = [_Sites(shares, factors(shares, shape)) for shares in shares_by_kind(counts, kinds)]
        sizes = list(_SMALL)
        while sizes[-1] < 2 * counts.sum(1).max(initial=10.0):
            sizes.append(sizes[-1] * _STEP)
        weights = np.full((len(known), len(sizes)), 1 / len(sizes))
        correlations = np.full(len(known[0].factors), _FIRST)
        model = cls(
            noise.transformed(counts), kinds, noise, known, np.array(sizes), weights, correlations
        )
        places = [np.flatnonzero(kinds == kind) for kind in range(len(known))]
        some = [place[evenly(len(place), _LEARN_FROM)] for place in places]
        for _ in range(_ROUNDS):
            model = model._better(some)
        return model._better(places)  # few workplaces are large: all of them are heard

    def moments(self, sums: Array | None = None) -> tuple[Array, Array]:
        """The mean and the variance of every count given the noisy counts of its workplace.

        Of sums of counts, if asked for: a row for each sum, with 1 for the counts in it.
        """
        added = np.eye(self.noisy.shape[1]) if sums is None else sums
        mean, square = np.zeros((2, len(self.noisy), len(added)))
        for kind, normal, spread, _scale, at in self._each(
            [np.flatnonzero(self.kinds == kind) for kind in range(len(self.known))]
        ):
            gain = spread @ normal.precision
            left = spread - gain @ spread
            for start in range(0, len(at), _AT_ONCE):
                rows = at[start : start + _AT_ONCE]
                seen = self.noisy[rows]
                posterior = normal.posterior(seen, np.log(self.weights[kind]))
                for point in np.flatnonzero(posterior.max(0) > _UNLIKELY):
                    near = np.flatnonzero(posterior[:, point] > _UNLIKELY)
                    weight, middle = posterior[near, point, None], normal.mean[point]
                    values = middle + (seen[near] - middle) @ gain[point].T
                    counts, deviations, alike = self._counts(values, left[point])
                    own = counts @ added.T
                    each = deviations[:, None, :] * added
                    mean[rows[near]] += weight * own
                    square[rows[near]] += weight * (own**2 + ((each @ alike) * each).sum(2))
        return mean, np.maximum(square - mean**2, 0.0)

    def _counts(self, transformed: Array, covariance: Array) -> tuple[Array, Array, Array]:
        """Means and standard deviations of counts whose transforms are normal; correlations.

        Gauss and Hermite's rule of three points; counts are correlated as their transforms are.
        """
        deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        away = 3**0.5 * deviation
        down, middle, up = (self.noise.counts(transformed + a) for a in (-away, 0.0, away))
        mean = (down + up) / 6 + middle * 2 / 3
        square = (down**2 + up**2) / 6 + middle**2 * 2 / 3
        unit = np.maximum(deviation, 1e-12)
        alike = covariance / unit[:, None] / unit
        return mean, np.sqrt(np.maximum(square - mean**2, 0.0)), alike

    def _each(
        self, places: Sequence[Integers]
    ) -> Iterator[tuple[int, NormalDistributions, Array, Array, Integers]]:
        """For every kind: noisy transformed counts, what true ones differ by, and workplaces."""
        for kind, (sites, at) in enumerate(zip(self.known, places, strict=True)):
            if at.size:
                middle, spread, scale = sites.moments(self.sizes, self.correlations, self.noise)
                normal = NormalDistributions.of(middle, spread + self.noise.covariance)
                yield kind, normal, spread, scale, at

    def _better(self, places: Sequence[Integers]) -> ShrunkWorkplaces:
        """One round: weights by expectation, correlations by a step up the log likelihood.

        With P the precision of noisy transformed counts, A the sum of what they are off, squared,
        and M what a correlation adds to their covariance, twice the slope by the logarithm of the
        correlation is tr(P M P A) - n tr(P M) and twice the curvature n tr(P M P M), if the n of
        them keep their means and the scale on which they differ.
        """
        weights = np.zeros_like(self.weights)
        slopes, curves = np.zeros(len(self.correlations)), np.full(len(self.correlations), 1e-9)
        pairs = np.maximum(self.sizes**2 - self.sizes, 0)
        for kind, normal, _spread, scale, at in self._each(places):
            weight, about = np.zeros(len(self.sizes)), np.zeros_like(normal.precision)
            for start in range(0, len(at), _AT_ONCE):
                seen = self.noisy[at[start : start + _AT_ONCE]]
                posterior = normal.posterior(seen, np.log(self.weights[kind]))
                weight += posterior.sum(0)
                about += normal.squares_about(seen, posterior)
            weights[kind] = weight
            for i, one in enumerate(self.known[kind].factors):
                scaled = scale[:, :, None] * one  # (sizes, d, rank)
                pulled = normal.precision @ scaled
                inner = scaled.swapaxes(1, 2) @ pulled
                gained = ((about @ pulled) * pulled).sum((1, 2))
                parts = self.correlations[i] * pairs
                slopes[i] += parts @ (gained - weight * np.trace(inner, 0, 1, 2))
                curves[i] += parts**2 @ (weight * (inner**2).sum((1, 2)))
        everyone = weights.sum(0) + _UNLIKELY
        weights += _OF_ALL * everyone / everyone.sum()
        correlations = self.correlations * np.exp(np.clip(slopes / curves, -1.0, 1.0))
        return replace(
            self,
            weights=weights / weights.sum(1, keepdims=True),
            correlations=np.clip(correlations, _LEAST, 1.0),
        )
