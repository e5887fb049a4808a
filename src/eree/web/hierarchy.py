"""Levels above the codes of released tables: by groups and hierarchies that the release says."""

from __future__ import annotations

from collections.abc import Sequence

from eree.estimate.above import above
from eree.policy.schema import Value
from eree.release.release import Release
from eree.web.dataset import Group


def levels_of(release: Release, name: str, codes: Sequence[Value]) -> dict[str, tuple[Group, ...]]:
    """The levels above an attribute's codes, from the coarsest, each with all codes in groups.

    A level in which some codes lie nowhere is none: its groups would not add up to the whole.
    """
    found: dict[str, tuple[Group, ...]] = {}
    for coarse, one in above(release, [name]).items():
        attribute, lies_in = release.schema.attributes[coarse], one.pairs
        members: dict[Value, list[int]] = {}
        for place, code in enumerate(codes):
            group = lies_in.get(code)
            if group is None:
                break
            members.setdefault(group, []).append(place)
        else:
            if 1 < len(members) <= len(codes) // 2 or (attribute.of == name and len(members) > 1):
                order = list(attribute.values or sorted(members, key=str))
                found[coarse] = tuple(
                    Group(str(value), attribute.describe(value), tuple(members[value]))
                    for value in order
                    if value in members
                )
    finest_last = reversed(found.items())  # of two that are alike, the finer is listed first
    return dict(sorted(finest_last, key=lambda pair: len(pair[1])))
