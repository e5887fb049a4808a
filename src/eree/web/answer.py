"""An answer: the table that a query asks for, with its totals, its errors and its flags.

Totals are figures of their own, summed up from signed values and with errors of their own; none is
made of what is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import isfinite, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.random.exact import Integers
from eree.survey.query import Axis
from eree.web.dataset import DataSet, Figures, Mask, Reals, combined
from eree.web.query import Query

#: The most cells of one answer.
MOST_CELLS = 100_000
#: The most cells, rows and columns that one page shows.
PAGE_CELLS, PAGE_ROWS, PAGE_COLUMNS = 2_000, 100, 60
NEGATIVE, UNRELIABLE, ABSENT, OPEN = "negative", "unreliable", "absent", "open"
FLAGS = (NEGATIVE, UNRELIABLE, ABSENT, OPEN)
#: The parts of a figure in plain data; without a standard error where that is not public.
_COLUMNS = ("estimate", "low", "high", "margin", "relative", "standard_error", "flags")
#: What stands beside codes in plain data and in files; a variable of such a name gets one more _.
TAKEN = frozenset(
    (*_COLUMNS, "rank", "best", "worst", "damage", "decision", "damage_per_job", "release")
)
#: Flags by the sum of their powers of 2.
FLAGGED = tuple(
    [name for number, name in enumerate(FLAGS) if value >> number & 1]
    for value in range(1 << len(FLAGS))
)

#: Some rows or columns.
Places = NDArray[np.intp] | slice


class TooLarge(Refusal):
    """The answer would have more cells than one may have."""


@dataclass(frozen=True, eq=False)
class Block:
    """Figures in the shape of a table, or of its totals."""

    values: Integers
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

    @property
    def decimals(self) -> int:
        """As many as show every figure without rounding."""
        return 3 if self.unit > 1 and (self.values % self.unit).any() else 0

    @cached_property
    def flag_sums(self) -> Integers:
        """The flags of each figure, as the sum of their powers of 2."""
        found: Integers = np.zeros(self.values.shape, dtype=np.int64)
        for number, name in enumerate(FLAGS):
            found += self.flags[name] * (1 << number)
        return found

    def taken(self, *places: Places) -> Block:
        """Some of the rows, or all rows and some of the columns."""

        def kept(numbers: NDArray[Any]) -> NDArray[Any]:
            return numbers[places]

        return Block(
            kept(self.values),
            self.unit,
            kept(self.low),
            kept(self.high),
            None if self.deviation is None else kept(self.deviation),
            kept(self.margin),
            {name: kept(mask) for name, mask in self.flags.items()},
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

    def records(self) -> list[dict[str, Any]]:
        """All figures as plain data, in their order: what has no bound is null."""
        errors = () if self.deviation is None else (self.deviation,)
        reals = np.array([self.low, self.high, self.margin, self.relative, *errors])
        rounded: list[list[Any]] = np.round(reals, 4).reshape(len(reals), -1).tolist()
        if not np.isfinite(reals).all():
            rounded = [[n if isfinite(n) else None for n in numbers] for numbers in rounded]
        if self.unit == 1:  # integers, but for the relative error
            for place in (0, 1, 2):
                rounded[place] = [n if n is None or n % 1 else int(n) for n in rounded[place]]
        estimates = self.values if self.unit == 1 else self.jobs
        columns = [estimates.ravel().tolist(), *rounded]
        columns.append([FLAGGED[number] for number in self.flag_sums.ravel().tolist()])
        names = _COLUMNS if errors else (*_COLUMNS[:5], _COLUMNS[6])
        return [dict(zip(names, cell, strict=True)) for cell in zip(*columns, strict=True)]


@dataclass(frozen=True)
class Cell:
    """One figure of a table; `value` counts parts, of which `unit` make one."""

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


def keyed(names: Iterable[str], codes: Iterable[str]) -> dict[str, str]:
    """Codes by the names of their variables, as plain data has them beside a figure."""
    return {f"{n}_" if n in TAKEN else n: code for n, code in zip(names, codes, strict=True)}


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
        return keyed((a.name for a in self.axes), self.codes(number))

    def taken(self, kept: Places) -> Side:
        """Some of them."""
        numbers = np.arange(len(self))[kept].tolist()
        return Side(self.axes, tuple(self.places[number] for number in numbers))


#: Where no variable is: one row or column, of all.
NO_SIDE = Side((), ((),))


def side_of(figures: Figures, first: int, last: int) -> tuple[Side, Integers]:
    """The rows or the columns that some of the axes of figures make, and where each figure is."""
    axes = figures.axes[first:last]
    if not axes:
        return NO_SIDE, np.zeros(len(figures), dtype=np.int64)
    if figures.places is None:
        inner = prod(len(axis.codes) for axis in figures.axes[last:])
        every = tuple(product(*(range(len(axis.codes)) for axis in axes)))
        return Side(axes, every), figures.keys // inner % max(len(every), 1)
    places = figures.places[first:last]
    keys = combined(axes, places, len(figures))
    _, start, where = np.unique(keys, return_index=True, return_inverse=True)
    found = tuple(tuple(int(place[i]) for place in places) for i in start.tolist())
    return Side(axes, found), where.astype(np.int64)


def in_a_line(data: DataSet, figures: Figures) -> tuple[Side, Block]:
    """Figures one after the other, each combination a row."""
    side, at = side_of(figures, 0, len(figures.axes))
    return side, filled(data, figures, at, (len(side),))


def filled(data: DataSet, figures: Figures, at: Integers, shape: tuple[int, ...]) -> Block:
    """Figures in their places; where there is none, nobody is."""
    size, kept = prod(shape), at >= 0
    place = at[kept]

    def spread(numbers: NDArray[Any], empty: float) -> NDArray[Any]:
        if figures.places is None:  # all are there, in this order
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

    def page(self, most: int = PAGE_ROWS) -> Answer:
        """The page that the query asks for; refuses one that is not there."""
        rows = page_of(len(self.rows), self._on_page(most), self.query.page)
        cols = page_of(len(self.cols), PAGE_COLUMNS, self.query.across)
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
    def _blocks(self) -> tuple[Block, ...]:
        return self.body, self.row_totals, self.col_totals, self.total

    @cached_property
    def found_flags(self) -> list[str]:
        """The flags that stand on a figure of it."""
        return [flag for flag in FLAGS if any(block.flags[flag].any() for block in self._blocks)]

    @cached_property
    def decimals(self) -> int:
        """As many as show every figure without rounding, so that the page adds up."""
        return max(block.decimals for block in self._blocks)

    def as_json(self) -> dict[str, Any]:
        """Plain data: a record for every cell, and the totals apart."""
        rows = [self.rows.keyed(i) for i in range(len(self.rows))]
        cols = [self.cols.keyed(j) for j in range(len(self.cols))]
        keys = [row | col for row in rows for col in cols]
        totals: dict[str, Any] = {"all": self.total.records()[0]}
        if self.query.rows and self.query.cols:
            totals["rows"] = _joined(rows, self.row_totals)
            totals["columns"] = _joined(cols, self.col_totals)
        return {"cells": _joined(keys, self.body), "totals": totals}


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
    return _sorted(found)


def flags_on(cells: Iterable[Cell]) -> list[str]:
    """The flags that stand on some of the cells, in their order."""
    found = {flag for cell in cells for flag in cell.flags}
    return [flag for flag in FLAGS if flag in found]


def page_of(count: int, size: int, asked: int) -> slice:
    """What of a list is on the page that is asked for; refuses one that is not there."""
    if asked > (pages := pages_of(count, size)):
        raise Refusal(f"there is no page {asked:,}; the last one is {pages:,}")
    return slice((asked - 1) * size, asked * size)


def pages_of(count: int, size: int) -> int:
    """How many pages a list fills."""
    return max(1, -(-count // size))


def _refuse_large(cells: int) -> None:
    if cells > MOST_CELLS:
        raise TooLarge(
            f"the table would have {cells:,} cells, more than the {MOST_CELLS:,} of one answer;"
            " take off a variable, show coarser groups, or keep fewer codes"
        )


def _totals(data: DataSet, figures: Figures, side: Side) -> Block:
    """The totals of rows or columns, in their order."""
    if figures.places is None:
        return filled(data, figures, figures.keys, (len(side),))
    places = np.array(side.places, dtype=np.int64).reshape(len(side), len(figures.axes))
    keys = combined(figures.axes, list(places.T), len(side))
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


def _joined(keys: Sequence[Mapping[str, str]], block: Block) -> list[dict[str, Any]]:
    """The codes of figures with the figures."""
    return [{**key, **record} for key, record in zip(keys, block.records(), strict=True)]
