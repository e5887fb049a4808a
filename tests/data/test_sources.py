from __future__ import annotations

import csv
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import eree
from eree.data.sources import inspect_source, kind_of
from town import TABLES, Town, csv_bytes, reported

BY = ["county", "sector", "sex", "grade"]


def cells(folder: Path) -> list[dict[str, Any]]:
    return eree.tabulate(eree.load(folder), by=BY).confidential.to_pylist()


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return cells(Town().write(tmp_path_factory.mktemp("truth")))


FORMATS = (
    "must be Parquet (.parquet) or CSV (.csv, .tsv, .csv.gz, .tsv.gz), one format for all parts;"
    " tables of databases are named by source"
)


def file_fault(folder: Path, table: str = "worker") -> tuple[str, str, int | None]:
    """The one fault of a table: its file, its rule and its rows."""
    faults = eree.check(folder).faults
    (fault,) = [f for f in faults if f.table == table]
    assert fault.column == ""
    return fault.file, fault.rule, fault.rows


# ------------------------------------------------------------------ where files are


@pytest.mark.parametrize(
    "name",
    [
        "with blanks and 'quotes'",
        'double " quote',
        "glob [a-z]*?",
        "brackets ]][[",
        "{a,b}",
        "~",
        "Zoë 工人 \N{GRINNING FACE}",
        "percent %20 hash # dollar ${HOME}",
        "state=17",
        "back\\slash",
    ],
)
@pytest.mark.parametrize("style", ["parquet", "csv"])
def test_a_folder_may_have_any_name(
    tmp_path: Path, name: str, style: str, truth: list[dict[str, Any]]
) -> None:
    town = Town()
    for table in ("workplace", "worker", "job"):
        town.schema[table]["file"] = f"{name}/{table} {name}.{style}"
    assert cells(town.write(tmp_path / name)) == truth


def test_a_path_that_matches_a_pattern_reads_itself_alone(tmp_path: Path) -> None:
    town = Town()
    town.schema["worker"]["file"] = "worker[1].parquet"
    folder = town.write(tmp_path)
    parquet.write_table(town.arrow("worker").slice(0, 1), folder / "worker1.parquet")
    assert reported(folder) == []


def test_a_pattern_never_leaves_the_folder_it_stands_in(tmp_path: Path) -> None:
    """Whatever the folder is called, and whoever has files beside it."""
    town = Town().as_csv()
    town.schema["job"]["file"] = "job-*.csv"
    for name in ("run[12]", "run1", "run2"):
        folder = town.write(tmp_path / name)
        kept = csv_bytes(town.tables["job"])
        rows = kept if name == "run[12]" else kept.splitlines(keepends=True)[0]
        (folder / "job-a.csv").write_bytes(rows)
    cells = eree.tabulate(eree.load(tmp_path / "run[12]"), by=["state"]).confidential
    assert sum(cells["count"].to_pylist()) == 6


def test_a_relative_folder_stays_the_same_when_the_process_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truth: list[dict[str, Any]]
) -> None:
    Town().write(tmp_path / "~town")
    monkeypatch.chdir(tmp_path)
    tables = eree.load("~town")
    monkeypatch.chdir("/")
    assert eree.tabulate(tables, by=BY).confidential.to_pylist() == truth


@pytest.mark.parametrize("style", ["parquet", "csv"])
def test_a_folder_of_parts_reads_as_one_file(
    tmp_path: Path, style: str, truth: list[dict[str, Any]]
) -> None:
    town = Town()
    town.schema["worker"]["file"] = "worker"
    folder = town.write(tmp_path)
    (folder / "worker").unlink(missing_ok=True)
    (folder / "worker").mkdir()
    for i, rows in enumerate((slice(0, 2), slice(2, 3), slice(3, 6))):
        part = {name: values[rows] for name, values in TABLES["worker"].items()}
        path = folder / "worker" / f"part-{i}.{style}"
        if style == "csv":
            path.write_bytes(csv_bytes(part))
        else:
            parquet.write_table(pa.table(part), path)
    for name in ("_SUCCESS", ".hidden.parquet", "_metadata", ".part-0.crc"):
        (folder / "worker" / name).write_bytes(b"not a part")
    assert cells(folder) == truth


def parts(folder: Path, **tables: pa.Table) -> Path:
    """A town whose workers lie in parts."""
    town = Town()
    town.schema["worker"]["file"] = "worker"
    town.write(folder)
    (folder / "worker").unlink()
    (folder / "worker").mkdir()
    for name, table in tables.items():
        parquet.write_table(table, folder / "worker" / f"{name}.parquet")
    return folder


@pytest.mark.parametrize(
    "spoil",
    [
        lambda t: t.select(["worker_id", "grade", "sex"]),
        lambda t: t.drop_columns(["sex"]),
        lambda t: t.append_column("more", t["sex"]),
        lambda t: t.rename_columns(["worker_id", "Sex", "grade"]),
        lambda t: t.set_column(0, "worker_id", t["worker_id"].cast(pa.int32())),
    ],
)
def test_a_part_with_other_columns_types_or_order_is_a_fault(
    tmp_path: Path, spoil: Callable[[pa.Table], pa.Table]
) -> None:
    whole = Town().arrow("worker")
    folder = parts(tmp_path, a=whole.slice(0, 3), b=spoil(whole.slice(3)))
    assert file_fault(folder) == (
        "worker/b.parquet",
        "the part has other columns, types or order than the first",
        None,
    )


def test_parts_may_differ_in_how_they_store_texts(tmp_path: Path) -> None:
    whole = Town().arrow("worker")
    wide = whole.set_column(1, "sex", whole["sex"].cast(pa.large_string()))
    coded = whole.set_column(1, "sex", whole["sex"].dictionary_encode())
    folder = parts(tmp_path, a=whole.slice(0, 2), b=wide.slice(2, 2), c=coded.slice(4))
    assert reported(folder) == []


def test_every_damaged_part_is_named(tmp_path: Path) -> None:
    folder = parts(tmp_path, a=Town().arrow("worker"))
    for name in ("b", "c"):
        (folder / "worker" / f"{name}.parquet").write_bytes(b"PAR1")
    faults = eree.check(folder).faults
    assert [f.file for f in faults] == ["worker/b.parquet", "worker/c.parquet"]


def nothing(path: Path) -> None:
    path.unlink()


def hollow(path: Path) -> None:
    path.unlink()
    path.mkdir()


def nested(path: Path) -> None:
    hollow(path)
    (path / "state=17").mkdir()
    parquet.write_table(Town().arrow("worker"), path / "state=17" / "a.parquet")


def of_two_formats(path: Path) -> None:
    hollow(path)
    parquet.write_table(Town().arrow("worker"), path / "a.parquet")
    (path / "b.csv").write_bytes(csv_bytes(TABLES["worker"]))


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def badly_named(path: Path) -> None:
    hollow(path)
    parquet.write_table(Town().arrow("worker"), path / "a.parquet")
    (path / "a.parquet").rename(path / os.fsdecode(b"\xff.parquet"))


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (nothing, "the file does not exist"),
        (dangling, "the file does not exist"),
        (hollow, "the folder holds no files"),
        (nested, "the folder holds another folder; put all parts side by side"),
        (of_two_formats, FORMATS),
        (pipe, "must be a plain file, or a folder of plain files"),
        (badly_named, "a part has a name that is not UTF-8; rename it"),
    ],
)
def test_files_that_cannot_be_a_table_are_a_fault(
    tmp_path: Path, spoil: Callable[[Path], None], rule: str
) -> None:
    folder = Town().write(tmp_path)
    spoil(folder / "worker.parquet")
    assert file_fault(folder) == ("worker.parquet", rule, None)


def test_another_suffix_is_a_fault_and_capitals_are_not(tmp_path: Path) -> None:
    town = Town()
    town.schema["worker"]["file"] = "worker.PARQUET"
    town.schema["job"]["file"] = "job.txt"
    folder = town.write(tmp_path)
    assert reported(folder) == [("job", "", FORMATS, None)]


# ---------------------------------------------------------------------- how CSV reads


def crlf(columns: dict[str, list[Any]]) -> bytes:
    return csv_bytes(columns, "\r\n")


def marked(columns: dict[str, list[Any]]) -> bytes:
    return b"\xef\xbb\xbf" + csv_bytes(columns)


def all_quoted(columns: dict[str, list[Any]]) -> bytes:
    return csv_bytes(columns, quoting=csv.QUOTE_ALL)


def blank_at_the_end(columns: dict[str, list[Any]]) -> bytes:
    return csv_bytes(columns) + b"\n\n"


def crlf_blank_at_the_end(columns: dict[str, list[Any]]) -> bytes:
    return b"\xef\xbb\xbf" + csv_bytes(columns, "\r\n", csv.QUOTE_ALL) + b"\r\n"


def no_last_end(columns: dict[str, list[Any]]) -> bytes:
    return csv_bytes(columns).rstrip()


def old_mac(columns: dict[str, list[Any]]) -> bytes:
    return csv_bytes(columns, "\r")


@pytest.mark.parametrize(
    "write",
    [
        *(csv_bytes, crlf, marked, all_quoted, blank_at_the_end),
        *(crlf_blank_at_the_end, no_last_end, old_mac),
    ],
)
def test_every_manner_of_csv_counts_the_same_as_parquet(
    tmp_path: Path, write: Callable[[dict[str, list[Any]]], bytes]
) -> None:
    plain, odd = Town(), Town().as_csv()
    names = {"171": 'Cook, "Crook"\nand more', "172": "Zoë's", "181": "a|b;c\td"}
    for town in (plain, odd):
        for table in ("workplace", "county"):
            columns = town.tables[table]
            columns["county"] = [names.get(v, v) for v in columns["county"]]
    plain.write(tmp_path / "plain")
    odd.write(tmp_path / "odd")
    for table, columns in odd.tables.items():
        (tmp_path / "odd" / f"{table}.csv").write_bytes(write(columns))
    assert cells(tmp_path / "odd") == cells(tmp_path / "plain")


def test_a_blank_first_line_is_no_header(tmp_path: Path) -> None:
    folder = Town().as_csv("worker").write(tmp_path)
    (folder / "worker.csv").write_bytes(b"\n" + csv_bytes(TABLES["worker"]))
    assert file_fault(folder) == ("worker.csv", "has no header row", None)


ROWS = b"worker_id,sex,grade\n1,F,1\n2,M,2\n3,F,3\n4,F,3\n5,M,2\n6,M,1\n"


@pytest.mark.parametrize(
    ("content", "rule", "rows"),
    [
        (b"", "has no header row", None),
        (b"\xef\xbb\xbf", "has no header row", None),
        (b"\n", "has no header row", None),
        (b"worker_id,sex,grade", "the table is empty", None),
        (b"worker_id,sex,grade\n", "the table is empty", None),
        (b"worker_id,sex,grade\r\n\r\n", "the table is empty", None),
        (ROWS[:-3], "the row does not have as many fields as the header", 1),
        (ROWS + b"7\n8,F\n9,F,1,1\n", "the row does not have as many fields as the header", 3),
        (ROWS + b'7,"F', "the quotation marks do not pair up; the file may end inside", None),
        (ROWS + b'7,"F,1\n8,F,1\n', "the quotation marks do not pair up", None),
        (ROWS + b'7,"F"x,1\n', "cannot be read to the end", None),
        (
            ROWS + b"7,F,1\r\n8,F,1\r\n",
            "cannot be read to the end; lines may end in different",
            None,
        ),
        (ROWS + b"7,\xff,1\n", "is not UTF-8 text; save it as UTF-8", None),
        (ROWS + b"7,\xc3", "is not UTF-8 text; save it as UTF-8", None),
        (ROWS.decode().encode("utf-16"), "is not UTF-8 text; save it as UTF-8", None),
        (ROWS.decode().encode("utf-16-le"), "holds a NUL byte, which is part of no text", None),
        (ROWS + b"7,F\x00,1\n", "holds a NUL byte, which is part of no text", None),
        (b"worker_id,sex,sex\n1,F,1\n", "two columns have the same name", None),
        (b"worker_id,sex,Sex\n1,F,1\n", "names that differ only in case", None),
        (b'"worker_id,sex,grade\n1,F,1\n', "cannot be read as CSV", None),
        (
            b"1,F,2\n2,M,3\n",
            "the first row names none of the declared columns; the header may be",
            None,
        ),
    ],
)
def test_csv_that_cannot_be_used_is_a_fault(
    tmp_path: Path, content: bytes, rule: str, rows: int | None
) -> None:
    folder = Town().as_csv("worker").write(tmp_path)
    (folder / "worker.csv").write_bytes(content)
    file, found, counted = file_fault(folder)
    assert (file, counted) == ("worker.csv", rows)
    assert rule in found


@pytest.mark.parametrize("seed", range(4))
def test_csv_cut_anywhere_is_never_taken_as_whole(tmp_path: Path, seed: int) -> None:
    folder = Town().as_csv("worker").write(tmp_path)
    whole = csv_bytes(TABLES["worker"], quoting=csv.QUOTE_ALL)
    for at in random.Random(seed).sample(range(len(whole) - 1), 8):
        (folder / "worker.csv").write_bytes(whole[:at])
        assert reported(folder), f"cut at {at}"


def test_columns_are_checked_even_where_rows_cannot_be_read(tmp_path: Path) -> None:
    folder = Town().as_csv("worker").write(tmp_path)
    (folder / "worker.csv").write_bytes(b"worker_id,gender,grade\n1,F\n")
    assert [(column, rule[:34]) for _, column, rule, _ in reported(folder)] == [
        ("", "the row does not have as many fields as the header"[:34]),
        ("sex", "the column is missing"),
        ("column 2", "the column is not declared; declar"),
    ]


# ------------------------------------------------------------------------------ ids


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()],
)
def test_ids_may_be_whole_numbers_of_any_width(
    tmp_path: Path, kind: pa.DataType, truth: list[dict[str, Any]]
) -> None:
    town = Town()
    town.types = {("worker", "worker_id"): kind, ("job", "worker_id"): pa.int64()}
    town.types[("workplace", "workplace_id")] = kind
    assert cells(town.write(tmp_path)) == truth


@pytest.mark.parametrize(
    "name",
    [
        lambda i: i - 3,
        lambda i: (-1) ** i * (2**62 + i),
        lambda i: -(2**63) + i,
        lambda i: f"id-{i}",
        lambda i: f"00{i}",
        lambda i: f"it's \"{i}\", isn't it\n",
        lambda i: " " * i,
    ],
)
@pytest.mark.parametrize("styles", [(), ("worker", "job")])
def test_ids_may_be_sparse_negative_or_texts(
    tmp_path: Path,
    name: Callable[[int], Any],
    styles: tuple[str, ...],
    truth: list[dict[str, Any]],
) -> None:
    town = Town().as_csv(*styles) if styles else Town()
    for table in ("worker", "job"):
        town.tables[table]["worker_id"] = [name(i) for i in town.tables[table]["worker_id"]]
    assert cells(town.write(tmp_path)) == truth


@pytest.mark.parametrize("tables", [("workplace",), ("worker",), ("job",), ("workplace", "job")])
@pytest.mark.parametrize("text", [False, True])
def test_csv_and_parquet_go_together(
    tmp_path: Path, tables: tuple[str, ...], text: bool, truth: list[dict[str, Any]]
) -> None:
    town = Town().as_csv(*tables)
    if text:
        for table in ("worker", "job"):
            ids = town.tables[table]["worker_id"]
            town.tables[table]["worker_id"] = [f"0{i}" for i in ids]
    assert cells(town.write(tmp_path)) == truth


def test_leading_zeros_keep_texts_apart(tmp_path: Path) -> None:
    town = Town().as_csv("worker", "job")
    for table in ("worker", "job"):
        town.tables[table]["worker_id"] = ["1", "01", "001", "1.0", "+1", "1e0"]
    assert reported(town.write(tmp_path)) == []


@pytest.mark.parametrize("odd", ["01", "+1", " 1", "1 ", "1.0", "1e0", "-0", "x", "9" * 30])
def test_csv_ids_that_meet_numbers_are_written_plainly(tmp_path: Path, odd: str) -> None:
    town = Town().as_csv("job")
    town.tables["job"]["worker_id"] = [odd, 2, 3, 4, 5, 6]
    rule = "the value is not a plainly written integer"
    assert ("job", "worker_id", rule, 1) in reported(town.write(tmp_path))


def test_ids_of_two_types_are_a_fault(tmp_path: Path) -> None:
    town = Town()
    town.tables["job"]["workplace_id"] = [str(i) for i in town.tables["job"]["workplace_id"]]
    assert reported(town.write(tmp_path)) == [
        (
            *("job", "workplace_id"),
            "the ids are of another type than the key of workplace: texts, not integers",
            None,
        )
    ]


@pytest.mark.parametrize(
    "kind", [pa.uint64(), pa.float64(), pa.bool_(), pa.binary(), pa.date32(), pa.decimal128(9, 0)]
)
def test_other_types_are_no_texts_or_whole_numbers(kind: pa.DataType) -> None:
    assert kind_of(kind) not in ("string", "integer")


# -------------------------------------------------------------------- damaged Parquet


def large(folder: Path) -> Path:
    """A town with so many workers that their file has several pages."""
    town, n = Town(), 4_000
    town.tables["worker"] = {
        "worker_id": list(range(n)),
        "sex": ["F", "M"] * (n // 2),
        "grade": [1, 2, 3, 1] * (n // 4),
    }
    town.tables["job"] = {"worker_id": list(range(n)), "workplace_id": [10, 20, 30, 10] * (n // 4)}
    return town.write(folder)


@pytest.mark.parametrize("seed", range(4))
def test_parquet_cut_anywhere_is_a_fault(tmp_path: Path, seed: int) -> None:
    folder = large(tmp_path)
    whole = (folder / "worker.parquet").read_bytes()
    for at in random.Random(seed).sample(range(len(whole)), 6):
        (folder / "worker.parquet").write_bytes(whole[:at])
        rule = "cannot be read as Parquet; it may be truncated or damaged"
        assert file_fault(folder) == ("worker.parquet", rule, None)


@pytest.mark.parametrize("seed", range(12))
def test_overwritten_pages_are_a_fault_of_their_columns(tmp_path: Path, seed: int) -> None:
    folder, rng = large(tmp_path), random.Random(seed)
    path = folder / "worker.parquet"
    whole = bytearray(path.read_bytes())
    column = parquet.ParquetFile(path).metadata.row_group(0).column(seed % 3)
    start = column.dictionary_page_offset or column.data_page_offset
    for at in range(start, start + column.total_compressed_size):
        whole[at] = rng.randrange(256)
    path.write_bytes(whole)
    found = reported(folder)
    name = ("worker_id", "sex", "grade")[seed % 3]
    rule = "cannot be read to the end; the file is damaged"
    assert found == [("worker", name, rule, None)]


@pytest.mark.parametrize("seed", range(20))
def test_scribbles_anywhere_never_end_in_anything_but_faults(tmp_path: Path, seed: int) -> None:
    folder, rng = large(tmp_path), random.Random(seed)
    path = folder / "worker.parquet"
    whole = bytearray(path.read_bytes())
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    first, last = (footer, len(whole)) if seed % 2 else (4, footer)
    at = rng.randrange(first, last)
    for i in range(at, min(last, at + 40)):
        whole[i] = rng.randrange(256)
    path.write_bytes(whole)
    (folder / "job.parquet").unlink()
    assert ("job", "", "the file does not exist", None) in reported(folder)


@pytest.mark.parametrize("dictionary", [True, False])
def test_texts_that_are_not_utf8_are_a_fault_of_their_column(
    tmp_path: Path, dictionary: bool
) -> None:
    folder = Town().write(tmp_path)
    raw = pa.array([b"F", b"M", b"\xff\xfe", b"F", b"M", b"M"])
    broken = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    table = Town().arrow("worker").set_column(1, "sex", broken)
    parquet.write_table(table, folder / "worker.parquet", use_dictionary=dictionary)
    rule = "cannot be read to the end; the file is damaged"
    assert reported(folder) == [("worker", "sex", rule, None)]


def test_columns_of_one_name_are_a_fault(tmp_path: Path) -> None:
    folder = Town().write(tmp_path)
    table = Town().arrow("worker").rename_columns(["worker_id", "sex", "SEX"])
    parquet.write_table(table, folder / "worker.parquet")
    rule = "two columns have the same name, or names that differ only in case"
    assert file_fault(folder) == ("worker.parquet", rule, None)


def test_a_source_lists_its_columns_and_parts_in_order(tmp_path: Path) -> None:
    folder = Town().write(tmp_path)
    source, faults = inspect_source(folder, "worker", "worker.parquet")
    assert source is not None
    assert faults == []
    assert source.paths == (folder / "worker.parquet",)
    assert source.columns == {"worker_id": "integer", "sex": "string", "grade": "integer"}


def test_what_missing_fields_have_is_of_the_type_of_the_column(tmp_path: Path) -> None:
    town = Town()
    town.tables["workplace"]["state"] = [17, 17, None, 18]
    town.schema["workplace"]["attributes"]["state"]["missing"] = "unknown"
    [fault] = reported(town.write(tmp_path))
    assert fault[:2] == ("workplace", "state")
    assert fault[2].startswith("the column holds integers, and missing is none")


def test_a_group_of_what_is_no_group_is_a_fault_and_so_is_one_of_released_sizes(
    tmp_path: Path,
) -> None:
    town = Town()
    town.schema["group"] |= {
        "stratum": {"of": "site", "members": {"small": ["a"], "large": ["b"]}},
        "any": {"of": "stratum", "members": {"all": ["small", "large"]}},
    }
    found = reported(town.write(tmp_path))
    assert ("schema.toml", "group.stratum.of") in [fault[:2] for fault in found]
