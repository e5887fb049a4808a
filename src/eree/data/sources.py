"""The files of one table: where they are, how they are read, which columns they hold.

A source is looked at without any query engine: footers of Parquet files, headers and encoding of
CSV files.  What is found wrong is a fault that names the file and the rule; no value is quoted.
"""

from __future__ import annotations

import codecs
import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from eree.errors import Fault

Format = Literal["parquet", "csv", "arrow"]
ColumnKind = Literal["string", "integer", "boolean", "other"]

#: The rule that a file breaks whose rows stop being readable.
DAMAGED: Mapping[Format, str] = {
    "parquet": "cannot be read to the end; the file is damaged",
    "arrow": "the data frame cannot be read by the engine",
    "csv": "cannot be read to the end; lines may end in different ways or be longer than 2 MB, or"
    " text may follow a closing quotation mark",
}


@dataclass(frozen=True)
class Source:
    """Files of one format with the same columns, in a fixed order, or `rows` that are in memory.

    All CSV columns are texts.
    """

    format: Format
    paths: tuple[Path, ...]
    columns: Mapping[str, ColumnKind]
    rows: pa.Table | None = field(default=None, repr=False, compare=False)


_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def kind_of(arrow_type: pa.DataType) -> ColumnKind:
    """The kind of values an Arrow column holds."""
    if any(test(arrow_type) for test in _TEXTS):
        return "string"
    if pa.types.is_integer(arrow_type) and arrow_type != pa.uint64():  # uint64 overflows a bigint
        return "integer"
    return "boolean" if pa.types.is_boolean(arrow_type) else "other"


def inspect_source(folder: Path, table: str, file: str) -> tuple[Source | None, list[Fault]]:
    """Find a table's files and look at them from outside.

    The faults say what cannot be read; a source that comes with faults has known columns, but its
    rows are not to be trusted.
    """
    path = folder / file
    parts, problem = _parts(path)
    if problem:
        return None, [Fault(table, file, "", problem)]
    faults: list[Fault] = []
    style: Format = "parquet" if parts[0].suffix.lower() == ".parquet" else "csv"
    first: dict[str, pa.DataType] | None = None
    for part in parts:
        shown = file if part == path else f"{file}/{_shown(part)}"
        try:
            found = _parquet_columns(part) if style == "parquet" else _csv_header(part)
            if first is None:
                first = found
            elif list(found.items()) != list(first.items()):
                raise Unusable("the part has other columns, types or order than the first")
            if style == "csv":
                _check_csv_rows(part, found)
        except Unusable as unusable:
            faults.append(Fault(table, shown, "", unusable.rule, unusable.rows))
    if first is None:
        return None, faults
    columns = {name: kind_of(arrow_type) for name, arrow_type in first.items()}
    return Source(style, tuple(parts), columns), faults


def readable(source: Source) -> bool:
    """Whether all of the files can be read to their end, by Arrow's own readers."""
    for path in source.paths:
        try:
            if source.format == "csv":
                _check_csv_rows(path, _csv_header(path))
                continue
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches():
                    batch.validate(full=True)
        except (Unusable, *UNREADABLE):
            return False
    return True


class Unusable(Exception):
    """The rule that a table's file or data frame breaks before any row of it is counted."""

    def __init__(self, rule: str, rows: int | None = None) -> None:
        super().__init__(rule)
        self.rule, self.rows = rule, rows


#: What Arrow raises over a damaged file: its own exceptions, and those of the layers below.
UNREADABLE = (pa.ArrowException, OSError, ValueError, RuntimeError, MemoryError, OverflowError)


def _parts(path: Path) -> tuple[list[Path], str]:
    """The files of a table in order, or the rule that they break."""
    try:
        if path.is_dir():
            parts = sorted(p for p in path.iterdir() if not p.name.startswith((".", "_")))
            if any(part.is_dir() for part in parts):
                return [], "the folder holds another folder; put all parts side by side"
            if not parts:
                return [], "the folder holds no files"
        elif path.name.startswith((".", "_")):
            return [], "the name starts with . or _, which Spark passes over; rename the file"
        elif path.exists():
            parts = [path]
        else:
            return [], "the file does not exist"
        if not all(part.is_file() for part in parts):
            return [], "must be a plain file, or a folder of plain files"
    except (OSError, RuntimeError):  # a link to itself is a RuntimeError
        return [], "the file cannot be opened"
    if {p.suffix.lower() for p in parts} not in ({".parquet"}, {".csv"}):
        return [], "must be Parquet (.parquet) or CSV (.csv), one format for all parts"
    if any(_shown(part) != part.name for part in parts):
        return [], "a part has a name that is not UTF-8; rename it"
    return parts, ""


def _shown(path: Path) -> str:
    return os.fsencode(path.name).decode("utf-8", "replace")


def _distinct(names: list[str]) -> None:
    if len({name.casefold() for name in names}) < len(names):
        raise Unusable("two columns have the same name, or names that differ only in case")
    if any(c in '"`\\' or not c.isprintable() for name in names for c in name):
        raise Unusable(
            "a column has a name with quotes, backslashes or control characters; rename it"
        )


def _parquet_columns(path: Path) -> dict[str, pa.DataType]:
    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
    except UNREADABLE:
        raise Unusable("cannot be read as Parquet; it may be truncated or damaged") from None
    return arrow_columns(schema)


def arrow_columns(schema: pa.Schema) -> dict[str, pa.DataType]:
    """The columns of a schema with their types; a dictionary has the type of its values."""
    _distinct(schema.names)
    types = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in schema]
    return {
        name: pa.string() if pa.types.is_large_string(held) else held
        for name, held in zip(schema.names, types, strict=True)
    }


def _csv_header(path: Path) -> dict[str, pa.DataType]:
    """The names in the first row, of a file that is UTF-8 to its end."""
    try:
        decoder = codecs.getincrementaldecoder("utf-8")()
        with path.open("rb") as handle:
            while chunk := handle.read(1 << 22):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
        with path.open(encoding="utf-8-sig", newline="") as lines:
            names = next(csv.reader(lines, strict=True), None)
    except UnicodeDecodeError:
        raise Unusable("is not UTF-8 text; save it as UTF-8") from None
    except (csv.Error, OSError):
        raise Unusable("cannot be read as CSV") from None
    if not names or names == [""]:
        raise Unusable("has no header row")
    _distinct(names)
    return dict.fromkeys(names, pa.string())


def _check_csv_rows(path: Path, columns: Mapping[str, pa.DataType]) -> None:
    """Every row splits into the header's columns, and no quoted field is open at the end.

    Quotes inside a quoted field are doubled, so a well-formed file has an even number of them.
    """
    quotes = 0
    with path.open("rb") as handle:
        while chunk := handle.read(1 << 22):
            quotes += chunk.count(b'"')
    if quotes % 2:
        raise Unusable("the quotation marks do not pair up; the file may end inside a quoted field")
    with path.open(encoding="utf-8-sig", newline="") as lines:
        next(csv.reader(lines))
        if not any(line.strip() for line in lines):
            return  # a header and nothing else
    broken = 0

    def skip(_row: object) -> Literal["skip"]:
        nonlocal broken
        broken += 1
        return "skip"

    try:
        reader = arrow_csv.open_csv(
            path,
            read_options=arrow_csv.ReadOptions(use_threads=False, block_size=1 << 24),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
            convert_options=arrow_csv.ConvertOptions(column_types=dict(columns)),
        )
        for _batch in reader:
            pass
    except pa.ArrowException:
        raise Unusable("cannot be read as CSV") from None
    if broken:
        raise Unusable("the row does not have as many fields as the header", broken)
