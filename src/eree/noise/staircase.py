"""The smooth staircase: plateaus that grow so fast that a neighbour's are never two lower."""

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
    sure_floor,
    sure_halves,
    sure_less,
    sure_round,
)
from eree.noise.laws import Scales

Array = NDArray[np.float64]

#: Bits of the constants that doubles are taken from, whatever precision is set.
_BITS = 128


@dataclass(frozen=True)
class Stairs:
    """Plateau j, of height e^(-drop j), ends at b_j: b_0 = first, b_(j+1) = growth b_j + 1.

    With h = 1 / (growth - 1): b_j + h = (first + h) growth^j, so plateau j >= 1 has the mass
    (first + h) (growth - 1) / growth * fall^j, fall = growth e^-drop.
    """

    first: Fraction
    growth: Fraction
    drop: Fraction

    @property
    def offset(self) -> Fraction:
        """h."""
        return 1 / (self.growth - 1)

    def end(self, j: int) -> arb:
        """b_j at the precision set; b_-1 is 0."""
        if j < 0:
            return arb(0)
        h = exact_ball(self.offset)
        return (exact_ball(self.first) + h) * exact_ball(self.growth) ** j - h

    def plateau(self, t: Array) -> Array:
        """The plateau on which each t >= 0 lies; on an end it is the lower number."""
        h = float(self.offset)
        steps = np.log1p((t - float(self.first)) / (float(self.first) + h)) / self.near[2]
        number: Array = np.ceil(np.maximum(steps, 0.0))
        return number

    def plateau_of(self, t: arb) -> int:
        """The plateau of a ball; where the ball touches an end, either will do."""
        j = int(self.plateau(np.array([float(t.mid())]))[0])
        while j and t < self.end(j - 1):
            j -= 1
        while t > self.end(j):
            j += 1
        return j

    def fall(self) -> arb:
        """growth e^-drop, by which the masses of the plateaus fall."""
        return exact_ball(self.growth) * (-exact_ball(self.drop)).exp()

    def rest(self) -> arb:
        """The mass of one side beyond the first plateau: (first (growth - 1) + 1) / (e^drop - g).

        The second plateau has the width first (growth - 1) + 1 and the height e^-drop.
        """
        width = exact_ball(self.first * (self.growth - 1) + 1)
        return width / (exact_ball(self.drop).exp() - exact_ball(self.growth))

    def tail(self, t: arb) -> arb:
        """The mass beyond t > 0, over the mass of both sides."""
        j, first, drop = self.plateau_of(t), exact_ball(self.first), exact_ball(self.drop)
        beyond = (self.end(j) - t) * (-drop * j).exp() + self.rest() * self.fall() ** j
        return beyond / (first + self.rest()) / 2

    def near_tail(self, t: Array) -> Array:
        """The same in doubles."""
        h, first, drop = float(self.offset), float(self.first), float(self.drop)
        rest, rate, growth = self.near
        j = self.plateau(t)
        end = first + (first + h) * np.expm1(j * growth)
        mass = (end - t) * np.exp(-drop * j) + rest * np.exp(-rate * j)
        beyond: Array = mass / (first + rest) / 2
        return beyond

    @cached_property
    def near(self) -> tuple[float, float, float]:
        """In doubles: the mass beyond the first plateau, -ln(fall) and ln(growth).

        Each is taken from an enclosure: a logarithm of a double near 1 would lose its digits.
        """
        before, ctx.prec = ctx.prec, _BITS
        try:
            return (
                float(self.rest()),
                float(-self.fall().log()),
                float(exact_ball(self.growth).log()),
            )
        finally:
            ctx.prec = before


@dataclass(frozen=True, eq=False)
class RoundedStairs:
    """scale * Z rounded to the nearest whole number, Z of the staircase density.

    Recipe: the first plateau with its chance, else plateau 1 + floor(-ln(V) / -ln(fall)); a sign;
    a uniform point of the plateau.  With V >= 2^-20 its logarithm is known to within 2^-42, and
    growth^j, j ln(growth) below 100, to within 2^-44 of itself.
    """

    scales: Scales
    stairs: Stairs
    uniforms = 3

    def fast(self, words: Words, cells: NDArray[np.intp]) -> tuple[Whole, NDArray[np.int8]]:
        """Values and verdicts; nothing is ever rejected."""
        stairs = self.stairs
        first, h, wider = float(stairs.first), float(stairs.offset), float(stairs.growth - 1)
        rest, rate, growth = stairs.near
        centre = (words[0].astype(np.float64) + 0.5) * 2.0**-64 * (first + rest) - first
        uniform = (words[1].astype(np.float64) + 0.5) * 2.0**-64
        steps = -np.log(uniform) / rate
        inside = centre < 0
        doubt = np.abs(centre) < (first + rest) * 2.0**-40
        far = coarse(uniform) | (np.abs(steps - np.rint(steps)) < (steps + 1 / rate) * 2.0**-40)
        doubt |= far & ~inside
        low = (first + h) * np.exp(np.floor(steps) * growth)
        place, sign = halves(words[2])
        t = np.where(inside, first * place, low - h + low * wider * place)
        scale = self.scales.near(cells)
        values, verdicts = rounded(scale * t, scale * (t + h) * 2.0**-40, doubt)
        return sign * values, verdicts

    def slow(self, uniforms: Sequence[arb], cell: int) -> int:
        """The same in interval arithmetic."""
        stairs, first = self.stairs, exact_ball(self.stairs.first)
        inside = sure_less(uniforms[0] * (first + stairs.rest()), first)
        j = 0 if inside else 1 + sure_floor(uniforms[1].log() / stairs.fall().log())
        place, sign = sure_halves(uniforms[2])
        low, high = stairs.end(j - 1), stairs.end(j)
        return sign * sure_round(exact_ball(self.scales.of(cell)) * (low + (high - low) * place))

    def tail(self, value: int, cell: int) -> arb:
        """The chance that the noise is at least `value`, for value >= 1."""
        return self.stairs.tail((arb(value) - arb("0.5")) / exact_ball(self.scales.of(cell)))
