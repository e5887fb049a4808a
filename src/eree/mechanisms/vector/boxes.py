"""A staircase for steps that all go up or all go down: a mixture of boxes.

The density at z is proportional to q^(s(up) + s(down)): up is the greatest of the z_i and down the
greatest of the -z_i, each at least 0; s(r), the plateau of r, is 0 up to `first` and grows by 1
from there on at every whole step; q = e^-drop.

As q^s is (1 - q) times the sum of q^k over k >= s, and s(up) <= k where no z_i is above first + k,
the density is a mixture: of the boxes [-(first + l), first + k]^d, each with the weight q^(k + l)
times its volume.  With m = k + l all boxes have the side 2 first + m, and there are m + 1 of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from math import ceil, log2, sqrt

import numpy as np
from flint import arb, ctx

from eree.random.exact import COARSE, Array, exact_ball, sure_less

Interval = tuple[arb, arb]

#: Bits of what doubles are taken from, and of comparisons, whatever precision is set.
_BITS = 128
#: Firsts are looked for between powers of 2, at so many points to each.
_POINTS = 16
_LEAST_FIRST = -20
#: Doubles compute mean sizes to much better than this share.
_CLOSE = 1e-9


@dataclass(frozen=True)
class BoxPlateaus:
    """The staircase of a width d."""

    first: Fraction
    drop: Fraction
    width: int

    def plateau(self, r: Fraction) -> int:
        """s(r); on an end it is the lower number."""
        return max(ceil(r - self.first), 0)

    def side(self, m: int) -> Fraction:
        """The side of a box."""
        return 2 * self.first + m

    def fall(self) -> arb:
        """q."""
        return (-exact_ball(self.drop)).exp()

    def whole(self) -> arb:
        """The sum of the weights of all boxes."""
        return _whole(self, ctx.prec)

    def density(self, up: int, down: int) -> arb:
        """The density on two plateaus: of all boxes that extend as far up and as far down."""
        q = self.fall()
        return q**up / (1 - q) * (q**down / (1 - q)) / self.whole()

    def tail(self, x: arb) -> arb:
        """The probability that one number is at least x >= 0.

        From the k on at which a box extends to x, a box with k has first + k - x of its side there.
        """
        start = _ends((x - exact_ball(self.first)).ceil())[0]
        over = exact_ball(self.first + start) - x
        over, rest = over.max(arb(0)), over

        def part(m: int) -> arb:
            """The sum of first + k - x over all k from the start to m."""
            n = m - start
            return over + n * rest + arb(n * (n + 1)) / 2

        def growth(m: int) -> Fraction | None:
            """As rest is about -1 or more, a sum grows by at most 3 / (n - 1) of itself."""
            n = m - start
            return Fraction(n + 2, n - 1) if n > 1 else None

        return _sum(self, self.width - 1, start, part, growth) / self.whole()

    def box(self, box: Sequence[Interval], times: Sequence[int]) -> arb:
        """The probability of a box: each interval is that of as many numbers as `times` says.

        Boxes of the mixture that end above it share the same with it, whatever their k; so do
        those that end below it, whatever their l.
        """
        ups = self._weights([low for low, _ in box], [high for _, high in box])
        downs = self._weights([-high for _, high in box], [-low for low, _ in box])
        total = arb(0)
        for (above, up), (below, down) in product(ups, downs):
            top, bottom = exact_ball(self.first + above), -exact_ball(self.first + below)
            part = up * down
            for (low, high), n in zip(box, times, strict=True):
                part *= (high.min(top) - low.max(bottom)).max(arb(0)) ** n
            total += part
        return total / self.whole()

    def _weights(self, lows: Sequence[arb], highs: Sequence[arb]) -> list[tuple[int, arb]]:
        """The k whose boxes end within a box, and one for all that end above it, with weights."""
        first, q = exact_ball(self.first), self.fall()
        start = max(_ends((low - first).ceil())[0] for low in lows)
        end = max(start, *(_ends((high - first).ceil())[1] for high in highs))
        return [*((k, q**k) for k in range(start, end)), (end, q**end / (1 - q))]

    def steps(self, tilt: float = 0.0) -> int:
        """So many m hold all but a share of e^-45 of the weights times e^(tilt m).

        They are about those of a Gamma number of d + 2 over drop - tilt.
        """
        n = self.width + 2
        return ceil((n + sqrt(90 * n) + 60) / (float(self.drop) - tilt)) + 2

    @cached_property
    def tails(self) -> Array:
        """Probabilities of m >= 1, m >= 2 and so on in doubles, as long as they are not coarse."""
        found: list[float] = []
        with ctx.workprec(_BITS):
            left, power, q, m = arb(1), 1 / self.whole(), self.fall(), 0
            while not found or found[-1] > COARSE / 2:
                left -= power * (m + 1) * exact_ball(self.side(m)) ** self.width
                found.append(float(left))
                power, m = power * q, m + 1
        return np.array(found)

    def sure_sides(self, uniform: arb) -> int:
        """The m of a uniform number: how many probabilities of m >= 1, m >= 2 ... are above it."""
        q, m = self.fall(), 0
        left, place, power = self.whole(), uniform * self.whole(), arb(1)
        while True:
            left -= power * (m + 1) * exact_ball(self.side(m)) ** self.width
            if not sure_less(place, left):
                return m
            power, m = power * q, m + 1

    @cached_property
    def probabilities(self) -> Array:
        """The probabilities of all m that matter in doubles."""
        m: Array = np.arange(float(self.steps()))
        logs = np.log(m + 1) - float(self.drop) * m + self.width * np.log(m + float(2 * self.first))
        weights = np.exp(logs - logs.max())
        probabilities: Array = weights / weights.sum()
        return probabilities

    @property
    def mixture(self) -> tuple[Array, Array, Array]:
        """The probabilities of all boxes that matter, and how far they go down and up."""
        sides = len(self.probabilities)
        m = np.repeat(np.arange(sides), np.arange(1, sides + 1))
        k = np.arange(len(m)) - m * (m + 1) // 2
        first: Array = np.full(len(m), float(self.first))
        return self.probabilities[m] / (m + 1), first + m - k, first + k

    @cached_property
    def moments(self) -> tuple[float, float, float]:
        """E|z_i|, E[z_i^2] and E[z_i z_j] in doubles.

        Given m, k is uniform: (first + k)^2 / side is |z_i| on average, and the middle of the box,
        (k - l) / 2, has the variance m (m + 2) / 12; around it a z_i has side^2 / 12.
        """
        m, first = np.arange(float(len(self.probabilities))), float(self.first)
        side = 2 * first + m
        mean = self.probabilities @ ((first * (first + m) + m * (2 * m + 1) / 6) / side)
        middle = self.probabilities @ (m * (m + 2) / 12)
        return float(mean), float(middle + self.probabilities @ (side**2 / 12)), float(middle)

    def one_number(self, plateaus: int) -> OneNumber:
        """The distribution of one number, on so many plateaus."""
        m: Array = np.arange(float(plateaus))
        sides = np.log(m + float(2 * self.first))
        logs = (self.width - 1) * sides - float(self.drop) * m
        boxes = np.logaddexp.accumulate(logs[::-1])
        total = np.logaddexp.reduce(logs + np.log(m + 1) + sides)
        return OneNumber(float(self.first), np.logaddexp.accumulate(boxes)[::-1] - total)


@dataclass(frozen=True, eq=False)
class OneNumber:
    """One number of a staircase: a staircase of its own, with ends at the same places.

    `logs` are the logarithms of its density on the plateaus.
    """

    first: float
    logs: Array

    @cached_property
    def ends(self) -> Array:
        """Where the plateaus end."""
        ends: Array = self.first + np.arange(float(len(self.logs)))
        return ends

    @cached_property
    def _tails(self) -> Array:
        """The probabilities beyond the ends."""
        after = np.cumsum(np.exp(self.logs)[::-1])[::-1]
        return np.append(after[1:], 0.0)

    def tail(self, x: Array) -> Array:
        """The probability of at least x, for any x."""
        size = np.abs(x)
        place = np.minimum(np.searchsorted(self.ends, size), len(self.ends) - 1)
        left = np.maximum(self.ends[place] - size, 0.0)
        found = self._tails[place] + left * np.exp(self.logs[place])
        tail: Array = np.where(x >= 0, found, 1 - found)
        return tail

    def log_density(self, x: Array) -> Array:
        """The logarithm of the density at x >= 0."""
        place = np.minimum(np.searchsorted(self.ends, x), len(self.ends) - 1)
        return np.asarray(self.logs[place])


@lru_cache(maxsize=1024)
def best_first(drop: Fraction, width: int) -> Fraction:
    """The `first` with the least mean size of a number, among 16 between two powers of 2.

    Of the powers the best is taken, then of the points on both sides of it.  Sizes that doubles
    cannot tell apart are compared by enclosures, so that it is the same on every machine.
    """
    highest = max(ceil(log2((width + 2) / drop)), 0)
    powers = [Fraction(2) ** e for e in range(_LEAST_FIRST, highest + 1)]
    middle = _best([BoxPlateaus(power, drop, width) for power in powers])
    points = {middle * (_POINTS + i) / _POINTS for i in range(_POINTS)}
    points |= {point / 2 for point in points}
    return _best([BoxPlateaus(point, drop, width) for point in sorted(points)])


def _best(candidates: Sequence[BoxPlateaus]) -> Fraction:
    """The first of the staircase with the least mean size; of two that are alike, the lesser."""
    means = [one.moments[0] for one in candidates]
    close = [
        one
        for one, mean in zip(candidates, means, strict=True)
        if mean <= min(means) * (1 + _CLOSE)
    ]
    best = close[0]
    with ctx.workprec(_BITS):
        for one in close[1:]:
            if _mean(one) < _mean(best):
                best = one
    return best.first


def _mean(plateaus: BoxPlateaus) -> arb:
    """E|z_i|, as an enclosure."""
    first = plateaus.first

    def size(m: int) -> arb:
        return (m + 1) * exact_ball(first * (first + m) + Fraction(m * (2 * m + 1), 6))

    def growth(m: int) -> Fraction | None:
        return Fraction(m + 2, m + 1) * Fraction(m + 1, m) ** 2 if m else None

    return _sum(plateaus, plateaus.width - 1, 0, size, growth) / plateaus.whole()


# The precision that is set is part of what was computed.


@lru_cache(maxsize=4096)
def _whole(plateaus: BoxPlateaus, _bits: int) -> arb:
    return _sum(plateaus, plateaus.width, 0, lambda m: arb(m + 1), lambda m: Fraction(m + 2, m + 1))


def _sum(
    plateaus: BoxPlateaus,
    degree: int,
    start: int,
    factor: Callable[[int], arb],
    growth: Callable[[int], Fraction | None],
) -> arb:
    """The sum of q^m side^degree factor(m) over all m >= start.

    From any m on, the factor grows by at most growth(m), where that is known, and the side by what
    it grows there: so once terms fall, the rest is at most a geometric sum.
    """
    q, m = plateaus.fall(), start
    power, total, least = q**start, arb(0), arb(2) ** -ctx.prec
    while True:
        term = power * exact_ball(plateaus.side(m)) ** degree * factor(m)
        total += term
        if term < total * least and (known := growth(m)) is not None:
            wider = exact_ball(1 + 1 / plateaus.side(m)) ** degree
            ratio = q * exact_ball(known) * wider
            if ratio < 1:
                rest = term * ratio / (1 - ratio)
                return total.union(total + rest)
        power, m = power * q, m + 1


def _ends(number: arb) -> tuple[int, int]:
    """The least and the greatest integer of a ball of such, at least 0."""
    low, high = number.lower().floor().unique_fmpz(), number.upper().ceil().unique_fmpz()
    assert low is not None
    assert high is not None
    return max(int(low), 0), max(int(high), 0)
