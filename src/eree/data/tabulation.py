"""The SQL text of a tabulation, and the small tables of values that it joins.

Jobs are counted by workplace before anything wider is joined, and workers are joined only when a
column of their own table is asked for; an attribute of jobs counts as one of their workers.  The
text holds names and numbers only; the values of a filter, of a worker attribute or of a group
travel in small tables, so no value needs quoting and the same text runs on every engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import pyarrow as pa

from eree.data.columns import job_relation, keyed_relation, quoted
from eree.data.sources import Source
from eree.errors import Refusal
from eree.policy.schema import Attribute, Owner, Schema, Value
from eree.workload import DropFrom, Marginal, ScaleEach, ScaleTo, SizeProfile

#: More worker cells than this cannot be meant: every workplace cell is crossed with all of them.
MOST_WORKER_CELLS = 100_000
#: All that a workplace has, whatever the filter; `_cell` keeps Spark from joining workers twice.
_SIZED = """sized as (select _workplace, sum(case when _cell >= 0 then _size end) as _size
  from staffed group by _workplace),"""


def check_combinations(schema: Schema, marginal: Marginal) -> None:
    """Refuse worker attributes, in `by` or `where`, that make too many combinations."""
    names = (*marginal.by, *marginal.where)
    asked = [schema.attributes[name] for name in names]
    workers = {schema.column(a.name).name: a for a in asked if a.owner == "worker"}
    columns = prod(len(schema.attributes[name].values or ()) for name in workers)
    by = (schema.attributes[name] for name in marginal.by)
    cells = prod(len(a.values or ()) for a in by if a.owner == "worker")
    if max(cells, columns) > MOST_WORKER_CELLS:
        raise Refusal(
            f"the worker attributes make more than {MOST_WORKER_CELLS:,} combinations;"
            " ask for fewer of them"
        )


@dataclass(frozen=True)
class Tabulation:
    """A marginal over given files, as one SQL text.

    Where the jobs of every workplace have a weight, the table `workplace_weight` holds it, and the
    cells have their weighted sum besides, `_weighted`: in integers, so that no engine rounds.
    """

    schema: Schema
    sources: Mapping[str, Source]
    marginal: Marginal
    weighted: bool = False

    def __post_init__(self) -> None:
        asked = self.marginal  # it may have been made for another schema, or past its checks
        Marginal.over(self.schema, asked.by, asked.where, asked.bound)
        check_combinations(self.schema, asked)
        if isinstance(asked, SizeProfile):
            SizeProfile.of(self.schema, asked.by, asked.where, asked.sizes, asked.pooled_from)

    @cached_property
    def touched(self) -> bool:
        """Whether a worker attribute is involved."""
        return self.marginal.touches_workers(self.schema)

    @property
    def reads(self) -> tuple[str, ...]:
        """The tables that the text reads."""
        joined = any(column.table == "worker" for column in self.worker_columns)
        return ("workplace", "worker", "job") if joined else ("workplace", "job")

    def _by(self, owner: Owner) -> list[Attribute]:
        attributes = (self.schema.attributes[name] for name in self.marginal.by)
        return [a for a in attributes if a.owner == owner]

    def _where(self, owner: Owner) -> list[tuple[Attribute, tuple[Value, ...]]]:
        kept = ((self.schema.attributes[n], values) for n, values in self.marginal.where.items())
        return [(a, values) for a, values in kept if a.owner == owner]

    @cached_property
    def worker_columns(self) -> list[Attribute]:
        """The columns of workers and of their jobs that `by` and `where` look at, each once."""
        attributes = [*self._by("worker"), *(a for a, _ in self._where("worker"))]
        return list({c.name: c for c in (self.schema.column(a.name) for a in attributes)}.values())

    @property
    def _groups(self) -> list[Attribute]:
        return [a for a in self._by("workplace") if a.of is not None]

    # ------------------------------------------------------------------ values

    def side_tables(self) -> dict[str, pa.Table]:
        """The values that the text needs, by the names it uses for them.

        `kept_i` lists what a workplace filter keeps; `group_i` sends a workplace column's values
        to their group; `staffing` sends each combination of worker columns to its worker cell and
        says whether the filter counts it; `worker_cell` lists the worker cells with their values;
        `cell_total` has the total to which workplaces are scaled, cell by cell; `threshold` lists
        the thresholds of a size profile, and which are counted over all groups at once.
        """
        tables = self.public_side_tables()
        if self.touched:
            tables["staffing"] = self._staffing()
            tables["worker_cell"] = self._worker_cells()
        if isinstance(self.marginal, SizeProfile):
            pooled = pa.array(self.marginal.pooled, pa.bool_()).cast(pa.int32())
            sizes = pa.array(self.marginal.sizes, pa.int64())
            tables["threshold"] = pa.table({"_at_least": sizes, "_pooled": pooled})
        return tables

    def public_side_tables(self) -> dict[str, pa.Table]:
        """Those of them that the workplaces alone need."""
        tables: dict[str, pa.Table] = {}
        for i, (attribute, values) in enumerate(self._where("workplace")):
            fine = attribute.members.items()
            kept = [v for v, group in fine if group in values] if attribute.of else list(values)
            tables[f"kept_{i}"] = pa.table({"_kept": _values(attribute, kept, self.schema)})
        for i, attribute in enumerate(self._groups):
            fine_values = _values(attribute, list(attribute.members), self.schema)
            tables[f"group_{i}"] = pa.table(
                {"_fine": fine_values, "_group": list(attribute.members.values())}
            )
        if isinstance(self.marginal.bound, ScaleEach):
            tables["cell_total"] = self.marginal.bound.totals
        return tables

    def _staffing(self) -> pa.Table:
        columns = self.worker_columns
        rows = list(product(*(column.values or () for column in columns)))
        place = {column.name: i for i, column in enumerate(columns)}

        def seen(attribute: Attribute, row: tuple[Value, ...]) -> Value:
            held = row[place[self.schema.column(attribute.name).name]]
            return attribute.members[held] if attribute.of else held

        by, where = self._by("worker"), self._where("worker")
        cells = {cell: i for i, cell in enumerate(product(*(a.values or () for a in by)))}
        table = {
            column.name: _values(column, [row[i] for row in rows], self.schema)
            for i, column in enumerate(columns)
        }
        table["_cell"] = pa.array([cells[tuple(seen(a, r) for a in by)] for r in rows], pa.int32())
        counted = [int(all(seen(a, r) in values for a, values in where)) for r in rows]
        table["_counted"] = pa.array(counted, pa.int32())
        return pa.table(table)

    def _worker_cells(self) -> pa.Table:
        by = self._by("worker")
        cells = list(product(*(list(enumerate(a.values or ())) for a in by)))
        table: dict[str, pa.Array[Any]] = {"_cell": pa.array(range(len(cells)), pa.int32())}
        for i, attribute in enumerate(by):
            table[f"_rank_{i}"] = pa.array([cell[i][0] for cell in cells], pa.int32())
            kind = pa.int64() if attribute.kind == "integer" else pa.string()
            table[attribute.name] = pa.array([cell[i][1] for cell in cells], kind)
        return pa.table(table)

    # -------------------------------------------------------------------- text

    def sql(self) -> str:
        """The text: the same for every engine."""
        if isinstance(self.marginal, SizeProfile):
            return self._by_size()
        return self._with_workers() if self.touched else self._workplaces_only()

    def public_sql(self) -> str:
        """How many workplace cells there are, from the public workplaces alone."""
        keys = [quoted(a.name) for a in self._by("workplace")]
        chosen = f"select distinct {', '.join(keys)}" if keys else "select 1 as one"
        limit = "" if keys else " limit 1"
        return f"select count(*) as cells from ({chosen} from ({self.frame()}) as f{limit}) as d"

    def public_counts_sql(self) -> str:
        """How many workplaces every workplace cell has, from the public workplaces alone."""
        keys = ", ".join(quoted(a.name) for a in self._by("workplace"))
        shown, grouped = (f"{keys}, ", f" group by {keys} order by {keys}") if keys else ("", "")
        return f"select {shown}count(*) as _workplaces from ({self.frame()}) as f{grouped}"

    def workplace_sql(self) -> str:
        """What every workplace adds to its cells: `_group` and `_cell` count from 0 in their order.

        `_workplace` numbers the workplaces; `_size` is all that a workplace has.
        """
        keys = ", ".join(f"f.{quoted(a.name)}" for a in self._by("workplace"))
        ranked = f"dense_rank() over (order by {keys}) - 1" if keys else "0"
        cell, size = ("s._cell", "z._size") if self.touched else ("0", "s._size")
        join = " join sized as z on z._workplace = s._workplace" if self.touched else ""
        return f"""
with frame as ({self.frame()}),
staffed as ({self._staffed()}),
{_SIZED if self.touched else ""}
numbered as (
  select f._workplace, {ranked} as _group,
    row_number() over (order by f._workplace) - 1 as _number
  from frame as f
)
select cast(n._group as bigint) as _group, cast({cell} as bigint) as _cell,
  cast(n._number as bigint) as _number, cast(s._jobs as bigint) as _jobs,
  cast({size} as bigint) as _size
from staffed as s join numbered as n on n._workplace = s._workplace{join}
where s._jobs > 0
order by _group, _cell, _number
"""

    def workplaces_sql(self) -> str:
        """The workplaces that the filter keeps, by their keys: the public ones alone are read."""
        return f"select f._workplace from ({self.frame()}) as f"

    def _weights(self) -> tuple[str, str, str]:
        """What the texts need besides where jobs are weighted: a sum, its join and its column."""
        if not self.weighted:
            return "", "", ""
        join = " join workplace_weight as x on x._workplace = c._workplace"
        column = 'cast(coalesce({}, 0) as bigint) as "_weighted",\n '
        return "sum(c._jobs * x._weight)", join, column

    def _workplaces_only(self) -> str:
        keys = [quoted(a.name) for a in self._by("workplace")]
        total, join, column = self._weights()
        return f"""
with frame as ({self.frame()}),
staffed as ({self._staffed()}),
{self._bounded()}
select {_listed(f"f.{key}" for key in keys)}
  cast(coalesce(sum(c._jobs), 0) as bigint) as "count",
  cast(coalesce(max(c._jobs), 0) as bigint) as "largest",
  {column.format(total)} count(*) as "workplaces"
from frame as f left join counted as c on c._workplace = f._workplace{join and f" left{join}"}
{_clause("group by", (f"f.{key}" for key in keys))}
having count(*) > 0
{_clause("order by", (f"f.{key}" for key in keys))}
"""

    def _by_size(self) -> str:
        """Workplaces with at least so many workers; those without a job have none."""
        keys = [quoted(a.name) for a in self._by("workplace")]
        grouped = _listed(
            f"case when t._pooled = 1 then null else n.{key} end as {key}" for key in keys
        )
        order = _listed(f"m.{key}" for key in keys)
        return f"""
with frame as ({self.frame()}),
staffed as ({self._staffed()}),
numbers as (
  select {_listed(f"f.{key}" for key in keys)}
    coalesce(s._size, 0) as _size, count(*) as _number
  from frame as f left join staffed as s on s._workplace = f._workplace
  group by {_listed(f"f.{key}" for key in keys)} coalesce(s._size, 0)
),
met as (
  select {grouped} t._pooled, t._at_least, n._number,
    case when n._size >= t._at_least then n._number else 0 end as _reaching
  from numbers as n cross join threshold as t
)
select {order} cast(m._at_least as bigint) as "at_least",
  cast(sum(m._reaching) as bigint) as "number", cast(sum(m._number) as bigint) as "workplaces"
from met as m
group by m._pooled, {order} m._at_least
order by m._pooled, {order} m._at_least
"""

    def _with_workers(self) -> str:
        keys = [quoted(a.name) for a in self._by("workplace")]
        ranks = {a.name: f"k._rank_{i}" for i, a in enumerate(self._by("worker"))}
        worker = {a.name: f"k.{quoted(a.name)}" for a in self._by("worker")}
        shown = [worker.get(name, f"o.{quoted(name)}") for name in self.marginal.by]
        order = [ranks.get(name, f"o.{quoted(name)}") for name in self.marginal.by]
        match = " and ".join(["n._cell = k._cell", *(f"n.{key} = o.{key}" for key in keys)])
        total, join, column = self._weights()
        return f"""
with frame as ({self.frame()}),
staffed as ({self._staffed()}),
{_SIZED}
{self._bounded()},
outline as (
  select {_listed(f"f.{key}" for key in keys)}
    count(*) as _workplaces, coalesce(max(z._size), 0) as _largest_total
  from frame as f left join sized as z on z._workplace = f._workplace
  {_clause("group by", (f"f.{key}" for key in keys))}
  having count(*) > 0
),
numbers as (
  select {_listed(f"f.{key}" for key in keys)}
    c._cell, sum(c._jobs) as _count, max(c._jobs) as _most{total and f", {total} as _weighted"}
  from frame as f join counted as c on c._workplace = f._workplace{join}
  {_clause("group by", (*(f"f.{key}" for key in keys), "c._cell"))}
)
select {_listed(shown)}
  cast(coalesce(n._count, 0) as bigint) as "count",
  cast(coalesce(n._most, 0) as bigint) as "largest",
  cast(o._largest_total as bigint) as "largest_total",
  {column.format("n._weighted")} o._workplaces as "workplaces"
from outline as o cross join worker_cell as k left join numbers as n on {match}
{_clause("order by", order)}
"""

    def _staffed(self) -> str:
        """Jobs by workplace and worker cell: `_jobs` that the filter counts, `_size` of all."""
        jobs = job_relation(self.schema, self.sources)
        if not self.touched:
            counts = "count(*) as _jobs, count(*) as _size"
            return f"select j._workplace, {counts} from ({jobs}) as j group by j._workplace"
        counted = "sum(s._counted)" if self._where("worker") else "count(*)"
        names = [(c.table[0], quoted(c.name)) for c in self.worker_columns]
        same = " and ".join(f"s.{name} = {side}.{name}" for side, name in names)
        coded = f" join staffing as s on {same}"
        if "worker" in self.reads:
            workers = f"({keyed_relation(self.schema, self.sources, 'worker')}) as w"
            if {side for side, _ in names} == {"w"}:  # numbers are joined faster than texts
                workers = f"(select w._worker, s._cell, s._counted from {workers}{coded}) as s"
                coded = f" join {workers} on s._worker = j._worker"
            else:
                coded = f" join {workers} on w._worker = j._worker{coded}"
        rows = f"({jobs}) as j{coded} group by j._workplace, s._cell"
        return f"select j._workplace, s._cell, {counted} as _jobs, count(*) as _size from {rows}"

    def _bounded(self) -> str:
        """What each workplace adds to its cells: all it has, or what the bound leaves of it."""
        cell = "s._cell, " if self.touched else ""
        size, join = "s._size", ""
        if self.touched:
            size, join = "z._size", " join sized as z on z._workplace = s._workplace"
        match self.marginal.bound:
            case DropFrom(theta):
                jobs, join = "s._jobs", f"{join} where {size} < {theta}"
            case ScaleTo(total):
                jobs = _scaled(size, str(total))
            case ScaleEach():
                jobs = _scaled(size, "l._total")
                join = f"{join} join limits as l on l._workplace = s._workplace"
            case None:
                jobs, join = "s._jobs", ""
        return (
            f"{self._limits()}"
            f"counted as (select s._workplace, {cell}{jobs} as _jobs from staffed as s{join})"
        )

    def _limits(self) -> str:
        """The total that each workplace is scaled to, where every cell has its own."""
        if not isinstance(self.marginal.bound, ScaleEach):
            return ""
        keys = [quoted(a.name) for a in self._by("workplace")]
        same = " and ".join(f"t.{key} = f.{key}" for key in keys) or "true"
        return (
            "limits as (select f._workplace, t._total from frame as f"
            f" join cell_total as t on {same}),\n"
        )

    def frame(self) -> str:
        """The workplaces that the filter keeps, with the attributes of the marginal."""
        shown, joins = ["w._workplace"], ""
        groups = {attribute.name: i for i, attribute in enumerate(self._groups)}
        for attribute in self._by("workplace"):
            name = quoted(attribute.name)
            if attribute.of is None:
                shown.append(f"w.{name}")
                continue
            i = groups[attribute.name]
            shown.append(f"g{i}._group as {name}")
            joins += f" join group_{i} as g{i} on g{i}._fine = w.{quoted(attribute.of)}"
        kept = (
            f"w.{quoted(self.schema.column(a.name).name)} in (select _kept from kept_{i})"
            for i, (a, _) in enumerate(self._where("workplace"))
        )
        workplaces = keyed_relation(self.schema, self.sources, "workplace")
        text = f"select {', '.join(shown)} from ({workplaces}) as w{joins}"
        where = " and ".join(kept)
        return f"{text} where {where}" if where else text


def _scaled(size: str, total: str) -> str:
    """Thousandths of a job that a workplace of a size adds if it is scaled to a total.

    The whole-number division is exact on every engine: the remainder is taken off first, and the
    quotient (below 2**50) survives a division in doubles.
    """
    scaled = f"(1000 * s._jobs * {total})"
    quotient = f"cast(round(({scaled} - {scaled} % {size}) / {size}) as bigint)"
    return f"case when {size} > {total} then {quotient} else 1000 * s._jobs end"


def _values(attribute: Attribute, values: list[Value], schema: Schema) -> pa.Array[Any]:
    """Values of the column behind an attribute, in that column's type."""
    kind = schema.column(attribute.name).kind
    return pa.array(values, pa.int64() if kind == "integer" else pa.string())


def _listed(columns: Iterable[str]) -> str:
    return "".join(f"{column}, " for column in columns)


def _clause(words: str, columns: Iterable[str]) -> str:
    listed = ", ".join(columns)
    return f"{words} {listed}" if listed else ""
