"""Two tables that are drawn at once: the margins of two worker attributes, paid for once.

A plan asks for them as one table by both attributes.  A release has each as a table of its own, by
one of the two, which names the other attribute in its settings and the other table beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eree.errors import Refusal
from eree.mechanisms.margins_radial import MarginsRadial
from eree.policy.schema import Schema
from eree.workload import Marginal

#: The setting of a margin that names the attribute of the other.
WITH = "with"
#: Where the record of a table names the table that it was drawn with.
DRAWN_WITH = "drawn_with"


def margins(schema: Schema, both: Marginal) -> Iterator[tuple[str, Marginal, dict[str, str]]]:
    """The margins of a table by two worker attributes: attribute, what is counted, settings."""
    workers = [name for name in both.by if schema.attributes[name].owner == "worker"]
    if len(workers) != 2 or all(_values(schema, name) != 2 for name in workers):
        raise Refusal(
            f"{MarginsRadial.name} is for tables by two worker attributes, one of which has two"
            " values; ask for such a table, or hide all cells with auto"
        )
    _check_columns(schema, *workers)
    for own, other in (workers, reversed(workers)):
        by = tuple(name for name in both.by if name != other)
        yield own, Marginal(by, both.where, both.bound), {WITH: other}


def joined(schema: Schema, margin: Marginal, settings: Mapping[str, Any]) -> Marginal:
    """What is counted for both margins: the attribute of two values before the other."""
    by = [name for name in margin.by if schema.attributes[name].owner == "workplace"]
    own, other = attributes_of(schema, margin, settings)
    pair = (own, other) if has_halves(schema, own, other) else (other, own)
    return Marginal((*by, *pair), margin.where, margin.bound)


def attributes_of(schema: Schema, margin: Marginal, settings: Mapping[str, Any]) -> tuple[str, str]:
    """The attribute of a margin and that of the other, from its settings."""
    workers = [name for name in margin.by if schema.attributes[name].owner == "worker"]
    other = settings.get(WITH)
    known = schema.attributes.get(other) if isinstance(other, str) else None
    if len(workers) != 1 or set(settings) != {WITH} or known is None or known.owner != "worker":
        raise Refusal(f"{MarginsRadial.name} needs one worker attribute, and another to go with it")
    _check_columns(schema, workers[0], known.name)
    return workers[0], known.name


def _check_columns(schema: Schema, one: str, other: str) -> None:
    """Refuse an attribute and itself, or a group of it: one would follow from the other."""
    if schema.column(one).name == schema.column(other).name:
        raise Refusal(
            f"{MarginsRadial.name} needs two worker attributes that differ, and {one} and {other}"
            " are made of the same column; ask for the finer one alone"
        )


def has_halves(schema: Schema, own: str, other: str) -> bool:
    """Whether a margin is the one of two values; if both are, the first by name is."""
    return _values(schema, own) == 2 and (_values(schema, other) != 2 or own < other)


def drawn_at_once(schema: Schema, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two records of margins say of each other that they were drawn at once."""
    names = [table["name"] for table in (one, other)]
    if names != [table.get(DRAWN_WITH) for table in (other, one)] or names[0] == names[1]:
        return False
    found = []
    for table in (one, other):
        margin = Marginal.over(schema, table["by"], table["where"])
        found.append(
            (joined(schema, margin, table["settings"]), table["price"], table["mechanism"])
        )
    return found[0] == found[1] and set(one["by"]) != set(other["by"])


def pays(name: str, drawn_with: str | None) -> bool:
    """Whether a table is charged: of two that are drawn at once, the first by name is."""
    return drawn_with is None or name < drawn_with


def _values(schema: Schema, name: str) -> int:
    return len(schema.attributes[name].values or ())
