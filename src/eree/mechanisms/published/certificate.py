"""The greatest delta of Laplace noise whose scale grows with the largest workplace.

This file knows no calibration.  In units of S the old density is a/2 e^(-a |t|), the new one
a/(2 r) e^(-a |t - rho| / r), 0 < rho <= 1, 1 <= r <= 1 + alpha rho.  For an epsilon,

- old over new is at most e^M at t = 0, M = a rho / r + ln r, so the mass of the old density above
  e^epsilon times the new one is at most 1 - e^(epsilon - M), and 0 where M <= epsilon;
- new over old exceeds e^epsilon, if a rho - ln r <= epsilon, only beyond one point in each tail.
  At those points the densities are in the ratio e^epsilon, so of the mass of the new density beyond
  them the share 1 - 1/r is in excess.  Together that is
  (1 - 1/r) e^(-(epsilon + ln r) / (r - 1)) cosh(a rho / (r - 1)).

Both grow with rho, which leaves r alone; intervals of r are bounded factor by factor and split.
Rounding the noisy number cannot raise the excess.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, inf, nextafter
from typing import Protocol

from flint import arb, ctx

from eree.cells import Cell
from eree.mechanisms.certificate import Certificate, Probabilities, WorstPair, upper
from eree.random.exact import exact_ball

_BITS = 320
#: The bound is within this share of the greatest excess.
_TOLERANCE = Fraction(1, 10**12)


class LaplaceProbabilities(Probabilities, Protocol):
    """A mechanism of such noise."""

    @property
    def alpha(self) -> Fraction:
        """The share by which a workplace may grow in one step."""

    def tail(self, _cell: Cell, distance: int, side: int) -> arb:
        """The probability of an output at least `distance` away from the count, on a side."""


def certify_laplace(mechanism: LaplaceProbabilities, rate: Fraction) -> Certificate:
    """The certificate of Laplace noise of the rate a in units of S."""
    guarantee = mechanism.guarantee
    before, ctx.prec = ctx.prec, _BITS
    try:
        found = greatest_delta(mechanism.alpha, guarantee.epsilon, rate)
        pair = max(
            (_excess(mechanism, large) for large in (1, 5, 20, 100, 1_000)),
            key=lambda pair: pair.delta,
        )
    finally:
        ctx.prec = before
    delta = max(nextafter(float(found), inf) if found else 0.0, pair.delta)
    return Certificate(mechanism.name, guarantee, guarantee.epsilon, min(delta, 1.0), pair)


def greatest_delta(alpha: Fraction, epsilon: Fraction, rate: Fraction) -> Fraction:
    """A bound of the excess over all neighbours; 1 where it is too large to matter."""
    if rate > epsilon:
        return Fraction(1)
    best, found = Fraction(0), Fraction(0)
    waiting = [(Fraction(1), 1 + alpha)]
    while waiting:
        low, high = waiting.pop()
        top = _bound(low, high, epsilon, rate)
        best = max(best, _bound(high, high, epsilon, rate) if high > 1 else Fraction(0))
        if top <= best * (1 + _TOLERANCE) or high - low < Fraction(1, 10**30):
            found = max(found, top)
        else:
            middle = (low + high) / 2
            waiting += [(low, middle), (middle, high)]
    return found


def _bound(low: Fraction, high: Fraction, epsilon: Fraction, rate: Fraction) -> Fraction:
    """A bound of both excesses for ratios from `low` to `high`, with rho = 1 and rate <= epsilon.

    a / r + ln r is convex in ln r, so it is greatest at an end.  In each exponent of the other
    excess the numerator epsilon + ln r - a, which is not negative, grows with r, and so does the
    denominator.
    """
    a, e = exact_ball(rate), exact_ball(epsilon)
    excess = Fraction(0)
    for r in (low, high):
        most = upper(a / exact_ball(r) + exact_ball(r).log())
        if most > epsilon:
            excess = max(excess, upper(1 - (e - exact_ball(most)).exp()))
    if high == 1:
        return excess
    logarithm, growth = exact_ball(low).log(), exact_ball(high - 1)
    parts = sum((-(e + logarithm + side * a) / growth).exp() for side in (-1, 1))
    return max(excess, upper((1 - 1 / exact_ball(high)) * parts / 2))


def _excess(mechanism: LaplaceProbabilities, large: int) -> WorstPair:
    """The excess, summed over integers, of a workplace that grows by alpha."""
    size = ceil(large / mechanism.alpha)
    joined = max(int(mechanism.alpha * size), 1)
    before, after = Cell(size), Cell(size + joined, size + joined)
    factor = exact_ball(mechanism.guarantee.epsilon).exp()

    def tail(cell: Cell, output: int, side: int) -> arb:
        distance = side * (output - cell.count)
        return mechanism.tail(cell, distance, side)

    def beats(output: int) -> bool:
        old = mechanism.pmf(before, output)
        new = mechanism.pmf(after, output)
        return bool(new > factor * old)

    total, first = 0.0, 0
    for side, centre in ((1, after.count + 1), (-1, before.count - 1)):
        near, step = 0, 1
        while not beats(centre + side * (near + step)) and step < 2**40:
            near, step = near + step, 2 * step
        far = near + step
        while far - near > 1:
            middle = (near + far) // 2
            near, far = (near, middle) if beats(centre + side * middle) else (middle, far)
        output = centre + side * far
        total += max(float(tail(after, output, side) - factor * tail(before, output, side)), 0)
        first = output if side == 1 else first
    old = mechanism.pmf(before, first)
    new = mechanism.pmf(after, first)
    return WorstPair(before, after, first, float((new / old).log()), total)
