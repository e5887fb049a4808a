"""Estimates of all cells by two worker attributes, from the two margins that were drawn at once.

Intervals follow from those of the margins.  A cell of the value a of one attribute and c of the
other has no more workers than either, and no fewer than c has beyond those of the other half: if
the intervals of c and of both halves hold, so does its own.  Each is given a third of the chance to
miss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eree.errors import Unreadable
from eree.estimate.margins import learn_from_margins
from eree.mechanisms.margin import Margin
from eree.noise.exact import Whole
from eree.release.intervals import UNBOUNDED
from eree.release.margins import drawn_at_once
from eree.release.release import Release
from eree.release.sums import Areas
from eree.release.treatment import Treatment
from eree.release.usual import check_all_workers, check_enough, kinds_of, within, workers_of
from eree.release.verify import pair_faults


@dataclass(frozen=True)
class Pair:
    """Two margins of a release, the one of two values first."""

    halves: Areas
    values: Areas

    @classmethod
    def read(cls, release: Release, one: str, other: str) -> Pair:
        """Read both tables; refuses what was not drawn at once."""
        found = [Areas.read(release, name, ()) for name in (one, other)]
        about = [release.about(name) for name in (one, other)]
        if not drawn_at_once(found[0].schema, about[0], about[1]):
            raise Unreadable(f"tables {one} and {other} are not of one draw; run 'eree verify'")
        if not _margin(found[0]).halves:
            found.reverse()
        pair = cls(*found)
        check_all_workers(pair.halves.table, pair.halves.schema, pair.halves.counted)
        for rule in pair_faults(release, found[0].schema, *about):
            raise Unreadable(f"table {one} {rule}; run 'eree verify'")
        check_enough(one, len(pair.halves.noisy) // 2)
        return pair

    @property
    def by(self) -> tuple[str, ...]:
        """The attributes of all cells."""
        schema, counted = self.halves.schema, self.halves.counted
        own = [name for name in counted.by if schema.attributes[name].owner == "workplace"]
        return (*own, *self._workers)

    @property
    def _workers(self) -> list[str]:
        pair = (self.halves, self.values)
        return [name for areas in pair for name in workers_of(areas.schema, areas.counted)]

    def estimated(self, level: float) -> tuple[pa.Table, dict[str, float]]:
        """All cells with estimates and ends, and how alike workers of one workplace seem to be."""
        both = _margin(self.halves).both
        by_half, by_value = self.halves.noisy.reshape(-1, 2), self.values.noisy
        by_value = by_value.reshape(-1, both.values)
        differences = np.column_stack([by_value, by_half[:, 0] - by_half[:, 1]])
        rows = self.halves.release.table(self.halves.table)
        kinds = kinds_of(rows, self.halves.schema, self.halves.counted, 2)
        workplaces = self.halves.numbers["workplaces"][::2]
        learnt = learn_from_margins(both, differences, workplaces, kinds)
        low, high = self._ends(level)
        columns: dict[str, Any] = self._keys(rows, len(by_half), both.values) | {
            "estimate": pa.array(within(learnt.estimates().ravel(), low, high)),
            "noisy": pa.nulls(len(low), pa.int64()),
            "low": pa.array(low),
            "high": pa.array(high, mask=high == UNBOUNDED),
            "workplaces": pa.array(np.repeat(workplaces, both.cells)),
        }
        # sets of attributes: the second alone, the first alone, and both, which margins do not tell
        first, second = self._workers
        named = {second: float(learnt.habits[0, 0]), first: float(learnt.habits[1, 0])}
        return pa.table(columns), named

    def _keys(self, rows: pa.Table, groups: int, values: int) -> dict[str, pa.ChunkedArray[Any]]:
        """The attributes of all cells of every group, halves before values."""
        place = np.repeat(np.arange(0, 2 * groups, 2), 2 * values)
        first, second = self._workers
        attributes = self.halves.schema.attributes
        listed = {
            first: np.repeat(np.array(attributes[first].values, dtype=object), values),
            second: np.tile(np.array(attributes[second].values, dtype=object), 2),
        }
        found = {name: rows[name].take(place) for name in self.by if name not in listed}
        for name, each in listed.items():
            kind = pa.int64() if attributes[name].kind == "integer" else pa.string()
            found[name] = pa.chunked_array([pa.array(np.tile(each, groups), kind)])
        return found

    def _ends(self, level: float) -> tuple[Whole, Whole]:
        """Ends of all cells; no high end where neither margin has one."""
        part = 1 - (1 - level) / 3
        halves, values = (_ends(areas, part) for areas in (self.halves, self.values))
        tops = np.stack(np.broadcast_arrays(halves[1][:, :, None], values[1][:, None, :]))
        known = np.where(tops == UNBOUNDED, np.iinfo(np.int64).max, tops).min(axis=0)
        high = np.where((tops == UNBOUNDED).all(axis=0), UNBOUNDED, known)
        rest = halves[1][:, ::-1, None]  # the other half
        least = np.where(rest == UNBOUNDED, 0, values[0][:, None, :] - rest)
        low = np.maximum(least, 0)
        low = np.where(high == UNBOUNDED, low, np.minimum(low, high))
        return low.ravel(), high.ravel()


def _ends(areas: Areas, level: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ends of the cells of a margin, a row for each group."""
    found = areas.treatment.intervals(areas.schema, areas.counted, level)(areas.numbers)
    cells = _margin(areas).cells
    return found[0].reshape(-1, cells), found[1].reshape(-1, cells)


def _margin(areas: Areas) -> Margin:
    """How a table was hidden, if it is a margin."""
    assert isinstance(areas.treatment, Treatment)
    if not isinstance(areas.treatment.mechanism, Margin):
        raise Unreadable(f"table {areas.table} is no margin; run 'eree verify'")
    return areas.treatment.mechanism
