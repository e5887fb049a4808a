"""How wide calibrated intervals will be, before anything is paid or a confidential row is read.

Sizes of workplaces are drawn for the public workplaces of every cell, from public numbers of
workplaces by size or, where there are none, from a distribution that is like most, and noise for
the cells; what intervals would make of such noisy counts says the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from eree.estimate.calibration import Calibrated
from eree.estimate.evidence import Evidence
from eree.estimate.noise import NoiseBySize, noise_of_cells, noise_of_groups
from eree.estimate.rank import own_ranks
from eree.estimate.size_distribution import SizeDistribution, usual_sizes
from eree.estimate.sizes import WorkplaceSizes
from eree.random.exact import Array, Integers
from eree.random.source import SeededRandom
from eree.release.draw import PlannedTable
from eree.release.plan import Plan
from eree.workload import Marginal, SizeProfile

_SEED = 1
#: Fewer areas are not ranked; a ranking is of no use if a rank is uncertain by this share of them.
_LEAST_AREAS, _USELESS = 10, 0.2
#: Tables of more workplaces than this are not looked at in advance.
_MOST_WORKPLACES = 20_000_000


@dataclass(frozen=True)
class Widths:
    """Mean half-widths of calibrated intervals as shares of the jobs, and spans of ranks.

    `sums` and `ranks` are by attribute; of ranks there is the mean number that an area's own may
    be, and the number of areas.  `assumed` says whether sizes were, for want of public ones.
    """

    cells: float
    sums: dict[str, float]
    ranks: dict[str, tuple[float, int]]
    assumed: bool

    @property
    def words(self) -> str:
        """All on a line."""
        each = [f"cells ±{_share(self.cells)}"]
        each += [f"sums by {name} ±{_share(width)}" for name, width in self.sums.items()]
        each += [
            f"ranks by {name} {span:,.0f} of {areas:,} wide"
            for name, (span, areas) in self.ranks.items()
        ]
        sizes = " if sizes are as most are" if self.assumed else ""
        return f"calibrated intervals{sizes}: {', '.join(each)}"

    @property
    def warning(self) -> str:
        """What the table will be of no use for; empty where nothing has to be said."""
        useless = [name for name, (span, n) in self.ranks.items() if span > _USELESS * n]
        return f"too wide to rank by {' or by '.join(useless)}" if useless else ""


def expected_widths(
    plan: Plan, table: PlannedTable, public: WorkplaceSizes | None = None
) -> Widths | None:
    """The widths of a table's intervals; None where its noise does not go by sizes alone."""
    measurement, marginal, schema = table.measurement, table.marginal, plan.schema
    mechanism = measurement.mechanism
    if isinstance(marginal, SizeProfile) or measurement.clips or mechanism.bound is not None:
        return None
    if mechanism.transform is not None or plan.frame is None:
        return None
    sizes = usual_sizes() if public is None else SizeDistribution.from_public(public)
    own = [name for name in marginal.by if schema.attributes[name].owner == "workplace"]
    kept = {n: v for n, v in marginal.where.items() if schema.attributes[n].owner == "workplace"}
    groups = plan.frame.workplaces_by(Marginal.over(schema, own, kept))
    number: Integers = groups["_workplaces"].to_numpy()
    if not number.sum() or number.sum() > _MOST_WORKPLACES:
        return None
    dist = sizes.told_apart_by(tuple(own))
    counts, largest = _drawn(dist, dist.rows_of(groups), number)
    known, cells = tuple(sizes.sizes.tolist()), measurement.worker_cells
    noise, of_groups = noise_of_cells(mechanism, known), noise_of_groups(mechanism, known, cells)
    classes = np.searchsorted(sizes.least, largest, side="right") - 1
    noisy = counts + _noise(of_groups, classes, 1)
    told = dist.told_apart_by(_told_apart(plan, tuple(own)))
    seen = Evidence(number, told.rows_of(groups), noisy, of_groups)
    if len(kept) < len(marginal.where):  # all workers are not counted: nothing is learnt
        seen = Evidence(number, told.rows_of(groups))
    made = Calibrated(noise, seen.points(told, noise.variance), cells)
    level = float(plan.level)
    each = np.repeat(counts // cells, cells) + _noise(noise, np.repeat(classes, cells), 2)
    low, high = (np.maximum(end, 0) for end in made.cell_ends(each, level))
    jobs = max(float(counts.sum()), 1.0)
    sums, ranks = {}, {}
    for name in own if len(marginal.by) > 1 else ():
        width, ranked = _of_areas(made, groups[name], counts, level)
        sums[name] = width / jobs
        if ranked is not None:
            ranks[name] = ranked
    return Widths(float((high - low).sum()) / 2 / jobs, sums, ranks, public is None)


def _drawn(sizes: SizeDistribution, kinds: Integers, number: Integers) -> tuple[Integers, Integers]:
    """All jobs and the largest workplace of cells whose workplaces have sizes at random."""
    of_each = np.repeat(kinds, number)
    drawn = np.empty(len(of_each), dtype=np.int64)
    uniform = _uniform(len(of_each))
    for kind in np.unique(kinds):
        here = of_each == kind
        place = np.searchsorted(sizes.up_to[kind], uniform[here])
        drawn[here] = sizes.sizes[np.minimum(place, len(sizes.sizes) - 1)]
    starts = np.cumsum(number) - number
    return np.add.reduceat(drawn, starts), np.maximum.reduceat(drawn, starts)


def _told_apart(plan: Plan, own: tuple[str, ...]) -> tuple[str, ...]:
    """By what sizes will be told apart: as a profile of the release has them, if there is one."""
    profiles = (t.marginal.by for t in plan.tables if isinstance(t.marginal, SizeProfile))
    return next(profiles, own)


def _noise(noise: NoiseBySize, classes: Integers, stream: int) -> Integers:
    """Some noise for cells whose largest workplace is of some classes."""
    place = (_uniform(len(classes), stream) * noise.draws.shape[1]).astype(np.int64)
    found: Integers = np.rint(noise.draws[classes, place]).astype(np.int64)
    return found


def _uniform(number: int, stream: int = 0) -> Array:
    """Numbers between 0 and 1, the same ones every time."""
    return SeededRandom(_SEED + stream).words(number) / 2.0**64


def _of_areas(
    made: Calibrated, values: pa.ChunkedArray[Any], counts: Integers, level: float
) -> tuple[float, tuple[float, int] | None]:
    """The sum of the half-widths of areas, and what their ranks may be."""
    codes = np.unique(np.array(values.to_pylist(), dtype=object).astype(str), return_inverse=True)[
        1
    ]
    order = np.argsort(codes, kind="stable")
    groups = np.flatnonzero(np.diff(codes[order], prepend=-1))
    cells = (order[:, None] * made.cells + np.arange(made.cells)).ravel()
    starts = groups * made.cells
    totals: Array = np.add.reduceat(counts[order], groups).astype(np.float64)
    far = np.rint(totals).astype(np.int64) + 10**9  # nothing is cut off at zero
    low, high = made.sum_ends(far, cells, starts, level)
    width = float((high - low).sum()) / 2
    if len(totals) < _LEAST_AREAS:
        return width, None
    deviation = np.sqrt(made.moments(cells, starts).variance)
    best, worst = own_ranks(totals, deviation, low - 10**9, high - 10**9, level)
    return width, (float((worst - best + 1).mean()), len(totals))


def _share(width: float) -> str:
    return f"{width:.1%}" if width >= 0.001 else f"{width:.2%}"
