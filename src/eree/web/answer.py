"""An answer: the table that a query asks for, with its totals, its errors and its flags.

Totals are figures of their own, summed up from signed values and with errors of their own; none is
made of what is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.noise.exact import Whole
from eree.web.blocks import ABSENT, FLAGS, NO_SIDE, Block, Side, filled, side_of
from eree.web.dataset import DataSet, Figures, combined
from eree.web.query import Query

#: The most cells of one answer.
MOST_CELLS = 100_000
#: The most cells, rows and columns that one page shows.
PAGE_CELLS, PAGE_ROWS, PAGE_COLUMNS = 2_000, 100, 60


class TooLarge(Refusal):
    """The answer would have more cells than one may have."""


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
    rows, row_at = side_of(body, len(query.rows), first=True)
    cols, col_at = side_of(body, len(query.rows), first=False)
    if not query.rows:
        rows = NO_SIDE
    if not query.cols:
        cols = NO_SIDE
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
            sums: Whole = np.zeros(len(number), dtype=np.int64)
            np.add.at(sums, where, values)
            keys += [where, sums[where]]
    return found._with_rows(np.lexsort(keys).astype(np.intp))


def _joined(keys: Sequence[Mapping[str, str]], block: Block) -> list[dict[str, Any]]:
    """The codes of figures with the figures."""
    return [{**key, **record} for key, record in zip(keys, block.records(), strict=True)]
