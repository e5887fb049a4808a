"""A release in the shape of the LODES files: one row for each area, one column for each group.

LODES, the public employment data of the LEHD programme, has Workplace Area Characteristics files
with the columns `w_geocode`, `C000` (all jobs) and counts of jobs by age (`CA`), earnings (`CE`),
NAICS sector (`CNS`), race (`CR`), ethnicity (`CT`), education (`CD`), sex (`CS`), and age and size
of the firm (`CFA`, `CFS`).  Earnings and firms are not in the tables here, so that `CE`, `CFA` and
`CFS` have no default.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eree.errors import Refusal, Unreadable
from eree.noise.exact import Whole
from eree.policy.schema import Value
from eree.release.listing import write_csv
from eree.release.release import Release

GEOCODE = "w_geocode"

#: A column is the jobs with these values of these attributes; without any, all jobs.
Columns = Mapping[str, Mapping[str, Sequence[Value]]]

_SECTORS = (
    "11", "21", "22", "23", "31-33", "42", "44-45", "48-49", "51", "52",
    "53", "54", "55", "56", "61", "62", "71", "72", "81", "92",
)  # fmt: skip
_RACES = {1: "white", 2: "black", 3: "native", 4: "asian", 5: "pacific", 7: "two-or-more"}
_EDUCATION = ("no-diploma", "high-school", "some-college", "college")

#: The columns of LODES for the attributes that `eree synth` makes.  There is no CR06.
LODES_COLUMNS: Columns = MappingProxyType(
    {
        "C000": {},
        **{f"CA0{i}": {"age": [a]} for i, a in enumerate(("14-29", "30-54", "55+"), start=1)},
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

    `sources` says which released table each column comes from, `missing` which columns no table
    holds.  Counts are the signed noisy ones: sums of them are right on average where the noise is
    the same on both sides.  Columns from one table add up to each other; columns from two tables
    differ by their noise.
    """

    release: Release
    geocode: str
    rows: pa.Table = field(repr=False)
    sources: Mapping[str, str]
    missing: tuple[str, ...]

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
            "missing": list(self.missing),
        }

    def write(self, out: str | os.PathLike[str]) -> Path:
        """Write the table into a new CSV file."""
        return write_csv(self.rows, out)


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
    comes from the table, among `tables` or all, of which the fewest cells have to be added up, and
    of these from the one with the least noise.
    """
    wanted = columns if isinstance(columns, Mapping) else LODES_COLUMNS
    if columns is not None and not isinstance(columns, Mapping):
        wanted = read_columns(columns)
    names = tuple(release.tables if tables is None else tables)
    holders = [name for name in names if geocode in release.about(name)["by"]]
    if release.record["attributes"].get(geocode, {}).get("owner") != "workplace" or not holders:
        raise Refusal(
            f"no table is counted by the workplace attribute {geocode!r};"
            f" {'the release' if tables is None else 'these'} can be exported by"
            f" {', '.join(_geocodes(release, names)) or 'none'}"
        )
    rows = {name: release.table(name) for name in holders}
    sources: dict[str, str] = {}
    for column, kept in wanted.items():
        able = {
            name: (_selected(rows[name], kept).num_rows, -_epsilon(release.about(name)))
            for name in holders
            if _holds(release, release.about(name), kept)
        }
        if able:
            sources[column] = min(able, key=able.__getitem__)
    missing = tuple(column for column in wanted if column not in sources)
    if not sources:
        raise Refusal(
            f"no table by {geocode} holds any of the columns; publish one, such as by {geocode} and"
            " sector, without a filter"
        )
    codes: set[Any] = {code for table in rows.values() for code in table[geocode].to_pylist()}
    areas: pa.Array[Any] = pa.array(sorted(codes))
    found: dict[str, pa.Array[Any]] = {GEOCODE: areas}
    for column, name in sources.items():
        found[column] = pa.array(_counts(_selected(rows[name], wanted[column]), geocode, areas))
    return LodesTable(release, geocode, pa.table(found), sources, missing)


def read_columns(file: str | os.PathLike[str]) -> Columns:
    """Columns from a TOML file with lines such as `CA01 = { age = ["14-29"] }`."""
    try:
        raw = tomllib.loads(Path(file).read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise Unreadable(f"there is no file {file}") from None
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"{file} is not valid TOML: {error}") from None
    except (OSError, UnicodeDecodeError, RecursionError):
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
    attributes = release.record["attributes"]
    by = dict.fromkeys(name for table in names for name in release.about(table)["by"])
    return [name for name in by if attributes[name]["owner"] == "workplace"]


def _epsilon(about: Mapping[str, Any]) -> Fraction:
    """What one cell of a table costs."""
    return Fraction(about["each"]["epsilon"])


def _holds(release: Release, about: Mapping[str, Any], kept: Mapping[str, Sequence[Value]]) -> bool:
    """Whether the jobs of a column are cells of a table, and all of them are.

    What the table's own filter leaves out must not belong to the column, and a column of values
    that an attribute does not declare is none.
    """
    where: Mapping[str, Sequence[Value]] = about["where"]
    for name, values in kept.items():
        if name not in about["by"] and not (name in where and set(where[name]) <= set(values)):
            return False
        declared = release.record["attributes"][name]["values"]
        if declared is not None and not set(values) <= set(declared):
            return False
    return all(name in kept and set(kept[name]) <= set(where[name]) for name in where)


def _selected(rows: pa.Table, kept: Mapping[str, Sequence[Value]]) -> pa.Table:
    """The cells of a table that a column is made of."""
    for name, values in kept.items():
        if name in rows.column_names:
            like = [value for value in values if isinstance(value, str) == _is_text(rows, name)]
            rows = rows.filter(pc.is_in(rows[name], pa.array(like, rows[name].type)))
    return rows


def _is_text(rows: pa.Table, name: str) -> bool:
    return pa.types.is_string(rows.schema.field(name).type)


def _counts(rows: pa.Table, geocode: str, areas: pa.Array[Any]) -> Whole:
    """The noisy sum of every area; one without cells has no workplace there, and no jobs."""
    place = pc.index_in(rows[geocode], areas).to_numpy()
    found: Whole = np.zeros(len(areas), dtype=np.int64)
    np.add.at(found, place, rows["noisy"].to_numpy())
    return found
