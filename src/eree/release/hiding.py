"""Turns confidential cells into noisy ones, batch by batch: where counts and chance meet.

A two-stage mechanism counts twice.  First the workplace cells alone, whose largest workplaces give
every group a noisy bound; then the table, every workplace scaled to the bound of its group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from eree.errors import EngineFailure
from eree.policy.schema import Owner, Schema
from eree.random.exact import Integers
from eree.random.source import Random
from eree.release.contents import SCALED_TO, columns_of
from eree.release.intervals import UNBOUNDED
from eree.release.treatment import Ends, Numbers, Treatment
from eree.workload import TOTAL, Bound, Marginal, ScaleEach

#: Counts the cells of a marginal, batch by batch.
Count = Callable[[Marginal], Iterable[pa.RecordBatch]]


@dataclass(frozen=True)
class Hiding:
    """How the cells of one table become public ones."""

    schema: Schema
    marginal: Marginal
    treatment: Treatment
    level: float

    def counted(self, bound: Bound | None) -> Marginal:
        """What is counted: workplace attributes first, so that worker cells lie side by side."""
        by = (*self._by("workplace"), *self._by("worker"))
        return Marginal(by, self.marginal.where, bound)

    def _by(self, owner: Owner) -> list[str]:
        attributes = (self.schema.attributes[name] for name in self.marginal.by)
        return [attribute.name for attribute in attributes if attribute.owner == owner]

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns of the released table, attributes in the order of the plan."""
        scaled = self.treatment.first_stage is not None
        return columns_of(self.schema, self.marginal.by, scaled=scaled)

    def hidden(self, count: Count, random: Random) -> Iterator[pa.RecordBatch]:
        """Public rows for the confidential ones that are counted."""
        size, totals = self.treatment.worker_cells, None
        bound: Bound | None = self.treatment.bound
        if self.treatment.first_stage is not None:
            bound = self._bounds(count, random)
            totals = bound.totals[TOTAL].to_numpy()
        groups = 0
        for batch in regrouped(count(self.counted(bound)), size):
            own = None
            if isinstance(bound, ScaleEach) and totals is not None:
                own = totals[groups : groups + batch.num_rows // size]
                self._check_order(batch, bound.totals.slice(groups, len(own)))
                groups += len(own)
            yield self._public(batch, own, random)

    def _check_order(self, cells: pa.RecordBatch, bounded: pa.Table) -> None:
        """Cells must come in the order in which their groups were bounded: noise hangs on it."""
        place = np.arange(0, cells.num_rows, self.treatment.worker_cells)
        for name in self._by("workplace"):
            if cells.column(name).take(place).to_pylist() != bounded[name].to_pylist():
                raise EngineFailure("the cells came in another order than their bounds; try again")

    def _bounds(self, count: Count, random: Random) -> ScaleEach:
        """A noisy bound for every group, from its largest workplace, all workers counted."""
        first, keys = self.treatment.first_stage, self._by("workplace")
        assert first is not None
        where = {
            name: values
            for name, values in self.marginal.where.items()
            if self.schema.attributes[name].owner == "workplace"
        }
        found = []
        for batch in count(Marginal(tuple(keys), where)):
            drawn = first.bounds(batch.column("largest").to_numpy(), random=random)
            columns = {name: batch.column(name) for name in keys} | {TOTAL: pa.array(drawn)}
            found.append(pa.table(columns))
        return ScaleEach(pa.concat_tables(found) if found else self._no_bounds)

    @property
    def _no_bounds(self) -> pa.Table:
        kinds = [self.columns.field(name) for name in self._by("workplace")]
        return pa.schema([*kinds, pa.field(TOTAL, pa.int64())]).empty_table()

    def _public(
        self, cells: pa.RecordBatch, totals: Integers | None, random: Random
    ) -> pa.RecordBatch:
        noisy = self.treatment.draw(cells, random, totals)
        numbers = {"noisy": noisy, "workplaces": cells.column("workplaces").to_numpy()}
        if totals is not None:
            numbers[SCALED_TO] = np.repeat(totals, self.treatment.worker_cells)
        low, high = self.ends(numbers)
        known = {name: pa.array(column) for name, column in numbers.items()} | {
            "employment": pa.array(np.maximum(noisy, 0)),
            "low": pa.array(low),
            "high": pa.array(high, mask=high == UNBOUNDED),
        }
        columns = [
            known[field.name] if field.name in known else cells.column(field.name)
            for field in self.columns
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.columns)

    def ends(self, rows: Numbers) -> tuple[Integers, Integers]:
        """Ends of the intervals for the rows of whole groups."""
        return self._interval(rows)

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
