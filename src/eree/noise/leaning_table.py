"""Laws of a leaning staircase in doubles: their pieces, their moments and their tails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Logarithms of chances lie between minus this and 0.
_DEPTH = 100.0


@dataclass(frozen=True, eq=False)
class Table:
    """The law of a rung in doubles: pieces of a density from the lowest to the highest.

    `edges` has one more than `density`; `below` is the chance up to the left edge of each piece and
    `above` that beyond its right edge, both without what lies beyond all pieces, of which `beyond`
    is a bound.
    """

    edges: Array
    density: Array
    below: Array
    above: Array
    beyond: float

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
        """The chance of a point that is further from zero than some distance."""
        inside = np.clip(self.edges, -away, away)
        return 1 - float((np.diff(inside) * self.density).sum())

    def quantile(self, level: float, scale: float) -> int | None:
        """The least Q such that the number is within Q with a chance; None where there is doubt."""
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
    """The integrals from 0 of the nearest whole number and of its square."""
    y = np.abs(edges)
    k = np.floor(y + 0.5)
    rest = y - (k - 0.5)
    first = k * (k - 1) / 2 + k * rest
    second = (k - 1) * k * (2 * k - 1) / 6 + k * k * rest
    return first, np.sign(edges) * second


@dataclass(frozen=True, eq=False)
class Tails:
    """The tails of many laws, end to end, so that all are looked up at once.

    For each side and piece: the logarithm of the chance outside, raised by `_DEPTH` for each law,
    the edge there, and the density.
    """

    tables: Sequence[Table]
    key: tuple[Array, ...]
    outside: tuple[Array, ...]
    edge: tuple[Array, ...]
    density: tuple[Array, ...]

    @classmethod
    def of(cls, tables: Sequence[Table]) -> Tails:
        """Of some tables, in their order."""
        parts = [_outwards(tables, above) for above in (False, True)]
        key, outside, edge, density = zip(*parts, strict=True)
        return cls(tables, key, outside, edge, density)

    def points(self, chance: float) -> tuple[Array, Array]:
        """How far below and above zero a chance is left outside, for all laws."""
        chance *= 1 - 1e-9
        found = []
        for key, outside, edge, density in zip(
            self.key, self.outside, self.edge, self.density, strict=True
        ):
            wanted = _DEPTH * np.arange(1, len(self.tables) + 1) + np.log(chance)
            i = np.searchsorted(key, wanted, side="right") - 1
            found.append(edge[i] - np.maximum(chance - outside[i], 0.0) / density[i])
        return found[0], found[1]


def _outwards(tables: Sequence[Table], above: bool) -> tuple[Array, Array, Array, Array]:
    """One side of some laws, each from its furthest piece inwards."""
    outside = [t.above[::-1] if above else t.below for t in tables]
    edge = [t.edges[:0:-1] if above else -t.edges[:-1] for t in tables]
    density = [t.density[::-1] if above else t.density for t in tables]
    chance: Array = np.concatenate(outside)
    law = np.repeat(np.arange(1.0, len(tables) + 1), [len(part) for part in outside])
    key: Array = _DEPTH * law + np.log(np.maximum(chance, np.exp(1 - _DEPTH)))
    return key, chance, np.concatenate(edge), np.concatenate(density)
