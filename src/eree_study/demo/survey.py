"""The second half of the demonstration: a synthetic survey becomes a protected cube."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from eree.budget.ledger import Ledger
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import ESTABLISHMENT
from eree.policy.plain_data import guarantee_as_json
from eree.release.release import Release
from eree.survey.cube import Cube, build_cube
from eree.survey.microdata import read_survey
from eree.survey.protect import protect_cube
from eree.survey.protected import ProtectedCube
from eree.survey.query import Query
from eree.survey.tables import Tabulator
from eree.verification.recheck import Verification
from eree.verification.verify import verify
from eree.workload import JOB
from eree_study.synth.population import Progress
from eree_study.synth.survey import synthesize_survey

ESTABLISHMENTS = 10_000
VARIABLES = ("occupation", "education", "strength", "telework")
#: Public bounds: jobs that a record stands for, and records of an establishment.
MOST_WEIGHT, MOST_RECORDS = "3000", 6
#: What the cube costs, and what its ledger has: enough for it and for one more like it.
EPSILON, BUDGET = 4, 8

#: The files that a user may want to look at, and all that is made.
SHOWN = ("survey/survey.toml", "survey-ledger.db", "cube/release.json", "cube/tables/cells.csv")
_TABLES = ("cells", *(f"control-{place + 1}" for place in range(len(VARIABLES))))
OWN = (
    *SHOWN,
    *("survey", "survey/records.parquet", "survey-ledger.db-wal", "survey-ledger.db-shm"),
    *("cube", "cube/tables"),
    *(f"cube/tables/{table}.{ending}" for table in _TABLES for ending in ("csv", "parquet")),
)


@dataclass(frozen=True)
class CubeAccuracy:
    """How far the figures of some tables of the cube are off: roots of mean squares, in jobs.

    `promised` is the standard deviation of the noise, which is public; `jobs` is the mean of the
    true figures, of which there are `figures`.
    """

    tables: str
    figures: int
    jobs: float
    error: float
    promised: float


@dataclass(frozen=True)
class SurveyFindings:
    """What the survey shows.  It is synthetic: nothing here is confidential."""

    establishments: int
    records: int
    variables: tuple[str, ...]
    cells: int
    price: Guarantee
    total: Guarantee
    left: Guarantee
    verification: Verification
    release: Release
    accuracy: tuple[CubeAccuracy, ...]

    def as_json(self) -> dict[str, Any]:
        """The findings as plain data."""
        return {
            "establishments": self.establishments,
            "records": self.records,
            "variables": list(self.variables),
            "cells": self.cells,
            "price": guarantee_as_json(self.price),
            "ledger": {
                "total": guarantee_as_json(self.total),
                "left": guarantee_as_json(self.left),
            },
            "release": self.release.identity,
            "verification": {"sound": self.verification.sound, **asdict(self.verification)},
            "accuracy": [asdict(row) for row in self.accuracy],
        }


def survey_findings(folder: Path, seed: int, tell: Progress) -> SurveyFindings:
    """Make a survey in `folder`, protect its cube, verify it, and compare it with the truth."""
    made = synthesize_survey(
        folder / "survey",
        establishments=ESTABLISHMENTS,
        seed=seed,
        progress=lambda step, done: tell(f"survey: {step}", 0.4 * done),
    )
    tell("counting the survey", 0.4)
    cube = build_cube(
        read_survey(made),
        variables=VARIABLES,
        most_weight=MOST_WEIGHT,
        most_records=MOST_RECORDS,
    )
    total = Guarantee(ESTABLISHMENT, BUDGET)
    ledger = Ledger.create(folder / "survey-ledger.db", total, data_set="data")
    public = protect_cube(
        cube,
        epsilon=EPSILON,
        unit="establishment",
        ledger=ledger,
        out=folder / "cube",
        progress=lambda step, done: tell(f"cube: {step}", 0.5 + 0.25 * done),
    )
    verification = verify(
        public.release,
        ledger=ledger,
        progress=lambda step, done: tell(f"verifying: {step}", 0.75 + 0.2 * done),
    )
    tell("comparing with the true cube", 0.95)
    return SurveyFindings(
        establishments=cube.sums.establishments,
        records=cube.sums.records,
        variables=VARIABLES,
        cells=cube.shape.size,
        price=public.guarantee,
        total=total,
        left=ledger.left(),
        verification=verification,
        release=public.release,
        accuracy=tuple(_accuracy(cube, public)),
    )


def _accuracy(cube: Cube, public: ProtectedCube) -> Iterator[CubeAccuracy]:
    """The error of all tables by one variable, by two, and of every cell."""
    true = Tabulator(cube.shape, cube.weighted)
    for tables, size in (("one variable", 1), ("two variables", 2), ("every cell", len(VARIABLES))):
        truth, off, known = [], [], []
        for by in combinations(VARIABLES, size):
            found, right = public.table(Query(by)), true.table(Query(by)).values
            here = np.ones(right.shape, np.bool_) if found.absent is None else ~found.absent
            truth.append(right[here] / JOB)
            off.append((found.values - right)[here] / JOB)
            known.append(np.broadcast_to(found.noise_variance, right.shape)[here] / JOB**2)
        jobs, errors, variances = map(np.concatenate, (truth, off, known))
        yield CubeAccuracy(
            tables,
            len(jobs),
            float(jobs.mean()),
            float(np.sqrt(np.mean(errors**2))),
            float(np.sqrt(variances.mean())),
        )
