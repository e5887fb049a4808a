"""What a protected cube answers: estimates with their standard errors, from public values alone.

The published variance of a cell is a function of protected values and public settings only:

    modelled sampling variance + known noise variance after calibration,

never of the realised difference to the confidential estimate, which would give that away.  Totals
are in thousandths of a job, variances in their squares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from math import isfinite, log, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.estimate.listing import checked_level
from eree.release.tabular import Tabular
from eree.survey.query import Axis, Query
from eree.survey.shape import Integers, Mask, Reals
from eree.workload import JOB

JOBS = pa.decimal128(18, 3)
#: An estimate whose standard error is a larger share of it is called unreliable.
UNRELIABLE = 0.3


@dataclass(frozen=True)
class SquareSum:
    """A protected total of squared sums of weights, by establishment and some variables.

    The weights that an establishment has in one cell of the table by those variables are summed
    and squared.  Without variables it is the total of whole establishments.  `variance` is that of
    its noise.
    """

    variables: frozenset[str]
    value: float
    variance: float = 0.0

    def __init__(self, variables: Iterable[str], value: float, variance: float = 0.0) -> None:
        object.__setattr__(self, "variables", frozenset(variables))
        object.__setattr__(self, "value", float(value))
        object.__setattr__(self, "variance", float(variance))
        if not (isfinite(self.value) and isfinite(self.variance) and self.variance >= 0):
            raise Refusal("a total of squares and the variance of its noise must be numbers")

    @property
    def upper(self) -> float:
        """Two standard deviations up: noise should not make standard errors too small."""
        return self.value + 2 * sqrt(self.variance)


def ends_around(estimates: NDArray[Any], margin: Reals) -> tuple[Reals, Reals]:
    """Estimates less and plus their margins; jobs are never below 0, so neither end is.

    An estimate that noise has taken below 0 says that there are few, and not that there are none:
    its interval is the one of an estimate of 0, which holds what is left of its own.
    """
    return np.maximum(estimates - margin, 0.0), np.maximum(estimates, 0.0) + margin


@dataclass(frozen=True)
class SamplingModel:
    """The sampling variance of any table cell, from a few protected totals of the whole survey.

    `total` is the noisy sum N of all weights, `squares` noisy totals of squares, one of them
    without variables; all are paid for.  `establishments` is their number n in the sample, where
    that is public or paid for as well.

    For a cell of total T, to which establishment e contributes T_e, the ultimate cluster estimate
    of its variance is n / (n - 1) (sum T_e² - T² / n).  Let Q_M be the total of squares by
    variables M that the cell has one code of each of.  As T_e is at most t_e, what e has in the
    cell of M around it, sum T_e² <= sum T_e t_e, which is T times the mean of t_e over the jobs in
    the cell.  The model takes the mean over all jobs for it, Q_M / N, and is the least of

        n / (n - 1) ((Q / N) T - T² / n)   for whole establishments; (Q / N) T without n,
        (Q_M / N) T                        for all sets M of variables that apply.

    T² / n is taken off only where the mean is over whole establishments: in a cell that is most
    of its table, the mean of t_e is above Q_M / N.

    It is too large for cells that are a small part of what their establishments do, and for
    stratified or sorted samples; it is too small for cells whose establishments stand for more
    jobs than others do.
    """

    total: float
    squares: tuple[SquareSum, ...]
    establishments: float | None = None

    def __init__(
        self, total: float, squares: Iterable[SquareSum], establishments: float | None = None
    ) -> None:
        object.__setattr__(self, "total", float(total))
        object.__setattr__(self, "squares", tuple(squares))
        object.__setattr__(self, "establishments", establishments)
        if not (isfinite(self.total) and self.total > 0):
            raise Refusal("the noisy total of all weights must be above 0; spend more on it")
        if establishments is not None and not (isfinite(establishments) and establishments >= 2):
            raise Refusal("sampling variances need two establishments or more")
        if not any(not one.variables and one.upper > 0 for one in self.squares):
            raise Refusal(
                "sampling variances need a total of squares of whole establishments above 0; "
                "spend more on it"
            )

    @classmethod
    def of_whole(cls, total: int, squares: float, noise: float, most: int) -> SamplingModel:
        """The model from the noisy sums of a whole survey, put right where they cannot be.

        `total` is the sum of the published cells, `squares` the noisy sum of the squared totals of
        establishments (or of the squared weights of records) with a noise variance of `noise`, and
        `most` the public bound of each of those totals; all in thousandths of a job.  Totals are
        whole and at most `most`, so with their sum N the sum of their squares is from N to
        `most` N.  A noisy one below is set to N before two standard deviations are added, and what
        is above in the end is set to `most` N: noise never makes standard errors too small by
        itself, and never larger than the public bounds allow.
        """
        whole = max(total, 1)
        least = SquareSum((), max(squares, whole), noise)
        return cls(whole, [least if least.upper < most * whole else SquareSum((), most * whole)])

    def variances(self, estimates: NDArray[Any], fixed: Iterable[str] = ()) -> Reals:
        """The sampling variances of cells, from their protected estimates; negative ones are 0.

        `fixed` are the variables of which each of the cells has one code: those of the table, and
        those of its filters that let one code through.  Noisy totals of squares that cannot be are
        put right: those below 0 do not count, and that of whole establishments is at least N² / n.
        """
        totals = np.maximum(np.asarray(estimates, dtype=np.float64), 0.0)
        known, n = set(fixed), self.establishments
        found = np.full(totals.shape, np.inf)
        for one in self.squares:
            if not one.variables <= known or one.upper <= 0:
                continue
            if one.variables or n is None:
                found = np.minimum(found, one.upper / self.total * totals)
                continue
            within = np.minimum(totals, self.total)
            squares = max(one.upper, self.total**2 / n)
            whole = n / (n - 1) * (squares / self.total * within - within**2 / n)
            found = np.minimum(found, np.maximum(whole, 0.0))
        return found

    def as_json(self) -> dict[str, Any]:
        """The protected totals in jobs and squared jobs, for the release."""
        return {
            "total": self.total / JOB,
            "establishments": self.establishments,
            "squares": [
                {
                    "variables": sorted(q.variables),
                    "value": q.value / JOB**2,
                    "variance": q.variance / JOB**4,
                }
                for q in self.squares
            ],
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> SamplingModel:
        """The model that `as_json` made plain."""
        try:
            squares = [
                SquareSum(
                    q["variables"], _number(q["value"]) * JOB**2, _number(q["variance"]) * JOB**4
                )
                for q in body["squares"]
            ]
            return cls(_number(body["total"]) * JOB, squares, body["establishments"])
        except (KeyError, TypeError, ValueError):
            raise Refusal(
                "the sampling model needs a total, squares with variables, value and variance, "
                "and establishments or null"
            ) from None


def _number(said: object) -> float:
    if isinstance(said, bool) or not isinstance(said, (int, float)) or not isfinite(said):
        raise ValueError
    return said


def querytool_standard_errors(
    sampling_variances: NDArray[Any], perturbed: NDArray[Any], original: NDArray[Any]
) -> Reals:
    """The published formula of the query tool, var + (perturbed - original)²: for curators only.

    It gives the original away: an empty cell has a standard error of |perturbed|.
    """
    apart = np.asarray(perturbed, dtype=np.float64) - np.asarray(original, dtype=np.float64)
    return np.asarray(np.sqrt(np.asarray(sampling_variances, dtype=np.float64) + apart**2))


@dataclass(frozen=True, eq=False, repr=False)
class Estimates(Tabular):
    """A table of a protected cube, with what is known of its errors.

    Attributes:
        query: What was asked.
        axes: What each axis of the arrays stands for.
        values: Exact sums of published cells, in thousandths of a job.
        noise_variance: That of the noise in them, in squared thousandths.
        sampling_variance: A model of the survey's own error, or None where its squares were not
            paid for; standard errors are then those of the noise alone.
        bounded: Whether `noise_variance` is a bound, as in a raked cube.
        absent: Cells without a row in the release: no job can be in them or, as published, they
            were left out.

    Examples:
        >>> eree.ProtectedCube.open("public").table(eree.Query(["education"])).values.shape
        (3,)
    """

    query: Query
    axes: tuple[Axis, ...]
    values: Integers
    noise_variance: Reals
    sampling_variance: Reals | None
    bounded: bool = False
    absent: Mask | None = field(default=None)

    def __repr__(self) -> str:
        return f"<Estimates {self._title()}>"

    def _title(self) -> str:
        sides = " x ".join(f"{axis.name} ({len(axis.codes)})" for axis in self.axes)
        return f"of {sides or 'one figure'}"

    def _table(self) -> pa.Table:
        return self.rows()

    @cached_property
    def standard_error(self) -> Reals:
        """The standard error of every estimate, in thousandths of a job: sampling and noise."""
        whole = self.noise_variance
        if self.sampling_variance is not None:
            whole = whole + self.sampling_variance
        return np.sqrt(whole)

    @cached_property
    def variation(self) -> Reals:
        """The coefficient of variation: standard error by estimate; infinite where that is <= 0."""
        found = np.full(self.values.shape, np.inf)
        np.divide(self.standard_error, self.values, out=found, where=self.values > 0)
        return found

    def margin(self, level: float | str | Fraction = "0.9") -> Reals:
        """The margin of error at a level, in thousandths of a job.

        As many standard errors as a normal error needs, or as many as one distributed as the noise
        does, whichever is more: between these two lies the error of every table.
        """
        return deviations(checked_level(level)) * self.standard_error

    def interval(self, level: float | str | Fraction = "0.9") -> tuple[Reals, Reals]:
        """The ends of the intervals around the estimates."""
        return ends_around(self.values, self.margin(level))

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
    """How many standard deviations hold so much of a normal and of a Laplace distribution, both."""
    return max(NormalDist().inv_cdf((1 + level) / 2), -log(1 - level) / sqrt(2))


def decimals(thousandths: Integers) -> pa.Array[Any]:
    """Thousandths as decimals of three digits: 128 bits each, the lower ones first."""
    wide = np.stack([thousandths, thousandths >> 63], axis=1)
    return pa.Array.from_buffers(JOBS, len(thousandths), [None, pa.py_buffer(wide.tobytes())])
