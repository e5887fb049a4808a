"""Vector mechanisms that add noise of a scale S = max(pace * largest, 1): what they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isfinite
from typing import Protocol

import numpy as np
from flint import arb

from eree.cells import Cell, Group
from eree.mechanisms.certificate import NEVER, Certificate
from eree.mechanisms.mechanism import FEW_SIZES, errors_by_size, one_cell
from eree.mechanisms.scaled.certificate import LARGE_SIZES, OneStep, growths, scale_at
from eree.mechanisms.scaled.distributions import Scales
from eree.mechanisms.vector.certificate import VectorLoss, worst_vector_loss
from eree.mechanisms.vector.vector import VectorCertificate, VectorMechanism, worst_groups
from eree.random.exact import Array, Integers, RowDistributions, draw_rows
from eree.random.source import Random

#: Groups of more cells have probabilities that take minutes to recheck.
MOST_CELLS = 64
#: From this scale on noise grows in proportion.
_LARGE = 100
#: Sizes at which a probability is held against the weight, beside those at which several are.
_BETWEEN = tuple(2**i for i in range(20))


class VectorNoise(RowDistributions, Protocol):
    """A distribution of rows of noise that knows its probabilities."""

    def tail(self, value: int, group: int) -> arb:
        """The probability that one number is at least `value` >= 1."""

    def pmf(self, noise: Sequence[int], group: int) -> arb:
        """The probability of a row of noise."""


@dataclass(frozen=True)
class ScaledVector(VectorMechanism):
    """Counts and noise of a weight w(|k| / S), |k| the L1 norm, S = max(pace * largest, 1).

    `largest` is the largest total of a workplace of the group: all its workers counted, whether the
    group shows them or not.
    """

    @property
    def pace(self) -> Fraction:
        """What S grows by with each worker of the largest total: alpha, unless overridden."""
        return self.alpha

    @property
    def one_step(self) -> OneStep:
        """What one step can do to the counts and to S."""
        return OneStep(float(self.alpha), float(self.pace))

    def mean_errors(self, _counts: Integers, largests: Integers) -> Array:
        """By the largest workplace; up to 1 / alpha one worker may join at a time."""
        return errors_by_size(self, largests, least=int(1 / self.alpha), known=FEW_SIZES)

    def row(self, count: int, *, last: bool = False) -> tuple[int, ...]:
        """The counts of a group whose workers are all in the first cell, or in the last."""
        others = (0,) * (self.cells - 1)
        return (*others, count) if last else (count, *others)

    @abstractmethod
    def distribution(self, largests: Integers) -> VectorNoise:
        """The distributions of the noise of some groups."""

    def statistics(self, *, worker_attributes: bool = True) -> tuple[str, ...]:
        """`count`, and `largest_total`: the whole workplace may grow into any cell."""
        del worker_attributes
        return "count", "largest_total"

    def scales(self, largests: Integers, factor: Fraction) -> Scales:
        """S times a factor for some groups."""
        return Scales(largests, self.pace, factor)

    def near_scales(self, largests: Integers) -> Array:
        """S for some groups, in doubles."""
        scales: Array = np.maximum(largests * float(self.pace), 1.0)
        return scales

    @abstractmethod
    def half_width(self, level: float, sizes: Integers) -> Integers:
        """What the noise of one cell stays within, for many groups; never below `quantile`."""

    def half_widths(self, level: float, sizes: Integers) -> tuple[Integers, Integers]:
        """The same below and above the count."""
        width = self.half_width(level, sizes)
        return width, width

    @abstractmethod
    def group_half_width(self, level: float, sizes: Integers, cells: int) -> Integers:
        """What the sum of the noise of all cells of a group stays within."""

    def variance(self, size: float) -> float:
        """From some scale on noise grows in proportion."""
        large = int(_LARGE / self.pace) + 1
        return super().variance(min(int(size + 0.5), large)) * max(size / large, 1.0) ** 2

    def draw_groups(self, counts: Integers, largests: Integers, random: Random) -> Integers:
        """Counts and their noise."""
        return counts + draw_rows(self.distribution(largests), len(counts), random)

    def tail(self, cell: Cell, distance: int, _side: int) -> arb:
        """The tail of the noise of one cell; it is the same on both sides and for every count."""
        return self.distribution(one_cell(cell.largest)).tail(distance, 0)

    def group_pmf(self, group: Group, outputs: Sequence[int]) -> arb:
        """The probability of all outputs of a group."""
        noise = [output - count for output, count in zip(outputs, group.counts, strict=True)]
        return self.distribution(one_cell(group.largest)).pmf(noise, 0)

    def certify(self) -> Certificate:
        """Recheck the guarantee from the probabilities alone."""
        loss = worst_vector_loss(self, self.one_step)
        known = isfinite(loss.found) and probabilities_agree(self)
        found = Fraction(loss.found) if known else NEVER
        pair = worst_groups(self, groups_like(loss, self))
        return VectorCertificate.pure(self, found, pair)

    # ------------------------------------------------------- for the certificate

    @property
    def rounding(self) -> tuple[float, float]:
        """By how much the norm of a row of noise may have been less, and more, before rounding.

        If each number is rounded, and all but the first are 0: in a cube around it.
        """
        return 0.5, self.cells / 2

    @abstractmethod
    def log_weight(self, t: Array) -> Array:
        """The logarithm of the weight w(t), t >= 0, with w(0) = 1."""

    @abstractmethod
    def log_slope(self, t: Array) -> Array:
        """The slope of -ln w at t."""

    @property
    @abstractmethod
    def steepest(self) -> float:
        """Where that slope is greatest; before and after, w is a power of a straight line in t."""

    @property
    @abstractmethod
    def far_power(self) -> float:
        """The power of that line after `steepest`: w falls like t^-power."""

    @abstractmethod
    def normaliser_elasticity(self) -> tuple[float, float]:
        """Bounds, for all S >= 1, of the derivative of ln N(S) by ln S."""


def probabilities_agree(mechanism: ScaledVector) -> bool:
    """Whether the probabilities of outputs are those of the weight at the scale S = max(pace x, 1).

    If a density was rounded, the probability of noise in one cell alone is that of norms from a
    little less to a little more; on the lattice it is that of its norm itself.  Noise is looked at
    in the first cells alone, in the last ones, and in both with other signs.
    """
    pace, (less, more) = mechanism.pace, mechanism.rounding
    near = (0, ceil(1 / pace) - 1, ceil(1 / pace) + 1, ceil(20 / pace), *LARGE_SIZES)
    for size in (*near, *_BETWEEN):
        scale = float(scale_at(pace, size))
        before = Group.of(mechanism.row(0), size)
        centre = mechanism.joint_log_pmf(before, mechanism.row(0))
        for away in (2.0, 64.0)[: 2 if size in near else 1]:
            half = ceil(away * scale / 2)
            for row, cells in list(_rows_of_norm(mechanism, half))[: 3 if size in near else 1]:
                low, high = 2 * half - cells * less, 2 * half + more
                ends = np.array([0.0, more, max(low, 0.0) * (1 - 1e-9), high * (1 + 1e-9)])
                top, least, most, bottom = mechanism.log_weight(ends / scale)
                ratio = mechanism.joint_log_pmf(before, row) - centre
                slack = 1e-6 * (1 + abs(ratio))
                if not bottom - top - slack <= ratio <= most - least + slack:
                    return False
    return True


def _rows_of_norm(mechanism: ScaledVector, half: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Rows of noise of twice a norm, and in how many cells of a marginal each of them is."""
    yield mechanism.row(2 * half), 1
    if mechanism.cells > 1:
        yield mechanism.row(-2 * half, last=True), 1
        both = zip(mechanism.row(half), mechanism.row(-half, last=True), strict=True)
        yield tuple(one + other for one, other in both), 2


def groups_like(
    loss: VectorLoss, mechanism: ScaledVector
) -> Iterator[tuple[Group, Group, list[tuple[int, ...]]]]:
    """Groups of one workplace or two, one of which grows in its first cell, and some outputs.

    They are near where the loss is worst.
    """
    alpha, row = mechanism.alpha, mechanism.row
    for large in (0, 1, 20, 1_000):
        size = ceil(large / alpha)
        away = float(scale_at(mechanism.pace, size)) * min(loss.distance, 1e6)
        for grows, joined in growths(alpha, size, loss.ratio):
            count = size if grows == size else size + grows
            middle = count - round(away)
            if loss.new_over_old:
                middle = count + joined + round(away * loss.ratio)
            outputs = [row(first) for first in (middle, count, count + joined)]
            after = Group.of(row(count + joined), max(size, grows + joined))
            yield Group.of(row(count), size), after, outputs
