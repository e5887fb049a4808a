"""One of the two margins that are hidden at once: what a table shows of `margins-radial`."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import sqrt
from typing import ClassVar

import numpy as np
from flint import arb

from eree.mechanisms.certificate import Certificate
from eree.mechanisms.margins_radial import MarginsRadial
from eree.mechanisms.mechanism import (
    LEVELS,
    Array,
    ExpectedError,
    exactly,
    least_error,
    one_cell,
)
from eree.mechanisms.one_step import scale_at
from eree.mechanisms.scaled import least, whole_reach
from eree.noise.coins import SeededCoins
from eree.noise.exact import Whole
from eree.noise.margin_sums import MarginSums
from eree.noise.vector_radial import ShareOfNorm
from eree.policy.guarantee import Guarantee

#: Means of noise below so many workers are taken from so many draws, because rounding tells; so is
#: what halves stay within, below so many times what rounding moves them by at most.
_SMALL, _DRAWS = 5.0, 1 << 15


@dataclass(frozen=True)
class Margin:
    """The counts by one of two attributes that `margins-radial` hides at once.

    `halves` says that it is the attribute of two values.  Theorem: that of `both`; a margin is made
    of what is drawn for both, so its guarantee is theirs, and they are paid for together once.
    """

    both: MarginsRadial
    halves: bool
    name: ClassVar[str] = MarginsRadial.name

    @property
    def guarantee(self) -> Guarantee:
        """That of both margins together."""
        return self.both.guarantee

    @property
    def cells(self) -> int:
        """The cells of a group in this margin."""
        return 2 if self.halves else self.both.values

    @property
    def parameters(self) -> dict[str, str]:
        """Those of both: which of them a table has follows from its attribute."""
        return self.both.parameters

    def statistics(self, *, worker_attributes: bool = True) -> tuple[str, ...]:
        """Those that both are drawn from."""
        del worker_attributes
        return self.both.statistics()

    def certify(self) -> Certificate:
        """Recheck the guarantee of both from their chances alone."""
        return self.both.certify()

    # ------------------------------------------------------------------------------ errors

    def reach(self, level: float, largests: Whole) -> Whole:
        """What the noise of one cell stays within, for many groups."""
        scales = self._near_scales(largests)
        if self.halves:
            share = self._share_of_half
            away = least(lambda z: share.tail(z) <= (1 - level) * (1 - 1e-9))
            return whole_reach(scales * away, 1 - self._rounding)
        shape = self.both.shape
        with exactly():
            away = least(lambda z: np.array([2 * shape.sum_tail(Fraction(z[0])) <= 1 - level]))
        return whole_reach(scales * away, 0.5)

    def reach_of_sum(self, level: float, largests: Whole) -> Whole:
        """What the noise of all workers of a group stays within: that of the e_c together."""
        values = self.both.values
        share = ShareOfNorm.of(self.both.shape.radial, MarginSums(values).total_within)
        away = least(lambda z: share.tail(z) <= (1 - level) * (1 - 1e-9))
        return whole_reach(self._near_scales(largests) * away, 1 - values / 2)

    def beyond(self, distance: int, _side: int, *, count: int, largest: int) -> arb:
        """The chance of an error of at least `distance` >= 1 on one side, the same on both.

        Of a half it is not known exactly: where rounding tells, it is that of many draws, the same
        ones every time, and elsewhere a little more than it is.
        """
        del count
        if not self.halves:
            return self.both.law(one_cell(largest)).sum_tail(distance, 0)
        scale = scale_at(self.both.bend, largest)
        if float(scale) * self._real_error[0] < _SMALL * self._rounding:
            return arb(_drawn(self.both, scale).half_beyond(distance) / 2)
        far = (distance - self._rounding) / float(scale)
        return arb(0.5 * float(self._share_of_half.tail(np.array([max(far, 0.0)]))[0]))

    def quantile(self, level: float, *, count: int, largest: int) -> int:
        """The least number that the error of a cell stays within with a chance of `level`.

        Of a half it is so as far as `beyond` knows; `reach` is what intervals are made of.
        """
        with exactly():
            return least_error(
                lambda error: bool(
                    2 * self.beyond(error + 1, 1, count=count, largest=largest) <= 1 - arb(level)
                )
            )

    def mean_error(self, *, count: int, largest: int) -> tuple[float, float]:
        """The mean size of the error of a cell, and the root of its mean square.

        Where noise is so small that rounding tells, they are those of many draws, the same ones
        every time, and as exact as these are.
        """
        del count
        scale = scale_at(self.both.bend, largest)
        mean, square = self._real_error
        if float(scale) * mean < _SMALL:
            drawn = _drawn(self.both, scale)
            return drawn.halves if self.halves else drawn.values
        near = float(scale)
        rounded = sqrt(1 + self._rounding_variance / (near * square) ** 2)
        return near * mean * rounded, near * square * rounded

    def expected_error(self, *, count: int, largest: int) -> ExpectedError:
        """The error of a cell."""
        cell = {"count": count, "largest": largest}
        return ExpectedError(
            *self.mean_error(**cell), {level: self.quantile(level, **cell) for level in LEVELS}
        )

    @cached_property
    def _real_error(self) -> tuple[float, float]:
        """Both before rounding, in units of the scale."""
        values, shape = self.both.values, self.both.shape
        if not self.halves:
            mean, square = shape.sum_moments()
            return mean, sqrt(square)
        grid = np.concatenate([[0.0], ShareOfNorm.grid()])
        share = float(np.trapezoid(1 - MarginSums(values).half_within(grid), grid))
        by_value, difference = self.both.variances()
        return share * shape.norm_mean(), sqrt(values * by_value + difference) / 2

    @cached_property
    def _share_of_half(self) -> ShareOfNorm:
        within = MarginSums(self.both.values).half_within
        return ShareOfNorm.of(self.both.shape.radial, within)

    @property
    def _rounding(self) -> float:
        """What rounding moves a half by at most: D numbers by 1/2, and their half by 1/2."""
        return (self.both.values + 1) / 4 + 0.5

    @property
    def _rounding_variance(self) -> float:
        """The variance of what rounding moves a count by, where noise is large."""
        return (self.both.values + 1) / 48 + 1 / 8 if self.halves else 1 / 12

    def _near_scales(self, largests: Whole) -> Array:
        scales: Array = np.maximum(largests * float(self.both.bend), 1.0)
        return scales


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Errors of many draws at one scale: mean sizes and root mean squares, and sizes of halves."""

    halves: tuple[float, float]
    values: tuple[float, float]
    sizes: Whole
    beyond: Whole

    def half_beyond(self, distance: int) -> float:
        """How many of the errors of halves are at least a distance, as a share of all."""
        place = int(np.searchsorted(self.sizes, distance))
        return float(self.beyond[place]) / float(self.beyond[0])


@lru_cache(maxsize=1_024)  # both margins, and predictions of several tables, ask for the same
def _drawn(both: MarginsRadial, scale: Fraction) -> _Drawn:
    """Draw errors of noise at a scale."""
    counts = np.zeros((_DRAWS, both.cells), dtype=np.int64)
    # one group stands for all: a size whose scale this is, or none, if it is 1
    largest = round(scale / both.bend) if scale > 1 else 0
    drawn = both.draw(counts, np.full(_DRAWS, largest), coins=SeededCoins(0))
    values, halves = np.abs(drawn[:, : both.values]), np.abs(drawn[:, both.values :])
    sizes, number = np.unique(halves, return_counts=True)
    beyond = np.append(np.cumsum(number[::-1])[::-1], 0)
    return _Drawn(_means(halves), _means(values), sizes, beyond)


def _means(sizes: Whole) -> tuple[float, float]:
    return float(sizes.mean()), float(np.sqrt((sizes.astype(np.float64) ** 2).mean()))
