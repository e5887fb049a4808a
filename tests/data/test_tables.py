from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import eree
from eree.data.engine import DuckEngine
from eree.errors import EngineFailure, Faulty, Refusal
from town import Reported, Town, csv_bytes, reported, short

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_JOB, NO_PRIMARY = "the worker has no job", "the worker has no primary job"
SEVERAL = (
    "the worker has more than one job; mend wrong rows first, else name the column that marks the"
    " primary one as job.primary, or declare how many a worker has at most as job.most_per_worker,"
    " which weakens the promise"
)
SEVERAL_PRIMARY = "the worker has more than one primary job"
REPEATS = "the key repeats that of an earlier row"
MISSING, UNDECLARED = "the value is missing", "the value is not declared"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "eree", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def styled(style: str) -> Town:
    return Town().as_csv() if style == "csv" else Town()


# --------------------------------------------------------------- rows, one at a time


def put(table: str, column: str, *values: Any) -> Callable[[Town], None]:
    """Overwrite the first values of a column."""

    def spoil(town: Town) -> None:
        town.tables[table][column][: len(values)] = values

    return spoil


def add(table: str, *row: Any) -> Callable[[Town], None]:
    """Append a row."""

    def spoil(town: Town) -> None:
        for values, value in zip(town.tables[table].values(), row, strict=True):
            values.append(value)

    return spoil


ROW_FAULTS: list[tuple[Callable[[Town], None], list[Reported]]] = [
    (put("worker", "sex", None, None), [("worker", "sex", MISSING, 2)]),
    (put("worker", "sex", "f", "F ", "X"), [("worker", "sex", UNDECLARED, 3)]),
    (put("worker", "grade", 0, 4), [("worker", "grade", UNDECLARED, 2)]),
    (put("worker", "grade", None), [("worker", "grade", MISSING, 1)]),
    (put("workplace", "sector", None, "99"),
     [("workplace", "sector", MISSING, 1), ("workplace", "sector", UNDECLARED, 1)]),
    (put("workplace", "wages", None), [("workplace", "wages", MISSING, 1)]),
    (put("workplace", "tract", None), [("workplace", "tract", MISSING, 1)]),
    (put("workplace", "workplace_id", None),
     [("workplace", "workplace_id", MISSING, 1),
      ("job", "workplace_id", "the workplace does not exist", 2)]),
    (put("worker", "worker_id", None),
     [("worker", "worker_id", MISSING, 1), ("job", "worker_id", "the worker does not exist", 1)]),
    (put("job", "worker_id", None),
     [("job", "worker_id", MISSING, 1), ("worker", "worker_id", NO_JOB, 1)]),
    (put("job", "workplace_id", None), [("job", "workplace_id", MISSING, 1)]),
    (put("job", "workplace_id", 11, 12, 10),
     [("job", "workplace_id", "the workplace does not exist", 2)]),
    (put("job", "worker_id", 71),
     [("job", "worker_id", "the worker does not exist", 1),
      ("worker", "worker_id", NO_JOB, 1)]),
    (put("job", "worker_id", 2**62),
     [("job", "worker_id", "the worker does not exist", 1),
      ("worker", "worker_id", NO_JOB, 1)]),
    (put("job", "worker_id", 1, 1, 1),
     [("worker", "worker_id", NO_JOB, 2), ("worker", "worker_id", SEVERAL, 1)]),
    (add("job", 1, 20), [("worker", "worker_id", SEVERAL, 1)]),
    (add("worker", 7, "F", 1), [("worker", "worker_id", NO_JOB, 1)]),
    (add("worker", 1, "F", 1), [("worker", "worker_id", REPEATS, 1)]),
    (put("worker", "worker_id", 1, 1, 1),
     [("worker", "worker_id", REPEATS, 2), ("job", "worker_id", "the worker does not exist", 2)]),
    (add("workplace", 10, "17", "171", "1711", "11", 1),
     [("workplace", "workplace_id", REPEATS, 1)]),
    (put("workplace", "tract", "1711", "1711", "1711"),
     [("workplace", "tract", "the tract lies in more than one county", 3)]),
    (put("workplace", "state", "19"),
     [("workplace", "county", "the county lies in more than one state", 2)]),
    (put("workplace", "county", "179"),
     [("workplace", "county", "the value is not in county.parquet", 1)]),
    (add("county", "171", 3), [("reference.county", "county", REPEATS, 1)]),
    (put("county", "county", None),
     [("reference.county", "county", MISSING, 1),
      ("workplace", "county", "the value is not in county.parquet", 2)]),
]  # fmt: skip


@pytest.mark.parametrize("style", ["parquet", "csv"])
@pytest.mark.parametrize(("spoil", "expected"), ROW_FAULTS)
def test_rows_that_break_a_rule_are_counted(
    tmp_path: Path, style: str, spoil: Callable[[Town], None], expected: list[Reported]
) -> None:
    town = styled(style)
    spoil(town)
    town.types = {("job", c): pa.int64() for c in town.tables["job"]}
    found = {(t, c, rule.replace(".csv", ".parquet"), n) for t, c, rule, n in reported(
        town.write(tmp_path)
    )}  # fmt: skip
    assert found == set(expected)


def test_a_workplace_without_jobs_is_legal_and_stays(tmp_path: Path) -> None:
    tables = eree.load(Town().write(tmp_path))
    assert tables.workplaces == 4
    found = eree.tabulate(tables, by=["county"]).confidential.to_pylist()
    assert found[-1] == {"county": "181", "count": 0, "largest": 0, "workplaces": 1}


@pytest.mark.parametrize("table", ["workplace", "worker", "job", "county"])
@pytest.mark.parametrize("style", ["parquet", "csv"])
def test_an_empty_table_is_a_fault_and_makes_up_no_others(
    tmp_path: Path, table: str, style: str
) -> None:
    town = styled(style)
    kinds = town.arrow(table).schema
    town.types = {(table, f.name): f.type for f in kinds}
    town.tables[table] = {name: [] for name in town.tables[table]}
    found = reported(town.write(tmp_path))
    name = "reference.county" if table == "county" else table
    assert found[0] == (name, "", "the table is empty", None)
    unknown = [("workplace", "county", f"the value is not in county.{style}", 4)]
    assert found[1:] == (unknown if table == "county" else [])


@pytest.mark.parametrize(
    ("table", "spoil", "expected"),
    [
        ("worker", lambda t: t.drop_columns(["sex"]), ("sex", "the column is missing")),
        ("worker", lambda t: t.append_column("pay", t["grade"]),
         ("pay", "the column is not declared; declare it or list it in worker.ignore")),
        ("worker", lambda t: t.rename_columns(["worker_id", "Sex", "grade"]),
         ("sex", "the column is missing")),
        ("worker", lambda t: t.set_column(2, "grade", t["grade"].cast(pa.string())),
         ("grade", "the column holds texts, not integers; make it integers, or declare texts")),
        ("worker", lambda t: t.set_column(2, "grade", t["grade"].cast(pa.float64())),
         ("grade", "the column holds floating-point numbers (double); make them integers"
          " (in pandas by .astype('Int64'))")),
        ("worker", lambda t: t.set_column(1, "sex", t["grade"]),
         ("sex", "the column holds integers, not texts; make it texts, or declare integers")),
        ("worker", lambda t: t.set_column(0, "worker_id", t["worker_id"].cast(pa.uint64())),
         ("worker_id", "the column holds values of another type (uint64), not integers or texts")),
        ("worker", lambda t: t.set_column(0, "worker_id", t["worker_id"].cast(pa.float32())),
         ("worker_id", "the column holds floating-point numbers (float); make them integers or"
          " texts (in pandas by .astype('Int64'))")),
        ("job", lambda t: t.drop_columns(["workplace_id"]),
         ("workplace_id", "the column is missing")),
        ("workplace", lambda t: t.set_column(5, "wages", t["state"]),
         ("wages", "the column holds texts, not integers; make it integers, or declare texts")),
        ("county", lambda t: t.rename_columns(["place", "population"]),
         ("county", "the column is missing")),
    ],
)  # fmt: skip
def test_columns_that_are_missing_undeclared_or_mistyped_are_faults(
    tmp_path: Path,
    table: str,
    spoil: Callable[[pa.Table], pa.Table],
    expected: tuple[str, str],
) -> None:
    folder = Town().write(tmp_path)
    parquet.write_table(spoil(Town().arrow(table)), folder / f"{table}.parquet")
    name = "reference.county" if table == "county" else table
    assert (name, *expected, None) in reported(folder)


def test_an_ignored_column_may_hold_anything_but_must_be_there(tmp_path: Path) -> None:
    town = Town()
    town.schema["worker"]["ignore"] = ["name", "birth"]
    folder = town.write(tmp_path)
    table = town.arrow("worker").append_column("name", pa.array([None, 1.5, 2, 3, 4, 5]))
    parquet.write_table(table, folder / "worker.parquet")
    assert reported(folder) == [("worker", "birth", "the column to ignore is missing", None)]


def test_whole_numbers_in_csv_are_read_as_such_where_declared(tmp_path: Path) -> None:
    town = Town().as_csv("workplace")
    town.tables["workplace"]["wages"] = [5, "06", "x", "7.5"]
    rule = "the value is not a plainly written integer"
    assert reported(town.write(tmp_path)) == [("workplace", "wages", rule, 3)]


# ------------------------------------------------------------------ groups and nesting


def nested(*levels: str, **groups: dict[str, list[str]]) -> Town:
    town = Town()
    town.schema["hierarchy"] = {"h": list(levels)}
    for name, members in groups.items():
        of = "county" if name == "region" else "sector"
        town.schema["group"][name] = {"of": of, "members": members}
    return town


def test_a_group_above_what_it_groups_nests_by_construction(tmp_path: Path) -> None:
    assert reported(nested("sector", "goods").write(tmp_path)) == []


def test_a_group_above_another_column_must_nest_in_the_data(tmp_path: Path) -> None:
    town = nested("county", "goods")  # county 171 has farms and builders: both goods
    assert reported(town.write(tmp_path / "sound")) == []
    town.tables["workplace"]["sector"][1] = "44-45"
    rule = "the county lies in more than one goods"
    assert reported(town.write(tmp_path / "not")) == [("workplace", "county", rule, 2)]


def test_a_group_below_another_column_must_nest_in_the_data(tmp_path: Path) -> None:
    region = {"east": ["171", "172"], "west": ["181"]}
    assert reported(nested("county", "region", "state", region=region).write(tmp_path / "a")) == []
    region = {"east": ["171", "181"], "west": ["172"]}
    rule = "the region lies in more than one state"
    town = nested("county", "region", "state", region=region)
    assert reported(town.write(tmp_path / "b")) == [("workplace", "county", rule, 3)]


def test_a_group_below_a_group_must_nest_in_the_data(tmp_path: Path) -> None:
    halves = {"one": ["11"], "two": ["23", "44-45"]}
    rule = "the half lies in more than one goods"
    town = nested("half", "goods", half=halves)
    assert reported(town.write(tmp_path)) == [("workplace", "sector", rule, 2)]


def test_values_that_belong_to_no_group_are_a_fault(tmp_path: Path) -> None:
    town = nested("county", "region", region={"east": ["171"], "west": ["181"]})
    rule = "the value belongs to no region"
    assert reported(town.write(tmp_path)) == [("workplace", "county", rule, 1)]


@pytest.mark.parametrize("style", ["parquet", "csv"])
def test_whole_numbers_can_be_grouped_nested_and_looked_up(tmp_path: Path, style: str) -> None:
    town = styled(style)
    for table in ("workplace", "county"):
        town.tables[table]["county"] = [int(v) for v in town.tables[table]["county"]]
    town.attribute("workplace", "county")["type"] = "integer"
    members = {"north": [171, 172], "south": [181]}
    town.schema["group"]["region"] = {"of": "county", "members": members}
    town.schema["hierarchy"]["r"] = ["county", "region"]
    tables = eree.load(town.write(tmp_path))
    found = eree.tabulate(tables, by=["region"]).confidential.to_pydict()
    assert found["count"] == [6, 0]


# ------------------------------------------------------------------------ primary jobs

MARKS: dict[str, tuple[list[Any], str]] = {
    "true or false": ([True] * 6 + [False, False], "parquet"),
    "one or zero": ([1] * 6 + [0, 0], "parquet"),
    "texts true or false": (["true"] * 3 + ["TRUE"] * 3 + ["False", "false"], "csv"),
    "texts one or zero": (["1"] * 6 + ["0", "0"], "csv"),
}


def with_second_jobs(marks: list[Any], style: str = "parquet") -> Town:
    """Workers 1 and 2 have a second job at workplace 40."""
    town = Town().as_csv("job") if style == "csv" else Town()
    town.schema["job"]["primary"] = "main"
    town.tables["job"] = {
        "worker_id": [1, 2, 3, 4, 5, 6, 1, 2],
        "workplace_id": [10, 10, 20, 30, 30, 30, 40, 40],
        "main": marks,
    }
    return town


@pytest.mark.parametrize("form", MARKS)
def test_only_primary_jobs_count(tmp_path: Path, form: str) -> None:
    tables = eree.load(with_second_jobs(*MARKS[form]).write(tmp_path))
    found = eree.tabulate(tables, by=["county"]).confidential.to_pydict()
    assert found["count"] == [3, 3, 0]


def test_a_second_job_is_a_fault_where_none_is_primary(tmp_path: Path) -> None:
    town = with_second_jobs([True] * 8)
    del town.schema["job"]["primary"]
    town.schema["job"]["ignore"] = ["main"]
    assert reported(town.write(tmp_path)) == [("worker", "worker_id", SEVERAL, 2)]


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([True] * 8, [("worker", "worker_id", SEVERAL_PRIMARY, 2)]),
        ([False] * 3 + [True] * 3 + [False, True], [("worker", "worker_id", NO_PRIMARY, 2)]),
        ([1] * 6 + [0, 2],
         [("job", "main", "must mark the primary job by true or false, or by 1 or 0", 1)]),
        ([True] * 6 + [None, False], [("job", "main", MISSING, 1)]),
        (["true"] * 8, [("job", "main", "the column holds texts,"
                         " not integers or true or false",
                         None)]),
        ([1.0] * 8, [("job", "main", "the column holds floating-point numbers (double);"
                      " make them integers or true or false (in pandas by .astype('Int64'))",
                      None)]),
    ],
)  # fmt: skip
def test_each_worker_has_exactly_one_primary_job(
    tmp_path: Path, marks: list[Any], expected: list[Reported]
) -> None:
    assert reported(with_second_jobs(marks).write(tmp_path)) == expected


def test_primary_marks_in_csv_are_checked_too(tmp_path: Path) -> None:
    town = with_second_jobs(["yes", "1", "1", "true", "1", "1", "", "no"], "csv")
    rule = "must mark the primary job by true or false, or by 1 or 0"
    assert reported(town.write(tmp_path)) == [
        ("job", "main", MISSING, 1),
        ("job", "main", rule, 2),
        ("worker", "worker_id", NO_PRIMARY, 1),
    ]


def test_a_job_that_is_not_primary_still_needs_a_worker_and_a_workplace(tmp_path: Path) -> None:
    town = with_second_jobs([True] * 6 + [False] * 2)
    town.tables["job"]["worker_id"][6:] = [77, 78]
    town.tables["job"]["workplace_id"][6] = 99
    assert reported(town.write(tmp_path)) == [
        ("job", "workplace_id", "the workplace does not exist", 1),
        ("job", "worker_id", "the worker does not exist", 2),
    ]


# ----------------------------------------------------------- confidential attributes


@pytest.mark.parametrize(("by", "where"), [(["wages"], {}), ([], {"wages": [5]})])
def test_a_confidential_workplace_attribute_cannot_be_asked_for(
    tmp_path: Path, by: list[str], where: dict[str, Any]
) -> None:
    tables = eree.load(Town().write(tmp_path))
    with pytest.raises(Refusal, match="wages is a confidential workplace attribute"):
        eree.tabulate(tables, by=by, where=where)


# ------------------------------------------------------------------- all of it at once


def everything_wrong(folder: Path) -> Path:
    town = Town()
    town.schema["extra"] = 1
    town.schema["worker"]["attributes"]["age"] = ["young", "old"]  # no such column
    town.schema["group"]["goods"]["members"]["services"].append("99")
    town.schema["hierarchy"]["geography"].insert(0, "planet")
    town.schema["reference"]["state"] = {"file": "state.parquet"}  # no such file
    town.schema["worker"]["file"] = "worker.csv"
    town.tables["workplace"] |= {
        "workplace_id": [10, 20, 10, 40],
        "sector": ["11", "98", "99", None],
        "tract": ["1711", "1711", "1711", "1811"],
        "colour": ["a", "b", "c", "d"],
    }
    town.tables["worker"] |= {"sex": ["F", "X", "", "F", "M", "M"], "grade": [1, "2nd", 3, 3, 2, 1]}
    town.tables["job"] = {
        "worker_id": [1, 1, 2, 3, 4, 99],
        "workplace_id": [10, 20, 50, 50, 50, None],
    }
    town.tables["county"]["county"][1:3] = ["171", "171"]
    return town.write(folder)


EVERYTHING: list[Reported] = [
    ("schema.toml", "extra", "is not a setting that eree knows", None),
    ("schema.toml", "group.goods.members", "holds values that sector does not declare: 1", None),
    ("schema.toml", "hierarchy.geography", "planet is not a declared workplace attribute", None),
    ("reference.state", "", "the file does not exist", None),
    ("workplace", "colour",
     "the column is not declared; declare it or list it in workplace.ignore", None),
    ("worker", "age", "the column is missing", None),
    ("workplace", "sector", MISSING, 1),
    ("workplace", "sector", UNDECLARED, 2),
    ("workplace", "workplace_id", REPEATS, 1),
    ("workplace", "tract", "the tract lies in more than one county", 3),
    ("workplace", "county", "the value is not in county.parquet", 2),
    ("worker", "sex", MISSING, 1),
    ("worker", "sex", UNDECLARED, 1),
    ("worker", "grade", "the value is not a plainly written integer", 1),
    ("worker", "worker_id", NO_JOB, 2),
    ("worker", "worker_id", SEVERAL, 1),
    ("job", "workplace_id", MISSING, 1),
    ("job", "workplace_id", "the workplace does not exist", 3),
    ("job", "worker_id", "the worker does not exist", 1),
    ("reference.county", "county", REPEATS, 2),
]  # fmt: skip


def test_everything_wrong_is_reported_in_one_call(tmp_path: Path) -> None:
    found = reported(everything_wrong(tmp_path))
    assert sorted(found, key=str) == sorted(EVERYTHING, key=str)


def test_load_raises_what_check_returns(tmp_path: Path) -> None:
    folder = everything_wrong(tmp_path)
    with pytest.raises(Faulty, match=f"and {len(EVERYTHING) - 1} more") as raised:
        eree.load(folder)
    assert {short(fault) for fault in raised.value.faults} == set(EVERYTHING)
    files = {fault.table: fault.file for fault in raised.value.faults}
    assert files == {
        "schema.toml": "schema.toml",
        "workplace": "workplace.parquet",
        "worker": "worker.csv",
        "job": "job.parquet",
        "reference.county": "county.parquet",
        "reference.state": "state.parquet",
    }


def test_spark_finds_the_same_faults(tmp_path: Path, spark: SparkSession) -> None:
    found = reported(everything_wrong(tmp_path), engine=spark)
    assert sorted(found, key=str) == sorted(EVERYTHING, key=str)


def test_spark_checks_nesting_primary_jobs_and_the_rest_of_a_damaged_file(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Beside two CSV files with a mark of their encoding, an empty line and either line end."""
    town = with_second_jobs(["true", "TRUE", "1", "1", "1", "0", "false", "no"], "csv")
    town.as_csv("workplace")
    members = {"east": ["171", "181"], "west": ["172"]}
    town.schema["group"] = {"region": {"of": "county", "members": members}}
    town.schema["hierarchy"] = {"h": ["region", "state"]}
    folder = town.write(tmp_path)
    for table, end in {"job": "\n", "workplace": "\r\n"}.items():
        text = b"\xef\xbb\xbf" + csv_bytes(town.tables[table], end) + end.encode()
        (folder / f"{table}.csv").write_bytes(text)
    path = folder / "worker.parquet"
    whole, pages = bytearray(path.read_bytes()), parquet.ParquetFile(path).metadata.row_group(0)
    start = pages.column(1).dictionary_page_offset or 4
    whole[start : start + 30] = b"\xff" * 30
    path.write_bytes(whole)
    mark = "must mark the primary job by true or false, or by 1 or 0"
    assert reported(folder, engine=spark) == [
        ("worker", "sex", "cannot be read to the end; the file is damaged", None),
        ("job", "main", mark, 1),
        ("worker", "worker_id", NO_PRIMARY, 1),
        ("workplace", "county", "the region lies in more than one state", 3),
    ]


# ---------------------------------------------------------------------- dense ids


def test_ids_in_many_slices_are_checked_like_a_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eree.data.rows.SLICE", 2)
    test_everything_wrong_is_reported_in_one_call(tmp_path / "all")
    for i, (spoil, expected) in enumerate(ROW_FAULTS):
        town = Town()
        spoil(town)
        assert set(reported(town.write(tmp_path / str(i)))) == set(expected)


# ------------------------------------------------------------------- what is shown


def test_what_is_shown_of_sound_tables_is_public(tmp_path: Path) -> None:
    folder = Town().write(tmp_path / "town")
    tables = eree.load(folder)
    assert repr(tables) == f"<Tables in {folder}: 4 workplaces, the rest confidential>"
    shown = run("check", folder)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.replace("\n", "") == f"{folder}: no fault found; 4 workplaces."
    shown = run("check", folder, "--json")
    assert json.loads(shown.stdout) == {"sound": True, "workplaces": 4, "faults": []}


def test_progress_rises_and_names_every_step(tmp_path: Path) -> None:
    steps: list[tuple[str, float]] = []
    eree.check(Town().write(tmp_path), progress=lambda name, done: steps.append((name, done)))
    assert [done for _, done in steps] == sorted(done for _, done in steps)
    assert steps[-1] == ("done", 1.0)
    assert {"reading job", "jobs of each worker", "hierarchy geography"} <= {n for n, _ in steps}


def spoil_nothing(folder: Path) -> None: ...


def spoil_rows(folder: Path) -> None:
    everything_wrong(folder)


def spoil_pages(folder: Path) -> None:
    path = folder / "worker.parquet"
    path.write_bytes(path.read_bytes()[:-20])


def spoil_declaration(folder: Path) -> None:
    path = folder / "schema.toml"
    path.write_text("extra = 1\n" + path.read_text())


@pytest.mark.parametrize(
    ("spoil", "status"),
    [
        (spoil_nothing, 0),
        (spoil_rows, 1),
        (spoil_pages, 1),
        (spoil_declaration, 1),
        (lambda folder: (folder / "job.parquet").unlink(), 1),
        (lambda folder: (folder / "schema.toml").unlink(), 2),
        (lambda folder: (folder / "schema.toml").write_bytes(b"\xff"), 2),
        (lambda folder: (folder / "schema.toml").write_bytes(b"[x"), 2),
        (lambda folder: folder.rename(folder.with_name("moved")), 2),
    ],
)
def test_the_exit_status_says_sound_faulty_or_not_to_be_checked(
    tmp_path: Path, spoil: Callable[[Path], Any], status: int
) -> None:
    folder = Town().write(tmp_path / "town")
    spoil(folder)
    shown, as_json = run("check", folder), run("check", folder, "--json")
    assert shown.returncode == as_json.returncode == status
    assert "Traceback" not in shown.stdout + shown.stderr
    answer = json.loads(as_json.stdout)
    if status == 2:
        assert shown.stdout == ""
        assert shown.stderr.startswith("eree: ")
        assert answer["error"]
    else:
        assert answer["sound"] is (status == 0)
        assert bool(answer["faults"]) is (status == 1)
        reported_by_json = [
            (f["table"], f["column"], f["rule"], f["rows"]) for f in answer["faults"]
        ]
        assert reported_by_json == reported(folder)


def test_a_failure_of_the_engine_is_not_taken_for_a_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: DuckEngine, sql: str) -> pa.RecordBatchReader:
        raise EngineFailure("DuckDB needs more memory than it may use; raise the memory limit")

    monkeypatch.setattr(DuckEngine, "query", fail)
    for style in ("parquet", "csv"):
        with pytest.raises(EngineFailure, match="raise the memory limit"):
            eree.check(styled(style).write(tmp_path / style))
