"""The staircase in interval arithmetic: its edges, density levels and probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import inf

import numpy as np
from flint import arb

from eree.mechanisms.staircase.size_grid import Bins, SizeGrid
from eree.random.exact import Array, exact_ball


@dataclass(frozen=True, eq=False)
class Side:
    """The plateaus of a bin on one side, from the centre outwards: ends, and why they are there."""

    edge: Array
    log_density: Array
    step_count: Bins
    size_bin: Bins
    turn: Bins
    ups: Bins

    def of_at_most(self, most_steps: int) -> Side:
        """The plateaus up to the last one of so many steps."""
        last = int(np.flatnonzero(self.step_count <= most_steps).max()) + 1
        bins = (part[:last] for part in (self.step_count, self.size_bin, self.turn, self.ups))
        return Side(self.edge[:last], self.log_density[:last], *bins)


@dataclass(frozen=True, eq=False)
class Given:
    """What a density is made of: the size grid, the cost of a step, the levels, and the bin.

    After `clear` steps more hardly anything is left of a probability.
    """

    grid: SizeGrid
    drop: Fraction
    levels: Array
    size_bin: int
    clear: int


class _Numbers:
    """The numbers of bins at the precision set, each computed once."""

    def __init__(self, given: Given, most_steps: int) -> None:
        self.grid, self.levels, size_bin = given.grid, given.levels, given.size_bin
        self.chain = [size_bin]
        for _ in range(most_steps):
            self.chain.append(self.grid.above(self.chain[-1]))
        fall = (-exact_ball(given.drop)).exp()
        self.falls = [arb(1)]
        for _ in range(most_steps):
            self.falls.append(self.falls[-1] * fall)
        self.sums = [arb(0)]  # what the first steps up from the bin add
        self._known: dict[int, tuple[arb, arb, arb, arb]] = {}
        first = self._first = self.grid.first_large
        self._tops, self._ratio = [arb(self.grid.start)], exact_ball(self.grid.ratio)
        self._of_top = [  # of a large bin, as shares of its top
            exact_ball(self.grid.share),
            *(self.grid.width(first, side) / self.grid.start for side in (1, -1)),
        ]
        self._level = arb(float(self.levels[first])) * self.grid.start
        for r in self.chain[1:]:
            self.sums.append(self.sums[-1] + self.cap(r))
        self._added: dict[tuple[int, int], arb] = {}

    def _of(self, size_bin: int) -> tuple[arb, arb, arb, arb]:
        if size_bin not in self._known:
            grid, k = self.grid, size_bin - self._first
            if k < 0:
                widths = grid.width(size_bin, 1), grid.width(size_bin, -1)
                self._known[size_bin] = (
                    grid.cap(size_bin),
                    *widths,
                    arb(float(self.levels[size_bin])),
                )
            else:
                while len(self._tops) <= k:
                    self._tops.append(self._tops[-1] * self._ratio)
                top = self._tops[k]
                cap, right, left = (part * top for part in self._of_top)
                self._known[size_bin] = cap, right, left, self._level / top
        return self._known[size_bin]

    def cap(self, size_bin: int) -> arb:
        """The most that a step to a bin adds."""
        return self._of(size_bin)[0]

    def width(self, size_bin: int, side: int) -> arb:
        """The half-width of its centre."""
        return self._of(size_bin)[1 if side > 0 else 2]

    def level(self, size_bin: int) -> arb:
        """h, its density level."""
        return self._of(size_bin)[3]

    def added(self, size_bin: int, steps: int) -> arb:
        """What so many steps up from a bin add."""
        if steps <= 0:
            return arb(0)
        key = size_bin, steps
        if key not in self._added:
            above = self.grid.above(size_bin)
            self._added[key] = self.cap(above) + self.added(above, steps - 1)
        return self._added[key]

    def end(self, side: int, size_bin: int, turn: int, ups: int) -> tuple[arb, arb]:
        """An end of no step at all, and what each of its steps adds."""
        if side > 0:
            cap = self.cap(size_bin)
            return self.sums[turn] - turn * cap + self.width(size_bin, 1), cap
        cap, down = self.cap(self.chain[ups]), max(turn - 1, 0)
        return self.width(size_bin, -1) + self.added(size_bin, down) - (ups + down) * cap, cap

    def last(self, side: int, step_count: int) -> arb:
        """The furthest end of so many steps."""
        if side > 0:
            return self.sums[step_count] + self.width(self.chain[step_count], 1)
        ends = (
            (step_count - t) * self.cap(self.chain[t]) + self.width(self.chain[t], -1)
            for t in range(step_count + 1)
        )
        return max(ends, key=lambda end: float(end.mid()))

    def rest(self, side: int, step_count: int) -> arb:
        """A bound of the probability beyond that end; from here on the chain is of large bins.

        Above, a further step leads further by as much as the one before times a growth; below, by
        no more than all steps of the highest bin.  No level is above those of the distribution's
        own bin above the count, or above that of the lowest bin below it.
        """
        ratio = self.falls[1] * exact_ball(self.grid.ratio) ** self.grid.per_step
        most, top = ratio / (1 - ratio), self.chain[step_count]
        if side > 0:
            step = self.last(1, step_count) - self.last(1, step_count - 1)
            return self.falls[step_count] * self.level(self.chain[0]) * step * most
        wide = self.width(top, -1) + step_count * self.cap(top)
        return self.falls[step_count] * self.level(0) * (wide + self.cap(top) / (1 - ratio)) * most

    def least_rest(self, side: int, step_count: int) -> arb:
        """The least that it can be: one step more, with the level of the highest bin it has."""
        level = self.falls[step_count + 1] * self.level(self.chain[step_count + 1])
        return level * (self.last(side, step_count + 1) - self.last(side, step_count)) / 2


class ExactDensity:
    """The density of one bin at the precision that is set when it is made.

    It is known up to the furthest ends of `most_steps` steps; `sides` have the ends of `listed`
    ones, so that none is missing that is better though it takes more.
    """

    def __init__(
        self, given: Given, sides: tuple[Side, Side], most_steps: int, listed: int
    ) -> None:
        numbers = _Numbers(given, listed)
        self._sides = {
            sign: _ExactSide(side, sign, numbers, most_steps)
            for sign, side in zip((1, -1), sides, strict=True)
        }
        right, left = self._sides[1], self._sides[-1]
        clear = max(most_steps - given.clear, 0)
        self._sure = min(float(numbers.last(sign, clear).mid()) for sign in (1, -1))
        self.centre = (1 - right.outside[0] - left.outside[0]) / (right.edges[0] + left.edges[0])

    def covers(self, distance: float) -> bool:
        """Whether the density is known so far out that what lies beyond is not all that is left."""
        return distance < self._sure

    def tail(self, y: arb, side: int) -> arb:
        """The probability beyond a point y > 0 of a side."""
        return self._sides[side].tail(y, self.centre)

    def between(self, y: arb, z: arb, side: int) -> arb | None:
        """The probability from y > 0 to z > y, from the densities; None if one is not known.

        Far out it is much less than what is known of the probabilities beyond.
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
    names = (side.step_count, side.size_bin, side.turn, side.ups, side.edge)
    for step_count, size_bin, turn, ups, about in zip(
        *(part.tolist() for part in names), strict=True
    ):
        key = size_bin, turn, ups
        if key not in ends:
            ends[key] = *numbers.end(sign, *key), numbers.level(size_bin)
        begin, step, level = ends[key]
        edge = begin + step_count * step
        if not edge > outermost:
            continue  # two ways lead equally far, and this is the lower one
        density.append(falls[step_count] * level)
        edges.append(edge)
        outermost = edge
        if last is not None and about > near and (edge >= last or edge.overlaps(last)):
            edges[-1] = last
            break
    return Pieces(edges, density)


class _ExactSide:
    """One side: edges from the centre outwards, densities, and probabilities beyond the edges."""

    def __init__(self, side: Side, sign: int, numbers: _Numbers, most_steps: int) -> None:
        pieces = _pieces(side, sign, numbers, numbers.last(sign, most_steps))
        self.edges, self.density = pieces.edges, pieces.density
        least, most = numbers.least_rest(sign, most_steps), numbers.rest(sign, most_steps)
        self.outside: list[arb] = [(least + most) / 2 + arb(0, 1) * (most - least) / 2]
        for i in range(len(self.density) - 1, -1, -1):
            mass = (self.edges[i + 1] - self.edges[i]) * self.density[i]
            self.outside.append(self.outside[-1] + mass)
        self.outside.reverse()
        self.near = np.array([float(edge.mid()) for edge in self.edges])

    def tail(self, y: arb, centre: arb) -> arb:
        """The probability beyond y."""
        i = self._place(y)
        if i == 0:
            return (self.edges[0] - y) * centre + self.outside[0]
        if i == len(self.edges):
            return self.outside[-1]
        return (self.edges[i] - y) * self.density[i - 1] + self.outside[i]

    def between(self, y: arb, z: arb, centre: arb) -> arb | None:
        """The probability from y to z; None beyond the last edge."""
        first, last = self._place(y), self._place(z)
        if last == len(self.edges):
            return None
        found, ends = arb(0), [y, *self.edges[first:last], z]
        for i, (low, high) in enumerate(pairwise(ends), start=first):
            found += (high - low) * (self.density[i - 1] if i else centre)
        return found

    def _place(self, y: arb) -> int:
        """The number of edges below y; far out doubles only say about where that is."""
        i = int(np.searchsorted(self.near, float(y.mid())))
        while i > 0 and self.edges[i - 1] > y:
            i -= 1
        while i < len(self.edges) and self.edges[i] < y:
            i += 1
        return i
