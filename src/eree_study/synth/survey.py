"""A synthetic survey of occupational requirements: establishments by size, then occupations.

The design is that of the Occupational Requirements Survey: establishments are drawn with a
probability proportional to their employment, some do not respond, and in each that does a few
workers are drawn whose occupations are described.  Everything is synthetic; only the
occupations' titles are real.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.partial import appearing_folder
from eree.random.exact import Array, Integers
from eree.survey.declaration import SURVEY_FILE
from eree.survey.replicates import MINIMUM_ORDER, hadamard, row_pairs, successive_factors
from eree.survey.shape import Shape
from eree.workload import JOB
from eree_study.synth.files import TableFile, coded, survey_text, text
from eree_study.synth.job_requirements import (
    EVERYWHERE,
    IMPOSSIBLE,
    OCCUPATIONS,
    REQUIREMENTS,
    SMALL_OCCUPATIONS,
    SMALL_REQUIREMENTS,
    Occupation,
    Requirement,
    shape_of,
)
from eree_study.synth.population import Progress, checked_target
from eree_study.synth.workplaces import SECTORS, draw_sizes

MOST_ESTABLISHMENTS = 1_000_000
#: QUERYTOOL's test data.
SMALL_RECORDS = 182
MOST_REPLICATES = 256
JOBS_PER_ESTABLISHMENT = 20.7
RESPONSE = 0.7
#: From so many workers on, so many of them are drawn at most, and so many establishments respond.
SIZE_CLASSES = ((1, 4, 0.78), (50, 6, 0.70), (250, 8, 0.55))
#: Dirichlet concentration of the occupations of a sector: more makes its establishments alike.
CONCENTRATION = 3.0
AT_ONCE = 1 << 14


@dataclass(frozen=True)
class _Sample:
    """Establishments that responded: workers, sector, how many workers were drawn, weight."""

    size: Integers
    sector: Integers
    drawn: Integers
    weight: Array


def synthesize_survey(
    out: str | os.PathLike[str],
    *,
    establishments: int = 1_000,
    seed: int = 1,
    shape: Literal["ors", "querytool"] = "ors",
    replicates: int = 0,
    progress: Progress | None = None,
) -> Path:
    """Write a synthetic survey into a folder, which appears whole or not at all.

    Same arguments, same bytes, as long as numpy and pyarrow stay the same.

    Args:
        out: A new or empty folder.
        establishments: How many respond, exactly, with about three records each.
        seed: Where the draws start.
        shape: "ors", or "querytool" for that of QUERYTOOL's test data: 182 records, ten variables,
            17,280 cells.
        replicates: How many replicate weights, by successive difference replication.
        progress: Called with a step and the share that is done.

    Examples:
        >>> eree_study.synthesize_survey("sampled", shape="querytool").name
        'sampled'
    """
    _check(establishments, seed, shape, replicates)
    target = checked_target(out)
    tell = progress or (lambda _step, _done: None)
    small = shape == "querytool"
    occupations = SMALL_OCCUPATIONS if small else OCCUPATIONS
    requirements = SMALL_REQUIREMENTS if small else REQUIREMENTS
    made = shape_of(occupations, requirements, () if small else IMPOSSIBLE)
    parts = np.random.SeedSequence(seed).spawn(3)
    sampling, hiring, describing = (np.random.default_rng(part) for part in parts)
    with appearing_folder(target) as folder:
        tell("establishments", 0.0)
        sample = _draw_sample(SMALL_RECORDS if small else establishments, sampling)
        tell("occupations", 0.2)
        where, occupation, weights = _draw_occupations(sample, occupations, hiring)
        if small:
            where, occupation = where[:SMALL_RECORDS], occupation[:SMALL_RECORDS]
            weights = weights[:SMALL_RECORDS]
        tell("requirements", 0.6)
        answers = _draw_requirements(made, occupations, requirements, where, occupation, describing)
        tell("writing", 0.8)
        _write(folder, made, where, weights, answers, replicates)
        tell("done", 1.0)
    return Path(out)


def _check(establishments: object, seed: object, shape: object, replicates: object) -> None:
    for name, value in (("establishments", establishments), ("seed", seed)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise Refusal(f"{name} must be an integer, such as 1000")
    assert isinstance(establishments, int)
    if not 1 <= establishments <= MOST_ESTABLISHMENTS:
        raise Refusal(f"a synthetic survey has 1 to {MOST_ESTABLISHMENTS:,} establishments")
    if shape not in ("ors", "querytool"):
        raise Refusal(f"{shape!r} is no shape of a synthetic survey; choose 'ors' or 'querytool'")
    if isinstance(replicates, bool) or not isinstance(replicates, int):
        raise Refusal("replicates must be an integer, such as 80")
    if replicates != 0:
        if not MINIMUM_ORDER <= replicates <= MOST_REPLICATES:
            raise Refusal(f"replicates are 0, or {MINIMUM_ORDER} to {MOST_REPLICATES}, such as 80")
        hadamard(replicates)  # refuses an order that has no matrix


# ------------------------------------------------------------------------------ first stage


def _draw_sample(establishments: int, rng: np.random.Generator) -> _Sample:
    """Draw establishments by size, let some not respond, and weigh those that do."""
    asked = ceil(establishments / RESPONSE)
    frame = asked * max(10, min(100, 4_000_000 // asked))
    sizes = draw_sizes(round(frame * JOBS_PER_ESTABLISHMENT), frame, rng).astype(np.int64)
    probability = _inclusion(sizes, asked)
    start, ends = rng.random(), np.cumsum(probability)
    chosen = np.flatnonzero(np.diff(np.floor(ends + start), prepend=np.floor(start)) > 0)
    size, weight = sizes[chosen], 1 / probability[chosen]
    lows, draws, responding = (np.array(c) for c in zip(*SIZE_CLASSES, strict=True))
    size_class = np.searchsorted(lows, size, side="right") - 1
    delay = rng.exponential(size=size.size) / responding[size_class]
    responds = np.zeros(size.size, dtype=np.bool_)
    responds[np.argsort(delay, kind="stable")[:establishments]] = True
    employment = size * weight
    for group in _adjustment_groups(size_class, responds):
        weight[group] *= employment[group].sum() / employment[group & responds].sum()
    size, size_class = size[responds], size_class[responds]
    return _Sample(
        size,
        _draw_sectors(size, rng),
        np.minimum(size, draws[size_class]),
        weight[responds],
    )


def _inclusion(sizes: Integers, asked: int) -> Array:
    """Probabilities proportional to size that add up to `asked`, none above 1."""
    probability = np.zeros(sizes.size)
    certain = np.zeros(sizes.size, dtype=np.bool_)
    while True:
        rest = np.where(certain, 0, sizes)
        probability = np.where(certain, 1.0, rest * ((asked - certain.sum()) / rest.sum()))
        above = probability > 1
        if not above.any():
            return probability
        certain |= above


def _adjustment_groups(
    size_class: NDArray[np.intp], responds: NDArray[np.bool_]
) -> list[NDArray[np.bool_]]:
    """The size classes, or all establishments together where one class has no response."""
    groups = [size_class == c for c in np.unique(size_class)]
    if all((group & responds).any() for group in groups):
        return groups
    return [np.ones(size_class.size, dtype=np.bool_)]


def _draw_sectors(size: Integers, rng: np.random.Generator) -> Integers:
    """The sector of each establishment; large ones are found where large ones are common."""
    share = np.array([sector.share for sector in SECTORS])
    large = np.array([sector.size for sector in SECTORS])
    tilt = np.log(size / JOBS_PER_ESTABLISHMENT).clip(-1, 2)
    found = np.empty(size.size, dtype=np.int64)
    for start in range(0, size.size, AT_ONCE):
        rows = slice(start, start + AT_ONCE)
        found[rows] = _pick(share * large ** (0.5 * tilt[rows, None]), rng)
    return found


# ----------------------------------------------------------------------------- second stage


def _draw_occupations(
    sample: _Sample, occupations: Sequence[Occupation], rng: np.random.Generator
) -> tuple[Integers, Integers, Array]:
    """Records: the establishment, the occupation, and the weight of every occupation drawn.

    Each worker drawn stands for its share of the establishment's workers; an occupation that is
    drawn twice is one record that weighs twice as much.
    """
    found = [_mix(sector.code, occupations) for sector in SECTORS]
    mixes = np.array(found)[sample.sector]
    hits = []
    for start in range(0, sample.size.size, AT_ONCE):
        rows = slice(start, start + AT_ONCE)
        shares = rng.gamma(CONCENTRATION * mixes[rows]) + 1e-9 * mixes[rows]
        draws = sample.drawn[rows]
        picked = _pick(np.repeat(shares, draws, axis=0), rng)
        where = start + np.repeat(np.arange(draws.size), draws)
        hits.append(where * len(occupations) + picked)
    keys, times = np.unique(np.concatenate(hits), return_counts=True)
    where, occupation = np.divmod(keys, len(occupations))
    worker = (sample.weight * sample.size / sample.drawn)[where]
    weights = np.maximum(np.rint(worker * times * JOB), 1) / JOB
    return where, occupation, weights


def _mix(sector: str, occupations: Sequence[Occupation]) -> list[float]:
    """The shares of occupations in a sector; all of them where none is at home there."""
    here = [
        o.jobs if o.sectors == EVERYWHERE or sector in o.sectors.split() else 0.0
        for o in occupations
    ]
    if not any(here):
        here = [o.jobs for o in occupations]
    return [jobs / sum(here) for jobs in here]


def _pick(shares: Array, rng: np.random.Generator) -> Integers:
    """For every row of shares, the number of a column drawn in proportion to them."""
    ends = np.cumsum(shares, axis=1)
    points = rng.random(len(shares)) * ends[:, -1]
    passed = (ends <= points[:, None]).sum(axis=1, dtype=np.int64)
    return np.asarray(np.minimum(passed, shares.shape[1] - 1))


def _draw_requirements(
    shape: Shape,
    occupations: Sequence[Occupation],
    requirements: Sequence[Requirement],
    where: Integers,
    occupation: Integers,
    rng: np.random.Generator,
) -> list[Integers]:
    """The place of every record on every axis; jobs of one establishment are alike."""
    answers = [occupation]
    for requirement in requirements:
        trait = np.array([getattr(o, requirement.trait) for o in occupations])
        shared = rng.normal(size=int(where.max()) + 1)[where]
        variation = 0.5 * shared + rng.normal(size=where.size)
        if requirement.trait in ("skill", "strain"):
            score = trait[occupation] + requirement.spread * variation / np.sqrt(1.25)
            if requirement.cuts[0] < 0:  # more strain, less of it
                score = -score
        else:
            odds = np.clip(trait, 0.005, 0.995)
            score = np.log(odds / (1 - odds))[occupation] / 1.7 + variation / np.sqrt(1.25)
        answers.append(np.searchsorted(np.array(requirement.cuts), score, side="right"))
    names = [variable.name for variable in shape.variables]
    for rule in shape.impossible:
        *others, (changed, codes) = rule.codes.items()
        variable = shape.variable(changed)
        inside = np.isin(answers[names.index(changed)], [variable.places[c] for c in codes])
        for name, held in others:
            places = [shape.variable(name).places[code] for code in held]
            inside &= np.isin(answers[names.index(name)], places)
        free = next(p for p, code in enumerate(variable.codes) if code not in codes)
        answers[names.index(changed)][inside] = free
    return answers


# ---------------------------------------------------------------------------------- writing


def _write(
    folder: Path,
    shape: Shape,
    where: Integers,
    weights: Array,
    answers: Sequence[Integers],
    replicates: int,
) -> None:
    """The records in the order of their establishments, and what they mean."""
    numbers = [pa.field(n, pa.int64(), nullable=False) for n in ("record_id", "establishment_id")]
    columns = [f"replicate_{r}" for r in range(1, replicates + 1)]
    reals = [pa.field(name, pa.float64(), nullable=False) for name in ("weight", *columns)]
    variables = [text(variable.name) for variable in shape.variables]
    file = folder / "records.parquet"
    with TableFile(file, pa.schema([*numbers, *variables, *reals]), ["record_id"]) as records:
        for start in range(0, where.size, 1 << 17):
            rows = slice(start, start + (1 << 17))
            factors = _replicate_factors(where[rows], int(where.max()) + 1, replicates)
            records.write(
                pa.array(np.arange(rows.start, rows.start + where[rows].size) + 1),
                pa.array(where[rows] + 1),
                *(
                    coded(found[rows].astype(np.int32), variable.codes)
                    for found, variable in zip(answers, shape.variables, strict=True)
                ),
                pa.array(weights[rows]),
                *(pa.array(weights[rows] * factor) for factor in factors),
            )
    said = survey_text(shape, columns)
    (folder / SURVEY_FILE).write_text(said, encoding="utf-8")


def _replicate_factors(where: Integers, establishments: int, replicates: int) -> Iterator[Array]:
    """A row of factors for each replicate; all records of an establishment have the same."""
    first, second = row_pairs(establishments, max(replicates, MINIMUM_ORDER))
    for replicate in range(replicates):
        yield successive_factors(replicates, replicate, first[where], second[where])
