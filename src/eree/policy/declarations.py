"""Reads `schema.toml` into a `Schema`, reporting every fault of the declaration at once."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from eree.errors import Fault, Faulty, Refusal, Unreadable, hint
from eree.policy.codes import CodeBook
from eree.policy.schema import (
    RESERVED,
    Attribute,
    JobTable,
    KeyedTable,
    Owner,
    Provenance,
    Reference,
    Schema,
    Table,
    Value,
)
from eree.policy.settings import (
    SCHEMA_FILE,
    AttributeSettings,
    FileFaults,
    GroupSettings,
    JobSettings,
    KeyedSettings,
    ProvenanceSettings,
    ReferenceSettings,
    python_values,
    read_toml,
)

SECTIONS = dict.fromkeys(
    ("data_set", "draft", "workplace", "worker", "job", "group", "hierarchy", "reference")
)


def inspect_schema(
    folder: Path, raw: Mapping[str, Any] | None = None, frames: Collection[str] = ()
) -> tuple[Schema, tuple[Fault, ...]]:
    """Read `folder/schema.toml`, or `raw`: what could be understood of it, and every fault.

    Tables that come as data `frames` have no file; they go by their names.

    Where there are faults, a file or a column that was not understood is an empty text, and an
    attribute of which nothing but its name was understood takes any value.  Raises `Unreadable`
    only where there is nothing to inspect: no folder, no file, not TOML.
    """
    if raw is None:
        if not os.path.isdir(folder):  # noqa: PTH112 - false where a name is too long, too
            raise Unreadable(f"{folder} is not a folder; name the folder that holds {SCHEMA_FILE}")
        holds = f"{folder} holds no {SCHEMA_FILE}"
        missing = f"{holds}; write one, or make a population with 'eree synth'"
        raw = read_toml(folder / SCHEMA_FILE, missing=missing)
    reading = _Reading(folder, _without_files(python_values(raw), frames))
    schema = reading.schema()
    return schema, tuple(reading.faults.found)


def _without_files(raw: Mapping[str, Any], frames: Collection[str]) -> Mapping[str, Any]:
    """A declaration in which tables that come as data frames have their names for files."""
    listed = raw.get("reference", {})
    references = dict(listed) if isinstance(listed, Mapping) else {}
    known = ("workplace", "worker", "job", *(f"reference.{name}" for name in references))
    tables = dict(raw)
    for table in frames:
        if table not in known:
            words = f"there are {', '.join(known)}{hint(table, known)}"
            raise Refusal(f"there is no table {table!r} for a data frame; {words}")
        home, name = (references, table[10:]) if "." in table else (tables, table)
        if isinstance(home.get(name), Mapping):
            home[name] = {k: v for k, v in home[name].items() if k != "source"} | {"file": table}
    return tables | ({"reference": references} if references else {})


def read_schema(folder: str | os.PathLike[str]) -> Schema:
    """The schema of a folder; raises `Faulty` with every fault of the declaration.

    Args:
        folder: A folder with its `schema.toml`.

    Examples:
        >>> eree.read_schema("data").column("sector").table
        'workplace'
    """
    schema, faults = inspect_schema(Path(folder))
    if faults:
        raise Faulty(faults)
    return schema


class _Reading:
    """One pass over a schema file; collects faults instead of stopping at the first."""

    def __init__(self, folder: Path, raw: Mapping[str, Any]) -> None:
        self.folder = folder
        self.raw = raw
        self.faults = FileFaults()
        self.codes = CodeBook(folder, self.faults)

    def schema(self) -> Schema:
        self.faults.unknown(self.raw, SECTIONS)
        workplace, places = self.keyed("workplace")
        worker, people = self.keyed("worker")
        job, work = self.job()
        attributes = self.named([*places, *people, *work], [])
        made = dict[str, Attribute]()
        for name, raw in self.ordered_groups():
            group, codes = self.group(name, raw, made | attributes)
            if isinstance(raw, Mapping) and isinstance(raw.get("provenance"), Mapping):
                made_of = self.provenance(raw["provenance"], group, workplace.key)
                group = replace(group, provenance=made_of)
            made[name] = group
            parent = attributes.get(group.of or "")
            if parent is not None and parent.kind is None and codes:
                kind = self.codes.kind(codes, None, f"group.{name}.members")
                attributes[parent.name] = replace(parent, kind=kind)
        groups = [made[name] for name in self.section("group")]
        attributes = self.named(attributes.values(), groups)
        references = {r.name: r for r in self.references(attributes)}
        self.files(
            {"workplace": workplace.file, "worker": worker.file, "job": job.file}
            | {f"reference.{name}": r.file for name, r in references.items()}
        )
        hierarchies = dict(self.hierarchies(attributes))
        name = self.faults.data_set(self.raw)
        draft = self.raw.get("draft", False)
        if not isinstance(draft, bool):
            self.faults.add("draft", "must be true or false")
        tables = workplace, worker, job
        return Schema(*tables, attributes, hierarchies, references, name, draft is True)

    def section(self, name: str) -> Mapping[str, Any]:
        raw = self.raw.get(name, {})
        if isinstance(raw, Mapping):
            return raw
        self.faults.add(name, "must be a table of settings")
        return {}

    # ------------------------------------------------------------------ tables

    def keyed(self, owner: Owner) -> tuple[KeyedTable, list[Attribute]]:
        if owner not in self.raw:
            self.faults.add(owner, "this table is not declared")
            return KeyedTable("", ""), []
        table = self.faults.read(KeyedSettings, self.raw[owner], owner)
        attributes = [self.attribute(owner, name, raw) for name, raw in table.attributes.items()]
        self.purposes(owner, [table.key, *table.ignore], table.attributes)
        if table.publish_key and owner == "worker":
            self.faults.add("worker.publish_key", "who is in the data is confidential")
        elif table.publish_key:  # that a workplace exists is public
            attributes.append(self.attribute(owner, table.key, {}))
        ignore = tuple(table.ignore)
        held = KeyedTable(table.place, table.key, ignore, table.dialect, table.database)
        return held, attributes

    def job(self) -> tuple[JobTable, list[Attribute]]:
        if "job" not in self.raw:
            self.faults.add("job", "this table is not declared")
            return JobTable("", "", ""), []
        table = self.faults.read(JobSettings, self.raw["job"], "job")
        attributes = [self.attribute("job", name, raw) for name, raw in table.attributes.items()]
        rule = table.primary
        primary, greatest = (rule or None, None) if isinstance(rule, str) else (None, rule.greatest)
        columns = [table.worker, table.workplace, primary or greatest or "", *table.ignore]
        self.purposes("job", columns, table.attributes)
        links, ignore = (table.place, table.worker, table.workplace), tuple(table.ignore)
        most = table.most_per_worker
        if greatest and most > 1:
            self.faults.add("job.most_per_worker", "must be 1 where a rule chooses the primary job")
        read = table.dialect, greatest, table.database
        return JobTable(*links, primary, ignore, most, *read), attributes

    def purposes(self, table: str, columns: Iterable[str], attributes: Iterable[str]) -> None:
        """One column is the key, or an attribute, or ignored; never two of these."""
        seen = {name.casefold() for name in attributes}
        for column in columns:
            if column and column.casefold() in seen:
                self.faults.add(
                    table,
                    f"names the column {column} twice (names that differ only in case are one)",
                )
            seen.add(column.casefold())

    def files(self, files: Mapping[str, str]) -> None:
        """No file belongs to two tables, whatever the way its name is written."""
        real = {t: (self.folder / file).resolve() for t, file in files.items() if file}
        for (one, path), (other, second) in combinations(real.items(), 2):
            if path == second or path in second.parents or second in path.parents:
                self.faults.add(f"{other}.file", f"is, or lies inside, the file of {one}")

    def references(self, attributes: Mapping[str, Attribute]) -> Iterator[Reference]:
        for name, raw in self.section("reference").items():
            place = f"reference.{name}"
            settings = self.faults.read(ReferenceSettings, raw, place)
            key = settings.key or name
            attribute = attributes.get(key)
            if attribute is None or attribute.owner != "workplace" or attribute.of is not None:
                self.faults.add(place, f"{key} is not a column of the workplace table")
                key = ""
            elif attribute.confidential:
                self.faults.add(place, f"{key} is confidential and cannot be looked up")
                key = ""
            yield Reference(name, settings.place, key, settings.dialect, settings.database)

    # -------------------------------------------------------------- attributes

    def attribute(self, table: Table, name: str, raw: Any) -> Attribute:
        place = f"{table}.attributes.{name}"
        if isinstance(raw, list):  # the short form: sex = ["F", "M"]
            raw = {"values": raw}
        known = len(self.faults.found)
        settings = self.faults.read(AttributeSettings, raw, place)
        understood = len(self.faults.found) == known
        values, kind, classes = self.codes.classes(settings, place)
        found, sorted_ = dict[str, str](), settings.ranges is not None or settings.years is not None
        if settings.values is not None and not sorted_:
            values, kind, found = self.codes.values(
                settings.values, settings.type, f"{place}.values"
            )
        elif table != "workplace" and understood and not sorted_:
            self.faults.add(f"{place}.values", f"a {table} attribute declares all of its values")
        if table != "workplace" and settings.confidential:
            self.faults.add(f"{place}.confidential", f"{table} attributes are always confidential")
        labels = found | self.codes.labels(settings.labels, f"{place}.labels")
        if values is not None:
            self.codes.match(labels, values, f"{place}.labels")
        label, missing = settings.label or name, settings.missing
        if missing is not None and values is not None and missing not in values:
            self.faults.add(f"{place}.missing", "is not one of the declared values")
            missing = None
        elif missing is not None and isinstance(missing, int) != (kind == "integer"):
            rule = "must be of the type of the values; of integers without values, say the type"
            self.faults.add(f"{place}.missing", rule)
            missing = None
        read = Attribute(name, table, label, kind, values, labels, settings.confidential)
        return replace(read, missing=missing, classes=classes)

    def ordered_groups(self) -> list[tuple[str, Any]]:
        """The groups, each after the one that it is made of."""
        waiting, found = dict(self.section("group")), list[tuple[str, Any]]()
        while waiting:
            ready = [
                name
                for name, raw in waiting.items()
                if not (isinstance(raw, Mapping) and raw.get("of") in waiting.keys() - {name})
            ]
            if not ready:
                self.faults.add("group", f"{', '.join(waiting)} are made of each other in a circle")
                ready = list(waiting)
            found += [(name, waiting.pop(name)) for name in ready]
        return found

    def group(
        self, name: str, raw: Any, attributes: Mapping[str, Attribute]
    ) -> tuple[Attribute, list[Value]]:
        """A group and the values that it holds; one that is not understood is left without."""
        place = f"group.{name}"
        settings = self.faults.read(GroupSettings, raw, place)
        labels = self.codes.labels(settings.labels, f"{place}.labels")
        label = settings.label or name
        parent, codes = attributes.get(settings.of), list[Value]()
        if settings.of and parent is None:
            self.faults.add(f"{place}.of", f"{settings.of} is not a column of a declared table")
        kind = settings.type or (parent.kind if parent is not None else None)
        if settings.prefix:
            members = self.prefixes(settings, parent, place)
        else:
            members = self.codes.members(settings.members, kind, f"{place}.members")
        if members:
            codes = [code for held in members.values() for code in held]
            self.membership(settings.of, members, parent, codes, f"{place}.members")
            self.codes.match(labels, members, f"{place}.labels")
        elif isinstance(raw, Mapping) and not settings.prefix:
            empty = raw.get("members") == {}
            if empty or "members" not in raw:
                rule = "must list at least one group" if empty else "is required and missing"
                self.faults.add(f"{place}.members", rule)
        refused = parent is not None and parent.of is not None and not parent.members
        if parent is not None and parent.provenance is not None:
            rule = f"{parent.name} is made of released sizes and cannot be grouped again"
            self.faults.add(f"{place}.of", rule)
            refused = True
        if parent is None or not codes or refused:
            return Attribute(name, "workplace", label, None, None, labels, of=settings.of), []
        if parent.confidential:
            self.faults.add(f"{place}.of", f"{parent.name} is confidential and cannot be grouped")
        if self.codes.kind(codes, parent.kind or settings.type, f"{place}.members") is None:
            return Attribute(name, parent.table, label, None, None, labels, of=parent.name), []
        sent = {code: group for group, held in members.items() for code in held}
        if parent.of is not None:  # a group of a group is one of the column
            sent = {code: sent[middle] for code, middle in parent.members.items() if middle in sent}
        of = parent.of or parent.name
        group = Attribute(name, parent.table, label, "string", tuple(members), labels, of=of)
        return replace(group, members=sent), list(sent)

    def prefixes(
        self, settings: GroupSettings, parent: Attribute | None, place: str
    ) -> dict[str, list[Value]]:
        """The declared values of an attribute by how they begin."""
        found: dict[str, list[Value]] = {}
        if settings.members:
            self.faults.add(place, "has members and a prefix; leave one out")
        elif parent is not None and (parent.values is None or parent.kind != "string"):
            rule = f"needs {parent.name} to declare its values, as texts"
            self.faults.add(f"{place}.prefix", rule)
        else:
            for value in (parent.values or ()) if parent is not None else ():
                found.setdefault(str(value)[: settings.prefix], []).append(value)
        return found

    def provenance(self, raw: Mapping[str, Any], group: Attribute, key: str) -> Provenance:
        """Which released sizes a group was made of."""
        place = f"group.{group.name}.provenance"
        settings = self.faults.read(ProvenanceSettings, raw, place)
        if group.of != key:
            self.faults.add(place, "only a group of the key of workplaces is made of their sizes")
        if len(set(settings.cuts)) < len(settings.cuts):
            self.faults.add(f"{place}.cuts", "names a size twice")
        cuts = tuple(sorted(settings.cuts))
        return Provenance(settings.release, settings.digest, settings.table, cuts)

    def membership(
        self,
        of: str,
        members: Mapping[str, list[Value]],
        parent: Attribute | None,
        codes: list[Value],
        place: str,
    ) -> None:
        """Each value of the finer attribute belongs to one group, and no group is empty."""
        if "" in members:
            self.faults.add(place, "an empty text cannot be the name of a group")
        if not all(members.values()):
            self.faults.add(place, "has a group that holds no value")
        if len(set(codes)) < len(codes):
            self.faults.add(place, f"puts a value of {of} into two groups, or twice into one")
        if parent is not None and parent.values is not None:
            if left := len(set(parent.values) - set(codes)):
                self.faults.add(place, f"leaves out declared values of {parent.name}: {left:,}")
            if more := len(set(codes) - set(parent.values)):
                rule = f"holds values that {parent.name} does not declare: {more:,}"
                self.faults.add(place, rule)

    def named(
        self, columns: Iterable[Attribute], groups: Iterable[Attribute]
    ) -> dict[str, Attribute]:
        """Attributes by name; one whose name is taken is kept under its place in the file."""
        found: dict[str, Attribute] = {}
        taken: dict[str, str] = {}
        places = [(f"{column.table}.attributes.{column.name}", column) for column in columns]
        for place, attribute in [*places, *((f"group.{group.name}", group) for group in groups)]:
            name = attribute.name
            first = taken.setdefault(name.casefold(), place)
            if first != place:
                self.faults.add(place, f"the name is taken by {first}")
            found[name if first == place else place] = attribute
            if name.casefold() in RESERVED or name.startswith("_"):
                self.faults.add(place, "the name is kept for columns that eree adds; rename it")
            if not name or any(c in '"`\\' or not c.isprintable() for c in name):
                self.faults.add(
                    place,
                    "a name cannot be empty or hold quotes, backslashes or control characters",
                )
        return found

    def hierarchies(
        self, attributes: Mapping[str, Attribute]
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        for name, levels in self.section("hierarchy").items():
            place = f"hierarchy.{name}"
            names = [level for level in levels if level] if isinstance(levels, list) else []
            texts = all(isinstance(level, str) for level in names)
            if not texts or len(names) < 2 or len(set(names)) < len(names):
                rule = "must list two or more different attributes, the finest first"
                self.faults.add(place, rule)
                continue
            for fine, coarse in pairwise(names):
                if fine in attributes and attributes[fine].of == coarse:
                    self.faults.add(place, f"{fine} groups {coarse} and so cannot be the finer one")
            kept = [level for level in names if self.level(level, attributes, place)]
            yield name, tuple(kept)

    def level(self, name: str, attributes: Mapping[str, Attribute], place: str) -> bool:
        attribute = attributes.get(name)
        if attribute is None or attribute.owner != "workplace":
            self.faults.add(place, f"{name} is not a declared workplace attribute")
            return False
        if attribute.confidential:
            self.faults.add(place, f"{name} is confidential and cannot be part of a hierarchy")
            return False
        return attribute.of is None or attribute.values is not None
