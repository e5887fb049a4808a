"""Sums of a dense cube over some of its axes, and the way back, fast for millions of cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
#: Trailing axes are taken together up to about as many cells: long inner loops, small factors.
_BLOCK = 4096


@dataclass(frozen=True)
class Margin:
    """The sums of a cube of some levels over all axes but `kept`, which are in rising order."""

    levels: tuple[int, ...]
    kept: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The levels of the axes that are kept."""
        return tuple(self.levels[axis] for axis in self.kept)

    @cached_property
    def _leading(self) -> int:
        """How many axes come before the block of trailing axes."""
        leading, block = len(self.levels), 1
        while leading and block * self.levels[leading - 1] <= _BLOCK:
            leading -= 1
            block *= self.levels[leading]
        return leading

    def sums(self, cells: NDArray[Any]) -> NDArray[Any]:
        """The sums of all cells with the same values on the axes that are kept."""
        leading = self._leading
        lead, trail = self.levels[:leading], self.levels[leading:]
        wide = cells.reshape(*lead, prod(trail))
        dropped = tuple(axis for axis in range(leading) if axis not in self.kept)
        narrow = wide.sum(axis=dropped) if dropped else wide
        kept = tuple(self.levels[axis] for axis in self.kept if axis < leading)
        last = tuple(
            len(kept) + axis - leading
            for axis in range(leading, len(self.levels))
            if axis not in self.kept
        )
        return np.asarray(narrow.reshape(*kept, *trail).sum(axis=last))

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the margin as an array that multiplies or adds to `wide` of a cube."""
        leading = self._leading
        thin = values.reshape(
            [level if axis in self.kept else 1 for axis, level in enumerate(self.levels)]
        )
        lead, trail = thin.shape[:leading], self.levels[leading:]
        return np.ascontiguousarray(np.broadcast_to(thin, (*lead, *trail))).reshape(
            *lead, prod(trail)
        )

    def wide(self, cells: NDArray[Any]) -> NDArray[Any]:
        """A view of a whole cube in the shape that `spread` fits."""
        leading = self._leading
        return cells.reshape(*self.levels[:leading], prod(self.levels[leading:]))
