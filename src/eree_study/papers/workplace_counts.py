"""What every workplace adds to the cells of a marginal: for studies of synthetic data."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from math import prod

import numpy as np
import pyarrow as pa

from eree.data.tables import Tables
from eree.data.tabulation import Tabulation
from eree.random.exact import Array, Integers
from eree.workload import Marginal


@dataclass(frozen=True, repr=False)
class WorkplaceCounts:
    """Rows of a workplace, a cell and its jobs there; confidential unless the data are made up.

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
