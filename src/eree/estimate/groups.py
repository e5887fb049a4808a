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
- marginals of one draw are blocks of the same workers, with one total and noise that goes together;
- the probabilities of x and n are weights of points of a grid, by class of groups.

Weights and covariances are those under which the noisy counts of many groups are most likely,
found by expectation and maximization.  An estimate is the mean of a count given the noisy counts
of its group.  Nothing was tuned on data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from math import prod

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


@dataclass(frozen=True, eq=False)
class _KindDistributions:
    """What is seen of a kind at the points of a grid, and the estimates there."""

    seen: NormalDistributions
    counts: Array  # (points, cells), the means of counts
    spread: Array  # (points, cells, cells), their covariances
    matrix: Array  # (d, cells), what is seen of them but for noise

    def moments(self, seen: Array, posterior: Array) -> tuple[Array, Array]:
        """Means and variances of counts where the points have these posterior probabilities."""
        likely = np.flatnonzero(posterior.max(0, initial=0.0) > _UNLIKELY)
        spread, mean, square = self.spread[likely], *np.zeros((2, len(seen), self.counts.shape[1]))
        gains = spread @ self.matrix.T @ self.seen.precision[likely]
        left = np.maximum(np.einsum("kii->ki", spread - gains @ self.matrix @ spread), 0.0)
        for point, gain, rest in zip(likely, gains, left, strict=True):
            near = np.flatnonzero(posterior[:, point] > _UNLIKELY)
            weight = posterior[near, point, None]
            counts = self.counts[point] + (seen[near] - self.seen.mean[point]) @ gain.T
            mean[near] += weight * counts
            square[near] += weight * (counts**2 + rest)
        return mean, np.maximum(square - mean**2, 0.0)


@dataclass(frozen=True, eq=False)
class Shown:
    """What is seen of the counts of a group: all marginals of a draw, and perhaps a total.

    `shapes` has the number of values of each worker attribute, for every marginal; one after
    another they are the columns of noisy counts.  `noise` is the covariance of their noise, in
    units of the variance that a grid has; without it noise is independent and alike.
    """

    shapes: Sequence[Sequence[int]]
    noise: Array | None = None
    total: bool = False

    @cached_property
    def blocks(self) -> list[slice]:
        """The columns of each marginal."""
        ends = np.cumsum([0, *(prod(shape) for shape in self.shapes)]).tolist()
        return [slice(*pair) for pair in pairwise(ends)]

    @cached_property
    def matrix(self) -> Array:
        """What counts are multiplied by.

        The last cell of a marginal after the first follows from the others and the total, so it is
        left out; the total of another table comes last.
        """
        cells = np.eye(self.blocks[-1].stop)
        known = [block.stop - 1 for block in self.blocks[1:]]
        found: Array = np.delete(cells, known, axis=0)
        return np.vstack([found, cells[self.blocks[0]].sum(0)]) if self.total else found

    def of(self, noisy: Array, totals: Array | None) -> Array:
        """What is seen of noisy counts, and of noisy totals that another table has."""
        if totals is None:
            return noisy @ self.matrix.T
        return np.column_stack([noisy @ self.matrix[:-1].T, totals])

    @cached_property
    def units(self) -> Array:
        """The variance of the noise of each count, in those of a grid."""
        cells = self.blocks[-1].stop
        return np.ones(cells) if self.noise is None else np.diag(self.noise)

    @cached_property
    def _noise(self) -> tuple[Array, Array]:
        """The covariances of what is seen that noise of counts, and that of the total makes."""
        of_counts, of_total = self.matrix.copy(), np.zeros((len(self.matrix),) * 2)
        if self.total:
            of_counts[-1], of_total[-1, -1] = 0.0, 1.0
        own = np.diag(self.units) if self.noise is None else self.noise
        return of_counts @ own @ of_counts.T, of_total

    def noise_at(self, grid: Grid) -> Array:
        """The covariance of the noise of what is seen, at every point of a grid."""
        both = np.stack([grid.noise, grid.total_noise])
        found: Array = np.tensordot(both, np.stack(self._noise), axes=(0, 0))
        return found


@dataclass(frozen=True)
class _Kind:
    """The shares of a kind in every marginal, and how its groups differ."""

    shares: Array
    factors: Sequence[Array]
    shown: Shown

    @classmethod
    def of(cls, shares: Array, shown: Shown) -> _Kind:
        """A kind with these shares, marginal after marginal; marginals differ independently."""
        found = []
        for block, shape in zip(shown.blocks, shown.shapes, strict=True):
            for one in factors(shares[block], shape):
                whole = np.zeros((len(shares), one.shape[1]))
                whole[block] = one
                found.append(whole)
        return cls(shares, found, shown)

    def at(self, grid: Grid, correlations: Array) -> _KindDistributions:
        """The distributions at the points of a grid."""
        parts = np.stack([np.outer(self.shares, self.shares), *(f @ f.T for f in self.factors)])
        variances = np.vstack([grid.spread, correlations @ grid.scales + grid.n])
        spread = np.tensordot(variances, parts, axes=(0, 0))
        seen, counts = self.shown.matrix, grid.n[:, None] * self.shares
        whole = seen @ spread @ seen.T + self.shown.noise_at(grid)
        return _KindDistributions(
            NormalDistributions.of(counts @ seen.T, whole), counts, spread, seen
        )

    def evidence(
        self,
        grid: Grid,
        normal: NormalDistributions,
        correlations: Array,
        seen: Array,
        posterior: Array,
    ) -> tuple[Array, Array]:
        """What groups say of the two numbers of every set: twice a slope and twice a curvature.

        They are those of the logarithm of the density of the noisy counts by the logarithm of each
        number, given the point of the grid: with P the precision of the noisy counts, r what they
        are off and F the matrix of the set, of which a number adds a F F' to the covariance, the
        sums of a (|F'P r|^2 - tr F'P F) and, in the mean, of a a' |F'P F|^2.
        """
        weight, about = posterior.sum(0), normal.squares_about(seen, posterior)
        slopes, curves = np.zeros(correlations.shape), np.zeros((len(correlations), 2, 2))
        for i, each in enumerate(self.factors):
            one = self.shown.matrix @ each
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
    first, all together last; so for one marginal after another.
    `weights` has how many groups each point of a grid stands for.
    """

    seen: Array  # a row for each group
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
        shown: Shown,
        totals: Array | None = None,
    ) -> ShrunkGroups:
        """Learn from noisy counts, a row for each group; kinds are numbers from 0 on.

        `totals` are noisy totals of the groups from another table, where `shown` has one.
        """
        counts = noisy.astype(np.float64)
        shares = [shares_by_kind(counts[:, block], kinds) for block in shown.blocks]
        known = [_Kind.of(own, shown) for own in np.column_stack(shares)]
        weights = [np.ones(len(grid.x)) for grid in classed.grids]
        correlations = np.tile(np.array(_FIRST), (len(known[0].factors), 1))
        model = cls(shown.of(counts, totals), kinds, classed, known, weights, correlations)
        some = evenly(len(counts), _LEARN_FROM)
        for _ in range(_ROUNDS):
            model = model._better(some)
        return model

    def moments(self, noise: Array | None = None) -> tuple[Array, Array]:
        """The mean and the variance of every count given the noisy counts of its group.

        `noise` has the variances that the noise of counts is known to have from elsewhere: where
        they are more than those of the grid, noisy counts tell as much less.
        """
        mean, variance = np.empty((2, len(self.seen), self.known[0].shares.size))
        for at, kind, grid, normal, posterior, _use in self._each(np.arange(len(mean))):
            mean[at], variance[at] = normal.moments(self.seen[at], posterior)
            if noise is not None:
                own = np.outer(posterior @ grid.noise, kind.shown.units)
                more = np.maximum(noise[at], own)
                prior = np.maximum(1 / np.maximum(variance[at], 1e-9) - 1 / own, 0.0)
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
            normal, log_prior = kind.at(grid, self.correlations), np.log(self.weights[c][use])
            for start in range(0, len(part), _AT_ONCE):
                at = part[start : start + _AT_ONCE]
                yield at, kind, grid, normal, normal.seen.posterior(self.seen[at], log_prior), use

    def _better(self, some: Integers) -> ShrunkGroups:
        """One round of expectation and maximization."""
        weights = [np.full(len(grid.x), _PRIOR) for grid in self.classed.grids]
        slopes, curves = np.zeros(self.correlations.shape), 1e-9 * np.eye(2)
        for at, kind, grid, normal, posterior, use in self._each(some, 2 * _PRIOR):
            weights[int(self.classed.classes[at[0]])][use] += posterior.sum(0)
            more = kind.evidence(grid, normal.seen, self.correlations, self.seen[at], posterior)
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
    found, _variance = ShrunkGroups.learn(noisy, kinds, classed, Shown([shape])).moments()
    return np.rint(np.maximum(found, 0.0)).astype(np.int64)
