"""Margins radial: the margins of two worker attributes hidden together, in fewer dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from math import inf, isfinite, log1p
from operator import index
from typing import ClassVar, Self

import numpy as np
from flint import arb

from eree.errors import Refusal
from eree.mechanisms.certificate import NEVER, Certificate
from eree.mechanisms.mechanism import (
    LIMIT,
    alpha_of,
    exactly,
    one_cell,
    rounded_up,
    whole_numbers,
)
from eree.mechanisms.needs import TooLittle, above
from eree.mechanisms.scaled_vector import MOST_CELLS, groups_like, weight_agrees
from eree.mechanisms.vector import Group, VectorCertificate, worst_groups
from eree.mechanisms.vector_loss import VectorLoss, worst_vector_loss
from eree.mechanisms.vector_radial import VectorRadial
from eree.noise.coins import Coins
from eree.noise.exact import Whole
from eree.noise.laws import Scales
from eree.noise.margins import MarginsShape, RoundedMargins
from eree.noise.rows import draw_rows
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Exact, Strong, exact

_MOST_WORKERS = 2.0**60


@dataclass(frozen=True)
class MarginsRadial:
    """Counts by an attribute of v values, and the difference of the counts of two halves.

    A group's cells are those of an attribute of two values by one of v: a row has the v cells of
    the first half, then those of the second.  e_c is the count of the value c in both halves, f the
    first half less the second.  What is drawn is (e, f) + s Z, each number rounded; Z of a density
    g of N(e, f) = max(|e|, |f|), |e| the sum of the sizes of the e_c; g is that of `VectorRadial`
    for D = v + 1 cells, b >= ln(1 + alpha), s = max(b * largest, 1), `largest` the largest total of
    a workplace of the group.

    Theorem.  For epsilon > D b all outputs of a group together are (alpha, epsilon)-private with
    delta = 0 under strong neighbours, and so under weak ones; noise has a finite variance.

    Proof.  A worker who joins adds 1 to one e_c, or nothing if the group does not show them, and as
    much or its opposite to f: a vector of N at most 1.  Let the workers who join do so one after
    another, without leaps, and let time pass as they join over s(x), x the largest total so far.
    As for `Radial`, (e, f) then moves, in the norm N, by at most one scale in unit time, the
    logarithm of the scale grows at a rate beta <= b, and it all takes at most unit time.  The
    density of D numbers at an output is g(t) / s^D but for a constant, t its distance by N in
    scales.  N is a norm: t changes at a rate of at most 1 because (e, f) moves, and falls at the
    rate beta t because the scale grows.  So with r = -g'/g the loss grows at the rate
    (1 + beta t) r - D beta at most if (e, f) moves towards the output, and (1 - beta t) r + D beta
    if it moves away.  Up to t = D / rate, r t <= D: the first is at most r <= rate, the second at
    most (1 - b t) r + D b = rate.  Beyond, r t >= D, and the other way round.  Numbers are rounded,
    and counts by half made of them, without another look at the data.

    No norm does better: the ball of N is the convex hull of what workers who join or leave add
    (`eree.noise.margins`), so that no norm with steps of at most 1 is anywhere greater than N.
    """

    guarantee: Guarantee
    values: int
    rate: Fraction
    bend: Fraction
    name: ClassVar[str] = "margins-radial"

    @classmethod
    def calibrate(cls, guarantee: Guarantee, *, values: int) -> Self:
        """For two halves by `values` values; the rate is epsilon but for a millionth."""
        most = MOST_CELLS - 1
        if isinstance(values, bool) or not isinstance(values, int) or not 1 <= values <= most:
            raise Refusal(
                f"{cls.name} hides the margins of two attributes, one of two values and one of 1 to"
                f" {most}; for others hide all cells with vector-radial or two-stage-clip"
            )
        d, step = values + 1, log1p(float(alpha_of(guarantee, cls.name)))
        rate = guarantee.epsilon * (1 - Fraction(1, 1 << 20))
        if float(rate) <= (least := d * step * (1 + 1e-3)):
            raise TooLittle(
                cls.name,
                epsilon=above(least),
                why=f"(above {d} ln(1 + alpha)) to hide the margins of 2 by {values} cells",
                advice="raise it, lower alpha, publish fewer values, or use two-stage-clip (any"
                " number of cells)",
            )
        return cls(guarantee, values, rate, rounded_up(step))

    @property
    def cells(self) -> int:
        """The cells of a group: twice v."""
        return 2 * self.values

    @property
    def radial(self) -> VectorRadial:
        """The law of D = v + 1 cells whose norm, and so whose loss, is distributed alike."""
        return VectorRadial(self.guarantee, self.values + 1, self.rate, self.bend)

    @property
    def shape(self) -> MarginsShape:
        """The density."""
        return MarginsShape(self.radial.shape)

    @property
    def parameters(self) -> dict[str, str]:
        """What was calibrated, as exact texts."""
        found = {f.name: str(getattr(self, f.name)) for f in fields(self) if f.name != "guarantee"}
        return found | {"pace": str(self.bend)}

    def statistics(self) -> tuple[str, ...]:
        """`count`, and `largest_total`: the whole workplace may grow into any cell."""
        return "count", "largest_total"

    def law(self, largests: Whole) -> RoundedMargins:
        """The laws of the noise of some groups."""
        return RoundedMargins(Scales(largests, self.bend, Fraction(1)), self.shape)

    # ------------------------------------------------------------------------------ draws

    def draw(self, counts: Whole, largests: Whole, *, coins: Coins) -> Whole:
        """Noisy counts by value and by half: rows of v + 2 numbers, the halves at the end."""
        return counts_of(self.draw_differences(counts, largests, coins=coins), coins)

    def draw_differences(self, counts: Whole, largests: Whole, *, coins: Coins) -> Whole:
        """Noisy counts by value, and the noisy difference of the halves: rows of v + 1 numbers.

        `counts` has a row per group, of the v cells of the first half and those of the second.
        These are all that is drawn: `draw` makes its counts of them, and estimates know no more.
        """
        counts, largests = np.asarray(counts), np.asarray(largests)
        if counts.ndim != 2 or counts.shape[1] != self.cells:
            raise Refusal(
                f"{self.name} was calibrated for 2 by {self.values} cells: counts need a row per"
                f" workplace cell and {self.cells} columns, those of the first half first; for"
                " other attributes hide all cells with vector-radial"
            )
        if largests.shape != counts.shape[:1]:
            raise Refusal("every group needs one largest_total")
        groups = whole_numbers(counts.reshape(-1)).reshape(-1, self.cells)
        largests = whole_numbers(largests)
        if (groups.sum(axis=1, dtype=np.float64) >= _MOST_WORKERS).any():
            raise Refusal("the counts of a group must add up to less than 2^60")
        noisy = self._true(groups) + draw_rows(self.law(largests), len(groups), coins)
        # their sums must not leave 64 bits
        most = np.array([*(LIMIT // self.values,) * self.values, LIMIT])
        within: Whole = np.clip(noisy, -most, most)
        return within

    def _true(self, groups: Whole) -> Whole:
        """(e, f) of groups."""
        first, second = groups[:, : self.values], groups[:, self.values :]
        return np.column_stack([first + second, first.sum(axis=1) - second.sum(axis=1)])

    # ------------------------------------------------------------------------------ chances

    def joint_pmf(self, *, outputs: Sequence[int], counts: Sequence[int], largest: int) -> arb:
        """The chance of (e, f) as drawn, as a ball at the precision that is set.

        `counts` are those of all cells of the group.  It is the chance before numbers beyond 2^61
        are set to it.
        """
        if len(outputs) != self.values + 1 or len(counts) != self.cells:
            raise Refusal(
                f"{self.name} was calibrated for 2 by {self.values} cells: outputs are"
                f" {self.values} counts and a difference"
            )
        v, cells = self.values, [*map(index, counts)]
        sums = [cells[c] + cells[v + c] for c in range(v)]
        true = [*sums, sum(cells[:v]) - sum(cells[v:])]
        noise = [index(output) - number for output, number in zip(outputs, true, strict=True)]
        return self.law(one_cell(index(largest))).pmf(noise, 0)

    def joint_log_pmf(
        self, *, outputs: Sequence[int], counts: Sequence[int], largest: int
    ) -> float:
        """The logarithm of the chance of (e, f) as drawn."""
        with exactly():
            chance = self.joint_pmf(outputs=outputs, counts=counts, largest=largest)
            return float(chance.log()) if chance > 0 else -inf

    def variances(self) -> tuple[float, float]:
        """Of one e_c and of f, in units of s^2, before rounding; no two numbers are correlated.

        Signs are independent of sizes.  A count by half has the variance of (sum of e + f) / 2:
        (v times the first + the second) / 4.
        """
        return self.shape.sum_moments()[1], self.shape.difference_moments()[1]

    def mean_sizes(self) -> tuple[float, float]:
        """The mean sizes of the noise of one e_c and of f, in units of s, before rounding."""
        return self.shape.sum_moments()[0], self.shape.difference_moments()[0]

    # ------------------------------------------------------------------------------ certificate

    def certify(self) -> Certificate:
        """Recheck the guarantee from the chances alone.

        `worst_vector_loss` knows of a law its weight, the number of dimensions and that a norm of
        what a step moves is at most the number of those who join: so what it bounds for the radial
        law of D cells it bounds for this one.  That the chances are those of that weight, of N, is
        looked at where e alone, f alone and both are noisy.
        """
        loss = worst_vector_loss(self.radial, self.radial.one_step)
        known = isfinite(loss.found) and self.chances_agree()
        found = Fraction(loss.found) if known else NEVER
        pair = worst_groups(self, self._groups_like(loss))
        return VectorCertificate.pure(self, found, pair)

    def chances_agree(self) -> bool:
        """Whether the chances of outputs are those of the weight and of N."""
        rest, zero = (0,) * (self.values - 1), (0,) * self.cells

        def agrees(by_sum: int, by_half: int) -> bool:
            def log_chance(k: int, size: int) -> float:
                row = (by_sum * k, *rest, by_half * k)
                return self.joint_log_pmf(outputs=row, counts=zero, largest=size)

            return weight_agrees(self.radial, log_chance)

        return agrees(1, 0) and agrees(0, 1) and agrees(1, 1) and agrees(1, -1)

    def _groups_like(
        self, loss: VectorLoss
    ) -> Iterator[tuple[Group, Group, list[tuple[int, ...]]]]:
        """Groups whose workers are all in the first cell, and outputs near the worst loss."""
        rest = (0,) * (self.cells - 1)
        for before, after, outputs in groups_like(loss, self.radial):
            rows = [(*row[:-1], f) for row in outputs for f in (row[0], before.count)]
            old, new = (Group.of((one.count, *rest), one.largest) for one in (before, after))
            yield old, new, rows


def counts_of(differences: Whole, coins: Coins) -> Whole:
    """Counts by value and by half, from noisy counts by value and a noisy difference of the halves.

    The halves add up to the sum of the others.  Where the difference is not as odd or even as the
    sum, a coin says which half is rounded up: each is right on average.
    """
    sums, total = differences[:, :-1], differences[:, :-1].sum(axis=1)
    coin = (coins.words(len(total)) & np.uint64(1)).astype(np.int64)
    first = (total + differences[:, -1] + coin) // 2
    return np.column_stack([sums, first, total - first])


def margins_mechanism(
    *, alpha: Exact | None = None, epsilon: Exact, values: int, delta: Exact | None = None
) -> MarginsRadial:
    """Hides the counts by an attribute of so many values and by one of two, strong neighbours."""
    if alpha is None:
        raise Refusal(f"{MarginsRadial.name} needs an alpha, such as '0.1'")
    guarantee = Guarantee(Strong(alpha), exact(epsilon, "epsilon"), delta or 0)
    return MarginsRadial.calibrate(guarantee, values=values)
