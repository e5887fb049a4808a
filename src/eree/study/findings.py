"""What the papers found, judged by the numbers of a study: the six findings of the paper."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from eree.mechanisms.grid import ALPHAS, EPSILONS
from eree.study.claims import ALPHA, EPSILON, Claim, Finding, Judge, Told, span
from eree.study.report_findings import REPORT
from eree.study.workloads import STRATA

#: What counts as "close to 1" for a correlation, and as "nearly the same" for an error.
CLOSE, SAME = 0.95, 1.5
LARGE = "100k+"
LOG, GAMMA, LAPLACE = "log-laplace", "smooth-gamma", "smooth-laplace"
THREE = (LOG, GAMMA, LAPLACE)
THETAS = (2, 20, 50, 100, 200, 500)


def _first(judge: Judge) -> Iterator[Claim]:
    yield judge.most(
        "Log-Laplace and Smooth Gamma are within a factor of 3", 3, "workload-1", (LOG, GAMMA)
    )
    yield judge.most("Smooth Laplace is better than infusion", 1, "workload-1", (LAPLACE,))
    yield judge.least(
        "Smooth Laplace ranks close to infusion from epsilon 2 on",
        CLOSE,
        "ranking-1",
        (LAPLACE,),
        ("2", "4"),
    )
    yield judge.least("so do the others at epsilon 4", CLOSE, "ranking-1", (LOG, GAMMA), ("4",))
    yield judge.least(
        "in large places Smooth Laplace does at every epsilon",
        CLOSE,
        "ranking-1",
        (LAPLACE,),
        EPSILONS,
        stratum=LARGE,
    )
    yield judge.least(
        "and Log-Laplace from epsilon 1 on",
        CLOSE,
        "ranking-1",
        (LOG,),
        ("1", "2", "4"),
        stratum=LARGE,
    )
    for name, share in ((LOG, 0.65), (LAPLACE, 0.75), (GAMMA, 0.29)):
        yield judge.least(
            f"{name} is within 10 points of infusion's relative error in {share:.0%} of cells",
            share,
            "workload-1",
            (name,),
            (EPSILON,),
            measure="within_10_points",
        )


def _second(judge: Judge) -> Iterator[Claim]:
    yield judge.most("Log-Laplace is within a factor of 3", 3, "workload-2", (LOG,))
    yield judge.most(
        f"Smooth Laplace has nearly the same error (at most {SAME} times)",
        SAME,
        "workload-2",
        (LAPLACE,),
    )
    yield judge.most(
        "at epsilon 4 Smooth Laplace is better than infusion for every alpha",
        1,
        "workload-2",
        (LAPLACE,),
        ALPHAS,
        ("4",),
    )
    yield judge.least(
        "Smooth Laplace ranks close to infusion at epsilon 4",
        CLOSE,
        "ranking-2",
        (LAPLACE,),
        ("4",),
    )
    others = judge.figures.values("ranking-2", LOG, (ALPHA,), ("4",), "spearman")
    others += judge.figures.values("ranking-2", GAMMA, (ALPHA,), ("4",), "spearman")
    yield Claim(
        "the others do not",
        max(others) < CLOSE if others else None,
        span(others) if others else "no figures",
    )
    yield judge.least(
        "in large places Log-Laplace and Smooth Laplace do at every epsilon",
        CLOSE,
        "ranking-2",
        (LOG, LAPLACE),
        EPSILONS,
        stratum=LARGE,
    )


def _third(judge: Judge) -> Iterator[Claim]:
    worse = judge.figures.values("workload-3", LOG, (ALPHA,), EPSILONS, judge.ratio)
    worse += judge.figures.values("workload-3", LAPLACE, (ALPHA,), EPSILONS, judge.ratio)
    yield Claim(
        "all are worse than infusion at alpha 0.1",
        min(worse) > 1 if worse else None,
        span(worse) if worse else "no figures",
    )
    yield judge.most(
        "Log-Laplace is within a factor of 10 at epsilon 4 for alpha up to 0.05",
        10,
        "workload-3",
        (LOG,),
        ("0.01", "0.05"),
        ("4",),
    )
    yield judge.most(
        "Smooth Laplace is within a factor of 10 at epsilon 4 for every alpha",
        10,
        "workload-3",
        (LAPLACE,),
        ALPHAS,
        ("4",),
    )
    yield judge.most(
        "Smooth Laplace is within a factor of 3 at alpha 0.01 and epsilon 4",
        3,
        "workload-3",
        (LAPLACE,),
        ("0.01",),
        ("4",),
    )


def _fourth(judge: Judge) -> Iterator[Claim]:
    for workload, measure in (
        ("workload-1", judge.ratio),
        ("workload-2", judge.ratio),
        ("ranking-1", "spearman"),
        ("ranking-2", "spearman"),
    ):
        for name in THREE:
            values = [
                judge.figures.value(workload, name, ALPHA, EPSILON, measure, stratum)
                for stratum in STRATA
            ]
            known = [value for value in values if value is not None]
            better = [b < a if measure != "spearman" else b > a for a, b in pairwise(known)]
            yield Claim(
                f"{workload}: {name} gets better from stratum to stratum",
                all(better) if better else None,
                " → ".join(f"{value:.3g}" for value in known) or "no figures",
            )


def _fifth(judge: Judge) -> Iterator[Claim]:
    for workload in ("workload-1", "workload-2", "workload-3"):
        points = [
            (
                judge.figures.value(workload, LAPLACE, alpha, epsilon, judge.ratio),
                judge.figures.values(workload, LOG, (alpha,), (epsilon,), judge.ratio)
                + judge.figures.values(workload, GAMMA, (alpha,), (epsilon,), judge.ratio),
            )
            for alpha in ALPHAS
            for epsilon in EPSILONS
        ]
        both = [(mine, min(rest)) for mine, rest in points if mine is not None and rest]
        won = sum(mine < rest for mine, rest in both)
        yield Claim(
            f"{workload}: Smooth Laplace has the least error of the three everywhere",
            won == len(both) if both else None,
            f"at {won} of {len(both)} points",
        )
    pairs = {
        epsilon: (
            judge.figures.value("workload-1", LOG, ALPHA, epsilon, judge.ratio),
            judge.figures.value("workload-1", GAMMA, ALPHA, epsilon, judge.ratio),
        )
        for epsilon in ("0.5", "0.67", "1", "4")
    }
    low = [(a, b) for e, (a, b) in pairs.items() if e != "4" and a is not None and b is not None]
    yield Claim(
        "Log-Laplace has less error than Smooth Gamma up to epsilon 1",
        all(a < b for a, b in low) if low else None,
        ", ".join(f"{a:.3g} against {b:.3g}" for a, b in low) or "no figures",
    )
    last = pairs["4"]
    if last[0] is not None and last[1] is not None:
        yield Claim(
            "and more at epsilon 4", last[0] > last[1], f"{last[0]:.3g} against {last[1]:.3g}"
        )


def _sixth(judge: Judge) -> Iterator[Claim]:
    names = tuple(f"truncated-laplace-{theta}" for theta in THETAS)
    yield judge.least(
        "Truncated Laplace has at least 10 times infusion's error at epsilon 4, for every theta",
        10,
        "workload-1",
        names,
        ("4",),
        measure=judge.ratio,
        alphas=(None,),
    )
    before, after = (
        judge.figures.value("workload-1", names[0], None, e, judge.ratio) for e in ("1", "4")
    )
    if before is not None and after is not None:
        yield Claim(
            "for theta 2 more epsilon hardly helps (less than 5% from 1 to 4)",
            after > 0.95 * before,
            f"{before:.3g} → {after:.3g}",
        )
    found = [
        value
        for name in names
        for value in judge.figures.values("ranking-1", name, (None,), EPSILONS, "spearman")
    ]
    yield Claim(
        "its rankings correlate by at most 0.7 with infusion's, for every theta and epsilon",
        max(found) <= 0.7 if found else None,
        span(found) if found else "no figures",
    )


PAPER: tuple[Told, ...] = (
    ("Finding 1", "marginals over workplace attributes: comparable or better", _first),
    ("Finding 2", "single queries with worker attributes: comparable or better (weak)", _second),
    ("Finding 3", "whole marginals with worker attributes: worse, acceptable at times", _third),
    ("Finding 4", "all three get better as the population of the place grows", _fourth),
    ("Finding 5", "Smooth Laplace is the best of the three, the others alike", _fifth),
    ("Finding 6", "Truncated Laplace costs far more, and ranks poorly", _sixth),
)


def judged(judge: Judge) -> list[Finding]:
    """The paper's six findings, and the report's five."""
    return [Finding(name, words, tuple(claims(judge))) for name, words, claims in (*PAPER, *REPORT)]
