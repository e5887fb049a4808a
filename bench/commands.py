"""What an office waits for: commands over a small population, the first time and after that.

The first time nothing is in the cache of certificates and calibrations; after that all of it is.
Commands take turns, round by round; ratios are to `eree check`, which has no arithmetic to do.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

JOBS = 20_000
PLAN = """data = "data"
[privacy]
neighbours = "strong"
alpha = "0.1"
epsilon = "{total}"
"""
TABLE = """[[table]]
name = "t{number}"
by = ["place", "sector", "ownership"]
epsilon = "1"
"""
#: Each of them after those before it.
COMMANDS = {
    "eree check": ["check", "data"],
    "eree plan": ["plan", "plan.toml"],
    "eree release": ["release", "plan.toml", "--out", "out", "--ledger", "ledger.db"],
    "eree rank": ["rank", "out", "t0", "--by", "place"],
    "eree verify": ["verify", "out"],
    "eree plan, 1,000 tables": ["plan", "many.toml"],
}


@dataclass(frozen=True)
class Waited:
    """Seconds of a command, the first time and with a full cache, and ratios to the check."""

    command: str
    first: float
    later: float
    first_ratio: float
    later_ratio: float


def run(folder: Path, rounds: int, tell: Callable[[str], None]) -> list[Waited]:
    """Every command, first with an empty cache and then with what the first run kept."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _eree(folder, ["synth", "data", "--jobs", str(JOBS)])
    for name, tables in (("plan", 1), ("many", 1_000)):
        text = PLAN.format(total=tables) + "".join(TABLE.format(number=i) for i in range(tables))
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    seconds: dict[tuple[str, bool], list[float]] = {}
    for number in range(rounds):
        shutil.rmtree(folder / "cache", ignore_errors=True)
        for later in (False, True):
            tell(f"commands, round {number + 1} of {rounds}, {'later' if later else 'first'}")
            for path in (folder / "out", *folder.glob("ledger.db*")):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            total = ["--neighbours", "strong", "--alpha", "0.1", "--epsilon", "1"]
            _eree(folder, ["ledger", "create", "ledger.db", *total])
            for command, words in COMMANDS.items():
                seconds.setdefault((command, later), []).append(_eree(folder, words))
    check = seconds["eree check", True]

    def ratio(command: str, later: bool) -> float:
        return statistics.median(s / c for s, c in zip(seconds[command, later], check, strict=True))

    return [
        Waited(
            command,
            *(statistics.median(seconds[command, later]) for later in (False, True)),
            *(ratio(command, later) for later in (False, True)),
        )
        for command in COMMANDS
    ]


def _eree(folder: Path, words: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(
        [str(Path(sys.executable).with_name("eree")), *words],
        cwd=folder,
        env={**os.environ, "EREE_CACHE": str(folder.absolute() / "cache")},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - began


def table(results: Sequence[Waited]) -> str:
    lines = [
        f"**{JOBS:,} jobs, one table at epsilon 1**",
        "",
        "| | seconds, first | ratio | seconds, later | ratio |",
        "|---|---:|---:|---:|---:|",
    ]
    for r in results:
        figures = (r.first, r.first_ratio, r.later, r.later_ratio)
        lines.append(f"| {r.command} | {' | '.join(f'{figure:.2f}' for figure in figures)} |")
    return "\n".join([*lines, ""])
