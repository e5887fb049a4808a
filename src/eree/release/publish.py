"""Publish: the one place where confidential cells, secret chance and the ledger meet.

The order never changes: everything that can be refused is refused first, by public facts alone;
then the price is reserved in the ledger; then cells are counted and noise is drawn; then the files
appear, all at once; then the reservation is settled with the digest of what appeared.  Whatever
stops in between, the price stays spent and nothing is half published.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from eree.budget.ledger import Ledger
from eree.data.tables import Tables
from eree.data.tabulate import stream
from eree.errors import Refusal
from eree.noise.coins import Coins
from eree.policy.schema import Schema
from eree.release.hiding import Hiding
from eree.release.issue import Issue, Progress, new_folder
from eree.release.plan import Plan, PlannedTable
from eree.release.record import beginning, file_digest, guarantee_as_json
from eree.release.release import Release
from eree.release.signature import Signer


def publish(
    plan: Plan,
    tables: Tables,
    *,
    ledger: Ledger | None,
    out: str | os.PathLike[str],
    coins: Coins | None = None,
    signer: Signer | None = None,
    progress: Progress | None = None,
) -> Release:
    """Turn confidential tables into public ones, and pay for them.

    The folder `out` must be new or empty.  With `SeededCoins`, for tests and studies of made-up
    data, the release says that it is not private, and no ledger is charged.
    """
    tell = progress or (lambda _step, _done: None)
    chance = coins or Coins()
    target = new_folder(Path(out))
    hidings = [_hiding(plan, table, tables.schema) for table in plan.tables]

    def make(folder: Path, release: str) -> dict[str, Any]:
        written = []
        for i, (table, hiding) in enumerate(zip(plan.tables, hidings, strict=True)):
            tell(f"counting and hiding {table.name}", (i + 0.1) / (len(hidings) + 0.2))
            written.append(_write(folder, table, hiding, tables, chance))
        return _record(plan, release, written, private=chance.secret)

    names = ", ".join(table.name for table in plan.tables)
    issue = Issue(plan.price(), target, ledger, chance, signer)
    return Release.open(issue.issue(make, {"tables": names}, tell))


def _hiding(plan: Plan, table: PlannedTable, schema: Schema) -> Hiding:
    """How a table is hidden; refuses a plan that was made for another schema."""
    if schema.attributes != plan.schema.attributes:
        raise Refusal("the plan was made for another schema than these tables have; read it anew")
    return Hiding(schema, table.marginal, table.treatment, float(plan.level))


def _write(
    folder: Path, table: PlannedTable, hiding: Hiding, tables: Tables, coins: Coins
) -> dict[str, Any]:
    """Count, hide and write one table; returns what the record says of it."""
    home = folder / "tables"
    home.mkdir(exist_ok=True)
    paths = {suffix: home / f"{table.name}.{suffix}" for suffix in ("parquet", "csv")}
    rows = 0
    with (
        parquet.ParquetWriter(paths["parquet"], hiding.columns, compression="zstd") as columns,
        arrow_csv.CSVWriter(paths["csv"], hiding.columns) as lines,
    ):
        for batch in hiding.hidden(lambda marginal: stream(tables, marginal), coins):
            columns.write_batch(batch)
            lines.write_batch(batch)
            rows += batch.num_rows
    treatment = table.treatment
    return {
        "name": table.name,
        "by": list(table.marginal.by),
        "where": {name: list(values) for name, values in table.marginal.where.items()},
        "rows": rows,
        "price": guarantee_as_json(treatment.price),
        "worker_cells": treatment.worker_cells,
        **treatment.as_json(),
        "files": {f"tables/{path.name}": file_digest(path) for path in paths.values()},
    }


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
            }
            for name, attribute in plan.schema.attributes.items()
            if name in shown
        },
        "tables": written,
    }
