"""The page of calibrated intervals: its table and its picture, from what the campaign kept."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import Any

from eree_study.figures.intervals import Dot, intervals_figure
from torture import marks
from torture.figures import OUT
from torture.interval_runs import LEVEL
from torture.interval_tallies import LEAST, enough, fault

RESULTS = OUT / "intervals"
PAGE = Path(__file__).parents[1] / "docs" / "intervals.md"
IMAGES = PAGE.parent / "images"
MARK, UNLIKE_MARK = "coverage", "unlike"
#: Shares of epsilon that a size profile may have.
SHARES = (0.0025, 0.005, 0.01, 0.02, 0.05, 0.2)
#: A sector whose workplaces get one size.
SECTOR = "62"
POPULATIONS, EPSILONS = ("usual", "other"), ("1", "2", "4")
#: The population that the page shows; the file beside it has both.
USUAL = POPULATIONS[0]
#: Sums with fewer pairs are not in the picture.
FEW = 100
UNLIKE = {
    "one-size-40": f"all workplaces of sector {SECTOR} have 40 workers",
    "one-size-400": f"all workplaces of sector {SECTOR} have 400 workers",
    "giants": "every cell has one workplace of 1,000 workers, all others have 20 at most",
    "normal-logarithms": "logarithms of sizes are normal (5, 1.5), and places differ by 0.5",
}
_STATES, _MANY = ("sums", "by state"), ("workplaces", "1,000 or more")
#: Strata that miss their goal, all of 3 to 32 areas or cells: the page names them.
MISSED: dict[str, set[tuple[str, str]]] = {
    "usual-1": {_MANY, _STATES},
    "usual-2": {_MANY},
    "other-1": {_STATES, ("sums by place", "100,000 or more jobs")},
    "other-4": {_STATES},
    "workers-usual-2": {("sums", "by sex and education")},
}


def read() -> dict[str, dict[str, Any]]:
    """What was kept, by the names of the files, those with the most strata first."""
    files = sorted(RESULTS.glob("*.json"))
    found = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}
    return dict(sorted(found.items(), key=lambda pair: -len(pair[1]["strata"])))


def _stratum(found: dict[str, Any], kind: str, label: str) -> dict[str, Any]:
    return next(s for s in found["strata"] if (s["kind"], s["label"]) == (kind, label))


def coverage_table(results: dict[str, dict[str, Any]]) -> str:
    """Coverage and width of cells and sums, and the strata that miss their goal."""
    lines = [
        "| | redraws | cells | sums by place | by sector | by state | strata missed |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    wanted = [("cells", "all"), *(("sums", f"by {n}") for n in ("place", "sector", "state"))]
    for epsilon in EPSILONS:
        found = results[f"{USUAL}-{epsilon}"]
        shown = [_shown(_stratum(found, *each)) for each in wanted]
        lines.append(
            f"| epsilon {epsilon} | {found['redraws']} | {' | '.join(shown)} | {_missed(found)} |"
        )
    found = results[f"workers-{USUAL}-2"]
    of_workers = [("cells", "all"), *(("sums", f"by sex and {n}") for n in ("place", "education"))]
    shown = [_shown(_stratum(found, *each)) for each in of_workers]
    lines.append(
        f"| worker cells, epsilon 2 | {found['redraws']} | {' | '.join(shown)} | – |"
        f" {_missed(found)} |"
    )
    return "\n".join(lines) + "\n"


def _shown(stratum: dict[str, Any]) -> str:
    return (
        f"{100 * stratum['coverage']:.1f} ({100 * stratum['known']:.1f})% · {stratum['width']:.2f}"
    )


def _missed(found: dict[str, Any]) -> str:
    judged = [s for s in found["strata"] if enough(s, found["redraws"])]
    return f"{sum(bool(fault(s)) for s in judged)} of {len(judged)}"


def unlike_table(results: dict[str, dict[str, Any]]) -> str:
    """Coverage where sizes are unlike the model."""
    lines = [
        f"| | cells | cells of sector {SECTOR} | sum of sector {SECTOR} | guaranteed, cells |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, words in UNLIKE.items():
        found = results[f"{name}-2"]
        each = [_shown(_stratum(found, *key)) for key in (("cells", "all"), ("sector", SECTOR))]
        total = found["single"]["sectors"][SECTOR]
        lines.append(
            f"| {words} | {' | '.join(each)} | {total:.0%} of redraws | {found['guaranteed']:.1%} |"
        )
    return "\n".join(lines) + "\n"


def grid(results: dict[str, dict[str, Any]]) -> str:
    """Every figure: coverage and width of each stratum of each run, and what came of ranks."""
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["run", "redraws", "kind", "label", "pairs", "calibrated", "known", "width"])
    for name in sorted(results):
        found = results[name]
        for s in found["strata"]:
            shares = [f"{s[key]:.4f}" for key in ("coverage", "known", "width")]
            table.writerow([name, found["redraws"], s["kind"], s["label"], s["pairs"], *shares])
        for way, value in found.get("ranks", {}).items():
            if way.startswith("calibrated: "):
                figure = way.removeprefix("calibrated: ")
                ends = [f"{value:.4f}", f"{found['ranks'][f'scale known: {figure}']:.4f}"]
                table.writerow([name, found["ranked"], "ranks", figure, "", *ends, ""])
    return text.getvalue()


def picture(results: dict[str, dict[str, Any]], paths: Iterable[Path]) -> None:
    """Coverage by stratum at every epsilon."""
    panels = {}
    for epsilon in EPSILONS:
        dots = {}
        for name in POPULATIONS:
            found = results[f"{name}-{epsilon}"]
            for s in found["strata"]:
                if enough(s, found["redraws"]) or (s["kind"] == "sums" and s["pairs"] >= FEW):
                    missed = bool(fault(s)) and enough(s, found["redraws"])
                    dots[name, s["kind"], s["label"]] = Dot(s["coverage"], s["known"], missed)
        panels[f"epsilon {epsilon}"] = dots
    redraws = {f"{n}-{e}": results[f"{n}-{e}"]["redraws"] for n in POPULATIONS for e in EPSILONS}
    most, least = max(redraws.values()), min(redraws.values())
    note = (
        "How often calibrated intervals of a nominal 90% hold, by stratum\n"
        f"place × sector × ownership, 10.9 million jobs, alpha 0.1,"
        f" {least if least == most else f'{least} to {most}'} redraws"
    )
    strata = [(s["kind"], s["label"]) for found in results.values() for s in found["strata"]]
    intervals_figure(list(paths), panels=panels, strata=strata, level=LEVEL, low=LEAST, note=note)


def write() -> None:
    """Write tables and picture into the documentation."""
    results = read()
    page = PAGE.read_text(encoding="utf-8")
    page = marks.replaced(page, MARK, coverage_table(results))
    page = marks.replaced(page, UNLIKE_MARK, unlike_table(results))
    PAGE.write_text(page, encoding="utf-8")
    PAGE.with_suffix(".csv").write_text(grid(results), encoding="utf-8")
    picture(results, [IMAGES / "intervals.svg"])
