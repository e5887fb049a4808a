"""Estimates of workplaces that were protected one by one: their arithmetic, and what they find."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import eree
from eree.estimate.workplaces import ShrunkWorkplaces, TransformedNoise, _transformed_moments
from eree.mechanisms.vector.knorm_staircase import KNormStaircase

Integers = NDArray[np.int64]
SHARES = np.array([[0.3, 0.5, 0.2], [0.2, 0.2, 0.6]])


def knorm(epsilon: str, cells: int) -> KNormStaircase:
    weak = eree.Guarantee(eree.Weak("0.1", ["type"]), epsilon)
    return KNormStaircase.calibrate(weak, cells=cells)


def workplaces(number: int, correlation: float, seed: int) -> tuple[Integers, Integers]:
    """Counts of synthetic workplaces in three cells, and their kinds."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 2, number)
    sizes = np.minimum(1 + rng.pareto(1.1, number) * 5, 20_000).astype(np.int64)
    shares = np.array([rng.dirichlet(SHARES[kind] * (1 / correlation - 1)) for kind in kinds])
    return rng.multinomial(sizes, shares), kinds


@pytest.mark.parametrize("cells", [2, 5])
def test_noise_of_transformed_counts_has_the_covariance_it_is_said_to_have(cells: int) -> None:
    """Each entry within 5 standard errors: a false alarm in less than one of 100,000 runs."""
    made, number = knorm("2", cells), 200_000
    noise = TransformedNoise(made)
    deep = np.full((number, cells), 10**9, dtype=np.int64)  # so deep that rounding is nothing
    drawn = made.draw(deep, random=eree.SeededRandom(3)).astype(np.float64)
    away = noise.transformed(drawn) - noise.transformed(deep.astype(np.float64))
    products = away[:, :, None] * away[:, None, :]
    error = products.std(0) / np.sqrt(number)
    found = products.mean(0)
    assert (np.abs(found - noise.covariance) < 5 * error).all()
    for wrong in (0.9, 1.1):  # a variance a tenth too small or too large is noticed
        assert (np.abs(found - wrong * noise.covariance) > 5 * error).any()


def test_transformed_moments_are_those_of_counts_where_the_transform_is_straight() -> None:
    noise = TransformedNoise(knorm("2", 3))
    mean, deviation = np.array([[0.0, 1.0, 4.0]]), np.array([[0.3, 1.0, 1.5]])
    middle, width = _transformed_moments(mean, deviation, noise)
    assert np.allclose(middle, mean)
    assert np.allclose(width, deviation)


def test_transformed_moments_are_those_of_a_gamma_distribution_where_it_bends() -> None:
    noise = TransformedNoise(knorm("2", 3))
    mean, deviation = np.array([[30.0, 200.0, 5_000.0]]), np.array([[10.0, 150.0, 500.0]])
    shape = (mean / deviation) ** 2
    rng = np.random.default_rng(5)
    values = noise.transformed(rng.gamma(shape, mean / shape, (400_000, 3)))
    middle, width = _transformed_moments(mean, deviation, noise)
    assert np.allclose(middle[0], values.mean(0), rtol=0.005)
    assert np.allclose(width[0], values.std(0), rtol=0.04)


@pytest.mark.parametrize("epsilon", ["1", "4"])
def test_sums_of_estimates_are_nearer_to_the_truth_than_sums_of_noisy_counts(epsilon: str) -> None:
    thirds, kinds = workplaces(20_000, 0.1, 1)
    women = np.random.default_rng(4).binomial(thirds, 0.4)
    counts, made = np.hstack([women, thirds - women]), knorm(epsilon, 6)
    noisy = made.draw(counts, random=eree.SeededRandom(1))
    learnt = ShrunkWorkplaces.learn(noisy, kinds, made, (2, 3))
    estimates = learnt.moments()[0]
    areas = np.arange(len(counts)) // 40
    errors = []
    for values in (noisy.astype(np.float64), estimates):
        sums = np.zeros((areas[-1] + 1, 6))
        np.add.at(sums, areas, values - counts)
        errors.append(np.abs(sums).mean())
    assert errors[1] < 0.9 * errors[0]
    assert abs(estimates.sum() / counts.sum() - 1) < 0.05


def test_correlations_are_found() -> None:
    """Workers of a workplace that are more alike are found to be."""
    found = []
    for correlation in (0.03, 0.25):
        counts, kinds = workplaces(20_000, correlation, 2)
        made = knorm("4", 3)
        noisy = made.draw(counts, random=eree.SeededRandom(2))
        (seen,) = ShrunkWorkplaces.learn(noisy, kinds, made, (3,)).correlations
        found.append(seen)
    assert 0.015 < found[0] < 0.06
    assert 0.12 < found[1] < 0.5


def test_almost_no_noise_leaves_counts_as_they_are() -> None:
    counts, kinds = workplaces(3_000, 0.1, 3)
    made = knorm("200", 3)
    learnt = ShrunkWorkplaces.learn(counts, kinds, made, (3,))
    assert (np.abs(learnt.moments()[0] - counts) <= 0.5 + 0.02 * counts).all()
