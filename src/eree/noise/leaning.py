"""The leaning staircase: noise on whole numbers whose stairs are as high as neighbours ask.

The law of a rung i has a density on the real line, which is rounded.  Its value at an output is the
greatest q^j h_r over all ways of j steps that lead the output into the centre of a rung r, and in
the centre of i itself what is left of the chance.  The stairs above a count are other ones than
those below it: more workers may still join a workplace that has grown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, inf, log, log1p

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from eree.noise.climbs import Ends, left_ends, right_ends
from eree.noise.exact import Verdict, Whole, Words, exact_ball, sure_less
from eree.noise.heights import Heights, spare_levels
from eree.noise.ladder import Array, Ladder, Rungs
from eree.noise.leaning_exact import ExactLaw, Given, Pieces, Side, exact_pieces
from eree.noise.leaning_table import Table

#: Chances below this are left to interval arithmetic: 64 bits tell too little of their place.
_COARSE = 2.0**-24
#: A bound of the error of chances and edges in doubles, as a share of themselves.
_OFF = 2.0**-40
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
        """The number of steps beyond which nothing is left in doubles.

        Of a mean square, and of chances that are told to 2^-40 of 2^-24: what lies beyond is about
        e^-46, smaller than 2^-66.
        """
        drop, b = float(self.drop), log1p(float(self.ladder.alpha))
        return max(ceil(24 / (drop - 2 * b)), ceil(46 / (drop - b))) + 2

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
            for rung, sides in zip(some, listed, strict=True):
                right, left = (side.of_at_most(self.levels) for side in sides)
                known[int(rung)] = self._table(int(rung), right, left)
        return [known[int(r)] for r in rungs]

    def whole_sides(self, rung: int, reach: float) -> tuple[Side, Side]:
        """The stairs of a rung that is not scaled, above and below, at least as far as `reach`."""
        ladder, climb, at = self.ladder, 0, rung
        while at < ladder.first_large:
            at, climb = ladder.above(at), climb + 1
        b = log1p(float(ladder.alpha))
        levels = climb + ceil(log(reach / ladder.start) / b + 1 / float(ladder.alpha)) + 4
        ((right, left),) = self.sides(np.array([rung]), levels + self.spare + 1)
        return right.of_at_most(levels), left.of_at_most(levels)

    def _table(self, rung: int, right: Side, left: Side) -> Table:
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
        return Table(edges, heights, up, down)

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

    def first_pieces(self, rungs: Rungs, levels: int) -> Iterator[tuple[int, list[Pieces]]]:
        """The pieces of some rungs that are not scaled, of so many steps, above and below."""
        listed = levels + self.spare + 1
        for start in range(0, len(rungs), 64):
            some = rungs[start : start + 64]
            for rung, sides in zip(some.tolist(), self.sides(some, listed), strict=True):
                given = Given(self.ladder, self.drop, self.heights.heights, rung, self._clear)
                right, left = (side.of_at_most(levels) for side in sides)
                yield rung, exact_pieces(given, (right, left), listed)

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


@dataclass(frozen=True, eq=False)
class LeaningNoise:
    """The noise of some cells, each with the law of its rung.

    Recipe: the whole number nearest to the point below which the chance is U.  In doubles the lower
    half of U is looked up from below and the upper one from above, so that small chances keep their
    digits; a point is known to within 2^-40 of its chance and of itself, with room to spare.
    """

    stairs: LeaningStairs
    sizes: Whole
    uniforms = 1

    @cached_property
    def _rungs(self) -> Rungs:
        return self.stairs.ladder.rungs_of(self.sizes)

    def fast(self, words: Words, cells: NDArray[np.intp]) -> tuple[Whole, NDArray[np.int8]]:
        """Values and verdicts; nothing is ever rejected."""
        word = words[0]
        upper = word >> np.uint64(63) == 1
        chance = (np.where(upper, ~word, word).astype(np.float64) + 0.5) * 2.0**-64
        rungs = self._rungs[cells]
        shapes = np.minimum(rungs, self.stairs.heights.last)
        scale = float(self.stairs.ladder.ratio) ** (rungs - shapes)
        distinct, which = np.unique(shapes, return_inverse=True)
        tables = self.stairs.tables(distinct)
        point, doubt = np.empty(len(cells)), chance < _COARSE
        error = np.empty(len(cells))
        order = np.argsort(2 * which + upper, kind="stable")
        bounds = np.searchsorted((2 * which + upper)[order], np.arange(2 * len(distinct) + 1))
        for i, table in enumerate(tables):
            for top in (0, 1):
                some = order[bounds[2 * i + top] : bounds[2 * i + top + 1]]
                if some.size:
                    point[some], error[some], unsure = _points(table, chance[some], top)
                    doubt[some] |= unsure
        place = point * scale
        nearest = np.rint(place)
        off = (error + np.abs(point) * _OFF) * scale
        doubt |= ~(0.5 - np.abs(place - nearest) >= off)
        values = np.where(doubt, 0, nearest).astype(np.int64)
        return values, np.where(doubt, Verdict.DOUBT, Verdict.ACCEPT).astype(np.int8)

    def slow(self, uniforms: Sequence[arb], cell: int) -> int:
        """The same in interval arithmetic, by bisection of the exact chances."""
        uniform, rung = uniforms[0], int(self._rungs[cell])
        inside = uniform - self.stairs.tail(1, -1, rung)  # the chance up to -1/2 is below it
        if sure_less(inside, arb(0)):
            return -self._furthest(uniform, -1, rung)
        rest = 1 - uniform
        if sure_less(self.stairs.tail(1, 1, rung), rest):
            return 0
        return self._furthest(rest, 1, rung)

    def _furthest(self, chance: arb, side: int, rung: int) -> int:
        """The greatest value that is reached with more than a chance."""
        low, high = 1, 2
        while sure_less(chance, self.stairs.tail(high, side, rung)) and high < 1 << 63:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            if sure_less(chance, self.stairs.tail(middle, side, rung)):
                low = middle
            else:
                high = middle
        return low

    def tail(self, value: int, side: int, cell: int) -> arb:
        """The chance that the noise is at least `value` >= 1 on a side."""
        return self.stairs.tail(value, side, int(self._rungs[cell]))


def _points(table: Table, chance: Array, top: int) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Where a law has a chance outside, from below or from the top; and how sure that is."""
    outside = table.above[::-1] if top else table.below
    i = np.maximum(np.searchsorted(outside, chance, side="right") - 1, 0)
    piece = len(table.density) - 1 - i if top else i
    rest = (chance - outside[i]) / table.density[piece]
    point = table.edges[piece + 1] - rest if top else table.edges[piece] + rest
    error = chance * _OFF / table.density[piece]
    following = np.append(outside[1:], inf)[i]
    near = np.minimum(chance - outside[i], following - chance)
    return point, error, near < chance * _OFF
