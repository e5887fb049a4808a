"""DuckDB, Spark and brute force count the same cells."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import eree
from eree.workload import DropFrom, ScaleEach, ScaleTo
from oracle import GRADE, HOURS, MANNERS, SEX, Database, count_cells, databases, requests
from selection import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def agree(
    database: Database, wanted: list[dict[str, Any]], engine: object, style: str, parts: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tables = eree.load(database.write(Path(folder) / "data [*]", style, parts))
        for request in wanted:
            cells = eree.tabulate(tables, **request, engine=engine)
            assert cells.confidential.to_pylist() == count_cells(database, **request), request


@examples(40, torture=1500)
@given(
    data=st.data(),
    style=st.sampled_from(["parquet", "csv"]),
    parts=st.integers(1, 2),
    primary=st.booleans(),
    several=st.booleans(),
)
def test_duckdb_counts_what_brute_force_counts(
    data: st.DataObject, style: str, parts: int, primary: bool, several: bool
) -> None:
    database = data.draw(databases(primary=primary, several=several))
    wanted = data.draw(st.lists(requests(database), min_size=1, max_size=4))
    agree(database, wanted, "duckdb", style, parts)


def test_spark_counts_groups_filters_bounds_and_odd_names_alike(spark: SparkSession) -> None:
    """All that an engine may read or round otherwise, from CSV files in parts."""
    people = [f"p{i}" for i in range(12)]
    database = Database(
        [
            {"id": "w'1", "area": "a", "sector": "11", "band": -1},
            {"id": "w'2", "area": "c'", "sector": "31-33", "band": 0},
            {"id": "w'3", "area": 'd"\\', "sector": "44-45", "band": 1},
            {"id": "w'4", "area": "a", "sector": "11", "band": -1},  # without a job
        ],
        [
            {
                "person": p,
                "sex": SEX[i % 2],
                "grade": GRADE[i % 3],
                "manner": MANNERS[i % 4],
                "hours": HOURS[i % 5 > 2],
            }
            for i, p in enumerate(people)
        ],
        [(p, f"w'{1 + (i > 6) + (i > 9)}") for i, p in enumerate(people)],
        [(people[0], "w'2"), (people[7], "w'1")],
        [(people[0], "w'1"), (people[0], "w'3"), (people[9], "w'1")],
    )
    totals = pa.table({"region": ["north", "south"], "_total": [5, 2]})
    wanted: list[dict[str, Any]] = [
        {"by": ["manner", "region", "learnt"], "bound": ScaleEach(totals)},
        {"by": ["sex", "area"], "where": {"manner": MANNERS[1:3]}, "bound": DropFrom(4)},
        {"by": ["band"], "where": {"region": ["south"], "grade": [1, 3]}, "bound": ScaleTo(2)},
        {"by": ["area", "hours"], "where": {"time": ["part"]}},  # of jobs alone
        {"by": ["time", "sex"], "where": {"hours": [20, 40], "grade": [1, 2]}},
    ]
    agree(database, wanted, spark, "csv", parts=2)


@examples(2, torture=120)
@given(
    data=st.data(),
    style=st.sampled_from(["parquet", "csv"]),
    primary=st.booleans(),
    several=st.booleans(),
)
def test_spark_counts_what_brute_force_counts(
    spark: SparkSession, data: st.DataObject, style: str, primary: bool, several: bool
) -> None:
    database = data.draw(databases(primary=primary, several=several))
    wanted = data.draw(st.lists(requests(database), min_size=1, max_size=1))
    agree(database, wanted, spark, style, parts=2)
