"""How often intervals held, stratum by stratum, beside those with the scale of the noise known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from eree.random.exact import Array, Integers

#: Goals: the least coverage, the same where one workplace dominates, how far a stratum by noisy
#: count may be below the coverage with the scale known, and how far above it any may be.
LEAST, LEAST_DOMINATED, BELOW_KNOWN, ABOVE_KNOWN = 0.88, 0.80, 0.02, 0.03
#: Goals for the width, over that with the scale known: overall and in each stratum.
MOST_WIDTH, MOST_WIDTH_OF_STRATUM = 1.25, 1.4
#: Fewer pairs of a number and a draw say little; sums need as many redraws.
PAIRS, REDRAWS = 3_000, 100


@dataclass
class Stratum:
    """Pairs of a number and a draw, how many were covered, and the logarithms of widths."""

    kind: str
    label: str
    pairs: int = 0
    covered: int = 0
    known: int = 0
    width: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Shares, and the geometric mean of widths over those with the scale known."""
        return {
            "kind": self.kind,
            "label": self.label,
            "pairs": self.pairs,
            "coverage": self.covered / self.pairs,
            "known": self.known / self.pairs,
            "width": float(np.exp(self.width / self.pairs)),
        }


@dataclass(frozen=True, eq=False)
class Held:
    """For each interval whether it held, the same with the scale known, and the widths' ratio."""

    covered: Array
    known: Array
    width: Array

    @classmethod
    def of(
        cls,
        truth: Integers,
        ends: tuple[Integers, Integers],
        known: tuple[Integers, Integers],
    ) -> Held:
        """Compare intervals with the truth."""
        inside = [(low <= truth) & (truth <= high) for low, high in (ends, known)]
        widths = [np.log(high - low + 1.0) for low, high in (ends, known)]
        return cls(inside[0], inside[1], widths[0] - widths[1])


@dataclass
class Tally:
    """All strata of a run, in the order in which they were first seen."""

    strata: dict[tuple[str, str], Stratum] = field(default_factory=dict)

    def add(self, kind: str, labels: Sequence[str], place: Integers, held: Held) -> None:
        """Count intervals; `place` says which label each has, and -1 that it has none."""
        for i, label in enumerate(labels):
            stratum = self.strata.setdefault((kind, label), Stratum(kind, label))
            chosen = place == i
            stratum.pairs += int(chosen.sum())
            stratum.covered += int(held.covered[chosen].sum())
            stratum.known += int(held.known[chosen].sum())
            stratum.width += float(held.width[chosen].sum())

    def as_json(self) -> list[dict[str, Any]]:
        """Strata with at least one pair."""
        return [stratum.as_json() for stratum in self.strata.values() if stratum.pairs]


def by_bounds(
    values: Array | Integers, bounds: Sequence[float], one: str
) -> tuple[list[str], Integers]:
    """Labels of the parts between bounds, and the part that each value lies in."""

    def text(x: float) -> str:
        return f"{x:.0%}" if isinstance(x, float) else f"{x:,}"

    labels = [f"below {text(bounds[0])}"]
    for low, high in pairwise(bounds):
        last = high if isinstance(high, float) else high - 1
        labels.append(text(low) if low == last else f"{text(low)} to {text(last)}")
    labels.append(f"{text(bounds[-1])} or more")
    if isinstance(bounds[0], int) and bounds[0] == 2:
        labels[0] = "1"
    return [f"{label}{one}" for label in labels], np.digitize(values, bounds)


def fault(stratum: dict[str, Any]) -> str:
    """What goal of coverage a stratum misses; empty where it meets them."""
    coverage, known, kind = stratum["coverage"], stratum["known"], stratum["kind"]
    if kind == "share of the largest":
        return "below 80%" if coverage < LEAST_DOMINATED else ""
    if coverage > known + ABOVE_KNOWN:
        return "more than 3 points above scale known"
    if kind == "noisy count":
        return "more than 2 points below scale known" if coverage < known - BELOW_KNOWN else ""
    return "below 88%" if coverage < LEAST else ""


def enough(stratum: dict[str, Any], redraws: int) -> bool:
    """Whether a stratum has as many pairs as its goal asks for."""
    if stratum["kind"].startswith("sums"):
        return redraws >= REDRAWS or stratum["pairs"] >= PAIRS
    return bool(stratum["pairs"] >= PAIRS)
