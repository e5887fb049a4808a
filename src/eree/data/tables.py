"""Three linked tables on disk, checked and ready to be counted."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eree.data.columns import as_declared, column_faults, files_of, resolved
from eree.data.databases import Databases
from eree.data.engine import DuckEngine, Engine, open_engine
from eree.data.faulty_rows import FaultyRows
from eree.data.in_memory import frame_source
from eree.data.rows import RowChecks
from eree.data.sources import Source
from eree.errors import Fault, Faulty, Refusal, expect, how_many
from eree.partial import new_path
from eree.policy.declarations import inspect_schema
from eree.policy.schema import Schema

Progress = Callable[[str, float], None]


@dataclass(frozen=True, repr=False)
class Tables:
    """Linked tables that passed every check.

    Of files nothing is held in memory: a tabulation reads them.  How many workers and jobs there
    are is confidential, so `repr` shows the public number of workplaces alone.

    Attributes:
        folder: Where they are.
        schema: What is declared of them.
        sources: Where the rows of each table are.
        workplaces: The public number of workplaces.
        engine: The query engine.
        memory_limit: The most memory that DuckDB takes.
        threads: How many threads it uses.

    Examples:
        >>> eree.load("data").workplaces > 0
        True
    """

    folder: Path
    schema: Schema
    sources: Mapping[str, Source]
    workplaces: int
    engine: object = "duckdb"
    memory_limit: str | None = None
    threads: int | None = None

    def open(self, engine: object = None) -> Engine:
        """An engine for these tables: the given one, or the one they were loaded with."""
        if engine is None or engine == self.engine:
            _check_engine(self.sources, self.engine)
            return open_engine(self.engine, memory_limit=self.memory_limit, threads=self.threads)
        _check_engine(self.sources, engine)
        return open_engine(engine)

    def __repr__(self) -> str:
        held = any(source.format == "arrow" for source in self.sources.values())
        where = "of data frames" if held else f"in {self.folder}"
        return f"<Tables {where}: {how_many(self.workplaces, 'workplace')}, the rest confidential>"


def _check_engine(sources: Mapping[str, Source], engine: object) -> None:
    """Refuse to send rows that are in memory or in a database somewhere else."""
    if engine != "duckdb" and any(s.format not in ("parquet", "csv") for s in sources.values()):
        raise Refusal(
            "data frames and tables of databases are counted in this process, by DuckDB; for Spark"
            " write them as Parquet"
        )


@dataclass(frozen=True, repr=False)
class Checked:
    """What a check found; false if there is a fault.

    Attributes:
        tables: The tables if they are sound, else None.
        faults: Every fault.

    Examples:
        >>> eree.check("data").faults
        ()
    """

    tables: Tables | None
    faults: tuple[Fault, ...]

    def __bool__(self) -> bool:
        return self.tables is not None

    def __repr__(self) -> str:
        found = "; ".join(map(str, self.faults))
        return (
            f"<Checked, {how_many(len(self.faults), 'fault')}: {found}>"
            if found
            else f"<Checked {self.tables}>"
        )


def check(
    data: str | os.PathLike[str] | Mapping[str, object],
    schema: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    rows: str | os.PathLike[str] | None = None,
    engine: object = "duckdb",
    memory_limit: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Checked:
    """Look at schema, files and rows: the tables if they are sound, and every fault.

    `data` is a folder with its `schema.toml`, or the data frames of `workplace`, `worker`, `job`
    and `reference.NAME` by these names: of pandas, polars, DuckDB, or whatever else has Arrow's
    stream interface.  Frames need a `schema`: a folder that has one, or what such a file holds.
    Tables that are not among them are read from its files.  Where there are faults, `rows` names a
    new file for the rows that have them, which only its owner can read: it is confidential.

    What is returned is false if there is a fault: `if not eree.check("data"): …`.

    Raises `Unreadable` only where there is no schema to check against.

    Args:
        data: A folder with its `schema.toml`, or data frames by the names of the tables.
        schema: For data frames: a folder that has a schema, or what such a file holds.
        rows: A new file for the rows that have faults.
        engine: "duckdb" or "spark", or an engine.
        memory_limit: The most memory that DuckDB takes, such as "3GB".
        threads: How many threads it uses.
        progress: Called with a step and the share that is done.

    Examples:
        >>> bool(eree.check("data"))
        True
    """
    if rows is not None:
        new_path(rows)
    frames, home, raw = _given(data, schema)
    declared, found = inspect_schema(home, raw, frames)
    faults = list(found)
    looked_at: dict[str, Source] = {}  # the columns are known
    sources: dict[str, Source] = {}  # and the rows can be read
    with Databases(declared, home) as databases:
        for table in files_of(declared):
            if table in frames:
                source, problems = frame_source(frames[table], table)
                source = source and as_declared(declared, table, source)
            else:
                source, problems = databases.look_at(table)
            faults += problems
            if source is not None:
                looked_at[table] = source
                if not problems:
                    sources[table] = source
    declared = resolved(declared, looked_at)
    faults += column_faults(declared, looked_at)
    _check_engine(looked_at, engine)
    with ExitStack() as stack:
        opened = stack.enter_context(
            closing(open_engine(engine, memory_limit=memory_limit, threads=threads))
        )
        public = opened
        if not isinstance(opened, DuckEngine):
            public = stack.enter_context(closing(DuckEngine()))
        kind = RowChecks if rows is None else FaultyRows
        checks = kind(declared, sources, opened, public)
        steps = checks.steps()
        for i, (name, step) in enumerate(steps):
            if progress:
                progress(name, i / len(steps))
            faults += step()
        if rows is not None and isinstance(checks, FaultyRows) and faults:
            checks.write(faults, rows)
        if progress:
            progress("done", 1.0)
    if faults:
        return Checked(None, tuple(faults))
    workplaces = checks.rows["workplace"]
    tables = Tables(home, declared, sources, workplaces, engine, memory_limit, threads)
    return Checked(tables, ())


def _given(
    data: str | os.PathLike[str] | Mapping[str, object],
    schema: str | os.PathLike[str] | Mapping[str, Any] | None,
) -> tuple[Mapping[str, object], Path, Mapping[str, Any] | None]:
    """The data frames, the folder of the schema and, if there is no file of it, the schema."""
    if not isinstance(data, Mapping):
        frames = 'data frames by name, such as {"workplace": …, "worker": …, "job": …}'
        expect(data, (str, os.PathLike), f"a folder, or {frames}")
        if schema is not None:
            raise Refusal(f"a folder has its own schema.toml; leave schema out, or give {frames}")
        return {}, Path(data), None
    if schema is None:
        raise Refusal("data frames need a schema: the folder of a schema.toml, or what it holds")
    if isinstance(schema, Mapping):
        return data, Path(), schema
    expect(schema, (str, os.PathLike), "the folder of a schema.toml, or what it holds as a dict")
    return data, Path(schema), None


def load(
    data: str | os.PathLike[str] | Mapping[str, object],
    schema: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    engine: object = "duckdb",
    memory_limit: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Tables:
    """The linked tables of a folder, or of data frames, as `check` takes them.

    Raises `Faulty` with every fault if there is one.

    Args:
        data: A folder with its `schema.toml`, or data frames by the names of the tables.
        schema: For data frames: a folder that has a schema, or what such a file holds.
        engine: "duckdb" or "spark", or an engine.
        memory_limit: The most memory that DuckDB takes, such as "3GB".
        threads: How many threads it uses.
        progress: Called with a step and the share that is done.

    Examples:
        >>> eree.load("data")
        <Tables in data: ... workplaces, the rest confidential>
    """
    found = check(
        data, schema, engine=engine, memory_limit=memory_limit, threads=threads, progress=progress
    )
    if found.tables is None:
        raise Faulty(found.faults)
    return found.tables
