"""What a synthetic population shows, apart for small and for large places.

Whoever holds the true counts can say how exposed cells are, and how far released counts are off.
Both are confidential where the data are real; here they are synthetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from eree.cells import Cell
from eree.estimate.estimates import estimated_cells
from eree.mechanisms.mechanism import Mechanism
from eree.random.exact import Integers
from eree.release.release import Release

#: Place populations that the papers report apart: the lower end of each stratum.
STRATA = {"under 100": 0, "100 to 10k": 100, "10k to 100k": 10_000, "100k and more": 100_000}
ALL = "all"

Chosen = NDArray[np.bool_]
Order = list[tuple[str, Literal["ascending", "descending"]]]


@dataclass(frozen=True)
class Exposure:
    """How exposed the cells of one stratum of places are.

    `alone` is the share of cells with one workplace only, `dominated` the share of those with
    several of which one holds half the jobs or more.
    """

    stratum: str
    cells: int
    alone: float
    dominated: float


@dataclass(frozen=True)
class Accuracy:
    """How far the released counts of one stratum of a table are off.

    `error` is the mean absolute error of a cell, `promised` what was to be expected of it, and
    `inside` the share of true counts that lie within their intervals.
    """

    table: str
    stratum: str
    cells: int
    jobs: int
    error: float
    promised: float
    inside: float

    def of_jobs(self, error: float) -> float:
        """A mean error as a share of a cell's mean jobs; no number where there are no jobs."""
        return error * self.cells / self.jobs if self.jobs else nan


@dataclass(frozen=True)
class Compared:
    """The cells of a table, true, released and estimated, side by side: a row for each."""

    table: str
    cells: pa.Table
    released: pa.Table
    estimated: pa.Table
    strata: tuple[tuple[str, Chosen], ...]

    @classmethod
    def of(cls, release: Release, table: str, cells: pa.Table, data: Path) -> Compared:
        """A released table beside its confidential cells; one of its attributes is the place."""
        by = release.about(table)["by"]
        order: Order = [(name, "ascending") for name in by]
        true, released = cells.sort_by(order), release.table(table).sort_by(order)
        estimated = estimated_cells(release, table)
        assert true.select(by).equals(released.select(by))
        assert all(true[name].equals(estimated[name]) for name in by)
        return cls(table, true, released, estimated, tuple(_strata(true["place"], data)))

    @property
    def counts(self) -> Integers:
        """The true counts."""
        return self.cells["count"].to_numpy()

    @property
    def noisy(self) -> Integers:
        """The released ones."""
        return self.released["noisy"].to_numpy()

    def alone(self) -> Chosen:
        """Cells with one workplace only."""
        found: Chosen = self.cells["workplaces"].to_numpy() == 1
        return found

    def dominated(self) -> Chosen:
        """Cells with several workplaces of which one holds half the jobs or more."""
        count, largest = self.counts, self.cells["largest"].to_numpy()
        found: Chosen = ~self.alone() & (2 * largest >= count) & (count > 0)
        return found

    def exposure(self) -> tuple[Exposure, ...]:
        """How exposed the cells are, stratum by stratum."""
        alone, dominated = self.alone(), self.dominated()
        return tuple(
            Exposure(
                name, int(here.sum()), float(alone[here].mean()), float(dominated[here].mean())
            )
            for name, here in self.strata
        )

    def accuracy(self, mechanism: Mechanism) -> tuple[Accuracy, ...]:
        """How far released counts are off, in all and stratum by stratum.

        The mechanism says what to expect of a cell of one workplace.  It is the largest workplace
        that noise grows with: what the cell counts of it, or all of it where the cell counts some
        workers only.
        """
        kept = "largest_total" if "largest_total" in self.cells.column_names else "largest"
        sizes, place = np.unique(self.cells[kept].to_numpy(), return_inverse=True)
        promised = np.array([mechanism.total_error(Cell(size)) for size in sizes])[place]
        error = np.abs(self.noisy - self.counts)
        inside = self.inside()
        everywhere = (ALL, np.ones(len(error), dtype=np.bool_))
        return tuple(
            Accuracy(
                self.table,
                name,
                int(here.sum()),
                int(self.counts[here].sum()),
                float(error[here].mean()),
                float(promised[here].mean()),
                float(inside[here].mean()),
            )
            for name, here in (everywhere, *self.strata)
        )

    def inside(self) -> Chosen:
        """Cells whose true count lies within the calibrated interval; it may have no high end."""
        low, high = self.estimated["low"].to_numpy(), self.estimated["high"]
        top = high.fill_null(pa.scalar(np.iinfo(np.int64).max, pa.int64())).to_numpy()
        found: Chosen = (low <= self.counts) & (self.counts <= top)
        return found


def _strata(places: pa.ChunkedArray[Any], data: Path) -> Iterator[tuple[str, Chosen]]:
    """Which cells belong to each stratum that has any."""
    known = parquet.read_table(data / "place.parquet")
    population = known["population"].take(pc.index_in(places, known["place"])).to_numpy()
    stratum = np.searchsorted(np.array(list(STRATA.values())), population, side="right")
    for i, name in enumerate(STRATA, start=1):
        if (stratum == i).any():
            yield name, stratum == i
