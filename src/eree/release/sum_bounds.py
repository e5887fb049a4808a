"""Intervals for sums of cells with independent noise whose scale is not known.

Let y_c = n_c + K_c be the m noisy counts of a sum N = sum of n_c.  Their noise is independent and
symmetric, its chances fall away from zero, and it grows with the largest workplace, which holds at
most n_c workers: so |K_c| stays within reach(1 - t, n_c) but for a chance of t.  An interval may
miss with a chance of b, spent in two parts, b' and b''.  Noise that leans comes last.

1.  Bounds of the counts.  Give every cell the chance (b' / 4) (n_c / N + 1 / m) to leave its reach:
    these add up to b' / 2, and a cell that is much of the sum need not be bounded as strictly as
    the many.  Besides, with t_r^r C(m, r) = b' / (2 r (r - 1)), r = 2 ... m, some r cells all
    leave their reach at 1 - t_r with a chance of b' / (2 r (r - 1)) at most; these add up to less
    than b' / 2.  Else there is an order of the cells in which the r-th is within its reach at
    1 - t_r, where t_1 = b' / (4 m): one alone may have to be bounded strictly, the others loosely.
    With lines A_r + B_r n above the reaches,

        (y - A_r) / (1 + B_r) <= n <= (y + A_r) / (1 - B_r).

    The order is not known.  But A_r and B_r fall with r; so the sum of the lower bounds is least,
    and the sum of the upper ones, or of a convex rising function of them, greatest, when the cells
    are in the order of y (rearrangement: y and strictness enter with increasing differences).

2.  Moments.  Cut off at its reach at 1 - t_1, which step 1 says it never leaves, the noise is still
    symmetric and falls away from zero, and E|K_c|^2j <= a_j + b_j n_c^2j.  Let P_j be the sum of
    these bounds, with that of a number U spread evenly from -1/2 to 1/2.  As 1 + x is below e^x in
    every coefficient, E|sum of K_c + U|^2k is at most (2k)! times the coefficient of x^k in
    exp(sum of P_j x^j / (2j)!).  The sum with U has a density that falls away from zero: it is
    V Y with V even on [-1, 1], so that P(|V Y| >= w) = E(1 - w / |Y|)+.  As (1 - w / y) y^-q is
    greatest at y = w (q + 1) / q, that is at most (q / ((q + 1) w))^q E|V Y|^q (Gauss).  It bounds
    |sum of y - N|, for the best of all even q, and grows with every P_j: so that bounds of the n_c
    from step 1 may stand in for them, though they come from the same noise.

3.  The circle.  Let N <= X be known, L the sum of the lower bounds, and M the least of X,
    X - L + max y, and max(f X, the upper bound of the greatest y at the chance (b' / 4)(f + 1 / m))
    for any f: no n_c is above M.  Then the n_c^2j add up to at most X M^(2j-1), or M^2j and the
    upper bounds from r = 2 on.  So step 2 gives a new X.  To begin with take M = X: what step 2
    gives is then a share of X that falls as X grows, so that no N is above an X that is further
    from the sum of y than that.  For the low end X = sum of y will do: if N is greater, the low end
    is right anyway.

4.  Noise that leans.  Where K_c is not symmetric, its mean, cut off, is at most its drift, which is
    at most a_0 + b_0 n_c.  Odd powers then count too: with Q_1 the sum of the drifts, Q_2j = P_j
    and Q_(2j+1) = sqrt(P_j P_(j+1)) (Cauchy and Schwarz), E|sum of K_c + U|^2k is at most (2k)!
    times the coefficient of x^2k in exp(sum of Q_i x^i / i!).  The sum need not fall away from
    zero, so that Markov takes the place of Gauss.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import ceil, factorial

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from eree.errors import Refusal
from eree.noise.exact import Whole
from eree.release.intervals import UNBOUNDED

Array = NDArray[np.float64]
Reach = Callable[[float, Whole], Whole]
Drift = Callable[[float, Whole], Array]

#: Levels are 1 - 2^(-i / 8): of a chance, the next smaller one is taken.
_STEPS = 8
#: So many levels are made at once: those that are not needed change none of the others.
_AT_ONCE = 32
#: A chance that is smaller is no longer told from 0 when it is taken from 1.
_LEAST = 2.0**-40
#: Moments up to the 24th: the best ones for chances down to a hundred-thousandth.
_ORDERS = 12
#: Counts on the grid of sizes are at most so far apart.
_APART = 1.01
#: No sum of workers comes near this.
_MOST = 2.0**50
#: How often a bound is made better, or looked for at twice the size.
_ROUNDS = 30
#: The f of step 3.
_PARTS = 2.0 ** (-np.arange(16) / 2)
#: The even moments of a number spread evenly from -1/2 to 1/2.
_EVEN = np.array([1 / ((2 * j + 1) * 4.0**j) for j in range(1, _ORDERS + 1)])[:, None]
_POWERS = 2.0 * np.arange(1, _ORDERS + 1)[:, None]


def sum_intervals(
    reach: Reach,
    noisy: Whole,
    starts: Whole,
    miss: float,
    share: float,
    drift: Drift | None = None,
) -> tuple[Whole, Whole]:
    """Low and high ends for sums of consecutive noisy counts; `UNBOUNDED` where there is no high.

    A sum goes from each start to before the next one.  Each interval misses with a chance of at
    most `miss`, of which `share` is b'.  `drift` is that of noise that leans.
    """
    cells = np.diff(starts, append=len(noisy))
    group = np.repeat(np.arange(len(starts)), cells)
    y: Array = noisy[np.lexsort((-noisy, group))].astype(np.float64)
    place = np.arange(1, len(y) + 1) - starts[group]
    levels = _levels(cells[group], place, miss * share)
    parts = _level(miss * share / 4 * (_PARTS + 1 / cells[:, None]))
    strictest = int(levels.max(initial=1)) + _STEPS
    envelope = _envelope(reach, -(-strictest // _AT_ONCE) * _AT_ONCE, drift)
    return _Sums(envelope, y, starts, cells, levels, parts).ends(miss * (1 - share))


def _levels(cells: Whole, place: Whole, miss: float) -> Whole:
    """The levels of t_r, for the r-th of some cells each."""
    ways = gammaln(cells + 1) - gammaln(place + 1) - gammaln(cells - place + 1)
    later = np.maximum(place, 2)
    chance = np.exp((np.log(miss / (2 * later * (later - 1))) - ways) / later)
    return _level(np.where(place == 1, miss / (4 * cells), np.minimum(chance, 0.5)))


def _level(chance: Array) -> Whole:
    """The number of the level whose chance to miss is the next smaller one."""
    check_chance(float(chance.min(initial=1)))
    found: Whole = np.ceil(-np.log2(chance) * _STEPS + 1e-9).astype(np.int64)
    return found


def check_chance(chance: float) -> None:
    """Refuse a chance to miss that is not told from 0 when it is taken from 1."""
    if chance < _LEAST:
        raise Refusal(
            "the chance to miss is too small for so many areas and cells at once; ask for a lower"
            " level or for fewer areas"
        )


class Envelope:
    """Lines above the reaches of a noise, and powers above its moments, for all counts."""

    def __init__(self, reach: Reach, strictest: int, drift: Drift | None = None) -> None:
        far = np.geomspace(64, _MOST, ceil(np.log(_MOST / 64) / np.log(_APART)))
        sizes: Whole = np.unique(np.concatenate([np.arange(64), far.astype(np.int64)]))
        self.chances: Array = 2.0 ** (-np.arange(1, strictest + 1) / _STEPS)
        rows = [reach(float(np.nextafter(1 - t, 1)), sizes) for t in self.chances]
        table = np.maximum.accumulate(np.array(rows, dtype=np.float64), axis=0)
        self.reaches: Array = np.maximum.accumulate(table, axis=1)
        self.first: Array = sizes[:-1].astype(np.float64) + 1  # the least count up to each size
        self.height: Array = self.reaches[:, 0]
        rise = (self.reaches[:, 1:] - self.height[:, None]) / self.first
        self.slope: Array = np.maximum.accumulate(rise.max(1))
        self._moments: dict[int, tuple[Array, Array]] = {}
        self._sizes, self._drift = sizes, drift

    @property
    def leans(self) -> bool:
        """Whether the noise has a drift."""
        return self._drift is not None

    def drift(self, level: int) -> tuple[float, float]:
        """a_0 and b_0 of the noise that is cut off at a level."""
        if self._drift is None:
            return 0.0, 0.0
        chance = float(self.chances[level - 1])
        drift = np.maximum.accumulate(self._drift(float(np.nextafter(1 - chance, 0)), self._sizes))
        return float(drift[0]), float(max(((drift[1:] - drift[0]) / self.first).max(), 0.0))

    def bounds(self, y: Array, level: Whole) -> tuple[Array, Array]:
        """Lower and upper bounds of counts within their reach at some levels."""
        height, slope = self.height[level - 1], self.slope[level - 1]
        room = np.maximum(1 - slope, 1e-12)
        lower, upper = (y - height) / (1 + slope), np.where(slope < 1, (y + height) / room, _MOST)
        return np.maximum(lower, 0), np.clip(upper, 0, _MOST)

    def moments(self, level: int) -> tuple[Array, Array]:
        """a_j and b_j of the noise that is cut off at a level.

        Between two levels the noise is taken to be at its reach at the stricter one.
        """
        if level not in self._moments:
            chances = self.chances[:level]
            weights: Array = -np.diff(chances, prepend=1.0)
            weights[-1] += chances[-1]
            still, grown = self.height[:level] ** 2, (self.reaches[:level, 1:] / self.first) ** 2
            fixed, power, raised = np.empty(_ORDERS), np.empty(_ORDERS), np.ones_like(grown)
            for j in range(_ORDERS):
                raised *= grown
                fixed[j] = weights @ still ** (j + 1)
                above = weights @ raised - fixed[j] * self.first ** (-2.0 * j - 2)
                power[j] = max(above.max(), 0.0)
            self._moments[level] = fixed, power
        return self._moments[level]


_envelope = lru_cache(maxsize=16)(Envelope)  # a mechanism is asked for many lists


class _Sums:
    """What is known of some sums: arrays have a column for each, those of moments 12 rows."""

    def __init__(
        self,
        envelope: Envelope,
        y: Array,
        starts: Whole,
        cells: Whole,
        levels: Whole,
        parts: Whole,
    ) -> None:
        lower, upper = envelope.bounds(y, levels)
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
        self.strict_sums = _power_sums(upper, self.largest, starts, cells)
        self.loose_sums = _power_sums(loose, self.loose, starts, cells)
        cut = -(-levels[starts] // _STEPS) * _STEPS  # a little stricter, so that few are needed
        moments = [envelope.moments(int(level)) for level in cut]
        self.fixed = np.array([fixed for fixed, _ in moments]).T * cells + _EVEN
        self.power = np.array([power for _, power in moments]).T
        self.leans = envelope.leans
        drifts = {int(level): envelope.drift(int(level)) for level in np.unique(cut)}
        still, grown = np.array([drifts[int(level)] for level in cut]).T
        self.still, self.grown = still * cells, grown

    def ends(self, miss: float) -> tuple[Whole, Whole]:
        """Low and high ends, which the moments miss with a chance of at most `miss`."""
        low = np.maximum(self.least, self.total - self._reach(np.maximum(self.total, 0), miss))
        high = np.minimum(self.most, self._begin(miss))
        for _ in range(_ROUNDS):
            before, high = high, np.clip(self.total + self._reach(high, miss), 0, high)
            if (high >= 0.999 * before).all():
                break
        bounded = high < _MOST / 2
        last = np.where(bounded, np.floor(high + 1e-6), _MOST)
        first = np.minimum(np.ceil(low - 1e-6), last)
        return first.astype(np.int64), np.where(bounded, last, UNBOUNDED).astype(np.int64)

    def _begin(self, miss: float) -> Array:
        """Bounds of the sums that need no other bound."""
        found = np.full_like(self.total, _MOST)
        tried = np.maximum(self.total, 1)
        for _ in range(_ROUNDS):
            drift = self.still / tried + self.grown if self.leans else None
            reach = _roots(self.fixed * tried**-_POWERS + self.power, miss, drift).min(0) * tried
            sure = (reach < tried) & (self.total + reach + 1 < tried)
            found = np.where(sure, np.minimum(found, tried), found)
            if sure.all():
                break
            tried = 2 * tried
        return found

    def _reach(self, known: Array, miss: float) -> Array:
        """How far the noisy sums are from the true ones, if those are at most what is known."""
        in_part = np.maximum(_PARTS * known[:, None], self.in_part).min(1)
        bounds = (self.largest, in_part, known, known - self.least + self.top)
        largest = np.maximum(np.minimum.reduce(bounds), 1)
        with np.errstate(over="ignore"):  # what is too large for a number is not the least
            strict = self.strict_sums * (self.largest / largest) ** _POWERS
            loose = self.loose_sums * (self.loose / largest) ** _POWERS + 1
        sums = np.minimum(np.minimum(strict, loose), known / largest)
        drift = (self.still + self.grown * known) / largest if self.leans else None
        roots = _roots(self.fixed * largest**-_POWERS + self.power * sums, miss, drift)
        reach: Array = np.ceil(roots.min(0) * largest * (1 + 1e-9) - 0.5)
        return reach


def _power_sums(bounds: Array, unit: Array, starts: Whole, cells: Whole) -> Array:
    """Sums of the even powers of some bounds, in a unit for each sum."""
    square = (bounds / np.repeat(unit, cells)) ** 2
    return np.array([np.add.reduceat(square ** (j + 1), starts) for j in range(_ORDERS)])


def _roots(moments: Array, miss: float, drift: Array | None = None) -> Array:
    """The bounds of step 2, one row for each k, from the sums P_j; with a drift those of step 4."""
    if drift is not None:
        return _leaning_roots(moments, miss, drift)
    series, roots = [np.ones(moments.shape[1])], []
    for k in range(1, _ORDERS + 1):
        terms = [i / factorial(2 * i) * moments[i - 1] * series[k - i] for i in range(1, k + 1)]
        series.append(np.sum(terms, axis=0) / k)
        root = (factorial(2 * k) / miss * series[k]) ** (1 / (2 * k))
        roots.append(2 * k / (2 * k + 1) * root)
    return np.array(roots)


def _leaning_roots(moments: Array, miss: float, drift: Array) -> Array:
    """The same for noise that leans, from the sums Q_i."""
    sums = [drift]
    for j in range(_ORDERS):
        if j:
            sums.append(np.sqrt(moments[j - 1] * moments[j]))
        sums.append(moments[j])
    series, roots = [np.ones(moments.shape[1])], []
    for i in range(1, 2 * _ORDERS + 1):
        terms = [n / factorial(n) * sums[n - 1] * series[i - n] for n in range(1, i + 1)]
        series.append(np.sum(terms, axis=0) / i)
        if i % 2 == 0:
            roots.append((factorial(i) / miss * series[i]) ** (1 / i))
    return np.array(roots)
