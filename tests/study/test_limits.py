"""What mechanisms are held against: a bound for noise, and estimates of one who knows all sizes."""

from __future__ import annotations

from fractions import Fraction
from math import comb, factorial

import numpy as np
import pytest
from numpy.typing import NDArray

from eree.random.source import SeededRandom
from eree_study.papers.limits import (
    KnownScales,
    KnownScalesShrunk,
    _radius,
    least_noise,
    limits,
    squared_sizes,
)
from eree_study.papers.workloads import WORKLOADS, Counted

TENTH = Fraction(1, 10)


@pytest.mark.parametrize("cells", [2, 3, 8, 20])
@pytest.mark.parametrize("epsilon", [1, 2, 4])
def test_no_noise_is_below_the_bound_and_laplace_noise_is_not_far(cells: int, epsilon: int) -> None:
    bound = least_noise(cells, epsilon)
    assert bound < _staircase(cells, epsilon) < 1 / epsilon
    if cells == 8:
        assert bound > {1: 0.89, 2: 0.83, 4: 0.75}[epsilon] / epsilon


@pytest.mark.parametrize(("epsilon", "best"), [(1, 0.9595), (2, 0.4255), (4, 0.1379)])
def test_in_one_dimension_the_bound_is_the_best_staircase(epsilon: int, best: float) -> None:
    bound = least_noise(1, epsilon)
    assert 0.99 * best < bound <= best
    assert _staircase(1, epsilon) == pytest.approx(best, rel=2e-3)


@pytest.mark.parametrize(("cells", "epsilon"), [(1, 2), (2, 0.5), (3, 4), (8, 1), (8, 2), (8, 4)])
def test_no_sequence_of_volumes_that_steps_allow_is_below_the_bound(
    cells: int, epsilon: float
) -> None:
    """Radii with R(j + k) >= R(j) + r(k) for all j and k, drawn at random and then improved."""
    bound = least_noise(cells, epsilon)
    rng = np.random.default_rng(cells)
    steps = int(40 / epsilon) + 6 * cells
    radius = np.array([_radius(cells, k) for k in range(steps)]) / 2
    weights = np.exp(-epsilon * np.arange(steps))

    def mean(more: NDArray[np.float64]) -> float:
        """Each radius as small as the ones before allow, and something more."""
        radii = np.zeros(steps)
        radii[0] = more[0]
        for k in range(1, steps):
            radii[k] = (radii[:k] + radius[k:0:-1]).max() + more[k]
        scaled = (radii / radii[-1]) ** cells * weights
        return float((scaled * radii).sum() / scaled.sum()) / (cells + 1)

    least = np.inf
    for _ in range(8):
        more = rng.exponential(0.1, steps) * (rng.random(steps) < 0.2)
        more[0] = rng.uniform(0, cells + 1)
        best = mean(more)
        for _ in range(150):
            change = rng.normal(0, 0.2, steps) * (rng.random(steps) < 0.1)
            change[0] = rng.normal(0, 0.2)
            tried = np.maximum(more + change, 0)
            found = mean(tried)
            if found < best:
                more, best = tried, found
        least = min(least, best)
    assert bound <= least < 1.5 * bound


def _staircase(d: int, epsilon: int) -> float:
    """The mean error of the best noise that falls by e^-epsilon with either sum, step by step."""
    steps = np.arange(int(80 / epsilon) + 60 + 8 * d)

    def mean(first: float) -> float:
        outer = first + steps
        inner = np.concatenate([[0.0], outer[:-1]])

        def part(j: int, n: int) -> float:
            """The integral of a^n over a^j / j!, weighted with the heights of the stairs."""
            if j == 0:
                return float(n == 0)
            shells = outer ** (j + n) - inner ** (j + n)
            return float((np.exp(-epsilon * steps) * shells).sum()) * j / (j + n) / factorial(j)

        ways = [(comb(d, j), part(d - j, 0), j) for j in range(d + 1)]
        mass = sum(many * other * part(j, 0) for many, other, j in ways)
        return 2 * sum(many * other * part(j, 1) for many, other, j in ways) / mass / d

    return min(mean(first) for first in np.linspace(0.02, 1.6, 80))


def test_two_steps_of_a_triangle_cover_what_the_bound_says() -> None:
    """T - T and 2 T and -2 T, T a triangle: by counting points of a fine grid."""
    fine = (np.arange(-2000, 2000) + 0.5) / 1000
    x, y = np.meshgrid(fine, fine)
    above = np.maximum(x, 0) + np.maximum(y, 0)
    below = np.maximum(-x, 0) + np.maximum(-y, 0)
    within = (
        ((above <= 1) & (below <= 1))
        | ((above <= 2) & (below == 0))
        | ((below <= 2) & (above == 0))
    )
    area = within.mean() * 16
    assert _radius(2, 2) ** 2 / 2 == pytest.approx(area, rel=2e-3)
    assert _radius(2, 1) ** 2 / 2 == pytest.approx(1.0)  # two triangles
    assert _radius(8, 200) / 200 == pytest.approx(2, rel=0.02)  # nearly the ball of the L1 norm


def test_sizes_are_squared_and_added_up(people: Counted) -> None:
    sums = np.zeros(len(people.counts) // people.workers)
    seen = set()
    for workplace, cell, size in zip(
        people.rows.workplace.tolist(),
        people.rows.cell.tolist(),
        people.rows.size.tolist(),
        strict=True,
    ):
        if workplace not in seen:
            seen.add(workplace)
            sums[cell // people.workers] += size**2
    assert np.array_equal(squared_sizes(people), sums)


def test_noise_has_the_scale_that_is_public(people: Counted) -> None:
    one = KnownScales("known", 1.0, 0.1, 2.0)
    expected = one.expected(people)
    assert expected is not None
    assert np.allclose(expected, np.maximum(np.log(1.1) * people.largest_total, 1) / 2, rtol=1e-12)
    drawn = np.mean(
        [np.abs(one.draw(people, SeededRandom(t)) - people.counts).mean() for t in range(200)]
    )
    assert drawn == pytest.approx(expected.mean(), rel=0.05)


def test_one_who_knows_all_sizes_does_better(people: Counted) -> None:
    plain = KnownScales("known", 1.0, 0.1, 1.0)
    shrunk = KnownScalesShrunk("shrunk", 1.0, 0.1, 1.0, (2, 4))
    errors = [
        np.mean(
            [np.abs(one.draw(people, SeededRandom(t)) - people.counts).mean() for t in range(9)]
        )
        for one in (plain, shrunk)
    ]
    assert errors[1] < 0.8 * errors[0]
    estimates = shrunk.draw(people, SeededRandom(1))
    assert (estimates >= 0).all()
    assert shrunk.expected(people) is None


def test_limits_are_for_whole_marginals_under_the_strong_guarantee() -> None:
    def names(workload: str, cells: int, epsilon: int) -> list[str]:
        return [o.name for o in limits(WORKLOADS[workload], cells, TENTH, Fraction(epsilon))]

    assert names("workload-3-strong", 8, 2) == ["known-scales", "known-scales-shrunk"]
    assert names("report-6-true", 36, 2) == ["known-scales"]
    assert names("workload-3", 8, 2) == []
    assert names("workload-1", 1, 2) == []
    assert names("workload-3-strong", 8, 3) == []
