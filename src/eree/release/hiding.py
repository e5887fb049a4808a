"""Turns confidential cells into noisy ones, batch by batch: where counts and chance meet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from eree.noise.coins import Coins
from eree.noise.exact import Whole
from eree.policy.schema import Schema
from eree.release.intervals import UNBOUNDED, Ends
from eree.release.treatment import Treatment
from eree.workload import Marginal

#: What a released table has besides its attributes.
MEASURES = ("employment", "noisy", "low", "high", "workplaces")


@dataclass(frozen=True)
class Hiding:
    """How the cells of one table become public ones."""

    schema: Schema
    marginal: Marginal
    treatment: Treatment
    level: float

    @property
    def counted(self) -> Marginal:
        """What is counted: workplace attributes first, so that worker cells lie side by side."""
        owner = {a.name: a.owner for a in self.schema.attributes.values()}
        by = sorted(self.marginal.by, key=lambda name: owner[name] == "worker")
        return Marginal(tuple(by), self.marginal.where, self.treatment.bound)

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns of the released table, attributes in the order of the plan."""
        kinds = {a.name: a.kind for a in self.schema.attributes.values()}
        keys = [
            pa.field(name, pa.int64() if kinds[name] == "integer" else pa.string(), nullable=False)
            for name in self.marginal.by
        ]
        measures = [pa.field(name, pa.int64(), nullable=name == "high") for name in MEASURES]
        return pa.schema([*keys, *measures])

    def hidden(self, cells: Iterable[pa.RecordBatch], coins: Coins) -> Iterator[pa.RecordBatch]:
        """Public rows for confidential ones."""
        for batch in regrouped(cells, self.treatment.worker_cells):
            noisy = self.treatment.draw(batch, coins)
            low, high = self.ends(noisy)
            known = {
                "employment": pa.array(np.maximum(noisy, 0)),
                "noisy": pa.array(noisy),
                "low": pa.array(low),
                "high": pa.array(high, mask=high == UNBOUNDED),
                "workplaces": batch.column("workplaces"),
            }
            columns = [
                known[field.name] if field.name in known else batch.column(field.name)
                for field in self.columns
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.columns)

    def ends(self, noisy: Whole) -> tuple[Whole, Whole]:
        """Ends of the intervals for whole groups of noisy counts."""
        return self._interval(noisy)

    @cached_property
    def _interval(self) -> Ends:
        return self.treatment.intervals(self.schema, self.marginal, self.level)


def regrouped(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that no group of `size` rows is cut apart by."""
    left: pa.RecordBatch | None = None
    for batch in batches:
        whole = batch if left is None else _joined(left, batch)
        keep = whole.num_rows - whole.num_rows % size
        if keep:
            yield whole.slice(0, keep)
        left = whole.slice(keep) if keep < whole.num_rows else None
    assert left is None


def _joined(first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    table = pa.Table.from_batches([first, second]).combine_chunks()
    return table.to_batches()[0]
