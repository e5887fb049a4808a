"""What is known of the noise in a protected cube: the variance left in any table, from public data.

All variances are in thousandths of a job squared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isfinite

import numpy as np

from eree.errors import Refusal
from eree.survey.calibrate.controls import ControlNoise
from eree.survey.calibrate.effects import Gain, gains, variances
from eree.survey.calibrate.margins import Array, Whole
from eree.survey.calibrate.rounding import ROUNDING
from eree.survey.choices import METHODS, RAKED, Method
from eree.survey.shape import Shape
from eree.survey.tables import Query, table

__all__ = ["METHODS", "RAKED", "Method", "NoiseModel"]


@dataclass(frozen=True)
class NoiseModel:
    """The noise of a cube: that of its cells, that of its controls, and how they were joined.

    Cells have independent noise of mean 0 and variance `cell`, and so have the cells of each
    control table with a variance of its own.  `variances` is that of least squares, or of cells as
    they are where there are no controls.  For raked cubes it is that of the least squares cube
    from the same cells and controls, from which `bound` goes on.  In a cube with structural zeros
    it is an upper bound, as zeros that are known can only help.
    """

    shape: Shape
    method: Method
    cell: float
    controls: tuple[ControlNoise, ...] = ()

    def __post_init__(self) -> None:
        if not (isfinite(self.cell) and self.cell > 0):
            raise Refusal("the noise variance of a cell must be a number above 0")
        if self.method not in METHODS:
            raise Refusal(f"the method must be one of {', '.join(METHODS)}")
        if (self.method == "none") != (not self.controls):
            raise Refusal("a cube is calibrated to one control table or more, or by no method")
        for control in self.controls:
            self.shape.axes(control.variables)

    @cached_property
    def gains(self) -> list[Gain]:
        """What least squares makes of every effect that the controls know of."""
        tables = [(c.margin(self.shape).kept, c.variance) for c in self.controls]
        return gains(self.shape.levels, self.cell, tables)

    @property
    def rounding(self) -> float:
        """The most that rounding to whole thousandths adds to a cell."""
        return 0.0 if self.method == "none" else ROUNDING

    def variances(self, query: Query, counts: Whole | None = None) -> Array:
        """The noise variance of every cell of a table; see the class for raked cubes.

        `counts` says how many cells with noise each of them adds up, where that is not all that
        the query names: by default those that can be.
        """
        shape, sides = self.shape, query.sides(self.shape)
        if counts is None and shape.possible is not None:
            counts = table(shape, shape.possible.astype(np.int64), query).values
        axes, sizes = shape.axes(query.by), [side.sizes for side in sides]
        rounding = self.rounding if counts is None else 0.0
        found = variances(shape.levels, self.cell, self.gains, sizes, rounding)
        kept = sorted(axes)
        found = found.reshape([found.shape[axis] for axis in kept])
        found = found.transpose([kept.index(axis) for axis in axes])
        if counts is None:
            return np.broadcast_to(found, [sides[axis].length for axis in axes])
        return np.asarray(np.minimum(found, self.cell * counts) + self.rounding * counts)

    def bound(self, variances: Array, raked: Whole, reference: Whole) -> Array:
        """A bound on the mean squared error of cells of a raked table.

        `variances` are those of the same cells, `raked` their values and `reference` those of the
        least squares cube.  As the truth x is not negative, |max(r, 0) - x| <= |r - x|, so

            (raked - x)² <= 2 (r - x)² + 2 (raked - max(r, 0))²,

        and the mean of what is returned is no less than the mean squared error, whatever the
        cube, whether raking converged or not.
        """
        apart = np.asarray(raked, dtype=np.float64) - np.maximum(reference, 0)
        return np.asarray(2 * variances + 2 * apart * apart)
