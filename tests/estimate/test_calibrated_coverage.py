"""Calibrated intervals hold on a small population; `make torture ONLY=intervals` has large ones.

Seeds are fixed.  With others, right intervals would fail a test less often than once in a million
runs: given a profile the noise of cells is independent, so by Hoeffding's inequality the share of n
that hold is below its mean by t with a probability of at most exp(-2 n t^2), and no limit here is
nearer to the mean than such a t of 1e-6.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import log, sqrt
from pathlib import Path

import numpy as np
import pytest
from torture.interval_populations import Workplaces
from torture.interval_runs import LEVEL, Judged, JudgedWorkers

import eree_study
from eree.estimate.calibration import Calibrated
from selection import EVERYTHING

FALSE_ALARM = 1e-6
REDRAWS = 200 if EVERYTHING else 25
#: Cells from which on noise is more than a few jobs, so that intervals are not widened to integers.
FROM = 50
#: On average over cells the model is taken to be this far off.
MODEL = 0.015


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    folder = Path(tmp_path_factory.mktemp("population")) / "p"
    eree_study.synthesize(folder, jobs=250_000, seed=5, assumptions="other")
    return Judged("small", Workplaces.read(folder, workers=True), "2")


@cache
def least(pairs: int) -> float:
    """What the share of intervals that hold is not below, but for a false alarm."""
    return LEVEL - MODEL - sqrt(log(1 / FALSE_ALARM) / (2 * pairs))


def coverage(judged: Judged, scale: float) -> tuple[float, int]:
    """The share of larger cells that are covered, if the noise is taken for smaller than it is."""
    held = []
    smaller = replace(judged.noise, draws=np.rint(judged.noise.draws * scale))
    for draw in judged.draws(REDRAWS):
        made = Calibrated(smaller, draw.calibrated.points)
        low, high = made.cell_ends(draw.noisy, LEVEL)
        truth = judged.population.counts
        held.append(((low <= truth) & (truth <= high))[truth >= FROM])
    every = np.concatenate(held)
    return float(every.mean()), len(every)


def test_nine_of_ten_calibrated_intervals_of_cells_hold(judged: Judged) -> None:
    found, pairs = coverage(judged, 1.0)
    assert pairs >= 3_000
    assert found >= least(pairs)


def test_a_scale_a_quarter_too_small_would_be_found(judged: Judged) -> None:
    found, pairs = coverage(judged, 0.75)
    assert found < least(pairs)


def test_calibrated_intervals_of_sums_and_worker_cells_hold_and_are_not_wide(
    judged: Judged,
) -> None:
    workers = JudgedWorkers(judged)
    for draw in judged.draws(REDRAWS):
        judged.count(draw)
        workers.count(draw, judged.redraws)
    for tally in (judged.tally, workers.tally):
        for kind, label in (("cells", "all"), ("sums", "by place")):
            found = tally.strata[kind, label].as_json()
            assert found["coverage"] >= least(found["pairs"]), (kind, label)
            assert 1 / 1.25 < found["width"] < 1.25, (kind, label)
