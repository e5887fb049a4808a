"""Findings of an assessment, each with whether it may be published and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eree.survey.shape import Reals

#: What is measured.
LOOKED_AT = "tables looked at"
NEAR_ZERO = "near zero"
PUBLISHABLE = "publishable cells"
WHOLE_TABLES = "publishable whole tables"
ESTIMATES = "differences of estimates"
ERRORS = "standard errors"
INTERVALS = "intervals"
DISTRIBUTIONS = "Hellinger distance of tables"
ASSOCIATION = "Cramér's V of two-way tables"
BOUNDS = "bounds of the cube"
SIDE_BY_SIDE = "methods side by side"

FigureUnit = Literal["tables", "cells", "jobs", "share", "ratio", "distance"]
#: Why a finding may be published, or may not.
MAY = "yes: made of the protected cube and public settings alone"
MAY_NOT = "no: computed from the confidential cube, and not paid for"
MARK, FREE = "CONFIDENTIAL", "PUBLIC"


@dataclass(frozen=True, repr=False)
class Item:
    """One figure: what it is about, what of it, and for tables of which dimension.

    `value` is None where there is nothing to measure.  `public` says that nothing but the protected
    cube and public settings went into it.  Printing it shows no value.
    """

    measure: str
    statistic: str
    dimension: int
    value: float | None
    unit: FigureUnit
    public: bool

    @property
    def reason(self) -> str:
        """Whether it may be published, and why."""
        return MAY if self.public else MAY_NOT

    @property
    def mark(self) -> str:
        """The mark that it carries."""
        return FREE if self.public else MARK

    @property
    def text(self) -> str:
        """The value for people to read."""
        return shown(self.value, self.unit)

    def as_json(self) -> dict[str, Any]:
        """The finding as plain data."""
        return {
            "mark": self.mark,
            "measure": self.measure,
            "statistic": self.statistic,
            "dimension": self.dimension,
            "value": self.value,
            "unit": self.unit,
            "may_be_published": self.public,
            "reason": self.reason,
        }

    def __repr__(self) -> str:
        return f"<Item {self.measure}, {self.statistic}, dimension {self.dimension}: {self.mark}>"


def shown(value: float | None, unit: FigureUnit) -> str:
    """A figure for people to read."""
    if value is None:
        return "–"
    if unit in ("tables", "cells"):
        return f"{round(value):,}"
    if unit == "share":
        return f"{value:.2%}"
    if unit == "jobs":
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.1f}"


@dataclass(frozen=True)
class Collected:
    """Findings about one dimension as they are made."""

    items: list[Item]
    dimension: int
    public: bool

    def add(self, measure: str, statistic: str, value: float | None, unit: FigureUnit) -> None:
        """Keep a finding."""
        kept = None if value is None else float(value)
        self.items.append(Item(measure, statistic, self.dimension, kept, unit, self.public))

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)


def cramers_v(table: NDArray[Any]) -> float | None:
    """Cramér's V of a two-way table, from 0 (independent) to 1; None for a table of nothing.

    Negative cells count as zero.  The number of codes is that of the table, whether or not a row
    or column is empty, so that tables before and after are measured by the same rule.
    """
    cells = np.maximum(np.asarray(table, dtype=np.float64), 0.0)
    total = cells.sum()
    if cells.ndim != 2 or total == 0:
        return None
    shares = cells / total
    expected = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0, keepdims=True)
    filled = expected > 0
    apart = (shares - expected)[filled] ** 2 / expected[filled]
    return float(np.sqrt(min(apart.sum() / (min(cells.shape) - 1), 1.0)))


def hellinger(one: NDArray[Any], other: NDArray[Any]) -> float | None:
    """Hellinger's distance of two tables as distributions, from 0 (the same) to 1 (apart).

    Negative cells count as zero; None if nothing is left of either.
    """
    roots = []
    for table in (one, other):
        cells = np.maximum(np.asarray(table, dtype=np.float64), 0.0)
        total = cells.sum()
        if total == 0:
            return None
        roots.append(np.sqrt(cells / total))
    return float(min(np.sqrt(((roots[0] - roots[1]) ** 2).sum() / 2), 1.0))


def normal_factor(level: float) -> float:
    """How many standard errors an interval of some level goes to each side."""
    return NormalDist().inv_cdf((1 + level) / 2)


def interval_overlap(low: Reals, high: Reals, other_low: Reals, other_high: Reals) -> Reals:
    """How much the intervals of cells overlap, from 0 to 1, as Karr and others (2006) define it.

    The mean of two shares: of the part in common in the one interval, and in the other.  Of an
    interval without length the share is 1 if the other one holds it, else 0.
    """
    common = np.minimum(high, other_high) - np.maximum(low, other_low)
    found = np.zeros(np.shape(low))
    for length in (high - low, other_high - other_low):
        share = np.divide(common, length, out=np.ones(found.shape), where=length > 0)
        found += np.where(common >= 0, np.clip(share, 0.0, 1.0), 0.0) / 2
    return found


def mean(values: Reals) -> float | None:
    """The mean; None of nothing."""
    return float(values.mean()) if values.size else None


def root_mean_square(values: Reals) -> float | None:
    """The root of the mean of squares; None of nothing."""
    return float(np.sqrt(np.square(values).mean())) if values.size else None


def quantiles(values: Reals, shares: Sequence[float]) -> list[float | None]:
    """Quantiles, between neighbours where they fall between; None of nothing."""
    if not values.size:
        return [None] * len(shares)
    return [float(found) for found in np.quantile(values, shares)]
