"""The contest of the draws: noisy counts per second of every mechanism, on one core.

What is compared is the time of one draw, because the slowest contestant is given fewer of them.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bench.contest import take_turns
from bench.draw_contestants import CONTESTANTS

CONTEST = "1 million noisy counts, one core"


@dataclass(frozen=True)
class Draws:
    contest: str
    contestant: str
    draws: int
    seconds: float
    millions_per_second: float
    ratio: float
    undecided_per_million: float | None


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process to one core, and with it those that it starts and all their threads."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def run(rounds: int, tell: Callable[[str], None]) -> list[Draws]:
    """Let the contestants take turns; ratios are to the first of them."""
    with one_core():
        found = take_turns("bench.draw_contestants", CONTEST, list(CONTESTANTS), [], rounds, tell)
    each = {name: [f["seconds"] / f["draws"] for f in turns] for name, turns in found.items()}
    first = next(iter(each.values()))
    return [
        Draws(
            CONTEST,
            name,
            int(turns[0]["draws"]),
            statistics.median(f["seconds"] for f in turns),
            1e-6 / statistics.median(each[name]),
            statistics.median(t / f for t, f in zip(each[name], first, strict=True)),
            1e6 * statistics.mean(f["undecided"] / f["draws"] for f in turns)
            if name.startswith("eree")
            else None,
        )
        for name, turns in found.items()
    ]


def table(results: Sequence[Draws]) -> str:
    lines = [f"**{CONTEST}**", "", "| | million draws per second | ratio | undecided per million |"]
    lines += ["|---|---:|---:|---:|"]
    for r in results:
        slow = "" if r.undecided_per_million is None else f"{r.undecided_per_million:,.1f}"
        speed = f"{r.millions_per_second:.3g}"
        lines.append(f"| {r.contestant} | {speed} | {r.ratio:.2f} | {slow} |")
    return "\n".join([*lines, ""])
