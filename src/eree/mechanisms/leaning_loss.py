"""The worst loss of laws with a density of their own for each size, over all neighbours.

This file does not know why laws are as they are.  It looks at the densities that are drawn from and
rounded: pieces of equal height, for each size up to one from which on all laws are one and the same
shape, scaled with the size.  Sizes that share a law are looked at together, as a rung; which rung
a size has is checked for all small sizes and some large ones, and exact chances are held against
the pieces of some rungs.

- All pairs of rungs are looked at that a workplace can join by growing: those of which a size x and
  a size x' have x <= x' <= x + max(floor(alpha x), 1).  From the size on where all laws are alike,
  one rung and those above it that one step reaches stand for all.
- With that the count grows by any d from 0 to the most that can have joined where x' is the largest
  size.  That is more than cells of workplace attributes have, of which d >= x' - x, and all that
  worker cells have under strong neighbours.
- For a piece of the one law and all d at once, the pieces of the other one that can stand at the
  same output are a run of neighbouring ones: the greatest and the least of them give both losses.

Outputs beyond the pieces, which are rarer than e^-20, are not looked at: there the stairs of a law
repeat those of the law a step higher, and the loss rests on the theorem.
Edges that differ by less than 2^-42 of themselves are one and the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, inf, log
from typing import Protocol

import numpy as np
from flint import arb

from eree.mechanisms.certificate import NEVER, Cell, Certificate, Chances, worst_of
from eree.noise.ladder import Array, Ladder
from eree.noise.leaning import LeaningStairs
from eree.noise.leaning_table import Table

_SAME = 2.0**-42
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

    def beyond(self, distance: int, side: int, *, count: int, largest: int) -> arb:
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
    sound = chances_agree(mechanism)
    pair = worst_of(mechanism, _cells_like(mechanism, loss))
    return Certificate.pure(mechanism, Fraction(loss.found) if sound else NEVER, pair)


def worst_loss(mechanism: LeaningChances) -> Loss:
    """The greatest loss over all neighbouring sizes and all growths of the count."""
    stairs, worst = mechanism.stairs, Loss(0.0, 0, 0, 0.0)
    laws = [_Law.of(table) for table in stairs.tables(np.arange(stairs.heights.last + 1))]
    for before, after, joined in _neighbours(mechanism.alpha, stairs):
        shape, more = stairs.shape_of(after)
        law = laws[shape] if not more else laws[shape].scaled(float(stairs.ladder.ratio) ** more)
        loss, position = _loss(laws[before], law, joined)
        if loss > worst.found:
            worst = Loss(loss, before, after, position)
    found = worst.found * (1 + _ROUNDING) + _ROUNDING
    return Loss(found, worst.before, worst.after, worst.position)


def _neighbours(alpha: Fraction, stairs: LeaningStairs) -> Iterator[tuple[int, int, float]]:
    """Rungs that a step joins, and the most by which the count then grows."""
    ladder, last = stairs.ladder, stairs.heights.last
    first = ladder.first_large
    most = last + 2 * ladder.per_step + 2
    tops = ladder.numbers(most).top
    joined = [_most_joined(alpha, ladder, i, float(tops[i])) for i in range(most)]
    for before in range(last + 1):
        top = float(tops[before])
        grown = (
            top + max(floor(alpha * int(top)), 1) if before < first else top * (1 + float(alpha))
        )
        after = before
        # the rung above begins right after this one's top: with the next whole number if it is one
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
        height = np.log(table.density)
        centre = int(np.searchsorted(table.edges, 0.0)) - 1
        falling = (np.diff(height[:centre]) >= 0).all() and (
            np.diff(height[centre + 1 :]) <= 0
        ).all()
        return cls(table.edges, height, centre, float(height.max()) if falling else inf)

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
                exact = float(mechanism.beyond(k, side, count=size, largest=size))
                if abs(seen - exact) > 1e-7 * exact + 1e-13:
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
        yield Cell(size, size), Cell(size + joined, size + joined), outputs
        yield Cell(size + other, size), Cell(size + 2 * other, size), outputs
