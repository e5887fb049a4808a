"""How far noise may be off: the shortest interval from tails, and quantiles from moments."""

from __future__ import annotations

from functools import lru_cache
from math import floor, log2

import numpy as np

from eree.mechanisms.cache import arrays_by_package
from eree.random.exact import Array, Integers

#: Levels that are usual, so that what they need is kept.
LEVELS = (0.8, 0.9, 0.95, 0.99)
#: Probabilities to miss below this are rounded down.
_FEW = 0.01
#: No high end is above this, as integers have 64 bits.
_MOST = 2.0**62


def shortest(
    below: Array, above: Array, distances: Integers, miss: float
) -> tuple[Integers, Integers]:
    """How far the shortest intervals around zero reach down and up, which miss no more than so.

    `below` and `above` have the probabilities beyond each distance, a row for each interval.  The
    farther an interval reaches down, the less far it has to reach up: both ends move one way.
    """
    rows, last = len(below), len(distances) - 1
    best = np.full(rows, np.iinfo(np.int64).max)
    down, up = np.full((2, rows), distances[-1])
    one = (miss - below + 1e-12 < 0).sum(1)
    row = np.flatnonzero(one <= last)
    one = one[row]
    two = np.minimum((above[row] > (miss - below[row, one] + 1e-12)[:, None]).sum(1), last)
    while row.size:
        left = miss - below[row, one] + 1e-12
        less = np.flatnonzero(two)
        while less.size:
            less = less[above[row[less], two[less] - 1] <= left[less]]
            two[less] -= 1
            less = less[two[less] > 0]
        length = distances[one] + distances[two]
        # far enough up may be beyond the last distance
        better = (length < best[row]) & (above[row, two] <= left)
        at = row[better]
        best[at], down[at], up[at] = length[better], distances[one[better]], distances[two[better]]
        one += 1
        open_ = one <= last
        open_[open_] = distances[one[open_]] < best[row[open_]]
        row, one, two = row[open_], one[open_], two[open_]
    return down, up


def upper_variance(variance: Array, uncertain: Array) -> Array:
    """What a variance stays below with a probability of 95%: Wilson and Hilferty's quantile."""
    variance = np.maximum(variance, 1e-12)
    shape = variance**2 / np.maximum(uncertain, 1e-12 * variance**2)
    found: Array = variance * np.maximum(1 - 1 / (9 * shape) + 1.645 / (3 * np.sqrt(shape)), 1) ** 3
    return found


def ends_around(middle: Array, down: Array, up: Array) -> tuple[Integers, Integers]:
    """The least and the greatest count within a reach; none is below zero."""
    low, high = np.ceil(middle - down), np.floor(middle + up)
    low = np.minimum(low, high)  # so narrow that no integer lies within: the nearest
    return np.maximum(low, 0).astype(np.int64), np.clip(high, 0, _MOST).astype(np.int64)


def reach(variance: Array, fourth: Array, level: float) -> Array:
    """What the size of noise with such moments stays within."""
    kurtosis = np.clip(fourth / np.maximum(variance, 1e-9) ** 2, 0.0, MOST_KURTOSIS)
    found: Array = np.sqrt(variance) * quantiles(kurtosis, level)
    return found


#: Excess kurtosis of sums is taken to be no more than this.
MOST_KURTOSIS = 60.0
#: Probabilities that no sum of others shows, and a number beyond which no normal noise is.
_NEVER, _NOTHING = 1e-34, 9.0
#: A step of Newton's method after which no other is needed, as a share of the number.
_LAST = 1e-8
_KURTOSES = np.concatenate([[0.0], np.geomspace(0.02, MOST_KURTOSIS, 48)])


def quantiles(kurtosis: Array, level: float) -> Array:
    """What the size of a sum of noise stays within, in standard deviations.

    A sum is taken to be normal with a variance that has a gamma distribution, so that it has the
    kurtosis: with 0 it is normal, with 3 a Laplace distribution.
    """
    found: Array = np.interp(kurtosis, _KURTOSES, _quantiles_of_kurtoses(level))
    return found


def bucket(level: float) -> float:
    """A level near one, or a higher one of which there are few: eight for a factor of two."""
    miss = max(1 - level, 1e-15)
    return level if miss > _FEW else 1 - 2.0 ** (floor(8 * log2(miss)) / 8)


@lru_cache(maxsize=1)
def _mixtures() -> list[tuple[Array, Array]]:
    """For each kurtosis, standard deviations of normal distributions, and how likely each is."""
    found = []
    for kurtosis in _KURTOSES[1:]:
        shape = 3 / kurtosis
        logs = np.linspace(-40 / min(shape, 1.0) ** 0.5 - 6, np.log(1 + 60 / shape), 4_000)
        weight = np.exp(shape * (logs - np.exp(logs) + 1))
        weight /= weight.sum()
        seen = weight > _NEVER
        found.append((weight[seen], np.exp(logs[seen] / 2)))
    return found


@lru_cache(maxsize=256)
def _quantiles_of_kurtoses(level: float) -> Array:
    if level not in LEVELS:
        return _new_quantiles(level)
    kept = arrays_by_package(f"quantiles {level}", lambda: {"found": _new_quantiles(level)})
    return np.asarray(kept["found"])


def _new_quantiles(level: float) -> Array:
    from scipy.special import erfcinv

    found = [float(np.sqrt(2) * erfcinv(1 - level))]
    for weight, deviation in _mixtures():
        near = found[-1] if len(found) < 3 else found[-1] ** 2 / found[-2]
        found.append(_beyond_which(weight, deviation, 1 - level, near))
    return np.array(found)


def _beyond_which(weight: Array, deviation: Array, miss: float, near: float) -> float:
    """What a mixture of normal distributions is beyond with a probability, by Newton's method.

    Its steps go by the logarithm of the probability, from what is near; one that would leave the
    interval in which the number is known to lie halves that instead.
    """
    from scipy.special import erfc

    low, high, at = 0.0, 200.0, near
    scaled = np.sqrt(2) * deviation
    for _ in range(100):
        first = int(np.searchsorted(scaled, at / _NOTHING))
        x = at / scaled[first:]
        beyond = float(weight[first:] @ erfc(x))
        low, high = (at, high) if beyond > miss else (low, at)
        slope = float((weight[first:] / scaled[first:]) @ np.exp(-(x**2))) * 2 / np.sqrt(np.pi)
        step = float(np.log(beyond / miss)) * beyond / slope if min(beyond, slope) > 0 else np.inf
        inside = low < at + step < high
        at = at + step if inside else (low + high) / 2
        if (inside and abs(step) < _LAST * at) or high - low < 1e-15 * high:
            break
    return at
