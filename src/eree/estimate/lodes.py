"""A release in the shape of the LODES files: one row for each area, one column for each group.

LODES, the public employment data of the LEHD programme, has Workplace Area Characteristics files
with the columns `w_geocode`, `C000` (all jobs) and counts of jobs by age (`CA`), earnings (`CE`),
NAICS sector (`CNS`), race (`CR`), ethnicity (`CT`), education (`CD`), sex (`CS`), and age and size
of the firm (`CFA`, `CFS`).  Firms are not in the tables here, so that `CFA` and `CFS` have no
default.

Of the tables that hold a column the one is taken whose sums are least in error, as the calibrated
noise of their cells has it (`eree.estimate.calibrated`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eree.errors import Refusal, Unreadable
from eree.estimate.above import above
from eree.estimate.calibrated import calibrated_table
from eree.estimate.crosswalk import crosswalk
from eree.estimate.listing import checked_level, in_words, write_csv
from eree.estimate.lodes_columns import GEOCODE, LODES_COLUMNS, Columns, read_columns
from eree.estimate.measured import measurement_of
from eree.estimate.totals import Areas, Filter
from eree.mechanisms.intervals import UNBOUNDED
from eree.policy.schema import Value
from eree.random.exact import Integers
from eree.release.release import Release
from eree.workload import Marginal

#: Predicted errors that differ by less are the same, as of tables of one draw: the first is taken.
_NEAR = 1.02


@dataclass(frozen=True)
class LodesTable:
    """Noisy counts in columns like those of LODES, one row for each area.

    `sources` says which released table each column comes from: of those that hold it the one with
    the least error, as `predicted` has it for each of them (the mean of all areas; None where it is
    not known).  `missing` says why a column is left out.  Counts are the signed noisy ones: sums of
    them are right on average where the noise is the same on both sides.  Columns from one table add
    up to each other; columns from two tables differ by their noise.  `intervals` has the calibrated
    ones, a row for each area and column, at the level of the release; the guaranteed ones where the
    noise is not known.  `crosswalk` has the coarser areas that each area lies in.
    """

    release: Release
    geocode: str
    rows: pa.Table = field(repr=False)
    intervals: pa.Table = field(repr=False)
    sources: Mapping[str, str]
    predicted: Mapping[str, Mapping[str, float | None]]
    missing: Mapping[str, str]
    where: Mapping[str, Sequence[Value]]

    @property
    def crosswalk(self) -> pa.Table:
        """The areas with the codes and labels of all coarser ones that they lie in."""
        codes = self.rows[GEOCODE].combine_chunks()
        return crosswalk(self.release, self.geocode, codes)

    @property
    def private(self) -> bool:
        """Whether the release that this was made of is private."""
        return self.release.private

    def as_json(self) -> dict[str, Any]:
        """What the table is made of, as plain data."""
        return {
            "release": self.release.identity,
            "private": self.private,
            "geocode": self.geocode,
            "where": {name: list(values) for name, values in self.where.items()},
            "areas": self.rows.num_rows,
            "sources": dict(self.sources),
            "predicted_errors": {name: dict(found) for name, found in self.predicted.items()},
            "missing": dict(self.missing),
        }

    def write(
        self,
        out: str | os.PathLike[str],
        intervals: str | os.PathLike[str] | None = None,
        crosswalk: str | os.PathLike[str] | None = None,
    ) -> Path:
        """Write the table into a new CSV file, its intervals and its crosswalk into others.

        What ends in `.csv.gz` is gzipped.
        """
        path = write_csv(self.rows, out, gzipped=True)
        if intervals is not None:
            write_csv(self.intervals, intervals, gzipped=True)
        if crosswalk is not None:
            write_csv(self.crosswalk, crosswalk, gzipped=True)
        return path


def lodes(
    release: Release,
    geocode: str,
    *,
    columns: Columns | str | os.PathLike[str] | None = None,
    tables: Iterable[str] | None = None,
    where: Filter | None = None,
) -> LodesTable:
    """Put released tables into the shape of LODES.

    `geocode` is the workplace attribute that becomes `w_geocode`: one that tables are counted by,
    or a coarser one that it lies in.  `columns` says what the columns are, or is the name of a TOML
    file that does; without it they are `LODES_COLUMNS`.  Each column comes from the table, among
    `tables` or all, whose sums are predicted to be least in error.  `where` keeps values of
    attributes, such as one state, in all columns.
    """
    wanted = columns if isinstance(columns, Mapping) else LODES_COLUMNS
    if columns is not None and not isinstance(columns, Mapping):
        wanted = read_columns(columns)
    every = (name for name in release.tables if not release.of_workplaces(name))
    names = tuple(every if tables is None else tables)
    only = _checked(release, where)
    wanted = {column: _both(kept, only) for column, kept in wanted.items()}
    holders = [name for name in names if geocode in _reached(release, name)]
    attribute = release.schema.attributes.get(geocode)
    if attribute is None or attribute.owner != "workplace" or not holders:
        raise Refusal(
            f"no table is counted by the workplace attribute {geocode!r};"
            f" {'the release' if tables is None else 'these'} can be exported by"
            f" {', '.join(_geocodes(release, names)) or 'none'}"
        )
    held = {name: _Held(release, name, geocode, wanted) for name in holders}
    areas: pa.Array[Any] = pa.array(sorted({c for one in held.values() for c in one.areas(only)}))
    if not len(areas):
        raise Refusal(
            f"no table by {geocode} has rows with {in_words(only)}; keep other values, or publish"
            f" a table by {geocode} and {' and '.join(only)}"
        )
    found: dict[str, pa.Array[Any]] = {GEOCODE: areas}
    sources, predicted, missing = dict[str, str](), dict[str, dict[str, float | None]](), {}
    intervals = []
    for column, kept in wanted.items():
        able = {n: table.error(kept, areas) for n, table in held.items() if table.holds(kept)}
        if not able:
            missing[column] = _why(geocode, kept, list(held.values()), official=columns is None)
            continue
        near = _NEAR * min(map(_rank, able.values()))
        sources[column] = next(name for name in able if _rank(able[name]) <= near)
        predicted[column] = able
        source = held[sources[column]]
        found[column] = pa.array(source.counts(kept, areas))
        intervals.append(source.intervals(column, kept, areas))
    if not sources:
        raise Refusal(
            f"no table by {geocode} holds any of the columns ({next(iter(missing.values()))});"
            f" publish one, such as by {geocode} and sector, without a filter"
        )
    both = pa.table(found), pa.concat_tables(intervals)
    return LodesTable(release, geocode, *both, sources, predicted, missing, only)


def _rank(error: float | None) -> float:
    return inf if error is None else error


class _Held:
    """A released table, and which columns it holds."""

    def __init__(self, release: Release, name: str, geocode: str, wanted: Columns) -> None:
        about, asked = release.about_jobs(name), {n for kept in wanted.values() for n in kept}
        self.name, self.rows, self._release = name, release.table(name), release
        self.by: Sequence[str] = about["by"]
        for one in above(release, self.by).values():
            filters = one.coarse in asked and (one.whole or one.fine == geocode)
            if filters or (one.coarse == geocode and one.whole):
                self.rows = self.rows.append_column(one.coarse, one.of(self.rows[one.fine]))
                self.by = [*self.by, one.coarse]
        self.where: Mapping[str, Sequence[Value]] = about["where"]
        self._schema, self._geocode, self._wanted = release.schema, geocode, wanted
        self._readable = True
        try:
            measurement_of(release, name)
            known = calibrated_table(release, name)
        except Unreadable:
            raise
        except Refusal:  # made by another version: nothing is known of it
            known, self._readable = None, False
        self._noise = None if known is None or not known.sums else known.calibrated

    def areas(self, only: Mapping[str, Sequence[Value]]) -> list[Any]:
        """The areas with cells that a filter keeps."""
        if not all(map(self.has, only)):
            return []
        found: list[Any] = self.rows[self._geocode].take(self._kept(only)).unique().to_pylist()
        return found

    def codes(self, name: str) -> list[Any]:
        """The values of an attribute: those that are declared, else those that have cells."""
        values = self._schema.attributes[name].values
        if values is not None and name != self._geocode:
            return list(values)
        found: list[Any] = self.rows[name].unique().to_pylist()
        return found

    def has(self, name: str) -> bool:
        """Whether jobs are counted by an attribute, or are all of some of its values."""
        return name in self.by or name in self.where

    def expected(self, name: str) -> list[Value]:
        """All values that the columns look for in an attribute."""
        every = (value for kept in self._wanted.values() for value in kept.get(name, ()))
        return list(dict.fromkeys(every))

    def strange(self, name: str, values: Sequence[Value]) -> bool:
        """Whether the codes of an attribute are others than those that a column is made of.

        Where values are not declared, a code without a cell is one without workplaces, if others
        that the columns look for are there.
        """
        if name not in self.by:
            return False
        declared = self._schema.attributes[name].values
        if declared is not None:
            return not set(values) <= set(declared)
        return not set(self.expected(name)) & set(self.codes(name))

    def holds(self, kept: Mapping[str, Sequence[Value]]) -> bool:
        """Whether the jobs of a column are cells of the table, and all of them are.

        What the table's own filter leaves out must not belong to the column, and a column of values
        that an attribute does not declare is none.
        """
        for name, values in kept.items():
            within = name in self.where and set(self.where[name]) <= set(values)
            if (name not in self.by and not within) or self.strange(name, values):
                return False
        return not self.left_out(kept)

    def left_out(self, kept: Mapping[str, Sequence[Value]]) -> bool:
        """Whether the table's own filter leaves out jobs of a column."""
        return not all(
            name in kept and set(kept[name]) <= set(values) for name, values in self.where.items()
        )

    def _kept(self, kept: Mapping[str, Sequence[Value]]) -> NDArray[np.intp]:
        """The cells that a filter keeps."""
        chosen = np.ones(self.rows.num_rows, dtype=np.bool_)
        for name, values in kept.items():
            if name in self.by:
                kind = self.rows.schema.field(name).type
                text = pa.types.is_string(kind)
                like = [value for value in values if isinstance(value, str) == text]
                chosen &= pc.is_in(self.rows[name], pa.array(like, kind)).to_numpy()
        return np.flatnonzero(chosen)

    def _cells(
        self, kept: Mapping[str, Sequence[Value]], areas: pa.Array[Any]
    ) -> tuple[NDArray[np.intp], Integers]:
        """The cells of a column, and the area that each lies in."""
        cells = self._kept(kept)
        place: Integers = pc.index_in(self.rows[self._geocode].take(cells), areas).to_numpy()
        return cells, place

    def counts(self, kept: Mapping[str, Sequence[Value]], areas: pa.Array[Any]) -> Integers:
        """The noisy sum of every area; one without cells has no workplace there, and no jobs."""
        cells, place = self._cells(kept, areas)
        found: Integers = np.zeros(len(areas), dtype=np.int64)
        np.add.at(found, place, self.rows["noisy"].to_numpy()[cells])
        return found

    def error(self, kept: Mapping[str, Sequence[Value]], areas: pa.Array[Any]) -> float | None:
        """The mean error that is predicted for the areas of a column."""
        cells, place = self._cells(kept, areas)
        if self._noise is None or not len(cells):
            return None if self._noise is None else 0.0
        order = np.argsort(place, kind="stable")
        starts = np.flatnonzero(np.diff(place[order], prepend=-1))
        variance = self._noise.moments(cells[order], starts).variance
        return float(sqrt(2 / pi) * np.sqrt(variance).sum() / len(areas))

    def intervals(
        self, column: str, kept: Mapping[str, Sequence[Value]], areas: pa.Array[Any]
    ) -> pa.Table:
        """The calibrated intervals of a column; an area without cells has no jobs."""
        where = {name: values for name, values in kept.items() if name in self.by}
        low, high = np.zeros((2, len(areas)), dtype=np.int64)
        cells, place = self._cells(kept, areas)
        if not self._readable:
            high[place] = UNBOUNDED
        elif len(cells):
            level = self._release.record["level"]
            sums = Areas.read(self._release, self.name, [self._geocode], where)
            at = pc.index_in(sums.keys[self._geocode], areas).to_numpy()
            low[at], high[at] = sums.calibrated_ends(checked_level(level), simultaneous=False)
        columns = {
            GEOCODE: areas,
            "column": pa.array([column] * len(areas)),
            "low": pa.array(low),
            "high": pa.array(high, mask=high == UNBOUNDED),
        }
        return pa.table(columns)


def _why(
    geocode: str, kept: Mapping[str, Sequence[Value]], held: Sequence[_Held], *, official: bool
) -> str:
    """Why no table holds a column."""
    for name, values in kept.items():
        having = [table for table in held if table.has(name)]
        if not having:
            return f"no table by {geocode} has {name}"
        if all(table.strange(name, values) for table in having):
            first = having[0]
            expected, found = (_few(codes) for codes in (first.expected(name), first.codes(name)))
            those = "the official LODES codes" if official else "those of the columns"
            return (
                f"the codes of {name} in table {first.name} are not {those} (expected {expected},"
                f" found {found}); say with --columns which codes a column has"
            )
    filtered = [table for table in held if table.where]
    if filtered and len(filtered) == len(held):
        first = filtered[0]
        return f"the tables by {geocode} leave jobs out ({first.name} has {in_words(first.where)})"
    return f"no table by {geocode} has {' and '.join(kept)} for all of its jobs"


def _few(codes: Sequence[Value]) -> str:
    shown = ", ".join(map(str, codes[:6]))
    return f"{shown}, …" if len(codes) > 6 else shown


def _geocodes(release: Release, names: Iterable[str]) -> list[str]:
    """The workplace attributes of some tables."""
    every = dict.fromkeys(name for table in names for name in _reached(release, table))
    return [name for name in every if release.schema.attributes[name].owner == "workplace"]


def _reached(release: Release, table: str) -> list[str]:
    """The attributes of a table of jobs, and those above with all of their codes."""
    own: list[str] = release.about_jobs(table)["by"]
    return [*own, *(name for name, one in above(release, own).items() if one.whole)]


def _checked(release: Release, where: Filter | None) -> Mapping[str, Sequence[Value]]:
    """A filter of all columns."""
    kept = [where] if isinstance(where, str) else where or ()
    if not isinstance(kept, Mapping):
        kept = Marginal.filter_from_text(release.schema, kept)
    return Marginal.over(release.schema, (), kept).where


def _both(
    kept: Mapping[str, Sequence[Value]], only: Mapping[str, Sequence[Value]]
) -> dict[str, Sequence[Value]]:
    """The jobs of a column that a filter of all columns keeps."""
    return {**kept, **{n: [v for v in own if v in kept.get(n, own)] for n, own in only.items()}}
