"""The noise of a mechanism by class of size, as its own draws show it.

Anyone can draw it again: the draws are from a public seed and have nothing to do with those of a
release.  So all that is known here holds for every mechanism, whatever its family.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from eree.cells import Cell
from eree.mechanisms.cache import Arrays, arrays_by_mechanism
from eree.mechanisms.mechanism import Mechanism
from eree.random.exact import Array, Integers
from eree.random.source import SeededRandom

_SEED = 1
#: Draws for each class of sizes: more where noise is of a few jobs, and intervals end at integers.
_SMALL, _DRAWS_SMALL, _DRAWS = 64, 1 << 15, 1 << 13
#: Distances up to this are looked at one by one, then by steps of a fiftieth.
_EACH = 64
#: Standard deviations beyond which noise is not looked for, and parts of one that are told apart.
_REACH, _FINE = 16.0, 32.0
#: Half jobs for which probabilities of a class are kept.
_MOST_KEPT = 1 << 16
#: Levels of which far tails are kept.
_LEVELS = 64
#: Points of the ring on which sums of small noise are added up.
RING = 128


@dataclass(frozen=True, eq=False)
class NoiseBySize:
    """Noise in cells whose largest workplace has some `sizes`: sorted draws, a row for each.

    `mean` is that of the noise, which sums of many cells are off by; `covariance` and
    `joint_fourth` are of two cells of a group that were drawn at once.
    """

    sizes: Integers
    draws: Array
    mean: Array
    covariance: Array
    joint_fourth: Array
    least_variance: Array
    mechanism: Mechanism

    def far(self, level: float) -> tuple[Integers, Integers]:
        """What noise stays within below and above zero at a level that draws do not show."""
        if level not in self._far:
            if len(self._far) >= _LEVELS:
                self._far.clear()
            self._far[level] = self.mechanism.half_widths(level, self.sizes)
        return self._far[level]

    @cached_property
    def _far(self) -> dict[float, tuple[Integers, Integers]]:
        return {}

    @cached_property
    def variance(self) -> Array:
        """The variance of the noise: what the draws show, and no less than is known of it."""
        found: Array = np.maximum(self.draws.var(1), self.least_variance)
        return found

    @cached_property
    def fourth(self) -> Array:
        """The fourth cumulant of the noise."""
        away = self.draws - self.draws.mean(1, keepdims=True)
        found: Array = (away**4).mean(1) - 3 * self.variance**2
        return found

    @cached_property
    def distances(self) -> Integers:
        """Distances from zero at which tails are known."""
        at = list(range(_EACH + 1))
        top = int(np.abs(self.draws).max(initial=0)) + 1
        while at[-1] < top:
            at.append(int(at[-1] * 1.02) + 1)
        return np.array(at)

    @cached_property
    def tails(self) -> tuple[Array, Array]:
        """The probabilities of noise below minus each distance, and above each distance."""
        number = self.draws.shape[1]
        below = [np.searchsorted(row, -self.distances, side="left") for row in self.draws]
        above = [number - np.searchsorted(row, self.distances, side="right") for row in self.draws]
        return np.array(below) / number, np.array(above) / number

    @cached_property
    def reach(self) -> tuple[Array, Array]:
        """The least and the greatest noise of the draws, within so many standard deviations."""
        most = np.maximum(_REACH * np.sqrt(self.variance), 2.0)
        return np.maximum(self.draws[:, 0], -most), np.minimum(self.draws[:, -1], most)

    @cached_property
    def _lookup(self) -> tuple[Array, Array]:
        """The distance of values at which probabilities are kept, and these, a row for each."""
        step = np.maximum(np.floor(np.sqrt(self.variance) / _FINE), 1.0)
        least, greatest = self.reach
        number = int(np.ceil((np.maximum(greatest, -least) / step).max())) + 1
        values = np.arange(-number, number + 1)
        rows = [
            np.searchsorted(row, values * width, side="right") / self.draws.shape[1]
            for row, width in zip(self.draws, step, strict=True)
        ]
        return step, np.array(rows)

    def up_to(self, place: int, values: Array) -> Array:
        """The probability of noise up to some values, in the class of a place."""
        step, rows = self._lookup
        middle = rows.shape[1] // 2
        at = np.floor(values / step[place]) + middle
        found: Array = rows[place][np.clip(at, 0, 2 * middle).astype(np.intp)]
        return found

    def up_to_all(self, place: int, twice: Integers, less: Integers, sizes: Array) -> Array:
        """The same of values less each of some numbers and each of some sizes, added up over both.

        `twice` the values and the numbers, `less`, a column for each value, are integers, and so
        are twice the sizes.  Where noise is of a few thousand jobs at most, what is found for each
        integer is kept.
        """
        step, rows = self._lookup
        far = (rows.shape[1] // 2) * 2 * int(step[place])
        first, last = int(2 * sizes[0]) - far, int(2 * sizes[-1]) + far
        if last - first > _MOST_KEPT:
            wide: Array = self._over_sizes(place, (twice - less) / 2, sizes).sum(0)
            return wide
        key = place, first, last
        kept = self._added_up.get(key)
        if kept is None:
            kept = self._over_sizes(place, np.arange(first, last + 1) / 2, sizes)
            self._added_up[key] = kept
        found: Array = kept.take((twice - first) - less, mode="clip").sum(0)
        return found

    def _over_sizes(self, place: int, values: Array, sizes: Array) -> Array:
        found = np.zeros(values.shape)
        for size in sizes:
            found += self.up_to(place, values - size)
        return found

    @cached_property
    def _added_up(self) -> dict[tuple[int, int, int], Array]:
        return {}

    @cached_property
    def waves(self) -> NDArray[np.complex128]:
        """The characteristic function of the noise on a ring of integers, a row for each size."""
        found = np.zeros((len(self.draws), RING))
        for row, noise in zip(found, self.draws, strict=True):
            values, numbers = np.unique(noise.astype(np.int64) % RING, return_counts=True)
            row[values] = numbers / len(noise)
        waves: NDArray[np.complex128] = np.fft.rfft(found, axis=1)
        return waves


@lru_cache(maxsize=8)
def noise_of_cells(mechanism: Mechanism, sizes: tuple[int, ...]) -> NoiseBySize:
    """The noise of one cell; those of a group that is drawn at once are alike."""

    def made() -> NoiseBySize:
        drawn = drawn_noise(mechanism, sizes, mechanism.at_once)
        covariance, joint = np.zeros(len(sizes)), np.zeros(len(sizes))
        if mechanism.at_once > 1:
            for i, groups in enumerate(drawn):
                away = groups - groups.mean()
                pairs = away.shape[1] * (away.shape[1] - 1)
                squares = away**2
                covariance[i] = ((away.sum(1) ** 2 - squares.sum(1)) / pairs).mean()
                both = ((squares.sum(1) ** 2 - (squares**2).sum(1)) / pairs).mean()
                joint[i] = both - squares.mean() ** 2
        ordered = _sorted(drawn)
        mean = _means(mechanism, sizes, ordered)
        least = np.array([min(mechanism.variance(size), 1e300) for size in sizes])
        least = np.where(np.isfinite(least), least, 0.0)
        return NoiseBySize(np.array(sizes), ordered, mean, covariance, joint, least, mechanism)

    return _kept(mechanism, f"noise beside {sizes}", made)


@lru_cache(maxsize=8)
def noise_of_groups(mechanism: Mechanism, sizes: tuple[int, ...], cells: int) -> NoiseBySize:
    """The noise of the sum of so many cells, at once or one by one as they are drawn."""
    if cells == 1:
        return noise_of_cells(mechanism, sizes)

    def made() -> NoiseBySize:
        sums = [groups.sum(1) for groups in drawn_noise(mechanism, sizes, cells)]
        mean, nothing = cells * noise_of_cells(mechanism, sizes).mean, np.zeros(len(sizes))
        ordered = _sorted(sums)
        return NoiseBySize(np.array(sizes), ordered, mean, nothing, nothing, nothing, mechanism)

    return _kept(mechanism, f"noise of {cells} cells beside {sizes}", made)


#: What is kept of noise, and what follows from its draws, which takes a while.
_PARTS = ("sizes", "draws", "mean", "covariance", "joint_fourth", "least_variance")
_FOLLOW = ("variance", "fourth")


def _kept(mechanism: Mechanism, what: str, made: Callable[[], NoiseBySize]) -> NoiseBySize:
    """Noise that is made, or was before: it goes by the mechanism alone."""

    def parts() -> Arrays:
        noise = made()
        return {name: getattr(noise, name) for name in (*_PARTS, *_FOLLOW)}

    kept = dict(arrays_by_mechanism(mechanism, what, parts))
    follow = {name: kept.pop(name) for name in _FOLLOW}
    found = NoiseBySize(**kept, mechanism=mechanism)
    found.__dict__.update(follow)
    return found


def _means(mechanism: Mechanism, sizes: tuple[int, ...], draws: Array) -> Array:
    """The means of the noise as the mechanism knows them, else those of the draws."""
    known = [mechanism.bias(Cell(size)) for size in sizes]
    return np.array([own.mean() if b is None else b for own, b in zip(draws, known, strict=True)])


@lru_cache(maxsize=2)
def drawn_noise(mechanism: Mechanism, sizes: tuple[int, ...], cells: int) -> list[Array]:
    """Draws of groups of cells without workers, beside workplaces of some sizes."""
    random, found = SeededRandom(_SEED), []
    for size in sizes:
        groups = max((_DRAWS_SMALL if size <= _SMALL else _DRAWS) // cells, 1 << 8)
        counts = np.full((groups, cells), size if mechanism.transform is not None else 0)
        noise = mechanism.public_noise(size, groups)
        if noise is None:
            each = mechanism.draw(counts, np.full_like(counts, size), random=random) - counts
            noise = each.astype(np.float64) / mechanism.unit
        found.append(noise)
    return found


def _sorted(drawn: list[Array]) -> Array:
    """As many draws of each size, in order: of more of them those at even places."""
    number = min(each.size for each in drawn)
    rows = []
    for each in drawn:
        ordered = np.sort(each, axis=None)
        rows.append(ordered[(np.arange(number) * (each.size / number)).astype(np.int64)])
    return np.stack(rows)
