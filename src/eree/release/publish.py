"""Publish: the one place where confidential cells, secret chance and the ledger meet.

The order never changes: everything that can be refused is refused first, by public facts alone;
then the price is reserved in the ledger; then cells are counted and noise is drawn; then the files
appear, all at once; then the reservation is settled with the digest of what appeared.  Whatever
stops in between, the price stays spent and nothing is half published.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from eree.budget.ledger import Ledger
from eree.data.tables import Tables
from eree.data.tabulate import stream
from eree.errors import Refusal
from eree.mechanisms.margin import Margin
from eree.noise.coins import Coins
from eree.policy.plain_data import guarantee_as_json
from eree.policy.schema import Schema
from eree.release.hiding import Count, Hiding, PairHiding
from eree.release.issue import Issue, Progress, new_folder
from eree.release.margins import DRAWN_WITH
from eree.release.plan import Plan, PlannedTable
from eree.release.record import beginning, file_digest
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
    draws = _draws(plan, tables.schema)

    def make(folder: Path, release: str) -> dict[str, Any]:
        written: dict[str, dict[str, Any]] = {}
        for i, draw in enumerate(draws):
            tell(f"counting and hiding {draw.name}", (i + 0.1) / (len(draws) + 0.2))
            written |= draw.write(folder, tables, chance)
        listed = [written[table.name] for table in plan.tables]
        return _record(plan, release, listed, private=chance.secret)

    names = ", ".join(table.name for table in plan.tables)
    protects = plan.protects(None if ledger is None else ledger.total.neighbours)
    issue = Issue(plan.price(), protects, target, ledger, chance, signer, plan.period)
    return Release.open(issue.issue(make, {"tables": names}, tell))


def _draws(plan: Plan, schema: Schema) -> list[_Draw]:
    """What is drawn, one thing after another; refuses a plan that was made for another schema."""
    if _meaning(schema) != _meaning(plan.schema):
        raise Refusal("the plan was made for another schema than these tables have; read it anew")
    found = []
    for table in plan.tables:
        if table.drawn_with is None:
            found.append(_Draw((table,), schema, float(plan.level)))
        elif isinstance(table.treatment.mechanism, Margin) and table.treatment.mechanism.halves:
            pair = table, plan.table(table.drawn_with)
            found.append(_Draw(pair, schema, float(plan.level)))
    return found


def _meaning(schema: Schema) -> tuple[object, ...]:
    """All of a schema that counts and prices hang on; not where the tables lie."""
    job = schema.job
    keys = schema.workplace.key, schema.worker.key, job.workplace, job.worker, job.primary
    return schema.data_set, keys, schema.attributes


@dataclass(frozen=True)
class _Draw:
    """A table, or two margins that are drawn at once, the one of two values first."""

    tables: Sequence[PlannedTable]
    schema: Schema
    level: float

    @property
    def name(self) -> str:
        """What is drawn."""
        return " and ".join(table.name for table in self.tables)

    def write(self, folder: Path, tables: Tables, coins: Coins) -> dict[str, dict[str, Any]]:
        """Count, hide and write; returns what the record says of each table, by its name."""
        hidings = [
            Hiding(self.schema, table.marginal, table.treatment, self.level)
            for table in self.tables
        ]
        home = folder / "tables"
        home.mkdir(exist_ok=True)
        with ExitStack() as stack:
            files = [
                stack.enter_context(_Files(home, table, hiding.columns))
                for table, hiding in zip(self.tables, hidings, strict=True)
            ]
            for batches in _hidden(hidings, lambda marginal: stream(tables, marginal), coins):
                for file, batch in zip(files, batches, strict=True):
                    file.write(batch)
        return {file.table.name: file.as_json() for file in files}


def _hidden(
    hidings: Sequence[Hiding], count: Count, coins: Coins
) -> Iterator[tuple[pa.RecordBatch, ...]]:
    """Public rows of each table, for the same groups."""
    if len(hidings) == 1:
        return ((batch,) for batch in hidings[0].hidden(count, coins))
    return PairHiding(*hidings).hidden(count, coins)


class _Files:
    """The two files of a table while they are written."""

    def __init__(self, home: Path, table: PlannedTable, columns: pa.Schema) -> None:
        self.table, self.rows = table, 0
        self.paths = {suffix: home / f"{table.name}.{suffix}" for suffix in ("parquet", "csv")}
        self._columns = parquet.ParquetWriter(self.paths["parquet"], columns, compression="zstd")
        self._lines = arrow_csv.CSVWriter(self.paths["csv"], columns)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_reason: object) -> None:
        with self._columns, self._lines:
            pass

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self._columns.write_batch(batch)
        self._lines.write_batch(batch)
        self.rows += batch.num_rows

    def as_json(self) -> dict[str, Any]:
        """What the record says of the table, once its files are closed."""
        table, treatment = self.table, self.table.treatment
        drawn_with = {DRAWN_WITH: table.drawn_with} if table.drawn_with is not None else {}
        return {
            "name": table.name,
            "by": list(table.marginal.by),
            "where": {name: list(values) for name, values in table.marginal.where.items()},
            "rows": self.rows,
            "price": guarantee_as_json(treatment.price),
            **drawn_with,
            "worker_cells": treatment.worker_cells,
            **treatment.as_json(),
            "files": {f"tables/{path.name}": file_digest(path) for path in self.paths.values()},
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
                **({"key": True} if name == plan.schema.workplace.key else {}),
                **({"provenance": asdict(attribute.provenance)} if attribute.provenance else {}),
            }
            for name, attribute in plan.schema.attributes.items()
            if name in shown
        },
        "tables": written,
    }
