"""Drawings of a line each beside areas that are compared: ranks, and damage against a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isinf, log

from eree.web.block import Cell
from eree.web.render.charts import Scale
from eree.web.words import spoken

#: How far from the threshold the drawing of a decision goes, as a factor.
FAR = 16


def rank_line(rank: int, best: int, worst: int, count: int) -> str:
    """Where among all areas one may truly stand, and where it stands."""
    scale = Scale(1, max(count, 2), 1)
    start, end = scale.at(best), scale.at(worst)
    return (
        '<svg class="chart rank" aria-hidden="true" width="100%" height="16">'
        '<line class="grid" x1="0" x2="100%" y1="8" y2="8"/>'
        f'<line class="range" x1="{start}" x2="{end}" y1="8" y2="8"/>'
        f'<circle class="dot" cx="{scale.at(rank)}" cy="8" r="4"/></svg>'
    )


def decision_line(damage: Fraction, per_job: Fraction, cell: Cell, verdict: str) -> str:
    """The damage for each job, from the least to the most that it may be, beside the threshold.

    The scale is one of factors: the threshold is in the middle.
    """
    least = float(damage / per_job)  # so many jobs make the damage that of the threshold
    scale = Scale(-1, 1, 1)

    def at(jobs: float) -> str:
        if not least or isinf(jobs):
            return scale.at(-1)
        return scale.at(log(least / jobs) / log(FAR) if jobs > 0 else 1)

    start, end, dot = at(cell.high), at(cell.low), at(float(cell.estimate))
    return (
        '<svg class="chart rank" aria-hidden="true" width="100%" height="18">'
        '<line class="grid" x1="0" x2="100%" y1="9" y2="9"/>'
        '<line class="limit" x1="50%" x2="50%" y1="0" y2="18"/>'
        f'<line class="range {verdict}" x1="{start}" x2="{end}" y1="9" y2="9"/>'
        f'<circle class="dot" cx="{dot}" cy="9" r="4"/></svg>'
    )


def ticks_between(labels: Sequence[str]) -> str:
    """Labels at the ends and in the middle of a drawing."""
    places = zip(("0", "50%", "100%"), ("start", "middle", "end"), labels, strict=True)
    parts = [
        f'<text class="tick" x="{x}" y="12" text-anchor="{anchor}">{spoken(word)}</text>'
        for x, anchor, word in places
    ]
    start = '<svg class="chart ticks" aria-hidden="true" width="100%" height="16">'
    return "".join([start, *parts, "</svg>"])
