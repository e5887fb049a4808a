"""Claims about the figures of a study, and findings made of them.

A claim holds where all of its figures say so by more than two standard errors, and fails where
one of them says the opposite by as much (or more, if there are many, so that randomness fails
none of them more often than it would fail one); between the two it is too close to tell.  A
finding is reproduced where all of its claims hold, not where all fail, and partly otherwise;
claims without figures, of mechanisms that do not exist there, do not count.  Nothing is judged
before all parts of the study that it looks at were run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import hypot
from typing import Literal

from scipy.stats import norm

from eree.mechanisms.grid import ALPHAS, EPSILONS
from eree_study.papers.comparison import Row
from eree_study.papers.contenders import MOST_DELTA
from eree_study.papers.study import Part, Results
from eree_study.papers.workloads import WHOLE

#: The paper's baseline.
ALPHA, EPSILON = "0.1", "2"
#: How many standard errors make a figure sure.
SURE = 2.0
Verdict = Literal["yes", "no", "too close to tell", "–"]
#: By how much a figure supports a claim, and the standard error of that.
Evidence = tuple[float, float]


@dataclass(frozen=True)
class Claim:
    """One statement about figures; "–" where there are none."""

    statement: str
    holds: Verdict
    figures: str

    @classmethod
    def of(cls, statement: str, evidence: Sequence[Evidence], figures: str) -> Claim:
        """Judged by evidence, all of which must be above 0."""
        return cls(statement, verdict(evidence), figures if evidence else "no figures")

    @classmethod
    def sure(cls, statement: str, holds: bool, figures: str) -> Claim:
        """Judged already, with whatever room its statement leave."""
        return cls(statement, "yes" if holds else "no", figures)


def verdict(evidence: Iterable[Evidence]) -> Verdict:
    """What all evidence says together."""
    given = list(evidence)
    if not given:
        return "–"
    many = float(norm.isf(norm.sf(SURE) / len(given)))  # of many, one goes astray more easily
    if any(support < -many * error for support, error in given):
        return "no"
    return "yes" if all(support > SURE * error for support, error in given) else "too close to tell"


@dataclass(frozen=True)
class Finding:
    """A finding of a paper, and how its claims fare.

    `looked_at` are the parts of the study that were run, of the `parts` that the finding is about.
    """

    name: str
    statement: str
    claims: tuple[Claim, ...]
    looked_at: int
    parts: int

    @property
    def judgement(self) -> str:
        """Reproduced, partly, not, or not judged; or that it was not, or not all, looked at."""
        if not self.looked_at:
            return "not looked at"
        if self.looked_at < self.parts:
            return f"partly looked at ({self.looked_at} of {self.parts} parts)"
        known = {claim.holds for claim in self.claims} - {"–"}
        if not known:
            return "not judged"
        return "reproduced" if known == {"yes"} else "not" if known == {"no"} else "partly"


class Judge:
    """Judges the findings against one range of infusion.

    It remembers which parts of the study it was asked about.
    """

    def __init__(self, results: Results, *, wide: bool = False) -> None:
        self.results, self._suffix = results, "_wide" if wide else ""
        self._asked: set[Part] = set()

    def finding(
        self, name: str, statement: str, claims: Callable[[Judge], Iterator[Claim]]
    ) -> Finding:
        """Judge a finding by its claims; one whose parts were not all run does not hold or fail."""
        made, about, everything = [], frozenset[Part](), set[Part]()
        self._asked.clear()
        for claim in claims(self):
            about = frozenset(self._asked) or about  # of the same figures as the one before
            self._asked.clear()
            everything |= about
            run = len(about & self.results.parts)
            if run < len(about):
                seen = f"{claim.figures}; " if run else ""
                some = f"{seen}{run} of {len(about)} parts were run"
                claim = replace(claim, holds="–", figures=some)
            made.append(claim)
        return Finding(
            name, statement, tuple(made), len(everything & self.results.parts), len(everything)
        )

    def _row(
        self,
        workload: str,
        name: str,
        alpha: str | None,
        epsilon: str,
        measure: str,
        stratum: str = WHOLE,
    ) -> Row | None:
        """One figure, against this judge's range."""
        self._asked.add(Part(workload, alpha, epsilon))
        return self.results.row(workload, name, alpha, epsilon, self.against(measure), stratum)

    def against(self, measure: str) -> str:
        """The measure's name with this judge's range."""
        held = measure in ("l1_ratio", "spearman", "within_10_points")
        return measure + self._suffix if held else measure

    def rows(
        self,
        workload: str,
        names: Iterable[str],
        *,
        alphas: Iterable[str | None] = (ALPHA,),
        epsilons: Iterable[str] = (EPSILON,),
        measure: str = "l1_ratio",
        strata: Iterable[str] = (WHOLE,),
    ) -> list[Row]:
        """All figures that there are."""
        alphas, epsilons, strata = list(alphas), list(epsilons), list(strata)
        found = (
            self._row(workload, name, alpha, epsilon, measure, stratum)
            for name in names
            for alpha in alphas
            for epsilon in epsilons
            for stratum in strata
        )
        return [row for row in found if row is not None]

    def both(
        self,
        workload: str,
        one: str,
        other: str,
        epsilons: Iterable[str] = EPSILONS,
        measure: str = "l1",
    ) -> list[tuple[Row, Row]]:
        """Figures of two mechanisms wherever both exist."""
        pairs = []
        for epsilon in epsilons:
            for alpha in ALPHAS:
                first = self._row(workload, one, alpha, epsilon, measure)
                second = self._row(workload, other, alpha, epsilon, measure)
                if first is not None and second is not None:
                    pairs.append((first, second))
        return pairs

    def most(self, statement: str, limit: float, rows: Sequence[Row]) -> Claim:
        """That figures are at most a limit."""
        evidence = [(limit - row.value, row.standard_error) for row in rows]
        return Claim.of(statement, evidence, by_mechanism(rows))

    def least(self, statement: str, limit: float, rows: Sequence[Row]) -> Claim:
        """That figures are at least a limit."""
        evidence = [(row.value - limit, row.standard_error) for row in rows]
        return Claim.of(statement, evidence, by_mechanism(rows))

    def fewer(self, statement: str, pairs: Sequence[tuple[Row, Row]]) -> Claim:
        """That the first of every pair is less than the second, errors taken as independent."""
        evidence = [between(*pair) for pair in pairs]
        if len(pairs) == 1:
            [(less, more)] = pairs
            return Claim.of(statement, evidence, f"{with_error(less)} against {with_error(more)}")
        return Claim.of(statement, evidence, counted(evidence))


def between(less: Row, more: Row) -> Evidence:
    """By how much one figure is less than another."""
    return more.value - less.value, hypot(less.standard_error, more.standard_error)


def counted(evidence: Sequence[Evidence]) -> str:
    """At how many points something holds."""
    each = [verdict([one]) for one in evidence]
    close = each.count("too close to tell")
    text = f"at {each.count('yes')} of {len(each)} points"
    return f"{text}, {close} too close to tell" if close else text


def short(number: float, digits: int = 3) -> str:
    """A number with few digits, never in powers of ten."""
    rounded = float(f"{number:.{digits}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"


def with_error(row: Row) -> str:
    """A figure with its standard error, where that can be seen."""
    visible = row.standard_error >= 5e-4 * abs(row.value)
    return short(row.value) + (f" ± {short(row.standard_error, 1)}" if visible else "")


def by_mechanism(rows: Sequence[Row]) -> str:
    """Figures by mechanism, for people to read; with the delta of one that is hardly private."""
    texts = []
    for name in dict.fromkeys(row.mechanism for row in rows):
        mine = [row for row in rows if row.mechanism == name]
        text = with_error(mine[0]) if len(mine) == 1 else span([row.value for row in mine])
        delta = max(row.delta for row in mine)
        void = f" (delta up to {delta:.2g})" if delta > MOST_DELTA else ""
        texts.append(f"{name} {text}{void}")
    return ", ".join(texts)


def span(values: Sequence[float]) -> str:
    """Figures from the least to the greatest, for people to read."""
    low, high = short(min(values)), short(max(values))
    return low if low == high else f"{low} to {high}"


#: A finding's name, what it says, and how its claims are made.
Stated = tuple[str, str, Callable[[Judge], Iterator[Claim]]]
