"""The campaigns as files: all figures in a CSV file, and on the page a line for each of them.

A part that was not run keeps what it has.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from torture import marks
from torture.figures import PARTS, Case

PAGE = Path(__file__).parents[1] / "docs" / "campaigns.md"
GRID = PAGE.with_suffix(".csv")
HEADS = ("part", "campaign", "case", "date", "wall_seconds", "processor_seconds", "figure", "value")


def held(cases: Sequence[Case]) -> Iterator[str]:
    """The parts that were run and held as a whole."""
    for part in PARTS:
        of_part = [case for case in cases if case.part == part]
        if of_part and all(case.held for case in of_part):
            yield part


def written(page: str, cases: Sequence[Case]) -> str:
    """The page with a new list for every part that was run and held as a whole."""
    for part in held(cases):
        page = marks.replaced(page, part, listed([case for case in cases if case.part == part]))
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


def listed(cases: Sequence[Case]) -> str:
    """A line for each campaign of a part; times of processors are in minutes and seconds."""
    lines = []
    for name in sorted({case.campaign for case in cases}):
        together = [case for case in cases if case.campaign == name]
        seconds = round(sum(case.processor_seconds for case in together))
        time = f"{seconds // 60}:{seconds % 60:02}"
        lines.append(f"- {name}: {', '.join([*_worst(together), time])}")
    return "\n".join(lines) + "\n"


def _worst(cases: Sequence[Case]) -> list[str]:
    """One figure that is not 0, if there is one: the smallest, the greatest, or the first.

    It is the sum of what was counted, or the span of other numbers.
    """
    found: dict[str, list[float]] = {}
    for case in cases:
        for word, value in case.figures.items():
            found.setdefault(word, []).append(value)
    worst = [word for word in found if "smallest" in word or "greatest" in word]
    for word in [*worst, *found]:
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
        return [f"{shown} {word.replace('_', ' ')}"]
    return []


def _number(value: float) -> str:
    """Integers in full, other numbers with three digits."""
    return f"{int(value):,}" if value == int(value) else f"{value:.3g}"
