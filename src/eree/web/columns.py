"""The cells of a released table as codes: of workplaces once for each group, of workers once.

All worker cells of a group lie side by side, and in the same order in every group.  So whatever is
asked of workplaces is found among groups, and whatever is asked of workers among the cells of one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eree.errors import Unreadable
from eree.random.exact import Integers

#: Codes as small numbers.
Codes = NDArray[np.unsignedinteger]
Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Columns:
    """For each variable of workplaces the code of every group, of workers that of every cell."""

    of_groups: Mapping[str, Codes]
    of_cells: Mapping[str, Codes]
    groups: int
    cells: int

    @classmethod
    def of(
        cls, codes: Mapping[str, Codes], workers: Collection[str], rows: int, cells: int
    ) -> Columns:
        """From the codes of all rows."""
        of_groups, of_cells = dict[str, Codes](), dict[str, Codes]()
        for name, column in codes.items():
            table = column.reshape(-1, cells)
            one = table[:1] if name in workers else table[:, :1]
            if not (table == one).all():
                raise Unreadable("the worker cells of a table are in no order; run 'eree verify'")
            (of_cells if name in workers else of_groups)[name] = one.ravel().copy()
        return cls(of_groups, of_cells, rows // cells, cells)

    def by_cell(self, numbers: Integers) -> Integers:
        """Numbers of all rows as sums take them: a row for each cell of a group."""
        room = np.iinfo(np.int32)
        small = room.min <= numbers.min(initial=0) and numbers.max(initial=0) <= room.max
        table = numbers.reshape(self.groups, self.cells).astype(np.int32 if small else np.int64)
        return np.ascontiguousarray(table.T)

    def sums(
        self,
        held: Mapping[str, NDArray[np.bool_]],
        sides: Sequence[tuple[str, int, Integers | None]],
    ) -> Sums:
        """The sums that a table has: `held` are the codes of a variable that are kept.

        Each of `sides` has a variable, how many codes it has there, and which of them is that of
        each of its own codes, where these differ.
        """
        groups, cells = (_chosen(held, codes) for codes in (self.of_groups, self.of_cells))
        keys: list[Integers] = []
        for chosen, codes, number in (
            (groups, self.of_groups, self.groups),
            (cells, self.of_cells, self.cells),
        ):
            key = np.zeros(number if chosen is None else len(chosen), dtype=np.int64)
            for name, length, places in sides:
                key *= length
                if name in codes:
                    own = codes[name] if chosen is None else codes[name][chosen]
                    key += own if places is None else places[own]
            keys.append(key)
        return Sums(
            self, groups, keys[0], np.arange(self.cells) if cells is None else cells, keys[1]
        )


def _chosen(held: Mapping[str, NDArray[np.bool_]], codes: Mapping[str, Codes]) -> Places | None:
    """What is kept by all of its codes; None where all are."""
    kept = None
    for name in held.keys() & codes.keys():
        own = held[name][codes[name]]
        kept = own if kept is None else kept & own
    return None if kept is None or kept.all() else np.flatnonzero(kept)


@dataclass(frozen=True, eq=False)
class Sums:
    """Some cells of some groups, to be added up where their keys are the same.

    The key of a cell is that of its group and its own, added; `groups` is None where all are there.
    """

    columns: Columns
    _groups: Places | None
    _group_keys: Integers
    _cells: Places
    _cell_keys: Integers

    @cached_property
    def _order(self) -> Places | None:
        """What sorts the groups by their keys; None where they are."""
        keys = self._group_keys
        if (keys[1:] >= keys[:-1]).all():
            return None
        small = keys.max(initial=0) <= np.iinfo(np.uint16).max  # sorted in linear time
        return np.argsort(keys.astype(np.uint16) if small else keys, kind="stable")

    @cached_property
    def groups(self) -> Places | None:
        """The groups in the order of their keys; None where these are all, as they are."""
        if self._order is None:
            return self._groups
        return self._order if self._groups is None else self._groups[self._order]

    @cached_property
    def _sorted(self) -> Integers:
        return self._group_keys if self._order is None else self._group_keys[self._order]

    @cached_property
    def starts(self) -> Integers:
        """Where each run of groups with the same key begins."""
        return _starts(self._sorted)

    @cached_property
    def kinds(self) -> list[Places]:
        """The cells of a group that have the same key."""
        if len(self._kind_keys) == 1:
            return [self._cells]
        return [self._cells[self._cell_keys == key] for key in self._kind_keys]

    @cached_property
    def _kind_keys(self) -> Integers:
        return self._cell_keys if len(self._cell_keys) == 1 else np.unique(self._cell_keys)

    @cached_property
    def numbers(self) -> Integers:
        """How many cells of a group each kind has."""
        return np.array([len(cells) for cells in self.kinds], dtype=np.int64)

    @cached_property
    def _of_runs(self) -> Integers:
        return (self._sorted[self.starts][:, None] + self._kind_keys).ravel()

    @cached_property
    def order(self) -> Places:
        """What sorts sums, run by run and kind by kind, by their keys."""
        if len(self._kind_keys) == 1:  # as runs are
            return np.arange(len(self.starts))
        return np.argsort(self._of_runs, kind="stable")

    @cached_property
    def keys(self) -> Integers:
        """The keys of the sums, in ascending order."""
        return self._of_runs[self.order]

    def places(self, lengths: Sequence[int]) -> tuple[Places, ...]:
        """Where sums are on each side of a table, of so many codes."""
        found, rest = list[Places](), self.keys
        for length in reversed(lengths):
            rest, place = np.divmod(rest, length)
            found.append(place.astype(np.intp))
        return tuple(reversed(found))

    def __len__(self) -> int:
        return len(self.starts) * len(self._kind_keys)

    def of(self, numbers: Integers) -> Integers:
        """Numbers of all cells, side by side, added up: a row for each run, a column for each kind.

        `numbers` has a row for each cell of a group, and a column for each group.
        """
        groups = self.groups
        if groups is not None and 2 * len(groups) < self.columns.groups:
            numbers, groups = numbers[:, groups], None
        found = np.empty((len(self.starts), len(self.kinds)), dtype=np.int64)
        for place, cells in enumerate(self.kinds):
            some = numbers if len(cells) == len(numbers) else numbers[cells]
            column = some[0] if len(some) == 1 else some.sum(0, dtype=np.int64)
            if groups is not None:
                column = column[groups]
            found[:, place] = np.add.reduceat(column, self.starts, dtype=np.int64)
        return found

    def each(self) -> tuple[Places, Integers]:
        """All cells, sum by sum, and where each sum begins."""
        groups = np.arange(self.columns.groups) if self._groups is None else self._groups
        rows = (groups[:, None] * self.columns.cells + self._cells).ravel()
        keys = (self._group_keys[:, None] + self._cell_keys).ravel()
        if (keys[1:] >= keys[:-1]).all():
            return rows, _starts(keys)
        short = keys.astype(np.uint16) if keys.max() < 1 << 16 else keys  # which are sorted sooner
        order = np.argsort(short, kind="stable")
        return rows[order], _starts(keys[order])


def _starts(keys: Integers) -> Integers:
    """Where each run of the same keys begins."""
    new = np.ones(len(keys), dtype=np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return np.flatnonzero(new)
