"""Estimates with smaller errors from a table of worker cells: post-processing of a release.

They are made of the release alone, so they cost no privacy, and anyone can make them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eree.errors import Refusal, Unreadable
from eree.estimate.groups import ShrunkGroups
from eree.estimate.noise import can_be_shrunk, classes_for
from eree.estimate.workplaces import ShrunkWorkplaces
from eree.mechanisms.bent_vector import BentVector
from eree.mechanisms.knorm_linlog import KNormLinLog
from eree.mechanisms.knorm_staircase import KNormStaircase
from eree.mechanisms.mechanism import LIMIT, Mechanism
from eree.noise.exact import Whole
from eree.release.intervals import UNBOUNDED
from eree.release.listing import Listing, checked_level, write_csv
from eree.release.release import Release
from eree.release.sums import Areas
from eree.release.treatment import SCALED_TO

#: What can be shrunk where it hides single workplaces.
_ON_HEIGHTS = f"{KNormStaircase.name} or {KNormLinLog.name}"
#: Fewer groups tell too little of what is usual.
LEAST_GROUPS = 30


@dataclass(frozen=True)
class Shrunk(Listing):
    """The cells of a table with estimates that are drawn to what is usual for their kind.

    Columns: the attributes, then `estimate`, and `noisy`, `low`, `high` and `workplaces` as the
    release has them.  The intervals are those of the release, at its level: they hold whatever the
    estimates assume.  `habits` says how alike workers of one workplace were found to be, as an
    intra-class correlation, for each set of worker attributes.  Where cells were added up, `noisy`
    is the sum, and its interval that of the sum.
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


def shrink(release: Release, table: str, by: Iterable[str] = ()) -> Shrunk:
    """Estimate the cells of a released table whose worker cells were hidden together.

    The shares of each group of worker cells are drawn to those of all groups of its kind (the
    workplace attributes whose values the schema declares), the more, the more noise they have; how
    much groups of a kind differ is learnt from the table itself.

    `by` adds the cells of a table of single workplaces up, area by area.
    """
    areas = Areas.read(release, table, by)
    schema, counted = areas.schema, areas.counted
    workers = [name for name in counted.by if schema.attributes[name].owner == "worker"]
    if any(schema.attributes[name].owner == "worker" for name in counted.where):
        raise Refusal(
            f"table {table} leaves out workers, and estimates are made of whole workplaces; shrink"
            " a table of all workers"
        )
    mechanism, workplaces = areas.treatment.mechanism, areas.numbers["workplaces"]
    alone = isinstance(mechanism, BentVector) and bool((workplaces == 1).all())
    if not alone and not can_be_shrunk(mechanism):
        raise Refusal(_cannot(table, mechanism))
    if areas.wanted.by and not alone:
        raise Refusal(
            f"estimates are added up where every workplace was hidden by itself by {_ON_HEIGHTS},"
            f" which table {table} was not; for sums use its noisy counts, as area_totals does"
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
    declared = [
        name
        for name in counted.by
        if name not in workers and schema.attributes[name].values is not None
    ]
    kinds = _kinds(rows, declared, cells)
    learnt: ShrunkWorkplaces | ShrunkGroups
    if isinstance(mechanism, BentVector):
        learnt = ShrunkWorkplaces.learn(noisy, kinds, mechanism, shape)
        habits = learnt.habits
    else:
        bounds = areas.numbers[SCALED_TO][::cells] if SCALED_TO in areas.numbers else None
        classed = classes_for(mechanism, noisy, workplaces[::cells], bounds)
        learnt = ShrunkGroups.learn(noisy, kinds, classed, shape)
        habits = learnt.habits[:, 0]
    level = checked_level(release.record["level"])
    found = _listed(areas, learnt.estimates().ravel(), level)
    named = dict(zip(_sets(workers, shape), habits.tolist(), strict=True))
    asked = areas.wanted.by or counted.by
    return Shrunk(release, table, asked, counted.where, level, found, named)


def _cannot(table: str, mechanism: Mechanism) -> str:
    """Why a table cannot be shrunk."""
    if isinstance(mechanism, BentVector):
        return (
            f"{mechanism.name} was given the counts of several workplaces together in table"
            f" {table}; its noise can be shrunk where every workplace is hidden by itself, in a"
            " table that is counted by the key of workplaces"
        )
    return (
        f"table {table} was hidden cell by cell by {mechanism.name}; only worker cells that"
        " were hidden together gain from it, by vector-radial, vector-pareto or two-stage-clip, or"
        f" by {_ON_HEIGHTS} in a row for each workplace"
    )


def _listed(areas: Areas, estimates: NDArray[np.float64], level: float) -> pa.Table:
    """Rows of a listing: all cells of the table, or the areas that they are added up to."""
    rows = areas.release.table(areas.table)
    if not areas.wanted.by:
        low = rows["low"].to_numpy()
        high = rows["high"].fill_null(pa.scalar(UNBOUNDED, pa.int64())).to_numpy()
        columns = rows.select([*areas.counted.by, "noisy", "low", "high", "workplaces"])
        within = _within(estimates, low, high)
        return columns.add_column(len(areas.counted.by), "estimate", pa.array(within))
    totals = areas.totals(level, simultaneous=False).rows
    high = totals["high"].fill_null(pa.scalar(UNBOUNDED, pa.int64())).to_numpy()
    sums = np.add.reduceat(estimates[areas.place], areas.starts)
    attributes = areas.schema.attributes
    left = [name for name in areas.counted.by if name not in areas.wanted.by]
    each = prod(len(attributes[n].values or ()) for n in left if attributes[n].owner == "worker")
    columns = totals.append_column("workplaces", pc.divide(totals["cells"], each)).drop(["cells"])
    within = _within(sums, totals["low"].to_numpy(), high)
    return columns.add_column(len(areas.wanted.by), "estimate", pa.array(within))


def _within(estimates: NDArray[np.float64], low: Whole, high: Whole) -> Whole:
    """Whole estimates of at least 0, moved to the nearer end where they lie outside."""
    whole = np.rint(np.clip(estimates, 0, LIMIT)).astype(np.int64)
    found = np.maximum(whole, low)
    return np.where(high == UNBOUNDED, found, np.minimum(found, high))


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
