"""Two areas compared: how many more jobs one has than the other, and how many times as many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from math import floor, inf, sqrt
from typing import Any

import numpy as np
import pyarrow as pa

from eree.errors import Refusal
from eree.estimate.calibrated import calibrated_table
from eree.estimate.listing import checked_level
from eree.estimate.quantiles import MOST_KURTOSIS, quantiles
from eree.estimate.totals import Areas, Filter
from eree.policy.schema import Value
from eree.release.release import Release, opening
from eree.release.tabular import Tabular

Area = Mapping[str, Value]
_REALS = ("first", "second", "difference", "ratio", "ratio_low", "ratio_high", "level")
_INTEGERS = ("low", "high", "larger")
_COLUMNS = pa.schema([(n, pa.float64()) for n in _REALS] + [(n, pa.int64()) for n in _INTEGERS])


@dataclass(frozen=True, repr=False)
class Comparison(Tabular):
    """Two sums of a table, with calibrated intervals of their difference and of their ratio.

    `larger` is 1 or 2, the area that has more jobs by all of the interval, or None.

    Attributes:
        estimates: The two sums.
        difference: The first less the second.
        low: The low end of its interval.
        high: The high end.
        ratio: The first by the second; None, as its ends, where the second may be zero.
        ratio_low: The low end of its interval.
        ratio_high: The high end; None where the second sum may be near zero.
        level: The confidence of the intervals.

    Examples:
        >>> found = eree.compare("out", "jobs", {"county": "17001"}, {"county": "18001"})
        >>> found.low < found.high
        True
    """

    estimates: tuple[float, float]
    difference: float
    low: int
    high: int
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    level: float

    def _table(self) -> pa.Table:
        found = self.as_json()
        first, second = found.pop("estimates")
        return pa.Table.from_pylist([{"first": first, "second": second} | found], _COLUMNS)

    def _title(self) -> str:
        one, two = self.estimates
        return f"of {one:,.1f} and {two:,.1f} jobs, {self.low:,} to {self.high:,} apart"

    @property
    def larger(self) -> int | None:
        """Which of the two has more jobs, where all of the interval says so."""
        return 1 if self.low > 0 else 2 if self.high < 0 else None

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self) | {"larger": self.larger}


@opening
def compare(
    release: Release,
    table: str,
    first: Area,
    second: Area,
    where: Filter | None = None,
    level: float | str | Fraction = 0.9,
) -> Comparison:
    """Compare two areas of a released table, each given by the values of the same attributes.

    The areas share no cell, so that the variances of their noise add up; cells of one group that
    were drawn at once have a covariance besides.  The ends of the ratio are where the difference of
    the first sum and so many times the second is as far from zero as its noise may be (Fieller).

    Args:
        release: A release, or the name of its folder.
        table: The name of one of its tables.
        first: An area, by the values of its attributes.
        second: Another one.
        where: Values to keep, as `{"sector": ["11", "21"]}` or `["sector=11,21"]`.
        level: The confidence of the intervals.

    Examples:
        >>> eree.compare("out", "jobs", {"county": "17001"}, {"county": "18001"})
        <Comparison of ... and ... jobs, ... to ... apart: 1 row>
    """
    by = tuple(first)
    if not by or set(second) != set(by):
        raise Refusal("give both areas by the same attributes, such as {'place': '1714000'}")
    if all(first[name] == second[name] for name in by):
        raise Refusal("both areas are the same; name two")
    areas, checked = Areas.read(release, table, by, where), checked_level(level)
    known = calibrated_table(release, table)
    if known is None:
        raise Refusal(f"nothing is known of what a bound left out of table {table}")
    keys = {tuple(key[n] for n in by): i for i, key in enumerate(areas.keys.to_pylist())}
    found = []
    for area in (first, second):
        place = keys.get(tuple(area[name] for name in by))
        if place is None:
            said = ", ".join(f"{name} {value}" for name, value in area.items())
            raise Refusal(f"table {table} has no area {said}; it has no workplace, so no jobs")
        found.append(place)
    both = areas.only(np.array(found))
    moments = known.moments(both.place, both.starts)
    one, two = (float(value) for value in both.estimates)
    shared = known.shared(*np.split(both.place, [both.starts[1]]))
    variances = moments.variance
    total = float(variances.sum()) - 2 * shared
    kurtosis = float(moments.fourth.sum()) / max(total, 1e-9) ** 2
    z = float(quantiles(np.array([min(max(kurtosis, 0.0), MOST_KURTOSIS)]), checked)[0])
    reach = z * sqrt(max(total, 0.0))
    ends = floor(one - two - reach), -floor(two - one - reach)
    ratio = _ratio((one, two), (float(variances[0]), float(variances[1])), shared, z)
    return Comparison((one, two), one - two, *ends, *ratio, checked)


def _ratio(
    sums: tuple[float, float], variances: tuple[float, float], shared: float, z: float
) -> tuple[float | None, float | None, float | None]:
    """The ratio of two sums and Fieller's ends of it, none below zero."""
    (one, two), (v1, v2) = sums, variances
    if two <= 0:
        return None, None, None
    a, b, c = two**2 - z**2 * v2, one * two - z**2 * shared, one**2 - z**2 * v1
    ratio = max(one, 0.0) / two
    root = b**2 - a * c
    if a <= 0 or root < 0:  # the second sum may be zero
        return ratio, None, None
    return ratio, max((b - sqrt(root)) / a, 0.0), min((b + sqrt(root)) / a, inf)
