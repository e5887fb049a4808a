"""The variance of a vector mechanism's noise: what estimates have to know of it."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, pi

from eree.cells import Cell
from eree.errors import Refusal
from eree.estimate.grids import Classed, by_bounds, by_workplaces
from eree.mechanisms.mechanism import Mechanism
from eree.mechanisms.vector.scaled import ScaledVector
from eree.mechanisms.vector.two_stage import TwoStageClip
from eree.random.exact import Integers

#: From this scale on noise grows in proportion.
_LARGE = 100


def variance_by_size(mechanism: ScaledVector) -> Callable[[float], float]:
    """The variance of the noise of one cell by the size of the largest workplace.

    Where tails are so heavy that there is none: that of normal noise with the same mean size.
    """
    large = int(_LARGE / mechanism.pace) + 1

    def variance(size: float) -> float:
        whole = min(int(size + 0.5), large)
        mean, square = mechanism.mean_error(Cell(0, whole))
        found = square**2 if isfinite(square) else pi / 2 * mean**2
        return found * max(size / large, 1.0) ** 2

    return variance


def can_be_shrunk(mechanism: Mechanism) -> bool:
    """Whether the noisy counts of a mechanism can be shrunk."""
    return isinstance(mechanism, (ScaledVector, TwoStageClip)) and mechanism.cells > 1


def classes_for(
    mechanism: Mechanism, noisy: Integers, workplaces: Integers, bounds: Integers | None = None
) -> Classed:
    """Classes of groups for the noise of a mechanism; `bounds` are those of a first stage."""
    if isinstance(mechanism, ScaledVector):
        return by_workplaces(noisy, workplaces, variance_by_size(mechanism))
    if isinstance(mechanism, TwoStageClip) and bounds is not None:
        return by_bounds(
            bounds, workplaces, lambda total: 2 * float(mechanism.scale(max(int(total), 1))) ** 2
        )
    raise Refusal(f"the noise of {mechanism.name} cannot be shrunk")
