"""Redraws of noise, and how often calibrated intervals held on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from eree.estimate.calibrated import CalibratedTable, Evidence, _largest_of_parts
from eree.estimate.calibration import Calibrated
from eree.estimate.largest import POINTS, equally_likely
from eree.estimate.noise import NoiseBySize, noise_of_cells
from eree.estimate.rank import own_ranks, rank_intervals
from eree.estimate.size_distribution import SizeDistribution, size_classes
from eree.mechanisms.mechanism import Mechanism
from eree.mechanisms.registry import automatic_vector, mechanism
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Strong
from eree.random.exact import Array, Integers
from eree.random.source import SeededRandom
from torture.interval_populations import WORKER_CELLS, Workplaces
from torture.interval_tallies import Held, Tally, by_bounds

LEVEL = 0.9
#: The share of epsilon that the size profile has.
PROFILE_SHARE = 0.02
#: Damage for each job is around the threshold, with this standard deviation of its logarithm.
PER_JOB, SPREAD = 3.5, 0.5
_NOISY = (0, 1, 5, 15, 50, 200, 1_000, 5_000)
_NUMBER = (2, 3, 5, 10, 20, 50, 100, 300, 1_000)
_JOBS = (100, 1_000, 10_000, 100_000)
_SHARE = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95)
_DOMINATED_FROM = 200
#: The first seed of the redraws.
_SEED = 1_000


@dataclass(frozen=True, eq=False)
class Runs:
    """Cells in the order of their areas, and where each area begins."""

    order: Integers
    starts: Integers

    @classmethod
    def by(cls, area: Integers) -> Runs:
        """Sort cells into areas."""
        order = np.argsort(area, kind="stable")
        return cls(order, np.flatnonzero(np.diff(area[order], prepend=-1)))

    def sums(self, numbers: Integers) -> Integers:
        """The sums of the areas."""
        found: Integers = np.add.reduceat(numbers[self.order], self.starts)
        return found


@dataclass(frozen=True, eq=False)
class Draw:
    """Noisy counts of all cells, and what they say of the noise."""

    noisy: Integers
    table: CalibratedTable
    posterior: Array

    @property
    def calibrated(self) -> Calibrated:
        """The noise of the cells."""
        return self.table.calibrated


def _known(noise: NoiseBySize, largest: Integers, cells: int = 1) -> Calibrated:
    """The noise of cells whose largest workplaces are known."""
    place = np.searchsorted(size_classes(), largest, side="right") - 1
    return Calibrated(noise, np.repeat(place[:, None], POINTS, 1).astype(np.uint8), cells)


@dataclass(eq=False)
class Judged:
    """A population at one epsilon, and what was counted over redraws."""

    name: str
    population: Workplaces
    epsilon: str
    profile_share: float = PROFILE_SHARE
    tally: Tally = field(default_factory=Tally)
    redraws: int = 0
    single: dict[str, Integers] = field(default_factory=dict)
    ranks: dict[str, list[float]] = field(default_factory=dict)
    guaranteed: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mechanism: Mechanism = mechanism("auto", alpha="0.1", epsilon=self.epsilon)
        found = self.population
        sizes = self._profile(0)
        self.noise = noise_of_cells(self.mechanism, tuple(sizes.sizes.tolist()))
        names = [found.sectors[i] for i in found.sector]
        self.kinds = sizes.rows_of(pa.table({"sector": names}))
        self.known = _known(self.noise, found.largest)
        self.areas = {
            "place": Runs.by(found.place),
            "sector": Runs.by(found.sector),
            "state": Runs.by(found.state),
        }

    def _profile(self, seed: int) -> SizeDistribution:
        price = f"{self.profile_share * float(self.epsilon):.6f}"
        return self.population.profile(price, SeededRandom(_SEED + seed))

    def draws(self, number: int) -> Iterator[Draw]:
        """Releases of the table and of its profile, made again and again."""
        found = self.population
        for seed in range(self.redraws, self.redraws + number):
            sizes = self._profile(seed)
            random = SeededRandom(2 * _SEED + seed)
            noisy = self.mechanism.draw(found.counts, found.largest, random=random)
            own = Evidence(found.number, self.kinds, noisy, self.noise)
            posterior = own.posterior(sizes)
            points = equally_likely(posterior, self.noise.variance)
            table = CalibratedTable(Calibrated(self.noise, points), sizes, own)
            yield Draw(noisy, table, posterior)
            self.redraws += 1

    def count(self, draw: Draw) -> None:
        """Cells by stratum, and sums."""
        self._cells(draw)
        found = self.population
        for name, runs in self.areas.items():
            truth, noisy = runs.sums(found.counts), runs.sums(draw.noisy)
            held = Held.of(
                truth,
                draw.calibrated.sum_ends(noisy, runs.order, runs.starts, LEVEL),
                self.known.sum_ends(noisy, runs.order, runs.starts, LEVEL),
            )
            whole = np.zeros(len(truth), dtype=np.int64)
            self.tally.add("sums", [f"by {name}"], whole, held)
            if name == "place":
                self.tally.add("sums by place", *by_bounds(truth, (10, *_JOBS), " jobs"), held)
            covered = held.covered.astype(np.int64)
            self.single[name] = self.single.get(name, 0) + covered

    def _cells(self, draw: Draw) -> None:
        found, noisy, truth = self.population, draw.noisy, self.population.counts
        held = Held.of(
            truth, draw.calibrated.cell_ends(noisy, LEVEL), self.known.cell_ends(noisy, LEVEL)
        )
        low, high = self.mechanism.interval(noisy, LEVEL)
        self.guaranteed.append(float(((low <= truth) & (truth <= high)).mean()))
        add = self.tally.add
        add("cells", ["all"], np.zeros(len(noisy), dtype=np.int64), held)
        add("noisy count", *by_bounds(noisy, _NOISY, ""), held)
        add("workplaces", *by_bounds(found.number, _NUMBER, ""), held)
        jobs = np.bincount(found.place, truth)[found.place]
        add("jobs of the place", *by_bounds(jobs, _JOBS, ""), held)
        add("sector", found.sectors, found.sector, held)
        labels, share = by_bounds(found.largest / np.maximum(truth, 1), _SHARE, "")
        add("share of the largest", labels, np.where(noisy >= _DOMINATED_FROM, share, -1), held)

    def rank(self, draw: Draw, *, own: bool = True) -> None:
        """Ranks of places and damage against a threshold, beside those with the scale known.

        Joint ones, and if `own` is set those of each place for itself as well.
        """
        found, runs = self.population, self.areas["place"]
        truth, noisy = runs.sums(found.counts), runs.sums(draw.noisy)
        number = len(truth)
        place = 1 + number - np.searchsorted(np.sort(truth), truth, side="right")
        spread = np.random.default_rng(9).normal(0, SPREAD, number)
        damage = truth * np.exp(spread) * PER_JOB
        tables = draw.table, CalibratedTable(self.known, draw.table.sizes, None)
        for name, table in zip(("calibrated", "scale known"), tables, strict=True):
            made = table.calibrated
            low, high = table.joint_ends(noisy, runs.order, runs.starts, (1 - LEVEL) / number)
            best, worst = rank_intervals(low.astype(np.float64), high.astype(np.float64))
            above, below = damage > PER_JOB * high, damage < PER_JOB * low
            wrong = (above & (damage <= PER_JOB * truth)) | (below & (damage >= PER_JOB * truth))
            figures = {
                "joint span": (worst - best + 1).mean(),
                "joint sums held": float(((low <= truth) & (truth <= high)).all()),
                "joint ranks held": float(((best <= place) & (place <= worst)).all()),
                "undecided": 1 - (above | below).mean(),
                "a decision wrong": float(wrong.any()),
            }
            if own:
                moments = made.moments(runs.order, runs.starts)
                alone = made.sum_ends(noisy, runs.order, runs.starts, LEVEL)
                deviations = np.sqrt(moments.variance)
                first, last = own_ranks(noisy - moments.mean, deviations, *alone, LEVEL)
                first, last = np.maximum(first, best), np.minimum(last, worst)
                figures["own span"] = (last - first + 1).mean()
                figures["own coverage"] = ((first <= place) & (place <= last)).mean()
            for figure, value in figures.items():
                self.ranks.setdefault(f"{name}: {figure}", []).append(float(value))

    def as_json(self) -> dict[str, Any]:
        """All figures."""
        shares = {
            name: (covered / max(self.redraws, 1)).tolist() for name, covered in self.single.items()
        }
        return {
            "population": self.name,
            "epsilon": self.epsilon,
            "redraws": self.redraws,
            "guaranteed": float(np.mean(self.guaranteed)),
            "strata": self.tally.as_json(),
            "single": {
                "places in 80%": float(np.mean([s >= 0.8 for s in shares.get("place", [])] or [0])),
                "sectors in 75%": sum(s >= 0.75 for s in shares.get("sector", [])),
                "sectors": dict(
                    zip(self.population.sectors, shares.get("sector", []), strict=False)
                ),
            },
            "ranks": {name: float(np.mean(found)) for name, found in self.ranks.items()},
            "ranked": max((len(found) for found in self.ranks.values()), default=0),
        }


class JudgedWorkers:
    """Sex by education by place, whose largest workplaces come from the table of workplaces."""

    def __init__(self, judged: Judged) -> None:
        self.judged = judged
        found = judged.population
        assert found.workers is not None
        self.counts = found.workers
        guarantee = Guarantee(Strong("0.1"), judged.epsilon)
        self.mechanism, _ = automatic_vector(guarantee, WORKER_CELLS)
        self.largest = np.zeros(len(found.places), dtype=np.int64)
        np.maximum.at(self.largest, found.place, found.largest)
        self.noise = noise_of_cells(self.mechanism, tuple(judged.noise.sizes.tolist()))
        self.known = _known(self.noise, self.largest, WORKER_CELLS)
        self.tally = Tally()
        cells = np.arange(self.counts.size)
        place, cell = cells // WORKER_CELLS, cells % WORKER_CELLS
        self.sums = {
            "by sex and education": Runs.by(cell),
            "by sex and place": Runs.by(place * 2 + cell // 4),
            "by place": Runs.by(place),
            "by sex": Runs.by(cell // 4),
        }

    def count(self, draw: Draw, seed: int) -> None:
        """Worker cells by noisy count and jobs of the place, and sums."""
        each = np.repeat(self.largest[:, None], WORKER_CELLS, 1)
        noisy = self.mechanism.draw(self.counts, each, random=SeededRandom(3 * _SEED + seed))
        noisy, truth = noisy.ravel(), self.counts.ravel()
        place = self.judged.population.place
        order = np.argsort(place, kind="stable")
        starts = np.searchsorted(place[order], np.arange(len(self.largest)))
        posterior = _largest_of_parts(draw.posterior[order], starts)
        points = equally_likely(posterior, self.noise.variance)
        made = Calibrated(self.noise, points, WORKER_CELLS)
        held = Held.of(truth, made.cell_ends(noisy, LEVEL), self.known.cell_ends(noisy, LEVEL))
        add, whole = self.tally.add, np.zeros(len(noisy), dtype=np.int64)
        add("cells", ["all"], whole, held)
        add("noisy count", *by_bounds(noisy, _NOISY, ""), held)
        jobs = np.repeat(self.counts.sum(1), WORKER_CELLS)
        add("jobs of the place", *by_bounds(jobs, _JOBS, ""), held)
        for name, runs in self.sums.items():
            sums = runs.sums(noisy)
            ends = (
                known.sum_ends(sums, runs.order, runs.starts, LEVEL) for known in (made, self.known)
            )
            both = Held.of(runs.sums(truth), next(ends), next(ends))
            add("sums", [name], np.zeros(len(sums), dtype=np.int64), both)

    def as_json(self) -> dict[str, Any]:
        """All figures."""
        judged = self.judged
        return {
            "population": judged.name,
            "epsilon": judged.epsilon,
            "redraws": judged.redraws,
            "mechanism": self.mechanism.name,
            "strata": self.tally.as_json(),
        }


def judge(
    judged: Judged, redraws: int, workers: JudgedWorkers | None = None, *, ranks: bool = True
) -> None:
    """Draw again and again and count; ranks of each place for itself at every fifth redraw."""
    for draw in judged.draws(redraws):
        judged.count(draw)
        if ranks:
            judged.rank(draw, own=judged.redraws % 5 == 0)
        if workers is not None:
            workers.count(draw, judged.redraws)
