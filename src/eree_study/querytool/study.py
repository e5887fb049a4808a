"""Runs the whole study of the query tool's evaluation, and writes its files."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eree.partial import appearing_folder
from eree.survey.settings import METHODS
from eree_study.querytool.cases import survey_cases
from eree_study.querytool.claims import law_claims
from eree_study.querytool.convergence import CRITERIA, Convergence, convergence
from eree_study.querytool.guaranteed import MEASURES, Calibrations, compare_calibrations
from eree_study.querytool.page import Study, page
from eree_study.querytool.pictures import (
    calibrations_picture,
    convergence_picture,
    noise_picture,
)
from eree_study.querytool.results import Results, Row
from eree_study.querytool.runs import RUNS, Progress, Settings, simulate
from eree_study.synth.population import checked_target

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
    claims = [*law_claims()]
    for _, _, evened in found.paper_claims():
        claims += evened
    return CubeStudy(
        tuple(Path(out) / name for name in names),
        runs,
        seed,
        {cube.name: float(cube.converged.mean()) for cube in cubes},
        {claim.words: claim.holds for claim in claims},
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
    yield _table(folder / "table-4.csv", list(Row.__annotations__), map(_fields, rows))
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


def _fields(row: Row) -> Sequence[object]:
    return [getattr(row, name) for name in Row.__annotations__]


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
