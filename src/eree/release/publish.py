"""Publish: the one place where confidential cells, secret randomness and the ledger meet.

The order never changes: everything that can be refused is refused first, by public facts alone;
then the price is reserved in the ledger; then cells are counted and noise is drawn; then the files
appear, all at once; then the reservation is settled with the digest of what appeared.  Whatever
stops in between, the price stays spent and nothing is half published.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from eree.budget.ledger import Ledger
from eree.data.tables import Tables
from eree.data.tabulate import stream
from eree.errors import Refusal
from eree.policy.plain_data import guarantee_as_json
from eree.policy.schema import Schema
from eree.random.source import Random
from eree.release.issue import Issue, Progress, new_folder
from eree.release.measure import measure_of
from eree.release.plan import Plan, PlannedTable
from eree.release.record import beginning, file_digest
from eree.release.release import Release
from eree.release.signature import Signer
from eree.workload import Marginal, SizeProfile


def publish(
    plan: Plan,
    tables: Tables,
    *,
    ledger: Ledger | None,
    out: str | os.PathLike[str],
    random: Random | None = None,
    signer: Signer | None = None,
    progress: Progress | None = None,
) -> Release:
    """Turn confidential tables into public ones, and pay for them.

    The folder `out` must be new or empty.  With `SeededRandom`, for tests and studies of synthetic
    data, the release says that it is not private, and no ledger is charged.
    """
    tell = progress or (lambda _step, _done: None)
    source = random or Random()
    target = new_folder(Path(out))
    _check_schema(plan, tables.schema)

    def make(folder: Path, release: str) -> dict[str, Any]:
        written = []
        for i, table in enumerate(plan.tables):
            tell(f"counting and protecting {table.name}", (i + 0.1) / (len(plan.tables) + 0.2))
            written.append(_write(folder, table, tables, float(plan.level), source))
        return _record(plan, release, written, private=source.secret)

    names = ", ".join(table.name for table in plan.tables)
    protects = plan.protects(None if ledger is None else ledger.total.neighbours)
    issue = Issue(plan.price(), protects, target, ledger, source, signer, plan.period)
    return Release.open(issue.issue(make, {"tables": names}, tell))


def _check_schema(plan: Plan, schema: Schema) -> None:
    """Refuse a plan that was made for another schema."""
    if _meaning(schema) != _meaning(plan.schema):
        raise Refusal("the plan was made for another schema than these tables have; read it again")


def _meaning(schema: Schema) -> tuple[object, ...]:
    """All of a schema that counts and prices hang on; not where the tables lie."""
    job = schema.job
    keys = schema.workplace.key, schema.worker.key, job.workplace, job.worker, job.primary
    return schema.data_set, keys, schema.attributes


def _write(
    folder: Path, table: PlannedTable, tables: Tables, level: float, random: Random
) -> dict[str, Any]:
    """Count, protect and write one table; returns what the record says of it."""
    measurement = table.measurement
    measure = measure_of(tables.schema, table.marginal, measurement, level)
    home = folder / "tables"
    home.mkdir(exist_ok=True)
    paths = {suffix: home / f"{table.name}.{suffix}" for suffix in ("parquet", "csv")}
    rows = 0
    with (
        parquet.ParquetWriter(paths["parquet"], measure.columns, compression="zstd") as columns,
        arrow_csv.CSVWriter(paths["csv"], measure.columns) as lines,
    ):
        for part in measure.public_rows(lambda marginal: stream(tables, marginal), random):
            columns.write_table(part.rows)
            lines.write_table(part.rows)
            rows += part.rows.num_rows
    return {
        "name": table.name,
        "by": list(table.marginal.by),
        "where": {name: list(values) for name, values in table.marginal.where.items()},
        **_profile(table.marginal),
        "rows": rows,
        "price": guarantee_as_json(measurement.price),
        "worker_cells": measurement.worker_cells,
        **measurement.as_json(),
        "files": {f"tables/{path.name}": file_digest(path) for path in paths.values()},
    }


def _profile(marginal: Marginal) -> dict[str, Any]:
    """What else the record says of a table that counts workplaces by size."""
    if not isinstance(marginal, SizeProfile):
        return {}
    return {"profile": {"sizes": list(marginal.sizes), "pooled_from": marginal.pooled_from}}


def _record(
    plan: Plan, release: str, written: list[dict[str, Any]], *, private: bool
) -> dict[str, Any]:
    """Everything that a release says of itself but its digest."""
    named = {name for table in written for name in (*table["by"], *table["where"])}
    shown = named | {plan.schema.column(name).name for name in named}
    return beginning(release, plan.price(), private=private) | {
        "level": str(plan.level),
        "attributes": {
            name: {
                "label": attribute.label,
                "owner": attribute.owner,
                "kind": attribute.kind,
                "values": list(attribute.values) if attribute.values is not None else None,
                "labels": dict(attribute.labels),
                "of": attribute.of,
                "members": list(attribute.members.items()),
                **({"table": "job"} if attribute.table == "job" else {}),
                **({"key": True} if name == plan.schema.workplace.key else {}),
                **({"provenance": asdict(attribute.provenance)} if attribute.provenance else {}),
            }
            for name, attribute in plan.schema.attributes.items()
            if name in shown
        },
        "tables": written,
    }
