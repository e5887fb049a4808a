"""A first schema.toml from files: right, confidential, and of no use for a plan until edited."""

from __future__ import annotations

import json
import stat
import tomllib
from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import eree
import offices
import pages
from town import TABLES, Town, csv_bytes

NAMES = ("workplace", "worker", "job")


@pytest.mark.parametrize("end", ["parquet", "csv", "semicolons"])
def test_the_draft_of_sound_files_is_a_schema_that_they_pass(tmp_path: Path, end: str) -> None:
    suffix = "parquet" if end == "parquet" else "csv"
    for name in NAMES:
        path = tmp_path / f"{name}.{suffix}"
        if end == "parquet":
            parquet.write_table(pa.table(TABLES[name]), path)
        else:
            separator = b";" if end == "semicolons" else b","
            path.write_bytes(csv_bytes(TABLES[name]).replace(b",", separator))
    for order in permutations(NAMES):
        made = eree.draft_schema([tmp_path / f"{name}.{suffix}" for name in order])
        assert {table: Path(file).stem for table, file in made.tables.items()} == {
            name: name for name in NAMES
        }
        assert stat.S_IMODE(made.file.stat().st_mode) == 0o600
        tables = eree.load(tmp_path)
        assert tables.schema.draft
        people = TABLES["worker"]["sex"]
        counted = eree.tabulate(tables, by=["sex"]).confidential.to_pylist()
        assert {row["sex"]: row["count"] for row in counted} == {s: people.count(s) for s in "FM"}
        raw = tomllib.loads(made.file.read_text(encoding="utf-8"))
        assert raw["workplace"]["attributes"]["state"] == {"confidential": True}
        made.file.unlink()


def test_nothing_is_planned_under_a_draft(tmp_path: Path) -> None:
    folder = Town().write(tmp_path / "data")
    path = folder / "schema.toml"
    sound = path.read_text(encoding="utf-8")
    plan = offices.settings(table=[offices.table(by=["county"])])
    path.write_text(f"draft = true\n{sound}", encoding="utf-8")
    with pytest.raises(eree.Faulty, match="its schema is a draft"):
        eree.Plan.of(plan, folder=tmp_path)
    assert "The schema is a draft" in pages.command("check", folder).out
    path.write_text(f"draft = false\n{sound}", encoding="utf-8")
    assert eree.Plan.of(plan, folder=tmp_path).tables
    path.write_text(f"draft = 1\n{sound}", encoding="utf-8")
    assert [str(fault) for fault in eree.check(folder).faults] == [
        "schema.toml, draft: must be true or false"
    ]


def test_what_is_no_code_is_left_out_and_nothing_found_in_rows_is_printed(tmp_path: Path) -> None:
    people = 120
    worker = {
        "worker_id": list(range(people)),
        "secret_name": [f"Somebody {i}" for i in range(people)],
        "born": pa.array([0] * people, pa.date32()),
        "sex": ["F", "planted"] * (people // 2),
        "grade": [0, 1] * (people // 2),
        "county": ["171"] * people,  # a workplace attribute is called so as well
    }
    job = {"worker_id": list(range(people)), "workplace_id": [10] * people, "noisy": [1] * people}
    for name, columns in (("workplace", TABLES["workplace"]), ("worker", worker), ("job", job)):
        parquet.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    files = [tmp_path / f"{name}.parquet" for name in NAMES]
    done = pages.command("schema", "init", *files, "--json")
    said = json.loads(done.out)
    assert said["ignored"] == {"worker": 3, "job": 1}
    assert said["confidential"] is True
    text = Path(said["file"]).read_text(encoding="utf-8")
    assert "planted" in text
    assert "values = [0, 1]" in text
    assert "Somebody" not in text
    assert "planted" not in done.out + done.err
    assert eree.check(tmp_path)
    again = pages.command("schema", "init", *files)
    assert (again.status, again.out) == (2, "")
    assert "exists already" in again.err


def test_files_that_do_not_say_which_is_which_are_refused(tmp_path: Path) -> None:
    for name in NAMES:
        columns = {f"{name}_{column}": values for column, values in TABLES[name].items()}
        (tmp_path / f"{name}.csv").write_bytes(csv_bytes(columns))
    files = [tmp_path / f"{name}.csv" for name in NAMES]
    with pytest.raises(eree.Refusal, match="which file is which cannot be told"):
        eree.draft_schema(files)
    with pytest.raises(eree.Refusal, match="name three files"):
        eree.draft_schema(files[:2])
    (tmp_path / "one.csv").write_text("a\n1\n", encoding="utf-8")
    with pytest.raises(eree.Refusal, match="one column"):
        eree.draft_schema([*files[:2], tmp_path / "one.csv"])
    assert not (tmp_path / "schema.toml").exists()
