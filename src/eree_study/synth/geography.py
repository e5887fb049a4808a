"""States, counties, places and tracts of a synthetic country, and the sites where places lie.

A site is the part of one place inside one tract. Large places own several tracts; small ones
share a tract of their county with their neighbours. Places lie in one county each.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import ArrayLike

from eree.random.exact import Array, Integers

PAPERS_JOBS = 10_900_000


@dataclass(frozen=True)
class State:
    """A state by its FIPS code; `residents` (thousands, 2010 Census) only sets its weight."""

    code: str
    name: str
    residents: int


# The first three hold about the jobs and workplaces of the papers' three-state sample, which the
# papers do not name. The others follow in the order of their codes.
with files("eree_study.synth").joinpath("states.csv").open(encoding="utf-8") as _file:
    STATES: tuple[State, ...] = tuple(
        State(row["code"], row["name"], int(row["residents"])) for row in csv.DictReader(_file)
    )

_FEW_UNTIL = 20_000_000
_ALL_FROM = 130_000_000


def states_for(jobs: int) -> tuple[State, ...]:
    """Three states up to 20 million jobs, all 51 from 130 million on, evenly in between."""
    if jobs <= _FEW_UNTIL:
        return STATES[:3]
    part = min(1.0, (jobs - _FEW_UNTIL) / (_ALL_FROM - _FEW_UNTIL))
    return STATES[: 3 + round(part * (len(STATES) - 3))]


def apportion(total: int, weights: ArrayLike) -> Integers:
    """Divide `total` into integers by largest remainders, so that they add up exactly.

    Counts that the published facts depend on (workplaces of each size class, places of each
    stratum) are apportioned and not drawn, so that they hold for every seed.
    """
    share = np.asarray(weights, dtype=np.float64)
    quota = share * (total / share.sum())
    parts: Integers = np.floor(quota).astype(np.int64)
    missing = total - int(parts.sum())
    by_remainder = np.argsort(parts - quota, kind="stable")
    parts[by_remainder[:missing]] += 1
    return parts


@dataclass(frozen=True)
class Stratum:
    """Places with `low` <= population < `high`; `places` at the papers' size, `least` at any."""

    low: int
    high: int
    places: int
    least: int
    slope: float  # the density of population falls like population ** -slope


# The boundaries are the papers'. The numbers of places are those of three Midwestern states to
# the nearest handful; in the smallest stratum, where the papers say nothing, assumed.
STRATA: tuple[Stratum, ...] = (
    Stratum(0, 100, 420, 2, 0.0),
    Stratum(100, 10_000, 2_150, 3, 1.1),
    Stratum(10_000, 100_000, 340, 2, 1.8),
    Stratum(100_000, 3_000_000, 16, 1, 2.1),
)
_COUNTIES = 266
_TRACTS = 6_043
# County and tract codes have three and six digits, used sparsely as the real ones are.
_MOST_COUNTIES_OF_A_STATE = 499


@dataclass(frozen=True)
class Geography:
    """Codes, and for each finer unit the index of the coarser one that contains it."""

    states: tuple[State, ...]
    counties: list[str]
    state_of_county: Integers
    places: list[str]
    county_of_place: Integers
    population: Integers
    stratum_of_place: Integers
    tracts: list[str]
    county_of_tract: Integers
    place_of_site: Integers
    tract_of_site: Integers
    footprint: Array  # of a site: its part of the place's area, sums to 1 by place

    def must_have_a_workplace(self) -> Integers:
        """Up to two places of every stratum and one of every state, so that none is lost."""
        state = self.state_of_county[self.county_of_place]
        firsts = [np.flatnonzero(self.stratum_of_place == s)[:2] for s in range(len(STRATA))]
        firsts += [np.flatnonzero(state == s)[:1] for s in range(len(self.states))]
        return np.unique(np.concatenate(firsts))


def draw_geography(jobs: int, rng: np.random.Generator) -> Geography:
    """A geography in proportion to `jobs`; the papers' size has three states, 6,000 tracts."""
    scale = jobs / PAPERS_JOBS
    states = states_for(jobs)
    weight = np.array([s.residents for s in states], dtype=np.float64)
    state_of_county = _counties(max(len(states), round(_COUNTIES * scale)), weight)
    counties = [
        f"{states[s].code}{2 * number + 1:03d}"
        for s, n in enumerate(np.bincount(state_of_county).tolist())
        for number in range(n)
    ]
    stratum, population = _populations(scale, len(states), rng)
    state_of_place = _states_of_places(stratum, weight, rng)
    county_of_place = _counties_of_places(state_of_place, state_of_county, rng)
    tracts_wanted = max(len(counties), round(_TRACTS * scale))
    county_of_tract, place_of_site, tract_of_site = _sites(
        population, county_of_place, len(counties), tracts_wanted, rng
    )
    return Geography(
        states=states,
        counties=counties,
        state_of_county=state_of_county,
        places=_place_codes(states, state_of_place, rng),
        county_of_place=county_of_place,
        population=population,
        stratum_of_place=stratum,
        tracts=_tract_codes(counties, county_of_tract),
        county_of_tract=county_of_tract,
        place_of_site=place_of_site,
        tract_of_site=tract_of_site,
        footprint=_footprints(place_of_site, rng),
    )


def _counties(number: int, weight: Array) -> Integers:
    """The state of each county: at least one in every state, the rest by residents."""
    each = 1 + apportion(max(0, number - weight.size), weight)
    return np.repeat(np.arange(weight.size), np.minimum(each, _MOST_COUNTIES_OF_A_STATE))


def _populations(scale: float, states: int, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Stratum and population of each place, one draw from each equal slice of its stratum.

    Slices, because the handful of cities holds a third of all residents.
    """
    strata, populations = [], []
    for number, stratum in enumerate(STRATA):
        n = max(stratum.least, round(stratum.places * scale))
        if number == 1:
            n = max(n, states)  # every state has a town of this stratum
        u = (np.arange(n) + 0.3 + 0.4 * rng.random(n)) / n
        power = 1.0 - stratum.slope
        low, high = float(stratum.low), float(stratum.high)
        drawn = (low**power + u * (high**power - low**power)) ** (1.0 / power)
        inside = np.clip(drawn.astype(np.int64), stratum.low, stratum.high - 1)
        populations.append(rng.permutation(inside))
        strata.append(np.full(n, number))
    return np.concatenate(strata), np.concatenate(populations)


def _states_of_places(stratum: Integers, weight: Array, rng: np.random.Generator) -> Integers:
    """Each stratum divided among the states by residents, the second with one for each state."""
    parts = []
    for number, n in enumerate(np.bincount(stratum).tolist()):
        sure = weight.size if number == 1 else 0
        each = apportion(n - sure, weight)
        states = np.repeat(np.arange(weight.size), each + (1 if sure else 0))
        parts.append(rng.permutation(states))
    return np.concatenate(parts)


def _counties_of_places(
    state_of_place: Integers, state_of_county: Integers, rng: np.random.Generator
) -> Integers:
    """A county of the place's state; counties attract places unevenly (log-normal, sigma 0.6)."""
    pull = rng.lognormal(0.0, 0.6, state_of_county.size)
    county = np.empty(state_of_place.size, dtype=np.int64)
    for state in range(int(state_of_county.max()) + 1):
        own = np.flatnonzero(state_of_county == state)
        here = np.flatnonzero(state_of_place == state)
        county[here] = rng.choice(own, here.size, p=pull[own] / pull[own].sum())
    return county


def _sites(
    population: Integers,
    county_of_place: Integers,
    counties: int,
    tracts_wanted: int,
    rng: np.random.Generator,
) -> tuple[Integers, Integers, Integers]:
    """The county of each tract, then place and tract of each site, sites ordered by place."""
    residents = population.sum() / tracts_wanted
    owned = np.where(population >= residents, np.rint(population / residents), 0).astype(np.int64)
    small = owned == 0
    rest = np.bincount(county_of_place[small], population[small], minlength=counties)
    # At least one where any small place lies, even if nobody lives there.
    inhabited = np.bincount(county_of_place[small], minlength=counties) > 0
    shared = np.where(inhabited, np.maximum(1, np.rint(rest / residents)), 0).astype(np.int64)
    shared_start = np.concatenate(([0], np.cumsum(shared)))
    county = county_of_place[small]
    chosen = shared_start[county] + np.floor(rng.random(county.size) * shared[county]).astype(int)
    owners = np.repeat(np.arange(population.size), owned)
    first_owned = int(shared_start[-1])
    place = np.concatenate((np.flatnonzero(small), owners))
    tract = np.concatenate((chosen, first_owned + np.arange(owners.size)))
    county_of_tract = np.concatenate(
        (np.repeat(np.arange(counties), shared), county_of_place[owners])
    )
    order = np.argsort(place, kind="stable")
    return county_of_tract, place[order], tract[order]


def _footprints(place_of_site: Integers, rng: np.random.Generator) -> Array:
    """Workplaces crowd into some tracts of a city (log-normal, sigma 0.8), as downtowns do."""
    raw = rng.lognormal(0.0, 0.8, place_of_site.size)
    footprint: Array = raw / np.bincount(place_of_site, raw)[place_of_site]
    return footprint


def _place_codes(
    states: tuple[State, ...], state_of_place: Integers, rng: np.random.Generator
) -> list[str]:
    codes = np.empty(state_of_place.size, dtype=np.int64)
    for state in range(len(states)):
        here = np.flatnonzero(state_of_place == state)
        codes[here] = 1 + rng.choice(99_999, here.size, replace=False)
    pairs = zip(state_of_place.tolist(), codes.tolist(), strict=True)
    return [f"{states[s].code}{code:05d}" for s, code in pairs]


def _tract_codes(counties: list[str], county_of_tract: Integers) -> list[str]:
    """Four digits and a suffix of 00, as whole tracts have; the suffix only counts when crowded."""
    seen = [0] * len(counties)
    step = 100 if np.bincount(county_of_tract).max() < 9_999 else 1
    codes = []
    for county in county_of_tract.tolist():
        seen[county] += 1
        codes.append(f"{counties[county]}{seen[county] * step:06d}")
    return codes
