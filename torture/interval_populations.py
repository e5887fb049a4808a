"""Populations that judge calibrated intervals: synthetic ones, and some made to break them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from eree.cells import Cell
from eree.estimate.size_distribution import SizeDistribution
from eree.mechanisms.registry import mechanism
from eree.random.exact import Integers
from eree.random.source import Random

#: Sizes above this are counted over all sectors at once.
POOLED_FROM = 100
WORKER_CELLS = 8


@dataclass(frozen=True, eq=False)
class Workplaces:
    """The workplaces of a population: their cell and size, and where every cell lies."""

    cell: Integers
    size: Integers
    sectors: list[str]
    places: list[str]
    states: list[str]
    #: Of each cell, where its sector, place and state stand in the lists.
    sector: Integers
    place: Integers
    state: Integers
    #: Jobs of each place by sex and education, a row for each place.
    workers: Integers | None = None

    @classmethod
    def read(cls, folder: Path, *, workers: bool = False) -> Workplaces:
        """Read a population that `eree synth` has written."""
        with duckdb.connect() as db:
            db.execute("set threads = 1")
            files = {
                n: (folder / f"{n}.parquet").as_posix() for n in ("workplace", "job", "worker")
            }
            rows = db.sql(
                "select place, sector, ownership, state, coalesce(size, 0) as size"
                f" from '{files['workplace']}' left join (select workplace_id, count(*) as size"
                f" from '{files['job']}' group by 1) using (workplace_id)"
                " order by place, sector, ownership, size"
            ).to_arrow_table()
            counted = None
            if workers:
                query = (
                    f"select place, sex, education, count(*) as jobs from '{files['job']}'"
                    f" join '{files['worker']}' using (worker_id)"
                    f" join '{files['workplace']}' using (workplace_id) group by 1, 2, 3"
                )
                counted = db.sql(query).to_arrow_table()
        names = {n: _coded(rows[n]) for n in ("place", "sector", "ownership", "state")}
        keys = np.zeros(rows.num_rows, dtype=np.int64)
        for name in ("place", "sector", "ownership"):
            keys = keys * len(names[name][0]) + names[name][1]
        _, first, cell = np.unique(keys, return_index=True, return_inverse=True)
        sector, place, state = (names[n][1][first] for n in ("sector", "place", "state"))
        table = None
        if counted is not None:
            table = np.zeros((len(names["place"][0]), WORKER_CELLS), dtype=np.int64)
            at = np.searchsorted(names["place"][0], counted["place"].to_pylist())
            sexes, educations = (_coded(counted[n])[1] for n in ("sex", "education"))
            table[at, sexes * 4 + educations] = counted["jobs"].to_numpy()
        return cls(
            cell.reshape(-1),
            rows["size"].to_numpy().astype(np.int64),
            *(names[n][0] for n in ("sector", "place", "state")),
            sector,
            place,
            state,
            table,
        )

    def with_sizes(self, size: Integers) -> Workplaces:
        """The same workplaces with other sizes."""
        return Workplaces(
            self.cell,
            size,
            self.sectors,
            self.places,
            self.states,
            self.sector,
            self.place,
            self.state,
        )

    def of_one_size(self, sector: str, size: int) -> Workplaces:
        """All workplaces of one sector have the same size, the others stay as they are."""
        chosen = self.sector[self.cell] == self.sectors.index(sector)
        return self.with_sizes(np.where(chosen, size, self.size))

    def with_giants(self, giant: int, most: int) -> Workplaces:
        """One giant in every cell; no other workplace has more than so many workers."""
        last = np.append(self.cell[1:] != self.cell[:-1], True)
        return self.with_sizes(np.where(last, giant, np.minimum(self.size, most)))

    def drawn(self, median: float, deviation: float, of_places: float) -> Workplaces:
        """Sizes with normal logarithms, whose medians differ from place to place."""
        draws = np.random.default_rng(17)
        where = draws.normal(0, of_places, len(self.places))[self.place[self.cell]]
        logs = np.log(median) + where + draws.normal(0, deviation, len(self.size))
        return self.with_sizes(np.maximum(np.rint(np.exp(logs)), 1).astype(np.int64))

    @cached_property
    def counts(self) -> Integers:
        """The true counts of the cells."""
        return np.bincount(self.cell, self.size).astype(np.int64)

    @cached_property
    def largest(self) -> Integers:
        """The largest workplace of each cell."""
        found = np.zeros(len(self.sector), dtype=np.int64)
        np.maximum.at(found, self.cell, self.size)
        return found

    @cached_property
    def number(self) -> Integers:
        """The number of workplaces of each cell."""
        return np.bincount(self.cell)

    def profile(self, epsilon: str, random: Random) -> SizeDistribution:
        """The distribution that a released size profile by sector shows."""
        made = mechanism("threshold-geometric", alpha="0.1", epsilon=epsilon)
        sizes = np.array([int(t) for t in made.parameters["sizes"].strip("()").split(",")])
        own, pooled = sizes[sizes <= POOLED_FROM], sizes[sizes > POOLED_FROM]
        names: list[str | None] = []
        at, number, total = [], [], []
        sectors = self.sector[self.cell]
        groups: list[tuple[str | None, Integers, Integers]] = [
            (name, np.sort(self.size[sectors == i]), own) for i, name in enumerate(self.sectors)
        ]
        for name, found, thresholds in [*groups, (None, np.sort(self.size), pooled)]:
            names += [name] * len(thresholds)
            at.append(thresholds)
            number.append(len(found) - np.searchsorted(found, thresholds))
            total.append(np.full(len(thresholds), len(found)))
        rows = pa.table(
            {
                "sector": pa.array(names, pa.string()),
                "at_least": np.concatenate(at),
                "noisy": made.draw(np.concatenate(number), random=random),
                "workplaces": np.concatenate(total),
            }
        )
        return SizeDistribution.from_profile(rows, ("sector",), made.mean_error(Cell(0))[0])


def _coded(column: pa.ChunkedArray) -> tuple[list[str], Integers]:
    """The values of a column in order, and where each row's is."""
    values, codes = np.unique(column.to_numpy(zero_copy_only=False), return_inverse=True)
    return [str(value) for value in values], codes.reshape(-1).astype(np.int64)
