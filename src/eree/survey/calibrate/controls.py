"""Control totals: low-dimensional tables, known better than the sums of the noisy cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.survey.calibrate.margins import Margin, Whole
from eree.survey.shape import Shape


@dataclass(frozen=True)
class ControlNoise:
    """What is public about a control table before it is drawn: variables and noise variance.

    The variance is that of each of its cells, in thousandths of a job squared; 0 for totals
    without noise, which are not private.
    """

    variables: tuple[str, ...]
    variance: float

    def __post_init__(self) -> None:
        if not (isfinite(self.variance) and self.variance >= 0):
            raise Refusal("the noise variance of a control table must be a number, 0 or more")
        if len(set(self.variables)) < len(self.variables):
            raise Refusal("a control table names each of its variables once")

    def margin(self, shape: Shape) -> Margin:
        """The margin of a cube that the table controls."""
        return Margin(shape.levels, tuple(sorted(shape.axes(self.variables))))


@dataclass(frozen=True, eq=False, repr=False)
class Control:
    """A control table: its variables, its cells in thousandths of a job, and their variance.

    The axes of `values` are in the order of `variables`.  Without any variable it is the total.
    A table that was not noised at all has the variance 0; there is one only where a cube is
    protected as published.
    """

    variables: tuple[str, ...]
    values: Whole
    variance: float

    def __init__(self, variables: Sequence[str], values: NDArray[Any], variance: float) -> None:
        object.__setattr__(self, "variables", tuple(variables))
        object.__setattr__(self, "values", np.asarray(values))
        object.__setattr__(self, "variance", float(variance))
        if self.values.dtype != np.int64:
            raise Refusal("control totals are whole thousandths of a job, as int64")
        _ = self.noise

    @property
    def noise(self) -> ControlNoise:
        """The public part."""
        return ControlNoise(self.variables, self.variance)

    @property
    def exact(self) -> bool:
        """Whether it is confidential truth, published without noise."""
        return self.variance == 0

    def in_order(self, shape: Shape) -> Whole:
        """The values with axes in the order of the cube's."""
        axes = shape.axes(self.variables)
        expected = tuple(shape.levels[axis] for axis in axes)
        if self.values.shape != expected:
            raise Refusal(
                f"the control table by {', '.join(self.variables) or 'nothing'} needs the shape "
                f"{expected} of its variables"
            )
        return np.array(self.values.transpose(np.argsort(axes)), order="C")  # a total has no axis

    def __repr__(self) -> str:
        return f"Control({self.variables!r}, variance={self.variance!r})"
