"""What the tests of mechanisms share: how each is made, and all neighbours of small cells."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from eree.mechanisms.mechanism import Mechanism
from eree.mechanisms.registry import MECHANISMS, mechanism
from eree.policy.neighbours import Strong

#: A right mechanism fails a test of its draws less often than once in a million runs.
FALSE_ALARM = 1e-6
SCALED = [
    "leaning-staircase",
    "smooth-pareto",
    "smooth-gamma",
    "smooth-gamma-tight",
    "smooth-laplace",
    "smooth-laplace-exact",
    "radial",
]
#: Those of one weight for all sizes, which `scaled_loss` bounds, and those with a distribution for
#: each.
ONE_WEIGHT = [name for name in SCALED if "laplace" not in name and "leaning" not in name]
PURE_SCALED = ["leaning-staircase", *ONE_WEIGHT]
TRANSFORMED = ["log-laplace", "log-laplace-tight", "linlog", "linlog-integer"]
FIXED = ["truncated-laplace", "edge-geometric", "capped-laplace"]

every = pytest.mark.parametrize("name", MECHANISMS)


def made(name: str, alpha: Any = "0.1", epsilon: Any = "2", **parameters: Any) -> Mechanism:
    """A mechanism with parameters for which each one exists."""
    return mechanism(name, alpha=alpha, epsilon=epsilon, **parameters)


def cells(alpha: Fraction, most: int) -> Iterator[tuple[int, int, int]]:
    """All (largest before, largest after, workers who joined) up to a size, by definition.

    The cell has a largest workplace of x workers, and one of y <= x, perhaps the same, grows.
    """
    strong = Strong(alpha)
    for x in range(most):
        for y in range(x + 1):
            for joined in range(1, strong.growth(y) + 1):
                yield x, max(x, y + joined), joined
