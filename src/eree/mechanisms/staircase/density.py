"""The leaning staircase: noise on integers whose stairs are as high as neighbours ask.

The law of a rung i has a density on the real line, which is rounded.  Its value at an output is the
greatest q^j h_r over all ways of j steps that lead the output into the centre of a rung r, and in
the centre of i itself what is left of the chance.  The stairs above a count are other ones than
those below it: more workers may still join a workplace that has grown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, inf, log, log1p

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from eree.mechanisms.staircase.edges import Ends, chains, left_ends, right_ends
from eree.mechanisms.staircase.exact_density import ExactLaw, Given, Side
from eree.mechanisms.staircase.levels import Heights, spare_levels
from eree.mechanisms.staircase.pieces import Table
from eree.mechanisms.staircase.size_grid import Array, Ladder, Rungs
from eree.random.exact import exact_ball

Precise = NDArray[np.longdouble]

#: By so many bits after the first one edges are told apart before they are sorted.
_BITS = 8
#: Outputs further out than this many steps are only known to be unlikely.
_MOST_LEVELS = 4_000


@dataclass(frozen=True, eq=False)
class LeaningStairs:
    """The laws of all rungs, for steps that each cost `drop`."""

    ladder: Ladder
    drop: Fraction
    heights: Heights

    @cached_property
    def spare(self) -> int:
        """How many more steps than the fewest a way may take."""
        return spare_levels(self.ladder, float(self.drop)) + 1

    @cached_property
    def levels(self) -> int:
        """The number of steps up to which pieces are made in doubles.

        What lies beyond has a probability of about e^-23 and a share of about e^-16 of the mean
        square; `_beyond` bounds it, and draws that it leaves undecided are made exactly.
        """
        drop, b = float(self.drop), log1p(float(self.ladder.alpha))
        return max(ceil(16 / (drop - 2 * b)), ceil(19 / (drop - b))) + 2

    def shape_of(self, rung: int) -> tuple[int, int]:
        """The rung whose law it is, and by how many rungs it is scaled up."""
        last = self.heights.last
        return (rung, 0) if rung <= last else (last, rung - last)

    def sides(self, rungs: Rungs, levels: int) -> list[tuple[Side, Side]]:
        """The stairs of some rungs, up to so many steps, above and below the count."""
        found: list[list[Side]] = []
        for make, name in ((right_ends, "right"), (left_ends, "left")):
            ends = make(self.ladder, rungs, levels, self.spare)
            known = self.ladder.numbers(int(max(ends.rung.max(), rungs.max())) + 1)
            value = self._log_heights(known.top)[ends.rung] - float(self.drop) * ends.level
            some = _not_outdone(ends, value, len(rungs))
            order = some[np.lexsort((-value[some], -ends.edge[some], ends.place[some]))]
            starts = np.searchsorted(ends.place[order], np.arange(len(rungs) + 1))
            width = getattr(known, name)
            found.append(
                [
                    _best(ends, value, order[starts[i] : starts[i + 1]], width[rungs[i]])
                    for i in range(len(rungs))
                ]
            )
        return list(zip(*found, strict=True))

    def _log_heights(self, tops: Array) -> Array:
        first, heights = self.ladder.first_large, self.heights.heights
        large = np.log(heights[first]) - np.log(tops[first:] / self.ladder.start)
        logs: Array = np.append(np.log(heights[:first]), large)
        return logs

    # ------------------------------------------------------------------------ in doubles

    def tables(self, rungs: Rungs) -> list[Table]:
        """The laws of some rungs up to the last one that is not scaled."""
        known: dict[int, Table] = self.__dict__.setdefault("_tables", {})
        missing = np.array([r for r in np.unique(rungs) if int(r) not in known], dtype=np.intp)
        for start in range(0, len(missing), 64):
            some = missing[start : start + 64]
            # further out a way of yet more steps might be better than those that are listed
            listed = self.sides(some, self.levels + self.spare + 1)
            beyond = self._beyond(some)
            for rung, sides, rest in zip(some, listed, beyond.tolist(), strict=True):
                right, left = (side.of_at_most(self.levels) for side in sides)
                known[int(rung)] = self._table(int(rung), right, left, rest)
        return [known[int(r)] for r in rungs]

    def _beyond(self, rungs: Rungs) -> Array:
        """A bound of the probability beyond the pieces of some rungs, on both sides together.

        Between the furthest ends of j - 1 and of j steps a density is at most q^j times the
        greatest level that j steps lead to: above the count that of the rung itself, below it that
        of the lowest rung so many steps down, because no step gains more than it costs.  The sum
        over j is taken until all chains of rungs are of large ones, which grow by one and the same
        factor.
        """
        ladder, levels = self.ladder, self.levels
        near, most = levels + 12, levels + ladder.first_large + 1
        way = chains(ladder, rungs, most)
        known = ladder.numbers(int(way.max()) + 1)
        level_of = np.exp(self._log_heights(known.top))
        steps = np.arange(most + 1)
        fall = np.exp(-float(self.drop) * steps)
        cap, right, left = known.cap[way], known.right[way], known.left[way]
        own = level_of[rungs][:, None]
        last = np.cumsum(cap, axis=1) - cap[:, :1] + right
        above = (fall[1:] * own * np.diff(last, axis=1))[:, levels:].sum(axis=1)
        lowest, up = [rungs], ladder.up(np.arange(int(rungs.max()) + 1))
        for _ in range(most):
            lowest.append(np.searchsorted(up, lowest[-1]))
        highest = level_of[np.stack(lowest, axis=1)]
        furthest = steps * cap + left  # no way of j steps leads further
        for j in range(levels, near + 1):
            t = steps[: j + 1]
            furthest[:, j] = ((j - t) * cap[:, : j + 1] + left[:, : j + 1]).max(axis=1)
        runs = np.where(steps[1:] <= near, np.diff(furthest, axis=1), furthest[:, 1:])
        below = (fall[1:] * highest[:, 1:] * runs)[:, levels:].sum(axis=1)
        growth = float(fall[1]) * float(ladder.ratio) ** ladder.per_step
        far = fall[-1] * highest[:, -1] * (furthest[:, -1] + last[:, -1]) / (1 - growth) ** 2
        rest: Array = (above + below + far) * (1 + 1e-6)
        return rest

    def whole_sides(self, rung: int, reach: float) -> tuple[Side, Side]:
        """The stairs of a rung that is not scaled, above and below, at least as far as `reach`."""
        ladder, climb, at = self.ladder, 0, rung
        while at < ladder.first_large:
            at, climb = ladder.above(at), climb + 1
        b = log1p(float(ladder.alpha))
        levels = climb + ceil(log(reach / ladder.start) / b + 1 / float(ladder.alpha)) + 4
        ((right, left),) = self.sides(np.array([rung]), levels + self.spare + 1)
        return right.of_at_most(levels), left.of_at_most(levels)

    def _table(self, rung: int, right: Side, left: Side, beyond: float) -> Table:
        known = self.ladder.numbers(rung + 1)
        ends = [known.right[rung], known.left[rung]]
        above, below = (
            np.append(width, side.edge) for width, side in zip(ends, (right, left), strict=True)
        )
        density = [np.exp(side.log_density) for side in (left, right)]
        rest = sum(
            float((d * np.diff(e)).sum()) for d, e in zip(density, (below, above), strict=True)
        )
        centre = (1 - rest) / (ends[0] + ends[1])
        edges = np.concatenate([-below[::-1], above])
        heights = np.concatenate([density[0][::-1], [centre], density[1]])
        masses = heights * np.diff(edges)
        up = np.cumsum(masses) - masses
        down = np.cumsum(masses[::-1])[::-1] - masses
        return Table(edges, heights, up, down, beyond)

    def scale(self, rung: int) -> float:
        """By how much the law of a rung is scaled up from that of its shape."""
        return float(self.ladder.ratio) ** self.shape_of(rung)[1]

    # ------------------------------------------------------------- in interval arithmetic

    def tail(self, value: int, side: int, rung: int) -> arb:
        """The chance that the noise is at least `value` >= 1 above (1) or below (-1) the count."""
        shape, more = self.shape_of(rung)
        y = arb(value) - arb("0.5")
        if more:
            y /= exact_ball(self.ladder.ratio) ** more
        return self._exact(shape, float(y.mid())).beyond(y, side)

    def chance(self, value: int, side: int, rung: int) -> arb:
        """The chance that the noise is `value` >= 1 above (1) or below (-1) the count."""
        shape, more = self.shape_of(rung)
        scale = exact_ball(self.ladder.ratio) ** more
        low, high = ((arb(value) + half) / scale for half in (arb("-0.5"), arb("0.5")))
        found = self._exact(shape, float(high.mid())).between(low, high, side)
        return (
            self.tail(value, side, rung) - self.tail(value + 1, side, rung)
            if found is None
            else found
        )

    def centre(self, rung: int) -> arb:
        """The density of the centre of a rung."""
        shape, more = self.shape_of(rung)
        return self._exact(shape, 0.0).centre / exact_ball(self.ladder.ratio) ** more

    def first_pieces(
        self, rungs: Rungs, levels: int
    ) -> Iterator[tuple[int, list[tuple[Precise, Precise]]]]:
        """Edges and densities of some rungs that are not scaled, above and below, of so many steps.

        They are made of the ways that lead there once more, with 64 bits instead of 53: by another
        order of additions than the tables, and from numbers of the rungs made afresh.
        """
        listed = levels + self.spare + 1
        numbers = _PreciseNumbers(self, int(rungs.max()), listed)
        for start in range(0, len(rungs), 64):
            some = rungs[start : start + 64]
            for rung, sides in zip(some.tolist(), self.sides(some, listed), strict=True):
                parts = zip((1, -1), sides, strict=True)
                yield rung, [numbers.pieces(rung, s, p.of_at_most(levels)) for s, p in parts]

    def _exact(self, rung: int, reach: float) -> ExactLaw:
        """The law of a rung at the precision set, at least as far out as asked for."""
        known: dict[tuple[int, int], tuple[ExactLaw, int]] = self.__dict__.setdefault("_laws", {})
        key = rung, ctx.prec
        if key in known:
            law, levels = known[key]
            if law.covers(reach) or levels >= _MOST_LEVELS:
                return law
        if len(known) > 16:
            known.clear()
        levels = self._exact_levels(rung, reach)
        listed = levels + self.spare + 1
        given = Given(self.ladder, self.drop, self.heights.heights, rung, self._clear)
        law = ExactLaw(given, self.sides(np.array([rung]), listed)[0], levels, listed)
        known[key] = law, levels
        return law

    @cached_property
    def _clear(self) -> int:
        return ceil(60 / (float(self.drop) - log1p(float(self.ladder.alpha))))

    def _exact_levels(self, rung: int, reach: float) -> int:
        """The number of steps beyond which what is left is below the precision set."""
        ladder = self.ladder
        b = log1p(float(ladder.alpha))
        top = float(ladder.numbers(rung + 1).top[rung]) + ladder.start
        wanted = (ctx.prec * log(2) + log(top) + 8) / (float(self.drop) - b)
        climb, at = 0, rung
        while at < ladder.first_large:
            at, climb = ladder.above(at), climb + 1
        far = log(max(reach / ladder.start, 1.0)) / b + 1 / float(ladder.alpha)
        most = climb + ceil(far) + self._clear if reach > 0 else 0
        return max(ceil(wanted), climb + 1, min(most, _MOST_LEVELS)) + 1


class _PreciseNumbers:
    """Caps, half-widths and levels of all rungs that so many steps lead to, with 64 bits."""

    def __init__(self, stairs: LeaningStairs, highest: int, steps: int) -> None:
        ladder, first = stairs.ladder, stairs.ladder.first_large
        rungs = np.arange(int(chains(ladder, np.array([highest]), steps).max()) + 1)
        self.up, last = ladder.up(rungs), len(rungs) - 1
        more = np.arange(len(rungs) - first)
        tops = ladder.start * _precise(ladder.ratio) ** more
        small, shares = ladder.small_numbers, ladder.shares
        self.cap, right, left = (
            np.append(np.array(of_small, dtype=np.longdouble), _precise(share) * tops)
            for of_small, share in zip(small, shares, strict=True)
        )
        self.width = {1: right, -1: left}
        levels = stairs.heights.heights.astype(np.longdouble)
        self.level = np.append(levels[:first], levels[first] * ladder.start / tops)
        self.fall = np.exp(-_precise(stairs.drop) * np.arange(steps + 1))
        added, above = [np.zeros(len(rungs), dtype=np.longdouble)], np.minimum(self.up, last)
        for _ in range(steps):  # what so many steps up from each rung add
            added.append(self.cap[above] + added[-1][above])
        self.added = np.stack(added)
        self.chain = chains(ladder, rungs[: highest + 1], steps)

    def pieces(self, rung: int, sign: int, side: Side) -> tuple[Precise, Precise]:
        """Edges of a side from that of the centre outwards, and the densities between them."""
        width = self.width[sign]
        if sign > 0:
            begin = self.added[side.turn, rung]
            edge = begin + (side.level - side.turn) * self.cap[side.rung] + width[side.rung]
        else:
            down, top = np.maximum(side.turn - 1, 0), self.chain[rung, side.ups]
            steps = side.level - side.ups - down
            edge = self.added[down, side.rung] + steps * self.cap[top] + width[side.rung]
        edges = np.maximum.accumulate(np.append(width[rung], edge))
        return edges, self.fall[side.level] * self.level[side.rung]


def _precise(value: Fraction) -> np.longdouble:
    return np.longdouble(value.numerator) / np.longdouble(value.denominator)


def _not_outdone(ends: Ends, value: Array, places: int) -> Rungs:
    """Ends but for most of those that lie within further and higher ones; sorting takes longest.

    Edges are told apart by their exponents and first bits: what has more of those lies further out.
    """
    coarse = np.maximum(ends.edge, 0.0).view(np.int64) >> (52 - _BITS)
    coarse -= coarse.min()
    slots = int(coarse.max()) + 1
    slot = ends.place * slots + coarse
    highest = np.full(places * slots, -inf)
    np.maximum.at(highest, slot, value)
    inwards = np.maximum.accumulate(highest.reshape(places, slots)[:, ::-1], axis=1)
    further = np.full((places, slots), -inf)
    further[:, :-1] = inwards[:, -2::-1]
    return np.flatnonzero(value > further.reshape(-1)[slot])


def _best(ends: Ends, value: Array, order: Rungs, width: float) -> Side:
    """Of ends from the furthest inwards those that beat all further ones, outwards."""
    order = order[ends.edge[order] > width]
    values = value[order]
    before = np.append(-inf, np.maximum.accumulate(values)[:-1])
    best = order[values > before][::-1]
    return Side(
        ends.edge[best],
        value[best],
        ends.level[best],
        ends.rung[best],
        ends.turn[best],
        ends.ups[best],
    )
