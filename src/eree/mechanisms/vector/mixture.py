"""Vector mixture: geometric noise where workplaces are small, radial noise where they are large."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, chain
from math import ceil, inf, isfinite, sqrt
from typing import Self

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from eree.cells import Cell, Group
from eree.mechanisms.cache import Arrays, arrays_of
from eree.mechanisms.certificate import NEVER, Certificate
from eree.mechanisms.geometric import CappedGeometric
from eree.mechanisms.mechanism import FEW_SIZES, errors_by_size, one_cell
from eree.mechanisms.scaled.certificate import scale_at
from eree.mechanisms.vector.certificate import worst_vector_loss
from eree.mechanisms.vector.mixture_certificate import probabilities_mix, worst_mixture_loss
from eree.mechanisms.vector.mixture_weights import Weights, component_rates, mixture_weights
from eree.mechanisms.vector.radial import VectorRadial
from eree.mechanisms.vector.scaled import MOST_CELLS, groups_like, probabilities_agree
from eree.mechanisms.vector.sums import geometric_sum_tails
from eree.mechanisms.vector.vector import VectorCertificate, group_size, worst_groups
from eree.policy.guarantee import Guarantee
from eree.random.exact import (
    Array,
    Flags,
    Integers,
    Words,
    draw,
    exact_ball,
    near,
    sure_less,
    verdicts_of,
)
from eree.random.source import Random

#: Where noise is wider than this it makes no difference that workers are integers.
_LEAST_RATE = Fraction(1, 16)
#: Probabilities in doubles are off by less than this share.
_CLOSE = 1e-9

#: For each component, probabilities that noise is at least so far from 0, at integers >= 1.
Tails = Sequence[Callable[[Integers], Array]]


@dataclass(frozen=True, eq=False)
class MixtureComponents:
    """Which component each group has, by exact probabilities: a row for each group's `step`."""

    weights: tuple[Weights, ...]
    steps: Integers
    uniforms = 1

    @cached_property
    def _ends(self) -> list[list[Fraction]]:
        return [list(accumulate(row))[:-1] for row in self.weights]

    @cached_property
    def _near_ends(self) -> Array:
        return np.array([[float(end) for end in row] for row in self._ends])

    def fast(self, words: Words, cells: NDArray[np.intp]) -> tuple[Integers, NDArray[np.int8]]:
        """The first component whose end lies above a uniform number; nothing is ever rejected."""
        gaps = near(words[0])[:, None] - self._near_ends[self.steps[cells]]
        doubt: Flags = np.any(np.abs(gaps) < 2.0**-48, axis=1)
        found: Integers = (gaps >= 0).sum(axis=1)
        return found, verdicts_of(np.ones_like(doubt), doubt)

    def slow(self, uniforms: Sequence[arb], cell: int) -> int:
        """The same in interval arithmetic."""
        ends = self._ends[int(self.steps[cell])]
        return sum(1 for end in ends if end <= 0 or not sure_less(uniforms[0], exact_ball(end)))


@dataclass(frozen=True)
class VectorMixture(VectorRadial):
    """`VectorRadial` from `start` workers on; below, its noise at `start` or less, at random.

    `start` is the least size of which a workplace may grow by two workers, 2 / alpha.  A group
    whose largest workplace has x < start workers gets, with the probabilities `weights` of that x,
    independent geometric noise of one of the `rates`, or radial noise of the scale at `start`.

    Theorem.  For epsilon > d b all outputs of a group together are (alpha, epsilon)-private with
    delta = 0 under strong neighbours, and so under weak ones; noise has a finite mean.

    Proof.  If the largest workplace has `start` workers or more, before and after, this is
    `VectorRadial`.  Else a step is one worker who joins a workplace of y <= x < start: the counts
    move by one in one cell, or not at all, and the largest total stays x or becomes x + 1 <= start.
    If it stays, every component loses at most `rate`, and so does a mixture of them.  If it grows,
    the theorem of `mixture_weights` holds, as the weights are made for it.

    Where radial noise alone has less error at 1 / alpha workers, `start` is 0.
    """

    start: int
    name = "vector-mixture"

    @classmethod
    def calibrate(cls, guarantee: Guarantee, *, cells: int = 1) -> Self:
        """For groups of so many cells."""
        d = group_size(cls.name, cells, MOST_CELLS)
        rate, curve = cls.rate_and_curve(guarantee, d, f"{d} cells", "cells")
        radial = cls(guarantee, d, rate, curve, 0)
        if rate < _LEAST_RATE:
            return radial
        mixed = cls(guarantee, d, rate, curve, ceil(2 / radial.alpha))

        def compute() -> Arrays:
            small = Cell(int(1 / radial.alpha))
            return {"less": np.array(mixed.mean_error(small)[0] < radial.mean_error(small)[0])}

        what = f"{cls.name} {radial.alpha} {rate} {curve} {d} has less error"
        return mixed if arrays_of(what, compute)["less"] else radial

    # ------------------------------------------------------------------ the mixture

    @cached_property
    def weights(self) -> tuple[Weights, ...]:
        """Those of `start` workers and more, of a worker less, and so on; the last stay."""
        return mixture_weights(self.shape, self.start) if self.start else ((Fraction(1),),)

    @cached_property
    def rates(self) -> tuple[Fraction, ...]:
        """Those of the geometric components."""
        return component_rates(self.shape, self.start) if self.start else ()

    def steps(self, largests: Integers) -> Integers:
        """The row of `weights` of some groups."""
        return np.clip(self.start - largests, 0, len(self.weights) - 1)

    def _of(self, size: int) -> Iterator[tuple[Fraction, CappedGeometric | None]]:
        """The components of a size that have a weight; the radial one is None."""
        row = self.weights[int(self.steps(one_cell(size))[0])]
        components = (*map(CappedGeometric, self.rates), None)
        return ((weight, one) for weight, one in zip(row, components, strict=True) if weight)

    def draw_groups(self, counts: Integers, largests: Integers, random: Random) -> Integers:
        """A component for every group, then its noise."""
        components = MixtureComponents(self.weights, self.steps(largests))
        chosen = draw(components, len(counts), random)
        outputs = np.empty_like(counts)
        for i, rate in enumerate(self.rates):
            some = chosen == i
            noise = draw(CappedGeometric(rate), self.cells * int(some.sum()), random)
            outputs[some] = counts[some] + noise.reshape(-1, self.cells)
        some = chosen == len(self.rates)
        scaled = np.maximum(largests[some], self.start)
        outputs[some] = super().draw_groups(counts[some], scaled, random)
        return outputs

    def tail(self, cell: Cell, distance: int, side: int) -> arb:
        """The tail of the noise of one cell; it is the same on both sides and for every count."""
        total, radial = arb(0), Cell(cell.count, max(cell.largest, self.start))
        for weight, one in self._of(cell.largest):
            part = super().tail(radial, distance, side) if one is None else one.tail(distance, 0)
            total += exact_ball(weight) * part
        return total

    def group_pmf(self, group: Group, outputs: Sequence[int]) -> arb:
        """The probability of all outputs of a group."""
        if group.largest >= self.start:
            return super().group_pmf(group, outputs)
        noise = [output - count for output, count in zip(outputs, group.counts, strict=True)]
        total, norm = arb(0), sum(map(abs, noise))
        for weight, one in self._of(group.largest):
            if one is None:
                part = _radial_pmf(self, tuple(sorted(map(abs, noise))), ctx.prec)
            else:
                part = one.centre() ** self.cells * (-exact_ball(one.rate) * norm).exp()
            total += exact_ball(weight) * part
        return total

    # ------------------------------------------------------------------ errors

    @cached_property
    def _errors(self) -> list[tuple[float, float]]:
        """The mean size and the mean square of the noise of every component, radial at `start`.

        Those of geometric noise are 1 / sinh(rate) and 1 / (cosh(rate) - 1).
        """
        mean, square = super().mean_error(Cell(self.start))
        with ctx.workprec(128):
            rates = [exact_ball(rate) for rate in self.rates]
            found = [(float(1 / rate.sinh()), float(1 / (rate.cosh() - 1))) for rate in rates]
        return [*found, (mean, square**2)]

    def mean_error(self, cell: Cell) -> tuple[float, float]:
        """The means over all components."""
        if cell.largest >= self.start:
            return super().mean_error(cell)
        row = [float(weight) for weight in self.weights[int(self.steps(one_cell(cell.largest))[0])]]
        mean, square = (
            sum(weight * one for weight, one in zip(row, errors, strict=True) if weight)
            for errors in zip(*self._errors, strict=True)
        )
        return mean, sqrt(square) if isfinite(square) else inf

    def mean_errors(self, _counts: Integers, largests: Integers) -> Array:
        """By the largest workplace."""
        return errors_by_size(self, largests, known=np.union1d(FEW_SIZES, self._small_sizes))

    @property
    def _small_sizes(self) -> Integers:
        """The sizes of all rows of weights, from `start` on downwards."""
        return self.start - np.arange(len(self.weights))

    # ------------------------------------------------------------------ intervals

    def half_width(self, level: float, sizes: Integers) -> Integers:
        """That of the mixture, and no less than that of any smaller size."""

        def radial(k: Integers) -> Array:
            away = (k - 0.5).astype(np.float64) / float(self._scale)
            tail: Array = 2 * self.shape.near_tail(away)
            return tail

        tails = [*map(_one_cell, self.rates), radial]
        return self._widths(level, sizes, tails, super().half_width(level, sizes))

    def group_half_width(self, level: float, sizes: Integers, _cells: int = 0) -> Integers:
        """The same of the sum of all cells; rounding moves radial noise by d / 2 at most."""

        def radial(k: Integers) -> Array:
            away = np.maximum(k - self.cells / 2, 0.0) / float(self._scale)
            return self.shape.near_sum_tail(away)

        tails = [*(geometric_sum_tails(float(rate), self.cells) for rate in self.rates), radial]
        return self._widths(level, sizes, tails, super().group_half_width(level, sizes))

    @property
    def _scale(self) -> Fraction:
        """That of the radial component."""
        return scale_at(self.pace, self.start)

    def _widths(self, level: float, sizes: Integers, tails: Tails, large: Integers) -> Integers:
        """Half-widths of all sizes; `large` has those of radial noise."""
        if not self.start:
            return large
        rows = np.array([[float(weight) for weight in row] for row in self.weights])
        low, high = np.full(len(rows), -1), np.ones(len(rows), dtype=np.int64)

        def enough(width: Integers) -> NDArray[np.bool_]:
            missed = sum(row * tail(width + 1) for row, tail in zip(rows.T, tails, strict=True))
            return np.asarray(missed <= (1 - level) * (1 - _CLOSE))

        while not (done := enough(high)).all():
            low, high = np.where(done, low, high), np.where(done, high, 2 * high)
        while (high - low > 1).any():
            middle = (low + high) // 2
            inside = enough(middle)
            low, high = np.where(inside, low, middle), np.where(inside, middle, high)
        small = np.maximum.accumulate(high[::-1])[::-1]  # smaller workplaces are further down
        return np.maximum(small[self.steps(sizes)], np.where(sizes < self.start, 0, large))

    # ------------------------------------------------------------------ the certificate

    def certify(self) -> Certificate:
        """Recheck the guarantee from the probabilities alone: of large workplaces, then of small.

        Radial noise is held against its weight where it is alone, and the mixture against its
        components.
        """
        loss = worst_vector_loss(self, self.one_step)
        radial = VectorRadial(self.guarantee, self.cells, self.rate, self.curve)
        worst = max(loss.found, worst_mixture_loss(self, radial))
        known = isfinite(worst) and probabilities_agree(radial) and probabilities_mix(self, radial)
        found = Fraction(worst) if known else NEVER
        pairs = chain(groups_like(loss, self), self._small_groups())
        return VectorCertificate.pure(self, found, worst_groups(self, pairs))

    def _small_groups(self) -> Iterator[tuple[Group, Group, list[tuple[int, ...]]]]:
        """Groups of one small workplace that a worker joins, and some outputs."""
        for size in self._small_sizes[1:].tolist():
            outputs = [self.row(size + away) for away in (-1, 0, 1, 9)]
            yield Group.of(self.row(size), size), Group.of(self.row(size + 1), size + 1), outputs


@lru_cache(maxsize=4096)  # the precision that is set is part of what was computed
def _radial_pmf(mixture: VectorMixture, noise: tuple[int, ...], _bits: int) -> arb:
    """The probability of noise of the radial component, in any order and of any signs."""
    zeros = Group.of((0,) * mixture.cells, mixture.start)
    return mixture.group_pmf(zeros, noise)


def _one_cell(rate: Fraction) -> Callable[[Integers], Array]:
    """The tails of geometric noise in one cell, on both sides."""

    def tail(k: Integers) -> Array:
        found: Array = 2 * np.exp(-float(rate) * k) / (1 + np.exp(-float(rate)))
        return found

    return tail
