"""The files of LODES in full: one for each state, segment and job type, with all columns.

They are called `{state}_wac_{segment}_{type}_{year}.csv.gz`.  A segment or a job type is a filter,
such as age 29 or younger, and a file holds what released tables have of the jobs that it keeps:
tables that are crossed with the filter's attribute, or that have the filter themselves.  What no
table holds is left empty, which is not 0, and `notes.txt` says why.  A column that no job of the
file can be in, such as 55 or older among those of 29 or younger, is 0.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eree.errors import Refusal
from eree.estimate.crosswalk import crosswalk
from eree.estimate.listing import outside, write_csv
from eree.estimate.lodes import filter_of, narrowed
from eree.estimate.lodes_columns import (
    GEOCODE,
    JOB_TYPES,
    LODES_COLUMNS,
    OFFICIAL,
    OWNERS,
    SEGMENTS,
    Columns,
    Kept,
    alike,
    both,
    columns_given,
    kind_of,
    runs,
)
from eree.estimate.lodes_names import EVERYWHERE, day_of, state_of, year_of
from eree.estimate.lodes_sources import HUNDREDTHS, AreaTables, Filled, Numbers
from eree.estimate.totals import Filter
from eree.partial import appearing_folder, new_path
from eree.policy.schema import Value
from eree.random.exact import Array, Integers
from eree.release.release import Release, opening

NOTES = "notes.txt"
#: What numbers are, for people to read.
_NUMBERS: Mapping[Numbers, str] = {
    "estimates": "Numbers are estimates that agree with each other; noise makes some negative.",
    "biased-counts": "Numbers are estimates as integers of zero or more: small ones are too large.",
    "shrunk": "Numbers are estimates shrunk to the shares of their kind of workplaces: biased.",
    "measured": "Counts have noise in them and may be negative.",
}
_EVERY = [*JOB_TYPES, *JOB_TYPES.values()]


@dataclass(frozen=True)
class LodesPart:
    """What the files of a segment and a job type hold, and which tables it is from.

    `sums` has the mean and the greatest difference, over all areas, between the columns of a kind
    added up and `C000`; a kind that is not there lacks a column, or there is no `C000`.
    """

    segment: str
    job_type: str
    counts: Mapping[str, Integers | Array] = field(repr=False)
    sources: Mapping[str, str]
    missing: Mapping[str, str]
    sums: Mapping[str, tuple[float, float]]

    def as_json(self) -> dict[str, Any]:
        """What the files are made of, as plain data."""
        return {
            "segment": self.segment,
            "job_type": self.job_type,
            "sources": dict(self.sources),
            "missing": dict(self.missing),
            "sums": {k: {"mean": mean, "most": most} for k, (mean, most) in self.sums.items()},
        }

    @property
    def words(self) -> list[str]:
        """Where columns come from, which are empty and why, and whether kinds of them add up."""
        zero = [c for c in self.counts if c not in self.sources]
        return [
            *(
                f"{runs(some)}: table {self.sources[some[0]]}"
                for some in alike(self.sources, lambda c: self.sources[c])
            ),
            *([f"{runs(zero)}: 0, because no job of this file can be among them"] if zero else []),
            *(
                f"{runs(some)}: empty, because {self.missing[some[0]]}"
                for some in alike(self.missing, lambda c: self.missing[c])
            ),
            *(self._sum(kind, *off) for kind, off in self.sums.items()),
        ]

    def _sum(self, kind: str, mean: float, most: float) -> str:
        if not most:
            return f"{kind}: adds up to C000 in every area"
        own = {source for column, source in self.sources.items() if kind_of(column) == kind}
        why = f"it is from {', '.join(sorted(own))} and C000 from {self.sources['C000']}"
        if own == {self.sources["C000"]}:
            why = "its columns do not hold every job once"
        return (
            f"{kind}: differs from C000 by {mean:,.3g} jobs an area on average,"
            f" {most:,.12g} at most: {why}"
        )


@dataclass(frozen=True)
class LodesFiles:
    """Files like those of LODES, for each segment and job type, cut up by state.

    Attributes:
        release: What they were made of.
        geocode: The attribute that is `w_geocode`.
        numbers: What the numbers are: "estimates", "biased-counts", "shrunk" or "measured".
        year: The year.
        created: The day of the release, as 20261118, if it is known.
        areas: The areas.
        states: The state of each area; empty where no table says it.
        parts: What the files of each segment and job type hold.
        missing: Why some segments and job types have no file.

    Examples:
        >>> made = eree.lodes_files("out", "county", year=2020)
        >>> made.parts[0].segment
        'S000'
    """

    release: Release
    geocode: str
    numbers: Numbers
    year: int
    created: int | None
    areas: pa.Array[Any] = field(repr=False)
    states: Mapping[Value, str] = field(repr=False)
    parts: tuple[LodesPart, ...]
    missing: Mapping[str, str]

    @property
    def private(self) -> bool:
        """Whether the release that this was made of is private."""
        return self.release.private

    def files(self) -> dict[str, pa.Table]:
        """The rows of every file, by its name; a crosswalk says what areas lie in."""
        areas: list[Any] = self.areas.to_pylist()
        places = [self.states.get(area, EVERYWHERE) for area in areas]
        wholes = {f"{p.segment}_{p.job_type}_{self.year}": self._rows(p) for p in self.parts}
        walk = crosswalk(self.release, self.geocode, self.areas)
        found = dict[str, pa.Table]()
        for state in sorted(set(places)):
            own = pa.array([place == state for place in places])
            found |= {f"{state}_wac_{n}.csv.gz": rows.filter(own) for n, rows in wholes.items()}
            found[f"{state}_xwalk.csv.gz"] = walk.filter(own)
        return found

    def _rows(self, part: LodesPart) -> pa.Table:
        size = len(self.areas)
        estimated = self.numbers in HUNDREDTHS
        empty: pa.Array[Any] = pa.nulls(size, pa.float64() if estimated else pa.int64())
        held = {name: pa.array(counts) for name, counts in part.counts.items()}
        columns = {GEOCODE: self.areas} | {name: held.get(name, empty) for name in OFFICIAL}
        if self.created is not None:
            columns["createdate"] = pa.array([self.created] * size)
        return pa.table(columns)

    def as_json(self) -> dict[str, Any]:
        """What the files are made of, as plain data."""
        return {
            "release": self.release.identity,
            "private": self.private,
            "geocode": self.geocode,
            "numbers": self.numbers,
            "year": self.year,
            "areas": len(self.areas),
            "states": sorted(set(self.states.values())) or [EVERYWHERE],
            "parts": [part.as_json() for part in self.parts],
            "missing": dict(self.missing),
        }

    def notes(self) -> str:
        """What must be known of the files, for people to read."""
        lines = [
            f"Jobs by {self.geocode} in {self.year}, from the release {self.release.identity}.",
            *(f"{name.capitalize()}: {text}" for name, text in self.release.described.items()),
            _NUMBERS[self.numbers],
            "An empty field is not 0: the release has no such count.",
            "CD, unless it was declared otherwise, counts workers of all ages, and not from 30 on.",
        ]
        lines += [self.release.warning] if self.release.warning else []
        if not self.states:
            lines.append(f"No table says which state each area is in: {EVERYWHERE} is all of them.")
        for part in self.parts:
            lines += ["", f"{part.segment} {part.job_type}", *(f"  {line}" for line in part.words)]
        if self.missing:
            lines += ["", "Not written"]
            some = alike(self.missing, lambda name: self.missing[name])
            lines += [f"  {', '.join(names)}: {self.missing[names[0]]}" for names in some]
        return "\n".join(lines) + "\n"

    def write(self, out: str | os.PathLike[str]) -> Path:
        """Write the files and `notes.txt` into a new folder, whole or not at all.

        The same release gives the same bytes.
        """
        target = new_path(outside(self.release, out))
        with appearing_folder(target) as folder:
            for name, rows in self.files().items():
                write_csv(rows, folder / name, gzipped=True)
            (folder / NOTES).write_text(self.notes(), encoding="utf-8")
        return target


@opening
def lodes_files(
    release: Release,
    geocode: str,
    *,
    columns: Columns | str | os.PathLike[str] | None = None,
    tables: Iterable[str] | None = None,
    where: Filter | None = None,
    numbers: Numbers = "estimates",
    year: int | None = None,
) -> LodesFiles:
    """Put released tables into the files of LODES, as far as tables were paid for.

    Args:
        release: A release, or the name of its folder.
        geocode: The workplace attribute that becomes `w_geocode`.
        columns: What columns (`CFA01`), segments (`SA01`) and job types (`JT01`) are, where that is
            otherwise than in `LODES_COLUMNS`; or a TOML file that says so.
        tables: The tables that columns may come from.
        where: Values to keep, as in `lodes`.
        numbers: `estimates`, `biased-counts`, `shrunk` or `measured`.
        year: That of the files; without it that of the release's period.

    Examples:
        >>> eree.lodes_files("out", "county", year=2020).year
        2020
    """
    declared = columns_given(columns, {})
    for name in declared:
        if name not in (*OFFICIAL, *SEGMENTS, *_EVERY):
            raise Refusal(
                f"{name} is no column, segment or job type of LODES; leave it out, or write one"
                " file of columns of your own"
            )
    found_year = year_of(release, year)
    wanted = {name: declared.get(name, LODES_COLUMNS.get(name)) for name in OFFICIAL}
    segments = {name: declared.get(name, kept) for name, kept in SEGMENTS.items()}
    types, missing = _job_types(release, declared)
    only = filter_of(release, where)
    wanted = {n: None if kept is None else narrowed(kept, only) for n, kept in wanted.items()}
    known = {name: kept for name, kept in wanted.items() if kept is not None}
    looked_for = [*known.values(), *segments.values(), *types.values()]
    held = AreaTables.read(release, geocode, tables, looked_for, only, numbers)
    parts = []
    for job_type, of_type in types.items():
        for segment, of_segment in segments.items():
            within = both(of_segment, of_type)
            part = _part(held, segment, job_type, within, wanted, official=not declared)
            if part.sources:
                parts.append(part)
            else:
                missing[f"{segment} {job_type}"] = part.missing["C000"]
    if not parts:
        raise Refusal(
            f"no table by {geocode} holds any of the columns ({next(iter(missing.values()))});"
            f" publish one, such as by {geocode} and sector, without a filter"
        )
    areas: list[Any] = held.areas.to_pylist()
    states, created = state_of(release, geocode, areas), day_of(release)
    return LodesFiles(
        release, geocode, numbers, found_year, created, held.areas, states, tuple(parts), missing
    )


def _part(
    held: AreaTables,
    segment: str,
    job_type: str,
    within: Kept | None,
    wanted: Mapping[str, Kept | None],
    *,
    official: bool,
) -> LodesPart:
    """The columns of a segment and a job type."""
    if within is None:
        nobody = {"C000": "no job can be of both"}
        return LodesPart(segment, job_type, {}, {}, nobody, {})
    kept = {name: both(within, of) for name, of in wanted.items() if of is not None}
    able = {name: jobs for name, jobs in kept.items() if jobs is not None}
    made = held.fill(able, official=official, by_kind=True)
    zeros: Integers = np.zeros(len(held.areas), dtype=np.int64)
    nothing = zeros / 1 if held.numbers in HUNDREDTHS else zeros
    counts = {n: nothing if k is None else made.counts.get(n) for n, k in kept.items()}
    firms = "firms are not in the tables; say with --columns which jobs a column has"
    missing = {n: firms if of is None else made.missing.get(n, "") for n, of in wanted.items()}
    held_counts = {name: found for name, found in counts.items() if found is not None}
    lacking = {name: why for name, why in missing.items() if why}
    return LodesPart(
        segment, job_type, held_counts, made.sources, lacking, _sums(held_counts, made)
    )


def _sums(counts: Mapping[str, Integers | Array], made: Filled) -> dict[str, tuple[float, float]]:
    """How far the columns of each kind are from `C000`, where all of them are there."""
    found = {}
    for columns in alike(OFFICIAL, kind_of):
        kind = kind_of(columns[0])
        whole = "C000" in made.sources and all(column in counts for column in columns)
        if whole and kind != "C" and any(column in made.sources for column in columns):
            off = np.abs(sum(counts[column] for column in columns) - counts["C000"])
            found[kind] = round(float(off.mean()), 6), round(float(off.max()), 6)
    return found


def _job_types(release: Release, declared: Columns) -> tuple[dict[str, Kept], dict[str, str]]:
    """Which jobs each job type is, and why some are not known.

    Where a mark chooses one job of each worker, the jobs that count are the primary ones.
    """
    job = release.schema.job
    marked, most = job.primary or job.greatest, job.most_per_worker
    found, missing = dict[str, Kept](), dict[str, str]()
    for every, primary in JOB_TYPES.items():
        owner = declared.get(every, OWNERS[every])
        if marked is not None and most == 1:
            found[primary] = declared.get(primary, owner)
            if every in declared:
                found[every] = owner
            else:
                missing[every] = "only one job of each worker is counted, the primary one"
            continue
        found[every] = owner
        if "JT01" in declared or primary in declared:
            of_owner = both(declared.get("JT01", {}), owner)
            first = declared.get(primary, of_owner)
            if first is None:
                missing[primary] = "no job can be of both"
            else:
                found[primary] = first
        elif most == 1:
            missing[primary] = f"every worker has one job, so that it is what {every} has"
        else:
            missing[primary] = (
                "which jobs are primary is not known; say it with --columns, as"
                " JT01 = { kind = ['primary'] }"
            )
    return found, missing
