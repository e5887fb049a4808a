"""The shape of a survey cube: its variables, and which combinations of their values can be.

All of it is public and declared; nothing here looks at a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal, hint
from eree.survey.soc import Level, group_of, level_of

#: The names of the variables of a table.
By = tuple[str, ...]
#: Arrays with an axis for each variable of a cube or a table.
Integers = NDArray[np.int64]
Reals = NDArray[np.float64]
Mask = NDArray[np.bool_]
#: A dense array of more cells does not fit into the memory of most machines.
MOST_CELLS = 50_000_000


@dataclass(frozen=True)
class Variable:
    """A question of the survey and its possible answers.

    Args:
        name: How queries call it.
        label: What people call it.
        codes: Its answers, in the order of the cube's axis.
        labels: What people call them, one for each code.
        hierarchy: "soc" where codes are detailed occupations; every query may then ask for their
            broad, minor or major groups.

    Examples:
        >>> eree.Variable("telework", "Telework", ("no", "yes"), ("No", "Yes")).places["yes"]
        1
    """

    name: str
    label: str
    codes: tuple[str, ...]
    labels: tuple[str, ...]
    hierarchy: Literal["soc"] | None = None

    def __post_init__(self) -> None:
        if len(self.codes) < 2 or len(set(self.codes)) < len(self.codes):
            raise Refusal(f"the variable {self.name!r} needs two or more codes, each once")
        if len(self.labels) != len(self.codes):
            raise Refusal(f"the variable {self.name!r} needs one label for each code")
        if self.hierarchy == "soc":
            for code in self.codes:
                if level_of(code) != "detailed":
                    raise Refusal(f"{code} in {self.name!r} is a group, not a detailed occupation")

    def __hash__(self) -> int:
        return hash(self.name)  # what is kept of variables is looked for often

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The place of every code on the axis."""
        return MappingProxyType({code: place for place, code in enumerate(self.codes)})

    def groups(self, level: Level) -> Mapping[str, tuple[int, ...]]:
        """The groups of occupations at a level, in the order of the axis, and what each holds."""
        if self.hierarchy != "soc":
            raise Refusal(f"the variable {self.name!r} has no levels; only occupations have")
        if level not in self._grouped:
            found: dict[str, list[int]] = {}
            for place, code in enumerate(self.codes):
                found.setdefault(group_of(code, level), []).append(place)
            groups = {group: tuple(places) for group, places in found.items()}
            self._grouped[level] = MappingProxyType(groups)
        return self._grouped[level]

    @cached_property
    def _grouped(self) -> dict[Level, Mapping[str, tuple[int, ...]]]:
        return {}

    def held(self, codes: Iterable[str]) -> tuple[str, ...]:
        """Codes in the order of the axis, each group of occupations replaced by what it holds."""
        wanted: set[int] = set()
        for code in codes:
            if code in self.places:
                wanted.add(self.places[code])
            elif members := self._members(code):
                wanted.update(members)
            else:
                groups = " and no group" if self.hierarchy == "soc" else ""
                raise Refusal(f"the variable {self.name!r} has no code{groups} {code!r}")
        return tuple(self.codes[place] for place in sorted(wanted))

    def _members(self, group: str) -> tuple[int, ...]:
        if self.hierarchy != "soc":
            return ()
        try:
            return self.groups(level_of(group)).get(group, ())
        except Refusal:
            return ()


@dataclass(frozen=True)
class Impossible:
    """A declared structural zero: no record can have all of these values at once.

    Args:
        codes: For each variable that is named, some of its codes; cells in all of them are left
            out.

    Examples:
        >>> eree.Impossible({"job": ["29-1210"], "education": ["none"]}).codes["education"]
        ('none',)
    """

    codes: Mapping[str, tuple[str, ...]]

    def __init__(self, codes: Mapping[str, Iterable[str]]) -> None:
        kept = {name: tuple(given) for name, given in codes.items()}
        if not kept or not all(kept.values()):
            raise Refusal("a structural zero names one or more variables, and codes of each")
        object.__setattr__(self, "codes", MappingProxyType(kept))


@dataclass(frozen=True)
class Shape:
    """The variables of a cube, and its structural zeros.

    Args:
        variables: In the order of its axes.
        impossible: The structural zeros.

    Examples:
        >>> answers = eree.Variable("telework", "Telework", ("no", "yes"), ("No", "Yes"))
        >>> eree.Shape((answers,)).size
        2
    """

    variables: tuple[Variable, ...]
    impossible: tuple[Impossible, ...] = ()

    def __post_init__(self) -> None:
        names = [variable.name for variable in self.variables]
        if not names or len(set(names)) < len(names):
            raise Refusal("a cube needs one or more variables, each with a name of its own")
        for rule in self.impossible:
            for name, codes in rule.codes.items():
                known = self.variable(name).codes
                if missing := [code for code in codes if code not in known]:
                    raise Refusal(f"the variable {name!r} has no code {missing[0]!r}")

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """The number of codes of every variable: the shape of the dense array."""
        return tuple(len(variable.codes) for variable in self.variables)

    @property
    def size(self) -> int:
        """The number of cells, with those that cannot be."""
        return prod(self.levels)

    def variable(self, name: str) -> Variable:
        """A variable by its name."""
        return self.variables[self.axis(name)]

    def axis(self, name: str) -> int:
        """The axis of a variable."""
        for number, variable in enumerate(self.variables):
            if variable.name == name:
                return number
        known = [variable.name for variable in self.variables]
        listed = ", ".join(known) + hint(name, known)
        raise Refusal(f"the cube has no variable {name!r}; it has {listed}")

    def axes(self, names: Sequence[str]) -> tuple[int, ...]:
        """The axes of some variables."""
        return tuple(self.axis(name) for name in names)

    def of(self, names: Sequence[str]) -> Shape:
        """The shape of a coarser cube: some of the variables, in the order in which they are named.

        A structural zero that needs a variable left out is left out with it, because its cells are
        then parts of cells that can be.
        """
        variables = tuple(self.variable(name) for name in names)
        kept = []
        for rule in self.impossible:
            needed = {
                name: codes
                for name, codes in rule.codes.items()
                if set(codes) < set(self.variable(name).codes)  # all codes: no condition
            }
            if needed and set(needed) <= set(names):
                kept.append(Impossible(needed))
        return Shape(variables, tuple(kept))

    @cached_property
    def possible(self) -> Mask | None:
        """Which cells can be, as an array of the cube's shape; None where all can."""
        if not self.impossible:
            return None
        found = np.ones(self.levels, dtype=np.bool_)
        for rule in self.impossible:
            within = [np.arange(level) for level in self.levels]
            for name, codes in rule.codes.items():
                known = self.variable(name).codes
                within[self.axis(name)] = np.array([known.index(code) for code in codes])
            found[np.ix_(*within)] = False
        found.flags.writeable = False
        return found

    def possible_in(self, by: By) -> Mask | None:
        """Which cells of a table have a cell of the cube that can be; None where all have."""
        if self.possible is None:
            return None
        axes = self.axes(by)
        others = tuple(axis for axis in range(len(self.variables)) if axis not in axes)
        kept = sorted(axes)
        found = np.asarray(self.possible.any(axis=others))
        found = found.transpose([kept.index(axis) for axis in axes]).copy()
        return None if found.all() else found

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data, for a file."""
        variables = [
            {
                "name": variable.name,
                "label": variable.label,
                "codes": list(variable.codes),
                "labels": list(variable.labels),
                "hierarchy": variable.hierarchy,
            }
            for variable in self.variables
        ]
        rules = [{name: list(codes) for name, codes in r.codes.items()} for r in self.impossible]
        return {"variables": variables, "impossible": rules}

    @classmethod
    def of_json(cls, body: Any) -> Shape:
        """The shape that `as_json` made plain; refuses what it cannot have made."""
        try:
            variables = tuple(
                Variable(
                    _text(given["name"]),
                    _text(given["label"]),
                    tuple(map(_text, given["codes"])),
                    tuple(map(_text, given["labels"])),
                    "soc" if given["hierarchy"] == "soc" else None,
                )
                for given in body["variables"]
            )
            rules = [{name: list(codes) for name, codes in r.items()} for r in body["impossible"]]
        except (AttributeError, KeyError, TypeError):
            raise Refusal("the shape of the cube is not written as eree writes it") from None
        return cls(variables, tuple(map(Impossible, rules)))

    def checked(self) -> Shape:
        """The same if its cube can be held, and has a cell; asked before any memory is taken."""
        if self.size > MOST_CELLS:
            raise Refusal(
                f"the cube would have {self.size:,} cells, more than the {MOST_CELLS:,} that eree"
                " holds; choose fewer variables, or variables with fewer codes"
            )
        if self.possible is not None and not self.possible.any():
            raise Refusal("the structural zeros leave no cell of the cube; declare fewer of them")
        return self


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise TypeError
    return given
