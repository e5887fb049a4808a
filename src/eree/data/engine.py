"""The door to the query engine: DuckDB in this process, or Spark on a cluster (`spark`).

An engine has three methods: `load` names a source, `query` runs one SQL text and streams Arrow
batches, `close` lets go of everything.  The same text runs on both.  What an engine says when it
fails may quote a row, so its own words are never passed on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

import duckdb
import pyarrow as pa

from eree.data.sources import Source, Unusable
from eree.data.spark import SparkEngine, start_session
from eree.data.spill import SpillFolder
from eree.errors import DamagedFile, EngineFailure, Refusal

BATCH_ROWS = 1 << 16
MOST_THREADS = 256
MEMORY_LIMIT = re.compile(r"[0-9]+(\.[0-9]+)? ?[KMGT]i?B")


_NO_DUCKDB = (
    "cannot be opened as a DuckDB file; it may be of a newer DuckDB, or opened by another program"
    " to write"
)


class Engine(Protocol):
    """What a tabulation needs of a query engine."""

    def load(self, name: str, data: Source | pa.Table) -> None:
        """Make files, or a small table, known to queries under a name."""

    def query(self, sql: str) -> pa.RecordBatchReader:
        """Run one SQL text; the result streams in batches."""

    def close(self) -> None:
        """Let go of memory, files and names."""


class DuckEngine:
    """DuckDB in this process, spilling to a folder of its own that `close` removes."""

    def __init__(self, memory_limit: str | None = None, threads: int | None = None) -> None:
        if memory_limit is not None and not MEMORY_LIMIT.fullmatch(memory_limit):
            raise Refusal(f"the memory limit {memory_limit!r} is not a size; write it as '4GB'")
        if threads is not None and not 1 <= threads <= MOST_THREADS:
            raise Refusal(f"DuckDB may use 1 to {MOST_THREADS} threads, not {threads}")
        self._spill = SpillFolder()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._attached: list[Path] = []
        settings: dict[str, str | bool | int | float | list[str]] = {
            "temp_directory": str(self._spill.path),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "preserve_insertion_order": False,  # every query that needs an order asks for it
            "perfect_ht_threshold": 22,  # dense whole-number ids are counted in an array
            # a tabulation counts by workplace itself, before it joins; once more only costs time
            "disabled_optimizers": "partial_aggregate_pushdown",
            "memory_limit": memory_limit or f"{_machine_memory() // 2}B",
        }
        if threads is not None:
            settings["threads"] = threads
        try:
            self._connection = duckdb.connect(":memory:", config=settings)
            self._connection.execute("set enable_progress_bar = false")  # on anybody's output
        except BaseException as error:
            self.close()
            if isinstance(error, duckdb.Error):
                raise Refusal(f"DuckDB cannot use a memory limit of {memory_limit}") from None
            raise

    def load(self, name: str, data: Source | pa.Table) -> None:
        """Files, and rows of data frames, become a view; other Arrow tables are copied.

        So the range of these is known.  What had the name before is replaced.
        """
        connection = self._open()
        with _own_words():
            if isinstance(data, Source) and data.rows is not None:
                connection.register(name, data.rows)
            elif isinstance(data, Source) and data.format == "duckdb":
                shown = self._shown(connection, data.paths[0], data.name)
                connection.execute(f'create or replace view "{name}" as {shown}')
            elif isinstance(data, Source):
                scans = " union all ".join(_scan(data, *part) for part in data.alike())
                connection.execute(f'create or replace view "{name}" as {scans}')
            else:
                connection.register("_arrow", data)
                connection.execute(f'create or replace table "{name}" as select * from _arrow')
                connection.unregister("_arrow")

    def query(self, sql: str) -> pa.RecordBatchReader:
        """Run one SQL text; the result streams in batches."""
        connection = self._open()
        with _own_words():
            reader = connection.sql(sql).to_arrow_reader(BATCH_ROWS)

        def batches() -> Iterator[pa.RecordBatch]:
            with _own_words():
                yield from reader

        return pa.RecordBatchReader.from_batches(reader.schema, batches())

    def columns(self, path: Path, table: str) -> pa.Schema:
        """The columns of a table in a DuckDB file; raises `Unusable` where it cannot be read."""
        connection = self._open()
        try:
            found = connection.sql(self._shown(connection, path, table)).limit(0)
            return cast(pa.Schema, found.to_arrow_table().schema)
        except (duckdb.CatalogException, duckdb.BinderException):
            raise Unusable("the file holds no such table, or a view that does not work") from None
        except (duckdb.Error, pa.ArrowException, OSError, RuntimeError):
            raise Unusable(_NO_DUCKDB) from None

    def names(self, path: Path) -> list[str]:
        """The tables and views of a DuckDB file, in order; raises `Unusable`."""
        connection = self._open()
        try:
            home = self._attach(connection, path)
            found = connection.execute(
                "select schema_name, table_name from duckdb_tables()"
                " where database_name = $1 and not internal union all"
                " select schema_name, view_name from duckdb_views()"
                " where database_name = $1 and not internal order by all",
                [home],
            ).fetchall()
        except (duckdb.Error, OSError, RuntimeError):
            raise Unusable(_NO_DUCKDB) from None
        named = [(s, n) for s, n in found if not re.search(r'[."`\\\x00-\x1f]', s + n)]
        return [name if schema == "main" else f"{schema}.{name}" for schema, name in named]

    def _attach(self, connection: duckdb.DuckDBPyConnection, path: Path) -> str:
        """The name of a DuckDB file in queries; it is opened for reading alone."""
        if path not in self._attached:
            name = f"_attached_{len(self._attached)}"
            connection.execute(f"attach {_quote(str(path))} as {name} (type duckdb, read_only)")
            self._attached.append(path)
        return f"_attached_{self._attached.index(path)}"

    def _shown(self, connection: duckdb.DuckDBPyConnection, path: Path, table: str) -> str:
        """The rows of a table in a DuckDB file; codes and texts with collations as plain texts."""
        home, (schema, _, name) = self._attach(connection, path), table.rpartition(".")
        rows = f'select * from {home}."{schema or "main"}"."{name}"'
        found = connection.sql(rows)
        held = zip(found.columns, found.types, strict=True)
        texts = [c.replace('"', '""') for c, kind in held if kind.id in ("enum", "varchar")]
        plain = [f'"{c}"::varchar collate c as "{c}"' for c in texts]
        return rows.replace("*", f"* replace ({', '.join(plain)})", 1) if plain else rows

    def close(self) -> None:
        """Drop every view and remove the spill folder."""
        connection, self._connection = self._connection, None
        try:
            if connection is not None:
                connection.close()
        finally:
            self._spill.remove()

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            raise Refusal("this engine is closed; open another")
        return self._connection


def open_engine(
    engine: object = "duckdb", *, memory_limit: str | None = None, threads: int | None = None
) -> Engine:
    """An engine from its name (`duckdb`, `spark`), a Spark master URL or a running session."""
    if engine == "duckdb":
        return DuckEngine(memory_limit, threads)
    if memory_limit is not None or threads is not None:
        raise Refusal(
            "memory_limit and threads are settings of DuckDB;"
            " give Spark its own through the session"
        )
    if isinstance(engine, str):
        if engine != "spark" and not re.match(r"(local\b|yarn$|spark://|k8s://)", engine):
            raise Refusal(
                f"there is no engine named {engine!r}; use 'duckdb', 'spark', a Spark master URL"
                " such as 'local[2]', or a running Spark session"
            )
        cores = re.match(r"local\[([0-9]+)", engine)
        if cores and int(cores[1]) > MOST_THREADS:
            raise Refusal(f"a local Spark may use 1 to {MOST_THREADS} threads, not {cores[1]}")
        return SparkEngine(start_session(None if engine == "spark" else engine))
    if hasattr(engine, "newSession"):
        return SparkEngine(cast("Any", engine))
    raise Refusal("engine must be 'duckdb', 'spark', a Spark master URL or a running Spark session")


@contextmanager
def _own_words() -> Iterator[None]:
    """Turn what DuckDB raises into what we say; an interrupted query is an interrupt."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError, RuntimeError) as error:
        if isinstance(error, duckdb.InterruptException) or "nterrupted" in str(error):
            raise KeyboardInterrupt from None
        raise _duck_failure(error) from None


def _duck_failure(error: BaseException) -> EngineFailure:
    """Our words for what stopped DuckDB; its own may quote a value."""
    text = str(error)
    if isinstance(error, duckdb.OutOfMemoryException) or "Out of Memory" in text:
        words = (
            "DuckDB needs more memory than it may use, or more disk for its temporary files;"
            " raise the memory limit, or point TMPDIR at a larger disk"
        )
    elif "No space left" in text or "temp_directory" in text or "max_temp_directory" in text:
        words = "DuckDB ran out of disk space for its temporary files; free some, or set TMPDIR"
    elif isinstance(
        error, (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)
    ):
        words = f"DuckDB does not understand eree's own query ({type(error).__name__})"
    else:  # what is left comes from reading: pages that cannot be decoded, files that went away
        return DamagedFile("a table's file cannot be read; 'eree check' says which one is damaged")
    return EngineFailure(words)


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _scan(data: Source, said: Mapping[str, str], held: list[Path]) -> str:
    """Some files of a source, with what their folders say of all of their rows."""
    paths = ", ".join(_quote(_literal_glob(path)) for path in held)
    more = "".join(f', {_quote(value)} as "{column}"' for column, value in said.items())
    if data.format == "parquet":
        return f"select *{more} from read_parquet([{paths}], hive_partitioning = false)"
    packed = "gzip" if held[0].suffix == ".gz" else "none"
    names = ", ".join(f"{_quote(c)}: 'VARCHAR'" for c in data.columns if c not in said)
    return (
        f"select *{more} from read_csv([{paths}], columns = {{{names}}}, header = true,"
        f" delim = {_quote(data.separator)}, encoding = {_quote(data.encoding)},"
        f" compression = {_quote(packed)}, quote = '\"', escape = '\"', auto_detect = false,"
        " hive_partitioning = false)"
    )


def _literal_glob(path: Path) -> str:
    """The path as a pattern that matches itself alone."""
    return re.sub(r"([\[*?])", r"[\1]", str(path))


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
