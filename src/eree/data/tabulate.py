"""Counts the cells of a marginal, exactly, on whichever engine is given."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from eree.cells import Cells
from eree.data.tables import Tables
from eree.data.tabulation import Tabulation
from eree.errors import Refusal
from eree.policy.schema import Schema, Value
from eree.workload import Bound, Marginal, ScaleEach, ScaleTo


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
    """
    marginal = Marginal.over(tables.schema, by, where, bound)
    schema = cell_schema(tables.schema, marginal)
    return Cells(marginal, pa.Table.from_batches(stream(tables, marginal, engine=engine), schema))


def stream(
    tables: Tables, marginal: Marginal, *, engine: object = None
) -> Iterator[pa.RecordBatch]:
    """The same cells, batch by batch: nothing but the batch at hand need fit into memory."""
    tabulation = Tabulation(tables.schema, tables.sources, marginal)
    schema = cell_schema(tables.schema, marginal)
    with closing(tables.open(engine)) as opened:
        for table in tabulation.reads:
            opened.load(f"{table}_file", tables.sources[table])
        for name, values in tabulation.side_tables().items():
            opened.load(name, values)
        for batch in opened.query(tabulation.sql()):
            if batch.num_rows:
                yield _settled(batch, schema)


def new_file(out: str | os.PathLike[str]) -> Path:
    """The path of a file of cells that can be written; asked before the work starts."""
    path = Path(out)
    if path.suffix not in (".parquet", ".csv"):
        raise Refusal(f"{path.name!r} is no name for cells: it must end in .parquet or .csv")
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise Refusal("the file's name is not UTF-8; choose another name") from None
    if path.exists():
        raise Refusal(f"{path} exists already; choose another name or remove it")
    if not path.parent.is_dir():
        raise Refusal(f"the folder {path.parent} does not exist; make it first")
    return path


def write_cells(
    tables: Tables, marginal: Marginal, out: str | os.PathLike[str], *, engine: object = None
) -> int:
    """Stream confidential cells into a new Parquet or CSV file that only its owner can read.

    The file appears whole or not at all.  Returns the number of cells.
    """
    path = new_file(out)
    schema, rows = cell_schema(tables.schema, marginal), 0
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.partial-", dir=path.parent)
    os.close(handle)
    try:
        opened = (
            parquet.ParquetWriter(name, schema)
            if path.suffix == ".parquet"
            else arrow_csv.CSVWriter(name, schema)
        )
        with opened as file:
            for batch in stream(tables, marginal, engine=engine):
                file.write_batch(batch)
                rows += batch.num_rows
        try:
            os.link(name, path)  # unlike a rename, never over a file that came meanwhile
        except OSError:  # it came, or the disk knows no links
            Path(name).replace(new_file(path))
    finally:
        Path(name).unlink(missing_ok=True)
    return rows


def cell_schema(schema: Schema, marginal: Marginal) -> pa.Schema:
    """The columns of the cells of a marginal, the same from every engine."""
    integer = {a.name for a in schema.attributes.values() if a.kind == "integer"}
    keys = [(name, pa.int64() if name in integer else pa.string()) for name in marginal.by]
    scaled = isinstance(marginal.bound, (ScaleTo, ScaleEach))
    counted = pa.decimal128(22, 3) if scaled else pa.int64()
    found = [("count", counted), ("largest", counted)]
    if marginal.touches_workers(schema):
        found.append(("largest_total", pa.int64()))
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
