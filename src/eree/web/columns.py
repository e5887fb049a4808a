"""The cells of a released table as codes: of workplaces once for each group, of workers once.

All worker cells of a group lie side by side, and in the same order in every group.  So whatever is
asked of workplaces is found among groups, and whatever is asked of workers among the cells of one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import prod
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eree.errors import Unreadable
from eree.random.exact import Array, Integers

#: Codes as small numbers.
Codes = NDArray[np.unsignedinteger]
Places = NDArray[np.intp]
#: Keys up to so many times the number of groups, and so many more, are looked up in a list of all.
_TIMES, _MORE = 16, 1 << 16


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
            if not rows and name in workers:  # of no group all cells are alike
                one = np.zeros((1, cells), dtype=column.dtype)
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
        lengths = [length for _, length, _ in sides]
        strides = [prod(lengths[place + 1 :]) for place in range(len(lengths))]
        found: list[tuple[Places | None, Integers]] = []
        for codes, number in ((self.of_groups, self.groups), (self.of_cells, self.cells)):
            chosen = _chosen(held, codes)
            key = np.zeros(number if chosen is None else len(chosen), dtype=np.int64)
            for (name, _, places), stride in zip(sides, strides, strict=True):
                if name in codes:
                    own = codes[name] if chosen is None else codes[name][chosen]
                    part = own if places is None else places[own]
                    key += part if stride == 1 else np.multiply(part, stride, dtype=np.int64)
            found.append((chosen, key))
        (groups, group_keys), (cells, cell_keys) = found
        run_keys, run = numbered(group_keys, prod(lengths))
        kind_keys, kind = numbered(cell_keys, prod(lengths))
        cells = np.arange(self.cells) if cells is None else cells
        return Sums(self, tuple(lengths), groups, run, run_keys, cells, kind, kind_keys)


def _chosen(held: Mapping[str, NDArray[np.bool_]], codes: Mapping[str, Codes]) -> Places | None:
    """What is kept by all of its codes; None where all are."""
    kept = None
    for name in held.keys() & codes.keys():
        own = held[name][codes[name]]
        kept = own if kept is None else kept & own
    return None if kept is None or kept.all() else np.flatnonzero(kept)


def numbered(keys: Integers, room: int) -> tuple[Integers, Places]:
    """The keys that differ, in ascending order, and which of them each is; all are below `room`."""
    if room > _TIMES * len(keys) + _MORE:
        found, which = np.unique(keys, return_inverse=True)
        return found, which.reshape(-1)
    there = np.zeros(room, dtype=np.bool_)
    there[keys] = True
    found = np.flatnonzero(there)
    if len(found) == room:
        return found, keys.astype(np.intp, copy=False)
    number = np.cumsum(there) - 1
    return found, number[keys]


@dataclass(frozen=True, eq=False)
class Sums:
    """Cells that are added up: each sum has the cells of one kind in the groups of one run.

    The key of a sum is that of its run and that of its kind, added: its place on all sides, of some
    `lengths`.  `run` is that of each group that is kept, `kind` that of each cell of a group;
    `groups` is None where all are kept.
    """

    columns: Columns
    lengths: tuple[int, ...]
    groups: Places | None
    run: Places
    run_keys: Integers
    cells: Places
    kind: Places
    kind_keys: Integers

    @cached_property
    def numbers(self) -> Integers:
        """How many cells of a group each kind has."""
        return np.bincount(self.kind, minlength=len(self.kind_keys))

    @cached_property
    def groups_of_runs(self) -> Integers:
        """How many groups each run has."""
        if len(self.run_keys) == 1:
            return np.array([len(self.run)])
        return np.bincount(self.run, minlength=len(self.run_keys))

    @cached_property
    def _keys(self) -> Integers:
        return (self.run_keys[:, None] + self.kind_keys).ravel()

    @cached_property
    def order(self) -> Places:
        """What sorts sums, run by run and kind by kind, by their keys."""
        if len(self.kind_keys) == 1:  # as runs are
            return np.arange(len(self.run_keys))
        return np.argsort(self._keys, kind="stable")

    @cached_property
    def keys(self) -> Integers:
        """The keys of the sums, in ascending order."""
        return self._keys[self.order]

    def places(self) -> list[Places]:
        """Where sums are on each side of a table."""
        return places_of(self.keys, self.lengths)

    def __len__(self) -> int:
        return len(self.run_keys) * len(self.kind_keys)

    def of(self, numbers: Integers) -> Integers:
        """Numbers of all cells added up: a row for each run, a column for each kind.

        `numbers` has a row for each cell of a group, and a column for each group.
        """
        groups = self.groups
        if groups is not None and 2 * len(groups) < self.columns.groups:
            numbers, groups = numbers[:, groups], None
        found = np.empty((len(self.run_keys), len(self.kind_keys)), dtype=np.int64)
        for kind, number in enumerate(self.numbers.tolist()):
            if number == len(numbers):
                some = numbers
            else:
                some = numbers[self.cells if number == len(self.cells) else self.of_kind(kind)]
            column = some[0] if len(some) == 1 else some.sum(0, dtype=np.int64)
            found[:, kind] = self._over(column if groups is None else column[groups])
        return found

    def of_kind(self, kind: int) -> Places:
        """The cells of a kind."""
        return self.cells[np.flatnonzero(self.kind == kind)]

    def over(self, numbers: Array) -> Array:
        """Numbers of all groups, a row for each thing, added up over the groups of each run."""
        found: Array = np.array(
            [self._over(row if self.groups is None else row[self.groups]) for row in numbers]
        )
        return found

    def over_kinds(self, added: Callable[[Places | None, Places, int, Places], Array]) -> Array:
        """What is made of the groups of each run and the cells of a kind, a row for each thing."""
        runs = len(self.run_keys)
        kinds = range(len(self.kind_keys))
        each = [added(self.groups, self.run, runs, self.of_kind(kind)) for kind in kinds]
        return np.stack(each, axis=1).reshape(-1, runs)

    def _over(self, numbers: NDArray[Any]) -> Any:
        return _added(numbers, self.run, len(self.run_keys))

    def members(self, runs: NDArray[np.bool_]) -> tuple[Places, Integers]:
        """The groups of some runs, run by run, and where each run begins."""
        place = np.flatnonzero(runs[self.run])
        if runs.sum() > 1:
            place = place[np.argsort(self.run[place], kind="stable")]
        number = self.groups_of_runs[runs]
        groups = place if self.groups is None else self.groups[place]
        return groups, np.cumsum(number) - number

    def each(self, chosen: Places | None = None) -> tuple[Places, Integers]:
        """The cells of all sums in ascending order, or of some, and where each sum begins."""
        small: Any = np.uint16 if len(self) <= 1 << 16 else np.uint32  # which are sorted sooner
        rank = np.empty(len(self), dtype=small)
        rank[self.order] = np.arange(len(self), dtype=small)
        ranks = rank.reshape(len(self.run_keys), len(self.kind_keys))
        groups, run = self.groups, self.run
        if groups is None:
            groups = np.arange(self.columns.groups)
        wanted = np.ones(len(self), dtype=np.bool_)
        if chosen is not None:
            wanted[:] = False
            wanted[chosen] = True
            some = np.flatnonzero(np.any(wanted[ranks], axis=1)[run])
            groups, run = groups[some], run[some]
        which: NDArray[np.uint32] = ranks[run][:, self.kind].ravel()
        rows = (groups[:, None] * self.columns.cells + self.cells).ravel()
        if not wanted.all():
            kept = wanted[which]
            rows, which = rows[kept], which[kept]
        if not (which[1:] >= which[:-1]).all():
            order = np.argsort(which, kind="stable")
            rows, which = rows[order], which[order]
        return rows, np.flatnonzero(np.append(True, which[1:] != which[:-1])[: len(which)])


@dataclass(frozen=True, eq=False)
class Added:
    """Sums of some numbers, a row for each run and a column for each kind.

    `of_runs` has what was added up over the groups of each run, a row for each thing, and, where it
    is `by_kind`, for each kind of cells.
    """

    sums: Sums
    table: Integers
    of_runs: Array | None
    by_kind: bool = False

    def coarser(self, kept: Sequence[bool]) -> Added:
        """The sums by some of the sides alone, which are sums of these."""
        sums = self.sums
        lengths = tuple(n for n, one in zip(sums.lengths, kept, strict=True) if one)
        (run_keys, runs), (kind_keys, kinds) = (
            numbered(_without(keys, sums.lengths, kept), prod(lengths))
            for keys in (sums.run_keys, sums.kind_keys)
        )
        found = replace(
            sums,
            lengths=lengths,
            run=runs[sums.run],
            run_keys=run_keys,
            kind=kinds[sums.kind],
            kind_keys=kind_keys,
        )
        table: Integers = np.zeros((len(run_keys), len(kind_keys)), dtype=np.int64)
        np.add.at(table, (runs[:, None], kinds), self.table)
        of_runs = self.of_runs
        if of_runs is not None:
            of_runs = np.array([_added(row, runs, len(run_keys)) for row in of_runs])
            if self.by_kind and len(kind_keys) < len(sums.kind_keys):
                of_runs = None  # cells of a group go together
        return Added(found, table, of_runs, self.by_kind)


def _added(numbers: NDArray[Any], which: Places, count: int) -> Any:
    """Numbers added up where they are of the same one of so many."""
    if count == 1:
        return numbers.sum(keepdims=True)
    if numbers.dtype != np.int64:  # exact also for numbers of 32 bits
        sums = np.bincount(which, numbers, count)
        return sums if numbers.dtype.kind == "f" else sums.astype(np.int64)
    found: Integers = np.zeros(count, dtype=np.int64)
    np.add.at(found, which, numbers)
    return found


def places_of(keys: Integers, lengths: Sequence[int]) -> list[Places]:
    """The places on sides of some lengths that keys stand for."""
    found, rest = list[Places](), keys
    for length in reversed(lengths):
        rest, place = np.divmod(rest, length)
        found.append(place.astype(np.intp, copy=False))
    return found[::-1]


def _without(keys: Integers, lengths: Sequence[int], kept: Sequence[bool]) -> Integers:
    """The keys that these are on some of the sides alone."""
    found: Integers = np.zeros(len(keys), dtype=np.int64)
    inner = prod(lengths)
    for one, several in groupby(zip(kept, lengths, strict=True), key=itemgetter(0)):
        room = prod(length for _, length in several)
        inner //= max(room, 1)
        if one:
            found = found * room + keys // max(inner, 1) % max(room, 1)
    return found
