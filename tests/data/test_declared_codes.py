"""Codes as offices have them: groups by prefix and of groups, missing values, partitions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import eree
from town import TABLES, Town, csv_bytes, reported, schema_faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STYLES = ("parquet", "csv")


def counts(folder: Path, by: str, **options: Any) -> dict[Any, int]:
    rows = eree.tabulate(eree.load(folder, **options), by=[by]).confidential.to_pylist()
    return {row[by]: row["count"] for row in rows}


def by_sector(groups: dict[str, str]) -> Counter[str]:
    """Jobs of the town by a group of sectors, counted by hand."""
    place, job = TABLES["workplace"], TABLES["job"]
    sector = dict(zip(place["workplace_id"], place["sector"], strict=True))
    found = Counter(dict.fromkeys(groups.values(), 0))
    found.update(groups[sector[where]] for where in job["workplace_id"])
    return found


@pytest.mark.parametrize("style", STYLES)
def test_codes_are_grouped_by_how_they_begin_and_groups_by_groups(
    tmp_path: Path, style: str
) -> None:
    town = Town() if style == "parquet" else Town().as_csv()
    town.schema["group"] |= {
        "all": {
            "of": "begin",
            "members": {"low": ["1", "2"], "high": ["4"]},
        },  # before what it is of
        "begin": {"of": "sector", "prefix": 1},
        "two": {"of": "sector", "prefix": 2},
    }
    folder = town.write(tmp_path)
    assert counts(folder, "begin") == by_sector({"11": "1", "23": "2", "44-45": "4"})
    assert counts(folder, "two") == by_sector({"11": "11", "23": "23", "44-45": "44"})
    assert counts(folder, "all") == by_sector({"11": "low", "23": "low", "44-45": "high"})
    declared = eree.read_schema(folder).attributes["all"]
    assert (declared.of, declared.values) == ("sector", ("low", "high"))


def test_groups_that_cannot_be_are_faults(tmp_path: Path) -> None:
    town = Town()
    town.schema["group"] |= {
        "open": {"of": "county", "prefix": 2},
        "numbers": {"of": "grade", "prefix": 1},
        "both": {"of": "sector", "prefix": 1, "members": {"x": ["11", "23", "44-45"]}},
        "neither": {"of": "sector"},
        "part": {"of": "goods", "members": {"x": ["goods"]}},
        "one": {"of": "other", "members": {"x": ["y"]}},
        "other": {"of": "one", "members": {"y": ["x"]}},
    }
    found = dict(schema_faults(town.write(tmp_path)))
    assert found["group.open.prefix"] == "needs county to declare its values, as texts"
    assert found["group.numbers.prefix"] == "needs grade to declare its values, as texts"
    assert found["group.both"] == "has members and a prefix; leave one out"
    assert found["group.neither.members"] == "is required and missing"
    assert found["group.part.members"] == "leaves out declared values of goods: 1"
    assert found["group"] == "one, other are made of each other in a circle"


@pytest.mark.parametrize("style", STYLES)
def test_a_missing_field_has_the_value_that_is_declared_for_it(tmp_path: Path, style: str) -> None:
    town = Town() if style == "parquet" else Town().as_csv()
    town.tables["worker"]["sex"][0] = None
    town.tables["worker"]["grade"][1] = None
    town.tables["workplace"]["state"][3] = None
    missing = ("the value is missing", 1)
    assert [(rule, rows) for *_, rule, rows in reported(town.write(tmp_path / "a"))] == [
        missing
    ] * 3
    town.attribute("worker", "sex").update(values=["F", "M", "EX"], missing="EX")
    town.attribute("worker", "grade")["missing"] = 3
    town.attribute("workplace", "state")["missing"] = "EX"
    folder = town.write(tmp_path / "b")
    assert counts(folder, "sex") == {"F": 2, "M": 3, "EX": 1}
    assert counts(folder, "grade") == {1: 2, 2: 1, 3: 3}
    assert set(counts(folder, "state")) == {"17", "EX"}


def test_a_missing_field_is_the_same_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    town = Town().as_csv("worker")
    town.tables["worker"]["sex"][0] = None
    town.attribute("worker", "sex").update(values=["F", "M", "EX"], missing="EX")
    folder = town.write(tmp_path)
    assert counts(folder, "sex", engine=spark) == counts(folder, "sex") == {"F": 2, "M": 3, "EX": 1}


@pytest.mark.parametrize(
    ("attribute", "missing", "rule"),
    [
        ("sex", "X", "is not one of the declared values"),
        ("grade", "1", "is not one of the declared values"),
        (
            "sex",
            "it's",
            "must be a value, such as 'unknown'; it cannot hold quotes, backslashes or",
        ),
    ],
)
def test_a_value_for_missing_ones_is_a_declared_one(
    tmp_path: Path, attribute: str, missing: str, rule: str
) -> None:
    town = Town()
    town.attribute("worker", attribute)["missing"] = missing
    [(place, said)] = schema_faults(town.write(tmp_path))
    assert place == f"worker.attributes.{attribute}.missing"
    assert said.startswith(rule)


def test_a_value_for_missing_ones_is_of_the_type_of_the_column(tmp_path: Path) -> None:
    town = Town()
    town.attribute("workplace", "state")["missing"] = 1
    [(_, said)] = schema_faults(town.write(tmp_path))
    assert said.startswith("must be of the type of the values")


def test_partitions_are_read_by_a_pattern_of_folders(tmp_path: Path) -> None:
    town = Town()
    rows = pa.table(town.tables.pop("job"))
    town.schema["job"]["file"] = "jobs/year=*/*.parquet"
    folder = town.write(tmp_path)
    for year, part in ((2023, rows.slice(0, 2)), (2024, rows.slice(2))):
        home = folder / "jobs" / f"year={year}"
        home.mkdir(parents=True)
        parquet.write_table(part, home / "part-0.parquet")
    assert counts(folder, "sex") == {"F": 3, "M": 3}
    town.schema["job"]["file"] = "jobs/year=2024/*.parquet"
    assert not eree.check(town.write(tmp_path))  # two workers have no job now


@pytest.mark.parametrize("settings", [{"separator": ";"}, {"encoding": "latin-1"}])
def test_parquet_has_no_separator_and_no_encoding(tmp_path: Path, settings: dict[str, str]) -> None:
    town = Town()
    town.schema["worker"] |= settings
    [fault] = reported(town.write(tmp_path))
    assert "is Parquet, which has no separator and no encoding" in fault[2]


@pytest.mark.parametrize(
    ("kind", "words"),
    [(pa.date32(), "dates"), (pa.decimal128(9, 2), "decimals"), (pa.float64(), "(double)")],
)
def test_dates_and_decimals_are_ignored_if_that_is_said_and_named_if_not(
    tmp_path: Path, kind: pa.DataType, words: str
) -> None:
    town = Town()
    town.tables["worker"]["extra"] = [1] * 6
    town.types["worker", "extra"] = kind
    town.schema["worker"]["ignore"] = ["extra"]
    assert counts(town.write(tmp_path / "ignored"), "sex") == {"F": 3, "M": 3}
    town.schema["worker"] |= {"ignore": []}
    town.schema["worker"]["attributes"]["extra"] = ["1"]
    [fault] = reported(town.write(tmp_path / "used"))
    assert words in fault[2]


HOMES = ["year=2023/part=1", "year=2023/part=2", "year=2024/part=1"]


def parted(folder: Path, homes: list[str], *, csv: bool = False) -> Town:
    """A town whose jobs lie in folders, two in each."""
    town = Town()
    rows = pa.table(town.tables.pop("job"))
    end = "csv" if csv else "parquet"
    town.schema["job"] |= {
        "file": f"jobs/*/*/*.{end}",
        "partitions": ["year", "part"],
        "ignore": ["part"],
        "attributes": {"year": {"values": [2023, 2024]}},
    }
    for number, name in enumerate(homes):
        home = folder / "jobs" / name
        home.mkdir(parents=True)
        some = rows.slice(2 * number, 2)
        if csv:
            (home / "a.csv").write_bytes(csv_bytes(some.to_pydict()))
        else:
            parquet.write_table(some, home / "a.parquet")
    return town


@pytest.mark.parametrize("csv", [True, False])
def test_folders_of_partitions_are_columns_if_that_is_said(tmp_path: Path, csv: bool) -> None:
    town = parted(tmp_path, HOMES, csv=csv)
    assert counts(town.write(tmp_path), "year") == {2023: 4, 2024: 2}
    town.schema["job"]["attributes"]["year"] = {"values": ["2023", "2024"]}
    assert counts(town.write(tmp_path), "year") == {"2023": 4, "2024": 2}
    town.schema["job"]["attributes"]["year"] = {"values": [2023]}
    assert reported(town.write(tmp_path)) == [("job", "year", "the value is not declared", 2)]
    del town.schema["job"]["attributes"]
    shown = "column 3" if csv else "year"
    assert [fault[1] for fault in reported(town.write(tmp_path))] == [shown]


@pytest.mark.parametrize("csv", [True, False])
def test_spark_reads_folders_of_partitions(tmp_path: Path, csv: bool, spark: SparkSession) -> None:
    folder = parted(tmp_path, HOMES, csv=csv).write(tmp_path)
    assert counts(folder, "year", engine=spark) == {2023: 4, 2024: 2}


def test_a_folder_may_be_of_a_coded_or_of_no_value(tmp_path: Path) -> None:
    homes = ["year=it%27s 2023/part=1", "year=it%27s 2023/part=2"]
    town = parted(tmp_path, [*homes, "year=__HIVE_DEFAULT_PARTITION__/part=1"])
    town.schema["job"]["attributes"]["year"] = {"values": ["it's 2023"]}
    assert reported(town.write(tmp_path)) == [("job", "year", "the value is missing", 2)]
    town.schema["job"]["attributes"]["year"] = {"values": ["it's 2023", "?"], "missing": "?"}
    assert counts(town.write(tmp_path), "year") == {"it's 2023": 4, "?": 2}


def test_partitions_that_files_or_folders_do_not_have_are_faults(tmp_path: Path) -> None:
    town = parted(tmp_path, [*HOMES[:2], "year/part=1"])
    rule = "every part must lie in one folder that is called year=VALUE"
    assert ("job", "year", rule, None) in reported(town.write(tmp_path))
    town.schema["job"]["partitions"] = ["worker_id"]
    rule = "the files themselves have the column; take it out of partitions"
    assert ("job", "worker_id", rule, None) in reported(town.write(tmp_path))
