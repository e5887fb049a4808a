"""Counts the cells of a marginal, exactly, on whichever engine is given."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from eree.cells import Cells
from eree.data.columns import key_kind
from eree.data.marginals import NUMBERED, MarginalsTabulation
from eree.data.tables import Tables
from eree.data.tabulation import Tabulation
from eree.errors import EngineFailure, Refusal, expect
from eree.partial import appearing_file, new_path
from eree.policy.schema import Schema, Value
from eree.workload import Bound, Marginal, Marginals, ScaleEach, ScaleTo, SizeProfile

#: Integer weights of the jobs of some workplaces, by the workplaces' keys.
Weigh = Callable[["pa.Array[Any]"], NDArray[np.int64]]


def tabulate(
    tables: Tables,
    by: Iterable[str],
    where: Mapping[str, Value | Iterable[Value]] | None = None,
    *,
    bound: Bound | None = None,
    engine: object = None,
) -> Cells:
    """The exact, confidential cells of a marginal.

    The cells are the combinations of workplace attributes that exist, crossed with all declared
    values of the worker attributes, in the order of `by` (worker values as declared).  A worker
    attribute in `where` narrows `count` and `largest`; `workplaces` and `largest_total` look at
    workplace attributes alone.  A `bound` limits what one workplace adds to `count` and `largest`.

    Args:
        tables: Tables that passed every check.
        by: The attributes to count by.
        where: The values to keep of some attributes.
        bound: Limits what one workplace adds.
        engine: The query engine; without it the one the tables were loaded with.

    Examples:
        >>> eree.tabulate(eree.load("data"), by=["county", "sector"])
        <Cells of county × sector: ... cells, confidential>
    """
    expect(tables, Tables, 'tables, such as load("data")')
    marginal = Marginal.over(tables.schema, by, where, bound)
    schema = cell_schema(tables.schema, marginal)
    parts = [cells.confidential for cells in stream(tables, marginal, engine=engine)]
    return Cells(marginal, pa.concat_tables([schema.empty_table(), *parts]))


def stream(tables: Tables, marginal: Marginal, *, engine: object = None) -> Iterator[Cells]:
    """The same cells, part by part: nothing but the part at hand need fit into memory.

    Of `Marginals` the workplace cells, which are public, are held as well.

    Args:
        tables: Tables that passed every check.
        marginal: What to count.
        engine: The query engine; without it the one the tables were loaded with.

    Examples:
        >>> tables = eree.load("data")
        >>> marginal = eree.Marginal.over(tables.schema, ["county", "sector"])
        >>> for cells in eree.stream(tables, marginal):
        ...     print(cells)
        <Cells of county × sector: ... cells, confidential>
    """
    if isinstance(marginal, Marginals):
        return _counted_at_once(tables, marginal, engine)
    return _counted(tables, marginal, None, engine)


def stream_weighted(
    tables: Tables, marginal: Marginal, weigh: Weigh, *, engine: object = None
) -> Iterator[Cells]:
    """The same cells with the sum of their jobs' weights besides: the integer `_weighted`.

    `weigh` gives every workplace, named by its key, the weight of each of its jobs.
    """
    return _counted(tables, marginal, weigh, engine)


def _counted(
    tables: Tables, marginal: Marginal, weigh: Weigh | None, engine: object
) -> Iterator[Cells]:
    tabulation = Tabulation(tables.schema, tables.sources, marginal, weighted=weigh is not None)
    schema = cell_schema(tables.schema, marginal, weighted=weigh is not None)
    with closing(tables.open(engine)) as opened:
        for table in tabulation.reads:
            opened.load(f"{table}_file", tables.sources[table])
        for name, values in tabulation.side_tables().items():
            opened.load(name, values)
        if weigh is not None:
            found = opened.query(tabulation.workplaces_sql())
            opened.load("workplace_weight", _weights(tables, found, weigh))
        for batch in opened.query(tabulation.sql()):
            if batch.num_rows:
                yield Cells(marginal, pa.Table.from_batches([_settled(batch, schema)]))


def _counted_at_once(tables: Tables, marginals: Marginals, engine: object) -> Iterator[Cells]:
    tabulation = MarginalsTabulation(tables.schema, tables.sources, marginals)
    schema, done = cell_schema(tables.schema, marginals), 0
    with closing(tables.open(engine)) as opened:
        for table in tabulation.reads:
            opened.load(f"{table}_file", tables.sources[table])
        for name, values in tabulation.side_tables().items():
            opened.load(name, values)
        groups = opened.query(tabulation.public.public_counts_sql()).read_all()
        groups = groups.rename_columns([*marginals.by, "workplaces"])
        groups = groups.filter(pc.field("workplaces") > 0)  # without `by` there is a row
        numbers = pa.array(np.arange(groups.num_rows, dtype=np.int32))
        keys = {name: groups[name] for name in marginals.by}
        opened.load(NUMBERED, pa.table({**keys, "_group": numbers}))
        for batch in opened.query(tabulation.sql()):
            size, first = batch.num_rows, done
            done += size
            if not batch.column("_group").equals(numbers.slice(first, size)):
                raise EngineFailure("the cells of marginals came in another order; try again")
            public, found = groups.slice(first, size), pa.Table.from_batches([batch])
            for name in groups.column_names:
                found = found.append_column(name, public[name])
            for rows in found.to_batches():
                yield Cells(marginals, pa.Table.from_batches([_settled(rows, schema)]))
        if done < groups.num_rows:
            raise EngineFailure("some cells of marginals are missing; try again")


def _weights(tables: Tables, workplaces: Iterable[pa.RecordBatch], weigh: Weigh) -> pa.Table:
    """The weight of every workplace that is counted."""
    whole = key_kind(tables.schema, tables.sources, "workplace") == "integer"
    kinds = {"_workplace": pa.int64() if whole else pa.string(), "_weight": pa.int64()}
    batches = []
    for found in workplaces:
        ids = found.column("_workplace").cast(kinds["_workplace"])
        batches.append(pa.record_batch({"_workplace": ids, "_weight": pa.array(weigh(ids))}))
    return pa.Table.from_batches(batches, pa.schema(kinds))


def new_file(out: str | os.PathLike[str]) -> Path:
    """The path of a file of cells that can be written; asked before the work starts.

    Args:
        out: A path that ends in `.parquet` or `.csv`.

    Examples:
        >>> eree.new_file("new.parquet").name
        'new.parquet'
    """
    path = Path(out)
    if path.suffix not in (".parquet", ".csv"):
        raise Refusal(f"{path.name!r} is no name for cells: it must end in .parquet or .csv")
    return new_path(path)


def write_cells(
    tables: Tables, marginal: Marginal, out: str | os.PathLike[str], *, engine: object = None
) -> int:
    """Stream confidential cells into a new Parquet or CSV file that only its owner can read.

    The file appears whole or not at all.  Returns the number of cells.

    Args:
        tables: Tables that passed every check.
        marginal: What to count.
        out: A new file, `.parquet` or `.csv`.
        engine: The query engine; without it the one the tables were loaded with.

    Examples:
        >>> tables = eree.load("data")
        >>> marginal = eree.Marginal.over(tables.schema, ["county", "sector"])
        >>> eree.write_cells(tables, marginal, "cells.parquet") > 0
        True
    """
    schema = cell_schema(tables.schema, marginal)
    parts = stream(tables, marginal, engine=engine)
    return write_rows((cells.confidential for cells in parts), schema, out)


def write_rows(parts: Iterable[pa.Table], schema: pa.Schema, out: str | os.PathLike[str]) -> int:
    """Stream rows into a new file, as `write_cells` does; returns their number."""
    path, rows = new_file(out), 0
    with appearing_file(path) as partial:
        opened = (
            parquet.ParquetWriter(partial, schema)
            if path.suffix == ".parquet"
            else arrow_csv.CSVWriter(partial, schema)
        )
        with opened as file:
            for part in parts:
                file.write_table(part)
                rows += part.num_rows
    return rows


def cell_schema(schema: Schema, marginal: Marginal, *, weighted: bool = False) -> pa.Schema:
    """The columns of the cells of a marginal, the same from every engine."""
    integer = {a.name for a in schema.attributes.values() if a.kind == "integer"}
    keys = [(name, pa.int64() if name in integer else pa.string()) for name in marginal.by]
    if isinstance(marginal, SizeProfile):  # rows of all groups at once have no attributes
        counts = [pa.field(n, pa.int64(), False) for n in ("at_least", "number", "workplaces")]
        return pa.schema([*(pa.field(name, kind) for name, kind in keys), *counts])
    if isinstance(marginal, Marginals):
        named = (*marginal.counts(schema), "largest_total", "workplaces")
        numbers = [pa.field(name, pa.int64(), nullable=False) for name in named]
        return pa.schema([*(pa.field(name, kind, nullable=False) for name, kind in keys), *numbers])
    scaled = isinstance(marginal.bound, (ScaleTo, ScaleEach))
    counted = pa.decimal128(22, 3) if scaled else pa.int64()
    found = [("count", counted), ("largest", counted)]
    if marginal.touches_workers(schema):
        found.append(("largest_total", pa.int64()))
    if weighted:
        found.append(("_weighted", pa.int64()))
    found.append(("workplaces", pa.int64()))
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in (*keys, *found)])


def _settled(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the types of the cells, whatever the engine's own integers were."""
    columns = []
    for field in schema:
        column = batch.column(field.name)
        if pa.types.is_decimal(field.type):  # the engine counts thousandths of a job
            column = pc.multiply(column.cast(pa.decimal128(19, 0)), pa.scalar(Decimal("0.001")))
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
