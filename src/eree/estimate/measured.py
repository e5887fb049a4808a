"""A released table with what it counts and how it was protected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import pyarrow as pa

from eree.errors import Refusal, Unreadable
from eree.estimate.above import Above, above
from eree.estimate.size_distribution import told_apart
from eree.mechanisms.mechanism import Mechanism
from eree.policy.plain_data import guarantee_of
from eree.policy.schema import Schema
from eree.random.exact import Integers
from eree.release.price import Measurement, measurement_for
from eree.release.release import Release
from eree.workload import Marginal


@dataclass(frozen=True, eq=False)
class MeasuredTable:
    """The rows of a released table, and what they mean."""

    schema: Schema
    marginal: Marginal
    measurement: Measurement
    rows: pa.Table
    #: What lies above the attributes of its workplaces, with all of their codes.
    above: Mapping[str, Above]

    @classmethod
    def read(cls, release: Release, name: str, *, coded: bool = False) -> Self:
        """Read a table of jobs; its attributes may be `coded`, where groups alone are looked at."""
        marginal, measurement = measurement_of(release, name)
        schema = release.schema
        own = [name for name in marginal.by if schema.attributes[name].owner == "workplace"]
        coarser = {n: one for n, one in above(release, own).items() if one.whole}
        rows = release.coded(name, marginal.by) if coded else release.table(name)
        return cls(schema, marginal, measurement, rows, coarser)

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism of its cells."""
        return self.measurement.mechanism

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The workplace attributes that it is counted by."""
        return tuple(
            name for name in self.marginal.by if self.schema.attributes[name].owner == "workplace"
        )

    @cached_property
    def kept(self) -> dict[str, tuple[object, ...]]:
        """The filter on its workplaces."""
        return {
            name: tuple(sorted(values, key=str))
            for name, values in self.marginal.where.items()
            if self.schema.attributes[name].owner == "workplace"
        }

    @cached_property
    def groups(self) -> pa.Table:
        """The first row of every group."""
        rows, size = self.rows, self.measurement.worker_cells
        if size > 1:
            rows = rows.take(np.arange(0, rows.num_rows, size))
        for place, column in enumerate(rows.columns):
            if pa.types.is_dictionary(column.type):
                plain = column.cast(column.type.value_type)
                rows = rows.set_column(place, rows.column_names[place], plain)
        return rows

    def groups_with(self, names: Iterable[str]) -> pa.Table:
        """The same with some of the attributes above, where they are none of its own."""
        found = self.groups
        for one in (self.above[name] for name in names if name not in self.attributes):
            found = found.append_column(one.coarse, one.of(found[one.fine]))
        return found

    @property
    def filtered(self) -> bool:
        """Whether it leaves workers out."""
        return any(self.schema.attributes[name].owner == "worker" for name in self.marginal.where)

    @property
    def counts_workplaces(self) -> bool:
        """Whether its cells hold all workers of their workplaces, so that they tell of sizes."""
        return not self.marginal.touches_workers(self.schema) and self.noise_by_size

    @property
    def noise_by_size(self) -> bool:
        """Whether its noise goes by the size of the largest workplace."""
        return len(self.measurement.statistics) > 1 and self.mechanism.transform is None

    def kinds_told_apart(self) -> tuple[str, ...]:
        """The attributes of workplaces that have few, declared values."""
        known = self.schema.attributes
        return tuple(name for name in self.attributes if known[name].values is not None)

    def within(self, groups: MeasuredTable) -> Integers | None:
        """The group of another table that every row lies in; None where its rows are no parts."""
        if not set(groups.attributes) <= {*self.attributes, *self.above}:
            return None
        if self.kept != groups.kept:
            return None
        if not groups.attributes:
            return np.zeros(len(self.groups), dtype=np.int64)
        mine, theirs = self.groups_with(groups.attributes), groups.groups
        both = [
            pa.chunked_array([*theirs[n].chunks, *mine[n].chunks], type=theirs[n].type)
            for n in groups.attributes
        ]
        first, back = told_apart(both)
        place = np.full(len(first), -1)
        place[back[: len(theirs)]] = np.arange(len(theirs))
        found: Integers = place[back[len(theirs) :]]
        return None if (found < 0).any() else found


def measurement_of(release: Release, table: str) -> tuple[Marginal, Measurement]:
    """What a table counts, and how it was protected, calibrated again from its price."""
    about, schema = release.about_jobs(table), release.schema
    try:
        counted = Marginal.over(schema, about["by"], about["where"])
        price, settings = guarantee_of(about["price"]), about["settings"]
        made = measurement_for(schema, counted, price, about["mechanism"], settings)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise Unreadable(
            f"what the release says of table {table} cannot be read; run 'eree verify'"
        ) from None
    if made.as_json()["parameters"] != about["parameters"]:
        raise Refusal(
            f"table {about['name']} was made by eree {release.record['eree']}, whose"
            f" {about['mechanism']} has other parameters; use that version for its intervals"
        )
    if made.worker_cells != about["worker_cells"]:
        raise Unreadable(f"table {table} has other worker cells than it says; run 'eree verify'")
    return counted, made
