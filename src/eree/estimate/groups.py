"""Estimates of the worker cells of groups from their noisy counts, shrunk to what is usual.

Everything is computed from noisy counts and public facts: which kind of workplaces a group has (its
sector and ownership, say) and how many.  So it is post-processing: what the guarantee says of the
noisy counts it says of the estimates, and nothing is paid.

The model of a group with n workers at m workplaces, x of them at the largest:

- usual shares p of its kind, from sums of noisy counts, in which noise averages out;
- the workers of a workplace of y differ from y p by chance, which adds y times the covariance of
  one worker, and by habit, which adds y^2 times a covariance that all workplaces share.  It has one
  number for each set of worker attributes, as in the analysis of variance: for sex, for education,
  for both together.  So with Q the sum of squared sizes, a group differs by n times the first and
  by Q times the second;
- noise of the mechanism at the size x, taken for normal of its variance;
- the chances of x and n are weights of points of a grid, by class of groups.

Weights and habits are those under which the noisy counts of many groups are most likely, found by
expectation and maximization.  An estimate is the mean of a count given the noisy counts of its
group.  Nothing was tuned on data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from eree.estimate.grids import Classed, Grid
from eree.noise.exact import Whole

Array = NDArray[np.float64]

#: Weights and habits are learnt from so many groups, taken evenly from all, in so many rounds.
_LEARN_FROM, _ROUNDS = 6_000, 12
#: What every point of the grid counts beforehand, in groups.  While learning, points that no group
#: adds as much to are left out; groups that were not learnt from may need them.
_BEFOREHAND = 0.02
_FIRST_HABIT, _LEAST_HABIT = 0.05, 1e-5
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


def usual_shares(noisy: Array, kinds: Whole) -> Array:
    """Shares of every kind from sums of noisy counts, drawn to those of all where noise is large.

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
class _Law:
    """The law of the noisy counts of a kind at the points of a grid, and the estimates there."""

    mean: Array  # (points, d), of the noisy counts
    precision: Array  # (points, d, d)
    gain: Array  # (points, d, d), what noisy counts are multiplied by
    offset: Array  # (points, d), and what is added
    log_size: Array  # (points,), the logarithm of the density at its middle

    def log_chances(self, noisy: Array) -> Array:
        """The logarithm of the density of noisy counts, for every group and point."""
        d = noisy.shape[1]
        pairs = (noisy[:, :, None] * noisy[:, None, :]).reshape(-1, d * d)
        pulled = (self.precision @ self.mean[:, :, None])[:, :, 0]
        squares = pairs @ self.precision.reshape(-1, d * d).T + (pulled * self.mean).sum(1)
        found: Array = noisy @ pulled.T - squares / 2 + self.log_size
        return found

    def estimates(self, noisy: Array, chances: Array) -> Array:
        """Estimates of groups for which the points have these chances."""
        d = noisy.shape[1]
        gain = (chances @ self.gain.reshape(-1, d * d)).reshape(-1, d, d)
        found: Array = (gain @ noisy[:, :, None])[:, :, 0] + chances @ self.offset
        return found


@dataclass(frozen=True)
class _Kind:
    """The usual shares of a kind, and how its groups differ."""

    shares: Array
    factors: Sequence[Array]

    def at(self, grid: Grid, habits: Array) -> _Law:
        """The law at the points of a grid."""
        spread = grid.spread[:, None, None] * np.outer(self.shares, self.shares)
        for one, habit in zip(self.factors, habits, strict=True):
            spread = spread + (grid.habit * habit + grid.n)[:, None, None] * (one @ one.T)
        whole = spread + grid.noise[:, None, None] * np.eye(self.shares.size)
        precision: Array = np.linalg.inv(whole).astype(np.float64)
        gain, mean = spread @ precision, grid.n[:, None] * self.shares
        offset = mean - (gain @ mean[:, :, None])[:, :, 0]
        return _Law(mean, precision, gain, offset, -np.linalg.slogdet(whole)[1] / 2)

    def evidence(
        self, grid: Grid, law: _Law, habits: Array, noisy: Array, chances: Array
    ) -> tuple[Array, Array]:
        """What groups say of the habits: sums above and below a bar, one for each habit.

        By the rules of expectation and maximization: the mean square of each contrast given the
        noisy counts, less chance, over Q, weighted by how much of it is habit.
        """
        d, weight = noisy.shape[1], chances.sum(0)
        pairs = (noisy[:, :, None] * noisy[:, None, :]).reshape(-1, d * d)
        cross = (chances.T @ noisy)[:, :, None] * law.mean[:, None, :]
        about = (chances.T @ pairs).reshape(-1, d, d) - cross - cross.swapaxes(1, 2)
        about += weight[:, None, None] * law.mean[:, :, None] * law.mean[:, None, :]
        above, below = np.zeros(len(habits)), np.zeros(len(habits))
        some = grid.habit > 0
        for i, one in enumerate(self.factors):
            rank, variance = one.shape[1], grid.habit * habits[i] + grid.n
            pulled = law.precision @ one  # (points, d, rank)
            seen = ((about @ pulled) * pulled).sum((1, 2)) * variance**2
            left = variance * rank - variance**2 * (one * pulled).sum((1, 2))
            size = (seen + weight * left) / rank - weight * grid.n
            trust = (grid.habit * habits[i] / np.maximum(variance, 1e-9)) ** 2
            above[i] = (trust * size / np.maximum(grid.habit, 1e-9))[some].sum()
            below[i] = (trust * weight)[some].sum()
        return above, below


@dataclass(frozen=True)
class ShrunkGroups:
    """What was learnt from the noisy counts of many groups.

    `habits` has, for each set of worker attributes in turn, how alike two workers of one workplace
    are (an intra-class correlation): the last attribute alone comes first, all together last.
    `weights` has how many groups each point of a grid stands for.
    """

    noisy: Array
    kinds: Whole
    classed: Classed
    known: Sequence[_Kind]
    weights: Sequence[Array]
    habits: Array

    @classmethod
    def learn(
        cls, noisy: Whole, kinds: Whole, classed: Classed, shape: Sequence[int]
    ) -> ShrunkGroups:
        """Learn from noisy counts, a row for each group; kinds are numbers from 0 on.

        `shape` has the number of values of each worker attribute, in the order of the columns.
        """
        counts = noisy.astype(np.float64)
        known = [_Kind(shares, factors(shares, shape)) for shares in usual_shares(counts, kinds)]
        weights = [np.ones(len(grid.x)) for grid in classed.grids]
        habits = np.full(len(known[0].factors), _FIRST_HABIT)
        model = cls(counts, kinds, classed, known, weights, habits)
        some = np.arange(0, len(counts), max(1, -(-len(counts) // _LEARN_FROM)))
        for _ in range(_ROUNDS):
            model = model._better(some)
        return model

    def estimates(self) -> Array:
        """The mean of every count given the noisy counts of its group."""
        found = np.empty_like(self.noisy)
        for at, _kind, _grid, law, chances, _use in self._each(np.arange(len(found))):
            found[at] = law.estimates(self.noisy[at], chances)
        return found

    def _each(
        self, some: Whole, least: float = 0.0
    ) -> Iterator[tuple[Whole, _Kind, Grid, _Law, Array, NDArray[np.intp]]]:
        """Groups of one kind and class, and how likely each point of their grid is for each."""
        kinds, classes = self.kinds[some], self.classed.classes[some]
        order = np.lexsort((classes, kinds))
        key = kinds[order] * len(self.classed.grids) + classes[order]
        for part in np.split(some[order], np.flatnonzero(np.diff(key)) + 1):
            if not part.size:
                continue
            kind, c = self.known[self.kinds[part[0]]], int(self.classed.classes[part[0]])
            use = np.flatnonzero(self.weights[c] >= least)
            grid = self.classed.grids[c].only(use)
            law, beforehand = kind.at(grid, self.habits), np.log(self.weights[c][use])
            for start in range(0, len(part), _AT_ONCE):
                at = part[start : start + _AT_ONCE]
                chances = law.log_chances(self.noisy[at]) + beforehand
                chances = np.exp(chances - chances.max(1, keepdims=True))
                chances /= chances.sum(1, keepdims=True)
                yield at, kind, grid, law, chances, use

    def _better(self, some: Whole) -> ShrunkGroups:
        """One round of expectation and maximization."""
        weights = [np.full(len(grid.x), _BEFOREHAND) for grid in self.classed.grids]
        above, below = np.zeros(len(self.habits)), np.zeros(len(self.habits))
        for at, kind, grid, law, chances, use in self._each(some, 2 * _BEFOREHAND):
            weights[int(self.classed.classes[at[0]])][use] += chances.sum(0)
            more = kind.evidence(grid, law, self.habits, self.noisy[at], chances)
            above, below = above + more[0], below + more[1]
        habits = np.maximum(above / np.maximum(below, 1e-9), _LEAST_HABIT)
        return replace(self, weights=weights, habits=habits)


def shrunk_counts(noisy: Whole, kinds: Whole, classed: Classed, shape: Sequence[int]) -> Whole:
    """Whole counts of at least 0 whose errors are smaller than those of the noisy ones, on average.

    Noisy counts have a row for each group.
    """
    if not len(noisy):
        return noisy
    found = ShrunkGroups.learn(noisy, kinds, classed, shape).estimates()
    return np.rint(np.maximum(found, 0.0)).astype(np.int64)
