"""A list of areas that was made of a release: public, as the release is."""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from eree.errors import Refusal
from eree.policy.neighbours import exact
from eree.policy.schema import Value
from eree.release.release import Release, said_of
from eree.release.tabular import Tabular

#: The column of a file that says what was kept; no attribute can have its name.
FILTER = "filter"


@dataclass(frozen=True, repr=False)
class Listing(Tabular):
    """Areas with what was asked about them, a row for each.

    `private` is false where the noise of the release was drawn from a seeded source.

    Attributes:
        release: What it was made of.
        table: The name of the table.
        by: What makes the areas.
        where: The filter, that of the table itself and the one that was asked for together.
        level: The probability that the intervals hold.
        rows: The rows.

    Examples:
        >>> eree.area_totals("out", "jobs", ["county"], ["sector=11"]).where
        {'sector': ('11',)}
    """

    release: Release
    table: str
    by: tuple[str, ...]
    where: Mapping[str, tuple[Value, ...]]
    level: float
    rows: pa.Table = field(repr=False)

    @property
    def private(self) -> bool:
        """Whether the release that this was made of is private."""
        return self.release.private

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def _table(self) -> pa.Table:
        return self.rows

    def _title(self) -> str:
        by, kept = ", ".join(self.by) or "nothing", f" where {self.filter}" if self.where else ""
        return f"of {self.table} by {by}{kept}, from {said_of(self.release)}"

    def label(self, attribute: str, value: Value) -> str:
        """A value with the label that the release has for it, if it has one."""
        code, known = str(value), self.release.schema.attributes[attribute].describe(value)
        return known if known.casefold() == code.casefold() else f"{code} {known}"

    @property
    def filter(self) -> str:
        """The filter in words, such as `sex F and education college`; empty where there is none."""
        return in_words(self.where)

    def as_json(self, top: int | None = None) -> dict[str, Any]:
        """Plain data; `top` keeps the first areas only."""
        return {
            "release": self.release.identity,
            "private": self.private,
            "table": self.table,
            "by": list(self.by),
            "where": {name: list(values) for name, values in self.where.items()},
            "level": self.level,
            "areas": self.rows.slice(0, top).to_pylist(),
        }

    def write(self, out: str | os.PathLike[str]) -> Path:
        """Write all areas into a new CSV file; `filter` says in each row what the filter is."""
        return write_csv(self._rows_with_filter, out)

    @property
    def _rows_with_filter(self) -> pa.Table:
        if not self.where:
            return self.rows
        return self.rows.append_column(FILTER, pa.array([self.filter] * len(self), pa.string()))


def in_words(where: Mapping[str, Iterable[Value]]) -> str:
    """A filter for people to read."""
    return " and ".join(f"{name} {', '.join(map(str, kept))}" for name, kept in where.items())


def outside(release: Release, out: str | os.PathLike[str]) -> Path:
    """The path of a file that is no part of a signed release."""
    path = Path(out)
    if path.resolve().is_relative_to(release.folder.resolve()):
        raise Refusal(
            "what is made of it is no part of a signed release; write it outside the folder"
        )
    return path


@dataclass(frozen=True, repr=False)
class AreaTotals(Listing):
    """Noisy sums of areas: the attributes, `noisy`, `estimate`, intervals and `cells`.

    `estimate` is the noisy sum without the mean of its noise; `low` and `high` are the calibrated
    interval, `guaranteed_low` and `guaranteed_high` the one that holds for any data, without a high
    end where nothing public bounds a sum; `cells` is how many noisy counts were added up.

    Attributes:
        simultaneous: Whether all intervals hold together at the level; else each does.

    Examples:
        >>> eree.area_totals("out", "jobs", ["county"]).simultaneous
        False
    """

    simultaneous: bool


def new_csv(out: str | os.PathLike[str], *, gzipped: bool = False) -> Path:
    """The path of a CSV file that can be written; asked before the work starts.

    With `gzipped` it may end in `.csv.gz` as well.

    Args:
        out: A path that ends in `.csv`.
        gzipped: Whether it may end in `.csv.gz`.

    Examples:
        >>> eree.new_csv("new.csv").name
        'new.csv'
    """
    path = Path(out)
    if path.suffix != ".csv" and not (gzipped and path.suffixes[-2:] == [".csv", ".gz"]):
        ends = ".csv or .csv.gz" if gzipped else ".csv"
        raise Refusal(f"{path.name!r} is no name for a list of areas: it must end in {ends}")
    if path.exists():
        raise Refusal(f"{path} exists already; choose another name or remove it")
    if not path.parent.is_dir():
        raise Refusal(f"the folder {path.parent} does not exist; make it first")
    return path


def write_csv(rows: pa.Table, out: str | os.PathLike[str], *, gzipped: bool = False) -> Path:
    """Write rows into a new CSV file, whole or not at all; what is not known is left empty.

    A gzipped file holds no time: the same rows give the same bytes.
    """
    path = new_csv(out, gzipped=gzipped)
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(rows.column_names)
    lines.writerows(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    written = text.getvalue().encode()
    if path.suffix == ".gz":
        written = gzip.compress(written, mtime=0)
    try:
        with path.open("xb") as file:
            try:
                file.write(written)
                file.flush()
            except BaseException:
                path.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise Refusal(f"{path} cannot be written: {error.strerror}") from None
    return path


def checked_level(level: float | str | Fraction) -> float:
    """A level as a number from 0.5 on and below 1."""
    return _level(str(level))


@lru_cache(maxsize=64)  # the same few are asked for again and again
def _level(text: str) -> float:
    try:
        number = exact(text, "level")
    except Refusal:
        number = Fraction(0)
    if not Fraction(1, 2) <= number < 1:
        raise Refusal("the level must be at least 0.5 and below 1, such as 0.9")
    return float(number)


def names_of(by: Iterable[str]) -> tuple[str, ...]:
    """Attributes from a list of them, each perhaps several with commas between."""
    parts: Sequence[str] = [by] if isinstance(by, str) else list(by)
    return tuple(name.strip() for part in parts for name in part.split(",") if name.strip())
