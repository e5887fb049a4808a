"""The density levels of the staircase: as low as they may be if every density integrates to one.

The distribution of a bin i is what its levels make of it: at each output the greatest of q^j h_r
over the ends that lie beyond it, and over the centre what is left of the probability, at most h_i.
So h is any positive function that does not rise and that leaves every centre no more than its
level; the lower, the less noise.  It is found by repeated correction of all bins at once.

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
from eree.mechanisms.staircase.size_grid import UNITS, Bins, SizeGrid
from eree.random.exact import Array, exact_ball

#: Probabilities in integers.
_ONE = 2.0**44
_MOST_ROUNDS, _CLOSE = 60, 2.0**-17
#: Ends whose value is a smaller share of the best one are left out after some rounds.
_NEAR = 0.8
#: What is added to the levels besides, so that no centre is above its own.
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


def spare_steps(grid: SizeGrid, epsilon: float) -> int:
    """How many more steps than the fewest may be worth their cost, to end on a lower bin.

    d steps down cost d less their sum, in steps of the full length.  If that is at most e + 1, a
    way of e + 1 steps more may end d lower, which is worth d b, b = ln(1 + alpha).
    """
    b = log1p(float(grid.alpha))
    for spare in range(64):
        d = 0.0
        while d - (1 - exp(-b * d)) / -np.expm1(-b) <= spare + 1:
            d += 0.25
        if d * b <= (spare + 1) * epsilon:
            return spare
    return 64


@dataclass(frozen=True, eq=False)
class _Side:
    """The ends of some bins on one side, bin by bin, from the furthest to the nearest."""

    place: Bins
    fall: Array
    size_bin: Bins
    edge: Array
    widths: Array

    @classmethod
    def of(cls, ends: Ends, falls: Array, widths: Array) -> _Side:
        order = np.flatnonzero(ends.edge > widths[ends.place])
        order = order[np.argsort(-ends.edge[order], kind="stable")]
        order = order[np.argsort(ends.place[order].astype(_narrow(len(widths))), kind="stable")]
        step_count, size_bin = ends.step_count[order], ends.size_bin[order]
        return cls(ends.place[order], falls[step_count], size_bin, ends.edge[order], widths)

    @cached_property
    def _runs(self) -> tuple[Array, Bins]:
        """How far each end lies beyond the next one, and where the ends of each bin begin."""
        below = np.append(self.edge[1:], 0.0)
        last = np.append(self.place[1:] != self.place[:-1], True)
        run: Array = self.edge - np.where(last, self.widths[self.place], below)
        return run, np.searchsorted(self.place, np.arange(len(self.widths) + 1))

    def values(self, levels: Array) -> tuple[Array, Array]:
        """The value of each end, and the greatest of those that lie at least as far."""
        value = self.fall * levels[self.size_bin]
        offset = 2.0 * self.place  # values are below 1: a bin begins above all before it
        return value, np.maximum.accumulate(value + offset) - offset

    def masses(self, levels: Array) -> Array:
        """The probabilities of the plateaus of all bins."""
        _, level = self.values(levels)
        run, ends = self._runs
        whole = np.rint(level * run * _ONE).astype(np.int64)
        total = np.append(0, np.cumsum(whole))
        masses: Array = np.diff(total[ends]) / _ONE
        return masses

    def best(self, levels: Array) -> _Side:
        """Without the ends that are far from being the best."""
        value, level = self.values(levels)
        some = value > _NEAR * level
        return _Side(
            self.place[some], self.fall[some], self.size_bin[some], self.edge[some], self.widths
        )


def _narrow(count: int) -> type[np.int16] | type[np.int64]:
    """A type for integers below a count: short ones are sorted much faster."""
    return np.int16 if count < 1 << 15 else np.int64


@dataclass(frozen=True, eq=False)
class DensityLevels:
    """Density levels of the small bins and the first large one, and what the centres keep.

    Beyond it levels fall as the tops of the bins rise.  `last` is the bin from which on a
    distribution is the same but for its scale.
    """

    of_bins: Array
    centres: Array
    last: int


def lowest_levels(grid: SizeGrid, drop: Fraction) -> DensityLevels:
    """The lowest density levels for steps that each cost `drop`."""
    epsilon, first = float(drop), grid.first_large
    last = first + grid.per_step * grid.descent(epsilon)
    # of the large bins, which are alike, a few will do until the end
    some = np.append(np.arange(first), np.arange(last, first - 1, -8)[::-1])
    sides = _sides(grid, drop, some)
    known = grid.numbers(1 + max(int(side.size_bin.max()) for side in sides))
    shrink = known.top[first] / known.top[first:]
    fall = float(powers(drop, 2)[1])  # not of this machine's own making
    levels = 1 / (known.right + known.left + 2 * known.cap * fall / (1 - fall))
    levels = np.minimum.accumulate(levels)
    for turn in range(_MOST_ROUNDS):
        levels[first:] = levels[first] * shrink
        whole = _whole(sides, levels, some)
        new = levels[some] / (0.2 + 0.8 * whole)
        new[first:] = (new[first:] / shrink[some[first:] - first]).max()
        new = np.maximum.accumulate(new[: first + 1][::-1])[::-1]
        change = float(np.abs(new / levels[: first + 1] - 1).max())
        levels[: first + 1] = new
        if change < _CLOSE:
            break
        if turn in (4, 8):
            sides = [side.best(levels) for side in sides]
    levels[first:] = levels[first] * shrink
    every = np.arange(last + 1)
    sides = _sides(grid, drop, every)
    for _ in range(_MOST_ROUNDS):  # those between may need a little more
        least = float(_whole(sides, levels, every)[first:].min())
        if least >= 1:
            break
        levels[first:] *= (1 + 2.0**-24) / least
    levels[:first] = np.maximum(levels[:first], levels[first])
    levels *= _ROOM / min(float(_whole(sides, levels, every).min()), 1.0)
    rest = sides[0].masses(levels) + sides[1].masses(levels)
    centre = sides[0].widths + sides[1].widths
    return DensityLevels(levels[: first + 1], (1 - rest) / centre, last)


def _sides(grid: SizeGrid, drop: Fraction, bins: Bins) -> list[_Side]:
    """Both sides of some bins, without what hardly ever happens."""
    epsilon = float(drop)
    most_steps, spare = ceil(14 / epsilon) + 3, spare_steps(grid, epsilon)
    falls, known = powers(drop, most_steps + 1), grid.numbers(int(bins.max()) + 1)
    return [
        _Side.of(make(grid, bins, most_steps, spare), falls, width[bins])
        for make, width in ((right_ends, known.right), (left_ends, known.left))
    ]


def _whole(sides: list[_Side], levels: Array, bins: Bins) -> Array:
    """What the distributions of some bins add up to if each centre has its full level."""
    centre = (sides[0].widths + sides[1].widths) * levels[bins]
    whole: Array = sides[0].masses(levels) + sides[1].masses(levels) + centre
    return whole


def best_widths(alpha: Fraction, parts: int, drop: Fraction) -> tuple[int, int]:
    """The half-widths of the centre with the least error at large bins, and hardly any bias.

    There levels fall as tops rise, so nothing has to be solved: with the plateaus around a centre
    of level 1 the error is the sum of the moments of the sides over the sum of their masses.
    """
    epsilon = float(drop)
    typical = max(floor(UNITS * 0.3 / max(epsilon, 1.0)), 1)
    grid = SizeGrid(alpha, parts, typical, typical)
    b = log1p(float(alpha))
    most_steps = min(ceil(16 / (epsilon - 2 * b)) + 3, 400)
    size_bin = grid.first_large + grid.per_step * (grid.descent(epsilon) + 1)
    spare, falls = spare_steps(grid, epsilon), powers(drop, most_steps + 1)
    moments = []
    for side, make in ((1, right_ends), (-1, left_ends)):
        ends = make(grid, np.array([size_bin]), most_steps, spare)
        known = grid.numbers(int(ends.size_bin.max()) + 1)
        width = known.right if side > 0 else known.left
        unit = known.top[size_bin] / grid.start
        value = falls[ends.step_count] * (known.top[size_bin] / known.top[ends.size_bin])
        found = []
        for most in range(UNITS + 1):
            change = (most + 0.5) / (typical + 0.5)
            own = (most + 0.5) * unit
            edge = np.maximum(ends.edge + (change - 1) * width[ends.size_bin], own)
            order = np.argsort(-edge, kind="stable")
            level = np.maximum.accumulate(value[order])
            high = edge[order]
            low = np.append(high[1:], own)
            found.append(
                [
                    int(np.rint(part / unit**n * 2.0**30).astype(np.int64).sum()) / 2.0**30
                    for n, part in (
                        (1, level * (high - low)),
                        (2, level * (high**2 - low**2) / 2),
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
