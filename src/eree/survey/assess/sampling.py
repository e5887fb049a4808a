"""The sampling error of the confidential estimates, from replicates of the survey's records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.survey.assess.measures import Array
from eree.survey.bounds import By
from eree.survey.cube import build_cube, first_records
from eree.survey.microdata import Survey
from eree.survey.noisy import SurveyCube
from eree.survey.replicates import REPLICATES, Replicates
from eree.survey.shape import Shape
from eree.workload import JOB


@dataclass(frozen=True, eq=False, repr=False)
class Sampling:
    """Replicates of the records that a cube holds.  Confidential.

    `trimmed` is the share of the survey's employment that the bounds of the cube took away,
    `left_out` that of its records.
    """

    shape: Shape
    answers: Mapping[str, NDArray[np.int32]]
    replicates: Replicates
    given: bool
    trimmed: float
    left_out: float

    @classmethod
    def of(cls, survey: Survey, cube: SurveyCube, replicates: int = REPLICATES) -> Sampling:
        """The replicates of a cube's records: those that came with them, or else successive ones.

        The cube is counted again from the survey, to be sure that it is its own.  Where weights
        are trimmed, replicate weights are by the same share.  Successive differences are those of
        establishments, in the order of the file: they are what was drawn first, and records of one
        are alike.
        """
        weights, kept = _same(survey, cube)
        answers = {v.name: survey.answers[v.name][kept] for v in cube.shape.variables}
        before = survey.weights[kept]
        scale = survey.declaration.replicate_scale
        if survey.replicates is not None and scale is not None:
            held = survey.replicates[:, kept] * (weights / before * JOB)
            made = Replicates.given(weights.astype(np.float64), held, scale)
        else:
            made = Replicates.successive(
                weights.astype(np.float64), replicates, survey.establishments[kept]
            )
        total = int(survey.weights.sum())
        return cls(
            cube.shape,
            answers,
            made,
            survey.replicates is not None,
            1 - int(weights.sum()) / total,
            1 - len(kept) / len(survey.weights),
        )

    def standard_errors(self, by: By) -> Array:
        """The standard errors of a table, in jobs; 0 where there is no record."""
        levels = tuple(self.shape.levels[axis] for axis in self.shape.axes(by))
        places = np.zeros(len(self.replicates.weights), dtype=np.int64)
        for name, level in zip(by, levels, strict=True):
            places = places * level + self.answers[name]
        filled, among = np.unique(places, return_inverse=True)
        _, variances = self.replicates.variances(among.astype(np.intp), len(filled))
        found = np.zeros(int(np.prod(levels, dtype=np.int64)))
        found[filled] = np.sqrt(variances) / JOB
        return found.reshape(levels)


def _same(survey: Survey, cube: SurveyCube) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """The weights of the records that the cube holds, and which they are; refused if not its own.

    No value is compared in words: whether they are the same is all that is told.
    """
    other = Refusal(
        "the survey is not the one that the cube was built from; name that one, or build its cube"
        " again"
    )
    try:
        bounds: dict[str, Any] = {"most_records": cube.most_records}
        if cube.most_weight is not None:
            bounds["most_weight"] = Fraction(cube.most_weight, JOB)
        again = build_cube(survey, variables=[v.name for v in cube.shape.variables], **bounds)
    except Refusal:
        raise other from None
    if again.shape != cube.shape or not (
        np.array_equal(again.weighted, cube.weighted)
        and np.array_equal(again.unweighted, cube.unweighted)
    ):
        raise other
    kept = np.arange(len(survey.weights))
    if cube.most_records is not None:
        kept = first_records(survey, cube.most_records)
    weights = survey.weights[kept]
    if cube.most_weight is not None:
        weights = np.minimum(weights, cube.most_weight)
    return weights, kept
