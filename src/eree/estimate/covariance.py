"""The covariance of the noise of all tables of a release, one draw after another.

Cells of a group that are drawn at once are exchangeable, and given the sum of their noise the
marginals of a draw are independent of each other.  So the noise of the i-th of v cells of a
marginal is T / v + R_i: T, the sum, is common to all marginals of the draw, the rest adds up to
zero, and all of these are uncorrelated.  Two variances say everything about a group: that of the
sum, and v / (v - 1) times that of the rest of one cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eree.estimate.calibrated import calibrated_table, common_sizes
from eree.estimate.largest import distinct, prior_of_largest
from eree.estimate.measured import MeasuredTable
from eree.estimate.noise import noise_of_cells
from eree.estimate.size_distribution import SizeDistribution
from eree.random.exact import Array
from eree.release.release import Release

#: The noise of a table of which little is known is taken to be so many times its jobs.
_LITTLE_KNOWN = 1e3


@dataclass(frozen=True, eq=False)
class Block:
    """The cells of one marginal: where they start, how many a group has, and their own variance."""

    start: int
    cells: int
    rest: Array

    @property
    def stop(self) -> int:
        """Where the next block starts."""
        return self.start + self.cells * len(self.rest)

    def of(self, values: Array) -> Array:
        """Its part of the values of all cells, by group and cell; columns are values apart."""
        return values[self.start : self.stop].reshape(len(self.rest), self.cells, -1)


@dataclass(frozen=True, eq=False)
class DrawnNoise:
    """The noise of the marginals of one draw; `total` is the variance of the sum of a group."""

    total: Array
    blocks: Sequence[Block]


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance matrix of the noise of all cells: it is multiplied with, never written out."""

    draws: Sequence[DrawnNoise]

    @cached_property
    def diagonal(self) -> Array:
        """The variances of all cells."""
        found = np.empty(max(block.stop for draw in self.draws for block in draw.blocks))
        for draw in self.draws:
            for block in draw.blocks:
                own = draw.total / block.cells**2 + block.rest * (1 - 1 / block.cells)
                found[block.start : block.stop] = np.repeat(own, block.cells)
        return found

    def times(self, values: Array) -> Array:
        """The product with columns of values."""
        found = np.empty_like(values)
        for draw in self.draws:
            means = [block.of(values).mean(1) for block in draw.blocks]
            common = draw.total[:, None] * np.add.reduce(means)
            for block, mean in zip(draw.blocks, means, strict=True):
                rest = block.rest[:, None, None] * (block.of(values) - mean[:, None])
                block.of(found)[:] = rest + common[:, None] / block.cells
        return found

    def root(self, values: Array, sums: Sequence[Array]) -> Array:
        """Noise with this covariance, of numbers that are independent and have the variance 1.

        `values` has one for each cell, `sums` one for each group of a draw.
        """
        found = np.empty_like(values)
        for draw, own in zip(self.draws, sums, strict=True):
            common = np.sqrt(draw.total)[:, None] * own
            for block in draw.blocks:
                away = block.of(values) - block.of(values).mean(1, keepdims=True)
                rest = np.sqrt(block.rest)[:, None, None] * away
                block.of(found)[:] = rest + common[:, None] / block.cells
        return found


# ------------------------------------------------------------------ how large the noise is

#: For a table: the variance of the noise of a cell of each group, and the covariance of two.
_Variances = Callable[[str, MeasuredTable], tuple[Array, Array]]


def public_covariance(release: Release, tables: Mapping[str, MeasuredTable]) -> Covariance:
    """The covariance of tables one after another by public facts alone.

    These are the number of workplaces of a cell, their kind, and the sizes that such workplaces
    have in general.
    """
    sizes = common_sizes(release)
    return _covariance(tables, lambda _, table: _prior(sizes, table))


def calibrated_covariance(release: Release, tables: Mapping[str, MeasuredTable]) -> Covariance:
    """The same by all that is known, the noisy counts too, as calibrated intervals have it."""
    sizes = common_sizes(release)

    def known(name: str, table: MeasuredTable) -> tuple[Array, Array]:
        found = calibrated_table(release, name)
        if found is None:
            return _prior(sizes, table)
        made, square = found.calibrated, found.calibrated.widened**2
        variance, covariance = (
            square * each[made.points].mean(1)
            for each in (made.noise.variance, made.noise.covariance)
        )
        cells = table.measurement.worker_cells
        if made.cells == cells:
            return variance, covariance
        return variance.reshape(-1, cells).mean(1), covariance.reshape(-1, cells).mean(1)

    return _covariance(tables, known)


def _covariance(tables: Mapping[str, MeasuredTable], variances: _Variances) -> Covariance:
    draws: dict[tuple[str, ...], list[tuple[Array, Block]]] = {}
    start = 0
    for name, table in tables.items():
        cells = table.measurement.worker_cells
        variance, covariance = variances(name, table)
        total = np.maximum(cells * (variance + (cells - 1) * covariance), 1e-9)
        block = Block(start, cells, np.maximum(variance - covariance, 0.0))
        start = block.stop
        draws.setdefault(table.measurement.drawn_with or (name,), []).append((total, block))
    return Covariance(
        [
            DrawnNoise(np.mean([total for total, _ in parts], axis=0), [own for _, own in parts])
            for parts in draws.values()
        ]
    )


def _prior(sizes: SizeDistribution, table: MeasuredTable) -> tuple[Array, Array]:
    """Variances by public facts alone; large ones where a mechanism leaves jobs out.

    The noise of a cell is taken to be as large as it is on average, not its variance, which a few
    large workplaces make up: what tables differ by would be spread over cells that are far smaller.
    """
    own, groups = sizes.told_apart_by(table.attributes), table.groups
    workplaces, kinds = groups["workplaces"].to_numpy(), own.rows_of(groups)
    first, which = distinct(workplaces, kinds)
    jobs = (own.shares @ own.sizes)[kinds[first]] * workplaces[first]
    if table.measurement.clips or table.mechanism.bound is not None:
        return (_LITTLE_KNOWN * (1 + jobs) ** 2)[which], np.zeros(len(groups))
    noise = noise_of_cells(table.mechanism, tuple(own.sizes.tolist()))
    if table.noise_by_size:
        share = prior_of_largest(own, workplaces[first], kinds[first], anyhow=0.0)
    else:  # noise goes by the count itself, or is the same everywhere
        count = jobs / table.measurement.worker_cells
        share = np.eye(len(own.sizes))[np.searchsorted(own.least[1:], count, side="right")]
    scale = (share @ np.sqrt(noise.variance)) ** 2
    common = np.divide(share @ noise.covariance, share @ noise.variance)
    return scale[which], (scale * common)[which]
