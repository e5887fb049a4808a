"""Marginals radial: any number of marginals of the same workers from one draw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import ceil, sqrt
from operator import index
from typing import Self

import numpy as np
from flint import arb

from eree.cells import Cell, Group
from eree.errors import Refusal, integer
from eree.mechanisms.certificate import Certificate
from eree.mechanisms.scaled.certificate import scale_at
from eree.mechanisms.scaled.scaled import least, rounded_half_width
from eree.mechanisms.vector.marginals_density import (
    Blocks,
    RadialNumber,
    dimensions_of,
    number_of,
)
from eree.mechanisms.vector.marginals_sampling import RoundedMarginals
from eree.mechanisms.vector.radial import RadialVector
from eree.mechanisms.vector.scaled import MOST_CELLS
from eree.policy.guarantee import Guarantee
from eree.random.exact import Array, Integers, draw_rows
from eree.random.source import Random, SeededRandom

#: Up to this mean size what rounding adds to squares is summed up, over so many times that mean;
#: beyond it is 1/6, but for less than a 10^5th of the squares.
_SMALL, _SUMMED = 4.0, 12
#: Groups of a public draw, a scale at which rounding is of no account, and a seed.
_PUBLIC, _PUBLIC_SCALE, _PUBLIC_SEED = 1 << 14, 1 << 17, 7_919
_GOLDEN = (sqrt(5) - 1) / 2


@dataclass(frozen=True)
class MarginalsRadial(RadialVector):
    """counts + s Z, rounded so that all marginals keep one sum; the norm is N(z) = max_k |z_k|_1.

    A row has the counts of K marginals of the same workers, block after block; `blocks` says how
    many values each has.  d = D = 1 + sum(v_k - 1), the dimension of rows whose blocks have one
    sum.  `shown` is the block whose counts are asked for, where it is not all of them.

    Theorem.  For epsilon > D b all marginals of a group together are (alpha, epsilon)-private with
    delta = 0 under strong neighbours, and so under weak ones; noise has a finite variance.

    Proof.  A worker who joins adds 1 to one count of each block, or nothing at all if the group
    does not show them: a step of N at most 1, and counts and noise stay among the rows of one sum,
    where noise has a density in D dimensions.  The proof of `VectorRadial` asks no more of its
    norm: let the workers join one after another, so that the counts move by at most one scale in
    unit time, the logarithm of the scale grows at a rate beta <= b, and it all takes at most unit
    time.  At a distance of t scales by N, the loss grows at the rate (1 + beta t) |g'/g| - D beta
    at most if the counts move towards the output, and (1 - beta t) |g'/g| + D beta if they move
    away: both at most `rate`, as there.  Rounding knows the noisy numbers and a random number of
    its own alone, and so costs nothing.

    The ball of N is the convex hull of the steps (`marginals_density`): no ball that holds them is
    smaller.  Another norm may favour one marginal, or the total, at the cost of the others.

    `joint_pmf` is the density of all noisy numbers before they are rounded, at integers: it is what
    a certificate looks at, as rounding cannot add to a loss.  `tail`, `pmf` and `quantile` are
    those of one count as released.
    """

    blocks: Blocks
    shown: int | None = None
    name = "marginals-radial"

    def __post_init__(self) -> None:
        shown = sum(self.blocks) if self.shown is None else self.blocks[self.shown]
        if self.cells != shown:
            raise Refusal(f"{self.name} draws as many cells as its marginals have values")

    @classmethod
    def calibrate(
        cls,
        guarantee: Guarantee,
        *,
        cells: int = 0,
        blocks: Iterable[int] | str | int = (),
        shown: int | None = None,
    ) -> Self:
        """For marginals of so many values each, such as (2, 4) or '2,4'; or for one of `cells`.

        Where one of them is `shown`, counted from 0, its counts alone are spoken of.
        """
        sizes = _checked(cls.name, blocks, cells)
        d, values = dimensions_of(sizes), " + ".join(map(str, sizes))
        radial = cls.rate_and_curve(guarantee, d, f"marginals of {values} values", "values")
        made = cls(guarantee, sum(sizes), *radial, sizes)
        return made if shown is None else made.marginal(shown)

    @property
    def dimensions(self) -> int:
        """D."""
        return dimensions_of(self.blocks)

    @property
    def parameters(self) -> dict[str, str]:
        """With the values of each block."""
        found = super().parameters | self.settings
        return {name: text for name, text in found.items() if text != "None"}

    @property
    def settings(self) -> dict[str, str]:
        """The values of each block."""
        return {"blocks": ",".join(map(str, self.blocks))}

    # ------------------------------------------------------------------ one marginal of the draw

    def marginal(self, block: int) -> Self:
        """The mechanism that draws the same and shows one marginal: its errors and intervals."""
        words = f"{self.name} was calibrated for {len(self.blocks)} marginals"
        block = integer(block, words, 0, len(self.blocks) - 1)
        return replace(self, cells=self.blocks[block], shown=block)

    @property
    def whole(self) -> Self:
        """The mechanism that shows all marginals."""
        return replace(self, cells=sum(self.blocks), shown=None)

    @property
    def columns(self) -> list[slice]:
        """The columns of each block in a row of all."""
        ends = np.cumsum([0, *self.blocks]).tolist()
        return [slice(*pair) for pair in pairwise(ends)]

    @property
    def total(self) -> RadialNumber:
        """The noise of the sum of a block, which is the same for all, in units of s."""
        return number_of(self.shape, self.blocks, None)

    @property
    def number(self) -> RadialNumber:
        """That of one count of the shown block; of all blocks, of one with the fewest values.

        Its noise is the greatest.
        """
        values = min(self.blocks) if self.shown is None else self.blocks[self.shown]
        return number_of(self.shape, self.blocks, values)

    # ------------------------------------------------------------------ draws

    def row(self, count: int, *, last: bool = False) -> tuple[int, ...]:
        """All in the first cell of each block, or in the last."""
        return tuple(count * (i == last * (v - 1)) for v in self.blocks for i in range(v))

    def distribution(self, largests: Integers) -> RoundedMarginals:
        """The distributions of the noise of some groups."""
        scales = self.scales(largests, Fraction(1))
        return RoundedMarginals(scales, self.shape, self.blocks, self.number)

    def draw_groups(self, counts: Integers, largests: Integers, random: Random) -> Integers:
        """Counts, of which all blocks must have one sum, and their noise."""
        shown = slice(None) if self.shown is None else self.columns[self.shown]
        sums = [counts[:, block].sum(axis=1) for block in self.columns]
        if self.shown is None and any((one != sums[0]).any() for one in sums):
            raise Refusal("all marginals of a group must count the same workers")
        noise = draw_rows(self.distribution(largests), len(counts), random)
        return counts + noise[:, shown]

    def group_pmf(self, group: Group, outputs: Sequence[int]) -> arb:
        """The density before rounding, of all marginals."""
        if self.shown is not None:
            raise Refusal(f"{self.name} states what all its marginals are together, not one alone")
        return super().group_pmf(group, outputs)

    def public_noise(self, size: int, groups: int) -> Array | None:
        """One draw of Z from a public seed at all scales, rounded as releases are.

        The numbers that rounding takes are evenly spread, and have nothing to do with Z.
        """
        if self.shown is None or groups > _PUBLIC:
            return None
        sums = np.cumsum(_public_draw(self.whole)[:groups, self.columns[self.shown]], axis=1)
        fair = (_GOLDEN * np.arange(groups)[:, None]) % 1
        ends = np.floor(float(scale_at(self.pace, size)) * sums + fair)
        noise: Array = np.diff(ends, axis=1, prepend=0.0)
        return noise

    # ------------------------------------------------------------------ errors

    def mean_error(self, cell: Cell) -> tuple[float, float]:
        """Of one count: rounding leaves the mean size as it was, and adds to squares."""
        return self._error(self.number, cell)

    def mean_errors(self, _counts: Integers, largests: Integers) -> Array:
        """In proportion to the scale, as rounding does not change them."""
        errors: Array = self.near_scales(largests) * _moments(self.number)[0]
        return errors

    def variance(self, size: float) -> float:
        """Of one count."""
        return _rounded_square(self.number, max(float(self.pace) * size, 1.0))

    def sum_error(self, cell: Cell) -> tuple[float, float]:
        """The same of the sum of a block: of all workers of the group."""
        return self._error(self.total, cell)

    def _error(self, number: RadialNumber, cell: Cell) -> tuple[float, float]:
        scale = float(scale_at(self.pace, cell.largest))
        return scale * _moments(number)[0], sqrt(_rounded_square(number, scale))

    def covariance(self, cell: Cell) -> Array:
        """Of the noise of all shown counts.

        Given their sum t, blocks are independent, and each count of v has the mean t / v.  Inside
        a block all pairs are alike, and the variances and covariances add up to that of t.  What
        rounding adds is that of independent uniform numbers, one between any two neighbours.
        """
        scale = float(scale_at(self.pace, cell.largest))
        spread = _moments(self.total)[1]
        found: Array = np.full((sum(self.blocks),) * 2, spread)
        ends = np.zeros((len(found), self.dimensions + 1))
        point = 2
        for v, own in zip(self.blocks, self.columns, strict=True):
            variance = _moments(number_of(self.shape, self.blocks, v))[1]
            found[own] /= v
            found[:, own] /= v
            found[own, own] = (spread - v * variance) / (v * (v - 1))
            np.fill_diagonal(found[own, own], variance)
            between = [0, *range(point, point + v - 1), 1]
            for i, (before, after) in enumerate(pairwise(between)):
                ends[own.start + i, [before, after]] = -1, 1
            point += v - 1
        whole: Array = scale**2 * found + ends @ ends.T / 12
        some = slice(None) if self.shown is None else self.columns[self.shown]
        return whole[some, some]

    # ------------------------------------------------------------------ intervals

    def half_width(self, level: float, sizes: Integers) -> Integers:
        """From the tail of one count before it is rounded, which moves it by less than 1."""
        return rounded_half_width(self.near_scales(sizes) * _away(self.number, level), 0.0)

    def group_half_width(self, level: float, sizes: Integers, _cells: int = 0) -> Integers:
        """The same of the sum of a block."""
        return rounded_half_width(self.near_scales(sizes) * _away(self.total, level), 0.0)

    def interval(
        self,
        noisy: Integers,
        level: float,
        *,
        by_total: bool = True,
        clipped: tuple[Integers, Integers] | None = None,
    ) -> tuple[Integers, Integers]:
        """Block by block: each has a sum of its own, and half-widths of its own."""
        if self.shown is not None or not by_total:
            return super().interval(noisy, level, by_total=by_total, clipped=clipped)
        ends = [
            self.marginal(k).interval(noisy[:, block], level, by_total=True, clipped=clipped)
            for k, block in enumerate(self.columns)
        ]
        low, high = (np.concatenate(side, axis=1) for side in zip(*ends, strict=True))
        return low, high

    # ------------------------------------------------------------------ certificate

    @property
    def rounding(self) -> tuple[float, float]:
        """None: `joint_pmf` is the density before it."""
        return 0.0, 0.0

    def certify(self) -> Certificate:
        """Of all marginals, of which each is a part."""
        if self.shown is not None:
            return self.whole.certify()
        return super().certify()


def _checked(name: str, blocks: Iterable[int] | str | int, cells: int) -> Blocks:
    """How many values each marginal has."""
    try:
        given = str(blocks).split(",") if isinstance(blocks, str | int) else [*blocks]
        sizes = tuple(int(v) if isinstance(v, str) else index(v) for v in given or [cells])
    except (TypeError, ValueError):
        given, sizes = [], ()
    if given and cells:
        raise Refusal(f"{name} takes blocks, or the cells of one marginal, not both")
    if not sizes or min(sizes) < 2 or dimensions_of(sizes) > MOST_CELLS:
        raise Refusal(
            f"{name} protects marginals of 2 or more values each, such as blocks 3,3,6, together in"
            f" at most {MOST_CELLS} dimensions, 1 and a dimension for each value but one"
        )
    return sizes


@lru_cache(maxsize=2)
def _public_draw(mechanism: MarginalsRadial) -> Array:
    """Z of many groups, of all blocks, from a public seed: noise at a large scale, over it."""
    counts = np.zeros((_PUBLIC, mechanism.cells), dtype=np.int64)
    size = ceil(_PUBLIC_SCALE / mechanism.pace)
    drawn = mechanism.draw(counts, np.full(_PUBLIC, size), random=SeededRandom(_PUBLIC_SEED))
    found: Array = drawn / float(scale_at(mechanism.pace, size))
    return found


@lru_cache(maxsize=256)
def _moments(number: RadialNumber) -> tuple[float, float]:
    """The mean size and the mean square before rounding, in units of s."""
    first, second = (float(number.near_excess(np.zeros(1), n)[0]) for n in (1, 2))
    return 2 * first, 4 * second


@lru_cache(maxsize=4096)
def _rounded_square(number: RadialNumber, scale: float) -> float:
    """The mean square of scale Z, rounded up or down by what is right on average.

    It is 4 times the sum of the mean excesses over 0, 1, 2, ..., the first one counted half; from
    some point on such a sum is the integral and a 12th of the tail there.
    """
    mean = scale * _moments(number)[0]
    last = ceil(_SUMMED * mean) if mean < _SMALL else 0
    x = np.arange(last + 1) / scale
    near = scale * number.near_excess(x, 1)
    summed = float(near.sum() - (near[0] + near[-1]) / 2)
    rest = scale**2 * number.near_excess(x[-1:], 2) + number.near_excess(x[-1:], 0) / 12
    return 4 * (summed + float(rest[0]))


@lru_cache(maxsize=256)
def _away(number: RadialNumber, level: float) -> float:
    """What the size of Z stays within with a probability of `level`, or a hair more."""
    return least(lambda z: 2 * number.near_excess(z, 0) <= (1 - level) * (1 - 1e-12))
