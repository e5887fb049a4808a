"""Calibrated intervals of released tables: what is known of the noise of their cells.

Everything here is made of a release alone, so it costs no privacy, and anyone can make it again.
The sizes of workplaces are public ones that the office gave, else those of the release's size
profile; where there are neither they are learnt from the noisy counts of the table itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from eree.cells import USUAL_DEVIATION, USUAL_MEDIAN
from eree.estimate.calibration import Calibrated
from eree.estimate.largest import (
    LargestWorkplace,
    Points,
    equally_likely,
    posterior_of_largest,
    prior_of_largest,
)
from eree.estimate.measured import MeasuredTable
from eree.estimate.noise import NoiseBySize, noise_of_cells, noise_of_groups
from eree.estimate.normal import evenly
from eree.estimate.quantiles import MOST_KURTOSIS, ends_around, quantiles
from eree.estimate.size_distribution import KNOWN, Kind, SizeDistribution, size_classes
from eree.estimate.sizes import WorkplaceSizes
from eree.mechanisms.mechanism import EMPTY
from eree.policy.plain_data import guarantee_of
from eree.random.exact import Array, Integers
from eree.release.contents import counted_by
from eree.release.price import measurement_for
from eree.release.release import PUBLIC_SIZES, Release

#: Rounds in which sizes are learnt from a table, and cells that they are learnt from.
_ROUNDS, _LEARN_FROM = 5, 3_000
#: Workplaces of each kind that are taken to be as all are, before any is known.
_OF_ALL = 20.0
#: Groups that a check of the model needs, and standard errors times the root of their number.
_LEAST_GROUPS, _CHANCE = 30, 2.4
#: Thresholds up to a size that a profile has to have, to be believed.
_LEAST_THRESHOLDS, _LARGE = 5, 1_000


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

    def posterior(self, sizes: SizeDistribution) -> Array:
        """The probabilities of the classes, a row for each group."""
        if self.noisy is None or self.noise is None:
            return prior_of_largest(sizes, self.workplaces, self.kinds)
        return posterior_of_largest(self.noise, sizes, self.noisy, self.workplaces, self.kinds)

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
            f"totals of {self.groups:,} groups differ from those of {self.against} by"
            f" {self.spread:.2f} of what the model says{widened}"
        )


@dataclass(frozen=True, eq=False)
class CalibratedTable:
    """What is known of the noise of a table's cells, and what follows when they are added up.

    `beyond` are groups with noisy counts that no sizes of the model reach.  Without `sums` the
    noise of cells that are added up is not known, but that of each is.
    """

    calibrated: Calibrated
    sizes: SizeDistribution
    own: Evidence | None
    beyond: NDArray[np.bool_] | None = None
    fit: Fit | None = None
    sums: bool = True

    def joint_ends(
        self, noisy: Integers, cells: Integers, starts: Integers, miss: float
    ) -> tuple[Integers, Integers]:
        """Ends for sums of which many are to hold at once, each missing no more than so.

        Where noise has made a count too small, the workplace behind it looks too small as well, and
        the noise with it.  So high ends take the noise as it is if the counts are what they say:
        every cell larger by its part of the way, in proportion to its variance.
        """
        made, level = self.calibrated, 1 - miss
        moments, down = made.moments(cells, starts), made.joint_reach(cells, starts, level)
        up = down
        if self._largest is not None and self.own is not None and self.own.noisy is not None:
            number, groups = np.diff(np.append(starts, len(cells))), cells // made.cells
            share = made.variance[groups]
            share *= np.repeat(down / np.maximum(moments.variance, 1e-9), number)
            moved = np.bincount(groups, share, len(made.points))
            (known, which), seen = self._largest, self.own.noisy
            now = np.rint(seen + moved).astype(np.int64)
            changed = np.flatnonzero(now != seen)
            points = known.points(now[changed], which[changed], made.noise.variance)
            larger = made.with_points(changed, points)
            up = np.maximum(down, larger.joint_reach(cells, starts, level, most=True))
        return ends_around(noisy - moments.mean, down, up)

    @cached_property
    def _largest(self) -> tuple[LargestWorkplace, Integers] | None:
        """Where noisy counts say something: what larger ones would say of each group."""
        if self.own is None or self.own.noisy is None:
            return None
        return self.own.largest(self.sizes)


def calibrated_table(release: Release, table: str) -> CalibratedTable | None:
    """The noise of a table's cells; None where what was bounded before is not known."""
    return _calibrated(_Key(release), table)


@lru_cache(maxsize=1024)
def _source(key: _Key, table: str) -> str:
    return sizes_from(key.release, table)


def sizes_from(release: Release, table: str) -> str:
    """What sizes of a table's workplaces are known from: a file, a profile, or the table itself.

    A profile is of the same workplaces, or else of all, and of so many that its noise hides little.
    """
    if release.public_sizes is not None:
        return PUBLIC_SIZES.name
    profiles = {
        name: _kept(release, name)
        for name in release.tables
        if release.of_workplaces(name) and _knows(release, name)
    }
    for kept in (_kept(release, table), {}):
        for name, own in profiles.items():
            if own == kept:
                return name
    return table


def _kept(release: Release, table: str) -> dict[str, list[str]]:
    """The filter of a table on its workplaces."""
    known = release.schema.attributes
    where = release.about(table)["where"]
    return {n: sorted(map(str, v)) for n, v in where.items() if known[n].owner == "workplace"}


class _Key:
    """A release, known by its folder, its name and the public sizes that go with it."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self._name = release.place, release.identity

    def __hash__(self) -> int:
        return hash(self._name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other._name == self._name


@lru_cache(maxsize=1024)
def _calibrated(key: _Key, name: str) -> CalibratedTable | None:
    table = _table(key, name)
    if table.measurement.clips or table.mechanism.bound is not None:
        return None
    sizes = _sizes(key, name)
    noise = noise_of_cells(table.mechanism, tuple(sizes.sizes.tolist()))
    if not table.noise_by_size:  # noise goes by the count itself, or is the same everywhere
        counts = np.maximum(table.rows["noisy"].to_numpy(), 0)
        place = (np.searchsorted(sizes.least, counts, side="right") - 1).astype(np.uint8)
        beyond, sums = counts > sizes.least[-1], table.mechanism.at_once == 1
        return CalibratedTable(Calibrated(noise, place[:, None]), sizes, None, beyond, None, sums)
    cells = table.measurement.worker_cells
    totals = np.abs(table.rows["noisy"].to_numpy().reshape(-1, cells)).max(1)
    beyond = totals / np.maximum(table.groups["workplaces"].to_numpy(), 1) > sizes.least[-1]
    finer = _finer(key, name, table) if not table.counts_workplaces else None
    if finer is None and table.filtered and _source(key, name) == name:
        return None  # nothing public says how large its workplaces are
    if finer is None:
        own = _evidence(table, sizes)
        points = own.points(sizes, noise.variance)
        return CalibratedTable(Calibrated(noise, points, cells), sizes, own, beyond)
    other, place = finer
    parts = _sizes(key, other)
    largest = _largest_of_parts(
        _evidence(_table(key, other), parts).posterior(parts), place, len(table.groups)
    )
    found = Calibrated(noise, equally_likely(largest, noise.variance), cells)
    fit = None if table.filtered else _fit(key, table, found, other, place)
    widened = 1.0 if fit is None else fit.widened
    return CalibratedTable(replace(found, widened=widened), sizes, None, beyond, fit)


def _fit(
    key: _Key, table: MeasuredTable, made: Calibrated, other: str, place: Integers
) -> Fit | None:
    """How far the totals of groups are from those of the workplaces that they are made of."""
    parts = _calibrated(key, other)
    groups = len(table.groups)
    if parts is None or groups < _LEAST_GROUPS:
        return None
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(groups))
    one = made.moments(np.arange(groups * made.cells), made.cells * np.arange(groups))
    two = parts.calibrated.moments(order, starts)
    totals = table.rows["noisy"].to_numpy().reshape(groups, -1).sum(1) - one.mean
    rows = _table(key, other).rows["noisy"].to_numpy()
    totals = totals - np.add.reduceat(rows[order], starts) + two.mean
    variance = np.maximum(one.variance + two.variance, 1e-9)
    kurtosis = np.minimum((one.fourth + two.fourth) / variance**2, MOST_KURTOSIS)
    apart = np.abs(totals) / (np.sqrt(variance) * quantiles(np.maximum(kurtosis, 0.0), 0.9))
    return Fit(other, groups, round(float(np.quantile(apart, 0.9)), 3))


def _finer(key: _Key, name: str, table: MeasuredTable) -> tuple[str, Integers] | None:
    """A table of the workplaces of another, and the group that each of its cells lies in."""
    for other in key.release.tables:
        if other == name or key.release.of_workplaces(other):
            continue
        parts = _table(key, other)
        if parts.counts_workplaces and not parts.measurement.clips:
            place = parts.within(table)
            if place is not None and len(np.unique(place)) == len(table.groups):
                return other, place
    return None


def _largest_of_parts(posterior: Array, place: Integers, groups: int) -> Array:
    """The largest workplace of groups, from those of the cells that they are made of."""
    logs = np.zeros((groups, posterior.shape[1]))
    np.add.at(logs, place, np.log(np.clip(np.cumsum(posterior, axis=1), 1e-300, 1.0)))
    found = np.maximum(np.diff(np.exp(logs), axis=1, prepend=0.0), 0.0)
    found += 1e-12
    found /= found.sum(1, keepdims=True)
    return found


@lru_cache(maxsize=64)
def _table(key: _Key, name: str) -> MeasuredTable:
    return MeasuredTable.read(key.release, name)


@lru_cache(maxsize=1024)
def _sizes(key: _Key, name: str) -> SizeDistribution:
    """The sizes of the workplaces of a table: given, by the release's profile, or learnt."""
    source, release = _source(key, name), key.release
    if source == name:
        return _learnt(_table(key, name))
    if release.public_sizes is not None:
        given = WorkplaceSizes.read(release.public_sizes, release.schema)
        return SizeDistribution.from_public(given).told_apart_by(_table(key, name).attributes)
    return _profiled(release, source).told_apart_by(_table(key, name).attributes)


def _profiled(release: Release, name: str) -> SizeDistribution:
    """The sizes that a released profile shows."""
    rows, by = release.table(name), tuple(release.about(name)["by"])
    return SizeDistribution.from_profile(rows, by, _mean_error(release, name))


def _mean_error(release: Release, profile: str) -> float:
    """The mean size of the noise of a profile's numbers."""
    about, schema = release.about(profile), release.schema
    price, counted = guarantee_of(about["price"]), counted_by(schema, about)
    made = measurement_for(schema, counted, price, about["mechanism"], about["settings"])
    return made.mechanism.mean_error(EMPTY)[0]


def _knows(release: Release, profile: str) -> bool:
    """Whether a profile is of many more workplaces than its numbers are off by."""
    rows = release.table(profile)
    at = rows["at_least"].to_numpy()
    if len(np.unique(at[at <= _LARGE])) < _LEAST_THRESHOLDS:
        return False
    number = int(rows["workplaces"].to_numpy()[at == at.min(initial=1 << 60)].sum())
    return number >= KNOWN * _mean_error(release, profile)


def _evidence(table: MeasuredTable, sizes: SizeDistribution) -> Evidence:
    """What the noisy counts of a table say of the largest workplace of each group."""
    groups, cells = table.groups, table.measurement.worker_cells
    kinds = sizes.rows_of(groups)
    workplaces = groups["workplaces"].to_numpy()
    if table.filtered and "largest_total" in table.measurement.statistics:
        return Evidence(workplaces, kinds)
    noisy = table.rows["noisy"].to_numpy().reshape(-1, cells).sum(1)
    noise = noise_of_groups(table.mechanism, tuple(sizes.sizes.tolist()), cells)
    return Evidence(workplaces, kinds, noisy, noise)


def usual_sizes(names: tuple[str, ...] = (), kinds: Iterable[Kind] = ((),)) -> SizeDistribution:
    """Sizes as most are, before any is known: their logarithms are normal."""
    least = size_classes()
    at = np.maximum(least, 0.5)
    wide = np.diff(np.append(least, least[-1] * 1.1))
    usual = np.exp(-((np.log(at / USUAL_MEDIAN) / USUAL_DEVIATION) ** 2) / 2) * wide / at
    return SizeDistribution.from_numbers(names, dict.fromkeys(kinds, usual), least)


def _learnt(table: MeasuredTable) -> SizeDistribution:
    """Sizes that the noisy counts of a table are likely with: a few rounds of expectation.

    Of a group the largest workplace has its posterior, and the others are as sizes up to it are.
    """
    names = table.kinds_told_apart()
    groups = table.groups
    columns = [groups[name].to_pylist() for name in names]
    kinds = sorted(set(zip(*columns, strict=True)), key=str) if names else [()]
    found = usual_sizes(names, kinds)
    if table.measurement.clips or table.filtered or not table.noise_by_size:
        return found
    evidence = _evidence(table, found)
    some = evidence.some(evenly(len(evidence.kinds), _LEARN_FROM))
    for _ in range(_ROUNDS):
        found = _learn(found, some)
    return found


def _learn(sizes: SizeDistribution, evidence: Evidence) -> SizeDistribution:
    posterior = evidence.posterior(sizes)
    below = np.maximum(sizes.up_to[evidence.kinds], 1e-300)
    smaller = np.cumsum((posterior / below)[:, ::-1], axis=1)[:, ::-1]
    others = np.maximum(evidence.workplaces - 1, 0)[:, None]
    numbers = posterior + others * smaller * sizes.shares[evidence.kinds]
    by_kind = np.zeros_like(sizes.shares)
    np.add.at(by_kind, evidence.kinds, numbers)
    all_kinds = by_kind.sum(0)
    return sizes.with_shares(by_kind + _OF_ALL * all_kinds / all_kinds.sum())
