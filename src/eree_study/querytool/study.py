"""The whole study of the query tool's evaluation: its runs, its page, its files and pictures."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from math import prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from eree.partial import appearing_folder
from eree.survey.settings import METHODS, Method
from eree_study.figures.querytool import (
    Line,
    Look,
    Panel,
    calibrations_figure,
    convergence_figure,
    dimensions_figure,
)
from eree_study.papers.claims import Claim
from eree_study.papers.markdown import page
from eree_study.querytool import calibrations, claims, convergence, evaluation, results, tables
from eree_study.querytool.calibrations import LABELS, MEASURES, Calibrations
from eree_study.querytool.claims import SHARP
from eree_study.querytool.convergence import CHOSEN, CRITERIA, RELATIVE, Convergence
from eree_study.querytool.evaluation import RUNS, Settings, simulate, survey_cases
from eree_study.querytool.readings import nearest_reading
from eree_study.querytool.results import PRINTED, PRINTED_RAKED, PRINTED_REDUCTION, Results, Row
from eree_study.synth.population import Progress, checked_target

_LOOKS: dict[Method, Look] = {
    "none": "plain",
    "rake": "bad",
    "rake-nonnegative": "warm",
    "least-squares": "good",
}
PICTURES = ("noise.png", "convergence.png", "calibrations.png")


@dataclass(frozen=True, eq=False)
class Study:
    """Everything that was run: convergence, the two cubes of the evaluation, calibrations."""

    convergence: Convergence
    survey: Results
    evened: Results
    calibrations: Sequence[Calibrations]

    def paper_claims(self) -> Iterator[tuple[str, str, Claim]]:
        """Claims about the paper: the cube that they are judged on, what about, and the claim."""
        for claim in claims.noise_claims():
            yield "", "The noise", claim
        for claim in claims.convergence_claims(self.convergence):
            yield "", "Convergence", claim
        for about, made in (
            ("The first column, without calibration", claims.reading_claims),
            ("Runs that converge, and the other columns", claims.selection_claims),
            ("All runs", claims.expectation_claims),
            (tables.OTHERS, claims.other_claims),
        ):
            for cube in (self.evened, self.survey):
                yield from ((cube.name, about, claim) for claim in made(cube))

    def calibration_claims(self) -> Iterator[tuple[str, str, Claim]]:
        """The same about calibrations under a guarantee."""
        for one in self.calibrations:
            on = f"epsilon {one.epsilon}{', zeros' * bool(one.zeros)}"
            for claim in claims.calibration_claims(one):
                yield on, "Under a guarantee", claim


@dataclass(frozen=True, eq=False)
class CubeStudy:
    """What `cube_study` found of the query tool's evaluation, and the files that it wrote.

    Attributes:
        files: The files.
        runs: How often each was run.
        seed: Where the noise started.
        converged: The share of runs that converged: in the synthetic survey, and in the cube that
            comes nearest to the paper's share.
        verdicts: Every claim about the paper, as judged on that cube.
    """

    files: tuple[Path, ...]
    runs: int
    seed: int
    converged: dict[str, float]
    verdicts: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self) | {"files": [str(file) for file in self.files]}


def cube_study(
    out: str | os.PathLike[str],
    *,
    runs: int = RUNS,
    seed: int = 1,
    progress: Progress | None = None,
    processes: int | None = None,
) -> CubeStudy:
    """Rerun the query tool's evaluation on synthetic surveys, and compare calibrations.

    Writes `querytool.md`, `claims.csv`, `table-4.csv`, `convergence.csv`, `columns.csv`,
    `calibrations.csv` and pictures into a new or empty folder, which appears whole or not at all.
    The same seed gives the same figures.

    Args:
        out: A new or empty folder.
        runs: How often each is run.
        seed: Where the noise starts.
        progress: Called with a step and the share that is done.
        processes: How many processes work at once.

    Examples:
        >>> eree_study.cube_study("querytool", runs=2).files[0].name
        'querytool.md'
    """
    tell = progress or (lambda _step, _done: None)
    settings = Settings(runs, seed)
    target = checked_target(out)
    found = _run(settings, tell, processes)
    with appearing_folder(target) as folder:
        names = [path.name for path in _write(folder, found)]
    tell("done", 1.0)
    cubes = (found.survey, found.evened)
    judged = [
        claim
        for on, about, claim in found.paper_claims()
        if on != found.survey.name and about != "Convergence"
    ]
    return CubeStudy(
        tuple(Path(out) / name for name in names),
        runs,
        seed,
        {cube.name: float(cube.converged.mean()) for cube in cubes},
        {claim.statement: claim.holds for claim in judged},
    )


def _run(settings: Settings, tell: Progress, processes: int | None) -> Study:
    """All of it; the shares of progress are those of the time."""
    grid = convergence.convergence(
        settings, progress=lambda s, d: tell(s, 0.15 * d), processes=processes
    )
    cubes = [survey_cases(settings.seed, redrawn) for redrawn in (0.0, grid.matched)]
    survey, evened = simulate(
        cubes,
        settings=settings,
        progress=lambda s, d: tell(s, 0.15 + 0.45 * d),
        processes=processes,
    )
    compared = calibrations.compare_calibrations(
        settings, progress=lambda s, d: tell(s, 0.6 + 0.4 * d), processes=processes
    )
    return Study(
        grid,
        Results(survey, "the survey as it is"),
        Results(evened, f"the survey with {grid.matched:.0%} of its answers redrawn"),
        compared,
    )


def _write(folder: Path, found: Study) -> Iterator[Path]:
    """Every file of the study."""
    file = folder / "querytool.md"
    file.write_text(study_page(found, PICTURES), encoding="utf-8")
    yield file
    judged = [*found.paper_claims(), *found.calibration_claims()]
    names = ["about", "claim", "on", "holds", "figures"]
    rows_of = ((about, c.statement, on, c.holds, c.figures) for on, about, c in judged)
    yield _table(folder / "claims.csv", names, rows_of)
    rows = (row for cube in (found.survey, found.evened) for row in cube.rows())
    yield _table(folder / "table-4.csv", list(Row.__annotations__), map(astuple, rows))
    names = ["redrawn", "seed", "smallest", "criterion", "limit", "share"]
    yield _table(folder / "convergence.csv", names, _convergence(found.convergence))
    names = ["redrawn", "limit", "share", "dimension", "without", "raked", "reduction_agrees"]
    yield _table(folder / "columns.csv", names, _columns(found.convergence))
    names = ["cube", "cells", "zeros", "epsilon", "method", "dimension", "measure", "mean", "error"]
    yield _table(folder / "calibrations.csv", names, _calibrations(found.calibrations))
    for name in PICTURES:
        for path in (folder / name, (folder / name).with_suffix(".svg")):
            if name == PICTURES[0]:
                noise_picture(path, found.evened)
            elif name == PICTURES[1]:
                convergence_picture(path, found.convergence)
            else:
                calibrations_picture(path, found.calibrations)
            yield path


def study_page(study: Study, pictures: Sequence[str]) -> str:
    """The page in Markdown; three pictures, named by their files."""
    known, evened = study.survey.expected["none"], study.evened
    near = nearest_reading(known, PRINTED[:SHARP])
    means = [evened.means("none", runs)[:SHARP] for runs in ("converged", "not converged")]
    failing: dict[str, str] = {}
    held: dict[str, bool] = {}
    for on, _, claim in study.calibration_claims():
        held[claim.statement] = held.get(claim.statement, True) and claim.holds == "yes"
        if claim.holds != "yes":
            before = failing.get(claim.statement)
            failing[claim.statement] = f"{before} and {on}" if before else on
    return page(
        "eree_study.querytool",
        "querytool.md",
        calibrations=calibrations,
        claims=claims,
        convergence=convergence,
        evaluation=evaluation,
        results=results,
        tables=tables,
        study=study,
        pictures=pictures,
        cells=prod(study.survey.runs.levels),
        near=near,
        below=1 - np.array(PRINTED[:SHARP]) / known[near][:SHARP],
        shares=np.array([study.convergence.shares(criterion) for criterion in CRITERIA]),
        selected=[1 - one / other for one, other in zip(*means, strict=False)],
        held=list(held.values()),
        failing=failing,
        best=1 - evened.expected["least-squares"]["centred"] / known["centred"],
    )


def _convergence(found: Convergence) -> Iterator[Sequence[object]]:
    for criterion in CRITERIA:
        shares = found.shares(criterion)
        for k, redrawn in enumerate(found.redrawn):
            for i, seed in enumerate(found.seeds):
                smallest, share = float(found.smallest[k, i]), float(shares[k, i])
                yield redrawn, seed, smallest, criterion.kind, criterion.limit, share


def _columns(found: Convergence) -> Iterator[Sequence[object]]:
    for pair in tables.pairs(found):
        for d, (before, after) in enumerate(zip(pair.before, pair.after, strict=True), start=1):
            named = (pair.redrawn, pair.criterion.limit, pair.share, d)
            yield (*named, float(before), float(after), pair.reduced)


def _calibrations(found: Sequence[Calibrations]) -> Iterator[Sequence[object]]:
    for one in found:
        named = (" × ".join(one.variables), one.cells, one.zeros, one.epsilon)
        for method in METHODS:
            for d in range(1, len(one.variables) + 1):
                for measure in MEASURES:
                    values = one.values(method, d, measure)
                    error = float(values.std(ddof=1)) / len(values) ** 0.5
                    yield (*named, method, d, measure, float(values.mean()), error)


def _table(path: Path, names: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(names)
        lines.writerows([_plain(value) for value in row] for row in rows)
    return path


def _plain(value: object) -> object:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value


def noise_picture(path: Path, found: Results) -> None:
    """Variances by dimension, for each way to calibrate."""
    plain = found.means("none")
    lines: list[tuple[str, list[float], list[float], Look]] = [
        ("without calibration", plain, plain, "plain"),
        ("raked, all runs: mean (above)", found.means("rake"), plain, "bad"),
        ("raked, all runs: median", found.medians("rake"), plain, "median"),
        (
            f"raked, runs that converged ({found.converged.mean():.0%})",
            found.means("rake", "converged"),
            found.means("none", "converged"),
            "warm",
        ),
        ("negatives clipped, then raked", found.means("rake-nonnegative"), plain, "soft"),
        ("least squares", found.means("least-squares"), plain, "good"),
        (
            "least squares, noisy controls",
            found.means("least-squares, noisy controls"),
            plain,
            "fine",
        ),
    ]
    shares = [1 - reduction for reduction in PRINTED_REDUCTION]
    points = [
        ("printed, without", PRINTED, [1.0] * len(PRINTED)),
        ("printed, calibrated", PRINTED_RAKED, shares),
    ]
    dimensions_figure(
        path,
        lines=[Line(*line) for line in lines if line[1]],
        points=points if found.as_published else [],
        title="Noise left in tables of the query tool's evaluation",
        note=f"{found.name}, {found.runs.settings.runs:,} runs",
    )


def convergence_picture(path: Path, found: Convergence) -> None:
    """Shares of converged runs by how even the cases are."""
    chosen = found.shares(CHOSEN)
    shares = [
        (
            f"to within {criterion.description}",
            list(map(float, found.shares(criterion).mean(axis=1))),
        )
        for criterion in RELATIVE
    ]
    convergence_figure(
        path,
        redrawn=found.redrawn,
        shares=shares,
        band=(
            f"{CHOSEN.description}: least to\ngreatest of {len(found.seeds)} surveys",
            list(map(float, chosen.min(axis=1))),
            list(map(float, chosen.max(axis=1))),
        ),
        printed=convergence.PRINTED_CONVERGED,
        title="Which runs converge depends on the cases",
        note=f"means of {len(found.seeds)} synthetic surveys, {found.runs} runs each",
    )


def calibrations_picture(path: Path, found: Sequence[Calibrations]) -> None:
    """Errors under a guarantee, and what is published of them."""
    panels = [
        Panel(
            f"epsilon {one.epsilon}",
            [(LABELS[method], _roots(one, method, 0), _LOOKS[method]) for method in METHODS],
            [_roots(one, method, 1) for method in METHODS],
        )
        for one in found
        if not one.zeros
    ]
    calibrations_figure(
        path,
        panels=panels,
        title="Errors of calibrated cubes under a guarantee",
        note="lines: root mean squared errors; open marks: what is published of them",
    )


def _roots(found: Calibrations, method: Method, measure: int) -> list[float]:
    return [sqrt(mean) for mean in found.means(method, MEASURES[measure])]
