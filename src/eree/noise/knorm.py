"""Noise whose density falls with a norm made for steps that all go up or all go down.

K is the convex hull of the cubes [0, 1]^d and [-1, 0]^d.  Its norm is |z|_K = up + down, where up
is the greatest of the z_i and down the greatest of the -z_i, each at least 0: a norm, as both are
convex.  Both cubes have |z|_K <= 1, hence so has their hull.  If up + down <= 1, z is up times a
point of the first cube, down times one of the second and the rest times 0: so it is in the hull.

The density proportional to e^-|z|_K falls apart.  With i numbers above 0 it is that of e^-up on the
i numbers and of e^-down on the others, each with the integral i! or (d - i)!; there are
binomial(d, i) such choices, which makes d! for every i: all i from 0 to d are equally likely.  And
e^-up on i numbers is a Gamma(i + 1) number times a uniform point of the cube [0, 1]^i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import comb, factorial, lgamma, prod

import numpy as np
from flint import arb, arb_poly, fmpq, fmpq_poly

from eree.noise.bent_rows import BentRows, Interval
from eree.noise.exact import Words, coarse, sure_floor
from eree.noise.rows import Array, Flags, near, near_choice, sure_choice


@lru_cache
def tail_polynomial(d: int) -> fmpq_poly:
    """The chance that one number is at least x >= 0 is e^-x times this polynomial in x.

    A number is among i above 0 with the chance i / (d (d + 1)).  It is then a Gamma(i + 1) number
    times a uniform one, with the density P(G >= x) / i, G of the law Gamma(i), whose integral from
    x on is the mean of what G exceeds x by: e^-x times the sum of (i - l) x^l / l! over l < i.
    """
    terms = [fmpq(comb(d - n + 1, 2), factorial(n) * d * (d + 1)) for n in range(d)]
    return fmpq_poly(terms)


def norm_tail(x: arb, d: int) -> arb:
    """The chance that one number is at least x >= 0."""
    powers = [arb(factor) * x**n for n, factor in enumerate(tail_polynomial(d).coeffs())]
    return (-x).exp() * sum(powers, arb(0))


def near_norm_tail(x: Array, d: int) -> Array:
    """The same in doubles: chances x^n e^-x / n! of a Poisson law, weighted."""
    return _poisson_sum([comb(d - n + 1, 2) / (d * (d + 1)) for n in range(d)], x)


def near_norm_density(x: Array, d: int) -> Array:
    """The density of the size of one number in doubles, half of it: the slope of the tail."""
    return _poisson_sum([(d - n) / (d * (d + 1)) for n in range(d)], x)


def _poisson_sum(weights: Sequence[float], x: Array) -> Array:
    """The sum of weights times x^n e^-x / n!; logarithms keep it within doubles."""
    height, total = np.log(np.maximum(x, 1e-300)), np.zeros_like(x)
    for n, weight in enumerate(weights):
        total += weight * np.exp(n * height - x - lgamma(n + 1)) if n else weight * np.exp(-x)
    return total


def box_chance(box: Sequence[Interval], times: Sequence[int]) -> arb:
    """The chance of a box: each interval is that of as many numbers as `times` says.

    The sum over how many of each are above 0, where they can be; e^-up is the integral of e^-s over
    s >= up, so each part is an integral in s alone, over the lengths of the intervals up to s.
    """
    above = [(low.max(arb(0)), high) for low, high in box]
    below = [((-high).max(arb(0)), -low) for low, high in box]
    choices = [
        [n] if low >= 0 else [0] if high <= 0 else range(n + 1)
        for (low, high), n in zip(box, times, strict=True)
    ]
    total = arb(0)
    for ups in product(*choices):
        downs = [n - up for n, up in zip(times, ups, strict=True)]
        ways = prod(comb(n, up) for n, up in zip(times, ups, strict=True))
        total += ways * _side(above, ups) * _side(below, downs)
    return total / factorial(sum(times) + 1)


def _side(given: Sequence[Interval], times: Sequence[int]) -> arb:
    """The integral of e^-s times the product of the lengths of the intervals within [0, s]."""
    intervals = [one for one, n in zip(given, times, strict=True) for _ in range(n)]
    if not intervals:
        return arb(1)
    start = max((low for low, _ in intervals), key=lambda x: x.mid())
    total, waiting = arb(0), sorted(intervals, key=lambda interval: interval[1].mid())
    full = arb(1)
    while waiting:
        end = waiting[0][1]
        if end > start:
            growing = arb_poly([full])
            for low, _ in waiting:
                growing *= arb_poly([-low, 1])
            total += _exponential(growing, start) - _exponential(growing, end)
            start = end
        low, high = waiting.pop(0)
        full *= high - low
    return total + full * (-start).exp()


def _exponential(polynomial: arb_poly, start: arb) -> arb:
    """The integral of e^-s times a polynomial over s >= start: the sum of its derivatives there."""
    total = arb(0)
    while polynomial.degree() >= 0:
        total += polynomial(start)
        polynomial = polynomial.derivative()
    return total * (-start).exp()


@dataclass(frozen=True, eq=False)
class BentKNorm(BentRows):
    """Rows on a bent scale with z of the density proportional to e^-|z|_K.

    Recipe: how many numbers are above 0, uniform from 0 to d, and which; two Gamma numbers, sums of
    -ln(U), of the first that many + 1 of d + 2 uniforms and of the others; times a uniform number
    for each.  With U >= 2^-20 each logarithm is known to within 1.2 2^-42, so that a z is known to
    within d + 2 times 2^-41, and 2^-50 of both sums.
    """

    @property
    def uniforms(self) -> int:
        """One for how many, then for each number which and where, and the logarithms."""
        return 3 * self.width + 3

    def near_noise(self, words: Words) -> tuple[Array, Array, Flags]:
        """z in doubles."""
        d = self.width
        place = near(words[0]) * (d + 1)
        many = np.floor(place)
        chosen, doubt = near_choice(words[1 : d + 1], many)
        doubt |= np.abs(place - np.rint(place)) < (d + 1) * 2.0**-48
        uniform = near(words[2 * d + 1 :])
        doubt |= coarse(uniform).any(axis=0)
        sums = np.cumsum(-np.log(uniform), axis=0)
        up = np.take_along_axis(sums, many.astype(np.intp)[None, :], axis=0)
        size = np.where(chosen, up, sums[-1] - up) * near(words[d + 1 : 2 * d + 1])
        off: Array = (d + 2) * (2.0**-40 + (1 + sums[-1]) * 2.0**-49)
        return np.where(chosen, size, -size), off, doubt

    def sure_noise(self, uniforms: Sequence[arb]) -> list[arb]:
        """The same in interval arithmetic."""
        d = self.width
        many = sure_floor(uniforms[0] * (d + 1))
        chosen = sure_choice(uniforms[1 : d + 1], many)
        logarithms = [-uniform.log() for uniform in uniforms[2 * d + 1 :]]
        up = sum(logarithms[: many + 1], arb(0))
        down = sum(logarithms[many + 1 :], arb(0))
        return [(up if chosen[i] else -down) * uniforms[d + 1 + i] for i in range(d)]

    def tail(self, x: arb) -> arb:
        """The chance that one number of z is at least x >= 0."""
        return norm_tail(x, self.width)

    def box(self, box: Sequence[Interval], times: Sequence[int]) -> arb:
        """The chance of a box."""
        return box_chance(box, times)
