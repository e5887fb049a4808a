"""The worst loss of a mixture of geometric and radial noise between sizes a worker apart.

This file knows no calibration.  It looks at groups whose largest workplace has less than `start`
workers, or just so many: their noise z has the probability

    f(z) = sum_i c_i p_i e^(-g_i |z|) + c Q(z),

|z| the L1 norm, with weights c_i and c of the size, p_i the probability of no noise in geometric
component i, and Q the probabilities of radial noise of the scale s at `start`.  Below `start` a
workplace grows by one worker, so that the noise that explains an output changes by 1 in one cell or
not at all, and the size stays or grows by one.  Let f be the one and f' the other.

- Q is an integral of a density over a cube.  The logarithm of the density falls by at most k =
  (the greatest slope) / s in a step of 1, so Q(z) <= e^k Q(z').  Q is greatest at 0, and at least
  L(m) = e^(-k (m - 1)) Q(e) at a norm of m >= 1, e a row with one number 1.
- The geometric part A falls with the norm, and |z'| <= m + 1 for |z| = m.  So f(z) / f'(z') is at
  most (A(m) + c e^k Q) / (A'(m + 1) + c' Q) for some Q >= L(m + 1), and as this is monotone in Q,
  at most what it is at L(m + 1) or c e^k / c'.
- At L(m + 1) both are sums of exponentials in m.  Up to a last m they are computed.  Beyond it,
  over the exponentials that fall as slowly as L, the others have fallen to less than there.

Everything is computed in doubles from logarithms of enclosures, and ROUNDING is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, inf
from typing import Protocol

import numpy as np
from flint import arb

from eree.cells import Group
from eree.mechanisms.geometric import CappedGeometric
from eree.mechanisms.scaled.certificate import scale_at
from eree.random.exact import Array, exact_ball, exactly

ROUNDING = 1e-10
#: From the last norm on the faster exponentials are at most e^-60 of what they were.
_GONE = 60
#: Exponentials that fall as slowly as L, but for rounding.
_SLOW = 1e-9


class Radial(Protocol):
    """Radial noise of vectors, of which the bound asks its slope and its probabilities."""

    @property
    def pace(self) -> Fraction:
        """By what the scale grows with each worker."""

    @property
    def steepest(self) -> float:
        """Where the slope of -ln w is greatest."""

    def log_slope(self, t: Array) -> Array:
        """The slope of -ln w."""

    def row(self, count: int, *, last: bool = False) -> tuple[int, ...]:
        """A row of one number that is not 0."""

    def joint_pmf(self, group: Group, outputs: Sequence[int]) -> arb:
        """The probability of all outputs of a group."""

    def joint_log_pmf(self, group: Group, outputs: Sequence[int]) -> float:
        """Its logarithm."""


class Mixture(Protocol):
    """A mixture, size by size."""

    @property
    def cells(self) -> int:
        """How many counts a group has."""

    @property
    def start(self) -> int:
        """The size from which on there is radial noise alone."""

    @property
    def alpha(self) -> Fraction:
        """The share by which a workplace may grow."""

    @property
    def rates(self) -> tuple[Fraction, ...]:
        """Those of the geometric components."""

    @property
    def weights(self) -> tuple[tuple[Fraction, ...], ...]:
        """A row for `start` workers, for one less, and so on; the last one stays."""

    def joint_log_pmf(self, group: Group, outputs: Sequence[int]) -> float:
        """The logarithm of the probability of all outputs of a group."""


def worst_mixture_loss(mixture: Mixture, radial: Radial) -> float:
    """A bound of the loss between all sizes up to `start`."""
    if not mixture.start:
        return 0.0
    if mixture.start > ceil(2 / mixture.alpha):  # two workers may join at once
        return inf
    scale = float(scale_at(radial.pace, mixture.start))
    steep = float(radial.log_slope(np.array([radial.steepest]))[0]) / scale
    with exactly():
        centres = [CappedGeometric(rate).centre() ** mixture.cells for rate in mixture.rates]
        zeros = Group.of(radial.row(0), mixture.start)
        logs = [*(float(at.log()) for at in centres), radial.joint_log_pmf(zeros, radial.row(1))]
    rates = np.array([*map(float, mixture.rates), steep])
    if (rates[:-1] < steep * (1 - _SLOW)).any():
        return inf  # geometric noise would fall more slowly than radial noise may
    slow = rates <= steep * (1 + _SLOW)
    last = ceil(_GONE / float((rates[~slow] - steep).min(initial=inf))) if not slow.all() else 1
    m = np.arange(last + 1)[:, None]
    with np.errstate(divide="ignore"):
        weights = np.log([[float(weight) for weight in row] for row in mixture.weights])
    worst = 0.0
    for i, row in enumerate(weights):
        for other in weights[max(i - 1, 0) : i + 2]:
            # numbers of exponentials at a norm of m, and at one of m + 1; L is of m + 1 in both
            over = row + logs - rates * m
            over[:, -1] += steep
            under = other + logs - rates * (m + 1)
            under[:, -1] += steep
            loss = np.logaddexp.reduce(over, axis=1) - np.logaddexp.reduce(under, axis=1)
            beyond = np.logaddexp.reduce(over[-1]) - np.logaddexp.reduce(under[-1][slow])
            limit = row[-1] + steep - other[-1] if row[-1] > -inf else 0.0
            worst = max(worst, float(loss.max()), float(beyond), float(limit))
    return worst + ROUNDING


def probabilities_mix(mixture: Mixture, radial: Radial) -> bool:
    """Whether the probabilities of outputs are those of the components and weights.

    Sizes below `start` are all looked at that have a row of weights of their own, and some that
    have none; from `start` on there is radial noise alone.
    """
    start, rows = mixture.start, mixture.weights
    for size in {0, *range(max(start - len(rows), 0), start + 2), 2 * start, 50 * start}:
        row = rows[min(max(start - size, 0), len(rows) - 1)]
        zeros, noisy = Group.of(radial.row(0), size), Group.of(radial.row(0), max(size, start))
        for noise in (radial.row(0), radial.row(1), radial.row(-3, last=True), radial.row(40)):
            norm = sum(map(abs, noise))
            with exactly():
                stated = exact_ball(row[-1]) * radial.joint_pmf(noisy, noise)
                for weight, rate in zip(row, mixture.rates, strict=False):
                    q = (-exact_ball(rate)).exp()
                    stated += exact_ball(weight) * ((1 - q) / (1 + q)) ** mixture.cells * q**norm
                found = mixture.joint_log_pmf(zeros, noise)
                if not abs(float(stated.log()) - found) <= 1e-9 * (1 + abs(found)):
                    return False
    return True
