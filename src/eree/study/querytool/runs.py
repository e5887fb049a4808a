"""The query tool's evaluation, rerun: noise, raking to the one-way tables, and what it leaves.

A cube of 17,280 cells and 182 cases gets capped Laplace noise, is calibrated to its ten one-way
tables, and the variance of what is left is averaged over runs, by the dimension of tables: as
published over runs that converged within ten cycles, and over all; with negative cells clipped;
by least squares; and with noise in the control totals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.mechanisms.grid import on_every_core
from eree.noise.thousandths import JOB
from eree.study.querytool_readings import Tables
from eree.survey.calibrate.controls import Control
from eree.survey.calibrate.least_squares import correction
from eree.survey.calibrate.margins import Margin
from eree.survey.calibrate.noise import NoiseModel
from eree.survey.calibrate.rake import rake, rake_nonnegative
from eree.survey.shape import Shape, Variable

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
Progress = Callable[[str, float], None]

LEVELS = (5, 4, 3, 3, 3, 2, 2, 2, 2, 2)
CASES, RUNS, EPSILON, CAP, CYCLES = 182, 1_000, 7.0, 1, 10
#: Noise of control totals where they have some: of every one of the ten tables.
CONTROL_EPSILON, CONTROL_CAP = 1.0, 7
#: The largest relative difference to a control total that counts as converged; the paper has none.
TOLERANCE = 1e-3
TOLERANCES = (0.1, 0.01, 1e-3, 1e-4, 1e-6)
#: Runs that one process does before it reports.
_TOGETHER = 20

#: Ways to calibrate, and the words for them.
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


def capped_law(epsilon: float, cap: int) -> tuple[Whole, Array]:
    """Values and chances of the capped law, proportional to e^(-epsilon |k|) for |k| <= cap."""
    values = np.arange(-cap, cap + 1)
    weights = np.array([exp(-epsilon * abs(int(k))) for k in values])
    return values, weights / weights.sum()


def capped_variance(epsilon: float, cap: int) -> float:
    """The variance of the capped law."""
    values, chances = capped_law(epsilon, cap)
    return float(chances @ values**2)


@dataclass(frozen=True)
class Settings:
    """What is run: the published evaluation by default."""

    runs: int = RUNS
    seed: int = 1
    epsilon: float = EPSILON
    cap: int = CAP
    cycles: int = CYCLES
    control_epsilon: float = CONTROL_EPSILON
    control_cap: int = CONTROL_CAP

    def __post_init__(self) -> None:
        if self.runs < 2 or self.cap < 1 or self.control_cap < 1 or self.cycles < 1:
            raise Refusal("the study needs two runs or more, caps and cycles of 1 or more")


@dataclass(frozen=True, eq=False)
class Runs:
    """Figures of all runs: an array by run and dimension for each arm, centred or not.

    `differences` is the largest relative difference to a control after the last cycle, `changed`
    the share of cells that noise changed, `negative` the number of cells below zero after it.
    """

    settings: Settings
    levels: tuple[int, ...]
    variances: dict[tuple[str, str], Array]
    differences: dict[str, Array]
    changed: Array
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


def made_up_cube(
    seed: int = 1, cases: int = CASES, levels: Sequence[int] = LEVELS, classes: int = 6
) -> Whole:
    """Unweighted cases in a cube, alike within a few classes, in thousandths of a case."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(classes, cases, p=rng.dirichlet(np.full(classes, 2.0)))
    columns = []
    for level in levels:
        chances = rng.dirichlet(np.full(level, 1.0), classes)
        columns.append([rng.choice(level, p=chances[k]) for k in kind])
    cube = np.zeros(tuple(levels), dtype=np.int64)
    np.add.at(cube, tuple(np.array(column) for column in columns), JOB)
    return cube


def simulate(
    cube: Whole,
    unit: int = JOB,
    settings: Settings | None = None,
    *,
    progress: Progress | None = None,
    processes: int | None = None,
) -> Runs:
    """Run the evaluation on a cube in thousandths; noise comes in steps of `unit` thousandths.

    The unit is a case (1,000) for an unweighted cube and the average weight for a weighted one;
    variances are in square units.  The same seed gives the same figures, on any number of cores.
    """
    chosen, tell = settings or Settings(), progress or (lambda _step, _done: None)
    starts = list(range(0, chosen.runs, _TOGETHER))
    tasks = [(cube, unit, chosen, k, min(k + _TOGETHER, chosen.runs)) for k in starts]
    found: dict[int, dict[str, Array]] = {}
    for number, part in on_every_core(some_runs, tasks, processes):
        found[number] = part
        tell(f"{len(found) * _TOGETHER:,} of {chosen.runs:,} runs", len(found) / len(tasks))
    parts = [found[k] for k in range(len(tasks))]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    tables = Tables(cube.shape)
    return Runs(
        chosen,
        cube.shape,
        {
            (arm, reading): tables.pooled(whole[f"energies of {arm}"], centred=reading == "centred")
            for arm in ARMS
            for reading in ("centred", "uncentred")
        },
        {arm: whole[f"difference of {arm}"] for arm in ARMS if arm.startswith("rake")},
        whole["changed"],
        whole["negative"],
    )


def some_runs(
    cube: Whole, unit: int, settings: Settings, first: int, last: int
) -> dict[str, Array]:
    """The energies of effects and the reports of some runs; each run has a seed of its own."""
    shape, tables = shape_of(cube.shape), Tables(cube.shape)
    margins = [Margin(cube.shape, (axis,)) for axis in range(cube.ndim)]
    variance = unit**2 * capped_variance(settings.epsilon, settings.cap)
    noisy_variance = unit**2 * capped_variance(settings.control_epsilon, settings.control_cap)
    sums = [margin.sums(cube) for margin in margins]
    cell_law = capped_law(settings.epsilon, settings.cap)
    control_law = capped_law(settings.control_epsilon, settings.control_cap)
    found: dict[str, list[Array | float]] = {}
    for run in range(first, last):
        rng = np.random.default_rng([settings.seed, run])
        noise = unit * rng.choice(cell_law[0], cube.shape, p=cell_law[1])
        shaken = [s + unit * rng.choice(control_law[0], s.shape, p=control_law[1]) for s in sums]
        cells = cube + noise
        made: dict[str, Array] = {"none": cells.astype(np.float64)}
        for values, spread, suffix in (
            (sums, 0.0, ""),
            (shaken, noisy_variance, ", noisy controls"),
        ):
            controls = [
                Control((variable.name,), value, spread)
                for variable, value in zip(shape.variables, values, strict=True)
            ]
            made[f"least-squares{suffix}"] = cells + correction(cells, shape, controls, variance)[0]
            targets = {suffix: [value.astype(np.float64) for value in values]}
            if suffix:
                agreed = made[f"least-squares{suffix}"]
                targets[", reconciled controls"] = [margin.sums(agreed) for margin in margins]
            for words, wanted in targets.items():
                for name, method in (("rake", rake), ("rake-nonnegative", rake_nonnegative)):
                    if f"{name}{words}" not in ARMS:
                        continue
                    raked, report = method(
                        made["none"], margins, wanted, cycles=settings.cycles, tolerance=1e-12
                    )
                    made[f"{name}{words}"] = raked
                    apart = np.inf if report.diverged else report.difference
                    found.setdefault(f"difference of {name}{words}", []).append(apart)
        for arm in ARMS:
            errors = (made[arm] - cube) / unit
            found.setdefault(f"energies of {arm}", []).append(tables.energies(errors[None])[0])
        found.setdefault("changed", []).append(float((noise != 0).mean()))
        found.setdefault("negative", []).append(float((cells < 0).sum()))
    return {name: np.array(values) for name, values in found.items()}


def expected(levels: tuple[int, ...], settings: Settings) -> dict[str, dict[str, Array]]:
    """What is known without a draw: every reading for no calibration and for least squares."""
    tables, shape = Tables(levels), shape_of(levels)
    variance = capped_variance(settings.epsilon, settings.cap)
    spread = capped_variance(settings.control_epsilon, settings.control_cap)
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
