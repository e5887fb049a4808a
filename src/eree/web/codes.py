"""The codes of a variable as a list that people search: groups with what they hold."""

from __future__ import annotations

from dataclasses import dataclass

from eree.errors import Refusal
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
    """Codes under their groups, each in its order; with words to find, what has them all.

    A code is found by its own code and label and by those of the groups above it.
    """
    if len(find) > MOST_FIND:
        raise Refusal(f"words to find have at most {MOST_FIND} characters; give fewer")
    words = find.casefold().split()
    above: list[list[tuple[Group, str]]] = [[] for _ in variable.codes]
    for name, level in variable.tree.items():
        for group in level:
            if len(group.members) > 1:  # a group of one code says nothing more
                for member in group.members:
                    above[member].append((group, name))
    found: list[Line] = []
    shown: set[tuple[str, str]] = set()
    for place in variable.tree_order:
        code, label, chain = variable.codes[place], variable.labels[place], above[place]
        text = " ".join([code, label, *(f"{g.code} {g.label}" for g, _ in chain)]).casefold()
        if not all(word in text for word in words):
            continue
        for depth, (group, level_name) in enumerate(chain):
            if (level_name, group.code) not in shown:
                shown.add((level_name, group.code))
                found.append(
                    Line(
                        group.code,
                        group.label,
                        level_name,
                        depth,
                        group.code in variable.group_labels,
                        len(group.members),
                    )
                )
        found.append(Line(code, label, "", len(chain), True, 1))
    return found
