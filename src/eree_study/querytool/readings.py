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
from math import prod

import numpy as np

from eree.random.exact import Array

#: Ways to read "variance of noise by table dimension".
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
        return np.array([sum(n for _, n in self.of(d)) for d in self.dimensions], dtype=float)

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
        # each step takes the first axis away and puts it last: after all, cubes come first
        for level in self.levels:
            rows = now.reshape(level, -1)
            now = np.empty((rows.shape[1], level))
            for k, contrast in enumerate(_contrasts(level)):
                now[:, k] = sum(weight * row for weight, row in zip(contrast, rows, strict=True))
        now = np.moveaxis((now * now).reshape(cubes, *self.levels), 0, -1)
        for level in self.levels:
            rows = now.reshape(level, -1)
            now = np.stack([rows[0], rows[1:].sum(axis=0)], axis=1)
        whole = now.reshape([cubes, *[2] * len(self.levels)])
        # the first variable is the lowest bit
        return whole.transpose([0, *range(len(self.levels), 0, -1)]).reshape(cubes, -1)

    def figures(self, energies: Array, reading: str) -> Array:
        """What a reading makes of energies: a figure for every dimension."""
        return np.asarray(energies @ _weights(self)[reading].T)

    def expected(self, left: Array) -> dict[str, Array]:
        """Every reading in expectation, where effects have a variance of `left` in each direction.

        "Centred" and "uncentred" are mean squares over the cells of all tables of a dimension,
        about the mean of each table or about zero.  "By table" is the mean over tables of the
        variance among a table's cells, with n or n - 1 below; "all cells together" the variance
        among all cells of all tables of a dimension.
        """
        energies = left * self.multiplicity
        return {reading: self.figures(energies, reading) for reading in READINGS}

    def of(self, dimension: int) -> list[tuple[tuple[int, ...], int]]:
        """The tables of a dimension: their variables, and how many cells they have."""
        return [
            (axes, prod(self.levels[axis] for axis in axes))
            for axes in combinations(range(len(self.levels)), dimension)
        ]


@cache
def _weights(tables: Tables) -> dict[str, Array]:
    """For every reading, what each effect counts in the figure of each dimension."""
    n, sets = prod(tables.levels), np.arange(1 << len(tables.levels))
    found = {name: np.zeros((len(tables.levels), len(sets))) for name in READINGS}
    for d in tables.dimensions:
        of_d, cells = tables.of(d), tables.cells[d - 1]
        for axes, size in of_d:
            inside = (sets & ~sum(1 << axis for axis in axes)) == 0
            squares = inside * (n / size)  # of the errors of the table
            found["uncentred"][d - 1] += squares / cells
            found["by table"][d - 1] += squares / size / len(of_d)
            found["by table, n - 1"][d - 1] += squares / (size - 1) / len(of_d)
        found["centred"][d - 1] = found["uncentred"][d - 1]
        found["all cells together"][d - 1] = found["uncentred"][d - 1]
        # the mean of all cells is their number of tables times the sum over the cube
        found["all cells together"][d - 1, 0] -= n * (len(of_d) / cells) ** 2
    for name in ("centred", "by table", "by table, n - 1"):
        found[name][:, 0] = 0  # about each table's mean: the effect of no variables goes
    return found


@cache
def _contrasts(level: int) -> Array:
    """An orthogonal matrix whose first row is constant."""
    start = np.eye(level)
    start[0] = 1
    found = np.linalg.qr(start.T)[0].T
    return np.asarray(found * np.sign(found[:, :1] + (found[:, :1] == 0)))


def nearest_reading(expected: dict[str, Array], printed: Sequence[float]) -> str:
    """The reading whose expectation is nearest to printed figures, by mean relative distance."""
    known = np.array(printed)
    return min(
        expected, key=lambda name: float(np.abs(expected[name][: len(known)] / known - 1).mean())
    )
