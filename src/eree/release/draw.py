"""Draws: a table by itself, or the tables of several marginals that are drawn and paid for once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eree.budget.compose import Charge, kept_workplaces
from eree.errors import Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.schema import Schema
from eree.release.price import Measurement
from eree.release.settings import TABLE_NAME
from eree.workload import Marginal


@dataclass(frozen=True)
class PlannedTable:
    """One table: what is counted, and how each count is protected."""

    name: str
    marginal: Marginal
    measurement: Measurement
    title: str = ""
    note: str = ""

    @property
    def about(self) -> dict[str, str]:
        """What its publisher says of it, where anything was said."""
        said = {"title": self.title, "note": self.note}
        return {name: text for name, text in said.items() if text}

    @property
    def price(self) -> Guarantee:
        """What the table costs, with all that are drawn with it."""
        return self.measurement.price


@dataclass(frozen=True)
class Draw:
    """Tables of one draw and one price, in the order in which they are drawn."""

    tables: tuple[PlannedTable, ...]

    @property
    def name(self) -> str:
        """The names of its tables."""
        return ", ".join(table.name for table in self.tables)

    def charge(self, schema: Schema) -> Charge:
        """What it costs whom: all its tables have one price and one filter."""
        first = self.tables[0]
        return Charge(self.name, first.price, kept_workplaces(schema, first.marginal.where))


def draws_of(schema: Schema, tables: Sequence[PlannedTable]) -> list[Draw]:
    """The draws of some tables.

    Refuses a table that is not drawn with those that it names: one of them would be free.
    """
    known, found = {table.name: table for table in tables}, []
    for table in tables:
        named = table.measurement.drawn_with
        if not named:
            found.append(Draw((table,)))
            continue
        together = [known[name] for name in named if name in known]
        whole = len(together) == len(named) and _one_draw(schema, together)
        if table.name not in named or not whole:
            raise Refusal(f"table {table.name} was not drawn at once with the tables that it names")
        if table.name == named[0]:
            found.append(Draw(tuple(together)))
    return found


def _one_draw(schema: Schema, tables: Sequence[PlannedTable]) -> bool:
    """Whether tables are all the marginals of one draw: of the same workers, each shown once."""
    first, names = tables[0], tuple(table.name for table in tables)
    whole, by = first.measurement.mechanism.whole, _of(schema, first.marginal, "workplace")
    workers = [
        schema.column(name).name
        for table in tables
        for name in _of(schema, table.marginal, "worker")
    ]
    return len(set(workers)) == len(workers) and all(
        table.measurement.drawn_with == names
        and table.measurement.shown == i
        and table.measurement.mechanism.whole == whole
        and table.price == first.price
        and table.marginal.where == first.marginal.where
        and _of(schema, table.marginal, "workplace") == by
        for i, table in enumerate(tables)
    )


def _of(schema: Schema, marginal: Marginal, owner: str) -> list[str]:
    return [name for name in marginal.by if schema.attributes[name].owner == owner]


# ------------------------------------------------------------------ what a plan asks for


def named_marginals(
    schema: Schema,
    name: str,
    by: Sequence[str],
    where: Mapping[str, Any],
    marginals: Iterable[str | Sequence[str]],
) -> list[tuple[str, Marginal]]:
    """The tables of several marginals: their names, made of their attributes, and what they count.

    Refuses marginals that are not of the same workers, or say the same twice.
    """
    listed = [(one,) if isinstance(one, str) else tuple(one) for one in marginals]
    if len(listed) < 2:
        raise Refusal(
            "marginals must list two or more, such as ['sex', 'age']; for a single one add its"
            " attributes to by"
        )
    every = [attribute for own in listed for attribute in own]
    Marginal.over(schema, dict.fromkeys(every), where)  # refuses what is not declared
    for attribute in Marginal.over(schema, by).by:
        if schema.attributes[attribute].owner == "worker":
            raise Refusal(
                f"by names {attribute}, which is of workers; beside marginals by has attributes of"
                " workplaces alone"
            )
    columns: dict[str, str] = {}
    for attribute in every:
        if schema.attributes[attribute].owner != "worker":
            raise Refusal(
                f"marginals names {attribute}, which is of workplaces; marginals are of attributes"
                " of workers, and those of workplaces stand in by"
            )
        column = schema.column(attribute).name
        if column in columns:
            raise Refusal(
                f"marginals names {columns[column]} and {attribute}, which are of one column; name"
                " each once, alone or in one list with others"
            )
        columns[column] = attribute
    found = [
        (f"{name}-{'-'.join(own)}", Marginal.over(schema, [*by, *own], where)) for own in listed
    ]
    for own, (table, marginal) in zip(listed, found, strict=True):
        if not own or marginal.worker_cells(schema) < 2:
            raise Refusal("every one of the marginals needs two or more values")
        if not re.fullmatch(TABLE_NAME, table):
            raise Refusal(
                f"the table of {' and '.join(own)} would be called {table}, which cannot be a"
                " file's name: it may have 100 letters, digits, '-', '_' and '.'"
            )
    return found
