"""Sums of cells whose noise goes by their own counts: what noisy counts say of it.

Of every function f of a noisy count the mean given the count, E[f(y) | n], is known for every n
(`given_counts`).  So functions are looked for that have the mean that sums need of the counts:

- the shift c: E[y - c(y) | n] = n.  So the sum of all y - c(y) is off by nothing on average;
- the variance v of y - c(y), and what two cells of a group share: a covariance u(n) u(n');
- the skew t = 2 Cov(y - c, v) - 2/3 E(y - c - n)^3: by how much noise that made a count too small
  makes its variance seem too small.

Each group has V, the variance of the sum of its cells, and h = (V / sum of v)^2 times the sum of t.
Over groups V, h, h^2 / 4V and V^2 add up.  With these the interval ends where the way from the sum,
in standard deviations that change along it, is as long as the quantile q: it begins at h / 4V, and
d' = sqrt(V + h d / V + sum of h^2 / 4V d^2 / V^2).  For one large count, whose noise is in
proportion to it, that is the interval on the transformed scale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eree.estimate.calibration import Moments
from eree.estimate.given_counts import is_light, learnt
from eree.estimate.quantiles import ends_around, quantiles
from eree.mechanisms.cache import Arrays, arrays_by_mechanism
from eree.mechanisms.intervals import UNBOUNDED
from eree.mechanisms.mechanism import Mechanism
from eree.random.exact import Array, Integers

#: Sums of so many cells may have guaranteed intervals that are narrower, as no count is below zero.
_FEW = 8
#: Groups that are looked at at once, and numbers of each: a power of 2 is fastest.
_AT_ONCE, _WIDE = 1 << 13, 8
#: Bounds are moved by half a job, as counts are integers.
_HALF = 0.5
#: The rows of what is known of noisy counts.
SHIFT, COMMON = 0, 2

Bounds = tuple[Integers, Integers]
Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Transformed:
    """Tails of the noise of transformed counts at some points, in standard deviations.

    They are those of one count or of the sum of a group, whichever is heavier; `kurtosis` is the
    greatest of sums within a group.
    """

    points: Array
    tails: Array
    kurtosis: float

    def quantile(self, level: float) -> float:
        """What its size stays within."""
        return float(np.interp((level - 1) / 2, -self.tails, self.points))


@dataclass(frozen=True, eq=False)
class Parts:
    """Of the noise of sums: the mean, and what adds up over groups."""

    shift: Array
    variance: Array
    skew: Array
    skews: Array
    squares: Array

    def reach(self, level: float, one: Transformed) -> tuple[Array, Array]:
        """How far the noise reaches down and up: how far counts are above noisy ones, and below.

        Sums of many groups are taken for normal, those of few for as heavy in tails as theirs are,
        and one of a single group for no narrower than the noise of one cell.
        """
        variance = np.maximum(self.variance, 1e-9)
        of_one = np.minimum(self.squares / variance**2, 1.0)
        normal = quantiles(np.zeros(1), level)
        q = np.maximum(normal, normal + of_one * (one.quantile(level) - normal))
        q = np.maximum(q, quantiles(one.kurtosis * of_one, level))
        rate = np.maximum(np.sqrt(self.skews) / variance, 1e-9)
        turn = np.minimum(q * rate, 50.0)
        even = np.sqrt(variance) * np.sinh(turn) / rate + _HALF
        moved = self.skew / variance * (0.25 + (np.sinh(turn / 2) / rate) ** 2) - self.shift
        return even + moved, even - moved

    def ends(self, noisy: Integers, level: float, one: Transformed) -> tuple[Integers, Integers]:
        """Bounds of the calibrated intervals of the sums."""
        down, up = self.reach(level, one)
        return ends_around(noisy.astype(np.float64), up, down)


@dataclass(frozen=True, eq=False)
class ByCount:
    """The noise of groups of cells, from the classes of their noisy counts, cell after cell."""

    table: Array  # a row for each column of what is known, by class
    one: Transformed
    classes: NDArray[np.uint16]
    cells: int

    @classmethod
    def of(cls, mechanism: Mechanism, noisy: Integers) -> Self | None:
        """From the noisy counts of all rows; None where boxes do not show all of the noise."""
        if not is_light(mechanism):
            return None
        found = _known(mechanism)
        classes = np.searchsorted(found["edges"], noisy, side="right").astype(np.uint16)
        return cls.given(mechanism, classes, found)

    @classmethod
    def given(
        cls, mechanism: Mechanism, classes: NDArray[np.uint16], known: Arrays | None = None
    ) -> Self:
        """From the classes of all rows, and what is known of them."""
        found = known or _known(mechanism)
        one = Transformed(found["points"], found["tails"], float(found["kurtosis"]))
        return cls(found["table"], one, classes, mechanism.at_once)

    @property
    def bias(self) -> Array:
        """The mean of the noise of every cell, as far as its noisy count says."""
        found: Array = self.table[SHIFT].take(self.classes)
        return found

    def moments(self, cells: Integers, starts: Integers) -> Moments:
        """The moments of the noise of sums of runs of cells."""
        found = self.parts(cells, starts)
        fourth, nothing = self.one.kurtosis * found.squares, np.zeros(len(starts))
        return Moments(found.shift, found.variance, fourth, nothing)

    def parts(self, cells: Integers, starts: Integers) -> Parts:
        """Of sums of runs of cells; those of one group in a run lie side by side."""
        groups = cells // self.cells
        new = np.diff(groups, prepend=-1) != 0
        new[starts] = True
        first = np.flatnonzero(new)
        known = self.table.take(self.classes[cells], axis=1)
        of_groups = _of_groups(np.add.reduceat(known, first, axis=1))
        return Parts(*np.add.reduceat(of_groups, np.searchsorted(first, starts), axis=1))

    def over(self, groups: Integers | None, run: Integers, runs: int, cells: Integers) -> Array:
        """What the sums of runs of groups need, with some cells of each: a row for each part."""
        found, whole = np.zeros((5, runs)), slice(None) if groups is None else groups
        if len(cells) == self.cells:
            each = iter([(slice(None), self._whole[:, whole])])
        elif len(cells) > 1:
            each = self._of_cells(cells, groups)
        else:
            row = self._by_cell[cells[0], whole]
            if runs == 1:  # as many of each class
                number = np.bincount(row, minlength=self._alone.shape[1])
                each = iter([(slice(None), self._alone * number)])
            else:
                each = iter([(slice(None), self._alone.take(row, axis=1))])
        for some, parts in each:
            if runs == 1:
                found[:, 0] += parts.sum(1)
            else:
                found += [np.bincount(run[some], values, runs) for values in parts]
        return found

    def _of_cells(
        self, cells: Integers, groups: Integers | None = None
    ) -> Iterator[tuple[slice, Array]]:
        """What adds up over groups, with some cells of each: so few at once that they stay near."""
        number = self._by_cell.shape[1] if groups is None else len(groups)
        known, value = np.empty((2, _AT_ONCE, _WIDE), dtype=np.float32)
        for start in range(0, number, _AT_ONCE):
            some = slice(start, min(start + _AT_ONCE, number))
            known[:] = 0
            for cell in cells:
                chosen = some if groups is None else groups[some]
                row = self._by_cell[cell, chosen].astype(np.intp)
                np.take(self._rows, row, axis=0, out=value[: len(row)], mode="clip")
                known[: len(row)] += value[: len(row)]
            yield some, _of_groups(np.ascontiguousarray(known[: some.stop - start, :5].T))

    @cached_property
    def _rows(self) -> NDArray[np.float32]:
        """The table by class, in rows that are looked up at once."""
        found = np.zeros((self.table.shape[1], _WIDE), dtype=np.float32)
        found[:, :5] = self.table.T
        return found

    @cached_property
    def _alone(self) -> Array:
        """What adds up over groups where one cell of each is in a sum, by class."""
        return _of_groups(self.table)

    @cached_property
    def _whole(self) -> Array:
        """The same where all cells of each are, by group."""
        return np.concatenate([part for _, part in self._of_cells(np.arange(self.cells))], axis=1)

    def shared(self, one: Integers, two: Integers) -> float:
        """The covariance of the noise of two sums of different cells that have groups in common."""
        groups = len(self.classes) // self.cells
        common = self.table[COMMON]
        both = (
            np.bincount(cells // self.cells, common[self.classes[cells]], groups)
            for cells in (one, two)
        )
        return float(next(both) @ next(both))

    @cached_property
    def _by_cell(self) -> NDArray[np.uint16]:
        return np.ascontiguousarray(self.classes.reshape(-1, self.cells).T)


def narrower_of_few(
    ends: Bounds, guaranteed: Callable[[Places], Bounds], cells: Integers
) -> Bounds:
    """The narrower interval of sums of few cells; of one the guaranteed one, which is as narrow."""
    (low, high), few = ends, np.flatnonzero(cells <= _FEW)
    if few.size:
        least, most = guaranteed(few)
        wide = (most == UNBOUNDED) | (most - least > high[few] - low[few])
        taken = ~wide | (cells[few] == 1)
        low[few[taken]], high[few[taken]] = least[taken], most[taken]
    return low, high


def _of_groups(known: NDArray[np.floating[Any]]) -> Array:
    """What adds up over groups, from the sums of what is known of their cells."""
    shift, variance, common, square, skew = known
    found = np.empty(known.shape)
    of_sum, skewed = found[1], found[2]
    found[0] = shift
    np.multiply(common, common, out=of_sum)
    of_sum += variance
    of_sum -= square
    np.divide(of_sum, variance, out=skewed)
    skewed *= skewed
    skewed *= skew
    np.multiply(skewed, skewed, out=found[3])
    found[3] /= of_sum
    found[3] /= 4
    np.multiply(of_sum, of_sum, out=found[4])
    return found


def _known(mechanism: Mechanism) -> Arrays:
    return arrays_by_mechanism(mechanism, "sums by count", lambda: learnt(mechanism))
