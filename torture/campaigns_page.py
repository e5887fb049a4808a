"""The campaigns as a page: one table for each part, with figures and times.

A part that was not run keeps the table that it has.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path

import eree
from torture import marks
from torture.figures import PARTS, Case, Figures

PAGE = Path(__file__).parents[1] / "docs" / "campaigns.md"
#: A campaign with more cases than this has one row for all of them.
MOST_ROWS = 4


def written(page: str, cases: Sequence[Case]) -> str:
    """The page with a new table for every part that was run and held as a whole."""
    for part in PARTS:
        of_part = [case for case in cases if case.part == part]
        if of_part and all(case.held for case in of_part):
            page = marks.replaced(page, part, table(of_part))
    return page


def table(cases: Sequence[Case]) -> str:
    """The table of one part."""
    date = max(case.date for case in cases)
    lines = [
        f"Run on {date} with eree {eree.__version__} and Python {platform.python_version()} on"
        f" {platform.system()}, {os.cpu_count()} cores.",
        "",
        "| campaign | figures | wall time | processor time |",
        "|---|---|--:|--:|",
    ]
    for name in sorted({case.campaign for case in cases}):
        together = [case for case in cases if case.campaign == name]
        if len(together) > MOST_ROWS:
            lines.append(row(name, {"cases": len(together)} | joined(together), together))
            continue
        for case in together:
            known = f"{name} ({case.case})" if case.case else name
            lines.append(row(known, case.figures, [case]))
    lines.append(row("together", {}, cases))
    return "\n".join(lines) + "\n"


def row(name: str, figures: Figures, cases: Sequence[Case]) -> str:
    """One row; times are in minutes and seconds."""
    found = [f"{number(value)} {word.replace('_', ' ')}" for word, value in figures.items()]
    wall = sum(case.wall_seconds for case in cases)
    processor = sum(case.processor_seconds for case in cases)
    times = [f"{round(seconds) // 60}:{round(seconds) % 60:02}" for seconds in (wall, processor)]
    return "| " + " | ".join([name, "<br>".join(found), *times]) + " |"


def joined(cases: Sequence[Case]) -> Figures:
    """The figures of some cases: their sums, and the least of those that are called smallest."""
    found: dict[str, list[float]] = {}
    for case in cases:
        for word, value in case.figures.items():
            found.setdefault(word, []).append(value)
    return {word: (min if "smallest" in word else sum)(all_) for word, all_ in found.items()}


def number(value: float) -> str:
    """Integers in full, other numbers with three digits."""
    return f"{int(value):,}" if value == int(value) else f"{value:.3g}"
