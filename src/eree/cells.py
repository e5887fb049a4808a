"""Confidential cells: the exact counts of a marginal, kept from view."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from eree.workload import Marginal


@dataclass(frozen=True, repr=False, eq=False)
class Cells:
    """The exact cells of a marginal.  Confidential: printing them shows their shape only.

    `confidential` is the Arrow table: the attributes of the marginal in their order, then

    - `count`: jobs in the cell;
    - `largest`: the most jobs of the cell that one workplace holds;
    - `largest_total`: the size of the largest workplace of the workplace cell, all its workers
      counted (only where a worker attribute is involved);
    - `workplaces`: the public number of workplaces in the workplace cell.
    """

    marginal: Marginal
    confidential: pa.Table = field(repr=False)

    def __len__(self) -> int:
        return int(self.confidential.num_rows)

    def __repr__(self) -> str:
        return f"<Cells of {self.marginal}: {len(self):,} cells, confidential>"
