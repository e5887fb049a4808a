"""Measure: the only code that makes public rows of confidential cells and secret randomness.

A two-stage mechanism counts twice.  First the workplace cells alone, whose largest workplaces give
every group a noisy bound; then the table, every workplace scaled to the bound of its group.

Several marginals of the same workers are counted at once, and drawn at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eree.cells import Cells
from eree.errors import EngineFailure, Refusal
from eree.mechanisms.intervals import UNBOUNDED
from eree.policy.schema import Owner, Schema
from eree.random.exact import Integers
from eree.random.source import Random
from eree.release.contents import SCALED_TO, columns_of
from eree.release.price import Ends, Measurement, Numbers
from eree.workload import TOTAL, Bound, Marginal, Marginals, ScaleEach, SizeProfile

#: Groups whose marginals are drawn at once.
_GROUPS = 1 << 15
#: Counts the cells of a marginal, part by part.
Count = Callable[[Marginal], Iterable[Cells]]


@dataclass(frozen=True)
class PublicRows:
    """Rows of a released table.  They are made in this file alone, of noisy counts."""

    rows: pa.Table


@dataclass(frozen=True)
class TableMeasure:
    """How the cells of one table become public rows."""

    schema: Schema
    marginal: Marginal
    measurement: Measurement
    level: float

    def counted(self, bound: Bound | None) -> Marginal:
        """What is counted: workplace attributes first, so that worker cells lie side by side."""
        by = (*self.by("workplace"), *self.by("worker"))
        return Marginal(by, self.marginal.where, bound)

    def by(self, owner: Owner) -> list[str]:
        """The attributes of the table that are of workplaces, or of workers."""
        attributes = (self.schema.attributes[name] for name in self.marginal.by)
        return [attribute.name for attribute in attributes if attribute.owner == owner]

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns of the released table, attributes in the order of the plan."""
        scaled = self.measurement.clips
        return columns_of(self.schema, self.marginal.by, scaled=scaled)

    def public_rows(self, count: Count, random: Random) -> Iterator[PublicRows]:
        """Public rows for the confidential cells that are counted."""
        if self.measurement.drawn_with:  # by itself it would be a draw that nobody paid for
            raise Refusal("marginals that are paid for once are drawn at once, and none by itself")
        size, totals = self.measurement.worker_cells, None
        bound: Bound | None = self.measurement.mechanism.bound
        if self.measurement.clips:
            bound = self._bounds(count, random)
            totals = bound.totals[TOTAL].to_numpy()
        groups = 0
        for cells in regrouped(count(self.counted(bound)), size):
            own = None
            if isinstance(bound, ScaleEach) and totals is not None:
                own = totals[groups : groups + len(cells) // size]
                self._check_order(cells, bound.totals.slice(groups, len(own)))
                groups += len(own)
            yield self._public(cells, own, random)

    def _check_order(self, cells: Cells, bounded: pa.Table) -> None:
        """Cells must come in the order in which their groups were bounded: noise hangs on it."""
        place = np.arange(0, len(cells), self.measurement.worker_cells)
        for name in self.by("workplace"):
            if cells.confidential[name].take(place).to_pylist() != bounded[name].to_pylist():
                raise EngineFailure("the cells came in another order than their bounds; try again")

    def _bounds(self, count: Count, random: Random) -> ScaleEach:
        """A noisy bound for every group, from its largest workplace, all workers counted."""
        keys = self.by("workplace")
        where = {
            name: values
            for name, values in self.marginal.where.items()
            if self.schema.attributes[name].owner == "workplace"
        }
        found = []
        for cells in count(Marginal(tuple(keys), where)):
            largests = cells.confidential["largest"].to_numpy()
            drawn = self.measurement.mechanism.bounds(largests, random=random)
            public = cells.confidential.select(keys)
            found.append(public.append_column(TOTAL, pa.array(drawn)))
        return ScaleEach(pa.concat_tables(found) if found else self._no_bounds)

    @property
    def _no_bounds(self) -> pa.Table:
        kinds = [self.columns.field(name) for name in self.by("workplace")]
        return pa.schema([*kinds, pa.field(TOTAL, pa.int64())]).empty_table()

    def _public(self, cells: Cells, totals: Integers | None, random: Random) -> PublicRows:
        bounds = None if totals is None else np.repeat(totals, self.measurement.worker_cells)
        noisy = self._noisy(cells, bounds, random)
        return self.rows(
            cells.confidential.select([*self.marginal.by, "workplaces"]), noisy, bounds
        )

    def rows(self, public: pa.Table, noisy: Integers, bounds: Integers | None = None) -> PublicRows:
        """Rows of noisy counts, beside the attributes and the numbers of workplaces of cells."""
        numbers = {"noisy": noisy, "workplaces": public["workplaces"].to_numpy()}
        if bounds is not None:
            numbers[SCALED_TO] = bounds
        low, high = self.ends(numbers)
        known = {name: pa.array(column) for name, column in numbers.items()} | {
            "employment": pa.array(np.maximum(noisy, 0)),
            "low": pa.array(low),
            "high": pa.array(high, mask=high == UNBOUNDED),
        }
        columns = [
            known[field.name] if field.name in known else public[field.name]
            for field in self.columns
        ]
        return PublicRows(pa.Table.from_arrays(columns, schema=self.columns))

    def cells_of(self, groups: pa.Table) -> pa.Table:
        """All cells of some groups, in the order in which they are counted."""
        size, names = self.measurement.worker_cells, self.by("worker")
        cells = groups.take(np.repeat(np.arange(groups.num_rows), size))
        values = product(*(self.schema.attributes[name].values or () for name in names))
        for name, column in zip(names, zip(*values, strict=True), strict=True):
            kind = self.columns.field(name)
            cells = cells.append_column(kind, pa.array([*column] * groups.num_rows, kind.type))
        return cells

    def _noisy(self, cells: Cells, bounds: Integers | None, random: Random) -> Integers:
        """One noisy count for each cell; `bounds` are those of a first stage, cell by cell."""
        statistics = self.measurement.statistics if bounds is None else ("count",)
        numbers = [self.measurement.grouped(self._counted(cells, name)) for name in statistics]
        if bounds is not None:
            numbers.append(self.measurement.grouped(bounds))
        return self.measurement.mechanism.draw(*numbers, random=random).ravel()

    def _counted(self, cells: Cells, name: str) -> Integers:
        """A statistic of the cells; counts in the unit of the mechanism."""
        column, unit = cells.confidential[name], self.measurement.mechanism.unit
        if name == "count" and unit > 1:
            column = pc.multiply(column, pa.scalar(unit, pa.decimal128(4, 0))).cast(pa.int64())
        found: Integers = column.to_numpy()
        return found

    def ends(self, rows: Numbers) -> tuple[Integers, Integers]:
        """Ends of the intervals for the rows of whole groups."""
        return self._interval(rows)

    @cached_property
    def _interval(self) -> Ends:
        return self.measurement.intervals(self.schema, self.marginal, self.level)


@dataclass(frozen=True)
class ProfileMeasure(TableMeasure):
    """How numbers of workplaces by size become public rows."""

    def counted(self, _bound: Bound | None) -> Marginal:
        """The profile itself."""
        return self.marginal

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns of a released profile; pooled rows have no attributes."""
        return columns_of(self.schema, self.marginal.by, profile=True)

    def _public(self, cells: Cells, _totals: Integers | None, random: Random) -> PublicRows:
        noisy = self._noisy(cells, None, random)
        workplaces = cells.confidential["workplaces"].to_numpy()
        low, high = self.ends({"noisy": noisy, "workplaces": workplaces})
        number = np.clip(noisy, 0, workplaces)
        known = {"number": number, "noisy": noisy, "low": low, "high": high}
        columns = [
            pa.array(known[field.name]) if field.name in known else cells.confidential[field.name]
            for field in self.columns
        ]
        return PublicRows(pa.Table.from_arrays(columns, schema=self.columns))

    def ends(self, rows: Numbers) -> tuple[Integers, Integers]:
        """Ends of the intervals: no number is above that of all workplaces, which is public."""
        low, high = super().ends(rows)
        return np.minimum(low, rows["workplaces"]), np.minimum(high, rows["workplaces"])


@dataclass(frozen=True)
class MarginalsMeasure:
    """How the cells of several marginals of the same workers become public rows, drawn at once."""

    tables: tuple[TableMeasure, ...]

    @cached_property
    def counted(self) -> Marginals:
        """What is counted: all marginals at once."""
        first = self.tables[0]
        blocks = [table.by("worker") for table in self.tables]
        return Marginals.of(first.schema, first.by("workplace"), first.marginal.where, blocks)

    def public_rows(self, count: Count, random: Random) -> Iterator[tuple[PublicRows, ...]]:
        """Public rows of every table, for the same groups."""
        whole, schema = self.tables[0].measurement.mechanism.whole, self.tables[0].schema
        names, ends = self.counted.counts(schema), np.cumsum(self.counted.sizes(schema))[:-1]
        for cells in evenly(count(self.counted), _GROUPS):
            rows = cells.confidential
            counts = np.stack([rows[name].to_numpy() for name in names], axis=1)
            first, *others = (own.sum(axis=1) for own in np.split(counts, ends, axis=1))
            if any((other != first).any() for other in others):
                raise EngineFailure("marginals of the same workers came out differently; try again")
            drawn = whole.draw(counts, rows["largest_total"].to_numpy(), random=random)
            public = rows.select([*self.counted.by, "workplaces"])
            yield tuple(
                table.rows(table.cells_of(public), np.ascontiguousarray(noisy).ravel())
                for table, noisy in zip(self.tables, np.split(drawn, ends, axis=1), strict=True)
            )


def measure_of(
    schema: Schema, marginal: Marginal, measurement: Measurement, level: float
) -> TableMeasure:
    """How the cells of a table become public rows, by what it counts."""
    kind = ProfileMeasure if isinstance(marginal, SizeProfile) else TableMeasure
    return kind(schema, marginal, measurement, level)


def public_parts(
    tables: tuple[TableMeasure, ...], count: Count, random: Random
) -> Iterator[tuple[PublicRows, ...]]:
    """Public rows of the tables of one draw: of one alone, or of several for the same groups."""
    if len(tables) == 1:
        return ((rows,) for rows in tables[0].public_rows(count, random))
    return MarginalsMeasure(tables).public_rows(count, random)


def regrouped(parts: Iterable[Cells], size: int) -> Iterator[Cells]:
    """The same cells in parts that no group of `size` cells is cut apart by."""
    left: pa.Table | None = None
    for part in parts:
        rows = part.confidential
        whole = rows if left is None else pa.concat_tables([left, rows]).combine_chunks()
        keep = whole.num_rows - whole.num_rows % size
        if keep:
            yield Cells(part.marginal, whole.slice(0, keep))
        left = whole.slice(keep) if keep < whole.num_rows else None
    assert left is None


def evenly(parts: Iterable[Cells], size: int) -> Iterator[Cells]:
    """The same rows in parts of `size`, however an engine has cut them: draws hang on it."""
    left: list[pa.Table] = []
    for part in parts:
        left.append(part.confidential)
        while sum(rows.num_rows for rows in left) >= size:
            whole = pa.concat_tables(left).combine_chunks()
            yield Cells(part.marginal, whole.slice(0, size))
            left = [whole.slice(size)]
        marginal = part.marginal
    if any(rows.num_rows for rows in left):
        yield Cells(marginal, pa.concat_tables(left).combine_chunks())
