"""Tables that come as data frames: the same checks and counts as files, and nothing on disk."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import eree
from town import SCHEMA, SECRET, Town, missing, orphan, repeated, reported, undeclared_value

NAMES = {"workplace": "workplace", "worker": "worker", "job": "job", "county": "reference.county"}


class Stream:
    """What has Arrow's stream interface and nothing else."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        rows: Any = self.rows
        return rows.__arrow_c_stream__(requested_schema)


class Single:
    """What has Arrow's array interface: one batch."""

    def __init__(self, rows: pa.Table) -> None:
        (self.batch,) = rows.to_batches()

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        batch: Any = self.batch
        return batch.__arrow_c_array__(requested_schema)


def coded(rows: pa.Table) -> pa.Table:
    """Texts as dictionaries, as categories of pandas are."""
    texts = [pa.types.is_string(field.type) for field in rows.schema]
    columns = [
        c.dictionary_encode() if text else c for c, text in zip(rows.columns, texts, strict=True)
    ]
    return pa.table(dict(zip(rows.column_names, columns, strict=True)))


def viewed(rows: pa.Table) -> pa.Table:
    """Texts as views, as those of polars are."""
    views = [pa.string_view() if pa.types.is_string(f.type) else f.type for f in rows.schema]
    return rows.cast(pa.schema(list(zip(rows.column_names, views, strict=True))))


def relation(rows: pa.Table) -> duckdb.DuckDBPyRelation:
    return duckdb.sql("from rows")


def chunked(rows: pa.Table) -> pa.Table:
    return pa.concat_tables([rows.slice(0, 2), rows.slice(2, 0), rows.slice(2)])


KINDS: dict[str, Callable[[pa.Table], object]] = {
    kind.__name__: kind for kind in (Stream, Single, coded, viewed, relation, chunked)
}


def frames(town: Town, kind: Callable[[pa.Table], object] = Stream) -> dict[str, object]:
    return {NAMES[table]: kind(town.arrow(table)) for table in town.tables}


def without_files(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A declaration of tables that need no file."""
    bare = {name: {k: v for k, v in part.items() if k != "file"} for name, part in schema.items()}
    return bare | {"reference": {"county": {}}}


@pytest.mark.parametrize("kind", KINDS)
def test_frames_are_counted_as_files_are(kind: str, tmp_path: Path) -> None:
    by_file = eree.load(Town().write(tmp_path))
    by_frame = eree.load(frames(Town(), KINDS[kind]), without_files(SCHEMA))
    assert by_frame.workplaces == by_file.workplaces
    for by in (["county", "goods"], ["sector", "sex"], ["tract", "grade"], []):
        expected = eree.tabulate(by_file, by=by).confidential
        assert eree.tabulate(by_frame, by=by).confidential.equals(expected)


@pytest.mark.parametrize("package", ["polars", "pandas"])
def test_frames_of_other_packages_are_counted(package: str) -> None:
    library = import_module(package)
    town = Town()
    given = {NAMES[table]: library.DataFrame(columns) for table, columns in town.tables.items()}
    tables = eree.load(given, without_files(SCHEMA))
    assert eree.tabulate(tables, by=["sex"]).confidential["count"].to_pylist() == [3, 3]


def test_a_schema_may_lie_in_a_folder_and_some_tables_beside_it(tmp_path: Path) -> None:
    folder = Town().write(tmp_path)
    for table in ("worker", "job"):
        (folder / f"{table}.parquet").unlink()
    given = {table: Town().arrow(table) for table in ("worker", "job")}
    tables = eree.load(given, folder)
    assert eree.tabulate(tables, by=["sex"]).confidential["count"].to_pylist() == [3, 3]
    assert repr(tables) == "<Tables of data frames: 4 workplaces, the rest confidential>"


def undeclared_column(town: Town) -> None:
    town.tables["worker"]["shoe"] = [1] * 6


def no_column(town: Town) -> None:
    del town.tables["worker"]["sex"]


def real_ids(town: Town) -> None:
    town.types["worker", "worker_id"] = pa.float64()


def texts_for_ids(town: Town) -> None:
    town.tables["job"]["worker_id"] = list("123456")


def huge(town: Town) -> None:
    town.types["worker", "grade"] = pa.uint64()


def two_counties(town: Town) -> None:
    town.tables["workplace"]["tract"][2] = "1711"


def no_rows(town: Town) -> None:
    town.tables["job"] = {name: [] for name in town.tables["job"]}
    town.types |= {("job", name): pa.int64() for name in town.tables["job"]}


def unknown_county(town: Town) -> None:
    town.tables["county"]["county"][0] = "999"


@pytest.mark.parametrize(
    "spoil",
    [
        *(repeated, orphan, missing, undeclared_value, undeclared_column, no_column, real_ids),
        *(texts_for_ids, huge, two_counties, no_rows, unknown_county),
    ],
)
def test_a_frame_has_the_faults_that_a_file_has(
    spoil: Callable[[Town], None], tmp_path: Path
) -> None:
    town = Town()
    spoil(town)
    of_files = [
        (table, column, rule.replace("county.parquet", "reference.county"), rows)
        for table, column, rule, rows in reported(town.write(tmp_path))
    ]
    checked = eree.check(frames(town), without_files(SCHEMA))
    assert not checked
    assert [(f.table, f.column, f.rule, f.rows) for f in checked.faults] == of_files
    assert all(fault.file == fault.table for fault in checked.faults)
    with pytest.raises(eree.Faulty) as raised:
        eree.load(frames(town), without_files(SCHEMA))
    said = "".join(traceback.format_exception(raised.value)) + repr(checked)
    assert SECRET not in said


def test_columns_of_one_name_are_a_fault() -> None:
    rows = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["worker_id", "worker_id"])
    checked = eree.check(frames(Town()) | {"worker": rows}, without_files(SCHEMA))
    assert "worker: two columns have the same name" in str(checked.faults[0])


def test_a_frame_that_fails_says_nothing_of_its_rows() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise ValueError(SECRET)

    given = frames(Town()) | {"worker": Broken()}
    with pytest.raises(eree.Faulty) as raised:
        eree.load(given, without_files(SCHEMA))
    assert "worker: the data frame cannot be read by Arrow" in str(raised.value)
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_texts_that_are_no_utf_8_are_a_fault() -> None:
    """The engine trusts what Arrow says are texts."""
    bad = pa.array([b"\xff\xfe"] * 6).view(pa.string())
    rows = Town().arrow("worker").set_column(1, "sex", bad)
    checked = eree.check(frames(Town()) | {"worker": rows}, without_files(SCHEMA))
    assert [fault.rule for fault in checked.faults] == ["the data frame cannot be read by Arrow"]


def test_what_is_done_to_a_frame_afterwards_changes_nothing() -> None:
    grades = np.array([1, 2, 3, 3, 2, 1])
    rows = Town().arrow("worker").set_column(2, "grade", pa.array(grades))
    tables = eree.load(frames(Town()) | {"worker": rows}, without_files(SCHEMA))
    before = eree.tabulate(tables, by=["grade"]).confidential
    grades[:] = 1
    assert rows["grade"].to_pylist() == [1] * 6  # the frame shares its memory with the array
    assert eree.tabulate(tables, by=["grade"]).confidential.equals(before)


def test_rows_of_frames_are_left_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written to the disk but what the engine spills, and that is gone."""
    spare, here = tmp_path / "spare", tmp_path / "here"
    spare.mkdir()
    here.mkdir()
    monkeypatch.setenv("TMPDIR", str(spare))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.chdir(here)
    tables = eree.load(frames(Town()), without_files(SCHEMA))
    for _part in eree.stream(tables, eree.Marginal.over(tables.schema, ["sector", "sex"])):
        assert [path for path in spare.rglob("*") if path.is_file() and path.stat().st_size] == []
    assert list(spare.iterdir()) == list(here.iterdir()) == []


def test_a_release_is_published_from_frames(tmp_path: Path) -> None:
    tables = eree.load(frames(Town()), without_files(SCHEMA))
    settings = {
        "privacy": {"neighbours": "strong", "alpha": "0.1", "epsilon": "4"},
        "table": [{"name": "sectors", "by": ["sector", "sex"], "epsilon": "4"}],
    }
    plan = eree.Plan.of(settings, tables=tables)
    total = eree.Guarantee(eree.Strong("0.1"), 4)
    ledger = eree.Ledger.create(tmp_path / "ledger.db", total, data_set="data")
    eree.publish(plan, tables, ledger=ledger, out=tmp_path / "out")
    assert eree.verify(tmp_path / "out", ledger=ledger)
    assert eree.expected_accuracy(plan).tables[0].cells == 6
    with pytest.raises(eree.Faulty, match="data: is what was loaded; leave it out"):
        eree.Plan.of({**settings, "data": "data"}, tables=tables)
    with pytest.raises(eree.Faulty, match="data: is required and missing"):
        eree.Plan.of(settings)


@pytest.mark.parametrize("engine", ["spark", "local[2]"])
def test_frames_are_not_sent_to_spark(engine: str) -> None:
    refused = "data frames and tables of databases are counted in this process, by DuckDB"
    with pytest.raises(eree.Refusal, match=refused):
        eree.check(frames(Town()), without_files(SCHEMA), engine=engine)
    tables = eree.load(frames(Town()), without_files(SCHEMA))
    with pytest.raises(eree.Refusal, match=refused):
        eree.tabulate(tables, by=["sex"], engine=engine)


@pytest.mark.parametrize(
    ("data", "schema", "words"),
    [
        ({"worker": pa.table({})}, None, "data frames need a schema"),
        ("folder", {}, "a folder has its own schema.toml; leave schema out"),
        ({"workr": pa.table({})}, SCHEMA, r"no table 'workr' for a data frame; .*mean worker\?$"),
        ({"reference.town": pa.table({})}, SCHEMA, "there is no table 'reference.town'"),
        ({"worker": "worker.parquet"}, SCHEMA, "worker is no data frame: those of pandas"),
        ({"worker": [{"worker_id": 1}]}, SCHEMA, "worker is no data frame"),
    ],
)
def test_what_is_no_frame_is_refused(data: Any, schema: Any, words: str) -> None:
    with pytest.raises(eree.Refusal, match=words):
        eree.check(data, schema)
