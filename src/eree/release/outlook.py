"""What a plan will cost and how good its tables will be, before a confidential row is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from eree.cells import Cell
from eree.mechanisms.mechanism import Mechanism
from eree.policy.neighbours import plain
from eree.policy.plain_data import guarantee_as_json
from eree.release.plan import Plan, PlannedTable
from eree.release.prediction import Prediction, predict
from eree.release.sizes import WorkerShares, WorkplaceSizes

#: Workers of the one workplace in the typical cells whose error is shown.
TYPICAL = (1, 10, 100, 1_000)


@dataclass(frozen=True)
class TableOutlook:
    """One table of a plan: what it is, what it costs, how good it will be.

    `errors` are mean absolute errors of cells of one workplace with 1, 10, 100 and 1,000 workers;
    `within` what the error of such cells stays within at the plan's level.  `predicted` is the
    error of the whole table, where public sizes of workplaces are known.
    """

    name: str
    what: str
    mechanism: str
    epsilon: str
    delta: str
    cells: int
    errors: dict[int, float]
    within: dict[int, int]
    bounded: bool
    note: str
    predicted: Prediction | None = None


@dataclass(frozen=True)
class Outlook:
    """A plan as a person signs it."""

    plan: Plan
    tables: tuple[TableOutlook, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        price = self.plan.price()
        return {
            "data_set": self.plan.schema.data_set,
            "period": self.plan.period,
            "price": guarantee_as_json(price),
            "total": guarantee_as_json(self.plan.total),
            "level": str(self.plan.level),
            "statements": [statement.words for statement in price.statements()],
            "tables": [asdict(table) for table in self.tables],
        }


def outlook(
    plan: Plan,
    *,
    sizes: WorkplaceSizes | None = None,
    shares: WorkerShares | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Outlook:
    """Look ahead; of the data, only the public workplaces are counted.

    With public `sizes` of workplaces the error of every whole table is predicted; worker cells
    under weak neighbours need public `shares` of workers as well.
    """
    typical: dict[Mechanism, tuple[dict[int, float], dict[int, int]]] = {}
    found = []
    if progress:
        progress("counting cells", 0.0)
    cells = plan.frame.cells([table.marginal for table in plan.tables])
    for i, (table, rows) in enumerate(zip(plan.tables, cells, strict=True)):
        if progress:
            progress(f"looking at {table.name}", i / len(plan.tables))
        measurement, level = table.measurement, float(plan.level)
        if measurement.mechanism not in typical:
            typical[measurement.mechanism] = (
                {jobs: measurement.mechanism.total_error(Cell(jobs)) for jobs in TYPICAL},
                {jobs: measurement.mechanism.total_quantile(level, Cell(jobs)) for jobs in TYPICAL},
            )
        errors, within = typical[measurement.mechanism]
        predicted = None if sizes is None else predict(plan, table, sizes, shares)
        found.append(_table(plan, table, rows, errors, within, predicted))
    return Outlook(plan, tuple(found))


def _table(
    plan: Plan,
    table: PlannedTable,
    cells: int,
    errors: dict[int, float],
    within: dict[int, int],
    predicted: Prediction | None,
) -> TableOutlook:
    measurement, level = table.measurement, float(plan.level)
    return TableOutlook(
        table.name,
        str(table.marginal),
        measurement.mechanism.name,
        plain(measurement.price.epsilon),
        plain(measurement.price.delta),
        cells,
        errors,
        within,
        measurement.has_high_ends(plan.schema, table.marginal, level),
        measurement.note,
        predicted,
    )
