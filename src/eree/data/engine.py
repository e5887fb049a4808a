"""The door to the query engine: DuckDB in this process, or Spark on a cluster.

An engine has three methods: `load` names a source, `query` runs one SQL text and streams Arrow
batches, `close` lets go of everything.  The same text runs on both.  What an engine says when it
fails may quote a row, so its own words are never passed on.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import duckdb
import pyarrow as pa

from eree.data.sources import Source
from eree.errors import DamagedFile, EngineFailure, Refusal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_ROWS = 1 << 16
MOST_THREADS = 256
MEMORY_LIMIT = re.compile(r"[0-9]+(\.[0-9]+)? ?[KMGT]i?B")
SPILL_PREFIX = "eree-spill-"


class Engine(Protocol):
    """What a tabulation needs of a query engine."""

    def load(self, name: str, data: Source | pa.Table) -> None:
        """Make files, or a small table, known to queries under a name."""

    def query(self, sql: str) -> pa.RecordBatchReader:
        """Run one SQL text; the result streams in batches."""

    def close(self) -> None:
        """Let go of memory, files and names."""


class _SpillFolder:
    """A folder that only we can read, and that goes when we go, even by SIGKILL.

    A shell makes it and then waits on a pipe whose other end only this process holds; when the pipe
    closes, for whatever reason, the shell removes it.  At no moment is the folder nobody's: an
    interrupt before we read its name breaks the other pipe, which the shell must outlive.
    """

    def __init__(self) -> None:
        self._keeper = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, f"{SPILL_PREFIX}{'X' * 8}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that Ctrl-C, meant for us, leaves it alone
        )
        assert self._keeper.stdout is not None
        with self._keeper.stdout as answers:
            made = answers.readline().removesuffix(b"\n")
        if not made:
            self._end()
            home = os.environ.get("TMPDIR") or "the system's place for them"
            raise Refusal(f"no temporary folder can be made in {home}; point TMPDIR at another")
        self.path = Path(os.fsdecode(made))

    def remove(self) -> None:
        """Remove the folder now."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._end()

    def _end(self) -> None:
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()
        self._keeper.wait()


_KEEPER = """
trap '' PIPE
made=$(mktemp -d -t "$0") || exit
printf '%s\\n' "$made"
exec >&-
read -r _
test ! -e "$made" || exec rm -rf -- "$made"
"""


class DuckEngine:
    """DuckDB in this process, spilling to a folder of its own that `close` removes."""

    def __init__(self, memory_limit: str | None = None, threads: int | None = None) -> None:
        if memory_limit is not None and not MEMORY_LIMIT.fullmatch(memory_limit):
            raise Refusal(f"the memory limit {memory_limit!r} is not a size; write it as '4GB'")
        if threads is not None and not 1 <= threads <= MOST_THREADS:
            raise Refusal(f"DuckDB may use 1 to {MOST_THREADS} threads, not {threads}")
        self._spill = _SpillFolder()
        self._connection: duckdb.DuckDBPyConnection | None = None
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
        """Files become a view over them; an Arrow table is copied, so that its range is known.

        What had the name before is replaced.
        """
        connection = self._open()
        with _own_words():
            if isinstance(data, Source):
                paths = ", ".join(_quote(_literal_glob(path)) for path in data.paths)
                if data.format == "parquet":
                    scan = f"read_parquet([{paths}], hive_partitioning = false)"
                else:
                    names = ", ".join(f"{_quote(c)}: 'VARCHAR'" for c in data.columns)
                    scan = (
                        f"read_csv([{paths}], columns = {{{names}}}, header = true, delim = ',',"
                        " quote = '\"', escape = '\"', auto_detect = false,"
                        " hive_partitioning = false)"
                    )
                connection.execute(f'create or replace view "{name}" as select * from {scan}')
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


class SparkEngine:
    """Spark, in a session of its own beside the given one, so that no name or setting leaks."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session.newSession()
        for key, value in session.conf.getAll.items():  # a new session forgets them
            if self._session.conf.isModifiable(key):
                self._session.conf.set(key, value)
        for key, value in {
            "spark.sql.ansi.enabled": "true",
            "spark.sql.ansi.doubleQuotedIdentifiers": "true",
            "spark.sql.caseSensitive": "true",
            "spark.sql.variable.substitute": "false",
        }.items():
            self._session.conf.set(key, value)
        self._names: list[str] = []

    def load(self, name: str, data: Source | pa.Table) -> None:
        """Files become a temporary view of our session; an Arrow table is sent over."""
        frame: Any
        if isinstance(data, Source):
            paths = ["file:" + re.sub(r"([{}\[\]*?\\])", r"\\\1", str(p)) for p in data.paths]
            if data.format == "parquet":
                frame = _spark_call(self._session.read.parquet, *paths)
            else:
                reader = self._session.read.options(
                    header=True, quote='"', escape='"', multiLine=True, inferSchema=False
                )
                columns = ", ".join(f"`{column}` string" for column in data.columns)
                frame = _spark_call(reader.schema(columns).csv, paths)
            if len(_spark_call(frame.inputFiles)) != len(paths):
                raise EngineFailure("Spark does not see every file of the tables; check the names")
        else:
            with warnings.catch_warnings():
                # PySpark leaves its own socket to the garbage collector here
                warnings.simplefilter("ignore", ResourceWarning)
                frame = _spark_call(self._session.createDataFrame, data)
        _spark_call(frame.createOrReplaceTempView, name)
        self._names.append(name)

    def query(self, sql: str) -> pa.RecordBatchReader:
        """Run one SQL text on the cluster; the cells come back to the driver."""
        table: pa.Table = _spark_call(lambda: self._session.sql(sql).toArrow())
        return table.to_reader(BATCH_ROWS)

    def close(self) -> None:
        """Forget the views; the Spark application itself belongs to the caller."""
        while self._names:
            self._session.catalog.dropTempView(self._names.pop())


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
        return SparkEngine(_spark_session(None if engine == "spark" else engine))
    if hasattr(engine, "newSession"):
        return SparkEngine(cast("SparkSession", engine))
    raise Refusal("engine must be 'duckdb', 'spark', a Spark master URL or a running Spark session")


def _spark_session(master: str | None) -> SparkSession:
    """The running session, or a new one that keeps its own log quiet and its files encrypted."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise Refusal(
            "Spark is not installed; install it with: pip install 'eree[spark]'"
        ) from None
    running = SparkSession.getActiveSession()
    if running is not None and master in (None, running.sparkContext.master):
        return running
    if running is not None:
        raise Refusal(
            f"a Spark session runs already on {running.sparkContext.master};"
            " pass it as the engine, or stop it first"
        )
    master = master or os.environ.get("SPARK_MASTER") or "local[*]"
    builder = SparkSession.builder.master(master).appName("eree")
    builder = builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.log.level", "OFF")  # a failed task's line may quote a row
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.io.encryption.enabled", "true")
    if master.startswith("local"):
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
    session = _spark_call(builder.getOrCreate)
    assert isinstance(session, SparkSession)
    return session


def _spark_call(action: Any, *arguments: Any) -> Any:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return action(*arguments)
    except (PySparkException, Py4JError, pa.ArrowException):
        raise EngineFailure(
            "Spark could not run the tabulation; check that every node can read the files,"
            " that Java 17 is there and that executors have enough memory"
        ) from None


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


def _literal_glob(path: Path) -> str:
    """The path as a pattern that matches itself alone."""
    return re.sub(r"([\[*?])", r"[\1]", str(path))


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
