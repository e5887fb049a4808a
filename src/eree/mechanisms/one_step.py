"""How far one step moves the counts and the scale: what bounds of scaled laws know of neighbours.

Noise has the scale s(x) = max(pace x, 1), x the largest workplace, or the largest total.  Let a
workplace of y <= x workers grow by D <= max(alpha y, 1).  The largest becomes x' = max(x, y + D),
the scale r s, s = s(x), and the counts move by rho s <= D in all.  Then

    1 <= r <= 1 + max(alpha, pace)   and   rho <= max(1, alpha r / (pace (1 + alpha))).

The first: x' <= max((1 + alpha) x, x + 1), and pace x' <= pace x + max(alpha pace x, pace), which
is at most (1 + max(alpha, pace)) s.  The second: if D <= 1, rho <= 1 / s <= 1.  Else D <= alpha y,
hence D <= alpha (y + D) / (1 + alpha) <= alpha x' / (1 + alpha), and pace x' <= r s.

Where pace = alpha, that is rho <= 1 and r <= 1 + alpha.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class OneStep:
    """What one step can do to laws whose scale grows by `pace` with each worker."""

    alpha: float
    pace: float

    @property
    def most_ratio(self) -> float:
        """The greatest r."""
        return 1 + max(self.alpha, self.pace)

    @property
    def slope(self) -> float:
        """From `kink` on the greatest rho is slope r."""
        return self.alpha / (self.pace * (1 + self.alpha))

    @property
    def kink(self) -> float:
        """The r up to which the greatest rho is 1."""
        return 1 / self.slope

    def most_shift(self, r: Array) -> Array:
        """The greatest rho at a ratio; it does not fall with r, and divided by r does not rise."""
        shift: Array = np.maximum(self.slope * r, 1.0)
        return shift


def scale_at(pace: Fraction, size: int) -> Fraction:
    """s(x), exactly."""
    return max(pace * size, Fraction(1))


def growths(alpha: Fraction, size: int, ratio: float) -> Iterator[tuple[int, int]]:
    """Workplaces of y workers and how many join them, in a cell whose largest workplace has `size`.

    The largest itself grows, by all that it can or by one worker; another one takes over, so that
    the largest grows by about `ratio`; and others grow while the largest stays.
    """
    found = {(size, max(int(alpha * size), 1)), (size, 1)}
    for after in (size, round(ratio * size)):
        joined = max(int(alpha * after / (1 + alpha)), 1)
        if 0 <= after - joined <= size:
            found.add((after - joined, joined))
    if size > 0:
        found.add((size - 1, 1))
    yield from sorted(found)
