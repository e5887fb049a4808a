"""Empirical-Bayes estimates of the worker cells of groups from their noisy counts.

Everything is computed from noisy counts and public facts: which kind of workplaces a group has (its
sector and ownership, say) and how many.  So it is post-processing: what the guarantee says of the
noisy counts it says of the estimates, and nothing is paid.

The model of a group with n workers at m workplaces, x of them at the largest:

- prior shares p, those of its kind, from sums of noisy counts, in which noise averages out;
- the workers of a group differ from n p by sampling, with n times the covariance of one worker; by
  what the workers of each workplace have in common, with a covariance times Q, the sum of squared
  sizes; and by what all its workplaces have in common, with a covariance times n^2.  Either
  covariance has one number for each set of worker attributes, an intra-class correlation, as in the
  analysis of variance: for sex, for education, for both together;
- noise of the mechanism at the size x, taken for normal of its variance;
- the probabilities of x and n are weights of points of a grid, by class of groups.

Weights and covariances are those under which the noisy counts of many groups are most likely,
found by expectation and maximization.  An estimate is the mean of a count given the noisy counts
of its group.  Nothing was tuned on data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from eree.estimate.grids import Classed, Grid
from eree.estimate.normal import NormalDistributions, evenly
from eree.random.exact import Array, Integers

#: Weights and covariances are learnt from so many groups, taken evenly from all, in so many rounds.
_LEARN_FROM, _ROUNDS = 40_000, 20
#: What every point of the grid counts in the prior, in groups.  While learning, points that no
#: group adds as much to are left out; groups that were not learnt from may need them.
_PRIOR = 0.02
#: What the two covariances begin with, and the least they come to.
_FIRST, _LEAST = (0.05, 0.005), 1e-6
#: Points of a grid that are less likely than this are left out of an estimate.
_UNLIKELY = 1e-9
#: So many groups are looked at together.
_AT_ONCE = 2_048


def factors(shares: Array, shape: Sequence[int]) -> list[Array]:
    """How the counts of a kind may differ, by set of worker attributes: a matrix for each set.

    Columns are orthonormal contrasts of the attributes of the set, in units of the root of a
    share, moved so that differences add up to nothing.
    """
    table = shares.reshape(tuple(shape))
    axes = []
    for axis in range(len(shape)):
        margin = table.sum(axis=tuple(a for a in range(len(shape)) if a != axis))
        root = np.sqrt(margin / margin.sum())
        contrasts = np.linalg.qr(np.column_stack([root, np.eye(len(root))[:, 1:]]))[0]
        axes.append((root[:, None], contrasts[:, 1:]))
    level = np.eye(shares.size) - np.outer(shares, np.ones(shares.size))
    found = []
    for chosen in product((0, 1), repeat=len(shape)):
        contrast: Array = np.ones((1, 1))
        for both, inside in zip(axes, chosen, strict=True):
            contrast = np.kron(contrast, both[inside])
        if any(chosen) and contrast.shape[1]:
            found.append(level @ (np.sqrt(shares)[:, None] * contrast))
    return found


def shares_by_kind(noisy: Array, kinds: Integers) -> Array:
    """Shares of every kind from sums of noisy counts, shrunk to those of all where noise is large.

    A kind of N groups is given workers with the shares of all: one for each cell, and the sum of
    what its noisy counts are below 0, which only noise makes, over the root of N.
    """
    number = np.maximum(np.bincount(kinds), 1)
    sums, missing = np.zeros((len(number), noisy.shape[1])), np.zeros(len(number))
    np.add.at(sums, kinds, noisy)
    np.add.at(missing, kinds, -np.minimum(noisy, 0).sum(1))
    everyone = np.maximum(sums.sum(0), 1.0)
    given = missing / np.sqrt(number) + noisy.shape[1]
    found = np.maximum(sums, 0) + given[:, None] * (everyone / everyone.sum())
    shares: Array = found / found.sum(1, keepdims=True)
    return shares


@dataclass(frozen=True)
class _KindDistributions(NormalDistributions):
    """The noisy counts of a kind at the points of a grid, and the estimates there."""

    gain: Array  # (points, d, d or d + 1), what noisy counts are multiplied by
    offset: Array  # (points, d), and what is added
    left: Array  # (points, d), the variances of counts that are left

    def moments(self, noisy: Array, posterior: Array) -> tuple[Array, Array]:
        """Means and variances of counts where the points have these posterior probabilities."""
        mean, square = np.zeros((2, len(noisy), self.left.shape[1]))
        for point in np.flatnonzero(posterior.max(0, initial=0.0) > _UNLIKELY):
            near = np.flatnonzero(posterior[:, point] > _UNLIKELY)
            weight = posterior[near, point, None]
            counts = noisy[near] @ self.gain[point].T + self.offset[point]
            mean[near] += weight * counts
            square[near] += weight * (counts**2 + self.left[point])
        return mean, np.maximum(square - mean**2, 0.0)


@dataclass(frozen=True)
class _Kind:
    """The shares of a kind, and how its groups differ."""

    shares: Array
    factors: Sequence[Array]

    def seen(self, totals: bool) -> Array:
        """What is seen of the counts, but for noise: each of them, and perhaps their total."""
        cells = np.eye(self.shares.size)
        return np.vstack([cells, np.ones(len(cells))]) if totals else cells

    def at(self, grid: Grid, correlations: Array, totals: bool) -> _KindDistributions:
        """The distributions at the points of a grid, with or without totals of another table."""
        spread = grid.spread[:, None, None] * np.outer(self.shares, self.shares)
        for one, variance in zip(self.factors, correlations @ grid.scales + grid.n, strict=True):
            spread = spread + variance[:, None, None] * (one @ one.T)
        noise = np.repeat(grid.noise[:, None], self.shares.size, axis=1)
        if totals:
            noise = np.column_stack([noise, grid.total_noise])
        seen, counts = self.seen(totals), grid.n[:, None] * self.shares
        whole = seen @ spread @ seen.T + noise[:, :, None] * np.eye(len(seen))
        normal = NormalDistributions.of(counts @ seen.T, whole)
        gain = spread @ seen.T @ normal.precision
        offset = counts - (gain @ normal.mean[:, :, None])[:, :, 0]
        left = np.maximum(np.einsum("kii->ki", spread - gain @ seen @ spread), 0.0)
        return _KindDistributions(
            normal.mean, normal.precision, normal.log_size, gain, offset, left
        )

    def evidence(
        self,
        grid: Grid,
        normal: _KindDistributions,
        correlations: Array,
        noisy: Array,
        posterior: Array,
    ) -> tuple[Array, Array]:
        """What groups say of the two numbers of every set: twice a slope and twice a curvature.

        They are those of the logarithm of the density of the noisy counts by the logarithm of each
        number, given the point of the grid: with P the precision of the noisy counts, r what they
        are off and F the matrix of the set, of which a number adds a F F' to the covariance, the
        sums of a (|F'P r|^2 - tr F'P F) and, in the mean, of a a' |F'P F|^2.
        """
        weight, about = posterior.sum(0), normal.squares_about(noisy, posterior)
        slopes, curves = np.zeros(correlations.shape), np.zeros((len(correlations), 2, 2))
        seen = self.seen(noisy.shape[1] > self.shares.size)
        for i, each in enumerate(self.factors):
            one = seen @ each
            pulled = normal.precision @ one  # (points, d, rank)
            inner = one.T @ pulled
            more = ((about @ pulled) * pulled).sum((1, 2)) - weight * np.trace(inner, 0, 1, 2)
            parts = correlations[i][:, None] * grid.scales
            slopes[i] = parts @ more
            curves[i] = (parts * (weight * (inner**2).sum((1, 2)))) @ parts.T
        return slopes, curves


@dataclass(frozen=True)
class ShrunkGroups:
    """What was learnt from the noisy counts of many groups.

    `correlations` has the intra-class correlations of two workers of one workplace, and of two
    workers of one group, for each set of worker attributes in turn: the last attribute alone comes
    first, all together last.
    `weights` has how many groups each point of a grid stands for.
    """

    noisy: Array  # a row for each group, and perhaps its total in another table
    kinds: Integers
    classed: Classed
    known: Sequence[_Kind]
    weights: Sequence[Array]
    correlations: Array

    @classmethod
    def learn(
        cls,
        noisy: Integers,
        kinds: Integers,
        classed: Classed,
        shape: Sequence[int],
        totals: Array | None = None,
    ) -> ShrunkGroups:
        """Learn from noisy counts, a row for each group; kinds are numbers from 0 on.

        `shape` has the number of values of each worker attribute, in the order of the columns;
        `totals` are noisy totals of the groups from another table.
        """
        counts = noisy.astype(np.float64)
        known = [_Kind(shares, factors(shares, shape)) for shares in shares_by_kind(counts, kinds)]
        weights = [np.ones(len(grid.x)) for grid in classed.grids]
        correlations = np.tile(np.array(_FIRST), (len(known[0].factors), 1))
        if totals is not None:
            counts = np.column_stack([counts, totals])
        model = cls(counts, kinds, classed, known, weights, correlations)
        some = evenly(len(counts), _LEARN_FROM)
        for _ in range(_ROUNDS):
            model = model._better(some)
        return model

    def moments(self, noise: Array | None = None) -> tuple[Array, Array]:
        """The mean and the variance of every count given the noisy counts of its group.

        `noise` has the variances that the noise of groups is known to have from elsewhere: where
        they are more than those of the grid, noisy counts tell as much less.
        """
        mean, variance = np.empty((2, len(self.noisy), self.known[0].shares.size))
        for at, _kind, grid, normal, posterior, _use in self._each(np.arange(len(mean))):
            mean[at], variance[at] = normal.moments(self.noisy[at], posterior)
            if noise is not None:
                own = posterior @ grid.noise
                more = np.maximum(noise[at], own)[:, None]
                prior = np.maximum(1 / np.maximum(variance[at], 1e-9) - 1 / own[:, None], 0.0)
                variance[at] = np.maximum(variance[at], 1 / (prior + 1 / more))
        return mean, variance

    def _each(
        self, some: Integers, least: float = 0.0
    ) -> Iterator[tuple[Integers, _Kind, Grid, _KindDistributions, Array, NDArray[np.intp]]]:
        """Groups of one kind and class, and the posterior of the points of their grid for each."""
        kinds, classes = self.kinds[some], self.classed.classes[some]
        order = np.lexsort((classes, kinds))
        key = kinds[order] * len(self.classed.grids) + classes[order]
        for part in np.split(some[order], np.flatnonzero(np.diff(key)) + 1):
            if not part.size:
                continue
            kind, c = self.known[self.kinds[part[0]]], int(self.classed.classes[part[0]])
            use = np.flatnonzero(self.weights[c] >= least)
            grid = self.classed.grids[c].only(use)
            totals = self.noisy.shape[1] > kind.shares.size
            normal, log_prior = (
                kind.at(grid, self.correlations, totals),
                np.log(self.weights[c][use]),
            )
            for start in range(0, len(part), _AT_ONCE):
                at = part[start : start + _AT_ONCE]
                yield at, kind, grid, normal, normal.posterior(self.noisy[at], log_prior), use

    def _better(self, some: Integers) -> ShrunkGroups:
        """One round of expectation and maximization."""
        weights = [np.full(len(grid.x), _PRIOR) for grid in self.classed.grids]
        slopes, curves = np.zeros(self.correlations.shape), 1e-9 * np.eye(2)
        for at, kind, grid, normal, posterior, use in self._each(some, 2 * _PRIOR):
            weights[int(self.classed.classes[at[0]])][use] += posterior.sum(0)
            more = kind.evidence(grid, normal, self.correlations, self.noisy[at], posterior)
            slopes, curves = slopes + more[0], curves + more[1]
        change = np.linalg.solve(curves, slopes[:, :, None])[:, :, 0]
        correlations = np.clip(self.correlations * np.exp(np.clip(change, -1.0, 1.0)), _LEAST, 1.0)
        return replace(self, weights=weights, correlations=correlations)


def shrunk_counts(
    noisy: Integers, kinds: Integers, classed: Classed, shape: Sequence[int]
) -> Integers:
    """Counts of at least 0 whose errors are smaller than those of the noisy ones, on average.

    Noisy counts have a row for each group.
    """
    if not len(noisy):
        return noisy
    found, _variance = ShrunkGroups.learn(noisy, kinds, classed, shape).moments()
    return np.rint(np.maximum(found, 0.0)).astype(np.int64)
