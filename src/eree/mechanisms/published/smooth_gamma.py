"""Smooth Gamma: the published mechanism with the density 1 / (1 + z^4), and its tight form."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import atan, log1p, pi, sqrt
from typing import ClassVar, Self

import numpy as np

from eree.mechanisms.parameters import TooLittle, above, alpha_of, rounded_up
from eree.mechanisms.scaled.distributions import RoundedQuartic
from eree.mechanisms.scaled.scaled import RoundedDensity
from eree.policy.guarantee import Guarantee
from eree.random.exact import Array, Integers


@dataclass(frozen=True)
class SmoothGamma(RoundedDensity):
    """count + (S * width) Z, rounded; Z of the density proportional to 1 / (1 + z^4).

    Algorithm 2 of the paper: width = 5 / (epsilon - 5 b), b = ln(1 + alpha), for epsilon > 5 b.

    Theorem.  The output is (alpha, epsilon)-private with delta = 0 in the cells where any scaled
    mechanism is.  Proof.  A shift by one S costs at most slide / width and a scale ratio r at most
    dilate * ln r; with the paper's slide = dilate = 5 that is (epsilon - 5 b) + 5 b.  Rounding
    looks only at the noisy number, so it costs nothing.
    """

    width: Fraction
    name = "smooth-gamma"
    slide: ClassVar[float] = 5.0
    dilate: ClassVar[float] = 5.0

    @classmethod
    def calibrate(cls, guarantee: Guarantee) -> Self:
        """The width that the theorem asks for, rounded up."""
        step, epsilon = log1p(float(alpha_of(guarantee, cls.name))), float(guarantee.epsilon)
        left = epsilon - cls.dilate * step
        if left <= 1e-3 * cls.dilate * step:  # nearer to it noise is without use
            raise TooLittle(
                cls.name,
                epsilon=above((1 + 1e-3) * cls.dilate * step),
                why=f"(above {cls.dilate:g} ln(1 + alpha))",
                advice="raise it, lower alpha, or use smooth-pareto",
            )
        return cls(guarantee, rounded_up(cls.slide / left * (1 + 2**-30)))

    def distribution(self, largests: Integers) -> RoundedQuartic:
        """The distributions of the noise of some cells."""
        return RoundedQuartic(self.scales(largests, self.width))

    def scale(self) -> Fraction:
        """The width."""
        return self.width

    def unit_tail(self, z: Array) -> Array:
        """P(Z >= z); by its series where the closed form would cancel."""
        two = np.sqrt(2)
        near, far = np.minimum(z, 20.0), np.maximum(z, 20.0)
        logarithm = np.log((near**2 + two * near + 1) / (near**2 - two * near + 1)) / 2
        angle = np.arctan(two * near + 1) + np.arctan(two * near - 1)
        closed = 0.5 - (logarithm + angle) / (2 * np.pi)
        series = two / np.pi * (far**-3 / 3 - far**-7 / 7 + far**-11 / 11)
        tail: Array = np.where(z < 20.0, closed, series)
        return tail

    def tail_moments(self, m: float) -> tuple[float, float]:
        """E[Z - m; Z >= m] and E[Z^2 - m^2; Z >= m]; the whole ones are 1 / (2 sqrt 2) and 1/2."""
        if m == 0:
            return 1 / sqrt(8), 0.5
        tail = float(self.unit_tail(np.array([m]))[0])
        first = sqrt(2) / pi * atan(m**-2.0) / 2
        second = sqrt(2) / pi * (1 / m - m**-5.0 / 5 + m**-9.0 / 9)  # m is 20 or more
        return first - m * tail, second - m**2 * tail

    def log_weight(self, t: Array) -> Array:
        """The logarithm of the density, which is rounded afterwards, up to a constant."""
        return -np.log1p((t / float(self.width)) ** 4)

    @property
    def far(self) -> float:
        """Where the elasticity of w has come near 4."""
        return super().far + 60 * float(self.width)

    def most_drop(self, stretch: Array, near: float, shift: Array) -> Array:
        """The elasticity of w is at most 4."""
        drop: Array = 4 * np.log(np.maximum(stretch + shift / near, 1.0))
        return drop


@dataclass(frozen=True)
class TightSmoothGamma(SmoothGamma):
    """Smooth Gamma with the constants that are needed: slide 3^(3/4), dilate 3.

    Theorem.  For epsilon > 3 b the output is private as in `SmoothGamma`.  Proof.  For
    w(t) = 1 / (1 + t^4) the slope of -ln w, 4 t^3 / (1 + t^4), is greatest at t = 3^(1/4), where it
    is 3^(3/4).  By dilation, ln w(t) - ln w(t / r) + ln r lies between -3 ln r and ln r.
    """

    name = "smooth-gamma-tight"
    slide: ClassVar[float] = 3**0.75
    dilate: ClassVar[float] = 3.0
