"""Levels above the codes of released tables: what their release publishes of hierarchies.

A group that was declared (sector groups of sectors) is in the record.  A hierarchy (tracts in
counties) is seen in the public rows of any table of the release: which workplaces exist, and where,
is public, and every row has one.  A table of some workplaces alone shows too little: what lies in
one county there may lie in others as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

from eree.policy.schema import Schema, Value
from eree.release.release import Release
from eree.web.dataset import Group

#: For a finer and a coarser attribute: the one value of the coarser that each of the finer lies in.
Nests = Mapping[tuple[str, str], Mapping[Value, Value]]


def nests_of(release: Release, schema: Schema) -> Nests:
    """Which attributes of workplaces lie in others, by all tables of a release together."""
    found: dict[tuple[str, str], dict[Value, Value]] = {}
    crossing: set[tuple[str, str]] = set()
    for table in release.tables:
        about = release.about(table)
        by = [n for n in about["by"] if schema.attributes[n].owner == "workplace"]
        some = any(schema.attributes[n].owner == "workplace" for n in about["where"])
        if len(by) < 2 or some or about.get("profile"):  # whose pooled rows have no attributes
            continue
        rows = release.table(table).select(by)
        for fine, coarse in permutations(by, 2):
            if (fine, coarse) in crossing:
                continue
            pairs = rows.group_by([fine, coarse]).aggregate([])  # each once
            known = found.setdefault((fine, coarse), {})
            for one, two in zip(*(pairs[name].to_pylist() for name in (fine, coarse)), strict=True):
                if known.setdefault(one, two) != two:
                    crossing.add((fine, coarse))
                    break
    for pair in crossing:
        del found[pair]
    for (fine, middle), lower in list(found.items()):  # tracts in counties, counties in states
        for (other, coarse), upper in list(found.items()):
            new = other == middle and coarse != fine and (fine, coarse) not in {*found, *crossing}
            if new and set(lower.values()) <= set(upper):
                found[fine, coarse] = {one: upper[two] for one, two in lower.items()}
    return found


def levels_of(
    name: str, codes: Sequence[Value], schema: Schema, nests: Nests
) -> dict[str, tuple[Group, ...]]:
    """The levels above an attribute's codes, from the coarsest, each with all codes in groups."""
    found: dict[str, tuple[Group, ...]] = {}
    for attribute in schema.attributes.values():
        if attribute.of == name:
            lies_in: Mapping[Value, Value] = attribute.members
        elif (name, attribute.name) in nests:
            lies_in = nests[name, attribute.name]
        else:
            continue
        members: dict[Value, list[int]] = {}
        for place, code in enumerate(codes):
            if code not in lies_in:
                break
            members.setdefault(lies_in[code], []).append(place)
        else:
            if 1 < len(members) <= len(codes) // 2 or (attribute.of == name and len(members) > 1):
                order = list(attribute.values or sorted(members, key=str))
                found[attribute.name] = tuple(
                    Group(str(value), attribute.describe(value), tuple(members[value]))
                    for value in order
                    if value in members
                )
    return dict(sorted(found.items(), key=lambda pair: len(pair[1])))
