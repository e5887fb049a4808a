"""Successive difference replication, against the textbook's formula and a Hadamard matrix."""

from __future__ import annotations

import numpy as np
import pytest

from eree.errors import Refusal
from eree.survey.replicates import Replicates, hadamard, row_pairs


@pytest.mark.parametrize(
    "order", [1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 60, 64, 76, 80, 100, 160, 200]
)
def test_rows_are_orthogonal_and_the_first_is_all_ones(order: int) -> None:
    found = hadamard(order).astype(np.int64)
    assert set(np.unique(found)) <= {-1, 1}
    assert (found @ found.T == order * np.eye(order)).all()
    assert (found[0] == 1).all()


@pytest.mark.parametrize("order", [0, 3, 6, 81, 4004])
def test_orders_that_cannot_be_are_refused(order: int) -> None:
    with pytest.raises(Refusal, match="multiple of 4"):
        hadamard(order)


def test_an_order_beyond_the_constructions_is_refused_with_the_nearest() -> None:
    with pytest.raises(Refusal, match="; 88 is the nearest"):
        hadamard(92)


def test_in_every_cycle_each_record_shares_a_row_with_the_next() -> None:
    first, second = row_pairs(79 * 3)
    assert first.min() == 1 and max(first.max(), second.max()) == 79
    assert list(zip(first[:3], second[:3], strict=True)) == [(1, 2), (2, 3), (3, 4)]
    assert (first[78], second[78]) == (79, 1)
    for cycle in range(3):
        a, b = (rows[79 * cycle : 79 * (cycle + 1)] for rows in (first, second))
        assert (a[1:] == b[:-1]).all() and a[0] == b[-1]
        assert len(set(a)) == len(set(b)) == 79
    assert (first != second).all()


def test_factors_are_those_of_the_textbook() -> None:
    weights = np.array([3.0, 5.0, 2.0, 7.0, 1.0])
    made = Replicates.successive(weights, 8)
    matrix, (first, second) = hadamard(8), row_pairs(5, 8)
    for r in range(8):
        for i in range(5):
            factor = 1 + 2**-1.5 * (int(matrix[first[i], r]) - int(matrix[second[i], r]))
            assert made.factors(r)[i] == pytest.approx(weights[i] * factor)
            assert min(abs(factor - f) for f in (1 + 2**-0.5, 1, 1 - 2**-0.5)) < 1e-12


@pytest.mark.parametrize("replicates", [4, 8, 20, 80])
def test_a_whole_cycle_gives_the_successive_difference_estimator(replicates: int) -> None:
    """4/R sum (theta_r - theta)² = 1/2 sum (y_i - y_(i+1))², the last beside the first.

    By orthogonality: theta_r - theta = 2^(-3/2) sum y_i (a_i - a_(i+1)) is 2^(-3/2) times the sum
    of (y_i - y_(i-1)) a_i.
    """
    values = np.random.default_rng(5).normal(100, 30, replicates - 1)
    found = Replicates.successive(values, replicates).variance(lambda w: float(w.sum()))
    assert found == pytest.approx(0.5 * np.square(values - np.roll(values, 1)).sum())


def test_cells_of_a_cube_have_the_variance_of_single_estimates() -> None:
    rng = np.random.default_rng(6)
    weights, places = rng.gamma(2.0, 50.0, 500), rng.integers(0, 12, 500)
    made = Replicates.successive(weights, 80)
    totals, variances = made.variances(places, 13)
    for cell in range(13):
        inside = places == cell
        assert totals[cell] == pytest.approx(weights[inside].sum())
        alone = made.variance(lambda w, inside=inside: float(w[inside].sum()))
        assert variances[cell] == pytest.approx(alone)
    assert totals[12] == variances[12] == 0


def test_records_of_one_unit_have_the_variance_of_their_sum_wherever_they_stand() -> None:
    """The units as single records, in the order in which each is first seen."""
    rng = np.random.default_rng(8)
    weights, units = rng.gamma(2.0, 50.0, 300), rng.integers(0, 90, 300) * 7 + 3
    turns = list(dict.fromkeys(units.tolist()))
    sums = np.array([weights[units == unit].sum() for unit in turns])
    assert len(sums) > 79  # more than a cycle
    made = Replicates.successive(weights, 80, units)
    alone = Replicates.successive(sums, 80)
    for r in range(80):
        for number, unit in enumerate(turns):
            factors = (made.factors(r) / weights)[units == unit]
            assert factors == pytest.approx(alone.factors(r)[number] / sums[number])
    found, known = (one.variance(lambda w: float(w.sum())) for one in (made, alone))
    assert found == pytest.approx(known)
    by_record = Replicates.successive(weights, 80).variance(lambda w: float(w.sum()))
    assert abs(by_record / known - 1) > 0.1


def test_records_in_random_order_have_the_variance_of_random_sampling() -> None:
    """The mean over shuffles is that of differences of two records: n times their variance.

    500 shuffles; the standard error is about 0.5%, and 3% would be a false alarm of 1e-8.
    """
    rng = np.random.default_rng(7)
    values = rng.gamma(2.0, 50.0, 79 * 2)
    found = [
        Replicates.successive(rng.permutation(values)).variance(lambda w: float(w.sum()))
        for _ in range(500)
    ]
    ratio = np.mean(found) / (len(values) * values.var(ddof=1))
    assert abs(ratio - 1) < 0.03
    assert abs(ratio / 0.9 - 1) > 0.03 and abs(ratio / 1.1 - 1) > 0.03


def test_replicate_weights_that_came_along_are_used_with_their_coefficient() -> None:
    weights = np.array([2.0, 4.0, 6.0])
    jackknife = np.array([[0, 6, 9], [3, 0, 9], [3, 6, 0]], dtype=float)
    made = Replicates.given(weights, jackknife, 2 / 3)
    assert made.variance(lambda w: float(w.sum())) == pytest.approx(
        2 / 3 * ((15 - 12) ** 2 + (12 - 12) ** 2 + (9 - 12) ** 2)
    )
    assert len(weights) * weights.var(ddof=1) == pytest.approx(
        made.variance(lambda w: float(w.sum()))
    )


def test_what_does_not_fit_is_refused_and_no_weight_is_shown() -> None:
    weights = np.array([41.5, 41.5])
    with pytest.raises(Refusal, match="a row for each replicate"):
        Replicates.given(weights, np.ones((3, 3)), 1.0)
    with pytest.raises(Refusal, match="above 0"):
        Replicates.given(weights, np.ones((3, 2)), 0.0)
    with pytest.raises(Refusal, match="the unit that it was drawn with"):
        Replicates.successive(weights, 8, np.array([1, 2, 3]))
    with pytest.raises(Refusal, match="4 replicates"):
        Replicates.successive(weights, 2)
    made = Replicates.successive(weights)
    with pytest.raises(Refusal, match="place of its cell"):
        made.variances(np.array([0]), 2)
    assert "41" not in repr(made)
