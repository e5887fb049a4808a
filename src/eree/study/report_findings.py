"""The five findings of the report, judged by the numbers of a study."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import log

from eree.mechanisms.grid import ALPHAS, EPSILONS
from eree.study.claims import ALPHA, Claim, Judge, Told, span

LOG = "log-laplace"
_REPORTS = ("report-3", "report-4", "report-5", "report-6")
_ALGORITHMS = (LOG, "report-gamma", "report-laplace")


def _slopes(judge: Judge) -> Iterator[Claim]:
    for name in _ALGORITHMS[1:]:
        slopes = []
        for workload in _REPORTS:
            ends = [judge.figures.value(workload, name, ALPHA, e, judge.ratio) for e in ("1", "4")]
            if ends[0] is not None and ends[1] is not None:
                slopes.append(log(ends[1] / ends[0]) / log(4))
        yield Claim(
            f"the error of {name} falls as 1 / epsilon (slope -1 to within 0.1)",
            all(abs(slope + 1) <= 0.1 for slope in slopes) if slopes else None,
            span(slopes) if slopes else "no figures",
        )


def _free(judge: Judge) -> Iterator[Claim]:
    for workload in _REPORTS:
        yield judge.most(
            f"{workload}: at epsilon 4 and alpha 0.01 the report's Smooth Laplace beats infusion",
            1,
            workload,
            ("report-laplace",),
            ("0.01",),
            ("4",),
        )


def _alphas(judge: Judge) -> Iterator[Claim]:
    for name in _ALGORITHMS:
        rising = []
        for workload in _REPORTS:
            values = judge.figures.values(workload, name, ALPHAS, ("4",), judge.ratio)
            rising += [b > a for a, b in pairwise(values)]
        yield Claim(
            f"the error of {name} grows with alpha",
            all(rising) if rising else None,
            f"in {sum(rising)} of {len(rising)} steps",
        )


def _coarse(judge: Judge) -> Iterator[Claim]:
    for workload, less, more in (
        ("report-3", LOG, "report-gamma"),
        ("report-6", "report-gamma", LOG),
    ):
        a, b = (judge.figures.value(workload, n, ALPHA, "2", judge.ratio) for n in (less, more))
        known = a is not None and b is not None
        yield Claim(
            f"{workload}: {less} has less error than {more}",
            a < b if a is not None and b is not None else None,
            f"{a:.3g} against {b:.3g}" if known else "no figures",
        )


def _failing(judge: Judge) -> Iterator[Claim]:
    for workload in _REPORTS:
        points = [
            (mine, rest)
            for alpha in ALPHAS
            for epsilon in EPSILONS
            if (mine := judge.figures.value(workload, "report-laplace", alpha, epsilon)) is not None
            and (rest := judge.figures.value(workload, "report-gamma", alpha, epsilon)) is not None
        ]
        won = sum(mine < rest for mine, rest in points)
        yield Claim(
            f"{workload}: the report's Smooth Laplace has less error than its Smooth Gamma",
            won == len(points) if points else None,
            f"at {won} of {len(points)} points",
        )


REPORT: tuple[Told, ...] = (
    ("Report 1", "the logarithm of the error falls with that of epsilon", _slopes),
    ("Report 2", "for large epsilon there is no cost of provable privacy", _free),
    ("Report 3", "error grows with alpha", _alphas),
    ("Report 4", "Log-Laplace is better for coarse tables, Smooth Gamma for fine ones", _coarse),
    ("Report 5", "a small failure probability helps", _failing),
)
