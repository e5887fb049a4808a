"""The leaning staircase in interval arithmetic: its edges, its heights and its chances."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import inf

import numpy as np
from flint import arb

from eree.mechanisms.staircase.size_grid import Array, Ladder, Rungs
from eree.random.exact import exact_ball


@dataclass(frozen=True, eq=False)
class Side:
    """The stairs of a rung on one side, from the centre outwards: ends, and why they are there."""

    edge: Array
    log_density: Array
    level: Rungs
    rung: Rungs
    turn: Rungs
    ups: Rungs

    def of_at_most(self, levels: int) -> Side:
        """The stairs up to the last one of so many steps."""
        last = int(np.flatnonzero(self.level <= levels).max()) + 1
        rungs = (part[:last] for part in (self.level, self.rung, self.turn, self.ups))
        return Side(self.edge[:last], self.log_density[:last], *rungs)


@dataclass(frozen=True, eq=False)
class Given:
    """What a law is made of: the ladder, the cost of a step, the heights, and the rung.

    After `clear` steps more hardly anything is left of a chance.
    """

    ladder: Ladder
    drop: Fraction
    heights: Array
    rung: int
    clear: int


class _Numbers:
    """The numbers of rungs at the precision set, each computed once."""

    def __init__(self, given: Given, levels: int) -> None:
        self.ladder, self.heights, rung = given.ladder, given.heights, given.rung
        self.chain = [rung]
        for _ in range(levels):
            self.chain.append(self.ladder.above(self.chain[-1]))
        fall = (-exact_ball(given.drop)).exp()
        self.falls = [arb(1)]
        for _ in range(levels):
            self.falls.append(self.falls[-1] * fall)
        self.sums = [arb(0)]  # what the first steps up from the rung add
        self._known: dict[int, tuple[arb, arb, arb, arb]] = {}
        first = self._first = self.ladder.first_large
        self._tops, self._ratio = [arb(self.ladder.start)], exact_ball(self.ladder.ratio)
        self._of_top = [  # of a large rung, as shares of its top
            exact_ball(self.ladder.share),
            *(self.ladder.width(first, side) / self.ladder.start for side in (1, -1)),
        ]
        self._height = arb(float(self.heights[first])) * self.ladder.start
        for r in self.chain[1:]:
            self.sums.append(self.sums[-1] + self.cap(r))
        self._added: dict[tuple[int, int], arb] = {}

    def _of(self, rung: int) -> tuple[arb, arb, arb, arb]:
        if rung not in self._known:
            ladder, k = self.ladder, rung - self._first
            if k < 0:
                widths = ladder.width(rung, 1), ladder.width(rung, -1)
                self._known[rung] = ladder.cap(rung), *widths, arb(float(self.heights[rung]))
            else:
                while len(self._tops) <= k:
                    self._tops.append(self._tops[-1] * self._ratio)
                top = self._tops[k]
                cap, right, left = (part * top for part in self._of_top)
                self._known[rung] = cap, right, left, self._height / top
        return self._known[rung]

    def cap(self, rung: int) -> arb:
        """The most that a step to a rung adds."""
        return self._of(rung)[0]

    def width(self, rung: int, side: int) -> arb:
        """The half-width of its centre."""
        return self._of(rung)[1 if side > 0 else 2]

    def height(self, rung: int) -> arb:
        """h."""
        return self._of(rung)[3]

    def added(self, rung: int, steps: int) -> arb:
        """What so many steps up from a rung add."""
        if steps <= 0:
            return arb(0)
        key = rung, steps
        if key not in self._added:
            above = self.ladder.above(rung)
            self._added[key] = self.cap(above) + self.added(above, steps - 1)
        return self._added[key]

    def end(self, side: int, rung: int, turn: int, ups: int) -> tuple[arb, arb]:
        """An end of no step at all, and what each of its steps adds."""
        if side > 0:
            cap = self.cap(rung)
            return self.sums[turn] - turn * cap + self.width(rung, 1), cap
        cap, down = self.cap(self.chain[ups]), max(turn - 1, 0)
        return self.width(rung, -1) + self.added(rung, down) - (ups + down) * cap, cap

    def last(self, side: int, level: int) -> arb:
        """The furthest end of so many steps."""
        if side > 0:
            return self.sums[level] + self.width(self.chain[level], 1)
        ends = (
            (level - t) * self.cap(self.chain[t]) + self.width(self.chain[t], -1)
            for t in range(level + 1)
        )
        return max(ends, key=lambda end: float(end.mid()))

    def rest(self, side: int, level: int) -> arb:
        """A bound of the chance beyond that end; from here on the chain is of large rungs.

        Above, a further step leads further by as much as the one before times a growth; below, by
        no more than all steps of the highest rung.  No height is above those of the law's own rung
        above the count, or above that of the lowest rung below it.
        """
        ratio = self.falls[1] * exact_ball(self.ladder.ratio) ** self.ladder.per_step
        most, top = ratio / (1 - ratio), self.chain[level]
        if side > 0:
            step = self.last(1, level) - self.last(1, level - 1)
            return self.falls[level] * self.height(self.chain[0]) * step * most
        wide = self.width(top, -1) + level * self.cap(top)
        return self.falls[level] * self.height(0) * (wide + self.cap(top) / (1 - ratio)) * most

    def least_rest(self, side: int, level: int) -> arb:
        """The least that it can be: one step more, with the height of the highest rung it has."""
        height = self.falls[level + 1] * self.height(self.chain[level + 1])
        return height * (self.last(side, level + 1) - self.last(side, level)) / 2


class ExactLaw:
    """The law of one rung at the precision that is set when it is made.

    It is known up to the furthest ends of `levels` steps; `sides` have the ends of `listed` ones,
    so that none is missing that is better though it takes more.
    """

    def __init__(self, given: Given, sides: tuple[Side, Side], levels: int, listed: int) -> None:
        numbers = _Numbers(given, listed)
        self._sides = {
            sign: _ExactSide(side, sign, numbers, levels)
            for sign, side in zip((1, -1), sides, strict=True)
        }
        right, left = self._sides[1], self._sides[-1]
        clear = max(levels - given.clear, 0)
        self._sure = min(float(numbers.last(sign, clear).mid()) for sign in (1, -1))
        self.centre = (1 - right.outside[0] - left.outside[0]) / (right.edges[0] + left.edges[0])

    def covers(self, reach: float) -> bool:
        """Whether this law is known so far out that what lies beyond is not all that is left."""
        return reach < self._sure

    def beyond(self, y: arb, side: int) -> arb:
        """The chance beyond a point y > 0 of a side."""
        return self._sides[side].beyond(y, self.centre)

    def between(self, y: arb, z: arb, side: int) -> arb | None:
        """The chance from y > 0 to z > y, from the densities; None where they are not all known.

        Far out it is much less than what is known of the chances beyond.
        """
        return self._sides[side].between(y, z, self.centre)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Edges of a side from that of the centre outwards, and the densities between them."""

    edges: list[arb]
    density: list[arb]


def _pieces(side: Side, sign: int, numbers: _Numbers, last: arb | None = None) -> Pieces:
    """The pieces of a side, up to a last edge if there is one."""
    edges: list[arb] = [numbers.width(numbers.chain[0], sign)]
    density: list[arb] = []
    near = inf if last is None else float(last.mid()) * (1 - 1e-9)
    ends: dict[tuple[int, int, int], tuple[arb, arb, arb]] = {}
    falls, outermost = numbers.falls, edges[0]
    names = (side.level, side.rung, side.turn, side.ups, side.edge)
    for level, rung, turn, ups, about in zip(*(part.tolist() for part in names), strict=True):
        key = rung, turn, ups
        if key not in ends:
            ends[key] = *numbers.end(sign, *key), numbers.height(rung)
        begin, step, height = ends[key]
        edge = begin + level * step
        if not edge > outermost:
            continue  # two ways lead equally far, and this is the lower one
        density.append(falls[level] * height)
        edges.append(edge)
        outermost = edge
        if last is not None and about > near and (edge >= last or edge.overlaps(last)):
            edges[-1] = last
            break
    return Pieces(edges, density)


class _ExactSide:
    """One side: edges from that of the centre outwards, densities, and chances beyond the edges."""

    def __init__(self, side: Side, sign: int, numbers: _Numbers, levels: int) -> None:
        pieces = _pieces(side, sign, numbers, numbers.last(sign, levels))
        self.edges, self.density = pieces.edges, pieces.density
        least, most = numbers.least_rest(sign, levels), numbers.rest(sign, levels)
        self.outside: list[arb] = [(least + most) / 2 + arb(0, 1) * (most - least) / 2]
        for i in range(len(self.density) - 1, -1, -1):
            mass = (self.edges[i + 1] - self.edges[i]) * self.density[i]
            self.outside.append(self.outside[-1] + mass)
        self.outside.reverse()
        self.near = np.array([float(edge.mid()) for edge in self.edges])

    def beyond(self, y: arb, centre: arb) -> arb:
        """The chance beyond y."""
        i = self._place(y)
        if i == 0:
            return (self.edges[0] - y) * centre + self.outside[0]
        if i == len(self.edges):
            return self.outside[-1]
        return (self.edges[i] - y) * self.density[i - 1] + self.outside[i]

    def between(self, y: arb, z: arb, centre: arb) -> arb | None:
        """The chance from y to z; None beyond the last edge."""
        first, last = self._place(y), self._place(z)
        if last == len(self.edges):
            return None
        found, ends = arb(0), [y, *self.edges[first:last], z]
        for i, (low, high) in enumerate(pairwise(ends), start=first):
            found += (high - low) * (self.density[i - 1] if i else centre)
        return found

    def _place(self, y: arb) -> int:
        """The number of edges below y; far out doubles only tell about where that is."""
        i = int(np.searchsorted(self.near, float(y.mid())))
        while i > 0 and self.edges[i - 1] > y:
            i -= 1
        while i < len(self.edges) and self.edges[i] < y:
            i += 1
        return i
