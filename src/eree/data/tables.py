"""Three linked tables on disk, checked and ready to be counted."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from eree.data.columns import column_faults, files_of, resolved
from eree.data.engine import DuckEngine, Engine, open_engine
from eree.data.rows import RowChecks
from eree.data.sources import Source, inspect_source
from eree.errors import Fault, Faulty
from eree.policy.declarations import inspect_schema
from eree.policy.schema import Schema

Progress = Callable[[str, float], None]


@dataclass(frozen=True, repr=False)
class Tables:
    """Linked tables that passed every check.

    Nothing is held in memory: a tabulation reads the files.  How many workers and jobs there are
    is confidential, so `repr` shows the public number of workplaces alone.
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
            return open_engine(self.engine, memory_limit=self.memory_limit, threads=self.threads)
        return open_engine(engine)

    def __repr__(self) -> str:
        return f"<Tables in {self.folder}: {self.workplaces:,} workplaces, the rest confidential>"


@dataclass(frozen=True, repr=False)
class Checked:
    """What a check found: the tables if they are sound, else every fault; false if there is one."""

    tables: Tables | None
    faults: tuple[Fault, ...]

    def __bool__(self) -> bool:
        return self.tables is not None

    def __repr__(self) -> str:
        found = "; ".join(map(str, self.faults))
        return (
            f"<Checked, {len(self.faults)} faults: {found}>"
            if found
            else f"<Checked {self.tables}>"
        )


def check(
    folder: str | os.PathLike[str],
    *,
    engine: object = "duckdb",
    memory_limit: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Checked:
    """Look at schema, files and rows: the tables if they are sound, and every fault.

    What is returned is false if there is a fault: `if not eree.check("data"): …`.

    Raises `Unreadable` only where there is no schema to check against.
    """
    home = Path(folder)
    schema, found = inspect_schema(home)
    faults = list(found)
    looked_at: dict[str, Source] = {}  # the columns are known
    sources: dict[str, Source] = {}  # and the rows can be read
    for table, file in files_of(schema).items():
        source, problems = inspect_source(home.absolute(), table, file)
        faults += problems
        if source is not None:
            looked_at[table] = source
            if not problems:
                sources[table] = source
    schema = resolved(schema, looked_at)
    faults += column_faults(schema, looked_at)
    with ExitStack() as stack:
        opened = stack.enter_context(
            closing(open_engine(engine, memory_limit=memory_limit, threads=threads))
        )
        public = opened
        if not isinstance(opened, DuckEngine):
            public = stack.enter_context(closing(DuckEngine()))
        checks = RowChecks(schema, sources, opened, public)
        steps = checks.steps()
        for i, (name, step) in enumerate(steps):
            if progress:
                progress(name, i / len(steps))
            faults += step()
        if progress:
            progress("done", 1.0)
    if faults:
        return Checked(None, tuple(faults))
    workplaces = checks.rows["workplace"]
    return Checked(Tables(home, schema, sources, workplaces, engine, memory_limit, threads), ())


def load(
    folder: str | os.PathLike[str],
    *,
    engine: object = "duckdb",
    memory_limit: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Tables:
    """The linked tables of a folder; raises `Faulty` with every fault if there is one."""
    found = check(
        folder, engine=engine, memory_limit=memory_limit, threads=threads, progress=progress
    )
    if found.tables is None:
        raise Faulty(found.faults)
    return found.tables
