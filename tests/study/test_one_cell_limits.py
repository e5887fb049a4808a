"""The least error that any mechanism can have."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import lil_matrix

import eree
from eree.cells import Cell
from eree_study.papers.limits import (
    known_step_error,
    known_step_errors,
    least_error,
    least_share,
    least_small,
    step_of,
)
from selection import EVERYTHING, combinations

TENTH = Fraction(1, 10)


@pytest.mark.parametrize(("step", "epsilon"), combinations([1, 2, 3, 5], [0.7, 1, 2, 4], each=2))
def test_noise_for_a_known_step_is_the_optimum_of_all_noise(step: int, epsilon: float) -> None:
    farthest = int(22 * step / epsilon) + 3 * step
    k = np.arange(-farthest, farthest + 1)
    pairs = [
        pair
        for shift in range(1, step + 1)
        for i in range(len(k) - shift)
        for pair in ((i, i + shift), (i + shift, i))
    ]
    limits = lil_matrix((len(pairs), len(k)))
    for row, (a, b) in enumerate(pairs):
        limits[row, a], limits[row, b] = exp(-epsilon), -1
    found = linprog(
        np.abs(k),
        A_ub=limits.tocsr(),
        b_ub=np.zeros(len(pairs)),
        A_eq=[np.ones(len(k))],
        b_eq=[1],
    )
    assert known_step_error(step, epsilon) == pytest.approx(found.fun, rel=1e-3)


def test_hiding_one_worker_takes_geometric_noise() -> None:
    q = exp(-2)
    assert known_step_error(1, 2) == pytest.approx(2 * q / (1 - q * q))
    sizes = np.array([0, 9, 19, 20, 10**6])
    found = known_step_errors(sizes, TENTH, 2)
    assert found[0] == found[2] == known_step_error(1, 2)
    assert found[3] == known_step_error(2, 2)
    assert found[4] == pytest.approx(exp(1) / (exp(2) - 1) * 10**5, rel=1e-3)


def test_steps_are_whole_and_exact() -> None:
    assert list(step_of(np.array([0, 1, 19, 20, 29, 30, 1000]), TENTH)) == [1, 1, 1, 2, 2, 3, 100]


@pytest.mark.parametrize(
    ("alpha", "epsilon"),
    combinations([Fraction(1, 20), TENTH, Fraction(1, 5)], [1.0, 2.0, 4.0], each=1),
)
def test_large_workplaces_have_the_error_of_a_staircase_of_ratios(
    alpha: Fraction, epsilon: float
) -> None:
    """The best noise on log sizes farthestes the bound, so it is neither too high nor too low."""
    grid = np.arange(-400, 401) / 16  # in steps of growth
    ratio = (1 + float(alpha)) ** grid
    best = 9e9
    for left in np.arange(0, 16) / 16:
        for right in np.arange(0, 16) / 16:
            level = np.where(
                grid > 0, np.ceil(np.maximum(grid - right, 0)), np.ceil(np.maximum(-grid - left, 0))
            )
            weight = np.exp(-epsilon * level)
            best = min(best, float((weight * np.abs(ratio - 1)).sum() / weight.sum()))
    share = least_share(alpha, epsilon)
    assert share <= best / float(alpha) * 1.001
    assert share >= 0.9 * best / float(alpha)


@pytest.mark.parametrize(
    ("epsilon", "sizes"), [(2, 61), (1, 61 if EVERYTHING else 31), (4, 61 if EVERYTHING else 31)]
)
@pytest.mark.xdist_group("limits")
def test_no_mechanism_is_below_the_bound(epsilon: int, sizes: int) -> None:
    least, share = least_small(TENTH, epsilon, np.ones(sizes)), least_share(TENTH, epsilon)
    for name in ("auto", "linlog", "smooth-pareto", "radial"):
        made = eree.mechanism(name, alpha="0.1", epsilon=epsilon)
        errors = [made.mean_error(Cell(x))[0] for x in range(sizes)]
        assert least <= sum(errors)
        assert made.mean_error(Cell(10**5, 10**5))[0] >= share * 10**4


def test_the_bound_for_small_workplaces_hides_one_worker() -> None:
    """Two sizes, one apart: the best is to tell the truth with probability 1 / (1 + e^-eps)."""
    q = exp(-1.5)
    assert least_small(TENTH, 1.5, np.array([1.0, 1.0])) == pytest.approx(2 * q / (1 + q), rel=1e-6)


@pytest.mark.xdist_group("limits")
def test_small_and_large_workplaces_are_added() -> None:
    sizes = np.concatenate([np.arange(61), np.array([100, 1_000])])
    small = least_small(TENTH, 2.0, np.ones(61))
    large = least_share(TENTH, 2.0) * (9 + 99)  # steps are counted one too low where they are whole
    assert least_error(sizes, TENTH, 2.0) == pytest.approx((small + large) / 63, rel=0.01)
