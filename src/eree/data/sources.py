"""The files of one table: where they are, how they are read, which columns they hold.

A source is looked at without any query engine: footers of Parquet files, headers and encoding of
CSV files.  What is found wrong is a fault that names the file and the rule; no value is quoted.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Literal, TextIO, cast
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from eree.errors import Fault
from eree.policy.schema import Classes, Dialect, Encoding, Value

Format = Literal["parquet", "csv", "arrow", "duckdb", "postgres"]
ColumnKind = Literal["string", "integer", "decimal", "date", "boolean", "other"]

#: The rule that a file breaks whose rows stop being readable.
DAMAGED: Mapping[Format, str] = {
    "parquet": "cannot be read to the end; the file is damaged",
    "arrow": "the data frame cannot be read by the engine",
    "duckdb": "cannot be read to the end; the file is damaged, or a view fails",
    "postgres": "cannot be read by the engine",
    "csv": "cannot be read to the end; lines may end in different ways or be longer than 2 MB, or"
    " text may follow a closing quotation mark",
}


@dataclass(frozen=True)
class Source:
    """Files of one format with the same columns, in a fixed order, or `rows` that are in memory.

    All CSV columns are texts.  `others` has the types of columns of which none can be used.
    `missing` are the values of fields that have none, by column, and `classes` how numbers and
    dates are sorted into values.  `folders` has the columns that names of folders are, with a value
    for each path; `name` is that of a table in a DuckDB file.
    """

    format: Format
    paths: tuple[Path, ...]
    columns: Mapping[str, ColumnKind]
    others: Mapping[str, str] = field(default_factory=dict)
    separator: str = ","
    encoding: Encoding = "utf-8"
    rows: pa.Table | None = field(default=None, repr=False, compare=False)
    missing: Mapping[str, Value] = field(default_factory=dict)
    classes: Mapping[str, Classes] = field(default_factory=dict)
    folders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    name: str = ""

    def untyped(self, column: str) -> bool:
        """Whether a column is of texts that may stand for any values, and empty for missing."""
        return self.format == "csv" or column in self.folders

    def alike(self) -> list[tuple[dict[str, str], list[Path]]]:
        """The files whose folders say the same, with what they say."""
        found: dict[tuple[str, ...], list[Path]] = {}
        for number, path in enumerate(self.paths):
            said = tuple(values[number] for values in self.folders.values())
            found.setdefault(said, []).append(path)
        return [(dict(zip(self.folders, said, strict=True)), held) for said, held in found.items()]


_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def kind_of(arrow_type: pa.DataType) -> ColumnKind:
    """The kind of values an Arrow column holds."""
    if any(test(arrow_type) for test in _TEXTS):
        return "string"
    if pa.types.is_integer(arrow_type) and arrow_type != pa.uint64():  # uint64 overflows a bigint
        return "integer"
    if (
        pa.types.is_decimal(arrow_type)
        and arrow_type.precision <= 28
        and 0 <= arrow_type.scale <= 10
    ):
        return "decimal"  # of 38 digits, ten of them after the point
    if pa.types.is_date32(arrow_type):
        return "date"
    return "boolean" if pa.types.is_boolean(arrow_type) else "other"


def others_of(columns: Mapping[str, pa.DataType]) -> dict[str, str]:
    """The types, in Arrow's words, of columns of which none can be used."""
    return {name: str(held) for name, held in columns.items() if kind_of(held) == "other"}


def inspect_source(
    folder: Path, table: str, file: str, dialect: Dialect | None = None
) -> tuple[Source | None, list[Fault]]:
    """Find a table's files and look at them from outside.

    Without a dialect CSV files are plain ones, with commas and in UTF-8.  The faults say what
    cannot be read; a source that comes with faults has known columns, but its rows are not to be
    trusted.
    """
    path = folder / file
    parts, problem = _parts(folder, file, plain=dialect is None)
    if problem:
        return None, [Fault(table, file, "", problem)]
    faults: list[Fault] = []
    style: Format = "parquet" if _form(parts[0]) == ".parquet" else "csv"
    asked = dialect or Dialect()
    if style == "parquet" and replace(asked, partitions=()) != Dialect():
        rule = "is Parquet, which has no separator and no encoding; leave them out"
        faults.append(Fault(table, file, "", rule))
    separator = asked.separator or ("\t" if ".tsv" in _form(parts[0]) else ",")
    read = _CsvFiles(separator, asked.encoding)
    first: dict[str, pa.DataType] | None = None
    for part in parts:
        shown = file if part == path or not path.is_dir() else f"{file}/{_shown(part)}"
        try:
            found = _parquet_columns(part) if style == "parquet" else read.header(part)
            if first is None:
                first = found
            elif list(found.items()) != list(first.items()):
                raise Unusable("the part has other columns, types or order than the first")
            if style == "csv":
                read.check_rows(part, found)
        except Unusable as unusable:
            faults.append(Fault(table, shown, "", unusable.rule, unusable.rows))
    if first is None:
        return None, faults
    columns = {name: kind_of(arrow_type) for name, arrow_type in first.items()}
    folders: dict[str, tuple[str, ...]] = {}
    for name in asked.partitions:
        try:
            folders[name] = _folder_values(parts, name, [*columns])
            columns[name] = "string"
        except Unusable as unusable:
            faults.append(Fault(table, file, name, unusable.rule))
    source = Source(style, tuple(parts), columns, others_of(first), separator, asked.encoding)
    return replace(source, folders=folders), faults


def _folder_values(parts: list[Path], name: str, columns: list[str]) -> tuple[str, ...]:
    """What the folders of each part say of a column: `year=2024`; an empty text if it is null."""
    if name.casefold() in {column.casefold() for column in columns}:
        raise Unusable("the files themselves have the column; take it out of partitions")
    found = []
    for part in parts:
        said = [p.removeprefix(f"{name}=") for p in part.parent.parts if p.startswith(f"{name}=")]
        value = unquote(said[0]) if len(said) == 1 else ""
        if not value or not value.isprintable():
            raise Unusable(f"every part must lie in one folder that is called {name}=VALUE")
        found.append("" if value == "__HIVE_DEFAULT_PARTITION__" else value)
    return tuple(found)


def readable(source: Source) -> bool:
    """Whether all of the files can be read to their end, by Arrow's own readers."""
    for path in source.paths if source.format != "duckdb" else ():
        try:
            if source.format == "csv":
                read = _CsvFiles(source.separator, source.encoding)
                read.check_rows(path, read.header(path))
                continue
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches():
                    batch.validate(full=True)
        except (Unusable, *UNREADABLE):
            return False
    return True


#: Bytes that Latin-1 keeps for control characters, and that Windows has letters and signs for.
_CONTROLS = re.compile(rb"[\x80-\x9f]")
_NUL = "holds a NUL byte, which is part of no text; write the file again without it"


class Unusable(Exception):
    """The rule that a table's file or data frame breaks before any row of it is counted."""

    def __init__(self, rule: str, rows: int | None = None) -> None:
        super().__init__(rule)
        self.rule, self.rows = rule, rows


#: What Arrow raises over a damaged file: its own exceptions, and those of the layers below.
UNREADABLE = (pa.ArrowException, OSError, ValueError, RuntimeError, MemoryError, OverflowError)


#: How names of CSV files may end, and those of plain ones.
_CSV, _PLAIN_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz"), (".csv",)


def _form(path: Path) -> str:
    """How the name of a file ends; engines know what is packed by small letters alone."""
    packed = ".gz" if path.suffix == ".gz" else ""
    return Path(path.name.removesuffix(packed)).suffix.lower() + packed


def _parts(folder: Path, file: str, *, plain: bool) -> tuple[list[Path], str]:
    """The files of a table in order, or the rule that they break."""
    path = folder / file
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
        elif not plain and any(c in file for c in "*?["):
            root = Path(path.anchor) if Path(file).is_absolute() else folder
            found = root.glob(str(path.relative_to(root)))
            parts = sorted(p for p in found if not p.name.startswith((".", "_")))
            if not parts:
                return [], "no file has such a name"
        else:
            return [], "the file does not exist"
        if not all(part.is_file() for part in parts):
            return [], "must be a plain file, or a folder of plain files"
    except (OSError, RuntimeError):  # a link to itself is a RuntimeError
        return [], "the file cannot be opened"
    ends = _PLAIN_CSV if plain else _CSV
    if {_form(p) for p in parts} not in ({".parquet"}, *({end} for end in ends)):
        words = f"must be Parquet (.parquet) or CSV ({', '.join(ends)}), one format for all parts"
        return [], words if plain else f"{words}; tables of databases are named by source"
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


@dataclass(frozen=True)
class _CsvFiles:
    """CSV files that are written in one way, and what is wrong with them."""

    separator: str
    encoding: Encoding

    def header(self, path: Path) -> dict[str, pa.DataType]:
        """The names in the first row, of a file that is text to its end."""
        self._check_text(path)
        try:
            with self._lines(path) as lines:
                names = next(csv.reader(lines, strict=True, delimiter=self.separator), None)
        except (csv.Error, OSError):
            raise Unusable("cannot be read as CSV") from None
        if not names or names == [""]:
            raise Unusable("has no header row")
        _distinct(names)
        return dict.fromkeys(names, pa.string())

    def _check_text(self, path: Path) -> None:
        decoder = codecs.getincrementaldecoder(self.encoding)()
        try:
            for chunk in _chunks(path):
                decoder.decode(chunk)
                if b"\0" in chunk:
                    raise Unusable(_NUL)
                if self.encoding == "latin-1" and _CONTROLS.search(chunk):
                    raise Unusable(
                        "is not Latin-1 text, but perhaps Windows-1252; save it as UTF-8"
                    )
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            raise Unusable("is not UTF-8 text; save it as UTF-8") from None
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise Unusable("cannot be unpacked by gzip; it may be truncated or damaged") from None
        except OSError:
            raise Unusable("cannot be read as CSV") from None

    def _lines(self, path: Path) -> TextIO:
        encoding = "utf-8-sig" if self.encoding == "utf-8" else self.encoding
        return io.TextIOWrapper(_opened(path), encoding=encoding, newline="")

    def check_rows(self, path: Path, columns: Mapping[str, pa.DataType]) -> None:
        """Every row splits into the header's columns, and no quoted field is open at the end.

        Quotes inside a quoted field are doubled, so a well-formed file has an even number of them.
        """
        if sum(chunk.count(b'"') for chunk in _chunks(path)) % 2:
            raise Unusable(
                "the quotation marks do not pair up; the file may end inside a quoted field"
            )
        with self._lines(path) as lines:
            next(csv.reader(lines, delimiter=self.separator))
            if not any(line.strip() for line in lines):
                return  # a header and nothing else
        broken = 0

        def skip(_row: object) -> Literal["skip"]:
            nonlocal broken
            broken += 1
            return "skip"

        try:
            with _opened(path) as file:
                reader = arrow_csv.open_csv(
                    file,
                    read_options=arrow_csv.ReadOptions(
                        use_threads=False, block_size=1 << 24, encoding=self.encoding
                    ),
                    parse_options=arrow_csv.ParseOptions(
                        delimiter=self.separator, newlines_in_values=True, invalid_row_handler=skip
                    ),
                    convert_options=arrow_csv.ConvertOptions(column_types=dict(columns)),
                )
                for _batch in reader:
                    pass
        except pa.ArrowException:
            raise Unusable("cannot be read as CSV") from None
        if broken:
            raise Unusable("the row does not have as many fields as the header", broken)


def _opened(path: Path) -> BinaryIO:
    """A file of bytes, unpacked."""
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _chunks(path: Path) -> Iterator[bytes]:
    with _opened(path) as file:
        while chunk := file.read(1 << 22):
            yield chunk
