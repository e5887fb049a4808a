"""Where declared tables lie: in files, in DuckDB files, in PostgreSQL."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from eree.data.columns import as_declared, wanted_columns
from eree.data.engine import DuckEngine
from eree.data.postgres import Postgres
from eree.data.sources import Source, Unusable, arrow_columns, inspect_source, kind_of, others_of
from eree.errors import Fault
from eree.policy.schema import DatabaseTable, Schema


class Databases:
    """The databases of a schema, each opened once and closed at the end of a `with`."""

    def __init__(self, schema: Schema, home: Path) -> None:
        self._schema, self._home = schema, home.absolute()
        self._opened = ExitStack()
        self._servers: dict[str, Postgres] = {}

    def __enter__(self) -> Databases:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._opened.close()

    def look_at(self, table: str) -> tuple[Source | None, list[Fault]]:
        """The source of a table, and what is wrong with it from outside."""
        declared = self._schema.declared(table)
        if declared.database is None:
            source, faults = inspect_source(self._home, table, declared.file, declared.dialect)
        else:
            try:
                source, faults = self._found(table, declared.database), []
            except Unusable as unusable:
                source, faults = None, [Fault(table, declared.file, "", unusable.rule)]
        if source is not None:
            source = as_declared(self._schema, table, source)
        return source, faults

    def _found(self, table: str, asked: DatabaseTable) -> Source:
        if asked.file:
            with closing(DuckEngine()) as engine:
                return duckdb_source(engine, self._home / asked.file, asked.name)
        if asked.address not in self._servers:
            server = Postgres(asked.address)
            self._servers[asked.address] = self._opened.enter_context(closing(server))
        wanted = None if "." in table else wanted_columns(self._schema)[table]
        return self._servers[asked.address].source(asked.name, wanted)


def is_duckdb(path: Path) -> bool:
    """Whether a file begins as those of DuckDB do."""
    try:
        with path.open("rb") as file:
            return file.read(12)[8:] == b"DUCK"
    except OSError:
        return False


def duckdb_source(engine: DuckEngine, path: Path, name: str) -> Source:
    """A table of a DuckDB file as a source; raises `Unusable`."""
    if not path.is_file():
        raise Unusable("the file does not exist")
    columns = arrow_columns(engine.columns(path, name))
    kinds = {column: kind_of(held) for column, held in columns.items()}
    return replace(Source("duckdb", (path,), kinds, others_of(columns)), name=name)
