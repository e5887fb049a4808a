"""Mechanisms that add Laplace noise to a transformed count: what they have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import exp, inf, log, sqrt

import numpy as np
from flint import arb

from eree.cells import Cell
from eree.errors import Refusal
from eree.mechanisms.certificate import Certificate
from eree.mechanisms.intervals import MeanNoise, transformed_ends
from eree.mechanisms.mechanism import Mechanism, errors_by_size, one_cell
from eree.mechanisms.parameters import alpha_of
from eree.mechanisms.transformed.certificate import certify_transformed
from eree.mechanisms.transformed.transform import Transform, TransformedLaplace
from eree.policy.neighbours import Strong
from eree.random.exact import Array, Integers, draw
from eree.random.source import Random

#: Sums of more outputs than this give way to integrals, from which they no longer differ.
_MOST_SUMMED = 300_000


@dataclass(frozen=True)
class TransformedMechanism(Mechanism):
    """inverse(h(count) + spread * L), rounded; L of the density e^-|z| / 2, h a rising function.

    Theorem.  If h(n + max(floor(alpha n), 1)) - h(n) <= spread * epsilon for all counts n, the
    output is (alpha, epsilon)-private with delta = 0: for one cell of workplace attributes under
    strong neighbours, and for one of workplace attributes and worker types under weak ones.
    Proof.  No workplace of the cell is larger than n, so one step leads from n to at most
    n + max(floor(alpha n), 1), and Laplace noise protects that distance; what is made of the
    noisy transformed count costs nothing.
    """

    symmetric = False

    @property
    @abstractmethod
    def transform(self) -> Transform:
        """The function h and its inverse."""

    @property
    def mean_noise(self) -> MeanNoise | None:
        """It is not symmetric on the scale of counts."""
        return None

    @property
    @abstractmethod
    def spread(self) -> Fraction:
        """The scale of the Laplace noise."""

    @abstractmethod
    def elasticity_from(self) -> tuple[int, Fraction]:
        """N >= 1 / alpha, and a bound of u times the slope of h at u, for all u >= N."""

    @abstractmethod
    def turning_counts(self) -> Iterable[int]:
        """The counts up to N among which the greatest step of h is found."""

    @abstractmethod
    def power_tail(self, count: int) -> tuple[float, float, float]:
        """(offset, base, power): P(Y >= y) = ((y + offset) / base)^-power / 2 far out."""

    @property
    @abstractmethod
    def tail_from(self) -> float:
        """The value from which on P(Y >= y) is that power."""

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

    def forward(self, count: int) -> arb:
        """h(count)."""
        return self.transform.forward(count)

    def exact_forward(self, _count: int) -> Fraction | None:
        """h(count) as a fraction, where it is one and known to be."""
        return None

    def tail(self, cell: Cell, distance: int, side: int) -> arb:
        """The probability of an output at least `distance` away from the count."""
        outputs = TransformedLaplace(self.transform, one_cell(cell.count), self.spread)
        end = cell.count + side * distance
        return outputs.above(end, 0) if side > 0 else outputs.below(end, 0)

    def draw_outputs(self, counts: Integers, _largests: Integers, random: Random) -> Integers:
        """Outputs, each made from its count alone."""
        return draw(TransformedLaplace(self.transform, counts, self.spread), len(counts), random)

    def interval(
        self, noisy: Integers, level: float, **_public: object
    ) -> tuple[Integers, Integers]:
        """The noise is the same on the scale of h, wherever the count is."""
        return transformed_ends(self.transform, float(self.spread) * -log(1 - level), noisy)

    def mean_errors(self, counts: Integers, _largests: Integers) -> Array:
        """By the count."""
        return errors_by_size(self, counts)

    def certify(self) -> Certificate:
        """Recheck the guarantee from the probabilities alone."""
        return certify_transformed(self)

    def mean_error(self, cell: Cell) -> tuple[float, float]:
        """Sums of both tails over integers, the far upper one by its integral.

        Where the noise is wide, rounding no longer matters, and integrals take the place of sums.
        """
        spread, centre = float(self.spread), float(self.forward(cell.count))
        width = spread * float(self.transform.near_inverse(np.array([centre]))[1][0])
        above, below = self._summed_up_to(cell.count, width)
        if max(above, below) > _MOST_SUMMED:
            return self.real_error(cell)
        k: Array = np.arange(1.0, above + 1.0)
        tails = self._tails(cell.count + k - 0.5, 1, centre)
        mean, square = float(tails.sum()), float(((2 * k - 1) * tails).sum())
        k = np.arange(1.0, below + 1.0)
        tails = self._tails(cell.count - k + 0.5, -1, centre)
        mean, square = mean + float(tails.sum()), square + float(((2 * k - 1) * tails).sum())
        far = self._far(cell.count, cell.count + above)
        return mean + far[0], sqrt(square + far[1])

    def _summed_up_to(self, count: int, width: float) -> tuple[int, int]:
        """How far above and below a count sums go: to the power tail, and to where nothing is."""
        above = int(max(200 + 30 * width, self.tail_from - count + 1))
        below = int(200 + 50 * width)
        lowest = float(self.spread) * -45 + float(self.forward(count))
        while self.transform.near_preimage(np.array([count - below + 0.5]))[0] > lowest:
            below *= 2
        return above, below

    def _tails(self, values: Array, side: int, centre: float) -> Array:
        """P(Y >= value) for side 1, P(Y <= value) for side -1, before rounding."""
        depth = side * (self.transform.near_preimage(values) - centre) / float(self.spread)
        near, far = np.exp(-np.maximum(depth, 0.0)) / 2, np.exp(np.minimum(depth, 0.0)) / 2
        tails: Array = np.where(depth > 0, near, 1 - far)
        return tails

    def _far(self, count: int, start: float) -> tuple[float, float]:
        """The integrals of P(Y >= y) and 2 (y - count) P(Y >= y) from `start` on, a power there."""
        offset, base, power = self.power_tail(count)
        if power <= 1:
            return inf, inf
        begin, true = start + offset, count + offset
        rest = exp(-power * log(begin / base)) / 2 * begin
        if power <= 2:
            return rest / (power - 1), inf
        return rest / (power - 1), 2 * rest * (begin / (power - 2) - true / (power - 1))

    def real_error(self, cell: Cell) -> tuple[float, float]:
        """The mean and root mean square error before rounding.

        Up to 30 spreads by integration over the noise, beyond that by the power of the tail.
        """
        spread, centre = float(self.spread), float(self.forward(cell.count))
        last = max(
            30.0,
            (float(self.transform.near_preimage(np.array([self.tail_from]))[0]) - centre) / spread,
        )

        def moment(n: int) -> float:
            from scipy.integrate import quad

            def integrand(z: float) -> float:
                ends = self.transform.near_inverse(centre + spread * np.array([z, -z]))[0]
                return float((np.abs(ends - cell.count) ** n).sum()) / 2 * exp(-z)

            edges = [0.0, 0.1, 1.0, 5.0, 15.0, last]
            return float(sum(quad(integrand, a, b, limit=200)[0] for a, b in pairwise(edges)))

        start = float(self.transform.near_inverse(np.array([centre + spread * last]))[0][0])
        probability, away, far = exp(-last) / 2, start - cell.count, self._far(cell.count, start)
        mean = moment(1) + away * probability + far[0]
        return mean, inf if far[1] == inf else sqrt(moment(2) + away**2 * probability + far[1])
