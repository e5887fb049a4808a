"""Vector mechanisms by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import inf, isfinite
from types import MappingProxyType

from eree.errors import Refusal
from eree.mechanisms.knorm_linlog import KNormLinLog
from eree.mechanisms.mechanism import alpha_of
from eree.mechanisms.two_stage import TwoStageClip
from eree.mechanisms.vector import VectorMechanism
from eree.mechanisms.vector_pareto import VectorPareto
from eree.mechanisms.vector_radial import VectorRadial
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Exact, Weak

VECTOR_MECHANISMS: Mapping[str, type[VectorMechanism]] = MappingProxyType(
    {kind.name: kind for kind in (VectorRadial, VectorPareto, KNormLinLog, TwoStageClip)}
)

#: Shares of epsilon that the first stage of `two-stage-clip` may take.
_SHARES: tuple[Exact, ...] = ("1/5", "1/4", "1/3", "2/5", "1/2", "3/5")


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
            found += [(_error(made), made) for made in _calibrated(kind, guarantee, cells)]
        except Refusal as refusal:
            refusals[kind.name] = refusal
    if not found:
        raise next(reversed(refusals.values()))
    chosen = min(found, key=lambda pair: pair[0])[1]
    why = f"hides all {cells} worker cells at once with the least error"
    if isinstance(chosen, TwoStageClip) and VectorRadial.name in refusals:
        why = f"because {str(refusals[VectorRadial.name]).partition(';')[0]}"
    return chosen, f"{chosen.name} {why}"


def _calibrated(
    kind: type[VectorMechanism], guarantee: Guarantee, cells: int
) -> Iterator[VectorMechanism]:
    """A mechanism, with every share for a first stage that is enough; refused where none is."""
    if not issubclass(kind, TwoStageClip):
        yield kind.calibrate(guarantee, cells=cells)
        return
    yield kind.calibrate(guarantee, cells=cells, share=_SHARES[-1])  # the last is the greatest
    for share in _SHARES[:-1]:
        with suppress(Refusal):
            yield kind.calibrate(guarantee, cells=cells, share=share)


def _error(made: VectorMechanism) -> float:
    """The product of the mean errors in a small and in a large workplace."""
    error = 1.0
    for count in (1, int(1_000 / alpha_of(made.guarantee, made.name))):
        if isinstance(made, TwoStageClip):
            error *= made.whole_error(count=count, largest=made.cells * count)
        else:
            error *= made.mean_error(count=count, largest=made.cells * count)[0]
    return error if isfinite(error) else inf
