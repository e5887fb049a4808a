"""The checks that read rows: what is wrong in them is counted by the engine and never quoted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise

import pyarrow as pa

from eree.data.columns import (
    OWNERS,
    TABLES,
    as_date,
    files_of,
    key_kind,
    plain,
    typed,
    usable_columns,
    wanted_columns,
)
from eree.data.columns import link_relation as links
from eree.data.engine import DuckEngine, Engine
from eree.data.sources import DAMAGED, Source, readable
from eree.errors import DamagedFile, EngineFailure, Fault
from eree.policy.codes import NUMBER
from eree.policy.schema import Kind, Owner, Reference, Schema

#: Dense whole-number ids are looked at in ranges of this many, which DuckDB counts in an array:
#: less time than one great hash table, and memory that does not grow with the data.
SLICE = 1 << 21


class RowChecks:
    """The checks that read rows, in steps, so that progress can be shown.

    Only usable columns are looked at: those found wrong before, and those that turn out to be
    damaged on the way, are left out of the steps that follow.  What needs no worker and no job is
    asked of the engine for public tables: a cluster takes longer to start on them than to count.
    """

    missing = "the value is missing"
    repeats = "the key repeats that of an earlier row"
    mistyped = "the value is not a plainly written integer"
    no_number = "the value is not a plainly written number of 18 digits and 10 decimals at most"
    no_date = "the value is not a date such as 2026-05-31"
    unmarked = "must mark the primary job by true or false, or by 1 or 0"
    nul = "the value holds a NUL character, which is part of no text"

    def __init__(
        self, schema: Schema, sources: Mapping[str, Source], engine: Engine, public: Engine
    ) -> None:
        self.schema, self.sources = schema, sources
        self.engine, self.public = engine, public
        self.files = files_of(schema)
        self.usable = usable_columns(schema, sources)
        self.rows: dict[str, int] = {}
        self._ranges: dict[tuple[str, str], tuple[int, int]] = {}
        self._domains: dict[str, str] = {}

    def steps(self) -> list[tuple[str, Callable[[], list[Fault]]]]:
        """What to run, in order, each with a name to show."""
        schema = self.schema
        steps: list[tuple[str, Callable[[], list[Fault]]]] = [
            (f"reading {table}", partial(self._read, table)) for table in self.sources
        ]
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

    def _of(self, table: str) -> Engine:
        """The engine that looks at one table."""
        return self.engine if table in ("worker", "job") else self.public

    def _row(self, engine: Engine, sql: str) -> dict[str, int]:
        """The one row of integers that a check asks for."""
        row = engine.query(sql).read_all().to_pylist()[0]
        return {name: int(value or 0) for name, value in row.items()}

    def _faults(self, table: str, column: str, rule: str, rows: int | None) -> list[Fault]:
        """The fault, unless no row shows it."""
        return [] if rows == 0 else [Fault(table, self.files[table], column, rule, rows)]

    def _view(self, table: str) -> str:
        """The name under which the engine knows a table's files."""
        return f"file_{list(self.files).index(table)}" if "." in table else f"{table}_file"

    def _domain(self, place: str) -> str:
        """The small table with the values of an attribute, and with their group if it is one."""
        if place not in self._domains:
            attribute = self.schema.attributes[place]
            values = list(
                attribute.members if attribute.of else dict.fromkeys(attribute.values or ())
            )
            kind = self.schema.column(place).kind if attribute.of else attribute.kind
            held = pa.array(values, pa.int64() if kind == "integer" else pa.string())
            groups = [str(attribute.members.get(value, value)) for value in values]
            name = self._domains[place] = f"domain_{len(self._domains)}"
            values_and_groups = pa.table({"_value": held, "_group": groups})
            self._of(attribute.table).load(name, values_and_groups)
        return self._domains[place]

    # -------------------------------------------------------------- one column

    def _read(self, table: str) -> list[Fault]:
        """Every usable column to its end: empty tables, values missing, mistyped, undeclared."""
        columns = [c for c in wanted_columns(self.schema)[table] if (table, c) in self.usable]
        if not columns:
            return []
        try:
            self._of(table).load(self._view(table), self.sources[table])
            if table == "workplace" and self.public is not self.engine:
                self.engine.load(self._view(table), self.sources[table])  # for the links
            found = self._look(table, columns)
        except EngineFailure as failure:
            return self._damaged(table, columns, failure)
        self.rows[table] = found["_rows"]
        if not found["_rows"]:
            return self._faults(table, "", "the table is empty", None)
        return [fault for c in columns for fault in self._column(table, c, found)]

    def _damaged(self, table: str, columns: list[str], failure: EngineFailure) -> list[Fault]:
        """Say which columns cannot be read, or let a failure of another cause go on."""
        source = self.sources[table]
        if not isinstance(failure, DamagedFile) and readable(source):
            raise failure
        sound = []
        for column in columns if source.format != "csv" else []:
            try:
                found = self._look(table, [column])
            except EngineFailure:
                continue
            sound += self._column(table, column, found)
            self.rows[table] = found["_rows"]
            columns = [c for c in columns if c != column]
        self.usable -= {(table, column) for column in columns}
        if table not in self.rows:  # nothing at all
            return self._faults(table, "", DAMAGED[source.format], None)
        broken = [self._faults(table, c, DAMAGED[source.format], None) for c in columns]
        return [*sound, *(fault for faults in broken for fault in faults)]

    def _look(self, table: str, columns: list[str]) -> dict[str, int]:
        source = self.sources[table]
        asked, shown, joins = ["count(*) as _rows"], [], ""
        for column in columns:
            place = list(source.columns).index(column)
            held, cast = f"_held_{place}", f"_cast_{place}"
            texts = plain(source, column), typed(source, column, self._kind(table, column))
            shown += [f"{texts[0]} as {held}", f"{texts[1]} as {cast}"]
            asked.append(f"sum(case when {held} is null then 1 else 0 end) as _null_{place}")
            if source.columns[column] == "integer" and texts[0] == texts[1]:
                asked += [f"min({held}) as _least_{place}", f"max({held}) as _most_{place}"]
            wrong = self._wrong(table, column, held, cast)
            asked.append(f"sum(case when {wrong} then 1 else 0 end) as _wrong_{place}")
            for name in self._declared(table, column):
                domain = self._domain(name)
                joins += f" left join {domain} on {domain}._value = {cast}"
                other = f"{cast} is not null and {domain}._value is null"
                asked.append(f"sum(case when {other} then 1 else 0 end) as _other_{domain}")
        rows = f"select {', '.join(shown)} from {self._view(table)}"
        text = f"select {', '.join(asked)} from ({rows}) as r{joins}"
        return self._row(self._of(table), text)

    def _wrong(self, table: str, column: str, held: str, cast: str) -> str:
        """Whether a value cannot be used, whatever is declared; the engine has to read it."""
        source = self.sources[table]
        if table == "job" and column == self.schema.job.primary:
            return f"lower(cast({held} as string)) not in ('0', '1', 'true', 'false')"
        if (classes := source.classes.get(column)) is not None:
            if not source.untyped(column):
                return f"{held} <> {held}"  # never
            if classes.of_dates:
                again = f"cast({as_date(held)} as string)"
                return f"{held} is not null and coalesce({again}, '') <> {held}"
            return f"regexp_replace({held}, '^{NUMBER}$', '') <> ''"
        if plain(source, column) != typed(source, column, self._kind(table, column)):
            # a number is written plainly: no blanks, leading zeros, fraction
            return f"{held} is not null and coalesce(cast({cast} as string), '') <> {held}"
        if source.columns[column] == "integer":
            return f"{held} % 2 > 1"  # never
        return f"position(chr(0) in {held}) > 0"

    def undeclared(self, name: str) -> str:
        """The rule that a value breaks that an attribute, or a group of it, does not know."""
        group = self.schema.attributes[name]
        return f"the value belongs to no {group.name}" if group.of else "the value is not declared"

    def unknown(self, reference: Reference) -> str:
        """The rule that a value breaks that a public table does not have."""
        return f"the value is not in {reference.file}"

    def astride(self, fine: str, coarse: str) -> str:
        """The rule that an area breaks that lies in two coarser ones."""
        return f"the {fine} lies in more than one {coarse}"

    def orphan(self, owner: Owner) -> str:
        """The rule that a job breaks that points nowhere."""
        return f"the {owner} does not exist"

    @property
    def idle(self) -> str:
        """The rule that a worker breaks without a job that counts."""
        return f"the worker has no {'primary job' if self.schema.job.primary else 'job'}"

    @property
    def several(self) -> str:
        """The rule that a worker breaks with more jobs than are declared."""
        job = self.schema.job
        kind = "primary job" if job.primary else "job"
        most = "one" if job.most_per_worker == 1 else f"{job.most_per_worker:,}"
        rule = f"the worker has more than {most} {kind}{'s' * (job.most_per_worker > 1)}"
        if job.primary or job.most_per_worker > 1:
            return rule
        return (
            f"{rule}; mend wrong rows first, else name the column that marks the primary one as"
            " job.primary, or declare how many a worker has at most as job.most_per_worker, which"
            " weakens the promise"
        )

    def _declared(self, table: str, column: str) -> list[str]:
        """The attributes that say which values a column may have."""
        found, attributes = [], self.schema.attributes
        for place, attribute in attributes.items():
            parent = attributes.get(attribute.of or "")
            listed = attribute.values is not None and (parent is None or parent.values is None)
            if listed and (attribute.table, attribute.of or attribute.name) == (table, column):
                found.append(place)
        return found

    def _column(self, table: str, column: str, found: Mapping[str, int]) -> list[Fault]:
        place = list(self.sources[table].columns).index(column)
        if f"_least_{place}" in found:
            self._ranges[table, column] = found[f"_least_{place}"], found[f"_most_{place}"]
        source, rule = self.sources[table], self.mistyped
        if table == "job" and column == self.schema.job.primary:
            rule = self.unmarked
        elif (classes := source.classes.get(column)) is not None:
            rule = self.no_date if classes.of_dates else self.no_number
        elif plain(source, column) == typed(source, column, self._kind(table, column)):
            rule = self.nul
        missing = self._faults(table, column, self.missing, found[f"_null_{place}"])
        faults = missing + self._faults(table, column, rule, found[f"_wrong_{place}"])
        for name in self._declared(table, column):
            number = found[f"_other_{self._domain(name)}"]
            faults += self._faults(table, column, self.undeclared(name), number)
        return faults

    def _kind(self, table: str, column: str) -> Kind | None:
        for owner in OWNERS:
            if (table, column) in (
                (owner, self.schema.key(owner)),
                ("job", self.schema.link(owner)),
            ):
                return key_kind(self.schema, self.sources, owner)
        if table == "job" and column == self.schema.job.greatest:
            return "integer"
        attributes = self.schema.attributes
        attribute = attributes.get(f"{table}.attributes.{column}", attributes.get(column))
        if attribute is None or (table in TABLES and attribute.table != table):
            return None
        return attribute.kind

    def _outside(self, table: str, held: str, listed: str) -> int:
        """How many rows hold a value that is not listed."""
        return self._row(
            self._of(table),
            f"select sum(_n) as _rows from (select {held} as _held, count(*) as _n"
            f" from {self._view(table)} group by {held}) as h"
            f" where _held is not null and _held not in ({listed})",
        )["_rows"]

    def _repeated(self, table: str, relation: str) -> int:
        """How many rows of a table have the `_value` of an earlier one."""
        return self._row(
            self._of(table),
            f"select count(_value) - count(distinct _value) as _rows from ({relation}) as r",
        )["_rows"]

    # ------------------------------------------------------------- two columns

    def _links(self, owner: Owner) -> list[Fault]:
        """Keys that repeat, jobs that point nowhere, workers without a job or with too many."""
        schema, job = self.schema, self.schema.job
        key, link = schema.key(owner), schema.link(owner)
        if not self._has((owner, key)):
            return []
        marked = [("job", job.primary)] if job.primary and owner == "worker" else []
        if not self._has(("job", link), *marked) or not self.rows[owner] or not self.rows["job"]:
            # without both tables the links say nothing
            value = typed(self.sources[owner], key, key_kind(schema, self.sources, owner))
            rows = self._repeated(owner, f"select {value} as _value from {owner}_file")
            return self._faults(owner, key, self.repeats, rows)
        found: Counter[str] = Counter()
        for part in self._slices(owner):
            counted = links(schema, self.sources, owner, part)
            found.update(
                self._row(
                    self.engine,
                    "select sum(case when _rows > 1 then _rows - 1 else 0 end) as _repeated,"
                    " sum(case when _rows = 0 then _jobs else 0 end) as _orphans,"
                    " sum(case when _rows > 0 and _main = 0 then 1 else 0 end) as _idle,"
                    f" sum(case when _rows > 0 and _main > {job.most_per_worker} then 1 else 0 end)"
                    " as _several"
                    f" from ({counted}) as g",
                )
            )
        faults = self._faults(owner, key, self.repeats, found["_repeated"])
        faults += self._faults("job", link, self.orphan(owner), found["_orphans"])
        if owner == "worker":
            faults += self._faults(owner, key, self.idle, found["_idle"])
            faults += self._faults(owner, key, self.several, found["_several"])
        return faults

    def _slices(self, owner: Owner) -> list[str]:
        """Conditions on `_id` that part the ids, where they are dense integers."""
        least, most = self._ranges.get((owner, self.schema.key(owner)), (0, 0))
        dense = most - least < 4 * self.rows[owner]
        linked = ("job", self.schema.link(owner)) in self._ranges
        if not (dense and linked and isinstance(self.engine, DuckEngine)):
            return ["_id is not null"]
        cuts = list(range(least + SLICE, most + 1, SLICE))
        if not cuts:
            return ["_id is not null"]
        inner = [f"_id >= {low} and _id < {high}" for low, high in pairwise(cuts)]
        return [f"_id < {cuts[0]}", *inner, f"_id >= {cuts[-1]}"]

    def _nesting(self, fine: str, coarse: str) -> list[Fault]:
        """Rows of a finer value that lies in two coarser ones."""
        schema, source = self.schema, self.sources.get("workplace")
        columns = [schema.column(name) for name in (fine, coarse)]
        if source is None or not self._has(*(("workplace", c.name) for c in columns)):
            return []
        if schema.attributes[coarse].of == fine:
            return []  # a group of the finer attribute holds it by construction
        shown, joins = self._levels(fine, coarse)
        found = self._row(
            self.public,
            "select sum(_n) as _rows from (select _fine, sum(_n) as _n, count(*) as _parents from"
            f" (select {shown[0]} as _fine, {shown[1]} as _coarse, count(*) as _n"
            f" from workplace_file{joins} group by {shown[0]}, {shown[1]}) as p"
            " where _fine is not null and _coarse is not null"
            " group by _fine) as f where _parents > 1",
        )
        rule = self.astride(fine, coarse)
        return self._faults("workplace", columns[0].name, rule, found["_rows"])

    def _levels(self, fine: str, coarse: str) -> tuple[list[str], str]:
        """Two levels of a hierarchy as columns of the workplaces, and what to join for groups."""
        shown, joins = [], ""
        for i, name in enumerate((fine, coarse)):
            column = self.schema.column(name)
            held = typed(self.sources["workplace"], column.name, column.kind)
            if name != column.name:
                joins += f" join {self._domain(name)} as g{i} on g{i}._value = {held}"
                held = f"g{i}._group"
            shown.append(held)
        return shown, joins

    def _reference(self, reference: Reference) -> list[Fault]:
        """Keys of a public table that repeat, and workplaces that it does not know."""
        table, key = f"reference.{reference.name}", reference.key
        if not self._has((table, key)):
            return []
        kind = self.schema.attributes[key].kind
        value = typed(self.sources[table], key, kind)
        listed = f"select {value} as _value from {self._view(table)}"
        faults = self._faults(table, key, self.repeats, self._repeated(table, listed))
        if not self._has(("workplace", key)):
            return faults
        held = typed(self.sources["workplace"], key, kind)
        known = f"select _value from ({listed}) as v where _value is not null"
        rows = self._outside("workplace", held, known)
        return faults + self._faults("workplace", key, self.unknown(reference), rows)
