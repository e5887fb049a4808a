"""DuckDB, Spark and brute force count the same cells."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

import eree
from oracle import Database, count_cells, databases, requests

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


@settings(max_examples=150)
@given(st.data(), st.sampled_from(["parquet", "csv"]), st.integers(1, 2), st.booleans())
def test_duckdb_counts_what_brute_force_counts(
    data: st.DataObject, style: str, parts: int, primary: bool
) -> None:
    database = data.draw(databases(primary=primary))
    wanted = data.draw(st.lists(requests(database), min_size=1, max_size=4))
    agree(database, wanted, "duckdb", style, parts)


@settings(max_examples=12)
@given(data=st.data(), style=st.sampled_from(["parquet", "csv"]), primary=st.booleans())
def test_spark_counts_what_brute_force_counts(
    spark: SparkSession, data: st.DataObject, style: str, primary: bool
) -> None:
    database = data.draw(databases(primary=primary))
    wanted = data.draw(st.lists(requests(database), min_size=1, max_size=2))
    agree(database, wanted, spark, style, parts=2)
