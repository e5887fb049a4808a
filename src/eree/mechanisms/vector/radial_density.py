"""Radial noise of vectors: a density of two powers of the L1 norm, rounded number by number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from math import comb
from operator import mul

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from eree.mechanisms.scaled.distributions import Scales
from eree.random.exact import (
    Array,
    Flags,
    Integers,
    Row,
    Words,
    coarse,
    exact_ball,
    halves,
    near,
    sure_halves,
    sure_less,
    sure_round,
    verdicts_of,
)

#: Uniform numbers below this are left to the slow path; in doubles they must only stay finite.
_LEAST = 2.0**-20
#: A share of the norm is rounded up to the next of these.
_SHARES = np.linspace(0, 1, 513)[1:]


@dataclass(frozen=True)
class VectorRadialShape:
    """w(t) = (1 - curve t)^(m - d) up to t0 = d / rate, then falling like (1 + curve t)^-(m + d).

    m = rate / curve > d, d the width, t the L1 norm: the slope of -ln w is
    (rate - d curve) / (1 - curve t) before and (rate + d curve) / (1 + curve t) after.
    """

    rate: Fraction
    curve: Fraction
    width: int

    @cached_property
    def turns(self) -> Fraction:
        """m = rate / curve."""
        return self.rate / self.curve

    @cached_property
    def edge(self) -> Fraction:
        """curve t0 = d / m."""
        return self.width / self.turns

    def joint(self) -> arb:
        """What the outer power is multiplied by to meet the inner one at t0."""
        m, edge, d = exact_ball(self.turns), exact_ball(self.edge), self.width
        return (1 - edge) ** (m - d) * (1 + edge) ** (m + d)

    def outer_share(self) -> arb:
        """The integral of t^(d - 1) times the outer power over that of the inner one, without t0.

        The one goes over all t > 0, the other up to 1 / curve; they are beta functions, whose
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

    def weight(self, t: arb) -> arb:
        """w(t), t >= 0."""
        m, d, y = exact_ball(self.turns), self.width, exact_ball(self.curve) * t
        if y < exact_ball(self.edge):
            return (1 - y) ** (m - d)
        return self.joint() * (1 + y) ** (-m - d)

    def tail_integral(self, x: arb) -> arb:
        """curve^d times the integral of (t - x)^(d - 1) w(t) over t >= x, for x >= 0.

        Inner part: with t = x + (1 - curve x) s / curve it is an incomplete beta function of
        (d, m - d + 1); outer part: with t = x + (1 + curve x) s / ((1 - s) curve) one of (d, m).
        Where x is at the edge both ways to write it agree.
        """
        m, edge, d = exact_ball(self.turns), exact_ball(self.edge), self.width
        y = exact_ball(self.curve) * x
        outer = arb(d).gamma() * m.gamma() / (m + d).gamma()
        if not y < edge:
            return self.joint() * (1 + y) ** (-m) * outer
        inner = ((edge - y) / (1 - y)).beta_lower(d, m - d + 1)
        outer -= ((edge - y) / (1 + edge)).beta_lower(d, m)
        outer *= self.joint() * (1 + y) ** (-m)
        return (1 - y) ** m * inner + outer

    def tail_integrals(self, x: arb, last: int) -> list[arb]:
        """curve^n times the integral of (t - x)^(n - 1) w(t) over t >= x, n from 1 to `last`.

        With e = curve t0 or y = curve x where that is more, the growth of (t - x)^n (1 + curve
        t)^(1 - m - d) beyond, and of (t - x)^n (1 - curve t)^(m - d + 1) before, ties n + 1 to n:
        (m + d - 1 - n) outer_(n+1) = n (1 + y) outer_n + (e - y)^n (1 + e)^(1 - m - d) joint, and
        n (1 - y) inner_n = (m - d + 1 + n) inner_(n+1) + (e - y)^n (1 - e)^(m - d + 1), of which no
        term is below 0; the last inner one is an incomplete beta function.
        """
        m, edge, d = exact_ball(self.turns), exact_ball(self.edge), self.width
        y, power = exact_ball(self.curve) * x, m - d + 1
        inside = bool(y < edge)
        e, gap = (edge, edge - y) if inside else (y, arb(0))
        gaps = [*accumulate([gap] * (last - 1), mul)]
        end = self.joint() * (1 + e) ** (1 - m - d)
        outer = [end / (m + d - 1)]
        for n, power_of_gap in enumerate(gaps, 1):
            outer.append((n * (1 + y) * outer[-1] + power_of_gap * end) / (m + d - 1 - n))
        if not inside:
            return outer
        first = (1 - y) ** (power + last - 1) * (gap / (1 - y)).beta_lower(last, power)
        inner, end = [first], (1 - e) ** power
        for n in reversed(range(1, last)):
            inner.append(((power + n) * inner[-1] + gaps[n - 1] * end) / (n * (1 - y)))
        return [a + b for a, b in zip(reversed(inner), outer, strict=True)]

    def near_tail_integral(self, x: Array, n: Integers | int) -> Array:
        """The same for some n in doubles, in units of the beta function of (d, m - d + 1)."""
        from scipy.special import betainc, betaln

        m, d, edge = float(self.turns), self.width, float(self.edge)
        y, rest = float(self.curve) * x, m + d - n
        gap, low = np.maximum(edge - y, 0.0), np.minimum(y, edge)
        inner = np.exp(betaln(n, m - d + 1) - betaln(d, m - d + 1)) * (1 - low) ** (m - d + n)
        outer = np.exp(betaln(n, rest) - betaln(d, m)) * self.near_outer_share * (1 + y) ** -rest
        found: Array = inner * betainc(n, m - d + 1, gap / (1 - low))
        found += outer * (1 - betainc(n, rest, gap / (1 + edge)))
        return found

    def near_tail(self, x: Array) -> Array:
        """The probability that one number is at least x >= 0, in doubles."""
        d = self.width
        tail: Array = self.near_tail_integral(x, d) / self.near_tail_integral(np.zeros(1), d) / 2
        return tail

    def near_norm_tail(self, t: Array) -> Array:
        """The probability that the norm is at least t >= 0, in doubles.

        Inside s = curve t is a beta number of (d, m - d + 1), outside s / (1 - s) = curve t one of
        (d, m).
        """
        from scipy.special import betainc

        m, d, edge = float(self.turns), self.width, float(self.edge)
        y, outside = float(self.curve) * t, self.near_outer_share
        whole = betainc(d, m - d + 1, edge)
        inner = whole - betainc(d, m - d + 1, np.minimum(y, edge))
        outer = outside * betainc(m, d, 1 / (1 + np.maximum(y, edge)))
        tail: Array = (inner + outer) / (whole + outside * betainc(m, d, 1 / (1 + edge)))
        return tail

    def near_sum_tail(self, z: Array) -> Array:
        """The probability that the size of the sum is at least z, or a little above it.

        The sum is a share of the norm that does not depend on the norm.
        """
        found: Array = self.near_norm_tail(z[:, None] / _SHARES) @ self._share_probabilities
        return found

    @cached_property
    def _share_probabilities(self) -> Array:
        """Probabilities of the size of the sum over the norm, moved up to the next of the shares.

        With i numbers above 0, which i of d are with the probability binomial(d, i) / 2^d, their
        part B of the norm is a beta number of (i, d - i), and the sum is 2 B - 1 of it; all of it
        where i is 0 or d.
        """
        from scipy.special import betainc

        d, within = self.width, np.zeros_like(_SHARES)
        for i in range(1, d):
            inside = betainc(i, d - i, (1 + _SHARES) / 2) - betainc(i, d - i, (1 - _SHARES) / 2)
            within += comb(d, i) / 2**d * inside
        within[-1] = 1.0
        return np.diff(within, prepend=0.0)

    def norm_moment(self, n: int) -> arb:
        """E[t^n], t the norm, for n < m."""
        m, edge, d = exact_ball(self.turns), exact_ball(self.edge), self.width

        def integral(s: int) -> arb:
            """curve^s times the integral of t^(s - 1) w(t)."""
            inner = edge.beta_lower(s, m - d + 1)
            rest = m + d - s
            whole = arb(s).gamma() * rest.gamma() / (m + d).gamma()
            return inner + self.joint() * (whole - (edge / (1 + edge)).beta_lower(s, rest))

        return integral(d + n) / integral(d) / exact_ball(self.curve) ** n


@dataclass(frozen=True, eq=False)
class NearBases:
    """Bases 1 = base_0, base_1, ... of tries in doubles, and what is known of each try.

    A base is known to within the share `loose` of itself, and none is above `top`.
    """

    bases: Array
    signs: Integers
    loose: float
    accepted: Flags
    doubt: Flags

    @property
    def top(self) -> Array:
        """The greatest base of each try."""
        top: Array = np.maximum(self.bases[-1], 1.0)
        return top

    def at(self, tries: NDArray[np.intp]) -> NearBases:
        """Some of the tries."""
        some = (self.bases[:, tries], self.signs[:, tries])
        return NearBases(*some, self.loose, self.accepted[tries], self.doubt[tries])


def near_bases(shape: VectorRadialShape, words: Words) -> NearBases:
    """Sums of sizes z_1, z_2, ... whose density falls with their sum as a part of w does.

    Recipe: the inner or the outer power, each with the mass it has without the edge t0; signs; and
    sizes z_i in units of 1 / curve, with base_0 = 1 and base_i = base_(i-1) + z_i = base_(i-1)
    U^(-1 / (m + i - 1)) outside, base_i = base_(i-1) - z_i = base_(i-1) U^(1 / (m - i + 1)) inside;
    so that n of them have the density (1 + sum)^-(m + n), or (1 - sum)^(m - n).  Accepted if the
    last base, 1 and the sum, lies on its side of the edge d / m.  For n = d that is w itself, and
    for n = d + 1 it is -w', whose masses without the edge have the same quotient.

    In doubles a logarithm of U >= 2^-20 is known to within 1.2 2^-42, so that a base is known to
    within the share `loose` of itself: 2^-48, and 2^-40 / (m - i + 1) for each of the n.
    """
    n, m, edge = len(words) - 1, float(shape.turns), float(shape.edge)
    loose = 2.0**-40 * _turns(shape, n) + 2.0**-48
    outer = shape.near_outer_share
    gap = near(words[0]) - outer / (1 + outer)
    side = np.where(gap < 0, 1.0, -1.0)
    uniform, signs = halves(words[1:])
    steps = -np.log(np.maximum(uniform, _LEAST)) / (side * m + np.arange(n)[:, None])
    bases = np.exp(np.cumsum(steps, axis=0))
    over = bases[-1] - (1 + side * edge)
    doubt = coarse(uniform).any(axis=0) | (np.abs(gap) < 2.0**-40)
    doubt |= np.abs(over) < 2 * loose * bases[-1]
    bases = np.concatenate([np.ones((1, words.shape[1])), bases])
    return NearBases(bases, signs, loose, over > 0, doubt)


@lru_cache(maxsize=256)
def _turns(shape: VectorRadialShape, n: int) -> float:
    """The sum of 1 / (m - i) over the first n of i."""
    return sum(1 / float(shape.turns - i) for i in range(n))


def sure_bases(
    shape: VectorRadialShape, uniforms: Sequence[arb]
) -> tuple[list[arb], list[int]] | None:
    """The same bases and signs in interval arithmetic; None where they are not accepted."""
    m, share = exact_ball(shape.turns), shape.outer_share()
    side = 1 if sure_less(uniforms[0], share / (1 + share)) else -1
    bases, signs = [arb(1)], []
    for i, given in enumerate(uniforms[1:]):
        uniform, sign = sure_halves(given)
        bases.append(bases[-1] * (-uniform.log() / (side * m + i)).exp())
        signs.append(sign)
    return None if sure_less(bases[-1], 1 + side * exact_ball(shape.edge)) else (bases, signs)


@dataclass(frozen=True, eq=False)
class RoundedVectorRadial:
    """scale Z, each number rounded to the nearest whole one; Z of the radial density of vectors.

    Recipe: d bases and signs; a size is the distance of two bases, known in doubles to within twice
    the share `loose` of the greater one.
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

    def fast(self, words: Words, groups: NDArray[np.intp]) -> tuple[Integers, NDArray[np.int8]]:
        """Rows and verdicts."""
        found = near_bases(self.shape, words)
        before, after = found.bases[:-1], found.bases[1:]
        unit = self.scales.near(groups) / float(self.shape.curve)
        values = unit * np.abs(after - before)
        wholes = np.rint(values)
        error = (2 * found.loose * unit) * np.maximum(after, before) + values * 2.0**-48
        doubt = found.doubt | (~(0.5 - np.abs(values - wholes) >= error)).any(axis=0)
        rows = found.signs * np.where(doubt, 0.0, wholes).astype(np.int64)
        return rows.T, verdicts_of(found.accepted, doubt)

    def slow(self, uniforms: Sequence[arb], group: int) -> Row | None:
        """The same in interval arithmetic."""
        found = sure_bases(self.shape, uniforms)
        if found is None:
            return None
        unit = exact_ball(self.scales.of(group) / self.shape.curve)
        sizes = [abs(after - before) for before, after in pairwise(found[0])]
        return tuple(sign * sure_round(unit * z) for sign, z in zip(found[1], sizes, strict=True))

    def tail(self, value: int, group: int) -> arb:
        """The probability that one number is at least `value`, for value >= 1."""
        x = (arb(value) - arb("0.5")) / exact_ball(self.scales.of(group))
        return self.shape.tail_integral(x) / self.shape.tail_integral(arb(0)) / 2

    def pmf(self, noise: Sequence[int], group: int) -> arb:
        """The probability of a row of noise: w integrated over the cube that is rounded to it.

        In the sizes alone that is a box, and `tail_integral` is (d - 1)! times the integral of w
        over all sizes from a corner on; differences over the corners give the box.  A number that
        is 0 has the sizes below 1/2, and both signs, any other one sign.
        """
        away = [abs(k) for k in noise if k]
        zeros, others = len(noise) - len(away), len(away)
        with ctx.workprec(ctx.prec + self.width * (16 + sum(away).bit_length())):
            total, scale = arb(0), exact_ball(self.scales.of(group))
            for further in range(2 * others + zeros + 1):  # in halves: 2 i + j
                ways = sum(
                    comb(others, i) * comb(zeros, further - 2 * i) * (-1) ** (further - i)
                    for i in range(min(others, further // 2) + 1)
                )
                corner = arb(2 * sum(away) - others + further) / 2 / scale
                total += ways * self.shape.tail_integral(corner)
            # of all sizes, a number that is not 0 has those of one sign
            probability = total / self.shape.tail_integral(arb(0)) / arb(2) ** others
        return +probability
