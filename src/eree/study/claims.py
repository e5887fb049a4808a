"""Claims about the figures of a study, and findings made of them.

A finding is reproduced where all of its claims hold, partly where some do, and not where none does;
a claim without figures is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from eree.study.tidy import Figures

#: The paper's baseline.
ALPHA, EPSILON = "0.1", "2"


@dataclass(frozen=True)
class Claim:
    """One statement about figures; `holds` is None where there are none."""

    words: str
    holds: bool | None
    figures: str


@dataclass(frozen=True)
class Finding:
    """A finding of a paper, and how its claims fare."""

    name: str
    words: str
    claims: tuple[Claim, ...]

    @property
    def judgement(self) -> str:
        """Reproduced, partly, not, or not judged."""
        known = [claim.holds for claim in self.claims if claim.holds is not None]
        if not known:
            return "not judged"
        return "reproduced" if all(known) else "partly" if any(known) else "not"


class Judge:
    """Judges the findings with the ratios to one range of infusion."""

    def __init__(self, figures: Figures, ratio: str = "l1_ratio") -> None:
        self.figures, self.ratio = figures, ratio

    def most(
        self,
        words: str,
        limit: float,
        workload: str,
        names: tuple[str, ...],
        alphas: tuple[str | None, ...] = (ALPHA,),
        epsilons: tuple[str, ...] = (EPSILON,),
    ) -> Claim:
        """That ratios are at most a limit."""
        found = {
            name: self.figures.values(workload, name, alphas, epsilons, self.ratio)
            for name in names
        }
        known = {name: values for name, values in found.items() if values}
        if not known:
            return Claim(words, None, "no figures")
        text = ", ".join(f"{name} {span(values)}" for name, values in known.items())
        return Claim(words, max(max(v) for v in known.values()) <= limit, text)

    def least(
        self,
        words: str,
        limit: float,
        workload: str,
        names: tuple[str, ...],
        epsilons: tuple[str, ...],
        *,
        measure: str = "spearman",
        stratum: str = "all",
        alphas: tuple[str | None, ...] = (ALPHA,),
    ) -> Claim:
        """That figures are at least a limit."""
        found = {
            name: self.figures.values(workload, name, alphas, epsilons, measure, stratum)
            for name in names
        }
        known = {name: values for name, values in found.items() if values}
        if not known:
            return Claim(words, None, "no figures")
        text = ", ".join(f"{name} {span(values)}" for name, values in known.items())
        return Claim(words, min(min(v) for v in known.values()) >= limit, text)


def span(values: list[float]) -> str:
    """Figures from the least to the greatest, for people to read."""
    low, high = min(values), max(values)
    return f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"


#: A finding's name, what it says, and how its claims are made.
Told = tuple[str, str, Callable[[Judge], Iterator[Claim]]]
