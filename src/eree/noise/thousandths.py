"""Laplace noise around counts in thousandths of a job, rounded to whole jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb
from numpy.typing import NDArray

from eree.noise.exact import (
    Whole,
    Words,
    coarse,
    exact_ball,
    halves,
    rounded,
    sure_halves,
    sure_round,
)

#: A job in the unit of scaled counts.
JOB = 1000


@dataclass(frozen=True, eq=False)
class LaplaceOfThousandths:
    """count / 1000 + scale L, rounded to the nearest whole number; L of the law e^-|z| / 2.

    Recipe: a sign and E = -ln(U).  The fast path knows U >= 2^-20 to within 2^-42 of itself, hence
    scale E to within scale 2^-41 + scale E 2^-47 with room to spare; whole jobs are added after
    rounding, and what is left of the count is below 1.
    """

    counts: Whole
    scales: tuple[Fraction, ...]
    which: NDArray[np.intp]  # the place of each cell's scale among them
    uniforms = 1

    @cached_property
    def _near(self) -> NDArray[np.float64]:
        return np.array([float(scale) for scale in self.scales])

    def fast(self, words: Words, cells: NDArray[np.intp]) -> tuple[Whole, NDArray[np.int8]]:
        """Values and verdicts; nothing is ever rejected."""
        uniform, sign = halves(words[0])
        whole, rest = np.divmod(self.counts[cells], JOB)
        scale = self._near[self.which[cells]]
        noise = scale * -np.log(uniform)
        error = scale * 2.0**-41 + (1 + noise) * 2.0**-47
        values, verdicts = rounded(rest / JOB + sign * noise, error, coarse(uniform))
        return whole + values, verdicts

    def slow(self, uniforms: Sequence[arb], cell: int) -> int:
        """The same in interval arithmetic."""
        uniform, sign = sure_halves(uniforms[0])
        count = exact_ball(Fraction(int(self.counts[cell]), JOB))
        return sure_round(count - sign * exact_ball(self._scale(cell)) * uniform.log())

    def beyond(self, output: int, side: int, cell: int) -> arb:
        """The chance of at least (side 1) or at most (side -1) an output."""
        depth = side * (output - Fraction(int(self.counts[cell]), JOB)) - Fraction(1, 2)
        half = (-exact_ball(abs(depth) / self._scale(cell))).exp() / 2
        return half if depth > 0 else 1 - half

    def pmf(self, output: int, cell: int) -> arb:
        """The chance of an output."""
        side = 1 if JOB * output >= int(self.counts[cell]) else -1
        return self.beyond(output, side, cell) - self.beyond(output + side, side, cell)

    def _scale(self, cell: int) -> Fraction:
        return self.scales[int(self.which[cell])]
