"""Every mechanism over the papers' grid, and over parameters nobody chose."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from eree.cells import Cell
from eree.errors import Refusal
from eree.mechanisms.grid import certify_grid
from eree.mechanisms.registry import MECHANISMS, VECTOR_MECHANISMS, mechanism
from eree.mechanisms.staircase.certificate import far_loss
from eree.mechanisms.staircase.leaning_staircase import LeaningStaircase
from eree.policy.neighbours import Strong
from torture import grid_page
from torture.figures import Figures

PAGE = Path(__file__).parents[1] / "docs" / "certificates.md"
#: Fixed noise is the same for every alpha; it has its own tests.
GROWING = [
    name
    for name in MECHANISMS
    if name not in ("truncated-laplace", "edge-geometric", "capped-laplace")
]
RANDOM_POINTS = 40
PAIRS = 400


def test_every_claim_of_the_grid_holds_and_the_page_shows_it(figures: Figures) -> None:
    points = certify_grid([*GROWING, *VECTOR_MECHANISMS])
    figures["points"] = len(points)
    figures["points_without_a_mechanism"] = sum(point.refusal is not None for point in points)
    figures["claims_broken"] = sum(point.holds is False for point in points)
    assert [point for point in points if point.holds is False] == []
    grid, page = grid_page.grid(points), PAGE.read_text(encoding="utf-8")
    if os.environ.get("PAGE"):
        grid_page.GRID.write_text(grid, encoding="utf-8")
        PAGE.write_text(grid_page.replaced(page, grid_page.table(grid)), encoding="utf-8")
    else:
        assert grid_page.GRID.read_text(encoding="utf-8") == grid


@pytest.mark.parametrize(
    ("alpha", "epsilon"), [("0.1", "1"), ("0.1", "2"), ("0.1", "4"), ("0.05", "0.8")]
)
def test_no_output_of_any_bin_loses_more(alpha: str, epsilon: str, figures: Figures) -> None:
    """All outputs of the default mechanism, for all bins: nothing is left to its theorem."""
    chosen = mechanism("leaning-staircase", alpha=alpha, epsilon=epsilon)
    assert isinstance(chosen, LeaningStaircase)
    bins = range(chosen.densities.levels.last + 1)
    figures["bins"] = len(bins)
    figures["times_epsilon_is_the_greatest_loss"] = far_loss(chosen, bins).found / float(
        Fraction(epsilon)
    )
    assert figures["times_epsilon_is_the_greatest_loss"] <= 1


@pytest.mark.parametrize("name", GROWING)
def test_random_parameters_certify_and_no_random_neighbours_lose_more(
    name: str, figures: Figures
) -> None:
    """Random alphas and epsilons; random cells, the largest or another workplace growing."""
    rng = np.random.default_rng(sum(name.encode()))
    certified = compared = 0
    for _ in range(RANDOM_POINTS):
        alpha = Fraction(int(rng.integers(2, 400)), 1_000)
        epsilon = Fraction(int(rng.integers(20, 600)), 100)
        try:
            chosen = mechanism(name, alpha=alpha, epsilon=epsilon)
        except Refusal:
            continue
        certificate = chosen.certify()
        assert certificate.holds, (name, alpha, epsilon)
        certified += 1
        if certificate.claimed_delta:
            continue
        strong = Strong(alpha)
        for _ in range(PAIRS // RANDOM_POINTS * 4):
            x = int(rng.choice([0, 1, *rng.integers(0, 60, 3), rng.integers(0, 5_000)]))
            y = int(rng.choice([x, rng.integers(0, x + 1)]))
            joined = int(rng.integers(1, strong.growth(y) + 1))
            others = int(rng.choice([0, 0, rng.integers(0, 200)])) * (y > 0)
            count = x + (y if y != x else 0) + others
            after = max(x, y + joined)
            output = count + int(rng.choice([0, joined, rng.normal(0, 3 * (1 + joined)), -count]))
            old = chosen.log_pmf(Cell(count, x), output)
            new = chosen.log_pmf(Cell(count + joined, after), output)
            if max(old, new) > -np.inf:
                assert abs(old - new) <= certificate.found_epsilon + 1e-11
                compared += 1
    figures |= {"certificates": certified, "pairs_of_probabilities_compared": compared}
    assert certified >= RANDOM_POINTS // 4
