"""A first `schema.toml`, made from three linked tables: their files, or a DuckDB file of them.

What it lists of workers and jobs was found in confidential rows, so the file is for its owner's
eyes, and says `draft = true`: no plan is made under it until its lists are public code lists.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import permutations, product
from pathlib import Path

from eree.data.columns import plain, quoted
from eree.data.databases import duckdb_source, is_duckdb
from eree.data.engine import DuckEngine, Engine
from eree.data.sources import Source, Unusable, inspect_source
from eree.errors import Fault, Faulty, Refusal
from eree.partial import appearing_file, new_path
from eree.policy.schema import PLAIN, RESERVED, Dialect, Table, Value
from eree.policy.settings import SCHEMA_FILE

#: A column of workers or jobs with more values is no code.
MOST_VALUES = 100
#: Of so many tables at most it is tried which are linked.
MOST_TABLES = 20

_HEAD = """\
# A draft, made from the files.  CONFIDENTIAL: the values of workers and jobs were found in their
# rows, and a value that only the data know tells who is in them.  Before anything is planned
#   - replace every list of values of workers and jobs by the public code list,
#   - mark workplace attributes that are not public: confidential = true,
#   - remove the next line.
draft = true
# data_set = "how the data are called, which the ledger is bound to"
"""


@dataclass(frozen=True)
class Draft:
    """What `draft_schema` wrote.

    Attributes:
        file: Where.
        tables: Which file is which table.
        ignored: The columns that are left out.

    Examples:
        >>> files = ["data/workplace.parquet", "data/worker.parquet", "data/job.parquet"]
        >>> sorted(eree.draft_schema(files, "first.toml").tables)
        ['job', 'worker', 'workplace']
    """

    file: Path
    tables: dict[Table, str]
    ignored: dict[Table, tuple[str, ...]]


@dataclass(frozen=True)
class _File:
    """A file, or a table of a DuckDB file, that was looked at."""

    path: Path
    source: Source
    dialect: Dialect = PLAIN

    def __str__(self) -> str:
        return f"{self.source.name} in {self.path}" if self.source.name else str(self.path)


@dataclass(frozen=True)
class _Roles:
    """Which file is which table, and the columns that link them, named alike in both."""

    files: dict[Table, _File]
    workplace: str
    worker: str


def draft_schema(
    files: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str] | None = None
) -> Draft:
    """Write a first `schema.toml` for three files, beside the first of them or to `out`.

    A DuckDB file stands for all tables that it holds; three of all must be linked.  The jobs are
    told by columns that name workplaces and workers as their own files do.  A file
    that is there is never replaced, and only its owner can read the new one.

    Args:
        files: Workplaces, workers and jobs, in any order.
        out: Where to write it.

    Examples:
        >>> files = ["data/workplace.parquet", "data/worker.parquet", "data/job.parquet"]
        >>> draft = eree.draft_schema(files, "draft.toml")
        >>> draft.file.name
        'draft.toml'
    """
    paths = [Path(file) for file in files]
    target = new_path(out if out is not None else paths[0].parent / SCHEMA_FILE) if paths else None
    with closing(DuckEngine()) as engine:
        looked_at = [found for path in paths for found in _looked_at(path, engine)]
        if target is None or len(paths) > 3 or not 3 <= len(looked_at) <= MOST_TABLES:
            raise Refusal(
                "name three files: of workplaces, of workers and of jobs, in any order; or a DuckDB"
                f" file that holds these tables, and no more than {MOST_TABLES}"
            )
        for number, file in enumerate(looked_at):
            engine.load(f"file_{number}", file.source)
        roles = _roles(looked_at, engine)
        names = {table: f"file_{looked_at.index(file)}" for table, file in roles.files.items()}
        ignored = dict[Table, tuple[str, ...]]()
        text = "\n".join(_lines(roles, names, engine, target.parent, ignored))
    with appearing_file(target) as partial:
        partial.write_text(text, encoding="utf-8")
    return Draft(target, {table: str(file) for table, file in roles.files.items()}, ignored)


def _looked_at(path: Path, engine: DuckEngine) -> Iterator[_File]:
    """A file in the way of writing CSV that splits its first row, or the tables of a database."""
    if path.is_file() and is_duckdb(path):
        try:
            for name in engine.names(path):
                yield _File(path, duckdb_source(engine, path.absolute(), name))
        except Unusable as unusable:
            raise Faulty([Fault(path.name, path.name, "", unusable.rule)]) from None
        return
    faults = []
    for separator, encoding in product(("", ";", "|", "\t"), ("utf-8", "latin-1")):
        dialect = Dialect(separator, "latin-1" if encoding == "latin-1" else "utf-8")
        source, found = inspect_source(path.parent.absolute(), path.name, path.name, dialect)
        if source is not None and not found and len(source.columns) > 1:
            yield _File(path, source, dialect)
            return
        faults += found
    if faults:
        raise Faulty(faults[:1])
    raise Refusal(f"{path.name} has one column; no separator of ',', ';', '|' and tab splits it")


def _roles(files: Sequence[_File], engine: Engine) -> _Roles:
    """The one way in which the files are workplaces, workers and jobs."""
    found = []
    unique = {
        (number, column): _unique(engine, f"file_{number}", file.source, column)
        for number, file in enumerate(files)
        for column in file.source.columns
        if any(column in other.source.columns for other in files if other is not file)
    }
    for one, other, job in permutations(range(len(files)), 3):
        shared = [
            [
                c
                for c in files[n].source.columns
                if unique.get((n, c)) and c in files[job].source.columns
            ]
            for n in (one, other)
        ]
        for workplace, worker in product(*shared):
            # of two keyed tables that of workplaces has the fewer rows
            if workplace != worker and unique[one, workplace] < unique[other, worker]:
                tables: dict[Table, _File] = {
                    "workplace": files[one],
                    "worker": files[other],
                    "job": files[job],
                }
                found.append(_Roles(tables, workplace, worker))
    if len(found) != 1:
        raise Refusal(
            "which file is which cannot be told: the jobs must name workplaces and workers by"
            " columns that are called alike in their own files and are unique there, and there"
            " must be fewer workplaces than workers; rename columns, or write schema.toml yourself"
        )
    return found[0]


def _unique(engine: Engine, view: str, source: Source, column: str) -> int:
    """The number of rows, if a column is different in all of them; else 0."""
    name = quoted(column)
    asked = f"select count(*), count(distinct {name}), count({plain(source, column)}) from {view}"
    rows, distinct, held = (column[0].as_py() for column in engine.query(asked).read_all().columns)
    return int(rows) if rows == distinct == held else 0


def _lines(
    roles: _Roles,
    views: dict[Table, str],
    engine: Engine,
    home: Path,
    ignored: dict[Table, tuple[str, ...]],
) -> Iterator[str]:
    yield _HEAD
    taken: set[str] = set()
    keys: dict[Table, tuple[tuple[str, str], ...]] = {
        "workplace": (("key", roles.workplace),),
        "worker": (("key", roles.worker),),
        "job": (("worker", roles.worker), ("workplace", roles.workplace)),
    }
    for table, file in roles.files.items():
        source, links = file.source, {column for _, column in keys[table]}
        kept: dict[str, list[Value] | None] = {}
        for column, kind in source.columns.items():
            name, usable = column.casefold(), kind in ("string", "integer")
            if column in links:
                continue
            if not usable or name in taken or name in RESERVED or column.startswith("_"):
                ignored[table] = (*ignored.get(table, ()), column)
                continue
            values = None if table == "workplace" else _values(engine, views[table], source, column)
            if values == []:
                ignored[table] = (*ignored.get(table, ()), column)
                continue
            taken.add(name)
            kept[column] = values
        yield f"[{table}]"
        place = _text(os.path.relpath(file.path, home))
        named = f"source = {{ duckdb = {place}, table = {_text(source.name)} }}"
        yield named if source.name else f"file = {place}"
        if file.dialect.separator:
            yield f"separator = {_text(file.dialect.separator)}"
        if file.dialect.encoding != "utf-8":
            yield f"encoding = {_text(file.dialect.encoding)}"
        yield from (f"{setting} = {_text(column)}" for setting, column in keys[table])
        if table == "job":
            yield '# primary = "…"          # the column that marks the jobs that count'
            yield "# most_per_worker = 1    # how many of them a worker has at most"
        if table in ignored:
            yield f"ignore = [{', '.join(map(_text, ignored[table]))}]  # no codes, or names in use"
        for column, values in kept.items():
            yield f"[{table}.attributes.{_text(column)}]"
            if table == "workplace":
                yield "confidential = true  # take this line out if everybody may know it"
            if values is not None:
                yield "# found in confidential rows: replace by the public code list"
                yield f"values = [{', '.join(map(_text, values))}]"
        yield ""


def _values(engine: Engine, view: str, source: Source, column: str) -> list[Value]:
    """The values of a column in order; none where they are too many to be codes."""
    held = plain(source, column)
    asked = (
        f"select distinct {held} as _v from {view} where {held} is not null limit {MOST_VALUES + 1}"
    )
    found = engine.query(asked).read_all()["_v"].to_pylist()
    values = [value for value in found if value is not None and value != ""]
    return sorted(values) if len(values) <= MOST_VALUES else []


def _text(value: Value) -> str:
    """A value in TOML."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
