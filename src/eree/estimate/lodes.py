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
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, pi, sqrt
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eree.errors import Refusal, Unreadable
from eree.estimate.calibrated import calibrated_table
from eree.estimate.listing import checked_level, in_words, write_csv
from eree.estimate.measured import measurement_of
from eree.estimate.totals import Areas
from eree.mechanisms.intervals import UNBOUNDED
from eree.policy.schema import Value
from eree.random.exact import Integers
from eree.release.release import Release

GEOCODE = "w_geocode"
#: Predicted errors that differ by less are the same, as of tables of one draw: the first is taken.
_NEAR = 1.02

#: A column is the jobs with these values of these attributes; without any, all jobs.
Columns = Mapping[str, Mapping[str, Sequence[Value]]]

_SECTORS = (
    "11", "21", "22", "23", "31-33", "42", "44-45", "48-49", "51", "52",
    "53", "54", "55", "56", "61", "62", "71", "72", "81", "92",
)  # fmt: skip
_RACES = {1: "white", 2: "black", 3: "native", 4: "asian", 5: "pacific", 7: "two-or-more"}
_AGES = ("14-29", "30-54", "55+")
_EARNINGS = ("1250-or-less", "1251-3333", "more-than-3333")
_EDUCATION = ("no-diploma", "high-school", "some-college", "college")

#: The columns of LODES for the attributes that `eree synth` makes.  There is no CR06.
LODES_COLUMNS: Columns = MappingProxyType(
    {
        "C000": {},
        **{f"CA0{i}": {"age": [age]} for i, age in enumerate(_AGES, start=1)},
        **{f"CE0{i}": {"earnings": [paid]} for i, paid in enumerate(_EARNINGS, start=1)},
        **{f"CNS{i:02}": {"sector": [sector]} for i, sector in enumerate(_SECTORS, start=1)},
        **{f"CR0{i}": {"race": [race]} for i, race in _RACES.items()},
        "CT01": {"ethnicity": ["not-hispanic"]},
        "CT02": {"ethnicity": ["hispanic"]},
        **{f"CD0{i}": {"education": [level]} for i, level in enumerate(_EDUCATION, start=1)},
        "CS01": {"sex": ["M"]},
        "CS02": {"sex": ["F"]},
    }
)


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
    held = {name: _Held(release, name, geocode, wanted) for name in holders}
    codes: set[Any] = {code for table in held.values() for code in table.codes(geocode)}
    areas: pa.Array[Any] = pa.array(sorted(codes))
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
    return LodesTable(release, geocode, *both, sources, predicted, missing)


def _rank(error: float | None) -> float:
    return inf if error is None else error


class _Held:
    """A released table, and which columns it holds."""

    def __init__(self, release: Release, name: str, geocode: str, wanted: Columns) -> None:
        self.name, self.rows, self._release = name, release.table(name), release
        about = release.about(name)
        self.by: Sequence[str] = about["by"]
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

    def _cells(
        self, kept: Mapping[str, Sequence[Value]], areas: pa.Array[Any]
    ) -> tuple[NDArray[np.intp], Integers]:
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


def read_columns(file: str | os.PathLike[str]) -> Columns:
    """Columns from a TOML file with lines such as `CA01 = { age = ["14-29"] }`."""
    try:
        raw = tomllib.loads(Path(file).read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise Unreadable(f"there is no file {file}") from None
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"{file} is not valid TOML: {error}") from None
    except (OSError, ValueError, RecursionError):  # a number of many digits is a ValueError
        raise Unreadable(f"{file} cannot be read as TOML in UTF-8") from None
    for column, kept in raw.items():
        sound = isinstance(kept, dict) and all(
            isinstance(values, list)
            and values
            and all(isinstance(v, (str, int)) and not isinstance(v, bool) for v in values)
            for values in kept.values()
        )
        if not sound or column == GEOCODE:
            raise Refusal(
                f"{column} in {file} is no column: write it as CA01 = {{ age = ['14-29'] }}"
            )
    if not raw:
        raise Refusal(f"{file} names no column; write one as CA01 = {{ age = ['14-29'] }}")
    return raw


def _geocodes(release: Release, names: Iterable[str]) -> list[str]:
    """The workplace attributes of some tables."""
    by = dict.fromkeys(name for table in names for name in release.about(table)["by"])
    return [name for name in by if release.schema.attributes[name].owner == "workplace"]
