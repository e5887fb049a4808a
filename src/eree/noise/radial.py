"""The radial law: a density of two powers that loses the same at every instant of a growth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from eree.noise.exact import (
    Whole,
    Words,
    coarse,
    exact_ball,
    halves,
    rounded,
    sure_halves,
    sure_less,
    sure_round,
)
from eree.noise.laws import Scales

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RadialShape:
    """w(t) = (1 - bend t)^i up to t = 1 / rate, then falling like (1 + bend t)^-o.

    i = rate / bend - 1 and o = rate / bend + 1, so that the slope of -ln w is
    (rate - bend) / (1 - bend t) before and (rate + bend) / (1 + bend t) after.
    """

    rate: Fraction
    bend: Fraction

    @property
    def turns(self) -> Fraction:
        """m = rate / bend; i = m - 1 and o = m + 1."""
        return self.rate / self.bend

    def masses(self) -> tuple[arb, arb, arb]:
        """At the precision set: X0 = (1 - 1/m)^m, the mass up to 1 / rate, and the mass beyond.

        With t0 = 1 / rate and bend t0 = 1 / m: the inner mass is (1 - X0) / rate and the outer one
        (1 - 1/m)^(m - 1) (1 + 1/m) / rate.
        """
        m, rate = exact_ball(self.turns), exact_ball(self.rate)
        lowest = (1 - 1 / m) ** m
        return lowest, (1 - lowest) / rate, lowest / (1 - 1 / m) * (1 + 1 / m) / rate

    def tail(self, t: arb) -> arb:
        """The mass beyond t > 0, over the mass of both sides."""
        m, rate, bend = (exact_ball(part) for part in (self.turns, self.rate, self.bend))
        lowest, inner, outer = self.masses()
        if t * rate < 1:
            beyond = ((1 - bend * t) ** m - lowest) / rate + outer
        else:
            beyond = outer * ((1 + bend * t) / (1 + 1 / m)) ** (-m)
        return beyond / (inner + outer) / 2

    def near_tail(self, t: Array) -> Array:
        """The same in doubles."""
        m, rate, bend = (float(part) for part in (self.turns, self.rate, self.bend))
        lowest, inner, outer = self.near_masses
        before = ((1 - bend * np.minimum(t, 1 / rate)) ** m - lowest) / rate + outer
        after = outer * ((1 + bend * t) / (1 + 1 / m)) ** (-m)
        beyond: Array = np.where(t * rate < 1, before, after) / (inner + outer) / 2
        return beyond

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
    """scale * Z rounded to the nearest whole number, Z of the radial density.

    Recipe: a sign and the point t with mass U beyond it.  Beyond 1 / rate that is
    ((1 + 1/m) (U M / B)^(-1/m) - 1) / bend, M the mass of one side and B the part beyond; before,
    (1 - X^(1/m)) / bend with X = (U M - B) rate + X0.  U >= 2^-20 is known to within 2^-42 of
    itself, so t is known to within (t + 1 / bend) (1 + 1 / X0) 2^-41.
    """

    scales: Scales
    shape: RadialShape
    uniforms = 1

    def fast(self, words: Words, cells: NDArray[np.intp]) -> tuple[Whole, NDArray[np.int8]]:
        """Values and verdicts; nothing is ever rejected."""
        m, rate, bend = (
            float(part) for part in (self.shape.turns, self.shape.rate, self.shape.bend)
        )
        lowest, inner, outer = self.shape.near_masses
        uniform, sign = halves(words[0])
        beyond = uniform * (inner + outer)
        far = beyond < outer
        base = np.where(far, beyond / outer, (beyond - outer) * rate + lowest)
        root = np.exp(np.log(base) * (np.where(far, -1.0, 1.0) / m))
        t = np.where(far, (1 + 1 / m) * root - 1, 1 - root) / bend
        scale = self.scales.near(cells)
        error = scale * (t + 1 / bend) * ((1 + 1 / lowest) * 2.0**-40)
        values, verdicts = rounded(scale * t, error, coarse(uniform))
        return sign * values, verdicts

    def slow(self, uniforms: Sequence[arb], cell: int) -> int:
        """The same in interval arithmetic."""
        m, rate, bend = (
            exact_ball(part) for part in (self.shape.turns, self.shape.rate, self.shape.bend)
        )
        lowest, inner, outer = self.shape.masses()
        uniform, sign = sure_halves(uniforms[0])
        beyond = uniform * (inner + outer)
        if sure_less(beyond, outer):
            t = ((1 + 1 / m) * (beyond / outer) ** (-1 / m) - 1) / bend
        else:
            t = (1 - ((beyond - outer) * rate + lowest) ** (1 / m)) / bend
        return sign * sure_round(exact_ball(self.scales.of(cell)) * t)

    def tail(self, value: int, cell: int) -> arb:
        """The chance that the noise is at least `value`, for value >= 1."""
        return self.shape.tail((arb(value) - arb("0.5")) / exact_ball(self.scales.of(cell)))
