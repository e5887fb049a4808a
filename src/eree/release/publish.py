"""Publish: the one place where confidential cells, secret chance and the ledger meet.

The order never changes: everything that can be refused is refused first, by public facts alone;
then the price is reserved in the ledger; then cells are counted and noise is drawn; then the files
appear, all at once; then the reservation is settled with the digest of what appeared.  Whatever
stops in between, the price stays spent and nothing is half published.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from eree.budget.ledger import Ledger
from eree.data.tables import Tables
from eree.data.tabulate import stream
from eree.errors import Refusal
from eree.noise.coins import Coins, fresh_name
from eree.policy.schema import Schema
from eree.release.hiding import Hiding
from eree.release.plan import Plan, PlannedTable
from eree.release.record import FORMAT, RECORD, digest_of, file_digest, guarantee_as_json
from eree.release.release import Release
from eree.release.signature import Signer

Progress = Callable[[str, float], None]


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
    target = _new_folder(Path(out))
    hidings = [_hiding(plan, table, tables.schema) for table in plan.tables]
    if ledger is None and chance.secret:
        raise Refusal(
            "a release must be paid for; make a ledger with 'eree ledger create' and name it"
        )
    if ledger is not None and not chance.secret:
        raise Refusal("a release drawn with seeded coins is not private and cannot be paid for")
    price, release = plan.price(), fresh_name()
    with _appearing(target) as folder:
        reserved = None
        if ledger is not None:
            tell("reserving the price", 0.0)
            names = ", ".join(table.name for table in plan.tables)
            reserved = ledger.reserve(price, release=release, what={"tables": names})
        written = []
        for i, (table, hiding) in enumerate(zip(plan.tables, hidings, strict=True)):
            tell(f"counting and hiding {table.name}", (i + 0.1) / (len(hidings) + 0.2))
            written.append(_write(folder, table, hiding, tables, chance))
        record = _record(plan, release, written, private=chance.secret)
        if ledger is not None and reserved is not None:
            record["ledger"] = {
                "id": ledger.identity,
                "entry": reserved.number,
                "hash": reserved.hash,
            }
        record["digest"] = digest_of(record)
        if signer is not None:
            record["signature"] = signer.sign(record["digest"])
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        (folder / RECORD).write_text(text, encoding="utf-8")
        _settle_on_disk(folder)
    if ledger is not None and reserved is not None:
        tell("settling", 0.99)
        ledger.settle(reserved, record["digest"])
    tell("done", 1.0)
    return Release.open(target)


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
    price = plan.price()
    named = {name for table in written for name in (*table["by"], *table["where"])}
    shown = named | {plan.schema.column(name).name for name in named}
    return {
        "format": FORMAT,
        "eree": version("eree"),
        "release": release,
        "made": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "private": private,
        "guarantee": guarantee_as_json(price),
        "statements": [statement.words for statement in price.statements()] if private else [],
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


def _new_folder(out: Path) -> Path:
    """Where a release may appear; asked before anything is paid."""
    target = out.resolve()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Refusal(f"{out} is not a new or empty folder; name another with --out")
    if not target.parent.is_dir():
        raise Refusal(f"the folder {out.parent} does not exist; make it first")
    return target


@contextmanager
def _appearing(target: Path) -> Iterator[Path]:
    """A folder that becomes `target` at the end, or vanishes if anything fails."""
    try:
        outer = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=target.parent))
    except OSError:
        raise Refusal(
            f"nothing can be written in {target.parent}; choose a folder that you may write to"
        ) from None
    try:
        inner = outer / target.name
        inner.mkdir()
        yield inner
        try:
            inner.rename(target)
        except OSError:
            raise Refusal(
                f"{target} was filled meanwhile; the price is spent, release again elsewhere"
            ) from None
        _sync(target.parent)
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def _settle_on_disk(folder: Path) -> None:
    """Make sure that every file has reached the disk before the folder appears."""
    for path in sorted(folder.rglob("*")):
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
