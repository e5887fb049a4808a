"""Workplaces: a size, a sector, an owner and a site for each.

Sizes follow US-like size classes with a Pareto tail.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from eree.random.exact import Array, Integers
from eree_study.synth.files import SCHEMA
from eree_study.synth.geography import Geography, apportion

OWNERSHIPS: tuple[str, ...] = tuple(SCHEMA["workplace"]["attributes"]["ownership"]["values"])
LARGEST = 40_000
EMPTY_SHARE = 0.01
# No workplace has more than an eighth of all jobs, so that a small population is not one employer.
_LARGEST_PART = 8
# Sectors favour larger or smaller classes by size ** (_TILT * class number).
_TILT = 0.42
# A workplace with 64 workers or more looks for a place with at least twice as many residents.
_CHOOSY_FROM = 64
# A place without residents still draws workplaces like one with this many.
_HAMLET = 30


@dataclass(frozen=True)
class Sector:
    """One of the 20 NAICS sectors: how common, how large, how public, and who works there.

    `share` is its share of workplaces, `size` its typical size against the average, `public` the
    share of its workplaces owned by governments. The rest are shares of its workers: women, the
    young (14-29) and old (55+), the four levels of education, Hispanic workers, and how much more
    often than elsewhere its workers are black or Asian. `pay` is what a typical job earns, in
    dollars a month.
    """

    code: str
    share: float
    size: float
    public: float
    women: float
    young: float
    old: float
    education: tuple[float, ...]
    hispanic: float
    black: float
    asian: float
    pay: float


# Shares of workplaces follow the order of magnitude of County Business Patterns; the other figures
# are assumed in the direction that the Quarterly Workforce Indicators show.
def _read_sectors() -> Iterator[Sector]:
    education = ("no_diploma", "high_school", "some_college", "college")
    with files("eree_study.synth").joinpath("sectors.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            code = row.pop("code")
            shares = {name: float(text) for name, text in row.items()}
            levels = tuple(shares.pop(level) for level in education)
            yield Sector(code, education=levels, **shares)


SECTORS: tuple[Sector, ...] = tuple(_read_sectors())


@dataclass(frozen=True)
class SizeClass:
    """Workplaces with `low` to `high` workers; inside, probabilities of x fall like x ** -slope."""

    low: int
    high: int
    share: float
    slope: float

    def probabilities(self) -> Array:
        """The probability of each size from `low` to `high` inside the class."""
        x = np.arange(self.low, self.high + 1, dtype=np.float64)
        weight = x**-self.slope
        probabilities: Array = weight / weight.sum()
        return probabilities


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

    Where jobs per workplace differ from the papers' sample, the probability of every size x is
    tilted by a power of x until the expected mean fits; what is left after drawing is settled
    inside the classes, and outside them only when every class is full. `tail` is the slope of
    the last class.
    """
    empty = max(1, round(EMPTY_SHARE * workplaces))
    filled = workplaces - empty
    classes = _classes_up_to(max(1, jobs // _LARGEST_PART), tail)
    probabilities = _tilted_probabilities(classes, jobs / filled)
    counts = apportion(filled, [p.sum() for p in probabilities])
    sizes = np.empty(filled, dtype=np.int64)
    start = 0
    for size_class, inside, count in zip(classes, probabilities, counts.tolist(), strict=True):
        # One draw from each of `count` equal slices of the distribution: the few largest workplaces
        # hold a quarter of the jobs, and independent draws would make their sum jump between seeds.
        slices = (np.arange(count) + rng.random(count)) * (inside.sum() / max(count, 1))
        above_low = np.searchsorted(np.cumsum(inside), slices, side="right")
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
def _tilted_probabilities(classes: tuple[SizeClass, ...], mean: float) -> list[Array]:
    """Probabilities of sizes, by class, times size ** tilt; bisection finds the tilt for `mean`."""
    size = np.arange(1, classes[-1].high + 1)
    logs, most = np.log(size), np.log(size[-1])
    plain = np.concatenate([c.share * c.probabilities() for c in classes])

    def tilted(tilt: float) -> Array:
        weight = plain * np.exp(tilt * logs - max(tilt, 0.0) * most)
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


@dataclass(frozen=True)
class Workplaces:
    """One entry for each workplace; positions are `workplace_id - 1`."""

    size: NDArray[np.int32]
    sector: NDArray[np.int8]
    public: NDArray[np.bool_]
    site: NDArray[np.int32]


def draw_workplaces(
    jobs: int,
    workplaces: int,
    geography: Geography,
    rng: np.random.Generator,
    *,
    tail: float,
    uneven: float,
) -> Workplaces:
    """Workplaces with their size, sector, ownership and site."""
    size = draw_sizes(jobs, workplaces, rng, tail)
    sector = _sectors(size, rng)
    site = _sites(size, sector, geography, rng, uneven)
    public_share = np.array([s.public for s in SECTORS])
    public = rng.random(workplaces) < public_share[sector]
    return Workplaces(size, sector, public, site)


def _sectors(size: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.int8]:
    """A sector for each workplace given its size class, with every sector present."""
    lows = np.array([0, *(c.low for c in CLASSES)])
    size_class = np.searchsorted(lows, size, side="right") - 1
    in_class = np.bincount(size_class, minlength=lows.size)
    sector = np.empty(size.size, dtype=np.int8)
    for number, probabilities in enumerate(_sector_probabilities(in_class)):
        here = np.flatnonzero(size_class == number)
        counts = rng.multinomial(here.size, probabilities)
        drawn = np.repeat(np.arange(len(SECTORS), dtype=np.int8), counts)
        rng.shuffle(drawn)
        sector[here] = drawn
    filled = np.flatnonzero(size)
    for missing in np.flatnonzero(np.bincount(sector[filled], minlength=len(SECTORS)) == 0):
        # Only tiny populations miss a sector; the commonest one gives up a workplace.
        commonest = np.bincount(sector[filled], minlength=len(SECTORS)).argmax()
        sector[filled[np.flatnonzero(sector[filled] == commonest)[0]]] = missing
    return sector


def _sector_probabilities(in_class: Integers) -> Array:
    """Probability of each sector in each size class, fitted so that both marginals hold.

    Iterative proportional fitting of a table that favours large classes where the sector's
    workplaces are large; sector marginals are the shares of `SECTORS`.
    """
    favour = np.array([s.size for s in SECTORS]) ** _TILT
    share = np.array([s.share for s in SECTORS])
    share /= share.sum()
    class_share = np.maximum(in_class, 1e-9) / in_class.sum()
    table = favour[None, :] ** np.arange(in_class.size)[:, None]
    for _ in range(200):
        table *= share / table.sum(axis=0)
        table *= (class_share / table.sum(axis=1))[:, None]
    probabilities: Array = table / table.sum(axis=1, keepdims=True)
    return probabilities


def _sites(
    size: NDArray[np.int32],
    sector: NDArray[np.int8],
    geography: Geography,
    rng: np.random.Generator,
    uneven: float,
) -> NDArray[np.int32]:
    """A site for each workplace, by population, sector group and size."""
    groups = SCHEMA["group"]["supersector"]["members"].values()
    group_of = {code: number for number, codes in enumerate(groups) for code in codes}
    group_of_sector = np.array([group_of[s.code] for s in SECTORS])
    pull = _pull(geography, len(groups), rng, uneven)
    population = geography.population[geography.place_of_site]
    doubling = np.where(size >= _CHOOSY_FROM, np.floor(np.log2(np.maximum(size, 1))), 0)
    market = group_of_sector[sector] * 32 + doubling.astype(np.int64)
    order = np.argsort(market.astype(np.int16), kind="stable")
    kinds, starts = np.unique(market[order], return_index=True)
    site = np.empty(size.size, dtype=np.int32)
    for kind, here in zip(kinds.tolist(), np.split(order, starts[1:]), strict=True):
        group, exponent = divmod(kind, 32)
        open_to = population >= 2 ** (exponent + 1) if exponent else np.ones_like(population, bool)
        cumulative = np.cumsum(pull[group] * (open_to if open_to.any() else 1.0))
        u = rng.random(here.size) * cumulative[-1]
        drawn = np.searchsorted(cumulative, u, side="right")
        site[here] = np.minimum(drawn, np.searchsorted(cumulative, cumulative[-1]))
    _settle_required_places(site, size, geography)
    return site


def _pull(geography: Geography, groups: int, rng: np.random.Generator, uneven: float) -> Array:
    """How strongly each site draws workplaces of each sector group.

    Residents times a log-normal number of jobs per resident, which varies less between cities
    (sigma 0.15) than between villages (sigma 0.5), and again by group and by site; all times
    `uneven`.
    """
    residents = geography.population + float(_HAMLET)
    sigma = uneven * np.clip(0.5 - 0.12 * np.log10(residents / 300), 0.15, 0.5)
    density = np.exp(sigma * rng.standard_normal(residents.size) - sigma**2 / 2)
    by_group = np.exp(0.6 * sigma * rng.standard_normal((groups, residents.size)))
    by_place = residents * density * by_group
    local = rng.lognormal(0.0, 0.5, (groups, geography.footprint.size))
    pull: Array = by_place[:, geography.place_of_site] * geography.footprint * local
    return pull


def _settle_required_places(
    site: NDArray[np.int32], size: NDArray[np.int32], geography: Geography
) -> None:
    """Move one of the smallest workplaces with jobs to each place that must not be empty."""
    filled = np.flatnonzero(size)
    required = geography.must_have_a_workplace()
    inhabited = np.unique(geography.place_of_site[site[filled]])
    bare = np.setdiff1d(required, inhabited)
    # They come from places with so many that none falls empty, however many leave it.
    place = geography.place_of_site[site[filled]]
    filled = filled[np.bincount(place)[place] > bare.size]
    movers = filled[np.argsort(size[filled], kind="stable")][: bare.size]
    site[movers] = np.searchsorted(geography.place_of_site, bare[: movers.size])
