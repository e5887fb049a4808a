"""Sums of a dense cube over some of its axes, and the way back, fast for millions of cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.survey.shape import Shape

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


@dataclass(frozen=True)
class Table:
    """A table of a cube: one cell for each combination of the variables `by`, within filters.

    `where` gives for some variables the codes that count; a variable of `by` keeps only those, in
    the order of the cube.  Axes of the table are in the order of `by`.
    """

    shape: Shape
    by: tuple[str, ...]
    where: Mapping[str, tuple[str, ...]]

    def __init__(
        self,
        shape: Shape,
        by: Sequence[str] = (),
        where: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "by", tuple(by))
        object.__setattr__(self, "where", {k: tuple(v) for k, v in (where or {}).items()})
        if len(set(self.by)) < len(self.by):
            raise Refusal("a table names each of its variables once")
        shape.axes(self.by)
        for name, codes in self.where.items():
            known = shape.variable(name).codes
            if missing := [code for code in codes if code not in known]:
                raise Refusal(f"the variable {name!r} has no code {missing[0]!r}")

    @cached_property
    def places(self) -> tuple[NDArray[np.intp], ...]:
        """For each axis of the cube, the places of the codes that count."""
        return tuple(
            np.array(
                [
                    place
                    for place, code in enumerate(variable.codes)
                    if code in self.where.get(variable.name, variable.codes)
                ],
                dtype=np.intp,
            )
            for variable in self.shape.variables
        )

    @cached_property
    def sizes(self) -> tuple[Whole, ...]:
        """For each axis of the cube, how many codes each group of the table has."""
        by = set(self.shape.axes(self.by))
        return tuple(
            np.ones(len(places), dtype=np.int64) if axis in by else np.array([len(places)])
            for axis, places in enumerate(self.places)
        )

    def sums(self, cells: NDArray[Any]) -> NDArray[Any]:
        """The cells of the table: sums of the cube's."""
        for axis, places in enumerate(self.places):
            if len(places) < self.shape.levels[axis]:
                cells = cells.take(places, axis=axis)
        axes = self.shape.axes(self.by)
        found = Margin(cells.shape, tuple(sorted(axes))).sums(cells)
        return self.ordered(found)

    def ordered(self, values: NDArray[Any]) -> NDArray[Any]:
        """An array over the variables of the table in the cube's order, put in that of `by`."""
        axes = self.shape.axes(self.by)
        rank = sorted(axes)
        return values.transpose([rank.index(axis) for axis in axes])
