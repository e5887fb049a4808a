"""Mechanisms whose noise is the same in every cell."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from math import exp, expm1, nextafter, sinh, sqrt
from typing import Self

import numpy as np
from flint import arb

from eree.cells import Cell
from eree.errors import Refusal, integer
from eree.mechanisms.certificate import Certificate, upper, worst_of
from eree.mechanisms.geometric import CappedGeometric
from eree.mechanisms.intervals import least_error
from eree.mechanisms.mechanism import EMPTY, Mechanism
from eree.mechanisms.parameters import TooLittle, check_range
from eree.mechanisms.scaled.distributions import RoundedLaplace, Scales
from eree.mechanisms.scaled.scaled import Noise
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import EDGE, NODE, Edge, Exact, Neighbours, Node
from eree.random.exact import (
    Array,
    Integers,
    draw,
    exactly,
)
from eree.random.source import Random
from eree.workload import DropFrom

_MOST_CAP = 1_000_000


@dataclass(frozen=True)
class FixedMechanism(Mechanism):
    """count + K, the distribution of K the same for every cell."""

    sum_share = 1 / 16  # bounds of the counts are needed only for noise to be cut off

    @abstractmethod
    def distribution(self, cells: int) -> Noise:
        """The distribution of the noise of some cells."""

    def tail(self, _cell: Cell, distance: int, _side: int) -> arb:
        """The tail of the noise; it is the same on both sides and for every cell."""
        return self.distribution(1).tail(distance, 0)

    def draw_outputs(self, counts: Integers, _largests: Integers, random: Random) -> Integers:
        """Counts and their noise."""
        return counts + draw(self.distribution(len(counts)), len(counts), random)

    def half_widths(self, level: float, sizes: Integers) -> tuple[Integers, Integers]:
        """The same for all sizes."""
        width = np.full(len(sizes), self.quantile(level))
        return width, width

    def mean_errors(self, counts: Integers, _largests: Integers) -> Array:
        """The same for all cells."""
        return np.full(len(counts), self.mean_error(EMPTY)[0])

    def total_error(self, cell: Cell) -> float:
        """With the jobs that a bound leaves out of the count; never less, without a `decay`."""
        missing, error = self._left_out(cell), self.mean_error(cell)[0]
        return missing + error * (1.0 if self.decay is None else exp(-self.decay * missing))

    def total_quantile(self, level: float, cell: Cell) -> int:
        """What the size of that error stays within with a probability of `level`."""
        missing, noise = self._left_out(cell), self.distribution(1)

        def at_least(value: int) -> arb:
            return noise.tail(value, 0) if value > 0 else 1 - noise.tail(1 - value, 0)

        def enough(error: int) -> bool:
            above, below = at_least(missing + error + 1), at_least(error + 1 - missing)
            return bool(above + below <= 1 - arb(level))

        with exactly():
            return least_error(enough)

    def _left_out(self, cell: Cell) -> int:
        return cell.count if self.bound and cell.largest >= self.bound.theta else 0


@dataclass(frozen=True)
class EdgeGeometric(FixedMechanism):
    """count + K, P(K = k) proportional to e^(-epsilon |k|).

    Theorem.  Under edge neighbours the output is epsilon-private with delta = 0, in every cell: one
    worker moves the count by one at most, and ln P changes by at most epsilon from one integer
    to the next.  It protects workers alone; it says nothing of workplaces.
    """

    name = "edge-geometric"

    @classmethod
    def relation(cls, _alpha: Exact | None) -> Neighbours:
        """Edge neighbours, which have no alpha."""
        return EDGE

    @classmethod
    def calibrate(cls, guarantee: Guarantee) -> Self:
        """The rate is epsilon."""
        _needs(cls.name, guarantee, Edge)
        return cls(guarantee)

    def statistics(self, *, worker_attributes: bool = False) -> tuple[str, ...]:
        """`count` alone."""
        del worker_attributes
        return ("count",)

    def distribution(self, _cells: int) -> CappedGeometric:
        """The geometric distribution of both signs."""
        return CappedGeometric(self.guarantee.epsilon)

    def mean_error(self, _cell: Cell) -> tuple[float, float]:
        """With q = e^-epsilon: 2 q / (1 - q^2), and the root of 2 q / (1 - q)^2, without loss."""
        rate = float(self.guarantee.epsilon)
        return 1 / sinh(rate), sqrt(2 * exp(-rate)) / -expm1(-rate)

    def certify(self) -> Certificate:
        """ln P(k) is -epsilon |k| and a constant, so a step by one loses epsilon, exactly."""
        rate = self.distribution(1).rate
        worst = max(abs(rate * abs(k) - rate * abs(k - 1)) for k in range(-3, 4))
        pair = worst_of(self, [(Cell(0), Cell(1), range(-3, 5))])
        return Certificate.pure(self, worst, pair)


@dataclass(frozen=True)
class CappedLaplace(FixedMechanism):
    """count + K, P(K = k) proportional to e^(-epsilon |k|) for |k| <= cap, 0 beyond.

    Theorem.  Under edge neighbours (one record more or less) the output is (epsilon, delta)-private
    with delta = P(K = cap), in every cell.  Proof.  Where both neighbours can give an output, its
    probabilities differ by a factor of at most e^epsilon; each can give one output that the other
    cannot, with the probability P(K = cap).
    """

    cap: int
    name = "capped-laplace"

    @classmethod
    def relation(cls, _alpha: Exact | None) -> Neighbours:
        """Edge neighbours, which have no alpha."""
        return EDGE

    @classmethod
    def default_delta(cls, _alpha: Fraction | None, _epsilon: Fraction) -> Fraction:
        """One in a million."""
        return Fraction(1, 1_000_000)

    @classmethod
    def calibrate(cls, guarantee: Guarantee, *, cap: int | None = None) -> Self:
        """The least cap that keeps delta, or the one given if it does."""
        _needs(cls.name, guarantee, Edge)
        if guarantee.delta == 0:
            raise Refusal(
                f"{cls.name} needs a delta above 0, such as 1e-6; edge-geometric does without"
            )
        if cap is None:
            cap = cls._least_cap(guarantee)
        cap = integer(cap, "cap must be an integer from 1 to 1,000,000", 1, _MOST_CAP)
        made = cls(guarantee, cap)
        if not made._keeps():
            with exactly():
                delta = upper(made.distribution(1).tail(cap, 0))
            enough = cls._least_cap(guarantee)
            larger = f", or a cap of {enough:,} or more" if cls(guarantee, enough)._keeps() else ""
            raise TooLittle(
                cls.name,
                delta=delta,
                why=f"with a cap of {cap:,}{larger}",
                advice="raise either of both",
            )
        return made

    @classmethod
    def _least_cap(cls, guarantee: Guarantee) -> int:
        """The least cap that keeps delta, or the greatest there is."""
        low, cap = 0, 1
        while not cls(guarantee, cap)._keeps() and cap < _MOST_CAP:
            low, cap = cap, min(2 * cap, _MOST_CAP)
        while cap - low > 1:
            middle = (low + cap) // 2
            keeps = cls(guarantee, middle)._keeps()
            low, cap = (low, middle) if keeps else (middle, cap)
        return cap

    def _keeps(self) -> bool:
        with exactly():
            return bool(self.distribution(1).tail(self.cap, 0) <= _ball(self.guarantee.delta))

    def statistics(self, *, worker_attributes: bool = False) -> tuple[str, ...]:
        """`count` alone."""
        del worker_attributes
        return ("count",)

    def distribution(self, _cells: int) -> CappedGeometric:
        """The geometric distribution of both signs with a cap."""
        return CappedGeometric(self.guarantee.epsilon, self.cap)

    def mean_error(self, _cell: Cell) -> tuple[float, float]:
        """Sums over the cap."""
        k: Array = np.arange(1.0, self.cap + 1.0)
        weight = np.exp(-float(self.guarantee.epsilon) * k)
        whole = 1 + 2 * weight.sum()
        mean, square = 2 * (k * weight).sum() / whole, 2 * (k * k * weight).sum() / whole
        return float(mean), sqrt(float(square))

    def certify(self) -> Certificate:
        """Where one neighbour alone can give an output this has delta; elsewhere epsilon."""
        noise = self.distribution(1)
        inner = range(-min(self.cap, 3), min(self.cap, 3) + 1)
        worst = max(abs(noise.rate * abs(k) - noise.rate * abs(k - 1)) for k in inner)
        with exactly():
            delta = nextafter(float(noise.tail(self.cap, 0).upper()), 1.0)
        pair = worst_of(self, [(Cell(0), Cell(1), {1 - self.cap, 0, 1, self.cap})])
        return Certificate(self.name, self.guarantee, worst, delta, pair)


@dataclass(frozen=True)
class TruncatedLaplace(FixedMechanism):
    """bounded count + (theta / epsilon) L, rounded; L of the density e^-|z| / 2.

    The bounded count leaves out every workplace of theta or more workers.

    Theorem.  Under node neighbours the output is epsilon-private with delta = 0, in every cell: a
    workplace adds between 0 and theta - 1 to the bounded count, however it grows, and Laplace noise
    of that scale protects theta.  What the bound leaves out is missing from the output on average.
    """

    theta: int
    name = "truncated-laplace"

    @classmethod
    def relation(cls, _alpha: Exact | None) -> Neighbours:
        """Node neighbours, which have no alpha."""
        return NODE

    @classmethod
    def calibrate(cls, guarantee: Guarantee, *, theta: int = 100) -> Self:
        """The published scale theta / epsilon."""
        _needs(cls.name, guarantee, Node)
        return cls(guarantee, DropFrom(theta).theta)

    def statistics(self, *, worker_attributes: bool = False) -> tuple[str, ...]:
        """`count`, of cells bounded by `bound`."""
        del worker_attributes
        return ("count",)

    @property
    def bound(self) -> DropFrom:
        """How workplaces are bounded before they are counted."""
        return DropFrom(self.theta)

    def distribution(self, cells: int) -> RoundedLaplace:
        """Laplace noise of one scale."""
        factor = self.theta / self.guarantee.epsilon
        return RoundedLaplace(Scales(np.zeros(cells, dtype=np.int64), Fraction(0), factor))

    def mean_error(self, _cell: Cell) -> tuple[float, float]:
        """Against the bounded count, with q = e^(-epsilon / theta): geometric sums of the tail."""
        half, rest = exp(-self.decay / 2), -expm1(-self.decay)
        return half / rest, sqrt(half * (2 - rest)) / rest

    @property
    def decay(self) -> float:
        """epsilon / theta.

        The mean of |K - b| is b + 2 P(K > b) + 2 P(K > b + 1) + …, because K has the mean 0; that
        is b and q^b times the error without a bound.
        """
        return float(self.guarantee.epsilon / self.theta)

    def certify(self) -> Certificate:
        """A density of the rate epsilon / theta loses at most that for each worker moved."""
        most = self.theta - 1
        worst = most / self.distribution(1).scales.factor
        pair = worst_of(self, [(Cell(0), Cell(most), (-1, 0, most, most + 1, 10 * self.theta))])
        return Certificate.pure(self, Fraction(worst), pair)


def _ball(value: Fraction) -> arb:
    return arb(value.numerator) / arb(value.denominator)


def _needs(name: str, guarantee: Guarantee, relation: type[Edge] | type[Node]) -> None:
    if not isinstance(guarantee.neighbours, relation):
        wanted = relation.__name__.lower()
        raise Refusal(
            f"{name} is for {wanted} neighbours; under strong or weak ones use smooth-pareto"
        )
    check_range(guarantee, name)
