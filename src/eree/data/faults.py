"""Everything that can be wrong with linked tables, found in one go and counted, never quoted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pyarrow as pa

from eree.data.engine import Engine
from eree.data.relations import job_relation, key_kind, keyed_relation, plain, quoted, typed
from eree.data.sources import Source
from eree.errors import DamagedFile, Fault
from eree.policy.schema import Attribute, JobTable, KeyedTable, Kind, Owner, Reference, Schema

OWNERS: tuple[Owner, Owner] = ("workplace", "worker")


def files_of(schema: Schema) -> dict[str, str]:
    """The file of each table, the public references after the three linked ones."""
    linked = {
        "workplace": schema.workplace.file,
        "worker": schema.worker.file,
        "job": schema.job.file,
    }
    return linked | {f"reference.{r.name}": r.file for r in schema.references.values()}


def column_faults(schema: Schema, sources: Mapping[str, Source]) -> Iterator[Fault]:
    """Columns that are missing, not declared, of the wrong type or alike but for case."""
    for table, wanted in _wanted(schema).items():
        if table not in sources:
            continue
        source, file = sources[table], files_of(schema)[table]
        ignored = _ignored(schema, table)
        for name, kinds in wanted.items():
            found = source.columns.get(name)
            if found is None:
                yield Fault(table, file, name, "the column is missing")
            elif found not in kinds and source.format == "parquet":
                yield Fault(table, file, name, f"the column holds {found} values, not {_or(kinds)}")
        if table.startswith("reference."):
            continue  # a public table may say more than we ask
        for name in source.columns:
            if name not in wanted and name not in ignored:
                rule = f"the column is not declared; declare it or list it in {table}.ignore"
                yield Fault(table, file, name, rule)
        for name in ignored:
            if name not in source.columns:
                yield Fault(table, file, name, "the column to ignore is missing")
        if len({name.casefold() for name in source.columns}) < len(source.columns):
            yield Fault(table, file, "", "two columns have names that differ only in case")
    for owner, link in (("workplace", schema.job.workplace), ("worker", schema.job.worker)):
        kinds_met = {
            sources[t].columns[c]
            for t, c in ((owner, _key(schema, owner)), ("job", link))
            if t in sources and sources[t].format == "parquet" and c in sources[t].columns
        }
        if len(kinds_met) > 1:
            rule = f"the ids are of another type than the key of {owner}"
            yield Fault("job", schema.job.file, link, rule)


def resolved(schema: Schema, sources: Mapping[str, Source]) -> Schema:
    """The schema with the type of every attribute settled by its column."""

    def settle(attribute: Attribute) -> Attribute:
        source = sources.get(attribute.owner)
        if attribute.kind is not None or source is None:
            return attribute
        kind: Kind = "integer" if source.columns.get(attribute.name) == "integer" else "string"
        return replace(attribute, kind=kind)

    return replace(schema, attributes={n: settle(a) for n, a in schema.attributes.items()})


class RowChecks:
    """The checks that read rows, in steps, so that progress can be shown.

    A column in `unusable` was found wrong already and no query touches it; a table whose file
    turns out to be damaged is left out of the steps that follow.
    """

    def __init__(
        self,
        schema: Schema,
        sources: Mapping[str, Source],
        engine: Engine,
        unusable: Collection[tuple[str, str]],
    ) -> None:
        self.schema, self.sources, self.engine = schema, sources, engine
        self.usable = {
            (table, column)
            for table, wanted in _wanted(schema).items()
            if table in sources
            for column in wanted
            if (table, column) not in unusable
        }
        self.rows: dict[str, int] = {}
        for table, source in sources.items():
            engine.load(_file_name(schema, table), source)
        for attribute in schema.attributes.values():
            if attribute.values is not None:
                values = list(attribute.members) if attribute.of else list(attribute.values)
                engine.load(_domain_name(schema, attribute), pa.table({"_value": values}))

    def steps(self) -> list[tuple[str, Callable[[], list[Fault]]]]:
        """What to run, in order, each with a name to show."""
        schema = self.schema
        steps: list[tuple[str, Callable[[], list[Fault]]]] = [
            (f"reading {table}", partial(self._read, table)) for table in self.sources
        ]
        for attribute in schema.attributes.values():
            grouped = schema.attributes.get(attribute.of or "")
            if attribute.values is not None and (grouped is None or grouped.values is None):
                steps.append((f"values of {attribute.name}", partial(self._undeclared, attribute)))
        steps += [(f"jobs of each {owner}", partial(self._links, owner)) for owner in OWNERS]
        steps += [
            (f"hierarchy {name}", partial(self._nesting, fine, coarse))
            for name, levels in schema.hierarchies.items()
            for fine, coarse in pairwise(levels)
        ]
        return steps + [
            (f"reference {r.name}", partial(self._reference, r)) for r in schema.references.values()
        ]

    def _has(self, *columns: tuple[str, str]) -> bool:
        return all(column in self.usable for column in columns)

    def _row(self, sql: str) -> dict[str, int]:
        """The one row of whole numbers that a check asks for."""
        row = self.engine.query(sql).read_all().to_pylist()[0]
        return {name: int(value or 0) for name, value in row.items()}

    def _fault(self, table: str, column: str, rule: str, rows: int | None = None) -> Fault:
        return Fault(table, files_of(self.schema)[table], column, rule, rows)

    def _read(self, table: str) -> list[Fault]:
        """Every usable column to its end: empty tables, missing values, wrong types."""
        source = self.sources[table]
        columns = [c for c in _wanted(self.schema)[table] if (table, c) in self.usable]
        asked = ["count(*) as _rows"]
        for i, column in enumerate(columns):
            held = plain(source, column)
            cast = typed(source, column, self._declared_kind(table, column))
            asked.append(f"sum(case when {held} is null then 1 else 0 end) as _null{i}")
            asked.append(
                # a number is written plainly: no blanks, no leading zeros, no fraction
                f"sum(case when {held} is not null and coalesce(cast({cast} as string), '')"
                f" <> {held} then 1 else 0 end) as _wrong{i}"
                if cast != held
                else f"max(length(cast({held} as string))) as _seen{i}"  # so that it is read
            )
        try:
            found = self._row(f"select {', '.join(asked)} from {_file_name(self.schema, table)}")
        except DamagedFile:
            self.usable -= {(table, c) for c in columns}
            return [self._fault(table, "", "the file is damaged and cannot be read to its end")]
        self.rows[table] = found["_rows"]
        if not found["_rows"]:
            return [self._fault(table, "", "the table is empty")]
        faults = []
        for i, column in enumerate(columns):
            if rows := found[f"_null{i}"]:
                faults.append(self._fault(table, column, "the value is missing", rows))
            if rows := found.get(f"_wrong{i}", 0):
                rule = "the value is not a plainly written whole number"
                faults.append(self._fault(table, column, rule, rows))
        return faults + (self._primary_values(source) if table == "job" else [])

    def _declared_kind(self, table: str, column: str) -> Kind | None:
        if table == "job":
            if column == self.schema.job.primary:
                return None
            owner: Owner = "worker" if column == self.schema.job.worker else "workplace"
            return key_kind(self.schema, self.sources, owner)
        if table in OWNERS and column == _key(self.schema, table):
            return key_kind(self.schema, self.sources, table)
        attribute = self.schema.attributes.get(column)
        return attribute.kind if attribute else None

    def _primary_values(self, source: Source) -> list[Fault]:
        column = self.schema.job.primary
        if column is None or ("job", column) not in self.usable:
            return []
        if source.columns[column] == "boolean":
            return []
        text = f"lower(cast({quoted(column)} as string))"
        found = self._row(
            f"select count(*) as _wrong from job_file where {text} <> ''"
            f" and {text} not in ('0', '1', 'true', 'false')"
        )
        rule = "must mark the primary job by true or false, or 1 or 0"
        return [self._fault("job", column, rule, found["_wrong"])] if found["_wrong"] else []

    def _undeclared(self, attribute: Attribute) -> list[Fault]:
        """Rows whose value is not in the declared list (or in no group)."""
        column = attribute.of or attribute.name
        if not self._has((attribute.owner, column)):
            return []
        source = self.sources[attribute.owner]
        held = typed(source, column, self.schema.attributes[column].kind)
        found = self._row(
            f"select sum(_n) as _rows from (select {held} as _held, count(*) as _n"
            f" from {attribute.owner}_file group by {held}) as h"
            f" where _held is not null and _held not in"
            f" (select _value from {_domain_name(self.schema, attribute)})"
        )
        rule = (
            f"the value belongs to no {attribute.name}"
            if attribute.of
            else "the value is not declared"
        )
        return (
            [self._fault(attribute.owner, column, rule, found["_rows"])] if found["_rows"] else []
        )

    def _links(self, owner: Owner) -> list[Fault]:
        """Keys that repeat, jobs that point nowhere, workers without exactly one job."""
        job = self.schema.job
        key, link = _key(self.schema, owner), job.worker if owner == "worker" else job.workplace
        owned, linked = (
            self._has((owner, key)),
            self._has(("job", job.worker), ("job", job.workplace)),
        )
        if job.primary and not self._has(("job", job.primary)):
            linked = False
        if not owned:
            return []
        keys = keyed_relation(self.schema, self.sources, owner, bare=True)
        rows = f"select _{owner} as _id, 1 as _row, 0 as _job from ({keys}) as k"
        if linked:
            jobs = job_relation(self.schema, self.sources)
            rows += f" union all select _{owner}, 0, 1 from ({jobs}) as j"
        found = self._row(
            "select sum(case when _rows > 1 then _rows - 1 else 0 end) as _repeated,"
            " sum(case when _rows = 0 then _jobs else 0 end) as _orphans,"
            " sum(case when _rows > 0 and _jobs = 0 then 1 else 0 end) as _idle,"
            " sum(case when _rows > 0 and _jobs > 1 then 1 else 0 end) as _several"
            f" from (select _id, sum(_row) as _rows, sum(_job) as _jobs from ({rows}) as r"
            " where _id is not null group by _id) as g"
        )
        faults = []
        if found["_repeated"]:
            faults.append(
                self._fault(owner, key, "the key repeats an earlier row", found["_repeated"])
            )
        if not linked or not self.rows.get(owner) or not self.rows.get("job"):
            return faults  # without both tables the links say nothing
        if found["_orphans"]:
            faults.append(
                self._fault("job", link, f"the {owner} does not exist", found["_orphans"])
            )
        if owner == "worker" and found["_idle"]:
            rule = "the worker has no primary job" if job.primary else "the worker has no job"
            faults.append(self._fault(owner, key, rule, found["_idle"]))
        if owner == "worker" and found["_several"]:
            rule = (
                "the worker has more than one primary job"
                if job.primary
                else "the worker has more than one job; name the column that marks the primary one"
                " as job.primary"
            )
            faults.append(self._fault(owner, key, rule, found["_several"]))
        return faults

    def _nesting(self, fine: str, coarse: str) -> list[Fault]:
        """Rows of a finer value that lies in two coarser ones."""
        columns = [self.schema.column(name) for name in (fine, coarse)]
        if not self._has(*(("workplace", c.name) for c in columns)):
            return []
        if any(self.schema.attributes[name].of for name in (fine, coarse)):
            return []
        held = [typed(self.sources["workplace"], c.name, c.kind) for c in columns]
        found = self._row(
            "select sum(_n) as _rows from (select _fine, sum(_n) as _n, count(*) as _parents from"
            f" (select {held[0]} as _fine, {held[1]} as _coarse, count(*) as _n from workplace_file"
            f" group by {held[0]}, {held[1]}) as p where _fine is not null and _coarse is not null"
            " group by _fine) as f where _parents > 1"
        )
        rule = f"the {fine} lies in more than one {coarse}"
        return [self._fault("workplace", fine, rule, found["_rows"])] if found["_rows"] else []

    def _reference(self, reference: Reference) -> list[Fault]:
        """Keys of a public table that repeat, and workplaces that it does not know."""
        table, key = f"reference.{reference.name}", reference.key
        if not self._has((table, key)):
            return []
        kind = self.schema.attributes[key].kind
        value = typed(self.sources[table], key, kind)
        listed = f"select {value} as _value from {_file_name(self.schema, table)}"
        found = self._row(
            "select sum(_n - 1) as _repeated from"
            f" (select _value, count(*) as _n from ({listed}) as v where _value is not null"
            " group by _value) as g"
        )
        faults = []
        if found["_repeated"]:
            faults.append(
                self._fault(table, key, "the key repeats an earlier row", found["_repeated"])
            )
        if self._has(("workplace", key)):
            held = typed(self.sources["workplace"], key, kind)
            found = self._row(
                f"select sum(_n) as _rows from (select {held} as _held, count(*) as _n"
                f" from workplace_file group by {held}) as h where _held is not null"
                f" and _held not in (select _value from ({listed}) as v where _value is not null)"
            )
            if found["_rows"]:
                rule = f"the value is not in {reference.file}"
                faults.append(self._fault("workplace", key, rule, found["_rows"]))
        return faults


def _wanted(schema: Schema) -> dict[str, dict[str, frozenset[str]]]:
    """The columns that each table must have, and the kinds of values each may hold."""
    both = frozenset(("string", "integer"))
    wanted: dict[str, dict[str, frozenset[str]]] = {}
    for owner in OWNERS:
        wanted[owner] = {_key(schema, owner): both} | {
            a.name: both if a.kind is None else frozenset((a.kind,))
            for a in schema.of_owner(owner, groups=False)
        }
    job = schema.job
    wanted["job"] = {job.worker: both, job.workplace: both}
    if job.primary:
        wanted["job"][job.primary] = frozenset(("boolean", "integer"))
    for reference in schema.references.values():
        kind = schema.attributes[reference.key].kind
        wanted[f"reference.{reference.name}"] = {
            reference.key: both if kind is None else frozenset((kind,))
        }
    return wanted


def _ignored(schema: Schema, table: str) -> tuple[str, ...]:
    linked: dict[str, KeyedTable | JobTable] = {
        "workplace": schema.workplace,
        "worker": schema.worker,
        "job": schema.job,
    }
    return linked[table].ignore if table in linked else ()


def _key(schema: Schema, owner: str) -> str:
    return (schema.workplace if owner == "workplace" else schema.worker).key


def _file_name(schema: Schema, table: str) -> str:
    return f"file_{list(files_of(schema)).index(table)}" if "." in table else f"{table}_file"


def _domain_name(schema: Schema, attribute: Attribute) -> str:
    return f"domain_{list(schema.attributes).index(attribute.name)}"


def _or(kinds: Iterable[str]) -> str:
    return " or ".join(sorted(kinds))
