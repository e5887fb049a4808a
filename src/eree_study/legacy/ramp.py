"""The ramp: the law of a workplace's distortion factor, with a gap around 1."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from eree.errors import Refusal
from eree.policy.neighbours import Exact, exact
from eree.random.exact import Array


@dataclass(frozen=True)
class Ramp:
    """Factors on [1 - outer, 1 - inner] and [1 + inner, 1 + outer], with mean 1.

    Above 1 the density is (1 + outer - x) / (outer - inner)^2: it falls in a straight line from
    1 + inner to nothing at 1 + outer.  Below 1 it is the mirror image.  Each side has half of the
    chance, so the mean is 1, and the variance is (3 inner^2 + 2 inner outer + outer^2) / 6.
    """

    inner: Fraction
    outer: Fraction

    def __init__(self, inner: Exact, outer: Exact) -> None:
        object.__setattr__(self, "inner", exact(inner, "inner"))
        object.__setattr__(self, "outer", exact(outer, "outer"))
        if not 0 < self.inner < self.outer < 1:
            raise Refusal("a ramp needs 0 < inner < outer < 1, such as '0.05' and '0.15'")

    def density(self, x: Array) -> Array:
        """The density of a factor."""
        inner, outer = float(self.inner), float(self.outer)
        away = np.abs(np.asarray(x, dtype=np.float64) - 1)
        inside = (inner <= away) & (away <= outer)
        found: Array = np.where(inside, (outer - away) / (outer - inner) ** 2, 0.0)
        return found

    def quantile(self, u: Array) -> Array:
        """The factor below which a share `u` of all factors lies."""
        outer, width = float(self.outer), float(self.outer - self.inner)
        u = np.asarray(u, dtype=np.float64)
        away = outer - width * np.sqrt(2 * np.minimum(u, 1 - u))
        found: Array = np.where(u <= 0.5, 1 - away, 1 + away)
        return found

    @property
    def variance(self) -> float:
        """The variance of a factor."""
        s, t = self.inner, self.outer
        return float((3 * s * s + 2 * s * t + t * t) / 6)


RAMP = Ramp("0.05", "0.15")
"""Factors between 5% and 15% away from 1: an example; the ones in use are kept secret."""

WIDE = Ramp("0.10", "0.25")
"""Factors between 10% and 25% away from 1."""
