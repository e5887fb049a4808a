"""The report's Algorithms 2 and 3: drawn as printed, and shown not to be private."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from eree.errors import Refusal
from eree.mechanisms.registry import MECHANISMS
from eree.random.source import SeededRandom
from eree_study.papers.report_algorithms import (
    claimed_delta,
    draw_report,
    loss_of_report_gamma,
    true_delta,
)

SETTINGS: dict[str, Any] = {"alpha": "0.1", "epsilon": 2}


def test_algorithm_2_has_a_delta_far_above_its_claim() -> None:
    assert claimed_delta("0.1", 2) == pytest.approx(2.8e-5, rel=0.02)
    assert true_delta("0.1", 2, 1, 2) == pytest.approx(0.0206, abs=1e-4)
    assert true_delta("0.1", 2, 0, 1) > 100 * claimed_delta("0.1", 2)


def test_the_delta_is_what_draws_show() -> None:
    """The event is the set where the new density beats e^epsilon times the old one."""
    n = 400_000
    drawn = [
        draw_report(2, np.full(n, x), np.full(n, x), **SETTINGS, random=SeededRandom(x))
        for x in (1, 2)
    ]
    gaps = []
    for cut in np.linspace(2.2, 4.0, 40):
        ahead = (drawn[1] > cut).mean() - math.exp(2) * (drawn[0] > cut).mean()
        behind = (drawn[0] < 3 - cut).mean() - math.exp(2) * (drawn[1] < 3 - cut).mean()
        gaps += [ahead, behind]
    # each share is off by less than 5 / sqrt(n) but once in a million runs
    assert max(gaps) == pytest.approx(true_delta("0.1", 2, 1, 2), abs=5 * 9 / (2 * math.sqrt(n)))
    assert max(gaps) > 0.01


def test_algorithm_3_loses_without_bound_when_the_first_worker_joins() -> None:
    losses = [loss_of_report_gamma("0.1", 2, output) for output in (5, 20, 50, 200)]
    assert losses == sorted(losses)
    assert losses[-1] > 300


@pytest.mark.parametrize("algorithm", [2, 3])
def test_draws_have_the_stated_scale(algorithm: int) -> None:
    """Far from small cells the added Laplace noise of one worker does not matter."""
    n = 200_000
    cells = np.zeros(n, int), np.full(n, 10_000)
    noise = draw_report(algorithm, *cells, **SETTINGS, random=SeededRandom(3))
    expected = 1_000.0 if algorithm == 2 else 8_000 / math.sqrt(2)
    error = np.abs(noise)
    assert abs(error.mean() - expected) < 6 * error.std() / math.sqrt(n)
    assert abs(noise.mean()) < 6 * noise.std() / math.sqrt(n)


def test_an_empty_workplace_gets_the_laplace_noise_of_one_worker_alone() -> None:
    n = 200_000
    for algorithm in (2, 3):
        empty = np.zeros(n, int)
        noise = np.abs(draw_report(algorithm, empty, empty, **SETTINGS, random=SeededRandom(4)))
        assert abs(noise.mean() - 0.5) < 6 * 0.5 / math.sqrt(n)


def test_no_plan_can_name_them() -> None:
    assert not any("report" in name for name in MECHANISMS)


def test_what_makes_no_sense_is_refused() -> None:
    cells = np.array([1])
    with pytest.raises(Refusal, match=r"needs epsilon of at least 4 ln\(1 \+ alpha\)"):
        draw_report(3, cells, cells, alpha="0.5", epsilon=1, random=SeededRandom(1))
    with pytest.raises(Refusal, match="alpha and epsilon must be above 0"):
        draw_report(2, cells, cells, alpha=0, epsilon=1, random=SeededRandom(1))
    with pytest.raises(Refusal, match="the smaller one first"):
        true_delta("0.1", 2, 2, 1)
