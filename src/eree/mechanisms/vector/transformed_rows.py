"""Rows of noise on transformed counts of a group, and the inverse transform of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray

from eree.mechanisms.transformed.transform import Knots
from eree.mechanisms.vector.boxes import BoxPlateaus
from eree.random.exact import (
    Array,
    Flags,
    Integers,
    Row,
    Verdict,
    Words,
    coarse,
    exact_ball,
    near,
    rounded,
    sure_floor,
    sure_round,
)


@dataclass(frozen=True, eq=False)
class TransformedBoxes:
    """inverse(h(n_i) + spread z_i), each number rounded; z of a staircase.

    Recipe: m by its probabilities, k uniform from 0 to m, and all numbers uniform on
    [-(first + m - k), first + k], each known to within 2^-49 of the side.
    """

    transform: Knots
    counts: Integers  # a row per group
    spread: Fraction
    plateaus: BoxPlateaus

    @property
    def width(self) -> int:
        """d."""
        return int(self.counts.shape[1])

    @property
    def uniforms(self) -> int:
        """One for m, one for k, and one for each number."""
        return self.width + 2

    def fast(self, words: Words, groups: NDArray[np.intp]) -> tuple[Integers, NDArray[np.int8]]:
        """Rows and verdicts; nothing is ever rejected."""
        z, off, doubt = self._near_noise(words)
        noise = float(self.spread) * z
        transformed = self.transform.near_forward(self.counts[groups].T)
        value, slope = self.transform.near_inverse(transformed + noise)
        loose = float(self.spread) * off + (1 + np.abs(transformed) + np.abs(noise)) * 2.0**-45
        error = slope * loose + np.abs(value) * 2.0**-45
        values, verdicts = rounded(value, error, doubt[None, :])
        undecided = (verdicts == Verdict.DOUBT).any(axis=0)
        return values.T, np.where(undecided, Verdict.DOUBT, Verdict.ACCEPT).astype(np.int8)

    def _near_noise(self, words: Words) -> tuple[Array, Array, Flags]:
        """z in doubles, a row per number; to within what, and where there is doubt, by group."""
        tails, uniform = self.plateaus.tails, near(words[0])
        rising = tails[::-1]
        at = np.searchsorted(rising, uniform, side="right")
        m = (len(tails) - at).astype(np.float64)
        gaps = [np.abs(rising[np.clip(at - i, 0, len(tails) - 1)] - uniform) for i in (0, 1)]
        doubt = coarse(uniform) | (np.minimum(*gaps) < 2.0**-48)
        place = near(words[1]) * (m + 1)
        doubt |= np.abs(place - np.rint(place)) < (m + 1) * 2.0**-48
        first = float(self.plateaus.first)
        side = 2 * first + m
        low = first + m - np.floor(place)
        return side * near(words[2:]) - low, side * 2.0**-49, doubt

    def slow(self, uniforms: Sequence[arb], group: int) -> Row:
        """The same in interval arithmetic."""
        transform, spread, plateaus = self.transform, exact_ball(self.spread), self.plateaus
        m = plateaus.sure_sides(uniforms[0])
        k = sure_floor(uniforms[1] * (m + 1))
        side, low = exact_ball(plateaus.side(m)), exact_ball(plateaus.first + m - k)
        return tuple(
            sure_round(
                transform.inverse(transform.forward(count) + spread * (side * uniform - low))
            )
            for uniform, count in zip(uniforms[2:], self.counts[group].tolist(), strict=True)
        )

    def tail(self, output: int, side: int, count: int) -> arb:
        """The probability that one number is at least (side 1) or at most (side -1) an output."""
        end = self.transform.preimage(arb(output) - arb(side) / 2)
        depth = side * (end - self.transform.forward(count)) / exact_ball(self.spread)
        return self.plateaus.tail(depth) if depth > 0 else 1 - self.plateaus.tail(-depth)

    def pmf(self, outputs: Sequence[int], group: int) -> arb:
        """The probability of a row of outputs."""
        cells = Counter(zip(outputs, self.counts[group].tolist(), strict=True))
        box = []
        for output, count in cells:
            centre, spread = self.transform.forward(count), exact_ball(self.spread)
            low, high = (self.transform.preimage(output + arb(side) / 2) for side in (-1, 1))
            box.append(((low - centre) / spread, (high - centre) / spread))
        return self.plateaus.box(box, list(cells.values()))
