"""Noise for the margins of two worker attributes at once: a density of a norm made for their steps.

A group's workers have an attribute of two values and one of v values.  e_1, ..., e_v are the counts
by the second, f those of the first value of the other less those of its second value.  A worker who
joins adds 1 to one e_c, and 1 or -1 to f.  So the steps and their opposites are the points (u, 1)
and (u, -1), u one of the 2 v unit vectors and their opposites: the corners of
K = B x [-1, 1], B the ball |e| <= 1 of the L1 norm |e|.  K is the convex hull of its corners, hence
of the steps and their opposites, and its norm is

    N(e, f) = max(|e|, |f|).

It is also the greatest L1 norm of a margin: for the counts (s + f) / 2, (s - f) / 2 by the first
attribute, s the sum of the e_c, the sizes add up to max(|s|, |f|), and |s| <= |e|.

For a density w(N) of D = v + 1 numbers, t = N and the direction are independent.  t has the density
t^(D - 1) w(t), as has the L1 norm of D numbers with the density w of that norm.  The direction is
that of a uniform point (e, f) of K.  There |f| is uniform and |e| <= x with the chance x^v, so
|f| > |e| with the chance 1 / D; then e / |f| is uniform in B.  Else f / |e| is uniform in [-1, 1],
and e / |e| uniform on the sides of B.

Both come from D sizes z_1, ..., z_D of the sum t that are uniform given t, as those of the L1 norm
are.  The first v are uniform among those of a sum of at most t: so with signs they are t times a
point of B.  And if z_D is added to one of them, all being equally likely, they are uniform among
those of the sum t: at such a point x the density is the sum over c of (the integral of a constant
over z_D from 0 to x_c) / v, which is the constant times t / v wherever the point is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import comb

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from eree.noise.exact import Whole, Words, exact_ball, sure_floor, sure_round
from eree.noise.laws import Scales
from eree.noise.rows import Row, near, verdicts_of
from eree.noise.vector_radial import VectorRadialShape, near_sizes, sure_sizes

_HALF = Fraction(1, 2)
#: The integrals of w against (t - x)^(n - 1) over t >= x, by x and n.
Integrals = Callable[[Fraction, int], arb]


@dataclass(frozen=True)
class MarginsShape:
    """Chances of (e, f) of the density w(N), in units of the scale.

    `radial` has w, and is of the width D = v + 1.
    """

    radial: VectorRadialShape

    @property
    def values(self) -> int:
        """v."""
        return self.radial.width - 1

    def integrals(self) -> Integrals:
        """`beyond` of the radial law, remembered: of many pieces most begin at the same points.

        They have the precision that is set when they are first asked for.
        """
        return cache(lambda x, n: self.radial.beyond(exact_ball(x), n))

    def rise(self, c: Fraction, a: Fraction, beyond: Integrals) -> arb:
        """bend^D times the integral of w against the growth of (t - c)^v (t - a), for c, a >= 0.

        It is taken over t >= c and t >= a, and written in powers of t less the greater of the two.
        """
        v, bend = self.values, self.radial.bend
        if c > a:
            return (v + 1) * beyond(c, v + 1) + v * exact_ball(bend * (c - a)) * beyond(c, v)
        less = exact_ball(bend * (a - c))
        total = (v + 1) * beyond(a, v + 1)
        for i in range(v if c < a else 0):
            total += comb(v, i) * (i + 1) * less ** (v - i) * beyond(a, i + 1)
        return total

    def share(self, c: Fraction, a: Fraction) -> arb:
        """`rise` over that of the whole ball N <= t, which is t^D."""
        beyond, zero = self.integrals(), Fraction(0)
        return self.rise(c, a, beyond) / self.rise(zero, zero, beyond)

    def sum_tail(self, x: Fraction) -> arb:
        """The chance that one e_c is at least x >= 0.

        Of the ball N <= t, (t - x)^v t / t^D is the share of those points, and half of it.
        """
        return self.share(x, Fraction(0)) / 2

    def difference_tail(self, x: Fraction) -> arb:
        """The chance that f is at least x >= 0: t^v (t - x) / t^D, and half of it."""
        return self.share(Fraction(0), x) / 2

    def sum_moments(self) -> tuple[float, float]:
        """The means of |e_c| and of e_c^2.

        In K they are 1 / D and 2 / (D (D + 1)).  A uniform point of K has the norm x or less with
        the chance x^D: for the direction alone they are the (D + 1) / D and (D + 2) / D fold.
        """
        d = self.radial.width
        first, second = self._norm_moments()
        return first * (d + 1) / d**2, second * 2 * (d + 2) / (d**2 * (d + 1))

    def difference_moments(self) -> tuple[float, float]:
        """The means of |f| and of f^2, which in K are 1/2 and 1/3."""
        d = self.radial.width
        first, second = self._norm_moments()
        return first * (d + 1) / (2 * d), second * (d + 2) / (3 * d)

    def norm_mean(self) -> float:
        """The mean of the norm."""
        return self._norm_moments()[0]

    def _norm_moments(self) -> tuple[float, float]:
        """The means of t and t^2, which exist: m > D >= 2."""
        with ctx.workprec(320):
            return float(self.radial.norm_moment(1)), float(self.radial.norm_moment(2))


@dataclass(frozen=True, eq=False)
class RoundedMargins:
    """scale (e, f), each number rounded to the nearest whole one.

    Recipe: D sizes and signs of the radial law of vectors; a whole number below D, each as likely,
    that says which e_c the last size is added to, or none of them.  If none, f is the norm, else a
    uniform number times the norm; in both with the sign of the last size.

    In doubles a size is known to within `off`, which is greatest for the greatest base.  A sum of
    two is known to within twice that, and so is the norm, which is the last base less 1.
    """

    scales: Scales
    shape: MarginsShape

    @property
    def width(self) -> int:
        """D."""
        return self.shape.radial.width

    @property
    def uniforms(self) -> int:
        """Those of the sizes, one for the place of the last size, one for f."""
        return self.width + 3

    def fast(self, words: Words, groups: NDArray[np.intp]) -> tuple[Whole, NDArray[np.int8]]:
        """Rows and verdicts."""
        d = self.width
        found = near_sizes(self.shape.radial, words[: d + 1])
        place = near(words[d + 1]) * d
        which = np.floor(place)
        unit = self.scales.near(groups) / float(self.shape.radial.bend)
        numbers = found.sizes.copy()
        numbers[:-1] += np.where(np.arange(d - 1)[:, None] == which, found.sizes[-1], 0.0)
        share = np.where(which == d - 1, 1.0, near(words[d + 2]))
        numbers[-1] = found.sizes.sum(axis=0) * share
        values = unit * numbers
        wholes = np.rint(values)
        # the sum of the sizes telescopes, but for what rounding adds: d + 2 times 2^-52 of the norm
        most = found.off.max(axis=0)
        error = unit * (2 * most + (d + 2) * 2.0**-50 * found.sizes.sum(axis=0))
        doubt = found.doubt | (np.abs(place - np.rint(place)) < d * 2.0**-48)
        doubt |= (~(0.5 - np.abs(values - wholes) >= error + values * 2.0**-48)).any(axis=0)
        rows = found.signs * np.where(doubt, 0.0, wholes).astype(np.int64)
        return rows.T, verdicts_of(found.accepted, doubt)

    def slow(self, uniforms: Sequence[arb], group: int) -> Row | None:
        """The same in interval arithmetic."""
        d = self.width
        found = sure_sizes(self.shape.radial, uniforms[: d + 1])
        if found is None:
            return None
        which = sure_floor(uniforms[d + 1] * d)
        unit = exact_ball(self.scales.of(group) / self.shape.radial.bend)
        signs, sizes = zip(*found, strict=True)
        numbers = [*sizes[:-1], sum(sizes, arb(0))]
        if which < d - 1:
            numbers[which] += sizes[-1]
            numbers[-1] *= uniforms[d + 2]
        return tuple(
            sign * sure_round(unit * number) for sign, number in zip(signs, numbers, strict=True)
        )

    def sum_tail(self, value: int, group: int) -> arb:
        """The chance that one e_c is at least `value`, for value >= 1."""
        return self.shape.sum_tail((value - _HALF) / self.scales.of(group))

    def difference_tail(self, value: int, group: int) -> arb:
        """The chance that f is at least `value`, for value >= 1."""
        return self.shape.difference_tail((value - _HALF) / self.scales.of(group))

    def pmf(self, noise: Sequence[int], group: int) -> arb:
        """The chance of a row of noise: w integrated over the cube that is rounded to it.

        The part of the cube with N <= t is one of its e times one of its f.  The second is
        (t - a) - (t - b), each where it is above 0, a and b the ends of |f|.  The first is a sum
        over the corners of the sizes of the e_c, of (t - c)^v / v! where that is above 0, c the
        norm of the corner.  A number that is 0 has the sizes below 1/2, and both signs.
        """
        *sums, difference = noise
        away = [abs(k) for k in sums if k]
        zeros, others = len(sums) - len(away), len(away)
        scale, middle = self.scales.of(group), abs(difference)
        ends = (middle - _HALF, middle + _HALF) if middle else (Fraction(0), _HALF)
        bits = (sum(away) + middle + int(scale)).bit_length()
        with ctx.workprec(ctx.prec + self.width * (16 + bits)):
            total, beyond, zero = arb(0), self.shape.integrals(), Fraction(0)
            for i in range(others + 1):
                for j in range(zeros + 1):
                    corner = Fraction(2 * sum(away) - others + 2 * i + j, 2) / scale
                    low, high = (self.shape.rise(corner, end / scale, beyond) for end in ends)
                    total += comb(others, i) * comb(zeros, j) * (-1) ** (i + j) * (low - high)
            # of all sizes, a number that is not 0 has those of one sign
            one_sign = others + (1 if middle else 0)
            chance = total / self.shape.rise(zero, zero, beyond) / arb(2) ** one_sign
        return +chance
