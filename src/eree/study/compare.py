"""How a contender fares: errors, rankings and dollars, beside noise infusion of the same cells."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from eree.legacy.infusion import RAMP, WIDE, Ramp, protect_small
from eree.noise.coins import SeededCoins
from eree.policy.neighbours import plain
from eree.study.contenders import Contender
from eree.study.workloads import Counted, Workload

Array = NDArray[np.float64]

#: What one job too many or too few costs, in dollars (section 3.2 of the paper).
PER_JOB = 3.50
#: Relative errors this much apart still count as alike.
POINTS = 0.10
#: Where an error is known exactly, only contenders whose error is not are drawn, so often.
FEW = 3
RAMPS: Mapping[str, Ramp] = {"narrow": RAMP, "wide": WIDE}


@dataclass(frozen=True)
class Row:
    """One figure of the study: a line of `errors.csv`."""

    study: str
    workload: str
    mechanism: str
    alpha: str | None
    epsilon: str
    delta: float
    stratum: str
    measure: str
    value: float
    standard_error: float
    trials: int

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def seeded(*what: object) -> SeededCoins:
    """Coins that belong to one purpose, the same in every run."""
    digest = hashlib.sha256("|".join(map(str, what)).encode()).digest()
    return SeededCoins(int.from_bytes(digest[:7], "big"))


def uniforms(coins: SeededCoins, count: int) -> Array:
    """Numbers between 0 and 1, never at the ends."""
    numbers: Array = ((coins.words(count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return numbers


def infusions(cells: Counted, ramp: Ramp, trials: int, seed: int, name: str) -> Iterator[Array]:
    """Noise infusion of some cells, again and again: what is published, before rounding.

    Every trial has factors of its own, as if another key had been chosen.
    """
    workplaces = int(cells.rows.workplace.max(initial=-1)) + 1
    for trial in range(trials):
        coins = seeded(seed, name, trial)
        factors = ramp.quantile(uniforms(coins, workplaces))
        sums = cells.rows.sums(len(cells.counts), factors)
        yield protect_small(cells.counts, sums, uniforms(coins, len(sums)))


@dataclass(frozen=True)
class Yardstick:
    """What contenders are held against: errors and ranks of noise infusion, and true ranks."""

    errors: Mapping[str, Array]
    ranks: Mapping[str, list[Array]]
    true_ranks: Mapping[str, Array]

    @classmethod
    def of(cls, cells: Counted, trials: int, seed: int, *, ranked: bool) -> Yardstick:
        """Infuse the cells."""
        strata = cells.strata if ranked else {}
        errors = {name: np.zeros(len(cells.counts)) for name in RAMPS}
        ranks: dict[str, list[Array]] = {stratum: [] for stratum in strata}
        for name, ramp in RAMPS.items():
            for published in infusions(cells, ramp, trials, seed, f"infusion {name}"):
                errors[name] += np.abs(published - cells.counts) / trials
                for stratum, at in strata.items() if name == "narrow" else ():
                    ranks[stratum].append(rankdata(published[at]))
        true = {stratum: rankdata(cells.counts[at]) for stratum, at in strata.items()}
        return cls(errors, ranks, true)


class Comparison:
    """One workload: its cells, and what they are held against."""

    def __init__(self, workload: Workload, cells: Counted, *, trials: int, seed: int) -> None:
        self.workload, self.cells, self.trials, self.seed = workload, cells, trials, seed
        self.yardstick = Yardstick.of(cells, trials, seed, ranked=workload.ranked)

    def infusion(self) -> Iterator[Row]:
        """What infusion itself does: its error in jobs, and how well it ranks."""
        for ramp, errors in self.yardstick.errors.items():
            name = "infusion" if ramp == "narrow" else "infusion-wide"
            for stratum, at in self.cells.strata.items():
                yield self._row(name, None, "0", 1.0, stratum, "l1", [float(errors[at].mean())])
        for stratum, ranks in self.yardstick.ranks.items():
            true = self.yardstick.true_ranks[stratum]
            found = [correlation(rank, true) for rank in ranks]
            yield self._row("infusion", None, "0", 1.0, stratum, "spearman_truth", found)

    def rows(self, one: Contender, alpha: Fraction | None, epsilon: Fraction) -> Iterator[Row]:
        """All measures of one contender."""
        said = plain(alpha) if alpha is not None else None
        expected = one.expected(self.cells) if self.workload.study == "report" else None
        if expected is not None:
            found = self._exact(expected)
        else:
            found = self._drawn(one, said, plain(epsilon))
        for (stratum, measure), values in found.items():
            yield self._row(one.name, said, plain(epsilon), one.delta, stratum, measure, values)

    def _row(
        self,
        mechanism: str,
        alpha: str | None,
        epsilon: str,
        delta: float,
        stratum: str,
        measure: str,
        values: list[float],
    ) -> Row:
        numbers = np.array(values)
        error = float(numbers.std(ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 else 0.0
        return Row(
            self.workload.study,
            self.workload.name,
            mechanism,
            alpha,
            epsilon,
            delta,
            stratum,
            measure,
            float(numbers.mean()),
            error,
            len(numbers),
        )

    def _exact(self, errors: Array) -> dict[tuple[str, str], list[float]]:
        """From the expected error of every cell."""
        return {place: [value] for place, value in self._sizes(errors)}

    def _sizes(self, errors: Array) -> Iterator[tuple[tuple[str, str], float]]:
        """What follows from sizes of errors alone, by stratum and measure."""
        for stratum, mine in self.cells.means(errors).items():
            yield (stratum, "l1"), mine
            for ramp, name in (("narrow", "l1_ratio"), ("wide", "l1_ratio_wide")):
                yield (stratum, name), mine / self._infused[ramp][stratum]
            yield (stratum, "dollars"), PER_JOB * mine * len(self.cells.strata[stratum])

    @cached_property
    def _infused(self) -> dict[str, dict[str, float]]:
        """The mean errors of infusion, by ramp and stratum."""
        return {
            ramp: {s: max(mean, 1e-12) for s, mean in self.cells.means(errors).items()}
            for ramp, errors in self.yardstick.errors.items()
        }

    def _drawn(
        self, one: Contender, alpha: str | None, epsilon: str
    ) -> dict[tuple[str, str], list[float]]:
        """From draws, trial by trial."""
        found: dict[tuple[str, str], list[float]] = defaultdict(list)
        cells, workload = self.cells, self.workload
        counts = cells.counts.astype(np.float64)
        trials = FEW if workload.study == "report" else self.trials
        added = np.zeros(len(counts))
        for trial in range(trials):
            coins = seeded(self.seed, workload.name, one.name, alpha, epsilon, trial)
            noisy = one.draw(cells, coins)
            signed, released = noisy - counts, np.maximum(noisy, 0) - counts
            error = np.abs(signed)
            added += error
            for place, value in self._sizes(error):
                found[place].append(value)
            for stratum, mean in cells.means(np.abs(released)).items():
                ratio = mean / self._infused["narrow"][stratum]
                found[stratum, "l1_ratio_released"].append(ratio)
            for name, values in (("bias", signed), ("bias_released", released)):
                for stratum, mean in cells.means(values).items():
                    found[stratum, name].append(mean)
            if workload.ranked:
                for stratum, at in cells.strata.items():
                    rank = rankdata(noisy[at])
                    infused = self.yardstick.ranks[stratum][trial]
                    true = self.yardstick.true_ranks[stratum]
                    found[stratum, "spearman"].append(correlation(rank, infused))
                    found[stratum, "spearman_truth"].append(correlation(rank, true))
        for stratum, at in cells.strata.items():
            found[stratum, "within_10_points"] = [self._alike(added / trials, at)]
        return found

    def _alike(self, errors: Array, at: NDArray[np.intp]) -> float:
        """The share of cells whose relative error is at most 10 points above infusion's."""
        some = at[self.cells.counts[at] > 0]
        if not some.size:
            return 1.0
        counts = self.cells.counts[some]
        more = (errors[some] - self.yardstick.errors["narrow"][some]) / counts
        return float((more <= POINTS).mean())


def correlation(first: Array, second: Array) -> float:
    """The correlation of two lists of ranks; 1 where there is nothing to rank."""
    a, b = first - first.mean(), second - second.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 0 else 1.0


def cells_file(folder: Path, workload: Workload) -> Path:
    """Where the cells of a workload are kept while a study runs."""
    return folder / "cells" / f"{workload.cells}.npz"
