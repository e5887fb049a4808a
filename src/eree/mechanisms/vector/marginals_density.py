"""Radial noise of several marginals of the same workers: the ball of their norm, and its numbers.

A group's workers are counted by K attributes; the k-th marginal is a block of v_k counts.  All
blocks have one sum, so the stacked counts lie in a space of D = 1 + sum(v_k - 1) dimensions.  A
worker who joins adds 1 to one count of each block.  The convex hull of these steps and their
opposites is the ball N(z) <= 1 of the norm N(z) = max_k |z_k|, |z_k| the L1 norm of a block: a
point of the ball has blocks z_k = p mu_k - q nu_k, p + q = 1, with distributions mu_k and nu_k of
the values (what |z_k| lacks of 1 is added to both sides alike), and so it is p times a mean of
steps, by the product of the mu_k, less q times another one.

The volume of the part of a block of v values with the sum t is, n = v - 1,

    V_v(t) = sum over i of binomial(2 i, i) binomial(n, 2 i) ((1 - t^2) / 4)^i / n!,

t^n P_n(1 / t) / n! with the Legendre polynomial P_n: `marginals_sampling` has the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import comb, factorial

import numpy as np
from flint import arb, fmpq, fmpq_poly

from eree.mechanisms.vector.radial_density import VectorRadialShape
from eree.random.exact import Array, exact_ball

Blocks = tuple[int, ...]


def dimensions_of(blocks: Blocks) -> int:
    """D."""
    return 1 + sum(v - 1 for v in blocks)


def _slices(blocks: Blocks) -> fmpq_poly:
    """The product of the V_v(t), as a polynomial in (1 - t^2) / 4."""
    product = fmpq_poly([1])
    for n in (v - 1 for v in blocks):
        powers = [comb(2 * i, i) * comb(n, 2 * i) for i in range(n // 2 + 1)]
        product *= fmpq_poly(powers) / factorial(n)
    return product


def _total_density(blocks: Blocks) -> fmpq_poly:
    """The product of the V_v(t): the coefficient of E^j is that of t^(D - 1 - j) (1 - t)^j.

    With E = (1 - t) / t, (1 - t^2) / 4 over t^2 is E (2 + E) / 4, and 1 / t is 1 + E.
    """
    free = dimensions_of(blocks) - 1
    terms = enumerate(_slices(blocks).coeffs())
    y, one = fmpq_poly([0, fmpq(1, 2), fmpq(1, 4)]), fmpq_poly([1, 1])
    return sum((w * y**i * one ** (free - 2 * i) for i, w in terms), fmpq_poly([0]))


def _count_density(blocks: Blocks, values: int) -> fmpq_poly:
    """The same for one count x > 0 of a block of so many values: the volume of what is left.

    The others of its block have the sum t - x = (1 - x) s and a norm of at most 1 - x: with
    e = 1 - x it is e^(v - 1) times the integral over s from -1 to 1 of V_(v - 1)(s) and of the
    other blocks' V(t).  There 1 - t = e (1 - s) and 1 + t = 2 x + e (1 + s).
    """
    others = list(blocks)
    others.remove(values)
    free, found = dimensions_of(tuple(others)) - 1, fmpq_poly([0])
    own = _slices((values - 1,)).coeffs()
    for i, w in enumerate(_slices(tuple(others)).coeffs()):
        for r in range(i + 1):  # the powers of e (1 + s) and of 2 x
            integral = sum(
                u * 2 * fmpq(factorial(i + m) * factorial(r + m), factorial(i + r + 2 * m + 1))
                for m, u in enumerate(own)
            )
            power = fmpq_poly([0] * (i + r) + [w * comb(i, r) * integral])
            found += power * fmpq_poly([1, 1]) ** (free - 2 * i)
    return found * fmpq_poly([0] * (values - 1) + [1])


@dataclass(frozen=True)
class RadialNumber:
    """One number Z = rho Y of the noise: a count, or their sum; Y is that of a uniform point.

    Y is as likely as -Y; it has a density of degree D - 1 on (0, 1), and rho the density
    -w'(rho) rho^D: together w of the norm.  `coefficients` are those of the density by the
    binomial(D - 1, j) x^(D - 1 - j) (1 - x)^j; none is below 0.
    """

    radial: VectorRadialShape
    coefficients: tuple[Fraction, ...]

    def mean_excess(self, x: arb, n: int) -> arb:
        """The mean of max(Z - x, 0)^n / n!, for x >= 0: for n = 0 the probability beyond x.

        For Y it is an integral of the density n + 1 times over from x to 1, a sum of terms
        x^(N - j) (1 - x)^j, N = D + n; so it is for Z a sum of terms x^(N - j) times the integral
        of (rho - x)^j -w'(rho), which is j times that of (rho - x)^(j - 1) w(rho).
        """
        radial, last = self.radial, self.radial.width + n
        y, total = exact_ball(radial.curve) * x, arb(0)
        parts = zip(_factors(self.coefficients, n), radial.tail_integrals(x, last), strict=True)
        for factor, part in parts:
            total = total * y + exact_ball(factor) * part
        whole = radial.width * radial.tail_integral(arb(0))
        return total / whole / exact_ball(radial.curve) ** n

    def near_excess(self, x: Array, n: int) -> Array:
        """The same for some x in doubles."""
        radial, last = self.radial, self.radial.width + n
        j = np.arange(1, last + 1)[:, None]
        parts = radial.near_tail_integral(x, j) * (float(radial.curve) * x) ** (last - j)
        whole = radial.width * radial.near_tail_integral(np.zeros(1), radial.width)
        factors = np.array([*map(float, _factors(self.coefficients, n))])
        excess: Array = factors @ parts / whole / float(radial.curve) ** n
        return excess


@lru_cache(maxsize=1024)
def _factors(coefficients: tuple[Fraction, ...], n: int) -> tuple[Fraction, ...]:
    """Of the terms of a mean excess, by x^(N - j) and its integral, j from 1 to N."""
    integrated = _integrated(coefficients, n + 1)
    last = len(integrated) - 1
    return tuple(comb(last, j) * j * part for j, part in enumerate(integrated) if j)


@lru_cache(maxsize=4096)
def _integrated(coefficients: tuple[Fraction, ...], times: int) -> tuple[Fraction, ...]:
    """Of the integral from x to 1, so many times over, by the same products of one degree more."""
    if times == 0:
        return coefficients
    before = _integrated(coefficients, times - 1)
    return tuple(part / len(before) for part in accumulate(before, initial=Fraction(0)))


@lru_cache(maxsize=256)
def number_of(radial: VectorRadialShape, blocks: Blocks, values: int | None) -> RadialNumber:
    """One count of a block of so many values, or the sum of a block."""
    found = _total_density(blocks) if values is None else _count_density(blocks, values)
    parts = _by_binomials(found, radial.width - 1)
    whole = 2 * _integrated(parts, 1)[-1]
    return RadialNumber(radial, tuple(part / whole for part in parts))


@lru_cache(maxsize=256)
def volume(blocks: Blocks) -> Fraction:
    """That of the ball, by the sum and all counts of each block but one."""
    parts = _by_binomials(_total_density(blocks), dimensions_of(blocks) - 1)
    return 2 * _integrated(parts, 1)[-1]


def _by_binomials(found: fmpq_poly, degree: int) -> tuple[Fraction, ...]:
    """Coefficients of a density by the binomial(degree, j) x^(degree - j) (1 - x)^j."""
    plain = [Fraction(int(c.p), int(c.q)) for c in found.coeffs()]
    plain += [Fraction(0)] * (degree + 1 - len(plain))
    return tuple(part / comb(degree, j) for j, part in enumerate(plain))
