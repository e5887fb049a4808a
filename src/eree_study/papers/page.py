"""`findings.md`: what became of the papers' findings, for people to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from eree_study.papers.claims import ALPHA, Finding, said
from eree_study.papers.run import Study
from eree_study.papers.tidy import Figures

_PUBLISHED = {
    "log-laplace": "Log-Laplace",
    "smooth-gamma": "Smooth Gamma",
    "smooth-laplace": "Smooth Laplace",
}
_OURS = {"auto": "eree"}
_PAPER = {
    "workload-1": "Workload 1",
    "workload-2": "Workload 2, weak",
    "workload-2-strong": "Workload 2, strong",
    "workload-3": "Workload 3, weak",
    "workload-3-strong": "Workload 3, strong",
}
_TRACTS = {"4": "with age", "5": "with age, sex", "6": "with age, sex, race"}
_CLAIMED = {f"report-{ways}": f"{ways}-way, {words}" for ways, words in _TRACTS.items()}
_TRUE = {f"{workload}-true": title for workload, title in _CLAIMED.items()}
_ALGORITHMS = {
    "log-laplace": "Log-Laplace",
    "report-gamma": "the report's Smooth Gamma (not private)",
    "report-laplace": "the report's Smooth Laplace (not private)",
}


def findings_page(
    study: Study,
    figures: Figures,
    findings: Sequence[Finding],
    wide: Sequence[Finding],
    parts: int,
) -> Iterator[str]:
    """The lines of the page of a study that has so many parts if it is complete."""
    yield "# What became of the papers' findings"
    yield ""
    yield (
        f"A study of synthetic data: {study.jobs:,} jobs, {study.trials} trials, seed {study.seed},"
        f" {study.assumptions} assumptions. Written by `eree study report`. Ratios are of mean"
        " absolute errors to those of noise infusion with factors of 5 to 15%; as the range in use"
        " is not known, whatever is held against infusion is judged with 10 to 25% as well."
    )
    yield ""
    yield (
        "A claim holds where all of its figures say so by two standard errors, fails where one says"
        " the opposite by as much (by more where there are many), and is too close to tell in"
        " between; ± is one standard error, and figures without it are surer than their digits or a"
        " range of several. A correlation is close to 1, and a ranking good, from 0.95 on; two"
        " mechanisms are alike within a factor of 2 or, in rankings, 0.05 of correlation; large"
        " places have 100,000 people or more."
    )
    if len(figures.parts) < parts:
        yield ""
        yield (
            f"The study is not complete: {len(figures.parts)} of its {parts} parts were run."
            " A claim or finding whose parts were not all run is not judged."
        )
    yield ""
    yield "| finding | | judged | with the wide range |"
    yield "|---|---|---|---|"
    for one, other in zip(findings, wide, strict=True):
        yield f"| {one.name} | {one.words} | **{one.judgement}** | {other.judgement} |"
    yield ""
    yield f"Ratios at alpha {ALPHA}, epsilon 1 / 2 / 4 (below 1: better than infusion):"
    yield ""
    yield from _ratios(figures, _PAPER, _PUBLISHED | _OURS)
    yield (
        "The report's marginals over tracts, every worker cell at the full price, as the report"
        " does; from 4-way on that is no guarantee for the whole table, whoever draws the noise:"
    )
    yield ""
    yield from _ratios(figures, {"report-3": "3-way"} | _CLAIMED, _ALGORITHMS | _OURS)
    yield (
        "The same at the true price: cells share it, or, with eree, a vector mechanism pays once"
        " (strong):"
    )
    yield ""
    smooth = {name: title for name, title in _PUBLISHED.items() if name != "log-laplace"}
    printed = {name: title for name, title in _ALGORITHMS.items() if name != "log-laplace"}
    yield from _ratios(figures, _TRUE, printed | smooth | _OURS)
    for one, other in zip(findings, wide, strict=True):
        yield from _finding(one, other)


def _finding(one: Finding, other: Finding) -> Iterator[str]:
    yield f"## {one.name}: {one.words}"
    yield ""
    yield f"**{one.judgement.capitalize()}**"
    yield ""
    yield "| claim | holds | figures | with the wide range |"
    yield "|---|---|---|---|"
    for claim, again in zip(one.claims, other.claims, strict=True):
        also = "the same" if claim == again else f"{again.holds}: {again.figures}"
        yield f"| {claim.words} | {claim.holds} | {claim.figures} | {also} |"
    yield ""


def _ratios(
    figures: Figures, workloads: Mapping[str, str], names: Mapping[str, str]
) -> Iterator[str]:
    """The main figures of some workloads."""
    yield "| | " + " | ".join(names.values()) + " |"
    yield "|---" * (len(names) + 1) + "|"
    for workload, title in workloads.items():
        cells = []
        for mechanism in names:
            rows = (figures.row(workload, mechanism, ALPHA, e) for e in ("1", "2", "4"))
            cells.append(" / ".join("–" if row is None else said(row) for row in rows))
        yield f"| {title} | " + " | ".join(cells) + " |"
    yield ""
