"""The report of a study: its table, its figures, and a page on what became of the findings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eree.mechanisms.grid import on_every_core
from eree_study.figures.study import draw_grid, draw_limits
from eree_study.papers.claims import ALPHA, Finding, Judge, with_error
from eree_study.papers.findings import judged
from eree_study.papers.markdown import table
from eree_study.papers.pictures import (
    LOG,
    OURS,
    PICTURES,
    PRICE_OF_PROOF,
    SMOOTH,
    TRACTS,
    grid_of,
    price_of_proof,
)
from eree_study.papers.results import Results
from eree_study.papers.study import Study, parts_of
from eree_study.papers.workloads import WORKLOADS
from eree_study.synth.population import Progress

_PAPER = {
    "workload-1": "Workload 1",
    "workload-2": "Workload 2, weak",
    "workload-2-strong": "Workload 2, strong",
    "workload-3": "Workload 3, weak",
    "workload-3-strong": "Workload 3, strong",
}
_CLAIMED = {
    f"report-{ways}": f"{ways}-way{f', {attributes}' if attributes else ''}"
    for ways, attributes in TRACTS.items()
}
_PRINTED = {
    "report-gamma": "the report's Smooth Gamma (not private)",
    "report-laplace": "the report's Smooth Laplace (not private)",
}


@dataclass(frozen=True)
class StudyReport:
    """What a report consists of; `run` of all `parts` of a study are there."""

    findings: tuple[Finding, ...]
    wide: tuple[Finding, ...]
    files: tuple[Path, ...]
    run: int
    parts: int


def study_report(
    folder: str | os.PathLike[str], *, progress: Progress | None = None
) -> StudyReport:
    """Write `errors.parquet`, `errors.csv`, the figures and `findings.md` of a study."""
    tell = progress or (lambda _step, _done: None)
    study = Study.read(Path(folder))
    tell("reading", 0.0)
    results = Results.read(study.folder)
    files = results.write(study.folder)
    home = study.folder / "figures"
    home.mkdir(exist_ok=True)

    def paths(name: str) -> list[Path]:
        return [home / f"{name}{end}" for end in (".png", ".svg")]

    grids = [(one.name, grid) for one in PICTURES if (grid := grid_of(study, results, one)).bands]
    given = [(grid, paths(name)) for name, grid in grids]
    for done, (number, _) in enumerate(on_every_core(draw_grid, given), start=1):
        files += given[number][1]
        tell(f"drawing {grids[number][0]}", done / (len(given) + 1))
    panels, note = price_of_proof(study, results)
    if panels:
        draw_limits(panels, note, paths(PRICE_OF_PROOF))
        files += paths(PRICE_OF_PROOF)
    findings = tuple(judged(Judge(results)))
    wide = tuple(judged(Judge(results, wide=True)))
    parts = len(list(parts_of(WORKLOADS.values())))
    path = study.folder / "findings.md"
    page = findings_page(study, results, findings, wide, parts)
    path.write_text("\n".join(page), encoding="utf-8")
    tell("done", 1.0)
    return StudyReport(findings, wide, (*sorted(files), path), len(results.parts), parts)


def findings_page(
    study: Study,
    results: Results,
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
    if len(results.parts) < parts:
        yield ""
        yield (
            f"The study is not complete: {len(results.parts)} of its {parts} parts were run."
            " A claim or finding whose parts were not all run is not judged."
        )
    yield ""
    yield from table(
        ("finding", "", "judged", "with the wide range"),
        (
            (one.name, one.statement, f"**{one.judgement}**", other.judgement)
            for one, other in zip(findings, wide, strict=True)
        ),
    )
    yield f"Ratios at alpha {ALPHA}, epsilon 1 / 2 / 4 (below 1: better than infusion):"
    yield ""
    yield from _ratios(results, _PAPER, LOG | SMOOTH | OURS)
    yield (
        "The report's marginals over tracts, every worker cell at the full price, as the report"
        " does; from 4-way on that is no guarantee for the whole table, whoever draws the noise:"
    )
    yield ""
    yield from _ratios(results, _CLAIMED, LOG | _PRINTED | OURS)
    yield (
        "The same at the true price: cells share it, or, with eree, a vector mechanism pays once"
        " (strong):"
    )
    yield ""
    true = {f"{workload}-true": title for workload, title in _CLAIMED.items()}
    true.pop("report-3-true")
    yield from _ratios(results, true, _PRINTED | SMOOTH | OURS)
    for one, other in zip(findings, wide, strict=True):
        yield from _finding(one, other)


def _finding(one: Finding, other: Finding) -> Iterator[str]:
    yield f"## {one.name}: {one.statement}"
    yield ""
    yield f"**{one.judgement.capitalize()}**"
    yield ""
    rows = [
        (
            *(claim.statement, claim.holds, claim.figures),
            "the same" if claim == again else f"{again.holds}: {again.figures}",
        )
        for claim, again in zip(one.claims, other.claims, strict=True)
    ]
    yield from table(("claim", "holds", "figures", "with the wide range"), rows)


def _ratios(
    results: Results, workloads: Mapping[str, str], names: Mapping[str, str]
) -> Iterator[str]:
    """The main figures of some workloads."""

    def ratios(workload: str, mechanism: str) -> str:
        rows = (results.row(workload, mechanism, ALPHA, e) for e in ("1", "2", "4"))
        return " / ".join("–" if row is None else with_error(row) for row in rows)

    yield from table(
        ("", *names.values()),
        (
            (title, *(ratios(workload, name) for name in names))
            for workload, title in workloads.items()
        ),
    )
