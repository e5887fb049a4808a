"""Measures of how far apart two tables are: pure functions of arrays.

Noise makes negative cells.  A distribution has none, so for Cramér's V and for Hellinger's distance
they are set to zero; in differences, standard errors and intervals they stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


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


def interval_overlap(low: Array, high: Array, other_low: Array, other_high: Array) -> Array:
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


def mean(values: Array) -> float | None:
    """The mean; None of nothing."""
    return float(values.mean()) if values.size else None


def root_mean_square(values: Array) -> float | None:
    """The root of the mean of squares; None of nothing."""
    return float(np.sqrt(np.square(values).mean())) if values.size else None


def quantiles(values: Array, shares: Sequence[float]) -> list[float | None]:
    """Quantiles, between neighbours where they fall between; None of nothing."""
    if not values.size:
        return [None] * len(shares)
    return [float(found) for found in np.quantile(values, shares)]
