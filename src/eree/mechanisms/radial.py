"""Radial: the density whose loss is the same at every instant of a growth."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, log1p
from typing import Self

import numpy as np

from eree.errors import Refusal
from eree.mechanisms.mechanism import Array, alpha_of, rounded_up
from eree.mechanisms.scaled import RoundedDensity
from eree.noise.exact import Whole
from eree.noise.radial import RadialShape, RoundedRadial
from eree.policy.guarantee import Guarantee


@dataclass(frozen=True)
class Radial(RoundedDensity):
    """count + S Z, rounded; Z of the density g with -g'/g = (rate - b) / (1 - b t) up to 1 / rate.

    Beyond t = 1 / rate it is (rate + b) / (1 + b t); b = ln(1 + alpha), rate a hair below epsilon.

    Theorem.  For epsilon > b the output is (alpha, epsilon)-private with delta = 0 in the cells
    where any scaled law is.  Proof.  Lead the old cell to the new one in unit time, its scale along
    S r^tau: the count then moves by at most one scale and the logarithm of the scale by at most b.
    At a distance of t scales the loss grows at the rate (1 + b t) |g'/g| - b at most if the count
    moves towards the output, and (1 - b t) |g'/g| + b if it moves away and the scale grows, both
    at most epsilon where 1 / rate parts them; rounding costs nothing.
    """

    rate: Fraction
    bend: Fraction
    name = "radial"

    @classmethod
    def calibrate(cls, guarantee: Guarantee) -> Self:
        """The rate is epsilon but for a share that the certificate's bounds need.

        Where alpha is small the loss is nearly the same everywhere, and they need more.
        """
        alpha = alpha_of(guarantee, cls.name)
        step = log1p(float(alpha))
        rate = guarantee.epsilon * (1 - Fraction(1, 1 << (20 if 100 * alpha >= 1 else 9)))
        if float(rate) <= step * (1 + 1e-3):
            raise Refusal(
                f"radial needs epsilon above ln(1 + alpha) = {step:.4g}; raise epsilon or lower"
                " alpha"
            )
        return cls(guarantee, rate, rounded_up(step))

    @property
    def shape(self) -> RadialShape:
        """The density."""
        return RadialShape(self.rate, self.bend)

    def law(self, largests: Whole) -> RoundedRadial:
        """The laws of the noise of some cells."""
        return RoundedRadial(self.scales(largests, Fraction(1)), self.shape)

    def scale(self) -> Fraction:
        """One: the density is in units of S."""
        return Fraction(1)

    def tail(self, z: Array) -> Array:
        """P(Z >= z)."""
        return self.shape.near_tail(z)

    def tail_moments(self, m: float) -> tuple[float, float]:
        """Integrals of the two powers."""
        rate, bend = float(self.rate), float(self.bend)
        turns, turn = rate / bend, 1 / rate
        lowest, inner, outer = self.shape.near_masses
        whole = 2 * (inner + outer)
        first = second = 0.0
        start = max(m, turn)
        # beyond: outer (u / u0)^-turns, u = 1 + bend z, u0 = 1 + 1 / turns
        u, u0 = 1 + bend * start, 1 + 1 / turns
        at_start = outer * (u / u0) ** -turns
        first += at_start * u / (bend * (turns - 1))
        if turns <= 2:
            second = inf
        else:  # z = (u - 1) / bend
            second += 2 * at_start * u * (u / (turns - 2) - 1 / (turns - 1)) / bend**2
        if m < turn:  # before: ((v^turns - lowest) / rate + outer, v = 1 - bend z
            v, v0 = 1 - bend * m, 1 - 1 / turns
            flat = outer - lowest / rate
            first += flat * (turn - m) + (v ** (turns + 1) - v0 ** (turns + 1)) / (
                bend * (turns + 1) * rate
            )
            lows = (v ** (turns + 1) - v0 ** (turns + 1)) / (turns + 1)
            highs = (v ** (turns + 2) - v0 ** (turns + 2)) / (turns + 2)
            second += flat * (turn**2 - m**2) + 2 * (lows - highs) / (bend**2 * rate)
        return first / whole, second / whole

    def log_weight(self, t: Array) -> Array:
        """The logarithm of the density up to a constant."""
        rate, bend = float(self.rate), float(self.bend)
        turns, turn = rate / bend, 1 / rate
        before = (turns - 1) * np.log1p(-bend * np.minimum(t, turn))
        after = (turns + 1) * (np.log1p(bend * np.maximum(t, turn)) - log1p(bend * turn))
        return before - after

    @property
    def power_from(self) -> float:
        """Where the two powers meet."""
        return float(1 / self.rate)

    def most_drop(self, stretch: Array, near: float) -> Array:
        """(1 + bend y) / (1 + bend x) goes from its value at `near` to `stretch`, and w with it."""
        bend = float(self.bend)
        most = np.maximum(stretch, (1 + bend * (stretch * near + 1)) / (1 + bend * near))
        drop: Array = (float(self.rate / self.bend) + 1) * np.log(np.maximum(most, 1.0))
        return drop
