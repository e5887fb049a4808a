"""The radial law of vectors: a density of two powers of the L1 norm, rounded number by number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb
from typing import NamedTuple

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from eree.noise.exact import (
    Whole,
    Words,
    coarse,
    exact_ball,
    halves,
    sure_halves,
    sure_less,
    sure_round,
)
from eree.noise.laws import Scales
from eree.noise.rows import Array, Flags, Row, near, verdicts_of

#: Uniform numbers below this are left to the slow path; in doubles they must only stay finite.
_LEAST = 2.0**-20
#: A share of the norm is rounded up to a multiple of 1 over this.
_SHARES = 512


@dataclass(frozen=True)
class VectorRadialShape:
    """w(t) = (1 - bend t)^(m - d) up to t0 = d / rate, then falling like (1 + bend t)^-(m + d).

    m = rate / bend > d, d the width, t the L1 norm: the slope of -ln w is
    (rate - d bend) / (1 - bend t) before and (rate + d bend) / (1 + bend t) after.
    """

    rate: Fraction
    bend: Fraction
    width: int

    @property
    def turns(self) -> Fraction:
        """m = rate / bend."""
        return self.rate / self.bend

    @property
    def edge(self) -> Fraction:
        """bend t0 = d / m."""
        return self.width / self.turns

    def joint(self) -> arb:
        """What the outer power is multiplied by to meet the inner one at t0."""
        m, edge, d = exact_ball(self.turns), exact_ball(self.edge), self.width
        return (1 - edge) ** (m - d) * (1 + edge) ** (m + d)

    def outer_share(self) -> arb:
        """The integral of t^(d - 1) times the outer power over that of the inner one, without t0.

        The one goes over all t > 0, the other up to 1 / bend; they are beta functions, whose
        quotient is m (m - 1) ... (m - d + 1) / (m (m + 1) ... (m + d - 1)).
        """
        quotient = Fraction(1)
        for i in range(self.width):
            quotient *= (self.turns - i) / (self.turns + i)
        return self.joint() * exact_ball(quotient)

    @cached_property
    def near_outer_share(self) -> float:
        """The same in doubles, from an enclosure of 128 bits, whatever precision is set."""
        with ctx.workprec(128):
            return float(self.outer_share())

    def beyond(self, x: arb, times: int | None = None) -> arb:
        """bend^n times the integral of (t - x)^(n - 1) w(t) over t >= x, for x >= 0, 1 <= n <= d.

        n is `times`, or d.  Inner part: with t = x + (1 - bend x) s / bend it is an incomplete beta
        function of (n, m - d + 1); outer part: with t = x + (1 + bend x) s / ((1 - s) bend) one of
        (n, m + d - n).  Where x is at the edge both ways to write it agree.
        """
        m, edge, d = exact_ball(self.turns), exact_ball(self.edge), self.width
        n = d if times is None else times
        less, y = d - n, exact_ball(self.bend) * x
        outer = arb(n).gamma() * (m + less).gamma() / (m + d).gamma()
        if not y < edge:
            return self.joint() * (1 + y) ** (-m - less) * outer
        inner = ((edge - y) / (1 - y)).beta_lower(n, m - d + 1)
        outer -= ((edge - y) / (1 + edge)).beta_lower(n, m + less)
        outer *= self.joint() * (1 + y) ** (-m - less)
        return (1 - y) ** (m - less) * inner + outer

    def near_tail(self, x: Array) -> Array:
        """The chance that one number is at least x >= 0, in doubles."""
        from scipy.special import betainc

        m, d, edge = float(self.turns), self.width, float(self.edge)
        y, outside = float(self.bend) * x, self.near_outer_share
        gap, low = np.maximum(edge - y, 0.0), np.minimum(y, edge)
        inner = (1 - low) ** m * betainc(d, m - d + 1, gap / (1 - low))
        outer = outside * (1 + y) ** -m * (1 - betainc(d, m, gap / (1 + edge)))
        total = betainc(d, m - d + 1, edge) + outside * (1 - betainc(d, m, edge / (1 + edge)))
        tail: Array = (inner + outer) / total / 2
        return tail

    def near_norm_tail(self, t: Array) -> Array:
        """The chance that the norm is at least t >= 0, in doubles.

        Inside s = bend t is a beta number of (d, m - d + 1), outside s / (1 - s) = bend t one of
        (d, m).
        """
        from scipy.special import betainc

        m, d, edge = float(self.turns), self.width, float(self.edge)
        y, outside = float(self.bend) * t, self.near_outer_share
        whole = betainc(d, m - d + 1, edge)
        inner = whole - betainc(d, m - d + 1, np.minimum(y, edge))
        outer = outside * betainc(m, d, 1 / (1 + np.maximum(y, edge)))
        tail: Array = (inner + outer) / (whole + outside * betainc(m, d, 1 / (1 + edge)))
        return tail

    def norm_moment(self, n: int) -> arb:
        """E[t^n], t the norm, for n < m."""
        m, edge, d = exact_ball(self.turns), exact_ball(self.edge), self.width

        def integral(s: int) -> arb:
            """bend^s times the integral of t^(s - 1) w(t)."""
            inner = edge.beta_lower(s, m - d + 1)
            rest = m + d - s
            whole = arb(s).gamma() * rest.gamma() / (m + d).gamma()
            return inner + self.joint() * (whole - (edge / (1 + edge)).beta_lower(s, rest))

        return integral(d + n) / integral(d) / exact_ball(self.bend) ** n


@dataclass(frozen=True, eq=False)
class ShareOfNorm:
    """The norm times a number W from 0 to 1 that does not depend on it, in doubles.

    `chances` are those of W on a grid, to whose next number it is moved up.
    """

    shape: VectorRadialShape
    chances: Array

    @classmethod
    def of(cls, shape: VectorRadialShape, within: Callable[[Array], Array]) -> ShareOfNorm:
        """For the law of W: `within` says how likely it is at most some numbers."""
        upto = within(cls.grid())
        upto[-1] = 1.0
        return cls(shape, np.diff(upto, prepend=0.0))

    @staticmethod
    def grid() -> Array:
        """What W may be."""
        return np.linspace(0, 1, _SHARES + 1)[1:]

    def tail(self, z: Array) -> Array:
        """The chance of z or more, or a little above it."""
        found: Array = self.shape.near_norm_tail(z[:, None] / self.grid()) @ self.chances
        return found


def signed_within(d: int, share: Array) -> Array:
    """The chance that the size of the sum of d numbers is at most a share of their L1 norm.

    For a law of the norm alone: with i numbers above 0, which i of d are with the chance
    binomial(d, i) / 2^d, their share B of the norm is a beta number of (i, d - i), and the sum is
    2 B - 1 of it; all of it where i is 0 or d.
    """
    from scipy.special import betainc

    found = np.zeros_like(share)
    for i in range(1, d):
        inside = betainc(i, d - i, (1 + share) / 2) - betainc(i, d - i, (1 - share) / 2)
        found += comb(d, i) / 2**d * inside
    return np.where(share < 1, found, 1.0)


class NearSizes(NamedTuple):
    """Tries of numbers of the radial law in doubles: a row per number, a column per try.

    `off` is what a size may be off by, `accepted` which tries count, `doubt` where it is not sure.
    """

    sizes: Array
    off: Array
    signs: Whole
    accepted: Flags
    doubt: Flags


def near_sizes(shape: VectorRadialShape, words: Words) -> NearSizes:
    """Sizes and signs of all numbers, in units of 1 / bend; a try takes 1 + d uniform numbers.

    Recipe: the inner or the outer power, each with the mass it has without the edge t0; signs; and
    sizes z_i in units of 1 / bend, with base_0 = 1 and base_i = base_(i-1) + z_i = base_(i-1)
    U^(-1 / (m + i - 1)) outside, base_i = base_(i-1) - z_i = base_(i-1) U^(1 / (m - i + 1)) inside;
    so that together they have the density of that power.  Accepted if the norm
    |base_d - 1| lies on its side of the edge d / m.

    In doubles a logarithm of U >= 2^-20 is known to within 1.2 2^-42, so that a base is known to
    within the share `loose` = d 2^-40 / (m - d + 1) + 2^-48 of itself, and z to within twice that
    share of the greater base.
    """
    d, m, edge = shape.width, float(shape.turns), float(shape.edge)
    loose = d * 2.0**-40 / (m - d + 1) + 2.0**-48
    outer = shape.near_outer_share
    gap = near(words[0]) - outer / (1 + outer)
    side = np.where(gap < 0, 1.0, -1.0)
    uniform, signs = halves(words[1:])
    steps = -np.log(np.maximum(uniform, _LEAST)) / (side * m + np.arange(d)[:, None])
    bases = np.exp(np.cumsum(steps, axis=0))
    before = np.concatenate([np.ones((1, words.shape[1])), bases[:-1]])
    over = bases[-1] - (1 + side * edge)
    doubt = coarse(uniform).any(axis=0) | (np.abs(gap) < 2.0**-40)
    doubt |= np.abs(over) < 2 * loose * bases[-1]
    off = 2 * loose * np.maximum(bases, before)
    return NearSizes(np.abs(bases - before), off, signs, over > 0, doubt)


def sure_sizes(shape: VectorRadialShape, uniforms: Sequence[arb]) -> list[tuple[int, arb]] | None:
    """Signs and sizes of one try in interval arithmetic; None if it is rejected."""
    m, share = exact_ball(shape.turns), shape.outer_share()
    side = 1 if sure_less(uniforms[0], share / (1 + share)) else -1
    base, sizes = arb(1), []
    for i, given in enumerate(uniforms[1:]):
        uniform, sign = sure_halves(given)
        after = base * (-uniform.log() / (side * m + i)).exp()
        sizes.append((sign, side * (after - base)))
        base = after
    return None if sure_less(base, 1 + side * exact_ball(shape.edge)) else sizes


@dataclass(frozen=True, eq=False)
class RoundedVectorRadial:
    """scale Z, each number rounded to the nearest whole one; Z of the radial density of vectors.

    Recipe: `near_sizes` has it.
    """

    scales: Scales
    shape: VectorRadialShape

    @property
    def width(self) -> int:
        """d."""
        return self.shape.width

    @property
    def uniforms(self) -> int:
        """One for the power, and one for each number."""
        return self.width + 1

    def fast(self, words: Words, groups: NDArray[np.intp]) -> tuple[Whole, NDArray[np.int8]]:
        """Rows and verdicts."""
        found = near_sizes(self.shape, words)
        unit = self.scales.near(groups) / float(self.shape.bend)
        values = unit * found.sizes
        wholes = np.rint(values)
        error = unit * found.off + values * 2.0**-48
        doubt = found.doubt | (~(0.5 - np.abs(values - wholes) >= error)).any(axis=0)
        rows = found.signs * np.where(doubt, 0.0, wholes).astype(np.int64)
        return rows.T, verdicts_of(found.accepted, doubt)

    def slow(self, uniforms: Sequence[arb], group: int) -> Row | None:
        """The same in interval arithmetic."""
        found = sure_sizes(self.shape, uniforms)
        if found is None:
            return None
        unit = exact_ball(self.scales.of(group) / self.shape.bend)
        return tuple(sign * sure_round(unit * size) for sign, size in found)

    def tail(self, value: int, group: int) -> arb:
        """The chance that one number is at least `value`, for value >= 1."""
        x = (arb(value) - arb("0.5")) / exact_ball(self.scales.of(group))
        return self.shape.beyond(x) / self.shape.beyond(arb(0)) / 2

    def pmf(self, noise: Sequence[int], group: int) -> arb:
        """The chance of a row of noise: w integrated over the cube that is rounded to it.

        In the sizes alone that is a box, and `beyond` is (d - 1)! times the integral of w over all
        sizes from a corner on; differences over the corners give the box.  A number that is 0 has
        the sizes below 1/2, and both signs, any other one sign.
        """
        away = [abs(k) for k in noise if k]
        zeros, others = len(noise) - len(away), len(away)
        with ctx.workprec(ctx.prec + self.width * (16 + sum(away).bit_length())):
            total, scale = arb(0), exact_ball(self.scales.of(group))
            for i in range(others + 1):
                for j in range(zeros + 1):
                    corner = arb(2 * sum(away) - others + 2 * i + j) / 2 / scale
                    ways = comb(others, i) * comb(zeros, j) * (-1) ** (i + j)
                    total += ways * self.shape.beyond(corner)
            # of all sizes, a number that is not 0 has those of one sign
            chance = total / self.shape.beyond(arb(0)) / arb(2) ** others
        return +chance
