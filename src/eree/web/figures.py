"""Figures: what is asked of a data set, and the estimates with their errors that come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eree.random.exact import Integers
from eree.survey.query import Axis
from eree.web.columns import places_of

JOBS, WORKPLACES = "jobs", "workplaces"
Reals = NDArray[np.float64]
Mask = NDArray[np.bool_]


def combined(axes: Sequence[Axis], places: Sequence[NDArray[Any]], count: int) -> Integers:
    """A number for each of so many figures that says where it is on all axes at once."""
    found: Integers = np.zeros(count, dtype=np.int64)
    for axis, place in zip(axes, places, strict=True):
        found = found * len(axis.codes) + place
    return found


@dataclass(frozen=True, eq=False)
class Figures:
    """Estimates with what is known of their errors, one for each combination that is listed.

    `listed` says where each is on all axes at once, in ascending order; it is None where every
    combination is listed, in the order of the axes.  `values` are integers that count parts, of
    which `unit` make one; they are signed, so that sums of them are right.  `low` and `high` are
    ends of intervals in whole units, `high` infinite where nothing bounds a figure.
    `deviation` is the standard error, where it is public, and `margin` what it makes of the
    confidence level; elsewhere the margin of error is the farther end of the interval.
    `absent` are figures of 0 by declaration or because no workplace is there.
    """

    axes: tuple[Axis, ...]
    listed: Integers | None
    values: Integers
    unit: int
    low: Reals
    high: Reals
    deviation: Reals | None = None
    margin: Reals | None = None
    absent: Mask | None = None

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def joined(cls, tables: Sequence[Figures]) -> Figures:
        """All figures of some tables of one unit, one after the other."""
        first = tables[0]
        if len(tables) == 1:
            return first
        low, high = (np.concatenate([getattr(t, n) for t in tables]) for n in ("low", "high"))
        errors = [t.deviation for t in tables if t.deviation is not None]
        margins = [t.margin for t in tables if t.margin is not None]
        absent = None
        if any(t.absent is not None for t in tables):
            nobody = [np.zeros(len(t), np.bool_) if t.absent is None else t.absent for t in tables]
            absent = np.concatenate(nobody)
        return cls(
            (),
            None,
            np.concatenate([t.values for t in tables]),
            first.unit,
            low,
            high,
            np.concatenate(errors) if errors else None,
            np.concatenate(margins) if margins else None,
            absent,
        )

    @cached_property
    def keys(self) -> Integers:
        """Where each figure is on all axes at once, in ascending order."""
        return np.arange(len(self), dtype=np.int64) if self.listed is None else self.listed

    @cached_property
    def places(self) -> list[NDArray[np.intp]]:
        """For each axis the place of the code of every figure."""
        return places_of(self.keys, [len(axis.codes) for axis in self.axes])

    @cached_property
    def nbytes(self) -> int:
        """How many bytes its numbers take."""
        own = (self.values, self.low, self.high, self.listed)
        # and keys, places and margins, once asked for
        more = (self.deviation, self.margin, self.absent, *(self.values,) * (2 + len(self.axes)))
        return sum(numbers.nbytes for numbers in (*own, *more) if numbers is not None)

    @cached_property
    def margin_of_error(self) -> Reals:
        """How far the farther end of the interval is, where there is no margin of its own."""
        if self.margin is not None:
            return self.margin
        estimates = self.values / self.unit
        return np.maximum(estimates - self.low, self.high - estimates)


@dataclass(frozen=True)
class Asked:
    """What is asked of a data set: figures `by` variables of the rows that a filter keeps."""

    by: tuple[str, ...]
    where: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, str]
    measure: str = JOBS
    confidence: float = 0.9
    together: bool = False  # whether all intervals hold at once
    guaranteed: bool = False  # whether intervals hold whatever the data are

    @cached_property
    def key(self) -> tuple[object, ...]:
        """What tells it from others."""
        sides = tuple(self.where.items()), tuple(self.groups.items())
        flags = self.together, self.guaranteed
        return self.by, *sides, self.measure, self.confidence, *flags

    def by_some(self, by: tuple[str, ...]) -> Asked:
        """The same by some of its variables alone."""
        groups = {name: level for name, level in self.groups.items() if name in by}
        return replace(self, by=by, groups=groups)
