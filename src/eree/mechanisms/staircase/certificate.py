"""The worst privacy loss of a mechanism with a density for each size, over all neighbours.

This file does not know why distributions are as they are.  It looks at the densities that are drawn
from and rounded: plateaus, for each size up to one from which on all distributions are one and the
same shape, scaled with the size.  Sizes that share a distribution are looked at together, as a bin;
which bin a size has is checked for all small sizes and some large ones.  The pieces of every bin
are compared with more precise ones as far out as a probability of about e^-10, and those of some
bins with the exact probabilities that outputs are drawn by.

- All pairs of bins are looked at that a workplace can join by growing: those of which a size x and
  a size x' have x <= x' <= x + max(floor(alpha x), 1).  From the size on where all distributions
  are alike, one bin and those above it that one step leads to stand for all.
- With that the count grows by any d from 0 to the most that can have joined where x' is the largest
  size.  That is more than cells of workplace attributes have, of which d >= x' - x, and all that
  worker cells have under strong neighbours.
- For a piece of the one distribution and all d at once, the pieces of the other one that can stand
  at the same output are a run of neighbouring ones: the greatest and the least of them give both
  losses.

The pieces extend so far out that a probability of about e^-23 is left beyond.  Of three bins, and
all that a step joins to them, more pieces are made, until no output lies beyond; `far_loss` does
the same for any.  What is left to the theorem are outputs of the other bins that are rarer than
that.  Edges that differ by less than 2^-42 of themselves are one and the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, inf, log, log1p
from typing import Protocol

import numpy as np
from flint import arb

from eree.cells import Cell
from eree.mechanisms.certificate import NEVER, Certificate, Probabilities, worst_of
from eree.mechanisms.mechanism import LIMIT
from eree.mechanisms.staircase.density import StaircaseDensities
from eree.mechanisms.staircase.exact_density import Side
from eree.mechanisms.staircase.pieces import Table
from eree.mechanisms.staircase.size_grid import SizeGrid
from eree.random.exact import Array

_SAME = 2.0**-42
#: Of all distributions the pieces are held against exact ones, up to the steps beyond which less
#: than about e to minus this is left.
_DEPTH = 10.0
#: Bits for the probabilities of cells near the worst pair, none of which is far out.
_BITS = 128
#: Doubles are off by less than this share of a logarithm.
_ROUNDING = 2.0**-40


class StaircaseProbabilities(Probabilities, Protocol):
    """A mechanism with such distributions."""

    @property
    def alpha(self) -> Fraction:
        """The share by which a workplace may grow in one step."""

    @property
    def densities(self) -> StaircaseDensities:
        """The distributions of all sizes."""

    def tail(self, _cell: Cell, distance: int, side: int) -> arb:
        """The tail of the noise."""


@dataclass(frozen=True)
class Loss:
    """The greatest loss found, between which bins, and where as seen from the old count."""

    found: float
    before: int
    after: int
    position: float


def certify_staircase(mechanism: StaircaseProbabilities) -> Certificate:
    """The certificate of a mechanism with a distribution for each size."""
    loss = worst_loss(mechanism)
    far = far_loss(mechanism, some_bins(mechanism.densities))
    sound = probabilities_agree(mechanism)
    pair = worst_of(mechanism, _cells_like(mechanism, loss), bits=_BITS)
    return Certificate.pure(
        mechanism, Fraction(max(loss.found, far.found)) if sound else NEVER, pair
    )


def worst_loss(mechanism: StaircaseProbabilities) -> Loss:
    """The greatest loss over all neighbouring sizes and all growths of the count."""
    densities = mechanism.densities
    plateaus = [
        _Plateaus.of(table) for table in densities.tables(np.arange(densities.levels.last + 1))
    ]
    return _worst(mechanism, range(len(plateaus)), plateaus.__getitem__)


def far_loss(mechanism: StaircaseProbabilities, bins: Iterable[int]) -> Loss:
    """The greatest loss of some bins before a step, over all outputs there are.

    For all bins up to `levels.last` nothing is left to a theorem; that takes minutes.
    """
    densities = mechanism.densities

    @lru_cache(maxsize=128)  # enough for all bins that a step leads to
    def plateaus_of(size_bin: int) -> _Plateaus:
        (table,) = densities.tables(np.array([size_bin]))
        return _Plateaus.whole(table, *densities.whole_sides(size_bin, 4.0 * LIMIT))

    return _worst(mechanism, bins, plateaus_of)


def some_bins(densities: StaircaseDensities) -> list[int]:
    """Bins for which a certificate looks at all outputs."""
    return [0, densities.grid.bin_of(ceil(2 / densities.grid.alpha)), densities.levels.last]


def _worst(
    mechanism: StaircaseProbabilities, bins: Iterable[int], plateaus_of: Callable[[int], _Plateaus]
) -> Loss:
    """The greatest loss over all neighbours of some bins."""
    densities, worst = mechanism.densities, Loss(0.0, 0, 0, 0.0)
    for before, after, joined in _neighbours(mechanism.alpha, densities, bins):
        shape, more = densities.shape_of(after)
        new = (
            plateaus_of(shape)
            if not more
            else plateaus_of(shape).scaled(float(densities.grid.ratio) ** more)
        )
        loss, position = _loss(plateaus_of(before), new, joined)
        if loss > worst.found:
            worst = Loss(loss, before, after, position)
    found = worst.found * (1 + _ROUNDING) + _ROUNDING
    return Loss(found, worst.before, worst.after, worst.position)


def _neighbours(
    alpha: Fraction, densities: StaircaseDensities, bins: Iterable[int]
) -> Iterator[tuple[int, int, float]]:
    """Some bins, those that a step joins to each, and the most by which the count then grows."""
    grid, last = densities.grid, densities.levels.last
    first = grid.first_large
    most = last + 2 * grid.per_step + 2
    tops = grid.numbers(most).top
    joined = [_most_joined(alpha, grid, i, float(tops[i])) for i in range(most)]
    for before in bins:
        top = float(tops[before])
        grown = (
            top + max(floor(alpha * int(top)), 1) if before < first else top * (1 + float(alpha))
        )
        after = before
        # the bin above begins right after this one's top: with the next integer if it is one
        while after == before or (
            tops[after - 1] + 1 <= grown
            if after <= first
            else tops[after - 1] < grown * (1 - _SAME)
        ):
            yield before, after, joined[after]
            after += 1


def _most_joined(alpha: Fraction, grid: SizeGrid, size_bin: int, top: float) -> float:
    """The most who can have joined a workplace that then is no larger than the top of a bin."""
    if size_bin >= grid.first_large:
        return top * float(alpha / (1 + alpha))
    size, joined = int(top), 1
    while joined < size and joined + 1 <= alpha * (size - joined - 1):
        joined += 1
    return joined


@dataclass(frozen=True, eq=False)
class _Plateaus:
    """Edges of the pieces of a density, logarithms of their levels, and where the centre is."""

    edges: Array
    log_level: Array
    centre: int
    highest: float

    @classmethod
    def of(cls, table: Table) -> _Plateaus:
        return cls._made(table.edges, np.log(table.density))

    @classmethod
    def whole(cls, table: Table, right: Side, left: Side) -> _Plateaus:
        """The centre of a table, with plateaus that lead further out."""
        middle = int(np.searchsorted(table.edges, 0.0))
        centre = table.edges[middle - 1 : middle + 1]
        edges = np.concatenate([-left.edge[::-1], centre, right.edge])
        inside = np.log(table.density[middle - 1 : middle])
        return cls._made(edges, np.concatenate([left.log_density[::-1], inside, right.log_density]))

    @classmethod
    def _made(cls, edges: Array, log_level: Array) -> _Plateaus:
        centre = int(np.searchsorted(edges, 0.0)) - 1
        falling = (np.diff(log_level[:centre]) >= 0).all() and (
            np.diff(log_level[centre + 1 :]) <= 0
        ).all()
        return cls(edges, log_level, centre, float(log_level.max()) if falling else inf)

    def scaled(self, scale: float) -> _Plateaus:
        return _Plateaus(
            self.edges * scale, self.log_level - log(scale), self.centre, self.highest - log(scale)
        )


def _loss(old: _Plateaus, new: _Plateaus, joined: float) -> tuple[float, float]:
    """The greatest loss between two distributions, where the count grows by 0 to `joined`."""
    low, high = old.edges[:-1], old.edges[1:]
    start = np.maximum(low - joined, new.edges[0])
    end = np.minimum(high, new.edges[-1])
    start, end = start + np.abs(start) * _SAME, end - np.abs(end) * _SAME
    some = start < end
    log_level = old.log_level[some]
    a = np.searchsorted(new.edges, start[some], side="right") - 1
    b = np.searchsorted(new.edges, end[some], side="left") - 1
    ends = new.log_level[a], new.log_level[b]
    within = (a <= new.centre) & (b >= new.centre)
    most = np.where(within, new.highest, np.maximum(*ends))
    least = np.minimum(*ends)
    least = np.where(within, np.minimum(least, new.log_level[new.centre]), least)
    loss = np.maximum(log_level - least, most - log_level)
    i = int(loss.argmax())
    return float(loss[i]), float((low[some][i] + high[some][i]) / 2)


def probabilities_agree(mechanism: StaircaseProbabilities) -> bool:
    """Whether exact probabilities agree with the densities looked at, and add up to one."""
    densities = mechanism.densities
    grid, last = densities.grid, densities.levels.last
    first = grid.first_large
    bins = {0, first // 15, first // 5, first // 2, first, last, last + 7}
    tops = grid.numbers(last + 8).top
    sizes = np.unique(np.append(np.arange(floor(tops[first])), np.floor(tops).astype(np.int64)))
    wanted = np.searchsorted(tops * (1 + _SAME), sizes)
    if (grid.bins_of(sizes) != wanted).any():  # draws look sizes up by this
        return False
    if not _pieces_agree(densities):
        return False
    for size_bin in bins:
        size = floor(tops[size_bin])
        if grid.bin_of(size) != size_bin:  # and probabilities by this
            return False
        shape, _ = densities.shape_of(size_bin)
        (table,) = densities.tables(np.array([shape]))
        scale = densities.scale(size_bin)
        for side in (1, -1):
            edges = side * table.edges[::side] * scale
            masses = (table.density * np.diff(table.edges))[::side]
            for share in (0.0, 1.0, 2.5, 6.0):
                k = ceil(1 + share * float(grid.numbers(size_bin + 1).cap[size_bin]))
                inside = np.clip((edges[1:] - (k - 0.5)) / np.diff(edges), 0.0, 1.0)
                seen = float((inside * masses).sum())
                exact = float(mechanism.tail(Cell(size), k, side))
                if abs(seen - exact) > 1e-7 * exact + table.tail_bound + 1e-13:
                    return False
    return True


def _pieces_agree(densities: StaircaseDensities) -> bool:
    """Whether the pieces of every distribution are right up to some steps, and add up to one.

    Probabilities from the centre up to each edge are compared with those of more precise pieces.
    """
    bins = np.arange(densities.levels.last + 1)
    tables = densities.tables(bins)
    steps = ceil(_DEPTH / (float(densities.drop) - log1p(float(densities.grid.alpha))))
    for size_bin, sides in densities.first_pieces(bins, steps):
        table = tables[size_bin]
        masses = table.density * np.diff(table.edges)
        total = np.append(0.0, np.cumsum(masses))
        if abs(total[-1] - 1) > 1e-11:
            return False
        for (edges, density), side in zip(sides, (1, -1), strict=True):
            probabilities = np.cumsum(density * np.diff(edges)).astype(np.float64)
            at = side * edges.astype(np.float64)
            seen = np.abs(np.diff(np.interp(at, table.edges, total)).cumsum())
            if (np.abs(seen - probabilities) > 1e-9 * probabilities + 1e-13).any():
                return False
    return True


def _cells_like(
    mechanism: StaircaseProbabilities, loss: Loss
) -> Iterator[tuple[Cell, Cell, list[int]]]:
    """Cells of one workplace that grows, or of which another one does, and outputs."""
    alpha, grid = mechanism.alpha, mechanism.densities.grid
    tops = grid.numbers(max(loss.before, loss.after) + 1).top
    worst = floor(tops[loss.before])
    for size in sorted({0, worst}):
        joined = max(floor(alpha * size), 1)
        other = floor(_most_joined(alpha, grid, grid.bin_of(size), size))
        spot = size + round(loss.position)
        outputs = [size, size + joined, size - 1, size + 2 * joined + 1]
        if size == worst:
            outputs += [spot - 1, spot, spot + 1, spot + joined]
        yield Cell(size), Cell(size + joined, size + joined), outputs
        yield Cell(size + other, size), Cell(size + 2 * other, size), outputs
