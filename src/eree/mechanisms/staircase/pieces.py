"""Distributions of the staircase in doubles: their pieces, their moments and their tails.

Means and central moments of asymmetric distributions that are cut off, for bounds of their sums.

A distribution is cut off where the point before rounding leaves a probability outside on each side;
what lies beyond counts as 0.  Moments are given as norms: the n-th root of the size of the n-th
moment.  Every number is raised by more than doubles are off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from eree.mechanisms.intervals import CutMoments
from eree.random.exact import Array

#: A bound of the error of doubles, as a share of what is added up.
_OFF = 1e-9


def cut_moments(up: Array, down: Array, norms: Array) -> CutMoments:
    """From bounds of the means, above and below, and norms, from the smallest size on."""
    slack = _OFF * norms[0] + 1e-12
    above, below = (np.maximum.accumulate(np.maximum(m + slack, 0.0)) for m in (up, down))
    return CutMoments(above, below, np.maximum.accumulate(norms, axis=1))


def integer_moments(
    table: Table, scale: float, cut: tuple[float, float], orders: Array
) -> tuple[float, Array]:
    """The mean and the norms of the number drawn, if its point is cut off at some distances."""
    edges, low, high = table.edges * scale, -cut[0] * scale, cut[1] * scale
    masses = np.append(0.0, np.cumsum(table.density * np.diff(table.edges)))
    numbers = np.arange(np.rint(low), np.rint(high) + 1)
    ends = np.clip(np.append(numbers - 0.5, numbers[-1] + 0.5), low, high)
    return _central(numbers, np.diff(np.interp(ends, edges, masses)), orders)


def _central(numbers: Array, probabilities: Array, orders: Array) -> tuple[float, Array]:
    """The mean of numbers and the norms of their differences from it; the rest is at 0."""
    numbers = np.append(numbers, 0.0)
    probabilities = np.append(probabilities, max(1 - probabilities.sum(), 0.0))
    mean = float(numbers @ probabilities)
    away = numbers - mean
    unit = float(np.abs(away).max())
    if unit == 0:
        return mean, np.zeros(len(orders))
    norms = np.empty(len(orders))
    for i, power in enumerate(_powers(away / unit, orders)):
        size = abs(float(power @ probabilities)) + _OFF * float(np.abs(power) @ probabilities)
        norms[i] = unit * size ** (1 / orders[i])
    return mean, norms


def _powers(numbers: Array, orders: Array) -> Iterator[Array]:
    """Numbers to the powers of rising orders, each from the one before by a multiplication.

    Numbers of size 1 at most, so that an error grows by no more than 2^-52 an order.
    """
    power, steps = numbers ** orders[0], np.diff(orders)
    factor = {float(step): numbers**step for step in np.unique(steps)}
    yield power
    for step in steps:
        power = power * factor[float(step)]
        yield power


def point_moments(
    table: Table, cut: tuple[float, float], orders: Array
) -> tuple[float, Array, Array]:
    """The same for the point itself; then the norms of its distance from the mean."""
    edges = np.unique(np.clip(np.append(table.edges, 0.0), -cut[0], cut[1]))
    middle = (edges[1:] + edges[:-1]) / 2
    density = table.density[np.searchsorted(table.edges, middle) - 1]
    rest = max(1 - float((density * np.diff(edges)).sum()), 0.0)
    mean = float((density * np.diff(edges) * middle).sum())
    edges, unit = edges - mean, float(np.abs(edges - mean).max())
    signed, sizes = np.zeros((2, len(orders)))
    if not unit:  # cut off at zero on both sides: nothing is left but zero
        return mean, signed, sizes
    for i, (order, raised) in enumerate(
        zip(orders, _powers(edges / unit, orders + 1), strict=True)
    ):
        power = raised / (order + 1)
        size = (
            np.diff(np.abs(power) * np.sign(edges)) @ density * unit
            + rest * abs(mean / unit) ** order
        )
        value = np.diff(power) @ density * unit + rest * (-mean / unit) ** order
        signed[i] = unit * (abs(value) + _OFF * size) ** (1 / order)
        sizes[i] = unit * (size * (1 + _OFF)) ** (1 / order)
    return mean, signed, sizes


def scaled_norms(signed: Array, sizes: Array, scales: Array, orders: Array) -> Array:
    """Norms of the integers nearest to a point that is scaled up, one column for each scale.

    Rounding moves a point by a half at most, and its distance from the mean by a number of mean 0
    that stays within 1, the square of which is a quarter on average; Minkowski does the rest.
    """
    order = orders[:, None]
    far, own = sizes[:, None], signed[:, None]
    moved = (0.25 ** (1 / order)) / scales
    norm = own**order + (far + moved) ** order - far**order
    found: Array = (norm * (1 + _OFF)) ** (1 / order) * scales
    return found


#: Logarithms of probabilities lie between minus this and 0.
_DEPTH = 100.0


@dataclass(frozen=True, eq=False)
class Table:
    """The distribution of a bin in doubles: pieces of a density from the lowest to the highest.

    `edges` has one more than `density`; `below` is the probability up to the left edge of each
    piece and `above` that beyond its right edge, both without what lies beyond all pieces, of which
    `tail_bound` is a bound.
    """

    edges: Array
    density: Array
    below: Array
    above: Array
    tail_bound: float

    def moments(self, scale: float) -> tuple[float, float, float]:
        """The means of the size, of the number itself, and of its square, after rounding."""
        first, second = _rounded_integrals(self.edges * scale)
        weight = self.density / scale
        runs, squares = np.diff(first), np.diff(second)
        # the density that crosses zero is split there, where both integrals are 0
        sizes = np.diff(np.sign(self.edges) * first)
        return (
            float((weight * sizes).sum()),
            float((weight * runs).sum()),
            float((weight * squares).sum()),
        )

    def outside(self, away: float) -> float:
        """The probability of a point that is further from zero than some distance."""
        inside = np.clip(self.edges, -away, away)
        return 1 - float((np.diff(inside) * self.density).sum())

    def quantile(self, level: float, scale: float) -> int | None:
        """The least Q with the number within Q with probability `level`; None if in doubt."""
        high = int(np.abs(self.edges[[0, -1]]).max() * scale) + 1
        low = -1
        while high - low > 1:
            middle = (low + high) // 2
            spare = 1 - level - self.outside((middle + 0.5) / scale)
            if abs(spare) < 1e-9:
                return None
            low, high = (low, middle) if spare > 0 else (middle, high)
        return high


def _rounded_integrals(edges: Array) -> tuple[Array, Array]:
    """The integrals from 0 of the nearest integer and of its square."""
    y = np.abs(edges)
    k = np.floor(y + 0.5)
    rest = y - (k - 0.5)
    first = k * (k - 1) / 2 + k * rest
    second = (k - 1) * k * (2 * k - 1) / 6 + k * k * rest
    return first, np.sign(edges) * second


@dataclass(frozen=True, eq=False)
class Tails:
    """The tails of so many distributions, end to end, so that all are looked up at once.

    Each side has four rows, with a number for each piece: the logarithm of the probability outside,
    raised by `_DEPTH` for each distribution, that probability, the edge there, and the density.
    """

    below: Array
    above: Array
    number: int

    @classmethod
    def of(cls, tables: Sequence[Table]) -> Tails:
        """Of some tables, in their order."""
        return cls(_outwards(tables, False), _outwards(tables, True), len(tables))

    def points(self, probability: float) -> tuple[Array, Array]:
        """How far from zero, below and above, a probability is left outside, for each bin."""
        probability *= 1 - 1e-9
        found = []
        for key, outside, edge, density in (self.below, self.above):
            wanted = _DEPTH * np.arange(1, self.number + 1) + np.log(probability)
            i = np.searchsorted(key, wanted, side="right") - 1
            found.append(edge[i] - np.maximum(probability - outside[i], 0.0) / density[i])
        return found[0], found[1]


def _outwards(tables: Sequence[Table], above: bool) -> Array:
    """One side of some distributions, each from its furthest piece inwards."""
    outside = [t.above[::-1] if above else t.below for t in tables]
    edge = [t.edges[:0:-1] if above else -t.edges[:-1] for t in tables]
    density = [t.density[::-1] if above else t.density for t in tables]
    probabilities: Array = np.concatenate(outside)
    number = np.repeat(np.arange(1.0, len(tables) + 1), [len(part) for part in outside])
    key: Array = _DEPTH * number + np.log(np.maximum(probabilities, np.exp(1 - _DEPTH)))
    return np.stack([key, probabilities, np.concatenate(edge), np.concatenate(density)])
