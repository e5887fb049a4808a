"""Staircase mechanisms for tests: right ones, and ones with a fault of their own."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from cases import made
from eree.mechanisms.staircase.density import StaircaseDensities
from eree.mechanisms.staircase.leaning_staircase import LeaningStaircase
from eree.mechanisms.staircase.pieces import Table

NAME = "leaning-staircase"


def staircase(alpha: str | Fraction = "0.1", epsilon: str | Fraction = "2") -> LeaningStaircase:
    chosen = made(NAME, alpha, epsilon)
    assert isinstance(chosen, LeaningStaircase)
    return chosen


def probabilities_of(chosen: LeaningStaircase, size: int, most: int) -> np.ndarray:
    """P(K = k) for |k| <= most, from the pieces that are drawn from."""
    densities = chosen.densities
    size_bin = densities.grid.bin_of(size)
    (table,) = densities.tables(np.array([densities.shape_of(size_bin)[0]]))
    edges, masses = table.edges * densities.scale(size_bin), table.density * np.diff(table.edges)
    ends = np.arange(-most, most + 2) - 0.5
    below = np.interp(ends, edges, np.append(0.0, np.cumsum(masses)))
    above = np.interp(ends, edges, np.append(np.cumsum(masses[::-1])[::-1], 0.0))
    return np.where(ends[1:] < 0, np.diff(below), -np.diff(above))  # small ones keep their digits


class Broken(LeaningStaircase):
    """The mechanism with other densities."""

    @property
    def densities(self) -> StaircaseDensities:
        made: StaircaseDensities = self.__dict__["broken"]
        return made


def broken(densities: StaircaseDensities) -> Broken:
    sound = staircase()
    found = Broken(sound.guarantee, sound.right, sound.left, sound.drop, sound.levels)
    found.__dict__["broken"] = densities
    return found


def with_distribution(size: int, change: Callable[[Table], Table]) -> Broken:
    """The mechanism, but the distribution of one size is another one."""
    sound = staircase().densities
    tables = sound.tables(np.arange(sound.levels.last + 1))
    densities = StaircaseDensities(sound.grid, sound.drop, sound.levels)
    densities.__dict__["_tables"] = dict(enumerate(tables)) | {size: change(tables[size])}
    return broken(densities)
