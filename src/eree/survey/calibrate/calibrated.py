"""Calibrate a noisy cube by any method: whole cells, a report, and the noise that is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.noise.coins import Coins
from eree.survey.calibrate.controls import Control
from eree.survey.calibrate.least_squares import correction
from eree.survey.calibrate.margins import Array, Table, Whole
from eree.survey.calibrate.noise import METHODS, RAKED, Method, NoiseModel
from eree.survey.calibrate.rake import TOLERANCE, rake, rake_nonnegative
from eree.survey.calibrate.rounding import rounded
from eree.survey.calibrate.zeros import ControlSystem


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A calibrated cube in whole thousandths of a job: every table is a sum of its cells.

    `reference` is the least squares cube from the same cells and controls, which the bound for a
    raked cube needs; None for other methods.  All of it is made of protected values only.
    """

    cells: Whole = field(repr=False)
    noise: NoiseModel
    report: Mapping[str, object]
    reference: Whole | None = field(default=None, repr=False)

    @property
    def method(self) -> Method:
        """How it was calibrated."""
        return self.noise.method

    def table(
        self, by: Sequence[str] = (), where: Mapping[str, Sequence[str]] | None = None
    ) -> Whole:
        """A table of the cube."""
        return Table(self.noise.shape, by, where).sums(self.cells)

    def variances(
        self, by: Sequence[str] = (), where: Mapping[str, Sequence[str]] | None = None
    ) -> Array:
        """The noise variance of every cell of a table; its bound for a raked cube."""
        known = self.noise.variances(by, where)
        if self.reference is None:
            return known
        reference = Table(self.noise.shape, by, where).sums(self.reference)
        return self.noise.bound(known, self.table(by, where), reference)

    def exact_variances(
        self, by: Sequence[str] = (), where: Mapping[str, Sequence[str]] | None = None
    ) -> Array:
        """The same for least squares with structural zeros, solved for in every cell.

        It is never above `variances`, and slow: for a few cells at a time.
        """
        shape = self.noise.shape
        if self.method != "least-squares" or shape.possible is None:
            return self.variances(by, where)
        table = Table(shape, by, where)
        margins = [control.margin(shape) for control in self.noise.controls]
        noises = [control.variance for control in self.noise.controls]
        system = ControlSystem(shape.possible, margins, self.noise.cell, noises)
        counts = table.sums(shape.possible.astype(np.int64))
        return system.variances(table) + self.noise.rounding * counts


def calibrate(
    noise: NoiseModel,
    cells: Whole,
    controls: Sequence[Control],
    *,
    coins: Coins,
    cycles: int | None = None,
    tolerance: float = TOLERANCE,
    reconcile: bool = False,
    kept: NDArray[np.bool_] | None = None,
) -> Calibrated:
    """Calibrate noisy cells to control tables by the method of the noise model.

    Cells are whole thousandths of a job, 0 where they cannot be.  `coins` round the result and
    need not be secret.  `cycles` are at most 10 for raking as published and 50 for non-negative
    cells.  Noisy controls contradict each other in their common sums, and raking cannot converge
    to all of them; with `reconcile` it goes to the sums of the least squares cube instead, which
    agree.  `kept` are the cells that got noise where a published rule left more out than those that
    cannot be; the others stay 0, and the variances of the noise model are still an upper bound.
    """
    shape = noise.shape
    possible = shape.possible if kept is None else kept
    _check(noise, cells, controls, possible)
    if noise.method == "none":
        return Calibrated(cells.copy(), noise, {"method": "none"})
    added, solved = correction(cells, shape, controls, noise.cell, possible)
    reference = cells + rounded(added, coins)
    if noise.method == "least-squares":
        return Calibrated(reference, noise, {"method": noise.method, **solved})
    margins = [control.noise.margin(shape) for control in controls]
    del added
    targets = [
        margin.sums(reference) if reconcile else control.in_order(shape)
        for margin, control in zip(margins, controls, strict=True)
    ]
    if possible is not None:  # a control of impossible cells is 0, whatever noise says
        can_be = possible.astype(np.int64)
        targets = [t * (m.sums(can_be) > 0) for m, t in zip(margins, targets, strict=True)]
    wanted = [target.astype(np.float64) for target in targets]
    start = cells.astype(np.float64)
    if noise.method == "rake":
        raked, report = rake(start, margins, wanted, cycles=cycles or 10, tolerance=tolerance)
    else:
        raked, report = rake_nonnegative(
            start, margins, wanted, cycles=cycles or 50, tolerance=tolerance
        )
    told = {"method": noise.method, "reconciled": reconcile, **report.as_json()}
    return Calibrated(rounded(raked, coins), noise, told, reference)


def _check(
    noise: NoiseModel,
    cells: Whole,
    controls: Sequence[Control],
    possible: NDArray[np.bool_] | None,
) -> None:
    if cells.dtype != np.int64 or cells.shape != noise.shape.levels:
        raise Refusal("the cells must be whole thousandths of a job (int64) in the cube's shape")
    if tuple(control.noise for control in controls) != noise.controls:
        raise Refusal("the control tables must be those that the noise model lists, in its order")
    if possible is not None and possible.shape != noise.shape.levels:
        raise Refusal("the cells that are kept must be told for every cell of the cube")
    if possible is not None and cells[~possible].any():
        raise Refusal("cells that cannot be must be 0: structural zeros get no noise")


__all__ = ["METHODS", "RAKED", "Calibrated", "calibrate"]
