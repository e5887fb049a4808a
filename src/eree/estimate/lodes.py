"""A release in the shape of the LODES files: one row for each area, one column for each group.

Of the tables that hold a column the one is taken whose sums are least in error, as the calibrated
noise of their cells has it (`eree.estimate.calibrated`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, pi, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eree.errors import Refusal, Unreadable
from eree.estimate.calibrated import calibrated_table
from eree.estimate.listing import checked_level, in_words, write_csv
from eree.estimate.lodes_columns import (
    GEOCODE,
    LODES_COLUMNS,
    Columns,
    Kept,
    alike,
    kind_of,
    read_columns,
    runs,
)
from eree.estimate.measured import measurement_of
from eree.estimate.totals import Areas
from eree.mechanisms.intervals import UNBOUNDED
from eree.policy.schema import Value
from eree.random.exact import Integers
from eree.release.release import Release

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
    noise is not known.
    """

    release: Release
    geocode: str
    rows: pa.Table = field(repr=False)
    intervals: pa.Table = field(repr=False)
    sources: Mapping[str, str]
    predicted: Mapping[str, Mapping[str, float | None]]
    missing: Mapping[str, str]

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
            "areas": self.rows.num_rows,
            "sources": dict(self.sources),
            "predicted_errors": {name: dict(found) for name, found in self.predicted.items()},
            "missing": dict(self.missing),
        }

    @property
    def words(self) -> list[str]:
        """Which table each column comes from, with the errors that decided it, and what lacks."""
        return [
            *(
                f"{runs(some)}: {self._chosen(some)}"
                for some in alike(self.sources, lambda c: (self.sources[c], *self.predicted[c]))
            ),
            *(
                f"{runs(some)}: left out, because {self.missing[some[0]]}"
                for some in alike(self.missing, lambda c: self.missing[c])
            ),
        ]

    def _chosen(self, columns: list[str]) -> str:
        """Which table some columns come from: the one with the least error that is predicted."""
        chosen = self.sources[columns[0]]
        words = {}
        for table in self.predicted[columns[0]]:
            errors = [self.predicted[column][table] for column in columns]
            known = [error for error in errors if error is not None]
            words[table] = f"{fmean(known):,.3g}" if len(known) == len(errors) else "not known"
        own = words.pop(chosen)
        others = ", ".join(f"{error} from {table}" for table, error in words.items())
        return f"{chosen}, predicted mean error {own} an area{f' ({others})' if others else ''}"

    def write(
        self, out: str | os.PathLike[str], intervals: str | os.PathLike[str] | None = None
    ) -> Path:
        """Write the table into a new CSV file, and its intervals into another.

        What ends in `.csv.gz` is gzipped.
        """
        path = write_csv(self.rows, out, gzipped=True)
        if intervals is not None:
            write_csv(self.intervals, intervals, gzipped=True)
        return path


def lodes(
    release: Release,
    geocode: str,
    *,
    columns: Columns | str | os.PathLike[str] | None = None,
    tables: Iterable[str] | None = None,
) -> LodesTable:
    """Put released tables into the shape of LODES.

    `geocode` is the workplace attribute that becomes `w_geocode`.  `columns` says what the columns
    are, or is the name of a TOML file that does; without it they are `LODES_COLUMNS`.  Each column
    comes from the table, among `tables` or all, whose sums are predicted to be least in error.
    """
    wanted = columns if isinstance(columns, Mapping) else LODES_COLUMNS
    if columns is not None and not isinstance(columns, Mapping):
        wanted = read_columns(columns)
    held = AreaTables.read(release, geocode, tables, list(wanted.values()))
    made = held.fill(wanted, official=columns is None)
    if not made.sources:
        raise Refusal(
            f"no table by {geocode} holds any of the columns ({next(iter(made.missing.values()))});"
            f" publish one, such as by {geocode} and sector, without a filter"
        )
    rows = pa.table({GEOCODE: held.areas} | {n: pa.array(c) for n, c in made.counts.items()})
    intervals = pa.concat_tables(
        held.tables[source].intervals(column, wanted[column], held.areas)
        for column, source in made.sources.items()
    )
    return LodesTable(release, geocode, rows, intervals, made.sources, made.predicted, made.missing)


@dataclass(frozen=True)
class Filled:
    """Columns that some tables hold: the counts of areas, and which table each is from."""

    counts: dict[str, Integers] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    predicted: dict[str, dict[str, float | None]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AreaTables:
    """The released tables that are counted by a geocode, and all areas that any of them has."""

    geocode: str
    tables: Mapping[str, _Held]
    areas: pa.Array[Any]

    @classmethod
    def read(
        cls, release: Release, geocode: str, tables: Iterable[str] | None, looked_for: list[Kept]
    ) -> AreaTables:
        """Those among `tables`, or all of the release; `looked_for` are the jobs of all columns."""
        every = (name for name in release.tables if not release.of_workplaces(name))
        names = tuple(every if tables is None else tables)
        holders = [name for name in names if geocode in release.about_jobs(name)["by"]]
        attribute = release.schema.attributes.get(geocode)
        if attribute is None or attribute.owner != "workplace" or not holders:
            raise Refusal(
                f"no table is counted by the workplace attribute {geocode!r};"
                f" {'the release' if tables is None else 'these'} can be exported by"
                f" {', '.join(_geocodes(release, names)) or 'none'}"
            )
        held = {name: _Held(release, name, geocode, looked_for) for name in holders}
        codes: set[Any] = {code for table in held.values() for code in table.codes(geocode)}
        return cls(geocode, held, pa.array(sorted(codes)))

    def fill(self, wanted: Columns, *, official: bool, by_kind: bool = False) -> Filled:
        """Each column from the table with the least error; of those that are as good the first.

        With `by_kind` the columns of a kind come from one table, the best of those that hold all of
        them, so that they add up; where none does, each comes from its own.
        """
        made = Filled()
        for column, kept in wanted.items():
            able = {n: t.error(kept, self.areas) for n, t in self.tables.items() if t.holds(kept)}
            if able:
                made.predicted[column] = able
            else:
                tables = list(self.tables.values())
                made.missing[column] = _why(self.geocode, kept, tables, official=official)
        for columns in alike(made.predicted, kind_of):
            one = any(all(n in made.predicted[c] for c in columns) for n in self.tables)
            for some in [columns] if by_kind and one else [[column] for column in columns]:
                source = _least({c: made.predicted[c] for c in some})
                for column in some:
                    made.sources[column] = source
                    held = self.tables[source]
                    made.counts[column] = held.counts(wanted[column], self.areas)
        return made


def _least(predicted: Mapping[str, Mapping[str, float | None]]) -> str:
    """The table whose errors in some columns add up to the least, of those that hold them all."""
    first, *others = predicted.values()
    able = [table for table in first if all(table in other for other in others)]
    errors = {t: sum(inf if (e := p[t]) is None else e for p in predicted.values()) for t in able}
    return next(table for table in able if errors[table] <= _NEAR * min(errors.values()))


class _Held:
    """A released table, and which columns it holds."""

    def __init__(self, release: Release, name: str, geocode: str, looked_for: list[Kept]) -> None:
        self.name, self.rows, self._release = name, release.table(name), release
        about = release.about(name)
        self.by: Sequence[str] = about["by"]
        self.where: Mapping[str, Sequence[Value]] = about["where"]
        self._schema, self._geocode, self._looked_for = release.schema, geocode, looked_for
        self._readable = True
        try:
            measurement_of(release, name)
            known = calibrated_table(release, name)
        except Unreadable:
            raise
        except Refusal:  # made by another version: nothing is known of it
            known, self._readable = None, False
        self._noise = None if known is None or not known.sums else known.calibrated

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
        every = (value for kept in self._looked_for for value in kept.get(name, ()))
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

    def holds(self, kept: Kept) -> bool:
        """Whether the jobs of a column are cells of the table, and all of them are.

        What the table's own filter leaves out must not belong to the column, and a column of values
        that an attribute does not declare is none.
        """
        for name, values in kept.items():
            within = name in self.where and set(self.where[name]) <= set(values)
            if (name not in self.by and not within) or self.strange(name, values):
                return False
        return not self.left_out(kept)

    def left_out(self, kept: Kept) -> bool:
        """Whether the table's own filter leaves out jobs of a column."""
        return not all(
            name in kept and set(kept[name]) <= set(values) for name, values in self.where.items()
        )

    def _cells(self, kept: Kept, areas: pa.Array[Any]) -> tuple[NDArray[np.intp], Integers]:
        """The cells of a column, and the area that each lies in."""
        chosen = np.ones(self.rows.num_rows, dtype=np.bool_)
        for name, values in kept.items():
            if name in self.by:
                kind = self.rows.schema.field(name).type
                text = pa.types.is_string(kind)
                like = [value for value in values if isinstance(value, str) == text]
                chosen &= pc.is_in(self.rows[name], pa.array(like, kind)).to_numpy()
        cells = np.flatnonzero(chosen)
        place: Integers = pc.index_in(self.rows[self._geocode], areas).to_numpy()[cells]
        return cells, place

    def counts(self, kept: Kept, areas: pa.Array[Any]) -> Integers:
        """The noisy sum of every area; one without cells has no workplace there, and no jobs."""
        cells, place = self._cells(kept, areas)
        found: Integers = np.zeros(len(areas), dtype=np.int64)
        np.add.at(found, place, self.rows["noisy"].to_numpy()[cells])
        return found

    def error(self, kept: Kept, areas: pa.Array[Any]) -> float | None:
        """The mean error that is predicted for the areas of a column."""
        cells, place = self._cells(kept, areas)
        if self._noise is None or not len(cells):
            return None if self._noise is None else 0.0
        order = np.argsort(place, kind="stable")
        starts = np.flatnonzero(np.diff(place[order], prepend=-1))
        variance = self._noise.moments(cells[order], starts).variance
        return float(sqrt(2 / pi) * np.sqrt(variance).sum() / len(areas))

    def intervals(self, column: str, kept: Kept, areas: pa.Array[Any]) -> pa.Table:
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


def _why(geocode: str, kept: Kept, held: Sequence[_Held], *, official: bool) -> str:
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
    if not any(all(table.has(name) for name in kept) for table in held):
        return f"no table by {geocode} has {' and '.join(kept)} together"
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
    by = dict.fromkeys(name for table in names for name in release.about(table)["by"])
    return [name for name in by if release.schema.attributes[name].owner == "workplace"]
