"""Figures that come from draws, with their standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, nan, sqrt

import numpy as np

from eree.random.exact import Array

#: Nothing is divided by less than this.
_LEAST = 1e-12


@dataclass(frozen=True)
class Estimate:
    """A figure, its standard error, and of how many trials it is the mean; 0 where it is exact."""

    value: float
    error: float = 0.0
    trials: int = 0

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """The mean of some trials; one alone does not tell its error, which is not a number."""
        numbers = np.array(values, dtype=np.float64)
        spread = float(numbers.std(ddof=1)) if len(numbers) > 1 else nan
        return cls(float(numbers.mean()), spread / sqrt(len(numbers)), len(numbers))

    @classmethod
    def jackknifed(cls, values: Array, trials: int) -> Estimate:
        """From a figure of all trials, and those without one group of trials each.

        All groups are of about one size; with g of them the variance is (g - 1) / g times the sum
        of squares about the mean.
        """
        whole, without = float(values[0]), values[1:]
        g = len(without)
        about = float(((without - without.mean()) ** 2).sum())
        return cls(whole, sqrt((g - 1) / g * about) if g > 1 else nan, trials)

    def times(self, factor: float) -> Estimate:
        """In another unit."""
        return Estimate(self.value * factor, self.error * abs(factor), self.trials)

    def over(self, other: Estimate) -> Estimate:
        """The ratio to an independent figure, with an error to the first order."""
        below = max(other.value, _LEAST)
        ratio = self.value / below
        return Estimate(ratio, hypot(self.error, ratio * other.error) / below, self.trials)
