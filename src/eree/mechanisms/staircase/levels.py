"""The heights of a leaning staircase: as low as they may be, so that every law adds up to one.

The law of a rung i is what its heights make of it: at each output the greatest of q^j h_r over the
ends that lie beyond it, and over the centre what is left of the chance, at most h_i.  So h is any
positive function that does not rise and that leaves every centre no more than its height; the
lower, the less noise.  It is found by repeated correction of all rungs at once.

The same numbers come out on every machine: doubles are only added, multiplied and divided one by
one, and sums are taken over integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, exp, floor, log1p

import numpy as np
from flint import ctx

from eree.mechanisms.staircase.edges import Ends, left_ends, right_ends
from eree.mechanisms.staircase.size_grid import UNITS, Array, Ladder, Rungs
from eree.random.exact import exact_ball

#: Chances in integers.
_ONE = 2.0**44
_MOST_ROUNDS, _CLOSE = 60, 2.0**-17
#: Ends whose value is a smaller share of the best one are left out after some rounds.
_NEAR = 0.8
#: What is added to the heights besides, so that no centre is above its own.
_ROOM = 1 + 2.0**-19
#: How much more error than the least one is allowed for the sake of a small bias.
_FOR_BIAS = 1.003


def powers(drop: Fraction, count: int) -> Array:
    """e^(-drop j) for j below `count`, in doubles."""
    before, ctx.prec = ctx.prec, 192
    try:
        return np.array([float((-exact_ball(drop) * j).exp()) for j in range(count)])
    finally:
        ctx.prec = before


def spare_levels(ladder: Ladder, epsilon: float) -> int:
    """How many more steps than the fewest may be worth their cost, to end on a lower rung.

    d steps down cost d less their sum, in steps of the full length.  If that is at most e + 1, a
    way of e + 1 steps more may end d lower, which is worth d b, b = ln(1 + alpha).
    """
    b = log1p(float(ladder.alpha))
    for spare in range(64):
        d = 0.0
        while d - (1 - exp(-b * d)) / -np.expm1(-b) <= spare + 1:
            d += 0.25
        if d * b <= (spare + 1) * epsilon:
            return spare
    return 64


@dataclass(frozen=True, eq=False)
class _Stairs:
    """The ends of some rungs on one side, rung by rung, from the furthest to the nearest."""

    place: Rungs
    fall: Array
    rung: Rungs
    edge: Array
    widths: Array

    @classmethod
    def of(cls, ends: Ends, falls: Array, widths: Array) -> _Stairs:
        order = np.flatnonzero(ends.edge > widths[ends.place])
        order = order[np.argsort(-ends.edge[order], kind="stable")]
        order = order[np.argsort(ends.place[order].astype(_narrow(len(widths))), kind="stable")]
        level, rung = ends.level[order], ends.rung[order]
        return cls(ends.place[order], falls[level], rung, ends.edge[order], widths)

    @cached_property
    def _runs(self) -> tuple[Array, Rungs]:
        """How far each end lies beyond the next one, and where the ends of each rung begin."""
        below = np.append(self.edge[1:], 0.0)
        last = np.append(self.place[1:] != self.place[:-1], True)
        run: Array = self.edge - np.where(last, self.widths[self.place], below)
        return run, np.searchsorted(self.place, np.arange(len(self.widths) + 1))

    def values(self, heights: Array) -> tuple[Array, Array]:
        """The value of each end, and the greatest of those that lie at least as far."""
        value = self.fall * heights[self.rung]
        lift = 2.0 * self.place  # values are below 1: a rung begins above all before it
        return value, np.maximum.accumulate(value + lift) - lift

    def masses(self, heights: Array) -> Array:
        """The chances of the stairs of all rungs."""
        _, height = self.values(heights)
        run, ends = self._runs
        whole = np.rint(height * run * _ONE).astype(np.int64)
        total = np.append(0, np.cumsum(whole))
        masses: Array = np.diff(total[ends]) / _ONE
        return masses

    def best(self, heights: Array) -> _Stairs:
        """Without the ends that are far from being the best."""
        value, height = self.values(heights)
        some = value > _NEAR * height
        return _Stairs(
            self.place[some], self.fall[some], self.rung[some], self.edge[some], self.widths
        )


def _narrow(count: int) -> type[np.int16] | type[np.int64]:
    """A type for integers below a count: short ones are sorted much faster."""
    return np.int16 if count < 1 << 15 else np.int64


@dataclass(frozen=True, eq=False)
class Heights:
    """The heights of the small rungs and of the first large one, and what they leave the centres.

    Beyond it heights fall as the tops of the rungs rise.  `last` is the rung from which on a law is
    the same but for its scale.
    """

    heights: Array
    centres: Array
    last: int


def lowest_heights(ladder: Ladder, drop: Fraction) -> Heights:
    """The lowest heights for steps that each cost `drop`."""
    epsilon, first = float(drop), ladder.first_large
    last = first + ladder.per_step * ladder.descent(epsilon)
    # of the large rungs, which are alike, a few will do until the end
    some = np.append(np.arange(first), np.arange(last, first - 1, -8)[::-1])
    stairs = _stairs(ladder, drop, some)
    known = ladder.numbers(1 + max(int(side.rung.max()) for side in stairs))
    shrink = known.top[first] / known.top[first:]
    fall = float(powers(drop, 2)[1])  # not of this machine's own making
    heights = 1 / (known.right + known.left + 2 * known.cap * fall / (1 - fall))
    heights = np.minimum.accumulate(heights)
    for turn in range(_MOST_ROUNDS):
        heights[first:] = heights[first] * shrink
        whole = _whole(stairs, heights, some)
        new = heights[some] / (0.2 + 0.8 * whole)
        new[first:] = (new[first:] / shrink[some[first:] - first]).max()
        new = np.maximum.accumulate(new[: first + 1][::-1])[::-1]
        change = float(np.abs(new / heights[: first + 1] - 1).max())
        heights[: first + 1] = new
        if change < _CLOSE:
            break
        if turn in (4, 8):
            stairs = [side.best(heights) for side in stairs]
    heights[first:] = heights[first] * shrink
    every = np.arange(last + 1)
    stairs = _stairs(ladder, drop, every)
    for _ in range(_MOST_ROUNDS):  # those between may need a little more
        least = float(_whole(stairs, heights, every)[first:].min())
        if least >= 1:
            break
        heights[first:] *= (1 + 2.0**-24) / least
    heights[:first] = np.maximum(heights[:first], heights[first])
    heights *= _ROOM / min(float(_whole(stairs, heights, every).min()), 1.0)
    rest = stairs[0].masses(heights) + stairs[1].masses(heights)
    centre = stairs[0].widths + stairs[1].widths
    return Heights(heights[: first + 1], (1 - rest) / centre, last)


def _stairs(ladder: Ladder, drop: Fraction, rungs: Rungs) -> list[_Stairs]:
    """Both sides of some rungs, without what hardly ever happens."""
    epsilon = float(drop)
    levels, spare = ceil(14 / epsilon) + 3, spare_levels(ladder, epsilon)
    falls, known = powers(drop, levels + 1), ladder.numbers(int(rungs.max()) + 1)
    return [
        _Stairs.of(make(ladder, rungs, levels, spare), falls, width[rungs])
        for make, width in ((right_ends, known.right), (left_ends, known.left))
    ]


def _whole(stairs: list[_Stairs], heights: Array, rungs: Rungs) -> Array:
    """What the laws of some rungs add up to if each centre has its full height."""
    centre = (stairs[0].widths + stairs[1].widths) * heights[rungs]
    whole: Array = stairs[0].masses(heights) + stairs[1].masses(heights) + centre
    return whole


def best_widths(alpha: Fraction, parts: int, drop: Fraction) -> tuple[int, int]:
    """The half-widths of the centre with the least error at large rungs, and hardly any bias.

    There heights fall as tops rise, so nothing has to be solved: with the stairs of a centre of
    height 1 the error is the sum of the moments of the sides over the sum of their masses.
    """
    epsilon = float(drop)
    typical = max(floor(UNITS * 0.3 / max(epsilon, 1.0)), 1)
    ladder = Ladder(alpha, parts, typical, typical)
    b = log1p(float(alpha))
    levels = min(ceil(16 / (epsilon - 2 * b)) + 3, 400)
    rung = ladder.first_large + ladder.per_step * (ladder.descent(epsilon) + 1)
    spare, falls = spare_levels(ladder, epsilon), powers(drop, levels + 1)
    moments = []
    for side, make in ((1, right_ends), (-1, left_ends)):
        ends = make(ladder, np.array([rung]), levels, spare)
        known = ladder.numbers(int(ends.rung.max()) + 1)
        width = known.right if side > 0 else known.left
        unit = known.top[rung] / ladder.start
        value = falls[ends.level] * (known.top[rung] / known.top[ends.rung])
        found = []
        for most in range(UNITS + 1):
            change = (most + 0.5) / (typical + 0.5)
            own = (most + 0.5) * unit
            edge = np.maximum(ends.edge + (change - 1) * width[ends.rung], own)
            order = np.argsort(-edge, kind="stable")
            height = np.maximum.accumulate(value[order])
            high = edge[order]
            low = np.append(high[1:], own)
            found.append(
                [
                    int(np.rint(part / unit**n * 2.0**30).astype(np.int64).sum()) / 2.0**30
                    for n, part in (
                        (1, height * (high - low)),
                        (2, height * (high**2 - low**2) / 2),
                    )
                ]
            )
            found[-1][0] += most + 0.5
            found[-1][1] += (most + 0.5) ** 2 / 2
        moments.append(np.array(found))
    (right_mass, right), (left_mass, left) = (part.T for part in moments)
    mass = right_mass[:, None] + left_mass
    error, bias = (right[:, None] + left) / mass, np.abs(right[:, None] - left) / mass
    bias = np.where(error <= _FOR_BIAS * error.min(), bias, np.inf)
    best = np.unravel_index(int(bias.argmin()), bias.shape)
    return int(best[0]), int(best[1])
