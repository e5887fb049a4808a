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
    def read(cls, release: Release, name: str) -> Self:
        """Read a table of jobs."""
        marginal, measurement = measurement_of(release, name)
        schema = release.schema
        own = [name for name in marginal.by if schema.attributes[name].owner == "workplace"]
        coarser = {n: one for n, one in above(release, own).items() if one.whole}
        return cls(schema, marginal, measurement, release.table(name), coarser)

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
        return self.rows.take(np.arange(0, self.rows.num_rows, self.measurement.worker_cells))

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
        mine = self.groups_with(groups.attributes)
        keys = zip(*(groups.groups[name].to_pylist() for name in groups.attributes), strict=True)
        place = {key: i for i, key in enumerate(keys)} if groups.attributes else {(): 0}
        own = zip(*(mine[name].to_pylist() for name in groups.attributes), strict=True)
        found = [place.get(key, -1) for key in own] if groups.attributes else [0] * len(self.groups)
        return None if -1 in found else np.array(found, dtype=np.int64)


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
