"""What a protected cube answers: estimates with their standard errors, from public values alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from math import log, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eree.random.exact import Whole
from eree.release.listing import checked_level
from eree.survey.columns import decimals
from eree.survey.tables import Axis, Query
from eree.workload import JOB

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
#: An estimate whose standard error is a larger share of it is called unreliable.
UNRELIABLE = 0.3


@dataclass(frozen=True, eq=False, repr=False)
class Estimates:
    """A table of a protected cube, with what is known of its errors.

    The arrays have an axis for each of `axes`.  `values` are exact sums of published cells, in
    thousandths of a job; `noise_variance` is that of the noise in them, and `sampling_variance` a
    model of the survey's own error, both in squared thousandths.  In a raked cube the first is a
    bound (`bounded`); where the survey's squares were not paid for there is no second, and
    standard errors are those of the noise alone.  `absent` are cells without a row in the release:
    no job can be in them or, as published, they were left out.
    """

    query: Query
    axes: tuple[Axis, ...]
    values: Whole
    noise_variance: Array
    sampling_variance: Array | None
    bounded: bool = False
    absent: Mask | None = field(default=None)

    def __repr__(self) -> str:
        sides = " x ".join(f"{axis.name} ({len(axis.codes)})" for axis in self.axes)
        return f"<Estimates of {sides or 'one figure'}>"

    @cached_property
    def standard_error(self) -> Array:
        """The standard error of every estimate, in thousandths of a job: sampling and noise."""
        whole = self.noise_variance
        if self.sampling_variance is not None:
            whole = whole + self.sampling_variance
        return np.sqrt(whole)

    @cached_property
    def variation(self) -> Array:
        """The coefficient of variation: standard error by estimate; infinite where that is <= 0."""
        found = np.full(self.values.shape, np.inf)
        np.divide(self.standard_error, self.values, out=found, where=self.values > 0)
        return found

    def margin(self, level: float | str | Fraction = "0.9") -> Array:
        """The margin of error at a level, in thousandths of a job.

        As many standard errors as a normal error needs, or as many as one of the law of the noise
        does, whichever is more: between these two lies the error of every table.
        """
        return deviations(checked_level(level)) * self.standard_error

    def interval(self, level: float | str | Fraction = "0.9") -> tuple[Array, Array]:
        """The estimates less and plus their margins; jobs are never below 0, so neither end is."""
        margin = self.margin(level)
        return np.maximum(self.values - margin, 0.0), np.maximum(self.values + margin, 0.0)

    @property
    def negative(self) -> Mask:
        """Estimates below 0, which only noise can make."""
        return np.asarray(self.values < 0)

    def unreliable(self, most: float = UNRELIABLE) -> Mask:
        """Estimates whose coefficient of variation is above a threshold, and those of 0 or less."""
        found = np.asarray(self.variation > most)
        return found if self.absent is None else found & ~self.absent

    def rows(
        self, level: float | str | Fraction = "0.9", unreliable: float = UNRELIABLE
    ) -> pa.Table:
        """A row for every cell, for people: codes and labels, figures in jobs, and a flag.

        The flag is `negative`, `unreliable`, `absent` or nothing.
        """
        shape = self.values.shape
        places = np.indices(shape).reshape(len(shape), -1) if shape else ()
        columns: dict[str, Any] = {}
        for axis, place in zip(self.axes, places, strict=True):
            columns[axis.name] = pa.array(axis.codes).take(place)
            if axis.labels != axis.codes:
                columns[f"{axis.name}_label"] = pa.array(axis.labels).take(place)
        low, high = self.interval(level)
        columns["jobs"] = decimals(np.ascontiguousarray(self.values).reshape(-1))
        for name, numbers in (
            ("standard_error", self.standard_error),
            ("low", low),
            ("high", high),
        ):
            columns[name] = np.round(numbers.reshape(-1) / JOB, 3)
        ratio = np.round(self.variation.reshape(-1), 4)
        columns["variation"] = pa.array(ratio, mask=~np.isfinite(ratio))
        columns["flag"] = self._flags(unreliable)
        return pa.table(columns)

    def as_json(
        self, level: float | str | Fraction = "0.9", unreliable: float = UNRELIABLE
    ) -> dict[str, Any]:
        """Plain data: what was asked, and a row for every cell."""
        rows = self.rows(level, unreliable).to_pylist()
        return {
            "by": list(self.query.by),
            "where": {name: list(codes) for name, codes in self.query.where.items()},
            "levels": dict(self.query.levels),
            "level": checked_level(level),
            "errors": "sampling and noise" if self.sampling_variance is not None else "noise",
            "bounded": self.bounded,
            "rows": [row | {"jobs": float(row["jobs"])} for row in rows],
        }

    def _flags(self, unreliable: float) -> pa.Array[Any]:
        """A word on each estimate, or none: the first that applies."""
        number = np.where(self.negative, 1, np.where(self.unreliable(unreliable), 2, 0))
        if self.absent is not None:
            number = np.where(self.absent, 3, number)
        return pa.array(("", "negative", "unreliable", "absent")).take(number.reshape(-1))


@lru_cache(maxsize=64)  # the same few levels are asked for again and again
def deviations(level: float) -> float:
    """How many standard deviations hold so much of a normal and of a Laplace law, both."""
    return max(NormalDist().inv_cdf((1 + level) / 2), -log(1 - level) / sqrt(2))
