"""An answer: the table that a query asks for, with its totals, its errors and its flags.

Totals are figures of their own, summed up from signed values and with errors of their own; none is
made of what is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.noise.exact import Whole
from eree.web.dataset import Axis, DataSet, Figures, Mask, Reals
from eree.web.query import Query

#: The most cells of one answer.
MOST_CELLS = 100_000
#: The most cells, rows and columns that one page shows.
PAGE_CELLS, PAGE_ROWS, PAGE_COLUMNS = 2_000, 100, 60

NEGATIVE, UNRELIABLE, ABSENT, OPEN = "negative", "unreliable", "absent", "open"
FLAGS: Mapping[str, str] = MappingProxyType(
    {NEGATIVE: "n", UNRELIABLE: "u", ABSENT: "a", OPEN: "o"}
)


class TooLarge(Refusal):
    """The answer would have more cells than one may have."""


@dataclass(frozen=True, eq=False)
class Block:
    """Figures in the shape of a table, or of its totals."""

    values: Whole
    unit: int
    low: Reals
    high: Reals
    deviation: Reals | None
    margin: Reals
    flags: Mapping[str, Mask]

    @cached_property
    def jobs(self) -> Reals:
        """The estimates in whole units."""
        return self.values / self.unit

    @cached_property
    def relative(self) -> Reals:
        """The standard error, or the margin where there is none, by the estimate."""
        error = self.margin if self.deviation is None else self.deviation
        found = np.full(self.values.shape, np.inf)
        np.divide(error, self.jobs, out=found, where=self.values > 0)
        found[(self.values == 0) & (error == 0)] = 0.0
        return found

    def taken(self, places: Sequence[int] | NDArray[np.intp]) -> Block:
        """Some of the rows."""
        kept = np.asarray(places, dtype=np.intp)
        return self._each(lambda numbers: numbers[kept])

    def across(self, places: NDArray[np.intp]) -> Block:
        """Some of the columns."""
        return self._each(lambda numbers: numbers[:, places])

    def flat(self, size: int) -> Block:
        """A block of one line as a line."""
        return self if self.values.ndim == 1 else self._each(lambda numbers: numbers.reshape(size))

    def _each(self, made: Callable[[NDArray[Any]], NDArray[Any]]) -> Block:
        """The same block, with something done to all of its numbers."""
        return Block(
            made(self.values),
            self.unit,
            made(self.low),
            made(self.high),
            None if self.deviation is None else made(self.deviation),
            made(self.margin),
            {name: made(mask) for name, mask in self.flags.items()},
        )

    def cell(self, *place: int) -> Cell:
        """One figure."""
        deviation = None if self.deviation is None else float(self.deviation[place])
        flags = tuple(name for name, mask in self.flags.items() if mask[place])
        return Cell(
            int(self.values[place]),
            self.unit,
            float(self.low[place]),
            float(self.high[place]),
            deviation,
            float(self.margin[place]),
            float(self.relative[place]),
            flags,
        )


@dataclass(frozen=True)
class Cell:
    """One figure of a table; `value` is a whole number of parts, of which `unit` make one."""

    value: int
    unit: int
    low: float
    high: float
    deviation: float | None
    margin: float
    relative: float
    flags: tuple[str, ...]

    @property
    def estimate(self) -> int | float:
        """The estimate as a number."""
        return self.value if self.unit == 1 else self.value / self.unit

    def as_json(self) -> dict[str, Any]:
        """Plain data: what has no bound is null."""
        found: dict[str, Any] = {
            "estimate": self.estimate,
            "low": _number(self.low, self.unit),
            "high": _number(self.high, self.unit),
            "margin": _number(self.margin, self.unit),
            "relative": _number(round(self.relative, 4), 1_000),
        }
        if self.deviation is not None:
            found["standard_error"] = _number(self.deviation, self.unit)
        return found | {"flags": list(self.flags)}


@dataclass(frozen=True)
class Side:
    """The rows or the columns of a table: for each, the places of its codes on the axes."""

    axes: tuple[Axis, ...]
    places: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.places)

    def codes(self, number: int) -> tuple[str, ...]:
        """The codes of a row or column."""
        return tuple(a.codes[p] for a, p in zip(self.axes, self.places[number], strict=True))

    def labels(self, number: int) -> tuple[str, ...]:
        """Their labels."""
        return tuple(a.labels[p] for a, p in zip(self.axes, self.places[number], strict=True))

    def keyed(self, number: int) -> dict[str, str]:
        """The codes by the names of their variables."""
        return dict(zip((a.name for a in self.axes), self.codes(number), strict=True))

    def taken(self, kept: NDArray[np.intp]) -> Side:
        """Some of them."""
        return Side(self.axes, tuple(self.places[i] for i in kept.tolist()))


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
        return max(1, -(-len(self.rows) // self._on_page(most)))

    @property
    def pages_across(self) -> int:
        """How many pages its columns fill."""
        return max(1, -(-len(self.cols) // PAGE_COLUMNS))

    def _on_page(self, most: int) -> int:
        return max(1, min(most, PAGE_CELLS // max(1, min(len(self.cols), PAGE_COLUMNS))))

    def page(self, most: int = PAGE_ROWS) -> Answer:
        """The page that the query asks for; refuses one that is not there."""
        size, pages = self._on_page(most), self.pages(most)
        for asked, last in ((self.query.page, pages), (self.query.across, self.pages_across)):
            if asked > last:
                raise Refusal(f"there is no page {asked:,}; the last one is {last:,}")
        found = self
        if pages > 1:
            first = (self.query.page - 1) * size
            kept = np.arange(first, min(first + size, len(self.rows)), dtype=np.intp)
            found = found._with_rows(kept)
        if self.pages_across > 1:
            first = (self.query.across - 1) * PAGE_COLUMNS
            kept = np.arange(first, min(first + PAGE_COLUMNS, len(self.cols)), dtype=np.intp)
            found = replace(
                found,
                cols=found.cols.taken(kept),
                body=found.body.across(kept),
                col_totals=found.col_totals.taken(kept),
            )
        return found

    def _with_rows(self, kept: NDArray[np.intp]) -> Answer:
        return replace(
            self,
            rows=self.rows.taken(kept),
            body=self.body.taken(kept),
            row_totals=self.row_totals.taken(kept),
        )

    @cached_property
    def found_flags(self) -> tuple[str, ...]:
        """The flags that stand on a figure of it."""
        blocks = (self.body, self.row_totals, self.col_totals, self.total)
        return tuple(f for f in FLAGS if any(block.flags[f].any() for block in blocks))

    @cached_property
    def decimals(self) -> int:
        """As many as show every figure without rounding, so that the page adds up."""
        if self.total.unit == 1:
            return 0
        blocks = (self.body, self.row_totals, self.col_totals, self.total)
        return 3 if any((block.values % block.unit).any() for block in blocks) else 0

    def as_json(self) -> dict[str, Any]:
        """Plain data: a record for every cell, and the totals apart."""
        cells = [
            self.rows.keyed(i) | self.cols.keyed(j) | self.body.cell(i, j).as_json()
            for i in range(len(self.rows))
            for j in range(len(self.cols))
        ]
        totals: dict[str, Any] = {"all": self.total.cell(0).as_json()}
        if self.query.rows and self.query.cols:
            totals["rows"] = [
                self.rows.keyed(i) | self.row_totals.cell(i).as_json()
                for i in range(len(self.rows))
            ]
            totals["columns"] = [
                self.cols.keyed(j) | self.col_totals.cell(j).as_json()
                for j in range(len(self.cols))
            ]
        return {"cells": cells, "totals": totals}


def answer(data: DataSet, query: Query) -> Answer:
    """Answer a query; refuses one that asks for too many cells."""
    _refuse_large(data.most(query.asked()) if query.by else 1)
    body = data.figures(query.asked())
    rows, row_at = side_of(body, len(query.rows), first=True)
    cols, col_at = side_of(body, len(query.rows), first=False)
    if not query.rows:
        rows = Side((), ((),))
    if not query.cols:
        cols = Side((), ((),))
    _refuse_large(len(rows) * len(cols))
    whole = filled(data, body, row_at * len(cols) + col_at, (len(rows), len(cols)))
    row_totals, col_totals, total = whole, whole, whole
    if query.cols:
        row_totals = _totals(data, query, query.rows, rows)
    if query.rows:
        col_totals = _totals(data, query, query.cols, cols)
    total = _totals(data, query, (), Side((), ((),))) if query.by else whole
    found = Answer(
        data,
        query,
        rows,
        cols,
        whole,
        row_totals.flat(len(rows)),
        col_totals.flat(len(cols)),
        total.flat(1),
    )
    if body.absent is not None and body.axes:  # rows in which nothing can be are not shown
        there = np.flatnonzero(~whole.flags[ABSENT].all(axis=1)).astype(np.intp)
        if 0 < len(there) < len(rows):
            found = found._with_rows(there)
    return _sorted(found)


def _refuse_large(cells: int) -> None:
    if cells > MOST_CELLS:
        raise TooLarge(
            f"the table would have {cells:,} cells, more than the {MOST_CELLS:,} of one answer;"
            " take off a variable, show coarser groups, or keep fewer codes"
        )


def side_of(figures: Figures, split: int, *, first: bool) -> tuple[Side, Whole]:
    """The rows or the columns that figures are found in, and where each figure is."""
    chosen = slice(0, split) if first else slice(split, None)
    axes, places = figures.axes[chosen], figures.places[chosen]
    keys: Whole = np.zeros(len(figures), dtype=np.int64)
    for axis, place in zip(axes, places, strict=True):
        keys = keys * len(axis.codes) + place
    _, start, where = np.unique(keys, return_index=True, return_inverse=True)
    found = tuple(tuple(int(place[i]) for place in places) for i in start.tolist())
    return Side(axes, found), where.astype(np.int64)


def _totals(data: DataSet, query: Query, by: tuple[str, ...], side: Side) -> Block:
    """The totals of rows or columns, in their order."""
    figures = data.figures(query.asked(by))
    keys: Whole = np.zeros(len(side), dtype=np.int64)
    for i, axis in enumerate(figures.axes):
        place = np.array([p[i] for p in side.places], dtype=np.int64)
        keys = keys * len(axis.codes) + place
    at = np.searchsorted(keys, figures.keys)  # both are in ascending order
    inside = at < len(keys)
    inside[inside] &= keys[at[inside]] == figures.keys[inside]
    return filled(data, figures, np.where(inside, at, -1), (len(side),))


def filled(data: DataSet, figures: Figures, at: Whole, shape: tuple[int, ...]) -> Block:
    """Figures in their places; where there is none, nobody is."""
    size = int(np.prod(shape))
    kept = at >= 0
    at = at[kept]

    def spread(numbers: NDArray[Any], empty: float) -> NDArray[Any]:
        found = np.full(size, empty, dtype=numbers.dtype)
        found[at] = numbers[kept]
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
        spread(_margin(figures), 0.0),
        {name: spread(mask, name == ABSENT) for name, mask in flags.items()},
    )


def _margin(figures: Figures) -> Reals:
    """The margin of error; how far the farther end of the interval is, where there is no other."""
    if figures.margin is not None:
        return figures.margin
    jobs = figures.values / figures.unit
    return np.maximum(jobs - figures.low, figures.high - jobs)


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
            sums: Whole = np.zeros(len(number), dtype=np.int64)
            np.add.at(sums, where, values)
            keys += [where, sums[where]]
    return found._with_rows(np.lexsort(keys).astype(np.intp))


def _number(number: float, unit: int) -> int | float | None:
    """A number for plain data: null without bound, whole where units are."""
    if not np.isfinite(number):
        return None
    if unit == 1 and float(number).is_integer():
        return int(number)
    return round(number, 4)
