"""Estimates with smaller errors from a table of worker cells: post-processing of a release.

They are made of the release alone, so they cost no privacy, and anyone can make them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
import pyarrow as pa

from eree.budget.compose import kept_workplaces, share_nothing
from eree.errors import Refusal, Unreadable, how_many
from eree.estimate.above import above
from eree.estimate.calibrated import ReleaseKey
from eree.estimate.grids import can_be_shrunk
from eree.estimate.listing import checked_level, names_of
from eree.estimate.measured import measurement_of
from eree.estimate.shrunk import Kept, Shrunk
from eree.estimate.shrunk_draw import (
    declared,
    kinds_of,
    sets_of,
    shrunk_cells,
    shrunk_draw,
    worker_attributes,
)
from eree.estimate.sum_bounds import summed
from eree.estimate.totals import Areas
from eree.estimate.workplaces import ShrunkWorkplaces
from eree.mechanisms.intervals import UNBOUNDED
from eree.mechanisms.mechanism import LIMIT, Mechanism
from eree.random.exact import Array, Integers
from eree.release.release import Release, opening

#: The columns of the guaranteed ends.
LOW, HIGH = "guaranteed_low", "guaranteed_high"
#: Estimates of more groups than this to an area, in the mean, are not added up.
_MOST_TOGETHER = 40
#: Fewer groups tell too little of their kinds.
LEAST_GROUPS = 30


@opening
def shrink(release: Release, table: str | Iterable[str], by: Iterable[str] = ()) -> Shrunk:
    """Estimate the cells of a released table whose worker cells were protected together.

    The shares of each group of worker cells are shrunk to those of all groups of its kind (the
    workplace attributes whose values the schema declares), the more, the more noise they have; how
    much groups of a kind differ is learnt from the table itself.  Marginals of one draw are
    estimated together, and have one total.

    Args:
        release: A release, or the name of its folder.
        table: The name of a table, or of several that share no workplace, to be added up.
        by: Attributes to add cells up by, area by area, where noisy sums show that it helps.

    Examples:
        >>> eree.shrink("out", "sexes")
        <Shrunk of sexes ...>
    """
    tables, asked = names_of(table), names_of(by)
    if len(tables) > 1 and not asked:
        raise Refusal("several tables are added up area by area; say by which attributes")
    if not tables:
        raise Refusal("name a table of the release to estimate")
    found = [Areas.read(release, name, asked) for name in tables]
    for one, other in combinations(found, 2):
        kept = (kept_workplaces(areas.schema, areas.counted.where) for areas in (one, other))
        if not share_nothing(*kept):
            raise Refusal(
                f"tables {one.table} and {other.table} may count the same workplaces, so they"
                " cannot be added up; take tables whose filters share none"
            )
    for areas in found:
        _check(areas)
    parts = [_Part.of(areas, several=len(tables) > 1) for areas in found]
    level, first = checked_level(release.record["level"]), parts[0]
    if not asked:
        return first.listed(level)
    rows = _added([part.sums(1 - (1 - level) / len(parts)) for part in parts], asked, level)
    several = len(parts) > 1
    correlations = {
        f"{part.areas.table}: {name}" if several else name: value
        for part in parts
        for name, value in part.correlations.items()
    }
    filters = {part.areas.table: part.areas.counted.where for part in parts}
    where = _kept_by_all(list(filters.values()))
    return Shrunk(release, ", ".join(tables), asked, where, level, rows, correlations, filters)


def _kept_by_all(filters: Sequence[Kept]) -> Kept:
    """What the rows of several tables have in common: no other values than these."""
    shared = [name for name in filters[0] if all(name in where for where in filters)]
    return {
        name: tuple(dict.fromkeys(value for where in filters for value in where[name]))
        for name in shared
    }


def shrunk_by(release: Release, table: str, area: str) -> Integers:
    """Estimates of all cells of a table in hundredths of a job, if they may be added up by area."""
    counted, _ = measurement_of(release, table)
    workers, _ = worker_attributes(release.schema, counted)
    areas = Areas.read(release, table, [area, *workers])
    _check(areas)
    if areas.measurement.clips or areas.measurement.mechanism.transformed_covariance is not None:
        raise Refusal(
            f"cells of table {table} cannot be added up over workers: jobs were scaled away before,"
            " or each workplace was protected by itself; see 'eree shrink'"
        )
    _Part.of(areas, several=False).check()
    drawn = areas.measurement.drawn_with or (table,)
    return shrunk_cells(ReleaseKey(release), drawn)[table]


@dataclass(frozen=True)
class _Part:
    """A table, and the estimates of all its cells.

    Where an area takes in several worker cells of a workplace, the first of them has the estimate
    of all, and its variance, and the others have 0: their errors are not independent.
    """

    areas: Areas
    estimates: Array
    variances: Array
    noise: Array | None  # its variances, where sums of groups are held against it
    correlations: dict[str, float]

    @classmethod
    def of(cls, areas: Areas, *, several: bool) -> _Part:
        """Learn from a table; one of several that has too few groups stays as it is."""
        release, table, schema, counted = areas.release, areas.table, areas.schema, areas.counted
        workers, shape = worker_attributes(schema, counted)
        mechanism = areas.measurement.mechanism
        rows, cells = release.table(table), int(np.prod(shape))
        if rows.num_rows % cells:
            raise Unreadable(f"table {table} lacks cells; run 'eree verify'")
        noisy = areas.noisy.reshape(-1, cells)
        if len(noisy) < LEAST_GROUPS and several:
            counts = np.maximum(areas.noisy, 0).astype(np.float64)
            return cls(areas, counts, np.full(len(counts), np.inf), None, {})
        if len(noisy) < LEAST_GROUPS:
            raise Refusal(
                f"table {table} has {how_many(len(noisy), 'group')} of worker cells; the shares of"
                f" kinds can be learnt from {LEAST_GROUPS} or more"
            )
        noise = None
        if mechanism.transformed_covariance is not None:
            kinds = kinds_of(rows, schema, counted, cells)
            sites = ShrunkWorkplaces.learn(noisy, kinds, mechanism, shape)
            kept = [name in areas.wanted.by or not areas.wanted.by for name in workers]
            sums = _sums_of_cells(shape, kept)
            moments = np.zeros((2, *noisy.shape))
            moments[:, :, sums.argmax(1)] = sites.moments(sums)
            correlations = sites.correlations
        else:
            drawn = areas.measurement.drawn_with or (table,)
            learnt = shrunk_draw(ReleaseKey(release), drawn)
            moments, noise, correlations = learnt.of(drawn.index(table))
        named = dict(zip(sets_of(workers, shape), correlations.tolist(), strict=True))
        mean, variance = moments.reshape(2, -1)
        if areas.measurement.clips:  # what was scaled away is not known
            variance = np.full_like(variance, np.inf)
        return cls(areas, mean, variance, None if noise is None else noise.reshape(-1), named)

    def listed(self, level: float) -> Shrunk:
        """All cells of the table."""
        release, table, counted = self.areas.release, self.areas.table, self.areas.counted
        rows = release.table(table).rename_columns({"low": LOW, "high": HIGH})
        moments = pa.table({"estimate": self.estimates, "variance": self.variances})
        for name in moments.column_names:
            rows = rows.append_column(name, moments[name])
        filters = {table: counted.where}
        found = _listed(_with_ends(rows), counted.by, level)
        return Shrunk(
            release, table, counted.by, counted.where, level, found, self.correlations, filters
        )

    def sums(self, level: float) -> pa.Table:
        """The areas: estimates added up, and the noisy sums with guaranteed intervals."""
        areas = self.areas
        attributes = areas.schema.attributes
        left = [name for name in areas.counted.by if name not in areas.wanted.by]
        each = prod(
            len(attributes[n].values or ()) for n in left if attributes[n].owner == "worker"
        )
        workplaces = summed(areas.numbers["workplaces"][areas.place], areas.starts) // each
        estimates, variances = self._added(self.estimates), self._added(self.variances)
        variances = variances * self.check()
        low, high = areas.ends(1 - level)
        columns = {name: areas.keys[name] for name in areas.wanted.by} | {
            "noisy": pa.array(areas.sums),
            LOW: pa.array(low),
            HIGH: pa.array(high, mask=high == UNBOUNDED),
            "workplaces": pa.array(workplaces),
            "estimate": pa.array(estimates),
            "variance": pa.array(variances),
        }
        return _with_ends(pa.table(columns))

    def _added(self, values: Array) -> Array:
        """Values of cells, added up area by area."""
        found: Array = np.add.reduceat(values[self.areas.place], self.areas.starts)
        return found

    def check(self) -> float:
        """By how much the squared errors of sums exceed the variances that the model leaves.

        Where these are too large, sums are refused.

        What the groups of an area have in common is not in the model.  The distances of their
        estimates from noisy counts tell: noise is independent from group to group, so the product
        of two of these distances has the mean of the product of two errors.
        """
        areas, by = self.areas, ", ".join(self.areas.wanted.by)
        if self.noise is None or set(areas.wanted.by) == set(areas.counted.by):
            return 1.0
        left, noise = self._added(self.variances), self._added(self.noise)
        number = len(left) // prod(worker_attributes(areas.schema, areas.wanted)[1])
        if number < LEAST_GROUPS:
            raise Refusal(
                f"by {by} there are {number} areas; whether estimates may be added up can be told"
                f" from {LEAST_GROUPS} or more; take the noisy sums, as area_totals does"
            )
        away = areas.noisy - self.estimates
        common = self._added(away) ** 2 - self._added(away**2)
        factor = max(1.0, 1 + float((common / noise).sum() / (left / noise).sum()))
        many = len(areas.place) > _MOST_TOGETHER * len(left)
        if many or np.sqrt(factor * left).sum() > np.sqrt(noise).sum():
            raise Refusal(
                f"added up by {by}, estimates of table {areas.table} are further off than noisy"
                " sums: what the groups of an area have in common adds up, and noise cancels; take"
                " those, as area_totals does"
            )
        return factor


def _added(parts: list[pa.Table], by: tuple[str, ...], level: float) -> pa.Table:
    """Areas of several tables, each once: whole estimates inside the sums of the intervals."""
    numbers = ("estimate", "variance", "noisy", LOW, HIGH, "open", "workplaces")
    both = pa.concat_tables(part.select([*by, *numbers]) for part in parts)
    if len(parts) > 1:
        grouped = both.group_by(list(by), use_threads=False)
        both = grouped.aggregate([(name, "sum") for name in numbers])
        both = both.rename_columns([name.removesuffix("_sum") for name in both.column_names])
        both = both.sort_by([(name, "ascending") for name in by])
    return _listed(both, by, level)


def _listed(rows: pa.Table, by: Iterable[str], level: float) -> pa.Table:
    """Whole estimates within the guaranteed ends, and calibrated ends around them."""
    from scipy.special import ndtri

    least, most = rows[LOW].to_numpy(), rows[HIGH].to_numpy()
    most = np.where((rows["open"].to_numpy() > 0) | (most >= LIMIT), UNBOUNDED, most)
    estimates, variances = rows["estimate"].to_numpy(), rows["variance"].to_numpy()
    known = np.isfinite(variances)
    whole = _within(estimates, least, most)
    away = ndtri((1 + level) / 2) * np.sqrt(np.where(known, variances, 0.0))
    low = np.minimum(np.maximum(np.ceil(estimates - away), 0).astype(np.int64), whole)
    high = np.maximum(np.floor(estimates + away).astype(np.int64), whole)
    low, high = np.where(known, low, least), np.where(known, high, most)
    columns = {name: rows[name] for name in by} | {
        "estimate": pa.array(whole),
        "low": pa.array(low),
        "high": pa.array(high, mask=high == UNBOUNDED),
        "noisy": rows["noisy"],
        LOW: pa.array(least),
        HIGH: pa.array(most, mask=most == UNBOUNDED),
        "workplaces": rows["workplaces"],
    }
    return pa.table(columns)


def _with_ends(part: pa.Table) -> pa.Table:
    """Rows whose high ends can be added up; `open` is 1 where there is none, and 0 is added."""
    high = _high_ends(part)
    unbounded = high == UNBOUNDED
    place = part.column_names.index(HIGH)
    closed = part.set_column(place, HIGH, pa.array(np.where(unbounded, 0, high)))
    return closed.append_column("open", pa.array(unbounded.astype(np.int64)))


def _high_ends(rows: pa.Table) -> Integers:
    found: Integers = rows[HIGH].fill_null(pa.scalar(UNBOUNDED, pa.int64())).to_numpy()
    return found


def _check(areas: Areas) -> None:
    """Refuse what cannot be shrunk, or not be added up."""
    table, schema, counted = areas.table, areas.schema, areas.counted
    if any(schema.attributes[name].owner == "worker" for name in counted.where):
        raise Refusal(
            f"table {table} leaves out workers, and estimates are made of whole workplaces; shrink"
            " a table of all workers"
        )
    mechanism, by = areas.measurement.mechanism, areas.wanted.by
    for name in by:
        if name not in counted.by and schema.attributes[name].owner == "worker":
            raise Refusal(
                f"worker cells are not added up by {name}; ask by {schema.attributes[name].of},"
                f" which table {table} is counted by"
            )
    by_own = mechanism.transformed_covariance is not None
    singly = by_own and bool((areas.numbers["workplaces"] == 1).all())
    if not singly and not can_be_shrunk(mechanism):
        raise Refusal(_cannot(table, mechanism))
    if not by or singly or set(by) == set(counted.by):
        return
    workers, _ = worker_attributes(schema, counted)
    if areas.measurement.clips or not set(workers) <= set(by):
        raise Refusal(
            f"estimates of table {table} are added up over workplaces, by {', '.join(workers)} as"
            " it is counted, and not where jobs were scaled away before; for other sums use its"
            " noisy counts, as area_totals does"
        )
    known = {*workers, *declared(schema, counted)}
    coarser = above(areas.release, counted.by)
    if all(name in known or (name in coarser and coarser[name].fine in known) for name in by):
        raise Refusal(
            f"the shares by {', '.join(by)} are learnt from the noisy sums of table {table}, so"
            " estimates tell nothing more of them; take these, as area_totals does"
        )


def _cannot(table: str, mechanism: Mechanism) -> str:
    """Why a table cannot be shrunk."""
    if mechanism.transformed_covariance is not None:
        return (
            f"{mechanism.name} was given the counts of several workplaces together in table"
            f" {table}; its noise can be shrunk where every workplace is protected by itself, in a"
            " table that is counted by the key of workplaces"
        )
    return (
        f"table {table} was protected cell by cell by {mechanism.name}; only worker cells that"
        " were protected together gain from it, by vector-mixture, vector-radial, vector-pareto or"
        " two-stage-clip, or by knorm-staircase in a row for each workplace"
    )


def _within(estimates: Array, low: Integers, high: Integers) -> Integers:
    """Integer estimates of at least 0, moved to the nearer end where they lie outside."""
    whole = np.rint(np.clip(estimates, 0, LIMIT)).astype(np.int64)
    found = np.maximum(whole, low)
    return np.where(high == UNBOUNDED, found, np.minimum(found, high))


def _sums_of_cells(shape: Sequence[int], kept: Sequence[bool]) -> Array:
    """Which worker cells lie in each cell by the kept attributes alone: a row for each of these."""
    found: Array = np.ones((1, 1))
    for values, keeps in zip(shape, kept, strict=True):
        each: Array = np.eye(values) if keeps else np.ones((1, values))
        found = np.kron(found, each).astype(np.float64)
    return found
