"""The query tool's evaluation, rerun: noise, raking to the one-way tables, and what it leaves.

A cube of 17,280 cells and 182 cases gets capped Laplace noise, is calibrated to its ten one-way
tables, and the variance of what is left is averaged over runs, by the dimension of tables: as
published over runs that converged within ten cycles, and over all; with negative cells clipped;
by least squares; and with noise in the control totals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp

import numpy as np

from eree.errors import Refusal
from eree.mechanisms.grid import on_every_core
from eree.partial import temporary_folder
from eree.random.exact import Array, Integers
from eree.survey.calibrate.calibration import NoiseModel
from eree.survey.calibrate.controls import Control, CubeMarginal
from eree.survey.calibrate.least_squares import correction
from eree.survey.calibrate.rake import rake, rake_nonnegative
from eree.survey.cube import build_cube
from eree.survey.microdata import read_survey
from eree.survey.shape import Shape, Variable
from eree.workload import JOB
from eree_study.querytool.readings import READINGS, Tables
from eree_study.synth.population import Progress
from eree_study.synth.survey import synthesize_survey

LEVELS = (5, 4, 3, 3, 3, 2, 2, 2, 2, 2)
CASES, RUNS, EPSILON, CAP, CYCLES = 182, 1_000, 7.0, 1, 10
#: Noise of control totals where they have some: of every one of the ten tables.
CONTROL_EPSILON, CONTROL_CAP = 1.0, 7
#: Cycles of raking without negative cells, after those that the paper allows for.
LONG = 50
#: Raking that comes so near is not carried on.
NEAR = 1e-12
#: Runs that one process does before it reports.
_TOGETHER = 20

#: Ways to calibrate, and what they are called.
ARMS = {
    "none": "without calibration",
    "rake": "raked as published",
    "rake-nonnegative": "negatives clipped, then raked",
    "least-squares": "least squares",
    "rake, noisy controls": "raked, noisy controls",
    "rake-nonnegative, noisy controls": "clipped and raked, noisy controls",
    "rake-nonnegative, reconciled controls": "clipped and raked, noisy controls reconciled",
    "least-squares, noisy controls": "least squares, noisy controls",
}
RAKED = tuple(arm for arm in ARMS if arm.startswith("rake"))


@lru_cache(maxsize=8)
def survey_counts(seed: int) -> Integers:
    """The cases of a synthetic survey of QUERYTOOL's shape, counted into its cells."""
    with temporary_folder("eree-survey") as folder:
        made = synthesize_survey(folder / "survey", shape="querytool", seed=seed)
        return build_cube(read_survey(made, replicates=False)).unweighted


def survey_cases(seed: int = 1, redrawn: float = 0.0) -> Integers:
    """182 unweighted cases of a synthetic survey in 17,280 cells, in thousandths of a case.

    Some of their answers are redrawn evenly: see `evened`.
    """
    return JOB * evened(survey_counts(seed), redrawn, seed)


def evened(counts: Integers, redrawn: float, seed: int) -> Integers:
    """Cases of which each answer is redrawn with some probability, its codes equally likely.

    The paper's cases are not public, and how even their tables are decides which runs converge:
    this leads from a survey, at 0, to cases without any pattern, at 1.  What is redrawn at one
    probability is redrawn at every larger one, and comes out the same.
    """
    places = np.repeat(np.argwhere(counts), counts[counts > 0], axis=0)
    rng = np.random.default_rng([seed, len(places)])
    uniform = rng.random(places.shape)
    fresh = np.stack([rng.integers(0, level, len(places)) for level in counts.shape], axis=1)
    answers = np.where(uniform < redrawn, fresh, places)
    found = np.zeros_like(counts)
    np.add.at(found, tuple(answers.T), 1)
    return found


def capped_distribution(epsilon: float, cap: int) -> tuple[Integers, Array]:
    """Values and probabilities of capped noise, proportional to e^(-epsilon |k|), |k| <= cap."""
    values = np.arange(-cap, cap + 1)
    weights = np.array([exp(-epsilon * abs(int(k))) for k in values])
    return values, weights / weights.sum()


def capped_variance(epsilon: float, cap: int) -> float:
    """The variance of capped noise."""
    values, probabilities = capped_distribution(epsilon, cap)
    return float(probabilities @ values**2)


@dataclass(frozen=True)
class Settings:
    """What is run: the published evaluation by default."""

    runs: int = RUNS
    seed: int = 1
    epsilon: float = EPSILON
    cap: int = CAP

    def __post_init__(self) -> None:
        if self.runs < 2 or self.cap < 1:
            raise Refusal("the study needs two runs or more, and a cap of 1 or more")
        if self.seed < 0:
            raise Refusal("the seed must be an integer, such as 1")


@dataclass(frozen=True, eq=False)
class Runs:
    """Figures of all runs: an array by run and dimension for each arm and reading.

    `differences` is the largest relative difference to a control after the cycles that the paper
    allows for, `later` the same after more of them, where negatives were clipped and there is a
    solution; `negative` is the number of cells below zero after the noise.
    """

    settings: Settings
    levels: tuple[int, ...]
    cases: int
    variances: dict[tuple[str, str], Array]
    differences: dict[str, Array]
    later: dict[str, Array]
    negative: Array


def shape_of(levels: Sequence[int]) -> Shape:
    """A shape without meaning: variables v1, v2, … of some levels."""
    return Shape(
        tuple(
            Variable(f"v{k}", f"variable {k}", codes, codes)
            for k, level in enumerate(levels, start=1)
            for codes in [tuple(map(str, range(1, level + 1)))]
        )
    )


def simulate(
    cubes: Sequence[Integers],
    settings: Settings | None = None,
    *,
    progress: Progress | None = None,
    processes: int | None = None,
) -> list[Runs]:
    """Run the evaluation on unweighted cubes in thousandths of a case.

    Noise comes in whole cases, and variances are in squared cases.  The same seed gives the same
    figures, on any number of cores.
    """
    chosen, tell = settings or Settings(), progress or (lambda _step, _done: None)
    starts = range(0, chosen.runs, _TOGETHER)
    tasks = [(cube, chosen, k, min(k + _TOGETHER, chosen.runs)) for cube in cubes for k in starts]
    found: dict[int, dict[str, Array]] = {}
    for number, part in on_every_core(some_runs, tasks, processes):
        found[number] = part
        runs = sum(tasks[k][3] - tasks[k][2] for k in found)
        tell(f"{runs:,} of {chosen.runs * len(cubes):,} runs", len(found) / len(tasks))
    each = len(starts)
    return [
        _joined(cube, chosen, [found[k] for k in range(each * i, each * (i + 1))])
        for i, cube in enumerate(cubes)
    ]


def _joined(cube: Integers, chosen: Settings, parts: Sequence[dict[str, Array]]) -> Runs:
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return Runs(
        chosen,
        cube.shape,
        round(float(cube.sum()) / JOB),
        {(arm, reading): whole[f"{reading} {arm}"] for arm in ARMS for reading in READINGS},
        {arm: whole[f"difference {arm}"] for arm in RAKED},
        {arm: whole[f"later {arm}"] for arm in RAKED if f"later {arm}" in whole},
        whole["negative"],
    )


def some_runs(cube: Integers, settings: Settings, first: int, last: int) -> dict[str, Array]:
    """The figures of some runs; each run has a seed of its own."""
    evaluation = Evaluation(cube, settings)
    found: dict[str, list[Array | float]] = {}
    for run in range(first, last):
        for name, figure in evaluation.run(run).items():
            found.setdefault(name, []).append(figure)
    return {name: np.array(figures) for name, figures in found.items()}


class Evaluation:
    """Noise and calibrations on one cube, run by run."""

    def __init__(self, cube: Integers, settings: Settings) -> None:
        self._cube, self._settings = cube, settings
        self._shape, self._tables = shape_of(cube.shape), Tables(cube.shape)
        self.marginals = [CubeMarginal(cube.shape, (axis,)) for axis in range(cube.ndim)]
        self.sums = [marginal.sums(cube) for marginal in self.marginals]
        self._noise = capped_distribution(settings.epsilon, settings.cap)
        self._control_noise = capped_distribution(CONTROL_EPSILON, CONTROL_CAP)

    def noisy(self, run: int) -> tuple[Integers, list[Integers]]:
        """The noisy cells and the noisy control totals of a run."""
        rng = np.random.default_rng([self._settings.seed, run])
        noise = rng.choice(self._noise[0], self._cube.shape, p=self._noise[1])
        values, probabilities = self._control_noise
        totals = [s + JOB * rng.choice(values, s.shape, p=probabilities) for s in self.sums]
        return self._cube + JOB * noise, totals

    def run(self, run: int) -> dict[str, Array | float]:
        """All figures of one run."""
        cells, noisy_sums = self.noisy(run)
        found: dict[str, Array | float] = {"negative": float((cells < 0).sum())}
        made = {"none": cells.astype(np.float64)}
        spread = JOB**2 * capped_variance(CONTROL_EPSILON, CONTROL_CAP)
        made["least-squares"] = self._least_squares(cells, self.sums, 0.0)
        agreed = self._least_squares(cells, noisy_sums, spread)
        made["least-squares, noisy controls"] = agreed
        targets = {
            "": self.sums,
            ", noisy controls": noisy_sums,
            ", reconciled controls": [marginal.sums(agreed) for marginal in self.marginals],
        }
        for arm in RAKED:
            signed = not arm.startswith("rake-nonnegative")
            suffix = arm.removeprefix("rake" if signed else "rake-nonnegative")
            method, wanted = rake if signed else rake_nonnegative, targets[suffix]
            controls = [np.asarray(total, dtype=np.float64) for total in wanted]
            raked, report = method(
                made["none"], self.marginals, controls, cycles=CYCLES, tolerance=NEAR
            )
            found[f"difference {arm}"] = np.inf if report.diverged else report.difference
            if not signed and suffix != ", noisy controls":  # goes on where it was
                raked, report = method(raked, self.marginals, controls, cycles=LONG - CYCLES)
                found[f"later {arm}"] = np.inf if report.diverged else report.difference
            made[arm] = raked
        errors = np.stack([(made[arm] - self._cube) / JOB for arm in ARMS])
        energies = self._tables.energies(errors)
        for reading in READINGS:
            figures = self._tables.figures(energies, reading)
            found |= {f"{reading} {arm}": row for arm, row in zip(ARMS, figures, strict=True)}
        return found

    def _least_squares(self, cells: Integers, totals: Sequence[Integers], spread: float) -> Array:
        variance = capped_variance(self._settings.epsilon, self._settings.cap) * JOB**2
        controls = [
            Control((variable.name,), total, spread)
            for variable, total in zip(self._shape.variables, totals, strict=True)
        ]
        return np.asarray(cells + correction(cells, self._shape, controls, variance)[0])


def expected(levels: tuple[int, ...], settings: Settings) -> dict[str, dict[str, Array]]:
    """What is known without a draw: every reading for no calibration and for least squares."""
    tables, shape = Tables(levels), shape_of(levels)
    variance = capped_variance(settings.epsilon, settings.cap)
    spread = capped_variance(CONTROL_EPSILON, CONTROL_CAP)
    plain = np.full(1 << len(levels), variance)
    found = {"none": tables.expected(plain)}
    for arm, noise in (("least-squares", 0.0), ("least-squares, noisy controls", spread)):
        controls = [
            Control((variable.name,), np.zeros(len(variable.codes), dtype=np.int64), noise).noise
            for variable in shape.variables
        ]
        left = plain.copy()
        for gain in NoiseModel(shape, "least-squares", variance, tuple(controls)).gains:
            left[sum(1 << axis for axis in gain.axes)] = gain.left
        found[arm] = tables.expected(left)
    return found
