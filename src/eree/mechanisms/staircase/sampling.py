"""Draws of the staircase: many cells at once in doubles, the few left undecided exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb
from numpy.typing import NDArray

from eree.mechanisms.staircase.density import StaircaseDensities
from eree.mechanisms.staircase.pieces import Table
from eree.mechanisms.staircase.size_grid import Bins
from eree.random.exact import Array, Integers, Verdict, Words, sure_less

#: Probabilities below this are left to interval arithmetic: 64 bits say too little of their place.
_COARSE = 2.0**-24
#: A bound of the error of probabilities and edges in doubles, as a share of themselves.
_OFF = 2.0**-40
#: The same where tables lie end to end in one list, for all bins together.
_OFF_IN_LIST = 2.0**-42
#: So many first bits of a word decide most draws of small workplaces.
_BITS = 12
#: A bin that fewer cells have is not worth a row of decided draws.
_WORTH = 1 << _BITS - 4
_UNDECIDED = np.iinfo(np.int32).min


@dataclass(frozen=True, eq=False)
class StaircaseNoise:
    """The noise of some cells, each with the distribution of its bin.

    Recipe: the integer nearest to the point below which the probability is U.  In doubles the lower
    half of U is looked up from below and the upper one from above, so that small probabilities keep
    their digits; a cumulative probability is known to within 2^-40 of itself, and to within what
    lies beyond the pieces.  Where all U with the same first bits lead to one integer, it is looked
    up by these bits.
    """

    densities: StaircaseDensities
    sizes: Integers
    uniforms = 1

    @cached_property
    def _bins(self) -> Bins:
        return self.densities.grid.bins_of(self.sizes)

    @cached_property
    def _pieces(self) -> _Pieces:
        """The tables of all bins that the cells have, and which of them each cell has."""
        shapes = np.minimum(self._bins, self.densities.levels.last)
        distinct = np.flatnonzero(np.bincount(shapes))
        return _Pieces(self.densities.tables(distinct), np.searchsorted(distinct, shapes))

    @cached_property
    def _decided(self) -> tuple[NDArray[np.int32], Bins]:
        """Integers by the first bits of a word, and the row of each cell; the last has none."""
        bins = np.where(self._bins > self.densities.levels.last, 0, self._bins)
        count = np.bincount(bins)
        count[0] = np.count_nonzero(self._bins == 0)
        worth = np.flatnonzero(count >= _WORTH)
        rows = self.densities.__dict__.setdefault("_decided", {})
        for size_bin, table in zip(worth.tolist(), self.densities.tables(worth), strict=True):
            if size_bin not in rows:
                rows[size_bin] = _decided(table)
        none = np.full(1 << _BITS, _UNDECIDED, dtype=np.int32)
        row_of = np.full(max(len(count), 1), len(worth))
        row_of[worth] = np.arange(len(worth))
        of_cells = np.where(self._bins > self.densities.levels.last, len(worth), row_of[bins])
        return np.stack([*(rows[size_bin] for size_bin in worth.tolist()), none]), of_cells

    def fast(self, words: Words, cells: NDArray[np.intp]) -> tuple[Integers, NDArray[np.int8]]:
        """Values and verdicts; nothing is ever rejected."""
        decided, row = self._decided
        values = decided[row[cells], words[0] >> np.uint64(64 - _BITS)].astype(np.int64)
        verdicts = np.full(len(cells), Verdict.ACCEPT, dtype=np.int8)
        rest = np.flatnonzero(values == _UNDECIDED)
        if rest.size:
            values[rest], verdicts[rest] = self._looked_up(words[0][rest], cells[rest])
        return values, verdicts

    def _looked_up(self, word: Words, cells: NDArray[np.intp]) -> tuple[Integers, NDArray[np.int8]]:
        """The same from the tables."""
        upper = word >> np.uint64(63) == 1
        probability = (np.where(upper, ~word, word).astype(np.float64) + 0.5) * 2.0**-64
        which = self._pieces.of_cells[cells]
        bins = self._bins[cells]
        more = np.maximum(bins - self.densities.levels.last, 0)
        scale = float(self.densities.grid.ratio) ** more
        point, error, doubt = np.empty(len(cells)), np.empty(len(cells)), probability < _COARSE
        for top in (False, True):
            some = np.flatnonzero(upper == top)
            if some.size:
                point[some], error[some], unsure = self._pieces.points(
                    which[some], probability[some], top
                )
                doubt[some] |= unsure
        place = point * scale
        nearest = np.rint(place)
        off = (error + np.abs(point) * _OFF) * scale
        doubt |= ~(0.5 - np.abs(place - nearest) >= off)
        values = np.where(doubt, 0, nearest).astype(np.int64)
        return values, np.where(doubt, Verdict.DOUBT, Verdict.ACCEPT).astype(np.int8)

    def slow(self, uniforms: Sequence[arb], cell: int) -> int:
        """The same in interval arithmetic, by bisection of the exact probabilities."""
        uniform, size_bin = uniforms[0], int(self._bins[cell])
        # the probability up to -1/2 is below it
        inside = uniform - self.densities.tail(1, -1, size_bin)
        if sure_less(inside, arb(0)):
            return -self._furthest(uniform, -1, size_bin)
        rest = 1 - uniform
        if sure_less(self.densities.tail(1, 1, size_bin), rest):
            return 0
        return self._furthest(rest, 1, size_bin)

    def _furthest(self, probability: arb, side: int, size_bin: int) -> int:
        """The greatest value whose tail has more than a probability."""
        low, high = 1, 2
        while sure_less(probability, self.densities.tail(high, side, size_bin)) and high < 1 << 63:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            if sure_less(probability, self.densities.tail(middle, side, size_bin)):
                low = middle
            else:
                high = middle
        return low

    def tail(self, value: int, side: int, cell: int) -> arb:
        """The probability that the noise is at least `value` >= 1 on a side."""
        return self.densities.tail(value, side, int(self._bins[cell]))


class _Pieces:
    """The pieces of some tables end to end, so that cells of all of them are looked up at once.

    For each side, from the furthest piece inwards: the number of the table plus the probability
    outside of the piece, in order; that probability by itself, the edge there, and the density.
    """

    def __init__(self, tables: Sequence[Table], of_cells: Bins) -> None:
        self.of_cells = of_cells
        self._tail_bounds = np.array([table.tail_bound for table in tables])
        self._sides = {top: _end_to_end(tables, top) for top in (False, True)}

    def points(
        self, which: Bins, probability: Array, top: bool
    ) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Where a probability is outside, from below or from the top; and how sure that is."""
        key, outside, edge, density = self._sides[top]
        i = np.searchsorted(key, which + probability, side="right") - 1
        rest = (probability - outside[i]) / density[i]
        point = edge[i] - rest if top else edge[i] + rest
        off = probability * _OFF + self._tail_bounds[which]
        following = outside[np.minimum(i + 1, len(outside) - 1)]
        following = np.where(following > outside[i], following, np.inf)  # the next table's is 0
        near = np.minimum(probability - outside[i], following - probability)
        return point, off / density[i], near < np.maximum(off, _OFF_IN_LIST)


def _end_to_end(tables: Sequence[Table], top: bool) -> tuple[Array, Array, Array, Array]:
    outside = np.concatenate([t.above[::-1] if top else t.below for t in tables])
    number = np.repeat(np.arange(float(len(tables))), [len(t.density) for t in tables])
    edge = np.concatenate([t.edges[:0:-1] if top else t.edges[:-1] for t in tables])
    density = np.concatenate([t.density[::-1] if top else t.density for t in tables])
    return number + outside, outside, edge, density


def _decided(table: Table) -> NDArray[np.int32]:
    """For each of the first bits of a word the integer that all such words lead to, if it is one.

    The integers at both ends of the run of words are compared, each moved by the error that it may
    have: in between no other can lie, because the point only rises with U.
    """
    half = np.arange(1, 1 << _BITS - 1) * 2.0**-_BITS  # all ends of runs but 0, 1/2 and 1
    pieces = _Pieces([table], np.zeros(1, dtype=np.intp))
    ends = np.append(half, 0.5)
    lows, highs = [], []
    for top in (False, True):
        point, error, _ = pieces.points(np.zeros(len(ends), dtype=np.intp), ends, top)
        off = error + np.abs(point) * _OFF + 2.0**-30
        lows.append(np.rint(point - off))
        highs.append(np.rint(point + off))
    low = np.concatenate([lows[0], lows[1][-2::-1]])
    high = np.concatenate([highs[0], highs[1][-2::-1]])
    found = np.full(1 << _BITS, _UNDECIDED, dtype=np.int32)
    same = (low[:-1] == high[1:]) & (np.abs(low[:-1]) < 1 << 30)
    found[1:-1][same] = low[:-1][same].astype(np.int32)
    return found
