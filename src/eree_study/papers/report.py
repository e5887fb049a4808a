"""The report of a study: one tidy table, the papers' figures, and what became of their findings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from eree.mechanisms.grid import ALPHAS, EPSILONS, on_every_core
from eree_study.figures.limits import draw_limits
from eree_study.figures.study import Band, Grid, Point, draw_grid
from eree_study.papers import price_of_proof
from eree_study.papers.claims import ALPHA, Finding, Judge
from eree_study.papers.contenders import MOST_DELTA, THETAS
from eree_study.papers.findings import judged
from eree_study.papers.page import findings_page
from eree_study.papers.run import Study, parts_of
from eree_study.papers.tidy import Figures
from eree_study.papers.workloads import STRATA, WHOLE, WORKLOADS

Progress = Callable[[str, float], None]
#: Rows of the figures: a mechanism and what stands beside its panels.
_LOG = {"log-laplace": "Log-Laplace"}
_SMOOTH = {"smooth-gamma": "Smooth Gamma", "smooth-laplace": "Smooth Laplace"}
_PRINTED = {
    "report-gamma": "Smooth Gamma\n(not private)",
    "report-laplace": "Smooth Laplace\n(not private)",
}
_SHRUNK = {
    "auto-shrunk": "eree, estimates\nfrom its counts",
    "by-size-shrunk": "eree, estimates\nlarge ones one by one",
}
_ROWS = {**_LOG, **_SMOOTH, "auto": "eree", **_SHRUNK}
_COLUMNS = ("all places", *(f"population {name}" for name in STRATA))
_TRACTS = ("with age", "with age, sex", "with age, sex, race")


@dataclass(frozen=True)
class Picture:
    """One figure: what it measures, and the rows and columns of its panels.

    A column has a title, a workload and a stratum.
    """

    name: str
    title: str
    columns: Mapping[str, tuple[str, str]]
    measure: str = "l1_ratio"
    rows: Mapping[str, str] = field(default_factory=lambda: _ROWS)

    @classmethod
    def of(cls, name: str, workload: str, title: str, measure: str = "l1_ratio") -> Picture:
        """One workload, and a column for each stratum."""
        strata = zip(_COLUMNS, (WHOLE, *STRATA), strict=True)
        return cls(name, title, {column: (workload, at) for column, at in strata}, measure)


def _tracts(*workloads: str) -> dict[str, tuple[str, str]]:
    titles = ("3-way", *_TRACTS)[-len(workloads) :]
    return {title: (name, WHOLE) for title, name in zip(titles, workloads, strict=True)}


PICTURES = (
    Picture.of("paper-figure-1", "workload-1", "Jobs by place × sector × ownership"),
    Picture.of("paper-figure-2", "ranking-1", "Cells ranked by jobs", "spearman"),
    Picture.of("paper-figure-3", "workload-2", "Single queries with sex × education (weak)"),
    Picture.of("paper-figure-4", "workload-3", "The whole marginal with sex × education (weak)"),
    Picture.of(
        "paper-figure-5", "ranking-2", "Cells ranked by women with a degree (weak)", "spearman"
    ),
    Picture.of(
        "strong-figure-3",
        "workload-2-strong",
        "Single queries with sex × education, strong guarantee",
    ),
    Picture.of(
        "strong-figure-4",
        "workload-3-strong",
        "The whole marginal with sex × education, strong guarantee",
    ),
    Picture.of(
        "strong-figure-5",
        "ranking-2-strong",
        "Cells ranked by women with a degree, strong guarantee",
        "spearman",
    ),
    Picture(
        "report-figure-1",
        "Marginals over tract × sector × ownership, each cell at the full price, as in the report",
        _tracts("report-3", "report-4", "report-5", "report-6"),
        rows={**_LOG, **_PRINTED, "auto": "eree\n(no guarantee for\nthe whole table)"},
    ),
    Picture(
        "report-true-figure-1",
        "Marginals over tract × sector × ownership, at their true price (strong)",
        _tracts("report-4-true", "report-5-true", "report-6-true"),
        rows={**_PRINTED, **_SMOOTH, "auto": "eree", **_SHRUNK},
    ),
)


@dataclass(frozen=True)
class StudyReport:
    """What a report consists of; `run` of all `parts` of a study are there."""

    figures: Figures
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
    figures = Figures.read(study.folder)
    files = figures.write(study.folder)
    home = study.folder / "figures"
    home.mkdir(exist_ok=True)
    grids = [(one, grid) for one in PICTURES if (grid := _grid(study, figures, one)).bands]
    given = [(grid, [home / f"{one.name}{end}" for end in (".png", ".svg")]) for one, grid in grids]
    for done, (number, _) in enumerate(on_every_core(draw_grid, given), start=1):
        files += given[number][1]
        tell(f"drawing {grids[number][0].name}", done / (len(given) + 1))
    files += _price_of_proof(study, figures, home)
    findings = tuple(judged(Judge(figures)))
    wide = tuple(judged(Judge(figures, wide=True)))
    parts = len(list(parts_of(WORKLOADS.values())))
    path = study.folder / "findings.md"
    page = findings_page(study, figures, findings, wide, parts)
    path.write_text("\n".join(page), encoding="utf-8")
    tell("done", 1.0)
    return StudyReport(figures, findings, wide, (*sorted(files), path), len(figures.parts), parts)


def _price_of_proof(study: Study, figures: Figures, home: Path) -> list[Path]:
    """The main figure, of what the study has of it."""
    shown = price_of_proof.panels(figures, study.folder)
    if not shown:
        return []
    paths = [home / f"{price_of_proof.NAME}{end}" for end in (".png", ".svg")]
    hollow = any(p.hollow for panel in shown for line in panel.published.values() for p in line)
    note = f"{study.jobs:,} synthetic jobs, alpha {ALPHA}"
    draw_limits(shown, f"{note}; hollow: delta above {MOST_DELTA}" if hollow else note, paths)
    return paths


def _grid(study: Study, figures: Figures, picture: Picture) -> Grid:
    """What a figure shows."""
    ranked = picture.measure == "spearman"
    bands = tuple(_bands(figures, picture))
    dashed = "the same ranking as infusion's" if ranked else "as today's noise infusion"
    note = f"{study.jobs:,} synthetic jobs; dashed: {dashed}"
    return Grid(
        picture.title,
        f"{note}; hollow: delta above {MOST_DELTA}" if any(b.hollow for b in bands) else note,
        tuple(picture.columns),
        bands,
        "Spearman correlation" if ranked else "L1 error, as a ratio to noise infusion",
        logarithmic=not ranked,
    )


def _bands(figures: Figures, picture: Picture) -> Iterator[Band]:
    """A row for each mechanism, a line for each alpha or theta."""

    def line(mechanism: str, alpha: str | None, workload: str, stratum: str) -> list[Point]:
        found = (
            figures.row(workload, mechanism, alpha, e, picture.measure, stratum) for e in EPSILONS
        )
        return [
            Point(float(row.epsilon or 0), row.value, hollow=row.delta > MOST_DELTA)
            for row in found
            if row is not None
        ]

    for mechanism, title in picture.rows.items():
        columns = [
            {alpha: points for alpha in ALPHAS if (points := line(mechanism, alpha, *column))}
            for column in picture.columns.values()
        ]
        if any(columns):
            yield Band(title, "alpha", columns)
    columns = [
        {
            str(theta): points
            for theta in THETAS
            if (points := line(f"truncated-laplace-{theta}", None, *column))
        }
        for column in picture.columns.values()
    ]
    if any(columns) and picture.rows is _ROWS:
        yield Band("Truncated\nLaplace", "theta", columns)
