"""An answer: the table that a query asks for, with its totals, its errors and its flags.

Totals are figures of their own, summed up from signed values and with errors of their own; none is
made of what is shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

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
from eree.web.dataset import DataSet
from eree.web.figures import Figures, combined
from eree.web.query import Query
from eree.web.shares import measured, share
from eree.web.texts import Json
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

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables beside figures."""
        return beside(axis.name for axis in self.axes)

    def texts(self, each: int = 1, times: int = 1) -> dict[str, list[str]]:
        """The codes of all of them as JSON: each so many times in a row, and all so many times."""
        return {
            name: np.tile(np.repeat(axis.texts[places], each), times).tolist()
            for name, axis, places in zip(self.names, self.axes, self.grid.T, strict=True)
        }

    def named(self) -> dict[str, list[str]]:
        """The same with labels beside codes, as files have them."""
        found, codes = dict[str, list[str]](), self.texts()
        for axis, places, label in zip(self.axes, self.grid.T, labelled(self.axes), strict=True):
            (name,) = beside((axis.name,))
            found |= {name: codes[name], label: axis.label_texts[places].tolist()}
        return found

    def taken(self, kept: Places) -> Side:
        """Some of them."""
        return Side(self.axes, self.grid[kept])


#: Where no variable is: one row or column, of all.
NO_SIDE = Side((), np.zeros((1, 0), dtype=np.int64))


def side_of(figures: Figures, first: int, last: int) -> tuple[Side, Integers]:
    """The rows or the columns that some of the axes of figures make, and where each figure is."""
    axes = figures.axes[first:last]
    if not axes:
        return NO_SIDE, np.zeros(len(figures), dtype=np.int64)
    if figures.places is None:
        inner = prod(len(axis.codes) for axis in figures.axes[last:])
        shape = [len(axis.codes) for axis in axes]
        every = np.indices(shape).reshape(len(axes), -1).T
        return Side(axes, every), figures.keys // inner % max(len(every), 1)
    places = figures.places[first:last]
    keys = combined(axes, places, len(figures))
    _, start, where = np.unique(keys, return_index=True, return_inverse=True)
    found = np.stack([place[start].astype(np.int64) for place in places], axis=1)
    return Side(axes, found), where.astype(np.int64)


def in_a_line(data: DataSet, figures: Figures) -> tuple[Side, Block]:
    """Figures one after the other, each combination a row."""
    side, at = side_of(figures, 0, len(figures.axes))
    return side, filled(data, figures, at, (len(side),))


def filled(data: DataSet, figures: Figures, at: Integers, shape: tuple[int, ...]) -> Block:
    """Figures in their places; where there is none, nobody is."""
    size, kept = prod(shape), at >= 0
    place = at[kept]
    # all are there, in this order
    whole = figures.places is None or (len(at) == size and (at[1:] > at[:-1]).all() and kept.all())

    def spread(numbers: NDArray[Any], empty: float) -> NDArray[Any]:
        if whole:
            return numbers.reshape(shape)
        found = np.full(size, empty, dtype=numbers.dtype)
        found[place] = numbers[kept]
        return found.reshape(shape)

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
    """A table: `body` by rows and columns, with the totals of its rows, of its columns, of all."""

    data: DataSet
    query: Query
    rows: Side
    cols: Side
    body: Block
    row_totals: Block
    col_totals: Block
    total: Block

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
        return replace(
            self._with_rows(rows),
            cols=self.cols.taken(cols),
            body=self.body.taken(rows, cols),
            col_totals=self.col_totals.taken(cols),
        )

    def _with_rows(self, kept: Places) -> Answer:
        return replace(
            self,
            rows=self.rows.taken(kept),
            body=self.body.taken(kept),
            row_totals=self.row_totals.taken(kept),
        )

    @property
    def measure(self) -> str:
        """What its figures are."""
        counted = self.data.measures[self.query.measure]
        return measured(counted, self.query.share)

    @cached_property
    def whole(self) -> Block:
        """All figures in a line: those of the body, the totals of rows, of columns, of all."""
        return Block.in_a_line((self.body, self.row_totals, self.col_totals, self.total))

    @cached_property
    def parts(self) -> tuple[slice, slice, slice, slice]:
        """Where in that line the body and the three kinds of totals are."""
        first = self.body.values.size
        second = first + self.row_totals.values.size
        third = second + self.col_totals.values.size
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
    rows, row_at = side_of(body, 0, len(query.rows))
    cols, col_at = side_of(body, len(query.rows), len(query.by))
    _refuse_large(len(rows) * len(cols))
    whole = filled(data, body, row_at * len(cols) + col_at, (len(rows), len(cols)))
    found = Answer(
        data,
        query,
        rows,
        cols,
        whole,
        _totals(data, figures[query.rows], rows),
        _totals(data, figures[query.cols], cols),
        _totals(data, figures[()], NO_SIDE),
    )
    if body.absent is not None and body.axes:  # rows in which nothing can be are not shown
        there = np.flatnonzero(~whole.flags[ABSENT].all(axis=1)).astype(np.intp)
        if 0 < len(there) < len(rows):
            found = found._with_rows(there)
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
    return replace(
        found, body=body, row_totals=row_totals, col_totals=col_totals, total=share(total, total)
    )


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


def _totals(data: DataSet, figures: Figures, side: Side) -> Block:
    """The totals of rows or columns, in their order."""
    if figures.places is None:
        return filled(data, figures, figures.keys, (len(side),))
    keys = combined(figures.axes, list(side.grid.T), len(side))
    if np.array_equal(keys, figures.keys):
        return filled(data, figures, np.arange(len(side)), (len(side),))
    at = np.searchsorted(keys, figures.keys)  # both are in ascending order
    inside = at < len(keys)
    inside[inside] &= keys[at[inside]] == figures.keys[inside]
    return filled(data, figures, np.where(inside, at, -1), (len(side),))


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
    return found._with_rows(np.lexsort(keys).astype(np.intp))
