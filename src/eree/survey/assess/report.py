"""The folder of an assessment: pages, tables and pictures that only their owner can read."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eree.figures.assess import Line, Look, Pairs, Panel, assessment_figure
from eree.partial import appearing_folder
from eree.release.issue import new_folder
from eree.survey.assess.assessment import Assessment, assess_cube, check_pair, check_what_if
from eree.survey.assess.findings import (
    DISTRIBUTIONS,
    ERRORS,
    ESTIMATES,
    INTERVALS,
    LOOKED_AT,
    MARK,
    NEAR_ZERO,
    PUBLISHABLE,
    SIDE_BY_SIDE,
)
from eree.survey.assess.page import confidential_page, dimension_names, public_page
from eree.survey.assess.rules import RULES, Choice, Thresholds
from eree.survey.cube import Cube
from eree.survey.microdata import Progress, read_survey
from eree.survey.protected import ProtectedCube
from eree.survey.settings import METHODS

PAGE, PUBLIC_PAGE = "assessment.md", "public.md"
#: Nobody but the owner reads a file, or looks into the folder.
_FILE_MODE, _FOLDER_MODE = 0o600, 0o700


def assess_cube_file(
    cube: str | os.PathLike[str],
    release: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    survey: str | os.PathLike[str] | None = None,
    thresholds: Thresholds | None = None,
    most_dimensions: int = 3,
    most_tables: int = 200,
    seed: int = 1,
    methods: bool = False,
    progress: Progress | None = None,
) -> Assessment:
    """Assess the cube of a file beside a release of it, and write the report into a new folder.

    See `assess_cube` and `write_assessment`.  `survey` is the folder that the cube was built from.

    Args:
        cube: The file of a confidential cube.
        release: The folder of the protected one.
        out: A new or empty folder for the report.
        survey: The folder that the cube was built from; with it sampling errors are known too.
        thresholds: The rules of the office.
        most_dimensions: How many variables a table has at most.
        most_tables: How many tables of each dimension are looked at, at most.
        seed: A public seed that chooses tables.
        methods: Whether all methods of calibration are tried on a new draw with that seed.
        progress: Called with a step and the share that is done.

    Examples:
        >>> eree.assess_cube_file("cube.eree", "public", "report", most_dimensions=1)
        <Assessment...>
    """
    tell = progress or (lambda _step, _done: None)
    new_folder(Path(out))
    Choice(most_dimensions, most_tables, seed)  # refused now, if at all
    tell("reading the cube", 0.0)
    confidential, protected = Cube.load(cube), ProtectedCube.open(release)
    check_pair(confidential, protected)
    if methods:
        check_what_if(confidential, protected)
    records = None
    if survey is not None:
        records = read_survey(survey, progress=lambda step, done: tell(step, 0.05 + 0.15 * done))
    made = assess_cube(
        confidential,
        protected,
        survey=records,
        thresholds=thresholds,
        most_dimensions=most_dimensions,
        most_tables=most_tables,
        seed=seed,
        methods=methods,
        progress=lambda step, done: tell(step, 0.2 + 0.6 * done),
    )
    tell("writing the report", 0.8)
    write_assessment(made, out)
    tell("done", 1.0)
    return made


def write_assessment(assessment: Assessment, out: str | os.PathLike[str]) -> Path:
    """Write the report into a new or empty folder that only its owner can look into.

    `assessment.md` and `assessment.json` hold all findings, `assessment.csv` one in a line,
    `tables.csv` the tables, and there are pictures; all of these are CONFIDENTIAL.  `public.md`
    holds only what may be published.  The folder appears whole or not at all.

    Args:
        assessment: What `assess_cube` returns.
        out: A new or empty folder.

    Examples:
        >>> cube, protected = eree.Cube.load("cube.eree"), eree.ProtectedCube.open("public")
        >>> found = eree.assess_cube(cube, protected, most_dimensions=1)
        >>> eree.write_assessment(found, "assessed").name
        'assessed'
    """
    target = new_folder(Path(out))
    with appearing_folder(target) as folder:
        pictures = _pictures(assessment, folder)
        page = confidential_page(assessment, pictures)
        (folder / PAGE).write_text(page, encoding="utf-8")
        free = public_page(assessment.settings, assessment.public)
        (folder / PUBLIC_PAGE).write_text(free, encoding="utf-8")
        items = [item.as_json() for item in assessment]
        whole = {
            "mark": MARK,
            "settings": assessment.settings,
            "items": items,
            "tables": assessment.tables,
            "methods": assessment.reports,
        }
        text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
        (folder / "assessment.json").write_text(text, encoding="utf-8")
        _csv(folder / "assessment.csv", items)
        _csv(folder / "tables.csv", assessment.tables)
        for file in folder.iterdir():
            file.chmod(_FILE_MODE)
        folder.chmod(_FOLDER_MODE)
    target.chmod(_FOLDER_MODE)  # one that was there, and empty, had a mode of its own
    return target


def _csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


class _Lines:
    """Findings as lines of a picture."""

    def __init__(self, assessment: Assessment) -> None:
        self.assessment = assessment
        self.dimensions = assessment.dimensions
        self._held = {(i.measure, i.statistic, i.dimension): i.value for i in assessment}

    def figures(self, measure: str, statistic: str) -> list[float | None]:
        """The figures of every dimension."""
        return [self._held.get((measure, statistic, d)) for d in self.dimensions]

    def shares(self, measure: str, statistic: str) -> list[float | None]:
        """The same, divided by the numbers of cells."""
        cells = self.figures(LOOKED_AT, "cells")
        return [
            None if value is None or not all_of else value / all_of
            for value, all_of in zip(self.figures(measure, statistic), cells, strict=True)
        ]

    def line(self, name: str, measure: str, statistic: str, look: Look) -> Line:
        """A line of figures."""
        return Line(name, self.figures(measure, statistic), look)

    def share(self, name: str, measure: str, statistic: str, look: Look) -> Line:
        """A line of shares of cells."""
        return Line(name, self.shares(measure, statistic), look)


def _pictures(assessment: Assessment, folder: Path) -> list[str]:
    """Draw all pictures that there are findings for; returns the names of the PNG files."""
    lines = _Lines(assessment)
    sampled = any(i.statistic == "sampling: mean" for i in assessment)
    drawn: dict[str, tuple[str, list[Panel | Pairs]]] = {
        "estimates": ("What noise did to estimates and to standard errors", _estimates(lines)),
        "publishable": (
            "Cells that pass the rules, and cells near zero",
            _publishable(lines, "all" if sampled else "weighted"),
        ),
        "likeness": ("How alike tables are before and after", _likeness(lines)),
    }
    if sampled:
        drawn["overlap"] = ("Intervals before and after", _overlap(lines))
    if assessment.reports:
        drawn["methods"] = ("What if: methods of calibration on one new draw", _methods(lines))
    names = dimension_names(lines.dimensions, len(assessment.settings["variables"]))
    for name, (title, panels) in drawn.items():
        files = [folder / f"{name}.{suffix}" for suffix in ("png", "svg")]
        assessment_figure(files, panels=panels, dimensions=names, title=title, mark=MARK)
    return [f"{name}.png" for name in drawn]


def _estimates(lines: _Lines) -> list[Panel | Pairs]:
    differences = [
        lines.line("root mean square", ESTIMATES, "root mean square", "after"),
        lines.line("predicted by the noise", ESTIMATES, "predicted root mean square", "expected"),
        lines.line("mean absolute", ESTIMATES, "mean absolute", "theirs"),
        lines.line("median absolute", ESTIMATES, "absolute: median", "before"),
    ]
    errors = [
        lines.line("sampling, before", ERRORS, "sampling: mean", "before"),
        lines.line("published", ERRORS, "published: mean", "after"),
        lines.line("query tool's formula", ERRORS, "query tool's formula: mean", "theirs"),
    ]
    errors = [line for line in errors if any(value is not None for value in line.figures)]
    return [
        Panel("Differences of estimates", "jobs", differences),
        Panel("Mean standard error", "jobs", errors),
    ]


def _publishable(lines: _Lines, rule: str) -> list[Panel | Pairs]:
    label = next(label for name, label in RULES.items() if name == rule)
    passing: dict[str, Look] = {
        "before": "before",
        "after": "after",
        "become publishable": "gain",
        "cease to be": "loss",
    }
    bars = [lines.share(k, PUBLISHABLE, f"{label}: {k}", look) for k, look in passing.items()]
    close: dict[str, Look] = {
        "near zero before": "before",
        "near zero after": "after",
        "from near zero to non-zero": "gain",
        "from non-zero to near zero": "loss",
    }
    near = [lines.share(k, NEAR_ZERO, k, look) for k, look in close.items()]
    return [
        Panel(f"Publishable by {label}", "share of cells", bars, "bars", "shares"),
        Panel("Near zero", "share of cells", near, "bars", "shares"),
    ]


def _likeness(lines: _Lines) -> list[Panel | Pairs]:
    pairs = [
        (table["cramers_v_before"], table["cramers_v_after"])
        for table in lines.assessment.tables
        if table["cramers_v_before"] is not None and table["cramers_v_after"] is not None
    ]
    distances = [
        lines.line("mean", DISTRIBUTIONS, "mean", "after"),
        lines.line("largest", DISTRIBUTIONS, "largest", "loss"),
    ]
    return [
        Pairs("Cramér's V of two-way tables", [x for x, _ in pairs], [y for _, y in pairs]),
        Panel("Hellinger distance of tables", "distance", distances, scale="distance"),
    ]


def _overlap(lines: _Lines) -> list[Panel | Pairs]:
    looks: dict[str, Look] = {"published": "after", "query tool's formula": "theirs"}
    overlaps = [
        Line(
            f"{name}: median, 10% to 90%",
            lines.figures(INTERVALS, f"overlap, {name}: median"),
            look,
            lines.figures(INTERVALS, f"overlap, {name}: 10%"),
            lines.figures(INTERVALS, f"overlap, {name}: 90%"),
        )
        for name, look in looks.items()
    ]
    covers = [
        lines.line("published interval", INTERVALS, "published covers", "after"),
        lines.line("noise alone", INTERVALS, "noise alone covers", "expected"),
    ]
    return [
        Panel("Overlap of intervals", "overlap", overlaps, scale="shares"),
        Panel("Intervals that hold the estimate before", "share", covers, scale="shares"),
    ]


def _methods(lines: _Lines) -> list[Panel | Pairs]:
    looks: tuple[Look, ...] = ("before", "loss", "expected", "after")
    found = list(zip(METHODS, looks, strict=True))
    return [
        Panel(
            "Differences of estimates",
            "root mean square, jobs",
            [lines.line(m, SIDE_BY_SIDE, f"{m}: root mean square", look) for m, look in found],
        ),
        Panel(
            "Hellinger distance of tables",
            "mean distance",
            [
                lines.line(m, SIDE_BY_SIDE, f"{m}: mean Hellinger distance", look)
                for m, look in found
            ],
            scale="distance",
        ),
    ]
