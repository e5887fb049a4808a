"""Estimates of groups of worker cells: their arithmetic, and that they find what is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from eree.estimate.grids import Classed, Grid, by_bounds, by_workplaces
from eree.estimate.groups import Shown, ShrunkGroups, factors, shares_by_kind, shrunk_counts

Array = NDArray[np.float64]
SHARES = np.array([0.3, 0.1, 0.15, 0.45])
PRODUCT = np.outer([0.4, 0.6], [0.2, 0.3, 0.5]).ravel()


def made_up(
    groups: int, seed: int, correlations: tuple[float, float] = (0.1, 0.1), scale: float = 0.1
) -> tuple[Array, Array, NDArray[np.int64], NDArray[np.int64]]:
    """True and noisy counts of groups of 2 x 3 worker cells, with their kinds and workplaces.

    Workplaces have Dirichlet shares of both attributes, apart; noise is normal, of `scale` times
    the largest workplace.
    """
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 4, groups)
    first = np.array([0.3, 0.45, 0.55, 0.7])[kinds]
    second = np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7]])[kinds]
    workplaces = np.minimum(rng.zipf(1.6, groups), 50)
    true = np.zeros((groups, 6))
    largest = np.zeros(groups)
    for g in range(groups):
        sizes = np.minimum(1 + rng.pareto(1.1, workplaces[g]) * 5, 5_000).astype(np.int64)
        a = rng.dirichlet(
            np.array([first[g], 1 - first[g]]) * (1 / correlations[0] - 1), len(sizes)
        )
        b = rng.dirichlet(second[g] * (1 / correlations[1] - 1), len(sizes))
        cells = (a[:, :, None] * b[:, None, :]).reshape(len(sizes), 6)
        true[g] = rng.multinomial(sizes, cells / cells.sum(1, keepdims=True)).sum(0)
        largest[g] = sizes.max()
    noise = rng.standard_normal(true.shape) * np.maximum(scale * largest, 1)[:, None]
    return true, np.rint(true + noise), kinds, workplaces


def variance(scale: float) -> Any:
    return lambda size: max(scale * size, 1.0) ** 2


@pytest.mark.parametrize(("shares", "shape"), [(SHARES, (2, 2)), (PRODUCT, (2, 3)), (SHARES, (4,))])
def test_differences_of_a_kind_add_up_to_nothing(shares: Array, shape: tuple[int, ...]) -> None:
    found = factors(shares, shape)
    assert len(found) == 2 ** len(shape) - 1
    assert sum(one.shape[1] for one in found) == shares.size - 1
    for one in found:
        assert np.abs(one.sum(0)).max() < 1e-12


def test_where_attributes_are_independent_the_sets_make_up_sampling() -> None:
    """Together they have the covariance of one worker, diag(p) - p p'."""
    whole = sum(one @ one.T for one in factors(PRODUCT, (2, 3)))
    assert np.allclose(whole, np.diag(PRODUCT) - np.outer(PRODUCT, PRODUCT))


def test_a_set_of_one_attribute_leaves_the_shares_of_the_other_alone() -> None:
    second, first, _both = factors(PRODUCT, (2, 3))
    assert np.abs(second.reshape(2, 3, -1).sum(1)).max() < 1e-12
    assert np.abs(first.reshape(2, 3, -1).sum(0)).max() < 1e-12


def test_shares_of_a_kind_are_those_of_the_sums_where_there_is_no_noise() -> None:
    noisy = np.array([[300.0, 100.0], [3_000.0, 1_000.0], [10_000.0, 70_000.0]])
    shares = shares_by_kind(noisy, np.array([0, 0, 1]))
    assert shares == pytest.approx(np.array([[0.75, 0.25], [0.125, 0.875]]), abs=1e-3)


def test_a_kind_that_is_all_noise_is_shrunk_to_the_shares_of_all() -> None:
    noisy = np.array([[90.0, -100.0], [6_000.0, 4_000.0]])
    shares = shares_by_kind(noisy, np.array([0, 1]))
    assert 0.6 < shares[0][0] < 0.9
    assert shares[0].sum() == pytest.approx(1)


def test_estimates_are_means_given_the_noisy_counts() -> None:
    """Against normal densities and conditional means written out for every point of the grid."""
    _true, noisy, kinds, workplaces = made_up(60, 1)
    classed = by_workplaces(noisy.astype(np.int64), workplaces, variance(0.1))
    model = ShrunkGroups.learn(noisy.astype(np.int64), kinds, classed, Shown([(2, 3)]))
    found = model.moments()[0]
    for g in range(0, 60, 7):
        kind, grid = model.known[kinds[g]], classed.grids[classed.classes[g]]
        prior = model.weights[classed.classes[g]] / model.weights[classed.classes[g]].sum()
        posterior, mean = np.zeros(len(prior)), np.zeros((len(prior), 6))
        for i in range(len(prior)):
            spread = grid.spread[i] * np.outer(kind.shares, kind.shares)
            for (within, common), one in zip(model.correlations, kind.factors, strict=True):
                squares = max(grid.squares[i] - grid.n[i], 0)
                spread += (within * squares + common * grid.n[i] ** 2 + grid.n[i]) * one @ one.T
            middle = grid.n[i] * kind.shares
            whole = spread + grid.noise[i] * np.eye(6)
            posterior[i] = prior[i] * multivariate_normal(middle, whole).pdf(noisy[g])
            mean[i] = middle + spread @ np.linalg.solve(whole, noisy[g] - middle)
        assert found[g] == pytest.approx(posterior @ mean / posterior.sum(), rel=1e-6, abs=1e-6)


def test_correlations_are_found_again() -> None:
    """Intra-class correlations of 0.2 and 0.05 behind noise of a tenth of the largest workplace."""
    _true, noisy, kinds, workplaces = made_up(4_000, 2, correlations=(0.2, 0.05))
    whole = noisy.astype(np.int64)
    classed = by_workplaces(whole, workplaces, variance(0.1))
    second, first, both = ShrunkGroups.learn(whole, kinds, classed, Shown([(2, 3)])).correlations
    assert 0.14 < first.sum() < 0.28
    assert 0.03 < second.sum() < 0.09
    assert both.sum() < 0.03


@pytest.mark.parametrize(("scale", "gain"), [(0.05, 0.97), (0.2, 0.8), (0.5, 0.7)])
def test_estimates_have_a_smaller_error_than_noisy_counts(scale: float, gain: float) -> None:
    true, noisy, kinds, workplaces = made_up(1_500, 3, scale=scale)
    whole = noisy.astype(np.int64)
    classed = by_workplaces(whole, workplaces, variance(scale))
    found = shrunk_counts(whole, kinds, classed, (2, 3))
    assert found.min() >= 0
    assert found.dtype == np.int64
    before = np.abs(np.maximum(noisy, 0) - true).mean()
    assert np.abs(found - true).mean() < gain * before


def test_without_noise_worth_the_name_nothing_changes() -> None:
    true, _noisy, kinds, workplaces = made_up(300, 4)
    whole = true.astype(np.int64)
    classed = by_workplaces(whole, workplaces, lambda _size: 1e-6)
    assert np.array_equal(shrunk_counts(whole, kinds, classed, (2, 3)), whole)


def test_no_groups_have_no_estimates() -> None:
    none = np.zeros((0, 6), dtype=np.int64)
    assert shrunk_counts(none, none[:, 0], Classed(none[:, 0], []), (2, 3)).shape == (0, 6)


def test_a_grid_of_one_workplace_has_all_its_workers_there() -> None:
    grid = Grid.of([0.0, 1.0, 50.0], 1.0, lambda size: size + 1, None)
    assert grid.n.tolist() == grid.x.tolist()
    assert grid.squares.tolist() == (grid.x**2).tolist()
    assert grid.noise.tolist() == [1.0, 2.0, 51.0]


def test_totals_of_a_grid_lie_between_one_workplace_and_all_as_large() -> None:
    grid = Grid.of([10.0], 30.0, lambda _size: 1.0, None)
    assert grid.n.min() == 10
    assert grid.n.max() == pytest.approx(300)
    assert (grid.squares >= grid.x**2).all()
    assert (grid.squares <= grid.x * grid.n + 1e-9).all()


def test_classes_are_made_of_like_numbers_of_workplaces() -> None:
    many = np.array([1, 2, 3, 4, 7, 8, 1])
    classed = by_workplaces(np.ones((7, 2), dtype=np.int64), many, lambda _size: 1.0)
    assert classed.classes.tolist() == [0, 1, 1, 2, 2, 3, 0]
    assert len(classed.grids) == 4


def test_a_bound_says_how_large_workplaces_and_noise_are() -> None:
    bounds = np.array([1, 100, 101, 5_000])
    classed = by_bounds(bounds, np.ones(4, dtype=np.int64), lambda total: total)
    assert classed.classes.tolist() == [0, 1, 1, 2]
    for bound, c in zip(bounds, classed.classes, strict=True):
        grid = classed.grids[c]
        assert grid.x.max() == pytest.approx(bound, rel=0.2)
        assert (grid.noise == grid.x.max()).all()


def test_marginals_of_one_draw_are_estimated_together() -> None:
    """Against the mean given all noisy counts, the redundant ones too, by a pseudo-inverse.

    Two marginals, of 2 and of 3 values, have one total; so have their noise and their estimates.
    """
    true, _noisy, kinds, workplaces = made_up(60, 2)
    counts = np.column_stack([true.reshape(-1, 2, 3).sum(axis) for axis in (2, 1)])
    rng = np.random.default_rng(3)
    total, rest = 5.0 * rng.standard_normal((60, 1)), 4.0 * rng.standard_normal((60, 5))
    rest[:, :2] -= rest[:, :2].mean(1, keepdims=True)
    rest[:, 2:] -= rest[:, 2:].mean(1, keepdims=True)
    share = np.array([1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3])
    noisy = counts + total * share + rest
    noise = 25 * np.outer(share, share)
    noise[:2, :2] += 16 * (np.eye(2) - 1 / 2)
    noise[2:, 2:] += 16 * (np.eye(3) - 1 / 3)
    classed = by_workplaces(noisy[:, :2].astype(np.int64), workplaces, lambda _size: 1.0)
    model = ShrunkGroups.learn(noisy, kinds, classed, Shown([(2,), (3,)], noise))
    found, left = model.moments()
    assert found[:, :2].sum(1) == pytest.approx(found[:, 2:].sum(1), rel=1e-6, abs=1e-4)
    assert np.abs(found - counts).mean() < np.abs(noisy - counts).mean()
    assert (left > 0).all()
    for g in range(0, 60, 7):
        kind, grid = model.known[kinds[g]], classed.grids[classed.classes[g]]
        weights, likely, mean = model.weights[classed.classes[g]], [], []
        for i, weight in enumerate(weights):
            spread = grid.spread[i] * np.outer(kind.shares, kind.shares)
            for (within, common), one in zip(model.correlations, kind.factors, strict=True):
                squares = max(grid.squares[i] - grid.n[i], 0)
                spread += (within * squares + common * grid.n[i] ** 2 + grid.n[i]) * one @ one.T
            whole, middle = spread + noise, grid.n[i] * kind.shares
            normal = multivariate_normal(middle, whole, allow_singular=True)
            likely.append(np.log(weight) + normal.logpdf(noisy[g]))
            mean.append(middle + spread @ np.linalg.pinv(whole) @ (noisy[g] - middle))
        posterior = np.exp(likely - np.max(likely))
        expected = posterior @ np.array(mean) / posterior.sum()
        assert found[g] == pytest.approx(expected, rel=1e-5, abs=1e-3)
