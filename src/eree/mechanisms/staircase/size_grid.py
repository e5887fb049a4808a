"""The size grid: bins of sizes of workplaces, and how far a number of growth steps can lead.

A bin stands for some neighbouring sizes; its top is the largest of them.  Up to `UNITS`
units of 1 / alpha the tops are integers; from there on they are X rho^k with a real rho, so
that the grid looks the same from every bin.  A step of a workplace leads from a bin to one
that is at most `up` of it, and adds at most `cap` of the higher bin to the count.  These are all
moves that neighbours have, and a few more: noise that protects them protects every neighbour.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from math import ceil, exp, log, log1p
from typing import TypeVar

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from eree.random.exact import Array, Integers, exact_ball, sure_floor

Result = TypeVar("Result")
Bins = NDArray[np.intp]

#: How many workers may join at once where single workers no longer matter.
UNITS = 30
#: The share by which steps are taken to add more than they can, so that doubles tell the edges of
#: neighbours apart.
_MARGIN = Fraction(1, 1 << 30)
_GRAIN = 1 << 60
#: Bits of the numbers that doubles are taken from, whatever precision is set.
_BITS = 192


@dataclass(frozen=True)
class SizeGrid:
    """The bins for an alpha, and the half-widths of the centre of a distribution at each of them.

    `parts` is the most bins to a unit of 1 / alpha; `right` and `left` are the integers above
    and below zero that belong to the centre where a workplace may grow by `UNITS`.
    """

    alpha: Fraction
    parts: int
    right: int
    left: int

    @cached_property
    def per_step(self) -> int:
        """How many large bins a growth by alpha leads up: fewer where a growth is small."""
        return next((m for m, a in ((16, 20), (8, 50), (4, 200)) if a * self.alpha >= 1), 2)

    def growth(self, size: int) -> int:
        """The most by which a workplace of so many workers grows."""
        return max(self.alpha.numerator * size // self.alpha.denominator, 1)

    def most_joined(self, size: int) -> int:
        """The most who can have joined at once where no workplace has more than `size` workers.

        At least 1, also where nobody works.
        """
        up, down = self.alpha.numerator, self.alpha.denominator
        d = max(up * size // (up + down), 1)
        while d < size and d + 1 <= self.growth(size - d - 1):
            d += 1
        return d

    @cached_property
    def tops(self) -> Integers:
        """The tops of the small bins; no bin extends over two units."""
        tops = [0]
        for n in range(UNITS):
            first, after = ceil(n / self.alpha), ceil((n + 1) / self.alpha)
            pieces = min(self.parts, after - first)
            ends = (first - 1 + (after - first) * i // pieces for i in range(1, pieces + 1))
            tops += [end for end in ends if end > tops[-1]]
        return np.array(tops, dtype=np.int64)

    @cached_property
    def first_large(self) -> int:
        """The number of the bin from which on tops are real numbers."""
        return len(self.tops)

    @cached_property
    def start(self) -> int:
        """X, the top of that bin."""
        return ceil(UNITS / self.alpha)

    @cached_property
    def ratio(self) -> Fraction:
        """rho: `per_step` of it are at least a growth by alpha."""
        growth = 1 + self.alpha
        near = _precisely(
            lambda: sure_floor((exact_ball(growth).root(self.per_step) * _GRAIN).mid())
        )
        return Fraction(near + 2, _GRAIN)

    @cached_property
    def share(self) -> Fraction:
        """The most that can have joined, as a share of a large bin's top."""
        least = self.alpha / (1 + self.alpha) * (1 + _MARGIN)
        return Fraction(ceil(least * _GRAIN), _GRAIN)

    def bin_of(self, size: int) -> int:
        """The lowest bin whose top is at least a size."""
        if size < self.start:
            return int(np.searchsorted(self.tops, size))
        k = max(ceil(log(size / self.start) / log(float(self.ratio))) - 2, 0)
        while _precisely(partial(self.top, self.first_large + k)) < size:
            k += 1
        return self.first_large + k

    def bins_of(self, sizes: Integers) -> Bins:
        """The same for many sizes."""
        found: Bins = self._small_bins[np.minimum(sizes, self.start - 1)]
        large = np.flatnonzero(sizes >= self.start)
        distinct, place = np.unique(sizes[large], return_inverse=True)
        steps = np.log(distinct / self.start) / log(float(self.ratio))
        bins = self.first_large + np.ceil(steps).astype(np.intp)
        for i in np.flatnonzero(np.abs(steps - np.rint(steps)) < 1e-6):
            bins[i] = self.bin_of(int(distinct[i]))
        found[large] = bins[place]
        return found

    @cached_property
    def _small_bins(self) -> Bins:
        """The bins of all sizes below the first large one."""
        return np.searchsorted(self.tops, np.arange(self.start))

    # ------------------------------------------------------------------ numbers by bin

    @cached_property
    def _small_up(self) -> Bins:
        return np.array([self.bin_of(int(t) + self.growth(int(t))) for t in self.tops])

    def up(self, bins: Bins) -> Bins:
        """The highest bin to which one step leads."""
        small = self._small_up[np.minimum(bins, self.first_large - 1)]
        found: Bins = np.where(bins < self.first_large, small, bins + self.per_step)
        return found

    def numbers(self, bins: int) -> Numbers:
        """Tops, caps and half-widths in doubles, of at least so many bins."""
        size = 1 << max(bins - 1, 1).bit_length()
        known = self.__dict__.setdefault("_numbers", {})
        if size not in known:
            known[size] = _precisely(lambda: self._numbers_of(size))
        found: Numbers = known[size]
        return found

    def _numbers_of(self, count: int) -> Numbers:
        small, ratio = min(count, self.first_large), exact_ball(self.ratio)
        tops = [float(top) for top in self.tops]
        caps, rights, lefts = (list(column) for column in self.small_numbers)
        top = arb(self.start)
        parts = [exact_ball(share) for share in self.shares]
        for _ in range(small, count):
            tops.append(float(top))
            for column, part in zip((caps, rights, lefts), parts, strict=True):
                column.append(float(part * top))
            top *= ratio
        return Numbers(*(np.array(numbers) for numbers in (tops, caps, rights, lefts)))

    @cached_property
    def small_numbers(self) -> tuple[list[float], ...]:
        """Caps and half-widths, above and below, of the small bins."""
        tops = [int(top) for top in self.tops]
        widths = ([self._small_width(top, side) + 0.5 for top in tops] for side in (1, -1))
        return [float(self.most_joined(top)) for top in tops], *widths

    @cached_property
    def shares(self) -> tuple[Fraction, ...]:
        """The same of a large bin, as shares of its top."""
        halves = (Fraction(2 * most + 1, 2 * self.start) for most in (self.right, self.left))
        return self.share, *halves

    def top(self, size_bin: int) -> arb:
        """The top of a bin, at the precision set."""
        if size_bin < self.first_large:
            return arb(int(self.tops[size_bin]))
        return exact_ball(self.ratio) ** (size_bin - self.first_large) * self.start

    def cap(self, size_bin: int) -> arb:
        """The most by which a count grows when this or another workplace comes to lie in a bin."""
        if size_bin < self.first_large:
            return arb(self.most_joined(int(self.tops[size_bin])))
        return exact_ball(self.share) * self.top(size_bin)

    def width(self, size_bin: int, side: int) -> arb:
        """The half-width of the centre of a distribution on a side."""
        most = self.right if side > 0 else self.left
        if size_bin < self.first_large:
            return arb(2 * self._small_width(int(self.tops[size_bin]), side) + 1) / 2
        return exact_ball(Fraction(2 * most + 1, 2 * self.start)) * self.top(size_bin)

    def _small_width(self, top: int, side: int) -> int:
        """How many integers of a side belong to the centre of a small bin.

        Above, noise grows with the steps that lead up from there; below, with those to there.
        """
        if side > 0:
            return min((2 * self.right + 1) * self.growth(top) // (2 * UNITS), self.right)
        up, down = self.alpha.numerator, self.alpha.denominator
        width = (2 * self.left + 1) * self.most_joined(top) * (up + down)
        return min(width // (2 * UNITS * down), self.left)

    def above(self, size_bin: int) -> int:
        """The highest bin to which one step leads from one."""
        return (
            int(self._small_up[size_bin])
            if size_bin < self.first_large
            else size_bin + self.per_step
        )

    def descent(self, epsilon: float) -> int:
        """After how many steps down a path to a lower bin is never the best, at large bins.

        d steps down cost, in steps of the full length, d less their sum; if the whole part of that
        times epsilon is more than what is gained in log density, standing still is better.
        """
        b = log1p(float(self.alpha))
        lost = [d - (1 - exp(-b * d)) / -np.expm1(-b) for d in range(4_000)]
        worse = [int(x) * epsilon < d * b + 1.0 for d, x in enumerate(lost)]
        return max(d for d, w in enumerate(worse) if w) + 1


@dataclass(frozen=True)
class Numbers:
    """Numbers of all bins, in doubles."""

    top: Array
    cap: Array
    right: Array
    left: Array


def _precisely(work: Callable[[], Result]) -> Result:
    before, ctx.prec = ctx.prec, _BITS
    try:
        return work()
    finally:
        ctx.prec = before
