"""The worst loss of laws with a density of their own for each size, over all neighbours.

This file does not know why laws are as they are.  It looks at the densities that are drawn from and
rounded: pieces of equal height, for each size up to one from which on all laws are one and the same
shape, scaled with the size.  Sizes that share a law are looked at together, as a rung; which rung
a size has is checked for all small sizes and some large ones.  The pieces of every rung are
compared with more precise ones as far out as a chance of about e^-10, and those of some rungs with
the exact chances that outputs are drawn by.

- All pairs of rungs are looked at that a workplace can join by growing: those of which a size x and
  a size x' have x <= x' <= x + max(floor(alpha x), 1).  From the size on where all laws are alike,
  one rung and those above it that one step reaches stand for all.
- With that the count grows by any d from 0 to the most that can have joined where x' is the largest
  size.  That is more than cells of workplace attributes have, of which d >= x' - x, and all that
  worker cells have under strong neighbours.
- For a piece of the one law and all d at once, the pieces of the other one that can stand at the
  same output are a run of neighbouring ones: the greatest and the least of them give both losses.

The pieces reach so far out that a chance of about e^-23 is left beyond.  Of three rungs, and all
that a step joins to them, more pieces are made, until no output lies beyond; `far_loss` does the
same for any.  What is left to the theorem are outputs of the other rungs that are rarer than that.
Edges that differ by less than 2^-42 of themselves are one and the same.
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
from eree.mechanisms.certificate import NEVER, Certificate, Chances, worst_of
from eree.mechanisms.mechanism import LIMIT
from eree.mechanisms.staircase.density import LeaningStairs
from eree.mechanisms.staircase.exact_density import Side
from eree.mechanisms.staircase.pieces import Table
from eree.mechanisms.staircase.size_grid import Array, Ladder

_SAME = 2.0**-42
#: Of all laws the pieces are held against exact ones, up to the steps beyond which less than about
#: e to minus this is left.
_DEPTH = 10.0
#: Bits for the chances of cells near the worst pair, none of which is far out.
_BITS = 128
#: Doubles are off by less than this share of a logarithm.
_ROUNDING = 2.0**-40


class LeaningChances(Chances, Protocol):
    """A mechanism of such laws."""

    @property
    def alpha(self) -> Fraction:
        """The share by which a workplace may grow in one step."""

    @property
    def stairs(self) -> LeaningStairs:
        """The laws of all sizes."""

    def tail(self, _cell: Cell, distance: int, side: int) -> arb:
        """The tail of the noise."""


@dataclass(frozen=True)
class Loss:
    """The greatest loss found, between which rungs, and where as seen from the old count."""

    found: float
    before: int
    after: int
    position: float


def certify_leaning(mechanism: LeaningChances) -> Certificate:
    """The certificate of a mechanism with a law for each size."""
    loss = worst_loss(mechanism)
    far = far_loss(mechanism, some_rungs(mechanism.stairs))
    sound = chances_agree(mechanism)
    pair = worst_of(mechanism, _cells_like(mechanism, loss), bits=_BITS)
    return Certificate.pure(
        mechanism, Fraction(max(loss.found, far.found)) if sound else NEVER, pair
    )


def worst_loss(mechanism: LeaningChances) -> Loss:
    """The greatest loss over all neighbouring sizes and all growths of the count."""
    stairs = mechanism.stairs
    laws = [_Law.of(table) for table in stairs.tables(np.arange(stairs.heights.last + 1))]
    return _worst(mechanism, range(len(laws)), laws.__getitem__)


def far_loss(mechanism: LeaningChances, rungs: Iterable[int]) -> Loss:
    """The greatest loss of the laws of some rungs before a step, over all outputs there are.

    For all rungs up to `heights.last` nothing is left to a theorem; that takes minutes.
    """
    stairs = mechanism.stairs

    @lru_cache(maxsize=128)  # enough for all rungs that a step leads to
    def law(rung: int) -> _Law:
        (table,) = stairs.tables(np.array([rung]))
        return _Law.whole(table, *stairs.whole_sides(rung, 4.0 * LIMIT))

    return _worst(mechanism, rungs, law)


def some_rungs(stairs: LeaningStairs) -> list[int]:
    """Rungs for which a certificate looks at all outputs."""
    return [0, stairs.ladder.rung_of(ceil(2 / stairs.ladder.alpha)), stairs.heights.last]


def _worst(mechanism: LeaningChances, rungs: Iterable[int], law: Callable[[int], _Law]) -> Loss:
    """The greatest loss over all neighbours of some rungs."""
    stairs, worst = mechanism.stairs, Loss(0.0, 0, 0, 0.0)
    for before, after, joined in _neighbours(mechanism.alpha, stairs, rungs):
        shape, more = stairs.shape_of(after)
        new = law(shape) if not more else law(shape).scaled(float(stairs.ladder.ratio) ** more)
        loss, position = _loss(law(before), new, joined)
        if loss > worst.found:
            worst = Loss(loss, before, after, position)
    found = worst.found * (1 + _ROUNDING) + _ROUNDING
    return Loss(found, worst.before, worst.after, worst.position)


def _neighbours(
    alpha: Fraction, stairs: LeaningStairs, rungs: Iterable[int]
) -> Iterator[tuple[int, int, float]]:
    """Some rungs, those that a step joins to each, and the most by which the count then grows."""
    ladder, last = stairs.ladder, stairs.heights.last
    first = ladder.first_large
    most = last + 2 * ladder.per_step + 2
    tops = ladder.numbers(most).top
    joined = [_most_joined(alpha, ladder, i, float(tops[i])) for i in range(most)]
    for before in rungs:
        top = float(tops[before])
        grown = (
            top + max(floor(alpha * int(top)), 1) if before < first else top * (1 + float(alpha))
        )
        after = before
        # the rung above begins right after this one's top: with the next integer if it is one
        while after == before or (
            tops[after - 1] + 1 <= grown
            if after <= first
            else tops[after - 1] < grown * (1 - _SAME)
        ):
            yield before, after, joined[after]
            after += 1


def _most_joined(alpha: Fraction, ladder: Ladder, rung: int, top: float) -> float:
    """The most who can have joined a workplace that then is no larger than the top of a rung."""
    if rung >= ladder.first_large:
        return top * float(alpha / (1 + alpha))
    size, joined = int(top), 1
    while joined < size and joined + 1 <= alpha * (size - joined - 1):
        joined += 1
    return joined


@dataclass(frozen=True, eq=False)
class _Law:
    """Pieces of a density: their edges, logarithms of their heights, and where the centre is."""

    edges: Array
    height: Array
    centre: int
    highest: float

    @classmethod
    def of(cls, table: Table) -> _Law:
        return cls._made(table.edges, np.log(table.density))

    @classmethod
    def whole(cls, table: Table, right: Side, left: Side) -> _Law:
        """The centre of a table, with stairs that lead further out."""
        middle = int(np.searchsorted(table.edges, 0.0))
        centre = table.edges[middle - 1 : middle + 1]
        edges = np.concatenate([-left.edge[::-1], centre, right.edge])
        inside = np.log(table.density[middle - 1 : middle])
        return cls._made(edges, np.concatenate([left.log_density[::-1], inside, right.log_density]))

    @classmethod
    def _made(cls, edges: Array, height: Array) -> _Law:
        centre = int(np.searchsorted(edges, 0.0)) - 1
        falling = (np.diff(height[:centre]) >= 0).all() and (
            np.diff(height[centre + 1 :]) <= 0
        ).all()
        return cls(edges, height, centre, float(height.max()) if falling else inf)

    def scaled(self, scale: float) -> _Law:
        return _Law(
            self.edges * scale, self.height - log(scale), self.centre, self.highest - log(scale)
        )


def _loss(old: _Law, new: _Law, joined: float) -> tuple[float, float]:
    """The greatest loss between two laws, where the count grows by 0 to `joined`."""
    low, high = old.edges[:-1], old.edges[1:]
    start = np.maximum(low - joined, new.edges[0])
    end = np.minimum(high, new.edges[-1])
    start, end = start + np.abs(start) * _SAME, end - np.abs(end) * _SAME
    some = start < end
    height = old.height[some]
    a = np.searchsorted(new.edges, start[some], side="right") - 1
    b = np.searchsorted(new.edges, end[some], side="left") - 1
    ends = new.height[a], new.height[b]
    within = (a <= new.centre) & (b >= new.centre)
    most = np.where(within, new.highest, np.maximum(*ends))
    least = np.minimum(*ends)
    least = np.where(within, np.minimum(least, new.height[new.centre]), least)
    loss = np.maximum(height - least, most - height)
    i = int(loss.argmax())
    return float(loss[i]), float((low[some][i] + high[some][i]) / 2)


def chances_agree(mechanism: LeaningChances) -> bool:
    """Whether exact chances are those of the densities that were looked at, and add up to one."""
    stairs = mechanism.stairs
    ladder, last = stairs.ladder, stairs.heights.last
    first = ladder.first_large
    rungs = {0, first // 15, first // 5, first // 2, first, last, last + 7}
    tops = ladder.numbers(last + 8).top
    sizes = np.unique(np.append(np.arange(floor(tops[first])), np.floor(tops).astype(np.int64)))
    wanted = np.searchsorted(tops * (1 + _SAME), sizes)
    if (ladder.rungs_of(sizes) != wanted).any():  # draws look sizes up by this
        return False
    if not _pieces_agree(stairs):
        return False
    for rung in rungs:
        size = floor(tops[rung])
        if ladder.rung_of(size) != rung:  # and chances by this
            return False
        shape, _ = stairs.shape_of(rung)
        (table,) = stairs.tables(np.array([shape]))
        scale = stairs.scale(rung)
        for side in (1, -1):
            edges = side * table.edges[::side] * scale
            masses = (table.density * np.diff(table.edges))[::side]
            for share in (0.0, 1.0, 2.5, 6.0):
                k = ceil(1 + share * float(ladder.numbers(rung + 1).cap[rung]))
                inside = np.clip((edges[1:] - (k - 0.5)) / np.diff(edges), 0.0, 1.0)
                seen = float((inside * masses).sum())
                exact = float(mechanism.tail(Cell(size), k, side))
                if abs(seen - exact) > 1e-7 * exact + table.beyond + 1e-13:
                    return False
    return True


def _pieces_agree(stairs: LeaningStairs) -> bool:
    """Whether the pieces of every law are right up to some steps, and add up to one.

    Chances from the centre up to each edge are compared with those of more precise pieces.
    """
    rungs = np.arange(stairs.heights.last + 1)
    tables = stairs.tables(rungs)
    steps = ceil(_DEPTH / (float(stairs.drop) - log1p(float(stairs.ladder.alpha))))
    for rung, sides in stairs.first_pieces(rungs, steps):
        table = tables[rung]
        masses = table.density * np.diff(table.edges)
        total = np.append(0.0, np.cumsum(masses))
        if abs(total[-1] - 1) > 1e-11:
            return False
        for (edges, density), side in zip(sides, (1, -1), strict=True):
            chances = np.cumsum(density * np.diff(edges)).astype(np.float64)
            at = side * edges.astype(np.float64)
            seen = np.abs(np.diff(np.interp(at, table.edges, total)).cumsum())
            if (np.abs(seen - chances) > 1e-9 * chances + 1e-13).any():
                return False
    return True


def _cells_like(mechanism: LeaningChances, loss: Loss) -> Iterator[tuple[Cell, Cell, list[int]]]:
    """Cells of one workplace that grows, or of which another one does, and outputs."""
    alpha, ladder = mechanism.alpha, mechanism.stairs.ladder
    tops = ladder.numbers(max(loss.before, loss.after) + 1).top
    worst = floor(tops[loss.before])
    for size in sorted({0, worst}):
        joined = max(floor(alpha * size), 1)
        other = floor(_most_joined(alpha, ladder, ladder.rung_of(size), size))
        spot = size + round(loss.position)
        outputs = [size, size + joined, size - 1, size + 2 * joined + 1]
        if size == worst:
            outputs += [spot - 1, spot, spot + 1, spot + joined]
        yield Cell(size), Cell(size + joined, size + joined), outputs
        yield Cell(size + other, size), Cell(size + 2 * other, size), outputs
