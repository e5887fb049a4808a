"""Which runs converge: how that depends on the cases, and on what is called convergence.

The paper's cases are not public and its criterion is not stated.  Signed cells are raked as
published in several synthetic surveys, as they are and more and more evened out, and the share of
runs that converged is reported for several criteria.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from eree.mechanisms.grid import on_every_core
from eree.random.exact import Array, Integers
from eree.survey.calibrate.rake import TOLERANCE, rake
from eree.workload import JOB
from eree_study.querytool.evaluation import CYCLES, NEAR, Evaluation, Settings, survey_cases
from eree_study.querytool.readings import Tables
from eree_study.synth.population import Progress

#: Of the runs in the paper, so many converged.
PRINTED_CONVERGED = 0.224
#: Shares of the answers that are redrawn evenly.
REDRAWN = (0.0, 0.25, 0.5, 0.75, 1.0)
#: How many synthetic surveys there are, one seed after another.
SURVEYS = 5
#: The runs of each survey are this part of all.
_PART = 5


@dataclass(frozen=True)
class Criterion:
    """The largest difference to a control total that counts as converged.

    It is relative to the control, or in cases.
    """

    kind: Literal["relative", "cases"]
    limit: float

    @property
    def description(self) -> str:
        """For people to read."""
        if self.kind == "relative":
            return f"{100 * self.limit:.4f}".rstrip("0").rstrip(".") + "% of it"
        return f"{self.limit:g} case{'s' * (self.limit != 1)}"


#: The criterion that claims are judged by, set before any figure was seen; others stand beside.
CHOSEN = Criterion("relative", 1e-3)
CRITERIA = (
    Criterion("relative", 0.1),
    Criterion("relative", 0.01),
    CHOSEN,
    Criterion("relative", 1e-4),
    Criterion("relative", TOLERANCE),
    Criterion("cases", 1.0),
    Criterion("cases", 0.1),
    Criterion("cases", 0.01),
)
RELATIVE = tuple(criterion for criterion in CRITERIA if criterion.kind == "relative")


@dataclass(frozen=True, eq=False)
class Convergence:
    """The largest differences to a control in all runs: by share redrawn, by survey and by run.

    They are relative, and in cases.  `before` and `after` are the variances of noise without
    calibration and raked, about each table's mean, with an axis of dimensions besides; `smallest`
    is the least control total of each cube, in cases.
    """

    redrawn: tuple[float, ...]
    seeds: tuple[int, ...]
    relative: Array
    cases: Array
    before: Array
    after: Array
    smallest: Array

    @property
    def runs(self) -> int:
        """The runs of each cube."""
        return int(self.relative.shape[2])

    def met(self, criterion: Criterion) -> Array:
        """Whether each run converged: 1 or 0."""
        apart = self.relative if criterion.kind == "relative" else self.cases
        return np.asarray(apart <= criterion.limit, dtype=np.float64)

    def shares(self, criterion: Criterion) -> Array:
        """The share of runs that converged, by share redrawn and by survey."""
        return np.asarray(self.met(criterion).mean(axis=2))

    def columns(self, redrawn: float, criterion: Criterion) -> tuple[Array, Array]:
        """Noise before and after raking in the runs of all surveys that converged."""
        k = self.redrawn.index(redrawn)
        kept = self.met(criterion)[k] > 0
        return self.before[k][kept], self.after[k][kept]

    @property
    def matched(self) -> float:
        """The share redrawn, above 0, at which as many runs converge as in the paper, or nearly."""
        found = self.shares(CHOSEN).mean(axis=1)
        apart = {r: abs(s - PRINTED_CONVERGED) for r, s in zip(self.redrawn, found, strict=True)}
        return min((r for r in self.redrawn if r > 0), key=lambda r: apart[r])


def convergence(
    settings: Settings, *, progress: Progress | None = None, processes: int | None = None
) -> Convergence:
    """Rake every synthetic cube, a fifth as often as the settings say."""
    tell = progress or (lambda _step, _done: None)
    seeds = tuple(range(settings.seed, settings.seed + SURVEYS))
    runs = max(settings.runs // _PART, 2)
    tell("making surveys", 0.0)
    tasks = [(survey_cases(seed, redrawn), settings, runs) for redrawn in REDRAWN for seed in seeds]
    found: dict[int, tuple[Array, Array, float]] = {}
    for number, part in on_every_core(raked_apart, tasks, processes):
        found[number] = part
        tell(f"convergence, {len(found)} of {len(tasks)} cubes", len(found) / len(tasks))
    places, parts = (len(REDRAWN), len(seeds)), [found[k] for k in range(len(tasks))]
    apart = np.array([part[0] for part in parts]).reshape(*places, runs, 2)
    noise = np.array([part[1] for part in parts]).reshape(*places, runs, 2, -1)
    smallest = np.array([part[2] for part in parts]).reshape(places)
    return Convergence(
        REDRAWN,
        seeds,
        apart[..., 0],
        apart[..., 1],
        noise[..., 0, :],
        noise[..., 1, :],
        smallest,
    )


def raked_apart(
    cube: Integers, settings: Settings, runs: int, cycles: int = CYCLES
) -> tuple[Array, Array, float]:
    """For every run the largest difference to a control, relative and in cases.

    Also the variance of noise before and after raking for every dimension, and the smallest
    control total of the cube.
    """
    evaluation, tables = Evaluation(cube, settings), Tables(cube.shape)
    controls = [total.astype(np.float64) for total in evaluation.sums]
    apart, noise = np.full((runs, 2), np.inf), np.zeros((runs, 2, cube.ndim))
    for run in range(runs):
        cells = evaluation.noisy(run)[0].astype(np.float64)
        raked, report = rake(cells, evaluation.marginals, controls, cycles=cycles, tolerance=NEAR)
        energies = tables.energies((np.stack([cells, raked]) - cube) / JOB)
        noise[run] = tables.figures(energies, "centred")
        if not report.diverged:
            pairs = zip(evaluation.marginals, controls, strict=True)
            largest = max(float(np.abs(marginal.sums(raked) - c).max()) for marginal, c in pairs)
            apart[run] = report.difference, largest / JOB
    return apart, noise, min(float(control.min()) for control in controls) / JOB
