"""K-norm LinLog: noise on the scale of LinLog for all cells of a group at once."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from math import inf, log, sqrt
from typing import Self

import numpy as np

from eree.mechanisms.bent_vector import BentVector
from eree.mechanisms.certificate import Certificate
from eree.mechanisms.linlog import LinLog
from eree.mechanisms.mechanism import Array
from eree.mechanisms.vector import VectorCertificate
from eree.noise.exact import Whole
from eree.noise.knorm import BentKNorm, near_norm_density, near_norm_tail
from eree.policy.guarantee import Guarantee

#: Sums of more outputs than this give way to integrals, from which they no longer differ.
_MOST_SUMMED = 300_000


@dataclass(frozen=True)
class KNormLinLog(BentVector):
    """g^-1(g(count_i) + z_i / epsilon) for each cell i, rounded; z of the density e^-|z|_K.

    g is the scale of `LinLog`; |z|_K is the greatest of the z_i plus the greatest of the -z_i, each
    at least 0: the norm whose ball K is the hull of the cubes [0, 1]^d and [-1, 0]^d.

    Theorem.  Under weak neighbours whose types are at least as fine as the cells, all outputs of a
    group together are (alpha, epsilon)-private with delta = 0.  Noise has a finite mean for
    epsilon > b = ln(1 + alpha).

    Proof.  In one step each height g(count_i) grows by between 0 and 1, as for every `BentVector`.
    So the heights move by a vector of K, and in the other direction by one of -K = K: |z|_K changes
    by at most 1, and the logarithm of the density by at most epsilon.  What is made of the heights
    costs nothing.
    """

    name = "knorm-linlog"
    heights_of = LinLog

    @classmethod
    def calibrate(cls, guarantee: Guarantee, *, cells: int = 1) -> Self:
        """The scale of `LinLog` at the same epsilon, whatever the number of cells."""
        single = cls._one_cell(guarantee, cells)
        return cls(guarantee, cells, single.spread, single.rate)

    def law(self, counts: Whole) -> BentKNorm:
        """The laws of the outputs of some groups."""
        return BentKNorm(self.bend, counts, self.spread)

    def near_tail(self, heights: Array) -> Array:
        """The chance that the noise of one cell's height is at least so much."""
        size = np.abs(heights) / float(self.spread)
        tail = near_norm_tail(size, self.cells)
        return np.where(heights >= 0, tail, 1 - tail)

    def certify(self) -> Certificate:
        """The loss between two groups is at most the norm of how far their heights lie apart.

        Under neighbours that is the greatest of the cells' differences, as all go one way; so the
        loss is that of Laplace noise on the cell that moves most, which `LinLog` rechecks.
        """
        one = self.single.certify()
        pair = one.worst_pair
        found = self.worst_growth(pair.before.count, [pair.output])
        return VectorCertificate.pure(self, one.bound, found)

    def mean_error(self, *, count: int, largest: int) -> tuple[float, float]:
        """Sums of both tails over whole numbers, the far upper one by its integral.

        Where the noise is wide, rounding no longer matters, and integrals take the place of sums.
        """
        del largest
        single, spread = self.single, float(self.spread)
        centre = float(single.lift(count))
        width = spread * float(single.bend.near_lower(np.array([centre]))[1][0]) * self.cells
        above = int(max(200 + 30 * width, float(single.bend.at[-1]) - count + 1))
        below = int(200 + 50 * width)
        lowest = centre - spread * (60 + 4 * self.cells)
        while single.bend.near_height_of(np.array([count - below + 0.5]))[0] > lowest:
            below *= 2
        if max(above, below) > _MOST_SUMMED:
            return self.real_error(count=count)
        mean, square = self._far(count, count + above)
        for reach, side in ((above, 1), (below, -1)):
            k: Array = np.arange(1.0, reach + 1.0)
            heights = single.bend.near_height_of(count + side * (k - 0.5))
            tails = near_norm_tail(side * (heights - centre) / spread, self.cells)
            mean += float(tails.sum())
            square += float(((2 * k - 1) * tails).sum())
        return mean, sqrt(square)

    def _far(self, count: int, start: float) -> tuple[float, float]:
        """The integrals of P(Y >= y) and 2 (y - count) P(Y >= y) from `start` on.

        There y + offset is base e^(u / power), u the depth in spreads.
        """
        offset, base, power = self.single.power_tail(count)
        if power <= 1:
            return inf, inf
        depth = power * log((start + offset) / base)

        def integral(rate: float) -> float:
            """Of e^(-rate u) times the polynomial of the tail, from the depth on.

            A term u^n / n! gives rate^-(n + 1) times the chance of a Gamma(n + 1) number.
            """
            from scipy.special import gammaincc

            d = self.cells
            n = np.arange(d)
            weights = (d - n + 1) * (d - n) / (2 * d * (d + 1))
            with np.errstate(over="ignore"):  # too much for a double is too much
                terms = np.exp(-(n + 1) * log(rate)) * gammaincc(n + 1, rate * depth)
                return float(np.where(gammaincc(n + 1, rate * depth) > 0, weights * terms, 0).sum())

        near = base / power * integral(1 - 1 / power)
        if power <= 2:
            return near, inf
        far = base / power * base * integral(1 - 2 / power)
        return near, 2 * (far - (count + offset) * near)

    def real_error(self, *, count: int) -> tuple[float, float]:
        """The mean and root mean square error before rounding.

        Up to some depth by integration over the noise, beyond that by the power of the tail; what
        is too large for doubles is infinite.
        """
        bend, spread, d = self.single.bend, float(self.spread), self.cells
        centre = float(self.single.lift(count))
        last = max(60.0 + 4 * d, (float(bend.heights[-1]) - centre) / spread)

        def moment(n: int) -> float:
            from scipy.integrate import quad

            def integrand(z: float) -> float:
                ends = bend.near_lower(centre + spread * np.array([z, -z]))[0]
                chance = float(near_norm_density(np.array([z]), d)[0])
                return float((np.abs(ends - count) ** n).sum()) * chance

            edges = [0.0, 0.1, 1.0, 5.0, 15.0 + d, last]
            return float(sum(quad(integrand, a, b, limit=200)[0] for a, b in pairwise(edges)))

        start = float(bend.near_lower(np.array([centre + spread * last]))[0][0])
        chance, beyond = float(near_norm_tail(np.array([last]), d)[0]), start - count
        near, far = self._far(count, start)
        found = [inf, inf]
        with suppress(OverflowError, FloatingPointError), np.errstate(over="raise"):
            found[0] = moment(1) + beyond * chance + near
            if far < inf:
                found[1] = sqrt(moment(2) + beyond**2 * chance + far)
        return found[0], found[1]

    def height_moments(self) -> tuple[float, float, float]:
        """(d + 2) / 3 spreads, (d + 2)(d + 3) / 6 squared spreads, and half of that.

        With i of d numbers above 0, which every i is equally often, each of them is half a
        Gamma(i + 1) number on average.  Two are both above with the chance i (i - 1) / (d (d - 1))
        and have then the mean product (i + 1)(i + 2) / 4; and so on, summed over i.
        """
        d, spread = self.cells, float(self.spread)
        variance = (d + 2) * (d + 3) / 6 * spread**2
        return (d + 2) / 3 * spread, variance, variance / 2
