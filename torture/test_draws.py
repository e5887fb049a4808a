"""Draws by the ten million against the stated probabilities, and fast against slow at the edges."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from scipy import stats

from eree.cells import Cell
from eree.mechanisms.registry import MECHANISMS, mechanism
from eree.random.exact import exactly
from eree.random.source import Random
from torture.figures import Figures

#: A right mechanism fails here less often than once in ten million cells of the campaign.
FALSE_ALARM = 1e-7
DRAWS = 10_000_000
CELLS = [(0, 0), (3, 2), (18, 18), (250, 120)]


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize(("count", "largest"), CELLS)
def test_ten_million_draws_follow_the_stated_probabilities(
    name: str, count: int, largest: int, figures: Figures
) -> None:
    """Secret randomness, fine classes: a probability off by one part in a thousand would show."""
    chosen = mechanism(name, alpha="0.1", epsilon="2")
    cuts, below = [], []
    with exactly():
        for side in (-1, 1):
            distance = 1
            while True:
                cell = Cell(count, largest)
                probability = float(chosen.tail(cell, distance, side))
                if probability < 1e-4:
                    break
                cuts.append(count + distance if side > 0 else count - distance + 1)
                below.append(1 - probability if side > 0 else probability)
                distance += max(distance // 8, 1)
    order = np.argsort(cuts)
    edges, probabilities = np.array(cuts)[order], np.array([0.0, *np.array(below)[order], 1.0])
    observed = np.zeros(len(edges) + 1)
    random = Random()
    for _ in range(10):
        n = DRAWS // 10
        outputs = chosen.draw(np.full(n, count), np.full(n, largest), random=random)
        places = np.searchsorted(edges, outputs, side="right")
        observed += np.bincount(places, minlength=len(edges) + 1)
    expected = np.diff(probabilities) * DRAWS
    keep = expected > 50
    assert keep.sum() >= 3
    rest = [observed[~keep].sum()] if (~keep).any() else []
    rest_expected = [expected[~keep].sum()] if (~keep).any() else []
    p = stats.chisquare([*observed[keep], *rest], [*expected[keep], *rest_expected]).pvalue
    figures |= {"draws": DRAWS, "classes": len(expected), "smallest_p_of_chi_square": float(p)}
    assert p > FALSE_ALARM
    gap = np.abs(np.cumsum(observed)[:-1] / DRAWS - probabilities[1:-1]).max()
    q = float(stats.kstwobign.sf(gap * sqrt(DRAWS)))
    figures["smallest_p_of_kolmogorov_smirnov"] = q
    assert q > FALSE_ALARM
