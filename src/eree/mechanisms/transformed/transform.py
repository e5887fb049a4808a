"""Laplace noise on a bent scale: the count is lifted by a rising function, noised, and let down."""

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
    Integers,
    Words,
    coarse,
    exact_ball,
    halves,
    rounded,
    sure_halves,
    sure_round,
)

Array = NDArray[np.float64]

#: Exponents beyond this are cut off in doubles; the slow path decides such draws.
_FAR = 600.0


class Bend(ABC):
    """A rising function h of the count, and the rising function that lets a height down again."""

    @abstractmethod
    def lift(self, count: int) -> arb:
        """h(count)."""

    @abstractmethod
    def near_lift(self, counts: Integers) -> Array:
        """h in doubles, to within 2^-48 of 1 + its size."""

    @abstractmethod
    def lower(self, height: arb) -> arb:
        """The value published for a height, before it is rounded."""

    @abstractmethod
    def near_lower(self, height: Array) -> tuple[Array, Array]:
        """The same in doubles to within 2^-46 of slope + itself, and the slope there."""

    @abstractmethod
    def near_count(self, height: Array) -> Array:
        """The inverse of h in doubles: the count, as a real number, of a height."""

    @abstractmethod
    def height_of(self, value: arb) -> arb | None:
        """The height that is let down to a value, or None where every height is above it."""

    @abstractmethod
    def near_height_of(self, values: Array) -> Array:
        """The same in doubles; minus infinity where every height is above."""


@dataclass(frozen=True)
class Logarithm(Bend):
    """h(n) = ln(n + offset); a height v becomes factor e^v - offset."""

    offset: Fraction
    factor: Fraction = Fraction(1)

    def lift(self, count: int) -> arb:
        """ln(count + offset)."""
        return exact_ball(count + self.offset).log()

    def near_lift(self, counts: Integers) -> Array:
        """The same in doubles."""
        lifted: Array = np.log(counts + float(self.offset))
        return lifted

    def lower(self, height: arb) -> arb:
        """factor e^height - offset."""
        return exact_ball(self.factor) * height.exp() - exact_ball(self.offset)

    def near_lower(self, height: Array) -> tuple[Array, Array]:
        """The same in doubles, and the slope factor e^height."""
        slope = float(self.factor) * np.exp(np.minimum(height, _FAR))
        return slope - float(self.offset), slope

    def near_count(self, height: Array) -> Array:
        """e^height - offset in doubles."""
        count: Array = np.exp(np.minimum(height, _FAR)) - float(self.offset)
        return count

    def height_of(self, value: arb) -> arb | None:
        """ln((value + offset) / factor)."""
        shifted = value + exact_ball(self.offset)
        return (shifted / exact_ball(self.factor)).log() if shifted > 0 else None

    def near_height_of(self, values: Array) -> Array:
        """The same in doubles."""
        shifted = (values + float(self.offset)) / float(self.factor)
        known = shifted > 0
        height: Array = np.where(known, np.log(np.where(known, shifted, 1.0)), -np.inf)
        return height


@dataclass(frozen=True)
class Knots(Bend):
    """Straight lines between knots, then a logarithm; below 0 the first line goes on.

    `at` are the knots, the first of them 0, and `slopes` the slope from each to the next.  From the
    last knot T on, h grows with the slope 1 / (step + rate (n - T)).
    """

    at: tuple[Fraction, ...]
    slopes: tuple[Fraction, ...]
    step: Fraction
    rate: Fraction

    @cached_property
    def heights(self) -> tuple[Fraction, ...]:
        """h at the knots, exactly."""
        heights = [Fraction(0)]
        for i, slope in enumerate(self.slopes):
            heights.append(heights[-1] + slope * (self.at[i + 1] - self.at[i]))
        return tuple(heights)

    @cached_property
    def _near(self) -> tuple[Array, Array, Array]:
        at, heights, slopes = (
            np.array([float(value) for value in values])
            for values in (self.at, self.heights, (*self.slopes, Fraction(1)))
        )
        return at, heights, slopes

    def lift(self, count: int) -> arb:
        """h(count)."""
        return self.height_of(arb(count))

    def exact_lift(self, count: int) -> Fraction | None:
        """h(count) as a fraction, up to the last knot."""
        if count > self.at[-1]:
            return None
        place = min(max(bisect_right(self.at, count) - 1, 0), len(self.slopes) - 1)
        return self.heights[place] + self.slopes[place] * (count - self.at[place])

    def near_lift(self, counts: Integers) -> Array:
        """The same in doubles."""
        return self.near_height_of(counts.astype(np.float64))

    def lower(self, height: arb) -> arb:
        """The inverse of h."""
        last = exact_ball(self.heights[-1])
        if height > last:
            step, rate = exact_ball(self.step), exact_ball(self.rate)
            return exact_ball(self.at[-1]) + (rate * (height - last)).expm1() * step / rate
        place = self._place(self.heights, height)
        slope = exact_ball(self.slopes[place])
        return exact_ball(self.at[place]) + (height - exact_ball(self.heights[place])) / slope

    def near_lower(self, height: Array) -> tuple[Array, Array]:
        """The same in doubles, and the slope."""
        at, heights, slopes = self._near
        place = np.maximum(np.searchsorted(heights, height, side="right") - 1, 0)
        straight = at[place] + (height - heights[place]) / slopes[place]
        step, rate = float(self.step), float(self.rate)
        grown = np.expm1(np.minimum(np.maximum(rate * (height - heights[-1]), 0.0), _FAR)) * step
        far = height > heights[-1]
        value = np.where(far, at[-1] + grown / rate, straight)
        # within 2^-46 of a knot the line beyond it may be the steeper one
        slope = np.where(far, step + grown, 0.0) + 2.0 / slopes[np.minimum(place + 1, len(at) - 2)]
        return value, slope

    def near_count(self, height: Array) -> Array:
        """The same: h is let down as it was lifted."""
        return self.near_lower(height)[0]

    def height_of(self, value: arb) -> arb:
        """h, for any real number."""
        last = exact_ball(self.at[-1])
        if value > last:
            step, rate = exact_ball(self.step), exact_ball(self.rate)
            beyond = (rate / step * (value - last)).log1p() / rate
            return exact_ball(self.heights[-1]) + beyond
        place = self._place(self.at, value)
        slope = exact_ball(self.slopes[place])
        return exact_ball(self.heights[place]) + slope * (value - exact_ball(self.at[place]))

    def near_height_of(self, values: Array) -> Array:
        """The same in doubles."""
        at, heights, slopes = self._near
        place = np.maximum(np.searchsorted(at, values, side="right") - 1, 0)
        straight = heights[place] + (values - at[place]) * slopes[place]
        step, rate = float(self.step), float(self.rate)
        curved = heights[-1] + np.log1p(rate / step * np.maximum(values - at[-1], 0.0)) / rate
        height: Array = np.where(values > at[-1], curved, straight)
        return height

    def _place(self, knots: Sequence[Fraction], point: arb) -> int:
        """The line on which a point lies.

        Where a ball touches a knot either line will do: both pass through the knot, and no knot
        lies so near to a half, unless on it, that a ball of that width rounds another way.
        """
        near = Fraction(float(point.mid()))
        return min(max(bisect_right(knots, near) - 1, 0), len(self.slopes) - 1)


@dataclass(frozen=True, eq=False)
class BentLaplace:
    """lower(h(n) + spread * L) rounded to the nearest integer, L of the law e^-|z| / 2.

    Recipe: a sign and E = -ln(U).  The fast path knows U >= 2^-20 to within 2^-42 of itself, E to
    within 2^-41 (1 + E), so the height to within spread 2^-41 (1 + E) and its own rounding, and the
    value to within that times the slope.
    """

    bend: Bend
    counts: Integers
    spread: Fraction
    uniforms = 1

    def fast(self, words: Words, cells: NDArray[np.intp]) -> tuple[Integers, NDArray[np.int8]]:
        """Values and verdicts; nothing is ever rejected."""
        uniform, sign = halves(words[0])
        spread = float(self.spread)
        lifted = self.bend.near_lift(self.counts[cells])
        noise = -spread * np.log(uniform)
        value, slope = self.bend.near_lower(lifted + sign * noise)
        error = slope * ((spread + noise) * 2.0**-40 + (1 + np.abs(lifted) + noise) * 2.0**-45)
        return rounded(value, error + np.abs(value) * 2.0**-45, coarse(uniform))

    def slow(self, uniforms: Sequence[arb], cell: int) -> int:
        """The same in interval arithmetic."""
        uniform, sign = sure_halves(uniforms[0])
        noise = exact_ball(self.spread) * -uniform.log()
        height = self.bend.lift(int(self.counts[cell])) + sign * noise
        return sure_round(self.bend.lower(height))

    def above(self, output: int, cell: int) -> arb:
        """The chance of at least `output`."""
        depth = self._depth(arb(output) - arb("0.5"), cell)
        if depth is None:
            return arb(1)
        return (-depth).exp() / 2 if depth > 0 else 1 - depth.exp() / 2

    def below(self, output: int, cell: int) -> arb:
        """The chance of at most `output`."""
        depth = self._depth(arb(output) + arb("0.5"), cell)
        if depth is None:
            return arb(0)
        return depth.exp() / 2 if depth < 0 else 1 - (-depth).exp() / 2

    def _depth(self, value: arb, cell: int) -> arb | None:
        """How far, in spreads, the height of a value lies above that of the count."""
        height = self.bend.height_of(value)
        if height is None:
            return None
        return (height - self.bend.lift(int(self.counts[cell]))) / exact_ball(self.spread)
