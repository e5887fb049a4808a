"""What is known of the noise of a released table: from which counts, and how well it fits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eree.errors import how_many
from eree.estimate.by_count import ByCount
from eree.estimate.calibration import Calibrated, Moments
from eree.estimate.largest import (
    LargestWorkplace,
    Points,
    distinct,
    equally_likely,
    prior_of_largest,
)
from eree.estimate.noise import NoiseBySize
from eree.estimate.quantiles import ends_around
from eree.estimate.size_distribution import SizeDistribution
from eree.random.exact import Array, Integers

#: Standard errors times the root of the number of groups that a check of the model allows for.
_CHANCE = 2.4
#: Counts and kinds of groups of which points are kept.
_MOST_KEPT = 1 << 18
#: No sum of workers comes near this.
_FAR = 1 << 40


@dataclass(frozen=True, eq=False)
class Evidence:
    """Noisy counts that say how large the largest workplace of some groups is.

    `noise` is what they have, by class of size; without noisy counts only the numbers of workplaces
    and their kinds say something.
    """

    workplaces: Integers
    kinds: Integers
    noisy: Integers | None = None
    noise: NoiseBySize | None = None

    def posterior(self, sizes: SizeDistribution, some: Integers | None = None) -> Array:
        """The probabilities of the classes, a row for each group, or for each of some."""
        one = self if some is None else self.some(some)
        if one.noisy is None or one.noise is None:
            return prior_of_largest(sizes, one.workplaces, one.kinds)
        known, which = self.largest(sizes)
        return known.posterior(one.noisy, which if some is None else which[some])

    def points(self, sizes: SizeDistribution, variance: Array) -> Points:
        """Equally likely classes that stand for these, a row for each group."""
        if self.noisy is None:
            return equally_likely(self.posterior(sizes), variance)
        known, which = self.largest(sizes)
        return known.points(self.noisy, which, variance)

    def largest(self, sizes: SizeDistribution) -> tuple[LargestWorkplace, Integers]:
        """What noisy counts would say of the largest workplaces, and of which a group has one."""
        assert self.noise is not None
        if not self._asked or self._asked[0][0] is not sizes:
            found = LargestWorkplace.of(self.noise, sizes, self.workplaces, self.kinds)
            self._asked[:] = [(sizes, found)]
        return self._asked[0][1]

    @cached_property
    def _asked(self) -> list[tuple[SizeDistribution, tuple[LargestWorkplace, Integers]]]:
        return []  # what was said for the sizes that were asked for last

    @cached_property
    def told_apart(self) -> NDArray[np.intp]:
        """A number for each group, the same where the same is known of two."""
        _, which = distinct(self.workplaces, self.kinds)
        return which if self.noisy is None else distinct(self.noisy, which)[1]

    def some(self, place: Integers) -> Evidence:
        """The evidence of some groups."""
        noisy = None if self.noisy is None else self.noisy[place]
        return replace(
            self, workplaces=self.workplaces[place], kinds=self.kinds[place], noisy=noisy
        )


@dataclass(frozen=True)
class Fit:
    """A public check of the model: two tables of the same totals, and how much they differ.

    `spread` is by how much more than the model says, at the 90% quantile: about 1 where it fits.
    Where it is more than chance would have it, intervals are `widened` by it.
    """

    against: str
    groups: int
    spread: float

    @property
    def widened(self) -> float:
        """The factor of the intervals."""
        return self.spread if self.spread > 1 + _CHANCE / self.groups**0.5 else 1.0

    @property
    def words(self) -> str:
        """The check on a line."""
        widened = f"; intervals are widened by {self.widened:.2f}" if self.widened > 1 else ""
        return (
            f"totals of {how_many(self.groups, 'group')} differ from those of {self.against} by"
            f" {self.spread:.2f} of what the model says{widened}"
        )


@dataclass(frozen=True, eq=False)
class CalibratedTable:
    """What is known of the noise of a table's cells, and what follows when they are added up.

    `beyond` are groups with noisy counts that no sizes of the model reach.  Without `sums` the
    noise of cells that are added up is not known, but that of each is; with `by_count` it goes by
    the cells' own counts, and what these say of it is known of all.
    """

    calibrated: Calibrated
    sizes: SizeDistribution
    own: Evidence | None
    beyond: NDArray[np.bool_] | None = None
    fit: Fit | None = None
    sums: bool = True
    by_count: ByCount | None = None

    def bias(self) -> Array:
        """The mean of the noise of every cell; but for `by_count` to hundredths of a job."""
        if self.by_count is not None:
            return self.by_count.bias
        return np.repeat(np.rint(100 * self.calibrated.bias()) / 100, self.calibrated.cells)

    def moments(self, cells: Integers, starts: Integers) -> Moments:
        """The moments of the noise of sums of runs of cells."""
        return (self.by_count or self.calibrated).moments(cells, starts)

    def reach(self, cells: Integers, starts: Integers, level: float) -> tuple[Array, Array]:
        """How far below and above zero the noise of sums of runs of cells is at most."""
        if self.by_count is None:
            return self.calibrated.sum_reach(cells, starts, level)
        return self.by_count.parts(cells, starts).reach(level, self.by_count.one)

    def shared(self, one: Integers, two: Integers) -> float:
        """The covariance of the noise of two sums of cells that have groups in common."""
        return (self.by_count or self.calibrated).shared(one, two)

    def ends(
        self, noisy: Integers, cells: Integers, starts: Integers, level: float
    ) -> tuple[Integers, Integers]:
        """Ends for sums of runs of cells; where sums are not known, for those of one cell alone."""
        made = self.calibrated
        if self.sums:
            below, above = self.reach(cells, starts, level)
            return ends_around(noisy.astype(np.float64), above, below)
        down, up = made.cell_reach(level, cells[starts] // made.cells)
        return ends_around(*(numbers.astype(np.float64) for numbers in (noisy, up, down)))

    def joint_ends(
        self, noisy: Integers, cells: Integers, starts: Integers, miss: float
    ) -> tuple[Integers, Integers]:
        """Ends for sums of which many are to hold at once, each missing no more than so.

        Where noise has made a count too small, the workplace behind it looks too small as well, and
        the noise with it.  So high ends take the noise as it is if the counts are what they say:
        every cell larger by its part of the way, in proportion to its variance.
        """
        made, level = self.calibrated, 1 - miss
        if self.by_count is not None:
            return self.ends(noisy, cells, starts, level)
        moments = made.moments(cells, starts)
        up = down = made.joint_reach(cells, starts, level, moments)
        if self._largest is not None and self.own is not None and self.own.noisy is not None:
            number, groups = np.diff(np.append(starts, len(cells))), cells // made.cells
            share = made.variance[groups]
            share *= np.repeat(down / np.maximum(moments.variance, 1e-9), number)
            moved = np.bincount(groups, share, len(made.points))
            seen = self.own.noisy
            now = np.rint(seen + moved).astype(np.int64)
            changed = np.flatnonzero(now != seen)
            larger = made.with_points(changed, *self._points_of(now[changed], changed))
            of_larger = larger.moments(cells, starts)
            most = larger.joint_reach(cells, starts, level, of_larger, most=True)
            up = np.maximum(down, most)
        return ends_around(noisy - moments.mean, down, up)

    def _points_of(self, noisy: Integers, groups: Integers) -> tuple[Points, NDArray[np.intp]]:
        """Points of some groups if they had other noisy counts; and which of them each has.

        They go by the count and by what is public of a group: those that were seen are known, and
        those asked for last are kept.
        """
        assert self._largest is not None
        (known, which), variance = self._largest, self.calibrated.noise.variance
        kinds = len(known.workplaces)
        near = np.clip(noisy, -_FAR, _FAR)  # both in one number
        wanted, back = np.unique(near * kinds + which[groups], return_inverse=True)
        keys, points = self._kept[0]
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        found, new = points[at], np.flatnonzero(keys[at] != wanted)
        if new.size:
            count, kind = np.divmod(wanted[new], kinds)
            found[new] = known.points(count, kind, variance)
            keys, points = self._kept[0] if len(keys) + new.size < _MOST_KEPT else self._seen
            keys, first = np.unique(np.append(keys, wanted[new]), return_index=True)
            self._kept[0] = keys, np.concatenate([points, found[new]])[first]
        return found, back.reshape(-1)

    @cached_property
    def _seen(self) -> tuple[Integers, Points]:
        """Counts and kinds of all groups in one number, in order, with the points of each."""
        assert self._largest is not None and self.own is not None and self.own.noisy is not None
        known, which = self._largest
        keys, first = np.unique(self.own.noisy * len(known.workplaces) + which, return_index=True)
        return keys, self.calibrated.points[first]

    @cached_property
    def _kept(self) -> list[tuple[Integers, Points]]:
        return [self._seen]

    @cached_property
    def _largest(self) -> tuple[LargestWorkplace, Integers] | None:
        """Where noisy counts say something: what larger ones would say of each group."""
        if self.own is None or self.own.noisy is None:
            return None
        return self.own.largest(self.sizes)
