"""Smooth staircase: plateaus that a growing scale cannot overtake."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, log1p
from typing import Self

import numpy as np

from eree.mechanisms.mechanism import GRAIN, Array, alpha_of, rounded_down
from eree.mechanisms.needs import TooLittle, above
from eree.mechanisms.scaled import RoundedDensity
from eree.noise.exact import Whole
from eree.noise.staircase import RoundedStairs, Stairs
from eree.policy.guarantee import Guarantee

#: How much more than needed each plateau grows, and each step falls short of what is allowed, so
#: that the certificate can tell one step from two.
_MARGIN = Fraction(1, 1 << 20)


@dataclass(frozen=True)
class SmoothStaircase(RoundedDensity):
    """count + S Z, rounded; the density of Z is e^(-drop j) where b_(j-1) < |z| <= b_j.

    b_0 = first, b_(j+1) = growth b_j + 1 with growth >= 1 + alpha, drop <= epsilon - b,
    b = ln(1 + alpha).

    Theorem.  For epsilon > 2 b the output is (alpha, epsilon)-private with delta = 0 in the cells
    where any scaled law is; its mean error is finite for epsilon > 3 b.  Proof.  Between neighbours
    a point at u scales from one centre is at most u (1 + alpha) + 1 scales from the other, in the
    units of either: so it lies at most one plateau further out, which costs drop, and the height of
    the densities differs by ln r <= b besides.  Rounding costs nothing.
    """

    first: Fraction
    growth: Fraction
    drop: Fraction
    name = "smooth-staircase"

    @classmethod
    def calibrate(cls, guarantee: Guarantee) -> Self:
        """The first plateau is as wide as makes the mean error of large cells the least."""
        from scipy.optimize import minimize_scalar

        alpha, epsilon = alpha_of(guarantee, cls.name), guarantee.epsilon
        step = log1p(float(alpha))
        growth = (1 + alpha) * (1 + _MARGIN)
        drop = rounded_down((float(epsilon) - step) * (1 - float(_MARGIN)))
        if float(drop) <= (least := 2 * step * (1 + 1e-3)):
            raise TooLittle(
                cls.name,
                epsilon=above(step + least / (1 - float(_MARGIN))),
                why="(above 3 ln(1 + alpha)) for noise of finite mean",
                advice="raise it, lower alpha, or use smooth-pareto",
            )

        def error(first: float) -> float:
            width = Fraction(max(round(first * GRAIN), 1), GRAIN)
            return cls(guarantee, width, growth, drop).tail_moments(0.0)[0]

        best = minimize_scalar(error, bounds=(1e-3, 1.0), method="bounded")
        return cls(guarantee, Fraction(round(float(best.x) * 2**20), 2**20), growth, drop)

    @property
    def stairs(self) -> Stairs:
        """The density."""
        return Stairs(self.first, self.growth, self.drop)

    def law(self, largests: Whole) -> RoundedStairs:
        """The laws of the noise of some cells."""
        return RoundedStairs(self.scales(largests, Fraction(1)), self.stairs)

    def scale(self) -> Fraction:
        """One: the density is in units of S."""
        return Fraction(1)

    def tail(self, z: Array) -> Array:
        """P(Z >= z)."""
        return self.stairs.near_tail(z)

    def tail_moments(self, m: float) -> tuple[float, float]:
        """E[Z - m; Z >= m] and E[Z^2 - m^2; Z >= m], plateau by plateau."""
        stairs = self.stairs
        h, growth, drop = float(stairs.offset), float(self.growth), float(self.drop)
        rest = stairs.near[0]
        whole = 2 * (float(self.first) + rest)
        j0 = int(stairs.plateau(np.array([m]))[0])
        start = (float(self.first) + h) * growth**j0  # b_j0 + h
        height = np.exp(-drop * j0)
        end = start - h
        first = height * (end - m) ** 2 / 2
        second = height * (end**3 / 3 - m**2 * end + 2 * m**3 / 3)
        # The plateaus beyond, in terms of u = z + h: they reach from start g^(i-1) to start g^i at
        # the height e^(-drop i), so that sums of powers of u are geometric.
        powers = [
            height * start**n * (1 - growth**-n) / n * _series(growth**n * np.exp(-drop))
            for n in (1, 2, 3)
        ]
        mass, once, twice = powers[0], powers[1] - h * powers[0], inf
        if powers[2] < inf:
            twice = powers[2] - 2 * h * powers[1] + h**2 * powers[0]
        first += once - m * mass
        second += twice - m**2 * mass
        return float(first / whole), float(second / whole)

    def log_weight(self, t: Array) -> Array:
        """The logarithm of the density up to a constant."""
        return -float(self.drop) * self.stairs.plateau(t)

    @property
    def far(self) -> float:
        """Soon: how many ends lie between two points is known from their distance alone."""
        return 4.0

    def most_drop(self, stretch: Array, near: float, shift: Array) -> Array:
        """In ln(t + h) the ends are ln(growth) apart: at most 1 + the distance lie between."""
        h = float(self.stairs.offset)
        most = np.maximum(stretch, (stretch * near + shift + h) / (near + h))
        apart = np.log(np.maximum(most, 1.0)) / np.log(float(self.growth))
        drop: Array = float(self.drop) * (1 + np.floor(apart))
        return drop


def _series(ratio: float) -> float:
    """ratio + ratio^2 + ..."""
    return ratio / (1 - ratio) if ratio < 1 else inf
