"""Tables that come as data frames: held in memory, looked at as files are, written nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from eree.data.sources import Source, Unusable, arrow_columns, kind_of, others_of
from eree.errors import Fault, Refusal


def frame_source(frame: object, table: str) -> tuple[Source | None, list[Fault]]:
    """A data frame as a source, or what is wrong with it.

    The rows are copied: who changes the frame afterwards changes nothing that was checked.
    """
    if not (hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__")):
        raise Refusal(
            f"{table} is no data frame: those of pandas and polars, relations of DuckDB and tables"
            " of pyarrow are, by Arrow's stream interface"
        )
    try:
        rows = _copied(pa.table(frame))
        rows.validate(full=True)
    except Exception:  # whatever a library raises over its own frame; its words may quote a row
        return None, [*_mixed(frame, table)] or [
            Fault(table, table, "", "the data frame cannot be read by Arrow")
        ]
    try:
        columns = arrow_columns(rows.schema)
    except Unusable as unusable:
        return None, [Fault(table, table, "", unusable.rule)]
    kinds = {name: kind_of(held) for name, held in columns.items()}
    return Source("arrow", (), kinds, others_of(columns), rows=rows), []


def _mixed(frame: Any, table: str) -> Iterator[Fault]:
    """Columns of a frame that Arrow cannot read, as where pandas has objects of several types."""
    for name in getattr(frame, "columns", ()):
        if not isinstance(name, str):  # columns of Arrow's own tables are arrays, not names
            continue
        try:
            pa.array(frame[name])
        except Exception:  # as above
            rule = "Arrow cannot read the column; if its values are of several types, make it one"
            yield Fault(table, table, name, rule)


def _copied(frame: pa.Table) -> pa.Table:
    """The rows in memory of their own, with the values of dictionaries in their place."""
    columns: list[Any] = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in frame.columns
    ]
    plain = pa.Table.from_arrays(columns, names=frame.column_names)
    held = pa.BufferOutputStream()
    with pa.ipc.new_stream(held, plain.schema) as stream:
        stream.write_table(plain)
    return pa.ipc.open_stream(held.getvalue()).read_all()
