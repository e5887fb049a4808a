"""The shape of a survey cube: its variables, and which combinations of their values can be.

All of it is public and declared; nothing here looks at a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal


@dataclass(frozen=True)
class Variable:
    """A question of the survey and its possible answers, in the order of the cube's axis.

    `labels` are for people, one for each code.  The codes of a variable with the hierarchy "soc"
    are detailed occupations, and every query may ask for their broad, minor or major groups.
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


@dataclass(frozen=True)
class Impossible:
    """A declared structural zero: no record can have all of these values at once.

    For each variable that is named, a set of its codes; cells in all of the sets are left out.
    """

    codes: Mapping[str, tuple[str, ...]]

    def __init__(self, codes: Mapping[str, Iterable[str]]) -> None:
        kept = {name: tuple(given) for name, given in codes.items()}
        object.__setattr__(self, "codes", MappingProxyType(kept))


@dataclass(frozen=True)
class Shape:
    """The variables of a cube, in the order of its axes, and its structural zeros."""

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
        names = ", ".join(variable.name for variable in self.variables)
        raise Refusal(f"the cube has no variable {name!r}; it has {names}")

    def axes(self, names: Sequence[str]) -> tuple[int, ...]:
        """The axes of some variables."""
        return tuple(self.axis(name) for name in names)

    @cached_property
    def possible(self) -> NDArray[np.bool_] | None:
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
