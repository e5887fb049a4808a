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

from mutations import ODD_TEXTS, Chance, as_utf8, odd_value, some_bytes


def some_csv(raw: bytes, chance: Chance, planted: Sequence[str] = ()) -> bytes:
    """A CSV file that was changed by its cells, by its bytes, or both."""
    way = chance.random()
    if way < 0.75:
        rows = list(csv.reader(io.StringIO(raw.decode())))
        for _ in range(chance.choice((1, 1, 2, 4))):
            rows = chance.choice(CSV_CHANGES)(rows, chance, planted)
        text = io.StringIO()
        quoting = csv.QUOTE_ALL if chance.random() < 0.2 else csv.QUOTE_MINIMAL
        writer = csv.writer(
            text, lineterminator=chance.choice(("\n", "\n", "\r\n")), quoting=quoting
        )
        writer.writerows(rows)
        raw = as_utf8(text.getvalue())
    return some_bytes(raw, chance) if way > 0.65 else raw


Rows = list[list[str]]


def _cell(rows: Rows, chance: Chance, planted: Sequence[str]) -> Rows:
    row = chance.choice(rows) if rows else []
    if row:
        row[chance.randrange(len(row))] = chance.choice((*ODD_TEXTS, *planted, *planted))
    return rows


def _row_twice(rows: Rows, chance: Chance, _planted: Sequence[str]) -> Rows:
    if rows:
        rows.insert(chance.randint(0, len(rows)), list(chance.choice(rows)))
    return rows


def _row_dropped(rows: Rows, chance: Chance, _planted: Sequence[str]) -> Rows:
    if rows:
        del rows[chance.randrange(len(rows))]
    return rows


def _ragged(rows: Rows, chance: Chance, planted: Sequence[str]) -> Rows:
    row = chance.choice(rows) if rows else []
    if row and chance.random() < 0.5:
        row.pop()
    else:
        row.append(chance.choice((*planted, "x")))
    return rows


def _columns(rows: Rows, chance: Chance, _planted: Sequence[str]) -> Rows:
    """A column left out, twice, or in another place."""
    width = min(map(len, rows), default=0)
    if width:
        column, change = chance.randrange(width), chance.randrange(3)
        for row in rows:
            value = row[column] if change == 1 else row.pop(column)
            if change:
                row.append(value)
    return rows


def _header(rows: Rows, chance: Chance, _planted: Sequence[str]) -> Rows:
    if rows and rows[0]:
        place = chance.randrange(len(rows[0]))
        rows[0][place] = chance.choice((*ODD_TEXTS, rows[0][place].upper(), chance.choice(rows[0])))
    return rows


def _shuffled(rows: Rows, chance: Chance, _planted: Sequence[str]) -> Rows:
    chance.shuffle(rows)
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


def some_parquet(table: pa.Table, file: Path, chance: Chance, planted: Sequence[str] = ()) -> None:
    """Write a table into a Parquet file that was changed by columns, by its bytes, or both."""
    way = chance.random()
    if way < 0.65:
        for _ in range(chance.choice((1, 1, 2, 3))):
            table = chance.choice(ARROW_CHANGES)(table, chance, planted)
    write_parquet(table, file, chance)
    if way > 0.6:
        file.write_bytes(some_bytes(file.read_bytes(), chance))


def write_parquet(table: pa.Table, file: Path, chance: Chance) -> None:
    """A table in one of the many ways that Parquet knows."""
    parquet.write_table(
        table,
        file,
        row_group_size=chance.choice((None, None, 1, 3)),
        compression=chance.choice(("snappy", "none", "gzip", "zstd")),
        use_dictionary=chance.random() < 0.7,
        data_page_version=chance.choice(("1.0", "2.0")),
        store_schema=chance.random() < 0.8,
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


def _column(table: pa.Table, chance: Chance) -> int | None:
    return chance.randrange(table.num_columns) if table.num_columns else None


def _other_type(table: pa.Table, chance: Chance, _planted: Sequence[str]) -> pa.Table:
    place = _column(table, chance)
    if place is None:
        return table
    kind = chance.choice(ARROW_TYPES)
    values = [_of_type(value, kind) for value in table.column(place).to_pylist()]
    return table.set_column(place, table.column_names[place], _made(values, kind))


def _other_values(table: pa.Table, chance: Chance, planted: Sequence[str]) -> pa.Table:
    """Nulls, odd or planted values in a column of the same type."""
    place = _column(table, chance)
    if place is None or not table.num_rows:
        return table
    values = table.column(place).to_pylist()
    kind = table.schema.field(place).type
    numbers = (0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, math.nan, math.inf, -0.0, 1e300, 0.5)
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    fit = [t for t in (*ODD_TEXTS, *planted, *planted) if "\ud83d" not in t] if texts else numbers
    for _ in range(chance.choice((1, 1, 2, len(values)))):
        odd = None if chance.random() < 0.25 else chance.choice(list(fit))
        values[chance.randrange(len(values))] = odd
    return table.set_column(place, table.column_names[place], _made(values, kind))


def _other_names(table: pa.Table, chance: Chance, _planted: Sequence[str]) -> pa.Table:
    names = list(table.column_names)
    if names:
        place = chance.randrange(len(names))
        fit = [text for text in ODD_TEXTS if "\ud83d" not in text and len(text) < 1000]
        names[place] = chance.choice((*fit, chance.choice(names), names[place].upper()))
    return table.rename_columns(names)


def _other_columns(table: pa.Table, chance: Chance, _planted: Sequence[str]) -> pa.Table:
    place = _column(table, chance)
    if place is None:
        return table
    if chance.random() < 0.5:
        return table.remove_column(place)
    name = chance.choice((table.column_names[place], "added", "_arrow", "rowid", "filename"))
    return table.append_column(name, table.column(place))


def _other_rows(table: pa.Table, chance: Chance, _planted: Sequence[str]) -> pa.Table:
    rows = list(range(table.num_rows))
    change = chance.randrange(4)
    if change == 0:
        rows = []
    elif change == 1:
        chance.shuffle(rows)
    elif rows:
        rows += [chance.choice(rows)] if change == 2 else []
        rows = rows[1:] if change == 3 else rows
    return table.take(pa.array(rows, pa.int64()))


def _told(table: pa.Table, chance: Chance, _planted: Sequence[str]) -> pa.Table:
    """Words of other programs beside the columns."""
    words = as_utf8(json.dumps(odd_value(chance)))
    return table.replace_schema_metadata({b"pandas": words, b"\xff": words})


ARROW_CHANGES = (
    *(_other_type, _other_type, _other_values, _other_values, _other_values, _other_names),
    *(_other_columns, _other_rows, _told),
)
