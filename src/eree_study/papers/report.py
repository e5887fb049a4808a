"""The report of a study: its table, its figures, and a page on what became of the findings.

The figures are the papers' own, and the price of a proof beside its limits; the page is made from
`findings.md.jinja`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from eree.mechanisms.grid import ALPHAS, EPSILONS
from eree_study.figures.study import Band, Grid, Panel, Point, draw_grid, draw_limits
from eree_study.papers.claims import ALPHA, Finding, Judge
from eree_study.papers.contenders import MOST_DELTA, THETAS
from eree_study.papers.findings import judged
from eree_study.papers.limits import known_step_errors, least_error
from eree_study.papers.markdown import page, table
from eree_study.papers.ratios import LOG, OURS, SMOOTH, TRACTS, findings_tables
from eree_study.papers.study import Results, Study, parts_of
from eree_study.papers.workloads import STRATA, WHOLE, WORKLOADS, Counted
from eree_study.synth.population import Progress

#: Mechanisms, and what they are called beside panels.
_SLIDES = {"slides-gamma": "Smooth Gamma\nof the slides"}
_PRINTED = {
    "report-gamma": "Smooth Gamma\n(not private)",
    "report-laplace": "Smooth Laplace\n(not private)",
}
_SHRUNK = {
    "auto-shrunk": "eree, estimates\nfrom its counts",
    "by-size-shrunk": "eree, estimates\nlarge ones one by one",
}
_ROWS = {**LOG, **SMOOTH, **_SLIDES, **OURS, **_SHRUNK}
_COLUMNS = ("all places", *(f"population {name}" for name in STRATA))

PRICE_OF_PROOF = "price-of-a-proof"
_EPSILONS = tuple(map(float, EPSILONS))
_PANELS = {
    "workload-1": "Workload 1: workplaces, strong",
    "workload-2": "Workload 2: single worker cells, weak",
    "workload-3": "Workload 3: all worker cells at once, weak",
    "workload-3-strong": "Workload 3: all worker cells at once, strong",
}
_ESTIMATES = dict.fromkeys(_SHRUNK, "eree, estimates from what is released")
#: Workloads whose cells get noise one by one, by their own largest workplace: limits are known.
_LIMITED = ("workload-1", "workload-2")


@dataclass(frozen=True)
class StudyReport:
    """What a report of `study_report` consists of.

    Attributes:
        findings: What was found.
        wide: The same with the wider infusion.
        files: The files that were written.
        run: How many parts of the study are there.
        parts: How many it has.
    """

    findings: tuple[Finding, ...]
    wide: tuple[Finding, ...]
    files: tuple[Path, ...]
    run: int
    parts: int


def study_report(
    folder: str | os.PathLike[str], *, progress: Progress | None = None
) -> StudyReport:
    """Write the errors, the figures and `findings.md` of a study.

    Args:
        folder: The folder of a study.
        progress: Called with a step and the share that is done.

    Examples:
        >>> study = eree_study.run_study("study", jobs=5_000, trials=1, only=["ranking-1"])
        >>> report = eree_study.study_report("study")
        >>> report.run < report.parts
        True
    """
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
    for done, (name, grid) in enumerate(grids, start=1):
        tell(f"drawing {name}", done / (len(grids) + 1))
        draw_grid(grid, paths(name))
        files += paths(name)
    panels, note = price_of_proof(study, results)
    if panels:
        draw_limits(panels, note, _EPSILONS, paths(PRICE_OF_PROOF))
        files += paths(PRICE_OF_PROOF)
    findings = tuple(judged(Judge(results)))
    wide = tuple(judged(Judge(results, wide=True)))
    parts = len(list(parts_of(WORKLOADS.values())))
    path = study.folder / "findings.md"
    text = findings_page(study, results, findings, wide, parts)
    path.write_text(text, encoding="utf-8")
    tell("done", 1.0)
    return StudyReport(findings, wide, (*sorted(files), path), len(results.parts), parts)


# --------------------------------------------------------------------------------------------- page


def findings_page(
    study: Study,
    results: Results,
    findings: Sequence[Finding],
    wide: Sequence[Finding],
    parts: int,
) -> str:
    """The page of a study that has so many parts if it is complete."""
    return page(
        "eree_study.papers",
        "findings.md",
        study=study,
        findings=list(zip(findings, wide, strict=True)),
        run=len(results.parts),
        parts=parts,
        alpha=ALPHA,
        **findings_tables(results),
        claims_of=_claims,
    )


def _claims(one: Finding, other: Finding) -> str:
    rows = [
        (
            *(claim.statement, claim.holds, claim.figures),
            "the same" if claim == again else f"{again.holds}: {again.figures}",
        )
        for claim, again in zip(one.claims, other.claims, strict=True)
    ]
    return table(("claim", "holds", "figures", "with the wide range"), rows)


# ------------------------------------------------------------------------------------------ figures


@dataclass(frozen=True)
class Picture:
    """One figure: what it measures, and the rows and columns of its panels.

    A column has a title, a workload and a stratum.  `after` names the papers' figure.
    """

    name: str
    title: str
    after: str
    columns: Mapping[str, tuple[str, str]]
    rows: Mapping[str, str] = field(default_factory=lambda: _ROWS)

    @property
    def measure(self) -> str:
        """A correlation of ranks, or an error as a ratio."""
        ranked = any(WORKLOADS[workload].ranked for workload, _ in self.columns.values())
        return "spearman" if ranked else "l1_ratio"


#: Figures with a column for each stratum, by their names: workload, title, and the papers' figure.
_BY_STRATUM = {
    "paper-figure-1": (
        "workload-1",
        "Jobs by place × sector × ownership",
        "Figure 1 of the paper, Figure 3 of the slides",
    ),
    "paper-figure-2": (
        "ranking-1",
        "Cells ranked by jobs",
        "Figure 2 of the paper, Figure 4 of the slides",
    ),
    "paper-figure-3": (
        "workload-2",
        "Single queries with sex × education (weak)",
        "Figure 3 of the paper, Figure 5 of the slides",
    ),
    "paper-figure-4": (
        "workload-3",
        "The whole marginal with sex × education (weak)",
        "Figure 4 of the paper",
    ),
    "paper-figure-5": (
        "ranking-2",
        "Cells ranked by women with a degree (weak)",
        "Figure 5 of the paper",
    ),
    "strong-figure-3": (
        "workload-2-strong",
        "Single queries with sex × education",
        "Figure 3 of the paper, under the strong guarantee",
    ),
    "strong-figure-4": (
        "workload-3-strong",
        "The whole marginal with sex × education",
        "Figure 4 of the paper, under the strong guarantee",
    ),
    "strong-figure-5": (
        "ranking-2-strong",
        "Cells ranked by women with a degree",
        "Figure 5 of the paper, under the strong guarantee",
    ),
}
PICTURES = (
    *(
        Picture(
            name,
            title,
            after,
            {c: (workload, at) for c, at in zip(_COLUMNS, (WHOLE, *STRATA), strict=True)},
        )
        for name, (workload, title, after) in _BY_STRATUM.items()
    ),
    Picture(
        "report-figure-1",
        "Marginals over tract × sector × ownership, each cell at the full price",
        "Figure 1 of the report",
        {attributes or "3-way": (f"report-{ways}", WHOLE) for ways, attributes in TRACTS.items()},
        rows={**LOG, **_PRINTED, "auto": "eree\n(no guarantee for\nthe whole table)"},
    ),
    Picture(
        "report-true-figure-1",
        "Marginals over tract × sector × ownership, at their true price (strong)",
        "Figure 1 of the report, at the price that it has",
        {
            attributes: (f"report-{ways}-true", WHOLE)
            for ways, attributes in TRACTS.items()
            if attributes
        },
        rows={**_PRINTED, **SMOOTH, **OURS, **_SHRUNK},
    ),
)


def grid_of(study: Study, results: Results, picture: Picture) -> Grid:
    """What a figure shows."""
    ranked = picture.measure == "spearman"
    bands = tuple(_bands(results, picture))
    dashed = "the same ranking as infusion's" if ranked else "as today's noise infusion"
    note = f"{study.jobs:,} synthetic jobs; dashed: {dashed}"
    return Grid(
        f"{picture.title}\nAfter {picture.after}",
        _note(note, [point for band in bands for point in band.points]),
        tuple(picture.columns),
        bands,
        _EPSILONS,
        "Spearman correlation" if ranked else "L1 error, as a ratio to noise infusion",
        logarithmic=not ranked,
    )


def _note(note: str, points: list[Point]) -> str:
    hollow = any(point.hollow for point in points)
    return f"{note}; hollow: delta above {MOST_DELTA}" if hollow else note


def _bands(results: Results, picture: Picture) -> Iterator[Band]:
    """A row for each mechanism, a line for each alpha or theta."""

    def lines(named: Mapping[str, tuple[str, str | None]]) -> list[dict[str, list[Point]]]:
        return [
            {
                name: points
                for name, (mechanism, alpha) in named.items()
                if (points := _line(results, workload, mechanism, alpha, picture.measure, stratum))
            }
            for workload, stratum in picture.columns.values()
        ]

    for mechanism, title in picture.rows.items():
        columns = lines({alpha: (mechanism, alpha) for alpha in ALPHAS})
        if any(columns):
            yield Band(title, "alpha", ALPHAS, columns)
    if picture.rows is _ROWS:
        columns = lines({str(theta): (f"truncated-laplace-{theta}", None) for theta in THETAS})
        if any(columns):
            yield Band("Truncated\nLaplace", "theta", list(map(str, THETAS)), columns)


def _line(
    results: Results,
    workload: str,
    mechanism: str,
    alpha: str | None = ALPHA,
    measure: str = "l1_ratio",
    stratum: str = WHOLE,
) -> list[Point]:
    rows = (results.row(workload, mechanism, alpha, e, measure, stratum) for e in EPSILONS)
    return [
        Point(float(row.epsilon or 0), row.value, hollow=row.delta > MOST_DELTA)
        for row in rows
        if row is not None
    ]


def price_of_proof(study: Study, results: Results) -> tuple[list[Panel], str]:
    """The panels of the main figure, of the workloads that the study has, and a note on them."""
    found = []
    for workload, title in _PANELS.items():
        published, ours = (
            {
                label: line
                for name, label in names.items()
                if (line := _line(results, workload, name))
            }
            for names in (LOG | SMOOTH, OURS | _ESTIMATES)
        )
        if ours:
            limited = workload in _LIMITED
            limits = list(_limits(results, study.folder, workload)) if limited else []
            known, least = zip(*limits, strict=True) if limits else ((), ())
            free = _line(results, workload, "known-scales")
            found.append(Panel(title, published, ours, known or free, least))
    points = [point for panel in found for line in panel.published.values() for point in line]
    return found, _note(f"{study.jobs:,} synthetic jobs, alpha {ALPHA}", points)


def _limits(results: Results, folder: Path, workload: str) -> Iterator[tuple[Point, Point]]:
    """Both limits of a workload, as ratios to infusion, for every epsilon of the study."""
    infused = results.row(workload, "infusion", None, None, "l1")
    path = WORKLOADS[workload].file(folder)
    if infused is None or not infused.value or not path.exists():
        return
    sizes, alpha = Counted.read(path).largest, Fraction(ALPHA)
    for text in EPSILONS:
        epsilon = float(text)
        known = float(known_step_errors(sizes, alpha, epsilon).mean())
        least = least_error(sizes, alpha, epsilon)
        yield Point(epsilon, known / infused.value), Point(epsilon, least / infused.value)
