"""What a record says of tables and attributes, checked as a whole before any of it is believed.

`eree verify` says what is wrong with a record, place by place.  Whoever only uses a release asks
here, once, whether its record is written as a record of tables is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa

from eree.errors import Refusal
from eree.policy.schema import Attribute, JobTable, KeyedTable, Kind, Owner, Schema
from eree.release.members import Members
from eree.workload import Marginal, SizeProfile

#: What a released table has besides its attributes.
MEASURES = ("employment", "noisy", "low", "high", "workplaces")
#: The same of a size profile.
PROFILE_MEASURES = ("at_least", "number", "noisy", "low", "high", "workplaces")
#: The column of the bounds that a first stage has drawn.
SCALED_TO = "scaled_to"

_TYPES = {"string": str, "integer": int}
_TEXTS, _BY_NAME, _CODE = [str], {"*": str}, (str, int)
_ATTRIBUTE = {
    "owner": frozenset(get_args(Owner)),
    "label": str,
    "kind": (None, frozenset(get_args(Kind))),
    "values": (None, [_CODE]),
    "labels": _BY_NAME,
    "of": (None, str),
    "table?": (None, frozenset({"job"})),
}
_TABLE = {
    "name": str,
    "about": _BY_NAME,
    "by": _TEXTS,
    "where": {"*": [_CODE]},
    "rows": int,
    "worker_cells": int,
    "mechanism": str,
    "price": {"*": object},
    "each": {"*": object},
    "settings": {"*": object},
    "parameters": {"*": object},
    "files": _BY_NAME,
    "profile?": (None, {"sizes": [int], "pooled_from": int}),
}
_AREAS = {"of": str, "above": _TEXTS, "crossing": _TEXTS, "rows": int, "files": _BY_NAME}
#: What a record has of all that is believed of it: a name with ? may be missing, * is any name, and
#: of several shapes any will do.
_RECORD = {
    "eree": str,
    "release": str,
    "digest": str,
    "level": str,
    "about": _BY_NAME,
    "attributes": {"*": _ATTRIBUTE},
    "members": [{"group": str, "rows": int, "files": _BY_NAME}],
    "areas": [_AREAS],
    "tables": [_TABLE],
}


def misread(record: Mapping[str, Any]) -> str | None:
    """The first place of a record of tables that is not written as it should be, if there is one.

    Nothing is said of what stands there: a place is named by the words of the record.
    """
    found = _misshapen(record, _RECORD)
    return found or next(_contradictions(record), None)


def _misshapen(said: object, shape: Any, place: str = "") -> str | None:
    """The first place that has not the shape that it should have, if there is one."""
    inside = f"{place}." if place else ""
    parts: Iterable[str | None]
    match shape:
        case tuple():
            found = [_misshapen(said, one, place) for one in shape]
            return None if None in found else found[-1]
        case {"*": each} if isinstance(said, Mapping):
            parts = (_misshapen(one, each, f"{inside}{name}") for name, one in said.items())
        case dict() if isinstance(said, Mapping):
            names = {name.removesuffix("?"): name for name in shape}
            parts = (
                _misshapen(said[name], shape[own], f"{inside}{name}")
                if name in said
                else (f"{inside}{name}" if own == name else None)
                for name, own in names.items()
            )
        case list() if isinstance(said, list):
            parts = (_misshapen(one, shape[0], f"{inside}{n}") for n, one in enumerate(said))
        case frozenset() if isinstance(said, str):
            return None if said in shape else place
        case type():
            fits = type(said) is shape or shape is object
            return None if fits and (type(said) is not int or -(2**63) <= said < 2**63) else place
        case _:
            return None if said is None and shape is None else place
    return next(filter(None, parts), None)


def _contradictions(said: Mapping[str, Any]) -> Iterator[str]:
    """Places that are well written and do not fit the others."""
    attributes: Mapping[str, Mapping[str, Any]] = said["attributes"]
    for name, one in attributes.items():
        finer = attributes.get(one["of"] or "")
        if one["of"] is not None and (finer is None or finer["of"] is not None):
            yield f"attributes.{name}.of"
        if one.get("table") is not None and one["owner"] != "worker":
            yield f"attributes.{name}.table"
        if one["owner"] == "worker" and one["values"] is None:
            yield f"attributes.{name}.values"
        if not _alike(one["values"] or (), one["kind"]):
            yield f"attributes.{name}.values"
    groups = [name for name, one in attributes.items() if one["of"] is not None]
    if sorted(groups) != sorted(one["group"] for one in said["members"]):
        yield "members"
    for i, held in enumerate(said["members"]):
        if len(held["files"]) != 1:
            yield f"members.{i}.files"
    public = {name for name, one in attributes.items() if one["owner"] == "workplace"}
    for i, areas in enumerate(said["areas"]):
        listed = [areas["of"], *areas["above"]]
        if areas["of"] in [one["of"] for one in said["areas"][:i]]:
            yield f"areas.{i}.of"
        if len(set(listed)) < len(listed) or not set(listed) <= public:
            yield f"areas.{i}.above"
        if len(areas["files"]) != bool(areas["above"]):
            yield f"areas.{i}.files"
    names = [table["name"] for table in said["tables"]]
    for i, table in enumerate(said["tables"]):
        if names.count(table["name"]) > 1:
            yield f"tables.{i}.name"
        if len(set(table["by"])) < len(table["by"]) or not set(table["by"]) <= set(attributes):
            yield f"tables.{i}.by"
        for name, values in table["where"].items():
            if name not in attributes or not _alike(values, attributes[name]["kind"]):
                yield f"tables.{i}.where"


def _alike(values: Sequence[object], kind: Kind | None) -> bool:
    """Whether values are of a kind; without one they are texts."""
    return all(isinstance(value, _TYPES[kind or "string"]) for value in values)


def columns_of(
    schema: Schema, by: Iterable[str], *, scaled: bool = False, profile: bool = False
) -> pa.Schema:
    """The columns of a released table, its attributes first; `scaled` if it has drawn bounds.

    The rows of a size `profile` that are of all groups at once have no attributes.
    """
    integer = {name for name, one in schema.attributes.items() if one.kind == "integer"}
    keys = [
        pa.field(name, pa.int64() if name in integer else pa.string(), nullable=profile)
        for name in by
    ]
    names = (*MEASURES, SCALED_TO) if scaled else MEASURES
    if profile:
        return pa.schema([*keys, *(pa.field(n, pa.int64(), False) for n in PROFILE_MEASURES)])
    return pa.schema([*keys, *(pa.field(n, pa.int64(), nullable=n == "high") for n in names)])


def area_columns(schema: Schema, about: Mapping[str, Any]) -> pa.Schema:
    """The columns of a file that says which areas lie in which: the finest first."""
    keys = columns_of(schema, (about["of"], *about["above"]))
    return pa.schema([keys.field(name) for name in (about["of"], *about["above"])])


def counted_by(schema: Schema, about: Mapping[str, Any]) -> Marginal:
    """What a table counts, by what a record says of it."""
    said = about.get("profile")
    if said is None:
        return Marginal.over(schema, about["by"], about["where"])
    sizes, pooled_from = said["sizes"], said["pooled_from"]
    return SizeProfile.of(schema, about["by"], about["where"], sizes, pooled_from)


def schema_of(record: Mapping[str, Any], folder: Path) -> Schema:
    """The public schema that a record carries: enough to calibrate its tables' mechanisms again.

    The members of its groups are in files of the release, which is in `folder`.
    """
    if "kind" in record:
        raise Refusal("the release is a cube and not tables of linked data; read it as a cube")
    attributes = {
        name: Attribute(
            name,
            said.get("table") or said["owner"],
            said["label"],
            said["kind"],
            tuple(said["values"]) if said["values"] is not None else None,
            said["labels"],
            of=said["of"],
        )
        for name, said in record["attributes"].items()
    }
    files = {one["group"]: one for one in record["members"]}
    for name, group in attributes.items():
        if group.of is not None:
            members = Members(folder, files[name], attributes[group.of], group)
            attributes[name] = replace(group, members=members)
    nowhere = KeyedTable("", "")
    return Schema(nowhere, nowhere, _jobs_that_count(record), attributes)


def _jobs_that_count(record: Mapping[str, Any]) -> JobTable:
    """Which jobs count, and how many of a worker; `eree verify` finds a damaged declaration."""
    try:
        said = record["protects"]["job"]
        primary, most = said["primary"], said["most_per_worker"]
    except (LookupError, TypeError):
        return JobTable("", "", "")
    if isinstance(primary, Mapping):
        return JobTable("", "", "", greatest=str(primary.get("greatest")))
    sound = type(most) is int and most >= 1
    return JobTable("", "", "", str(primary) if primary else None, (), most if sound else 1)
