"""Cells: one as a value that probabilities are asked about, and all exact ones of a marginal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import index
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal, how_many

if TYPE_CHECKING:
    import pyarrow as pa

    from eree.workload import Marginal

#: No count of workers comes near this.
MOST_WORKERS = 1 << 60
#: The median of the sizes of workplaces and the standard deviation of their logarithms, as most
#: are, before any is known.
USUAL_MEDIAN, USUAL_DEVIATION = 5.0, 1.5


@dataclass(frozen=True, order=True)
class Cell:
    """What the noise of a cell may depend on.

    Args:
        count: Its jobs.
        largest: The jobs of its largest workplace; without it the cell is one workplace.

    Examples:
        >>> eree.Cell(120, largest=40)
        Cell(count=120, largest=40)
    """

    count: int
    largest: int = None  # type: ignore[assignment]  # stands for the count

    def __post_init__(self) -> None:
        largest = self.count if self.largest is None else self.largest
        object.__setattr__(self, "count", _workers(self.count))
        object.__setattr__(self, "largest", _workers(largest))

    def words(self) -> str:
        """The cell, for people to read."""
        return f"count {self.count}, largest {self.largest}"


@dataclass(frozen=True, order=True)
class Group(Cell):
    """The worker cells of one workplace cell.

    Args:
        counts: Their jobs; `count` is the sum.

    Examples:
        >>> eree.Group.of([3, 4], largest=5)
        Group(count=7, largest=5, counts=(3, 4))
    """

    counts: tuple[int, ...] = ()

    @classmethod
    def of(cls, counts: Iterable[int], largest: int | None = None) -> Self:
        """A group of some counts; without `largest` it is one workplace."""
        each = tuple(map(_workers, counts))
        return cls(sum(each), sum(each) if largest is None else largest, each)

    def words(self) -> str:
        """The group, for people to read."""
        return f"counts {', '.join(map(str, self.counts))}; largest {self.largest}"


def _workers(number: int) -> int:
    """A number of workers as a plain integer; refused without quoting it."""
    try:
        found = index(number)
    except TypeError:
        raise Refusal("a count and the size of a workplace must be integers") from None
    if not 0 <= found < MOST_WORKERS:
        raise Refusal("a count and the size of a workplace must be from 0 to below 2^60")
    return found


def numbers_of_workers(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers of workers as an array, refused without quoting one."""
    array = np.asarray(numbers)
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise Refusal("counts and sizes must be a list of integers")
    if not 0 <= int(array.min()) <= int(array.max()) < MOST_WORKERS:
        raise Refusal("counts and sizes of workplaces must be from 0 to below 2^60")
    return array.astype(np.int64, copy=False)


@dataclass(frozen=True, repr=False, eq=False)
class Cells:
    """The exact cells of a marginal.  Confidential: printing them shows their shape only.

    A size profile has in place of the first three columns `at_least`, a threshold, and `number`,
    the workplaces with at least so many workers; over all groups at once its attributes are null.

    Attributes:
        marginal: What was counted.
        confidential: The Arrow table: the attributes of the marginal in their order, then `count`,
            jobs in the cell; `largest`, the most of these that one workplace holds;
            `largest_total`, the size of the largest workplace of the workplace cell, all its
            workers counted (only where a worker attribute is involved); `workplaces`, the public
            number of them in the workplace cell.

    Examples:
        >>> cells = eree.tabulate(eree.load("data"), by=["county"])
        >>> cells.confidential.column_names
        ['county', 'count', 'largest', 'workplaces']
    """

    marginal: Marginal
    confidential: pa.Table = field(repr=False)

    def __len__(self) -> int:
        return int(self.confidential.num_rows)

    def __repr__(self) -> str:
        return f"<Cells of {self.marginal}: {how_many(len(self), 'cell')}, confidential>"
