"""How far off sums of released cells are likely to be, predicted from the release alone.

The noise of a cell grows with its largest workplace, whose size is confidential.  Public are the
noisy count n of the cell and the number m of its workplaces.  Sizes of workplaces follow Zipf's law
roughly, the k-th largest having a k-th of the workers of the largest, so that the largest has n /
H_m of them, H_m = 1 + 1/2 + … + 1/m.  With this size a cell has the mean error of its mechanism.
The noise of cells that are added up is uncorrelated, so that the squares of their errors add up,
and not their errors; but where workplaces are cut to a bound all errors are on one side, and add up
as they are.

It is a guess for choosing between tables, never a promise: intervals are that.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eree.cells import Cell
from eree.errors import Refusal, Unreadable
from eree.random.exact import Integers
from eree.release.price import Measurement
from eree.release.release import Release
from eree.release.sums import measurement_of

Array = NDArray[np.float64]
#: At so many sizes errors are computed; between them they are interpolated.
_SIZES = 60


class CellErrors:
    """The errors that the cells of a released table are likely to have; `known` where they are."""

    def __init__(self, release: Release, table: str, rows: pa.Table) -> None:
        self._errors, self._biased = np.full(rows.num_rows, np.inf), False
        try:
            measurement = measurement_of(release, table)[1]
        except Unreadable:
            raise
        except Refusal:  # made by another version: nothing is known of it
            return
        if measurement.mechanism.bound is None:  # what is left out of the counts is not known
            self._errors = _errors(measurement, rows)
            self._biased = measurement.clips

    def mean(self, area: Integers, kept: NDArray[np.intp], areas: int) -> float | None:
        """The mean error of areas, each the sum of those kept cells that lie in it."""
        power = 1 if self._biased else 2
        sums = np.bincount(area, weights=self._errors[kept] ** power, minlength=areas)
        found = float((sums ** (1 / power)).mean())
        return found if np.isfinite(found) else None


def _errors(measurement: Measurement, rows: pa.Table) -> Array:
    """The mean error of each cell at the size that its largest workplace is likely to have."""
    cells = measurement.worker_cells
    if rows.num_rows % cells:
        raise Unreadable("a table lacks some of its worker cells; run 'eree verify'")
    counts = np.maximum(rows["noisy"].to_numpy(), 0).astype(np.float64)
    totals = np.repeat(counts.reshape(-1, cells).sum(axis=1), cells)
    sizes = totals if "largest_total" in measurement.statistics else counts
    if measurement.mechanism.transform is None:
        sizes = sizes * _largest_share(rows["workplaces"].to_numpy())
    top = max(float(sizes.max(initial=1.0)), 1.0)
    at = np.unique(np.concatenate([[0], np.geomspace(1, np.ceil(top), _SIZES).astype(np.int64)]))
    found: Array = np.interp(sizes, at, [_error(measurement, int(size)) for size in at])
    return found


def _error(measurement: Measurement, size: int) -> float:
    """The mean error of a cell whose largest workplace has a size, or that has it itself."""
    count = size // measurement.worker_cells if measurement.clips else size
    return measurement.mechanism.total_error(Cell(count, size))


def _largest_share(workplaces: Integers) -> Array:
    """The share of its workers that the largest of so many workplaces has: 1 / H_m."""
    numbers, place = np.unique(np.maximum(workplaces, 1), return_inverse=True)
    exact = np.cumsum(1 / np.arange(1.0, 1_001.0))
    far = np.log(numbers) + np.euler_gamma + 1 / (2 * numbers)  # H_m, to within 1 / (12 m^2)
    sums = np.where(numbers <= len(exact), exact[np.minimum(numbers, len(exact)) - 1], far)
    found: Array = (1 / sums)[place]
    return found
