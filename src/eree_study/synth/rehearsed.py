"""Synthetic tables for a schema: public workplaces as they are, everything else made up.

Of the office's tables that of workplaces alone is looked at, and of that the public attributes.
Workers and jobs come from declared values; sizes of workplaces are as most are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eree.cells import USUAL_DEVIATION, USUAL_MEDIAN
from eree.data.frame import Frame
from eree.policy.schema import Attribute, Schema, Table
from eree.workload import Marginal

#: No workplace is larger.
_LARGEST = 50_000
#: The share of workers with a second job, where they may have one.
_SECOND = 0.1


def rehearsed_tables(frame: Frame, *, most: int, seed: int) -> dict[str, pa.Table]:
    """Workplaces, at most so many of them, workers and jobs, by the names of their tables."""
    schema, random = frame.schema, np.random.default_rng(seed)
    job = schema.job
    workplaces = _public_workplaces(frame, most, random)
    key, number = schema.workplace.key, workplaces.num_rows
    if key not in workplaces.column_names:
        workplaces = workplaces.append_column(key, pa.array(np.arange(1, number + 1)))
    drawn = np.rint(random.lognormal(log(USUAL_MEDIAN), USUAL_DEVIATION, number))
    sizes = np.clip(drawn, 1, _LARGEST).astype(np.int64)
    at = np.repeat(np.arange(number), sizes)
    who = np.arange(len(at))
    # every second job may be one more of the worker before
    if job.most_per_worker > 1 or job.greatest:
        again = (who % 2 == 1) & (random.random(len(who)) < 2 * _SECOND)
        who = who - again
    jobs = pa.table({job.worker: who, job.workplace: workplaces[key].take(at)})
    if job.primary:
        jobs = jobs.append_column(job.primary, pa.array(np.ones(len(at), dtype=bool)))
    if job.greatest:
        worth = pa.array(random.integers(0, 100_000, len(at)))
        jobs = jobs.append_column(job.greatest, worth)
    people = pa.table({schema.worker.key: np.unique(who)})
    return {
        "workplace": _filled(workplaces, schema, "workplace", schema.workplace.ignore, random),
        "worker": _filled(people, schema, "worker", schema.worker.ignore, random),
        "job": _filled(jobs, schema, "job", job.ignore, random),
    }


def _filled(
    rows: pa.Table,
    schema: Schema,
    table: Table,
    ignored: Sequence[str],
    random: np.random.Generator,
) -> pa.Table:
    """A table with the columns that it still lacks."""
    for attribute in schema.columns_of(table):
        if attribute.name not in rows.column_names:
            rows = rows.append_column(attribute.name, _values(attribute, rows.num_rows, random))
    for attribute in schema.columns_of(table):
        if attribute.classes is not None:  # the column holds what its values are made of
            place = rows.column_names.index(attribute.name)
            kind = pa.date32() if attribute.classes.of_dates else pa.decimal128(28, 10)
            least = pa.array(list[Any](attribute.classes.least), kind)
            at = pc.index_in(rows[attribute.name], pa.array(list[Any](attribute.classes.values)))
            rows = rows.set_column(place, attribute.name, least.take(at))
    for name in ignored:
        rows = rows.append_column(name, pa.array(np.zeros(rows.num_rows, dtype=np.int64)))
    return rows


def _public_workplaces(frame: Frame, most: int, random: np.random.Generator) -> pa.Table:
    """A row for each workplace, with its public attributes."""
    columns = frame.schema.columns_of("workplace")
    names = [a.name for a in columns if not a.confidential]
    counted = frame.workplaces_by(Marginal.over(frame.schema, names))
    rows = np.repeat(np.arange(counted.num_rows), counted["_workplaces"].to_numpy())
    if len(rows) > most:
        rows = np.sort(random.choice(rows, most, replace=False))
    return counted.select(names).take(rows) if names else _without_columns(len(rows))


def _without_columns(rows: int) -> pa.Table:
    return pa.table({"_": np.zeros(rows)}).select([])


def _values(attribute: Attribute, rows: int, random: np.random.Generator) -> pa.Array[Any]:
    """Declared values, some more often than others; of an open list one."""
    values = attribute.values or ((0,) if attribute.kind == "integer" else ("none",))
    shares = random.dirichlet(np.full(len(values), 5.0))
    found: pa.Array[Any] = pa.array(list(values))
    return found.take(random.choice(len(values), rows, p=shares))
