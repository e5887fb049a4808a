"""K-norm LinLog: noise on the scale of LinLog for all cells of a group at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import inf, log, sqrt
from typing import Self

import numpy as np
from flint import arb
from scipy.integrate import quad
from scipy.special import gammaincc

from eree.errors import Refusal
from eree.mechanisms.certificate import Certificate
from eree.mechanisms.linlog import LinLog
from eree.mechanisms.mechanism import Array
from eree.mechanisms.vector import (
    Group,
    VectorCertificate,
    VectorMechanism,
    group_size,
    worst_groups,
)
from eree.noise.coins import Coins
from eree.noise.exact import Whole
from eree.noise.knorm import BentKNorm, near_norm_density, near_norm_tail
from eree.noise.rows import draw_rows
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Weak

#: Sums of more outputs than this give way to integrals, from which they no longer differ.
_MOST_SUMMED = 300_000
_MOST_CELLS = 1_000


@dataclass(frozen=True)
class KNormLinLog(VectorMechanism):
    """g^-1(g(count_i) + z_i / epsilon) for each cell i, rounded; z of the density e^-|z|_K.

    g is the scale of `LinLog`; |z|_K is the greatest of the z_i plus the greatest of the -z_i, each
    at least 0: the norm whose ball K is the hull of the cubes [0, 1]^d and [-1, 0]^d.

    Theorem.  Under weak neighbours whose types are at least as fine as the cells, all outputs of a
    group together are (alpha, epsilon)-private with delta = 0.  Noise has a finite mean for
    epsilon > b = ln(1 + alpha).

    Proof.  In one step each cell i of a workplace grows by at most max(alpha h_i, 1), and h_i is at
    most the count, so that g(count_i) grows by between 0 and 1, as for `LinLog`.  So the heights
    move by a vector of K, and in the other direction by one of -K = K: |z|_K changes by at most 1,
    and the logarithm of the density by at most epsilon.  What is made of the heights costs nothing.
    """

    spread: Fraction
    rate: Fraction
    name = "knorm-linlog"

    @classmethod
    def calibrate(cls, guarantee: Guarantee, *, cells: int = 1) -> Self:
        """The scale of `LinLog` at the same epsilon, whatever the number of cells."""
        d = group_size(cls.name, cells, _MOST_CELLS)
        if not isinstance(guarantee.neighbours, Weak):
            raise Refusal(
                f"{cls.name} is for weak neighbours: under strong ones a workplace may grow in a"
                " cell by more than the cell holds; use vector-radial, vector-pareto or"
                " two-stage-clip"
            )
        try:
            single = LinLog.calibrate(guarantee)
        except Refusal as refusal:
            raise Refusal(str(refusal).replace(LinLog.name, cls.name, 1)) from None
        return cls(guarantee, d, single.spread, single.rate)

    @cached_property
    def single(self) -> LinLog:
        """Laplace noise of one cell on the same scale."""
        return LinLog(self.guarantee, self.spread, self.rate)

    def law(self, counts: Whole) -> BentKNorm:
        """The laws of the outputs of some groups."""
        return BentKNorm(self.single.bend, counts, self.spread)

    def statistics(self, *, worker_attributes: bool = True) -> tuple[str, ...]:
        """`count` alone."""
        del worker_attributes
        return ("count",)

    def draw_groups(self, counts: Whole, _largests: Whole, coins: Coins) -> Whole:
        """Outputs, made from the counts alone."""
        return draw_rows(self.law(counts), len(counts), coins)

    def beyond(self, distance: int, side: int, *, count: int, largest: int) -> arb:
        """The chance of an output of one cell at least `distance` away from the count."""
        del largest
        law = self.law(np.zeros((1, self.cells), dtype=np.int64))
        return law.beyond(count + side * distance, side, count=count)

    def group_pmf(self, outputs: Sequence[int], counts: Sequence[int], largest: int) -> arb:
        """The chance of all outputs of a group; long sums where many differ and lie near counts."""
        del largest
        return self.law(np.array([counts], dtype=np.int64)).pmf(outputs, 0)

    def certify(self) -> Certificate:
        """The loss between two groups is at most the norm of how far their heights lie apart.

        Under neighbours that is the greatest of the cells' differences, as all go one way; so the
        loss is that of Laplace noise on the cell that moves most, which `LinLog` rechecks.
        """
        one = self.single.certify()
        pair, rest = one.worst_pair, (0,) * (self.cells - 1)
        before, after = (
            Group.of((cell.count, *rest), cell.count) for cell in (pair.before, pair.after)
        )
        firsts = {pair.output, before.count, after.count, 2 * after.count + 2, -3 * after.count - 3}
        found = worst_groups(self, [(before, after, [(first, *rest) for first in sorted(firsts)])])
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

        Up to some depth by integration over the noise, beyond that by the power of the tail.
        """
        bend, spread, d = self.single.bend, float(self.spread), self.cells
        centre = float(self.single.lift(count))
        last = max(60.0 + 4 * d, (float(bend.heights[-1]) - centre) / spread)

        def moment(n: int) -> float:
            def integrand(z: float) -> float:
                ends = bend.near_lower(centre + spread * np.array([z, -z]))[0]
                chance = float(near_norm_density(np.array([z]), d)[0])
                return float((np.abs(ends - count) ** n).sum()) * chance

            edges = [0.0, 0.1, 1.0, 5.0, 15.0 + d, last]
            return float(sum(quad(integrand, a, b, limit=200)[0] for a, b in pairwise(edges)))

        start = float(bend.near_lower(np.array([centre + spread * last]))[0][0])
        chance, beyond = float(near_norm_tail(np.array([last]), d)[0]), start - count
        near, far = self._far(count, start)
        mean = moment(1) + beyond * chance + near
        return mean, inf if far == inf else sqrt(moment(2) + beyond**2 * chance + far)

    def height_error(self) -> tuple[float, float]:
        """The mean and root mean square of the noise of one cell on the scale g.

        Of i cells above 0 each is half a Gamma(i + 1) number on average, and i is uniform:
        (d + 2) / 3 spreads, and the root of (d + 2)(d + 3) / 6.
        """
        d, spread = self.cells, float(self.spread)
        return (d + 2) / 3 * spread, sqrt((d + 2) * (d + 3) / 6) * spread
