"""What the papers found, judged by the numbers of a study: six findings of one, five of the other.

Where the paper is vague, these numbers stand for its words: a correlation is close to 1, and a
ranking good, from 0.95 on; errors are nearly the same up to a factor of 1.5; two mechanisms are
alike within a factor of 2 or, in rankings, within 0.05 of correlation; larger places have 100,000
people or more; more epsilon does not help where it takes less than 5% off an error.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.resources import files
from itertools import pairwise
from math import expm1, hypot, log, log1p

from eree.mechanisms.grid import ALPHAS, EPSILONS
from eree_study.papers.claims import (
    ALPHA,
    Claim,
    Evidence,
    Finding,
    Judge,
    Stated,
    between,
    counted,
    short,
    span,
)
from eree_study.papers.comparison import Row
from eree_study.papers.contenders import THETAS
from eree_study.papers.workloads import STRATA

ALIKE, NEAR, HELP = 2.0, 0.05, 0.05
LOG, GAMMA, LAPLACE = "log-laplace", "smooth-gamma", "smooth-laplace"
THREE = (LOG, GAMMA, LAPLACE)
TRUNCATED = tuple(f"truncated-laplace-{theta}" for theta in THETAS)
REPORT_GAMMA, REPORT_LAPLACE = "report-gamma", "report-laplace"
WORKLOADS = ("workload-1", "workload-2", "workload-3")
RANKINGS = ("ranking-1", "ranking-2")
REPORTS = ("report-3", "report-4", "report-5", "report-6")
REPORTED = (LOG, REPORT_GAMMA, REPORT_LAPLACE)
#: How far a slope may be from -1.
_SLOPE = 0.1


def _limits(finding: str, judge: Judge) -> Iterator[Claim]:
    """The claims of `findings.csv`: that figures are at most, or at least, a limit."""
    with files("eree_study.papers").joinpath("findings.csv").open(encoding="utf-8") as file:
        listed = [row for row in csv.DictReader(file) if row["finding"] == finding]
    for row in listed:
        figures = judge.rows(
            row["workload"],
            row["mechanisms"].split(),
            alphas=ALPHAS if row["alphas"] == "every" else row["alphas"].split(),
            epsilons=EPSILONS if row["epsilons"] == "every" else row["epsilons"].split(),
            measure=row["measure"],
            strata=(row["stratum"],),
        )
        held = judge.most if row["side"] == "most" else judge.least
        yield held(row["statement"], float(row["limit"]), figures)


def _level(measure: str, row: Row) -> Evidence:
    """How bad a figure is: the logarithm of an error, or minus a correlation."""
    if measure == "spearman":
        return -row.value, row.standard_error
    return log(row.value), row.standard_error / row.value


def _gain(levels: Sequence[Evidence], signs: Sequence[int]) -> Evidence:
    """A sum of levels, each with a sign or a factor, and its standard error."""
    errors = (sign * error for sign, (_, error) in zip(signs, levels, strict=True))
    total = sum(sign * level for sign, (level, _) in zip(signs, levels, strict=True))
    return total, hypot(*errors)


def _step(measure: str, first: Row, second: Row) -> Evidence:
    """How much better a figure gets from one row to another."""
    return _gain([_level(measure, row) for row in (first, second)], (1, -1))


def _fourth(judge: Judge) -> Iterator[Claim]:
    for workload in (*WORKLOADS, *RANKINGS):
        measure = "spearman" if workload in RANKINGS else "l1_ratio"
        epsilon = "4" if workload == "workload-3" else "2"
        first: list[Evidence] = []
        for name in THREE:
            rows = judge.rows(
                workload, (name,), epsilons=(epsilon,), measure=measure, strata=STRATA
            )
            yield Claim.of(
                f"{workload} at epsilon {epsilon}: {name} gets better from stratum to stratum",
                [_step(measure, *pair) for pair in pairwise(rows)],
                " → ".join(short(row.value) for row in rows),
            )
            if len(rows) == len(STRATA):
                levels = [_level(measure, row) for row in rows]
                # the first step, a - b, less each of the others, b - c and c - d
                first += [_gain(levels, (1, -2, 1, 0)), _gain(levels, (1, -1, -1, 1))]
        yield Claim.of(
            f"{workload} at epsilon {epsilon}: the first step is the largest, for all three",
            first,
            counted(first),
        )


def _fifth(judge: Judge) -> Iterator[Claim]:
    for workload in WORKLOADS:
        yield judge.fewer(
            f"{workload}: Smooth Laplace has the least error of the three everywhere",
            judge.both(workload, LAPLACE, LOG) + judge.both(workload, LAPLACE, GAMMA),
        )
    for ranking in RANKINGS:
        yield judge.fewer(
            f"{ranking}: Smooth Laplace ranks most like infusion of the three everywhere",
            judge.both(ranking, LOG, LAPLACE, measure="spearman")
            + judge.both(ranking, GAMMA, LAPLACE, measure="spearman"),
        )
    for workload in (*WORKLOADS, *RANKINGS):
        ranked = workload in RANKINGS
        measure, most = ("spearman", NEAR) if ranked else ("l1", log(ALIKE))
        pairs = judge.both(workload, LOG, GAMMA, measure=measure)
        steps = [_step(measure, *pair) for pair in pairs]
        apart = [(most - abs(gain), error) for gain, error in steps]
        limit = f"{NEAR:g} of correlation" if ranked else f"a factor of {ALIKE:g}"
        yield Claim.of(
            f"{workload}: Log-Laplace and Smooth Gamma are within {limit}", apart, counted(apart)
        )
    for workload in ("workload-1", "workload-2"):
        yield judge.fewer(
            f"{workload}: Log-Laplace has less error than Smooth Gamma up to epsilon 1",
            judge.both(workload, LOG, GAMMA, [e for e in EPSILONS if float(e) <= 1]),
        )
    wins = [between(*pair) for workload in WORKLOADS for pair in judge.both(workload, LOG, GAMMA)]
    ends = [_surest(wins), _surest([(-gain, error) for gain, error in wins])] if wins else []
    yield Claim.of(
        "which of the two has less error is not always the same",
        ends,
        f"Log-Laplace {counted(wins)}",
    )


def _surest(evidence: Sequence[Evidence]) -> Evidence:
    """The evidence that most surely is above 0."""
    return max(evidence, key=lambda one: one[0] / max(one[1], 1e-12))


def _sixth(judge: Judge) -> Iterator[Claim]:
    for workload in WORKLOADS:
        pairs = []
        for epsilon in EPSILONS:
            truncated = judge.rows(
                workload, TRUNCATED, alphas=(None,), epsilons=(epsilon,), measure="l1"
            )
            ours = judge.rows(workload, THREE, epsilons=(epsilon,), measure="l1")
            pairs += [(mine, other) for mine in ours for other in truncated]
        yield judge.fewer(
            f"{workload}: Truncated Laplace has more error than all three, for every theta", pairs
        )
    yield judge.least(
        "it has at least 10 times infusion's error in workload-1 at epsilon 4, for every theta",
        10,
        judge.rows("workload-1", TRUNCATED, alphas=(None,), epsilons=("4",)),
    )
    gains = []
    for name in TRUNCATED:
        ends = judge.rows("workload-1", (name,), alphas=(None,), epsilons=("1", "4"), measure="l1")
        if len(ends) == 2:
            gains.append(_step("l1", *ends))
    text = " → ".join(f"{-expm1(-gain):.1%}" for gain, _ in gains)
    few = [(-log1p(-HELP) - gain, error) for gain, error in gains]
    yield Claim.of("more epsilon hardly helps (less than 5% from 1 to 4), at any theta", few, text)
    yield Claim.of("not at theta 2 at least", few[:1], text)
    later = [(b - a, hypot(wrong, error)) for (a, wrong), (b, error) in pairwise(gains)]
    yield Claim.of("and helps the more, the larger theta", later, text)
    yield judge.most(
        "its rankings correlate by at most 0.7 with infusion's, for every theta and epsilon",
        0.7,
        judge.rows("ranking-1", TRUNCATED, alphas=(None,), epsilons=EPSILONS, measure="spearman"),
    )


PAPER: tuple[Stated, ...] = (
    (
        "Finding 1",
        "marginals over workplace attributes: comparable or better",
        partial(_limits, "1"),
    ),
    (
        "Finding 2",
        "single queries with worker attributes: comparable or better (weak)",
        partial(_limits, "2"),
    ),
    (
        "Finding 3",
        "whole marginals with worker attributes: worse, acceptable at times",
        partial(_limits, "3"),
    ),
    ("Finding 4", "all three get better as the population of the place grows", _fourth),
    ("Finding 5", "Smooth Laplace is the best of the three, the others alike", _fifth),
    ("Finding 6", "Truncated Laplace costs far more, and ranks poorly", _sixth),
)


def _slopes(judge: Judge) -> Iterator[Claim]:
    for name in REPORTED:
        falls, slopes = [], []
        for workload in REPORTS:
            rows = judge.rows(workload, (name,), epsilons=EPSILONS, measure="l1")
            falls += [between(after, before) for before, after in pairwise(rows)]
            slopes += [
                log(b.value / a.value) / log(float(b.epsilon or 1) / float(a.epsilon or 1))
                for a, b in pairwise(rows)
            ]
        yield Claim.of(f"the error of {name} falls with epsilon", falls, counted(falls))
        if name != LOG:
            yield Claim.of(
                f"as 1 / epsilon (slopes of -1 to within {_SLOPE}; follows from the formula)",
                [(_SLOPE - abs(slope + 1), 0.0) for slope in slopes],
                span(slopes) if slopes else "",
            )


def _free(judge: Judge) -> Iterator[Claim]:
    for workload in REPORTS:
        for at_alphas, alphas in (("alpha 0.01", ALPHAS[:1]), ("alpha 0.05 and more", ALPHAS[1:])):
            yield judge.most(
                f"{workload}: at epsilon 4 and {at_alphas} all three beat infusion",
                1,
                judge.rows(workload, REPORTED, alphas=alphas, epsilons=("4",)),
            )


def _alphas(judge: Judge) -> Iterator[Claim]:
    for name in REPORTED:
        steps = []
        for workload in REPORTS:
            for epsilon in EPSILONS:
                rows = judge.rows(
                    workload, (name,), alphas=ALPHAS, epsilons=(epsilon,), measure="l1"
                )
                steps += list(pairwise(rows))
        yield judge.fewer(f"the error of {name} grows with alpha", steps)


def _coarse(judge: Judge) -> Iterator[Claim]:
    yield judge.fewer(
        "report-3: Log-Laplace has less error than Smooth Gamma",
        judge.both("report-3", LOG, REPORT_GAMMA),
    )
    yield judge.fewer(
        "report-6: Smooth Gamma has less error than Log-Laplace",
        judge.both("report-6", REPORT_GAMMA, LOG),
    )


def _failing(judge: Judge) -> Iterator[Claim]:
    for workload in REPORTS:
        yield judge.fewer(
            f"{workload}: its Smooth Laplace has less error than its Smooth Gamma (follows, too)",
            judge.both(workload, REPORT_LAPLACE, REPORT_GAMMA),
        )


REPORT: tuple[Stated, ...] = (
    ("Report 1", f"the logarithm of the error falls with that of epsilon (alpha {ALPHA})", _slopes),
    ("Report 2", "for large epsilon there is no cost of provable privacy", _free),
    ("Report 3", "error grows with alpha", _alphas),
    ("Report 4", "Log-Laplace is better for coarse tables, Smooth Gamma for fine ones", _coarse),
    ("Report 5", "a small failure probability helps", _failing),
)


def judged(judge: Judge) -> list[Finding]:
    """The paper's six findings, and the report's five, at the prices that it claims."""
    return [judge.finding(*stated) for stated in (*PAPER, *REPORT)]
