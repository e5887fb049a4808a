"""Rows of noise on a bent scale: all counts of a group are lifted, noised together and let down."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray

from eree.noise.bent import Knots
from eree.noise.exact import Verdict, Whole, Words, exact_ball, rounded, sure_round
from eree.noise.rows import Array, Flags, Row

Interval = tuple[arb, arb]


@dataclass(frozen=True, eq=False)
class BentRows(ABC):
    """lower(h(n_i) + spread z_i), each number rounded; z of some law of rows."""

    bend: Knots
    counts: Whole  # a row per group
    spread: Fraction

    @property
    def width(self) -> int:
        """d."""
        return int(self.counts.shape[1])

    @property
    @abstractmethod
    def uniforms(self) -> int:
        """How many uniform numbers one try takes."""

    @abstractmethod
    def near_noise(self, words: Words) -> tuple[Array, Array, Flags]:
        """z in doubles, a row per number; to within what, and where there is doubt, by group."""

    @abstractmethod
    def sure_noise(self, uniforms: Sequence[arb]) -> list[arb]:
        """The same for one group in interval arithmetic."""

    @abstractmethod
    def tail(self, x: arb) -> arb:
        """The chance that one number of z is at least x >= 0; z and -z have the same law."""

    @abstractmethod
    def box(self, box: Sequence[Interval], times: Sequence[int]) -> arb:
        """The chance of a box: each interval is that of as many numbers as `times` says."""

    def fast(self, words: Words, groups: NDArray[np.intp]) -> tuple[Whole, NDArray[np.int8]]:
        """Rows and verdicts; nothing is ever rejected."""
        z, off, doubt = self.near_noise(words)
        noise = float(self.spread) * z
        lifted = self.bend.near_lift(self.counts[groups].T)
        value, slope = self.bend.near_lower(lifted + noise)
        loose = float(self.spread) * off + (1 + np.abs(lifted) + np.abs(noise)) * 2.0**-45
        error = slope * loose + np.abs(value) * 2.0**-45
        values, verdicts = rounded(value, error, doubt[None, :])
        undecided = (verdicts == Verdict.DOUBT).any(axis=0)
        return values.T, np.where(undecided, Verdict.DOUBT, Verdict.ACCEPT).astype(np.int8)

    def slow(self, uniforms: Sequence[arb], group: int) -> Row:
        """The same in interval arithmetic."""
        bend, spread = self.bend, exact_ball(self.spread)
        noise, counts = self.sure_noise(uniforms), self.counts[group].tolist()
        return tuple(
            sure_round(bend.lower(bend.lift(count) + spread * z))
            for z, count in zip(noise, counts, strict=True)
        )

    def beyond(self, output: int, side: int, *, count: int) -> arb:
        """The chance that one number is at least (side 1) or at most (side -1) an output."""
        height = self.bend.height_of(arb(output) - arb(side) / 2)
        depth = side * (height - self.bend.lift(count)) / exact_ball(self.spread)
        return self.tail(depth) if depth > 0 else 1 - self.tail(-depth)

    def pmf(self, outputs: Sequence[int], group: int) -> arb:
        """The chance of a row of outputs."""
        cells = Counter(zip(outputs, self.counts[group].tolist(), strict=True))
        box = []
        for output, count in cells:
            lift, spread = self.bend.lift(count), exact_ball(self.spread)
            low, high = (self.bend.height_of(output + arb(side) / 2) for side in (-1, 1))
            box.append(((low - lift) / spread, (high - lift) / spread))
        return self.box(box, list(cells.values()))
