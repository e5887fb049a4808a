"""The whole study of the query tool's evaluation: its runs, its files and its pictures."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from math import sqrt
from pathlib import Path
from typing import Any

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
from eree_study.querytool.calibrations import LABELS, MEASURES, Calibrations, compare_calibrations
from eree_study.querytool.claims import noise_claims
from eree_study.querytool.convergence import (
    CHOSEN,
    CRITERIA,
    PRINTED_CONVERGED,
    RELATIVE,
    Convergence,
    convergence,
)
from eree_study.querytool.evaluation import RUNS, Settings, simulate, survey_cases
from eree_study.querytool.page import Study, page
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
class CubeStudy:
    """What the study of the query tool's evaluation found, and the files that it wrote.

    `converged` is the share of runs that converged: in the synthetic survey, and in the cube that
    comes nearest to the paper's share.  `verdicts` has every claim about the paper, as judged on
    that cube.
    """

    files: tuple[Path, ...]
    runs: int
    seed: int
    converged: dict[str, float]
    verdicts: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "files": [str(file) for file in self.files],
            "runs": self.runs,
            "seed": self.seed,
            "converged": self.converged,
            "verdicts": self.verdicts,
        }


def cube_study(
    out: str | os.PathLike[str],
    *,
    runs: int = RUNS,
    seed: int = 1,
    progress: Progress | None = None,
    processes: int | None = None,
) -> CubeStudy:
    """Rerun the query tool's evaluation on synthetic surveys, and compare calibrations.

    Writes `querytool.md`, `table-4.csv`, `convergence.csv`, `calibrations.csv` and pictures into a
    new or empty folder, which appears whole or not at all.  The same seed gives the same figures.
    """
    tell = progress or (lambda _step, _done: None)
    settings = Settings(runs, seed)
    target = checked_target(out)
    found = _run(settings, tell, processes)
    with appearing_folder(target) as folder:
        names = [path.name for path in _write(folder, found)]
    tell("done", 1.0)
    cubes = (found.survey, found.evened)
    claims = [*noise_claims()]
    for _, _, evened in found.paper_claims():
        claims += evened
    return CubeStudy(
        tuple(Path(out) / name for name in names),
        runs,
        seed,
        {cube.name: float(cube.converged.mean()) for cube in cubes},
        {claim.statement: claim.holds for claim in claims},
    )


def _run(settings: Settings, tell: Progress, processes: int | None) -> Study:
    """All of it; the shares of progress are those of the time."""
    grid = convergence(settings, progress=lambda s, d: tell(s, 0.15 * d), processes=processes)
    cubes = [survey_cases(settings.seed, redrawn) for redrawn in (0.0, grid.matched)]
    survey, evened = simulate(
        cubes,
        settings=settings,
        progress=lambda s, d: tell(s, 0.15 + 0.45 * d),
        processes=processes,
    )
    compared = compare_calibrations(
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
    file.write_text("\n".join(page(found, PICTURES)) + "\n", encoding="utf-8")
    yield file
    rows = (row for results in (found.survey, found.evened) for row in results.rows())
    yield _table(folder / "table-4.csv", list(Row.__annotations__), map(astuple, rows))
    names = ["redrawn", "seed", "smallest", "criterion", "limit", "share"]
    yield _table(folder / "convergence.csv", names, _convergence(found.convergence))
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


def _convergence(found: Convergence) -> Iterator[Sequence[object]]:
    for criterion in CRITERIA:
        shares = found.shares(criterion)
        for k, redrawn in enumerate(found.redrawn):
            for i, seed in enumerate(found.seeds):
                smallest, share = float(found.smallest[k, i]), float(shares[k, i])
                yield redrawn, seed, smallest, criterion.kind, criterion.limit, share


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


def noise_picture(path: Path, results: Results) -> None:
    """Variances by dimension, for each way to calibrate."""
    plain = results.means("none")
    lines: list[tuple[str, list[float], list[float], Look]] = [
        ("without calibration", plain, plain, "plain"),
        ("raked, all runs: mean (above)", results.means("rake"), plain, "bad"),
        ("raked, all runs: median", results.medians("rake"), plain, "median"),
        (
            f"raked, runs that converged ({results.converged.mean():.0%})",
            results.means("rake", "converged"),
            results.means("none", "converged"),
            "warm",
        ),
        ("negatives clipped, then raked", results.means("rake-nonnegative"), plain, "soft"),
        ("least squares", results.means("least-squares"), plain, "good"),
        (
            "least squares, noisy controls",
            results.means("least-squares, noisy controls"),
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
        points=points if results.as_published else [],
        title="Noise left in tables of the query tool's evaluation",
        note=f"{results.name}, {results.runs.settings.runs:,} runs",
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
        printed=PRINTED_CONVERGED,
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
