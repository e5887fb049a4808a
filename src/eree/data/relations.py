"""The three tables as SQL sub-selects with settled names and types.

Files come as they are; here every column gets the type that the schema says.  Columns of eree's
own start with an underscore, which no attribute may, so that no name of the schema can clash with
them.  SQL texts hold names only: values travel in small tables of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from eree.data.sources import Source
from eree.policy.schema import Kind, Owner, Schema


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def plain(source: Source, name: str) -> str:
    """A column as its file holds it; in CSV an empty field is a missing value."""
    column = quoted(name)
    return f"nullif({column}, '')" if source.format == "csv" else column


def typed(source: Source, name: str, kind: Kind | None) -> str:
    """A column in the type that the schema declares for it."""
    column = plain(source, name)
    as_number = source.format == "csv" and kind == "integer"
    return f"try_cast({column} as bigint)" if as_number else column


def key_kind(schema: Schema, sources: Mapping[str, Source], owner: Owner) -> Kind:
    """The type in which a key and the jobs' reference to it are compared.

    A CSV file has no types, so its ids follow the other file's: numbers only where those are.
    """
    sides = ((sources.get(owner), schema.key(owner)), (sources.get("job"), schema.link(owner)))
    kinds = {s.columns.get(c) for s, c in sides if s is not None and s.format == "parquet"}
    return "integer" if kinds == {"integer"} else "string"


def keyed_relation(schema: Schema, sources: Mapping[str, Source], owner: Owner) -> str:
    """Workplaces or workers: `_workplace` or `_worker`, and their attributes."""
    source = sources[owner]
    columns = [
        f"{typed(source, schema.key(owner), key_kind(schema, sources, owner))} as _{owner}"
    ] + [
        f"{typed(source, a.name, a.kind)} as {quoted(a.name)}"
        for a in schema.of_owner(owner, groups=False)
    ]
    return f"select {', '.join(columns)} from {owner}_file"


def job_relation(schema: Schema, sources: Mapping[str, Source]) -> str:
    """The jobs that count: `_worker` and `_workplace`."""
    source, job = sources["job"], schema.job
    columns = [
        f"{typed(source, job.worker, key_kind(schema, sources, 'worker'))} as _worker",
        f"{typed(source, job.workplace, key_kind(schema, sources, 'workplace'))} as _workplace",
    ]
    kept = f" where {primary(source, job.primary)}" if job.primary else ""
    return f"select {', '.join(columns)} from job_file{kept}"


def link_relation(schema: Schema, sources: Mapping[str, Source], owner: Owner, part: str) -> str:
    """How often each `_id` occurs: `_rows` as a key, `_jobs` among the jobs, `_main` that count.

    `part` is a condition on `_id`; it stands next to the files, so that only that part is read.
    """
    source, job, kind = sources["job"], schema.job, key_kind(schema, sources, owner)
    by_worker = job.primary is not None and owner == "worker"
    main = f"case when {primary(source, job.primary or '')} then 1 end" if by_worker else "1"
    keys = f"select {typed(sources[owner], schema.key(owner), kind)} as _id from {owner}_file"
    jobs = f"select {typed(source, schema.link(owner), kind)} as _id, {main} as _main from job_file"
    none = "cast(null as int)"
    return (
        "select _id, count(_row) as _rows, count(_job) as _jobs,"
        f" count({'_main' if by_worker else '_job'}) as _main from ("
        f"select _id, 1 as _row, {none} as _job, {none} as _main from ({keys}) as k where {part}"
        " union all"
        f" select _id, {none}, 1, _main from ({jobs}) as j where {part}"
        ") as r group by _id"
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
