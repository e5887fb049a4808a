"""Vector mechanisms by name."""

from __future__ import annotations

from collections.abc import Mapping
from math import log1p
from types import MappingProxyType

from eree.errors import Refusal
from eree.mechanisms.knorm_linlog import KNormLinLog
from eree.mechanisms.mechanism import alpha_of
from eree.mechanisms.two_stage import TwoStageClip
from eree.mechanisms.vector import VectorMechanism
from eree.mechanisms.vector_pareto import VectorPareto
from eree.mechanisms.vector_radial import VectorRadial
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Exact, Weak, plain

VECTOR_MECHANISMS: Mapping[str, type[VectorMechanism]] = MappingProxyType(
    {kind.name: kind for kind in (VectorRadial, VectorPareto, KNormLinLog, TwoStageClip)}
)

#: Shares of epsilon that the first stage of `two-stage-clip` may take; the first that is enough.
_SHARES: tuple[Exact, ...] = ("1/5", "1/3", "1/2")


def automatic_vector(guarantee: Guarantee, cells: int) -> tuple[VectorMechanism, str]:
    """The vector mechanism with the least error, by alpha, epsilon and the number of cells alone.

    Errors are compared in a workplace with one worker in each cell and in one with a thousand times
    1 / alpha in each, by the product of the two means.  The text says what was chosen, and why.
    """
    kinds: list[type[VectorMechanism]] = [VectorRadial, VectorPareto, TwoStageClip]
    if isinstance(guarantee.neighbours, Weak):
        kinds.insert(0, KNormLinLog)
    found: list[tuple[float, VectorMechanism]] = []
    refusals: dict[str, Refusal] = {}
    for kind in kinds:
        try:
            made = _calibrated(kind, guarantee, cells)
        except Refusal as refusal:
            refusals[kind.name] = refusal
        else:
            found.append((_error(made), made))
    if not found:
        raise next(reversed(refusals.values()))
    chosen = min(found, key=lambda pair: pair[0])[1]
    why = f"hides all {cells} worker cells at once with the least error"
    if len(found) == 1 and VectorRadial.name in refusals:
        alpha = alpha_of(guarantee, chosen.name)
        step = f"{cells} ln(1 + {plain(alpha)}) = {cells * log1p(alpha):.4g}"
        why = f"because vector laws for {cells} worker cells need epsilon above {step}"
    return chosen, f"{chosen.name} {why}"


def _calibrated(kind: type[VectorMechanism], guarantee: Guarantee, cells: int) -> VectorMechanism:
    """A mechanism with the least share for a first stage."""
    if not issubclass(kind, TwoStageClip):
        return kind.calibrate(guarantee, cells=cells)
    for share in _SHARES[:-1]:
        try:
            return kind.calibrate(guarantee, cells=cells, share=share)
        except Refusal:
            continue
    return kind.calibrate(guarantee, cells=cells, share=_SHARES[-1])


def _error(made: VectorMechanism) -> float:
    """The product of the mean errors in a small and in a large workplace."""
    error = 1.0
    for count in (1, int(1_000 / alpha_of(made.guarantee, made.name))):
        if isinstance(made, TwoStageClip):
            error *= made.whole_error(count=count, largest=made.cells * count)
        else:
            error *= made.mean_error(count=count, largest=made.cells * count)[0]
    return error
