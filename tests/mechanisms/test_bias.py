"""What is said of the mean of noise, against exact probabilities of every mechanism."""

from __future__ import annotations

from itertools import product

import pytest
from flint import arb

import eree
from eree.cells import Cell, Group
from eree.mechanisms.mechanism import Mechanism
from eree.mechanisms.registry import MECHANISMS, VECTOR_MECHANISMS
from eree.mechanisms.staircase.leaning_staircase import LeaningStaircase
from eree.mechanisms.vector.vector import VectorMechanism
from eree.random.exact import exactly

#: Distributions that are not the same on both sides, or that count something else than the truth.
TRANSFORMED = {"log-laplace", "log-laplace-tight", "linlog", "linlog-integer"}
ASYMMETRIC, CLIPPED = {"leaning-staircase"}, {"two-stage-clip"}
FAIR = sorted({*MECHANISMS} - TRANSFORMED - ASYMMETRIC)
FAIR_GROUPS = sorted({*VECTOR_MECHANISMS} - {"knorm-staircase"} - CLIPPED)


def made(name: str, epsilon: str = "2", **more: int) -> Mechanism:
    return eree.mechanism(name, alpha="0.1", epsilon=epsilon, **more)


def mean(mechanism: Mechanism, size: int) -> float:
    """The mean error of an output in a cell of one workplace: sums of the exact tails."""
    total, distance = arb(0), 0
    while distance < 20_000:
        distance += 1
        cell = Cell(size)
        up, down = (mechanism.tail(cell, distance, side) for side in (1, -1))
        total += up - down
        if up + down < 1e-13:
            break
    return float(total)


@pytest.mark.parametrize("name", FAIR)
def test_distributions_that_are_called_fair_are_the_same_on_both_sides(name: str) -> None:
    """From the probability of each output: then the mean of the noise is 0."""
    mechanism = made(name)
    with exactly():
        for size, away in product((0, 1, 30, 700), (1, 2, 3, 7, 50, 400)):
            up, down = (mechanism.pmf(Cell(size), size + side * away) for side in (1, -1))
            assert (up - down).contains(0)


@pytest.mark.parametrize("name", FAIR_GROUPS)
def test_distributions_of_groups_that_are_called_fair_are_the_same_on_both_sides(name: str) -> None:
    mechanism = made(name, epsilon="3", cells=2)
    assert isinstance(mechanism, VectorMechanism)
    with exactly():
        for one, other in ((1, 0), (3, -2), (-40, 7)):
            probabilities = [
                mechanism.joint_pmf(Group.of((20, 5), 25), (20 + side * one, 5 + side * other))
                for side in (1, -1)
            ]
            assert (probabilities[0] - probabilities[1]).contains(0)


@pytest.mark.parametrize(("epsilon", "size"), [("1", 20), ("2", 40), ("2", 150), ("4", 300)])
def test_the_bias_of_asymmetric_noise_is_its_exact_mean(epsilon: str, size: int) -> None:
    mechanism = made("leaning-staircase", epsilon)
    assert isinstance(mechanism, LeaningStaircase)
    found = mean(mechanism, size)
    assert mechanism.bias(Cell(0, size)) == pytest.approx(found, abs=1e-6)
    assert mechanism.mean_noise.least - 1e-6 <= found <= mechanism.mean_noise.greatest + 1e-6


def test_asymmetric_noise_is_off_as_the_pages_say() -> None:
    """0.45 jobs at 40 workers and epsilon 2 were called right on average."""
    mechanism = made("leaning-staircase")
    assert isinstance(mechanism, LeaningStaircase)
    assert mechanism.bias(Cell(0, 40)) == pytest.approx(0.45, abs=0.01)
    bias = mechanism.mean_noise
    assert (bias.up_to, round(bias.least, 2), round(bias.greatest, 2)) == (531, -0.54, 0.79)
    sizes = (1, 9, 15, 16, 20, 43, 99, 260, 400, 531)
    assert all(bias.least <= mechanism.bias(Cell(0, size)) <= bias.greatest for size in sizes)
    for size in (2_000, 10_000, 1_000_000):
        assert mechanism.bias(Cell(0, size)) == pytest.approx(bias.share * size, rel=0.02)
    assert bias.share == pytest.approx(0.00024, abs=1e-5)


@pytest.mark.parametrize(
    ("alpha", "epsilon"), [("0.01", "1"), ("0.05", "0.9"), ("0.1", "1"), ("0.31", "4")]
)
def test_what_the_page_on_releases_says_of_asymmetric_noise(alpha: str, epsilon: str) -> None:
    mechanism = eree.mechanism("leaning-staircase", alpha=alpha, epsilon=epsilon)
    assert isinstance(mechanism, LeaningStaircase)
    bias = mechanism.mean_noise
    assert max(-bias.least, bias.greatest) <= 1.4
    assert abs(bias.share) < 0.01 * float(alpha)
    one_by_one = int(2 / float(alpha)) - 1
    assert abs(mechanism.bias(Cell(0, one_by_one // 2))) < 0.01


@pytest.mark.parametrize("size", [1, 10, 100])
def test_unbiased_log_laplace_is_right_but_for_its_rounding(size: int) -> None:
    assert abs(mean(made("log-laplace-tight"), size)) < 0.5
    assert abs(mean(made("log-laplace"), 1_000)) > 1  # and the others are not
