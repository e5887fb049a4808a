"""Several marginals of the same workers, counted at once: their SQL text, and what it joins.

Workers are joined to their jobs once, however many marginals there are.  Workplace cells are
public, so they are listed and numbered first: jobs are counted by number, and what comes back has
no text in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from eree.data.columns import job_relation, keyed_relation, quoted
from eree.data.sources import Source
from eree.data.tabulation import Tabulation, check_combinations
from eree.policy.schema import Attribute, Schema
from eree.workload import Marginal, Marginals

#: The table of numbered workplace cells.
NUMBERED = "numbered_group"


@dataclass(frozen=True)
class MarginalsTabulation:
    """Marginals over given files, as one SQL text."""

    schema: Schema
    sources: Mapping[str, Source]
    marginals: Marginals

    def __post_init__(self) -> None:
        asked = self.marginals  # it may have been made for another schema, or past its checks
        Marginals.of(self.schema, asked.by, asked.where, asked.blocks)
        for marginal in asked.each():
            check_combinations(self.schema, marginal)

    @cached_property
    def public(self) -> Tabulation:
        """The workplace cells: what can be asked of the public workplaces."""
        where = {
            name: values
            for name, values in self.marginals.where.items()
            if self.schema.attributes[name].owner == "workplace"
        }
        return Tabulation(self.schema, self.sources, Marginal(self.marginals.by, where))

    @cached_property
    def _each(self) -> list[Tabulation]:
        """The worker cells of every block, and of no workplace."""
        return [
            Tabulation(self.schema, self.sources, Marginal(block, {}))
            for block in self.marginals.blocks
        ]

    @cached_property
    def _kept(self) -> list[tuple[Attribute, list[object]]]:
        """The columns of workers that a filter looks at, and the values of them that it keeps."""
        found: list[tuple[Attribute, list[object]]] = []
        for name, values in self.marginals.where.items():
            attribute = self.schema.attributes[name]
            if attribute.owner == "worker":
                fine = attribute.members.items()
                kept = [v for v, group in fine if group in values] if attribute.of else [*values]
                found.append((self.schema.column(name), list(kept)))
        return found

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The tables that the text reads."""
        columns = [column for one in self._each for column in one.worker_columns]
        columns += [column for column, _ in self._kept]
        joined = any(column.table == "worker" for column in columns)
        return ("workplace", "worker", "job") if joined else ("workplace", "job")

    def side_tables(self) -> dict[str, pa.Table]:
        """The values that the text needs, by the names it uses for them.

        Besides those of the public workplaces: `staffing_i` sends the values of worker columns to
        their cell of block i; `kept_worker_i` lists what a filter of workers keeps.
        """
        tables = self.public.public_side_tables()
        for i, one in enumerate(self._each):
            tables[f"staffing_{i}"] = one.side_tables()["staffing"].drop_columns(["_counted"])
        for i, (column, kept) in enumerate(self._kept):
            kind = pa.int64() if column.kind == "integer" else pa.string()
            tables[f"kept_worker_{i}"] = pa.table({"_kept": pa.array(kept, kind)})
        return tables

    def sql(self) -> str:
        """The text: for every numbered group all counts, and its largest workplace."""
        keys = [quoted(name) for name in self.marginals.by]
        same = " and ".join(f"g.{key} = f.{key}" for key in keys) or "true"
        jobs = job_relation(self.schema, self.sources)
        names = self.marginals.counts(self.schema)
        sizes = enumerate(self.marginals.sizes(self.schema))
        cells = [(i, cell) for i, size in sizes for cell in range(size)]
        counted = ", ".join(
            f"count(case when c._cell_{i} = {cell} then 1 end) as {name}"
            for name, (i, cell) in zip(names, cells, strict=True)
        )
        shown = ", ".join(f"cast(coalesce(m.{name}, 0) as bigint) as {name}" for name in names)
        return f"""
with numbered as (
  select f._workplace, g._group from ({self.public.frame()}) as f join {NUMBERED} as g on {same}
),
outline as (
  select n._group, max(s._size) as _largest_total from numbered as n join (
    select j._workplace, count(*) as _size from ({jobs}) as j group by j._workplace
  ) as s on s._workplace = n._workplace group by n._group
),
numbers as (
  select n._group, {counted}
  from ({self._coded_jobs()}) as c join numbered as n on n._workplace = c._workplace
  group by n._group
)
select g._group, {shown}, cast(coalesce(o._largest_total, 0) as bigint) as "largest_total"
from {NUMBERED} as g left join numbers as m on m._group = g._group
  left join outline as o on o._group = g._group
order by g._group
"""

    def _coded_jobs(self) -> str:
        """The jobs that count: the workplace of each, and its worker's cell in every block."""
        shown, joins, where = self._coded("job", "j")
        jobs = job_relation(self.schema, self.sources)
        if "worker" in self.reads:
            columns, inner, kept = self._coded("worker", "w")
            workers = keyed_relation(self.schema, self.sources, "worker")
            listed = ", ".join(["w._worker", *columns])
            coded = f"select {listed} from ({workers}) as w{inner}{kept}"
            joins = f" join ({coded}) as w on w._worker = j._worker{joins}"
            shown += [f"w._cell_{i}" for i, one in enumerate(self._each) if _table(one) == "worker"]
        return f"select {', '.join(['j._workplace', *shown])} from ({jobs}) as j{joins}{where}"

    def _coded(self, table: str, alias: str) -> tuple[list[str], str, str]:
        """What is coded next to a table's own columns: columns, joins and a filter.

        A block of attributes of workers and of jobs is coded where both are known: with the jobs.
        """
        shown, joins, mixed = list[str](), "", list[str]()
        for i, one in enumerate(self._each):
            sides = {"job": "j", "worker": "w"}
            if _table(one) is None and table == "worker":
                mixed += [f"w.{quoted(c.name)}" for c in one.worker_columns if c.table == "worker"]
            if (_table(one) or "job") == table:
                same = " and ".join(
                    f"s{i}.{quoted(c.name)} = {sides[c.table]}.{quoted(c.name)}"
                    for c in one.worker_columns
                )
                joins += f" join staffing_{i} as s{i} on {same}"
                shown.append(f"s{i}._cell as _cell_{i}")
        kept = [
            f"{alias}.{quoted(column.name)} in (select _kept from kept_worker_{i})"
            for i, (column, _) in enumerate(self._kept)
            if column.table == table
        ]
        where = f" where {' and '.join(kept)}" if kept else ""
        return [*shown, *dict.fromkeys(mixed)], joins, where


def _table(block: Tabulation) -> str | None:
    """The table that holds all columns of a block, if one does."""
    tables = {column.table for column in block.worker_columns}
    return tables.pop() if len(tables) == 1 else None
