"""The contests of survey cubes: protecting and calibrating one, and asking it."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import eree_study
from bench.contest import Result, take_turns
from bench.cube_contestants import CONTESTANTS, QUERIES, TIMES

SMALL, LARGE = "17,280 cells", "3.5 million cells, ten variables"


def run(home: Path, rounds: int, tell: Callable[[str], None]) -> list[Result]:
    """Let the contestants take turns; ratios are to the first of each contest."""
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    eree_study.synthesize_survey(home, shape="querytool")
    names = list(CONTESTANTS)
    contests = {
        f"{SMALL}: records read, built, protected, calibrated, written": names[:3],
        f"{LARGE}: protected": names[3:10],
        f"{SMALL}: a query": [name for name in names[10:] if name.endswith("small")],
        f"{LARGE}: a query": [name for name in names[10:] if name.endswith("large")],
    }
    return [
        result
        for contest, those in contests.items()
        for result in _contest(contest, those, home, rounds, tell)
    ]


def _contest(
    contest: str, names: Sequence[str], home: Path, rounds: int, tell: Callable[[str], None]
) -> list[Result]:
    module = "bench.cube_contestants"
    found = take_turns(module, contest, names, [str(home)], rounds, tell)
    each = len(QUERIES) * TIMES if contest.endswith("query") else 1
    seconds = {name: [f["seconds"] / each for f in turns] for name, turns in found.items()}
    first = seconds[names[0]]
    return [
        Result(
            contest,
            name.removesuffix(", small").removesuffix(", large"),
            statistics.median(seconds[name]),
            statistics.median(t / f for t, f in zip(seconds[name], first, strict=True)),
            max(f["peak_mib"] for f in found[name]),
            int(found[name][-1]["rows"]),
        )
        for name in names
    ]


def table(results: Sequence[Result]) -> str:
    """The contests; queries in thousandths of a second."""
    lines: list[str] = []
    for contest in dict.fromkeys(result.contest for result in results):
        query = contest.endswith("query")
        lines += [f"**{contest}**", "", f"| | {'milli' * query}seconds | ratio | peak MiB |"]
        lines += ["|---|---:|---:|---:|"]
        lines += [
            f"| {r.contestant} | {r.seconds * (1000 if query else 1):.2f} | {r.ratio:.2f}"
            f" | {r.peak_mib:,.0f} |"
            for r in results
            if r.contest == contest
        ]
        lines.append("")
    return "\n".join(lines)
