"""How figures were protected, in words for the public: the mechanisms that are in use here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from eree.mechanisms.registry import kind_of
from eree.policy.guarantee import ONE
from eree.policy.neighbours import Neighbours, Strong, Weak, plain
from eree.policy.schema import Counted
from eree.web.dataset import DataSet

_SCALED = (
    "Its size grows with the largest workplace of a cell, in proportion to alpha times its workers."
)
_SLOWER = (
    "Its size grows with the largest workplace of a cell, in proportion to ln(1 + alpha) times its"
    " workers."
)
_BY_COUNT = (
    "Its size grows with the count of the cell: about a share of it, and at least a few jobs."
)
_FIXED = "Its size is the same in every cell."
_TOGETHER = "All worker cells of a workplace cell get noise together, and are paid for once."
#: What a mechanism does, in a sentence or two.
DESCRIPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "leaning-staircase": "Integers whose probabilities fall in steps from a plateau around"
        " 0, by another distribution for each size of the largest workplace of a cell: each falls"
        " as fast as the sizes next to it allow. Where a workplace may grow by one worker alone,"
        " there is as little noise as protects one worker; beyond, it grows with the largest"
        " workplace. It is not the same on both sides: its mean is near 0, but not 0.",
        "smooth-pareto": f"Integers whose probabilities fall like a power. {_SCALED}",
        "radial": f"Numbers whose density falls like two powers, then rounded. {_SLOWER}",
        "smooth-gamma": f"Numbers whose density falls like the fourth power, rounded. {_SCALED}",
        "smooth-gamma-tight": f"The density falls like the fourth power, scaled tightly. {_SCALED}",
        "smooth-laplace": f"Laplace noise, rounded; it needs a delta. {_SCALED}",
        "smooth-laplace-exact": f"Laplace noise of the least scale for its delta. {_SCALED}",
        "log-laplace": f"Laplace noise on the logarithm of the count. {_BY_COUNT}",
        "log-laplace-tight": f"The same of the least scale, times a factor. {_BY_COUNT}",
        "linlog": f"Laplace noise on a scale that is straight, then a logarithm. {_BY_COUNT}",
        "linlog-integer": f"The same on integers. {_BY_COUNT}",
        "truncated-laplace": f"Laplace noise; workplaces above a size are left out. {_FIXED}",
        "edge-geometric": f"Integers whose probabilities halve at equal steps. {_FIXED}",
        "capped-laplace": f"Laplace noise on the smallest unit, cut off far away. {_FIXED}",
        "discrete-laplace": "Multiples of the smallest unit whose probabilities fall by the"
        f" same factor at every step, the same on both sides: its mean is 0. {_FIXED}",
        "vector-mixture": "As vector-radial where workplaces are large. Where a workplace may grow"
        " by one worker alone, integers whose probabilities fall by the same factor at every step,"
        f" as little as protects one worker, or a little more noise at random. {_TOGETHER}",
        "vector-radial": f"As radial, for several cells. {_TOGETHER}",
        "vector-pareto": f"As smooth-pareto, for several cells. {_TOGETHER}",
        "marginals-radial": "As radial, for several marginals of the same workers, such as by sex"
        " and by age: all of them get noise together, have one total in every workplace cell, and"
        " are paid for once.",
        "knorm-staircase": f"As linlog-integer, for several cells, in steps. {_TOGETHER}",
        "two-stage-clip": f"A noisy bound of workplaces first, then Laplace noise. {_TOGETHER}",
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
    return f"{first} (A mechanism of another package; its proof is its author's.)"


def protected_words(relation: Neighbours, jobs: Counted = ONE) -> str:
    """What a guarantee protects, and what it does not, where such `jobs` of a worker count."""
    public = "which workplaces exist, and what they are, is public"
    every, counted = "every worker", "workers"
    if jobs.most > 1:
        every = (
            f"every job, and so every worker, who has at most {jobs.most:,} jobs and is as many"
            " steps"
        )
        counted = "jobs"
    if jobs.chosen:
        every = "every worker, one of whose jobs was chosen to count"
        counted = "counted jobs"
    if isinstance(relation, (Strong, Weak)):
        within = f"how many {counted} a workplace has within a share of alpha"
        if jobs.chosen:
            within += ", with those elsewhere held fixed"
        return f"{every}, and {within}; {public}"
    return {
        "edge": f"{every}, and no workplace: how large one is may be found out; {public}",
        "node": f"{every}, and how many {counted} a workplace has; {public}",
        "record": "every record of the survey",
        "establishment": "every establishment of the survey, with all of its records",
    }.get(relation.name, "what the record of the release says")


def step_words(relation: Neighbours, jobs: Counted = ONE) -> str:
    """What one step between neighbouring databases is, in plain words."""
    counted = "worker" if jobs.most == 1 else "job"
    if jobs.chosen:
        counted = "counted job"
    if isinstance(relation, Strong):
        return (
            f"one workplace gets more {counted}s, of any kind: one, or up to"
            f" {plain(relation.alpha)} times as many as it has"
        )
    if isinstance(relation, Weak):
        return (
            f"one workplace grows, each kind of its {counted}s by one or by up to"
            f" {plain(relation.alpha)} times as many as there are"
        )
    return {
        "edge": f"one {counted} joins one workplace",
        "node": f"one workplace gets any number of {counted}s",
        "record": "one record of the survey is added",
        "establishment": "one establishment with all of its records is added",
    }.get(relation.name, "as the record of the release says")
