"""Smooth Pareto: noise on the integers whose weight falls like a power."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import expm1, inf, log1p, sqrt
from typing import Self

import numpy as np

from eree.cells import Cell
from eree.mechanisms.mechanism import one_cell
from eree.mechanisms.parameters import TooLittle, above, alpha_of, rounded_down
from eree.mechanisms.scaled.distributions import LatticePareto
from eree.mechanisms.scaled.scaled import ScaledMechanism
from eree.policy.guarantee import Guarantee
from eree.random.exact import Array, Integers, exact_ball, exactly

#: What is left of epsilon for the certificate, whose bounds are no closer than a millionth.
_ROOM = 2.0**-20
#: Scales below this are few, and their noise is of few values.
_FEW = 20.0
#: Half-widths beyond this are left to the integrals.
_FAR = 4_096


@dataclass(frozen=True)
class SmoothPareto(ScaledMechanism):
    """count + K, P(K = k) proportional to (1 + c |k| / S)^-p, S = max(alpha * largest, 1).

    Theorem.  With b = ln(1 + alpha), p <= epsilon / b and c <= alpha such that
    ln r + p ln(1 + c / r) <= epsilon at r = 1 and at r = 1 + alpha, the output is
    (alpha, epsilon)-private with delta = 0: for one cell of workplace attributes under strong
    neighbours, and for one cell of workplace attributes and worker types under weak ones.

    Proof.  Neighbours are a shift rho S, rho <= 1, and a scale r S, 1 <= r <= 1 + alpha rho.  The
    weight is a mixture of exponentials, so N(S) / S falls as S grows, and N grows:
    1 <= N(rS) / N(S) <= r.  Old over new is greatest at k = 0: ln r + p ln(1 + c rho / r), which is
    quasi-convex in r.  New over old is greatest at the new centre, p ln(1 + c rho), or at infinity,
    p ln r <= p b.
    """

    power: Fraction
    slope: Fraction
    name = "smooth-pareto"

    @classmethod
    def calibrate(cls, guarantee: Guarantee) -> Self:
        """The least noise of this kind, with a finite mean, that keeps a guarantee."""
        alpha, epsilon = float(alpha_of(guarantee, cls.name)), float(guarantee.epsilon)
        step = log1p(alpha)
        power = rounded_down(epsilon * (1 - _ROOM) / step)
        if power <= 2:
            raise TooLittle(
                cls.name,
                epsilon=above(2 * step / (1 - _ROOM)),
                why="(above 2 ln(1 + alpha)) for noise of finite mean",
                advice="raise it or lower alpha",
            )
        room = (1 + alpha) * expm1((epsilon * (1 - _ROOM) - step) / float(power))
        return cls(guarantee, power, rounded_down(min(alpha, room)))

    def distribution(self, largests: Integers) -> LatticePareto:
        """The distributions of the noise of some cells."""
        return LatticePareto(self.scales(largests, 1 / self.slope), self.power)

    def mean_error(self, cell: Cell) -> tuple[float, float]:
        """Exact sums: with a = S / c, k (1 + k / a)^-p adds up to differences of zeta(p - i, a)."""
        noise = self.distribution(one_cell(cell.largest))
        with exactly():
            a, p = exact_ball(noise.scales.of(0)), exact_ball(self.power)
            zeroth, first = p.zeta(a + 1), (p - 1).zeta(a + 1)
            whole = a ** (-p) + 2 * zeroth
            mean = float(2 * (first - a * zeroth) / whole)
            if self.power <= 3:
                return mean, inf
            square = 2 * ((p - 2).zeta(a + 1) - 2 * a * first + a**2 * zeroth) / whole
            return mean, sqrt(max(float(square), 0.0))

    def half_width(self, level: float, sizes: Integers) -> Integers:
        """Sums of the weight are bounded by integrals, w being convex.

        From k on they are at most the integral from k - 1/2, and all together at least twice that
        from 0.  Where S is small the first weights are added up one by one, and Q is found by
        trying one number after the other.
        """
        p = float(self.power)
        scale = np.maximum(sizes * float(self.alpha), 1.0)
        away = np.expm1(-np.log(1 - level) / (p - 1)) * (1 + 1e-9)
        width: Integers = np.ceil(scale / float(self.slope) * away - 0.5 + 1e-9).astype(np.int64)
        near = np.flatnonzero((scale < _FEW) & (width < _FAR))
        few, place = np.unique(scale[near], return_inverse=True)
        width[near] = self._small_half_widths(
            level, few / float(self.slope), width[near].max(initial=0)
        )[place]
        return np.maximum(width, 0)

    def _small_half_widths(self, level: float, a: Array, most: int) -> Integers:
        """The least Q of at most `most` with 2 P(K > Q) <= 1 - level, for some small a = S / c."""
        p = float(self.power)
        k: Array = np.arange(1.0, most + 9.0)[:, None]
        weights = np.exp(-p * np.log1p(k / a))
        last = k[-1, 0]
        rest = a / (p - 1) * np.exp((1 - p) * np.log1p((last + 0.5) / a))
        tails = weights[::-1].cumsum(0)[::-1] + rest  # at most the sum from each k on
        least = 1 + 2 * (weights.sum(0) + rest - np.exp(-p * np.log1p(last / a)))
        enough = 2 * tails[: most + 1] / least * (1 + 1e-9) <= 1 - level
        found: Integers = np.where(enough.any(0), enough.argmax(0), most).astype(np.int64)
        return found

    def log_weight(self, t: Array) -> Array:
        """The logarithm of the weight w(t)."""
        return -float(self.power) * np.log1p(float(self.slope) * t)

    @property
    def power_from(self) -> float:
        """Throughout."""
        return 0.0

    def most_drop(self, stretch: Array, near: float, shift: Array) -> Array:
        """(1 + c y) / (1 + c x) goes from its value at `near` to `stretch`, and w with it."""
        c = float(self.slope)
        most = np.maximum(stretch, (1 + c * (stretch * near + shift)) / (1 + c * near))
        drop: Array = float(self.power) * np.log(np.maximum(most, 1.0))
        return drop

    def normaliser_elasticity(self) -> tuple[float, float]:
        """Between 0 and 1, whatever the power and the slope.

        The weight is a mixture of e^(-s t), s > 0, so N(S) is one of coth(s / (2 S)), and the
        derivative of ln coth(x) by ln(1 / x) is 2 x / sinh(2 x), between 0 and 1.
        """
        return 0.0, 1.0
