"""One contest: several ways to the same result, taken in turns, each in a process of its own.

A process reports the seconds of the work alone (imports and set-up left out) and its peak memory.
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
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    peaks: dict[str, float] = dict.fromkeys(contestants, 0.0)
    rows: dict[str, int] = {}
    for number in range(rounds):
        for name in contestants:
            tell(f"{contest}, round {number + 1} of {rounds}: {name}")
            found = _measure(name, arguments)
            seconds[name].append(found["seconds"])
            peaks[name] = max(peaks[name], found["peak_mib"])
            rows[name] = found["rows"]
    first = seconds[contestants[0]]
    return [
        Result(
            contest,
            name,
            statistics.median(seconds[name]),
            statistics.median(t / f for t, f in zip(seconds[name], first, strict=True)),
            peaks[name],
            rows[name],
        )
        for name in contestants
    ]


def _measure(name: str, arguments: Sequence[str]) -> dict[str, float | int]:  # type: ignore[misc]
    command = [sys.executable, "-m", "bench.contestants", name, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float | int] = json.loads(done.stdout.splitlines()[-1])
    return found


def as_rows(results: Sequence[Result]) -> list[dict[str, object]]:
    return [asdict(result) for result in results]
