"""Areas ranked by their noisy sums, with ranks that the truth may have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eree.estimate.listing import Listing, checked_level
from eree.estimate.totals import Areas, Filter
from eree.mechanisms.intervals import UNBOUNDED
from eree.random.exact import Integers
from eree.release.release import Release


@dataclass(frozen=True)
class Ranking(Listing):
    """Areas from the largest noisy sum to the smallest.

    Columns: `rank`, `best`, `worst`, the attributes, then `noisy`, `low`, `high` and `cells` as in
    `AreaTotals`.  All intervals, of sums and of ranks, hold together at the level.
    """


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
    """
    totals = Areas.read(release, table, by, where).totals(checked_level(level), simultaneous=True)
    noisy = totals.rows["noisy"].to_numpy()
    low = totals.rows["low"].to_numpy().astype(np.float64)
    high = totals.rows["high"].fill_null(pa.scalar(UNBOUNDED, pa.int64())).to_numpy()
    best, worst = rank_intervals(low, np.where(high == UNBOUNDED, np.inf, high))
    ranks = 1 + _above(noisy, noisy)
    order = np.argsort(-noisy, kind="stable")
    columns = {"rank": ranks, "best": best, "worst": worst}
    found = pa.table({name: pa.array(values) for name, values in columns.items()})
    for name in totals.rows.column_names:
        found = found.append_column(name, totals.rows[name])
    return Ranking(release, table, totals.by, totals.where, totals.level, found.take(order))


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
