"""The codes of a variable as a list that people search: groups with what they hold."""

from __future__ import annotations

from dataclasses import dataclass

from eree.web.dataset import Group, Variable

#: A longer list is cut, and says so.
MOST_LINES = 600
#: Letters and words that are looked for at once: each word is sought in every code.
MOST_FIND, MOST_WORDS = 200, 12


@dataclass(frozen=True)
class Line:
    """A code or a group of codes; `depth` says how deep it lies, `askable` whether it is kept."""

    code: str
    label: str
    level: str
    depth: int
    askable: bool
    holds: int


def listed(variable: Variable, find: str = "") -> list[Line]:
    """Codes in their order under their groups; with words to find, what has them all.

    A code is found by its own code and label and by those of the groups above it.
    """
    words = find.casefold().split()
    above: list[list[Group]] = [[] for _ in variable.codes]
    names = {group.code: name for name, level in variable.levels.items() for group in level}
    for level in variable.levels.values():
        for group in level:
            for member in group.members:
                if len(group.members) > 1:  # a group of one code says nothing more
                    above[member].append(group)
    found: list[Line] = []
    shown: set[str] = set()
    for place, (code, label) in enumerate(zip(variable.codes, variable.labels, strict=True)):
        chain = above[place]
        text = " ".join([code, label, *(f"{g.code} {g.label}" for g in chain)]).casefold()
        if not all(word in text for word in words):
            continue
        for depth, group in enumerate(chain):
            if group.code not in shown:
                shown.add(group.code)
                found.append(
                    Line(
                        group.code,
                        group.label,
                        names[group.code],
                        depth,
                        variable.askable,
                        len(group.members),
                    )
                )
        found.append(Line(code, label, "", len(chain), True, 1))
    return found
