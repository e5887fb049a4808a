"""A data set of the query tool: what can be asked of a released table or a protected cube."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.policy.guarantee import ONE
from eree.release.release import Release
from eree.survey.query import Axis
from eree.web.figures import Asked, Figures, Mask
from eree.web.promise import in_one_line
from eree.web.refusals import no_variable, too_many_words
from eree.web.sentences import told
from eree.web.words import Joined, say, spoken

Error = Literal["margin", "standard-error", "interval", "relative"]
#: How the error of an estimate may be shown, with labels.
ERRORS: Mapping[Error, str] = MappingProxyType(
    {
        "margin": say("Margin of error"),
        "standard-error": say("Standard error"),
        "interval": say("Interval"),
        "relative": say("Relative error"),
    }
)
#: Letters and words that are looked for at once: each word is sought in every code.
MOST_FIND, MOST_WORDS = 200, 12


@dataclass(frozen=True)
class Group:
    """Some codes of a variable that belong together, such as a major group of occupations."""

    code: str
    label: str
    members: tuple[int, ...]


@dataclass(frozen=True)
class ListedCode:
    """A code or a group of codes in a list: how deep it lies, whether a filter may keep it."""

    code: str
    label: str
    level: str
    depth: int
    keepable: bool
    holds: int


@dataclass(frozen=True)
class Variable:
    """What a table may be by: codes in their order, with labels, and the groups above them.

    `levels` go from the coarsest to the finest; a table may show the groups of a level, and a
    filter may keep a group.  `lists` finds the codes of a list that a reader sent, by its name.
    """

    name: str
    label: str
    codes: tuple[str, ...]
    labels: tuple[str, ...]
    levels: Mapping[str, tuple[Group, ...]] = field(default_factory=dict)
    level_labels: Mapping[str, str] = field(default_factory=dict)
    lists: Callable[[str], tuple[int, ...] | None] | None = None

    def called(self, names: Mapping[str, Mapping[str, str]]) -> Variable:
        """The same with names for its codes and for those of its levels, where they are known."""
        own = names.get(self.name, {})
        labels = tuple(own.get(c, label) for c, label in zip(self.codes, self.labels, strict=True))
        levels = {
            level: tuple(
                replace(group, label=names.get(level, {}).get(group.code, group.label))
                for group in groups
            )
            for level, groups in self.levels.items()
        }
        return replace(self, labels=labels, levels=levels)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The place of every code."""
        return MappingProxyType({code: place for place, code in enumerate(self.codes)})

    @cached_property
    def groups(self) -> Mapping[str, Group]:
        """Groups that a filter may keep, from the coarsest: those whose code means nothing else."""
        found: dict[str, Group] = {}
        twice: set[str] = set()
        for group in (group for level in self.levels.values() for group in level):
            if group.code in self.places:
                continue
            if found.setdefault(group.code, group).members != group.members:
                twice.add(group.code)
        return MappingProxyType({code: g for code, g in found.items() if code not in twice})

    @cached_property
    def kept_by(self) -> Mapping[str, int]:
        """What a filter may keep, in its order: groups first."""
        return {code: place for place, code in enumerate((*self.groups, *self.codes))}

    def declares(self, code: str) -> bool:
        """Whether it is a code or a group, and no list that a reader sent."""
        return code in self.kept_by

    def knows(self, code: str) -> bool:
        """Whether a filter may keep it."""
        return self.declares(code) or self._listed(code) is not None

    def ordered(self, codes: Sequence[str]) -> tuple[str, ...]:
        """Codes of a filter in one order, each once: lists first, then groups."""
        return tuple(
            sorted(filter(self.knows, {*codes}), key=lambda c: (self.kept_by.get(c, -1), c))
        )

    def held(self, codes: Iterable[str]) -> list[int]:
        """The places of codes and of what groups and lists hold, in order."""
        found: set[int] = set()
        for code in codes:
            found.update((self.places[code],) if code in self.places else self._group(code).members)
        return sorted(found)

    def spelled_out(self, codes: Iterable[str]) -> list[str]:
        """Codes and groups of a filter, with the codes of lists in their place."""
        found = {code: None for code in codes if code in self.kept_by}
        lists = self.held(code for code in codes if code not in self.kept_by)
        return [*found, *(self.codes[p] for p in lists if self.codes[p] not in found)]

    def _group(self, code: str) -> Group:
        """A group that a filter keeps, or a list."""
        found = self.groups.get(code) or self._listed(code)
        if found is None:
            raise Refusal(say("a list of codes is no longer kept; send it again"))
        return found

    def _listed(self, name: str) -> Group | None:
        places = self.lists(name) if self.lists is not None else None
        if places is None:
            return None
        return Group(name, say("a list of %(count)s codes", count=f"{len(places):,}"), places)

    def filter_of(self, code: str, level: str | None) -> tuple[str, ...]:
        """The codes of a filter that keeps what a side shows at a code, be it of a level or not."""
        if level is None:
            return (code,)
        (group,) = (group for group in self.levels[level] if group.code == code)
        known = self.groups.get(code)
        if known is not None and known.members == group.members:
            return (code,)
        return tuple(self.codes[place] for place in group.members)

    def axis(self, level: str | None = None) -> Axis:
        """The side of a table by its codes, or by the groups of a level."""
        return self._axes[level]

    @cached_property
    def _axes(self) -> Mapping[str | None, Axis]:
        found: dict[str | None, Axis] = {}
        for level in (None, *self.levels):
            codes, labels = self.codes, self.labels
            if level is not None:
                groups = self.levels[level]
                codes, labels = tuple(g.code for g in groups), tuple(g.label for g in groups)
            found[level] = Axis(self.name, self.side_label(level), codes, labels)
        return found

    def side_label(self, level: str | None) -> str:
        """The label of what a side of a table is by: the variable, or a level of it.

        A level with a name of its own, such as County, needs no more; others begin small.
        """
        if level is None:
            return self.label
        title = self.level_title(level)
        return title if title[:1].isupper() else Joined(", ", (self.label, title))

    def level_title(self, level: str) -> str:
        """The label of a level."""
        return self.level_labels.get(level, level)

    def group_places(self, level: str) -> NDArray[np.int64]:
        """For each code, the place of its group at a level."""
        return self._above[level]

    @cached_property
    def _above(self) -> Mapping[str, NDArray[np.int64]]:
        above = {level: np.zeros(len(self.codes), dtype=np.int64) for level in self.levels}
        for level, found in above.items():
            for place, group in enumerate(self.levels[level]):
                found[list(group.members)] = place
        return above

    def describe(self, code: str) -> str:
        """A code or a group with its label, where that says more."""
        if code not in self.kept_by:
            return self._group(code).label
        label = self.labels[self.places[code]] if code in self.places else self.groups[code].label
        return label if label.casefold() == code.casefold() else f"{code} {label}"

    @cached_property
    def _tree(self) -> Sequence[tuple[int, Sequence[tuple[str, Group]]]]:
        """The places of codes, each with the groups above it, so that groups stand together.

        Only levels of which each lies in the one before are used; a group of one code says nothing.
        """
        levels: list[tuple[str, list[int]]] = []
        above: NDArray[np.int64] | None = None
        for name, groups in self.levels.items():
            own = self.group_places(name)
            if above is None or all(len(set(above[list(g.members)].tolist())) == 1 for g in groups):
                levels.append((name, own.tolist()))
                above = own
        places = sorted(range(len(self.codes)), key=lambda place: [own[place] for _, own in levels])
        chains = [[(name, self.levels[name][own[p]]) for name, own in levels] for p in places]
        return [
            (place, [pair for pair in chain if len(pair[1].members) > 1])
            for place, chain in zip(places, chains, strict=True)
        ]

    def listed(self, find: str = "") -> list[ListedCode]:
        """Codes under their groups, each in its order; with words to find, what has them all.

        A code is found by its own code and label and by those of the groups above it.
        """
        words = find.casefold().split()
        if len(find) > MOST_FIND or len(words) > MOST_WORDS:
            raise too_many_words(MOST_WORDS)
        found: list[ListedCode] = []
        shown: set[tuple[str, str]] = set()
        for place, chain in self._tree:
            code, label = self.codes[place], self.labels[place]
            text = " ".join([code, label, *(f"{g.code} {g.label}" for _, g in chain)]).casefold()
            if not all(word in text for word in words):
                continue
            for depth, (level, group) in enumerate(chain):
                if (level, group.code) not in shown:
                    shown.add((level, group.code))
                    own, holds = group.code in self.groups, len(group.members)
                    found.append(ListedCode(group.code, group.label, level, depth, own, holds))
            found.append(ListedCode(code, label, "", len(chain), True, 1))
        return found


class DataSet(ABC):
    """One released table, or one protected cube, in memory.

    `name` is its address in the query tool: it never changes, because a release never does.
    `title` ends with the period of its release, and `series` is the title of that.
    """

    kind: str
    errors: tuple[Error, ...]
    #: What may be counted, with labels; which jobs are; and how many figures were published.
    measures: Mapping[str, str]
    universe: str
    rows: int
    #: What makes an estimate unreliable, and what an absent figure is.
    unreliable_means: str
    absent_means: str
    #: Which intervals are shown, where there are two kinds: "calibrated" or "guaranteed".
    intervals: str = ""
    #: Numbers of workplaces by size in the same release, by name: tables to be read as they are.
    profiles: Mapping[str, pa.Table] = MappingProxyType({})
    #: Variables whose codes are areas.
    areas: frozenset[str] = frozenset()
    #: What its publisher says of it beside what is said of the release.
    note: str = ""
    #: What a reader must know before all else, and what the guarantee rests on.
    warnings: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        title: str,
        release: Release,
        variables: tuple[Variable, ...],
        checks: tuple[str, ...],
    ) -> None:
        self.name, self.release = name, release
        self.title = Joined(", ", (title, release.period)) if release.period else title
        self.series = release.described.get("title", "")
        self.variables, self.checks = variables, tuple(map(told, checks))
        self._by_name = {variable.name: variable for variable in variables}
        self.guarantee = release.guarantee
        jobs = ONE if "kind" in release.record else release.schema.job.counted
        self.units = self.guarantee.neighbours, jobs  # what one step is, and a worker of how many
        self.promise = in_one_line(self.guarantee)
        self.made = str(release.record["made"])[:10]
        self.statements = tuple(told(str(s)) for s in release.record.get("statements", ()))

    @abstractmethod
    def most(self, asked: Asked) -> int:
        """How many figures an answer would have, at most; known before any is summed."""

    @abstractmethod
    def figures(self, asked: Asked) -> Figures:
        """The estimates, from signed published values, with their intervals."""

    def with_totals(self, asked: Asked, coarser: Sequence[tuple[str, ...]]) -> list[Figures]:
        """The figures, and their sums by some of the variables alone."""
        return [self.figures(asked), *(self.figures(asked.by_some(by)) for by in coarser)]

    @abstractmethod
    def unreliable(self, figures: Figures) -> Mask:
        """Figures whose error is a large share of them, and those of 0 or less."""

    @abstractmethod
    def noise(self) -> list[str]:
        """How noise was added, in plain sentences."""

    @abstractmethod
    def certificates(self) -> list[dict[str, Any]]:
        """What was claimed of each distribution of the noise, and what its probabilities show."""

    def variable(self, name: str) -> Variable:
        """A variable by its name."""
        if name not in self._by_name:
            raise no_variable(name, {one: v.levels for one, v in self._by_name.items()})
        return self._by_name[name]

    @property
    def heading(self) -> str:
        """What it is listed under: the title of its release, with the period."""
        return Joined(", ", filter(None, (self.series, self.release.period))) if self.series else ""

    def called(self, names: Mapping[str, Mapping[str, str]]) -> None:
        """Give codes of variables, and of levels, the names that are known for them."""
        if not any(names.values()):
            return
        self.variables = tuple(variable.called(names) for variable in self.variables)
        self._by_name = {variable.name: variable for variable in self.variables}

    def with_lists(self, find: Callable[[str, int, str], tuple[int, ...] | None]) -> None:
        """Filters may keep lists that readers sent: `find` has the places of their codes.

        It is asked by what a list is of, how many codes that has, and the name of the list.
        """
        self.variables = tuple(
            replace(v, lists=partial(find, self.list_of(v), len(v.codes))) for v in self.variables
        )
        self._by_name = {variable.name: variable for variable in self.variables}

    def keeps_lists(self, where: Mapping[str, Sequence[str]]) -> bool:
        """Whether a filter keeps a list that a reader sent, which is forgotten after a day."""
        return not all(
            all(map(self.variable(name).declares, codes)) for name, codes in where.items()
        )

    def list_of(self, variable: Variable) -> str:
        """What a list of codes of a variable is of."""
        return f"{self.name} {variable.name}"

    def finds(self, words: Sequence[str]) -> bool:
        """Whether each of some words is in what is said of it, or in the name of a variable."""
        said = (self.title, self.series, self.note, *self.release.described.values())
        names = (
            f"{v.name} {v.label} {' '.join(map(v.level_title, v.levels))}" for v in self.variables
        )
        text = " ".join([*said, *names, *map(str, map(spoken, said))]).casefold()
        return all(word in text for word in words)

    def citation(self, address: str) -> str:
        """How to cite a page of it: who published what, when, under which promise, and where."""
        publisher = self.release.described.get("publisher", "").rstrip(".")
        title = Joined(": ", filter(None, (self.series, self.title)))
        made = say(
            "Release %(release)s, %(made)s, protected with %(promise)s",
            release=self.release.identity,
            made=self.made,
            promise=self.promise,
        )
        return Joined(". ", filter(None, (publisher, title, made, address)))

    @property
    def bias(self) -> str:
        """Why its estimates are not right on average; empty where they are."""
        return ""
