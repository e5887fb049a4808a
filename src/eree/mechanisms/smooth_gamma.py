"""Smooth Gamma: the published mechanism with the density 1 / (1 + z^4), and its tight form."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log1p
from typing import ClassVar, Self

import numpy as np

from eree.errors import Refusal
from eree.mechanisms.certificate import Array
from eree.mechanisms.scaled import ExpectedError, ScaledMechanism, alpha_of, root, scales
from eree.noise.exact import Whole
from eree.noise.laws import RoundedQuartic
from eree.policy.guarantee import Guarantee

_GRAIN = 1 << 20


@dataclass(frozen=True)
class SmoothGamma(ScaledMechanism):
    """count + (S * width) Z, rounded; Z of the density proportional to 1 / (1 + z^4).

    Algorithm 2 of the paper: width = 5 / (epsilon - 5 b), b = ln(1 + alpha), for epsilon > 5 b.

    Theorem.  The output is (alpha, epsilon)-private with delta = 0 in the cells where any scaled
    law is.  Proof.  A shift by one S costs at most slide / width and a scale ratio r at most
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
        if left <= 0:
            raise Refusal(
                f"{cls.name} needs epsilon above {cls.dilate:g} ln(1 + alpha) ="
                f" {cls.dilate * step:.4g}; raise epsilon, lower alpha, or use smooth-pareto"
            )
        width = Fraction(ceil(cls.slide / left * _GRAIN * (1 + 2**-30)), _GRAIN)
        return cls(guarantee, width)

    def law(self, largests: Whole) -> RoundedQuartic:
        """The laws of the noise of some cells."""
        return RoundedQuartic(scales(self, largests, self.width))

    def error_at(self, largest: int) -> ExpectedError:
        """Sums of the tail over whole numbers, and its integral where they no longer differ."""
        scale = float(self.law(np.array([largest], dtype=np.int64)).scales.of(0))
        last = int(3_000 + 30 * scale)
        y: Array = (
            np.arange(last, dtype=np.float64) + 0.5
        )  # the noise is at least k where scale * Z is at least k - 1/2
        tail = _tail(y / scale)
        m = last / scale
        mean = 2 * (tail.sum() + scale * (_first(m) - m * float(_tail(np.array([m]))[0])))
        square = 2 * (2 * y * tail).sum()
        square += 2 * scale**2 * (_second(m) - m**2 * float(_tail(np.array([m]))[0]))
        return ExpectedError(float(mean), root(float(square)))

    def log_weight(self, t: Array) -> Array:
        """The logarithm of the density, which is rounded afterwards, up to a constant."""
        return -np.log1p((t / float(self.width)) ** 4)

    @property
    def greatest_elasticity(self) -> float:
        """4, reached at infinity."""
        return 4.0

    def normaliser_elasticity(self) -> tuple[float, float]:
        """A density's normaliser is in proportion to its scale."""
        return 1.0, 1.0


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


def _tail(z: Array) -> Array:
    """P(Z >= z) for z > 0; by its series where the closed form would cancel."""
    two = np.sqrt(2)
    near, far = np.minimum(z, 20.0), np.maximum(z, 20.0)
    logarithm = np.log((near**2 + two * near + 1) / (near**2 - two * near + 1)) / 2
    angle = np.arctan(two * near + 1) + np.arctan(two * near - 1)
    closed = 0.5 - (logarithm + angle) / (2 * np.pi)
    series = two / np.pi * (far**-3 / 3 - far**-7 / 7 + far**-11 / 11)
    tail: Array = np.where(z < 20.0, closed, series)
    return tail


def _first(m: float) -> float:
    """E[Z; Z >= m]."""
    return float(np.sqrt(2) / np.pi * np.arctan(m**-2.0) / 2)


def _second(m: float) -> float:
    """E[Z^2; Z >= m] for m of 20 or more, by its series."""
    return float(np.sqrt(2) / np.pi * (1 / m - m**-5.0 / 5 + m**-9.0 / 9))
