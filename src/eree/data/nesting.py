"""Which areas lie in which: the codes of public workplace attributes in coarser ones.

Which workplaces exist, and where, is public, and so is what is found here: of the linked tables
only that of workplaces is read, all of it, and the public references beside it.

- A hierarchy of the schema says that every tract lies in one county; `eree check` has seen to it.
- A reference says in which county each place lies, if it has a column of the name of that
  attribute; a place whose field is empty lies in no one county.  If workplaces of a place lie in
  another county than the reference says, the county is no coarser area of places: it is `crossing`.

What follows from two of these, such as tracts in counties and counties in states, is found as well.
Groups that the schema declares need no file: their members are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eree.data.columns import typed
from eree.data.engine import Engine
from eree.data.tables import Tables
from eree.data.tabulation import Tabulation
from eree.workload import Marginal

#: The coarser attributes of an attribute, and the reference that says so where one does.
Declared = Mapping[str, str | None]


@dataclass(frozen=True)
class Nesting:
    """The codes of an attribute in order, and the one code of each coarser attribute, or null.

    `crossing` are the attributes that a reference names and that the workplaces contradict.
    """

    fine: str
    codes: pa.Table
    crossing: tuple[str, ...]

    @property
    def above(self) -> tuple[str, ...]:
        """The coarser attributes."""
        return tuple(self.codes.column_names[1:])

    def through(self, middle: Nesting) -> Nesting:
        """The same with what lies above one of the coarser attributes."""
        codes, place = self.codes, None
        for name in middle.above:
            if name not in (*codes.column_names, *self.crossing):
                if place is None:
                    place = pc.index_in(codes[middle.fine], middle.codes[middle.fine])
                codes = codes.append_column(name, middle.codes[name].take(place))
        return Nesting(self.fine, codes, self.crossing)


def nestings(tables: Tables, names: Iterable[str]) -> tuple[Nesting, ...]:
    """What lies above some workplace attributes, and above what lies above them."""
    declared = _declared(tables)
    wanted = [name for name in dict.fromkeys(names) if name in declared]
    for name in wanted:  # which grows
        wanted += [one for one in declared[name] if one in declared and one not in wanted]
    if not wanted:
        return ()
    with closing(tables.open("duckdb")) as engine:  # small, and public
        engine.load("workplace_file", tables.sources["workplace"])
        found = {name: _looked_up(tables, engine, name, declared[name]) for name in wanted}
    for _ in found:  # a chain is no longer than there are attributes
        for name, nesting in found.items():
            for middle in nesting.above:
                if middle in found:
                    found[name] = found[name].through(found[middle])
    return tuple(found.values())


def _declared(tables: Tables) -> dict[str, Declared]:
    schema, found = tables.schema, dict[str, dict[str, str | None]]()
    for levels in schema.hierarchies.values():
        for i, fine in enumerate(levels):
            for coarse in levels[i + 1 :]:
                if schema.attributes[coarse].of != fine:  # whose members are declared
                    found.setdefault(fine, {})[coarse] = None
    for reference in schema.references.values():
        table = f"reference.{reference.name}"
        for column in tables.sources[table].columns:
            if column != reference.key and column in schema.public_columns:
                found.setdefault(reference.key, {}).setdefault(column, table)
    return dict(found)


def _looked_up(tables: Tables, engine: Engine, fine: str, declared: Declared) -> Nesting:
    """The codes of an attribute and those above them."""
    asked = Tabulation(tables.schema, tables.sources, Marginal((fine, *declared), {}))
    for name, values in asked.public_side_tables().items():
        engine.load(name, values)
    found, known = engine.query(asked.public_counts_sql()).read_all(), tables.schema.attributes
    own = {
        name: found[name].cast(pa.int64() if known[name].kind == "integer" else pa.string())
        for name in (fine, *declared)
    }
    crossing = []
    for coarse, table in declared.items():
        if table is not None:
            said = _said(tables, engine, table, fine, coarse, own[fine])
            if pc.any(pc.not_equal(own[coarse].cast(pa.string()), said)).as_py():
                crossing.append(coarse)
            none = pa.scalar(None, own[coarse].type)
            own[coarse] = pc.if_else(pc.is_valid(said), own[coarse], none)
        elif _number(own[fine], own[coarse]) > _number(own[fine]):
            crossing.append(coarse)
    above = [n for n in declared if n not in crossing and own[n].null_count < len(own[n])]
    # a name of ours may mean something to Arrow
    plain = {str(i): own[name] for i, name in enumerate((fine, *above))}
    codes = pa.table(plain).group_by("0").aggregate([(n, "one") for n in plain if n != "0"])
    rows = codes.rename_columns(list(plain)).sort_by("0").combine_chunks()
    return Nesting(fine, rows.rename_columns([fine, *above]), tuple(crossing))


def _number(*columns: pa.ChunkedArray[Any]) -> int:
    """How many combinations there are."""
    names = [str(i) for i in range(len(columns))]
    rows = pa.table(dict(zip(names, columns, strict=True)))
    return int(rows.group_by(names).aggregate([]).num_rows)


def _said(
    tables: Tables,
    engine: Engine,
    table: str,
    fine: str,
    coarse: str,
    codes: pa.ChunkedArray[Any],
) -> pa.ChunkedArray[Any]:
    """What a reference says of some codes, as texts; null where it has an empty field."""
    source, known = tables.sources[table], tables.schema.attributes
    key, value = (typed(source, name, known[name].kind) for name in (fine, coarse))
    engine.load("reference_file", source)
    rows = engine.query(
        f"select cast({key} as string) as _fine,"
        f" nullif(cast({value} as string), '') as _coarse from reference_file"
    ).read_all()
    place = pc.index_in(codes.cast(pa.string()), rows["_fine"].cast(pa.string()))
    return rows["_coarse"].cast(pa.string()).take(place)
