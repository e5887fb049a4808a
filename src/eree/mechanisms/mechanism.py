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

from eree.cells import MOST_WORKERS, Cell
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
_LEAST_ALPHA, _MOST_ALPHA = Fraction(1, 10**6), Fraction(1_000)
_LEAST_DELTA = Fraction(1, 10**300)
#: Bits of exact chances: enough for tails that are differences of nearly equal numbers.
PRECISION = 320
#: Parameters are multiples of 1 over this, rounded towards more noise.
GRAIN = 1 << 40

#: The levels of the quantiles that come with an expected error.
LEVELS = (0.5, 0.9, 0.95, 0.99)

#: A cell without workers, for noise that is the same in every cell.
EMPTY = Cell(0)


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
    def tail(self, cell: Cell, distance: int, side: int) -> arb:
        """The chance of an output at least `distance` >= 1 above (side 1) or below (-1) the count.

        A ball at the precision that is set.
        """

    @abstractmethod
    def draw_outputs(self, counts: Integers, largests: Integers, random: Random) -> Integers:
        """Outputs before those beyond the limit are set to it."""

    @abstractmethod
    def mean_error(self, cell: Cell) -> tuple[float, float]:
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

    def pmf(self, cell: Cell, output: int) -> arb:
        """The chance of an output, as a ball at the precision that is set."""
        output = index(output)

        def beyond(value: int, side: int) -> arb:
            """The chance of `value` or more (side 1) or less (side -1), beyond the count."""
            if abs(value) > LIMIT:
                return arb(0)
            return self.tail(cell, side * (value - cell.count), side)

        if abs(output) > LIMIT:
            return arb(0)
        if output == cell.count:
            return 1 - beyond(cell.count + 1, 1) - beyond(cell.count - 1, -1)
        side = 1 if output > cell.count else -1
        return beyond(output, side) - beyond(output + side, side)

    def log_pmf(self, cell: Cell, output: int) -> float:
        """The logarithm of the chance of an output; minus infinity where it has none."""
        with exactly():
            chance = self.pmf(cell, output)
            return float(chance.log()) if chance > 0 else float("-inf")

    def expected_error(self, cell: Cell = EMPTY) -> ExpectedError:
        """The error of a cell, from exact sums; means are of the law before its limit."""
        mean, square = self.mean_error(cell)
        within = {level: self.quantile(level, cell) for level in LEVELS}
        return ExpectedError(mean, square, within)

    def quantile(self, level: float, cell: Cell = EMPTY) -> int:
        """The least Q such that the error is within Q with a chance of at least `level`."""
        level = float(level)
        if not 0 < level < 1:
            raise Refusal("the level must be between 0 and 1, such as 0.9")

        def enough(error: int) -> bool:
            outside = self.tail(cell, error + 1, 1) + self.tail(cell, error + 1, -1)
            return bool(outside <= 1 - arb(level))

        with exactly():
            return least_error(enough)


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
    if not 0 <= int(array.min()) <= int(array.max()) < MOST_WORKERS:
        raise Refusal("counts and sizes of workplaces must be from 0 to below 2^60")
    return array.astype(np.int64, copy=False)
