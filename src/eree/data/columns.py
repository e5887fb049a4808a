"""The columns that the files of a schema must have, what is wrong with them, and they in SQL.

Files come as they are; sub-selects give every column the settled name and the type that the schema
says.  Columns of eree's own start with an underscore, which no attribute may, so that no name of
the schema can clash with them.  SQL texts hold names only: values travel in small tables of their
own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from eree.data.sources import ColumnKind, Source
from eree.errors import Fault
from eree.policy.schema import (
    Attribute,
    Classes,
    JobTable,
    KeyedTable,
    Kind,
    Owner,
    Schema,
    Table,
)

OWNERS: tuple[Owner, Owner] = ("workplace", "worker")
TABLES: tuple[Table, ...] = ("workplace", "worker", "job")
EITHER: frozenset[ColumnKind] = frozenset(("string", "integer"))
WORDS: Mapping[ColumnKind, str] = {
    "string": "texts",
    "integer": "integers",
    "decimal": "decimals",
    "date": "dates",
    "boolean": "true or false",
    "other": "values of another type",
}
#: Types of numbers that are not exact, in the words of Arrow and of PostgreSQL.
_FLOATING = {"halffloat", "float", "double", "float4", "float8"}


def files_of(schema: Schema) -> dict[str, str]:
    """The file of each table, the public references after the three linked ones."""
    files = {
        "workplace": schema.workplace.file,
        "worker": schema.worker.file,
        "job": schema.job.file,
    } | {f"reference.{r.name}": r.file for r in schema.references.values()}
    return {table: file for table, file in files.items() if file}


def wanted_columns(schema: Schema) -> dict[str, dict[str, frozenset[ColumnKind]]]:
    """The columns that each table must have, and the kinds of values each may hold."""
    job = schema.job
    wanted: dict[str, dict[str, frozenset[ColumnKind]]] = {
        "workplace": {schema.workplace.key: EITHER},
        "worker": {schema.worker.key: EITHER},
        "job": {job.worker: EITHER, job.workplace: EITHER},
    }
    if job.primary:
        wanted["job"][job.primary] = frozenset(("boolean", "integer"))
    if job.greatest:
        wanted["job"][job.greatest] = frozenset(("integer",))
    for table in TABLES:
        wanted[table] |= {a.name: _kinds(a) for a in schema.columns_of(table)}
    for reference in schema.references.values():
        attribute = schema.attributes.get(reference.key)
        kind = attribute.kind if attribute else None
        kinds = EITHER if kind is None else frozenset[ColumnKind]((kind,))
        wanted[f"reference.{reference.name}"] = {reference.key: kinds}
    return {
        table: {column: kinds for column, kinds in columns.items() if column}
        for table, columns in wanted.items()
    }


def _kinds(attribute: Attribute) -> frozenset[ColumnKind]:
    """The kinds of values that the column of an attribute may hold."""
    if attribute.classes is not None:
        return frozenset(("date",) if attribute.classes.of_dates else ("integer", "decimal"))
    return EITHER if attribute.kind is None else frozenset((attribute.kind,))


def usable_columns(schema: Schema, sources: Mapping[str, Source]) -> set[tuple[str, str]]:
    """The wanted columns that are there and hold what they should, so that rows can be checked."""
    usable = {
        (table, column)
        for table, wanted in wanted_columns(schema).items()
        for column, kinds in wanted.items()
        if table in sources
        and _holds(sources[table], column, kinds)
        and not _unlike_missing(sources[table], column)
    }
    return usable - {("job", schema.link(owner)) for owner in _unlike_ids(schema, sources)}


def column_faults(schema: Schema, sources: Mapping[str, Source]) -> Iterator[Fault]:
    """Columns that are missing, not declared, or of the wrong type."""
    files, linked = files_of(schema), {"workplace", "worker", "job"}
    for table, wanted in wanted_columns(schema).items():
        if table not in sources:
            continue
        source, file = sources[table], files[table]
        held = source.columns.keys() - source.folders.keys()
        if source.format == "csv" and not wanted.keys() & held:
            # What stands in the first row may be a row of data: none of it is quoted.
            rule = "the first row names none of the declared columns; the header may be missing"
            yield Fault(table, file, "", rule)
            continue
        for name, kinds in wanted.items():
            if name not in source.columns:
                yield Fault(table, file, name, "the column is missing")
            elif not _holds(source, name, kinds):
                yield Fault(table, file, name, _unlike(source, name, kinds, schema))
            elif _unlike_missing(source, name):
                rule = (
                    f"the column holds {WORDS[source.columns[name]]}, and missing is none of them"
                )
                yield Fault(table, file, name, rule)
        if table in linked:  # a public reference may say more than we ask
            yield from _undeclared(schema, table, source, file)
    for owner in _unlike_ids(schema, sources):
        ids = WORDS[sources["job"].columns[schema.link(owner)]]
        keys = WORDS[sources[owner].columns[schema.key(owner)]]
        rule = f"the ids are of another type than the key of {owner}: {ids}, not {keys}"
        yield Fault("job", files["job"], schema.link(owner), rule)


def resolved(schema: Schema, sources: Mapping[str, Source]) -> Schema:
    """The schema with the type of every attribute settled by its column."""

    def settle(attribute: Attribute) -> Attribute:
        source = sources.get(attribute.table)
        if attribute.kind is not None or source is None or attribute.of is not None:
            return attribute
        held = source.columns.get(attribute.name)
        kind: Kind = "integer" if held == "integer" else "string"
        return replace(attribute, kind=kind)

    return replace(schema, attributes={n: settle(a) for n, a in schema.attributes.items()})


def _unlike(source: Source, name: str, kinds: frozenset[ColumnKind], schema: Schema) -> str:
    """What a column holds, what it should, and what to do about it."""
    held, other = source.columns[name], source.others.get(name, "")
    asked = " or ".join(sorted(WORDS[kind] for kind in kinds))
    if other in _FLOATING:
        pandas = ", or from texts by .map(Decimal)" if "decimal" in kinds else ""
        return (
            f"the column holds floating-point numbers ({other}); make them {asked} (in pandas by"
            f" .astype('Int64'){pandas})"
        )
    found = f"{WORDS[held]} ({other})" if other else WORDS[held]
    do = f"; make it {asked}, or declare {found}"
    either = name in schema.attributes and {held, *kinds} == EITHER
    return f"the column holds {found}, not {asked}{do * either}"


def _undeclared(schema: Schema, table: str, source: Source, file: str) -> Iterator[Fault]:
    wanted, understood, ignored = wanted_columns(schema)[table], False, tuple[str, ...]()
    match schema.declared(table):
        case KeyedTable(key=key, ignore=ignored):
            understood = bool(key)
        case JobTable(worker=worker, workplace=workplace, ignore=ignored):
            understood = bool(worker and workplace)
    for number, name in enumerate(source.columns if understood else (), start=1):
        if name not in wanted and name not in ignored:
            # A CSV file's first row may hold data, after a lost line break or with rows and columns
            # exchanged: its columns go by number, and nothing is quoted.
            shown = f"column {number}" if source.format == "csv" else name
            rule = f"the column is not declared; declare it or list it in {table}.ignore"
            yield Fault(table, file, shown, rule)
    for name in ignored:
        if name not in source.columns:
            yield Fault(table, file, name, "the column to ignore is missing")


def _holds(source: Source, column: str, kinds: frozenset[ColumnKind]) -> bool:
    """Whether a column is there and may hold such values; a CSV file may hold any."""
    held = source.columns.get(column)
    return held is not None and (source.untyped(column) or held in kinds)


def _unlike_missing(source: Source, column: str) -> bool:
    """Whether the value that missing fields shall have is of another type than the column's."""
    missing = source.missing.get(column)
    if missing is None or source.untyped(column) or column not in source.columns:
        return False
    return isinstance(missing, int) != (source.columns[column] == "integer")


def _unlike_ids(schema: Schema, sources: Mapping[str, Source]) -> list[Owner]:
    """The tables whose key is of one type in their own file and of another in the jobs' file."""
    unlike: list[Owner] = []
    for owner in OWNERS:
        sides = ((owner, schema.key(owner)), ("job", schema.link(owner)))
        kinds = {
            sources[table].columns.get(column)
            for table, column in sides
            if table in sources and not sources[table].untyped(column)
        }
        if kinds >= EITHER:
            unlike.append(owner)
    return unlike


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def plain(source: Source, name: str) -> str:
    """A column as its file holds it; in CSV an empty field is a missing value.

    Where a value is declared for missing ones it stands here; it holds no quotes or backslashes.
    """
    column = quoted(name)
    if source.untyped(name):
        column = f"nullif({column}, '')"
    missing = source.missing.get(name)
    if missing is None:
        return column
    text = isinstance(missing, str) or source.untyped(name)
    value = f"'{missing}'" if text else str(missing)
    return f"coalesce({column}, {value})"


def as_declared(schema: Schema, table: str, source: Source) -> Source:
    """A source that knows which values its missing fields, its numbers and its dates have."""
    own = [a for a in schema.attributes.values() if a.table == table and a.of is None]
    missing = {a.name: a.missing for a in own if a.missing is not None}
    classes = {a.name: a.classes for a in own if a.classes is not None}
    return replace(source, missing=missing, classes=classes)


def as_number(held: str) -> str:
    """A number without rounding; null for a text that is none."""
    return f"try_cast({held} as decimal(38,10))"


def as_date(held: str) -> str:
    """A date; null for a text that is none."""
    return f"try_cast({held} as date)"


def _sorted(source: Source, name: str, classes: Classes) -> str:
    """The value that a number or a date is sorted into; an empty text, which none is, if into none.

    The names of values hold no quotes and no backslashes.
    """
    held = (as_date if classes.of_dates else as_number)(plain(source, name))
    if classes.by_year:
        return f"cast(extract(year from {held}) as bigint)"
    begins = [(as_date if classes.of_dates else as_number)(f"'{low}'") for low in classes.least]
    each = list(zip(begins, classes.values, strict=True))[::-1]
    cases = " ".join(f"when {held} >= {low} then '{value}'" for low, value in each)
    return f"case {cases} when {held} is not null then '' end"


def typed(source: Source, name: str, kind: Kind | None) -> str:
    """A column in the type that the schema declares for it."""
    classes = source.classes.get(name)
    if classes is not None:
        return _sorted(source, name, classes)
    column = plain(source, name)
    integer = source.untyped(name) and kind == "integer"
    return f"try_cast({column} as bigint)" if integer else column


def key_kind(schema: Schema, sources: Mapping[str, Source], owner: Owner) -> Kind:
    """The type in which a key and the jobs' reference to it are compared.

    A CSV file has no types, so its ids follow the other file's: numbers only where those are.
    """
    sides = ((sources.get(owner), schema.key(owner)), (sources.get("job"), schema.link(owner)))
    kinds = {s.columns.get(c) for s, c in sides if s is not None and not s.untyped(c)}
    return "integer" if kinds == {"integer"} else "string"


def keyed_relation(schema: Schema, sources: Mapping[str, Source], owner: Owner) -> str:
    """Workplaces or workers: `_workplace` or `_worker`, and their attributes."""
    source = sources[owner]
    key = f"{typed(source, schema.key(owner), key_kind(schema, sources, owner))} as _{owner}"
    columns = [key, *_attributes(schema, source, owner)]
    return f"select {', '.join(columns)} from {owner}_file"


def _attributes(schema: Schema, source: Source, table: Table) -> list[str]:
    """The attributes that a table holds, each under its name."""
    columns = schema.columns_of(table)
    return [f"{typed(source, a.name, a.kind)} as {quoted(a.name)}" for a in columns]


def job_relation(schema: Schema, sources: Mapping[str, Source]) -> str:
    """The jobs that count: `_worker` and `_workplace`, and their attributes.

    Of jobs with the same greatest value the one at the first workplace is chosen, and of several
    there the one with the first attributes; those that are still alike count alike.
    """
    source, job = sources["job"], schema.job
    columns = [
        f"{typed(source, job.worker, key_kind(schema, sources, 'worker'))} as _worker",
        f"{typed(source, job.workplace, key_kind(schema, sources, 'workplace'))} as _workplace",
        *_attributes(schema, source, "job"),
    ]
    if not job.greatest:
        kept = f" where {primary(source, job.primary)}" if job.primary else ""
        return f"select {', '.join(columns)} from job_file{kept}"
    most = f"{typed(source, job.greatest, 'integer')} as _greatest"
    names = ["_worker", "_workplace", *(quoted(a.name) for a in schema.columns_of("job"))]
    order = ", ".join(["_greatest desc", *names[1:]])
    return (
        f"select {', '.join(names)} from ("
        f"select *, row_number() over (partition by _worker order by {order}) as _place"
        f" from (select {', '.join([*columns, most])} from job_file) as j"
        ") as chosen where _place = 1"
    )


def link_relation(schema: Schema, sources: Mapping[str, Source], owner: Owner, part: str) -> str:
    """How often each `_id` occurs: `_rows` as a key, `_jobs` among the jobs, `_main` that count.

    Where a rule chooses, one job of a worker counts if there are any.

    `part` is a condition on `_id`; it stands next to the files, so that only that part is read.
    Workers have few rows each, so that Spark gains nothing by counting before it shuffles.
    """
    source, job, kind = sources["job"], schema.job, key_kind(schema, sources, owner)
    by_worker = job.primary is not None and owner == "worker"
    held = "least(count(_job), 1)" if job.greatest and owner == "worker" else "count(_job)"
    main = f"case when {primary(source, job.primary or '')} then 1 end" if by_worker else "1"
    keys = f"select {typed(sources[owner], schema.key(owner), kind)} as _id from {owner}_file"
    jobs = f"select {typed(source, schema.link(owner), kind)} as _id, {main} as _main from job_file"
    none, hint = "cast(null as int)", "/*+ repartition(_id) */ " if owner == "worker" else ""
    return (
        "select _id, count(_row) as _rows, count(_job) as _jobs,"
        f" {'count(_main)' if by_worker else held} as _main from ("
        f"select {hint}* from (select _id, 1 as _row, {none} as _job, {none} as _main"
        f" from ({keys}) as k where {part}"
        " union all"
        f" select _id, {none}, 1, _main from ({jobs}) as j where {part}"
        ") as u) as r group by _id"
    )


def primary(source: Source, column: str) -> str:
    """Whether a job is its worker's primary one: true, 1, or in CSV the text of either."""
    name = quoted(column)
    kind = source.columns[column]
    if kind == "boolean":
        return name
    if kind == "integer":
        return f"{name} = 1"
    return f"lower({name}) in ('1', 'true')"
