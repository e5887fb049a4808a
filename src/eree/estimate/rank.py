"""Areas ranked by their noisy sums, with ranks that the truth may have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eree.estimate.listing import Listing, checked_level
from eree.estimate.totals import Areas, Filter
from eree.mechanisms.intervals import UNBOUNDED
from eree.random.exact import Array, Integers
from eree.release.release import Release, opening

#: Points at which the numbers above are counted at once; so many lie within the least deviation.
_AT_ONCE, _FINE = 64, 4
#: Standard deviations beyond which a number is surely above a point, or surely not.
_FAR = 8.0


@dataclass(frozen=True, repr=False)
class Ranking(Listing):
    """Areas from the largest noisy sum to the smallest.

    Columns: `rank`; `best` and `worst`, which hold for all areas together; `own_best` and
    `own_worst`, which hold for each area for itself; the attributes; and the rest as in
    `AreaTotals`, its intervals for all areas together.  All but the guaranteed ones are calibrated.

    Examples:
        >>> eree.rank("out", "jobs", ["county"]).rows.column_names[:3]
        ['rank', 'best', 'worst']
    """


@opening
def rank(
    release: Release,
    table: str,
    by: Iterable[str],
    where: Filter | None = None,
    level: float | str | Fraction = 0.9,
) -> Ranking:
    """Rank areas by the sums of their cells, as `area_totals` adds them up.

    Areas with the same noisy sum share a rank, and the next one's counts all that are larger:
    1, 2, 2, 4.  An area's true rank, by the same rule, is from `best` to `worst`.

    Args:
        release: A release, or the name of its folder.
        table: The name of one of its tables.
        by: What makes the areas: attributes of the table, or coarser ones that these lie in.
        where: Values to keep, as `{"sector": ["11", "21"]}` or `["sector=11,21"]`.
        level: The confidence of the intervals.

    Examples:
        >>> eree.rank("out", "jobs", ["county"])
        <Ranking of jobs by county, from release ...: 3 rows>
    """
    areas, checked = Areas.read(release, table, by, where), checked_level(level)
    totals = areas.totals(checked, simultaneous=True)
    best, worst = rank_intervals(*_ends(totals.rows["low"], totals.rows["high"]))
    own_best, own_worst = best, worst
    if areas.moments is not None:
        low, high = areas.calibrated_ends(checked, simultaneous=False)
        deviations = np.sqrt(areas.moments.variance)
        own_best, own_worst = own_ranks(areas.estimates, deviations, low, high, checked)
        own_best, own_worst = np.maximum(own_best, best), np.minimum(own_worst, worst)
    noisy = areas.sums
    columns = {
        "rank": 1 + _above(noisy, noisy),
        "best": best,
        "worst": worst,
        "own_best": own_best,
        "own_worst": own_worst,
    }
    found = pa.table({name: pa.array(values) for name, values in columns.items()})
    for name in totals.rows.column_names:
        found = found.append_column(name, totals.rows[name])
    order = np.argsort(-noisy, kind="stable")
    return Ranking(release, table, totals.by, totals.where, totals.level, found.take(order))


def _ends(low: pa.ChunkedArray[Any], high: pa.ChunkedArray[Any]) -> tuple[Array, Array]:
    """Ends as numbers; one that is not known is infinite."""
    most = high.fill_null(pa.scalar(UNBOUNDED, pa.int64())).to_numpy()
    least: Array = low.to_numpy().astype(np.float64)
    return least, np.where(most == UNBOUNDED, np.inf, most)


def own_ranks(
    estimates: Array, deviations: Array, low: Integers, high: Integers, level: float
) -> tuple[Integers, Integers]:
    """The best and the worst rank of each number for itself.

    G(t) is the mean number of all that are above t, each being normal around its estimate.  The
    rank of a number is about 1 + G of it, and moves with the number, from `low` to `high`, and with
    all others: both ways are taken to be independent, so that their squares add up.
    """
    from scipy.special import ndtri

    spread = np.maximum(deviations, 0.1)

    def above(at: Array) -> Array:
        return number_above(estimates - 0.5, spread, at)

    middle, variance = above(estimates)
    others = ndtri((1 + level) / 2) * np.sqrt(variance)
    best = middle - np.hypot(np.maximum(middle - above(high.astype(np.float64))[0], 0), others)
    worst = middle + np.hypot(np.maximum(above(low.astype(np.float64))[0] - middle, 0), others)
    number = len(estimates)
    ends = (np.clip(np.rint(1 + end), 1, number).astype(np.int64) for end in (best, worst))
    return next(ends), next(ends)


def number_above(means: Array, deviations: Array, at: Array) -> Array:
    """Mean and variance of how many independent normal numbers are above each of some points.

    Both are smooth sums over the numbers.  Those whose deviations are within a factor of two are
    counted together, at points a quarter of the least of these apart, and by cubics between, which
    have the same values and slopes there.  A cubic is off by a 384th of the fourth power of the
    step and of the fourth derivative, which is .56 for the mean and 1.28 for the variance of one:
    so the mean of n is less than n / 100,000 off, and the variance less than n / 75,000.
    """
    from scipy.interpolate import CubicHermiteSpline
    from scipy.special import ndtr

    found = np.zeros((2, len(at)))
    powers = np.frexp(deviations)[1]
    for power in np.unique(powers):
        own = np.flatnonzero(powers == power)
        own = own[np.argsort(means[own])]
        mean, deviation = means[own], deviations[own]
        step, far = 2.0 ** (power - 1) / _FINE, _FAR * 2.0**power
        inside = np.clip(at, mean[0] - far, mean[-1] + far)
        below = np.floor(inside / step)
        points = np.unique([below, below + 1]) * step
        first, last = np.searchsorted(mean, points - far), np.searchsorted(mean, points + far)
        sums, slopes = np.zeros((2, 2, len(points)))
        sums[0] = len(mean) - last
        near = np.flatnonzero(first < last)  # beyond these all are above, or none
        for start in range(0, len(near), _AT_ONCE):
            some = near[start : start + _AT_ONCE]
            here = slice(first[some[0]], last[some[-1]])
            apart = (mean[here] - points[some, None]) / deviation[here]
            each = ndtr(apart)
            density = np.exp(-(apart**2) / 2) / (np.sqrt(2 * np.pi) * deviation[here])
            sums[:, some] = each.sum(1), (each * (1 - each)).sum(1)
            sums[0, some] += len(mean) - here.stop
            slopes[:, some] = -density.sum(1), (density * (2 * each - 1)).sum(1)
        found += CubicHermiteSpline(points, sums, slopes, axis=1)(inside)
    return np.maximum(found, 0.0)


def rank_intervals(
    low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[Integers, Integers]:
    """The best and the worst rank of numbers of which only intervals are known.

    The rank of N_i is 1 and the number of all j with N_j > N_i.  Let every N_j be from low_j to
    high_j.  Where low_j > high_i, N_j is above N_i: so the rank is at least 1 and the number of
    these j.  Where N_j > N_i, j is not i, and high_j >= N_j > N_i >= low_i: so the rank is at most
    1 and the number of all other j with high_j > low_i.  An infinite high_j is above every low_i,
    and no low_j is above it.
    """
    itself = high > low
    return 1 + _above(low, high), 1 + _above(high, low) - itself


def _above(numbers: NDArray[np.generic], limits: NDArray[np.generic]) -> Integers:
    """How many numbers are above each limit."""
    found: Integers = len(numbers) - np.searchsorted(np.sort(numbers), limits, side="right")
    return found
