"""What lies above the attributes of a released table: coarser areas that its cells add up to.

A release says which areas lie in which (`Release.areas`), and what the members of declared groups
are.  Cells of tracts add up to counties, as they do to sectors: sums, their noise and their
intervals are those of any other cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eree.errors import Refusal, Unreadable
from eree.policy.schema import Value
from eree.release.release import Release
from eree.workload import Marginal


@dataclass(frozen=True)
class Above:
    """The codes of a finer attribute, and the one code of a coarser attribute for each, or null."""

    fine: str
    coarse: str
    codes: pa.ChunkedArray[Any] = field(repr=False)
    lies_in: pa.ChunkedArray[Any] = field(repr=False)

    @property
    def whole(self) -> bool:
        """Whether every code lies in one coarser code, so that sums by it lack nothing."""
        return self.lies_in.null_count == 0

    def of(self, codes: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
        """The coarser codes of some finer ones."""
        import pyarrow.compute as pc  # which takes a while to load, and seldom is needed

        place = pc.index_in(codes, self.codes)
        if place.null_count:
            raise Unreadable(
                f"the release does not say in which {self.coarse} every {self.fine} of its tables"
                " lies; run 'eree verify'"
            )
        return self.lies_in.take(place)

    @property
    def pairs(self) -> Mapping[Value, Value | None]:
        """The coarser code of each code."""
        codes: list[Any] = self.codes.to_pylist()
        return dict(zip(codes, self.lies_in.to_pylist(), strict=True))


def above(release: Release, by: Iterable[str]) -> dict[str, Above]:
    """The attributes above some, in the order of these; none of them is among the result.

    Where two of them lie in the same coarser one, it is asked of the first that does with all of
    its codes.
    """
    own, found = tuple(by), dict[str, Above]()
    for fine in own:
        for one in _above(release, fine):
            known = found.get(one.coarse)
            if one.coarse not in own and (known is None or (one.whole and not known.whole)):
                found[one.coarse] = one
    return found


def tables_by(release: Release, names: set[str]) -> list[str]:
    """Tables of jobs that can be asked by some attributes, those first that are counted by them.

    What lies above a table's attributes for some of its codes alone is not asked for.
    """
    jobs = [name for name in release.tables if not release.of_workplaces(name)]
    own = {name: set(map(str, release.about(name)["by"])) for name in jobs}
    found = [name for name in jobs if names <= own[name]]
    for name in jobs:
        coarser = {n for n, one in above(release, own[name]).items() if one.whole}
        if name not in found and names <= own[name] | coarser:
            found.append(name)
    return found


def with_above(
    rows: pa.Table, coarser: Mapping[str, Above], wanted: Marginal
) -> tuple[pa.Table, NDArray[np.bool_]]:
    """Rows of a table with the coarser codes that are asked for, and which of them a filter keeps.

    Refuses sums that would lack what lies in no one coarser code.  Where a coarser attribute only
    filters areas of the finer one, none of them lacks anything.
    """
    import pyarrow.compute as pc  # which takes a while to load, and seldom is needed

    for one in (one for name, one in coarser.items() if name in (*wanted.by, *wanted.where)):
        rows = rows.append_column(one.coarse, one.of(rows[one.fine]))
    kept = np.ones(rows.num_rows, dtype=np.bool_)
    for name in sorted(wanted.where, key=lambda name: name in coarser):  # these come last
        if name in coarser and (name in wanted.by or coarser[name].fine not in wanted.by):
            _check_whole(coarser[name], rows, kept)
        values = pa.array(wanted.where[name], rows[name].type)
        kept &= pc.is_in(rows[name], values).to_numpy()
    for name in wanted.by:
        if name in coarser:
            _check_whole(coarser[name], rows, kept)
    return rows, kept


def _check_whole(one: Above, rows: pa.Table, kept: NDArray[np.bool_]) -> None:
    if (rows[one.coarse].is_null().to_numpy() & kept).any():
        raise Refusal(
            f"some codes of {one.fine} lie in no one {one.coarse}, so that sums would lack their"
            f" jobs; ask by {one.fine}, with {one.coarse} in the filter alone, or keep other codes"
            f" of {one.fine}"
        )


def _above(release: Release, fine: str) -> list[Above]:
    """What lies above one attribute: what the release lists, and groups of it and of these."""
    groups = [one for one in release.schema.attributes.values() if one.of is not None]
    listed, found = release.areas.get(fine), list[Above]()
    if listed is not None:
        keys, *coarser = listed.columns
        names = listed.column_names[1:]
        found = [Above(fine, n, keys, codes) for n, codes in zip(names, coarser, strict=True)]
    found += [Above(fine, g.name, *release.members(g.name).columns) for g in groups if g.of == fine]
    for one in tuple(found):
        for group in groups:
            if group.of == one.coarse and group.name not in (fine, *(f.coarse for f in found)):
                held, of_group = release.members(group.name).columns
                import pyarrow.compute as pc

                place = pc.index_in(one.lies_in, held)
                found.append(Above(fine, group.name, one.codes, of_group.take(place)))
    return found
