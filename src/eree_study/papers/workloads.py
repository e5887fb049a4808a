"""What the papers count: their workloads and rankings, as arrays of a synthetic population."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from eree.data.tables import Tables
from eree.data.tabulate import tabulate
from eree.data.tabulation import Tabulation
from eree.errors import Refusal
from eree.policy.schema import Attribute
from eree.random.exact import Array, Integers
from eree.workload import Marginal
from eree_study.synth.workers import ATTRIBUTES

#: How the price of a workload is paid: each cell at the whole price, or all worker cells together.
Paying = Literal["each", "together"]

PLACES = ("place", "sector", "ownership")
TRACTS = ("tract", "sector", "ownership")
#: Populations of places where the papers' strata begin.
STRATA = MappingProxyType({"0-100": 0, "100-10k": 100, "10k-100k": 10_000, "100k+": 100_000})
WHOLE = "all"


@dataclass(frozen=True)
class Workload:
    """One set of counts, and how it is paid for.

    `strong` says whether noise must protect whole workplaces in worker cells (`largest_total`), or
    only what is in the cell (`largest`: the weak guarantee).  A ranking may look at the workers of
    some values alone.
    """

    name: str
    study: Literal["paper", "report"]
    by: tuple[str, ...]
    paying: Paying = "each"
    strong: bool = True
    ranked: bool = False
    worker_values: Mapping[str, str] | None = None

    @property
    def cells(self) -> str:
        """A name for the cells, which several workloads may share."""
        return "-".join((*self.by, *(self.worker_values or {}).values()))

    @property
    def worker_shape(self) -> tuple[int, ...]:
        """How many values each of its worker attributes has in the synthetic population."""
        values = {attribute.name: len(attribute.values) for attribute in ATTRIBUTES}
        return tuple(values[name] for name in self.by if name in values)

    def file(self, folder: Path) -> Path:
        """Where the cells are kept while a study runs."""
        return folder / "cells" / f"{self.cells}.npz"


_PEOPLE = (*PLACES, "sex", "education")
_GRADUATES = MappingProxyType({"sex": "F", "education": "college"})

WORKLOADS: Mapping[str, Workload] = MappingProxyType(
    {
        workload.name: workload
        for workload in (
            Workload("workload-1", "paper", PLACES),
            Workload("workload-2", "paper", _PEOPLE, strong=False),
            Workload("workload-2-strong", "paper", _PEOPLE),
            Workload("workload-3", "paper", _PEOPLE, "together", strong=False),
            Workload("workload-3-strong", "paper", _PEOPLE, "together"),
            Workload("ranking-1", "paper", PLACES, ranked=True),
            Workload("ranking-2", "paper", _PEOPLE, "each", False, True, _GRADUATES),
            Workload("ranking-2-strong", "paper", _PEOPLE, "each", True, True, _GRADUATES),
            Workload("report-3", "report", TRACTS),
            Workload("report-4", "report", (*TRACTS, "age"), strong=False),
            Workload("report-4-true", "report", (*TRACTS, "age"), "together"),
            Workload("report-5", "report", (*TRACTS, "age", "sex"), strong=False),
            Workload("report-5-true", "report", (*TRACTS, "age", "sex"), "together"),
            Workload("report-6", "report", (*TRACTS, "age", "sex", "race"), strong=False),
            Workload("report-6-true", "report", (*TRACTS, "age", "sex", "race"), "together"),
        )
    }
)


@dataclass(frozen=True, repr=False)
class WorkplaceCounts:
    """Rows of a workplace, a cell and its jobs there; confidential unless the data are synthetic.

    Cells are numbered as in the marginal's table with workplace attributes first: the workplace
    cell times the number of worker cells, and the worker cell.
    """

    workplace: Integers
    cell: Integers
    jobs: Integers
    size: Integers

    @classmethod
    def of(cls, tables: Tables, marginal: Marginal) -> WorkplaceCounts:
        """Count; `marginal.by` must name its workplace attributes first."""
        tabulation = Tabulation(tables.schema, tables.sources, marginal)
        attributes = [tables.schema.attributes[name] for name in marginal.by]
        people = prod(len(a.values or ()) for a in attributes if a.owner == "worker")
        with closing(tables.open()) as opened:
            for table in tabulation.reads:
                opened.load(f"{table}_file", tables.sources[table])
            for name, values in tabulation.side_tables().items():
                opened.load(name, values)
            rows = pa.Table.from_batches(opened.query(tabulation.workplace_sql()))
        group, cell, number, jobs, size = (rows[name].to_numpy() for name in rows.column_names)
        return cls(number, people * group + cell, jobs, size)

    def sums(self, cells: int, weights: Array | None = None) -> Array:
        """The cells, each job weighted as its workplace is."""
        jobs = self.jobs.astype(np.float64)
        if weights is not None:
            jobs *= weights[self.workplace]
        return np.bincount(self.cell, weights=jobs, minlength=cells).astype(np.float64)

    def __repr__(self) -> str:
        return f"<WorkplaceCounts: {len(self.cell):,} rows, confidential>"


#: The arrays of counted cells, and those of what every workplace adds to them.
_ARRAYS = ("counts", "largest", "largest_total", "stratum", "workplaces", "kinds")
_ROWS = ("workplace", "cell", "jobs", "size")


@dataclass(frozen=True, repr=False)
class Counted:
    """The cells of a marginal in a synthetic population, and what every workplace adds to them.

    `stratum` numbers the stratum of each cell's place; -1 where the papers have none.  Of every
    group of worker cells `workplaces` has how many workplaces it has, and `kinds` a number for its
    sector and ownership; both are public.
    """

    counts: Integers
    largest: Integers
    largest_total: Integers
    stratum: NDArray[np.int8]
    workers: int
    rows: WorkplaceCounts
    workplaces: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    kinds: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @classmethod
    def of(cls, tables: Tables, by: tuple[str, ...]) -> Counted:
        """Count the cells of a marginal whose workplace attributes come first."""
        cells = tabulate(tables, by=by).confidential
        attributes = [tables.schema.attributes[name] for name in by]
        workers = int(np.prod([len(a.values or ()) for a in attributes if a.owner == "worker"]))
        totals = (
            cells["largest_total"] if "largest_total" in cells.column_names else cells["largest"]
        )
        stratum = np.full(len(cells), -1, dtype=np.int8)
        if "place" in by:
            places = parquet.read_table(tables.folder / "place.parquet")
            row = pc.index_in(cells["place"], places["place"])
            population = places["population"].take(row).to_numpy()
            starts = np.array(list(STRATA.values()))
            stratum = (np.searchsorted(starts, population, side="right") - 1).astype(np.int8)
        rows = WorkplaceCounts.of(tables, Marginal.over(tables.schema, by))
        return cls(
            cells["count"].to_numpy(),
            cells["largest"].to_numpy(),
            totals.to_numpy(),
            stratum,
            workers,
            rows,
            cells["workplaces"].to_numpy()[::workers],
            _kinds(cells, attributes, workers),
        )

    def save(self, path: Path) -> None:
        """Keep the arrays in a file."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        rows = {name: getattr(self.rows, name) for name in _ROWS}
        with path.open("wb") as file:  # a name would get an ending of its own
            np.savez(file, workers=self.workers, **arrays, **rows)

    @classmethod
    def read(cls, path: Path) -> Counted:
        """The arrays of a file."""
        with np.load(path) as kept:
            rows = WorkplaceCounts(*(kept[name] for name in _ROWS))
            arrays = {name: kept[name] for name in _ARRAYS}
            return cls(workers=int(kept["workers"]), rows=rows, **arrays)

    def only(self, worker_cell: int) -> Counted:
        """One worker cell of every group."""
        place = np.arange(worker_cell, len(self.counts), self.workers)
        chosen = self.rows.cell % self.workers == worker_cell
        rows = self.rows
        return replace(
            self,
            **{name: getattr(self, name)[place] for name in _ARRAYS[:4]},
            workers=1,
            rows=WorkplaceCounts(
                rows.workplace[chosen],
                rows.cell[chosen] // self.workers,
                rows.jobs[chosen],
                rows.size[chosen],
            ),
        )

    def sizes(self, strong: bool) -> Integers:
        """The largest workplace of each cell: all of it, or what the cell counts of it (weak)."""
        return self.largest_total if strong else self.largest

    def by_workplace(self) -> tuple[Integers, Integers]:
        """The group of every workplace, and its counts: a row each, those without jobs last."""
        rows = self.rows
        _, first, place = np.unique(rows.workplace, return_index=True, return_inverse=True)
        groups = rows.cell[first] // self.workers
        empty = self.workplaces - np.bincount(groups, minlength=len(self.workplaces))
        groups = np.concatenate([groups, np.repeat(np.arange(len(empty)), empty)])
        counts = np.zeros((len(groups), self.workers), dtype=np.int64)
        counts[place, rows.cell % self.workers] = rows.jobs
        return groups, counts

    @cached_property
    def strata(self) -> dict[str, NDArray[np.intp]]:
        """The cells of every stratum that has some, and all of them."""
        found = {WHOLE: np.arange(len(self.counts))}
        for number, name in enumerate(STRATA):
            place = np.flatnonzero(self.stratum == number)
            if place.size:
                found[name] = place
        return found

    def means(self, values: Array) -> dict[str, float]:
        """The mean over the cells of every stratum, and over all of them."""
        sums = np.bincount(self.stratum + 1, weights=values, minlength=len(STRATA) + 1)
        found = {WHOLE: float(sums.sum()) / max(len(values), 1)}
        for number, name in enumerate(STRATA, start=1):
            if name in self.strata:
                found[name] = float(sums[number]) / len(self.strata[name])
        return found

    @cached_property
    def some(self) -> NDArray[np.intp]:
        """The cells that are not empty."""
        return np.flatnonzero(self.counts)

    def means_of_some(
        self, values: Array | NDArray[np.bool_], *, empty: float = 0.0
    ) -> dict[str, float]:
        """The mean over the cells not empty of every stratum; `empty` where all cells are."""
        stratum = self.stratum[self.some] + 1
        found = np.bincount(stratum, weights=values, minlength=len(STRATA) + 1)
        there = np.bincount(stratum, minlength=len(STRATA) + 1)
        means = {WHOLE: float(found.sum() / there.sum()) if there.sum() else empty}
        for number, name in enumerate(STRATA, start=1):
            if name in self.strata:
                means[name] = float(found[number] / there[number]) if there[number] else empty
        return means

    def below(self, theta: int) -> Integers:
        """The counts without workplaces of theta or more workers."""
        small = self.rows.size < theta
        jobs = self.rows.jobs[small].astype(np.float64)
        found = np.bincount(self.rows.cell[small], weights=jobs, minlength=len(self.counts))
        return found.astype(np.int64)

    def __repr__(self) -> str:
        return f"<Counted: {len(self.counts):,} cells>"


def _kinds(cells: pa.Table, attributes: Iterable[Attribute], workers: int) -> Integers:
    """A number for the declared workplace attributes of every group."""
    kinds: Integers = np.zeros(len(cells) // workers, dtype=np.int64)
    for attribute in attributes:
        if attribute.owner == "workplace" and attribute.values is not None:
            values = pa.array(list(attribute.values), cells[attribute.name].type)
            code = pc.index_in(cells[attribute.name], values).to_numpy()
            kinds = kinds * len(attribute.values) + code[::workers]
    return np.unique(kinds, return_inverse=True)[1].astype(np.int64)


def workload_named(name: str) -> Workload:
    """A workload by its name."""
    if name not in WORKLOADS:
        raise Refusal(f"there is no workload named {name!r}; there are {', '.join(WORKLOADS)}")
    return WORKLOADS[name]


def counted_for(tables: Tables, workload: Workload) -> Counted:
    """The cells that a workload looks at."""
    counted = Counted.of(tables, workload.by)
    if workload.worker_values is None:
        return counted
    place = 0
    for name in workload.by:
        attribute = tables.schema.attributes[name]
        if attribute.owner == "worker":
            values = list(attribute.values or ())
            place = len(values) * place + values.index(workload.worker_values[name])
    return counted.only(place)
