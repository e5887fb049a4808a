"""One contest: several ways to the same result, taken in turns, each in a process of its own.

A process reports the seconds of the work alone (imports and set-up left out) and what else counts.
Contestants take turns in every round, so that a noisy moment hits them alike, and what is reported
is the median over the rounds of each one's ratio to the first.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

#: What the process of one contestant reports.
Found = dict[str, Any]


@dataclass(frozen=True)
class Result:
    contest: str
    contestant: str
    seconds: float
    ratio: float
    peak_mib: float
    rows: int


def run(
    contest: str,
    contestants: Sequence[str],
    arguments: Sequence[str],
    rounds: int,
    tell: Callable[[str], None],
) -> list[Result]:
    """Let the contestants take turns; ratios are to the first of them."""
    found = take_turns("bench.contestants", contest, contestants, arguments, rounds, tell)
    seconds = {name: [f["seconds"] for f in turns] for name, turns in found.items()}
    first = seconds[contestants[0]]
    return [
        Result(
            contest,
            name,
            statistics.median(seconds[name]),
            statistics.median(t / f for t, f in zip(seconds[name], first, strict=True)),
            max(f["peak_mib"] for f in found[name]),
            found[name][-1]["rows"],
        )
        for name in contestants
    ]


def take_turns(
    module: str,
    contest: str,
    contestants: Sequence[str],
    arguments: Sequence[str],
    rounds: int,
    tell: Callable[[str], None],
) -> dict[str, list[Found]]:
    """What each contestant of a module reports, round by round."""
    found: dict[str, list[Found]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name in contestants:
            tell(f"{contest}, round {number + 1} of {rounds}: {name}")
            found[name].append(_measure([module, name, *arguments]))
    return found


def _measure(command: Sequence[str]) -> Found:
    done = subprocess.run(
        [sys.executable, "-m", *command], check=True, capture_output=True, text=True
    )
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


def as_rows(results: Sequence[Any]) -> list[dict[str, object]]:
    return [asdict(result) for result in results]
