"""Distributions of noise on the integers: their exact probabilities and their exact draws.

A scale is kept as a whole size over a common exact factor, scale = max(pace * size, 1) * factor,
so that the slow path knows it without rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray

from eree.random.exact import (
    Integers,
    Verdict,
    Words,
    coarse,
    exact_ball,
    halves,
    rounded,
    sure_floor,
    sure_halves,
    sure_less,
    sure_round,
)


@dataclass(frozen=True, eq=False)
class Scales:
    """The scale of each cell: max(pace * size, 1) * factor."""

    sizes: Integers
    pace: Fraction
    factor: Fraction

    def of(self, cell: int) -> Fraction:
        """The exact scale of one cell."""
        return max(self.pace * int(self.sizes[cell]), Fraction(1)) * self.factor

    def near(self, cells: NDArray[np.intp]) -> NDArray[np.float64]:
        """The scales of some cells, each to within 2^-50 of itself."""
        near: NDArray[np.float64] = np.maximum(self.sizes[cells] * float(self.pace), 1.0)
        return near * float(self.factor)


@dataclass(frozen=True, eq=False)
class RoundedLaplace:
    """scale * L rounded to the nearest integer, L of the density e^-|z| / 2.

    Recipe: a sign and E = -ln(U).  The fast path knows U >= 2^-20 to within 2^-42 of itself, hence
    E to within 2^-42 + E 2^-49 and y = scale E to within scale 2^-41 + y 2^-47 with room to spare.
    """

    scales: Scales
    uniforms = 1

    def fast(self, words: Words, cells: NDArray[np.intp]) -> tuple[Integers, NDArray[np.int8]]:
        """Values and verdicts; nothing is ever rejected."""
        uniform, sign = halves(words[0])
        scale = self.scales.near(cells)
        noise = scale * -np.log(uniform)
        error = scale * 2.0**-41 + noise * 2.0**-47
        values, verdicts = rounded(noise, error, coarse(uniform))
        return sign * values, verdicts

    def slow(self, uniforms: Sequence[arb], cell: int) -> int:
        """The same in interval arithmetic."""
        uniform, sign = sure_halves(uniforms[0])
        return sign * sure_round(exact_ball(self.scales.of(cell)) * -uniform.log())

    def tail(self, value: int, cell: int) -> arb:
        """The probability that the noise is at least `value`, for value >= 1."""
        scale = exact_ball(self.scales.of(cell))
        return (-(arb(value) - arb("0.5")) / scale).exp() / 2


@dataclass(frozen=True, eq=False)
class RoundedQuartic:
    """scale * Z rounded to the nearest integer, Z of the density proportional to 1 / (1 + z^4).

    Recipe: a sign and Z = cot(pi U / 2), of the density proportional to 1 / (1 + z^2), accepted
    with probability (1 + Z^2) / (1 + Z^4) / C, C = (1 + sqrt(2)) / 2, its greatest value.  The fast
    path knows U >= 2^-20 to within 2^-42 of itself, hence Z to within (Z + 1) 2^-41, and the other
    uniform number to within 2^-64.
    """

    scales: Scales
    uniforms = 2

    def fast(self, words: Words, cells: NDArray[np.intp]) -> tuple[Integers, NDArray[np.int8]]:
        """Values and verdicts."""
        uniform, sign = halves(words[0])
        z = 1 / np.tan(uniform * (np.pi / 2))
        square = z * z
        trial = (words[1].astype(np.float64) + 0.5) * 2.0**-64
        most = (1 + np.sqrt(2)) / 2 * (1 + square * square)
        left, right = trial * most, 1 + square
        scale = self.scales.near(cells)
        noise = scale * z
        doubt = coarse(uniform)
        doubt |= np.abs(left - right) < (left + right) * 2.0**-36 + most * 2.0**-63
        values, verdicts = rounded(noise, (noise + scale) * 2.0**-39, doubt)
        verdicts[(left > right) & ~doubt] = Verdict.REJECT
        return sign * values, verdicts

    def slow(self, uniforms: Sequence[arb], cell: int) -> int | None:
        """The same in interval arithmetic."""
        uniform, sign = sure_halves(uniforms[0])
        z = 1 / (uniform * arb.pi() / 2).tan()
        greatest = (1 + arb(2).sqrt()) / 2
        if not sure_less(uniforms[1] * greatest * (1 + z**4), 1 + z**2):
            return None
        return sign * sure_round(exact_ball(self.scales.of(cell)) * z)

    def tail(self, value: int, cell: int) -> arb:
        """The probability that the noise is at least `value`, for value >= 1."""
        z = (arb(value) - arb("0.5")) / exact_ball(self.scales.of(cell))
        root = arb(2).sqrt()
        logarithm = ((z**2 + root * z + 1) / (z**2 - root * z + 1)).log()
        angle = (root * z + 1).atan() + (root * z - 1).atan()
        return arb("0.5") - (logarithm / 2 + angle) / (2 * arb.pi())


@dataclass(frozen=True, eq=False)
class LatticePareto:
    """P(k) proportional to (1 + c |k| / S)^-p on the integers, S = max(pace * size, 1).

    With q = c / S: a try is 0 with probability 1 / (1 + 2 J), J = 1 / (q (p - 1)); else it has a
    sign and a point y of the density proportional to (1 + q y)^-p, that is 1 + q y = V^(-1 / (p -
    1)), and gives k = floor(y) + 1 if a third uniform is below ((1 + q k) / (1 + q y))^-p.
    Integrated over y in [k - 1, k), the probability of k is proportional to (1 + q k)^-p.
    """

    scales: Scales  # its factor is 1 / c, so that a scale is 1 / q
    power: Fraction
    uniforms = 3

    def fast(self, words: Words, cells: NDArray[np.intp]) -> tuple[Integers, NDArray[np.int8]]:
        """Values and verdicts."""
        power = float(self.power)
        scale = self.scales.near(cells)
        whole = 1 + 2 * scale / (power - 1)
        first = (words[0].astype(np.float64) + 0.5) * 2.0**-64 * whole
        uniform, sign = halves(words[1])
        rise = -np.log(uniform) / (power - 1)  # ln(1 + q y)
        y = scale * np.expm1(rise)
        k = np.floor(y) + 1
        third = (words[2].astype(np.float64) + 0.5) * 2.0**-64
        bar = np.exp(power * (rise - np.log1p(k / scale)))
        doubt = coarse(uniform) | (np.abs(third - bar) < 2.0**-32)
        doubt |= np.abs(y - np.rint(y)) < (y + scale) * 2.0**-38
        verdicts = np.where(third < bar, Verdict.ACCEPT, Verdict.REJECT).astype(np.int8)
        verdicts[doubt] = Verdict.DOUBT
        zero = first < 1
        verdicts[zero] = Verdict.ACCEPT
        verdicts[np.abs(first - 1) < 2.0**-40 * whole] = Verdict.DOUBT
        return np.where(zero, 0, sign * np.where(doubt, 0, k).astype(np.int64)), verdicts

    def slow(self, uniforms: Sequence[arb], cell: int) -> int | None:
        """The same in interval arithmetic."""
        scale, power = exact_ball(self.scales.of(cell)), exact_ball(self.power)
        if sure_less(uniforms[0] * (1 + 2 * scale / (power - 1)), arb(1)):
            return 0
        uniform, sign = sure_halves(uniforms[1])
        rise = -uniform.log() / (power - 1)
        k = sure_floor(scale * rise.expm1()) + 1
        bar = (power * (rise - (k / scale).log1p())).exp()
        return sign * k if sure_less(uniforms[2], bar) else None

    def tail(self, value: int, cell: int) -> arb:
        """The probability that the noise is at least `value`, for value >= 1."""
        scale, power = exact_ball(self.scales.of(cell)), exact_ball(self.power)
        # (1 + k / scale)^-p summed from k = value on is scale^p zeta(p, scale + value)
        beyond = power.zeta(scale + value)
        return beyond / (scale ** (-power) + 2 * power.zeta(scale + 1))
