"""What a record says of tables and attributes, checked as a whole before any of it is believed.

`eree verify` says what is wrong with a record, place by place.  Whoever only uses a release asks
here, once, whether its record is written as a record of tables is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import BaseModel, Field, StrictInt, StrictStr, ValidationError

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

_Code = StrictStr | Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)]
_TYPES = {"string": str, "integer": int}


class _SaidAttribute(BaseModel):
    owner: Owner
    label: StrictStr
    kind: Kind | None
    values: list[_Code] | None
    labels: dict[StrictStr, StrictStr]
    of: StrictStr | None
    table: Literal["job"] | None = None


class _SaidProfile(BaseModel):
    sizes: list[StrictInt]
    pooled_from: StrictInt


class _SaidTable(BaseModel):
    name: StrictStr
    about: dict[StrictStr, StrictStr]
    by: list[StrictStr]
    where: dict[StrictStr, list[_Code]]
    rows: StrictInt
    worker_cells: StrictInt
    mechanism: StrictStr
    price: dict[StrictStr, Any]
    each: dict[StrictStr, Any]
    settings: dict[StrictStr, Any]
    parameters: dict[StrictStr, Any]
    files: dict[StrictStr, StrictStr]
    profile: _SaidProfile | None = None


class _SaidAreas(BaseModel):
    of: StrictStr
    above: list[StrictStr]
    crossing: list[StrictStr]
    rows: StrictInt
    files: dict[StrictStr, StrictStr]


class _SaidMembers(BaseModel):
    group: StrictStr
    rows: StrictInt
    files: dict[StrictStr, StrictStr]


class _SaidRecord(BaseModel):
    eree: StrictStr
    release: StrictStr
    digest: StrictStr
    level: StrictStr
    about: dict[StrictStr, StrictStr]
    attributes: dict[StrictStr, _SaidAttribute]
    members: list[_SaidMembers]
    areas: list[_SaidAreas]
    tables: list[_SaidTable]


def misread(record: Mapping[str, Any]) -> str | None:
    """The first place of a record of tables that is not written as it should be, if there is one.

    Nothing is said of what stands there: a place is named by the words of the record.
    """
    try:
        said = _SaidRecord.model_validate(record)
    except ValidationError as error:
        return ".".join(map(str, error.errors(include_input=False, include_url=False)[0]["loc"]))
    return next(_contradictions(said), None)


def _contradictions(said: _SaidRecord) -> Iterator[str]:
    """Places that are well written and do not fit the others."""
    for name, one in said.attributes.items():
        finer = said.attributes.get(one.of or "")
        if one.of is not None and (finer is None or finer.of is not None):
            yield f"attributes.{name}.of"
        if one.table is not None and one.owner != "worker":
            yield f"attributes.{name}.table"
        if one.owner == "worker" and one.values is None:
            yield f"attributes.{name}.values"
        if not _alike(one.values or (), one.kind):
            yield f"attributes.{name}.values"
    groups = [name for name, one in said.attributes.items() if one.of is not None]
    if sorted(groups) != sorted(one.group for one in said.members):
        yield "members"
    for i, held in enumerate(said.members):
        if len(held.files) != 1:
            yield f"members.{i}.files"
    public = {name for name, one in said.attributes.items() if one.owner == "workplace"}
    for i, areas in enumerate(said.areas):
        listed = [areas.of, *areas.above]
        if areas.of in [one.of for one in said.areas[:i]]:
            yield f"areas.{i}.of"
        if len(set(listed)) < len(listed) or not set(listed) <= public:
            yield f"areas.{i}.above"
        if len(areas.files) != bool(areas.above):
            yield f"areas.{i}.files"
    names = [table.name for table in said.tables]
    for i, table in enumerate(said.tables):
        if names.count(table.name) > 1:
            yield f"tables.{i}.name"
        if len(set(table.by)) < len(table.by) or not set(table.by) <= set(said.attributes):
            yield f"tables.{i}.by"
        for name, values in table.where.items():
            if name not in said.attributes or not _alike(values, said.attributes[name].kind):
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
    sound = type(most) is int and most >= 1
    return JobTable("", "", "", str(primary) if primary else None, (), most if sound else 1)
