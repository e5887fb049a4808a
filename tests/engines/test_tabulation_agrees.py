"""DuckDB, Spark and brute force count the same cells."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import eree
from eree.workload import DropFrom, Marginals, ScaleEach, ScaleTo
from oracle import (
    GRADE,
    HOURS,
    MANNERS,
    SEX,
    WORKER_ATTRIBUTES,
    WORKPLACE_ATTRIBUTES,
    Database,
    count_cells,
    databases,
    requests,
)
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


def counted_at_once(database: Database, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of several marginals, each counted by brute force."""
    by, where, rows = asked["by"], asked["where"], dict[tuple[Any, ...], dict[str, Any]]()
    for block in asked["blocks"]:
        for cell in count_cells(database, [*by, *block], where):
            key = tuple(cell[name] for name in by)
            row = rows.setdefault(key, {name: cell[name] for name in by})
            row[f"_count_{sum(name.startswith('_count') for name in row)}"] = cell["count"]
            row |= {name: cell[name] for name in ("largest_total", "workplaces")}
    return list(rows.values())


def agree_at_once(
    database: Database, asked: dict[str, Any], engine: object, style: str, parts: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tables = eree.load(database.write(Path(folder) / "data [*]", style, parts))
        marginals = Marginals.of(tables.schema, asked["by"], asked["where"], asked["blocks"])
        found = eree.stream(tables, marginals, engine=engine)
        rows = [row for cells in found for row in cells.confidential.to_pylist()]
        assert rows == counted_at_once(database, asked), asked


@st.composite
def several(draw: st.DrawFn, database: Database) -> dict[str, Any]:
    """Marginals that fit a database: any attributes of workers and jobs, alone and crossed."""
    request = draw(requests(database))
    blocks = st.lists(st.sampled_from([*WORKER_ATTRIBUTES]), min_size=1, max_size=2, unique=True)
    by = [name for name in request["by"] if name in WORKPLACE_ATTRIBUTES]
    found = draw(st.lists(blocks, min_size=1, max_size=4))
    return {"by": by, "where": request["where"], "blocks": found}


@examples(40, torture=1500)
@given(
    st.data(), st.sampled_from(["parquet", "csv"]), st.integers(1, 2), st.booleans(), st.booleans()
)
def test_duckdb_counts_marginals_at_once_as_brute_force_does(
    data: st.DataObject, style: str, parts: int, primary: bool, chosen: bool
) -> None:
    database = data.draw(databases(primary=primary, chosen=chosen))
    agree_at_once(database, data.draw(several(database)), "duckdb", style, parts)


@examples(2, torture=120)
@given(data=st.data(), style=st.sampled_from(["parquet", "csv"]), primary=st.booleans())
def test_spark_counts_marginals_at_once_as_brute_force_does(
    spark: SparkSession, data: st.DataObject, style: str, primary: bool
) -> None:
    database = data.draw(databases(primary=primary))
    agree_at_once(database, data.draw(several(database)), spark, style, parts=2)


@examples(40, torture=1500)
@given(data=st.data(), style=st.sampled_from(["parquet", "csv"]), parts=st.integers(1, 2))
def test_duckdb_chooses_the_jobs_that_brute_force_chooses(
    data: st.DataObject, style: str, parts: int
) -> None:
    database = data.draw(databases(primary=True, chosen=True))
    wanted = data.draw(st.lists(requests(database), min_size=1, max_size=4))
    agree(database, wanted, "duckdb", style, parts)


@examples(2, torture=120)
@given(data=st.data(), style=st.sampled_from(["parquet", "csv"]))
def test_spark_chooses_the_jobs_that_brute_force_chooses(
    spark: SparkSession, data: st.DataObject, style: str
) -> None:
    database = data.draw(databases(primary=True, chosen=True))
    wanted = data.draw(st.lists(requests(database), min_size=1, max_size=1))
    agree(database, wanted, spark, style, parts=2)


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
