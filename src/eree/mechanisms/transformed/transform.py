"""Laplace noise on a transformed count, and the inverse transform of the noisy one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb
from numpy.typing import NDArray

from eree.random.exact import (
    Array,
    Integers,
    Words,
    coarse,
    exact_ball,
    halves,
    rounded,
    sure_halves,
    sure_round,
)

#: Exponents beyond this are cut off in doubles; the slow path decides such draws.
_FAR = 600.0


class Transform(ABC):
    """A rising function h of the count, and the rising function that leads back to counts."""

    @abstractmethod
    def forward(self, count: int) -> arb:
        """h(count)."""

    @abstractmethod
    def near_forward(self, counts: Integers) -> Array:
        """h in doubles, to within 2^-48 of 1 + its size."""

    @abstractmethod
    def inverse(self, transformed: arb) -> arb:
        """The value published for a transformed count, before it is rounded."""

    @abstractmethod
    def near_inverse(self, transformed: Array) -> tuple[Array, Array]:
        """The same in doubles to within 2^-46 of slope + itself, and the slope there."""

    @abstractmethod
    def near_count(self, transformed: Array) -> Array:
        """The inverse of h in doubles: the count, as a real number, of a transformed one."""

    @abstractmethod
    def preimage(self, value: arb) -> arb | None:
        """The number whose `inverse` is a value, or None where every inverse is above it."""

    @abstractmethod
    def near_preimage(self, values: Array) -> Array:
        """The same in doubles; minus infinity where every inverse is above."""


@dataclass(frozen=True)
class Logarithm(Transform):
    """h(n) = ln(n + offset); the inverse of v is factor e^v - offset."""

    offset: Fraction
    factor: Fraction = Fraction(1)

    def forward(self, count: int) -> arb:
        """ln(count + offset)."""
        return exact_ball(count + self.offset).log()

    def near_forward(self, counts: Integers) -> Array:
        """The same in doubles."""
        transformed: Array = np.log(counts + float(self.offset))
        return transformed

    def inverse(self, transformed: arb) -> arb:
        """factor e^transformed - offset."""
        return exact_ball(self.factor) * transformed.exp() - exact_ball(self.offset)

    def near_inverse(self, transformed: Array) -> tuple[Array, Array]:
        """The same in doubles, and the slope factor e^transformed."""
        slope = float(self.factor) * np.exp(np.minimum(transformed, _FAR))
        return slope - float(self.offset), slope

    def near_count(self, transformed: Array) -> Array:
        """e^transformed - offset in doubles."""
        count: Array = np.exp(np.minimum(transformed, _FAR)) - float(self.offset)
        return count

    def preimage(self, value: arb) -> arb | None:
        """ln((value + offset) / factor)."""
        shifted = value + exact_ball(self.offset)
        return (shifted / exact_ball(self.factor)).log() if shifted > 0 else None

    def near_preimage(self, values: Array) -> Array:
        """The same in doubles."""
        shifted = (values + float(self.offset)) / float(self.factor)
        known = shifted > 0
        transformed: Array = np.where(known, np.log(np.where(known, shifted, 1.0)), -np.inf)
        return transformed


@dataclass(frozen=True)
class Knots(Transform):
    """Straight lines between knots, then a logarithm; below 0 the first line goes on.

    `at` are the knots, the first of them 0, and `slopes` the slope from each to the next.  From the
    last knot T on, h grows with the slope 1 / (step + rate (n - T)).
    """

    at: tuple[Fraction, ...]
    slopes: tuple[Fraction, ...]
    step: Fraction
    rate: Fraction

    @cached_property
    def values(self) -> tuple[Fraction, ...]:
        """h at the knots, exactly."""
        values = [Fraction(0)]
        for i, slope in enumerate(self.slopes):
            values.append(values[-1] + slope * (self.at[i + 1] - self.at[i]))
        return tuple(values)

    @cached_property
    def _near(self) -> tuple[Array, Array, Array]:
        at, values, slopes = (
            np.array([float(number) for number in numbers])
            for numbers in (self.at, self.values, (*self.slopes, Fraction(1)))
        )
        return at, values, slopes

    def forward(self, count: int) -> arb:
        """h(count)."""
        return self.preimage(arb(count))

    def exact_forward(self, count: int) -> Fraction | None:
        """h(count) as a fraction, up to the last knot."""
        if count > self.at[-1]:
            return None
        place = min(max(bisect_right(self.at, count) - 1, 0), len(self.slopes) - 1)
        return self.values[place] + self.slopes[place] * (count - self.at[place])

    def near_forward(self, counts: Integers) -> Array:
        """The same in doubles."""
        return self.near_preimage(counts.astype(np.float64))

    def inverse(self, transformed: arb) -> arb:
        """The inverse of h."""
        last = exact_ball(self.values[-1])
        if transformed > last:
            step, rate = exact_ball(self.step), exact_ball(self.rate)
            return exact_ball(self.at[-1]) + (rate * (transformed - last)).expm1() * step / rate
        place = self._place(self.values, transformed)
        slope = exact_ball(self.slopes[place])
        return exact_ball(self.at[place]) + (transformed - exact_ball(self.values[place])) / slope

    def near_inverse(self, transformed: Array) -> tuple[Array, Array]:
        """The same in doubles, and the slope."""
        at, knots, slopes = self._near
        place = np.maximum(np.searchsorted(knots, transformed, side="right") - 1, 0)
        straight = at[place] + (transformed - knots[place]) / slopes[place]
        step, rate = float(self.step), float(self.rate)
        grown = np.expm1(np.minimum(np.maximum(rate * (transformed - knots[-1]), 0.0), _FAR)) * step
        far = transformed > knots[-1]
        value = np.where(far, at[-1] + grown / rate, straight)
        # within 2^-46 of a knot the line beyond it may be the steeper one
        slope = np.where(far, step + grown, 0.0) + 2.0 / slopes[np.minimum(place + 1, len(at) - 2)]
        return value, slope

    def near_count(self, transformed: Array) -> Array:
        """The same: `inverse` is the inverse of h."""
        return self.near_inverse(transformed)[0]

    def preimage(self, value: arb) -> arb:
        """h, for any real number."""
        last = exact_ball(self.at[-1])
        if value > last:
            step, rate = exact_ball(self.step), exact_ball(self.rate)
            beyond = (rate / step * (value - last)).log1p() / rate
            return exact_ball(self.values[-1]) + beyond
        place = self._place(self.at, value)
        slope = exact_ball(self.slopes[place])
        return exact_ball(self.values[place]) + slope * (value - exact_ball(self.at[place]))

    def near_preimage(self, values: Array) -> Array:
        """The same in doubles."""
        at, knots, slopes = self._near
        place = np.maximum(np.searchsorted(at, values, side="right") - 1, 0)
        straight = knots[place] + (values - at[place]) * slopes[place]
        step, rate = float(self.step), float(self.rate)
        curved = knots[-1] + np.log1p(rate / step * np.maximum(values - at[-1], 0.0)) / rate
        transformed: Array = np.where(values > at[-1], curved, straight)
        return transformed

    def _place(self, knots: Sequence[Fraction], point: arb) -> int:
        """The line on which a point lies.

        Where a ball touches a knot either line will do: both pass through the knot, and no knot
        lies so near to a half, unless on it, that a ball of that width rounds another way.
        """
        near = Fraction(float(point.mid()))
        return min(max(bisect_right(knots, near) - 1, 0), len(self.slopes) - 1)


@dataclass(frozen=True, eq=False)
class TransformedLaplace:
    """inverse(h(n) + spread * L) rounded to the nearest integer, L of the density e^-|z| / 2.

    Recipe: a sign and E = -ln(U).  The fast path knows U >= 2^-20 to within 2^-42 of itself, E to
    within 2^-41 (1 + E), so the transformed count to within spread 2^-41 (1 + E) and its own
    rounding, and the value to within that times the slope.
    """

    transform: Transform
    counts: Integers
    spread: Fraction
    uniforms = 1

    def fast(self, words: Words, cells: NDArray[np.intp]) -> tuple[Integers, NDArray[np.int8]]:
        """Values and verdicts; nothing is ever rejected."""
        uniform, sign = halves(words[0])
        spread = float(self.spread)
        transformed = self.transform.near_forward(self.counts[cells])
        noise = -spread * np.log(uniform)
        value, slope = self.transform.near_inverse(transformed + sign * noise)
        error = slope * ((spread + noise) * 2.0**-40 + (1 + np.abs(transformed) + noise) * 2.0**-45)
        return rounded(value, error + np.abs(value) * 2.0**-45, coarse(uniform))

    def slow(self, uniforms: Sequence[arb], cell: int) -> int:
        """The same in interval arithmetic."""
        uniform, sign = sure_halves(uniforms[0])
        noise = exact_ball(self.spread) * -uniform.log()
        transformed = self.transform.forward(int(self.counts[cell])) + sign * noise
        return sure_round(self.transform.inverse(transformed))

    def above(self, output: int, cell: int) -> arb:
        """The probability of at least `output`."""
        depth = self._depth(arb(output) - arb("0.5"), cell)
        if depth is None:
            return arb(1)
        return (-depth).exp() / 2 if depth > 0 else 1 - depth.exp() / 2

    def below(self, output: int, cell: int) -> arb:
        """The probability of at most `output`."""
        depth = self._depth(arb(output) + arb("0.5"), cell)
        if depth is None:
            return arb(0)
        return depth.exp() / 2 if depth < 0 else 1 - (-depth).exp() / 2

    def _depth(self, value: arb, cell: int) -> arb | None:
        """How far, in spreads, the preimage of a value lies above the transformed count."""
        transformed = self.transform.preimage(value)
        if transformed is None:
            return None
        return (transformed - self.transform.forward(int(self.counts[cell]))) / exact_ball(
            self.spread
        )
