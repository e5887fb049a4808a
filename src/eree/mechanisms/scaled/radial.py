"""Radial: the density whose loss is the same at every instant of a growth.

The radial density: a density of two powers that loses the same at every instant of a growth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, log1p
from typing import Self

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from eree.mechanisms.parameters import TooLittle, above, alpha_of, rounded_up
from eree.mechanisms.scaled.distributions import Scales
from eree.mechanisms.scaled.scaled import RoundedDensity
from eree.policy.guarantee import Guarantee
from eree.random.exact import (
    Array,
    Integers,
    Words,
    coarse,
    exact_ball,
    halves,
    rounded,
    sure_halves,
    sure_less,
    sure_round,
)


@dataclass(frozen=True)
class RadialShape:
    """w(t) = (1 - curve t)^i up to t = 1 / rate, then falling like (1 + curve t)^-o.

    i = rate / curve - 1 and o = rate / curve + 1, so that the slope of -ln w is
    (rate - curve) / (1 - curve t) before and (rate + curve) / (1 + curve t) after.
    """

    rate: Fraction
    curve: Fraction

    @property
    def turns(self) -> Fraction:
        """m = rate / curve; i = m - 1 and o = m + 1."""
        return self.rate / self.curve

    def masses(self) -> tuple[arb, arb, arb]:
        """At the precision set: X0 = (1 - 1/m)^m, the mass up to 1 / rate, and the mass beyond.

        With t0 = 1 / rate and curve t0 = 1 / m: the inner mass is (1 - X0) / rate and the outer one
        (1 - 1/m)^(m - 1) (1 + 1/m) / rate.
        """
        m, rate = exact_ball(self.turns), exact_ball(self.rate)
        lowest = (1 - 1 / m) ** m
        return lowest, (1 - lowest) / rate, lowest / (1 - 1 / m) * (1 + 1 / m) / rate

    def tail(self, t: arb) -> arb:
        """The mass beyond t > 0, over the mass of both sides."""
        m, rate, curve = (exact_ball(part) for part in (self.turns, self.rate, self.curve))
        lowest, inner, outer = self.masses()
        if t * rate < 1:
            mass = ((1 - curve * t) ** m - lowest) / rate + outer
        else:
            mass = outer * ((1 + curve * t) / (1 + 1 / m)) ** (-m)
        return mass / (inner + outer) / 2

    def near_tail(self, t: Array) -> Array:
        """The same in doubles."""
        m, rate, curve = (float(part) for part in (self.turns, self.rate, self.curve))
        lowest, inner, outer = self.near_masses
        before = ((1 - curve * np.minimum(t, 1 / rate)) ** m - lowest) / rate + outer
        after = outer * ((1 + curve * t) / (1 + 1 / m)) ** (-m)
        tail: Array = np.where(t * rate < 1, before, after) / (inner + outer) / 2
        return tail

    @cached_property
    def near_masses(self) -> tuple[float, float, float]:
        """The masses in doubles, from enclosures of 128 bits, whatever precision is set."""
        before, ctx.prec = ctx.prec, 128
        try:
            lowest, inner, outer = self.masses()
            return float(lowest), float(inner), float(outer)
        finally:
            ctx.prec = before


@dataclass(frozen=True, eq=False)
class RoundedRadial:
    """scale * Z rounded to the nearest integer, Z of the radial density.

    Recipe: a sign and the point t with mass U beyond it.  Beyond 1 / rate that is
    ((1 + 1/m) (U M / B)^(-1/m) - 1) / curve, M the mass of one side and B the part beyond; before,
    (1 - X^(1/m)) / curve with X = (U M - B) rate + X0.  U >= 2^-20 is known to within 2^-42 of
    itself, so t is known to within (t + 1 / curve) (1 + 1 / X0) 2^-41.
    """

    scales: Scales
    shape: RadialShape
    uniforms = 1

    def fast(self, words: Words, cells: NDArray[np.intp]) -> tuple[Integers, NDArray[np.int8]]:
        """Values and verdicts; nothing is ever rejected."""
        m, rate, curve = (
            float(part) for part in (self.shape.turns, self.shape.rate, self.shape.curve)
        )
        lowest, inner, outer = self.shape.near_masses
        uniform, sign = halves(words[0])
        mass = uniform * (inner + outer)
        far = mass < outer
        base = np.where(far, mass / outer, (mass - outer) * rate + lowest)
        root = np.exp(np.log(base) * (np.where(far, -1.0, 1.0) / m))
        t = np.where(far, (1 + 1 / m) * root - 1, 1 - root) / curve
        scale = self.scales.near(cells)
        error = scale * (t + 1 / curve) * ((1 + 1 / lowest) * 2.0**-40)
        values, verdicts = rounded(scale * t, error, coarse(uniform))
        return sign * values, verdicts

    def slow(self, uniforms: Sequence[arb], cell: int) -> int:
        """The same in interval arithmetic."""
        m, rate, curve = (
            exact_ball(part) for part in (self.shape.turns, self.shape.rate, self.shape.curve)
        )
        lowest, inner, outer = self.shape.masses()
        uniform, sign = sure_halves(uniforms[0])
        mass = uniform * (inner + outer)
        if sure_less(mass, outer):
            t = ((1 + 1 / m) * (mass / outer) ** (-1 / m) - 1) / curve
        else:
            t = (1 - ((mass - outer) * rate + lowest) ** (1 / m)) / curve
        return sign * sure_round(exact_ball(self.scales.of(cell)) * t)

    def tail(self, value: int, cell: int) -> arb:
        """The probability that the noise is at least `value`, for value >= 1."""
        return self.shape.tail((arb(value) - arb("0.5")) / exact_ball(self.scales.of(cell)))


@dataclass(frozen=True)
class Radial(RoundedDensity):
    """count + s Z, rounded; Z of the density g with -g'/g = (rate - b) / (1 - b t) up to 1 / rate.

    Beyond t = 1 / rate it is (rate + b) / (1 + b t).  b >= ln(1 + alpha), s = max(b * largest, 1),
    rate is a hair below epsilon.

    Theorem.  For epsilon > b the output is (alpha, epsilon)-private with delta = 0 in the cells
    where any scaled mechanism is.  Proof.  Let the workers who join a workplace do so one after
    another, without leaps, and let time pass as they join over s(x), x the largest workplace so
    far.  The count then moves by at most one scale in unit time.  s grows only while the one that
    grows is the largest and b x > 1; then s = b x, and its logarithm grows at the rate b.  From y
    to y + D workers it all takes at most the integral of 1 / max(b u, 1) du, because s(x) >= s(u)
    where the workplace has u workers.  That is at most D, and at most ln((y + D) / y) / b: at most
    1 for D <= 1 and for D <= alpha y.  At a distance of t scales the loss grows at the rate (1 + b
    t) |g'/g| - b at most if the count moves towards the output, and (1 - b t) |g'/g| + b if it
    moves away, while the scale grows, and |g'/g| while it stays: all at most epsilon where 1 / rate
    parts them.  The way back is the same; rounding costs nothing.
    """

    rate: Fraction
    curve: Fraction
    name = "radial"

    @classmethod
    def calibrate(cls, guarantee: Guarantee) -> Self:
        """The rate is epsilon but for a share that the certificate's bounds need.

        Where alpha is small the loss is nearly the same everywhere, and they need more.
        """
        alpha = alpha_of(guarantee, cls.name)
        step = log1p(float(alpha))
        rate = guarantee.epsilon * (1 - Fraction(1, 1 << (20 if 100 * alpha >= 1 else 9)))
        if float(rate) <= (least := step * (1 + 1e-3)):
            raise TooLittle(
                cls.name,
                epsilon=above(least * float(guarantee.epsilon / rate)),
                why="(above ln(1 + alpha))",
                advice="raise it or lower alpha",
            )
        return cls(guarantee, rate, rounded_up(step))

    @property
    def pace(self) -> Fraction:
        """b: the scale grows as fast as the proof leads it."""
        return self.curve

    @property
    def parameters(self) -> dict[str, str]:
        """With the pace: another one makes another distribution of the same shape."""
        return super().parameters | {"pace": str(self.pace)}

    @property
    def shape(self) -> RadialShape:
        """The density."""
        return RadialShape(self.rate, self.curve)

    def distribution(self, largests: Integers) -> RoundedRadial:
        """The distributions of the noise of some cells."""
        return RoundedRadial(self.scales(largests, Fraction(1)), self.shape)

    def scale(self) -> Fraction:
        """One: the density is in units of s."""
        return Fraction(1)

    def unit_tail(self, z: Array) -> Array:
        """P(Z >= z)."""
        return self.shape.near_tail(z)

    def tail_moments(self, m: float) -> tuple[float, float]:
        """Integrals of the two powers."""
        rate, curve = float(self.rate), float(self.curve)
        turns, turn = rate / curve, 1 / rate
        lowest, inner, outer = self.shape.near_masses
        whole = 2 * (inner + outer)
        first = second = 0.0
        start = max(m, turn)
        # beyond: outer (u / u0)^-turns, u = 1 + curve z, u0 = 1 + 1 / turns
        u, u0 = 1 + curve * start, 1 + 1 / turns
        at_start = outer * (u / u0) ** -turns
        first += at_start * u / (curve * (turns - 1))
        if turns <= 2:
            second = inf
        else:  # z = (u - 1) / curve
            second += 2 * at_start * u * (u / (turns - 2) - 1 / (turns - 1)) / curve**2
        if m < turn:  # before: ((v^turns - lowest) / rate + outer, v = 1 - curve z
            v, v0 = 1 - curve * m, 1 - 1 / turns
            flat = outer - lowest / rate
            first += flat * (turn - m) + (v ** (turns + 1) - v0 ** (turns + 1)) / (
                curve * (turns + 1) * rate
            )
            lows = (v ** (turns + 1) - v0 ** (turns + 1)) / (turns + 1)
            highs = (v ** (turns + 2) - v0 ** (turns + 2)) / (turns + 2)
            second += flat * (turn**2 - m**2) + 2 * (lows - highs) / (curve**2 * rate)
        return first / whole, second / whole

    def log_weight(self, t: Array) -> Array:
        """The logarithm of the density up to a constant."""
        rate, curve = float(self.rate), float(self.curve)
        turns, turn = rate / curve, 1 / rate
        before = (turns - 1) * np.log1p(-curve * np.minimum(t, turn))
        after = (turns + 1) * (np.log1p(curve * np.maximum(t, turn)) - log1p(curve * turn))
        return before - after

    @property
    def power_from(self) -> float:
        """Where the two powers meet."""
        return float(1 / self.rate)

    @property
    def power_until(self) -> float:
        """The same."""
        return self.power_from

    def most_drop(self, stretch: Array, near: float, shift: Array) -> Array:
        """(1 + curve y) / (1 + curve x) goes from its value at `near` to `stretch`, w with it."""
        curve = float(self.curve)
        most = np.maximum(stretch, (1 + curve * (stretch * near + shift)) / (1 + curve * near))
        drop: Array = (float(self.rate / self.curve) + 1) * np.log(np.maximum(most, 1.0))
        return drop
