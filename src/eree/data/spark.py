"""The door to Spark: the same SQL texts on a cluster, or on the cores of this machine.

What Spark says when it fails may quote a row, so its own words are never passed on.  What it
writes to disk is encrypted, under a key that only its processes know.
"""

from __future__ import annotations

import atexit
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eree.data.sources import Source
from eree.data.spill import SpillFolder
from eree.errors import EngineFailure, Refusal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Rows of an Arrow batch that comes from an executor.
BATCH_ROWS = 1 << 16
#: Bytes of files for each part of a shuffle: about a million jobs in Parquet.
PART_BYTES = 4 << 20
MOST_PARTS = 4_000
ENCRYPTED = "spark.io.encryption.enabled"
PARTS = "spark.sql.shuffle.partitions"
#: Settings of a log without a line; Spark takes those without an appender for none at all.
_QUIET = """\
rootLogger.level = off
rootLogger.appenderRef.none.ref = none
appender.none.type = Null
appender.none.name = none
"""


#: Encodings by the names that Java has for them.
_ENCODINGS = {"utf-8": "UTF-8", "latin-1": "ISO-8859-1"}


class SparkEngine:
    """Spark, in a session of its own beside the given one, so that no name or setting leaks."""

    def __init__(self, session: SparkSession) -> None:
        if not hasattr(session, "_jsparkSession"):
            raise Refusal(
                "a session of Spark Connect cannot count here; start eree where the Spark driver"
                " can run, and name the master"
            )
        if session.conf.get(ENCRYPTED, "false") != "true":
            raise Refusal(
                f"the Spark session would write rows to disk as they are; start it with"
                f" {ENCRYPTED} set to true"
            )
        _silence()
        self._session = session.newSession()
        settings = session.conf.getAll
        for key, value in settings.items():  # a new session forgets them
            if self._session.conf.isModifiable(key):
                self._session.conf.set(key, value)
        for key, value in {
            "spark.sql.ansi.enabled": "true",
            "spark.sql.ansi.doubleQuotedIdentifiers": "true",
            "spark.sql.caseSensitive": "true",
            "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
            "spark.sql.session.timeZone": "UTC",
            # a file of a few MB may hold millions of workers: what is small enough to be sent to
            # every executor is known of our own small tables, and of what has been shuffled
            "spark.sql.sources.fileCompressionFactor": "1e9",
            "spark.sql.variable.substitute": "false",
        }.items():
            self._session.conf.set(key, value)
        self._parted = PARTS in settings  # by whoever started it
        self._names: list[str] = []
        self._bytes = 0

    def load(self, name: str, data: Source | pa.Table) -> None:
        """Files become a temporary view of our session; an Arrow table is sent over."""
        frame: Any
        if isinstance(data, Source):
            found = [self._read(data, paths, said) for said, paths in data.alike()]
            frame = found[0]
            for other in found[1:]:
                frame = _called(frame.unionAll, other)
            self._part(data)
        else:
            with warnings.catch_warnings():
                # PySpark leaves its own socket to the garbage collector here
                warnings.simplefilter("ignore", ResourceWarning)
                frame = _called(self._session.createDataFrame, data)
        _called(frame.createOrReplaceTempView, name)
        self._names.append(name)

    def _read(self, data: Source, held: list[Path], said: Mapping[str, str]) -> Any:
        """Some files, with what their folders say of all of their rows."""
        from pyspark.sql.functions import lit

        paths = ["file:" + re.sub(r"([{}\[\]*?\\])", r"\\\1", str(p)) for p in held]
        if data.format == "parquet":
            frame = _called(self._session.read.parquet, *paths)
        else:
            reader = self._session.read.options(
                header=True,
                sep=data.separator,
                encoding=_ENCODINGS[data.encoding],
                quote='"',
                escape='"',
                multiLine=True,
                inferSchema=False,
            )
            columns = ", ".join(f"`{c}` string" for c in data.columns if c not in said)
            frame = _called(reader.schema(columns).csv, paths)
        if len(_called(frame.inputFiles)) != len(paths):
            raise EngineFailure("Spark does not see every file of the tables; check the names")
        for column, value in said.items():
            frame = _called(frame.withColumn, column, lit(value))
        return frame

    def _part(self, data: Source) -> None:
        """Shuffle in as many parts as the files are large, and as there are cores."""
        if self._parted:
            return
        self._bytes += sum(path.stat().st_size for path in data.paths)
        cores = int(self._session.sparkContext.defaultParallelism)
        parts = min(max(self._bytes // PART_BYTES, cores), MOST_PARTS)
        self._session.conf.set(PARTS, str(parts))

    def query(self, sql: str) -> pa.RecordBatchReader:
        """Run one SQL text on the cluster; the cells come to the driver part by part."""
        frame = _called(self._session.sql, sql)
        schema = _arrow_schema(frame)
        return pa.RecordBatchReader.from_batches(schema, _batches(frame, schema))

    def close(self) -> None:
        """Forget the views; the Spark application itself belongs to the caller."""
        while self._names:
            self._session.catalog.dropTempView(self._names.pop())


def _arrow_schema(frame: Any) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    schema: pa.Schema = to_arrow_schema(frame.schema)
    return schema


def _batches(frame: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a frame in their order, of which the driver holds two partitions at most.

    PySpark streams pickled rows, or collects Arrow batches; here Arrow batches are streamed by the
    same means.
    """
    from pyspark.serializers import NoOpSerializer
    from pyspark.util import _local_iterator_from_socket

    def served() -> Any:
        rows = frame._jdf.toArrowBatchRdd()
        return frame.sparkSession._jvm.PythonRDD.toLocalIteratorAndServe(rows, True)

    parts = _called(lambda: _local_iterator_from_socket(_called(served), NoOpSerializer()))
    end = object()
    while (part := _called(next, parts, end)) is not end:
        yield _called(pa.ipc.read_record_batch, pa.py_buffer(part), schema)


def start_session(master: str | None) -> SparkSession:
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
    spill = SpillFolder()
    atexit.register(spill.remove)
    builder = SparkSession.builder.master(master).appName("eree")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",  # a failed task's line may quote a row
        "spark.executor.syncLogLevel.enabled": "true",  # and be written by an executor
        "spark.local.dir": str(spill.path),  # of the driver, and of executors on this machine
        ENCRYPTED: "true",
    }.items():
        builder = builder.config(key, value)
    if master.startswith("local"):
        # executors of a local cluster start with the defaults whatever the driver's level is
        quiet = spill.path / "log4j2.properties"
        quiet.write_text(_QUIET, encoding="utf-8")
        quieted = f"-Dlog4j2.configurationFile={quiet.as_uri()}"
        builder = builder.config("spark.executor.extraJavaOptions", quieted)
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
    session = _called(builder.getOrCreate)
    assert isinstance(session, SparkSession)
    session.sparkContext.setLogLevel("OFF")  # again: now there is somebody to pass it on
    return session


def _silence() -> None:
    """PySpark logs what made a query fail, in this process: its words may quote a value."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True


def _called(action: Any, *arguments: Any) -> Any:
    """What Spark answers; what it complains of is said in our words."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return action(*arguments)
    except (PySparkException, Py4JError, pa.ArrowException, EOFError, OSError):
        raise EngineFailure(
            "Spark could not run the tabulation; check that every node can read the files,"
            " that Java 17 is there and that executors have enough memory"
        ) from None
