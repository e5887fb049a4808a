"""What was made of a released table before, for questions that need the same again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from threading import Lock
from typing import Any

import pyarrow as pa
from cachetools import LRUCache, cached

from eree.estimate.totals import Areas
from eree.policy.schema import Schema
from eree.random.exact import Integers
from eree.release.price import Ends, Measurement, Numbers
from eree.web.held import Held
from eree.workload import Marginal

#: So many levels of intervals are remembered, or so many bytes of them for a large table.
MOST_LEVELS, MOST_BYTES = 128, 64 << 20
#: Bytes of sums of other tables that are remembered, and about so many beside the numbers of each.
MOST_OF_OTHERS, BESIDE = 16 << 20, 4_000
#: Levels at which ends of these are remembered.
MOST_MISSES = 8
NO_KEYS = pa.table({})


class Remembered(Measurement):
    """A measurement that remembers the intervals of its table at the levels asked for last."""

    rows: int  # of the table

    @cached_property
    def _kept(self) -> dict[float, tuple[Integers, Integers]]:
        return {}

    @cached_property
    def _lock(self) -> Lock:
        return Lock()  # questions are answered in several threads

    def intervals(self, schema: Schema, marginal: Marginal, level: float) -> Ends:
        """Ends for all rows of the table, which are kept, or for some."""

        def ends(rows: Numbers) -> tuple[Integers, Integers]:
            if len(rows["noisy"]) < self.rows:
                return Measurement.intervals(self, schema, marginal, level)(rows)
            found = self._kept.get(level)
            if found is None:
                found = Measurement.intervals(self, schema, marginal, level)(rows)
                each = sum(ends.nbytes for ends in found)
                with self._lock:
                    while len(self._kept) >= min(MOST_LEVELS, max(MOST_BYTES // max(each, 1), 4)):
                        self._kept.pop(next(iter(self._kept)))
                    self._kept[level] = found
            return found

        return ends


class _Others(Areas):
    """Sums of another table, with their ends at the levels that were asked for."""

    @cached_property
    def _known(self) -> dict[float, tuple[Integers, Integers]]:
        return {}

    def ends(self, miss: float) -> tuple[Integers, Integers]:
        """Guaranteed ends, each missing with a probability of at most `miss`."""
        found = self._known.get(miss)
        if found is None:
            found = super().ends(miss)
            if len(self._known) < MOST_MISSES:
                self._known[miss] = found
        return found


def reads_once() -> Callable[..., Areas]:
    """Reads areas of other tables; those asked for last are known."""
    kept: LRUCache[Any, Areas] = LRUCache(MOST_OF_OTHERS, lambda one: 64 * len(one.noisy) + BESIDE)

    def key(_release: Held, name: str, by: list[str], where: Mapping[str, object]) -> object:
        return name, *by, *where.items()

    return cached(kept, key, Lock())(_Others.read)
