"""K-norm staircase: plateaus of noise on the heights of whole counts, for a group at once."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, log, log1p, sqrt
from typing import Self

import numpy as np

from eree.mechanisms.bent_loss import greatest_gain
from eree.mechanisms.bent_vector import BentVector
from eree.mechanisms.certificate import Certificate, upper
from eree.mechanisms.knorm_linlog import KNormLinLog
from eree.mechanisms.linlog import IntegerLinLog
from eree.mechanisms.mechanism import Array, alpha_of, exactly, rounded_down, rounded_up
from eree.mechanisms.needs import TooLittle, above
from eree.mechanisms.vector import GroupPair, VectorCertificate
from eree.noise.box_stairs import BentBoxes, BoxStairs, OneNumber, best_first
from eree.noise.exact import Whole
from eree.policy.guarantee import Guarantee

#: Sums of more outputs than this give way to integrals, from which they no longer differ.
_MOST_SUMMED = 300_000
#: More plateaus than this take too long to sum.
_MOST_PLATEAUS = 100_000
#: A step of a large count has so many workers, and outputs that are looked at are below this.
_FINE, _FAR_OUTPUT = 1_000, 1e60
#: Points on a plateau, or the part of one between two knots, at which noise is looked at.
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(12)


@dataclass(frozen=True)
class KNormStaircase(BentVector):
    """phi^-1(phi(count_i) + z_i) for each cell i, rounded; z of a density that falls in steps.

    phi is the scale of `IntegerLinLog`.  The density at z is proportional to q^(s(up) + s(down)):
    up is the greatest of the z_i and down the greatest of the -z_i, each at least 0;
    s(r) = ceil(r - gamma), at least 0; q = e^-epsilon.

    Theorem.  Under weak neighbours whose types are at least as fine as the cells, all outputs of a
    group together are (alpha, epsilon)-private with delta = 0, whatever gamma > 0.  Noise has a
    finite mean for epsilon > b = ln(1 + alpha).

    Proof.  In one step all heights grow by between 0 and 1, as for every `BentVector`, or all fall.
    If they grow, the noise that leads to the same noisy heights has a smaller or equal up, by at
    most 1, and a greater or equal down, by at most 1.  As s(r) <= s(r + 1) <= s(r) + 1, s(up) falls
    by 0 or 1 and s(down) grows by 0 or 1: their sum changes by at most 1, and the logarithm of the
    density by at most epsilon.  If they fall, up and down change places.  What is made of the
    heights costs nothing.  Far out the density falls like q^r times a power of r, and outputs grow
    like e^(b r).
    """

    gamma: Fraction
    drop: Fraction  # epsilon, rounded down
    name = "knorm-staircase"
    heights_of = IntegerLinLog

    @classmethod
    def calibrate(cls, guarantee: Guarantee, *, cells: int = 1) -> Self:
        """Plateaus as wide as a step, and the gamma with the least mean noise of heights."""
        with suppress(TooLittle):  # which names too little for the plateaus
            cls._one_cell(guarantee, cells)
        rate = rounded_up(log1p(float(alpha_of(guarantee, cls.name))))
        drop = rounded_down(float(guarantee.epsilon))
        steps = BoxStairs(Fraction(1), Fraction(1), cells).steps()  # times epsilon - b
        least = float(rate) + steps / _MOST_PLATEAUS
        if drop <= least:
            raise TooLittle(
                cls.name,
                epsilon=above(least),
                why=f"to hide {cells} cells, as plateaus are too many below",
                advice=f"raise it, lower alpha, or use {KNormLinLog.name}",
            )
        return cls(guarantee, cells, Fraction(1), rate, best_first(drop, cells), drop)

    @cached_property
    def stairs(self) -> BoxStairs:
        """The law of the noise, in units of the spread."""
        return BoxStairs(self.gamma, self.drop, self.cells)

    def law(self, counts: Whole) -> BentBoxes:
        """The laws of the outputs of some groups."""
        return BentBoxes(self.bend, counts, self.spread, self.stairs)

    @cached_property
    def one_number(self) -> OneNumber:
        """The law of the noise of one height, on all plateaus that matter for errors.

        Where squares of errors have a finite mean they matter as long as these do.
        """
        rate = float(self.rate * self.spread)
        tilts = [n * rate for n in (2, 1) if n * rate < self.drop]
        lengths = [self.stairs.steps(tilt) for tilt in tilts]
        return self.stairs.one_number(next(n for n in lengths if n <= 2 * _MOST_PLATEAUS))

    def near_tail(self, heights: Array) -> Array:
        """The chance that the noise of one cell's height is at least so much."""
        return self.one_number.tail(heights / float(self.spread))

    def height_moments(self) -> tuple[float, float, float]:
        """Of a box and of its middle, averaged over all boxes."""
        mean, square, middle = self.stairs.moments
        spread = float(self.spread)
        return mean * spread, square * spread**2, middle * spread**2

    def certify(self) -> Certificate:
        """The loss between two groups is that of the plateaus between which a step can lead.

        `greatest_gain` rechecks the greatest height that a step gains.  By as much `up` may rise
        while `down` does not, or the other way round.  That passes most plateaus where it begins at
        the end of one; the loss is the logarithm of the quotient of the densities there.
        """
        gain, place = greatest_gain(self.single)
        stairs = self.stairs
        reached = stairs.plateau(stairs.first + gain / self.spread)
        with exactly():
            loss = upper((stairs.density(0, 0) / stairs.density(reached, 0)).log())
        seen = [self.worst_growth(place, [10**6]), self._worst_along_a_plateau()]
        return VectorCertificate.pure(self, loss, max(seen, key=lambda pair: pair.loss))

    def _worst_along_a_plateau(self) -> GroupPair:
        """The worst loss seen of a count whose outputs are much finer than plateaus.

        Outputs lie all along the first two plateaus beyond the middle one, above and below.
        """
        count = int(_FINE / self.alpha)
        away = float(self.spread) * (float(self.gamma) + np.arange(25) / 12)
        heights = float(self.bend.lift(count)) + np.concatenate([away, -away])
        ends = self.bend.near_lower(heights)[0]
        outputs = [int(end) for end in ends if abs(end) < _FAR_OUTPUT]
        return self.worst_growth(count, outputs)

    def mean_error(self, *, count: int, largest: int) -> tuple[float, float]:
        """Sums of both tails over whole numbers, the far upper one by an integral.

        Where the noise is wide, rounding no longer matters, and integrals take the place of sums.
        """
        del largest
        centre, far = float(self.bend.lift(count)), float(self.spread) * self.one_number.ends[-1]
        values, slopes = self.bend.near_lower(centre + np.array([0.0, far, -far]))
        above, below = (min(abs(float(value) - count) + 1, 1e18) for value in values[1:])
        cut = above > _MOST_SUMMED
        above = 200 + 30 * self.height_error()[0] * float(slopes[0]) if cut else above
        if max(above, below) > _MOST_SUMMED:
            return self.real_error(count=count)
        mean = square = 0.0
        for reach, side in ((int(above), 1), (int(below), -1)):
            k: Array = np.arange(1.0, reach + 1.0)
            heights = self.bend.near_height_of(count + side * (k - 0.5))
            tails = self.near_tail(side * (heights - centre))
            mean += float(tails.sum())
            square += float(((2 * k - 1) * tails).sum())
        if cut:
            reach = int(above)
            start = float(self.bend.near_height_of(np.array([count + float(reach)]))[0]) - centre
            chance, first, second = self._moments(count, 1, start)
            mean += first - reach * chance
            square += second - reach**2 * chance
        return mean, sqrt(square) if self._squares else inf

    def real_error(self, *, count: int) -> tuple[float, float]:
        """The mean and root mean square error before rounding."""
        sides = [self._moments(count, side, 0.0) for side in (1, -1)]
        return sum(side[1] for side in sides), sqrt(sum(side[2] for side in sides))

    def _moments(self, count: int, side: int, start: float) -> tuple[float, float, float]:
        """The chance of noise beyond a start on one side, and the first two moments of its error.

        Integrals over each plateau, or the part of one between two knots.  Errors and densities
        are taken by their logarithms, as one may be too large and the other too small for doubles.
        """
        bend, spread, one = self.bend, float(self.spread), self.one_number
        centre, last, rate = float(bend.lift(count)), float(bend.heights[-1]), float(bend.rate)
        knots = side * (np.array([float(height) for height in bend.heights]) - centre)
        edges = np.unique(np.concatenate([[start], one.ends * spread, knots]))
        edges = edges[(edges >= start) & (edges <= one.ends[-1] * spread)]
        half = np.diff(edges)[:, None] / 2
        at = edges[:-1, None] + half * (1 + _NODES)
        height = centre + side * at
        error = np.abs(bend.near_lower(height)[0] - count)
        climbed = rate * (height - last)
        far = climbed + log(float(bend.step) / rate)
        sizes = np.where(climbed > 500, far, np.log(np.maximum(error, 1e-300)))
        logs = one.log_density(at / spread) + np.log(half * _NODE_WEIGHTS / spread)
        with np.errstate(over="ignore"):  # too much for a double is too much
            chance, mean = float(np.exp(logs).sum()), float(np.exp(logs + sizes).sum())
            square = float(np.exp(logs + 2 * sizes).sum()) if self._squares else inf
        return chance, mean, square

    @property
    def _squares(self) -> bool:
        """Whether squares of errors have a finite mean that plateaus can be summed to."""
        rate = 2 * float(self.rate * self.spread)
        return rate < self.drop and self.stairs.steps(rate) <= len(self.one_number.logs)
