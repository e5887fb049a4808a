"""A synthetic population of workplaces, workers and jobs, written as linked tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.partial import appearing_folder
from eree_study.synth.areas import write_areas
from eree_study.synth.blocks import Blocks
from eree_study.synth.earnings import EARNINGS, Pay
from eree_study.synth.files import ROWS_AT_ONCE, TableFile, coded, schema_text, text
from eree_study.synth.geography import PAPERS_JOBS, Geography, draw_geography
from eree_study.synth.workers import ATTRIBUTES, Compositions, draw_compositions
from eree_study.synth.workplaces import OWNERSHIPS, SECTORS, Workplaces, draw_workplaces

Progress = Callable[[str, float], None]

PAPERS_WORKPLACES = 527_000
LEAST_JOBS = 1_000
MOST_JOBS = 500_000_000
LEAST_WORKPLACES = 40
# Above this mean, no tilt of the size classes looks like a country.
MOST_JOBS_PER_WORKPLACE = 200


@dataclass(frozen=True)
class Assumptions:
    """What a synthetic population assumes where public figures say nothing.

    There are two sets of them: what is tuned on one population must be judged on another.
    `concentration` multiplies the weights of the workplaces' own shares of workers: less makes
    workplaces differ more.  `local` is the least spread of all shares between places, and again
    between states.  `tail` is the slope of the largest workplaces.  `tie` is the part of workers
    whose education goes with their sex inside a workplace.  `uneven` multiplies how much the jobs
    per resident vary between places.
    """

    concentration: float = 1.0
    local: float = 0.0
    tail: float = 2.05
    tie: float = 0.0
    uneven: float = 1.0


USUAL = "usual"
ASSUMPTIONS: Mapping[str, Assumptions] = MappingProxyType(
    {
        USUAL: Assumptions(),
        "other": Assumptions(concentration=0.5, local=0.2, tail=1.85, tie=0.3, uneven=1.6),
    }
)


def assumptions_named(name: str) -> Assumptions:
    """Assumptions by their name."""
    if name not in ASSUMPTIONS:
        raise Refusal(f"there are no assumptions {name!r}; there are {', '.join(ASSUMPTIONS)}")
    return ASSUMPTIONS[name]


def synthesize(
    folder: str | os.PathLike[str],
    *,
    jobs: int = 250_000,
    workplaces: int | None = None,
    seed: int = 1,
    areas: bool = False,
    assumptions: str = USUAL,
    progress: Progress | None = None,
) -> Path:
    """Write a synthetic population into `folder`, which appears whole or not at all.

    Every worker has one job.  The same arguments give the same bytes, as long as numpy and pyarrow
    stay the same.

    Args:
        folder: A new or empty folder.
        jobs: How many jobs, exactly.
        workplaces: How many workplaces, exactly; by default as many for each job as in the papers'
            sample.
        seed: Where the draws start.
        areas: Whether GeoJSON files with the shapes of counties, places and tracts are added.
        assumptions: What nobody has measured is "usual", or "other": quite different, to judge on
            it what was tuned on the usual.
        progress: Called with a step and the share that is done.

    Examples:
        >>> eree_study.synthesize("town", jobs=5_000).name
        'town'
    """
    jobs, seed = _whole("number of jobs", jobs), _whole("seed", seed)
    if workplaces is None:
        workplaces = round(jobs * PAPERS_WORKPLACES / PAPERS_JOBS)
    chosen = _whole("number of workplaces", workplaces)
    _check(jobs, chosen, seed)
    assumed = assumptions_named(assumptions)
    target = checked_target(folder)
    tell = progress or (lambda _step, _fraction: None)
    # One random stream for each part: a change to one leaves the others as they were.
    parts = np.random.SeedSequence(seed).spawn(8)
    streams = map(np.random.default_rng, parts)
    places, places_of_work, shares, hiring, people, land, wages, lots = streams
    with appearing_folder(target) as partial:
        tell("geography", 0.0)
        geography = draw_geography(jobs, places)
        if areas:
            write_areas(partial, geography, land)
        tell("workplaces", 0.01)
        made = draw_workplaces(
            jobs, chosen, geography, places_of_work, tail=assumed.tail, uneven=assumed.uneven
        )
        _write_places(partial / "place.parquet", geography)
        blocks = Blocks(geography, lots)
        _write_workplaces(partial / "workplace.parquet", made, geography, blocks)
        tell("workers", 0.1)
        compositions = draw_compositions(
            made,
            geography,
            shares,
            concentration=assumed.concentration,
            local=assumed.local,
            tie=assumed.tie,
        )
        tell("workers", 0.2)
        employer = np.repeat(np.arange(chosen, dtype=np.int32), made.size)
        hiring.shuffle(employer)
        pay = Pay(made, wages, concentration=assumed.concentration)
        for done in _write_workers_and_jobs(partial, employer, compositions, people, pay):
            tell("workers and jobs", 0.3 + 0.69 * done)
        states = ((state.code, state.name) for state in geography.states)
        (partial / "schema.toml").write_text(schema_text(states), encoding="utf-8")
        tell("done", 1.0)
    return Path(folder)


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise Refusal(f"the {name} must be an integer, such as 250000")
    return int(value)


def _check(jobs: int, workplaces: int, seed: int) -> None:
    if not LEAST_JOBS <= jobs <= MOST_JOBS:
        raise Refusal(
            f"a synthetic population has {LEAST_JOBS:,} to {MOST_JOBS:,} jobs, not {jobs:,}"
        )
    if workplaces > jobs:
        raise Refusal(
            f"{workplaces:,} workplaces are more than {jobs:,} jobs; ask for at most {jobs:,}"
        )
    least = max(LEAST_WORKPLACES, -(-jobs // MOST_JOBS_PER_WORKPLACE))
    if workplaces < least:
        raise Refusal(
            f"{workplaces:,} workplaces are too few for {jobs:,} jobs; ask for at least {least:,}"
        )
    if seed < 0:
        raise Refusal(f"the seed must be 0 or more, not {seed}")


def checked_target(folder: str | os.PathLike[str]) -> Path:
    """Where synthetic data may appear: a folder that is new or empty."""
    target = Path(folder).resolve()
    if target.exists() and not target.is_dir():
        raise Refusal(f"{folder} is a file; name a new or empty folder")
    if target.is_dir() and any(target.iterdir()):
        raise Refusal(f"{folder} is not empty; name a new or empty folder")
    if not target.parent.is_dir():
        raise Refusal(f"the folder {target.parent} does not exist; make it first")
    return target


def _chunks(rows: int) -> Iterator[slice]:
    for start in range(0, rows, ROWS_AT_ONCE):
        yield slice(start, min(start + ROWS_AT_ONCE, rows))


def _identifiers(rows: slice) -> pa.Array[Any]:
    return pa.array(np.arange(rows.start + 1, rows.stop + 1, dtype=np.int32))


def _number(name: str) -> pa.Field[Any]:
    return pa.field(name, pa.int32(), nullable=False)


def _write_places(path: Path, geography: Geography) -> None:
    """The public list of places, in the order of their codes."""
    schema = pa.schema([text("place"), _number("population"), text("county"), text("state")])
    order = np.argsort(np.array(geography.places))
    county = geography.county_of_place[order]
    with TableFile(path, schema) as file:
        file.write(
            coded(order.astype(np.int32), geography.places),
            pa.array(geography.population[order].astype(np.int32)),
            coded(county.astype(np.int32), geography.counties),
            coded(
                geography.state_of_county[county].astype(np.int32),
                [s.code for s in geography.states],
            ),
        )


def _write_workplaces(path: Path, made: Workplaces, geography: Geography, blocks: Blocks) -> None:
    names = ("state", "county", "place", "tract", "block", "sector", "ownership")
    schema = pa.schema([_number("workplace_id"), *(text(name) for name in names)])
    states = [s.code for s in geography.states]
    place_of_site = geography.place_of_site.astype(np.int32)
    tract_of_site = geography.tract_of_site.astype(np.int32)
    county_of_site = geography.county_of_place[place_of_site].astype(np.int32)
    state_of_site = geography.state_of_county[county_of_site].astype(np.int32)
    with TableFile(path, schema, sequences=["workplace_id"]) as file:
        for rows in _chunks(made.size.size):
            site = made.site[rows]
            file.write(
                _identifiers(rows),
                coded(state_of_site[site], states),
                coded(county_of_site[site], geography.counties),
                coded(place_of_site[site], geography.places),
                coded(tract_of_site[site], geography.tracts),
                blocks.draw(site),
                coded(made.sector[rows].astype(np.int32), [s.code for s in SECTORS]),
                coded(made.public[rows].astype(np.int32), list(OWNERSHIPS)),
            )


def _write_workers_and_jobs(
    partial: Path,
    employer: NDArray[np.int32],
    compositions: Compositions,
    rng: np.random.Generator,
    pay: Pay,
) -> Iterator[float]:
    """Both files side by side in the order of workers, so that neither is held in memory."""
    worker_schema = pa.schema([_number("worker_id"), *(text(a.name) for a in ATTRIBUTES)])
    job_schema = pa.schema([_number("worker_id"), _number("workplace_id"), text("earnings")])
    with (
        TableFile(partial / "worker.parquet", worker_schema, sequences=["worker_id"]) as workers,
        TableFile(partial / "job.parquet", job_schema, sequences=["worker_id"]) as jobs,
    ):
        for rows in _chunks(employer.size):
            workplace = employer[rows]
            codes = compositions.draw(workplace, rng)
            values = zip(codes, ATTRIBUTES, strict=True)
            identifiers = _identifiers(rows)
            workers.write(
                identifiers,
                *(coded(c.astype(np.int32), list(a.values)) for c, a in values),
            )
            earned = coded(pay.draw(workplace, codes).astype(np.int32), EARNINGS)
            jobs.write(identifiers, pa.array(workplace + np.int32(1)), earned)
            yield rows.stop / employer.size
