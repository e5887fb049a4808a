"""The synthetic cases of the evaluation: a survey of QUERYTOOL's shape, as it is or evened out."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from eree.partial import temporary_folder
from eree.random.exact import Integers
from eree.survey.cube import build_cube
from eree.survey.microdata import read_survey
from eree.workload import JOB
from eree_study.synth.survey import synthesize_survey


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
    """Cases of which each answer is, with a chance, drawn anew with all its codes alike.

    The paper's cases are not public, and how even their tables are decides which runs converge:
    this leads from a survey, at 0, to cases without any pattern, at 1.  What is redrawn at one
    chance is redrawn at every larger one, and comes out the same.
    """
    places = np.repeat(np.argwhere(counts), counts[counts > 0], axis=0)
    rng = np.random.default_rng([seed, len(places)])
    chance = rng.random(places.shape)
    fresh = np.stack([rng.integers(0, level, len(places)) for level in counts.shape], axis=1)
    answers = np.where(chance < redrawn, fresh, places)
    found = np.zeros_like(counts)
    np.add.at(found, tuple(answers.T), 1)
    return found
