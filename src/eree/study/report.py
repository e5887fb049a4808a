"""The report of a study: one tidy table, the papers' figures, and what became of their findings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from eree.figures.study import Band, grid_figure
from eree.mechanisms.grid import ALPHAS, EPSILONS
from eree.study.claims import Finding, Judge
from eree.study.contenders import THETAS
from eree.study.findings import judged
from eree.study.run import Study, parts_of
from eree.study.tidy import Figures
from eree.study.workloads import STRATA, WHOLE, WORKLOADS

Progress = Callable[[str, float], None]
#: Rows of the figures: a mechanism and what stands beside its panels.
_ROWS = {
    "log-laplace": "Log-Laplace",
    "smooth-gamma": "Smooth Gamma",
    "smooth-laplace": "Smooth Laplace",
    "auto": "eree",
}
_REPORT_ROWS = {
    "log-laplace": "Log-Laplace",
    "report-gamma": "Smooth Gamma\n(not private)",
    "report-laplace": "Smooth Laplace\n(not private)",
    "auto": "eree",
}


_COLUMNS = ("all places", *(f"population {name}" for name in STRATA))


@dataclass(frozen=True)
class Picture:
    """One figure of a paper."""

    name: str
    workload: str
    measure: str
    title: str


PICTURES = (
    Picture("paper-figure-1", "workload-1", "l1_ratio", "Jobs by place × sector × ownership"),
    Picture("paper-figure-2", "ranking-1", "spearman", "Cells ranked by jobs"),
    Picture(
        "paper-figure-3", "workload-2", "l1_ratio", "Single queries with sex × education (weak)"
    ),
    Picture(
        "paper-figure-4", "workload-3", "l1_ratio", "The whole marginal with sex × education (weak)"
    ),
    Picture(
        "paper-figure-5", "ranking-2", "spearman", "Cells ranked by women with a degree (weak)"
    ),
    Picture(
        "strong-figure-3",
        "workload-2-strong",
        "l1_ratio",
        "Single queries with sex × education, strong guarantee",
    ),
    Picture(
        "strong-figure-4",
        "workload-3-strong",
        "l1_ratio",
        "The whole marginal with sex × education, strong guarantee",
    ),
    Picture(
        "strong-figure-5",
        "ranking-2-strong",
        "spearman",
        "Cells ranked by women with a degree, strong guarantee",
    ),
)


@dataclass(frozen=True)
class StudyReport:
    """What a report consists of."""

    figures: Figures
    findings: tuple[Finding, ...]
    wide: tuple[Finding, ...]
    files: tuple[Path, ...]


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
    note = f"{study.jobs:,} made-up jobs; dashed: as today's noise infusion"
    for number, picture in enumerate(PICTURES):
        tell(f"drawing {picture.name}", (number + 1) / (len(PICTURES) + 2))
        bands = list(_bands(figures, picture))
        if any(any(band.columns) for band in bands):
            files += _draw(home, picture, note, bands)
    bands = list(_report_bands(figures))
    if any(any(band.columns) for band in bands):
        one = Picture(
            "report-figure-1", "", "l1_ratio", "Marginals over tract × sector × ownership"
        )
        columns = ["3-way", "with age", "with age, sex", "with age, sex, race"]
        files += _draw(home, one, note + "; at the claimed price", bands, columns)
    findings = tuple(judged(Judge(figures)))
    wide = tuple(judged(Judge(figures, "l1_ratio_wide")))
    text = "\n".join(_page(study, figures, findings, wide))
    path = study.folder / "findings.md"
    path.write_text(text, encoding="utf-8")
    tell("done", 1.0)
    return StudyReport(figures, findings, wide, (*files, path))


def _draw(
    home: Path,
    picture: Picture,
    note: str,
    bands: Sequence[Band],
    columns: Sequence[str] = _COLUMNS,
) -> list[Path]:
    words = {
        "l1_ratio": "L1 error, as a ratio to noise infusion",
        "spearman": "Spearman correlation",
    }
    paths = [home / f"{picture.name}{suffix}" for suffix in (".png", ".svg")]
    for path in paths:
        grid_figure(
            path,
            title=picture.title,
            note=note,
            columns=columns,
            bands=bands,
            measure=words[picture.measure],
            logarithmic=picture.measure != "spearman",
        )
    return paths


def _bands(figures: Figures, picture: Picture) -> Iterator[Band]:
    """A row for each mechanism, a column for each stratum, a line for each alpha or theta."""
    strata = (WHOLE, *STRATA)

    def line(mechanism: str, alpha: str | None, stratum: str) -> list[tuple[float, float]]:
        found = (
            (
                float(e),
                figures.value(picture.workload, mechanism, alpha, e, picture.measure, stratum),
            )
            for e in EPSILONS
        )
        return [(x, y) for x, y in found if y is not None]

    for mechanism, title in _ROWS.items():
        columns = [
            {alpha: points for alpha in ALPHAS if (points := line(mechanism, alpha, stratum))}
            for stratum in strata
        ]
        if any(columns):
            yield Band(title, "alpha", columns)
    columns = [
        {
            str(theta): points
            for theta in THETAS
            if (points := line(f"truncated-laplace-{theta}", None, stratum))
        }
        for stratum in strata
    ]
    if any(columns):
        yield Band("Truncated\nLaplace", "theta", columns)


def _report_bands(figures: Figures) -> Iterator[Band]:
    for mechanism, title in _REPORT_ROWS.items():
        columns = []
        for workload in ("report-3", "report-4", "report-5", "report-6"):
            lines = {}
            for alpha in ALPHAS:
                found = ((float(e), figures.value(workload, mechanism, alpha, e)) for e in EPSILONS)
                points = [(x, y) for x, y in found if y is not None]
                if points:
                    lines[alpha] = points
            columns.append(lines)
        yield Band(title, "alpha", columns)


def _page(
    study: Study, figures: Figures, findings: Sequence[Finding], wide: Sequence[Finding]
) -> Iterator[str]:
    """`findings.md`."""
    yield "# What became of the papers' findings"
    yield ""
    yield (
        f"A study of made-up data: {study.jobs:,} jobs, {study.trials} trials, seed {study.seed}."
        " Written by `eree study report`. Ratios are of mean absolute errors to those of noise"
        " infusion with factors of 5 to 15%; as the range in use is not known, claims about ratios"
        " are judged with 10 to 25% as well. Rankings, and relative errors within 10 points, are"
        " held against 5 to 15% alone. A correlation is close to 1 from 0.95 on."
    )
    all_parts = list(parts_of(WORKLOADS.values()))
    there = sum(part.file(study.folder).exists() for part in all_parts)
    if there < len(all_parts):
        yield ""
        yield f"The study is not complete: {there} of its {len(all_parts)} parts are there."
    yield ""
    yield "| finding | | judged | with the wide range |"
    yield "|---|---|---|---|"
    for one, other in zip(findings, wide, strict=True):
        yield f"| {one.name} | {one.words} | **{one.judgement}** | {other.judgement} |"
    yield ""
    yield from _ratios(figures)
    for one, other in zip(findings, wide, strict=True):
        yield f"## {one.name}: {one.words}"
        yield ""
        yield f"**{one.judgement.capitalize()}**"
        yield ""
        yield "| claim | holds | figures | with the wide range |"
        yield "|---|---|---|---|"
        for claim, again in zip(one.claims, other.claims, strict=True):
            marks = [_mark(c.holds) for c in (claim, again)]
            yield f"| {claim.words} | {marks[0]} | {claim.figures} | {marks[1]}, {again.figures} |"
        yield ""


def _mark(holds: bool | None) -> str:
    return "–" if holds is None else "yes" if holds else "no"


def _ratios(figures: Figures) -> Iterator[str]:
    """The main figures: ratios at alpha 0.1."""
    yield "Ratios at alpha 0.1, epsilon 1 / 2 / 4 (below 1: better than infusion):"
    yield ""
    yield "| | " + " | ".join(_ROWS.values()) + " |"
    yield "|---" * (len(_ROWS) + 1) + "|"
    names = {
        "workload-1": "Workload 1",
        "workload-2": "Workload 2, weak",
        "workload-2-strong": "Workload 2, strong",
        "workload-3": "Workload 3, weak",
        "workload-3-strong": "Workload 3, strong",
    }
    for workload, title in names.items():
        cells = []
        for mechanism in _ROWS:
            values = (figures.value(workload, mechanism, "0.1", e) for e in ("1", "2", "4"))
            cells.append(" / ".join("–" if v is None else f"{v:.3g}" for v in values))
        yield f"| {title} | " + " | ".join(cells) + " |"
    yield ""
