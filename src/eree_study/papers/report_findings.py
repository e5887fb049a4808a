"""The five findings of the report, judged by the numbers of a study at the prices it claims."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import log

from eree.mechanisms.grid import ALPHAS, EPSILONS
from eree_study.papers.claims import ALPHA, Claim, Judge, Told, between, counted, span

LOG, GAMMA, LAPLACE = "log-laplace", "report-gamma", "report-laplace"
_REPORTS = ("report-3", "report-4", "report-5", "report-6")
_ALGORITHMS = (LOG, GAMMA, LAPLACE)
#: How far a slope may be from -1.
_SLOPE = 0.1


def _slopes(judge: Judge) -> Iterator[Claim]:
    for name in _ALGORITHMS:
        falls, slopes = [], []
        for workload in _REPORTS:
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
    for workload in _REPORTS:
        for words, alphas in (("alpha 0.01", ALPHAS[:1]), ("alpha 0.05 and more", ALPHAS[1:])):
            yield judge.most(
                f"{workload}: at epsilon 4 and {words} all three beat infusion",
                1,
                judge.rows(workload, _ALGORITHMS, alphas=alphas, epsilons=("4",)),
            )


def _alphas(judge: Judge) -> Iterator[Claim]:
    for name in _ALGORITHMS:
        steps = []
        for workload in _REPORTS:
            for epsilon in EPSILONS:
                rows = judge.rows(
                    workload, (name,), alphas=ALPHAS, epsilons=(epsilon,), measure="l1"
                )
                steps += list(pairwise(rows))
        yield judge.fewer(f"the error of {name} grows with alpha", steps)


def _coarse(judge: Judge) -> Iterator[Claim]:
    yield judge.fewer(
        "report-3: Log-Laplace has less error than Smooth Gamma", judge.both("report-3", LOG, GAMMA)
    )
    yield judge.fewer(
        "report-6: Smooth Gamma has less error than Log-Laplace", judge.both("report-6", GAMMA, LOG)
    )


def _failing(judge: Judge) -> Iterator[Claim]:
    for workload in _REPORTS:
        yield judge.fewer(
            f"{workload}: its Smooth Laplace has less error than its Smooth Gamma (follows, too)",
            judge.both(workload, LAPLACE, GAMMA),
        )


REPORT: tuple[Told, ...] = (
    ("Report 1", f"the logarithm of the error falls with that of epsilon (alpha {ALPHA})", _slopes),
    ("Report 2", "for large epsilon there is no cost of provable privacy", _free),
    ("Report 3", "error grows with alpha", _alphas),
    ("Report 4", "Log-Laplace is better for coarse tables, Smooth Gamma for fine ones", _coarse),
    ("Report 5", "a small failure probability helps", _failing),
)
