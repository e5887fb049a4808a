"""Integers in given proportions, without chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from eree.random.exact import Integers


def apportion(total: int, weights: ArrayLike) -> Integers:
    """Divide `total` by largest remainders, so that the parts add up exactly.

    Counts that the published facts depend on (workplaces of each size class, places of each
    stratum) are apportioned and not drawn, so that they hold for every seed.
    """
    share = np.asarray(weights, dtype=np.float64)
    quota = share * (total / share.sum())
    parts: Integers = np.floor(quota).astype(np.int64)
    missing = total - int(parts.sum())
    by_remainder = np.argsort(parts - quota, kind="stable")
    parts[by_remainder[:missing]] += 1
    return parts
