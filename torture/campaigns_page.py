"""The campaigns as files: all figures in a CSV file, and on the page a short table for each part.

A part that was not run keeps what it has.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from torture import marks
from torture.figures import PARTS, Case

PAGE = Path(__file__).parents[1] / "docs" / "campaigns.md"
GRID = PAGE.with_suffix(".csv")
HEADS = ("part", "campaign", "case", "date", "wall_seconds", "processor_seconds", "figure", "value")
#: How many of its figures, but those that are 0, a row of the page shows.
SHOWN = 2


def held(cases: Sequence[Case]) -> Iterator[str]:
    """The parts that were run and held as a whole."""
    for part in PARTS:
        of_part = [case for case in cases if case.part == part]
        if of_part and all(case.held for case in of_part):
            yield part


def written(page: str, cases: Sequence[Case]) -> str:
    """The page with a new table for every part that was run and held as a whole."""
    for part in held(cases):
        page = marks.replaced(page, part, table([case for case in cases if case.part == part]))
    return page


def kept(grid: str, cases: Sequence[Case]) -> str:
    """The CSV file with new figures for every part that was run and held as a whole."""
    new = set(held(cases))
    before = [case for case in read(grid) if case.part not in new]
    now = sorted((case for case in cases if case.part in new), key=lambda case: case.campaign)
    together = sorted([*before, *now], key=lambda case: PARTS.index(case.part))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([HEADS, *_rows(together)])
    return text.getvalue()


def _rows(cases: Iterable[Case]) -> Iterator[tuple[object, ...]]:
    for case in cases:
        named = (case.part, case.campaign, case.case, case.date)
        times = (case.wall_seconds, case.processor_seconds)
        for word, value in case.figures.items() or [("", "")]:
            yield (*named, *times, word, value)


def read(grid: str) -> list[Case]:
    """The cases of a CSV file; only such as held are in it."""
    found: dict[tuple[str, ...], Case] = {}
    for row in csv.DictReader(io.StringIO(grid)):
        key = tuple(row[name] for name in HEADS[:4])
        times = (float(row["wall_seconds"]), float(row["processor_seconds"]))
        case = found.setdefault(key, Case(*key[:3], {}, True, key[3], *times))
        if row["figure"]:
            value = float(row["value"])
            case.figures[row["figure"]] = int(value) if value == int(value) else value
    return list(found.values())


def table(cases: Sequence[Case]) -> str:
    """The table of one part: a row for each campaign; times are in minutes and seconds."""
    lines = [
        f"Run on {max(case.date for case in cases)}, {os.cpu_count()} cores.",
        "",
        "| campaign | figures | processor time |",
        "|---|---|--:|",
    ]
    for name in sorted({case.campaign for case in cases}):
        together = [case for case in cases if case.campaign == name]
        seconds = round(sum(case.processor_seconds for case in together))
        figures = "<br>".join(_joined(together))
        lines.append(f"| {name} | {figures} | {seconds // 60}:{seconds % 60:02} |")
    return "\n".join(lines) + "\n"


def _joined(cases: Sequence[Case]) -> list[str]:
    """Sums of what was counted, the span of other numbers; the least of what is called smallest."""
    found: dict[str, list[float]] = {}
    for case in cases:
        for word, value in case.figures.items():
            found.setdefault(word, []).append(value)
    lines = []
    worst = [word for word in found if "smallest" in word or "greatest" in word]
    for word in dict.fromkeys([*list(found)[:1], *worst, *found]):
        values = found[word]
        if not any(values):
            continue
        if "smallest" in word:
            shown = _number(min(values))
        elif "greatest" in word:
            shown = _number(max(values))
        elif all(value == int(value) for value in values):
            shown = _number(sum(values))
        else:
            shown = " to ".join(dict.fromkeys(map(_number, (min(values), max(values)))))
        lines.append(f"{shown} {word.replace('_', ' ')}")
    return lines[:SHOWN]


def _number(value: float) -> str:
    """Integers in full, other numbers with three digits."""
    return f"{int(value):,}" if value == int(value) else f"{value:.3g}"
