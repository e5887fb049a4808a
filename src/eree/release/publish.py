"""Publish: the one place where confidential cells, secret randomness and the ledger meet.

The order never changes: everything that can be refused is refused first, by public facts alone;
then the price is reserved in the ledger; then cells are counted and noise is drawn; then the files
appear, all at once; then the reservation is settled with the digest of what appeared.  Whatever
stops in between, the price stays spent and nothing is half published.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from eree.budget.given import given_ledger
from eree.budget.ledger import Ledger
from eree.data.nesting import Nesting, nestings
from eree.data.tables import Tables
from eree.data.tabulate import stream
from eree.errors import Refusal, expect
from eree.policy.plain_data import guarantee_as_json
from eree.policy.schema import Schema
from eree.random.source import Random
from eree.release.draw import Draw, PlannedTable
from eree.release.issue import Issue, Progress, new_folder
from eree.release.measure import measure_of, public_parts
from eree.release.members import MEMBERS, member_rows
from eree.release.plan import Plan
from eree.release.record import beginning, file_digest
from eree.release.release import AREAS, Release
from eree.release.settings import TABLE_NAME
from eree.release.signature import Signer
from eree.workload import Marginal, SizeProfile


def publish(
    plan: Plan,
    tables: Tables,
    *,
    ledger: Ledger | str | os.PathLike[str] | None,
    out: str | os.PathLike[str],
    random: Random | None = None,
    signer: Signer | None = None,
    rehearsal: bool = False,
    progress: Progress | None = None,
) -> Release:
    """Turn confidential tables into public ones, and pay for them.

    The folder `out` must be new or empty.  With `SeededRandom`, for tests and studies of synthetic
    data, the release says that it is not private, and no ledger is charged.  A `rehearsal`, of
    synthetic data, says what it is, is never signed, and never verifies.

    Args:
        plan: What to publish, at what price.
        tables: The confidential tables.
        ledger: What pays for it, or where that is kept.
        out: A new or empty folder.
        random: A source of randomness; secret without one.
        signer: A key that signs the release.
        rehearsal: Whether the data are synthetic, to try a plan.
        progress: Called with a step and the share that is done.

    Examples:
        >>> plan = eree.Plan.read("plan.toml")
        >>> total = plan.price()
        >>> ledger = eree.Ledger.create("new.db", total, data_set=plan.schema.data_set)
        >>> release = eree.publish(plan, eree.load("data"), ledger=ledger, out="new")
        >>> ledger.left().epsilon
        Fraction(0, 1)
    """
    expect(plan, Plan, 'a plan, such as Plan.read("plan.toml")')
    expect(tables, Tables, 'tables, such as load("data")')
    ledger = given_ledger(ledger)
    tell = progress or (lambda _step, _done: None)
    source = random or Random()
    target = new_folder(Path(out))
    _check_schema(plan, tables.schema)
    draws = plan.draws
    tell("looking up which areas lie in which", 0.0)
    areas = nestings(tables, _workplace_attributes(plan))

    def make(folder: Path, release: str) -> dict[str, Any]:
        written = dict[str, dict[str, Any]]()
        for i, draw in enumerate(draws):
            tell(f"counting and protecting {draw.name}", (i + 0.1) / (len(draws) + 0.2))
            written |= _write(folder, draw, tables, float(plan.level), source)
        listed = [written[table.name] for table in plan.tables]
        within = _write_areas(folder, areas)
        shown = _shown(plan.schema, listed, within)
        files = {
            "members": _write_members(folder, plan.schema, shown),
            "areas": within,
            "tables": listed,
        }
        return _record(plan, release, shown, source.secret) | files

    names = ", ".join(table.name for table in plan.tables)
    protects = plan.protects(None if ledger is None else ledger.total.neighbours)
    said = plan.period, plan.about
    issue = Issue(plan.price(), protects, target, ledger, source, signer, *said, rehearsal)
    return Release.open(issue.issue(make, {"tables": names}, tell))


def _check_schema(plan: Plan, schema: Schema) -> None:
    """Refuse a plan that was made for another schema."""
    if _meaning(schema) != _meaning(plan.schema):
        raise Refusal("the plan was made for another schema than these tables have; read it again")


def _meaning(schema: Schema) -> tuple[object, ...]:
    """All of a schema that counts and prices hang on; not where the tables lie."""
    job = schema.job
    keys = schema.workplace.key, schema.worker.key, job.workplace, job.worker
    return schema.data_set, keys, job.primary, job.greatest, job.most_per_worker, schema.attributes


def _write(
    folder: Path, draw: Draw, tables: Tables, level: float, random: Random
) -> dict[str, dict[str, Any]]:
    """Count, protect and write the tables of a draw; returns what the record says of each."""
    home = folder / "tables"
    home.mkdir(exist_ok=True)
    measures = tuple(
        measure_of(tables.schema, table.marginal, table.measurement, level) for table in draw.tables
    )
    with ExitStack() as opened:
        files = [
            opened.enter_context(_Files(home, table, measure.columns))
            for table, measure in zip(draw.tables, measures, strict=True)
        ]
        for parts in public_parts(measures, lambda marginal: stream(tables, marginal), random):
            for file, part in zip(files, parts, strict=True):
                file.write(part.rows)
    return {file.table.name: file.as_json() for file in files}


class _Files:
    """The two files of a table while they are written."""

    def __init__(self, home: Path, table: PlannedTable, columns: pa.Schema) -> None:
        self.table, self.rows, self._columns = table, 0, columns
        self.paths = {suffix: home / f"{table.name}.{suffix}" for suffix in ("parquet", "csv")}

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            path, columns = self.paths["parquet"], self._columns
            self._writers = (
                opened.enter_context(parquet.ParquetWriter(path, columns, compression="zstd")),
                opened.enter_context(arrow_csv.CSVWriter(self.paths["csv"], columns)),
            )
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *reason: Any) -> None:
        self._opened.__exit__(*reason)

    def write(self, rows: pa.Table) -> None:
        """Add public rows."""
        for writer in self._writers:
            writer.write_table(rows)
        self.rows += rows.num_rows

    def as_json(self) -> dict[str, Any]:
        """What the record says of the table, once its files are closed."""
        table, measurement = self.table, self.table.measurement
        return {
            "name": table.name,
            "about": table.about,
            "by": list(table.marginal.by),
            "where": {name: list(values) for name, values in table.marginal.where.items()},
            **_profile(table.marginal),
            "rows": self.rows,
            "price": guarantee_as_json(measurement.price),
            "worker_cells": measurement.worker_cells,
            **measurement.as_json(),
            "files": {f"tables/{path.name}": file_digest(path) for path in self.paths.values()},
        }


def _profile(marginal: Marginal) -> dict[str, Any]:
    """What else the record says of a table that counts workplaces by size."""
    if not isinstance(marginal, SizeProfile):
        return {}
    return {"profile": {"sizes": list(marginal.sizes), "pooled_from": marginal.pooled_from}}


def _workplace_attributes(plan: Plan) -> list[str]:
    """The attributes of workplaces that tables are counted by."""
    names = dict.fromkeys(name for table in plan.tables for name in table.marginal.by)
    return [name for name in names if plan.schema.attributes[name].owner == "workplace"]


def _write_areas(folder: Path, areas: Sequence[Nesting]) -> list[dict[str, Any]]:
    """Write which areas lie in which; returns what the record says of it."""
    said = []
    for number, one in enumerate(areas):
        files = {}
        if one.above:
            files = _write_codes(folder / AREAS, one.fine, number, one.codes)
        rows = one.codes.num_rows if one.above else 0
        about = {"of": one.fine, "above": list(one.above), "crossing": list(one.crossing)}
        said.append({**about, "rows": rows, "files": files})
    return said


def _write_members(folder: Path, schema: Schema, shown: set[str]) -> list[dict[str, Any]]:
    """Write the members of the groups that are shown; returns what the record says of them."""
    said = list[dict[str, Any]]()
    for group in (one for one in schema.attributes.values() if one.of and one.name in shown):
        rows = member_rows(schema.column(group.name), group)
        files = _write_codes(folder / MEMBERS, group.name, len(said), rows)
        said.append({"group": group.name, "rows": rows.num_rows, "files": files})
    return said


def _write_codes(home: Path, attribute: str, number: int, rows: pa.Table) -> dict[str, str]:
    """Write a file about the codes of an attribute; returns its name and its digest."""
    # an attribute may have a name that no file can have, but none that starts so
    name = attribute if re.fullmatch(TABLE_NAME, attribute) else f"_{number}"
    path = home / f"{name}.parquet"
    home.mkdir(exist_ok=True)
    parquet.write_table(rows, path, compression="zstd")
    return {f"{home.name}/{path.name}": file_digest(path)}


def _shown(schema: Schema, written: list[dict[str, Any]], areas: list[dict[str, Any]]) -> set[str]:
    """The attributes that tables are of, those above them, groups of these, and their columns.

    Groups that were made of released sizes name every workplace: only those that are asked for.
    """
    named = {name for table in written for name in (*table["by"], *table["where"])}
    named |= {name for one in areas for name in (one["of"], *one["above"])}
    groups = {a.name for a in schema.attributes.values() if a.of in named and not a.provenance}
    return named | groups | {schema.column(name).name for name in named}


def _record(
    plan: Plan,
    release: str,
    shown: set[str],
    private: bool,
) -> dict[str, Any]:
    """Everything that a release says of itself but its files and its digest."""
    jobs = plan.schema.job.counted
    return beginning(release, plan.price(), private=private, jobs=jobs) | {
        "level": str(plan.level),
        "attributes": {
            name: {
                "label": attribute.label,
                "owner": attribute.owner,
                "kind": attribute.kind,
                "values": list(attribute.values) if attribute.values is not None else None,
                "labels": dict(attribute.labels),
                "of": attribute.of,
                **({"table": "job"} if attribute.table == "job" else {}),
                **({"key": True} if name == plan.schema.workplace.key else {}),
                **({"provenance": asdict(attribute.provenance)} if attribute.provenance else {}),
            }
            for name, attribute in plan.schema.attributes.items()
            if name in shown
        },
    }
