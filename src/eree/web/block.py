"""Figures in the shape of a table, with their errors and flags, and as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import repeat
from math import isnan
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eree.random.exact import Integers
from eree.survey.query import Axis
from eree.web.figures import Mask, Reals
from eree.web.texts import Json, Texts, text_of, texts_of
from eree.web.words import say

NEGATIVE, UNRELIABLE, ABSENT, OPEN = "negative", "unreliable", "absent", "open"
FLAGS = (NEGATIVE, UNRELIABLE, ABSENT, OPEN)
#: Flags as people read them.
FLAG_NAMES = {
    NEGATIVE: say("negative"),
    UNRELIABLE: say("unreliable"),
    ABSENT: say("absent"),
    OPEN: say("no upper bound"),
}
#: The parts of a figure in plain data; without a standard error where that is not public.
_COLUMNS = ("estimate", "low", "high", "margin", "relative", "standard_error", "flags")
#: What stands beside codes in plain data and in files; a variable of such a name gets one more _.
TAKEN = frozenset(
    (
        *_COLUMNS,
        *("guaranteed_low", "guaranteed_high", "rank", "best", "worst"),
        *("damage", "decision", "damage_per_job", "release"),
    )
)
#: Flags by the sum of their powers of 2.
FLAGGED = tuple(
    [name for number, name in enumerate(FLAGS) if value >> number & 1]
    for value in range(1 << len(FLAGS))
)
_FLAG_NAMES = tuple(map(tuple, FLAGGED))
_FLAG_TEXTS = np.array([text_of(flags) for flags in FLAGGED], dtype=object)

#: Some rows or columns; None adds a side of one.
Places = NDArray[np.intp] | slice | None


@dataclass(frozen=True, eq=False)
class Block:
    """Figures in the shape of a table, or of its totals.

    Where a share is not known, its low end, its high end and its margin are no numbers.
    """

    values: Integers
    unit: int
    low: Reals
    high: Reals
    deviation: Reals | None
    margin: Reals
    flags: Mapping[str, Mask]

    @cached_property
    def jobs(self) -> Reals:
        """The estimates in whole units; no numbers where they are not known."""
        return np.where(np.isnan(self.low), np.nan, self.values / self.unit)

    @cached_property
    def relative(self) -> Reals:
        """The standard error, or the margin where there is none, by the estimate."""
        error = self.margin if self.deviation is None else self.deviation
        found = np.full(self.values.shape, np.inf)
        np.divide(error, self.jobs, out=found, where=self.values > 0)
        found[(self.values == 0) & (error == 0)] = 0.0
        return found

    @property
    def decimals(self) -> int:
        """As many as show every figure without rounding."""
        return digits(self.unit) if (self.values % self.unit).any() else 0

    @property
    def digits(self) -> int:
        """Decimals of files: finer than its figures, so that these lie within their intervals."""
        return max(3, digits(self.unit))

    @cached_property
    def flag_sums(self) -> NDArray[np.uint8]:
        """The flags of each figure, as the sum of their powers of 2."""
        found = np.zeros(self.values.shape, dtype=np.uint8)
        for number, name in enumerate(FLAGS):
            found |= self.flags[name].view(np.uint8) << number
        return found

    @classmethod
    def in_a_line(cls, blocks: Sequence[Block]) -> Block:
        """All figures of some blocks of one unit, one after the other."""

        def joined(parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
            return np.concatenate([part.reshape(-1) for part in parts])

        errors = [block.deviation for block in blocks if block.deviation is not None]
        return cls(
            joined(block.values for block in blocks),
            blocks[0].unit,
            joined(block.low for block in blocks),
            joined(block.high for block in blocks),
            joined(errors) if errors else None,
            joined(block.margin for block in blocks),
            {name: joined(block.flags[name] for block in blocks) for name in FLAGS},
        )

    def lines(self) -> Block:
        """The same as a column, a line for each."""
        return self.taken(slice(None), None)

    def taken(self, *places: Places) -> Block:
        """Some of the rows, or all rows and some of the columns."""
        return self._changed(lambda numbers: numbers[places])

    def part(self, some: slice, shape: tuple[int, ...]) -> Block:
        """Some of a line in a shape."""
        return self._changed(lambda numbers: numbers[some].reshape(shape))

    def _changed(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Block:
        """The same with other rows and columns."""
        return Block(
            change(self.values),
            self.unit,
            change(self.low),
            change(self.high),
            None if self.deviation is None else change(self.deviation),
            change(self.margin),
            {name: change(mask) for name, mask in self.flags.items()},
        )

    def cell(self, *place: int) -> Cell:
        """One figure."""
        deviation = None if self.deviation is None else float(self.deviation[place])
        return Cell(
            int(self.values[place]),
            self.unit,
            float(self.low[place]),
            float(self.high[place]),
            deviation,
            float(self.margin[place]),
            float(self.relative[place]),
            _FLAG_NAMES[self.flag_sums[place]],
        )

    @cached_property
    def cells(self) -> list[Cell]:
        """All figures, in their order."""
        parts = zip(
            self.values.ravel().tolist(),
            repeat(self.unit),
            self.low.ravel().tolist(),
            self.high.ravel().tolist(),
            repeat(None) if self.deviation is None else self.deviation.ravel().tolist(),
            self.margin.ravel().tolist(),
            self.relative.ravel().tolist(),
            map(_FLAG_NAMES.__getitem__, self.flag_sums.ravel().tolist()),
            strict=False,
        )
        return list(map(tuple.__new__, repeat(Cell), parts))

    @cached_property
    def _columns(self) -> dict[str, Texts]:
        """All figures in their order, a column for each part, as JSON."""
        errors = () if self.deviation is None else (self.deviation,)
        reals = (self.low, self.high, self.margin, self.relative, *errors)
        rounded = np.round([numbers.ravel() for numbers in reals], self.digits)
        rounded[3] = np.round(self.relative.ravel(), max(4, self.digits))
        estimates = self.values if self.unit == 1 else self.jobs
        names = _COLUMNS if errors else (*_COLUMNS[:5], _COLUMNS[6])
        found = dict(zip(names, map(texts_of, (estimates.ravel(), *rounded)), strict=False))
        return found | {names[-1]: _FLAG_TEXTS[self.flag_sums.ravel()]}

    def records(self, keys: Mapping[str, Texts] = MappingProxyType({})) -> Json:
        """All figures as a list of objects; each may have something in front, such as its codes."""
        return Json.rows({**keys, **self._columns}, self.values.size)

    def some_records(self, places: slice, keys: Mapping[str, Texts]) -> Json:
        """The same of some of them."""
        columns = {name: texts[places] for name, texts in self._columns.items()}
        return Json.rows({**keys, **columns}, places.stop - places.start)


class Cell(NamedTuple):
    """One figure of a table; `value` counts parts, of which `unit` make one."""

    value: int
    unit: int
    low: float
    high: float
    deviation: float | None
    margin: float
    relative: float
    flags: tuple[str, ...]

    @property
    def estimate(self) -> int | float:
        """The estimate as a number."""
        return self.value if self.unit == 1 else self.value / self.unit

    @property
    def known(self) -> bool:
        """Whether it is a figure at all: a share of a total of 0 or less is none."""
        return not isnan(self.low)


@cache
def digits(unit: int) -> int:
    """How many decimals count parts, of which so many make one: a power of 10."""
    return len(str(unit)) - 1


def labelled(axes: Sequence[Axis]) -> list[str]:
    """The names of the columns of labels in files; none is that of a variable."""
    names = {axis.name for axis in axes}
    found = []
    for axis in axes:
        label = f"{axis.name}_label"
        while label in names:
            label += "_"
        found.append(label)
    return found


def beside(names: Iterable[str]) -> tuple[str, ...]:
    """The names of variables as plain data has them beside a figure."""
    return tuple(f"{name}_" if name in TAKEN else name for name in names)
