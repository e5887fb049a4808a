"""What is learnt from the noisy counts of a draw: estimates of all its marginals at once.

Marginals of one draw count the same workers, and their noise goes together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import pi

import numpy as np
import pyarrow as pa

from eree.cells import Cell
from eree.estimate.agreement import UNIT
from eree.estimate.calibrated import ReleaseKey, calibrated_table
from eree.estimate.grids import classes_for
from eree.estimate.groups import Shown, ShrunkGroups
from eree.estimate.linking import links_of, rounded
from eree.estimate.measured import MeasuredTable
from eree.estimate.noise import noise_of_cells
from eree.mechanisms.mechanism import Mechanism
from eree.policy.schema import Schema
from eree.random.exact import Array, Integers
from eree.release.contents import SCALED_TO
from eree.release.release import Release
from eree.workload import Marginal

#: The size of workplace at which the noise of marginals is held against each other.
_LARGE = 10_000
#: Noise has heavy tails if its variance is so many times that of normal noise of its mean size.
_HEAVY = 2.0


@dataclass(frozen=True, eq=False)
class ShrunkDraw:
    """The estimates of all marginals of a draw, which have one total."""

    shown: Shown
    moments: Array  # means and variances, by group and cell
    noise: Array | None  # the variances of noise, where they are known
    correlations: Array

    def of(self, block: int) -> tuple[Array, Array | None, Array]:
        """Means and variances of one of them, the variances of its noise, and its correlations."""
        columns = self.shown.blocks[block]
        sets = np.cumsum([0, *(2 ** sum(v > 1 for v in shape) - 1 for shape in self.shown.shapes)])
        own = self.correlations[sets[block] : sets[block + 1]]
        noise = None if self.noise is None else self.noise[:, columns]
        return self.moments[:, :, columns], noise, own


@lru_cache(maxsize=2)
def shrunk_draw(key: ReleaseKey, drawn: tuple[str, ...]) -> ShrunkDraw:
    """Learn from all tables of a draw at once."""
    release = key.release
    tables = [MeasuredTable.read(release, name) for name in drawn]
    first, schema = tables[0], release.schema
    shapes = [worker_attributes(schema, table.marginal)[1] for table in tables]
    noisy = np.column_stack(
        [
            table.rows["noisy"].to_numpy().reshape(-1, table.measurement.worker_cells)
            for table in tables
        ]
    )
    groups = first.groups
    bounds = groups[SCALED_TO].to_numpy() if SCALED_TO in groups.column_names else None
    other = None if bounds is not None else _totals_elsewhere(release, first, drawn)
    of_totals, totals = other or (None, None)
    shown = Shown(shapes, _noise_together(tables), total=totals is not None)
    classed = classes_for(
        first.mechanism,
        noisy[:, shown.blocks[0]],
        groups["workplaces"].to_numpy(),
        bounds,
        of_totals,
    )
    kinds = kinds_of(groups, schema, first.marginal, 1)
    learnt = ShrunkGroups.learn(noisy, kinds, classed, shown, totals)
    known = [calibrated_table(release, name) for name in drawn]
    noise = None
    if all(one is not None for one in known):
        made = [one.calibrated for one in known if one is not None]
        each = zip(made, shown.blocks, strict=True)
        noise = np.column_stack(
            [
                np.repeat((one.widened**2 * one.variance)[:, None], own.stop - own.start, axis=1)
                for one, own in each
            ]
        )
    return ShrunkDraw(shown, np.stack(learnt.moments(noise)), noise, learnt.correlations[:, 0])


@lru_cache(maxsize=2)
def shrunk_cells(key: ReleaseKey, drawn: tuple[str, ...]) -> dict[str, Integers]:
    """The same for each table in hundredths of a job, which add up to one total."""
    tables = {name: MeasuredTable.read(key.release, name) for name in drawn}
    learnt = shrunk_draw(key, drawn)
    means = [learnt.of(i)[0][0].reshape(-1) for i in range(len(drawn))]
    whole = rounded(UNIT * np.concatenate(means), links_of(key.release, tables))
    return dict(
        zip(drawn, np.split(whole, np.cumsum([len(one) for one in means[:-1]])), strict=True)
    )


def _noise_together(tables: Sequence[MeasuredTable]) -> Array | None:
    """The covariance of the noise of all marginals of a draw, in units of the first one's variance.

    It is that of groups with a large workplace: noise goes by its size.  Given their sum the
    marginals are independent, and each of v cells has a v-th of it in the mean.
    """
    if len(tables) == 1:
        return None
    parts = [noise_of_cells(table.mechanism, (_LARGE,)) for table in tables]
    cells = [table.measurement.worker_cells for table in tables]
    variance, common = (
        [float(getattr(one, name)[0]) for one in parts] for name in ("variance", "covariance")
    )
    sums = [v * (one + (v - 1) * two) for v, one, two in zip(cells, variance, common, strict=True)]
    share = np.concatenate([np.full(v, 1 / v) for v in cells])
    found: Array = np.mean(sums) * np.outer(share, share)
    ends = np.cumsum([0, *cells]).tolist()
    for (start, stop), v, one, two in zip(pairwise(ends), cells, variance, common, strict=True):
        rest = (one - two) * (np.eye(v) - 1 / v)
        found[start:stop, start:stop] += rest
    return found / variance[0]


def _totals_elsewhere(
    release: Release, table: MeasuredTable, drawn: Sequence[str]
) -> tuple[Mechanism, Array] | None:
    """Noisy totals of the groups of a table, in another table of the same groups.

    They have the mean of their noise taken off; with them comes the mechanism that drew them.
    Where noise has heavy tails they are left aside: taken for normal, it would tell wrong.
    """
    if table.filtered:
        return None
    for other in release.tables:
        if other in drawn or release.of_workplaces(other):
            continue
        parts = MeasuredTable.read(release, other)
        if not parts.counts_workplaces or _heavy(parts.mechanism):
            continue
        known = calibrated_table(release, other)
        place = None if known is None else parts.within(table)
        if known is not None and place is not None and len(place) == len(table.groups):
            totals = np.empty(len(place))
            totals[place] = parts.rows["noisy"].to_numpy() - known.calibrated.bias()
            return parts.mechanism, totals
    return None


def _heavy(mechanism: Mechanism) -> bool:
    mean, deviation = mechanism.mean_error(Cell(_LARGE))
    return deviation**2 > _HEAVY * pi / 2 * mean**2


def worker_attributes(schema: Schema, counted: Marginal) -> tuple[list[str], list[int]]:
    """The worker attributes of a table, and how many values each has."""
    names = [name for name in counted.by if schema.attributes[name].owner == "worker"]
    return names, [len(schema.attributes[name].values or ()) for name in names]


def declared(schema: Schema, counted: Marginal) -> list[str]:
    """The workplace attributes of a table whose values the schema declares: they tell kinds."""
    known = schema.attributes
    return [
        name
        for name in counted.by
        if known[name].owner == "workplace" and known[name].values is not None
    ]


def kinds_of(rows: pa.Table, schema: Schema, counted: Marginal, cells: int) -> Integers:
    """The kind of every group, as a number from 0 on; a group has so many rows."""
    columns = [rows[name].to_pylist()[::cells] for name in declared(schema, counted)]
    groups = zip(*columns, strict=True) if columns else [()] * (rows.num_rows // cells)
    kinds: dict[tuple[object, ...], int] = {}
    numbers = [kinds.setdefault(key, len(kinds)) for key in groups]
    return np.array(numbers, dtype=np.int64)


def sets_of(workers: list[str], shape: list[int]) -> list[str]:
    """Names of the sets of worker attributes, in the order in which correlations are learnt."""
    found = [""]
    for name, values in zip(workers, shape, strict=True):
        found = [
            " × ".join(filter(None, (before, after)))
            for before in found
            for after in ("", name if values > 1 else None)
            if after is not None
        ]
    return [name for name in found if name]
