"""Sums of a dense cube over some of its axes, and the way back, fast for millions of cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
#: Trailing axes are taken together up to about as many cells: long inner loops, small factors.
_BLOCK = 4096
#: The same for the last of the sums, where loops may be shorter.
_INNER = 64
#: Places of at most so many cells are kept in memory.
_REMEMBERED = 1 << 20


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
        now = np.asarray(cells)
        for shape, dropped in _steps(self.levels, self.kept):
            now = np.add.reduce(now.reshape(shape), axis=dropped)
        return now.reshape(self.shape)

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the margin as an array that multiplies or adds to `wide` of a cube."""
        if self._places is not None:
            return np.asarray(values).take(self._places)
        return self._filled(np.asarray(values))

    @cached_property
    def _places(self) -> NDArray[np.intp] | None:
        """For every cell that `spread` fills its place in the margin, unless they are too many."""
        places = np.arange(prod(self.shape))
        block = self.levels[self._leading :]
        return self._filled(places) if places.size * prod(block) <= _REMEMBERED else None

    def _filled(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values repeated along the block of trailing axes, unless all of it has the same."""
        leading = self._leading
        thin = values.reshape(
            [level if axis in self.kept else 1 for axis, level in enumerate(self.levels)]
        )
        lead, trail = thin.shape[:leading], self.levels[leading:]
        if not any(axis >= leading for axis in self.kept):
            return thin.reshape(*lead, 1)
        whole = np.broadcast_to(thin, (*lead, *trail))
        return np.ascontiguousarray(whole).reshape(*lead, prod(trail))

    def wide(self, cells: NDArray[Any]) -> NDArray[Any]:
        """A view of a whole cube in the shape that `spread` fits."""
        leading = self._leading
        return cells.reshape(*self.levels[:leading], prod(self.levels[leading:]))

    def scale(self, cells: NDArray[Any], factor: NDArray[Any]) -> None:
        """Multiply all cells by the factor that the margin has for them."""
        view = self.wide(cells)
        view *= self.spread(factor)

    def at(self, places: NDArray[np.intp]) -> FewMargin:
        """The margin of some cells, named by their places in the flat cube; all others are 0."""
        codes = np.unravel_index(places, self.levels)
        kept = tuple(codes[axis] for axis in self.kept)
        home = np.ravel_multi_index(kept, self.shape) if kept else np.zeros_like(places)
        return FewMargin(np.asarray(home), self.shape)


@lru_cache(maxsize=1 << 12)
def _steps(
    levels: tuple[int, ...], kept: tuple[int, ...]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Shapes and axes to sum over, in turn: outer axes first, over long inner runs."""
    found, left = [], list(enumerate(levels))
    for block in (_BLOCK, _INNER, 1):
        inner = len(left)
        while inner and prod(level for _, level in left[inner - 1 :]) <= block:
            inner -= 1
        groups: list[tuple[bool, int]] = []  # neighbours of one kind are one axis
        for axis, level in left[:inner]:
            stays = axis in kept
            if groups and groups[-1][0] == stays:
                level *= groups.pop()[1]
            groups.append((stays, level))
        dropped = tuple(k for k, (stays, _) in enumerate(groups) if not stays)
        if dropped:
            rest = prod(level for _, level in left[inner:])
            found.append(((*(level for _, level in groups), rest), dropped))
            left = [pair for k, pair in enumerate(left) if k >= inner or pair[0] in kept]
    return found


@dataclass(frozen=True, eq=False)
class FewMargin:
    """A margin of a cube of which only a few cells, in a flat array, are not 0."""

    places: NDArray[np.intp]
    shape: tuple[int, ...]

    def sums(self, cells: NDArray[Any]) -> NDArray[Any]:
        """The sums of all cells with the same values on the axes that are kept."""
        found = np.bincount(self.places, weights=cells, minlength=prod(self.shape))
        return found.reshape(self.shape)

    def scale(self, cells: NDArray[Any], factor: NDArray[Any]) -> None:
        """Multiply all cells by the factor that the margin has for them."""
        cells *= factor.take(self.places)
