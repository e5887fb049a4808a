"""CSV as offices write it: separators, encodings, packed files, patterns of names, NUL."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import eree
from town import TABLES, Town, csv_bytes, reported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def written(
    folder: Path, file: str, content: bytes, table: str = "worker", **settings: Any
) -> Path:
    """The town with one table in a file of its own kind."""
    town = Town()
    town.schema[table] |= {"file": file, **settings}
    town.tables.pop(table)
    town.write(folder)
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if file.endswith(".gz") else content)
    return folder


def text(separator: str = ",", table: str = "worker") -> bytes:
    return csv_bytes(TABLES[table]).replace(b",", separator.encode())


def count(folder: Path, by: str = "sex", **options: Any) -> list[int]:
    tables = eree.load(folder, **options)
    found: list[int] = eree.tabulate(tables, by=[by]).confidential["count"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("file", "separator", "settings"),
    [
        ("worker.csv", ",", {}),
        ("worker.csv", ",", {"separator": ",", "encoding": "utf-8"}),
        ("worker.csv", ";", {"separator": ";"}),
        ("worker.csv", "|", {"separator": "|", "encoding": "latin-1"}),
        ("worker.csv", "\t", {"separator": "\t"}),
        ("worker.tsv", "\t", {}),
        ("worker.TSV", "\t", {}),
        ("worker.tsv", ";", {"separator": ";"}),
        ("worker.csv.gz", ",", {}),
        ("worker.tsv.gz", "\t", {}),
        ("worker.CSV.gz", ";", {"separator": ";", "encoding": "latin-1"}),
    ],
)
def test_files_are_read_as_they_are_declared(
    tmp_path: Path, file: str, separator: str, settings: dict[str, Any]
) -> None:
    assert count(written(tmp_path, file, text(separator), **settings)) == [3, 3]


def test_another_separator_than_declared_is_a_fault(tmp_path: Path) -> None:
    folder = written(tmp_path, "worker.csv", text(";"))
    assert [rule for _, _, rule, _ in reported(folder)] == [
        "the first row names none of the declared columns; the header may be missing"
    ]


@pytest.mark.parametrize("wrong", ["", ";;", "x", '"', "\n", 7])
def test_what_is_no_separator_is_a_fault_of_the_schema(tmp_path: Path, wrong: Any) -> None:
    folder = written(tmp_path, "worker.csv", text(), separator=wrong)
    assert ("schema.toml", "worker.separator") in [fault[:2] for fault in reported(folder)]


def test_an_encoding_that_nobody_reads_is_a_fault_of_the_schema(tmp_path: Path) -> None:
    folder = written(tmp_path, "worker.csv", text(), encoding="cp1252")
    fault = ("schema.toml", "worker.encoding", "must be 'utf-8' or 'latin-1'", None)
    assert fault in reported(folder)


def accented(town: Town) -> Town:
    """A town in which a county of the workplaces, and of the reference, has an accent."""
    for table in ("workplace", "county"):
        column = town.tables[table]["county"]
        town.tables[table]["county"] = ["Orléans" if v == "171" else v for v in column]
    return town


@pytest.mark.parametrize("packed", [False, True])
def test_latin_1_is_read_as_such(tmp_path: Path, packed: bool) -> None:
    town = accented(Town()).as_csv("workplace", "county")
    places = (town.schema["workplace"], town.schema["reference"]["county"])
    for place in places:
        place["encoding"] = "latin-1"
    folder = town.write(tmp_path)
    for place in places:
        path = folder / place["file"]
        path.write_bytes(path.read_text(encoding="utf-8").encode("latin-1"))
        if packed:
            (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
    if packed:
        declared = (folder / "schema.toml").read_text(encoding="utf-8")
        declared = declared.replace('.csv"', '.csv.gz"')
        (folder / "schema.toml").write_text(declared, encoding="utf-8")
    found = eree.tabulate(eree.load(folder), by=["county"]).confidential
    assert found["county"].to_pylist() == ["172", "181", "Orléans"]
    plan = {
        "data": str(folder),
        "privacy": {"neighbours": "strong", "alpha": "0.1", "epsilon": "1"},
        "table": [{"name": "counties", "by": ["county"], "epsilon": "1"}],
    }
    assert eree.expected_accuracy(eree.Plan.of(plan)).tables[0].cells == 3


def test_letters_of_windows_are_no_latin_1(tmp_path: Path) -> None:
    content = text().replace(b"F", b"\x80")
    folder = written(tmp_path, "worker.csv", content, encoding="latin-1")
    (rule,) = {rule for table, _, rule, _ in reported(folder) if table == "worker"}
    assert rule == "is not Latin-1 text, but perhaps Windows-1252; save it as UTF-8"


@pytest.mark.parametrize("cut", [5, 20, -4])
def test_a_packed_file_that_is_damaged_is_a_fault(tmp_path: Path, cut: int) -> None:
    folder = written(tmp_path, "worker.csv.gz", text())
    path = folder / "worker.csv.gz"
    path.write_bytes(path.read_bytes()[:cut])
    (rule,) = {rule for table, _, rule, _ in reported(folder) if table == "worker"}
    assert rule == "cannot be unpacked by gzip; it may be truncated or damaged"


def test_what_is_called_packed_and_is_not_is_a_fault(tmp_path: Path) -> None:
    folder = written(tmp_path, "worker.csv.gz", b"")
    (folder / "worker.csv.gz").write_bytes(text())
    (rule,) = {rule for table, _, rule, _ in reported(folder) if table == "worker"}
    assert rule == "cannot be unpacked by gzip; it may be truncated or damaged"


# ------------------------------------------------------------------------------ patterns


def test_a_pattern_names_all_files_that_match(tmp_path: Path) -> None:
    header, *rows = text().splitlines(keepends=True)
    folder = written(tmp_path, "people/2024-*.csv", b"")
    (folder / "people/2024-*.csv").unlink()
    for month, part in (("01", rows[:2]), ("02", rows[2:])):
        (folder / f"people/2024-{month}.csv").write_bytes(header + b"".join(part))
    (folder / "people/2023-12.csv").write_bytes(b"nonsense")
    (folder / "people/_2024-03.csv").write_bytes(b"nonsense")
    assert count(folder) == [3, 3]
    (folder / "people/2024-03.parquet").write_bytes(b"")
    assert count(folder) == [3, 3]


def test_a_pattern_without_files_is_a_fault(tmp_path: Path) -> None:
    folder = written(tmp_path, "worker-?.csv", b"")
    (folder / "worker-?.csv").unlink()
    assert ("worker", "", "no file has such a name", None) in reported(folder)


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    folder = written(tmp_path, "worker[1].csv", text())
    (folder / "worker1.csv").write_bytes(b"nonsense")
    assert count(folder) == [3, 3]


# ----------------------------------------------------------------------------------- NUL


def test_a_nul_character_is_a_fault_in_parquet_and_in_frames(tmp_path: Path) -> None:
    town = Town()
    town.tables["workplace"]["tract"][0] = "17\x0011"
    expected = [
        ("workplace", "tract", "the value holds a NUL character, which is part of no text", 1)
    ]
    assert reported(town.write(tmp_path)) == expected
    frame = {"workplace": pa.table(town.tables["workplace"])}
    checked = eree.check(frame, tmp_path)
    assert [(f.table, f.column, f.rule, f.rows) for f in checked.faults] == expected


# --------------------------------------------------------------------------------- Spark


@pytest.mark.parametrize(
    ("file", "separator", "settings"),
    [
        ("worker.csv", ";", {"separator": ";", "encoding": "latin-1"}),
        ("worker.tsv.gz", "\t", {}),
    ],
)
def test_spark_reads_the_same(
    tmp_path: Path, file: str, separator: str, settings: dict[str, Any], spark: SparkSession
) -> None:
    assert count(written(tmp_path, file, text(separator), **settings), engine=spark) == [3, 3]


def test_spark_finds_a_nul_character(tmp_path: Path, spark: SparkSession) -> None:
    town = Town()
    town.tables["worker"]["sex"][0] = "F\x00"
    rule = "the value holds a NUL character, which is part of no text"
    assert ("worker", "sex", rule, 1) in reported(town.write(tmp_path), engine=spark)
