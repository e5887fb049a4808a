"""Leaning staircases for tests: right ones, and ones with a fault of their own."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from cases import made
from eree.mechanisms.staircase.density import LeaningStairs
from eree.mechanisms.staircase.leaning_staircase import LeaningStaircase
from eree.mechanisms.staircase.pieces import Table

NAME = "leaning-staircase"


def leaning(alpha: str | Fraction = "0.1", epsilon: str | Fraction = "2") -> LeaningStaircase:
    chosen = made(NAME, alpha, epsilon)
    assert isinstance(chosen, LeaningStaircase)
    return chosen


def chances(chosen: LeaningStaircase, size: int, most: int) -> np.ndarray:
    """P(K = k) for |k| <= most, from the pieces that are drawn from."""
    stairs = chosen.stairs
    rung = stairs.ladder.rung_of(size)
    (table,) = stairs.tables(np.array([stairs.shape_of(rung)[0]]))
    edges, masses = table.edges * stairs.scale(rung), table.density * np.diff(table.edges)
    ends = np.arange(-most, most + 2) - 0.5
    below = np.interp(ends, edges, np.append(0.0, np.cumsum(masses)))
    above = np.interp(ends, edges, np.append(np.cumsum(masses[::-1])[::-1], 0.0))
    return np.where(ends[1:] < 0, np.diff(below), -np.diff(above))  # small ones keep their digits


class Broken(LeaningStaircase):
    """The mechanism with other laws."""

    @property
    def stairs(self) -> LeaningStairs:
        made: LeaningStairs = self.__dict__["broken"]
        return made


def broken(stairs: LeaningStairs) -> Broken:
    sound = leaning()
    found = Broken(sound.guarantee, sound.right, sound.left, sound.drop, sound.heights)
    found.__dict__["broken"] = stairs
    return found


def with_law(size: int, change: Callable[[Table], Table]) -> Broken:
    """The mechanism, but the law of one size is another one."""
    sound = leaning().stairs
    tables = sound.tables(np.arange(sound.heights.last + 1))
    stairs = LeaningStairs(sound.ladder, sound.drop, sound.heights)
    stairs.__dict__["_tables"] = dict(enumerate(tables)) | {size: change(tables[size])}
    return broken(stairs)
