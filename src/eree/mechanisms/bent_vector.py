"""Vector mechanisms that add noise to the heights of all counts of a group."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import ClassVar

import numpy as np
from flint import arb

from eree.errors import Refusal
from eree.mechanisms.linlog import LinLog
from eree.mechanisms.mechanism import Array
from eree.mechanisms.needs import TooLittle
from eree.mechanisms.scaled import least
from eree.mechanisms.vector import Group, GroupPair, VectorMechanism, group_size, worst_groups
from eree.noise.bent import Knots
from eree.noise.bent_rows import BentRows
from eree.noise.coins import Coins
from eree.noise.exact import Whole
from eree.noise.rows import draw_rows
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Weak

_MOST_CELLS = 1_000


@dataclass(frozen=True)
class BentVector(VectorMechanism):
    """h^-1(h(count_i) + spread z_i) for each cell i, rounded; h the heights of a kind of `LinLog`.

    Under weak neighbours whose types are at least as fine as the cells, each cell i of a workplace
    grows in one step by at most max(alpha h_i, 1), and h_i is at most the count: so its height
    grows by between 0 and 1, as for `LinLog`.  All heights move up together, or all down: by a
    vector of the cube [0, 1]^d or of [-1, 0]^d.  Noise that hides such a move hides the step.
    """

    spread: Fraction
    rate: Fraction  # b = ln(1 + alpha), rounded up
    #: The mechanism for one cell whose heights these are.
    heights_of: ClassVar[type[LinLog]]

    @classmethod
    def _one_cell(cls, guarantee: Guarantee, cells: int) -> LinLog:
        """The mechanism for one cell at the same guarantee; refused where there can be none."""
        group_size(cls.name, cells, _MOST_CELLS)
        if not isinstance(guarantee.neighbours, Weak):
            raise Refusal(
                f"{cls.name} is for weak neighbours: under strong ones a workplace may grow in a"
                " cell by more than the cell holds; use vector-radial, vector-pareto or"
                " two-stage-clip"
            )
        kind = cls.heights_of
        try:
            return kind.calibrate(guarantee)
        except TooLittle as little:
            raise little.of(cls.name) from None

    @abstractmethod
    def law(self, counts: Whole) -> BentRows:
        """The laws of the outputs of some groups."""

    @abstractmethod
    def near_tail(self, heights: Array) -> Array:
        """The chance that the noise of one cell's height is at least so much, in doubles."""

    @abstractmethod
    def height_moments(self) -> tuple[float, float, float]:
        """Of the noise of heights: its mean size, its variance, and the covariance of two cells."""

    @cached_property
    def single(self) -> LinLog:
        """Laplace noise of one cell on the same heights."""
        return self.heights_of(self.guarantee, self.spread, self.rate)

    @property
    def bend(self) -> Knots:
        """The heights of counts."""
        return self.single.bend

    def statistics(self, *, worker_attributes: bool = True) -> tuple[str, ...]:
        """`count` alone."""
        del worker_attributes
        return ("count",)

    def draw_groups(self, counts: Whole, _largests: Whole, coins: Coins) -> Whole:
        """Outputs, made from the counts alone."""
        return draw_rows(self.law(counts), len(counts), coins)

    def beyond(self, distance: int, side: int, *, count: int, largest: int) -> arb:
        """The chance of an output of one cell at least `distance` away from the count."""
        del largest
        law = self.law(np.zeros((1, self.cells), dtype=np.int64))
        return law.beyond(count + side * distance, side, count=count)

    def group_pmf(self, outputs: Sequence[int], counts: Sequence[int], largest: int) -> arb:
        """The chance of all outputs of a group, from the chance of a box of heights."""
        del largest
        return self.law(np.array([counts], dtype=np.int64)).pmf(outputs, 0)

    def worst_growth(self, count: int, outputs: Sequence[int] = ()) -> GroupPair:
        """The worst loss seen where one cell makes the step of a count, from the joint chances."""
        grown, rest = count + max(int(self.alpha * count), 1), (0,) * (self.cells - 1)
        before, after = (Group.of((n, *rest), n) for n in (count, grown))
        firsts = {*outputs, count, grown, 2 * grown + 2, -3 * grown - 3}
        return worst_groups(self, [(before, after, [(first, *rest) for first in sorted(firsts)])])

    def height_reach(self, level: float) -> float:
        """The noise of one cell's height stays within this with at least such a chance."""
        return least(lambda x: 2 * self.near_tail(x) <= 1 - level)

    def height_error(self) -> tuple[float, float]:
        """The mean and root mean square of the noise of one cell's height."""
        mean, variance, _ = self.height_moments()
        return mean, sqrt(variance)

    def height_covariance(self) -> Array:
        """The covariance of the noise of all heights of a group."""
        _, variance, covariance = self.height_moments()
        found: Array = (variance - covariance) * np.eye(self.cells) + covariance
        return found
