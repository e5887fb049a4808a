"""Calibrated intervals of released tables: what is known of the noise of their cells.

Everything here is made of a release alone, so it costs no privacy, and anyone can make it again.
The sizes of workplaces are public ones that the office gave, else those of the release's size
profile; where there are neither they are learnt from the noisy counts of the table itself.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from eree.errors import Refusal
from eree.estimate.by_count import ByCount
from eree.estimate.calibration import Calibrated
from eree.estimate.evidence import CalibratedTable, Evidence, Fit
from eree.estimate.kept import kept_table
from eree.estimate.largest import POINTS, Points, equally_likely
from eree.estimate.measured import MeasuredTable, measurement_of
from eree.estimate.noise import drawn_noise, noise_of_cells, noise_of_groups
from eree.estimate.normal import evenly
from eree.estimate.quantiles import MOST_KURTOSIS, quantiles
from eree.estimate.size_distribution import KNOWN, SizeDistribution, told_apart, usual_sizes
from eree.estimate.sizes import WorkplaceSizes
from eree.mechanisms.mechanism import EMPTY
from eree.mechanisms.registry import ours
from eree.policy.plain_data import guarantee_of
from eree.random.exact import Array, Integers
from eree.release.contents import counted_by
from eree.release.price import measurement_for
from eree.release.release import PUBLIC_SIZES, Release

T = TypeVar("T")
#: Rounds in which sizes are learnt from a table, and cells that they are learnt from.
_ROUNDS, _LEARN_FROM = 5, 3_000
#: Workplaces of each kind that are taken to be as all are, before any is known.
_OF_ALL = 20.0
#: Groups that a check of the model needs, and that are looked at at once.
_LEAST_GROUPS, _AT_ONCE = 30, 1 << 12
#: Thresholds up to a size that a profile has to have, to be believed.
_LEAST_THRESHOLDS, _LARGE = 5, 1_000


def calibrated_table(release: Release, table: str) -> CalibratedTable | None:
    """The noise of a table's cells; None where what was bounded before is not known."""
    return _calibrated(ReleaseKey(release), table)


def forget_rows() -> None:
    """Let go of what only learning needs: the rows of tables, and draws of their noise."""
    for known in (_table, noise_of_cells, noise_of_groups, drawn_noise):
        known.cache_clear()


@lru_cache(maxsize=1024)
def _source(key: ReleaseKey, table: str) -> str:
    return key.unchanged(sizes_from(key.release, table))


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


def common_sizes(release: Release) -> SizeDistribution:
    """Sizes that are the same for all tables: those of one that counts whole workplaces, if any."""
    key = ReleaseKey(release)
    names = [n for n in release.tables if not release.of_workplaces(n) and release.about(n)["rows"]]
    best = [n for n in names if _table(key, n).counts_workplaces and not _table(key, n).kept]
    return _sizes(key, [*best, *names][0])


def _kept(release: Release, table: str) -> dict[str, list[str]]:
    """The filter of a table on its workplaces."""
    known = release.schema.attributes
    where = release.about(table)["where"]
    return {n: sorted(map(str, v)) for n, v in where.items() if known[n].owner == "workplace"}


class ReleaseKey:
    """A release to look things up by: its folder, its name, public sizes and files, where known."""

    def __init__(self, release: Release) -> None:
        self.release, self.content = release, release.content
        self._name = release.place, release.identity, self.content

    def unchanged(self, found: T) -> T:
        """What was found, if the files were the same all the while: only that is ever kept."""
        if self.content is not None and self.release.content != self.content:
            raise Refusal(f"{self.release.folder} changed while it was read; try again")
        return found

    def __hash__(self) -> int:
        return hash(self._name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReleaseKey) and other._name == self._name


@lru_cache(maxsize=1024)
def _calibrated(key: ReleaseKey, name: str) -> CalibratedTable | None:
    release, content = key.release, key.content
    if content is None or not all(ours(str(release.about(t)["mechanism"])) for t in release.tables):
        return _made(key, name)

    def whole() -> CalibratedTable | None:
        return key.unchanged(_made(key, name))

    mechanism = measurement_of(release, name)[1].mechanism
    return kept_table(f"calibrated {content} {name!r}", mechanism, whole)


def _made(key: ReleaseKey, name: str) -> CalibratedTable | None:
    table = _table(key, name)
    if table.measurement.clips or table.mechanism.bound is not None:
        return None
    finer = (
        _finer(key, name, table) if table.noise_by_size and not table.counts_workplaces else None
    )
    sizes = _sizes(key, name if finer is None else finer[0])
    noise = noise_of_cells(table.mechanism, tuple(sizes.sizes.tolist()))
    if not table.noise_by_size:  # noise goes by the count itself, or is the same everywhere
        counts = np.maximum(table.rows["noisy"].to_numpy(), 0)
        place = (np.searchsorted(sizes.least, counts, side="right") - 1).astype(np.uint8)
        by_count = ByCount.of(table.mechanism, table.rows["noisy"].to_numpy())
        sums = table.mechanism.at_once == 1 or by_count is not None
        beyond, made = counts > sizes.least[-1], Calibrated(noise, place[:, None])
        return CalibratedTable(made, sizes, None, beyond, None, sums, by_count)
    cells = table.measurement.worker_cells
    totals = np.abs(table.rows["noisy"].to_numpy().reshape(-1, cells)).max(1)
    beyond = totals / np.maximum(table.groups["workplaces"].to_numpy(), 1) > sizes.least[-1]
    if finer is None and table.filtered and _source(key, name) == name:
        return None  # nothing public says how large its workplaces are
    if finer is None:
        own = _evidence(table, sizes)
        points = own.points(sizes, noise.variance)
        return CalibratedTable(Calibrated(noise, points, cells), sizes, own, beyond)
    other, place = finer
    evidence = _evidence(_table(key, other), sizes)
    points = _points_of_parts(evidence, sizes, place, len(table.groups), noise.variance)
    found = Calibrated(noise, points, cells)
    fit = None if table.filtered else _fit(key, table, found, other, place)
    widened = 1.0 if fit is None else fit.widened
    return CalibratedTable(replace(found, widened=widened), sizes, None, beyond, fit)


def _fit(
    key: ReleaseKey, table: MeasuredTable, made: Calibrated, other: str, place: Integers
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


def _finer(key: ReleaseKey, name: str, table: MeasuredTable) -> tuple[str, Integers] | None:
    """A table of the workplaces of another, and the group that each of its cells lies in.

    One that is counted by the same attributes comes before one whose areas lie in theirs.
    """
    jobs = [n for n in key.release.tables if n != name and not key.release.of_workplaces(n)]
    own = set(table.attributes)
    for other in sorted(jobs, key=lambda n: not own <= set(key.release.about(n)["by"])):
        parts = _table(key, other)
        if parts.counts_workplaces and not parts.measurement.clips:
            place = parts.within(table)
            if place is not None and len(np.unique(place)) == len(table.groups):
                return other, place
    return None


def _points_of_parts(
    evidence: Evidence, sizes: SizeDistribution, place: Integers, groups: int, variance: Array
) -> Points:
    """Equally likely classes of the largest workplace of groups, from the cells that they have.

    Groups of one cell of which the same is known have the same: they are looked at once.
    """
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(groups + 1))
    number = np.diff(starts)
    known = evidence.told_apart[order[starts[:-1]]]
    own = np.where(number == 1, known, len(place) + np.arange(groups))
    _, chosen, back = np.unique(own, return_index=True, return_inverse=True)
    found: Points = np.empty((len(chosen), POINTS), dtype=np.uint8)
    for at in range(0, len(chosen), _AT_ONCE):
        some = chosen[at : at + _AT_ONCE]
        first = np.cumsum(number[some]) - number[some]
        cells = np.arange(number[some].sum()) + np.repeat(starts[some] - first, number[some])
        posterior = evidence.posterior(sizes, order[cells])
        found[at : at + _AT_ONCE] = equally_likely(_largest_of_parts(posterior, first), variance)
    return found[back]


def _largest_of_parts(posterior: Array, first: Integers) -> Array:
    """The largest workplace of groups, from those of their cells; `first` is each one's first."""
    logs = np.log(np.clip(np.cumsum(posterior, axis=1), 1e-300, 1.0))
    found = np.exp(np.add.reduceat(logs, first, axis=0))
    found = np.maximum(np.diff(found, axis=1, prepend=0.0), 0.0)
    found += 1e-12
    found /= found.sum(1, keepdims=True)
    return found


@lru_cache(maxsize=64)
def _table(key: ReleaseKey, name: str) -> MeasuredTable:
    """A table of which only what learning looks at stays in memory."""
    read = MeasuredTable.read(key.release, name, coded=True)
    found = replace(read, rows=read.rows.select(["noisy"]))
    found.__dict__["groups"] = read.groups
    return key.unchanged(found)


@lru_cache(maxsize=1024)
def _sizes(key: ReleaseKey, name: str) -> SizeDistribution:
    """The sizes of the workplaces of a table: given, by the release's profile, or learnt."""
    source, release = _source(key, name), key.release
    if source == name:
        return _learnt(_table(key, name))
    if release.public_sizes is not None:
        given = WorkplaceSizes.read(release.public_sizes, release.schema)
        found = SizeDistribution.from_public(given)
    else:
        found = _profiled(release, source)
    table = _table(key, name)
    return key.unchanged(found.told_apart_by((*table.attributes, *table.above)))


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
    kinds = sizes.rows_of(table.groups_with(sizes.attributes))
    workplaces = groups["workplaces"].to_numpy()
    if table.filtered and "largest_total" in table.measurement.statistics:
        return Evidence(workplaces, kinds)
    noisy = table.rows["noisy"].to_numpy().reshape(-1, cells).sum(1)
    noise = noise_of_groups(table.mechanism, tuple(sizes.sizes.tolist()), cells)
    return Evidence(workplaces, kinds, noisy, noise)


def _learnt(table: MeasuredTable) -> SizeDistribution:
    """Sizes that the noisy counts of a table are likely with: a few rounds of expectation.

    Of a group the largest workplace has its posterior, and the others are as sizes up to it are.
    """
    groups = table.groups
    names = table.kinds_told_apart() if len(groups) else ()  # where nobody is, sizes are as usual
    first, _ = told_apart([groups[name] for name in names])
    columns = [groups[name].take(first).to_pylist() for name in names]
    kinds = sorted(zip(*columns, strict=True), key=str) if names else [()]
    found = usual_sizes(names, kinds)
    if table.measurement.clips or table.filtered or not (table.noise_by_size and len(groups)):
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
