"""Sums of released cells, such as all sectors of a place, with two kinds of intervals.

The noisy sum is that of the signed noisy counts.  Both intervals are made of public things alone.
The calibrated one is what `calibrated` says of the noise: it holds on average over areas if sizes
of workplaces are as they are taken to be.  The guaranteed one holds for any data, and each area: by
`sum_bounds` where every cell has noise of its own, as noise cancels; by the noise of the sum where
all worker cells that were drawn together are taken in; elsewhere the probability to miss is shared
out over the cells, and the ends of their own intervals are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eree.errors import Refusal, hint
from eree.estimate.above import above, tables_by, with_above
from eree.estimate.by_count import Bounds, narrower_of_few
from eree.estimate.calibrated import calibrated_table
from eree.estimate.calibration import Errors, Moments
from eree.estimate.evidence import CalibratedTable
from eree.estimate.listing import AreaTotals, checked_level, names_of
from eree.estimate.measured import measurement_of
from eree.estimate.quantiles import reach
from eree.estimate.sum_bounds import check_miss, sum_intervals, summed
from eree.mechanisms.intervals import UNBOUNDED
from eree.mechanisms.mechanism import LIMIT
from eree.policy.schema import Schema, Value
from eree.random.exact import Array, Integers
from eree.release.contents import SCALED_TO
from eree.release.price import Ends, Measurement, Numbers
from eree.release.release import Release, opening
from eree.workload import Marginal

#: The part of the probability to miss that a table keeps for itself where another bounds it.
_OWN_PART = 0.9
#: Rows of a table beyond which intervals of few of its groups are made for these alone.
_LARGE = 1 << 18

Filter = Mapping[str, Value | Iterable[Value]] | Iterable[str]


@opening
def area_totals(
    release: Release,
    table: str,
    by: Iterable[str],
    where: Filter | None = None,
    level: float | str | Fraction | None = None,
    *,
    simultaneous: bool = False,
) -> AreaTotals:
    """Add up the cells of a released table, area by area.

    An area that is not listed has no workplace, so it has no jobs, exactly.

    Args:
        release: A release, or the name of its folder.
        table: The name of one of its tables.
        by: What makes the areas: attributes of the table, or coarser ones that these lie in.
        where: Values to keep, as `{"sector": ["11", "21"]}` or `["sector=11,21"]`.
        level: The confidence of the intervals; without it the release's own.
        simultaneous: Whether all intervals hold together.

    Examples:
        >>> eree.area_totals("out", "jobs", ["county"])
        <AreaTotals of jobs by county, from release ...: 3 rows>
    """
    areas = Areas.read(release, table, by, where)
    checked = checked_level(release.record["level"] if level is None else level)
    return areas.totals(checked, simultaneous=simultaneous)


@dataclass(frozen=True)
class Areas:
    """The cells of a released table, ordered by area; `place` says where each is in the table."""

    release: Release
    table: str
    measurement: Measurement
    schema: Schema
    counted: Marginal
    wanted: Marginal
    keys: pa.Table
    numbers: Numbers
    place: NDArray[np.intp]
    starts: Integers
    read_other: Callable[..., Areas] | None = None  # of what may be known already

    @classmethod
    def read(
        cls, release: Release, table: str, by: Iterable[str], where: Filter | None = None
    ) -> Areas:
        """Read a table and sort its cells into areas."""
        counted, measurement = measurement_of(release, table)
        schema, coarser = release.schema, above(release, counted.by)
        inside = {name: schema.attributes[name] for name in (*counted.by, *coarser)}
        wanted = _wanted(replace(schema, attributes=inside), table, counted.by, by, where)
        rows, kept = with_above(release.table(table), coarser, wanted)
        if not kept.any():
            raise Refusal(f"table {table} has no row that the filter keeps; keep other values")
        place = np.flatnonzero(kept)
        codes = _codes(rows if kept.all() else rows.take(place), wanted.by)
        order = np.argsort(codes, kind="stable")
        place = place[order]
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        keys = rows.select(list(wanted.by)).take(place[starts])
        names = ["noisy", "workplaces", *([SCALED_TO] if measurement.clips else [])]
        numbers = {name: rows[name].to_numpy() for name in names}
        return cls(
            release, table, measurement, schema, counted, wanted, keys, numbers, place, starts
        )

    @property
    def noisy(self) -> Integers:
        """The signed noisy counts of all rows of the table."""
        return self.numbers["noisy"]

    def __len__(self) -> int:
        return len(self.starts)

    def only(self, chosen: NDArray[np.intp]) -> Areas:
        """Some of the areas, in the order in which they are chosen."""
        ends = np.append(self.starts[1:], len(self.place))
        parts = [self.place[self.starts[i] : ends[i]] for i in chosen]
        sizes = np.array([len(part) for part in parts], dtype=np.int64)
        return replace(
            self,
            keys=self.keys.take(chosen),
            place=np.concatenate(parts),
            starts=np.cumsum(sizes) - sizes,
        )

    def totals(self, level: float, *, simultaneous: bool) -> AreaTotals:
        """The sums; where all are to hold together, each has a part of the probability to miss."""
        low, high = self.calibrated_ends(level, simultaneous=simultaneous)
        least, most = self.ends((1 - level) / (len(self) if simultaneous else 1))
        columns = {name: self.keys[name] for name in self.wanted.by} | {
            "noisy": pa.array(self.sums),
            "estimate": pa.array(self.estimates),
            "low": pa.array(low),
            "high": pa.array(high, mask=high == UNBOUNDED),
            "guaranteed_low": pa.array(least),
            "guaranteed_high": pa.array(most, mask=most == UNBOUNDED),
            "cells": pa.array(self._cells),
        }
        by, rows = self.wanted.by, pa.table(columns)
        return AreaTotals(self.release, self.table, by, self.where, level, rows, simultaneous)

    @cached_property
    def sums(self) -> Integers:
        """The signed noisy sums."""
        return summed(self.noisy[self.place], self.starts)

    @cached_property
    def moments(self) -> Moments | None:
        """Of the noise of the sums; None where it is not known."""
        made = self.known
        if made is None or not (made.sums or (self._cells == 1).all()):
            return None
        return made.moments(self.place, self.starts)

    @property
    def known(self) -> CalibratedTable | None:
        """What is known of the noise, if intervals can be calibrated."""
        return calibrated_table(self.release, self.table)

    @property
    def estimates(self) -> Array:
        """The sums without the mean of their noise, to hundredths of a job."""
        if self.known is None:
            return self.sums.astype(np.float64)
        mean = self.known.bias()[self.place]
        found: Array = self.sums - np.rint(100 * np.add.reduceat(mean, self.starts)) / 100
        return found

    def calibrated_ends(self, level: float, *, simultaneous: bool) -> Bounds:
        """Ends of the calibrated intervals; the guaranteed ones where the noise is not known."""
        known = self.known
        miss = (1 - level) / (len(self) if simultaneous else 1)
        if known is None or not (known.sums or (self._cells == 1).any()):
            return self.ends(miss)
        if simultaneous:
            ends = known.joint_ends(self.sums, self.place, self.starts, miss)
        else:
            ends = known.ends(self.sums, self.place, self.starts, level)
        return self._or_guaranteed(known, ends, miss)

    def ends_around(self, estimates: Array, errors: Errors, level: float) -> Bounds:
        """Calibrated intervals around other estimates, whose errors are known beside the noise."""
        known, moments = self.known, self.moments
        if known is None or moments is None:
            return self.ends(1 - level)
        down, up = known.reach(self.place, self.starts, level)
        normal = reach(moments.variance, np.zeros(len(self)), level)
        down, up = (errors.reach(side, normal) for side in (down + moments.mean, up - moments.mean))
        ends = np.rint([estimates - up, estimates + down])
        low, high = np.maximum(ends, 0).astype(np.int64)
        if known.by_count is not None:
            return low, high
        return self._or_guaranteed(known, (low, high), 1 - level)

    def _or_guaranteed(self, known: CalibratedTable, ends: Bounds, miss: float) -> Bounds:
        """Calibrated ends, but the guaranteed ones of what the model knows nothing of."""
        if known.by_count is not None:
            return narrower_of_few(ends, lambda few: self.only(few).own_ends(miss), self._cells)
        low, high = ends
        unknown = np.zeros(len(self), dtype=np.bool_) if known.sums else self._cells > 1
        if known.beyond is not None and known.beyond.any():
            beyond = known.beyond[self.place // known.calibrated.cells]
            unknown |= np.logical_or.reduceat(beyond, self.starts)
        chosen = np.flatnonzero(unknown)
        if chosen.size:
            low[chosen], high[chosen] = self.only(chosen).ends(miss)
        return low, high

    @property
    def where(self) -> Mapping[str, tuple[Value, ...]]:
        """What is counted of the population: the table's own filter, and the one asked for."""
        own, asked = self.counted.where, self.wanted.where
        both = {n: tuple(v for v in own[n] if v in asked.get(n, own[n])) for n in own}
        return both | {n: values for n, values in asked.items() if n not in own}

    @property
    def _cells(self) -> Integers:
        return np.diff(self.starts, append=len(self.place))

    def ends(self, miss: float) -> Bounds:
        """Guaranteed ends of the sums, each missing with a probability of at most `miss`.

        No worker cell holds more than all workers of its workplaces: where a table of workplaces
        counts these, a part of the probability to miss goes to its high ends, which bound these.
        """
        above = self._above()
        if above is None:
            return self.own_ends(miss)
        sums, place = above
        try:
            low, high = self.own_ends(_OWN_PART * miss)
            most = sums.ends((1 - _OWN_PART) * miss)[1][place]
        except Refusal:  # so small a part of the probability to miss has no half-width
            return self.own_ends(miss)
        bounded = np.where(high == UNBOUNDED, most, np.minimum(high, most))
        high = np.where(most == UNBOUNDED, high, bounded)
        return np.where(high == UNBOUNDED, low, np.minimum(low, high)), high

    def _above(self) -> tuple[Areas, Integers] | None:
        """The sums of all workers of the areas' workplaces, by another table, and each area's."""
        known = self.schema.attributes

        def of_workplaces(names: Iterable[str]) -> list[str]:
            return [name for name in names if known[name].owner == "workplace"]

        named = self.keys.num_columns == len(self.wanted.by)
        if not self.counted.touches_workers(self.schema) or not named:
            return None
        by, own = of_workplaces(self.wanted.by), of_workplaces(self.counted.where)
        where = {name: self.wanted.where[name] for name in of_workplaces(self.wanted.where)}
        for name in tables_by(self.release, {*by, *where}):
            about = self.release.about(name)
            others = (*about["by"], *about["where"])
            whole = of_workplaces(others) == list(others)
            alike = sorted(about["where"]) == sorted(own) and all(
                sorted(map(str, about["where"][n])) == sorted(map(str, self.counted.where[n]))
                for n in own
            )
            if whole and alike:
                sums = (self.read_other or Areas.read)(self.release, name, by, where)
                if sums.measurement.mechanism.bound is not None:
                    continue
                keys = sums.keys.to_pylist() if by else [{}]
                at = {tuple(key.values()): i for i, key in enumerate(keys)}
                mine = self.keys.select(by).to_pylist() if by else [{}] * len(self)
                found = [at.get(tuple(key.values()), -1) for key in mine]
                return None if -1 in found else (sums, np.array(found, dtype=np.int64))
        return None

    def own_ends(self, miss: float) -> Bounds:
        """The same by the table itself."""
        if self._of_whole_groups or not self._apart:
            some = self._groups() if self._of_whole_groups else self
            return some._added(miss, np.arange(len(self)))
        low, high = np.empty((2, len(self)), dtype=np.int64)
        alone = self._cells == 1
        for chosen, ends in ((alone, self._added), (~alone, self._cancelled)):
            if chosen.any():
                low[chosen], high[chosen] = ends(miss, np.flatnonzero(chosen))
        if self.measurement.mechanism.bound is not None:  # what it left out is not known
            high = np.full_like(high, UNBOUNDED)
        return low, high

    @property
    def _apart(self) -> bool:
        """Whether noise is drawn for each cell apart, and bounded by the cell's own count."""
        by_own = "largest_total" not in self.measurement.statistics
        return by_own and self.measurement.mechanism.sum_share is not None

    @property
    def _of_whole_groups(self) -> bool:
        """Whether every sum has all worker cells that were protected together, or none of them."""
        asked = (*self.wanted.by, *self.wanted.where, *self.counted.where)
        if any(self.schema.attributes[name].owner == "worker" for name in asked):
            return False
        by_total = "largest_total" in self.measurement.statistics
        return self.measurement.mechanism.together and by_total and not self.measurement.clips

    def _groups(self) -> Areas:
        """The same areas, made of the sums of whole groups."""
        size = self.measurement.worker_cells
        return replace(
            self,
            measurement=replace(_GroupSums.of(self.measurement), worker_cells=1),
            numbers={"noisy": summed(self.noisy, np.arange(0, len(self.noisy), size))},
            place=self.place[::size] // size,  # the cells of a group lie side by side
            starts=self.starts // size,
        )

    def _cancelled(self, miss: float, chosen: NDArray[np.intp]) -> tuple[Integers, Integers]:
        """Ends for sums of cells whose noise cancels."""
        some, mechanism = self.only(chosen), self.measurement.mechanism
        assert mechanism.sum_share is not None
        noisy = self.noisy[some.place]
        return sum_intervals(mechanism, noisy, some.starts, miss, mechanism.sum_share)

    def _added(self, miss: float, chosen: NDArray[np.intp]) -> tuple[Integers, Integers]:
        """The ends of the cells added up, at a level that holds for all cells of a sum at once."""
        low, high = np.empty((2, len(chosen)), dtype=np.int64)
        parts = (2.0 ** np.ceil(np.log2(self._cells[chosen]))).astype(np.int64)
        for part in np.unique(parts):  # the same level for sums of about as many cells
            check_miss(miss / part)
            ends = self.measurement.intervals(self.schema, self.counted, 1 - miss / part)
            alike = parts == part
            some = self.only(chosen[alike])
            numbers, place = some._needed()
            lows, highs = ends(numbers)
            low[alike] = summed(lows[place], some.starts)
            top = highs[place]
            open_ = np.logical_or.reduceat(top == UNBOUNDED, some.starts)
            sums = summed(top, some.starts)
            high[alike] = np.where(open_ | (sums >= LIMIT), UNBOUNDED, sums)
        return low, high

    def _needed(self) -> tuple[Numbers, NDArray[np.intp]]:
        """The numbers of all rows, or of a large table those of few groups; where each cell is."""
        rows, size = len(self.noisy), self.measurement.worker_cells
        asked = np.bincount(self.place // size) > 0
        if rows <= _LARGE or 2 * size * np.count_nonzero(asked) > rows:
            return self.numbers, self.place
        some = (np.flatnonzero(asked)[:, None] * size + np.arange(size)).ravel()
        where = (np.cumsum(asked) - 1)[self.place // size] * size + self.place % size
        return {name: column[some] for name, column in self.numbers.items()}, where


@dataclass(frozen=True)
class _GroupSums(Measurement):
    """Sums of all worker cells of a group, whose noise the group's own count bounds."""

    def intervals(self, _schema: Schema, _marginal: Marginal, level: float) -> Ends:
        """Ends for sums of groups."""
        return lambda rows: self.mechanism.group_interval(rows["noisy"], level)


def _wanted(
    inside: Schema, table: str, own: Sequence[str], by: Iterable[str], where: Filter | None
) -> Marginal:
    """The areas and the filter, checked against the attributes of the table and those above."""
    names, known = names_of(by), inside.attributes
    texts = [where] if isinstance(where, str) else where or ()
    kept = texts if isinstance(texts, Mapping) else list(texts)
    for name in (*names, *(str(part).partition("=")[0].strip() for part in kept)):
        if name not in known:
            coarser = [n for n in known if n not in own]
            added = f", and can be added up by {', '.join(coarser)}" if coarser else ""
            added += hint(name, known)
            raise Refusal(
                f"table {table} is not counted by {name!r}; it is by {', '.join(own)}{added}"
            )
    if not isinstance(kept, Mapping):
        kept = Marginal.filter_from_text(inside, kept)
    return Marginal.over(inside, names, kept)


def _codes(rows: pa.Table, by: Iterable[str]) -> Integers:
    """A number for each row that orders the rows by some columns."""
    from pyarrow.compute import sort_indices  # it takes a while to load

    codes: Integers = np.zeros(rows.num_rows, dtype=np.int64)
    for name in by:
        column = rows[name].combine_chunks().dictionary_encode()
        rank = np.argsort(sort_indices(column.dictionary).to_numpy())
        codes = codes * len(rank) + rank[column.indices.to_numpy()].astype(np.int64)
    return codes
