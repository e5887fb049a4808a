"""The rows that break rules, in a file for the owner of the data, and nowhere else."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import eree
import pages
from town import Town, listed, reported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "Zyzzyva-77231"


def two_counties(town: Town) -> None:
    town.tables["workplace"]["tract"][2] = "1711"


def unknown_county(town: Town) -> None:
    town.tables["county"]["county"][0] = "999"


def repeated_county(town: Town) -> None:
    town.tables["county"]["county"][0] = "172"


def ungrouped(town: Town) -> None:
    del town.schema["workplace"]["attributes"]["sector"]["values"]
    town.tables["workplace"]["sector"][1:3] = ["99", "98"]


def marked_wrongly(town: Town) -> None:
    town.schema["job"]["primary"] = "main"
    town.tables["job"]["main"] = [1, 1, 1, 1, 2, 3]


def nul(town: Town) -> None:
    town.tables["workplace"]["tract"][0] = "17\x0011"


def many(town: Town) -> None:
    town.tables["worker"]["worker_id"] = [1, 1, 1, 4, None, 6]
    town.tables["worker"]["sex"][3] = SECRET
    town.tables["job"]["workplace_id"] = [99, 99, None, 30, 30, 30]


def not_plain(town: Town) -> None:
    town.as_csv()
    town.tables["worker"]["grade"][:2] = ["01", SECRET]


@pytest.mark.parametrize("as_csv", [False, True])
@pytest.mark.parametrize(
    "spoil", [two_counties, unknown_county, repeated_county, ungrouped, marked_wrongly, many]
)
def test_as_many_rows_are_listed_as_are_counted(
    spoil: Callable[[Town], None], as_csv: bool, tmp_path: Path
) -> None:
    town = Town()
    spoil(town)
    folder = (town.as_csv() if as_csv else town).write(tmp_path)
    found = reported(folder)
    assert found
    assert listed(folder) == found


@pytest.mark.parametrize("spoil", [nul, not_plain])
def test_values_that_are_no_values_are_listed(
    spoil: Callable[[Town], None], tmp_path: Path
) -> None:
    town = Town()
    spoil(town)
    folder = town.write(tmp_path)
    assert listed(folder) == reported(folder) != []


def test_spark_lists_the_same(tmp_path: Path, spark: SparkSession) -> None:
    town = Town()
    many(town)
    two_counties(town)
    folder = town.write(tmp_path)
    assert listed(folder, engine=spark) == reported(folder)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_row_is_named_by_its_key_and_shows_its_value(tmp_path: Path) -> None:
    town = Town()
    many(town)
    eree.check(town.write(tmp_path / "data"), rows=tmp_path / "faulty.csv")
    found = rows_of(tmp_path / "faulty.csv")
    sex = [row for row in found if row["column"] == "sex"]
    assert [(row["key"], row["value"]) for row in sex] == [("4", SECRET)]
    orphans = [row for row in found if row["rule"] == "the workplace does not exist"]
    assert sorted(row["key"] for row in orphans) == ["1 99", "2 99"]


def test_the_command_prints_no_value_and_overwrites_nothing(tmp_path: Path) -> None:
    town = Town()
    many(town)
    town.write(tmp_path / "data")
    arguments = ["check", "data", "--rows", "faulty.csv"]
    done = pages.command(*arguments, cwd=tmp_path)
    assert done.status == 1
    assert done.out.endswith("\nfaulty.csv: the rows that have them, confidential\n")
    assert SECRET not in done.out + done.err
    path = tmp_path / "faulty.csv"
    assert path.stat().st_mode & 0o777 == 0o600
    assert SECRET in path.read_text(encoding="utf-8")
    path.write_text("kept", encoding="utf-8")
    again = pages.command(*arguments, cwd=tmp_path)
    assert (again.status, again.out) == (2, "")
    assert "faulty.csv exists already" in again.err
    assert path.read_text(encoding="utf-8") == "kept"


def test_sound_tables_have_no_list(tmp_path: Path) -> None:
    out: Any = tmp_path / "faulty.csv"
    assert eree.check(Town().write(tmp_path / "data"), rows=out)
    assert not out.exists()
