"""The three calibrations under a real guarantee: the error they make, and what they say of it.

Cubes of a synthetic survey of occupational requirements get discrete Laplace noise, scaled to a
public bound of weights, in cells and in one-way control tables, all at one price.  Their tables
after calibration are held against the true ones: the mean squared error beside the variance that
would be published (for raked cubes, the bound), and how often published intervals cover.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from eree.mechanisms.grid import on_every_core
from eree.partial import temporary_folder
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import RECORD
from eree.random.exact import Array, Integers
from eree.random.source import SeededRandom
from eree.survey.bounds import Bounds, Shares
from eree.survey.calibrate.calibration import NoiseModel, calibrate
from eree.survey.cube import Cube, build_cube
from eree.survey.microdata import read_survey
from eree.survey.modes import Guaranteed, NoisyCube
from eree.survey.query import Query
from eree.survey.settings import METHODS, RAKED, Method
from eree.survey.shape import Shape
from eree.survey.tables import Tabulator
from eree.workload import JOB
from eree_study.querytool.evaluation import Settings
from eree_study.synth.job_requirements import IMPOSSIBLE, OCCUPATIONS, REQUIREMENTS, shape_of
from eree_study.synth.population import Progress
from eree_study.synth.survey import synthesize_survey

ESTABLISHMENTS, MOST_WEIGHT = 10_000, 2_500
EPSILONS = ("1", "4")
#: Variables of the cubes: none of the first cannot be, in the second some cells cannot.
CUBES = {
    "full": ("occupation", "experience", "strength", "sitting", "driving", "licence"),
    "with structural zeros": ("occupation", "education", "strength", "telework", "driving"),
}
LABELS: dict[Method, str] = {
    "none": "without calibration",
    "rake": "raked",
    "rake-nonnegative": "negatives clipped, then raked",
    "least-squares": "least squares",
}
#: Published intervals are so many published standard errors to either side: normal, 95%.
WIDTH = 1.96
#: What is measured of every table.
MEASURES = ("squared error", "published variance", "covered")
#: The runs are this part of those of the evaluation; a process does a few before it reports.
_PART, _TOGETHER = 10, 5


@dataclass(frozen=True, eq=False)
class Calibrations:
    """Measures of all runs on one cube at one epsilon: by run, method, dimension and measure.

    Each is the mean over all cells, of all tables of a dimension, that can be; squares are of jobs.
    Of the cells of the cube `zeros` cannot be.
    """

    variables: tuple[str, ...]
    cells: int
    zeros: int
    epsilon: str
    figures: Array

    def values(self, method: Method, dimension: int, measure: str) -> Array:
        """One measure in all runs."""
        found = self.figures[:, METHODS.index(method), dimension - 1, MEASURES.index(measure)]
        return np.asarray(found)

    def means(self, method: Method, measure: str) -> list[float]:
        """The means over runs for all dimensions."""
        dimensions = range(1, len(self.variables) + 1)
        return [float(self.values(method, d, measure).mean()) for d in dimensions]


def compare_calibrations(
    settings: Settings, *, progress: Progress | None = None, processes: int | None = None
) -> list[Calibrations]:
    """Compare on every cube and at every epsilon, a tenth as often as the settings say."""
    tell = progress or (lambda _step, _done: None)
    runs = max(settings.runs // _PART, 2)
    tasks = [
        (name, epsilon, settings.seed, k, min(k + _TOGETHER, runs))
        for name in CUBES
        for epsilon in EPSILONS
        for k in range(0, runs, _TOGETHER)
    ]
    found: dict[int, Array] = {}
    for number, part in on_every_core(some_calibrations, tasks, processes):
        found[number] = part
        tell(f"guaranteed cubes, {len(found)} of {len(tasks)} parts", len(found) / len(tasks))
    parts = iter(found[k] for k in range(len(tasks)))
    each = -(-runs // _TOGETHER)
    shapes = {name: full_shape().of(variables) for name, variables in CUBES.items()}
    return [
        Calibrations(
            CUBES[name],
            shape.size,
            0 if shape.possible is None else int((~shape.possible).sum()),
            epsilon,
            np.concatenate([next(parts) for _ in range(each)]),
        )
        for name, shape in shapes.items()
        for epsilon in EPSILONS
    ]


def full_shape() -> Shape:
    """The shape of the synthetic survey, which is known without one."""
    return shape_of(OCCUPATIONS, REQUIREMENTS, IMPOSSIBLE)


@lru_cache(maxsize=1)
def survey_cubes(seed: int, establishments: int = ESTABLISHMENTS) -> dict[str, Cube]:
    """The cubes of a synthetic survey, with weights trimmed to the bound."""
    with temporary_folder("eree-survey") as folder:
        made = folder / "survey"
        survey = read_survey(
            synthesize_survey(made, establishments=establishments, seed=seed), replicates=False
        )
        return {
            name: build_cube(survey, variables=variables, most_weight=MOST_WEIGHT)
            for name, variables in CUBES.items()
        }


def some_calibrations(name: str, epsilon: str, seed: int, first: int, last: int) -> Array:
    """The measures of some runs on a cube of the survey; each run has a source of its own."""
    place = len(EPSILONS) * list(CUBES).index(name) + EPSILONS.index(epsilon)
    start = (seed * len(CUBES) * len(EPSILONS) + place) * 1_000_003
    return calibrated_runs(
        survey_cubes(seed)[name], epsilon, [start + run for run in range(first, last)]
    )


def calibrated_runs(cube: Cube, epsilon: str, seeds: Sequence[int]) -> Array:
    """The measures of a run for every seed of random, by method and dimension."""
    shape = cube.shape
    controls = tuple((variable.name,) for variable in shape.variables)
    bounds = Bounds(cube.most_weight, cube.most_records)
    mode = Guaranteed(bounds, "record", Guarantee(RECORD, epsilon), Shares.default(controls))
    held = list(_held(cube))
    known: dict[tuple[str, ...], Array] = {}
    found = []
    for seed in seeds:
        random = SeededRandom(seed)
        noisy = mode.draw(cube, random)
        found.append([_measured(noisy, method, random, held, known) for method in METHODS])
    return np.array(found)


@dataclass(frozen=True, eq=False)
class _Held:
    """A table and its true cells, and of how many cells that can be each is the sum."""

    query: Query
    truth: Array
    counts: Integers


def _held(cube: Cube) -> Iterator[_Held]:
    shape = cube.shape
    possible = np.ones(shape.levels, dtype=bool) if shape.possible is None else shape.possible
    cells = Tabulator(shape, cube.weighted)
    counts = Tabulator(shape, possible.astype(np.int64))
    names = [variable.name for variable in shape.variables]
    for d in range(1, len(names) + 1):
        for by in combinations(names, d):
            query = Query(by)
            truth = cells.table(query).values.astype(np.float64)
            yield _Held(query, truth, counts.table(query).values)


def _measured(
    noisy: NoisyCube,
    method: Method,
    random: SeededRandom,
    held: Sequence[_Held],
    known: dict[tuple[str, ...], Array],
) -> Array:
    """The measures of one method by dimension; variances of least squares are found once."""
    given = () if method == "none" else noisy.controls
    controls = tuple(control.noise for control in given)
    model = NoiseModel(noisy.shape, method, noisy.noise_variance, controls)
    made = calibrate(model, noisy.cells, given, random=random, reconcile=method in RAKED)
    reference = None if made.reference is None else Tabulator(noisy.shape, made.reference)
    sums: list[Array] = [np.zeros(len(MEASURES)) for _ in noisy.shape.variables]
    counts = [0] * len(sums)
    for one in held:
        by = tuple(one.query.by)
        name = ("", *by) if method == "none" else by
        if name not in known:
            known[name] = model.variances(one.query, one.counts)
        values, variances = made.table(one.query).values, known[name]
        if reference is not None:
            variances = model.bound(variances, values, reference.table(one.query).values)
        squared = (values - one.truth) ** 2
        covered = squared <= WIDTH**2 * variances
        possible = one.counts > 0
        measured = (squared / JOB**2, variances / JOB**2, covered)
        sums[len(by) - 1] += [float(measure[possible].sum()) for measure in measured]
        counts[len(by) - 1] += int(possible.sum())
    return np.array([part / count for part, count in zip(sums, counts, strict=True)])
