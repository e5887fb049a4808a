"""The pictures of the rerun."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from pathlib import Path

from eree.survey.settings import METHODS, Method
from eree_study.figures.querytool import (
    Line,
    Look,
    Panel,
    calibrations_figure,
    convergence_figure,
    dimensions_figure,
)
from eree_study.querytool.convergence import CHOSEN, PRINTED_CONVERGED, RELATIVE, Convergence
from eree_study.querytool.guaranteed import MEASURES, WORDS, Calibrations
from eree_study.querytool.results import PRINTED, PRINTED_RAKED, PRINTED_REDUCTION, Results

_LOOKS: dict[Method, Look] = {
    "none": "plain",
    "rake": "bad",
    "rake-nonnegative": "warm",
    "least-squares": "good",
}


def noise_picture(path: Path, results: Results) -> None:
    """Variances by dimension, for each way to calibrate."""
    plain = results.means("none")
    told: list[tuple[str, list[float], list[float], Look]] = [
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
        lines=[Line(*line) for line in told if line[1]],
        points=points if results.as_published else [],
        title="Noise left in tables of the query tool's evaluation",
        note=f"{results.name}, {results.runs.settings.runs:,} runs",
    )


def convergence_picture(path: Path, found: Convergence) -> None:
    """Shares of converged runs by how even the cases are."""
    chosen = found.shares(CHOSEN)
    shares = [
        (f"to within {criterion.words}", list(map(float, found.shares(criterion).mean(axis=1))))
        for criterion in RELATIVE
    ]
    convergence_figure(
        path,
        redrawn=found.redrawn,
        shares=shares,
        band=(
            f"{CHOSEN.words}: least to\ngreatest of {len(found.seeds)} surveys",
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
            [(WORDS[method], _roots(one, method, 0), _LOOKS[method]) for method in METHODS],
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
