"""Figures in the shape of a table: rows and columns, errors and flags."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import isfinite, prod
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eree.noise.exact import Whole
from eree.survey.tables import Axis
from eree.web.dataset import DataSet, Figures, Mask, Reals, combined

NEGATIVE, UNRELIABLE, ABSENT, OPEN = "negative", "unreliable", "absent", "open"
FLAGS: Mapping[str, str] = MappingProxyType(
    {NEGATIVE: "n", UNRELIABLE: "u", ABSENT: "a", OPEN: "o"}
)
#: The parts of a figure in plain data; without a standard error where that is not public.
_COLUMNS = ("estimate", "low", "high", "margin", "relative", "standard_error", "flags")
#: What stands beside codes in plain data and in files; a variable of such a name gets one more _.
TAKEN = frozenset(
    (*_COLUMNS, "rank", "best", "worst", "damage", "decision", "damage_per_job", "release")
)
#: Flags by the sum of their powers of 2.
_FLAGGED = tuple(
    [name for number, name in enumerate(FLAGS) if value >> number & 1]
    for value in range(1 << len(FLAGS))
)


@dataclass(frozen=True, eq=False)
class Block:
    """Figures in the shape of a table, or of its totals."""

    values: Whole
    unit: int
    low: Reals
    high: Reals
    deviation: Reals | None
    margin: Reals
    flags: Mapping[str, Mask]

    @cached_property
    def jobs(self) -> Reals:
        """The estimates in whole units."""
        return self.values / self.unit

    @cached_property
    def relative(self) -> Reals:
        """The standard error, or the margin where there is none, by the estimate."""
        error = self.margin if self.deviation is None else self.deviation
        found = np.full(self.values.shape, np.inf)
        np.divide(error, self.jobs, out=found, where=self.values > 0)
        found[(self.values == 0) & (error == 0)] = 0.0
        return found

    def taken(self, places: Sequence[int] | NDArray[np.intp]) -> Block:
        """Some of the rows."""
        kept = np.asarray(places, dtype=np.intp)
        return self._each(lambda numbers: numbers[kept])

    def across(self, places: NDArray[np.intp]) -> Block:
        """Some of the columns."""
        return self._each(lambda numbers: numbers[:, places])

    def _each(self, made: Callable[[NDArray[Any]], NDArray[Any]]) -> Block:
        """The same block, with something done to all of its numbers."""
        return Block(
            made(self.values),
            self.unit,
            made(self.low),
            made(self.high),
            None if self.deviation is None else made(self.deviation),
            made(self.margin),
            {name: made(mask) for name, mask in self.flags.items()},
        )

    def cell(self, *place: int) -> Cell:
        """One figure."""
        deviation = None if self.deviation is None else float(self.deviation[place])
        flags = tuple(name for name, mask in self.flags.items() if mask[place])
        return Cell(
            int(self.values[place]),
            self.unit,
            float(self.low[place]),
            float(self.high[place]),
            deviation,
            float(self.margin[place]),
            float(self.relative[place]),
            flags,
        )

    def records(self) -> list[dict[str, Any]]:
        """All figures as plain data, in their order: what has no bound is null."""
        flags = np.zeros(self.values.shape, dtype=np.int64)
        for number, name in enumerate(FLAGS):
            flags += self.flags[name] * (1 << number)
        errors = () if self.deviation is None else (self.deviation,)
        reals = np.array([self.low, self.high, self.margin, self.relative, *errors])
        rounded: list[list[Any]] = np.round(reals, 4).reshape(len(reals), -1).tolist()
        if not np.isfinite(reals).all():
            rounded = [[n if isfinite(n) else None for n in numbers] for numbers in rounded]
        if self.unit == 1:  # whole numbers, but for the relative error
            for place in (0, 1, 2):
                rounded[place] = [n if n is None else _whole(n) for n in rounded[place]]
        estimates = self.values if self.unit == 1 else self.jobs
        columns = [estimates.ravel().tolist(), *rounded]
        columns.append([_FLAGGED[number] for number in flags.ravel().tolist()])
        names = _COLUMNS if errors else (*_COLUMNS[:5], _COLUMNS[6])
        return [dict(zip(names, cell, strict=True)) for cell in zip(*columns, strict=True)]


@dataclass(frozen=True)
class Cell:
    """One figure of a table; `value` is a whole number of parts, of which `unit` make one."""

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

    def as_json(self) -> dict[str, Any]:
        """Plain data: what has no bound is null."""
        found: dict[str, Any] = {
            "estimate": self.estimate,
            "low": _number(self.low, self.unit),
            "high": _number(self.high, self.unit),
            "margin": _number(self.margin, self.unit),
            "relative": _number(self.relative, 1_000),
        }
        if self.deviation is not None:
            found["standard_error"] = _number(self.deviation, self.unit)
        return found | {"flags": list(self.flags)}


def keyed(names: Iterable[str], codes: Iterable[str]) -> dict[str, str]:
    """Codes by the names of their variables, as plain data has them beside a figure."""
    return {f"{n}_" if n in TAKEN else n: code for n, code in zip(names, codes, strict=True)}


@dataclass(frozen=True)
class Side:
    """The rows or the columns of a table: for each, the places of its codes on the axes."""

    axes: tuple[Axis, ...]
    places: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.places)

    def codes(self, number: int) -> tuple[str, ...]:
        """The codes of a row or column."""
        return tuple(a.codes[p] for a, p in zip(self.axes, self.places[number], strict=True))

    def labels(self, number: int) -> tuple[str, ...]:
        """Their labels."""
        return tuple(a.labels[p] for a, p in zip(self.axes, self.places[number], strict=True))

    def keyed(self, number: int) -> dict[str, str]:
        """The codes by the names of their variables."""
        return keyed((a.name for a in self.axes), self.codes(number))

    def taken(self, kept: NDArray[np.intp]) -> Side:
        """Some of them."""
        return Side(self.axes, tuple(self.places[i] for i in kept.tolist()))


#: Where no variable is: one row or column, of all.
NO_SIDE = Side((), ((),))


def side_of(figures: Figures, split: int, *, first: bool) -> tuple[Side, Whole]:
    """The rows or the columns that figures are found in, and where each figure is."""
    chosen = slice(0, split) if first else slice(split, None)
    axes = figures.axes[chosen]
    if figures.places is None:
        inner = prod(len(axis.codes) for axis in figures.axes[split:])
        every = tuple(product(*(range(len(axis.codes)) for axis in axes)))
        return Side(axes, every), figures.keys // inner if first else figures.keys % inner
    places = figures.places[chosen]
    keys = combined(axes, places, len(figures))
    _, start, where = np.unique(keys, return_index=True, return_inverse=True)
    found = tuple(tuple(int(place[i]) for place in places) for i in start.tolist())
    return Side(axes, found), where.astype(np.int64)


def filled(data: DataSet, figures: Figures, at: Whole, shape: tuple[int, ...]) -> Block:
    """Figures in their places; where there is none, nobody is."""
    size, kept = prod(shape), at >= 0
    place = at[kept]

    def spread(numbers: NDArray[Any], empty: float) -> NDArray[Any]:
        if figures.places is None:  # all are there, in this order
            return numbers.reshape(shape)
        found = np.full(size, empty, dtype=numbers.dtype)
        found[place] = numbers[kept]
        return found.reshape(shape)

    flags = {
        NEGATIVE: figures.values < 0,
        UNRELIABLE: data.unreliable(figures),
        ABSENT: np.zeros(len(figures), np.bool_) if figures.absent is None else figures.absent,
        OPEN: np.isinf(figures.high),
    }
    return Block(
        spread(figures.values, 0),
        figures.unit,
        spread(figures.low, 0.0),
        spread(figures.high, 0.0),
        None if figures.deviation is None else spread(figures.deviation, 0.0),
        spread(_margin(figures), 0.0),
        {name: spread(mask, name == ABSENT) for name, mask in flags.items()},
    )


def _margin(figures: Figures) -> Reals:
    """The margin of error; how far the farther end of the interval is, where there is no other."""
    if figures.margin is not None:
        return figures.margin
    jobs = figures.values / figures.unit
    return np.maximum(jobs - figures.low, figures.high - jobs)


def _number(number: float, unit: int) -> int | float | None:
    """A number for plain data: null without bound, whole where units are."""
    if not isfinite(number):
        return None
    rounded = round(number * 10_000) / 10_000
    return _whole(rounded) if unit == 1 else rounded


def _whole(number: float) -> int | float:
    return int(number) if number.is_integer() else number
