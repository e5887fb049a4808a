"""Publish: the one place where confidential cells, secret chance and the ledger meet.

The order never changes: everything that can be refused is refused first, by public facts alone;
then the price is reserved in the ledger; then cells are counted and noise is drawn; then the files
appear, all at once; then the reservation is settled with the digest of what appeared.  Whatever
stops in between, the price stays spent and nothing is half published.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
from eree.release.payment import Payment
from eree.release.plan import Plan, PlannedTable
from eree.release.record import FORMAT, RECORD, digest_of, file_digest, guarantee_as_json
from eree.release.release import Release
from eree.release.signature import Signer

Progress = Callable[[str, float], None]
#: A disk without room for this is refused before anything is paid.
_TRIAL_BYTES = 1 << 20


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
    release = fresh_name()
    payment = Payment(plan.price(), release, target)
    with payment.told(), _partial(target) as folder:
        reserved = None
        if ledger is not None:
            tell("reserving the price", 0.0)
            names = ", ".join(table.name for table in plan.tables)
            reserved = payment.reserve(ledger, {"tables": names})
        written = []
        for i, (table, hiding) in enumerate(zip(plan.tables, hidings, strict=True)):
            tell(f"counting and hiding {table.name}", (i + 0.1) / (len(hidings) + 0.2))
            written.append(_write(folder, table, hiding, tables, chance))
        record = _record(plan, release, written, private=chance.secret)
        if reserved is not None:
            record["ledger"] = {
                "id": payment.ledger_id,
                "entry": reserved.number,
                "hash": reserved.hash,
            }
        record["digest"] = digest_of(record)
        if signer is not None:
            record["signature"] = signer.sign(record["digest"])
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        (folder / RECORD).write_text(text, encoding="utf-8")
        _settle_on_disk(folder)
        _appear(folder, target)
        if ledger is not None and reserved is not None:
            tell("settling", 0.99)
            payment.settle(ledger, record["digest"])
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
    try:
        target = out.resolve()
        taken = target.exists() and (not target.is_dir() or any(target.iterdir()))
        housed = target.parent.is_dir()
    except (OSError, RuntimeError) as error:  # a link to itself is a RuntimeError
        raise Refusal(f"{out} cannot be looked at ({_kind(error)}); name another folder") from None
    if taken:
        raise Refusal(f"{out} is not a new or empty folder; name another with --out")
    if not housed:
        raise Refusal(f"the folder {out.parent} does not exist; make it first")
    return target


@contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """A folder to fill, beside its later place; whatever is still in it at the end vanishes."""
    outer: Path | None = None
    try:
        try:
            outer = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=target.parent))
            inner = outer / target.name
            inner.mkdir()
            trial = inner / "trial"
            trial.write_bytes(bytes(_TRIAL_BYTES))
            trial.unlink()
        except OSError as error:
            raise Refusal(
                f"nothing can be written in {target.parent} ({_kind(error)}); choose a folder that"
                " you may write to and that has room"
            ) from None
        _vacate(target)
        yield inner
    finally:
        if outer is not None:
            shutil.rmtree(outer, ignore_errors=True)


def _vacate(target: Path) -> None:
    """Remove an empty folder: one that cannot be replaced is found before anything is paid."""
    try:
        if target.exists():
            target.rmdir()
    except OSError as error:
        raise Refusal(f"{target} cannot be replaced ({_kind(error)}); name a new folder") from None


def _appear(folder: Path, target: Path) -> None:
    """Give a whole folder its name, at once."""
    try:
        folder.rename(target)
    except OSError:
        if os.path.lexists(target):
            raise Refusal(f"{target} was filled meanwhile; name another folder") from None
        raise
    with suppress(OSError):
        folder.parent.rmdir()
    _sync(target.parent)


def _settle_on_disk(folder: Path) -> None:
    """Make sure that every file has reached the disk before the folder appears."""
    for path in sorted(folder.rglob("*")):
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder.

    Some file systems keep the names of a folder unasked, and refuse to be asked; what a disk fails
    to keep is an error all the same.
    """
    folder = path.is_dir()
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if not folder or error.errno in (errno.EIO, errno.ENOSPC, errno.EDQUOT):
            raise


def _kind(error: Exception) -> str:
    """What the system says, without the names that it says it of."""
    code = error.errno if isinstance(error, OSError) else errno.ELOOP
    return os.strerror(code).lower() if code else "the system refused"
