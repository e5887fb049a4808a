"""What of the query tool's Table 4 reproduces: a tidy table, a page and a picture from the runs."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import cast

import numpy as np

from eree.figures.querytool import Line, Look, dimensions_figure
from eree.noise.thousandths import JOB
from eree.study.claims import Claim
from eree.study.querytool import (
    ARMS,
    CAP,
    CYCLES,
    EPSILON,
    TOLERANCE,
    TOLERANCES,
    Progress,
    Settings,
    Whole,
    capped_law,
    capped_variance,
    simulate,
)
from eree.study.querytool_readings import READINGS, nearest_reading
from eree.study.querytool_results import (
    NEAREST,
    PRINTED,
    PRINTED_CHANGED,
    PRINTED_CONVERGED,
    PRINTED_RAKED,
    PRINTED_REDUCTION,
    SHARP,
    Results,
    Row,
)


def querytool_study(
    out: str | os.PathLike[str],
    cube: Whole,
    unit: int = JOB,
    settings: Settings | None = None,
    *,
    progress: Progress | None = None,
    processes: int | None = None,
) -> tuple[Path, ...]:
    """Run the evaluation on a cube; see `simulate` for the arguments.

    Writes `querytool.csv`, `querytool.md`, `querytool.png` and `querytool.svg` into a folder.
    """
    results = Results(simulate(cube, unit, settings, progress=progress, processes=processes))
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "querytool.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow([field.name for field in fields(Row)])
        lines.writerows([_plain(value) for value in astuple(row)] for row in results.rows)
    page = folder / "querytool.md"
    page.write_text(
        "\n".join(findings(results, round(float(cube.sum()) / unit))) + "\n", encoding="utf-8"
    )
    pictures = [folder / f"querytool{suffix}" for suffix in (".png", ".svg")]
    for path in pictures:
        picture(path, results)
    return (table, page, *pictures)


def _plain(value: object) -> object:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value


def picture(path: Path, results: Results) -> None:
    """Variances by dimension, for each way to calibrate."""
    told = (
        ("none", "all", "without calibration", "plain"),
        ("rake", "all", "raked as published, all runs", "bad"),
        ("rake", "converged", f"… runs that converged ({results.converged.mean():.0%})", "warm"),
        ("rake", NEAREST, f"… the {results.nearest.mean():.1%} that came nearest", "mild"),
        ("least-squares", "all", "least squares", "good"),
        ("least-squares, noisy controls", "all", "least squares, noisy controls", "fine"),
        ("rake-nonnegative", "all", "negatives clipped, then raked", "soft"),
    )
    lines = [
        Line(words, results.means(arm, runs), results.means("none", runs), cast(Look, look))
        for arm, runs, words, look in told
    ]
    points = [("printed, without", PRINTED), ("printed, calibrated", PRINTED_RAKED)]
    dimensions_figure(
        path,
        lines=[line for line in lines if line.figures],
        points=points if results.as_published else [],
        title="Noise left in tables of the query tool's evaluation",
        note=f"{results.runs.settings.runs:,} runs; mean over runs of the variance among cells",
    )


# ------------------------------------------------------------------------------------ the page


def claims(results: Results) -> Iterator[Claim]:
    """What the paper says of the evaluation, held against the runs; only for its own settings."""
    runs, none = results.runs, results.expected["none"]
    changed = float(runs.changed.mean())
    _, chances = capped_law(EPSILON, CAP)
    rate = 1 - float(chances[CAP])
    yield Claim.sure(
        f"noise changes {PRINTED_CHANGED:.1%} of the cells",
        abs(rate - PRINTED_CHANGED) < 0.01,
        f"{rate:.3%} by the law, {changed:.3%} in the runs",
    )
    variance = capped_variance(EPSILON, CAP)
    yield Claim.sure(
        "the variance of the noise is 0.00182",
        abs(variance - 0.00182) < 5e-6,
        f"{variance:.5f}",
    )
    near = nearest_reading(none, PRINTED[:SHARP])
    apart = np.abs(none[near][:SHARP] / np.array(PRINTED[:SHARP]) - 1)
    yield Claim.sure(
        "the column without calibration is the variance about each table's mean, over all cells",
        near == "centred" and float(apart.max()) < 0.06,
        f"nearest reading: {near}; expected {_list(none[near][:SHARP])}, {_most(apart)} above",
    )
    share = float(results.converged.mean())
    yield Claim.sure(
        f"{PRINTED_CONVERGED:.1%} of the runs converge within {CYCLES} cycles",
        abs(share - PRINTED_CONVERGED) < 0.05,
        "; ".join(
            f"{(runs.differences['rake'] <= t).mean():.1%} to within {t:g}" for t in TOLERANCES
        ),
    )
    everyone = results.means("none")
    for name, words in (
        ("converged", f"that converge to within {TOLERANCE:g}"),
        (
            NEAREST,
            f"that come nearest to convergence, {results.nearest.mean():.1%} as in the paper",
        ),
    ):
        if not (chosen := results.means("none", name)):
            continue
        ratios = np.array(chosen[:SHARP]) / np.array(everyone[:SHARP])
        yield Claim.sure(
            f"like the others before any calibration: runs {words}",
            bool((ratios > 0.99).all()),
            f"they had {_list(ratios)} of the noise of all runs (printed "
            f"over expected: {_list(np.array(PRINTED[:SHARP]) / none['centred'][:SHARP])})",
        )
        raked = results.means("rake", name)
        yield Claim.sure(
            f"raking leaves {_list(PRINTED_RAKED[1:SHARP])} for 2 to 4 variables, in runs {words}",
            all(
                abs(r / p - 1) < 0.1
                for r, p in zip(raked[1:SHARP], PRINTED_RAKED[1:SHARP], strict=True)
            ),
            _list(raked[1:SHARP]),
        )
        reduced = results.reductions("rake", name)
        yield Claim.sure(
            f"a reduction by {_percent(PRINTED_REDUCTION[1:SHARP])}, in runs {words}",
            all(
                abs(r - p) < 0.05
                for r, p in zip(reduced[1:SHARP], PRINTED_REDUCTION[1:SHARP], strict=True)
            ),
            _percent(reduced[1:SHARP]),
        )
        yield Claim.sure(
            f"and barely a change from 5 variables on, in runs {words}",
            all(abs(r) < 0.05 for r in reduced[SHARP:]),
            _percent(reduced[SHARP:]),
        )
    yield Claim.sure(
        "variance reduction occurs in expectation",
        all(r > 0 for r in results.reductions("rake")[:3]),
        f"over all runs the means of 2 to 4 variables are {_list(results.means('rake')[1:4])}, "
        f"against {_list(everyone[1:4])} without calibration; medians "
        f"{_list([_median(results, 'rake', d) for d in (2, 3, 4)])}",
    )


def better(results: Results) -> Iterator[Claim]:
    """What other ways to calibrate do in the same runs."""
    clipped = results.runs.differences["rake-nonnegative"]
    yield Claim.sure(
        "with negatives clipped, every run converges",
        bool((clipped <= TOLERANCE).all()),
        f"{(clipped <= TOLERANCE).mean():.1%} to within {TOLERANCE:g}",
    )
    yield Claim.sure(
        "and has less error than without calibration in every dimension, though it is biased",
        all(r > 0 for r in results.reductions("rake-nonnegative")),
        _percent(results.reductions("rake-nonnegative")),
    )
    for arm in ("least-squares", "least-squares, noisy controls"):
        rows = [results.row(arm, d) for d in range(1, len(results.runs.levels) + 1)]
        gaps = [
            abs(row.mean - row.expected) / max(row.standard_error, 1e-12)
            for row in rows
            if row is not None and row.expected is not None and row.expected > 1e-9
        ]
        yield Claim.sure(
            f"{ARMS[arm]}: the figures are those known before any draw (within 4 standard errors)",
            max(gaps) <= 4,
            f"at most {max(gaps):.1f} standard errors away",
        )
        yield Claim.sure(
            f"{ARMS[arm]}: variance falls in every dimension, in every expectation",
            all(
                float(after) < float(before)
                for after, before in zip(
                    results.expected[arm]["centred"],
                    results.expected["none"]["centred"],
                    strict=True,
                )
            ),
            "expected reductions "
            + _percent(1 - results.expected[arm]["centred"] / results.expected["none"]["centred"]),
        )
    noisy = results.runs.differences["rake, noisy controls"] <= TOLERANCE
    agreed = results.runs.differences["rake-nonnegative, reconciled controls"] <= TOLERANCE
    yield Claim.sure(
        "raking converges to noisy controls as well",
        bool(noisy.mean() > 0.5),
        f"{noisy.mean():.1%} of runs: noisy tables contradict each other in their common total; "
        f"once reconciled, {agreed.mean():.1%} (negatives clipped)",
    )


def findings(results: Results, cases: int) -> Iterator[str]:
    """The page in Markdown."""
    chosen = results.runs.settings
    yield "# The query tool's evaluation, rerun"
    yield ""
    yield (
        f"{chosen.runs:,} runs, seed {chosen.seed}: a made-up cube of {cases:,} cases and "
        f"{np.prod(results.runs.levels):,} cells gets noise of the capped law (epsilon "
        f"{chosen.epsilon:g}, cap {chosen.cap}) and is calibrated to its "
        f"{len(results.runs.levels)} one-way tables, raking in at most {chosen.cycles} cycles. "
        f"Noise leaves {results.runs.negative.mean():.1f} cells below zero in the mean. A run has "
        f"converged when no control total is missed by more than {TOLERANCE:g} of itself; the "
        f"paper states no criterion. The nearest runs are the {results.nearest.mean():.1%} that "
        "missed their controls least, as large a share as converged in the paper. Noisy controls "
        f"have epsilon {chosen.control_epsilon:g} and cap {chosen.control_cap} in each table, "
        "which a record pays for once for each. "
        "Figures are mean squared errors about each table's mean, over all cells of all tables "
        "of a dimension, in square units of noise."
    )
    yield ""
    if results.as_published:
        yield (
            "The paper's cases are not public. Which runs converge, and what raking leaves, depend "
            "on the cases and on the criterion, so that a `no` there says that the printed figure "
            "does not follow from the printed settings, not that it was not found."
        )
        yield ""
    yield (
        "The nearest runs are a selection made after the fact, to see what selecting does. Means "
        "of raked cells over all runs are ruled by a few runs and would change with other seeds."
    )
    yield ""
    yield from _figures(results)
    if results.as_published:
        yield "## What the paper says"
        yield ""
        yield from _table(claims(results))
    yield "## What else could be done"
    yield ""
    yield from _table(better(results))
    yield "## How Table 4 can be read"
    yield ""
    yield "Expected variance of noise without calibration, for 1 to 10 variables, by reading:"
    yield ""
    yield "| reading | " + " | ".join(str(d + 1) for d in range(len(results.runs.levels))) + " |"
    yield "|---" * (len(results.runs.levels) + 1) + "|"
    if results.as_published:
        yield "| printed | " + " | ".join(f"{value:.3f}" for value in PRINTED) + " |"
    for reading in READINGS:
        values = results.expected["none"][reading]
        yield f"| {reading} | " + " | ".join(f"{value:.3f}" for value in values) + " |"


def _figures(results: Results) -> Iterator[str]:
    dimensions = range(1, len(results.runs.levels) + 1)
    yield "| variance of noise, by number of variables | " + " | ".join(map(str, dimensions)) + " |"
    yield "|---" * (len(dimensions) + 1) + "|"
    if results.as_published:
        yield "| printed, without calibration | " + _cells(PRINTED) + " |"
        yield "| printed, with calibration | " + _cells(PRINTED_RAKED) + " |"
    for arm, words in ARMS.items():
        if arm in results.expected:
            yield f"| {words}, expected | " + _cells(results.expected[arm]["centred"]) + " |"
        for name, kind in (("converged", "runs that converged"), (NEAREST, "nearest runs")):
            if means := results.means(arm, name):
                yield f"| {words}, {kind} | " + _cells(means) + " |"
        yield f"| {words}, all runs | " + _cells(results.means(arm)) + " |"
    yield ""


def _table(found: Iterator[Claim]) -> Iterator[str]:
    yield "| claim | holds | figures |"
    yield "|---|---|---|"
    for claim in found:
        yield f"| {claim.words} | {claim.holds} | {claim.figures} |"
    yield ""


def _median(results: Results, arm: str, dimension: int) -> float:
    row = results.row(arm, dimension)
    return float("nan") if row is None else row.median


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}"


def _cells(values: Sequence[float] | np.ndarray) -> str:
    return " | ".join(_number(float(value)) for value in values)


def _list(values: Sequence[float] | np.ndarray) -> str:
    return ", ".join(_number(float(value)) for value in values)


def _percent(values: Sequence[float] | np.ndarray) -> str:
    return ", ".join(f"{float(value):.1%}" for value in values)


def _most(values: np.ndarray) -> str:
    return f"{float(values.min()):.1%} to {float(values.max()):.1%}"
