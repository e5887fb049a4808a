"""What mechanisms are held against: a bound for noise, and estimates of one who knows all sizes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from eree.noise.coins import SeededCoins
from eree.study.limits import KnownScales, KnownScalesShrunk, least_noise, limits, squared_sizes
from eree.study.workloads import WORKLOADS, Counted

TENTH = Fraction(1, 10)


@pytest.mark.parametrize("cells", [1, 2, 3, 8, 36])
@pytest.mark.parametrize("epsilon", [1, 2, 4])
def test_no_noise_is_below_the_bound_and_laplace_noise_is_not_far(cells: int, epsilon: int) -> None:
    bound = least_noise(cells, epsilon)
    assert bound < 1 / epsilon
    # the best staircase in one dimension has 0.9595, 0.4255 and 0.1379
    if cells == 1:
        assert bound < {1: 0.9595, 2: 0.4255, 4: 0.1379}[epsilon]
    if cells == 8:
        assert bound > 0.74 / epsilon
    if cells == 36:
        assert bound > 0.93 / epsilon


def test_a_simplex_moved_by_its_opposite_has_the_volume_of_the_bound() -> None:
    """In two dimensions T - T is a hexagon of 6 triangles: C(2,0)^2 + C(2,1)^2 + C(2,2)^2."""
    points = np.array([[0, 0], [1, 0], [0, 1]])
    apart = (points[:, None] - points[None]).reshape(-1, 2).astype(float)
    assert ConvexHull(apart).volume == pytest.approx(6 / 2)


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
        [np.abs(one.draw(people, SeededCoins(t)) - people.counts).mean() for t in range(200)]
    )
    assert drawn == pytest.approx(expected.mean(), rel=0.05)


def test_one_who_knows_all_sizes_does_better(people: Counted) -> None:
    plain = KnownScales("known", 1.0, 0.1, 1.0)
    shrunk = KnownScalesShrunk("shrunk", 1.0, 0.1, 1.0, (2, 4))
    errors = [
        np.mean([np.abs(one.draw(people, SeededCoins(t)) - people.counts).mean() for t in range(9)])
        for one in (plain, shrunk)
    ]
    assert errors[1] < 0.8 * errors[0]
    estimates = shrunk.draw(people, SeededCoins(1))
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
