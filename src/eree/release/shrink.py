"""Estimates with smaller errors from a table of worker cells: post-processing of a release.

They are made of the release alone, so they cost no privacy, and anyone can make them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from eree.errors import Refusal, Unreadable
from eree.estimate.groups import ShrunkGroups
from eree.estimate.noise import can_be_shrunk, classes_for
from eree.noise.exact import Whole
from eree.release.intervals import UNBOUNDED
from eree.release.listing import Listing, checked_level, write_csv
from eree.release.release import Release
from eree.release.sums import Areas
from eree.release.treatment import SCALED_TO

#: Fewer groups tell too little of what is usual.
LEAST_GROUPS = 30


@dataclass(frozen=True)
class Shrunk(Listing):
    """The cells of a table with estimates that are drawn to what is usual for their kind.

    Columns: the attributes, then `estimate`, and `noisy`, `low`, `high` and `workplaces` as the
    release has them.  The intervals are those of the release, at its level: they hold whatever the
    estimates assume.  `habits` says how alike workers of one workplace were found to be, as an
    intra-class correlation, for each set of worker attributes.
    """

    habits: dict[str, float]

    def write(self, out: str | os.PathLike[str]) -> Path:
        """Write all cells into a new CSV file beside the release, never into it."""
        path = Path(out)
        if path.resolve().is_relative_to(self.release.folder.resolve()):
            raise Refusal(
                "estimates are no part of a signed release; write them outside its folder"
            )
        return write_csv(self.rows, path)


def shrink(release: Release, table: str) -> Shrunk:
    """Estimate the cells of a released table whose worker cells were hidden together.

    The shares of each group of worker cells are drawn to those of all groups of its kind (the
    workplace attributes whose values the schema declares), the more, the more noise they have; how
    much groups of a kind differ is learnt from the table itself.
    """
    areas = Areas.read(release, table, ())
    schema, counted, mechanism = areas.schema, areas.counted, areas.treatment.mechanism
    workers = [name for name in counted.by if schema.attributes[name].owner == "worker"]
    if any(schema.attributes[name].owner == "worker" for name in counted.where):
        raise Refusal(
            f"table {table} leaves out workers, so its counts do not bound its workplaces; shrink"
            " a table of all workers"
        )
    if not can_be_shrunk(mechanism):
        raise Refusal(
            f"table {table} was hidden cell by cell by {mechanism.name}; only worker cells that"
            " were hidden together, by vector-radial, vector-pareto or two-stage-clip, gain from it"
        )
    shape = [len(schema.attributes[name].values or ()) for name in workers]
    rows, cells = release.table(table), int(np.prod(shape))
    if rows.num_rows % cells:
        raise Unreadable(f"table {table} lacks cells; run 'eree verify'")
    noisy = areas.noisy.reshape(-1, cells)
    if len(noisy) < LEAST_GROUPS:
        raise Refusal(
            f"table {table} has {len(noisy)} groups of worker cells; what is usual can be learnt"
            f" from {LEAST_GROUPS} or more"
        )
    workplaces = areas.numbers["workplaces"][::cells]
    bounds = areas.numbers[SCALED_TO][::cells] if SCALED_TO in areas.numbers else None
    declared = [
        name
        for name in counted.by
        if name not in workers and schema.attributes[name].values is not None
    ]
    classed = classes_for(mechanism, noisy, workplaces, bounds)
    learnt = ShrunkGroups.learn(noisy, _kinds(rows, declared, cells), classed, shape)
    low = rows["low"].to_numpy()
    high = rows["high"].fill_null(pa.scalar(UNBOUNDED, pa.int64())).to_numpy()
    found = np.rint(np.maximum(learnt.estimates(), 0)).astype(np.int64).ravel()
    found = np.maximum(found, low)
    found = np.where(high == UNBOUNDED, found, np.minimum(found, high))
    columns = rows.select([*counted.by, "noisy", "low", "high", "workplaces"])
    columns = columns.add_column(len(counted.by), "estimate", pa.array(found))
    level = checked_level(release.record["level"])
    habits = dict(zip(_sets(workers, shape), learnt.habits[:, 0].tolist(), strict=True))
    return Shrunk(release, table, counted.by, counted.where, level, columns, habits)


def _kinds(rows: pa.Table, by: list[str], cells: int) -> Whole:
    """The kind of every group, as a number from 0 on."""
    kinds: dict[tuple[object, ...], int] = {}
    columns = [rows[name].to_pylist()[::cells] for name in by]
    groups = zip(*columns, strict=True) if by else [()] * (rows.num_rows // cells)
    numbers = [kinds.setdefault(key, len(kinds)) for key in groups]
    return np.array(numbers, dtype=np.int64)


def _sets(workers: list[str], shape: list[int]) -> list[str]:
    """Names of the sets of worker attributes, in the order in which habits are learnt."""
    found = [""]
    for name, values in zip(workers, shape, strict=True):
        found = [
            " × ".join(filter(None, (before, after)))
            for before in found
            for after in ("", name if values > 1 else None)
            if after is not None
        ]
    return [name for name in found if name]
