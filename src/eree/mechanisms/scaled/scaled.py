"""Mechanisms that add noise of a scale S = max(pace * largest, 1): what they have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import inf, sqrt
from typing import Protocol

import numpy as np
from flint import arb
from numpy.typing import NDArray

from eree.cells import Cell
from eree.mechanisms.certificate import Certificate
from eree.mechanisms.mechanism import Mechanism, errors_by_size, one_cell
from eree.mechanisms.parameters import alpha_of
from eree.mechanisms.scaled.certificate import OneStep, certify_scaled, scale_at
from eree.mechanisms.scaled.distributions import Scales
from eree.policy.neighbours import Strong
from eree.random.exact import Array, Distributions, Integers, draw
from eree.random.source import Random

#: From this scale on rounding no longer changes an error: by less than a 10^6th of it.
_LARGE = 1e3


class Noise(Distributions, Protocol):
    """A symmetric distribution of noise that knows its tail."""

    def tail(self, value: int, cell: int) -> arb:
        """The probability that the noise of a cell is at least `value` >= 1."""


@dataclass(frozen=True)
class SizedMechanism(Mechanism):
    """count + K, the distribution of K depending on the cell through its largest workplace alone.

    Under strong neighbours `largest` is the largest workplace of a cell of workplace attributes;
    for a cell touched by a worker attribute it must be `largest_total`, because the whole workplace
    may grow into the cell.  With `largest` there, the guarantee is weak.
    """

    sum_share = 1 / 2

    @property
    def alpha(self) -> Fraction:
        """The share by which a workplace may grow in one step."""
        return alpha_of(self.guarantee, self.name)

    def mean_errors(self, _counts: Integers, largests: Integers) -> Array:
        """By the largest workplace; up to 1 / alpha one worker may join at a time."""
        return errors_by_size(self, largests, least=int(1 / self.alpha))

    def statistics(self, *, worker_attributes: bool = False) -> tuple[str, ...]:
        """`count`, and `largest`, or `largest_total` where the whole workplace may grow into it."""
        strong = isinstance(self.guarantee.neighbours, Strong)
        return "count", "largest_total" if worker_attributes and strong else "largest"

    @abstractmethod
    def half_width(self, level: float, sizes: Integers) -> Integers:
        """For many sizes at once, a number of workers that is never below `quantile`."""

    def half_widths(self, level: float, sizes: Integers) -> tuple[Integers, Integers]:
        """The same below and above the count."""
        width = self.half_width(level, sizes)
        return width, width


@dataclass(frozen=True)
class ScaledMechanism(SizedMechanism):
    """count + K, the distribution of K depending on S = max(pace * largest, 1) alone."""

    @property
    def pace(self) -> Fraction:
        """What S grows by with each worker of the largest workplace: alpha, unless overridden."""
        return self.alpha

    @abstractmethod
    def distribution(self, largests: Integers) -> Noise:
        """The distributions of the noise of some cells."""

    def tail(self, cell: Cell, distance: int, _side: int) -> arb:
        """The tail of the noise; it is the same on both sides and for every count."""
        return self.distribution(one_cell(cell.largest)).tail(distance, 0)

    def draw_outputs(self, counts: Integers, largests: Integers, random: Random) -> Integers:
        """Counts and their noise."""
        return counts + draw(self.distribution(largests), len(counts), random)

    def certify(self) -> Certificate:
        """Recheck the guarantee from the probabilities alone."""
        return certify_scaled(self)

    def scales(self, largests: Integers, factor: Fraction) -> Scales:
        """S times a factor for some cells."""
        return Scales(largests, self.pace, factor)

    # ------------------------------------------------------- for the certificate

    @abstractmethod
    def log_weight(self, t: Array) -> Array:
        """The logarithm of the weight w(t), t >= 0, with w(0) = 1."""

    @property
    def one_step(self) -> OneStep:
        """What one step can do to the count and to S."""
        return OneStep(float(self.alpha), float(self.pace))

    @abstractmethod
    def most_drop(self, stretch: Array, near: float, shift: Array) -> Array:
        """A bound of ln w(x) - ln w(y) over all x >= near and y <= stretch x + shift."""

    @property
    def far(self) -> float:
        """The position from which on `most_drop` is all that has to be known."""
        return 20 + 5 / float(self.alpha)

    @property
    def power_from(self) -> float:
        """The t from which on w is a power of 1 + curve t; infinity where it never is."""
        return inf

    @property
    def power_until(self) -> float:
        """The t up to which w is a power of 1 - curve t; 0 where it never is."""
        return 0.0

    def normaliser_elasticity(self) -> tuple[float, float]:
        """Bounds, for all S >= 1, of the derivative of ln N(S) by ln S: both 1 for a density."""
        return 1.0, 1.0


def least(enough: Callable[[Array], NDArray[np.bool_]]) -> float:
    """The least z >= 0 from which on a condition holds, rounded up."""
    low, high = 0.0, 1.0
    while not enough(np.array([high]))[0]:
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(np.array([middle]))[0] else (middle, high)
    return high


def rounded_half_width(away: Array, rounding: float) -> Integers:
    """The half-width of noise in integers, from that before it is rounded.

    Rounding moves it by at most `rounding`: towards 0 where that is 1/2 of one number, as a number
    that is rounded to k + 1 is at least k + 1/2.
    """
    width: Integers = np.ceil(away * (1 + 1e-9) - rounding + 1e-9).astype(np.int64)
    return np.maximum(width, 0)


@dataclass(frozen=True)
class RoundedDensity(ScaledMechanism):
    """Noise with a density in units of S, rounded to the nearest integer.

    Rounding looks at the noisy number alone, so a proof on the real line holds for what is drawn.
    """

    @abstractmethod
    def scale(self) -> Fraction:
        """The scale of the density in units of S."""

    @abstractmethod
    def unit_tail(self, z: Array) -> Array:
        """P(Z >= z) for z >= 0, Z the noise in units of its scale."""

    @abstractmethod
    def tail_moments(self, m: float) -> tuple[float, float]:
        """The integrals of P(Z >= z) and of 2 z P(Z >= z) from m to infinity."""

    def mean_error(self, cell: Cell) -> tuple[float, float]:
        """Sums of the tail over integers, and its integral where they no longer differ.

        The noise is at least k where scale * Z is at least k - 1/2.
        """
        scale = float(scale_at(self.pace, cell.largest) * self.scale())
        last = int(3_000 + 30 * scale) if scale < _LARGE else 0
        y: Array = np.arange(last, dtype=np.float64) + 0.5
        tail = self.unit_tail(y / scale)
        mean, square = self.tail_moments(last / scale)
        mean = 2 * (float(tail.sum()) + scale * mean)
        square = 2 * (float((2 * y * tail).sum()) + scale**2 * square)
        return mean, sqrt(max(square, 0.0))

    def half_width(self, level: float, sizes: Integers) -> Integers:
        """Q where the tail beyond Q + 1/2 is half of 1 - level, in units of the scale."""
        away = least(lambda z: 2 * self.unit_tail(z) <= 1 - level)
        scale = np.maximum(sizes * float(self.pace), 1.0) * float(self.scale())
        return rounded_half_width(scale * away, 0.5)

    def real_error(self, cell: Cell) -> tuple[float, float]:
        """The same before rounding: what the papers report."""
        scale = float(scale_at(self.pace, cell.largest) * self.scale())
        mean, square = self.tail_moments(0.0)
        return 2 * scale * mean, scale * sqrt(2 * square)
