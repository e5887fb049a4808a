"""What every mechanism is: frozen data that turns the exact count of a cell into a noisy one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from math import isfinite, pi
from operator import index
from typing import TYPE_CHECKING, ClassVar, Self, SupportsIndex, overload

import numpy as np
from flint import arb

from eree.cells import Cell, numbers_of_workers
from eree.errors import Refusal, integer
from eree.mechanisms.expected import ExpectedError
from eree.mechanisms.intervals import (
    UNBOUNDED,
    CutMoments,
    MeanNoise,
    WorkerIntervals,
    count_interval,
    group_interval,
    least_error,
)
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Exact, Neighbours, Strong
from eree.random.exact import Array, Integers, exactly
from eree.random.source import Random
from eree.workload import GREATEST_BOUND, DropFrom

if TYPE_CHECKING:
    from eree.mechanisms.certificate import Certificate
    from eree.mechanisms.transformed.transform import Transform


#: Outputs beyond this are set to it: they are made from the output alone, so it costs nothing.
LIMIT = 1 << 61

#: Sizes at which the errors of many cells are computed; from a few hundred workers on noise is in
#: proportion to the size, and that of vectors, much wider than a job, earlier.
_LARGE_SIZES = (10**4, 10**5, 10**6, 2 * 10**7)
SIZES = np.unique([*range(70), 100, *np.geomspace(70, 2000, 100).astype(np.int64), *_LARGE_SIZES])
FEW_SIZES = np.unique(
    [*range(30), 100, *np.geomspace(30, 400, 40).astype(np.int64), 1000, *_LARGE_SIZES]
)
#: Sizes of the grid on which half-widths are taken.
_GRID = 500

#: The levels of the quantiles that come with an expected error.
LEVELS = (0.5, 0.9, 0.95, 0.99)

#: A cell without workers, for noise that is the same in every cell.
EMPTY = Cell(0)


@dataclass(frozen=True)
class Mechanism(ABC):
    """A distribution of noisy counts, calibrated to a guarantee.

    Its output is an integer whose probabilities are exactly those of `log_pmf`, between -2^61 and
    2^61; what lies beyond is set to the end.

    This class is the whole contract: nothing else is asked of a mechanism.  What is abstract has
    to be written for each one; the rest follows, and is overridden where one knows better.

    Attributes:
        guarantee: What it promises.

    Examples:
        >>> eree.mechanism("edge-geometric", epsilon=1).guarantee.epsilon
        Fraction(1, 1)
    """

    guarantee: Guarantee
    #: The name that plans, releases and certificates use.
    name: ClassVar[str]
    #: Whether all worker cells of a group are drawn, and paid for, at once.
    together: ClassVar[bool] = False
    #: The part of a job in which counts are given to `draw`: 1, or 1000 for thousandths.
    unit: ClassVar[int] = 1
    #: In intervals of sums of cells that are drawn apart, the share of the probability to miss that
    #: goes to bounds of the counts; None where the ends of the cells are added up instead.  A share
    #: asks for noise that is added to the count and does not shrink as workplaces grow, and that is
    #: symmetric with probabilities that fall away from zero, or else has `cut_moments`.
    sum_share: ClassVar[float | None] = None
    #: Whether the noise of a cell is as likely above the count as below.
    symmetric: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def calibrate(cls, guarantee: Guarantee) -> Self:
        """The least noise of this kind that keeps a guarantee."""

    @classmethod
    def relation(cls, alpha: Exact | None) -> Neighbours:
        """The neighbours that are meant where only an alpha is given: here strong ones."""
        if alpha is None:
            raise Refusal(f"{cls.name} needs an alpha, such as '0.1'")
        return Strong(alpha)

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
        """The probability of an output at least `distance` >= 1 away from the count.

        Above it for side 1, below it for side -1; a ball at the precision that is set.
        """

    @abstractmethod
    def draw_outputs(self, counts: Integers, largests: Integers, random: Random) -> Integers:
        """Outputs before those beyond the limit are set to it."""

    @abstractmethod
    def mean_error(self, cell: Cell) -> tuple[float, float]:
        """The mean size of the error, and the root of its mean square."""

    @abstractmethod
    def certify(self) -> Certificate:
        """Recheck the guarantee from the probabilities alone."""

    @property
    def parameters(self) -> dict[str, str]:
        """What was calibrated, as exact texts."""
        return {f.name: str(getattr(self, f.name)) for f in fields(self) if f.name != "guarantee"}

    @property
    def at_once(self) -> int:
        """How many worker cells are drawn at once."""
        return 1

    @property
    def whole(self) -> Mechanism:
        """The mechanism that draws what this one shows a part of: itself where it shows all."""
        return self

    @property
    def settings(self) -> dict[str, str]:
        """What `calibrate` has to be given, besides guarantee and cells, for the same again."""
        return {}

    @property
    def bound(self) -> DropFrom | None:
        """How workplaces are bounded before they are counted, whatever they hold."""
        return None

    @property
    def decay(self) -> float | None:
        """r, if noise of the mean size m has the mean size b + m e^(-r b) at a distance b.

        With it the errors of counts from which a bound took b jobs can be predicted.
        """
        return None

    @property
    def first_stage(self) -> Mechanism | None:
        """The mechanism that bounds the workplaces of each group by a noisy number first."""
        return None

    @property
    def transform(self) -> Transform | None:
        """The transform of the count to which noise is added; None where it is the count itself."""
        return None

    @property
    def transformed_covariance(self) -> Array | None:
        """The covariance of the noise of all transformed counts of a group, where it is known."""
        return None

    @property
    def boxes(self) -> tuple[Array, Array, Array] | None:
        """Shares and sides of boxes in which noise is uniform; of transforms by `Knots` alone."""
        return None

    @property
    def mean_noise(self) -> MeanNoise | None:
        """Bounds of the mean of the noise; None where it depends on the count."""
        return MeanNoise()

    def bias(self, _cell: Cell) -> float | None:
        """The mean of the noise of a cell; None where nobody has computed it."""
        return 0.0 if self.symmetric else None

    def public_noise(self, _size: int, _groups: int) -> Array | None:
        """Noise that anyone can draw, for estimates, where that is faster than `draw`."""
        return None

    def bounds(self, largests: Integers, *, random: Random) -> Integers:
        """The noisy bound of each group of a first stage, from its largest workplace."""
        if self.first_stage is None:
            raise Refusal(f"{self.name} has no first stage")
        return np.clip(self.first_stage.draw(largests, random=random), 1, GREATEST_BOUND)

    def draw(
        self, counts: Integers, largests: Integers | None = None, *, random: Random
    ) -> Integers:
        """One noisy count for each cell, in an array of any shape.

        `largests` is the largest workplace of each cell, or the largest in total, as `statistics`
        says; mechanisms that need neither do without it.
        """
        shape = np.shape(counts)
        counts = numbers_of_workers(np.ravel(counts))
        if largests is None and len(self.statistics()) == 1:
            largests = np.zeros_like(counts)
        if (
            largests is None
            or (largests := numbers_of_workers(np.ravel(largests))).shape != counts.shape
        ):
            raise Refusal("every cell needs a count and the size of its largest workplace")
        drawn = np.clip(self.draw_outputs(counts, largests, random), -LIMIT, LIMIT)
        return drawn.reshape(shape)

    def pmf(self, cell: Cell, output: int) -> arb:
        """The probability of an output, as a ball at the precision that is set."""
        output = index(output)

        def tail(value: int, side: int) -> arb:
            """The probability of `value` or more (side 1) or less (side -1)."""
            if abs(value) > LIMIT:
                return arb(0)
            return self.tail(cell, side * (value - cell.count), side)

        if abs(output) > LIMIT:
            return arb(0)
        if output == cell.count:
            return 1 - tail(cell.count + 1, 1) - tail(cell.count - 1, -1)
        side = 1 if output > cell.count else -1
        return tail(output, side) - tail(output + side, side)

    @overload
    def log_pmf(self, cell: Cell, output: int) -> float: ...
    @overload
    def log_pmf(self, cell: Cell, output: Integers | Sequence[int]) -> Array: ...
    def log_pmf(self, cell: Cell, output: int | Integers | Sequence[int]) -> float | Array:
        """The logarithm of the probability of an output, or of each of an array; -inf for none."""
        if not isinstance(output, SupportsIndex) or np.ndim(output):
            outputs = np.asarray(output, dtype=object)
            each = (integer(one, "outputs are integers") for one in outputs.ravel())
            return np.array([self.log_pmf(cell, one) for one in each]).reshape(outputs.shape)
        with exactly():
            probability = self.pmf(cell, index(output))
            return float(probability.log()) if probability > 0 else float("-inf")

    def expected_error(self, cell: Cell = EMPTY) -> ExpectedError:
        """The error of a cell, from exact sums; means are those before the output's limit."""
        mean, square = self.mean_error(cell)
        within = {level: self.quantile(level, cell) for level in LEVELS}
        return ExpectedError(mean, square, within)

    def quantile(self, level: float, cell: Cell = EMPTY) -> int:
        """The least Q such that the error is within Q with a probability of at least `level`."""
        level = float(level)
        if not 0 < level < 1:
            raise Refusal("the level must be between 0 and 1, such as 0.9")

        def enough(error: int) -> bool:
            outside = self.tail(cell, error + 1, 1) + self.tail(cell, error + 1, -1)
            return bool(outside <= 1 - arb(level))

        with exactly():
            return least_error(enough)

    # ------------------------------------------------------------------ errors of many cells

    def total_error(self, cell: Cell) -> float:
        """The mean size of the error, with what a bound on workplaces takes away."""
        return self.mean_error(cell)[0]

    def total_quantile(self, level: float, cell: Cell) -> int:
        """What the size of that error stays within with a probability of `level`."""
        return self.quantile(level, cell)

    def mean_errors(self, counts: Integers, largests: Integers) -> Array:
        """The mean sizes of the errors of many cells."""
        cells, place = np.unique(np.stack([counts, largests]), axis=1, return_inverse=True)
        found = [self.mean_error(Cell(*cell))[0] for cell in cells.T.tolist()]
        errors: Array = np.array(found)[place.reshape(-1)]
        return errors

    def variance(self, size: float) -> float:
        """The variance of the noise of a cell by the size that its scale goes by.

        Where tails are so heavy that there is none: that of normal noise with the same mean size.
        """
        mean, square = self.mean_error(Cell(int(size + 0.5)))
        return square**2 if isfinite(square) else pi / 2 * mean**2

    # ------------------------------------------------------------------ intervals

    def half_widths(self, level: float, sizes: Integers) -> tuple[Integers, Integers]:
        """What the noise stays within below and above the count, for many sizes at once.

        Each is exceeded with a probability of at most half of 1 - level, whatever the size of the
        largest workplace up to the given one.  Here: the quantiles at the sizes of a grid, each for
        all sizes since the one before, which is right where noise does not shrink as sizes grow.
        """
        at = np.unique(np.geomspace(1, max(int(sizes.max(initial=1)), 1), _GRID).astype(np.int64))
        at = np.concatenate([[0], at])
        found = [_half_width(self, level, int(size)) for size in at]
        widths = np.maximum.accumulate(found)[np.searchsorted(at, sizes)]
        return widths, widths

    def half_width(self, level: float, sizes: Integers) -> Integers:
        """The greater of both."""
        return np.maximum(*self.half_widths(level, sizes))

    def group_half_width(self, level: float, sizes: Integers, cells: int) -> Integers:
        """What the sum of the noise of all worker cells of a group stays within.

        Here: that of each cell, at its part of the probability to miss.
        """
        return cells * self.half_width(1 - (1 - level) / cells, sizes)

    def cut_moments(self, _miss: float, _sizes: Integers, _orders: Array) -> CutMoments | None:
        """Means and moments of asymmetric noise that is cut off; None where it is symmetric."""
        return None

    def interval(
        self,
        noisy: Integers,
        level: float,
        *,
        by_total: bool = False,
        clipped: tuple[Integers, Integers] | None = None,
    ) -> tuple[Integers, Integers]:
        """Ends of confidence intervals for the counts of groups, a row for each group.

        `by_total` says that noise grows with the largest whole workplace, which the count of one
        worker cell does not bound.  `clipped` has the noisy bounds of a first stage and the public
        numbers of workplaces, cell by cell.
        """
        if clipped is not None:
            raise Refusal(f"{self.name} has no first stage")
        if by_total:
            total = group_interval(self, level, noisy.shape[1])
            low, high = WorkerIntervals(self.half_width, total, level).ends(noisy)
        else:
            low, high = count_interval(self, level).ends(noisy)
        return low, self._above(high)

    def group_interval(self, sums: Integers, level: float) -> tuple[Integers, Integers]:
        """Ends of intervals for the sums of all worker cells of groups that are drawn at once."""
        low, high = group_interval(self, level, self.at_once).ends(sums)
        return low, self._above(high)

    def _above(self, high: Integers) -> Integers:
        """High ends; what a bound has left out of the count is not known."""
        return high if self.bound is None else np.full_like(high, UNBOUNDED)


def errors_by_size(
    mechanism: Mechanism, sizes: Integers, *, least: int = 0, known: Integers = SIZES
) -> Array:
    """Mean errors that depend on a size alone: exact at many sizes, interpolated between them.

    Up to `least` they are the same.
    """
    at = known[: int(np.searchsorted(known, sizes.max(initial=0))) + 1]
    of_sizes = [_mean_error(mechanism, max(int(size), least)) for size in at]
    errors: Array = np.interp(sizes, at, np.array(of_sizes))
    return errors


@lru_cache(maxsize=1 << 18)
def _mean_error(mechanism: Mechanism, size: int) -> float:
    return mechanism.mean_error(Cell(size))[0]


@lru_cache(maxsize=1 << 14)
def _half_width(mechanism: Mechanism, level: float, size: int) -> int:
    """So that either side is exceeded with at most half of the probability to miss."""
    cell, allowed = Cell(size), (1 - arb(level)) / 2

    def enough(error: int) -> bool:
        return all(mechanism.tail(cell, error + 1, side) <= allowed for side in (1, -1))

    with exactly():
        return least_error(enough)


def one_cell(size: int) -> Integers:
    """A size as an array of one."""
    return np.array([size], dtype=np.int64)
