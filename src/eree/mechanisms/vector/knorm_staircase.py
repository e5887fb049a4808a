"""K-norm staircase: plateaus of noise on the transformed counts of a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, log, log1p, sqrt
from typing import Self

import numpy as np
from flint import arb

from eree.cells import Cell, Group
from eree.errors import Refusal
from eree.mechanisms.certificate import Certificate, upper
from eree.mechanisms.intervals import transformed_ends
from eree.mechanisms.mechanism import errors_by_size
from eree.mechanisms.parameters import TooLittle, above, alpha_of, rounded_down, rounded_up
from eree.mechanisms.scaled.scaled import least
from eree.mechanisms.transformed.certificate import greatest_gain
from eree.mechanisms.transformed.linlog import IntegerLinLog
from eree.mechanisms.transformed.transform import Knots
from eree.mechanisms.vector.boxes import BoxPlateaus, OneNumber, best_first
from eree.mechanisms.vector.transformed_rows import TransformedBoxes
from eree.mechanisms.vector.vector import (
    GroupPair,
    VectorCertificate,
    VectorMechanism,
    group_size,
    worst_groups,
)
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Exact, Neighbours, Weak
from eree.random.exact import Array, Integers, draw_rows, exactly
from eree.random.source import Random

_MOST_CELLS = 1_000
#: Sums of more outputs than this give way to integrals, from which they no longer differ.
_MOST_SUMMED = 300_000
#: More plateaus than this take too long to sum.
_MOST_PLATEAUS = 100_000
#: A step of a large count has so many workers, and outputs that are looked at are below this.
_FINE, _FAR_OUTPUT = 1_000, 1e60
#: Points on a plateau, or the part of one between two knots, at which noise is looked at.
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(12)


@dataclass(frozen=True)
class KNormStaircase(VectorMechanism):
    """phi^-1(phi(count_i) + z_i) for each cell i, rounded; z of a density that falls in steps.

    phi is the transform of `IntegerLinLog`.  The density at z is proportional to
    q^(s(up) + s(down)): up is the greatest of the z_i and down the greatest of the -z_i, each at
    least 0; s(r) = ceil(r - gamma), at least 0; q = e^-epsilon.

    Theorem.  Under weak neighbours whose types are at least as fine as the cells, all outputs of a
    group together are (alpha, epsilon)-private with delta = 0, whatever gamma > 0.  Noise has a
    finite mean for epsilon > b = ln(1 + alpha).

    Proof.  In one step each cell i of a workplace grows by at most max(alpha h_i, 1), h_i what the
    workplace has in it, at most the count: so phi(count_i) grows by between 0 and 1, as for
    `IntegerLinLog`.  All transformed counts grow together, or all fall.  If they grow, the noise
    that leads to the same noisy ones has a smaller or equal up, by at most 1, and a greater or
    equal down, by at most 1.  As s(r) <= s(r + 1) <= s(r) + 1, s(up) falls by 0 or 1 and s(down)
    grows by 0 or 1: their sum changes by at most 1, and the logarithm of the density by at most
    epsilon.  If they fall, up and down change places.  What is made of the noisy transformed counts
    costs nothing.  Far out the density falls like q^r times a power of r, and outputs grow like
    e^(b r).
    """

    spread: Fraction
    rate: Fraction  # b, rounded up
    gamma: Fraction
    drop: Fraction  # epsilon, rounded down
    name = "knorm-staircase"
    symmetric = False

    @classmethod
    def relation(cls, alpha: Exact | None) -> Neighbours:
        """Weak ones, whose type is then called `type`."""
        if alpha is None:
            raise Refusal(f"{cls.name} needs an alpha, such as '0.1'")
        return Weak(alpha, ["type"])

    @classmethod
    def calibrate(cls, guarantee: Guarantee, *, cells: int = 1) -> Self:
        """Plateaus as wide as a step, and the gamma with the least mean noise."""
        group_size(cls.name, cells, _MOST_CELLS)
        if not isinstance(guarantee.neighbours, Weak):
            raise Refusal(
                f"{cls.name} is for weak neighbours: under strong ones a workplace may grow in a"
                " cell by more than the cell holds; use vector-radial, vector-pareto or"
                " two-stage-clip"
            )
        rate = rounded_up(log1p(float(alpha_of(guarantee, cls.name))))
        drop = rounded_down(float(guarantee.epsilon))
        steps = BoxPlateaus(Fraction(1), Fraction(1), cells).steps()  # times epsilon - b
        lowest = float(rate) + steps / _MOST_PLATEAUS
        if drop <= lowest:
            raise TooLittle(
                cls.name,
                epsilon=above(lowest),
                why=f"to protect {cells} cells, as plateaus are too many below",
                advice="raise it or lower alpha",
            )
        return cls(guarantee, cells, Fraction(1), rate, best_first(drop, cells), drop)

    @cached_property
    def single(self) -> IntegerLinLog:
        """Laplace noise on the same transformed count of one cell."""
        return IntegerLinLog(self.guarantee, self.spread, self.rate)

    @property
    def transform(self) -> Knots:
        """phi and its inverse."""
        return self.single.transform

    @property
    def mean_noise(self) -> None:
        """It is not symmetric on the scale of counts."""
        return

    def statistics(self, *, worker_attributes: bool = True) -> tuple[str, ...]:
        """`count` alone."""
        del worker_attributes
        return ("count",)

    @cached_property
    def plateaus(self) -> BoxPlateaus:
        """The distribution of the noise, in units of the spread."""
        return BoxPlateaus(self.gamma, self.drop, self.cells)

    def distribution(self, counts: Integers) -> TransformedBoxes:
        """The distributions of the outputs of some groups."""
        return TransformedBoxes(self.transform, counts, self.spread, self.plateaus)

    def draw_groups(self, counts: Integers, _largests: Integers, random: Random) -> Integers:
        """Outputs, made from the counts alone."""
        return draw_rows(self.distribution(counts), len(counts), random)

    def tail(self, cell: Cell, distance: int, side: int) -> arb:
        """The probability of an output of one cell at least `distance` away from the count."""
        outputs = self.distribution(np.zeros((1, self.cells), dtype=np.int64))
        return outputs.tail(cell.count + side * distance, side, cell.count)

    def group_pmf(self, group: Group, outputs: Sequence[int]) -> arb:
        """The probability of all outputs of a group, from that of a box of transformed counts."""
        return self.distribution(np.array([group.counts], dtype=np.int64)).pmf(outputs, 0)

    @cached_property
    def one_number(self) -> OneNumber:
        """The distribution of one cell's noise, on all plateaus that matter for errors.

        Where squares of errors have a finite mean they matter as long as these do.
        """
        rate = float(self.rate * self.spread)
        tilts = [n * rate for n in (2, 1) if n * rate < self.drop]
        lengths = [self.plateaus.steps(tilt) for tilt in tilts]
        return self.plateaus.one_number(next(n for n in lengths if n <= 2 * _MOST_PLATEAUS))

    def near_tail(self, noise: Array) -> Array:
        """The probability that one cell's noise is at least so much, in doubles."""
        return self.one_number.tail(noise / float(self.spread))

    def transformed_half_width(self, level: float) -> float:
        """What one cell's noise stays within, on the transformed scale, with such a probability."""
        return least(lambda x: 2 * self.near_tail(x) <= 1 - level)

    def interval(
        self, noisy: Integers, level: float, **_public: object
    ) -> tuple[Integers, Integers]:
        """On the transformed scale the noise is the same wherever the count is."""
        return transformed_ends(self.transform, self.transformed_half_width(level), noisy)

    def transformed_error(self) -> tuple[float, float]:
        """The mean and root mean square of one cell's noise on the transformed scale."""
        mean, square, _ = self.plateaus.moments
        spread = float(self.spread)
        return mean * spread, sqrt(square * spread**2)

    @cached_property
    def transformed_covariance(self) -> Array:
        """The covariance of the noise of all transformed counts of a group.

        That of two cells is the variance of the middle of a box, averaged over all boxes.
        """
        _, square, middle = self.plateaus.moments
        variance, covariance = (part * float(self.spread) ** 2 for part in (square, middle))
        found: Array = (variance - covariance) * np.eye(self.cells) + covariance
        return found

    @cached_property
    def boxes(self) -> tuple[Array, Array, Array]:
        """Those of the plateaus."""
        shares, down, up = self.plateaus.mixture
        return shares, float(self.spread) * down, float(self.spread) * up

    def mean_errors(self, counts: Integers, _largests: Integers) -> Array:
        """By the count."""
        return errors_by_size(self, counts)

    def certify(self) -> Certificate:
        """The loss between two groups is that of the plateaus between which a step can lead.

        `greatest_gain` rechecks the most that a step adds to a transformed count.  By as much `up`
        may rise while `down` does not, or the other way round.  That passes most plateaus where it
        begins at the end of one; the loss is the logarithm of the quotient of the densities there.
        """
        gain, place = greatest_gain(self.single)
        plateaus = self.plateaus
        farthest = plateaus.plateau(plateaus.first + gain / self.spread)
        with exactly():
            loss = upper((plateaus.density(0, 0) / plateaus.density(farthest, 0)).log())
        seen = [self._worst_growth(place, [10**6]), self._worst_along_a_plateau()]
        return VectorCertificate.pure(self, loss, max(seen, key=lambda pair: pair.loss))

    def _worst_along_a_plateau(self) -> GroupPair:
        """The worst loss seen of a count whose outputs are much finer than plateaus.

        Outputs lie all along the first two plateaus beyond the middle one, above and below.
        """
        count = int(_FINE / self.alpha)
        away = float(self.spread) * (float(self.gamma) + np.arange(25) / 12)
        noisy = float(self.transform.forward(count)) + np.concatenate([away, -away])
        ends = self.transform.near_inverse(noisy)[0]
        outputs = [int(end) for end in ends if abs(end) < _FAR_OUTPUT]
        return self._worst_growth(count, outputs)

    def _worst_growth(self, count: int, outputs: Sequence[int]) -> GroupPair:
        """The worst loss seen where one cell makes the step of a count, by joint probabilities."""
        grown, rest = count + max(int(self.alpha * count), 1), (0,) * (self.cells - 1)
        before, after = (Group.of((n, *rest), n) for n in (count, grown))
        firsts = {*outputs, count, grown, 2 * grown + 2, -3 * grown - 3}
        return worst_groups(self, [(before, after, [(first, *rest) for first in sorted(firsts)])])

    def mean_error(self, cell: Cell) -> tuple[float, float]:
        """Sums of both tails over integers, the far upper one by an integral.

        Where the noise is wide, rounding no longer matters, and integrals take the place of sums.
        """
        centre, far = (
            float(self.transform.forward(cell.count)),
            float(self.spread) * self.one_number.ends[-1],
        )
        values, slopes = self.transform.near_inverse(centre + np.array([0.0, far, -far]))
        above, below = (min(abs(float(value) - cell.count) + 1, 1e18) for value in values[1:])
        cut = above > _MOST_SUMMED
        above = 200 + 30 * self.transformed_error()[0] * float(slopes[0]) if cut else above
        if max(above, below) > _MOST_SUMMED:
            return self.real_error(cell)
        mean = square = 0.0
        for last, side in ((int(above), 1), (int(below), -1)):
            k: Array = np.arange(1.0, last + 1.0)
            ends = self.transform.near_preimage(cell.count + side * (k - 0.5))
            tails = self.near_tail(side * (ends - centre))
            mean += float(tails.sum())
            square += float(((2 * k - 1) * tails).sum())
        if cut:
            last = int(above)
            end = np.array([cell.count + float(last)])
            start = float(self.transform.near_preimage(end)[0]) - centre
            probability, first, second = self._moments(cell.count, 1, start)
            mean += first - last * probability
            square += second - last**2 * probability
        return mean, sqrt(square) if self._squares else inf

    def real_error(self, cell: Cell) -> tuple[float, float]:
        """The mean and root mean square error before rounding."""
        sides = [self._moments(cell.count, side, 0.0) for side in (1, -1)]
        return sum(side[1] for side in sides), sqrt(sum(side[2] for side in sides))

    def _moments(self, count: int, side: int, start: float) -> tuple[float, float, float]:
        """The tail of the noise from a start on, on one side, and two moments of its error.

        Integrals over each plateau, or the part of one between two knots.  Errors and densities
        are taken by their logarithms, as one may be too large and the other too small for doubles.
        """
        transform, spread, one = self.transform, float(self.spread), self.one_number
        centre, last, rate = (
            float(transform.forward(count)),
            float(transform.values[-1]),
            float(transform.rate),
        )
        knots = side * (np.array([float(value) for value in transform.values]) - centre)
        edges = np.unique(np.concatenate([[start], one.ends * spread, knots]))
        edges = edges[(edges >= start) & (edges <= one.ends[-1] * spread)]
        half = np.diff(edges)[:, None] / 2
        at = edges[:-1, None] + half * (1 + _NODES)
        noisy = centre + side * at
        error = np.abs(transform.near_inverse(noisy)[0] - count)
        exponent = rate * (noisy - last)
        far = exponent + log(float(transform.step) / rate)
        sizes = np.where(exponent > 500, far, np.log(np.maximum(error, 1e-300)))
        logs = one.log_density(at / spread) + np.log(half * _NODE_WEIGHTS / spread)
        with np.errstate(over="ignore"):  # too much for a double is too much
            probability, mean = float(np.exp(logs).sum()), float(np.exp(logs + sizes).sum())
            square = float(np.exp(logs + 2 * sizes).sum()) if self._squares else inf
        return probability, mean, square

    @property
    def _squares(self) -> bool:
        """Whether squares of errors have a finite mean that plateaus can be summed to."""
        rate = 2 * float(self.rate * self.spread)
        return rate < self.drop and self.plateaus.steps(rate) <= len(self.one_number.logs)
