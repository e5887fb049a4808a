"""Tail points of vector noise, for many groups at once: never too near, and not much too far."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from cases import FALSE_ALARM
from eree.cells import Cell
from eree.errors import Refusal
from eree.mechanisms.registry import VECTOR_MECHANISMS
from eree.mechanisms.vector.pareto import FAR
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Strong
from eree.random.source import SeededRandom
from selection import combinations, examples

every = pytest.mark.parametrize("name", ["vector-mixture", "vector-radial", "vector-pareto"])


def vector(name: str, alpha: str = "0.1", epsilon: str = "2", cells: int = 8) -> Any:
    return VECTOR_MECHANISMS[name].calibrate(Guarantee(Strong(alpha), epsilon), cells=cells)


@every
@examples(10, torture=100)
@given(
    st.sampled_from(["0.01", "0.1", "0.3"]),
    st.sampled_from(["0.5", "1", "3", "9"]),
    st.sampled_from([1, 2, 5, 12]),
    st.sampled_from([0.5, 0.9, 0.999, 1 - 2.0**-30]),
    st.integers(0, 10**6),
)
def test_a_half_width_is_never_below_the_exact_quantile_and_hardly_above(
    name: str, alpha: str, epsilon: str, cells: int, level: float, size: int
) -> None:
    try:
        chosen = vector(name, alpha, epsilon, cells)
    except Refusal:
        return
    exact = chosen.quantile(level, Cell(0, size))
    [width] = chosen.half_width(level, np.array([size]))
    assert exact <= width <= 1.025 * exact + 1


@pytest.mark.parametrize(
    ("name", "cells", "epsilon"),
    combinations(
        ["vector-mixture", "vector-radial", "vector-pareto"],
        [(1, "1"), (2, "1"), (8, "2"), (8, "4"), (30, "4")],
        each=3,
    ),
)
def test_sums_stay_within_their_half_width_with_the_stated_probability(
    name: str, cells: int, epsilon: str
) -> None:
    chosen, n = vector(name, epsilon=epsilon, cells=cells), 60_000 // cells
    for size in (0, 15, 30, 700, 40_000):
        counts, largests = np.zeros((n, cells), dtype=np.int64), np.full(n, size)
        sums = chosen.draw(counts, largests, random=SeededRandom(size)).sum(1)
        for level in (0.5, 0.9, 0.99):
            [width] = chosen.group_half_width(level, np.array([size]))
            held = int((np.abs(sums) <= width).sum())
            assert stats.binomtest(held, n, level, alternative="less").pvalue > FALSE_ALARM
            found = np.quantile(np.abs(sums), min(level + 4 * np.sqrt(0.25 / n), 0.999))
            assert width <= 1.3 * found + cells / 2 + 2


@every
def test_half_widths_grow_with_the_level_and_with_the_size(name: str) -> None:
    chosen, sizes = vector(name), np.unique(np.geomspace(1, 10**7, 400).astype(np.int64))
    for width in (chosen.half_width, chosen.group_half_width):
        rows = np.array([width(level, sizes) for level in (0.5, 0.8, 0.9, 0.99, 0.9999)])
        assert (np.diff(rows, axis=0) >= 0).all()
        assert (np.diff(rows, axis=1) >= 0).all()


def test_far_half_widths_meet_the_near_ones() -> None:
    """At the scale where a multiple takes over it is a little more than what was there before."""
    chosen = vector("vector-pareto")
    before, after = int(10 * FAR) - 1, int(10 * FAR)
    for width in (chosen.half_width, chosen.group_half_width):
        near, far = width(0.9, np.array([before, after]))
        assert 0.98 * near <= far <= 1.02 * near


@pytest.mark.parametrize("cells", [1, 3, 8])
def test_the_norm_of_the_radial_distribution_has_the_tail_of_its_density(cells: int) -> None:
    chosen = vector("vector-radial", cells=cells)

    def density(t: float) -> float:
        return float(t ** (cells - 1) * np.exp(chosen.log_weight(np.array([t]))[0]))

    edge = chosen.steepest
    whole = integrate.quad(density, 0, edge)[0] + integrate.quad(density, edge, np.inf)[0]
    for t in (0.1, edge / 2, edge, 3 * edge, 10 * edge):
        cut = [(t, edge), (edge, np.inf)] if t < edge else [(t, np.inf)]
        beyond = sum(integrate.quad(density, a, b)[0] for a, b in cut)
        found = chosen.shape.near_norm_tail(np.array([t]))[0]
        assert found == pytest.approx(beyond / whole, rel=1e-6)
