"""How the cells of one table are hidden, and what that costs.

The price of a table is what the plan says.  How it is used depends on the cells alone, never on
what they hold:

- cells of workplace attributes lie in disjoint workplaces, so each is hidden at the whole price;
- d worker cells of the same workplaces are hidden together by a vector mechanism at the whole
  price, or one by one at a d-th of it each;
- under edge neighbours one worker is in one cell alone, and under node neighbours a workplace adds
  at most its bounded size to all cells together: there the whole price serves each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa

from eree.errors import Refusal
from eree.mechanisms.certificate import Certificate
from eree.mechanisms.mechanism import Mechanism
from eree.mechanisms.registry import AUTO, calibrate
from eree.mechanisms.scaled import ScaledMechanism
from eree.noise.coins import Coins
from eree.noise.exact import Whole
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Edge, Node, Strong, Weak, plain
from eree.policy.schema import Schema
from eree.release.intervals import UNBOUNDED, Ends, WorkerIntervals, intervals
from eree.release.record import guarantee_as_json
from eree.workload import DropFrom, Marginal


@dataclass(frozen=True)
class Treatment:
    """A mechanism for the cells of one table.

    `note` says what `auto` chose, and why.
    """

    price: Guarantee
    mechanism: Mechanism
    worker_cells: int
    statistics: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def bound(self) -> DropFrom | None:
        """How workplaces are bounded before they are counted."""
        return getattr(self.mechanism, "bound", None)

    def as_json(self) -> dict[str, Any]:
        """The mechanism as plain data: with the price it can be calibrated anew."""
        return {
            "mechanism": self.mechanism.name,
            "each": guarantee_as_json(self.mechanism.guarantee),
            "settings": dict(self.settings),
            "parameters": self.mechanism.parameters,
            "statistics": list(self.statistics),
            "note": self.note,
        }

    def draw(self, cells: pa.RecordBatch, coins: Coins) -> Whole:
        """One noisy count for each cell."""
        counts, *largests = (cells.column(name).to_numpy() for name in self.statistics)
        return self.mechanism.draw(counts, *largests, coins=coins)

    def intervals(self, schema: Schema, marginal: Marginal, level: float) -> Ends:
        """Ends of intervals for the noisy counts of whole batches."""
        if "largest_total" not in self.statistics:
            return intervals(self.mechanism, level)
        assert isinstance(self.mechanism, ScaledMechanism)
        cells, reach = self.worker_cells, self.mechanism.reach
        if any(schema.attributes[name].owner == "worker" for name in marginal.where):
            return _unknown  # workers that the filter leaves out may be at the largest workplace

        def of_sum(level: float, sizes: Whole) -> Whole:
            return cells * reach(1 - (1 - level) / cells, sizes)

        ends = WorkerIntervals(reach, of_sum, level).ends

        def flat(noisy: Whole) -> tuple[Whole, Whole]:
            low, high = ends(noisy.reshape(-1, cells))
            return low.ravel(), high.ravel()

        return flat

    def certify(self) -> Certificate:
        """Recheck the mechanism from its chances alone."""
        return self.mechanism.certify()

    def has_high_ends(self, schema: Schema, marginal: Marginal, level: float) -> bool:
        """Whether every interval has a high end: known before a row is read."""
        nothing = np.zeros(self.worker_cells, dtype=np.int64)
        return bool((self.intervals(schema, marginal, level)(nothing)[1] != UNBOUNDED).all())

    def mean_error(self, jobs: int) -> float:
        """The mean absolute error of a cell of so many jobs in one workplace."""
        return self.mechanism.mean_error(count=jobs, largest=jobs)[0]

    def quantile(self, level: float, jobs: int) -> int:
        """What the size of the error of such a cell stays within with a chance of `level`."""
        return self.mechanism.quantile(level, count=jobs, largest=jobs)


def _unknown(noisy: Whole) -> tuple[Whole, Whole]:
    return np.zeros_like(noisy), np.full_like(noisy, UNBOUNDED)


def treat(
    schema: Schema,
    marginal: Marginal,
    price: Guarantee,
    name: str,
    parameters: Mapping[str, Any],
) -> Treatment:
    """Choose and calibrate the mechanism of a table; refuses what has no guarantee."""
    relation = price.neighbours
    touched = marginal.touches_workers(schema)
    if isinstance(relation, Weak):
        _check_types(schema, marginal, relation)
    cells = prod(
        len(schema.attributes[a].values or ())
        for a in marginal.by
        if schema.attributes[a].owner == "worker"
    )
    note = ""
    if name == AUTO and isinstance(relation, (Edge, Node)):
        name = "edge-geometric" if isinstance(relation, Edge) else "truncated-laplace"
        note = f"auto: {name} is for {relation.name} neighbours"
    shares = cells if isinstance(relation, (Strong, Weak)) else 1
    each = Guarantee(relation, price.epsilon / shares, price.delta / shares)
    mechanism = calibrate(name, each, parameters)
    statistics = mechanism.statistics(worker_attributes=touched)
    if name == AUTO:
        note = f"auto: {mechanism.name} has the least error at this alpha and epsilon"
    if shares > 1:
        note += f"{'; ' * bool(note)}{cells} worker cells one by one, at {plain(each.epsilon)} each"
    return Treatment(price, mechanism, cells, statistics, parameters, note)


def _check_types(schema: Schema, marginal: Marginal, relation: Weak) -> None:
    """Under weak neighbours no table may look at more than the types."""
    for name in (*marginal.by, *marginal.where):
        column = schema.column(name)
        if column.owner == "worker" and not {name, column.name} & set(relation.types):
            raise Refusal(
                f"{name} is not one of the worker types of the weak neighbours"
                f" ({', '.join(relation.types)}); add it to types, in the plan and in the ledger"
            )
