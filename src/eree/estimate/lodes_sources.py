"""Which released tables hold the columns of LODES, and what they have in each area.

Of the tables that hold a column the one is taken whose sums are least in error, as the calibrated
noise of their cells has it (`eree.estimate.calibrated`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, pi, sqrt
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eree.errors import Refusal, Unreadable
from eree.estimate.above import above
from eree.estimate.agreement import UNIT, Agreement, agreement_of
from eree.estimate.calibrated import calibrated_table
from eree.estimate.calibration import Errors
from eree.estimate.listing import checked_level, in_words
from eree.estimate.lodes_columns import GEOCODE, Columns, Kept, alike, kind_of
from eree.estimate.measured import measurement_of
from eree.estimate.shrinkage import shrunk_by
from eree.estimate.totals import Areas
from eree.mechanisms.intervals import UNBOUNDED
from eree.policy.schema import Value
from eree.random.exact import Array, Integers
from eree.release.release import Release

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Estimates that agree in all tables, the same as integers of zero or more, which are biased,
#: estimates shrunk to the shares of their kind, or the noisy counts of single tables.
Numbers = Literal["estimates", "biased-counts", "shrunk", "measured"]
HUNDREDTHS = ("estimates", "shrunk")
#: Predicted errors that differ by less are the same, as of tables of one draw: the first is taken.
_NEAR = 1.02


@dataclass(frozen=True)
class Filled:
    """Columns that some tables hold: the counts of areas, and which table each is from."""

    counts: dict[str, Integers | Array] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    predicted: dict[str, dict[str, float | None]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AreaTables:
    """The released tables that are counted by a geocode, and all areas that any of them has."""

    release: Release
    geocode: str
    tables: Mapping[str, _Held]
    areas: pa.Array[Any]
    numbers: Numbers
    refused: Mapping[str, tuple[_Held, str]]

    @classmethod
    def read(
        cls,
        release: Release,
        geocode: str,
        tables: Iterable[str] | None,
        looked_for: list[Kept],
        only: Kept,
        numbers: Numbers,
    ) -> AreaTables:
        """Those among `tables`, or all of the release; `looked_for` are the jobs of all columns.

        Areas are those with cells that the filter `only` keeps.
        """
        every = (name for name in release.tables if not release.of_workplaces(name))
        names = tuple(every if tables is None else tables)
        holders = [name for name in names if geocode in _reached(release, name)]
        attribute = release.schema.attributes.get(geocode)
        if attribute is None or attribute.owner != "workplace" or not holders:
            raise Refusal(
                f"no table is counted by the workplace attribute {geocode!r};"
                f" {'the release' if tables is None else 'these'} can be exported by"
                f" {', '.join(_geocodes(release, names)) or 'none'}"
            )
        held = {name: _Held(release, name, geocode, looked_for, numbers) for name in holders}
        refused = _not_shrunk(held) if numbers == "shrunk" else {}
        if len(refused) == len(held):
            why = next(iter(refused.values()))[1]
            raise Refusal(f"no table by {geocode} can be shrunk: {why}")
        held = {name: table for name, table in held.items() if name not in refused}
        areas: pa.Array[Any] = pa.array(
            sorted({code for table in held.values() for code in table.areas(only)})
        )
        if not len(areas):
            raise Refusal(
                f"no table by {geocode} has rows with {in_words(only)}; keep other values, or"
                f" publish a table by {geocode} and {' and '.join(only)}"
            )
        return cls(release, geocode, held, areas, numbers, refused)

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
                left = [why for table, why in self.refused.values() if table.holds(kept)]
                why = _why(self.geocode, kept, tables, official=official)
                made.missing[column] = left[0] if left else why
        for columns in alike(made.predicted, kind_of):
            one = any(all(n in made.predicted[c] for c in columns) for n in self.tables)
            for some in [columns] if by_kind and one else [[column] for column in columns]:
                source = _least({c: made.predicted[c] for c in some})
                for column in some:
                    made.sources[column] = source
                    held = self.tables[source]
                    made.counts[column] = held.counts(wanted[column], self.areas)
        return made

    def intervals(self, wanted: Columns, sources: Mapping[str, str]) -> pa.Table:
        """The calibrated intervals of columns, a row for each area and column."""
        if self.numbers == "shrunk":
            raise Refusal(
                "what a column adds up was shrunk together, so that its interval is not known;"
                " 'eree shrink DIR TABLE --by …' has those of single worker cells"
            )
        around, size = dict[str, tuple[Array, Errors]](), len(self.areas)
        if self.numbers != "measured":
            agreed = _agreed(self.release)
            sums = self._sums(wanted, sources, agreed)
            estimates, errors = sums @ agreed.estimates / UNIT, agreed.errors_of(sums.__matmul__)
            for i, column in enumerate(sources):
                own = np.arange(i * size, (i + 1) * size)
                around[column] = estimates[own], errors.some(own)
        found = []
        for column, source in sources.items():
            held = self.tables[source]
            low, high = held.intervals(wanted[column], self.areas, around.get(column))
            columns = {
                GEOCODE: self.areas,
                "column": pa.array([column] * size),
                "low": pa.array(low),
                "high": pa.array(high, mask=high == UNBOUNDED),
            }
            found.append(pa.table(columns))
        return pa.concat_tables(found)

    def _sums(self, wanted: Columns, sources: Mapping[str, str], agreed: Agreement) -> csr_array:
        """What adds all cells of the release up to columns: a row for each column and area."""
        from scipy.sparse import csr_array

        rows, cells = list[Integers](), list[Integers]()
        for i, (column, source) in enumerate(sources.items()):
            own, place = self.tables[source].cells(wanted[column], self.areas)
            rows.append(i * len(self.areas) + place)
            cells.append(agreed.tables[source].start + own)
        shape = len(sources) * len(self.areas), len(agreed.estimates)
        places = np.concatenate(rows), np.concatenate(cells)
        return csr_array((np.ones(len(places[0])), places), shape=shape)


def _least(predicted: Mapping[str, Mapping[str, float | None]]) -> str:
    """The table whose errors in some columns add up to the least, of those that hold them all."""
    first, *others = predicted.values()
    able = [table for table in first if all(table in other for other in others)]
    errors = {t: sum(inf if (e := p[t]) is None else e for p in predicted.values()) for t in able}
    return next(table for table in able if errors[table] <= _NEAR * min(errors.values()))


class _Held:
    """A released table, and which columns it holds."""

    def __init__(
        self, release: Release, name: str, geocode: str, looked_for: list[Kept], numbers: Numbers
    ) -> None:
        about, asked = release.about_jobs(name), {n for kept in looked_for for n in kept}
        self.name, self.rows, self._release = name, release.table(name), release
        self.by: Sequence[str] = about["by"]
        for one in above(release, self.by).values():
            filters = one.coarse in asked and (one.whole or one.fine == geocode)
            if filters or (one.coarse == geocode and one.whole):
                self.rows = self.rows.append_column(one.coarse, one.of(self.rows[one.fine]))
                self.by = [*self.by, one.coarse]
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
        self._noise = None if known is None or not known.sums else known
        self._numbers = numbers

    def areas(self, only: Kept) -> list[Any]:
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

    def _kept(self, kept: Kept) -> NDArray[np.intp]:
        """The cells that a filter keeps."""
        chosen = np.ones(self.rows.num_rows, dtype=np.bool_)
        for name, values in kept.items():
            if name in self.by:
                kind = self.rows.schema.field(name).type
                text = pa.types.is_string(kind)
                like = [value for value in values if isinstance(value, str) == text]
                chosen &= pc.is_in(self.rows[name], pa.array(like, kind)).to_numpy()
        return np.flatnonzero(chosen)

    def cells(self, kept: Kept, areas: pa.Array[Any]) -> tuple[NDArray[np.intp], Integers]:
        """The cells of a column, and the area that each lies in."""
        cells = self._kept(kept)
        place: Integers = pc.index_in(self.rows[self._geocode].take(cells), areas).to_numpy()
        return cells, place

    def counts(self, kept: Kept, areas: pa.Array[Any]) -> Integers | Array:
        """The sum of every area; one without cells has no workplace there, and no jobs."""
        cells, place = self.cells(kept, areas)
        found: Integers = np.zeros(len(areas), dtype=np.int64)
        if self._numbers == "measured":
            np.add.at(found, place, self.rows["noisy"].to_numpy()[cells])
            return found
        if self._numbers == "shrunk":
            np.add.at(found, place, self.shrunk[cells])
            return found / UNIT
        agreed = _agreed(self._release)
        own = agreed.estimates if self._numbers == "estimates" else agreed.counts
        np.add.at(found, place, own[agreed.tables[self.name]][cells])
        return found / UNIT if self._numbers == "estimates" else found

    @cached_property
    def shrunk(self) -> Integers:
        """Estimates of its cells, shrunk to the shares of their kind, in hundredths of a job."""
        return shrunk_by(self._release, self.name, self._geocode)

    def error(self, kept: Kept, areas: pa.Array[Any]) -> float | None:
        """The mean error that is predicted for the areas of a column."""
        cells, place = self.cells(kept, areas)
        if self._noise is None or not len(cells):
            return None if self._noise is None else 0.0
        order = np.argsort(place, kind="stable")
        starts = np.flatnonzero(np.diff(place[order], prepend=-1))
        variance = self._noise.moments(cells[order], starts).variance
        return float(sqrt(2 / pi) * np.sqrt(variance).sum() / len(areas))

    def intervals(
        self, kept: Kept, areas: pa.Array[Any], agreeing: tuple[Array, Errors] | None
    ) -> tuple[Integers, Integers]:
        """The calibrated intervals of a column; an area without cells has no jobs.

        They are around the noisy sums, or around estimates that agree, with their errors.
        """
        where = {name: values for name, values in kept.items() if name in self.by}
        low, high = np.zeros((2, len(areas)), dtype=np.int64)
        cells, place = self.cells(kept, areas)
        if not self._readable:
            high[place] = UNBOUNDED
        elif len(cells):
            level = checked_level(self._release.record["level"])
            sums = Areas.read(self._release, self.name, [self._geocode], where)
            at = pc.index_in(sums.keys[self._geocode], areas).to_numpy()
            if agreeing is None:
                low[at], high[at] = sums.calibrated_ends(level, simultaneous=False)
            else:
                estimates, errors = agreeing
                low[at], high[at] = sums.ends_around(estimates[at], errors.some(at), level)
        return low, high


def _not_shrunk(held: Mapping[str, _Held]) -> dict[str, tuple[_Held, str]]:
    """Those of some tables whose estimates may not be added up, and why."""
    found = {}
    for name, table in held.items():
        try:
            _ = table.shrunk
        except Unreadable:
            raise
        except Refusal as refusal:
            found[name] = (table, str(refusal))
    return found


def _agreed(release: Release) -> Agreement:
    """The estimates that agree; a release without any still has what was measured."""
    try:
        return agreement_of(release)
    except Unreadable:
        raise
    except Refusal as refusal:
        raise Refusal(f"{refusal}; or take counts as they are: --numbers measured") from None


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
    every = dict.fromkeys(name for table in names for name in _reached(release, table))
    return [name for name in every if release.schema.attributes[name].owner == "workplace"]


def _reached(release: Release, table: str) -> list[str]:
    """The attributes of a table of jobs, and those above with all of their codes."""
    own: list[str] = release.about_jobs(table)["by"]
    return [*own, *(name for name, one in above(release, own).items() if one.whole)]
