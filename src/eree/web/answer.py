"""An answer: the table that a query asks for, with its totals, its errors and its flags.

Totals are figures of their own, summed up from signed values and with errors of their own; none is
made of what is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.random.exact import Integers
from eree.survey.query import Axis
from eree.web.block import (
    ABSENT,
    FLAGGED,
    FLAGS,
    NEGATIVE,
    OPEN,
    UNRELIABLE,
    Block,
    Cell,
    Places,
    beside,
    labelled,
)
from eree.web.columns import numbered, places_of
from eree.web.dataset import DataSet
from eree.web.figures import Figures
from eree.web.query import Query
from eree.web.shares import measured, share
from eree.web.texts import Json, Texts
from eree.web.words import say

#: The most cells of one answer.
MOST_CELLS = 100_000
#: The most cells, rows and columns that one page shows.
PAGE_CELLS, PAGE_ROWS, PAGE_COLUMNS = 2_000, 100, 60


class TooLarge(Refusal):
    """The answer would have more cells than one may have."""


@dataclass(frozen=True, eq=False)
class Side:
    """The rows or the columns of a table: `grid` has the places of the codes of each."""

    axes: tuple[Axis, ...]
    grid: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.grid)

    @cached_property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """The places of the codes of each on the axes."""
        return tuple(map(tuple, self.grid.tolist()))

    def codes(self, number: int) -> tuple[str, ...]:
        """The codes of a row or column."""
        return tuple(a.codes[p] for a, p in zip(self.axes, self.grid[number], strict=True))

    def labels(self, number: int) -> tuple[str, ...]:
        """Their labels."""
        return tuple(a.labels[p] for a, p in zip(self.axes, self.grid[number], strict=True))

    def told_apart(self, number: int) -> tuple[str, ...]:
        """Their labels where no codes stand beside them."""
        return tuple(a.told_apart[p] for a, p in zip(self.axes, self.grid[number], strict=True))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables beside figures."""
        return beside(axis.name for axis in self.axes)

    def texts(self, each: int = 1, times: int = 1) -> dict[str, Texts]:
        """The codes of all of them as JSON: each so many times in a row, and all so many times."""
        return {
            name: np.tile(np.repeat(axis.texts[places], each), times)
            for name, axis, places in zip(self.names, self.axes, self.grid.T, strict=True)
        }

    def named(self) -> dict[str, Texts]:
        """The same with labels beside codes, as files have them."""
        found, codes = dict[str, Texts](), self.texts()
        for axis, places, label in zip(self.axes, self.grid.T, labelled(self.axes), strict=True):
            (name,) = beside((axis.name,))
            found |= {name: codes[name], label: axis.label_texts[places]}
        return found

    def taken(self, kept: Places) -> Side:
        """Some of them."""
        return Side(self.axes, self.grid[kept])


#: Where no variable is: one row or column, of all.
NO_SIDE, NO_KEY = Side((), np.zeros((1, 0), dtype=np.int64)), np.zeros(1, dtype=np.int64)


def side_of(figures: Figures, first: int, last: int) -> tuple[Side, Integers, Integers]:
    """The rows or the columns that some axes of figures make, their keys, and where each is."""
    axes = figures.axes[first:last]
    if not axes:
        return NO_SIDE, NO_KEY, np.zeros(len(figures), dtype=np.int64)
    lengths = [len(axis.codes) for axis in axes]
    keys, room = figures.keys, prod(lengths)
    if last < len(figures.axes):
        keys = keys // prod(len(axis.codes) for axis in figures.axes[last:])
    if first:
        keys = keys % room
    if figures.listed is None:
        every = np.indices(lengths).reshape(len(axes), -1).T
        return Side(axes, every), np.arange(room), keys
    found, where = numbered(keys, room)
    return Side(axes, np.stack(places_of(found, lengths), axis=1)), found, where


def in_a_line(data: DataSet, figures: Figures) -> tuple[Side, Block]:
    """Figures one after the other, each combination a row."""
    side, _, _ = side_of(figures, 0, len(figures.axes))
    return side, filled(data, [Placed(figures, len(side))])


class Placed(NamedTuple):
    """Figures of a table of some size, and where in it they are; None where each has its own.

    One that is in no place is at -1.
    """

    figures: Figures
    size: int
    at: Integers | None = None


def filled(data: DataSet, tables: Sequence[Placed]) -> Block:
    """Figures of some tables in their places, in a line; where there is none, nobody is."""
    figures, size, ats = Figures.joined([one.figures for one in tables]), 0, []
    whole = all(one.at is None for one in tables)
    for one in [] if whole else tables:
        at = np.arange(one.size) if one.at is None else one.at
        ats.append(np.where(at < 0, at, at + size))
        size += one.size
    places = np.concatenate(ats or [NO_KEY])

    def spread(numbers: NDArray[Any], empty: float) -> NDArray[Any]:
        if whole:
            return numbers
        found = np.full(size + 1, empty, dtype=numbers.dtype)
        found[places] = numbers
        return found[:size]

    flags = {
        NEGATIVE: figures.values < 0,
        UNRELIABLE: data.unreliable(figures),
        ABSENT: np.zeros(len(figures), np.bool_) if figures.absent is None else figures.absent,
        OPEN: np.isinf(figures.high),
    }
    return Block(
        spread(figures.values, 0),
        figures.unit,
        spread(figures.low, 0.0),
        spread(figures.high, 0.0),
        None if figures.deviation is None else spread(figures.deviation, 0.0),
        spread(figures.margin_of_error, 0.0),
        {name: spread(mask, name == ABSENT) for name, mask in flags.items()},
    )


@dataclass(frozen=True, eq=False)
class Answer:
    """A table by rows and columns, with the totals of its rows, of its columns, of all.

    `whole` are all figures in a line: those of the body, then the three kinds of totals.
    """

    data: DataSet
    query: Query
    rows: Side
    cols: Side
    whole: Block

    @cached_property
    def body(self) -> Block:
        """The figures by rows and columns."""
        return self.whole.part(self.parts[0], (len(self.rows), len(self.cols)))

    @cached_property
    def row_totals(self) -> Block:
        """The totals of rows."""
        return self.whole.taken(self.parts[1])

    @cached_property
    def col_totals(self) -> Block:
        """The totals of columns."""
        return self.whole.taken(self.parts[2])

    @cached_property
    def total(self) -> Block:
        """The total of all."""
        return self.whole.taken(self.parts[3])

    def pages(self, most: int = PAGE_ROWS) -> int:
        """How many pages its rows fill, of so many rows at most."""
        return pages_of(len(self.rows), self._on_page(most))

    @property
    def pages_across(self) -> int:
        """How many pages its columns fill."""
        return pages_of(len(self.cols), PAGE_COLUMNS)

    def _on_page(self, most: int) -> int:
        return max(1, min(most, PAGE_CELLS // max(1, min(len(self.cols), PAGE_COLUMNS))))

    def asked(self, most: int = PAGE_ROWS) -> tuple[slice, slice]:
        """The rows and columns of the page that the query asks for; refuses one not there."""
        rows = page_of(len(self.rows), self._on_page(most), self.query.page)
        return rows, page_of(len(self.cols), PAGE_COLUMNS, self.query.across)

    def page(self, most: int = PAGE_ROWS) -> Answer:
        """The page that the query asks for; all of the answer where it has no other."""
        rows, cols = self.asked(most)
        if (
            rows.stop >= len(self.rows)
            and cols.stop >= len(self.cols)
            and not (rows.start or cols.start)
        ):
            return self
        return self._with(rows, cols)

    def _with(self, rows: Places, cols: Places = slice(None)) -> Answer:
        """Some of the rows and of the columns, with their totals."""
        at = np.arange(self.whole.values.size)
        body, totals, *others = (at[part] for part in self.parts)
        body = body.reshape(len(self.rows), len(self.cols))[rows][:, cols]
        kept = np.concatenate([body.ravel(), totals[rows], others[0][cols], others[1]])
        sides = self.rows.taken(rows), self.cols.taken(cols)
        return Answer(self.data, self.query, *sides, self.whole.taken(kept))

    @property
    def measure(self) -> str:
        """What its figures are."""
        counted = self.data.measures[self.query.measure]
        return measured(counted, self.query.share)

    @cached_property
    def parts(self) -> tuple[slice, slice, slice, slice]:
        """Where in the line the body and the three kinds of totals are."""
        first = len(self.rows) * len(self.cols)
        second = first + len(self.rows)
        third = second + len(self.cols)
        ends = slice(first, second), slice(second, third), slice(third, third + 1)
        return slice(0, first), *ends

    @cached_property
    def found_flags(self) -> list[str]:
        """The flags that stand on a figure of it."""
        return FLAGGED[np.bitwise_or.reduce(self.whole.flag_sums)]

    @cached_property
    def decimals(self) -> int:
        """As many as show every figure without rounding, so that the page adds up."""
        return self.whole.decimals

    @property
    def shown_decimals(self) -> int | None:
        """As many as a page shows: all, or none where the error of each figure decides."""
        return self.decimals if self.query.exact else None

    def as_json(self) -> dict[str, Any]:
        """Plain data: a record for every cell, and the totals apart."""
        (body, rows, cols, total), made = self.parts, self.whole.some_records
        totals: dict[str, Any] = {"all": Json(made(total, {})[1:-1])}
        if self.query.rows and self.query.cols:
            totals["rows"] = made(rows, self.rows.texts())
            totals["columns"] = made(cols, self.cols.texts())
        keys = self.rows.texts(each=len(self.cols)) | self.cols.texts(times=len(self.rows))
        return {"cells": made(body, keys), "totals": Json.of(totals)}


def answer(data: DataSet, query: Query) -> Answer:
    """Answer a query; refuses one that asks for too many cells."""
    _refuse_large(data.most(query.asked()) if query.by else 1)
    coarser = [by for by in dict.fromkeys((query.rows, query.cols, ())) if by != query.by]
    body, *sums = data.with_totals(query.asked(), coarser)
    figures = dict(zip((query.by, *coarser), (body, *sums), strict=True))
    rows, row_keys, row_at = side_of(body, 0, len(query.rows))
    cols, col_keys, col_at = side_of(body, len(query.rows), len(query.by))
    shape = len(rows), len(cols)
    _refuse_large(prod(shape))
    at = None if len(body) == prod(shape) else row_at * len(cols) + col_at
    line = filled(
        data,
        [
            Placed(body, prod(shape), at),
            _totals(figures[query.rows], row_keys),
            _totals(figures[query.cols], col_keys),
            _totals(figures[()], NO_KEY),
        ],
    )
    found = Answer(data, query, rows, cols, line)
    if body.absent is not None and body.axes:  # rows in which nothing can be are not shown
        there = np.flatnonzero(~found.body.flags[ABSENT].all(axis=1)).astype(np.intp)
        if 0 < len(there) < len(rows):
            found = found._with(there)
    return _shares(_sorted(found))


def _shares(found: Answer) -> Answer:
    """The shares that a query asks for, in the place of counts; totals are shares as well."""
    rows, cols, total = found.row_totals, found.col_totals, found.total
    match found.query.share:
        case "rows":
            made = share(found.body, rows.lines()), share(rows, rows), share(cols, total)
        case "cols":
            made = share(found.body, cols), share(rows, total), share(cols, cols)
        case "all":
            made = share(found.body, total), share(rows, total), share(cols, total)
        case _:
            return found
    body, row_totals, col_totals = made
    blocks = body, row_totals, col_totals, share(total, total)
    return replace(found, whole=Block.in_a_line(blocks))


def flags_on(cells: Iterable[Cell]) -> list[str]:
    """The flags that stand on some of the cells, in their order."""
    found = {flag for cell in cells for flag in cell.flags}
    return [flag for flag in FLAGS if flag in found]


def page_of(count: int, size: int, asked: int) -> slice:
    """What of a list is on the page that is asked for; refuses one that is not there."""
    if asked > (pages := pages_of(count, size)):
        raise Refusal(
            say(
                "there is no page %(page)s; the last one is %(last)s",
                page=f"{asked:,}",
                last=f"{pages:,}",
            )
        )
    return slice((asked - 1) * size, asked * size)


def pages_of(count: int, size: int) -> int:
    """How many pages a list fills."""
    return max(1, -(-count // size))


def _refuse_large(cells: int) -> None:
    if cells > MOST_CELLS:
        raise TooLarge(
            say(
                "the table would have %(cells)s cells, more than the %(most)s of one answer; take"
                " off a variable, show coarser groups, or keep fewer codes",
                cells=f"{cells:,}",
                most=f"{MOST_CELLS:,}",
            )
        )


def _totals(figures: Figures, keys: Integers) -> Placed:
    """The totals of rows or columns that have some keys."""
    if np.array_equal(keys, figures.keys):
        return Placed(figures, len(keys))
    at = np.searchsorted(keys, figures.keys)  # both are in ascending order
    inside = at < len(keys)
    inside[inside] &= keys[at[inside]] == figures.keys[inside]
    return Placed(figures, len(keys), np.where(inside, at, -1))


def _sorted(found: Answer) -> Answer:
    if found.query.sort == "code" or not found.query.rows:
        return found
    values = found.row_totals.values * (1 if found.query.sort == "jobs" else -1)
    keys = [values]
    if found.query.subtotals:  # groups stay together, ordered by their subtotals
        for depth in range(len(found.rows.axes) - 1, 0, -1):
            groups = [places[:depth] for places in found.rows.places]
            number = {group: i for i, group in enumerate(dict.fromkeys(groups))}
            where = np.array([number[group] for group in groups], dtype=np.int64)
            sums: Integers = np.zeros(len(number), dtype=np.int64)
            np.add.at(sums, where, values)
            keys += [where, sums[where]]
    return found._with(np.lexsort(keys).astype(np.intp))
