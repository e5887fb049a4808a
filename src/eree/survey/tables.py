"""Tables of a cube: sums of its cells over some variables, exact, whatever is asked.

A table is always summed up from the cells, so that tables agree with each other: the same cells
give the same figure in every table, and a table summed over a variable is the coarser table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import prod

import numpy as np

from eree.errors import Refusal
from eree.survey.query import Axis, Groups, Query, Side, whole_side
from eree.survey.shape import Integers, Shape

#: From here on a stretch of memory is long, and numpy adds it up at its best speed.
LONG = 32
#: The most cells of coarser cubes that are kept beside one: 128 MB.
MOST_KEPT = 1 << 24
#: The most cells of a small cube of some variables, and of all that are kept: 32 MB.
SMALL, MOST_SMALL = 1 << 16, 1 << 22


@dataclass(frozen=True, repr=False, eq=False)
class Table:
    """The answer to a query: a figure for every combination of its axes' codes.

    Of a confidential cube it is confidential, so printing it shows its axes only.
    """

    axes: tuple[Axis, ...]
    values: Integers = field(repr=False)

    def __repr__(self) -> str:
        sides = " x ".join(f"{axis.name} ({len(axis.codes)})" for axis in self.axes)
        return f"<Table of {sides or 'one figure'}>"


def table(shape: Shape, cells: Integers, query: Query) -> Table:
    """One table of a cube's cells; for many of them, make a `Tabulator`."""
    return Tabulator(shape, cells).table(query)


class Tabulator:
    """Answers queries about the cells of a cube, which it holds in an order that makes it fast.

    The longest axes come first, so that most sums run over long stretches of memory.  Sums over one
    axis are kept once they were needed, and so are small cubes of the variables that a question is
    about.

    Args:
        shape: The shape of the cube.
        cells: Its cells, whose absolute values add up to less than 2^63: then no sum overflows.

    Examples:
        >>> cube = eree.ProtectedCube.open("public")
        >>> eree.Tabulator(cube.shape, cube.noisy).table(eree.Query(["licence"])).values.shape
        (2,)
    """

    def __init__(self, shape: Shape, cells: Integers) -> None:
        if cells.shape != shape.levels or cells.dtype != np.int64:
            raise Refusal("tables are made of integers, one for each cell of the shape")
        if _absolute_sum(cells) >= 1 << 63:
            raise Refusal("the cells are too large for their sums to be exact in 64 bits")
        self.shape = shape
        self._order = sorted(range(len(shape.levels)), key=lambda axis: -shape.levels[axis])
        self._cells = np.array(cells.transpose(self._order), order="C")  # always a copy
        self._cells.flags.writeable = False
        self._sums: dict[int, Integers] = {}
        self._small: dict[tuple[int, ...], Integers] = {}
        self._held = 0

    def __repr__(self) -> str:
        return f"<Tabulator of {self.shape.size:,} cells>"

    def table(self, query: Query) -> Table:
        """The table that a query asks for; its values cannot be written to."""
        wanted, sides = self.shape.axes(query.by), query.sides(self.shape)
        used = tuple(place for place, axis in enumerate(self._order) if not sides[axis].whole)
        small = self._of(used)
        if small is not None:
            values = _picked(small, [sides[self._order[place]] for place in used])
        else:
            values = self._summed(used, [sides[axis] for axis in self._order])
        kept = [axis for axis in self._order if sides[axis].shown is not None]
        values = values.transpose([kept.index(axis) for axis in wanted])
        values.flags.writeable = False
        shown = (sides[axis].shown for axis in wanted)
        return Table(tuple(axis for axis in shown if axis is not None), values)

    def _summed(self, used: Sequence[int], sides: list[Side]) -> Integers:
        """A table from the cells, or from their sums over the longest axis that is not used."""
        unused = [place for place in range(len(sides)) if place not in used]
        if not unused:
            return _summed(self._cells, sides)
        del sides[unused[0]]
        return _summed(self._without(unused[0]), sides)

    def _of(self, used: tuple[int, ...]) -> Integers | None:
        """The cube of some axes, summed over all others; None if it is too large to be kept."""
        found = self._small.get(used)
        if found is None:
            size = prod(self._cells.shape[place] for place in used)
            if size > SMALL or size + self._held > MOST_SMALL:
                return None
            variables = [self.shape.variables[axis] for axis in self._order]
            found = self._summed(
                used, [whole_side(v, place in used, None) for place, v in enumerate(variables)]
            )
            found.flags.writeable = False
            self._small[used] = found
            self._held += size
        return found

    def _without(self, place: int) -> Integers:
        """The cells summed over one axis: most questions leave one out, so the sums are kept."""
        if place in self._sums:
            return self._sums[place]
        lengths = self._cells.shape
        outer, inner = prod(lengths[:place]), prod(lengths[place + 1 :])
        total = _sum_run(self._cells.reshape(outer, lengths[place], inner))
        total = total.reshape(lengths[:place] + lengths[place + 1 :])
        total.flags.writeable = False
        if total.size + sum(held.size for held in self._sums.values()) <= MOST_KEPT:
            self._sums[place] = total
        return total


@dataclass(frozen=True)
class _Pending:
    """Neighbouring axes of the cells, and what is still to be done with them together."""

    lengths: tuple[int, ...]
    groups: Groups | None
    gone: bool

    @property
    def length(self) -> int:
        """How many places they have together."""
        return prod(self.lengths)

    @property
    def share(self) -> float:
        """How much of the cells is left after the step."""
        return len(self.groups or ()) / self.length


def _picked(cells: Integers, sides: Sequence[Side]) -> Integers:
    """What is left of a small cube after what is done on each of its axes."""
    axis = 0
    for side in sides:
        if side.shown is None:
            if len(side.picks) == 1:
                cells = cells.take(side.picks[0], axis=axis)
            else:
                cells = np.add.reduce(cells.take(side.picks, axis=axis), axis=axis)
            continue
        if side.groups is not None:
            cells = cells.take(side.picks, axis=axis)
            if side.length < len(side.picks):
                cells = np.add.reduceat(cells, side.starts, axis=axis)
        axis += 1
    return np.asarray(cells)


def _summed(cells: Integers, sides: Sequence[Side]) -> Integers:
    """Cells after what is done on each of their axes; axes that are summed away are gone.

    The step that leaves least comes first, so that the others have less to read; of two that leave
    as much, the one that reads longer stretches of memory, or none but single cells.
    """
    axes = list(_merged(sides, cells.shape))
    while waiting := [place for place, axis in enumerate(axes) if axis.groups is not None]:
        inner = {p: prod(after.length for after in axes[p + 1 :]) for p in waiting}
        place = min(waiting, key=lambda p: (axes[p].share, 1 < inner[p] < LONG, p))
        axis = axes[place]
        assert axis.groups is not None
        outer = prod(before.length for before in axes[:place])
        cells = _step(cells.reshape(outer, axis.length, inner[place]), axis.groups)
        axes[place] = _Pending((len(axis.groups),), None, axis.gone)
    return cells.reshape([n for axis in axes if not axis.gone for n in axis.lengths])


def _merged(sides: Sequence[Side], lengths: Sequence[int]) -> Iterator[_Pending]:
    """The axes, with neighbours that are all kept, or all summed away whole, taken together."""

    def fate(place: int) -> int:
        if sides[place].groups is None:
            return -1
        return -2 if sides[place].whole else place

    for found, places in groupby(range(len(lengths)), key=fate):
        together = tuple(lengths[place] for place in places)
        if found == -1:
            yield _Pending(together, None, False)
        elif found == -2:
            yield _Pending(together, ((slice(0, prod(together)),),), True)
        else:
            side = sides[found]
            yield _Pending(together, side.groups, side.shown is None)


def _step(cells: Integers, groups: Groups) -> Integers:
    """Sum stretches of the middle one of three axes."""
    alone = all(len(runs) == 1 and runs[0].stop - runs[0].start == 1 for runs in groups)
    if alone and len(groups) > 1:
        return cells.take([runs[0].start for runs in groups], axis=1)
    if len(groups) == 1:
        return _sum_runs(cells, groups[0])
    found = np.empty((cells.shape[0], len(groups), cells.shape[2]), dtype=np.int64)
    for place, runs in enumerate(groups):
        found[:, place] = _sum_runs(cells, runs)
    return found


def _sum_runs(cells: Integers, runs: Sequence[slice]) -> Integers:
    first, *others = runs
    total = _sum_run(cells[:, first])
    for run in others:
        total += _sum_run(cells[:, run])
    return total


def _sum_run(cells: Integers) -> Integers:
    """The sum over the middle axis, in new memory.

    All ways give the same integers.  Measured at millions of cells: a reduction is fastest
    where the last axis is long, and up to ten times slower than einsum where it is short; a few
    cells one after the other are best added up one by one.
    """
    _, length, inner = cells.shape
    if length == 1 or (length <= 3 and inner == 1):
        total = cells[:, 0].copy()
        for place in range(1, length):
            total += cells[:, place]
        return total
    if inner >= LONG or (2 * inner >= LONG and length >= 8):
        return np.asarray(np.add.reduce(cells, axis=1))
    return np.ascontiguousarray(np.einsum("onj->oj", cells))


def _absolute_sum(cells: Integers) -> int:
    """The exact sum of absolute values, however large."""
    size = np.abs(cells).view(np.uint64)  # the least number has itself as its absolute value
    low = size & np.uint64(0xFFFFFFFF)
    return (int((size >> np.uint64(32)).sum()) << 32) + int(low.sum())
