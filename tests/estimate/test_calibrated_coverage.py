"""Calibrated intervals hold on a small population; `make torture ONLY=intervals` has large ones.

Seeds are fixed.  With others, right intervals would fail a test less often than once in a million
runs: given a profile the noise of cells is independent, so the share of many that hold is about
normal around its mean, and every limit is five standard deviations below what is taken for that.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from torture.interval_populations import Workplaces
from torture.interval_runs import LEVEL, Judged, JudgedWorkers

import eree_study
from eree.estimate.calibration import Calibrated
from selection import EVERYTHING

JOBS = 250_000
#: The profile's noise is as small beside the numbers of workplaces as at the papers' size.
PROFILE_SHARE = 0.02 * 10_900_000 / JOBS
REDRAWS = 200 if EVERYTHING else 25
FEW = 40 if EVERYTHING else 10
#: Cells from which on noise is more than a few jobs, so that intervals are not widened to integers.
FROM = 50
#: As far off the model is taken to be on average over cells.
MODEL = 0.015
DEVIATIONS = 5


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    folder = Path(tmp_path_factory.mktemp("population")) / "p"
    eree_study.synthesize(folder, jobs=JOBS, seed=5, assumptions="other")
    return Judged("small", Workplaces.read(folder, workers=True), "2", PROFILE_SHARE)


def least(pairs: int) -> float:
    """What the share of intervals that hold is not below, but for a false alarm."""
    return LEVEL - MODEL - DEVIATIONS * sqrt(LEVEL * (1 - LEVEL) / pairs)


def test_most_intervals_of_cells_hold_and_a_scale_a_quarter_too_small_would_be_found(
    judged: Judged,
) -> None:
    truth, held, of_smaller = judged.population.counts, [], []
    smaller = replace(judged.noise, draws=np.rint(judged.noise.draws * 0.75))
    for draw in judged.draws(REDRAWS):
        for noise, found in ((judged.noise, held), (smaller, of_smaller)):
            made = Calibrated(noise, draw.calibrated.points)
            low, high = made.cell_ends(draw.noisy, LEVEL)
            found.append(((low <= truth) & (truth <= high))[truth >= FROM])
    pairs = sum(map(len, held))
    assert pairs >= 3_000
    assert np.concatenate(of_smaller).mean() < least(pairs) <= np.concatenate(held).mean()


def test_intervals_of_sums_and_of_worker_cells_hold_and_are_not_wide(judged: Judged) -> None:
    workers = JudgedWorkers(judged)
    for draw in judged.draws(FEW):
        judged.count(draw)
        workers.count(draw, judged.redraws)
    for tally in (judged.tally, workers.tally):
        for kind, label in (("cells", "all"), ("sums", "by place")):
            found = tally.strata[kind, label].as_json()
            assert found["coverage"] >= least(found["pairs"]), (kind, label)
            assert 1 / 1.25 < found["width"] < 1.25, (kind, label)
