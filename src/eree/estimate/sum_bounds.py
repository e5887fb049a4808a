"""Intervals for sums of cells with independent noise whose scale is not known.

Let y_c = n_c + K_c be the m noisy counts of a sum N = sum of n_c.  Their noise is independent and
symmetric, its probabilities fall away from zero, and it grows with the largest workplace, which
holds at most n_c workers: so |K_c| stays within the half-width w(1 - t, n_c) but for a probability
of t.  An interval may miss with a probability of b, spent in two parts, b' and b''.  Asymmetric
noise comes last.

1.  Bounds of the counts.  Give every cell the probability (b' / 4) (n_c / N + 1 / m) to leave its
    half-width: these add up to b' / 2, and a cell that is much of the sum need not be bounded as
    strictly as the many.  Besides, with t_r^r C(m, r) = b' / (2 r (r - 1)), r = 2 ... m, some r
    cells all leave their half-widths at 1 - t_r with a probability of b' / (2 r (r - 1)) at most;
    these add up to less than b' / 2.  Else there is an order of the cells in which the r-th is
    within its half-width at 1 - t_r, where t_1 = b' / (4 m): one alone may have to be bounded
    strictly, the others loosely.  With lines A_r + B_r n above the half-widths,

        (y - A_r) / (1 + B_r) <= n <= (y + A_r) / (1 - B_r).

    The order is not known.  But A_r and B_r fall with r; so the sum of the lower bounds is least,
    and the sum of the upper ones, or of a convex rising function of them, greatest, when the cells
    are in the order of y (rearrangement: y and strictness enter with increasing differences).

2.  Moments.  Cut off at its half-width at 1 - t_1, which step 1 says it never leaves, the noise is
    still symmetric and falls away from zero, and E|K_c|^2j <= a_j + b_j n_c^2j.  Let P_j be the sum
    of these bounds, with that of a number U spread evenly from -1/2 to 1/2.  As 1 + x is below e^x
    in every coefficient, E|sum of K_c + U|^2k is at most (2k)! times the coefficient of x^k in
    exp(sum of P_j x^j / (2j)!).  The sum with U has a density that falls away from zero: it is
    V Y with V even on [-1, 1], so that P(|V Y| >= w) = E(1 - w / |Y|)+.  As (1 - w / y) y^-q is
    greatest at y = w (q + 1) / q, that is at most (q / ((q + 1) w))^q E|V Y|^q (Gauss).  It bounds
    |sum of y - N|, for the best of all even q, and grows with every P_j: so that bounds of the n_c
    from step 1 may stand in for them, though they come from the same noise.

3.  The circle.  Let N <= X be known, L the sum of the lower bounds, and M the least of X,
    X - L + max y, and max(f X, the upper bound of the greatest y at the probability
    (b' / 4)(f + 1 / m)) for any f: no n_c is above M.  Then the n_c^2j add up to at most
    X M^(2j-1), or M^2j and the upper bounds from r = 2 on.  So step 2 gives a new X.  To begin with
    take M = X: what step 2 gives is then a share of X that falls as X grows, so that no N is above
    an X that is further from the sum of y than that.  For the low end X = sum of y will do: if N is
    greater, the low end is right anyway.

4.  Asymmetric noise.  Where K_c is not symmetric, step 1 has a half-width of its own on each side,
    and says besides that no K_c is beyond the points where the distribution of its own x_c leaves
    t_1 / 2 on each side.  Cut off there (and 0 beyond) it has a mean mu_c.  Of K_c - mu_c the i-th
    moment has a size of at most a_i + b_i n_c^i, i = 2, 3, ... 24: bounds for all x_c <= n_c at
    once, from the probabilities themselves.  With Q_i the sum of these, E(sum of K_c - mu_c)^2k is
    at most (2k)! times the coefficient of x^2k in exp(sum of Q_i x^i / i!); the first moment is 0,
    and odd ones hardly count in large sums.  The sum need not fall away from zero, so that Markov
    takes the place of Gauss.  The means add up to at most the sum of D(n_c), D(n) the greatest mu
    of all x <= n; for the high end, below zero.  For every lambda >= 0 that is at most lambda X + m
    times the greatest D(n) - lambda n, n <= M.  In step 3 its share of X falls too as X grows: the
    least of all lambdas, with any M, is concave in X and not below 0 at X = 0.

What is known of the noise of a cell from its count alone: lines, powers and means above it.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from math import ceil, factorial
from typing import Protocol

import numpy as np

from eree.errors import Refusal
from eree.mechanisms.cache import Arrays, arrays_by_mechanism
from eree.mechanisms.intervals import UNBOUNDED, CutMoments
from eree.mechanisms.mechanism import LIMIT
from eree.random.exact import Array, Integers

#: Levels are 1 - 2^(-i / 8): of a probability, the next smaller one is taken.
STEPS = 8
#: No sum of workers comes near this.
MOST = 2.0**50
#: Moments up to the 24th: the best ones for probabilities down to a hundred-thousandth.
HIGHEST = 24
#: Counts on the grid of sizes are at most so far apart.
_APART = 1.01
#: What a worker more may cost in the bounds of sums of means.
_PRICES = np.append(0.0, 2.0 ** np.arange(-24, 1, 0.5))


class Noise(Hashable, Protocol):
    """What bounds of sums ask of a mechanism that draws each cell apart."""

    @property
    def symmetric(self) -> bool:
        """Whether the noise is; else it has moments."""

    def half_widths(self, level: float, sizes: Integers) -> tuple[Integers, Integers]:
        """What the noise stays within, below and above the count."""

    def cut_moments(self, probability: float, sizes: Integers, orders: Array) -> CutMoments | None:
        """Means and moments of asymmetric noise."""


class Lines:
    """Lines A + B n above some half-widths, one for each level."""

    def __init__(self, widths: Array, first: Array) -> None:
        self.intercept: Array = widths[:, 0]
        rise = (widths[:, 1:] - self.intercept[:, None]) / first
        self.slope: Array = np.maximum.accumulate(rise.max(1))


class Envelope:
    """Lines above the half-widths of a noise, and powers above its moments, for all counts.

    The moments of asymmetric noise are those of its distance from its mean, of all orders from 2
    on; those of symmetric noise are the even ones.
    """

    def __init__(self, noise: Noise, strictest: int) -> None:
        far = np.geomspace(64, MOST, ceil(np.log(MOST / 64) / np.log(_APART)))
        sizes: Integers = np.unique(np.concatenate([np.arange(64), far.astype(np.int64)]))
        self.first: Array = sizes[:-1].astype(np.float64) + 1  # the least count up to each size
        self.probabilities: Array = 2.0 ** (-np.arange(1, strictest + 1) / STEPS)

        def half_widths() -> Arrays:
            levels = np.nextafter(1 - self.probabilities, 1)
            rows = [noise.half_widths(level, sizes) for level in levels.tolist()]
            tables = (np.array(side, dtype=np.float64) for side in zip(*rows, strict=True))
            grown = (
                np.maximum.accumulate(np.maximum.accumulate(t, axis=0), axis=1) for t in tables
            )
            return dict(zip(("below", "above"), grown, strict=True))

        kept = arrays_by_mechanism(noise, f"half-widths at {strictest} levels", half_widths)
        below, above = kept["below"], kept["above"]
        self.below, self.above = Lines(below, self.first), Lines(above, self.first)
        self.half_widths: Array = np.maximum(below, above)
        self.symmetric = noise.symmetric
        self.orders: Array = np.arange(2.0, HIGHEST + 1, 2 if self.symmetric else 1)
        self._sizes, self._noise = sizes, noise
        self._moments: dict[int, tuple[Array, Array]] = {}
        self._means: dict[int, tuple[Array, Array]] = {}

    def bounds(self, y: Array, level: Integers) -> tuple[Array, Array]:
        """Lower and upper bounds of counts within their half-widths at some levels."""
        intercept, slope = self.above.intercept[level - 1], self.above.slope[level - 1]
        lower = (y - intercept) / (1 + slope)
        intercept, slope = self.below.intercept[level - 1], self.below.slope[level - 1]
        room = np.maximum(1 - slope, 1e-12)
        upper = np.where(slope < 1, (y + intercept) / room, MOST)
        return np.maximum(lower, 0), np.clip(upper, 0, MOST)

    def moments(self, level: int) -> tuple[Array, Array]:
        """a_i and b_i of the noise that is cut off at a level, for each order i."""
        if level not in self._moments:
            make = self._of_symmetric if self.symmetric else self._of_asymmetric
            self._moments[level] = make(level)
        return self._moments[level]

    def _of_symmetric(self, level: int) -> tuple[Array, Array]:
        """Between two levels the noise is taken to be at its half-width at the stricter one."""
        probabilities = self.probabilities[:level]
        weights: Array = -np.diff(probabilities, prepend=1.0)
        weights[-1] += probabilities[-1]
        widths = self.half_widths[:level]
        still, grown = widths[:, 0] ** 2, (widths[:, 1:] / self.first) ** 2
        fixed, power, raised = [], [], np.ones_like(grown)
        for order in self.orders:
            raised *= grown
            fixed.append(weights @ still ** (order / 2))
            above = weights @ raised - fixed[-1] * self.first**-order
            power.append(max(above.max(), 0.0))
        return np.array(fixed), np.array(power)

    def _of_asymmetric(self, level: int) -> tuple[Array, Array]:
        """From the norms of the noise."""
        norms, order = self._spread(level).norms, self.orders[:, None]
        fixed = norms[:, :1] ** order
        above = (norms[:, 1:] / self.first) ** order - fixed * self.first**-order
        return fixed[:, 0], np.maximum(above.max(1), 0.0)

    def _spread(self, level: int) -> CutMoments:
        probability = float(self.probabilities[level - 1])
        found = self._noise.cut_moments(probability, self._sizes, self.orders)
        assert found is not None
        return found

    def means(self, level: int, cells: Array, total: Array, largest: Array) -> tuple[Array, Array]:
        """Bounds of the sums of the means of so many cells, above and below, cut off at a level.

        The counts add up to `total` at most and none is above `largest`.  Whatever a worker more
        costs, lambda: no sum of D(n) is above lambda times the total and, for each cell, the
        greatest D(n) - lambda n.  The best of some lambdas is taken: the bound is convex in lambda.
        """
        if level not in self._means:
            spread, prices = self._spread(level), _PRICES[:, None]
            tables = [
                np.maximum.accumulate(
                    np.append(side[:1] + 0 * prices, side[1:] - prices * self.first, axis=1), axis=1
                )
                for side in (spread.up, spread.down)
            ]
            self._means[level] = tables[0], tables[1]
        at = np.minimum(np.searchsorted(self._sizes, largest), len(self._sizes) - 1)
        up, down = (_least_of(table, at, cells, total) for table in self._means[level])
        return up, down


def _least_of(table: Array, at: Integers, cells: Array, total: Array) -> Array:
    """The least bound over all prices, a row of the table for each, by halving where they fall."""

    def bound(price: Integers) -> Array:
        found: Array = _PRICES[price] * total + cells * table[price, at]
        return found

    low = np.zeros(len(at), dtype=np.int64)
    high = np.full(len(at), len(_PRICES) - 1)
    while (low < high).any():
        middle = (low + high) // 2
        falls = bound(middle + (low < high)) < bound(middle)
        low, high = np.where(falls, middle + 1, low), np.where(falls, high, middle)
    return bound(low)


envelope_of = lru_cache(maxsize=16)(Envelope)  # a mechanism is asked for many lists


#: So many levels are made at once: those that are not needed change none of the others.
_AT_ONCE = 32
#: A probability that is smaller is no longer distinct from 0 when it is taken from 1.
_LEAST = 2.0**-40
#: How often a bound is made better, or looked for at twice the size.
_ROUNDS = 30
#: The f of step 3.
_PARTS = 2.0 ** (-np.arange(16) / 2)


def sum_intervals(
    noise: Noise, noisy: Integers, starts: Integers, miss: float, share: float
) -> tuple[Integers, Integers]:
    """Low and high ends for sums of consecutive noisy counts; `UNBOUNDED` where there is no high.

    A sum goes from each start to before the next one.  Each interval misses with a probability
    of at most `miss`, of which `share` is b'.
    """
    cells = np.diff(starts, append=len(noisy))
    group = np.repeat(np.arange(len(starts)), cells)
    y: Array = noisy[np.lexsort((-noisy, group))].astype(np.float64)
    place = np.arange(1, len(y) + 1) - starts[group]
    levels = _levels(cells[group], place, miss * share)
    parts = _level(miss * share / 4 * (_PARTS + 1 / cells[:, None]))
    strictest = int(levels.max(initial=1)) + STEPS
    envelope = envelope_of(noise, -(-strictest // _AT_ONCE) * _AT_ONCE)
    return _Sums(envelope, y, starts, cells, levels, parts).ends(miss * (1 - share))


def _levels(cells: Integers, place: Integers, miss: float) -> Integers:
    """The levels of t_r, for the r-th of some cells each."""
    logs = np.append(0.0, np.cumsum(np.log(np.arange(1.0, cells.max(initial=0) + 1))))
    ways = logs[cells] - logs[place] - logs[cells - place]  # of factorials
    later = np.maximum(place, 2)
    probability = np.exp((np.log(miss / (2 * later * (later - 1))) - ways) / later)
    return _level(np.where(place == 1, miss / (4 * cells), np.minimum(probability, 0.5)))


def _level(probability: Array) -> Integers:
    """The number of the level whose probability to miss is the next smaller one."""
    check_miss(float(probability.min(initial=1)))
    found: Integers = np.ceil(-np.log2(probability) * STEPS + 1e-9).astype(np.int64)
    return found


def check_miss(probability: float) -> None:
    """Refuse a probability to miss that is not distinct from 0 when it is taken from 1."""
    if probability < _LEAST:
        raise Refusal(
            "the probability to miss is too small for so many areas and cells at once; ask for a"
            " lower level or for fewer areas"
        )


class _Sums:
    """What is known of some sums: arrays have a column for each, those of moments a row for each.

    Moments of symmetric noise are those with a number spread evenly from -1/2 to 1/2.
    """

    def __init__(self, envelope: Envelope, y: Array, starts: Integers, *given: Integers) -> None:
        cells, levels, parts = given
        lower, upper = envelope.bounds(y, levels)
        self.envelope, self.cells = envelope, cells
        self.powers = envelope.orders[:, None]
        self.total = np.add.reduceat(y, starts)
        self.least = np.add.reduceat(lower, starts)
        self.most = np.add.reduceat(upper, starts)
        self.top = np.maximum(y[starts], 0)
        self.largest = np.maximum(upper[starts], 1)
        self.in_part = envelope.bounds(self.top[:, None], parts)[1]
        # the upper bounds from r = 2 on, for all cells but the last one, if another is strict
        last = np.append(starts[1:], len(y)) - 1
        _, loose = envelope.bounds(y, np.append(levels[1:], 1))
        loose[last] = 0
        self.loose = np.maximum(loose[starts], 1)
        self.strict_sums = self._power_sums(upper, self.largest, starts)
        self.loose_sums = self._power_sums(loose, self.loose, starts)
        self.cut = -(-levels[starts] // STEPS) * STEPS  # a little stricter, so that few are needed
        moments = [envelope.moments(int(level)) for level in self.cut]
        even = 1 / ((self.powers + 1) * 2.0**self.powers) if envelope.symmetric else 0.0
        self.fixed = np.array([fixed for fixed, _ in moments]).T * cells + even
        self.power = np.array([power for _, power in moments]).T

    def ends(self, miss: float) -> tuple[Integers, Integers]:
        """Low and high ends, which the moments miss with a probability of at most `miss`."""
        low = np.maximum(
            self.least, self.total - self._half_width(np.maximum(self.total, 0), miss, 0)
        )
        high = np.minimum(self.most, self._begin(miss))
        for _ in range(_ROUNDS):
            before, high = high, np.clip(self.total + self._half_width(high, miss, 1), 0, high)
            if (high >= 0.999 * before).all():
                break
        bounded = high < MOST / 2
        last = np.where(bounded, np.floor(high + 1e-6), MOST)
        first = np.minimum(np.ceil(low - 1e-6), last)
        return first.astype(np.int64), np.where(bounded, last, UNBOUNDED).astype(np.int64)

    def _begin(self, miss: float) -> Array:
        """Upper bounds of the sums that need no other bound."""
        found = np.full_like(self.total, MOST)
        tried = np.maximum(self.total, 1)
        any_size = np.full_like(self.total, MOST)
        for _ in range(_ROUNDS):
            moments = self.fixed * tried**-self.powers + self.power
            width = self._roots(moments, miss) * tried + self._means(tried, any_size, 1)
            sure = (width < tried) & (self.total + width + 1 < tried)
            found = np.where(sure, np.minimum(found, tried), found)
            if sure.all():
                break
            tried = 2 * tried
        return found

    def _half_width(self, known: Array, miss: float, side: int) -> Array:
        """How far the noisy sums are above (0) or below (1) true ones that are at most `known`."""
        in_part = np.maximum(_PARTS * known[:, None], self.in_part).min(1)
        bounds = (self.largest, in_part, known, known - self.least + self.top)
        largest = np.maximum(np.minimum.reduce(bounds), 1)
        with np.errstate(over="ignore"):  # what is too large for a number is not the least
            strict = self.strict_sums * (self.largest / largest) ** self.powers
            loose = self.loose_sums * (self.loose / largest) ** self.powers + 1
        sums = np.minimum(np.minimum(strict, loose), known / largest)
        moments = self.fixed * largest**-self.powers + self.power * sums
        width = self._roots(moments, miss) * largest * (1 + 1e-9)
        whole = np.ceil(width - 0.5) if self.envelope.symmetric else width
        found: Array = whole + self._means(known, largest, side)
        return found

    def _roots(self, moments: Array, miss: float) -> Array:
        every = roots(moments, self.envelope.orders, miss, falling=self.envelope.symmetric)
        best: Array = np.fmin.reduce(every)  # what is too large for a number is no bound
        return best

    def _means(self, known: Array, largest: Array, side: int) -> Array:
        """What the means of the noise add, at most."""
        found = np.zeros_like(known)
        if not self.envelope.symmetric:
            for level in np.unique(self.cut):
                some = self.cut == level
                of_some = self.cells[some], known[some], largest[some]
                found[some] = self.envelope.means(int(level), *of_some)[side]
        return found

    def _power_sums(self, bounds: Array, unit: Array, starts: Integers) -> Array:
        """Sums of the powers of some bounds, in a unit for each sum."""
        shares = bounds / np.repeat(unit, self.cells)
        step = shares**2 if self.envelope.symmetric else shares
        raised, found = shares**2, []
        for _ in self.envelope.orders:
            found.append(np.add.reduceat(raised, starts))
            raised *= step
        return np.array(found)


def roots(moments: Array, orders: Array, miss: float, *, falling: bool) -> Array:
    """The bounds of step 2 or 4, a row for each even order, from sums of moments of some orders.

    If the sum has a density that falls away from zero they are less than without.
    """
    step = int(orders[1] - orders[0])  # odd moments of symmetric noise are 0
    number = HIGHEST // step + 1
    scaled, series = np.zeros((2, number, moments.shape[1]))
    places = orders.astype(int) // step
    scaled[places] = np.array([n / factorial(n) for n in orders.astype(int)])[:, None] * moments
    series[0] = 1
    for i in range(1, number):
        series[i] = np.einsum("ij,ij->j", scaled[1 : i + 1], series[i - 1 :: -1]) / (i * step)
    even = range(2, HIGHEST + 1, 2)
    found = [(factorial(i) / miss * series[i // step]) ** (1 / i) for i in even]
    return np.array([i / (i + 1) * n if falling else n for i, n in zip(even, found, strict=True)])


def summed(values: Integers, starts: Integers) -> Integers:
    """Sums of runs of integers; what goes beyond what a noisy count may be is set to that."""
    near = np.add.reduceat(values.astype(np.float64), starts)
    sums = np.add.reduceat(values, starts)  # beyond the limit these may have gone round
    return np.where(np.abs(near) < LIMIT, sums, np.where(near > 0, LIMIT, -LIMIT))
