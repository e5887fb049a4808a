"""What a budget protects, as it is declared: whose jobs, at which workplaces, of which types.

A guarantee speaks of neighbours, and what a neighbour is hangs on the declaration: which column
names a workplace, which one a worker, and into which types a workforce falls.  Prices add up only
where all of that is the same.  So a ledger is bound to the first declaration that spends from it,
by its digest, and every record has it in full.  Nothing here is computed from rows: next year's
rows under the same declaration are the same series.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eree.errors import Refusal
from eree.policy.neighbours import Neighbours, Weak
from eree.policy.plain_data import canonical, sha256
from eree.policy.schema import Attribute, Schema


@dataclass(frozen=True)
class Protected:
    """A declaration, as plain data: the name of the data set, the keys, and the types if any."""

    data_set: str
    declared: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The whole declaration, as a record holds it."""
        return {"data_set": self.data_set, **self.declared}

    @property
    def digest(self) -> str:
        """The SHA-256 of the declaration, as a ledger holds it."""
        return sha256(self.as_json())


def protected_jobs(schema: Schema, relation: Neighbours) -> Protected:
    """What the schema of linked tables declares to be protected under a ledger's relation."""
    names = relation.types if isinstance(relation, Weak) else ()
    keys = {
        owner: {"key": schema.key(owner), "column": schema.link(owner)}
        for owner in ("workplace", "worker")
    }
    types = {name: _type_of(schema, name) for name in sorted(names)}
    return Protected(schema.data_set, keys | {"types": types})


def _type_of(schema: Schema, name: str) -> dict[str, Any]:
    """A worker attribute that types are made of: its column, its values, and how it groups them."""
    attribute = schema.attributes.get(name)
    if attribute is None or attribute.owner != "worker":
        raise Refusal(
            f"the ledger's worker types are made of {name}, which is no worker attribute of this"
            " schema; declare it as it was, or spend from another ledger"
        )
    return attribute_as_declared(attribute, schema.column(name))


def attribute_as_declared(attribute: Attribute, column: Attribute) -> dict[str, Any]:
    """The values of an attribute, and which values of its column each of them stands for."""
    return {
        "column": column.name,
        "values": _ordered(column.values or ()),
        "members": _ordered(attribute.members.items()),
    }


def _ordered(values: Any) -> list[Any]:
    """Values in an order that does not depend on how they were written down."""
    return sorted((list(v) if isinstance(v, tuple) else v for v in values), key=canonical)
