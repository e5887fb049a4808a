"""Sums of the noise of margins given its norm: against points drawn in another way."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from cases import FALSE_ALARM
from eree.noise.margin_sums import MarginSums

Array = NDArray[np.float64]
SHARES = np.array([0.02, 0.1, 0.25, 0.5, 0.7, 0.9, 0.99])


def directions(values: int, n: int, seed: int) -> Array:
    """Points (e, f) of norm 1: uniform points of the ball times an interval, over their norm."""
    rng = np.random.default_rng(seed)
    sizes = rng.exponential(size=(n, values + 1))
    inside = sizes[:, :values] / sizes.sum(axis=1, keepdims=True)  # uniform, of a sum below 1
    e = inside * rng.choice([-1, 1], size=inside.shape)
    f = rng.uniform(-1, 1, size=n)
    norm = np.maximum(np.abs(e).sum(axis=1), np.abs(f))
    return np.column_stack([e, f]) / norm[:, None]


@pytest.mark.parametrize("values", [1, 2, 3, 4, 9, 30])
def test_shares_of_the_norm_have_the_stated_chances(values: int) -> None:
    n, law = 40_000, MarginSums(values)
    points = directions(values, n, seed=values)
    total = np.abs(points[:, :-1].sum(axis=1))
    half = np.abs(points.sum(axis=1)) / 2
    for sizes, stated in ((total, law.total_within(SHARES)), (half, law.half_within(SHARES))):
        for share, chance in zip(SHARES, stated, strict=True):
            within = int((sizes <= share).sum())
            assert stats.binomtest(within, n, float(chance)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("values", [1, 4, 30])
def test_a_law_ten_percent_off_is_told_apart(values: int) -> None:
    n, law = 40_000, MarginSums(values)
    half = np.abs(directions(values, n, seed=7).sum(axis=1)) / 2
    for off in (0.9, 1.1):
        stated = law.half_within(off * SHARES)
        seen = [
            stats.binomtest(int((half <= s).sum()), n, min(float(c), 1.0)).pvalue
            for s, c in zip(SHARES, stated, strict=True)
        ]
        assert min(seen) < FALSE_ALARM


@pytest.mark.parametrize("values", [1, 2, 5, 63])
def test_chances_grow_from_nothing_to_all(values: int) -> None:
    law, shares = MarginSums(values), np.linspace(0, 1, 301)
    for within in (law.total_within, law.half_within):
        found = within(shares)
        assert found[0] == pytest.approx(0, abs=1e-12)
        assert found[-1] == pytest.approx(1, abs=1e-12)
        assert (np.diff(found) >= -1e-12).all()
    y = np.linspace(-1, 1, 41)
    below = law.ball_below(y)
    assert below == pytest.approx(1 - below[::-1], abs=1e-12)
    assert (np.diff(below) >= -1e-12).all()


def test_one_value_is_a_square_whose_corners_are_the_steps() -> None:
    """e and f are alike, and half of their sum is as likely to be anything from 0 to the norm."""
    law = MarginSums(1)
    assert law.half_within(SHARES) == pytest.approx(SHARES)
    assert law.total_within(SHARES) == pytest.approx(SHARES / 2)
