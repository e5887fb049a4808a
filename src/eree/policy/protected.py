"""What a budget protects, as it is declared: whose jobs, at which workplaces, of which types.

A guarantee speaks of neighbours, and what a neighbour is hangs on the declaration: which column
names a workplace, which one a worker, which jobs of a worker count and how many at most, and into
which types a workforce falls.  Prices add up only where all of that is the same.  So a ledger is
bound to the first declaration that spends from it, by its digest, and every record has it in full.
Nothing here is computed from rows: next year's rows under the same declaration are the same series.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eree.errors import Refusal
from eree.policy.neighbours import Edge, Neighbours, Record, Weak
from eree.policy.plain_data import canonical, sha256
from eree.policy.schema import Attribute, Schema, Value


@dataclass(frozen=True)
class Protected:
    """What is declared to be protected, as plain data.

    Attributes:
        data_set: The name of the data set.
        declared: The keys, and the types if any.

    Examples:
        >>> len(eree.Cube.load("cube.eree").protects.digest)
        64
    """

    data_set: str
    declared: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The whole declaration, as a record holds it."""
        return {"data_set": self.data_set, **self.declared}

    @property
    def digest(self) -> str:
        """The SHA-256 of the declaration, as a ledger holds it."""
        return sha256(self.as_json())

    def under(self, relation: Neighbours) -> Protected:
        """As much of it as the neighbours of a ledger hang on: its types, and no others.

        A step of edge or of record neighbours is the same whatever a workplace is.
        """
        found = dict(self.declared)
        if isinstance(relation, (Edge, Record)):
            found = {k: v for k, v in found.items() if k not in ("workplace", "establishment")}
        if "types" in found:
            names = relation.types if isinstance(relation, Weak) else ()
            found["types"] = {name: found["types"][name] for name in names}
        return Protected(self.data_set, found)


def protected_jobs(schema: Schema, *relations: Neighbours) -> Protected:
    """What the schema of linked tables declares to be protected: the types are the relations'."""
    weak = [relation for relation in relations if isinstance(relation, Weak)]
    names = {name for relation in weak for name in relation.types}
    keys: dict[str, Any] = {
        owner: {"key": schema.key(owner), "column": schema.link(owner)}
        for owner in ("workplace", "worker")
    }
    job = schema.job
    primary = {"greatest": job.greatest} if job.greatest else job.primary
    counted = {"primary": primary, "most_per_worker": job.most_per_worker}
    types = {name: _type_of(schema, name) for name in sorted(names)}
    return Protected(schema.data_set, keys | {"job": counted, "types": types})


def protected_records(data_set: str, record: str, establishment: str) -> Protected:
    """What a survey declares to be protected: the columns that name records and establishments."""
    return Protected(data_set, {"record": record, "establishment": establishment})


def read_protected(said: Any, schema: Schema | None = None) -> Protected:
    """The declaration behind plain data, of linked tables if there is a schema; refuses others.

    The schema is that of a record, which knows the attributes of its tables and no keys: types that
    it has must be declared as they are there.
    """
    try:
        found = _records(said) if schema is None else _jobs(said, schema)
        written = canonical(found.as_json()) == canonical(said)
    except (LookupError, TypeError, ValueError, AttributeError):
        written = False
    if not written or not all(map(_name, _names(said))):
        raise Refusal("is not written as a declaration of what is protected")
    return found


def _records(said: Mapping[str, Any]) -> Protected:
    return protected_records(said["data_set"], said["record"], said["establishment"])


def _jobs(said: Mapping[str, Any], schema: Schema) -> Protected:
    """The same declaration made again: what has another form comes out differently."""
    keys = {o: {n: said[o][n] for n in ("key", "column")} for o in ("workplace", "worker")}
    types = {name: _read_type(name, kind) for name, kind in said["types"].items()}
    for name, kind in types.items():
        attribute = schema.attributes.get(name)
        known = attribute is None or attribute_as_declared(attribute, schema.column(name)) == kind
        column = schema.attributes.get(kind["column"])
        held = kind if column is None else attribute_as_declared(column, column)
        if not known or any(held.get(part) != kind.get(part) for part in ("values", "table")):
            raise Refusal(f"declares {name} otherwise than the tables of the release do")
    counted = {name: said["job"][name] for name in ("primary", "most_per_worker")}
    most, rule = counted["most_per_worker"], counted["primary"]
    chosen = isinstance(rule, Mapping)
    if type(most) is not int or most < 1 or (chosen and (most > 1 or {*rule} != {"greatest"})):
        raise ValueError
    return Protected(said["data_set"], keys | {"job": counted, "types": types})


def _read_type(name: str, kind: Mapping[str, Any]) -> dict[str, Any]:
    """A type made again; one without members is a column, else each value of one has a group."""
    values: list[Value] = kind["values"]
    members: dict[Value, str] = dict(kind["members"])
    whole = all(type(value) in (str, int) for value in values) and len(set(values)) == len(values)
    grouped = set(members) == set(values) and all(map(_name, members.values()))
    if not values or not whole or not (grouped if members else kind["column"] == name):
        raise ValueError
    pairs = _ordered(members.items())
    found = {"column": kind["column"], "values": _ordered(values), "members": pairs}
    return found | ({"table": "job"} if "table" in kind else {})


def _names(said: Mapping[str, Any]) -> list[Any]:
    """All names of a declaration that has the right form."""
    if "record" in said:
        return [said["data_set"], said["record"], said["establishment"]]
    columns = [said[owner][name] for owner in ("workplace", "worker") for name in ("key", "column")]
    primary = [] if (rule := said["job"]["primary"]) is None else [rule]
    if isinstance(rule, Mapping):
        primary = [rule["greatest"]]
    types = [text for name, kind in said["types"].items() for text in (name, kind["column"])]
    return [said["data_set"], *columns, *primary, *types]


def _name(text: Any) -> bool:
    return isinstance(text, str) and text != ""


def _type_of(schema: Schema, name: str) -> dict[str, Any]:
    """A worker attribute that types are made of: its column, its values, and how it groups them."""
    attribute = schema.attributes.get(name)
    if attribute is None or attribute.owner != "worker":
        raise Refusal(
            f"the ledger's worker types are made of {name}, which is no worker attribute of this"
            " schema; declare it as it was, or spend from another ledger"
        )
    column = schema.column(name)
    if column.classes is not None and not column.classes.by_year:
        raise Refusal(
            f"{name} is made of ranges, and a ledger is bound to values of types; make the column"
            " of its values before the data come here"
        )
    return attribute_as_declared(attribute, column)


def attribute_as_declared(attribute: Attribute, column: Attribute) -> dict[str, Any]:
    """The values of an attribute, and which values of its column each of them stands for.

    A column lies in the table of workers unless `table` says that it is one of jobs.
    """
    return {
        "column": column.name,
        "values": _ordered(column.values or ()),
        "members": _ordered(attribute.members.items()),
        **({"table": "job"} if column.table == "job" else {}),
    }


def _ordered(values: Any) -> list[Any]:
    """Values in an order that does not depend on how they were written down."""
    return sorted((list(v) if isinstance(v, tuple) else v for v in values), key=canonical)
