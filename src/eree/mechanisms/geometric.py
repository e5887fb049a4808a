"""Geometric noise on the integers, with or without a cap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from eree.random.exact import (
    Integers,
    Verdict,
    Words,
    coarse,
    exact_ball,
    halves,
    sure_floor,
    sure_halves,
)


@dataclass(frozen=True, eq=False)
class CappedGeometric:
    """P(k) proportional to e^(-rate |k|) for |k| <= cap; without a cap for all integers.

    Recipe: a sign and the greatest k with U < P(|K| >= k).  With q = e^-rate that is the whole part
    of -ln(X) / rate, X = U f + e, where f = N (1 - q) / 2, N the sum of the weights, and
    e = q^(cap + 1), or 0 without a cap.  U >= 2^-20 is known to within 2^-42 of itself, so X is,
    and the quotient to within (1 / rate + the quotient) 2^-41.
    """

    rate: Fraction
    cap: int | None = None
    uniforms = 1

    def fast(self, words: Words, _cells: NDArray[np.intp]) -> tuple[Integers, NDArray[np.int8]]:
        """Values and verdicts; nothing is ever rejected."""
        uniform, sign = halves(words[0])
        before, ctx.prec = ctx.prec, 128
        try:
            factor, end = (float(part) for part in self._parts())
        finally:
            ctx.prec = before
        steps = -np.log(uniform * factor + end) / float(self.rate)
        doubt = coarse(uniform)
        doubt |= np.abs(steps - np.rint(steps)) < (steps + float(1 / self.rate)) * 2.0**-40
        values = np.where(doubt, 0, np.floor(steps)).astype(np.int64)
        return sign * values, np.where(doubt, Verdict.DOUBT, Verdict.ACCEPT).astype(np.int8)

    def slow(self, uniforms: Sequence[arb], _cell: int) -> int:
        """The same in interval arithmetic."""
        uniform, sign = sure_halves(uniforms[0])
        factor, end = self._parts()
        return sign * sure_floor(-(uniform * factor + end).log() / exact_ball(self.rate))

    def tail(self, value: int, _cell: int) -> arb:
        """The probability that the noise is at least `value`, for value >= 1."""
        if self.cap is not None and value > self.cap:
            return arb(0)
        factor, end = self._parts()
        return ((-exact_ball(self.rate) * value).exp() - end) / (2 * factor)

    def centre(self) -> arb:
        """The probability that the noise is 0."""
        return 1 - 2 * self.tail(1, 0)

    def _parts(self) -> tuple[arb, arb]:
        """f and e of the recipe."""
        rate = exact_ball(self.rate)
        q = (-rate).exp()
        end = arb(0) if self.cap is None else (-rate * (self.cap + 1)).exp()
        return (1 + q) / 2 - end, end
