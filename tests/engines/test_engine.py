"""Engines: limits, spilling, streaming, failing, and leaving nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as parquet
import pyspark
import pytest

import eree
import eree_study
from eree.data.engine import DuckEngine, open_engine
from eree.data.sources import Source, inspect_source
from eree.data.spark import SparkEngine
from eree.data.spill import SPILL_PREFIX, SpillFolder
from processes import ended, running, until
from selection import EVERYTHING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "SECRET-77231"


@pytest.fixture
def spills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder of our own, in which every spill folder must have vanished again."""
    folder = tmp_path / "spills"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture(scope="module")
def many_jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return eree_study.synthesize(tmp_path_factory.mktemp("many_jobs") / "data", jobs=1_500_000)


def test_a_tabulation_larger_than_its_memory_spills_and_is_the_same(
    many_jobs: Path, spills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by = ["place", "sector", "ownership", "sex", "education"]
    spilled: list[bool] = []
    make, remove = SpillFolder.__init__, SpillFolder.remove

    def made(folder: SpillFolder) -> None:
        make(folder)
        os.utime(folder.path, (0, 0))  # until there was a file in it

    def removed(folder: SpillFolder) -> None:
        spilled.append(folder.path.stat().st_mtime > 0)
        remove(folder)

    monkeypatch.setattr(SpillFolder, "__init__", made)
    monkeypatch.setattr(SpillFolder, "remove", removed)
    free = eree.load(many_jobs)
    expected = eree.tabulate(free, by).confidential
    assert not any(spilled)
    tight = replace(free, memory_limit="30MB", threads=1)
    found = eree.tabulate(tight, by).confidential
    assert found.equals(expected)
    assert any(spilled), "the limit was not felt, so nothing was shown"


def test_a_spill_folder_is_for_its_owner_alone(spills: Path) -> None:
    with closing(DuckEngine()):
        [folder] = spills.iterdir()
        assert folder.name.startswith(SPILL_PREFIX)
        assert folder.stat().st_mode & 0o777 == 0o700


def test_an_error_removes_the_spill_folder(many_jobs: Path, spills: Path) -> None:
    tables = eree.load(many_jobs)
    marginal = eree.Marginal.over(tables.schema, ["sector"])
    for batch in eree.stream(tables, marginal):
        assert len(batch)
        break  # the reader loses interest
    for limit in ("a lot", "-1", "100%", "99999999999999TB"):
        with pytest.raises(eree.Refusal, match="memory limit"):
            eree.load(many_jobs, memory_limit=limit)
    with pytest.raises(eree.Refusal, match="1 to 256 threads"):
        eree.load(many_jobs, threads=100_000)
    with pytest.raises(eree.EngineFailure), closing(DuckEngine()) as engine:
        engine.query("select nonsense")


def kept(folder: Path) -> bool:
    """Whether some process, perhaps of one that has ended, still keeps a spill folder in there."""
    for process in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended meanwhile
            if os.fsencode(folder) in process.read_bytes():
                return True
    return False


def test_a_killed_process_leaves_no_spill_folder(tmp_path: Path) -> None:
    program = (
        "from eree.data.engine import DuckEngine; e = DuckEngine(); print(flush=True); input()"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", program]
    with running(command, stdin=subprocess.PIPE, stderr=None, env=environment) as process:
        assert process.stdout
        process.stdout.readline()
        assert len(list(tmp_path.iterdir())) == 1
        assert kept(tmp_path)
        process.send_signal(signal.SIGKILL)
    assert until(lambda: not kept(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_too_little_memory_is_refused_with_what_would_work(many_jobs: Path, spills: Path) -> None:
    tables = eree.load(many_jobs)
    with (
        closing(DuckEngine(memory_limit="2MB", threads=1)) as engine,
        pytest.raises(eree.EngineFailure, match="raise the memory limit"),
    ):
        engine.load("job_file", tables.sources["job"])
        for _ in engine.query("select list(worker_id) from job_file"):
            pass


def test_results_stream_in_batches(many_jobs: Path) -> None:
    tables = eree.load(many_jobs)
    marginal = eree.Marginal.over(
        tables.schema, ["place", "sector", "ownership", "age", "sex", "race"]
    )
    parts = list(eree.stream(tables, marginal))
    assert len(parts) > 1
    assert max(map(len, parts)) <= 1 << 17
    whole = eree.tabulate(tables, marginal.by).confidential
    assert pa.concat_tables(part.confidential for part in parts).equals(whole)
    assert pa.compute.sum(whole["count"]).as_py() == 1_500_000


def damaged(folder: Path) -> Path:
    """A Parquet file whose footer is sound and whose pages are not, with a secret inside."""
    path = folder / "t.parquet"
    values = [f"{SECRET}-{i}" for i in range(20_000)]
    parquet.write_table(pa.table({"a": values}), path, compression="none", use_dictionary=False)
    raw = bytearray(path.read_bytes())
    raw[100:9_000] = bytes(b ^ 0x5A for b in raw[100:9_000])
    path.write_bytes(raw)
    return path


def test_a_damaged_file_is_named_without_quoting_it(tmp_path: Path, spills: Path) -> None:
    damaged(tmp_path)
    source, faults = inspect_source(tmp_path, "worker", "t.parquet")
    assert source is not None
    assert not faults
    with closing(DuckEngine()) as engine:
        engine.load("t", source)
        with pytest.raises(eree.EngineFailure) as caught:
            list(engine.query("select a, length(a) as n from t"))
    assert SECRET not in repr(caught.value)
    assert caught.value.__cause__ is None
    assert "damaged" in str(caught.value)


def test_a_full_disk_for_spilling_is_named_among_the_causes(
    many_jobs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = replace(eree.load(many_jobs), memory_limit="30MB", threads=1)
    connect = duckdb.connect

    def on_a_small_disk(*arguments: Any, config: dict[str, Any]) -> duckdb.DuckDBPyConnection:
        connection = connect(*arguments, config=config)
        connection.execute("set max_temp_directory_size = '1MB'")
        return connection

    monkeypatch.setattr("duckdb.connect", on_a_small_disk)
    with pytest.raises(eree.EngineFailure, match="disk"):
        eree.tabulate(tables, ["place", "sector", "ownership", "sex", "education"])


def test_a_closed_engine_says_so(spills: Path) -> None:
    engine = DuckEngine()
    engine.close()
    engine.close()
    with pytest.raises(eree.Refusal, match="closed"):
        engine.query("select 1")


def test_spark_is_found_by_name_by_master_and_as_a_session(spark: SparkSession) -> None:
    for engine in ("spark", "local[2]", spark):
        with closing(open_engine(engine)) as opened:
            assert isinstance(opened, SparkEngine)
            assert opened.query("select 41 + 1 as a").read_all().to_pylist() == [{"a": 42}]
    with pytest.raises(eree.Refusal, match="runs already on"):
        open_engine("local[1]")
    with pytest.raises(eree.Refusal, match="settings of DuckDB"):
        open_engine(spark, memory_limit="1GB")


def test_spark_refuses_a_file_that_it_would_pass_over(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads `_job.parquet` as an empty table; a count of zero must not come of that."""
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "_job.parquet")
    source, faults = inspect_source(tmp_path, "job", "_job.parquet")
    assert source is None
    assert "starts with . or _" in faults[0].rule
    hidden = Source("parquet", (tmp_path / "_job.parquet",), {"a": "integer"})
    with closing(open_engine(spark)) as engine, pytest.raises(eree.EngineFailure):
        engine.load("t", hidden)


def test_spark_forgets_our_tables_and_keeps_its_own(spark: SparkSession) -> None:
    spark.range(1).createOrReplaceTempView("mine")
    with closing(open_engine(spark)) as engine:
        engine.load("ours", pa.table({"a": [1]}))
        assert not spark.catalog.tableExists("ours")
        assert engine.query("select * from ours").read_all().num_rows == 1
    assert spark.sql("select * from mine").count() == 1
    spark.catalog.dropTempView("mine")


def test_spark_fails_without_quoting_a_row(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    damaged(tmp_path)
    source, _ = inspect_source(tmp_path, "worker", "t.parquet")
    assert source is not None
    with closing(open_engine(spark)) as engine:
        engine.load("t", source)
        with pytest.raises(eree.EngineFailure) as caught:
            engine.query("select a, cast(a as bigint) as n from t").read_all()
        engine.load("s", pa.table({"a": [SECRET]}))
        with pytest.raises(eree.EngineFailure):
            engine.query("select cast(a as bigint) as n from s").read_all()
    printed = capfd.readouterr()
    assert SECRET not in repr(caught.value) + printed.out + printed.err


def test_spark_streams_its_rows_in_order(spark: SparkSession) -> None:
    """The driver has asked for a few partitions when the first rows come, and not for all."""
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup
    with closing(open_engine(spark)) as engine:
        before = set(jobs(None))
        found = engine.query("select id from range(0, 400000, 1, 16)")
        first = found.read_next_batch()
        assert len(set(jobs(None)) - before) < 8
        rows = pa.Table.from_batches([first, *found])
        assert rows["id"].to_pylist() == list(range(400_000))
        assert len(set(jobs(None)) - before) >= 16
        for batch in engine.query("select id from range(0, 400000, 1, 16)"):
            assert batch.num_rows
            break  # the reader loses interest


def test_spark_that_would_write_rows_as_they_are_is_refused() -> None:
    settings = SimpleNamespace(get=lambda _name, default: default)
    session = SimpleNamespace(newSession=None, _jsparkSession=None, conf=settings)
    with pytest.raises(eree.Refusal, match=r"spark\.io\.encryption\.enabled set to true"):
        open_engine(session)
    with pytest.raises(eree.Refusal, match="Spark Connect"):
        open_engine(SimpleNamespace(newSession=None))


#: Counts secrets on a cluster of its own, fails over one, says where, and waits with rows in hand.
ON_A_CLUSTER = """
import sys
from pathlib import Path
import eree
from eree.data.engine import open_engine
from eree.data.sources import inspect_source
engine = open_engine("local-cluster[1,1,1024]")
source, _ = inspect_source(Path(sys.argv[1]), "worker", "t.parquet")
engine.load("t", source)
try:
    engine.query("select cast(a as bigint) as n from t").read_all()
except eree.EngineFailure as failure:
    print(failure)
rows = engine.query("select a, count(*) as n from t group by a order by a")
assert rows.read_next_batch().num_rows
print("waiting", flush=True)
input()
"""


def containing(folder: Path, secret: bytes) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if secret in path.read_bytes()]


def javas(folder: Path) -> list[int]:
    """The Java processes that were started with a temporary folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            own = os.fsencode(folder) in (process / "environ").read_bytes()
            if own and "java" in (process / "exe").readlink().name:
                found.append(int(process.name))
    return found


@pytest.mark.xdist_group("spark")  # not beside the other one
def test_a_killed_cluster_leaves_no_readable_row(tmp_path: Path) -> None:
    """The executor is a process of its own; all are killed at once, with their driver."""
    spills, data, home = tmp_path / "spills", tmp_path / "data", tmp_path / "home"
    for folder in (spills, data, home):
        folder.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():  # executors log beside it
        (home / part.name).symlink_to(part)
    secrets = pa.table({"a": [f"{SECRET}-{i}" for i in range(50_000)]})
    parquet.write_table(secrets, data / "t.parquet")
    environment = os.environ | {
        "TMPDIR": str(spills),
        "SPARK_HOME": str(home),
        "PYTHONWARNINGS": "",
        "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        # what is not encrypted can be read
        "PYSPARK_SUBMIT_ARGS": "--conf spark.shuffle.compress=false pyspark-shell",
    }
    command = [sys.executable, "-c", ON_A_CLUSTER, str(data)]
    with running(command, stdin=subprocess.PIPE, env=environment) as process:
        assert process.stdout
        assert "Spark could not run" in process.stdout.readline()
        assert process.stdout.readline() == "waiting\n"
        logs = home / "work"
        [folder] = spills.glob(f"{SPILL_PREFIX}*")
        assert folder.stat().st_mode & 0o777 == 0o700
        shuffled = [path for path in folder.rglob("shuffle_*.data") if path.stat().st_size]
        written = sum(path.stat().st_size for path in shuffled)
        assert written > 50_000 * len(SECRET), "nothing was shuffled, so nothing was shown"
        assert containing(tmp_path / "spills", SECRET.encode()) == []
        assert len(list(logs.rglob("stderr"))) == 1
        assert containing(logs, SECRET.encode()) == []
        for number in [process.pid, *javas(spills)]:
            os.kill(number, signal.SIGKILL)
        _, err = process.communicate()
    assert SECRET not in err
    assert until(lambda: not kept(spills))
    assert list(spills.glob(f"{SPILL_PREFIX}*")) == []
    assert containing(spills, SECRET.encode()) == []


def test_spark_sends_no_file_to_every_executor_because_it_is_small(
    spark: SparkSession, many_jobs: Path
) -> None:
    """A million workers fit into a megabyte of Parquet, and not into an executor's memory."""
    values = pa.table({"sex": ["F", "M"], "_cell": [0, 1]})
    joins = {
        "job_file as j join worker_file as w on w.worker_id = j.worker_id": False,
        "worker_file as w join small as s on s.sex = w.sex": True,
    }
    with closing(open_engine(spark)) as engine:
        assert isinstance(engine, SparkEngine)
        for table in ("job", "worker"):
            source, _ = inspect_source(many_jobs, table, f"{table}.parquet")
            assert source is not None
            assert source.paths[0].stat().st_size < 10 << 20  # Spark's own threshold
            engine.load(f"{table}_file", source)
        engine.load("small", values)
        for join, sent in joins.items():
            [row] = engine.query(f"explain select count(*) from {join}").read_all().to_pylist()
            assert ("BroadcastHashJoin" in row["plan"]) == sent


def test_tables_are_checked_and_counted_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    folder = eree_study.synthesize(tmp_path / "data", jobs=5_000)
    by, where = ["state", "supersector", "sex"], {"education": ["college"]}
    on_spark = eree.load(folder, engine=spark)
    cells = eree.tabulate(on_spark, by, where).confidential
    assert cells.equals(eree.tabulate(eree.load(folder), by, where).confidential)
    assert cells.num_rows > 0


def test_a_spill_folder_that_cannot_be_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    with pytest.raises(eree.Refusal, match="no temporary folder can be made"):
        DuckEngine()


def test_a_spill_folder_whose_name_nobody_reads_is_removed(tmp_path: Path) -> None:
    program = (
        "from eree.data import engine\n"
        "class Deaf(engine.subprocess.Popen):\n"
        "    def __init__(self, *given, **named):\n"
        "        super().__init__(*given, **named)\n"
        "        self.stdout.close()\n"
        "        raise KeyboardInterrupt\n"
        "engine.subprocess.Popen = Deaf\n"
        "engine.DuckEngine()\n"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    for _ in range(20 if EVERYTHING else 2):
        assert ended([sys.executable, "-c", program], env=environment).returncode
    assert until(lambda: not kept(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_at_any_moment_of_opening_leaves_no_spill_folder(tmp_path: Path) -> None:
    program = (
        "import signal, threading, time, sys\n"
        "from eree.data.engine import DuckEngine\n"
        "def interrupt():\n"
        "    time.sleep(float(sys.argv[1]))\n"
        "    while True:\n"  # one that comes while something is collected stops nothing
        "        signal.raise_signal(signal.SIGINT)\n"
        "        time.sleep(5)\n"
        "threading.Thread(target=interrupt, daemon=True).start()\n"
        "while True: DuckEngine().close()\n"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    for i in range(120 if EVERYTHING else 6):
        command = [sys.executable, "-c", program, str(0.01 + 0.008 * i)]
        assert ended(command, env=environment).returncode
    assert until(lambda: not kept(tmp_path))
    assert list(tmp_path.iterdir()) == []
