"""Mechanisms that add Laplace noise on a bent scale of the count: what they have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from math import exp, inf, sqrt

import numpy as np
from flint import arb
from scipy.integrate import quad

from eree.errors import Refusal
from eree.mechanisms.bent_loss import certify_bent
from eree.mechanisms.certificate import Certificate
from eree.mechanisms.mechanism import Array, Mechanism, alpha_of, one_cell
from eree.noise.bent import Bend, BentLaplace
from eree.noise.coins import Coins
from eree.noise.exact import Whole, draw
from eree.policy.neighbours import Strong

#: Above this count sums over outputs give way to an integral, from which they no longer differ.
_MOST_SUMMED = 20_000


@dataclass(frozen=True)
class BentMechanism(Mechanism):
    """lower(h(count) + spread * L), rounded; L of the density e^-|z| / 2, h a rising function.

    Theorem.  If h(n + max(floor(alpha n), 1)) - h(n) <= spread * epsilon for all counts n, the
    output is (alpha, epsilon)-private with delta = 0: for one cell of workplace attributes under
    strong neighbours, and for one cell of any attributes under weak ones.  Proof.  No workplace of
    the cell is larger than n, so one step leads from n to at most n + max(floor(alpha n), 1), and
    Laplace noise hides that distance; what is made of the noisy height costs nothing.
    """

    @property
    @abstractmethod
    def bend(self) -> Bend:
        """The functions h and lower."""

    @property
    @abstractmethod
    def spread(self) -> Fraction:
        """The scale of the Laplace noise."""

    @abstractmethod
    def elasticity_from(self) -> tuple[int, Fraction]:
        """N >= 1 / alpha, and a bound of u times the slope of h at u, for all u >= N."""

    @abstractmethod
    def power_tail(self, count: int) -> tuple[float, float, float]:
        """(offset, base, power): P(Y >= y) = ((y + offset) / base)^-power / 2 far out."""

    @property
    def alpha(self) -> Fraction:
        """The share by which a workplace may grow in one step."""
        return alpha_of(self.guarantee, self.name)

    def statistics(self, *, worker_attributes: bool = False) -> tuple[str, ...]:
        """`count` alone; refused where the whole workplace may grow into a cell."""
        if worker_attributes and isinstance(self.guarantee.neighbours, Strong):
            raise Refusal(
                f"{self.name} has no guarantee under strong neighbours in cells touched by a worker"
                " attribute, because a workplace may grow there by more than the cell holds; use"
                " smooth-pareto, or weak neighbours"
            )
        return ("count",)

    def lift(self, count: int) -> arb:
        """h(count)."""
        return self.bend.lift(count)

    def beyond(self, distance: int, side: int, *, count: int, largest: int) -> arb:
        """The chance of an output at least `distance` away from the count."""
        del largest
        law = BentLaplace(self.bend, one_cell(count), self.spread)
        return law.above(count + distance, 0) if side > 0 else law.below(count - distance, 0)

    def draw_outputs(self, counts: Whole, _largests: Whole, coins: Coins) -> Whole:
        """Outputs, each made from its count alone."""
        return draw(BentLaplace(self.bend, counts, self.spread), len(counts), coins)

    def certify(self) -> Certificate:
        """Recheck the guarantee from the chances alone."""
        return certify_bent(self)

    def mean_error(self, *, count: int, largest: int) -> tuple[float, float]:
        """Sums of both tails over whole numbers, the far upper one by its integral."""
        del largest
        if count > _MOST_SUMMED:
            return self.real_error(count=count)
        spread, centre = float(self.spread), float(self.lift(count))

        def tails(values: Array, side: int) -> Array:
            """P(Y >= value) for side 1, P(Y <= value) for side -1."""
            depth = side * (self.bend.near_height_of(values) - centre) / spread
            near, far = np.exp(-np.maximum(depth, 0.0)) / 2, np.exp(np.minimum(depth, 0.0)) / 2
            chances: Array = np.where(depth > 0, near, 1 - far)
            return chances

        reach = int(3_000 + 30 * (count + float(1 / self.alpha)))
        k: Array = np.arange(1.0, reach + 1.0)
        above, below = tails(count + k - 0.5, 1), tails(count - k + 0.5, -1)
        mean, square = above.sum() + below.sum(), ((2 * k - 1) * (above + below)).sum()
        offset, base, power = self.power_tail(count)
        start, true = count + reach + offset, count + offset
        if power <= 1:
            return inf, inf
        rest = (start / base) ** -power / 2 * start
        mean += rest / (power - 1)
        if power <= 2:
            return float(mean), inf
        square += 2 * rest * (start / (power - 2) - true / (power - 1))
        return float(mean), sqrt(float(square))

    def real_error(self, *, count: int) -> tuple[float, float]:
        """The mean and root mean square error before rounding."""
        spread, centre = float(self.spread), float(self.lift(count))
        if self.power_tail(count)[2] <= 1:
            return inf, inf

        def moment(n: int) -> float:
            def integrand(z: float) -> float:
                ends = self.bend.near_lower(centre + spread * np.array([z, -z]))[0]
                return float((np.abs(ends - count) ** n).sum()) / 2 * exp(-z)

            return float(quad(integrand, 0, 700, points=[1, 5, 20, 60], limit=400)[0])

        return moment(1), sqrt(moment(2)) if self.power_tail(count)[2] > 2 else inf
