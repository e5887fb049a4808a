"""The files of one table: where they are, how they are read, which columns they hold.

A source is looked at without any query engine: footers of Parquet files, headers and encoding of
CSV files.  What is found wrong is a fault that names the file and the rule; no value is quoted.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from eree.errors import Fault

Format = Literal["parquet", "csv"]
ColumnKind = Literal["string", "integer", "boolean", "other"]


@dataclass(frozen=True)
class Source:
    """Files of one format with the same columns, in a fixed order.  All CSV columns are texts."""

    format: Format
    paths: tuple[Path, ...]
    columns: Mapping[str, ColumnKind]


def kind_of(arrow_type: pa.DataType) -> ColumnKind:
    """The kind of values an Arrow column holds."""
    if pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type):
        return "string"
    if pa.types.is_integer(arrow_type) and arrow_type != pa.uint64():  # uint64 overflows a bigint
        return "integer"
    return "boolean" if pa.types.is_boolean(arrow_type) else "other"


def inspect_source(folder: Path, table: str, file: str) -> tuple[Source | None, list[Fault]]:
    """Find and read the outside of a table's files; the faults say what cannot be used."""

    def fault(rule: str, rows: int | None = None, part: Path | None = None) -> Fault:
        shown = file if part is None or part == folder / file else f"{file}/{part.name}"
        return Fault(table, shown, "", rule, rows)

    path = folder / file
    try:
        if path.is_dir():
            parts = sorted(p for p in path.iterdir() if not p.name.startswith((".", "_")))
        elif path.exists():
            parts = [path]
        else:
            return None, [fault("the file does not exist")]
    except OSError:
        return None, [fault("the file cannot be opened")]
    suffixes = {p.suffix.lower() for p in parts}
    if not parts:
        return None, [fault("the folder holds no files")]
    if suffixes not in ({".parquet"}, {".csv"}):
        return None, [fault("must be Parquet (.parquet) or CSV (.csv), one format for all parts")]
    style: Format = "parquet" if suffixes == {".parquet"} else "csv"
    look = _parquet_columns if style == "parquet" else _csv_columns
    faults: list[Fault] = []
    first: dict[str, pa.DataType] | None = None
    for part in parts:
        try:
            found, broken = look(part)
        except _UnusableError as problem:
            faults.append(fault(problem.rule, part=part))
            continue
        if broken:
            rule = "rows do not have as many fields as the header, or end inside a quoted field"
            faults.append(fault(rule, broken, part))
        if first is None:
            first = found
        elif list(found.items()) != list(first.items()):
            rule = "the part has other columns, types or order than the first"
            faults.append(fault(rule, part=part))
    if faults or first is None:
        return None, faults
    columns = {name: kind_of(arrow_type) for name, arrow_type in first.items()}
    return Source(style, tuple(parts), columns), []


class _UnusableError(Exception):
    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule


def _parquet_columns(path: Path) -> tuple[dict[str, pa.DataType], int]:
    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
    except (pa.ArrowException, OSError):
        raise _UnusableError("cannot be read as Parquet; it may be truncated or damaged") from None
    if len(set(schema.names)) < len(schema.names):
        raise _UnusableError("two columns have the same name")
    return {
        field.name: field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        for field in schema
    }, 0


def _csv_columns(path: Path) -> tuple[dict[str, pa.DataType], int]:
    """The header of a CSV file, and how many of its rows cannot be split into its columns."""
    try:
        names = next(csv.reader(_lines(path), strict=True), None)
        unterminated = _ends_inside_quotes(path)
    except UnicodeDecodeError:
        raise _UnusableError("is not UTF-8 text; save it as UTF-8") from None
    except (csv.Error, OSError):
        raise _UnusableError("cannot be read as CSV") from None
    if not names or names == [""]:
        raise _UnusableError("has no header row")
    if len(set(names)) < len(names):
        raise _UnusableError("two columns have the same name")
    broken = int(unterminated)

    def skip(_row: object) -> Literal["skip"]:
        nonlocal broken
        broken += 1
        return "skip"

    try:
        reader = arrow_csv.open_csv(
            path,
            read_options=arrow_csv.ReadOptions(use_threads=False),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string())
            ),
        )
        for _batch in reader:
            pass
    except pa.ArrowInvalid:
        raise _UnusableError("cannot be read as CSV") from None
    return dict.fromkeys(names, pa.string()), broken


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8-sig", newline="") as handle:
        yield from handle


def _ends_inside_quotes(path: Path) -> bool:
    """Whether a quoted field is still open where the file ends (and whether all of it is UTF-8).

    Quotes inside a quoted field are doubled, so a well-formed file has an even number of them.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    quotes = 0
    with path.open("rb") as handle:
        while chunk := handle.read(1 << 22):
            decoder.decode(chunk)
            quotes += chunk.count(b'"')
        decoder.decode(b"", final=True)
    return quotes % 2 == 1
