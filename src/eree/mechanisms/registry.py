"""Mechanisms by name, so that a plan, a release and a certificate speak of the same thing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from eree.errors import Refusal
from eree.mechanisms.scaled import ScaledMechanism
from eree.mechanisms.smooth_gamma import SmoothGamma, TightSmoothGamma
from eree.mechanisms.smooth_pareto import SmoothPareto
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Exact, Strong

MECHANISMS: Mapping[str, type[ScaledMechanism]] = MappingProxyType(
    {kind.name: kind for kind in (SmoothPareto, SmoothGamma, TightSmoothGamma)}
)


def mechanism(name: str, *, alpha: Exact, epsilon: Exact) -> ScaledMechanism:
    """The mechanism of a name, calibrated to strong neighbours of an alpha and an epsilon."""
    if name not in MECHANISMS:
        known = ", ".join(MECHANISMS)
        raise Refusal(f"there is no mechanism named {name!r}; there are {known}")
    return MECHANISMS[name].calibrate(Guarantee(Strong(alpha), epsilon))
