"""The rows that break a rule, for the eyes of the data's owner: written to a file, never shown.

A check itself counts and quotes nothing.  Who asks for the rows gets them in a new file that only
its owner can read.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator
from itertools import pairwise

from eree.data.columns import OWNERS, key_kind, link_relation, plain, quoted, typed
from eree.data.engine import Engine
from eree.data.rows import RowChecks
from eree.errors import Fault
from eree.partial import appearing_file, new_path
from eree.policy.schema import Owner

#: The columns of the file: `key` names the row, `value` is what it has in the faulty column.
HEADER = ("table", "column", "rule", "key", "value")


class FaultyRows(RowChecks):
    """Checks that can say as well which rows they found."""

    def write(self, faults: Iterable[Fault], out: str | os.PathLike[str]) -> None:
        """Write a line for each row of each fault into a new file that only its owner can read.

        Rows that cannot be taken apart, as of a CSV file with lost separators, have none.
        """
        with (
            appearing_file(new_path(out)) as partial,
            partial.open("w", encoding="utf-8", newline="") as file,
        ):
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(HEADER)
            for fault in faults:
                about = (fault.table, fault.column, fault.rule)
                lines.writerows((*about, *row) for row in self._rows(fault))

    def _rows(self, fault: Fault) -> Iterator[tuple[str, str]]:
        """The key and the value of every row that breaks a rule."""
        found = self._asked(fault) if fault.rows and fault.column else None
        if found is None:
            return
        engine, sql = found
        for batch in engine.query(f"select _key, _value from ({sql}) as f"):
            columns = (batch.column(i).to_pylist() for i in range(2))
            yield from ((key or "", value or "") for key, value in zip(*columns, strict=True))

    def _asked(self, fault: Fault) -> tuple[Engine, str] | None:
        """The engine to ask for the rows of a fault, and the text."""
        table, column, rule = fault.table, fault.column, fault.rule
        owners = [owner for owner in OWNERS if (table, column) == (owner, self.schema.key(owner))]
        links = [owner for owner in OWNERS if (table, column) == ("job", self.schema.link(owner))]
        if rule == self.repeats:
            return self._of(table), self._repeating(table, column)
        if links and rule == self.orphan(links[0]):
            return self.engine, self._orphans(links[0])
        if owners == ["worker"] and rule in (self.idle, self.several):
            return self.engine, self._workers(idle=rule == self.idle)
        return self._of(table), self._column_rows(table, column, rule)

    def _text(self, table: str, column: str, more: str = "") -> str:
        """The rows of a table: `_key`, `_value` as texts, and `more` columns."""
        source, names = self.sources[table], dict[str, None]()
        if table in OWNERS:
            names[self.schema.key(table)] = None
        elif table == "job":
            names |= dict.fromkeys(self.schema.link(owner) for owner in reversed(OWNERS))
        else:
            names[self.schema.references[table.removeprefix("reference.")].key] = None
        there = [quoted(name) for name in names if name in source.columns]
        key = " || ' ' || ".join(f"coalesce(cast({name} as string), '')" for name in there)
        value = f"cast({quoted(column)} as string)"
        return (
            f"select {key or chr(39) * 2} as _key, {value} as _value{more} from {self._view(table)}"
        )

    def _column_rows(self, table: str, column: str, rule: str) -> str:
        """Rows whose value in a column is missing, mistyped, undeclared or out of place."""
        source, kind = self.sources[table], self._kind(table, column)
        held, cast_ = plain(source, column), typed(source, column, kind)
        rows = self._text(table, column, f", {held} as _held, {cast_} as _cast")
        if rule == self.missing:
            return f"{rows} where {held} is null"
        if rule in (self.mistyped, self.no_number, self.no_date, self.unmarked, self.nul):
            wrong = self._wrong(table, column, "_held", "_cast")
            return f"select * from ({rows}) as r where {wrong}"
        for name in self._declared(table, column):
            if rule == self.undeclared(name):
                domain = self._domain(name)
                known = f"select _value as _known from {domain}"
                return (
                    f"select r._key, r._value from ({rows}) as r left join ({known}) as d"
                    " on d._known = r._cast where r._cast is not null and d._known is null"
                )
        for reference in self.schema.references.values():
            if rule == self.unknown(reference):
                other = f"reference.{reference.name}"
                listed = typed(self.sources[other], reference.key, kind)
                known = f"select {listed} as _known from {self._view(other)}"
                return (
                    f"select r._key, r._value from ({rows}) as r where r._cast is not null and"
                    f" r._cast not in (select _known from ({known}) as k where _known is not null)"
                )
        for levels in self.schema.hierarchies.values():
            for fine, coarse in pairwise(levels):
                if rule == self.astride(fine, coarse):
                    return self._astride(column, fine, coarse)
        return f"{rows} where 1 = 0"

    def _astride(self, column: str, fine: str, coarse: str) -> str:
        shown, joins = self._levels(fine, coarse)
        more = f", {shown[0]} as _fine, {shown[1]} as _coarse"
        rows = f"{self._text('workplace', column, more)}{joins}"
        both = "_fine is not null and _coarse is not null"
        parents = f"select distinct _fine, _coarse from ({rows}) as p where {both}"
        several = f"select _fine from ({parents}) as q group by _fine having count(*) > 1"
        return f"select _key, _value from ({rows}) as r where {both} and _fine in ({several})"

    def _repeating(self, table: str, column: str) -> str:
        kind = self._kind(table, column)
        value = typed(self.sources[table], column, kind)
        return (
            "select _key, _value from (select *, row_number() over (partition by _id order by _id)"
            f" as _times from ({self._text(table, column, f', {value} as _id')}) as r"
            " where _id is not null) as n where _times > 1"
        )

    def _orphans(self, owner: Owner) -> str:
        kind = key_kind(self.schema, self.sources, owner)
        link, key = self.schema.link(owner), self.schema.key(owner)
        rows = self._text("job", link, f", {typed(self.sources['job'], link, kind)} as _id")
        known = f"select {typed(self.sources[owner], key, kind)} as _known from {owner}_file"
        return (
            f"select r._key, r._value from ({rows}) as r where r._id is not null and r._id not in"
            f" (select _known from ({known}) as k where _known is not null)"
        )

    def _workers(self, *, idle: bool) -> str:
        counted = link_relation(self.schema, self.sources, "worker", "_id is not null")
        main = "_main = 0" if idle else f"_main > {self.schema.job.most_per_worker}"
        return (
            "select cast(_id as string) as _key, cast(_main as string) as _value"
            f" from ({counted}) as g where _rows > 0 and {main}"
        )
