"""How many workers each workplace has: US-like size classes with a Pareto tail."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from eree.random.exact import Array, Integers
from eree_study.synth.apportionment import apportion

LARGEST = 40_000
EMPTY_SHARE = 0.01
# No workplace has more than an eighth of all jobs, so that a small population is not one employer.
_LARGEST_PART = 8


@dataclass(frozen=True)
class SizeClass:
    """Workplaces with `low` to `high` workers; inside, the chance of x falls like x ** -slope."""

    low: int
    high: int
    share: float
    slope: float

    def chances(self) -> Array:
        """The chance of each size from `low` to `high` inside the class."""
        x = np.arange(self.low, self.high + 1, dtype=np.float64)
        weight = x**-self.slope
        chances: Array = weight / weight.sum()
        return chances


# Shares among workplaces with jobs. The classes are those of County Business Patterns with the
# last boundary moved from 999|1000 to 1000|1001, because the papers count workplaces with more
# than 1,000 workers: 740 to 815 of 527,000, hence the last share. The mean of all is that of the
# papers' sample, 10.9 million jobs in 527,000 workplaces, a little above the national one.
CLASSES: tuple[SizeClass, ...] = (
    SizeClass(1, 4, 0.54891, 0.7),
    SizeClass(5, 9, 0.1780, 0.8),
    SizeClass(10, 19, 0.1210, 0.8),
    SizeClass(20, 49, 0.0930, 0.9),
    SizeClass(50, 99, 0.0325, 1.0),
    SizeClass(100, 249, 0.0185, 1.0),
    SizeClass(250, 499, 0.0046, 1.2),
    SizeClass(500, 1_000, 0.0020, 1.4),
    SizeClass(1_001, LARGEST, 0.00149, 2.05),
)


def draw_sizes(
    jobs: int, workplaces: int, rng: np.random.Generator, tail: float = CLASSES[-1].slope
) -> NDArray[np.int32]:
    """Sizes of all workplaces in random order, adding up to `jobs`; about 1% have none.

    Where jobs per workplace differ from the papers' sample, the chance of every size x is tilted
    by a power of x until the expected mean fits; what is left after drawing is settled inside the
    classes, and outside them only when every class is full. `tail` is the slope of the last class.
    """
    empty = max(1, round(EMPTY_SHARE * workplaces))
    filled = workplaces - empty
    classes = _classes_up_to(max(1, jobs // _LARGEST_PART), tail)
    chances = _tilted_chances(classes, jobs / filled)
    counts = apportion(filled, [c.sum() for c in chances])
    sizes = np.empty(filled, dtype=np.int64)
    start = 0
    for size_class, chance, count in zip(classes, chances, counts.tolist(), strict=True):
        # One draw from each of `count` equal slices of the law: the few largest workplaces hold
        # a quarter of the jobs, and independent draws would make their sum jump between seeds.
        slices = (np.arange(count) + rng.random(count)) * (chance.sum() / max(count, 1))
        above_low = np.searchsorted(np.cumsum(chance), slices, side="right")
        sizes[start : start + count] = np.minimum(size_class.low + above_low, size_class.high)
        start += count
    low = np.repeat([c.low for c in classes], counts)
    high = np.repeat([c.high for c in classes], counts)
    _settle(sizes, low, high, jobs, rng)
    everyone = np.zeros(workplaces, dtype=np.int32)
    everyone[:filled] = sizes
    rng.shuffle(everyone)
    return everyone


def _classes_up_to(largest: int, tail: float) -> tuple[SizeClass, ...]:
    classes = (*CLASSES[:-1], replace(CLASSES[-1], slope=tail))
    return tuple(replace(c, high=min(c.high, largest)) for c in classes if c.low <= largest)


@lru_cache(maxsize=8)
def _tilted_chances(classes: tuple[SizeClass, ...], mean: float) -> list[Array]:
    """Chances of each class's sizes times size ** tilt; bisection finds the tilt for `mean`."""
    size = np.arange(1, classes[-1].high + 1)
    logs, most = np.log(size), np.log(size[-1])
    chance = np.concatenate([c.share * c.chances() for c in classes])

    def tilted(tilt: float) -> Array:
        weight = chance * np.exp(tilt * logs - max(tilt, 0.0) * most)
        normal: Array = weight / weight.sum()
        return normal

    below, above = -40.0, 8.0
    for _ in range(60):
        middle = (below + above) / 2
        if float(tilted(middle) @ size) < mean:
            below = middle
        else:
            above = middle
    return np.split(tilted(above), [c.high for c in classes[:-1]])


def _settle(
    sizes: Integers,
    low: Integers,
    high: Integers,
    jobs: int,
    rng: np.random.Generator,
) -> None:
    """Change sizes in place until they add up to `jobs`, in proportion and within the classes."""
    floor, ceiling = low, high
    while (gap := jobs - int(sizes.sum())) != 0:
        room = ceiling - sizes if gap > 0 else sizes - floor
        if not room.any():
            floor, ceiling = np.ones_like(low), np.full_like(high, jobs)
            continue
        step = np.minimum(room, (sizes * (abs(gap) / sizes.sum())).astype(np.int64))
        if not step.any():
            free = np.flatnonzero(room)
            step[rng.choice(free, min(abs(gap), free.size), replace=False)] = 1
        sizes += step if gap > 0 else -step
