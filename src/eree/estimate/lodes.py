"""A release in the shape of the LODES files: one row for each area, one column for each group."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa

from eree.errors import Refusal
from eree.estimate.crosswalk import crosswalk
from eree.estimate.listing import write_csv
from eree.estimate.lodes_columns import (
    GEOCODE,
    LODES_COLUMNS,
    Columns,
    Kept,
    alike,
    columns_given,
    runs,
)
from eree.estimate.lodes_sources import AreaTables, Numbers
from eree.estimate.totals import Filter
from eree.release.release import Release, opening, said_of
from eree.release.tabular import Tabular
from eree.workload import Marginal


@dataclass(frozen=True, repr=False)
class LodesTable(Tabular):
    """Noisy counts in columns like those of LODES, one row for each area.

    Estimates agree in all tables: whatever their sources, columns add up to each other.  Measured
    counts of two tables differ by their noise.

    Attributes:
        release: What it was made of.
        geocode: The attribute that is `w_geocode`.
        rows: The table.
        sources: The released table that each column comes from: of those that hold it the one with
            the least error.
        predicted: That error, of the noisy counts of each of them (the mean of all areas; None
            where it is not known).
        missing: Why a column is left out.
        where: The filter.
        held: The tables of these areas that columns come from.
        wanted: What each column keeps of some attributes.

    Examples:
        >>> "C000" in eree.lodes("out", "county").sources
        True
    """

    release: Release
    geocode: str
    rows: pa.Table = field(repr=False)
    sources: Mapping[str, str]
    predicted: Mapping[str, Mapping[str, float | None]]
    missing: Mapping[str, str]
    where: Kept
    held: AreaTables = field(repr=False)
    wanted: Columns = field(repr=False)

    def _table(self) -> pa.Table:
        return self.rows

    def _title(self) -> str:
        return f"of jobs by {self.geocode}, from {said_of(self.release)}"

    @cached_property
    def intervals(self) -> pa.Table:
        """Calibrated intervals, a row for each area and column, at the level of the release.

        They are the guaranteed ones where the noise is not known.
        """
        return self.held.intervals(self.wanted, self.sources)

    @property
    def crosswalk(self) -> pa.Table:
        """The areas with the codes and labels of all coarser ones that they lie in."""
        return crosswalk(self.release, self.geocode, self.held.areas)

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
            "numbers": self.held.numbers,
            "where": {name: list(values) for name, values in self.where.items()},
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
        measured = "" if self.held.numbers == "measured" else " as it was measured"
        error = f"mean error {own} an area{measured}"
        return f"{chosen}, predicted {error}{f' ({others})' if others else ''}"

    def write(
        self,
        out: str | os.PathLike[str],
        intervals: str | os.PathLike[str] | None = None,
        crosswalk: str | os.PathLike[str] | None = None,
    ) -> Path:
        """Write the table into a new CSV file, its intervals and its crosswalk into others.

        What ends in `.csv.gz` is gzipped.
        """
        ends = None if intervals is None else self.intervals  # refused before a file is written
        path = write_csv(self.rows, out, gzipped=True)
        if intervals is not None and ends is not None:
            write_csv(ends, intervals, gzipped=True)
        if crosswalk is not None:
            write_csv(self.crosswalk, crosswalk, gzipped=True)
        return path


@opening
def lodes(
    release: Release,
    geocode: str,
    *,
    columns: Columns | str | os.PathLike[str] | None = None,
    tables: Iterable[str] | None = None,
    where: Filter | None = None,
    numbers: Numbers = "estimates",
) -> LodesTable:
    """Put released tables into the shape of LODES.

    `geocode` is the workplace attribute that becomes `w_geocode`: one that tables are counted by,
    or a coarser one that it lies in.  `columns` says what the columns are, or is the name of a TOML
    file that does; without it they are `LODES_COLUMNS`.  Each column comes from the table, among
    `tables` or all, whose sums are predicted to be least in error.  `where` keeps values of
    attributes, such as one state, in all columns.  `numbers` are estimates that agree in all
    tables, `biased-counts` (the same as integers of zero or more), estimates `shrunk` to the shares
    of their kind of workplaces, or the counts as `measured`.

    Args:
        release: A release, or the name of its folder.
        geocode: The workplace attribute that becomes `w_geocode`.
        columns: What the columns are, or a TOML file that says so.
        tables: The tables that columns may come from.
        where: Values to keep, as `{"sector": ["11", "21"]}` or `["sector=11,21"]`.
        numbers: `estimates`, `biased-counts`, `shrunk` or `measured`.

    Examples:
        >>> eree.lodes("out", "county")
        <LodesTable ...>
    """
    wanted = columns_given(columns, LODES_COLUMNS)
    only = filter_of(release, where)
    wanted = {column: narrowed(kept, only) for column, kept in wanted.items()}
    held = AreaTables.read(release, geocode, tables, list(wanted.values()), only, numbers)
    made = held.fill(wanted, official=columns is None)
    if not made.sources:
        raise Refusal(
            f"no table by {geocode} holds any of the columns ({next(iter(made.missing.values()))});"
            f" publish one, such as by {geocode} and sector, without a filter"
        )
    rows = pa.table({GEOCODE: held.areas} | {n: pa.array(c) for n, c in made.counts.items()})
    return LodesTable(
        *(release, geocode, rows, made.sources, made.predicted, made.missing, only, held, wanted)
    )


def filter_of(release: Release, where: Filter | None) -> Kept:
    """A filter of all columns."""
    kept = [where] if isinstance(where, str) else where or ()
    if not isinstance(kept, Mapping):
        kept = Marginal.filter_from_text(release.schema, kept)
    return Marginal.over(release.schema, (), kept).where


def narrowed(kept: Kept, only: Kept) -> Kept:
    """The jobs of a column that a filter of all columns keeps."""
    return {**kept, **{n: [v for v in own if v in kept.get(n, own)] for n, own in only.items()}}
