"""Changes that a fuzz makes to sound tables in CSV and Parquet: to cells, columns and bytes."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from mutations import ODD_TEXTS, Rng, as_utf8, odd_value, some_bytes


def some_csv(raw: bytes, rng: Rng, planted: Sequence[str] = ()) -> bytes:
    """A CSV file that was changed by its cells, by its bytes, or both."""
    way = rng.random()
    if way < 0.75:
        rows = list(csv.reader(io.StringIO(raw.decode())))
        for _ in range(rng.choice((1, 1, 2, 4))):
            rows = rng.choice(CSV_CHANGES)(rows, rng, planted)
        text = io.StringIO()
        quoting = csv.QUOTE_ALL if rng.random() < 0.2 else csv.QUOTE_MINIMAL
        writer = csv.writer(text, lineterminator=rng.choice(("\n", "\n", "\r\n")), quoting=quoting)
        writer.writerows(rows)
        raw = as_utf8(text.getvalue())
    return some_bytes(raw, rng) if way > 0.65 else raw


Rows = list[list[str]]


def _cell(rows: Rows, rng: Rng, planted: Sequence[str]) -> Rows:
    row = rng.choice(rows) if rows else []
    if row:
        row[rng.randrange(len(row))] = rng.choice((*ODD_TEXTS, *planted, *planted))
    return rows


def _row_twice(rows: Rows, rng: Rng, _planted: Sequence[str]) -> Rows:
    if rows:
        rows.insert(rng.randint(0, len(rows)), list(rng.choice(rows)))
    return rows


def _row_dropped(rows: Rows, rng: Rng, _planted: Sequence[str]) -> Rows:
    if rows:
        del rows[rng.randrange(len(rows))]
    return rows


def _ragged(rows: Rows, rng: Rng, planted: Sequence[str]) -> Rows:
    row = rng.choice(rows) if rows else []
    if row and rng.random() < 0.5:
        row.pop()
    else:
        row.append(rng.choice((*planted, "x")))
    return rows


def _columns(rows: Rows, rng: Rng, _planted: Sequence[str]) -> Rows:
    """A column left out, twice, or in another place."""
    width = min(map(len, rows), default=0)
    if width:
        column, change = rng.randrange(width), rng.randrange(3)
        for row in rows:
            value = row[column] if change == 1 else row.pop(column)
            if change:
                row.append(value)
    return rows


def _header(rows: Rows, rng: Rng, _planted: Sequence[str]) -> Rows:
    if rows and rows[0]:
        place = rng.randrange(len(rows[0]))
        rows[0][place] = rng.choice((*ODD_TEXTS, rows[0][place].upper(), rng.choice(rows[0])))
    return rows


def _shuffled(rows: Rows, rng: Rng, _planted: Sequence[str]) -> Rows:
    rng.shuffle(rows)
    return rows


CSV_CHANGES = (
    _cell,
    _cell,
    _cell,
    _cell,
    _row_twice,
    _row_dropped,
    _ragged,
    _columns,
    _header,
    _shuffled,
)
ARROW_TYPES = (
    *(
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.int8(),
        pa.int64(),
        pa.uint64(),
        pa.float32(),
    ),
    *(
        pa.float64(),
        pa.bool_(),
        pa.date32(),
        pa.timestamp("us", "UTC"),
        pa.decimal128(38, 2),
        pa.null(),
    ),
    *(
        pa.list_(pa.string()),
        pa.struct([("a", pa.int64())]),
        pa.dictionary(pa.int32(), pa.string()),
    ),
    *(pa.time64("us"), pa.duration("s"), pa.map_(pa.string(), pa.int64()), pa.float16()),
)


def some_parquet(table: pa.Table, file: Path, rng: Rng, planted: Sequence[str] = ()) -> None:
    """Write a table into a Parquet file that was changed by columns, by its bytes, or both."""
    way = rng.random()
    if way < 0.65:
        for _ in range(rng.choice((1, 1, 2, 3))):
            table = rng.choice(ARROW_CHANGES)(table, rng, planted)
    write_parquet(table, file, rng)
    if way > 0.6:
        file.write_bytes(some_bytes(file.read_bytes(), rng))


def write_parquet(table: pa.Table, file: Path, rng: Rng) -> None:
    """A table in one of the many ways that Parquet knows."""
    parquet.write_table(
        table,
        file,
        row_group_size=rng.choice((None, None, 1, 3)),
        compression=rng.choice(("snappy", "none", "gzip", "zstd")),
        use_dictionary=rng.random() < 0.7,
        data_page_version=rng.choice(("1.0", "2.0")),
        store_schema=rng.random() < 0.8,
    )


def _made(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values as a type, or nulls where they are none of it."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.nulls(len(values), kind)


def _of_type(value: Any, kind: pa.DataType) -> Any:
    """Something like the value that a type can hold."""
    if pa.types.is_list(kind):
        return [str(value)]
    if pa.types.is_struct(kind):
        return {"a": len(str(value))}
    if pa.types.is_map(kind):
        return [(str(value), 1)]
    if pa.types.is_binary(kind):
        return as_utf8(str(value)) + b"\xff"
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return str(value)
    return value if isinstance(value, int) else len(str(value))


def _column(table: pa.Table, rng: Rng) -> int | None:
    return rng.randrange(table.num_columns) if table.num_columns else None


def _other_type(table: pa.Table, rng: Rng, _planted: Sequence[str]) -> pa.Table:
    place = _column(table, rng)
    if place is None:
        return table
    kind = rng.choice(ARROW_TYPES)
    values = [_of_type(value, kind) for value in table.column(place).to_pylist()]
    return table.set_column(place, table.column_names[place], _made(values, kind))


def _other_values(table: pa.Table, rng: Rng, planted: Sequence[str]) -> pa.Table:
    """Nulls, odd or planted values in a column of the same type."""
    place = _column(table, rng)
    if place is None or not table.num_rows:
        return table
    values = table.column(place).to_pylist()
    kind = table.schema.field(place).type
    numbers = (0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, math.nan, math.inf, -0.0, 1e300, 0.5)
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    fit = [t for t in (*ODD_TEXTS, *planted, *planted) if "\ud83d" not in t] if texts else numbers
    for _ in range(rng.choice((1, 1, 2, len(values)))):
        odd = None if rng.random() < 0.25 else rng.choice(list(fit))
        values[rng.randrange(len(values))] = odd
    return table.set_column(place, table.column_names[place], _made(values, kind))


def _other_names(table: pa.Table, rng: Rng, _planted: Sequence[str]) -> pa.Table:
    names = list(table.column_names)
    if names:
        place = rng.randrange(len(names))
        fit = [text for text in ODD_TEXTS if "\ud83d" not in text and len(text) < 1000]
        names[place] = rng.choice((*fit, rng.choice(names), names[place].upper()))
    return table.rename_columns(names)


def _other_columns(table: pa.Table, rng: Rng, _planted: Sequence[str]) -> pa.Table:
    place = _column(table, rng)
    if place is None:
        return table
    if rng.random() < 0.5:
        return table.remove_column(place)
    name = rng.choice((table.column_names[place], "added", "_arrow", "rowid", "filename"))
    return table.append_column(name, table.column(place))


def _other_rows(table: pa.Table, rng: Rng, _planted: Sequence[str]) -> pa.Table:
    rows = list(range(table.num_rows))
    change = rng.randrange(4)
    if change == 0:
        rows = []
    elif change == 1:
        rng.shuffle(rows)
    elif rows:
        rows += [rng.choice(rows)] if change == 2 else []
        rows = rows[1:] if change == 3 else rows
    return table.take(pa.array(rows, pa.int64()))


def _told(table: pa.Table, rng: Rng, _planted: Sequence[str]) -> pa.Table:
    """Words of other programs beside the columns."""
    words = as_utf8(json.dumps(odd_value(rng)))
    return table.replace_schema_metadata({b"pandas": words, b"\xff": words})


ARROW_CHANGES = (
    *(_other_type, _other_type, _other_values, _other_values, _other_values, _other_names),
    *(_other_columns, _other_rows, _told),
)
