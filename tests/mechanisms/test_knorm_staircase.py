"""The K-norm staircase: random neighbours, its certificate, its errors and where it is chosen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cases import FALSE_ALARM
from eree.cells import Cell, Group
from eree.errors import Refusal
from eree.mechanisms.registry import automatic_vector
from eree.mechanisms.transformed.certificate import greatest_gain
from eree.mechanisms.transformed.linlog import IntegerLinLog
from eree.mechanisms.transformed.transform import Knots
from eree.mechanisms.vector.knorm_staircase import KNormStaircase
from eree.mechanisms.vector.transformed_rows import TransformedBoxes
from eree.mechanisms.vector.vector import loss_of
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Weak
from eree.random.exact import Integers, exactly
from eree.random.source import SeededRandom
from selection import examples


def guarantee(alpha: Any = "0.1", epsilon: Any = "2") -> Guarantee:
    return Guarantee(Weak(alpha, ["sex"]), epsilon)


def staircase(alpha: Any = "0.1", epsilon: Any = "2", cells: int = 3) -> KNormStaircase:
    return KNormStaircase.calibrate(guarantee(alpha, epsilon), cells=cells)


# ------------------------------------------------------------------------------ privacy


@st.composite
def neighbours(draw: Any) -> tuple[KNormStaircase, list[int], list[int], list[int]]:
    """A mechanism, the counts of a workplace and others before and after a step, and outputs."""
    alpha = draw(st.sampled_from(["0.01", "0.1", "0.29", "0.5", "3"]))
    epsilon = draw(st.sampled_from(["1.5", "2", "4", "7"]))
    cells = draw(st.integers(1, 5))
    small, large = st.integers(0, 60), st.integers(0, 10**9)
    counts = [draw(small | large) for _ in range(cells)]
    shares = [draw(st.fractions(0, 1, max_denominator=9)) for _ in range(cells)]
    grown = []
    for count, share in zip(counts, shares, strict=True):
        own = count if share > Fraction(1, 2) else int(count * share)  # what the workplace has
        most = max(int(Fraction(alpha) * own), 1)
        grown.append(count + draw(st.sampled_from([0, most, most // 2])))
    away = st.sampled_from([0, 0, 1, -1, 2, -3, 9])
    outputs = [
        draw(st.sampled_from([n, g, -n - 2, 2 * g + 3])) + draw(away)
        for n, g in zip(counts, grown, strict=True)
    ]
    return staircase(alpha, epsilon, cells), counts, grown, outputs


@examples(60, torture=1_000)
@given(neighbours())
def test_no_random_weak_neighbours_lose_more_than_epsilon(
    case: tuple[KNormStaircase, list[int], list[int], list[int]],
) -> None:
    chosen, counts, grown, outputs = case
    with exactly():
        old, new = (chosen.joint_pmf(Group.of(n, 0), outputs) for n in (counts, grown))
        assert old > 0
        assert new > 0
        assert loss_of(old, new) <= chosen.guarantee.epsilon


def transformed_counts(alpha: Fraction, most: int) -> Iterator[tuple[int, Fraction]]:
    """The sum of 1 / max(floor(alpha i), 1) over i < n, for all n."""
    total = Fraction(0)
    for n in range(most):
        yield n, total
        total += Fraction(1, max(int(alpha * n), 1))


@pytest.mark.parametrize("alpha", ["0.1", "0.07", "0.29", "1", "2.5", "1000"])
def test_no_step_gains_more_than_one(alpha: str) -> None:
    """To the last digit: a little more than 1 would cost a second plateau."""
    chosen = staircase(alpha, "9", 2)
    assert greatest_gain(chosen.single) == (1, 0)
    share, transform = Fraction(alpha), chosen.transform
    known = dict(transformed_counts(share, int(transform.at[-1]) + 1))
    for n, transformed in known.items():
        assert transform.exact_forward(n) == transformed
        grown = n + max(int(share * n), 1)
        if grown in known:
            assert known[grown] - transformed <= 1
    assert transform.exact_forward(int(transform.at[-1]) + 1) is None
    with exactly():
        for n in (*range(int(transform.at[-1]) + 9), 10**6, 10**9, 10**15):
            grown = n + max(int(share * n), 1)
            assert not transform.forward(grown) - transform.forward(n) > 1


def test_a_certificate_finds_what_was_claimed_and_meets_it() -> None:
    for alpha, epsilon, cells in (("0.1", "2", 1), ("0.1", "4", 36), ("0.3", "0.6", 4)):
        certificate = staircase(alpha, epsilon, cells).certify()
        assert certificate.holds
        assert certificate.found_epsilon == pytest.approx(float(epsilon), rel=1e-9)
        assert certificate.worst_pair.loss == pytest.approx(float(epsilon), rel=1e-9)


@pytest.mark.parametrize("cells", [1, 3])
def test_a_tenth_less_noise_is_caught(cells: int) -> None:
    chosen = staircase("0.1", "2", cells)
    faster = replace(chosen, drop=chosen.drop * Fraction(10, 9)).certify()
    assert not faster.holds
    assert faster.worst_pair.loss > 2.2
    narrow = replace(chosen, spread=Fraction(9, 10)).certify()
    assert not narrow.holds
    assert narrow.found_epsilon == pytest.approx(4)  # a step passes two plateaus
    assert narrow.worst_pair.loss > 2.05
    assert not replace(chosen, rate=chosen.rate * Fraction(9, 10)).certify().holds


@pytest.mark.parametrize(
    ("alpha", "epsilon", "cells"),
    [("0.1", "2", 3), ("0.1", "1", 36), ("0.1", "0.2", 8), ("0.1", "3", 1_000), ("0.9", "2", 8)],
)
def test_a_distribution_that_is_not_what_the_fields_say_is_caught(
    alpha: str, epsilon: str, cells: int
) -> None:
    """Probabilities of outputs along the plateaus show what the formula does not."""

    class Narrow(KNormStaircase):
        def distribution(self, counts: Integers) -> TransformedBoxes:
            return TransformedBoxes(
                self.transform, counts, self.spread * Fraction(9, 10), self.plateaus
            )

    right, wrong = (
        kind.calibrate(guarantee(alpha, epsilon), cells=cells).certify()
        for kind in (KNormStaircase, Narrow)
    )
    assert right.holds
    assert right.worst_pair.loss > 0.999 * float(epsilon)
    assert not wrong.holds
    assert wrong.worst_pair.loss > 1.999 * float(epsilon)


def test_any_gamma_is_private() -> None:
    chosen = staircase()
    for gamma in ("1/50", "1/2", "1", "7"):
        certificate = replace(chosen, gamma=Fraction(gamma)).certify()
        assert certificate.holds
        assert certificate.worst_pair.loss <= 2


@pytest.mark.parametrize("fault", ["no floor", "a little steep", "logarithm too early"])
def test_transformed_counts_that_grow_too_fast_are_caught(fault: str) -> None:
    class Steep(IntegerLinLog):
        @cached_property
        def transform(self) -> Knots:
            right = super().transform
            match fault:
                case "no floor":  # 1 / (alpha i) from the first worker on
                    slopes = tuple(1 / (self.alpha * max(end / 2, 1)) for end in right.at[1:])
                case "a little steep":
                    slopes = (right.slopes[0] * (1 + Fraction(1, 10**9)), *right.slopes[1:])
                case _:
                    return replace(right, step=right.step / 2)
            return replace(right, slopes=slopes)

    class Wrong(KNormStaircase):
        @cached_property
        def single(self) -> IntegerLinLog:
            return Steep(self.guarantee, self.spread, self.rate)

    certificate = Wrong.calibrate(guarantee(), cells=3).certify()
    assert not certificate.holds
    assert certificate.found_epsilon >= 3.999


# ------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(("epsilon", "cells"), [("2", 1), ("1", 2), ("4", 8), ("2", 20)])
def test_noise_of_transformed_counts_is_what_it_is_said_to_be(epsilon: str, cells: int) -> None:
    """Draws of counts so large that rounding is nothing; a false alarm in a million runs."""
    n, chosen = 120_000 // cells + 20_000, staircase("0.1", epsilon, cells)
    deep = np.full((n, cells), 10**9, dtype=np.int64)
    rows = chosen.draw(deep, random=SeededRandom(cells)).astype(np.float64)
    away = chosen.transform.near_preimage(rows) - chosen.transform.near_preimage(
        deep.astype(np.float64)
    )
    mean, root = chosen.transformed_error()
    of_groups = np.abs(away).mean(axis=1)
    error = of_groups.std() / math.sqrt(n)
    assert abs(of_groups.mean() - mean) < 5 * error
    for off in (0.9, 1.1):
        assert abs(of_groups.mean() - off * mean) > 5 * error
    products = away[:, :, None] * away[:, None, :]
    errors = products.std(axis=0) / math.sqrt(n)
    covariance = chosen.transformed_covariance
    assert covariance[0, 0] == pytest.approx(root**2)
    assert (np.abs(products.mean(axis=0) - covariance) < 6 * errors).all()
    squares = (away**2).mean(axis=1)
    for off in (0.9, 1.1):
        assert abs(squares.mean() - off * root**2) > 5 * squares.std() / math.sqrt(n)
    for level in (0.5, 0.9, 0.99):
        held = int((np.abs(away[:, 0]) <= chosen.transformed_half_width(level)).sum())
        assert stats.binomtest(held, n, level).pvalue > FALSE_ALARM


def test_its_mean_is_that_of_the_best_gamma() -> None:
    """Of eight cells: (d + 2) / 3 over epsilon would be the K-norm's own."""
    for epsilon, mean in (("1", 3.0538), ("2", 1.5153), ("4", 0.7318)):
        chosen = staircase("0.1", epsilon, 8)
        assert chosen.transformed_error()[0] == pytest.approx(mean, abs=6e-5)
    assert chosen.parameters["gamma"] == "29/32"
    assert chosen.parameters["spread"] == "1"


@pytest.mark.parametrize("epsilon", ["1", "2", "4"])
def test_it_has_less_error_than_noise_that_falls_evenly(epsilon: str) -> None:
    """A density of e^(-epsilon (up + down)) has a mean size of (d + 2) / 3 over epsilon."""
    for cells in (1, 2, 8, 36):
        even = (cells + 2) / 3 / float(epsilon)
        assert staircase("0.1", epsilon, cells).transformed_error()[0] < even


@pytest.mark.parametrize(("epsilon", "cells"), [("4", 3), ("1", 8), ("0.3", 2)])
def test_where_sums_grow_long_integrals_take_their_place(epsilon: str, cells: int) -> None:
    chosen = staircase("0.1", epsilon, cells)
    count = 20_000 if epsilon != "0.3" else 1_000
    summed, real = chosen.mean_error(Cell(count, 0)), chosen.real_error(Cell(count))
    assert summed == pytest.approx(real, rel=1e-5)
    assert chosen.mean_error(Cell(10**7, 0)) == chosen.real_error(Cell(10**7))


def test_errors_near_the_least_epsilon_are_sums_too() -> None:
    """Most of the mean lies far out; compared with sums of exact tails over a geometric grid."""
    chosen = staircase("0.1", "0.16", 2)
    edges = np.unique(np.concatenate([np.arange(400.0), np.geomspace(400, 1e60, 24_000)]))
    transform, centre = chosen.transform, float(chosen.transform.forward(3))
    above = transform.near_preimage(3 + (edges[1:] + edges[:-1]) / 2) - centre
    below = centre - transform.near_preimage(3 - np.arange(0.5, 4_000))
    total = chosen.near_tail(above) @ np.diff(edges) + chosen.near_tail(below).sum()
    mean, root = chosen.mean_error(Cell(3, 0))
    assert mean == pytest.approx(total, rel=2e-3)
    assert root == math.inf


def test_many_cells_and_large_counts_are_drawn_and_have_probabilities() -> None:
    chosen = staircase("0.1", "4", 36)
    counts = np.tile(np.array([0, 3, 10**9, 15] * 9), (400, 1))
    rows = chosen.draw(counts, random=SeededRandom(8))
    assert rows.shape == counts.shape
    deep = np.abs(rows - counts)[:, 2]
    stated = chosen.mean_error(Cell(10**9, 0))[0]
    assert deep.mean() == pytest.approx(stated, rel=5 * deep.std() / stated / 20)
    logs = [chosen.joint_log_pmf(Group.of(counts[0], 0), row) for row in rows[:5]]
    assert all(math.isfinite(probability) for probability in logs)
    far = chosen.joint_log_pmf(Group.of([10**9] * 36, 0), [10**12] * 36)
    near = chosen.joint_log_pmf(Group.of([10**9] * 36, 0), [10**9] * 36)
    assert far < near


# ------------------------------------------------------------------------------ the choice


@pytest.mark.parametrize("epsilon", ["1", "2", "4"])
def test_it_is_what_auto_takes_for_workplaces_under_weak_neighbours(epsilon: str) -> None:
    for cells in (2, 8, 36):
        chosen, why = automatic_vector(guarantee("0.1", epsilon), cells, alone=True)
        assert chosen.name == "knorm-staircase"
        assert (
            why == f"knorm-staircase protects all {cells} worker cells at once with the least error"
        )


def test_where_it_has_too_many_plateaus_what_it_needs_is_named() -> None:
    """It needs the least of all vector mechanisms, so `auto` names the same."""
    weak = guarantee("0.1", "0.096")
    for made in (
        lambda: KNormStaircase.calibrate(weak, cells=8),
        lambda: automatic_vector(weak, 8, alone=True),
    ):
        with pytest.raises(
            Refusal, match=r"needs epsilon of 0\.0963[34] or more to protect 8 cells"
        ):
            made()
    enough = guarantee("0.1", "0.09634")
    assert automatic_vector(enough, 8, alone=True)[0].name == "knorm-staircase"
    assert staircase("0.1", "0.09634", 8).certify().holds


@examples(30, torture=300)
@given(st.lists(st.integers(-50, 900), min_size=1, max_size=12), st.sampled_from([0.5, 0.9, 0.99]))
def test_many_counts_have_the_ends_that_each_has_alone(few: list[int], level: float) -> None:
    mechanism = staircase()
    many = np.array(few * 500)  # more of them than numbers between: each number is looked at once
    alone = [mechanism.interval(np.array([count]), level) for count in few]
    low, high = mechanism.interval(many, level)
    assert low.tolist() == [int(ends[0][0]) for ends in alone] * 500
    assert high.tolist() == [int(ends[1][0]) for ends in alone] * 500
