"""How a contender fares: errors, rankings and dollars, beside noise infusion of the same cells."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import hypot, isfinite, nan, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from eree.policy.neighbours import plain
from eree.random.exact import Array
from eree.random.source import SeededRandom
from eree_study.legacy.infusion import RAMP, WIDE, Ramp, protect_small, uniforms
from eree_study.papers.contenders import Contender
from eree_study.papers.workloads import Counted, Workload

#: What one job too many or too few costs, in dollars (section 3.2 of the paper).
PER_JOB = 3.50
#: Relative errors this much apart still count as the same.
POINTS = 0.10
#: For tracts only contenders whose error is not known exactly are drawn, so often; those that take
#: long less often.
FEW, FEWEST = 5, 2
#: Trials are left out by so many groups to see how much a share depends on them.
GROUPS = 5
#: The ranges of infusion, and what is put behind a measure that is held against each.
RAMPS: Mapping[str, Ramp] = {"narrow": RAMP, "wide": WIDE}
SUFFIXES: Mapping[str, str] = {"narrow": "", "wide": "_wide"}
#: Nothing is divided by less than this.
_LEAST = 1e-12


@dataclass(frozen=True)
class Row:
    """One figure of the study: a line of `errors.csv`."""

    study: str
    workload: str
    mechanism: str
    alpha: str | None
    epsilon: str | None
    delta: float
    stratum: str
    measure: str
    value: float
    standard_error: float
    trials: int


@dataclass(frozen=True)
class Estimate:
    """A figure, its standard error, and of how many trials it is the mean; 0 where it is exact."""

    value: float
    error: float = 0.0
    trials: int = 0

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """The mean of some trials; one alone does not show its error, which is not a number."""
        numbers = np.array(values, dtype=np.float64)
        spread = float(numbers.std(ddof=1)) if len(numbers) > 1 else nan
        return cls(float(numbers.mean()), spread / sqrt(len(numbers)), len(numbers))

    @classmethod
    def jackknifed(cls, values: Array, trials: int) -> Estimate:
        """From a figure of all trials, and those without one group of trials each.

        All groups are of about one size; with g of them the variance is (g - 1) / g times the sum
        of squares about the mean.
        """
        whole, without = float(values[0]), values[1:]
        g = len(without)
        about = float(((without - without.mean()) ** 2).sum())
        return cls(whole, sqrt((g - 1) / g * about) if g > 1 else nan, trials)

    def times(self, factor: float) -> Estimate:
        """In another unit."""
        return Estimate(self.value * factor, self.error * abs(factor), self.trials)

    def root(self) -> Estimate:
        """The square root, with an error to the first order."""
        root = sqrt(self.value)
        return Estimate(root, self.error / (2 * max(root, _LEAST)), self.trials)

    def over(self, other: Estimate) -> Estimate:
        """The ratio to an independent figure, with an error to the first order."""
        below = max(other.value, _LEAST)
        ratio = self.value / below
        if not isfinite(ratio):
            return Estimate(ratio, 0.0, self.trials)
        return Estimate(ratio, hypot(self.error, ratio * other.error) / below, self.trials)


#: Figures by stratum and measure.
Found = dict[tuple[str, str], Estimate]


def seeded(*what: object) -> SeededRandom:
    """A random source that belongs to one purpose, the same in every run."""
    digest = hashlib.sha256("|".join(map(str, what)).encode()).digest()
    return SeededRandom(int.from_bytes(digest[:7], "big"))


def infusions(cells: Counted, ramp: Ramp, trials: int, seed: int, name: str) -> Iterator[Array]:
    """Noise infusion of some cells, again and again: what is published, before rounding.

    Every trial has factors of its own, as if another key had been chosen.
    """
    workplaces = int(cells.rows.workplace.max(initial=-1)) + 1
    for trial in range(trials):
        random = seeded(seed, name, trial)
        factors = ramp.quantile(uniforms(random.words(workplaces)))
        sums = cells.rows.sums(len(cells.counts), factors)
        yield protect_small(cells.counts, sums, uniforms(random.words(len(sums))))


@dataclass(frozen=True)
class Yardstick:
    """What contenders are held against: noise infusion of the same cells, and true ranks.

    `sizes` are infusion's errors by range, stratum and measure; `limits` the relative error of
    every cell that is not empty plus 10 points, by range, over all trials and without each group.
    """

    sizes: Mapping[str, Found]
    limits: Mapping[str, NDArray[np.float32]]
    ranks: Mapping[str, Mapping[str, list[Array]]]
    true_ranks: Mapping[str, Array]

    @classmethod
    def of(cls, cells: Counted, trials: int, seed: int, *, ranked: bool) -> Yardstick:
        """Infuse the cells."""
        strata = cells.strata if ranked else {}
        sizes, limits, ranks = {}, {}, {}
        for name, ramp in RAMPS.items():
            errors = Errors(cells, trials)
            ranks[name] = {stratum: list[Array]() for stratum in strata}
            for published in infusions(cells, ramp, trials, seed, f"infusion {name}"):
                errors.add(np.abs(published - cells.counts))
                for stratum, at in strata.items():
                    ranks[name][stratum].append(rankdata(published[at]))
            sizes[name], limits[name] = errors.sizes(), errors.relative() + np.float32(POINTS)
        true = {stratum: rankdata(cells.counts[at]) for stratum, at in strata.items()}
        return cls(sizes, limits, ranks, true)


class Errors:
    """Errors of trials: their sizes by stratum, and relative ones for every cell not empty.

    `l1` is the mean absolute error, `l2` the root mean squared one, `relative` the mean over cells
    with jobs of the absolute error as a share of the count.
    """

    def __init__(self, cells: Counted, trials: int) -> None:
        self.cells, self.trials, self.done = cells, trials, 0
        groups = min(GROUPS, trials)
        self._tried: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._sums = np.zeros((groups, len(cells.some)), dtype=np.float32)
        self._sizes = np.array([len(range(g, trials, groups)) for g in range(groups)])

    def add(self, errors: Array) -> None:
        """The errors of one more trial."""
        for key, value in sizes_of(self.cells, errors, errors**2).items():
            self._tried[key].append(value)
        self._sums[self.done % len(self._sums)] += errors[self.cells.some]
        self.done += 1

    def sizes(self) -> Found:
        """The sizes of the errors by stratum and measure."""
        return rooted({key: Estimate.of(values) for key, values in self._tried.items()})

    def relative(self) -> NDArray[np.float32]:
        """Mean relative errors of the cells that are not empty, then without each group."""
        rows = [self._sums.sum(axis=0) / self.trials]
        for group, size in enumerate(self._sizes):
            left = self.trials - size
            others = np.delete(self._sums, group, axis=0).sum(axis=0)
            rows.append(others / left if left else rows[0])
        counts = self.cells.counts[self.cells.some]
        return (np.stack(rows) / counts).astype(np.float32)


def sizes_of(cells: Counted, errors: Array, squares: Array) -> dict[tuple[str, str], float]:
    """Means by stratum and measure; those of `l2` are of squares, and have to be rooted."""
    relative = errors[cells.some] / cells.counts[cells.some]
    means = {
        "l1": cells.means(errors),
        "l2": cells.means(squares),
        "relative": cells.means_of_some(relative),
    }
    return {(stratum, name): mean for name, by in means.items() for stratum, mean in by.items()}


def rooted(found: Found) -> Found:
    """With the roots of the mean squares."""
    return {key: one.root() if key[1] == "l2" else one for key, one in found.items()}


class Comparison:
    """One workload: its cells, and what they are held against."""

    def __init__(self, workload: Workload, cells: Counted, *, trials: int, seed: int) -> None:
        self.workload, self.cells, self.trials, self.seed = workload, cells, trials, seed
        self.yardstick = Yardstick.of(cells, trials, seed, ranked=workload.ranked)

    def infusion(self) -> Iterator[Row]:
        """What infusion itself does: its error in jobs, and how well it ranks."""
        for ramp, suffix in SUFFIXES.items():
            found = dict(self.yardstick.sizes[ramp])
            for stratum, ranks in self.yardstick.ranks[ramp].items():
                true = self.yardstick.true_ranks[stratum]
                values = [correlation(rank, true) for rank in ranks]
                found[stratum, "spearman_truth"] = Estimate.of(values)
            yield from self._rows("infusion" + suffix.replace("_", "-"), None, None, 1.0, found)

    def rows(self, one: Contender, alpha: Fraction | None, epsilon: Fraction) -> Iterator[Row]:
        """All measures of one contender."""
        said = plain(alpha) if alpha is not None else None
        expected = one.expected(self.cells)
        found: Found = {}
        if expected is None or self.workload.study == "paper":
            found = self._drawn(one, said, plain(epsilon))
        if expected is not None:  # exact, also where tails are so heavy that draws say little
            found |= self._exact(expected, one.root_mean_squares(self.cells))
        yield from self._rows(one.name, said, plain(epsilon), one.delta, found)

    def _rows(
        self, name: str, alpha: str | None, epsilon: str | None, delta: float, found: Found
    ) -> Iterator[Row]:
        of = (self.workload.study, self.workload.name, name, alpha, epsilon, delta)
        for (stratum, measure), one in found.items():
            yield Row(*of, stratum, measure, one.value, one.error, one.trials)

    def _exact(self, errors: Array, roots: Array | None) -> Found:
        """From the expected errors of every cell."""
        assert roots is not None  # they are known where the others are
        some = self.cells.some
        relative = (errors[some] / self.cells.counts[some]).astype(np.float32)
        means = sizes_of(self.cells, errors, roots**2)
        found = self._sizes(rooted({key: Estimate(mean) for key, mean in means.items()}))
        return found | self._alike(relative[None], 0)

    def _sizes(self, sizes: Found) -> Found:
        """What follows from sizes of errors: ratios to infusion's, and dollars."""
        found = dict(sizes)
        for (stratum, name), mine in sizes.items():
            for ramp, suffix in SUFFIXES.items():
                theirs = self.yardstick.sizes[ramp][stratum, name]
                found[stratum, f"{name}_ratio{suffix}"] = mine.over(theirs)
            if name == "l1":
                found[stratum, "dollars"] = mine.times(PER_JOB * len(self.cells.strata[stratum]))
        return found

    def _alike(self, relative: NDArray[np.float32], trials: int) -> Found:
        """The share of cells whose relative error is at most 10 points above infusion's.

        After fewer trials than there are groups only infusion's are left out, group by group.
        """
        if len(relative) < len(self.yardstick.limits["narrow"]):
            relative = relative[:1]
        found: Found = {}
        for ramp, suffix in SUFFIXES.items():
            alike = [
                self.cells.means_of_some(mine <= limit, empty=1.0)
                for mine, limit in zip(
                    *np.broadcast_arrays(relative, self.yardstick.limits[ramp]), strict=True
                )
            ]
            for stratum in alike[0]:
                values = np.array([shares[stratum] for shares in alike])
                found[stratum, "within_10_points" + suffix] = Estimate.jackknifed(values, trials)
        return found

    def _drawn(self, one: Contender, alpha: str | None, epsilon: str) -> Found:
        """From draws, trial by trial."""
        tried: dict[tuple[str, str], list[float]] = defaultdict(list)
        cells, workload = self.cells, self.workload
        counts = cells.counts.astype(np.float64)
        few = FEWEST if one.slow else FEW if workload.study == "report" else self.trials
        trials = min(few, self.trials)
        errors = Errors(cells, trials)
        for trial in range(trials):
            random = seeded(self.seed, workload.name, one.name, alpha, epsilon, trial)
            noisy = one.draw(cells, random)
            signed, released = noisy - counts, np.maximum(noisy, 0) - counts
            errors.add(np.abs(signed))
            sizes = {"released": np.abs(released), "bias": signed, "bias_released": released}
            for name, each in sizes.items():
                for stratum, mean in cells.means(each).items():
                    tried[stratum, name].append(mean)
            for stratum, at in cells.strata.items() if workload.ranked else ():
                rank = rankdata(noisy[at])
                for ramp, suffix in SUFFIXES.items():
                    infused = self.yardstick.ranks[ramp][stratum][trial]
                    tried[stratum, "spearman" + suffix].append(correlation(rank, infused))
                true = self.yardstick.true_ranks[stratum]
                tried[stratum, "spearman_truth"].append(correlation(rank, true))
        narrow = self.yardstick.sizes["narrow"]
        found = self._sizes(errors.sizes()) | self._alike(errors.relative(), trials)
        for (stratum, name), values in tried.items():
            estimate = Estimate.of(values)
            if name == "released":
                name, estimate = "l1_ratio_released", estimate.over(narrow[stratum, "l1"])
            found[stratum, name] = estimate
        return found


def correlation(first: Array, second: Array) -> float:
    """The correlation of two lists of ranks; 1 where there is nothing to rank."""
    a, b = first - first.mean(), second - second.mean()
    size = float(np.sqrt(_product(a, a) * _product(b, b)))
    return _product(a, b) / size if size > 0 else 1.0


def _product(a: Array, b: Array) -> float:
    """The inner product in one thread: several would wait for each other, and round at will."""
    return float(np.einsum("i,i->", a, b))
