"""Workplaces: a size, a sector, an owner and a site for each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eree.random.exact import Array, Integers
from eree_study.synth.assumptions import Assumptions
from eree_study.synth.geography import Geography
from eree_study.synth.sectors import GROUPS, SECTORS
from eree_study.synth.sizes import CLASSES, draw_sizes

# Sectors lean to larger or smaller classes by size ** (_LEAN * class number).
_LEAN = 0.42
# A workplace with 64 workers or more looks for a place with at least twice as many residents.
_CHOOSY_FROM = 64
# A place without residents still draws workplaces like one with this many.
_HAMLET = 30


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
    assumed: Assumptions,
) -> Workplaces:
    """Workplaces with their size, sector, ownership and site."""
    size = draw_sizes(jobs, workplaces, rng, assumed.tail)
    sector = _sectors(size, rng)
    site = _sites(size, sector, geography, rng, assumed.uneven)
    chance = np.array([s.public for s in SECTORS])
    public = rng.random(workplaces) < chance[sector]
    return Workplaces(size, sector, public, site)


def _sectors(size: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.int8]:
    """A sector for each workplace given its size class, with every sector present."""
    lows = np.array([0, *(c.low for c in CLASSES)])
    size_class = np.searchsorted(lows, size, side="right") - 1
    in_class = np.bincount(size_class, minlength=lows.size)
    sector = np.empty(size.size, dtype=np.int8)
    for number, chances in enumerate(_sector_chances(in_class)):
        here = np.flatnonzero(size_class == number)
        counts = rng.multinomial(here.size, chances)
        drawn = np.repeat(np.arange(len(SECTORS), dtype=np.int8), counts)
        rng.shuffle(drawn)
        sector[here] = drawn
    filled = np.flatnonzero(size)
    for missing in np.flatnonzero(np.bincount(sector[filled], minlength=len(SECTORS)) == 0):
        # Only tiny populations miss a sector; the commonest one gives up a workplace.
        commonest = np.bincount(sector[filled], minlength=len(SECTORS)).argmax()
        sector[filled[np.flatnonzero(sector[filled] == commonest)[0]]] = missing
    return sector


def _sector_chances(in_class: Integers) -> Array:
    """Chance of each sector in each size class, fitted so that both margins hold.

    Iterative proportional fitting of a table that leans to large classes where the sector's
    workplaces are large; sector margins are the shares of `SECTORS`.
    """
    lean = np.array([s.size for s in SECTORS]) ** _LEAN
    share = np.array([s.share for s in SECTORS])
    share /= share.sum()
    margin = np.maximum(in_class, 1e-9) / in_class.sum()
    table = lean[None, :] ** np.arange(in_class.size)[:, None]
    for _ in range(200):
        table *= share / table.sum(axis=0)
        table *= (margin / table.sum(axis=1))[:, None]
    chances: Array = table / table.sum(axis=1, keepdims=True)
    return chances


def _sites(
    size: NDArray[np.int32],
    sector: NDArray[np.int8],
    geography: Geography,
    rng: np.random.Generator,
    uneven: float,
) -> NDArray[np.int32]:
    """A site for each workplace, by population, sector group and size."""
    groups = list(GROUPS)
    group_of_sector = np.array([groups.index(s.group) for s in SECTORS])
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
    leaning = np.exp(0.6 * sigma * rng.standard_normal((groups, residents.size)))
    by_place = residents * density * leaning
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
