"""Noise on the lattice of integer vectors whose weight falls like a power of the L1 norm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import comb, log

import numpy as np
from flint import arb, ctx, fmpq, fmpq_poly
from numpy.typing import NDArray

from eree.mechanisms.scaled.distributions import Scales
from eree.random.exact import (
    Array,
    Integers,
    Row,
    Words,
    coarse,
    exact_ball,
    halves,
    near,
    near_choice,
    sure_choice,
    sure_floor,
    sure_halves,
    sure_less,
    verdicts_of,
)

#: Uniform numbers below this are left to the slow path; in doubles they must only stay finite.
_LEAST = 2.0**-20


@dataclass(frozen=True, eq=False)
class VectorLatticePareto:
    """P(k) proportional to (1 + |k|_1 / a)^-p on the integer vectors of a width d, a = S / c.

    Recipe: how many numbers j are not 0, with probabilities proportional to

        e_j = binomial(d, j) (2 a)^j / ((p - 1) ... (p - j)) (1 + j / (2 a))^(j - p);

    which; for each of those a sign and a size y >= 1/2, such that together the sizes have the
    density proportional to (1 + sum / a)^-p, rounded to a whole k; and a rejection.  With the
    i-th size 1/2 + z_i and base_i = a + j / 2 + z_1 + ... + z_i, base_i / base_(i-1) is
    U^(-1 / (p - j + i - 1)).  e_j is the integral of that density times the ways to choose numbers
    and signs.  With Y and K the sums of y and k, a row is accepted with the probability

        2 w(K) / (w(Y) + w(2 K - Y)),

    at most 1 as w is convex.  Averaged over the cube of the y that round to k, in which y and
    2 k - y are mirror images, density times probability is w(K): exactly the probability of k.

    In doubles, the logarithms ln(base_i) - ln(base_0) add up logarithms of U >= 2^-20, each known
    to within 1.2 2^-42, so that a base is known to within the share `loose` = d 2^-40 / (p - d) +
    2^-48 of itself, z to within twice that share of its base, (Y - K) / (a + K), which is below
    1/2, to within 3 d `loose` + 2^-50, and the probability to accept to within 2 p times that and
    its own rounding; ln(e_j) to within p 2^-52 and 2^-50 of the sizes of what it is made of.
    """

    scales: Scales  # its factor is 1 / c, so that a scale is a
    power: Fraction
    width: int

    @property
    def uniforms(self) -> int:
        """One for j, one to accept, and for each number whether it is 0 and its size."""
        return 2 * self.width + 2

    def fast(self, words: Words, groups: NDArray[np.intp]) -> tuple[Integers, NDArray[np.int8]]:
        """Rows and verdicts."""
        d, p = self.width, float(self.power)
        loose = d * 2.0**-40 / float(self.power - d) + 2.0**-48
        a = self.scales.near(groups)
        others, doubt = self._others(words[0], a)
        chosen, unsure = near_choice(words[2 : 2 + d], others)
        uniform, sign = halves(words[2 + d :])
        before: Array = np.cumsum(chosen, axis=0) - chosen  # how many were chosen before each
        steps = -np.log(np.maximum(uniform, _LEAST)) / (p - others + before)
        bases = (a + others / 2) * np.exp(np.cumsum(steps * chosen, axis=0))
        z = np.diff(bases, axis=0, prepend=[a + others / 2])
        sizes = np.floor(z)
        close = np.abs(z - np.rint(z)) < bases * (2 * loose)
        doubt |= unsure | ((close | coarse(uniform)) & chosen).any(axis=0)
        off = ((z - sizes - 0.5) * chosen).sum(axis=0)
        sizes = (sizes + 1) * chosen
        share = off / (a + sizes.sum(axis=0))
        mirrored = [np.exp(np.minimum(-p * np.log(1 + s), 700.0)) for s in (share, -share)]
        gap = near(words[1]) - 2 / (mirrored[0] + mirrored[1])
        doubt |= np.abs(gap) < p * (8 * d * loose + 2.0**-46) + 2.0**-46
        rows = sign * np.where(doubt, 0.0, sizes).astype(np.int64)
        return rows.T, verdicts_of(gap < 0, doubt)

    @cached_property
    def _ways(self) -> Array:
        """ln(binomial(d, j) / ((p - 1) ... (p - j))) for all j."""
        steps = [log(self.width - j + 1) - log(j * (self.power - j)) for j in self._counts[1:]]
        return np.cumsum([0.0, *steps])[:, None]

    @property
    def _counts(self) -> range:
        return range(self.width + 1)

    def _others(self, word: Words, a: Array) -> tuple[Array, NDArray[np.bool_]]:
        """How many numbers are not 0, and where that is in doubt."""
        j, p, wide = np.array(self._counts)[:, None], float(self.power), np.log(2 * a)
        logs = self._ways + j * wide - (p - j) * np.log(1 + j / (2 * a))
        ends = np.cumsum(np.exp(logs - logs.max(axis=0)), axis=0)
        total = ends[-1]
        size = np.abs(self._ways).max() + self.width * (np.abs(wide) + 4)
        size += p * (1 + np.log(1 + self.width / (2 * a)))
        gaps = near(word) * total - ends[:-1]
        doubt = (np.abs(gaps) < total * (size * 2.0**-48)).any(axis=0)
        return (gaps >= 0).sum(axis=0).astype(np.float64), doubt

    def slow(self, uniforms: Sequence[arb], group: int) -> Row | None:
        """The same in interval arithmetic."""
        d, a, p = self.width, exact_ball(self.scales.of(group)), exact_ball(self.power)
        others = self._sure_others(uniforms[0], a, p)
        base, row, norm, before = a + arb(others) / 2, [0] * d, 0, 0
        chosen = sure_choice(uniforms[2 : 2 + d], others)
        for i in (i for i in range(d) if chosen[i]):
            uniform, sign = sure_halves(uniforms[2 + d + i])
            z = base * (-uniform.log() / (p - others + before)).expm1()
            size = sure_floor(z) + 1
            row[i], norm, base, before = sign * size, norm + size, base + z, before + 1
        share = (base - a - norm) / (a + norm)
        bar = 2 / ((1 + share) ** (-p) + (1 - share) ** (-p))
        return tuple(row) if others == 0 or sure_less(uniforms[1], bar) else None

    def _sure_others(self, uniform: arb, a: arb, p: arb) -> int:
        """How many numbers are not 0."""
        ends, product = [arb(1)], arb(1)
        for j in range(1, self.width + 1):
            product *= arb(2 * (self.width - j + 1)) / j * a / (p - j)
            ends.append(ends[-1] + product * (1 + arb(j) / (2 * a)) ** (j - p))
        place = uniform * ends[-1]
        return sum(1 for end in ends[:-1] if not sure_less(place, end))

    def tail(self, value: int, group: int) -> arb:
        """The probability that one number is at least `value`, for value >= 1.

        The others have a norm of at most n in as many ways as there are such points.
        """
        return _tail(self.width, value, self.scales.of(group), self.power, ctx.prec)

    def pmf(self, noise: Sequence[int], group: int) -> arb:
        """The probability of a row of noise."""
        a = self.scales.of(group)
        weight = exact_ball(1 + sum(map(abs, noise)) / a) ** exact_ball(-self.power)
        return weight / whole(self.width, a, self.power)

    def moments(self, group: int) -> tuple[arb, arb | None]:
        """E|k| and E[k^2] of one number; None where it is infinite.

        The norms of all d together are d E|k|.  k^2 is the sum of 2 i - 1 over i <= |k|, and the
        others have a norm of at most m - i in binomial(d - 1, j) 2^j binomial(m - i, j) ways.
        """
        d, a, p = self.width, self.scales.of(group), self.power
        total = whole(d, a, p)
        mean = weighted_sum(points_at(d) * fmpq_poly([0, 1]), 1, a, p) / total / d
        if p <= d + 2:
            return mean, None
        squares = fmpq_poly([0])
        for j in range(d):
            twice = 2 * ways(j + 2)(fmpq_poly([1, 1])) - ways(j + 1)
            squares += comb(d - 1, j) * 2**j * twice
        return mean, 2 * weighted_sum(squares, 1, a, p) / total


@lru_cache
def ways(j: int) -> fmpq_poly:
    """The polynomial binomial(n, j) in n."""
    polynomial = fmpq_poly([1])
    for i in range(j):
        polynomial *= fmpq_poly([fmpq(-i, i + 1), fmpq(1, i + 1)])
    return polynomial


@lru_cache
def points_within(d: int) -> fmpq_poly:
    """How many integer vectors of width d have an L1 norm of at most n: a polynomial in n >= 0.

    With j numbers that are not 0, whose sizes are at least 1 and add up to at most n, there are
    binomial(n, j) sizes and 2^j signs.
    """
    polynomial = fmpq_poly([0])
    for j in range(d + 1):
        polynomial += comb(d, j) * 2**j * ways(j)
    return polynomial


def points_at(d: int) -> fmpq_poly:
    """How many integer vectors of width d have the L1 norm m: a polynomial in m >= 1."""
    within = points_within(d)
    return within - within(fmpq_poly([-1, 1]))


def weighted_sum(polynomial: fmpq_poly, start: int, a: Fraction, power: Fraction) -> arb:
    """The sum of polynomial(m) (1 + m / a)^-power over the integers m >= start.

    In y = a + m it is that of a polynomial in y times (y / a)^-power: zeta functions.  They are
    nearly equal, so it takes more bits.
    """
    degree, size = polynomial.degree(), int(min(a + start, power)).bit_length()
    shifted = polynomial(fmpq_poly([fmpq(-a.numerator, a.denominator), 1]))
    with ctx.workprec(ctx.prec + (degree + 2) * (size + 3)):
        y, p = exact_ball(a + start), exact_ball(power)
        parts = [arb(factor) * (p - i).zeta(y) for i, factor in enumerate(shifted.coeffs())]
        total = sum(parts, arb(0)) * exact_ball(a) ** p
    return +total


def whole(d: int, a: Fraction, power: Fraction) -> arb:
    """The sum of the weights of all integer vectors of width d."""
    return _whole(d, a, power, ctx.prec)


# The precision that is set is part of what was computed.


@lru_cache(maxsize=4096)
def _whole(d: int, a: Fraction, power: Fraction, _bits: int) -> arb:
    return 1 + weighted_sum(points_at(d), 1, a, power)


@lru_cache(maxsize=4096)
def _tail(d: int, value: int, a: Fraction, power: Fraction, _bits: int) -> arb:
    within = points_within(d - 1)(fmpq_poly([-value, 1]))
    return weighted_sum(within, value, a, power) / whole(d, a, power)
