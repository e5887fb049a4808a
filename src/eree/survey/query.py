"""What is asked of a cube, and what a question makes of each of its variables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import groupby
from types import MappingProxyType
from typing import cast

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from eree.errors import Refusal
from eree.survey.shape import Integers, Shape, Variable
from eree.survey.soc import LEVELS, Level, title_of


@dataclass(frozen=True)
class Query:
    """What is asked of a cube: a table of some of its cells.

    Args:
        by: The variables of the table.
        where: For a variable the codes to keep, among them groups of occupations; a variable in
            `by` then shows those alone.
        levels: The level that a variable of occupations in `by` is shown at.

    Examples:
        >>> eree.Query(["education"], where={"licence": ["1"]}).by
        ('education',)
    """

    by: tuple[str, ...]
    where: Mapping[str, tuple[str, ...]]
    levels: Mapping[str, Level]
    _known: tuple[Shape, tuple[Side, ...]] | None = field(repr=False, compare=False)

    def __init__(
        self,
        by: Iterable[str] = (),
        where: Mapping[str, Iterable[str]] | None = None,
        levels: Mapping[str, Level] | None = None,
    ) -> None:
        names = (by,) if isinstance(by, str) else tuple(by)
        kept = {n: (c,) if isinstance(c, str) else tuple(c) for n, c in (where or {}).items()}
        if len(set(names)) < len(names):
            raise Refusal("a table names a variable twice; name each once")
        for name in levels or {}:
            if name not in names:
                raise Refusal(f"a level is given for {name!r}, which the table is not by")
        object.__setattr__(self, "by", names)
        object.__setattr__(self, "where", MappingProxyType(kept))
        object.__setattr__(self, "levels", MappingProxyType(dict(levels or {})))
        object.__setattr__(self, "_known", None)

    @classmethod
    def from_text(
        cls, by: Iterable[str] = (), where: Iterable[str] = (), levels: Iterable[str] = ()
    ) -> Query:
        """A query from text: `by` as "a,b", `where` as "a=x,y", `levels` as "a=major"."""
        shown = dict(_setting(text, "a=major") for text in levels)
        if wrong := [level for level in shown.values() if level not in LEVELS]:
            raise Refusal(f"there is no level {wrong[0]!r}; there are {', '.join(LEVELS)}")
        kept: dict[str, tuple[str, ...]] = {}
        for text in where:
            name, codes = _setting(text, "a=x,y")
            if name in kept:
                raise Refusal(f"{name!r} is filtered twice; give all its codes at once")
            kept[name] = _listed(codes)
        names = [name for part in by for name in _listed(part)]
        return cls(names, kept, {name: cast(Level, level) for name, level in shown.items()})

    def sides(self, shape: Shape) -> tuple[Side, ...]:
        """What it makes of every variable of a shape; refuses what the shape does not know."""
        known = self._known
        if known is None or known[0] is not shape:
            shape.axes((*self.by, *self.where))
            known = shape, tuple(side_of(variable, self) for variable in shape.variables)
            object.__setattr__(self, "_known", known)  # it is asked for several times
        return known[1]

    def coarser(self, by: tuple[str, ...], shape: Shape) -> Query:
        """The same by some of its variables only."""
        levels = {name: level for name, level in self.levels.items() if name in by}
        found = Query(by, self.where, levels)
        sides = zip(shape.variables, self.sides(shape), strict=True)
        known = tuple(side if v.name in by else side.summed for v, side in sides)
        object.__setattr__(found, "_known", (shape, known))
        return found


def _setting(text: str, example: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or not name.strip() or not value.strip():
        raise Refusal(f"{text!r} cannot be read; write it as in {example}")
    return name.strip(), value.strip()


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


@dataclass(frozen=True)
class Axis:
    """One side of a table: a variable, and the codes or groups that it is shown by."""

    name: str
    label: str
    codes: tuple[str, ...]
    labels: tuple[str, ...]

    @cached_property
    def told_apart(self) -> tuple[str, ...]:
        """Its labels, with their codes where several have the same."""
        number = Counter(map(str.casefold, self.labels))
        both = zip(self.labels, self.codes, strict=True)
        return tuple(a if number[a.casefold()] == 1 else f"{a} ({code})" for a, code in both)

    @cached_property
    def texts(self) -> NDArray[np.object_]:
        """Its codes as JSON."""
        return np.array([to_json(code).decode() for code in self.codes], dtype=np.object_)

    @cached_property
    def label_texts(self) -> NDArray[np.object_]:
        """Its labels as JSON."""
        return np.array([to_json(label).decode() for label in self.labels], dtype=np.object_)


#: What becomes of an axis: for each place that it has afterwards, the stretches that are summed.
Groups = tuple[tuple[slice, ...], ...]


@dataclass(frozen=True, eq=False)
class Side:
    """What a query makes of a variable: the groups of its codes, and how it is shown, if it is.

    `sizes` has the number of codes of each group, or is one number where all have as many.
    `picks` are the places of all codes that are kept, group by group, and `starts` where each
    group begins among them.
    """

    groups: Groups | None  # None where every code is a group of its own
    shown: Axis | None
    whole: bool  # the table is not about it
    length: int
    sizes: int | Integers
    picks: Integers
    starts: Integers

    @classmethod
    def of(cls, groups: Sequence[Sequence[int]], shown: Axis | None, codes: int) -> Side:
        """A side from the places in each of its groups, for a variable of so many codes."""
        picks = np.array([place for group in groups for place in group], dtype=np.int64)
        sizes = np.array([len(group) for group in groups], dtype=np.int64)
        starts = np.cumsum(sizes) - sizes
        first = len(groups[0])
        alike = all(len(group) == first for group in groups)
        every = len(groups) == codes and len(picks) == codes
        runs = None if every and shown else tuple(map(_runs, groups))
        whole = shown is None and len(picks) == codes
        return cls(runs, shown, whole, len(groups), first if alike else sizes, picks, starts)

    @cached_property
    def summed(self) -> Side:
        """The same codes in one group, which is not shown; the table may be about it or not."""
        if self.shown is None:
            return self
        groups = (_runs(sorted(self.picks.tolist())),)
        size = len(self.picks)
        return Side(groups, None, False, 1, size, self.picks, self.starts[:1])

    @property
    def single(self) -> bool:
        """Whether every group is one code."""
        return isinstance(self.sizes, int) and self.sizes == 1


def side_of(variable: Variable, query: Query) -> Side:
    """What a query makes of a variable."""
    by, level = variable.name in query.by, query.levels.get(variable.name)
    if variable.name not in query.where:
        return whole_side(variable, by, level)
    held = variable.held(query.where[variable.name])
    if not held:
        raise Refusal(f"no code of {variable.name!r} is kept; keep one or more")
    return _made(variable, tuple(variable.places[code] for code in held), by, level)


@lru_cache(maxsize=1024)  # most variables of a query have no filter
def whole_side(variable: Variable, by: bool, level: Level | None) -> Side:
    """What a query without a filter makes of a variable."""
    return _made(variable, range(len(variable.codes)), by, level)


def _made(variable: Variable, kept: Sequence[int], by: bool, level: Level | None) -> Side:
    codes = variable.codes
    if not by:
        return Side.of([kept], None, len(codes))
    if level is None:
        shown = codes if len(kept) == len(codes) else tuple(codes[place] for place in kept)
        labels = tuple(variable.labels[place] for place in kept)
        groups: list[Sequence[int]] = [(place,) for place in kept]
    else:
        among = set(kept)
        held_by = {
            group: [place for place in places if place in among]
            for group, places in variable.groups(level).items()
        }
        held_by = {group: places for group, places in held_by.items() if places}
        shown, labels = tuple(held_by), tuple(map(title_of, held_by))
        if level == "detailed":
            labels = tuple(variable.labels[place] for (place,) in held_by.values())
        groups = list(held_by.values())
    return Side.of(groups, Axis(variable.name, variable.label, shown, labels), len(codes))


def _runs(places: Sequence[int]) -> tuple[slice, ...]:
    """Places in ascending order as stretches without a gap."""
    found = []
    for _, run in groupby(enumerate(places), key=lambda pair: pair[1] - pair[0]):
        stretch = [place for _, place in run]
        found.append(slice(stretch[0], stretch[-1] + 1))
    return tuple(found)
