"""The density of the staircase: plateaus that are as high as neighbours ask.

The distribution of a bin i has a density on the real line, which is rounded.  Its value at an
output is the greatest q^j h_r over all ways of j steps that lead the output into the centre of a
bin r, and in the centre of i itself what is left of the probability.  The plateaus above a count
are other ones than those below it: more workers may still join a workplace that has grown.
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
from eree.mechanisms.staircase.exact_density import ExactDensity, Given, Side
from eree.mechanisms.staircase.levels import DensityLevels, spare_steps
from eree.mechanisms.staircase.pieces import Table
from eree.mechanisms.staircase.size_grid import Bins, SizeGrid
from eree.random.exact import Array, exact_ball

Precise = NDArray[np.longdouble]

#: By so many bits after the first one edges are separated before they are sorted.
_BITS = 8
#: Outputs further out than this many steps are only known to be unlikely.
_MOST_STEPS = 4_000


@dataclass(frozen=True, eq=False)
class StaircaseDensities:
    """The distributions of all bins, for steps that each cost `drop`."""

    grid: SizeGrid
    drop: Fraction
    levels: DensityLevels

    @cached_property
    def spare(self) -> int:
        """How many more steps than the fewest a way may take."""
        return spare_steps(self.grid, float(self.drop)) + 1

    @cached_property
    def most_steps(self) -> int:
        """The number of steps up to which pieces are made in doubles.

        What lies beyond has a probability of about e^-23 and a share of about e^-16 of the mean
        square; `_tail_bound` bounds it, and draws that it leaves undecided are made exactly.
        """
        drop, b = float(self.drop), log1p(float(self.grid.alpha))
        return max(ceil(16 / (drop - 2 * b)), ceil(19 / (drop - b))) + 2

    def shape_of(self, size_bin: int) -> tuple[int, int]:
        """The bin whose distribution it has, and by how many bins it is scaled up."""
        last = self.levels.last
        return (size_bin, 0) if size_bin <= last else (last, size_bin - last)

    def sides(self, bins: Bins, most_steps: int) -> list[tuple[Side, Side]]:
        """The plateaus of some bins, up to so many steps, above and below the count."""
        found: list[list[Side]] = []
        for make, name in ((right_ends, "right"), (left_ends, "left")):
            ends = make(self.grid, bins, most_steps, self.spare)
            known = self.grid.numbers(int(max(ends.size_bin.max(), bins.max())) + 1)
            value = self._log_levels(known.top)[ends.size_bin] - float(self.drop) * ends.step_count
            some = _not_outdone(ends, value, len(bins))
            order = some[np.lexsort((-value[some], -ends.edge[some], ends.place[some]))]
            starts = np.searchsorted(ends.place[order], np.arange(len(bins) + 1))
            width = getattr(known, name)
            found.append(
                [
                    _best(ends, value, order[starts[i] : starts[i + 1]], width[bins[i]])
                    for i in range(len(bins))
                ]
            )
        return list(zip(*found, strict=True))

    def _log_levels(self, tops: Array) -> Array:
        first, levels = self.grid.first_large, self.levels.of_bins
        large = np.log(levels[first]) - np.log(tops[first:] / self.grid.start)
        logs: Array = np.append(np.log(levels[:first]), large)
        return logs

    # ------------------------------------------------------------------------ in doubles

    def tables(self, bins: Bins) -> list[Table]:
        """The distributions of some bins up to the last one that is not scaled."""
        known: dict[int, Table] = self.__dict__.setdefault("_tables", {})
        missing = np.array([r for r in np.unique(bins) if int(r) not in known], dtype=np.intp)
        for start in range(0, len(missing), 64):
            some = missing[start : start + 64]
            # further out a way of yet more steps might be better than those that are listed
            listed = self.sides(some, self.most_steps + self.spare + 1)
            bounds = self._tail_bound(some)
            for size_bin, sides, rest in zip(some, listed, bounds.tolist(), strict=True):
                right, left = (side.of_at_most(self.most_steps) for side in sides)
                known[int(size_bin)] = self._table(int(size_bin), right, left, rest)
        return [known[int(r)] for r in bins]

    def _tail_bound(self, bins: Bins) -> Array:
        """A bound of the probability beyond the pieces of some bins, on both sides together.

        Between the furthest ends of j - 1 and of j steps a density is at most q^j times the
        greatest level that j steps lead to: above the count that of the bin itself, below it that
        of the lowest bin so many steps down, because no step gains more than it costs.  The sum
        over j is taken until all chains of bins are of large ones, which grow by one and the same
        factor.
        """
        grid, most_steps = self.grid, self.most_steps
        near, most = most_steps + 12, most_steps + grid.first_large + 1
        way = chains(grid, bins, most)
        known = grid.numbers(int(way.max()) + 1)
        level_of = np.exp(self._log_levels(known.top))
        steps = np.arange(most + 1)
        fall = np.exp(-float(self.drop) * steps)
        cap, right, left = known.cap[way], known.right[way], known.left[way]
        own = level_of[bins][:, None]
        last = np.cumsum(cap, axis=1) - cap[:, :1] + right
        above = (fall[1:] * own * np.diff(last, axis=1))[:, most_steps:].sum(axis=1)
        lowest, up = [bins], grid.up(np.arange(int(bins.max()) + 1))
        for _ in range(most):
            lowest.append(np.searchsorted(up, lowest[-1]))
        highest = level_of[np.stack(lowest, axis=1)]
        furthest = steps * cap + left  # no way of j steps leads further
        for j in range(most_steps, near + 1):
            t = steps[: j + 1]
            furthest[:, j] = ((j - t) * cap[:, : j + 1] + left[:, : j + 1]).max(axis=1)
        runs = np.where(steps[1:] <= near, np.diff(furthest, axis=1), furthest[:, 1:])
        below = (fall[1:] * highest[:, 1:] * runs)[:, most_steps:].sum(axis=1)
        growth = float(fall[1]) * float(grid.ratio) ** grid.per_step
        far = fall[-1] * highest[:, -1] * (furthest[:, -1] + last[:, -1]) / (1 - growth) ** 2
        rest: Array = (above + below + far) * (1 + 1e-6)
        return rest

    def whole_sides(self, size_bin: int, distance: float) -> tuple[Side, Side]:
        """Plateaus of a bin that is not scaled, above and below, at least as far as `distance`."""
        grid, steps_up, at = self.grid, 0, size_bin
        while at < grid.first_large:
            at, steps_up = grid.above(at), steps_up + 1
        b = log1p(float(grid.alpha))
        most_steps = steps_up + ceil(log(distance / grid.start) / b + 1 / float(grid.alpha)) + 4
        ((right, left),) = self.sides(np.array([size_bin]), most_steps + self.spare + 1)
        return right.of_at_most(most_steps), left.of_at_most(most_steps)

    def _table(self, size_bin: int, right: Side, left: Side, tail_bound: float) -> Table:
        known = self.grid.numbers(size_bin + 1)
        ends = [known.right[size_bin], known.left[size_bin]]
        above, below = (
            np.append(width, side.edge) for width, side in zip(ends, (right, left), strict=True)
        )
        density = [np.exp(side.log_density) for side in (left, right)]
        rest = sum(
            float((d * np.diff(e)).sum()) for d, e in zip(density, (below, above), strict=True)
        )
        centre = (1 - rest) / (ends[0] + ends[1])
        edges = np.concatenate([-below[::-1], above])
        pieces = np.concatenate([density[0][::-1], [centre], density[1]])
        masses = pieces * np.diff(edges)
        up = np.cumsum(masses) - masses
        down = np.cumsum(masses[::-1])[::-1] - masses
        return Table(edges, pieces, up, down, tail_bound)

    def scale(self, size_bin: int) -> float:
        """By how much the distribution of a bin is scaled up from that of its shape."""
        return float(self.grid.ratio) ** self.shape_of(size_bin)[1]

    # ------------------------------------------------------------- in interval arithmetic

    def tail(self, value: int, side: int, size_bin: int) -> arb:
        """The probability of noise of at least `value` >= 1 above (1) or below (-1) the count."""
        shape, more = self.shape_of(size_bin)
        y = arb(value) - arb("0.5")
        if more:
            y /= exact_ball(self.grid.ratio) ** more
        return self._exact(shape, float(y.mid())).tail(y, side)

    def probability(self, value: int, side: int, size_bin: int) -> arb:
        """The probability of noise of `value` >= 1 above (1) or below (-1) the count."""
        shape, more = self.shape_of(size_bin)
        scale = exact_ball(self.grid.ratio) ** more
        low, high = ((arb(value) + half) / scale for half in (arb("-0.5"), arb("0.5")))
        found = self._exact(shape, float(high.mid())).between(low, high, side)
        return (
            self.tail(value, side, size_bin) - self.tail(value + 1, side, size_bin)
            if found is None
            else found
        )

    def centre(self, size_bin: int) -> arb:
        """The density of the centre of a bin."""
        shape, more = self.shape_of(size_bin)
        return self._exact(shape, 0.0).centre / exact_ball(self.grid.ratio) ** more

    def first_pieces(
        self, bins: Bins, most_steps: int
    ) -> Iterator[tuple[int, list[tuple[Precise, Precise]]]]:
        """Edges and densities of some bins that are not scaled, above and below, of so many steps.

        They are made of the ways that lead there once more, with 64 bits instead of 53: by another
        order of additions than the tables, and from numbers of the bins made afresh.
        """
        listed = most_steps + self.spare + 1
        numbers = _PreciseNumbers(self, int(bins.max()), listed)
        for start in range(0, len(bins), 64):
            some = bins[start : start + 64]
            for size_bin, sides in zip(some.tolist(), self.sides(some, listed), strict=True):
                parts = zip((1, -1), sides, strict=True)
                yield (
                    size_bin,
                    [numbers.pieces(size_bin, s, p.of_at_most(most_steps)) for s, p in parts],
                )

    def _exact(self, size_bin: int, distance: float) -> ExactDensity:
        """The density of a bin at the precision set, at least as far out as asked for."""
        known: dict[tuple[int, int], tuple[ExactDensity, int]] = self.__dict__.setdefault(
            "_exact_densities", {}
        )
        key = size_bin, ctx.prec
        if key in known:
            density, most_steps = known[key]
            if density.covers(distance) or most_steps >= _MOST_STEPS:
                return density
        if len(known) > 16:
            known.clear()
        most_steps = self._exact_steps(size_bin, distance)
        listed = most_steps + self.spare + 1
        given = Given(self.grid, self.drop, self.levels.of_bins, size_bin, self._clear)
        density = ExactDensity(
            given, self.sides(np.array([size_bin]), listed)[0], most_steps, listed
        )
        known[key] = density, most_steps
        return density

    @cached_property
    def _clear(self) -> int:
        return ceil(60 / (float(self.drop) - log1p(float(self.grid.alpha))))

    def _exact_steps(self, size_bin: int, distance: float) -> int:
        """The number of steps beyond which what is left is below the precision set."""
        grid = self.grid
        b = log1p(float(grid.alpha))
        top = float(grid.numbers(size_bin + 1).top[size_bin]) + grid.start
        wanted = (ctx.prec * log(2) + log(top) + 8) / (float(self.drop) - b)
        steps_up, at = 0, size_bin
        while at < grid.first_large:
            at, steps_up = grid.above(at), steps_up + 1
        far = log(max(distance / grid.start, 1.0)) / b + 1 / float(grid.alpha)
        most = steps_up + ceil(far) + self._clear if distance > 0 else 0
        return max(ceil(wanted), steps_up + 1, min(most, _MOST_STEPS)) + 1


class _PreciseNumbers:
    """Caps, half-widths and density levels of all bins that so many steps lead to, with 64 bits."""

    def __init__(self, densities: StaircaseDensities, highest: int, steps: int) -> None:
        grid, first = densities.grid, densities.grid.first_large
        bins = np.arange(int(chains(grid, np.array([highest]), steps).max()) + 1)
        self.up, last = grid.up(bins), len(bins) - 1
        more = np.arange(len(bins) - first)
        tops = grid.start * _precise(grid.ratio) ** more
        small, shares = grid.small_numbers, grid.shares
        self.cap, right, left = (
            np.append(np.array(of_small, dtype=np.longdouble), _precise(share) * tops)
            for of_small, share in zip(small, shares, strict=True)
        )
        self.width = {1: right, -1: left}
        small_levels = densities.levels.of_bins.astype(np.longdouble)
        self.density_level = np.append(
            small_levels[:first], small_levels[first] * grid.start / tops
        )
        self.fall = np.exp(-_precise(densities.drop) * np.arange(steps + 1))
        added, above = [np.zeros(len(bins), dtype=np.longdouble)], np.minimum(self.up, last)
        for _ in range(steps):  # what so many steps up from each bin add
            added.append(self.cap[above] + added[-1][above])
        self.added = np.stack(added)
        self.chain = chains(grid, bins[: highest + 1], steps)

    def pieces(self, size_bin: int, sign: int, side: Side) -> tuple[Precise, Precise]:
        """Edges of a side from that of the centre outwards, and the densities between them."""
        width = self.width[sign]
        if sign > 0:
            begin = self.added[side.turn, size_bin]
            edge = (
                begin
                + (side.step_count - side.turn) * self.cap[side.size_bin]
                + width[side.size_bin]
            )
        else:
            down, top = np.maximum(side.turn - 1, 0), self.chain[size_bin, side.ups]
            steps = side.step_count - side.ups - down
            edge = self.added[down, side.size_bin] + steps * self.cap[top] + width[side.size_bin]
        edges = np.maximum.accumulate(np.append(width[size_bin], edge))
        return edges, self.fall[side.step_count] * self.density_level[side.size_bin]


def _precise(value: Fraction) -> np.longdouble:
    return np.longdouble(value.numerator) / np.longdouble(value.denominator)


def _not_outdone(ends: Ends, value: Array, places: int) -> Bins:
    """Ends but for most of those that lie within further and higher ones; sorting takes longest.

    Edges are separated by their exponents and first bits: what has more of those lies further out.
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


def _best(ends: Ends, value: Array, order: Bins, width: float) -> Side:
    """Of ends from the furthest inwards those that beat all further ones, outwards."""
    order = order[ends.edge[order] > width]
    values = value[order]
    before = np.append(-inf, np.maximum.accumulate(values)[:-1])
    best = order[values > before][::-1]
    return Side(
        ends.edge[best],
        value[best],
        ends.step_count[best],
        ends.size_bin[best],
        ends.turn[best],
        ends.ups[best],
    )
