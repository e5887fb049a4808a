"""What estimates from a release take for usual, and the form in which they are written."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eree.errors import Refusal, Unreadable
from eree.mechanisms.mechanism import LIMIT
from eree.noise.exact import Whole
from eree.policy.schema import Schema
from eree.release.intervals import UNBOUNDED
from eree.workload import Marginal

#: Fewer groups tell too little of what is usual.
LEAST_GROUPS = 30


def workers_of(schema: Schema, counted: Marginal) -> list[str]:
    """The worker attributes of a table."""
    return [name for name in counted.by if schema.attributes[name].owner == "worker"]


def check_all_workers(table: str, schema: Schema, counted: Marginal) -> None:
    """Refuse a table of some workers only."""
    if any(schema.attributes[name].owner == "worker" for name in counted.where):
        raise Refusal(
            f"table {table} leaves out workers, and estimates are made of whole workplaces; shrink"
            " a table of all workers"
        )


def check_whole(table: str, rows: pa.Table, cells: int) -> None:
    """Refuse a table some of whose groups lack cells."""
    if rows.num_rows % cells:
        raise Unreadable(f"table {table} lacks cells; run 'eree verify'")


def check_enough(table: str, groups: int) -> None:
    """Refuse a table of few groups."""
    if groups < LEAST_GROUPS:
        raise Refusal(
            f"table {table} has {groups} groups of worker cells; what is usual can be learnt from"
            f" {LEAST_GROUPS} or more"
        )


def kinds_of(rows: pa.Table, schema: Schema, counted: Marginal, cells: int) -> Whole:
    """The kind of every group, as a number from 0 on: its workplace attributes of declared values.

    `cells` is the number of rows that a group has.
    """
    declared = [
        name
        for name in counted.by
        if schema.attributes[name].owner == "workplace"
        and schema.attributes[name].values is not None
    ]
    kinds: dict[tuple[object, ...], int] = {}
    columns = [rows[name].to_pylist()[::cells] for name in declared]
    groups = zip(*columns, strict=True) if declared else [()] * (rows.num_rows // cells)
    numbers = [kinds.setdefault(key, len(kinds)) for key in groups]
    return np.array(numbers, dtype=np.int64)


def within(estimates: NDArray[np.float64], low: Whole, high: Whole) -> Whole:
    """Whole estimates of at least 0, moved to the nearer end where they lie outside."""
    whole = np.rint(np.clip(estimates, 0, LIMIT)).astype(np.int64)
    found = np.maximum(whole, low)
    return np.where(high == UNBOUNDED, found, np.minimum(found, high))
