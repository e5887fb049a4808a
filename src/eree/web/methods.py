"""How figures were protected, in words for the public: the mechanisms that are in use here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from eree.mechanisms.registry import kind_of
from eree.policy.neighbours import Neighbours, Strong, Weak, plain
from eree.web.dataset import DataSet
from eree.web.words import Joined, say

_SCALED = say(
    "Its size grows with the largest workplace of a cell, in proportion to alpha times its workers."
)
_SLOWER = say(
    "Its size grows with the largest workplace of a cell, in proportion to ln(1 + alpha) times its"
    " workers."
)
_BY_COUNT = say(
    "Its size grows with the count of the cell: about a share of it, and at least a few jobs."
)
_FIXED = say("Its size is the same in every cell.")
_TOGETHER = say("All worker cells of a workplace cell get noise together, and are paid for once.")


def _two(one: str, other: str) -> str:
    return Joined(" ", (one, other))


#: What a mechanism does, in a sentence or two.
DESCRIPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "leaning-staircase": say(
            "Integers whose probabilities fall in steps from a plateau around 0, by another"
            " distribution for each size of the largest workplace of a cell: each falls as fast as"
            " the sizes next to it allow. Where a workplace may grow by one worker alone, there is"
            " as little noise as protects one worker; beyond, it grows with the largest workplace."
            " It is not the same on both sides: its mean is near 0, but not 0."
        ),
        "smooth-pareto": _two(say("Integers whose probabilities fall like a power."), _SCALED),
        "radial": _two(say("Numbers whose density falls like two powers, then rounded."), _SLOWER),
        "smooth-gamma": _two(
            say("Numbers whose density falls like the fourth power, rounded."), _SCALED
        ),
        "smooth-gamma-tight": _two(
            say("The density falls like the fourth power, scaled tightly."), _SCALED
        ),
        "smooth-laplace": _two(say("Laplace noise, rounded; it needs a delta."), _SCALED),
        "smooth-laplace-exact": _two(
            say("Laplace noise of the least scale for its delta."), _SCALED
        ),
        "log-laplace": _two(say("Laplace noise on the logarithm of the count."), _BY_COUNT),
        "log-laplace-tight": _two(
            say("Laplace noise on the logarithm of the count, of the least scale, times a factor."),
            _BY_COUNT,
        ),
        "linlog": _two(
            say("Laplace noise on a scale that is straight, then a logarithm."), _BY_COUNT
        ),
        "linlog-integer": _two(
            say("Laplace noise on integers of a scale that is straight, then a logarithm."),
            _BY_COUNT,
        ),
        "truncated-laplace": _two(
            say("Laplace noise; workplaces above a size are left out."), _FIXED
        ),
        "edge-geometric": _two(
            say("Integers whose probabilities fall by the same factor at every step."), _FIXED
        ),
        "capped-laplace": _two(
            say("Laplace noise on the smallest unit, cut off far away."), _FIXED
        ),
        "discrete-laplace": _two(
            say(
                "Multiples of the smallest unit whose probabilities fall by the same factor at"
                " every step, the same on both sides: its mean is 0."
            ),
            _FIXED,
        ),
        "vector-mixture": _two(
            say(
                "As vector-radial where workplaces are large. Where a workplace may grow by one"
                " worker alone, integers whose probabilities fall by the same factor at every step,"
                " as little as protects one worker, or a little more noise at random."
            ),
            _TOGETHER,
        ),
        "vector-radial": _two(say("As radial, for several cells."), _TOGETHER),
        "vector-pareto": _two(say("As smooth-pareto, for several cells."), _TOGETHER),
        "marginals-radial": say(
            "As radial, for several marginals of the same workers, such as by sex and by age: all"
            " of them get noise together, have one total in every workplace cell, and are paid for"
            " once."
        ),
        "knorm-staircase": _two(say("As linlog-integer, for several cells, in steps."), _TOGETHER),
        "two-stage-clip": _two(
            say("A noisy bound of workplaces first, then Laplace noise."), _TOGETHER
        ),
    }
)


@dataclass(frozen=True)
class Used:
    """A mechanism, what it does, and the data sets that it was used for."""

    name: str
    words: str
    data_sets: tuple[DataSet, ...]


def mechanisms_used(
    data_sets: Iterable[DataSet], certificates: Mapping[str, list[dict[str, Any]]]
) -> list[Used]:
    """The mechanisms that the data sets were protected with, in order of their names."""
    found: dict[str, list[DataSet]] = {}
    for data in data_sets:
        for name in dict.fromkeys(str(one["mechanism"]) for one in certificates[data.name]):
            found.setdefault(name, []).append(data)
    return [Used(name, described(name), tuple(found[name])) for name in sorted(found)]


def described(name: str) -> str:
    """A mechanism in plain words; one of others in those of its author."""
    if name in DESCRIPTIONS:
        return DESCRIPTIONS[name]
    first = (kind_of(name).__doc__ or "").strip().partition("\n")[0]
    return Joined(" ", (first, say("(A mechanism of another package; its proof is its author's.)")))


_PUBLIC = say("which workplaces exist, and what they are, is public")
_RECORD = say("every record of the survey")


def _counted(jobs: int) -> str:
    return say("workers") if jobs == 1 else say("jobs")


def protected_words(relation: Neighbours, jobs: int = 1) -> str:
    """What a guarantee protects, and what it does not; a worker has at most so many `jobs`."""
    every: str = say("every worker")
    if jobs > 1:
        every = say(
            "every job, and so every worker, who has at most %(jobs)s jobs and is as many steps",
            jobs=f"{jobs:,}",
        )
    if isinstance(relation, (Strong, Weak)):
        return say(
            "%(every)s, and how many %(counted)s a workplace has within a share of alpha;"
            " %(public)s",
            every=every,
            counted=_counted(jobs),
            public=_PUBLIC,
        )
    if relation.name == "edge":
        return say(
            "%(every)s, and no workplace: how large one is may be found out; %(public)s",
            every=every,
            public=_PUBLIC,
        )
    if relation.name == "node":
        return say(
            "%(every)s, and how many %(counted)s a workplace has; %(public)s",
            every=every,
            counted=_counted(jobs),
            public=_PUBLIC,
        )
    if relation.name == "record":
        return _RECORD
    return say("every establishment of the survey, with all of its records")


def step_words(relation: Neighbours, jobs: int = 1) -> str:
    """What one step between neighbouring databases is, in plain words."""
    if isinstance(relation, Strong):
        return say(
            "one workplace gets more %(counted)s, of any kind: one, or up to %(alpha)s times as"
            " many as it has",
            counted=_counted(jobs),
            alpha=plain(relation.alpha),
        )
    if isinstance(relation, Weak):
        return say(
            "one workplace grows, each kind of its %(counted)s by one or by up to %(alpha)s times"
            " as many as there are",
            counted=_counted(jobs),
            alpha=plain(relation.alpha),
        )
    if relation.name == "edge":
        one = say("worker") if jobs == 1 else say("job")
        return say("one %(counted)s joins one workplace", counted=one)
    if relation.name == "node":
        return say("one workplace gets any number of %(counted)s", counted=_counted(jobs))
    if relation.name == "record":
        return say("one record of the survey is added")
    return say("one establishment with all of its records is added")
