"""Threshold rules: which cells an office would publish, and which count as near zero."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np

from eree.errors import Refusal
from eree.release.listing import checked_level
from eree.survey.assess.measures import Array, Mask


@dataclass(frozen=True)
class Thresholds:
    """The rules of an office.  They are public settings, chosen without looking at the data.

    A cell may be published if its employment is at least `weighted` jobs, if it has at least
    `unweighted` records, and if its coefficient of variation, the standard error divided by the
    estimate, is at most `variation`.  A cell is near zero if its employment, without its sign, is
    below `near_zero` jobs; where that is None, below half the average weight of a record, which is
    confidential.  Intervals are those at `level`.
    """

    weighted: float = 1_000.0
    unweighted: float = 3.0
    variation: float = 0.3
    near_zero: float | None = None
    level: float = 0.95

    def __post_init__(self) -> None:
        numbers = [self.weighted, self.unweighted, self.variation, self.level]
        if self.near_zero is not None:
            numbers.append(self.near_zero)
        if not all(isfinite(number) and number >= 0 for number in numbers):
            raise Refusal("thresholds are numbers, 0 or more")
        checked_level(self.level)

    def weighted_passes(self, employment: Array) -> Mask:
        """Which cells have employment enough."""
        return np.asarray(employment >= self.weighted)

    def unweighted_passes(self, records: Array) -> Mask:
        """Which cells have records enough."""
        return np.asarray(records >= self.unweighted)

    def variation_passes(self, employment: Array, errors: Array) -> Mask:
        """Which cells are precise enough; none of employment 0 or below is."""
        return np.asarray((employment > 0) & (errors <= self.variation * employment))


def near_zero(employment: Array, limit: float) -> Mask:
    """Which cells are near zero."""
    return np.asarray(np.abs(employment) < limit)
