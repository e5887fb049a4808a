"""Classes of groups by the variance of their noise: what estimates have to know of it."""

from __future__ import annotations

from eree.errors import Refusal
from eree.estimate.grids import Classed, by_bounds, by_workplaces
from eree.mechanisms.mechanism import Mechanism
from eree.random.exact import Integers


def can_be_shrunk(mechanism: Mechanism) -> bool:
    """Whether the noisy counts of a mechanism can be shrunk."""
    return mechanism.at_once > 1 and mechanism.transform is None


def classes_for(
    mechanism: Mechanism, noisy: Integers, workplaces: Integers, bounds: Integers | None = None
) -> Classed:
    """Classes of groups for the noise of a mechanism; `bounds` are those of a first stage."""
    if not mechanism.together or mechanism.transform is not None:
        raise Refusal(f"the noise of {mechanism.name} cannot be shrunk")
    if bounds is not None:
        return by_bounds(bounds, workplaces, mechanism.variance)
    return by_workplaces(noisy, workplaces, mechanism.variance)
