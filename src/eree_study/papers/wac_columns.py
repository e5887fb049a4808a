"""What a study of a LODES year measures: columns by tract, infused and from releases.

Confidential unless the data are synthetic.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf, log1p
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eree.cells import Cell
from eree.data.tables import Tables
from eree.data.tabulate import tabulate
from eree.errors import Refusal
from eree.estimate.lodes import lodes
from eree.estimate.lodes_columns import GEOCODE, LODES_COLUMNS
from eree.estimate.lodes_sources import Numbers
from eree.mechanisms.registry import kind_of, mechanism
from eree.policy.neighbours import plain
from eree.random.exact import Array, Integers
from eree.release.plan import Plan
from eree.release.publish import publish
from eree_study.papers.comparison import RAMPS, SUFFIXES, infusions, seeded
from eree_study.papers.contenders import MOST_DELTA
from eree_study.papers.study import Study
from eree_study.papers.workloads import Counted

ALPHA = Fraction(1, 10)
TRACT, SECTOR = "tract", "sector"
#: The kinds of columns, with the attribute that each counts jobs by.
WORKERS = ("sex", "education", "age", "earnings", "race", "ethnicity")
KINDS: Mapping[str, str | None] = MappingProxyType(
    {**{name: name for name in WORKERS}, "total": None, "industry": SECTOR}
)
#: Parts of epsilon: for a size profile, and for a table of jobs beside the draw.
PROFILE, JOBS = Fraction(1, 50), Fraction(1, 5)
#: The releases that are made, and how the columns are read from each.
READ: Mapping[str, tuple[Numbers, ...]] = MappingProxyType(
    {
        "one-draw": ("measured", "estimates", "biased-counts", "shrunk"),
        "six": ("measured",),
        "one-draw-and-jobs": ("estimates", "biased-counts"),
        "apart": ("measured", "estimates"),
    }
)
#: What each of six tables apart is drawn by, as `auto` would have it.
SIX = "vector-radial"
#: Steps in which epsilon is divided between six tables.
_STEPS = 60
#: The size of workplace at which they are divided.
_LARGE = 1_000
INFUSION = "infusion"
Table = dict[str, Any]


def attributes_of(kind: str) -> tuple[str, ...]:
    """What the columns of a kind are counted by."""
    attribute = KINDS[kind]
    return (TRACT,) if attribute is None else (TRACT, attribute)


@dataclass(frozen=True, repr=False)
class Truth:
    """The true columns, by tract; confidential unless the data are synthetic."""

    areas: pa.Array[Any]
    columns: Mapping[str, Integers]

    @classmethod
    def of(cls, tables: Tables) -> Truth:
        """Count them."""
        cells = {kind: tabulate(tables, by=attributes_of(kind)).confidential for kind in KINDS}
        areas = pc.sort_indices(cells["total"][TRACT])
        codes = cells["total"][TRACT].take(areas).combine_chunks()
        columns = {}
        for column, kept in LODES_COLUMNS.items():
            own, counts = cells[kind_of_column(column)], np.zeros(len(codes), dtype=np.int64)
            for name, values in kept.items():
                own = own.filter(pc.is_in(own[name], pa.array([*map(str, values)])))
            counts[pc.index_in(own[TRACT], codes).to_numpy()] = own["count"].to_numpy()
            columns[column] = counts
        return cls(codes, columns)

    def errors(self, rows: pa.Table) -> dict[str, float]:
        """The errors of columns in the shape of LODES, added up by kind, in jobs."""
        at = pc.index_in(self.areas, rows[GEOCODE].combine_chunks())
        found = dict.fromkeys(KINDS, 0.0)
        for column, true in self.columns.items():
            said = rows[column].take(at).to_numpy()
            found[kind_of_column(column)] += float(np.abs(said - true).sum())
        return found

    def __repr__(self) -> str:
        return f"<Truth of {len(self.areas):,} areas, confidential>"


def kind_of_column(column: str) -> str:
    """Which kind a column of LODES belongs to."""
    attribute = next(iter(LODES_COLUMNS[column]), None)
    return next(kind for kind, name in KINDS.items() if name == attribute)


def infused(counted: Mapping[str, Counted], study: Study) -> Iterator[tuple[str, Any]]:
    """Noise infusion: a list of the errors of all trials, by range and kind."""
    for name, ramp in RAMPS.items():
        yield (
            INFUSION + SUFFIXES[name].replace("_", "-"),
            {
                kind: [
                    float(np.abs(said - cells.counts).sum())
                    for said in infusions(
                        cells, ramp, study.trials, study.seed, f"wac infusion {name}"
                    )
                ]
                for kind, cells in counted.items()
            },
        )


def published(counted: Mapping[str, Counted], way: str, epsilon: Fraction) -> dict[str, Any]:
    """A mechanism of the paper for single cells: its exact mean errors, or why it cannot be had.

    A workplace has jobs in one cell of all jobs and of industry, and in all cells of a kind of
    workers; epsilon is divided evenly between these cells.
    """
    values = {kind: cells.workers for kind, cells in counted.items()}
    share = epsilon / sum(values.values())
    try:
        delta = float(kind_of(way).default_delta(ALPHA, share)) * sum(values.values())
        if delta > MOST_DELTA:
            return {"refused": f"its failure probabilities add up to {min(delta, 1.0):.2g}"}
        made = mechanism(way, alpha=ALPHA, epsilon=share)
        made.statistics(worker_attributes=True)
        if not np.isfinite(made.mean_error(Cell(1))[0]):
            return {"refused": "its error has no mean"}
    except Refusal as refusal:
        return {"refused": str(refusal)}
    errors = {
        kind: [float(made.mean_errors(cells.counts, cells.sizes(True)).sum())]
        for kind, cells in counted.items()
    }
    return {way: errors}


def released(
    study: Study, tables: Tables, truth: Truth, way: str, epsilon: str, trial: int
) -> dict[str, Any]:
    """A release, and the errors of its columns as they are read in several ways."""
    out = study.folder / "wac" / "release"
    shutil.rmtree(out, ignore_errors=True)  # of a run that was stopped
    privacy = {"neighbours": "strong", "alpha": plain(ALPHA), "epsilon": epsilon}
    try:
        planned = [*tables_of(way, Fraction(epsilon), tables)]
        plan = Plan.of({"data": str(tables.folder), "privacy": privacy, "table": planned})
    except Refusal as refusal:
        return {"refused": str(refusal)}
    random = seeded(study.seed, "wac", way, epsilon, trial)
    release = publish(plan, tables, ledger=None, out=out, random=random)
    found = {}
    for numbers in READ[way]:
        with suppress(Refusal) if numbers == "shrunk" else nullcontext():
            made = lodes(release, TRACT, numbers=numbers)
            if not made.missing:  # of few tracts, or where sums are worse than noisy ones
                errors = truth.errors(made.rows)
                found[f"{way}, {numbers}"] = {kind: [error] for kind, error in errors.items()}
    shutil.rmtree(out)
    return found


# ---------------------------------------------------------------------------------- plans


def tables_of(way: str, epsilon: Fraction, tables: Tables) -> Iterator[Table]:
    """The tables of a release, as a plan has them."""
    if way == "apart":
        for kind in KINDS:
            yield {"name": kind, "by": [*attributes_of(kind)], "epsilon": str(epsilon / len(KINDS))}
        return
    rest = epsilon * (1 - PROFILE)
    price = str(epsilon * PROFILE)
    yield {"name": "sizes", "count": "workplaces", "by": [SECTOR], "epsilon": price}
    if way == "six":
        values = {name: len(tables.schema.attributes[name].values or ()) for name in WORKERS}
        for name, share in best_split(rest, values).items():
            by = [TRACT, SECTOR, name]
            yield {"name": name, "by": by, "epsilon": str(share), "mechanism": SIX}
        return
    if way == "one-draw-and-jobs":
        by = [TRACT, SECTOR, "ownership"]
        yield {"name": "jobs", "by": by, "epsilon": str(epsilon * JOBS)}
        rest -= epsilon * JOBS
    price = str(rest)
    yield {"name": "wac", "by": [TRACT, SECTOR], "marginals": [*WORKERS], "epsilon": price}


def best_split(epsilon: Fraction, values: Mapping[str, int]) -> dict[str, Fraction]:
    """What each of some worker tables gets, so that all their errors together are least.

    Each gets the least that `vector-radial` needs; the rest is divided in steps, for groups of
    large workplaces, where nearly all of the error is.
    """
    least = {cells: _needed(cells) for cells in values.values()}
    rest = epsilon - sum(least[cells] for cells in values.values())
    if rest <= 0:
        raise Refusal(f"six worker tables need epsilon above {float(epsilon - rest):.4g} together")
    steps = [rest * step / _STEPS for step in range(_STEPS + 1)]
    errors = {
        cells: np.array([inf, *(error_of(needed + step, cells) for step in steps[1:])])
        for cells, needed in least.items()
    }
    best: Array = np.where(np.arange(_STEPS + 1) == 0, 0.0, inf)
    chosen = []
    for cells in values.values():
        own = errors[cells]
        tried = np.full((_STEPS + 1, _STEPS + 1), inf)
        for step in range(_STEPS + 1):  # what this table gets, of what it and those before get
            tried[step:, step] = best[: _STEPS + 1 - step] + own[step]
        chosen.append(tried.argmin(1))
        best = tried.min(1)
    left, found = _STEPS, dict[str, Fraction]()
    for name, given in zip(reversed([*values]), reversed(chosen), strict=True):
        found[name] = least[values[name]] + steps[int(given[left])]
        left -= int(given[left])
    return {name: found[name] for name in values}


def _needed(cells: int) -> Fraction:
    """The epsilon that `vector-radial` has to exceed, to six digits: cells times ln(1 + alpha)."""
    return Fraction(ceil(cells * log1p(ALPHA) * 10**6), 10**6)


def error_of(epsilon: Fraction, cells: int) -> float:
    """The error of a group of worker cells whose largest workplace is large."""
    made = mechanism(SIX, alpha=ALPHA, epsilon=epsilon, cells=cells)
    return cells * made.mean_error(Cell(_LARGE // cells, _LARGE))[0]
