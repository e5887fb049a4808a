"""Mechanisms that add noise of a scale S = max(alpha * largest, 1): what they have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import ClassVar, Self

import numpy as np
from flint import arb, ctx

from eree.errors import Refusal
from eree.mechanisms.certificate import Array, Loss, worst_loss
from eree.noise.coins import Coins
from eree.noise.exact import Whole, draw
from eree.noise.laws import LatticePareto, RoundedQuartic, Scales
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Strong, Weak

#: Bits of the exact sums: enough for tails that are differences of nearly equal numbers.
PRECISION = 320


@dataclass(frozen=True)
class ExpectedError:
    """The error of one noisy count, from exact sums."""

    mean_absolute: float
    root_mean_square: float


@dataclass(frozen=True)
class Certificate:
    """What was claimed of a mechanism, and what its chances show."""

    mechanism: str
    alpha: Fraction
    claimed_epsilon: Fraction
    loss: Loss

    @property
    def found_epsilon(self) -> float:
        """A bound of the loss over all neighbouring cells and outputs."""
        return self.loss.found

    @property
    def holds(self) -> bool:
        """Whether the bound is at most the claim, without any tolerance."""
        return Fraction(self.loss.found) <= self.claimed_epsilon


@dataclass(frozen=True)
class ScaledMechanism(ABC):
    """count + K, the law of K depending on the cell through S = max(alpha * largest, 1) alone.

    Under strong neighbours `largest` is the largest workplace of a cell of workplace attributes;
    for a cell touched by a worker attribute it must be `largest_total`, because the whole workplace
    may grow into the cell.  With `largest` there, the guarantee is weak.
    """

    guarantee: Guarantee
    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ("count", "largest")

    @classmethod
    @abstractmethod
    def calibrate(cls, guarantee: Guarantee) -> Self:
        """The least noise of this kind that keeps a guarantee."""

    @abstractmethod
    def law(self, largests: Whole) -> LatticePareto | RoundedQuartic:
        """The laws of the noise of some cells."""

    @abstractmethod
    def error_at(self, largest: int) -> ExpectedError:
        """The error of a cell with a largest workplace of this size."""

    @property
    def alpha(self) -> Fraction:
        """The share by which a workplace may grow in one step."""
        return alpha_of(self.guarantee, self.name)

    def draw(self, counts: Whole, largests: Whole, *, coins: Coins) -> Whole:
        """One noisy count for each cell."""
        if len(counts) != len(largests) or (np.asarray(largests) < 0).any():
            raise Refusal("every cell needs a count and the size of its largest workplace")
        return np.asarray(counts) + draw(self.law(np.asarray(largests)), len(counts), coins)

    def expected_error(self, *, largest: int, count: int = 0) -> ExpectedError:
        """The error of a cell; it depends on the largest workplace, not on the count."""
        if largest < 0 or count < 0:
            raise Refusal("a count and the size of a workplace must not be negative")
        return self.error_at(largest)

    def log_pmf(self, *, output: int, count: int, largest: int) -> float:
        """The logarithm of the chance of an output."""
        before, ctx.prec = ctx.prec, PRECISION
        try:
            return float(self.pmf(output=output, count=count, largest=largest).log())
        finally:
            ctx.prec = before

    def pmf(self, *, output: int, count: int, largest: int) -> arb:
        """The chance of an output, as a ball at the precision that is set."""
        law, k = self.law(np.array([largest], dtype=np.int64)), abs(output - count)
        return law.tail(k, 0) - law.tail(k + 1, 0) if k else 1 - 2 * law.tail(1, 0)

    def quantile(self, level: float, *, largest: int) -> int:
        """The least Q such that the noise is within Q with a chance of at least `level`."""
        if not 0 < level < 1:
            raise Refusal("the level must be between 0 and 1, such as 0.9")
        law = self.law(np.array([largest], dtype=np.int64))
        before, ctx.prec = ctx.prec, PRECISION
        try:
            beyond, inside, outside = arb(1) - arb(level), 0, -1
            while not 2 * law.tail(inside + 1, 0) <= beyond:
                inside, outside = 2 * inside + 1, inside
            while inside - outside > 1:
                middle = (inside + outside) // 2
                if 2 * law.tail(middle + 1, 0) <= beyond:
                    inside = middle
                else:
                    outside = middle
            return inside
        finally:
            ctx.prec = before

    def certify(self) -> Certificate:
        """Recheck the guarantee from the chances alone."""
        alpha = self.alpha
        return Certificate(self.name, alpha, self.guarantee.epsilon, worst_loss(self, float(alpha)))

    # ------------------------------------------------------- for the certificate

    @abstractmethod
    def log_weight(self, t: Array) -> Array:
        """The logarithm of the weight w(t)."""

    @property
    @abstractmethod
    def greatest_elasticity(self) -> float:
        """The supremum of -t w'(t) / w(t)."""

    @abstractmethod
    def normaliser_elasticity(self) -> tuple[float, float]:
        """Bounds, for all S >= 1, of the derivative of ln N(S) by ln S."""


def alpha_of(guarantee: Guarantee, name: str) -> Fraction:
    """The alpha of a guarantee, for a mechanism that needs one."""
    if not isinstance(guarantee.neighbours, (Strong, Weak)):
        raise Refusal(f"{name} needs strong or weak neighbours, which have an alpha")
    return guarantee.neighbours.alpha


def scales(mechanism: ScaledMechanism, largests: Whole, factor: Fraction) -> Scales:
    """S times a factor for some cells."""
    return Scales(np.asarray(largests, dtype=np.int64), mechanism.alpha, factor)


def root(square: float) -> float:
    """The root of a second moment that rounding may have made negative."""
    return sqrt(max(square, 0.0))
