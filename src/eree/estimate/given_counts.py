"""Functions of noisy counts that have a mean which is wanted of the counts, whatever these are.

Noise is added to transformed counts, as a mixture of boxes in which the cells of a group are
independent and uniform (`Mechanism.boxes`).  So E[f(y) | n] is known for every function f of a
noisy count y and every count n.  Where the transform has knots no smooth function has the mean that
is wanted everywhere: least squares weigh what is left of it against the variance that is added.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from eree.mechanisms.cache import Arrays
from eree.mechanisms.mechanism import Mechanism
from eree.random.exact import Array

#: Classes of noisy counts: first one for each, then by steps of the same share up to the last.
CLASSES, _EACH, _LAST = 2_048, 1_024, 2.0**40
#: Boxes have to show the mean of this power of counts: the last ones matter no more than this.
_POWER, _LITTLE = 4, 1e-2
#: Parts of a standard deviation that counts, and noisy counts, are looked at by.
_COUNTS, _NOISY = 4, 8
#: So many of the former at most, and boxes; noise that is less likely than this is left out.
_MOST, _MOST_BOXES, _NEVER = 1_600, 1 << 16, 1e-14
#: What a variance that the shift adds weighs beside a mean that it leaves; for other functions.
_ADDED, _LOOSE = 0.02, 0.3
#: Points of tails, and the least deviation of a transformed count: of less doubles show nothing.
_POINTS, _LEAST = 2_048, 1e-4
#: The power of a count that shift, variance, what two cells share, its square and the skew go by.
_POWERS = (1, 2, 1, 2, 3)


def is_light(mechanism: Mechanism) -> bool:
    """Whether boxes show the mean of all powers that are needed, and doubles any noise at all."""
    if mechanism.boxes is None:
        return False
    transform: Any = mechanism.transform  # one with knots, where there are boxes
    shares, down, up = mechanism.boxes
    if len(shares) > _MOST_BOXES or _deviation(shares, down, up) < _LEAST:
        return False
    grown = shares * np.exp(_POWER * float(transform.rate) * up)
    return bool(grown[up == up.max()].max() < _LITTLE * grown.max())


def _deviation(shares: Array, down: Array, up: Array) -> float:
    return float(np.sqrt(shares @ (down**2 - down * up + up**2) / 3))


def learnt(mechanism: Mechanism) -> Arrays:
    """What is known of noisy counts, by class."""
    noise = NoisyCounts(mechanism)
    counts, noisy = noise.counts, noise.noisy
    mean, square = noise.mean(noisy), noise.mean(noisy**2)
    rough = np.sqrt(square - mean**2)
    shift = noise.function(mean - counts, 1, rough, _ADDED)
    left = noisy - shift
    mean = noise.mean(left)
    variance = noise.mean(left**2) - mean**2
    seen = np.maximum(noise.function(variance, 2, variance, _LOOSE), variance.min())
    third = noise.mean(left**3) - 3 * mean * variance - mean**3
    skew = 2 * (noise.mean(left * seen) - mean * noise.mean(seen)) - third * (2 / 3)
    skew = np.maximum(skew, 0.0)
    skewed = np.maximum(noise.function(skew, 3, skew + 0.01 * rough**3, _LOOSE), 0.0)
    both = noise.between_boxes(left)
    common = np.clip(noise.function(both, 2, variance, _LOOSE), 0.0, seen)
    each = np.stack([shift, seen, np.sqrt(common), common, skewed])
    start = int(noisy[0])
    edges = np.arange(start, start + _EACH)
    rest = np.geomspace(edges[-1], _LAST, CLASSES - _EACH).astype(np.int64)[1:]
    edges = np.unique(np.append(edges, rest))  # class i has the noisy counts from edge i - 1 on
    middle = np.append(edges[0], (edges + np.append(edges[1:], edges[-1] + 1) - 1) / 2)
    table = np.array(
        [noise.at(middle, row, power) for row, power in zip(each, _POWERS, strict=True)]
    )
    lattice = noise.mean((noisy - counts[0]) ** 4)[0] / rough[0] ** 4 - 3
    kurtosis = max(noise.kurtosis(), float(lattice), 0.0)
    points, tails = noise.far_tails()
    of_one = {"points": points, "tails": tails, "kurtosis": np.array(kurtosis)}
    return {"edges": edges, "table": table} | of_one


class NoisyCounts:
    """Noisy counts given counts: a row of probabilities for each of some counts."""

    def __init__(self, mechanism: Mechanism) -> None:
        transform: Any = mechanism.transform
        assert mechanism.boxes is not None
        self._shares, self._down, self._up = mechanism.boxes
        self._transform, self._cells = transform, mechanism.at_once
        last = float(transform.values[-1])
        deviation, (knots, tails) = self.deviation, self.tails
        far = float(knots[np.searchsorted(-tails, -_NEVER)])
        lowest = transform.near_count(np.array([-far]))[0]
        step = max(deviation / _COUNTS, (last + far) / _MOST)
        at = transform.near_count(np.arange(0.0, last + far, step))
        self.counts: Array = np.unique(np.rint(at))
        step = max(deviation / _NOISY, (last + 3 * far) / (4 * _MOST))
        at = transform.near_count(np.arange(-far, last + 2 * far, step))
        ends = np.unique(np.rint(np.maximum(at, lowest))) - 0.5
        self._centres = transform.near_preimage(self.counts)
        self._ends = transform.near_preimage(ends)
        above = np.interp(self._ends - self._centres[:, None], knots, tails)
        self.noisy: Array = (ends[1:] + ends[:-1]) / 2
        self._given = above[:, :-1] - above[:, 1:]
        self._given[:, 0] += 1 - above[:, 0]
        self._given[:, -1] += above[:, -1]
        self._logarithm = float(transform.at[-1])
        points = self.counts[self.counts <= self._logarithm]
        self._points = np.unique(np.concatenate([self.noisy[self.noisy < 0], points]))

    @cached_property
    def deviation(self) -> float:
        """The standard deviation of the noise of a transformed count."""
        return _deviation(self._shares, self._down, self._up)

    @cached_property
    def tails(self) -> tuple[Array, Array]:
        """The probability that it is above some numbers, between which that falls in lines."""
        knots = np.unique(np.concatenate([-self._down, self._up]))
        side = self._down + self._up
        tails = [self._shares @ np.clip((self._up - at) / side, 0, 1) for at in knots]
        return knots, np.array(tails)

    def mean(self, values: Array) -> Array:
        """E[f(y) | n] for all counts, from the values of f at all noisy counts."""
        found: Array = self._given @ values
        return found

    def far(self, values: Array, power: int) -> Array:
        """A power of what the transform goes by far out, where it is a logarithm."""
        offset = float(self._transform.step / self._transform.rate) - self._logarithm
        found: Array = np.maximum(values + offset, 1.0) ** power
        return found

    def function(self, wanted: Array, power: int, unit: Array, weight: float) -> Array:
        """The values at all noisy counts of a function whose mean given each count is wanted.

        Far out it is in proportion to a power, before that a line between points.  What it leaves
        is looked at in a unit, and so is by how much it is off what is wanted of the noisy counts
        themselves: that adds to the variance.
        """
        inside = self.noisy < self._points[-1]
        lines = np.array(
            [np.interp(self.noisy, self._points, e) for e in np.eye(len(self._points))]
        )
        lines = np.where(inside, lines, 0.0).T
        grown = self._shares @ self._grown(power * float(self._transform.rate))
        scale = wanted[-1] / self.far(self.counts[-1:], power)[0] / grown
        beyond = scale * self.far(self.noisy, power)
        begun = np.where(inside, np.interp(self.noisy, self.counts, wanted), beyond)
        given = (self._given @ lines) / unit[:, None]
        left = (wanted - self.mean(begun)) / unit
        heavy = (self._given / unit[:, None] ** 2).sum(0)
        normal = given.T @ given + weight**2 * (lines.T * heavy) @ lines
        normal[np.diag_indices_from(normal)] += 1e-12 * normal.diagonal().max()
        found: Array = begun + lines @ np.linalg.solve(normal, given.T @ left)
        return found

    def _grown(self, rate: float) -> Array:
        """The mean of e^(rate z) in each box."""
        side = rate * (self._down + self._up)
        found: Array = np.exp(-rate * self._down) * np.expm1(side) / side
        return found

    def at(self, noisy: Array, values: Array, power: int) -> Array:
        """The values of a function at some noisy counts."""
        beyond = values[-1] * (self.far(noisy, power) / self.far(self.noisy[-1:], power))
        found: Array = np.where(
            noisy > self.noisy[-1], beyond, np.interp(noisy, self.noisy, values)
        )
        return found

    def between_boxes(self, values: Array) -> Array:
        """The variance of E[f(y) | n, box] over all boxes, for all counts."""
        steps = np.append(0.0, np.cumsum(values * np.diff(self._ends)))
        found = np.empty(len(self.counts))
        side = self._down + self._up
        for i, centre in enumerate(self._centres):
            ends = (self._integral(centre + end, values, steps) for end in (self._up, -self._down))
            mean = (next(ends) - next(ends)) / side
            found[i] = self._shares @ mean**2 - (self._shares @ mean) ** 2
        return np.maximum(found, 0.0)

    def _integral(self, at: Array, values: Array, steps: Array) -> Array:
        """Of f over transformed counts, which goes on at both ends as it is there."""
        found: Array = np.interp(at, self._ends, steps)
        found += values[0] * np.minimum(at - self._ends[0], 0.0)
        found += values[-1] * np.maximum(at - self._ends[-1], 0.0)
        return found

    def far_tails(self) -> tuple[Array, Array]:
        """The tail of one cell or of the sum of all, the heavier, by standard deviations.

        In a box the sum is about normal.
        """
        from scipy.special import ndtr

        knots, tails = self.tails
        points: Array = np.sinh(np.linspace(0, np.arcsinh(knots[-1] / self.deviation), _POINTS))
        one = np.interp(points * self.deviation, knots, tails)
        middle, side = (self._up - self._down) / 2, self._up + self._down
        within = side * np.sqrt(1 / (12 * self._cells))
        spread = float(np.sqrt(self._shares @ (middle**2 + within**2)))
        whole = [self._shares @ ndtr((middle - at * spread) / within) for at in points]
        return points, np.maximum(one, whole)

    def kurtosis(self) -> float:
        """The greatest excess kurtosis of sums of transformed noise, of any number of cells."""
        k: Array = np.arange(1.0, self._cells + 1)[:, None]
        middle, side = (self._up - self._down) / 2, (self._up + self._down) ** 2
        within = k * side / 12
        fourth = k * side**2 / 80 + 3 * k * (k - 1) * side**2 / 144
        square = (k * middle) ** 2
        all_ = (square**2 + 6 * square * within + fourth) @ self._shares
        found: Array = all_ / ((square + within) @ self._shares) ** 2 - 3
        return float(found.max())
