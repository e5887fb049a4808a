"""The worst loss of Laplace noise on a transformed count, over all counts to infinity.

This file knows no calibration.  The output is made from h(n) + spread * L alone, L of the density
e^-|z| / 2, so the loss between counts n and n' is at most |h(n') - h(n)| / spread, and it is that
at every output that lies beyond both.  One step leads from n at most to n + max(floor(alpha n), 1),
because no workplace of the cell is larger than n.  Up to some N the difference is computed with
enclosures at every count where it can be greatest.  Beyond N, h has the slope s(u) with
u s(u) <= e, so that h((1 + alpha) n) - h(n) <= e ln(1 + alpha).
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Protocol

from flint import arb, ctx

from eree.cells import Cell
from eree.mechanisms.certificate import Certificate, Probabilities, upper, worst_of
from eree.random.exact import exact_ball

_BITS = 320


class TransformedProbabilities(Probabilities, Protocol):
    """A mechanism of such noise."""

    @property
    def alpha(self) -> Fraction:
        """The share by which a workplace may grow in one step."""

    @property
    def spread(self) -> Fraction:
        """The scale of the Laplace noise."""

    def forward(self, count: int) -> arb:
        """h(count)."""

    def exact_forward(self, _count: int) -> Fraction | None:
        """h(count) as a fraction, where it is one and known to be."""

    def elasticity_from(self) -> tuple[int, Fraction]:
        """N >= 1 / alpha, and a bound e of u times the slope of h at u, for all u >= N."""

    def turning_counts(self) -> Iterable[int]:
        """The counts up to N among which the greatest step of h is found."""


def greatest_gain(mechanism: TransformedProbabilities) -> tuple[Fraction, int]:
    """A bound of what h gains in one step, over all counts, and a count that comes near it.

    Where h is a fraction at both counts it is what is gained, to the last digit.
    """
    alpha, (last, elasticity) = mechanism.alpha, mechanism.elasticity_from()
    before, ctx.prec = ctx.prec, _BITS
    try:
        worst, place = Fraction(0), 0
        for count in mechanism.turning_counts():
            gain = _gain(mechanism, count, count + max(int(alpha * count), 1))
            if gain > worst:
                worst, place = gain, count
        tail = upper(exact_ball(elasticity) * exact_ball(1 + alpha).log())
    finally:
        ctx.prec = before
    if tail > worst:
        return tail, 1_000 * max(last, 1)  # where the loss comes near its limit
    return worst, place


def _gain(mechanism: TransformedProbabilities, count: int, grown: int) -> Fraction:
    """A bound of what h gains between two counts."""
    gained = mechanism.forward(grown) - mechanism.forward(count)
    low, high = mechanism.exact_forward(count), mechanism.exact_forward(grown)
    if low is None or high is None or not gained.overlaps(exact_ball(high - low)):
        return upper(gained)
    return high - low


def certify_transformed(mechanism: TransformedProbabilities) -> Certificate:
    """The certificate of Laplace noise on a transformed count."""
    gain, place = greatest_gain(mechanism)
    joined = max(int(mechanism.alpha * place), 1)
    cells = Cell(place), Cell(place + joined, place + joined)
    outputs = [place - joined - 1, place, place + joined, place + 3 * joined + 1, 10**9]
    pair = worst_of(mechanism, [(*cells, outputs)])
    return Certificate.pure(mechanism, gain / mechanism.spread, pair)
