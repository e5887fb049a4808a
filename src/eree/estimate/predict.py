"""What a plan will cost and how accurate its tables will be, before a confidential row is read.

The expected error of a whole table comes from public sizes of workplaces.

The noise of a cell grows with its largest workplace.  Which size that has is not public; but how
many workplaces every cell has is, and so may be how large workplaces are in general.  If the sizes
of a cell's workplaces are drawn from these, independently, the largest has at most x workers with
the probability F(x)^m; the mean of the errors under this distribution is what is predicted.

Where large workplaces are left out, their jobs B are missing: the error of a cell is that of the
noise times q^B, and B besides.  The mean of q^B is the product over the workplaces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eree.cells import Cell
from eree.errors import expect, how_many
from eree.estimate.sizes import Key, WorkerShares, WorkplaceSizes, steps, thinned
from eree.estimate.widths import Widths, expected_widths
from eree.mechanisms.mechanism import Mechanism
from eree.policy.neighbours import plain
from eree.policy.plain_data import guarantee_as_json
from eree.random.exact import Array
from eree.release.draw import PlannedTable
from eree.release.plan import Plan
from eree.workload import DropFrom, Marginal, SizeProfile

#: Sizes up to which errors are computed one by one; beyond, at steps of about 5%.
_EACH = 64
_CHUNK = 2_048
#: Plans of more tables are not told how wide intervals will be.
_MOST_TABLES = 30


@dataclass(frozen=True)
class Prediction:
    """How far the signed counts of a table's cells will be off.

    Attributes:
        mean_error: The mean absolute error.
        share: The sum of the errors, as a share of all jobs.
        why: Why nothing can be said, where that is so.

    Examples:
        >>> eree.Prediction(None, None, "sizes of workplaces are not known").words
        'no prediction: sizes of workplaces are not known'
    """

    mean_error: float | None
    share: float | None
    why: str = ""

    @property
    def words(self) -> str:
        """The prediction in words, or why there is none."""
        if self.mean_error is None or self.share is None:
            return f"no prediction: {self.why}"
        return f"predicted mean error {self.mean_error:.3g} a cell, in all {self.share:.2%} of jobs"


def predict(
    plan: Plan, table: PlannedTable, sizes: WorkplaceSizes, shares: WorkerShares | None = None
) -> Prediction:
    """The error of a table whose workplaces are as large as the public knows them to be.

    Where noise grows with a part of the largest workplace, as it does in worker cells under weak
    neighbours, or large workplaces are left out, `shares` say what part of the workers a cell has.
    """
    measurement = table.measurement
    made, statistics = measurement.mechanism, measurement.statistics
    if measurement.clips:
        return Prediction(None, None, "what clipping takes off depends on all sizes of a cell")
    # alone in its cell a workplace is all that the count has
    by_count = made.transform is not None
    alone = by_count and plan.schema.workplace.key in table.marginal.by
    if by_count and not alone:
        return Prediction(None, None, "its noise grows with the count, not with a workplace")
    for name in table.marginal.where:  # a filter by workplace may be one by size
        own = plan.schema.column(name).name == plan.schema.workplace.key
        if own and name not in sizes.attributes:
            return Prediction(None, None, f"the sizes are not given by {name}, its filter")
    touched = table.marginal.touches_workers(plan.schema)
    cut, decay = made.bound is not None, made.decay
    if cut and decay is None:
        return Prediction(None, None, "nothing is known of what its bound takes off")
    part = touched and (alone or cut or "largest" in statistics)
    if part and shares is None:
        return Prediction(None, None, "it needs the shares of workers in its cells (--shares)")
    names = sizes.attributes if shares is None else (*sizes.attributes, *shares.attributes)
    composition, kinds = _composition(plan, table.marginal, tuple(dict.fromkeys(names)))
    typical = [sizes.typical(tuple(kind[n] for n in sizes.attributes)) for kind in kinds]
    if part and shares is not None:
        of_kinds = [tuple(kind[name] for name in shares.attributes) for kind in kinds]
        parts = [shares.of_cells(plan.schema, table.marginal, kind) for kind in of_kinds]
    else:
        parts = [[1.0] * measurement.worker_cells for _ in kinds]
    grid = steps(max(float(of_kind[0][-1]) for of_kind in typical))
    if len(statistics) == 1 and not alone:
        errors = np.full(len(grid), made.mean_error(Cell(0))[0])
    else:
        counts = int(alone)
        errors = _errors(grid, lambda x: made.mean_error(Cell(counts * x, x))[0])
        errors = _between(grid, errors)
    total = 0.0
    columns = list(zip(*parts, strict=True))
    for column in sorted(set(columns)):
        if made.bound is not None and decay is not None:
            noise = made.mean_error(Cell(0))[0]
            means = _mean_cut(composition, typical, column, made.bound, noise, decay)
        else:
            up_to = [thinned(*typical[i], share, grid) for i, share in enumerate(column)]
            means = _mean_largest(composition, np.array(up_to), errors)
        total += columns.count(column) * float(means.sum())
    means = np.array([float(np.average(of, weights=numbers)) for of, numbers in typical])
    if part:
        means *= [sum(shares_of_kind) for shares_of_kind in parts]
    jobs = float((composition @ means).sum())
    if not jobs:
        return Prediction(None, None, "the sizes say that nobody works there")
    return Prediction(total / (len(composition) * len(columns)), total / jobs)


def _composition(
    plan: Plan, marginal: Marginal, names: tuple[str, ...]
) -> tuple[Array, list[dict[str, str]]]:
    """How many workplaces of every kind the cells have, and the attributes of each kind."""
    schema = plan.schema
    own = [name for name in marginal.by if schema.attributes[name].owner == "workplace"]
    kept = {
        name: values
        for name, values in marginal.where.items()
        if schema.column(name).owner == "workplace"
    }
    by = [*own, *(name for name in names if name not in own)]
    rows = plan.frame.workplaces_by(Marginal.over(schema, by, kept)).to_pydict()
    cells: dict[tuple[object, ...], int] = {}
    kinds: dict[Key, int] = {}
    places = []
    for i, number in enumerate(rows["_workplaces"]):
        cell = cells.setdefault(tuple(rows[name][i] for name in own), len(cells))
        kind = kinds.setdefault(tuple(str(rows[name][i]) for name in names), len(kinds))
        places.append((cell, kind, number))
    composition = np.zeros((len(cells), len(kinds)))
    for cell, kind, number in places:
        composition[cell, kind] += number
    return composition, [dict(zip(names, kind, strict=True)) for kind in kinds]


def _errors(grid: NDArray[np.int64], error: Callable[[int], float]) -> Array:
    """Errors at all sizes: one by one where they are small, interpolated where they are large."""
    top = int(grid[-1])
    known = list(range(min(_EACH, top) + 1))
    if top > _EACH:
        number = max(int(np.log(top / _EACH) / np.log(1.05)), 1)
        known += list(np.geomspace(_EACH, top, number + 1).astype(np.int64)[1:])
    at = np.unique(known)
    found: Array = np.interp(grid, at, np.array([error(int(x)) for x in at]))
    return found


def _between(grid: NDArray[np.int64], errors: Array) -> Array:
    """The error of sizes from each step of the grid on, to the next."""
    before = np.concatenate([errors[:1], errors[:-1]])
    wide = np.concatenate([[False], np.diff(grid) > 1])
    return np.where(wide, (before + errors) / 2, errors)


def _mean_largest(composition: Array, shares: Array, errors: Array) -> Array:
    """The mean error of every cell, its largest workplace being what it may be."""
    logs = np.log(np.maximum(shares, 1e-300))
    rows, back = np.unique(composition, axis=0, return_inverse=True)
    found = np.empty(len(rows))
    for start in range(0, len(rows), _CHUNK):
        some = rows[start : start + _CHUNK]
        up_to = np.exp(np.einsum("ck,kx->cx", some, logs))
        found[start : start + _CHUNK] = np.einsum(
            "cx,x->c", np.diff(up_to, axis=1, prepend=0.0), errors
        )
    return found[back.ravel()]


def _mean_cut(
    composition: Array,
    typical: Sequence[tuple[Array, Array]],
    shares: Sequence[float],
    bound: DropFrom,
    noise: float,
    decay: float,
) -> Array:
    """The mean error of every cell without its large workplaces, of whom it has such shares.

    Of x workers each is in the cell with the probability s, so that q^B has the mean
    (1 - s (1 - q))^x.
    """
    missing, left = np.zeros(len(typical)), np.zeros(len(typical))
    for kind, ((sizes, numbers), share) in enumerate(zip(typical, shares, strict=True)):
        large = sizes >= bound.theta
        fall = np.where(large, np.exp(sizes * np.log1p(share * np.expm1(-decay))), 1.0)
        missing[kind] = share * np.average(sizes * large, weights=numbers)
        left[kind] = np.log(max(np.average(fall, weights=numbers), 1e-300))
    means: Array = composition @ missing + noise * np.exp(composition @ left)
    return means


#: Workers of the one workplace in the typical cells whose error is shown.
TYPICAL = (1, 10, 100, 1_000)


@dataclass(frozen=True)
class TableAccuracy:
    """One table of a plan: what it is, what it costs, how accurate it will be.

    `errors` are mean absolute errors of cells of one workplace with 1, 10, 100 and 1,000 workers;
    `within` what the error of such cells stays within at the plan's level.  `counts` says whether
    it has numbers of jobs or of workplaces.  `predicted` is the error of the whole table, where
    public sizes of workplaces are known; `widths` are those of its calibrated intervals.  Tables
    of several marginals name all that they are `drawn_with`, for one price.
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
    counts: str
    predicted: Prediction | None = None
    widths: Widths | None = None
    drawn_with: tuple[str, ...] = ()

    @property
    def charged(self) -> bool:
        """Whether its price is counted here: of several of one draw, at the first."""
        return not self.drawn_with or self.name == self.drawn_with[0]

    def words(self, level: float) -> str:
        """Its errors on a line."""
        if self.counts == "workplaces":
            error, within = self.errors[1], self.within[1]
            return (
                f"mean error {error:.3g} workplaces, and {level:.0%} of numbers within {within:,}"
            )
        errors = "  ".join(
            f"{jobs:,}: {error:.3g} ({self.within[jobs]:,})" for jobs, error in self.errors.items()
        )
        return f"mean error, and {level:.0%} of cells within, by workers: {errors}"

    def lines(self, level: float) -> list[str]:
        """The table with its price and its errors; of several of one draw the price once."""
        price = f"epsilon {self.epsilon}{f', delta {self.delta}' * (self.delta != '0')}"
        cells = how_many(self.cells, "row" if self.counts == "workplaces" else "cell")
        lines = [self.words(level)]
        if self.predicted is not None:
            lines.append(self.predicted.words)
        if self.widths is not None:
            lines.append(self.widths.words)
            if self.widths.warning:
                lines.append(f"WARNING: {self.widths.warning}")
        elif not self.bounded:
            lines.append("intervals will have no high end")
        if not self.drawn_with:
            lines = [f"{price}; {self.mechanism}; {cells}", *filter(None, [self.note]), *lines]
            return [f"{self.name}: {self.what}", *(f"  {line}" for line in lines)]
        lines = [f"  {self.name}: {self.what}; {cells}", *(f"    {line}" for line in lines)]
        if self.charged:
            once = [
                f"{', '.join(self.drawn_with)}: marginals that are drawn at once",
                f"  {price} for all of them; {self.mechanism}; one total in every group",
                f"  {self.note.partition('; ')[0]}",
            ]
            lines = [*once, *lines]
        return lines


@dataclass(frozen=True, repr=False)
class ExpectedAccuracy:
    """What a plan costs and how accurate its tables will be; print it to read both."""

    plan: Plan
    tables: tuple[TableAccuracy, ...]

    def __repr__(self) -> str:
        return (
            f"<ExpectedAccuracy of {', '.join(table.name for table in self.tables)}: {self.plan}>"
        )

    def __str__(self) -> str:
        price, level = self.plan.price(), float(self.plan.level)
        lines = [line for table in self.tables for line in table.lines(level)]
        whole = f"In all: epsilon {plain(price.epsilon)}, delta {plain(price.delta)}"
        return "\n".join([*lines, whole])

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        price, jobs = self.plan.price(), self.plan.schema.job.counted
        return {
            "data_set": self.plan.schema.data_set,
            "period": self.plan.period,
            "about": self.plan.about.as_json(),
            "price": guarantee_as_json(price),
            "total": guarantee_as_json(self.plan.total),
            "level": str(self.plan.level),
            "statements": [statement.words for statement in price.statements(jobs=jobs)],
            "tables": [asdict(table) for table in self.tables],
        }


def expected_accuracy(
    plan: Plan,
    *,
    sizes: WorkplaceSizes | None = None,
    shares: WorkerShares | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> ExpectedAccuracy:
    """The accuracy of a plan's tables; of the data, only the public workplaces are counted.

    With public `sizes` of workplaces the error of every whole table is predicted; worker cells
    under weak neighbours need public `shares` of workers as well.

    Args:
        plan: A plan.
        sizes: Public numbers of workplaces by class of size.
        shares: Public shares of workers.
        progress: Called with a step and the share that is done.

    Examples:
        >>> plan = eree.Plan.read("plan.toml")
        >>> accuracy = eree.expected_accuracy(plan)
        >>> page = eree.memo(accuracy)
    """
    expect(plan, Plan, 'a plan, such as Plan.read("plan.toml")')
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
        of_jobs = not isinstance(table.marginal, SizeProfile)
        predicted = predict(plan, table, sizes, shares) if sizes is not None and of_jobs else None
        made = _table(plan, table, rows, errors, within, predicted)
        if len(plan.tables) <= _MOST_TABLES:
            made = replace(made, widths=expected_widths(plan, table, sizes))
        found.append(made)
    return ExpectedAccuracy(plan, tuple(found))


def _table(
    plan: Plan,
    table: PlannedTable,
    cells: int,
    errors: dict[int, float],
    within: dict[int, int],
    predicted: Prediction | None,
) -> TableAccuracy:
    measurement, level = table.measurement, float(plan.level)
    return TableAccuracy(
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
        "workplaces" if isinstance(table.marginal, SizeProfile) else "jobs",
        predicted,
        drawn_with=measurement.drawn_with,
    )
