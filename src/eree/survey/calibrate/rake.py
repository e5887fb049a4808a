"""Raking: cells are multiplied, control table after control table, until their sums agree.

As published, the cells have signs.  Then a marginal may come close to zero or change its sign, and
the factors need not settle; what happened is in the report.  Cells without signs are the ordinary
case of iterative proportional fitting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from eree.errors import Refusal
from eree.survey.calibrate.controls import CubeMarginal, SparseMarginal
from eree.survey.shape import Reals

#: The largest relative difference to a control that counts as converged, where nobody says.
TOLERANCE = 1e-6
#: A marginal below this share of the sum of its cells' sizes counts as zero: nothing to divide by.
_NEAR_ZERO = 1e-9
#: Cells that grow beyond this many times the largest control are given up on.
_RUNAWAY = 1e4
#: Up to this share of cells that are not zero, only those are worked on.
_FEW = 0.1


@dataclass(frozen=True)
class RakeReport:
    """What became of raking.

    `difference` is the largest difference to a control, relative to it (for a control of 0, to
    the mean size of its table), after the last cycle.  `stuck` counts control cells that are not
    zero but whose cells sum to nearly zero in the last cycle, so that no factor would help;
    `clipped` the negative cells that were set to zero before, `clipped_controls` the same for
    controls.  A run is given up (`diverged`) when a cell outgrows all controls `_RUNAWAY` times.
    """

    cycles: int
    converged: bool
    difference: float
    stuck: int = 0
    diverged: bool = False
    clipped: int = 0
    clipped_controls: int = 0

    def as_json(self) -> dict[str, object]:
        """The report as plain values."""
        return asdict(self)


def rake(
    cells: Reals,
    marginals: Sequence[CubeMarginal],
    controls: Sequence[Reals],
    *,
    cycles: int = 10,
    tolerance: float = TOLERANCE,
) -> tuple[Reals, RakeReport]:
    """Rake signed cells to control tables in their order, cycle by cycle, as published.

    It has converged when, after a cycle, no difference is above `tolerance`.  The last cycle whose
    cells are finite is returned in any case.
    """
    if cycles < 1 or not tolerance > 0:
        raise Refusal("raking needs a cycle or more and a tolerance above 0")
    now = np.array(cells, dtype=np.float64)
    filled = np.flatnonzero(now)
    if filled.size > _FEW * now.size:
        return _rake(now, marginals, controls, cycles, tolerance)
    few = [marginal.at(filled) for marginal in marginals]  # zeros stay zeros
    found, report = _rake(now.reshape(-1)[filled], few, controls, cycles, tolerance)
    now.reshape(-1)[filled] = found
    return now, report


def _rake(
    now: Reals,
    marginals: Sequence[CubeMarginal | SparseMarginal],
    controls: Sequence[Reals],
    cycles: int,
    tolerance: float,
) -> tuple[Reals, RakeReport]:
    largest = max([float(np.abs(c).max(initial=0)) for c in controls] + [1.0])
    sizes = [_size(control) for control in controls]
    difference, stuck, done = np.inf, 0, 0
    while done < cycles:
        before, stuck = now.copy(), 0
        for marginal, control in zip(marginals, controls, strict=True):
            sums = marginal.sums(now)
            size = marginal.sums(np.abs(now)) if (sums <= 0).any() else sums
            divisible = np.abs(sums) > _NEAR_ZERO * size
            stuck += int(((control != 0) & ~divisible).sum())
            factor = np.divide(control, sums, out=np.ones(sums.shape), where=divisible)
            marginal.scale(now, factor)
        if not np.abs(now).max(initial=0) <= _RUNAWAY * largest:
            apart = _difference(before, marginals, controls, sizes)
            return before, RakeReport(done, False, apart, stuck, True)
        done += 1
        difference = _difference(now, marginals, controls, sizes)
        if difference <= tolerance:
            break
    return now, RakeReport(done, difference <= tolerance, difference, stuck)


def rake_nonnegative(
    cells: Reals,
    marginals: Sequence[CubeMarginal],
    controls: Sequence[Reals],
    *,
    cycles: int = 50,
    tolerance: float = TOLERANCE,
) -> tuple[Reals, RakeReport]:
    """Set negative cells and controls to zero, then rake; zeros stay zeros."""
    cut = [np.maximum(control, 0) for control in controls]
    found, report = rake(np.maximum(cells, 0), marginals, cut, cycles=cycles, tolerance=tolerance)
    clipped_controls = sum(int((control < 0).sum()) for control in controls)
    clipped = int((cells < 0).sum())
    return found, replace(report, clipped=clipped, clipped_controls=clipped_controls)


def _size(control: Reals) -> Reals:
    """What a difference to each control is measured by: the control, or the mean where it is 0."""
    size = np.abs(control)
    return np.where(size > 0, size, float(size.mean()) or 1.0)


def _difference(
    cells: Reals,
    marginals: Sequence[CubeMarginal | SparseMarginal],
    controls: Sequence[Reals],
    sizes: Sequence[Reals],
) -> float:
    """The largest relative difference of sums to controls."""
    return max(
        (
            float((np.abs(marginal.sums(cells) - control) / size).max())
            for marginal, control, size in zip(marginals, controls, sizes, strict=True)
        ),
        default=0.0,
    )
