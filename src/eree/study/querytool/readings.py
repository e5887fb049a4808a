"""The variance of noise in tables of every dimension, as the query tool's Table 4 may be read.

A cube of errors is the orthogonal sum of its effects (see `survey/calibrate/effects.py`): with e_S
the squared length of the effect of the variables S, the squared errors of the table of variables T
sum to n / n_T times the sum of e_S over S within T.  So the 1,023 tables of ten variables are one
transform of the cube.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations
from math import comb, prod

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Ways to read "variance of noise by table dimension"; the first two are also simulated.
READINGS = ("centred", "uncentred", "by table", "by table, n - 1", "all cells together")


@dataclass(frozen=True)
class Tables:
    """All tables of a cube of some levels, by their number of variables."""

    levels: tuple[int, ...]

    @property
    def dimensions(self) -> range:
        """1 to the number of variables."""
        return range(1, len(self.levels) + 1)

    @cached_property
    def cells(self) -> Array:
        """The number of cells of all tables of each dimension together."""
        return np.array([sum(n for _, n in self._of(d)) for d in self.dimensions], dtype=float)

    @cached_property
    def multiplicity(self) -> Array:
        """The dimension of the space of every effect; sets of variables are bits of its place."""
        found = np.ones(1)
        for level in self.levels:
            found = np.concatenate([found, found * (level - 1)])
        return found

    def energies(self, errors: Array) -> Array:
        """The squared length of every effect in cubes of errors; the first axis counts cubes."""
        cubes = len(errors)
        now = np.moveaxis(np.asarray(errors, dtype=np.float64), 0, -1)
        # each product takes the first axis away and puts it last: after all, cubes come first
        for level in self.levels:
            now = now.reshape(level, -1).T @ _contrasts(level).T
        now = np.moveaxis((now * now).reshape(cubes, *self.levels), 0, -1)
        for level in self.levels:
            now = now.reshape(level, -1).T @ _shared(level).T
        whole = now.reshape([cubes, *[2] * len(self.levels)])
        # the first variable is the lowest bit
        return whole.transpose([0, *range(len(self.levels), 0, -1)]).reshape(cubes, -1)

    def pooled(self, energies: Array, *, centred: bool) -> Array:
        """For every dimension the mean square over the cells of all its tables.

        Centred, about the mean of each table: the effect of no variables is left out.
        """
        weights = self._weights.copy()
        if centred:
            weights[:, 0] = 0
        return np.asarray(energies @ weights.T / self.cells)

    def expected(self, left: Array) -> dict[str, Array]:
        """Every reading in expectation, where effects have a variance of `left` in each direction.

        "By table" is the mean over tables of the variance among a table's cells, with n or n - 1
        below; "all cells together" is the variance among all cells of all tables of a dimension.
        """
        energies = left * self.multiplicity
        found = {
            "centred": self.pooled(energies, centred=True),
            "uncentred": self.pooled(energies, centred=False),
        }
        n, sets = prod(self.levels), np.arange(len(energies))
        with_n, with_less = [], []
        for d in self.dimensions:
            about = []
            for axes, cells in self._of(d):
                inside = (sets & ~sum(1 << axis for axis in axes)) == 0
                about.append((n / cells * (energies[inside].sum() - energies[0]), cells))
            with_n.append(np.mean([square / cells for square, cells in about]))
            with_less.append(np.mean([square / (cells - 1) for square, cells in about]))
        total = n * energies[0]  # the variance of the sum over the cube
        tables = np.array([comb(len(self.levels), d) for d in self.dimensions])
        found["by table"] = np.array(with_n)
        found["by table, n - 1"] = np.array(with_less)
        found["all cells together"] = found["uncentred"] - (tables / self.cells) ** 2 * total
        return found

    def _of(self, dimension: int) -> list[tuple[tuple[int, ...], int]]:
        return [
            (axes, prod(self.levels[axis] for axis in axes))
            for axes in combinations(range(len(self.levels)), dimension)
        ]

    @cached_property
    def _weights(self) -> Array:
        """What each effect counts in the sum of squares of each dimension."""
        n = prod(self.levels)
        found = np.zeros((len(self.levels), 1 << len(self.levels)))
        sets = np.arange(1 << len(self.levels))
        for d in self.dimensions:
            for axes, cells in self._of(d):
                inside = (sets & ~sum(1 << axis for axis in axes)) == 0
                found[d - 1, inside] += n / cells
        return found


@cache
def _contrasts(level: int) -> Array:
    """An orthogonal matrix whose first row is constant."""
    start = np.eye(level)
    start[0] = 1
    found = np.linalg.qr(start.T)[0].T
    return np.asarray(found * np.sign(found[:, :1] + (found[:, :1] == 0)))


@cache
def _shared(level: int) -> Array:
    """Sums the squares of contrasts: that of the mean by itself, all others together."""
    found = np.zeros((2, level))
    found[0, 0] = found[1, 1:] = 1
    return found


def nearest_reading(expected: dict[str, Array], printed: Sequence[float]) -> str:
    """The reading whose expectation is nearest to printed figures, by mean relative distance."""
    told = np.array(printed)
    return min(
        expected, key=lambda name: float(np.abs(expected[name][: len(told)] / told - 1).mean())
    )
