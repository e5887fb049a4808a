"""What is known of the noise of a cell from its count alone: lines, powers and means above it."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from math import ceil
from typing import Protocol

import numpy as np

from eree.mechanisms.intervals import CutMoments
from eree.random.exact import Array, Integers

#: Levels are 1 - 2^(-i / 8): of a probability, the next smaller one is taken.
STEPS = 8
#: No sum of workers comes near this.
MOST = 2.0**50
#: Moments up to the 24th: the best ones for probabilities down to a hundred-thousandth.
HIGHEST = 24
#: Counts on the grid of sizes are at most so far apart.
_APART = 1.01
#: What a worker more may cost in the bounds of sums of means.
_PRICES = np.append(0.0, 2.0 ** np.arange(-24, 1, 0.5))


class Noise(Hashable, Protocol):
    """What bounds of sums ask of a mechanism that draws each cell apart."""

    @property
    def symmetric(self) -> bool:
        """Whether the noise is; else it has moments."""

    def half_widths(self, level: float, sizes: Integers) -> tuple[Integers, Integers]:
        """What the noise stays within, below and above the count."""

    def cut_moments(self, probability: float, sizes: Integers, orders: Array) -> CutMoments | None:
        """Means and moments of asymmetric noise."""


class Lines:
    """Lines A + B n above some half-widths, one for each level."""

    def __init__(self, widths: Array, first: Array) -> None:
        self.height: Array = widths[:, 0]
        rise = (widths[:, 1:] - self.height[:, None]) / first
        self.slope: Array = np.maximum.accumulate(rise.max(1))


class Envelope:
    """Lines above the half-widths of a noise, and powers above its moments, for all counts.

    The moments of asymmetric noise are those of its distance from its mean, of all orders from 2
    on; those of symmetric noise are the even ones.
    """

    def __init__(self, noise: Noise, strictest: int) -> None:
        far = np.geomspace(64, MOST, ceil(np.log(MOST / 64) / np.log(_APART)))
        sizes: Integers = np.unique(np.concatenate([np.arange(64), far.astype(np.int64)]))
        self.first: Array = sizes[:-1].astype(np.float64) + 1  # the least count up to each size
        self.probabilities: Array = 2.0 ** (-np.arange(1, strictest + 1) / STEPS)
        rows = [noise.half_widths(float(np.nextafter(1 - t, 1)), sizes) for t in self.probabilities]
        tables = (np.array(side, dtype=np.float64) for side in zip(*rows, strict=True))
        below, above = (
            np.maximum.accumulate(np.maximum.accumulate(table, axis=0), axis=1) for table in tables
        )
        self.below, self.above = Lines(below, self.first), Lines(above, self.first)
        self.half_widths: Array = np.maximum(below, above)
        self.symmetric = noise.symmetric
        self.orders: Array = np.arange(2.0, HIGHEST + 1, 2 if self.symmetric else 1)
        self._sizes, self._noise = sizes, noise
        self._moments: dict[int, tuple[Array, Array]] = {}
        self._means: dict[int, tuple[Array, Array]] = {}

    def bounds(self, y: Array, level: Integers) -> tuple[Array, Array]:
        """Lower and upper bounds of counts within their half-widths at some levels."""
        height, slope = self.above.height[level - 1], self.above.slope[level - 1]
        lower = (y - height) / (1 + slope)
        height, slope = self.below.height[level - 1], self.below.slope[level - 1]
        room = np.maximum(1 - slope, 1e-12)
        upper = np.where(slope < 1, (y + height) / room, MOST)
        return np.maximum(lower, 0), np.clip(upper, 0, MOST)

    def moments(self, level: int) -> tuple[Array, Array]:
        """a_i and b_i of the noise that is cut off at a level, for each order i."""
        if level not in self._moments:
            make = self._of_symmetric if self.symmetric else self._of_asymmetric
            self._moments[level] = make(level)
        return self._moments[level]

    def _of_symmetric(self, level: int) -> tuple[Array, Array]:
        """Between two levels the noise is taken to be at its half-width at the stricter one."""
        probabilities = self.probabilities[:level]
        weights: Array = -np.diff(probabilities, prepend=1.0)
        weights[-1] += probabilities[-1]
        widths = self.half_widths[:level]
        still, grown = widths[:, 0] ** 2, (widths[:, 1:] / self.first) ** 2
        fixed, power, raised = [], [], np.ones_like(grown)
        for order in self.orders:
            raised *= grown
            fixed.append(weights @ still ** (order / 2))
            above = weights @ raised - fixed[-1] * self.first**-order
            power.append(max(above.max(), 0.0))
        return np.array(fixed), np.array(power)

    def _of_asymmetric(self, level: int) -> tuple[Array, Array]:
        """From the norms of the noise."""
        norms, order = self._spread(level).norms, self.orders[:, None]
        fixed = norms[:, :1] ** order
        above = (norms[:, 1:] / self.first) ** order - fixed * self.first**-order
        return fixed[:, 0], np.maximum(above.max(1), 0.0)

    def _spread(self, level: int) -> CutMoments:
        probability = float(self.probabilities[level - 1])
        found = self._noise.cut_moments(probability, self._sizes, self.orders)
        assert found is not None
        return found

    def means(self, level: int, cells: Array, total: Array, largest: Array) -> tuple[Array, Array]:
        """Bounds of the sums of the means of so many cells, above and below, cut off at a level.

        The counts add up to `total` at most and none is above `largest`.  Whatever a worker more
        costs, lambda: no sum of D(n) is above lambda times the total and, for each cell, the
        greatest D(n) - lambda n.  The best of some lambdas is taken.
        """
        if level not in self._means:
            spread, prices = self._spread(level), _PRICES[:, None]
            tables = [
                np.maximum.accumulate(
                    np.append(side[:1] + 0 * prices, side[1:] - prices * self.first, axis=1), axis=1
                )
                for side in (spread.up, spread.down)
            ]
            self._means[level] = tables[0], tables[1]
        at = np.minimum(np.searchsorted(self._sizes, largest), len(self._sizes) - 1)
        up, down = (
            (_PRICES[:, None] * total + cells * table[:, at]).min(0) for table in self._means[level]
        )
        return up, down


envelope_of = lru_cache(maxsize=16)(Envelope)  # a mechanism is asked for many lists
