"""Vector Pareto: noise on whole vectors whose weight falls like a power of the L1 norm."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import expm1, floor, inf, log1p, sqrt
from typing import Self

import numpy as np

from eree.mechanisms.mechanism import GRAIN, Array, alpha_of, exactly, one_cell, rounded_down
from eree.mechanisms.needs import TooLittle, above
from eree.mechanisms.scaled import whole_reach
from eree.mechanisms.scaled_vector import MOST_CELLS, ScaledVector
from eree.mechanisms.vector import group_size
from eree.noise.exact import Whole
from eree.noise.lattice import VectorLatticePareto
from eree.noise.pareto_mixture import ParetoMixture
from eree.policy.guarantee import Guarantee

#: The share of epsilon that is left to the certificate, whose bounds are within a ten-millionth.
_ROOM = 2.0**-20


@dataclass(frozen=True)
class VectorPareto(ScaledVector):
    """counts + K, P(K = k) proportional to (1 + c |k| / S)^-p, |k| the L1 norm.

    S = max(alpha * largest, 1), `largest` the largest total of a workplace of the group.

    Theorem.  With b = ln(1 + alpha), d cells, p <= epsilon / b, c <= alpha and
    d b + p ln(1 + c / (1 + alpha)) <= epsilon, all outputs of a group together are
    (alpha, epsilon)-private with delta = 0 under strong neighbours, and so under weak ones.  Noise
    has a finite mean for p > d + 1.

    Proof.  One step moves the counts by a vector of norm at most S, and makes the scale r S,
    1 <= r <= 1 + alpha.  The weight is a mixture of e^(-s |k| / S), s > 0, whose sums over all k
    are coth(s / (2 S))^d; x coth x grows with x, so N(S) / S^d falls as S grows, and N grows:
    1 <= N(rS) / N(S) <= r^d.  Old over new is at most
    p ln((1 + c (u + 1) / r) / (1 + c u)) + d ln r at a distance u S from the old counts, which is
    greatest at u = 0, p ln(1 + c / r) + d ln r; that is quasi-convex in r, so greatest at r = 1,
    where it is at most p b, or at r = 1 + alpha.  New over old is at most
    p ln((1 + c (r u + 1)) / (1 + c u)), between p ln(1 + c) and p ln r, both at most p b.
    """

    power: Fraction
    slope: Fraction
    name = "vector-pareto"

    @classmethod
    def calibrate(cls, guarantee: Guarantee, *, cells: int = 1) -> Self:
        """The least noise of this kind, with a finite mean, that keeps a guarantee."""
        alpha = float(alpha_of(guarantee, cls.name))
        epsilon = float(guarantee.epsilon) * (1 - _ROOM)
        step, d = log1p(alpha), group_size(cls.name, cells, MOST_CELLS)
        power = Fraction(floor(epsilon / step * GRAIN), GRAIN)
        if power <= d + 1:
            raise TooLittle(
                cls.name,
                epsilon=above((d + 1) * step / (1 - _ROOM)),
                why=f"(above {d + 1} ln(1 + alpha)) to hide {d} cells by noise of finite mean",
                advice="raise it, lower alpha, publish fewer cells, or use vector-radial (from a"
                f" little above {d} ln(1 + alpha)) or two-stage-clip (any number of cells)",
            )
        most = (1 + alpha) * expm1((epsilon - d * step) / float(power))
        return cls(guarantee, d, power, rounded_down(min(alpha, most)))

    def law(self, largests: Whole) -> VectorLatticePareto:
        """The laws of the noise of some groups."""
        return VectorLatticePareto(self.scales(largests, 1 / self.slope), self.power, self.cells)

    def reach(self, level: float, largests: Whole) -> Whole:
        """From the law as a mixture of geometric numbers."""
        return whole_reach(self._mixture.reach(1 - level, self.near_scales(largests)), 1)

    def reach_of_sum(self, level: float, largests: Whole) -> Whole:
        """The same for sums."""
        return whole_reach(self._mixture.reach_of_sum(1 - level, self.near_scales(largests)), 1)

    @cached_property
    def _mixture(self) -> ParetoMixture:
        return ParetoMixture(float(self.power), float(self.slope), self.cells)

    def mean_error(self, *, count: int, largest: int) -> tuple[float, float]:
        """Exact sums over all whole vectors by their norms."""
        del count
        with exactly():
            mean, square = self.law(one_cell(largest)).moments(0)
            return float(mean), inf if square is None else sqrt(float(square))

    def log_weight(self, t: Array) -> Array:
        """The logarithm of the weight w(t)."""
        return -float(self.power) * np.log1p(float(self.slope) * t)

    def log_slope(self, t: Array) -> Array:
        """The slope of -ln w."""
        slope: Array = float(self.power * self.slope) / (1 + float(self.slope) * t)
        return slope

    @property
    def steepest(self) -> float:
        """At the centre."""
        return 0.0

    @property
    def far_power(self) -> float:
        """The weight is a power throughout."""
        return float(self.power)

    def normaliser_elasticity(self) -> tuple[float, float]:
        """Whatever the power and the slope, N is a mixture of coth(s / (2 S))^d, s > 0.

        The derivative of ln coth(x) by ln(1 / x) is 2 x / sinh(2 x), between 0 and 1.
        """
        return 0.0, float(self.cells) if self.power > self.cells else inf
