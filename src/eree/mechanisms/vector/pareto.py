"""Vector Pareto: noise on integer vectors whose weight falls like a power of the L1 norm.

Tail points of the lattice Pareto distribution, and of its sums: in doubles, never too near.

The weight (1 + c n / S)^-p is a mixture of e^(-u n), u = c s / S: the integral over s of s^(p - 1)
e^-s e^(-u n) / Gamma(p).  Given s, the d numbers are independent and P(k) is proportional to e^(-u
|k|), whose sum over all k is coth(u / 2).  So s has the density proportional to s^(p - 1) e^-s
coth(u / 2)^d, and every probability is an integral over s of a probability of geometric numbers.
The integrals are sums over a grid of ln s, right to a millionth, which is added.

Far out, S >= `FAR`: per S^d, the density of s before it is normalised falls as S grows, and its
integral is at least what it falls to, that with 2 / u instead of coth(u / 2).  So if those of `FAR`
and of the limit are taken, a probability to go beyond t S is bounded for all these S at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb, expm1, floor, inf, log, log1p, sqrt
from typing import Self

import numpy as np
from numpy.typing import NDArray

from eree.cells import Cell
from eree.errors import Refusal
from eree.mechanisms.mechanism import one_cell
from eree.mechanisms.parameters import GRAIN, TooLittle, above, alpha_of, rounded_down
from eree.mechanisms.scaled.scaled import rounded_half_width
from eree.mechanisms.vector.lattice import VectorLatticePareto
from eree.mechanisms.vector.scaled import MOST_CELLS, ScaledVector
from eree.mechanisms.vector.vector import group_size
from eree.policy.guarantee import Guarantee
from eree.random.exact import Array, Integers, exactly

#: From this scale on half-widths are multiples of the scale.
FAR = 2_000.0
#: Probabilities below this are lost where the grid of s ends.
_LOST = 1e-17
_NODES = 400
#: Half-widths are found for scales this far apart; between two, that of the larger is taken.
_APART = 1.02
_HALVINGS = 50
#: The tail of a difference of two Gamma numbers is looked up in steps of 1 over this.
_STEPS = 50
_LAST = 1_000

#: The probability to be at least so far from 0, for nodes in columns and scales in rows.
Tail = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class ParetoMixture:
    """d numbers on the lattice with weights (1 + c |k|_1 / S)^-p, p > d, S >= 1."""

    power: float
    slope: float
    width: int

    @cached_property
    def _nodes(self) -> Array:
        """Values of s, evenly spaced on the scale of its logarithm."""
        from scipy.special import gammainccinv, gammaincinv

        low = float(gammaincinv(self.power - self.width, _LOST))
        high = float(gammainccinv(self.power, _LOST))
        return np.exp(np.linspace(log(low), log(high), _NODES))

    def _probabilities(self, scales: Array, *, limit: bool) -> Array:
        """The probabilities of the nodes, a row for each scale; with `limit`, bounds from it on."""
        s, d = self._nodes, self.width
        u = self.slope * s / scales[:, None]
        base = self.power * np.log(s) - s
        log_density = base + d * np.log(u / 2 / np.tanh(u / 2)) - d * np.log(s)
        below = base - d * np.log(s) if limit else log_density
        top = log_density.max()
        probabilities: Array = np.exp(log_density - top) / np.exp(below - top).sum(
            -1, keepdims=True
        )
        return probabilities

    def half_width(self, miss: float, scales: Array) -> Array:
        """The least q with P(|K| >= q) <= miss for one number K, or a little more."""

        def tail(u: Array, q: Array) -> Array:
            probability: Array = 2 * np.exp(-u * q) / (1 + np.exp(-u))
            return probability

        return self._half_widths(tail, miss, scales)

    def group_half_width(self, miss: float, scales: Array) -> Array:
        """The same for the sum D of all d numbers.

        A geometric number is the whole part of an exponential one, apart from what is left of it.
        So with a sum F of 2 d such remains, d of them with a minus, D + F is a difference of two
        Gamma(d) numbers of the rate u, and for every x P(D >= q) P(F >= -x) is at most its
        probability to be at least q - x.  P(F >= 0) >= 1/2, and P(F < -x) <= e^(-x^2 / d)
        (Hoeffding).
        """
        d = self.width
        shift = sqrt(d * log(100))

        def tail(u: Array, q: Array) -> Array:
            loose = 2 * self._difference(u * q)
            close = self._difference(u * (q - shift)) / (1 - 1 / 100)
            probability: Array = np.minimum(2 * np.minimum(loose, close), 1)
            return probability

        return self._half_widths(tail, miss, scales)

    def _half_widths(self, tail: Tail, miss: float, scales: Array) -> Array:
        """The half-width of each scale, from those of a grid."""
        if miss < 100 * _LOST:
            raise Refusal(
                "the probability to miss is too small for vector noise; ask for a lower level"
            )
        steps = int(log(FAR) / log(_APART)) + 2
        grid = np.append(np.geomspace(1, FAR, steps), FAR)
        probabilities = self._probabilities(grid, limit=False)
        probabilities[-1] = self._probabilities(grid[-1:], limit=True)[0]
        u = self.slope * self._nodes / grid[:, None]

        def enough(q: Array) -> NDArray[np.bool_]:
            missed = (probabilities * tail(u, q[:, None])).sum(1) + 10 * _LOST
            return np.asarray(missed <= miss * (1 - 1e-6))

        low, high = np.zeros_like(grid), grid / self.slope
        while not (done := enough(high)).all():
            low, high = np.where(done, low, high), np.where(done, high, 2 * high)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            inside = enough(middle)
            low, high = np.where(inside, low, middle), np.where(inside, middle, high)
        place = np.searchsorted(grid[:-1], np.minimum(scales, FAR) * (1 - 1e-12))
        near: Array = np.maximum.accumulate(high[:-1])[np.minimum(place, steps - 1)]
        return np.where(scales >= FAR, high[-1] / FAR * scales, near)

    @cached_property
    def _tails(self) -> Array:
        """P(G - G' >= z) of two Gamma(d) numbers at z = 0, 1 / 50, 2 / 50 and so on.

        Given that G is the greater, the difference is a Gamma(d - k) number with the probability
        binomial(d - 1 + k, k) 2^(1 - d - k), k < d.
        """
        from scipy.special import gammaincc

        d, z = self.width, np.arange(_LAST * _STEPS + 1) / _STEPS
        tails = np.zeros_like(z)
        for k in range(d):
            tails += comb(d - 1 + k, k) / 2.0 ** (d + k) * gammaincc(d - k, z)
        return tails

    def _difference(self, z: Array) -> Array:
        """A bound of P(G - G' >= z): the value a little before z, and 1 below 0."""
        place = np.clip(z * _STEPS, 0, _LAST * _STEPS).astype(np.int64)
        return np.where(z < 0, 1.0, self._tails[place])


#: The share of epsilon that is left to the certificate, whose bounds are within a ten-millionth.
_ROOM = 2.0**-20


@dataclass(frozen=True)
class VectorPareto(ScaledVector):
    """counts + K, P(K = k) proportional to (1 + c |k| / S)^-p, |k| the L1 norm.

    S = max(alpha * largest, 1), `largest` the largest total of a workplace of the group.

    Theorem.  With b = ln(1 + alpha), d cells, p <= epsilon / b, c <= alpha and
    d b + p ln(1 + c / (1 + alpha)) <= epsilon, all outputs of a group together are
    (alpha, epsilon)-private with delta = 0 under strong neighbours, and so under weak ones.  Noise
    has a finite mean for p > d + 1.

    Proof.  One step moves the counts by a vector of norm at most S, and makes the scale r S,
    1 <= r <= 1 + alpha.  The weight is a mixture of e^(-s |k| / S), s > 0, whose sums over all k
    are coth(s / (2 S))^d; x coth x grows with x, so N(S) / S^d falls as S grows, and N grows:
    1 <= N(rS) / N(S) <= r^d.  Old over new is at most
    p ln((1 + c (u + 1) / r) / (1 + c u)) + d ln r at a distance u S from the old counts, which is
    greatest at u = 0, p ln(1 + c / r) + d ln r; that is quasi-convex in r, so greatest at r = 1,
    where it is at most p b, or at r = 1 + alpha.  New over old is at most
    p ln((1 + c (r u + 1)) / (1 + c u)), between p ln(1 + c) and p ln r, both at most p b.
    """

    power: Fraction
    slope: Fraction
    name = "vector-pareto"

    @classmethod
    def calibrate(cls, guarantee: Guarantee, *, cells: int = 1) -> Self:
        """The least noise of this kind, with a finite mean, that keeps a guarantee."""
        alpha = float(alpha_of(guarantee, cls.name))
        epsilon = float(guarantee.epsilon) * (1 - _ROOM)
        step, d = log1p(alpha), group_size(cls.name, cells, MOST_CELLS)
        power = Fraction(floor(epsilon / step * GRAIN), GRAIN)
        if power <= d + 1:
            raise TooLittle(
                cls.name,
                epsilon=above((d + 1) * step / (1 - _ROOM)),
                why=f"(above {d + 1} ln(1 + alpha)) to protect {d} cells by noise of finite mean",
                advice="raise it, lower alpha, publish fewer cells, or use vector-radial (from a"
                f" little above {d} ln(1 + alpha)) or two-stage-clip (any number of cells)",
            )
        most = (1 + alpha) * expm1((epsilon - d * step) / float(power))
        return cls(guarantee, d, power, rounded_down(min(alpha, most)))

    def distribution(self, largests: Integers) -> VectorLatticePareto:
        """The distributions of the noise of some groups."""
        return VectorLatticePareto(self.scales(largests, 1 / self.slope), self.power, self.cells)

    def half_width(self, level: float, sizes: Integers) -> Integers:
        """From the noise as a mixture of geometric numbers."""
        away = self._mixture.half_width(1 - level, self.near_scales(sizes))
        return rounded_half_width(away, 1)

    def group_half_width(self, level: float, sizes: Integers, _cells: int = 0) -> Integers:
        """The same for sums."""
        away = self._mixture.group_half_width(1 - level, self.near_scales(sizes))
        return rounded_half_width(away, 1)

    @cached_property
    def _mixture(self) -> ParetoMixture:
        return ParetoMixture(float(self.power), float(self.slope), self.cells)

    def mean_error(self, cell: Cell) -> tuple[float, float]:
        """Exact sums over all integer vectors by their norms."""
        with exactly():
            mean, square = self.distribution(one_cell(cell.largest)).moments(0)
            return float(mean), inf if square is None else sqrt(float(square))

    def log_weight(self, t: Array) -> Array:
        """The logarithm of the weight w(t)."""
        return -float(self.power) * np.log1p(float(self.slope) * t)

    def log_slope(self, t: Array) -> Array:
        """The slope of -ln w."""
        slope: Array = float(self.power * self.slope) / (1 + float(self.slope) * t)
        return slope

    @property
    def steepest(self) -> float:
        """At the centre."""
        return 0.0

    @property
    def far_power(self) -> float:
        """The weight is a power throughout."""
        return float(self.power)

    def normaliser_elasticity(self) -> tuple[float, float]:
        """Whatever the power and the slope, N is a mixture of coth(s / (2 S))^d, s > 0.

        The derivative of ln coth(x) by ln(1 / x) is 2 x / sinh(2 x), between 0 and 1.
        """
        return 0.0, float(self.cells) if self.power > self.cells else inf
