"""Reads `schema.toml` into a `Schema`, reporting every fault of the declaration at once."""

from __future__ import annotations

import csv
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError

from eree.errors import Fault, Faulty, Unreadable
from eree.policy.schema import (
    RESERVED,
    Attribute,
    JobTable,
    KeyedTable,
    Kind,
    Owner,
    Reference,
    Schema,
    Value,
)

SCHEMA_FILE = "schema.toml"
Text = Annotated[StrictStr, Field(min_length=1)]
Codes = list[StrictStr | StrictInt]


class _Node(BaseModel):
    """A table of the TOML file.  Unknown keys are kept, so that each can be reported."""

    model_config = ConfigDict(extra="allow", frozen=True)


class _AttributeNode(_Node):
    label: Text | None = None
    type: Kind | None = None
    values: Codes | Text | None = None
    labels: dict[StrictStr, StrictStr] | Text = {}
    confidential: StrictBool = False


class _KeyedNode(_Node):
    file: Text
    key: Text
    ignore: list[Text] = []
    attributes: dict[StrictStr, Any] = {}


class _JobNode(_Node):
    file: Text
    worker: Text
    workplace: Text
    primary: Text | None = None
    ignore: list[Text] = []


class _GroupNode(_Node):
    of: Text
    members: dict[StrictStr, Codes]
    label: Text | None = None
    labels: dict[StrictStr, StrictStr] | Text = {}


class _ReferenceNode(_Node):
    file: Text
    key: Text | None = None


_N = TypeVar("_N", bound=_Node)

#: Pydantic's kinds of error, in our words.
_WORDS = {
    "missing": "is required and missing",
    "string_type": "must be a text in quotes",
    "string_too_short": "must not be empty",
    "bool_type": "must be true or false",
    "int_type": "must be a text or a whole number",
    "list_type": "must be a list",
    "dict_type": "must be a table of names",
    "model_type": "must be a table of settings",
    "literal_error": 'must be "string" or "integer"',
}


class _Reading:
    """One pass over a schema file; collects faults instead of stopping at the first."""

    def __init__(self, folder: Path, raw: Mapping[str, Any]) -> None:
        self.folder = folder
        self.raw = raw
        self.faults: list[Fault] = []

    def fault(self, place: str, rule: str) -> None:
        fault = Fault(SCHEMA_FILE, SCHEMA_FILE, place, rule)
        if fault not in self.faults:
            self.faults.append(fault)

    def node(self, model: type[_N], raw: Any, place: str) -> _N | None:
        if not isinstance(raw, Mapping):
            self.fault(place, "must be a table of settings")
            return None
        for key in raw:
            if key not in model.model_fields:
                self.fault(f"{place}.{key}", "is not a setting that eree knows")
        known = {key: raw[key] for key in raw if key in model.model_fields}
        try:
            return model.model_validate(known)
        except ValidationError as error:
            for detail in error.errors(include_url=False, include_input=False):
                spot = [str(part) for part in detail["loc"] if part in known or part in _FIELDS]
                self.fault(".".join([place, *spot]), _WORDS.get(detail["type"], detail["msg"]))
            return None

    def section(self, name: str) -> Mapping[str, Any]:
        raw = self.raw.get(name, {})
        if isinstance(raw, Mapping):
            return raw
        self.fault(name, "must be a table of settings")
        return {}

    def listed(self, source: str, place: str) -> list[tuple[str, str | None]]:
        """The rows of a CSV file of values: a column `value`, and a column `label` if wanted."""
        try:
            with (self.folder / source).open(encoding="utf-8-sig", newline="") as handle:
                rows = csv.DictReader(handle, strict=True)
                if "value" not in (rows.fieldnames or ()):
                    self.fault(place, f"the file {source} needs a column named value")
                    return []
                return [(row["value"] or "", row.get("label")) for row in rows]
        except (OSError, UnicodeDecodeError, csv.Error):
            self.fault(place, f"the file {source} cannot be read as CSV in UTF-8")
            return []

    def labels(self, raw: Mapping[str, str] | str, place: str) -> dict[str, str]:
        if isinstance(raw, str):
            return {value: label for value, label in self.listed(raw, place) if label}
        return dict(raw)

    def attribute(self, owner: Owner, name: str, raw: Any) -> Attribute | None:
        place = f"{owner}.attributes.{name}"
        if isinstance(raw, list):  # the short form: sex = ["F", "M"]
            raw = {"values": raw}
        node = self.node(_AttributeNode, raw, place)
        if node is None:
            return None
        labels = self.labels(node.labels, f"{place}.labels")
        values: list[Value] | None
        if isinstance(node.values, str):
            listed = self.listed(node.values, f"{place}.values")
            labels = {v: label for v, label in listed if label} | labels
            values = [v for v, _ in listed]
            if node.type == "integer":
                try:
                    values = [int(v) for v in values]
                except ValueError:
                    self.fault(f"{place}.values", "must be whole numbers, as its type says")
                    return None
        else:
            values = None if node.values is None else list(node.values)
        kind = self.kind(values, node.type, place)
        if owner == "worker" and not values:
            self.fault(f"{place}.values", "a worker attribute declares all of its values")
            return None
        if values is not None and not values:
            self.fault(f"{place}.values", "must list at least one value")
            return None
        if owner == "worker" and node.confidential:
            self.fault(f"{place}.confidential", "worker attributes are always confidential")
        self.codes(values or [], labels, place, values is not None)
        return Attribute(
            name,
            owner,
            node.label or name,
            kind,
            None if values is None else tuple(values),
            labels,
            node.confidential,
        )

    def kind(
        self, values: Iterable[Value] | None, declared: Kind | None, place: str
    ) -> Kind | None:
        if values is None:
            return declared
        kinds: set[Kind] = {"integer" if isinstance(v, int) else "string" for v in values}
        if len(kinds) > 1:
            self.fault(f"{place}.values", "must be all texts or all whole numbers, not both")
        found = next(iter(kinds), None)
        if declared and found and declared != found:
            self.fault(f"{place}.type", f'says "{declared}" but the values are written as {found}s')
        return found or declared

    def codes(
        self, values: Iterable[Value], labels: Mapping[str, str], place: str, closed: bool
    ) -> None:
        texts = [str(v) for v in values]
        if any(n > 1 for n in Counter(texts).values()):
            self.fault(f"{place}.values", "lists a value more than once")
        if "" in texts:
            self.fault(f"{place}.values", "an empty text cannot be a value")
        if any("\0" in text for text in texts):
            self.fault(f"{place}.values", "a value cannot hold a NUL character")
        if closed and set(labels) - set(texts):
            self.fault(f"{place}.labels", "labels a value that is not declared")

    def group(self, name: str, raw: Any, attributes: Mapping[str, Attribute]) -> Attribute | None:
        place = f"group.{name}"
        node = self.node(_GroupNode, raw, place)
        if node is None:
            return None
        parent = attributes.get(node.of)
        if parent is None:
            self.fault(f"{place}.of", f"{node.of} is not a declared attribute")
            return None
        if parent.confidential:
            self.fault(f"{place}.of", f"{node.of} is confidential and cannot be grouped")
        codes = [code for member in node.members.values() for code in member]
        if not codes:
            self.fault(f"{place}.members", "must list at least one value")
            return None
        if len(set(codes)) < len(codes):
            self.fault(f"{place}.members", f"puts a value of {node.of} into two groups")
        if parent.values is not None and set(codes) != set(parent.values):
            self.fault(f"{place}.members", f"must hold each declared value of {node.of} once")
        elif parent.values is None:
            self.kind(codes, parent.kind, place)
        labels = self.labels(node.labels, f"{place}.labels")
        self.codes(node.members, labels, place, True)
        return Attribute(
            name,
            parent.owner,
            node.label or name,
            "string",
            tuple(node.members),
            labels,
            of=node.of,
            members={code: group for group, held in node.members.items() for code in held},
        )

    def keyed(self, owner: Owner) -> tuple[KeyedTable | None, list[Attribute]]:
        if owner not in self.raw:
            self.fault(owner, "this table is not declared")
            return None, []
        node = self.node(_KeyedNode, self.raw[owner], owner)
        raw = self.raw[owner]
        declared = raw.get("attributes", {}) if isinstance(raw, Mapping) else {}
        found = [
            self.attribute(owner, name, value)
            for name, value in (declared if isinstance(declared, Mapping) else {}).items()
        ]
        attributes = [a for a in found if a is not None]
        if node is None:
            return None, attributes
        for name in node.ignore:
            if name == node.key or name in declared:
                self.fault(f"{owner}.ignore", f"{name} is both declared and ignored")
        if node.key in declared:
            self.fault(f"{owner}.key", f"{node.key} is both the key and an attribute")
        return KeyedTable(node.file, node.key, tuple(node.ignore)), attributes

    def job(self) -> JobTable | None:
        if "job" not in self.raw:
            self.fault("job", "this table is not declared")
            return None
        node = self.node(_JobNode, self.raw["job"], "job")
        if node is None:
            return None
        columns = [c for c in (node.worker, node.workplace, node.primary, *node.ignore) if c]
        if len({c.casefold() for c in columns}) < len(columns):
            self.fault("job", "names one column for two purposes")
        return JobTable(node.file, node.worker, node.workplace, node.primary, tuple(node.ignore))

    def hierarchies(
        self, attributes: Mapping[str, Attribute]
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        for name, levels in self.section("hierarchy").items():
            place = f"hierarchy.{name}"
            if (
                not isinstance(levels, list)
                or len(levels) < 2
                or len(set(map(str, levels))) < len(levels)
            ):
                self.fault(place, "must list two or more different attributes, the finest first")
                continue
            for level in levels:
                attribute = attributes.get(level) if isinstance(level, str) else None
                if attribute is None or attribute.owner != "workplace":
                    self.fault(place, f"{level} is not a declared workplace attribute")
                elif attribute.confidential:
                    self.fault(place, f"{level} is confidential and cannot be part of a hierarchy")
            yield name, tuple(str(level) for level in levels)

    def references(self, attributes: Mapping[str, Attribute]) -> Iterator[Reference]:
        for name, raw in self.section("reference").items():
            node = self.node(_ReferenceNode, raw, f"reference.{name}")
            if node is None:
                continue
            key = node.key or name
            attribute = attributes.get(key)
            if attribute is None or attribute.owner != "workplace" or attribute.of is not None:
                self.fault(f"reference.{name}", f"{key} is not a column of the workplace table")
            elif attribute.confidential:
                self.fault(f"reference.{name}", f"{key} is confidential and cannot be looked up")
            else:
                yield Reference(name, node.file, key)

    def names(self, attributes: Iterable[Attribute]) -> None:
        seen: dict[str, str] = {}
        for attribute in attributes:
            name = attribute.name
            place = f"group.{name}" if attribute.of else f"{attribute.owner}.attributes.{name}"
            if name.casefold() in seen:
                self.fault(place, f"the name is taken by {seen[name.casefold()]}")
            seen.setdefault(name.casefold(), place)
            if name.casefold() in RESERVED or name.startswith("_"):
                self.fault(place, "the name is kept for columns that eree adds; rename the column")
            if not name or any(c in '"`\\' or not c.isprintable() for c in name):
                self.fault(
                    place,
                    "a name cannot be empty or hold quotes, backslashes or control characters",
                )

    def schema(self) -> Schema | None:
        for key in self.raw:
            if key not in ("workplace", "worker", "job", "hierarchy", "group", "reference"):
                self.fault(key, "is not a setting that eree knows")
        workplace, places = self.keyed("workplace")
        worker, people = self.keyed("worker")
        job = self.job()
        columns = {a.name: a for a in reversed([*places, *people])}
        groups = [
            group
            for name, raw in self.section("group").items()
            if (group := self.group(name, raw, columns)) is not None
        ]
        self.names([*places, *people, *groups])
        attributes = {a.name: a for a in (*places, *people, *groups)}
        hierarchies = dict(self.hierarchies(attributes))
        references = {r.name: r for r in self.references(attributes)}
        files = [t.file for t in (workplace, worker, job, *references.values()) if t]
        for file, times in Counter(files).items():
            if times > 1:
                self.fault("file", f"{file} is named for two tables")
        if workplace is None or worker is None or job is None:
            return None
        return Schema(workplace, worker, job, attributes, hierarchies, references)


_FIELDS = {
    name
    for model in (_AttributeNode, _KeyedNode, _JobNode, _GroupNode, _ReferenceNode)
    for name in model.model_fields
}


def inspect_schema(folder: Path) -> tuple[Schema | None, tuple[Fault, ...]]:
    """Read `folder/schema.toml`: what could be understood of it, and every fault.

    Raises `Unreadable` only where there is nothing to inspect: no folder, no file, not TOML.
    """
    path = folder / SCHEMA_FILE
    if not folder.is_dir():
        raise Unreadable(f"{folder} is not a folder; name the folder that holds {SCHEMA_FILE}")
    try:
        raw = tomllib.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise Unreadable(
            f"{folder} holds no {SCHEMA_FILE}; write one, or make a population with 'eree synth'"
        ) from None
    except UnicodeDecodeError:
        raise Unreadable(f"{path} is not UTF-8 text; save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"{path} is not valid TOML: {error}") from None
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}") from None
    reading = _Reading(folder, raw)
    schema = reading.schema()
    return schema, tuple(reading.faults)


def read_schema(folder: str | Path) -> Schema:
    """The schema of a folder; raises `Faulty` with every fault of the declaration."""
    schema, faults = inspect_schema(Path(folder))
    if faults or schema is None:
        raise Faulty(faults)
    return schema
