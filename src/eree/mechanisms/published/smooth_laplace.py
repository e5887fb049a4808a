"""Smooth Laplace: Laplace noise of the scale S, private with a small delta."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import acosh, exp, expm1, inf, log, log1p
from typing import Self

import numpy as np

from eree.errors import Refusal
from eree.mechanisms.certificate import Certificate
from eree.mechanisms.parameters import (
    MOST_EPSILON,
    TooLittle,
    above,
    alpha_of,
    check_range,
    rounded_down,
)
from eree.mechanisms.published.certificate import certify_laplace
from eree.mechanisms.scaled.distributions import RoundedLaplace
from eree.mechanisms.scaled.scaled import RoundedDensity
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Strong
from eree.random.exact import Array, Integers

#: Of a delta that leaves less room than this nothing is left for the rate.
_LEAST_ROOM = 1e-9


@dataclass(frozen=True)
class SmoothLaplace(RoundedDensity):
    """count + (S * width) L, rounded; L of the density e^-|z| / 2.

    Algorithm 3 of the paper: width = 2 / epsilon, for delta >= e^(-epsilon / (2 b)),
    b = ln(1 + alpha).

    Theorem.  The output is (alpha, epsilon, delta)-private in the cells where any scaled mechanism
    is, if delta is besides at least what `SmoothLaplaceExact` states for the rate a = epsilon / 2.
    The paper's delta is, unless epsilon is large (above 16 at alpha = 0.1): b is below alpha, so
    its exponent falls faster than the tails allow.  Proof.  Old over new loses at most
    M = max(a, a / (1 + alpha) + b), and where that is above epsilon its excess is at most
    1 - e^(epsilon - M), which delta must be, too.  New over old exceeds e^epsilon only in the tails
    of the new density; there its mass above e^epsilon times the old one is
    (1 - 1/r) e^(-(epsilon + ln r) / (r - 1)) cosh(a rho / (r - 1)), which grows with rho and r.
    """

    width: Fraction
    name = "smooth-laplace"

    @classmethod
    def default_delta(cls, alpha: Fraction | None, epsilon: Fraction) -> Fraction:
        """The least delta that the published condition allows, or what is needed if more."""
        if alpha is None:
            return Fraction(0)
        check_range(Guarantee(Strong(alpha), epsilon), cls.name)
        return min(_least_delta(float(alpha), float(epsilon)), 1 - Fraction(1, 2**64))

    @classmethod
    def calibrate(cls, guarantee: Guarantee) -> Self:
        """The published width, where the published condition holds."""
        alpha = alpha_of(guarantee, cls.name)
        least = _least_delta(float(alpha), float(guarantee.epsilon))
        if guarantee.delta < least:
            raise TooLittle(
                cls.name,
                delta=least,
                epsilon=_least_epsilon(alpha, guarantee.delta),
                advice="raise it, lower alpha, or use smooth-pareto with delta 0",
            )
        return cls(guarantee, 2 / guarantee.epsilon)

    def distribution(self, largests: Integers) -> RoundedLaplace:
        """The distributions of the noise of some cells."""
        return RoundedLaplace(self.scales(largests, self.width))

    def scale(self) -> Fraction:
        """The width."""
        return self.width

    def unit_tail(self, z: Array) -> Array:
        """P(Z >= z)."""
        return np.exp(-z) / 2

    def tail_moments(self, m: float) -> tuple[float, float]:
        """The integrals of e^-z / 2 and z e^-z from m on."""
        return exp(-m) / 2, (m + 1) * exp(-m)

    def log_weight(self, t: Array) -> Array:
        """The logarithm of the density up to a constant."""
        return -t / float(self.width)

    def most_drop(self, stretch: Array, near: float, shift: Array) -> Array:
        """Without bound: far out, a change of scale changes the probabilities without limit."""
        del near, shift
        return np.full_like(stretch, inf)

    def certify(self) -> Certificate:
        """Recheck the guarantee: the greatest mass beyond e^epsilon, over all neighbours."""
        return certify_laplace(self, 1 / self.width)


@dataclass(frozen=True)
class SmoothLaplaceExact(SmoothLaplace):
    """Smooth Laplace with the least width for its delta.

    Theorem.  With the rate a = 1 / width the output is (alpha, epsilon, delta)-private for
    delta = alpha / (1 + alpha) e^(-(epsilon + b) / alpha) cosh(a / alpha), as long as
    max(a, b + a / (1 + alpha)) <= epsilon.  Proof.  Old over new loses most at the old count,
    a rho / r + ln r, which is quasi-convex in r: at r = 1 it is a, at r = 1 + alpha the second
    bound.  New over old: see `SmoothLaplace`; as a <= epsilon, every factor grows with r and rho,
    and at rho = 1, r = 1 + alpha the product is the stated delta.
    """

    name = "smooth-laplace-exact"

    @classmethod
    def calibrate(cls, guarantee: Guarantee) -> Self:
        """The least width that keeps epsilon and delta."""
        alpha, epsilon = float(alpha_of(guarantee, cls.name)), float(guarantee.epsilon)
        step = log1p(alpha)
        if guarantee.delta == 0:
            raise Refusal(
                f"{cls.name} needs a delta above 0; allow one, or use smooth-pareto with delta 0"
            )
        most = min(epsilon, (1 + alpha) * (epsilon - step))
        # ln cosh(a / alpha) <= room
        logarithm = log(guarantee.delta.numerator) - log(guarantee.delta.denominator)
        room = logarithm + log((1 + alpha) / alpha) + (epsilon + step) / alpha
        threshold = (1 + 1e-3) * step  # nearer to it noise is without use
        if room <= _LEAST_ROOM or epsilon <= threshold:
            least = alpha / (1 + alpha) * exp(_LEAST_ROOM - (epsilon + step) / alpha)
            enough = alpha * (_LEAST_ROOM + log(alpha / (1 + alpha)) - logarithm) - step
            raise TooLittle(
                cls.name,
                delta=above(max(least, 1e-300)) if epsilon > threshold else None,
                epsilon=above(max(threshold, enough)),
                advice="raise it, lower alpha, or use smooth-pareto with delta 0",
            )
        rate = alpha * (acosh(exp(room)) if room < 700 else room + log(2))
        return cls(guarantee, 1 / rounded_down(min(rate, most) * (1 - 2**-30)))


def _log_delta(alpha: float, epsilon: float, rate: float) -> float:
    """ln of alpha / (1 + alpha) e^(-(epsilon + b) / alpha) cosh(rate / alpha)."""
    step, steep = log1p(alpha), rate / alpha
    return log(alpha) - step - (epsilon + step) / alpha + steep + log1p(exp(-2 * steep)) - log(2)


def _least_delta(alpha: float, epsilon: float) -> Fraction:
    """What the published condition asks for, or more where its width needs more; rounded up."""
    rate = epsilon / 2
    published, needed = -epsilon / (2 * log1p(alpha)), _log_delta(alpha, epsilon, rate)
    least = max(Fraction(exp(max(published, needed))), Fraction(1, 10**300))
    over = max(rate, rate / (1 + alpha) + log1p(alpha)) - epsilon
    if over > 0:
        least = max(least, Fraction(-expm1(-over)))
    return least * (1 + Fraction(1, 2**30))


def _least_epsilon(alpha: Fraction, delta: Fraction) -> Fraction | None:
    """The least epsilon, to a hair, at which no more than a delta is needed; the need falls."""
    low, high = Fraction(0), MOST_EPSILON
    if _least_delta(float(alpha), float(high)) > delta:
        return None
    while high - low > high / 10**6:
        middle = (low + high) / 2
        enough = _least_delta(float(alpha), float(middle)) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return high
