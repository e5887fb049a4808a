"""What every mechanism is: frozen data that turns the exact count of a cell into a noisy one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from fractions import Fraction
from math import ceil, floor
from operator import index
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.mechanisms.needs import LEAST_EPSILON, MOST_EPSILON
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Strong, Weak
from eree.random.exact import Integers
from eree.random.source import Random

if TYPE_CHECKING:
    from eree.mechanisms.certificate import Certificate

Array = NDArray[np.float64]

#: Outputs beyond this are set to it: they are made from the output alone, so it costs nothing.
LIMIT = 1 << 61
#: No count of workers comes near this.
_MOST_WORKERS = 1 << 60
_LEAST_ALPHA, _MOST_ALPHA = Fraction(1, 10**6), Fraction(1_000)
_LEAST_DELTA = Fraction(1, 10**300)
#: Bits of exact chances: enough for tails that are differences of nearly equal numbers.
PRECISION = 320
#: Parameters are multiples of 1 over this, rounded towards more noise.
GRAIN = 1 << 40

#: The levels of the quantiles that come with an expected error.
LEVELS = (0.5, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class ExpectedError:
    """The error of one noisy count, noisy minus true.

    `quantiles` gives, for some levels, the least integer that the size of the error does not
    exceed with at least that chance.
    """

    mean_absolute: float
    root_mean_square: float
    quantiles: Mapping[float, int]


@dataclass(frozen=True)
class Mechanism(ABC):
    """A law of noisy counts, calibrated to a guarantee.

    Its output is an integer whose chances are exactly those of `log_pmf`, between -2^61 and
    2^61; what lies beyond is set to the end.
    """

    guarantee: Guarantee
    #: The name that plans, releases and certificates use.
    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def calibrate(cls, guarantee: Guarantee) -> Self:
        """The least noise of this kind that keeps a guarantee."""

    @classmethod
    def default_delta(cls, _alpha: Fraction | None, _epsilon: Fraction) -> Fraction:
        """The delta that is claimed where none is asked for."""
        return Fraction(0)

    @abstractmethod
    def statistics(self, *, worker_attributes: bool = False) -> tuple[str, ...]:
        """The statistics of a cell that a draw needs: columns of the confidential cells.

        `worker_attributes` says whether a worker attribute stands in the marginal's `by` or
        `where`.  Refuses where the mechanism has no guarantee for such cells.
        """

    @abstractmethod
    def beyond(self, distance: int, side: int, *, count: int, largest: int) -> arb:
        """The chance of an output at least `distance` >= 1 above (side 1) or below (-1) the count.

        A ball at the precision that is set.
        """

    @abstractmethod
    def draw_outputs(self, counts: Integers, largests: Integers, random: Random) -> Integers:
        """Outputs before those beyond the limit are set to it."""

    @abstractmethod
    def mean_error(self, *, count: int, largest: int) -> tuple[float, float]:
        """The mean size of the error, and the root of its mean square."""

    @abstractmethod
    def certify(self) -> Certificate:
        """Recheck the guarantee from the chances alone."""

    @property
    def parameters(self) -> dict[str, str]:
        """What was calibrated, as exact texts."""
        return {f.name: str(getattr(self, f.name)) for f in fields(self) if f.name != "guarantee"}

    def draw(
        self, counts: Integers, largests: Integers | None = None, *, random: Random
    ) -> Integers:
        """One noisy count for each cell.

        `largests` is the largest workplace of each cell, or the largest in total, as `statistics`
        says; mechanisms that need neither do without it.
        """
        counts = _whole(counts)
        if largests is None and len(self.statistics()) == 1:
            largests = np.zeros_like(counts)
        if largests is None or (largests := _whole(largests)).shape != counts.shape:
            raise Refusal("every cell needs a count and the size of its largest workplace")
        return np.clip(self.draw_outputs(counts, largests, random), -LIMIT, LIMIT)

    def pmf(self, *, output: int, count: int, largest: int | None = None) -> arb:
        """The chance of an output, as a ball at the precision that is set."""
        output, (count, largest) = index(output), self._cell(count, largest)

        def beyond(value: int, side: int) -> arb:
            """The chance of `value` or more (side 1) or less (side -1), beyond the count."""
            if abs(value) > LIMIT:
                return arb(0)
            return self.beyond(side * (value - count), side, count=count, largest=largest)

        if abs(output) > LIMIT:
            return arb(0)
        if output == count:
            return 1 - beyond(count + 1, 1) - beyond(count - 1, -1)
        side = 1 if output > count else -1
        return beyond(output, side) - beyond(output + side, side)

    def log_pmf(self, *, output: int, count: int, largest: int | None = None) -> float:
        """The logarithm of the chance of an output; minus infinity where it has none."""
        with exactly():
            chance = self.pmf(output=output, count=count, largest=largest)
            return float(chance.log()) if chance > 0 else float("-inf")

    def expected_error(self, *, count: int = 0, largest: int | None = None) -> ExpectedError:
        """The error of a cell, from exact sums; means are of the law before its limit."""
        count, largest = self._cell(count, largest)
        mean, square = self.mean_error(count=count, largest=largest)
        within = {level: self.quantile(level, count=count, largest=largest) for level in LEVELS}
        return ExpectedError(mean, square, within)

    def quantile(self, level: float, *, count: int = 0, largest: int | None = None) -> int:
        """The least Q such that the error is within Q with a chance of at least `level`."""
        count, largest = self._cell(count, largest)
        level = float(level)
        if not 0 < level < 1:
            raise Refusal("the level must be between 0 and 1, such as 0.9")

        def enough(error: int) -> bool:
            cell = {"count": count, "largest": largest}
            outside = self.beyond(error + 1, 1, **cell) + self.beyond(error + 1, -1, **cell)
            return bool(outside <= 1 - arb(level))

        with exactly():
            return least_error(enough)

    def _cell(self, count: int, largest: int | None) -> tuple[int, int]:
        """A cell as plain integers; refused without quoting one."""
        if largest is None and len(self.statistics()) > 1:
            raise Refusal(f"{self.name} needs the size of the cell's largest workplace as well")
        found = []
        for number in (count, largest or 0):
            try:
                found.append(index(number))
            except TypeError:
                raise Refusal("a count and the size of a workplace must be integers") from None
        if not all(0 <= number < _MOST_WORKERS for number in found):
            raise Refusal("a count and the size of a workplace must be from 0 to below 2^60")
        return found[0], found[1]


def least_error(enough: Callable[[int], bool]) -> int:
    """The least integer from which on errors are `enough`."""
    inside, outside = 0, -1
    while not enough(inside) and inside < 2 * LIMIT:
        inside, outside = 2 * inside + 1, inside
    while inside - outside > 1:
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if enough(middle) else (inside, middle)
    return inside


@contextmanager
def exactly(bits: int = PRECISION) -> Iterator[None]:
    """Interval arithmetic with this many bits."""
    before, ctx.prec = ctx.prec, bits
    try:
        yield
    finally:
        ctx.prec = before


def alpha_of(guarantee: Guarantee, name: str) -> Fraction:
    """The alpha of a guarantee, for a mechanism that needs one."""
    if not isinstance(guarantee.neighbours, (Strong, Weak)):
        raise Refusal(
            f"{name} needs strong or weak neighbours, which have an alpha; edge-geometric is for"
            " edge neighbours, truncated-laplace for node neighbours"
        )
    check_range(guarantee, name)
    return guarantee.neighbours.alpha


def check_range(guarantee: Guarantee, name: str) -> None:
    """Refuse parameters so small or large that doubles cannot tell them from nothing."""
    alpha = getattr(guarantee.neighbours, "alpha", Fraction(1))
    if not _LEAST_ALPHA <= alpha <= _MOST_ALPHA:
        raise Refusal(
            f"{name} takes an alpha from 0.000001 to 1000; for less use edge neighbours, for more"
            " node neighbours"
        )
    if not LEAST_EPSILON <= guarantee.epsilon <= MOST_EPSILON:
        raise Refusal(f"{name} takes an epsilon from 0.000001 to 500")
    if 0 < guarantee.delta < _LEAST_DELTA:
        raise Refusal(f"{name} takes a delta of 0, or from 1e-300")


def rounded_up(value: float) -> Fraction:
    """A multiple of the grain that is no less, whatever the last bits of the value."""
    return Fraction(ceil(value * (1 + 2**-48) * GRAIN), GRAIN)


def rounded_down(value: float) -> Fraction:
    """A multiple of the grain that is no more, whatever the last bits of the value."""
    return Fraction(floor(value * (1 - 2**-48) * GRAIN), GRAIN)


def one_cell(size: int) -> Integers:
    """A size as an array of one."""
    return np.array([size], dtype=np.int64)


def _whole(numbers: Integers) -> Integers:
    """Numbers of workers as an array, refused without quoting one."""
    array = np.asarray(numbers)
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise Refusal("counts and sizes must be a list of integers")
    if not 0 <= int(array.min()) <= int(array.max()) < _MOST_WORKERS:
        raise Refusal("counts and sizes of workplaces must be from 0 to below 2^60")
    return array.astype(np.int64, copy=False)
