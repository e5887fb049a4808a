"""Vector mechanisms by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from math import inf, isfinite
from types import MappingProxyType

from eree.errors import Refusal
from eree.mechanisms.knorm_staircase import KNormStaircase
from eree.mechanisms.mechanism import alpha_of
from eree.mechanisms.needs import cheapest
from eree.mechanisms.two_stage import TwoStageClip
from eree.mechanisms.vector import VectorMechanism
from eree.mechanisms.vector_pareto import VectorPareto
from eree.mechanisms.vector_radial import VectorRadial
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Exact, Weak

VECTOR_MECHANISMS: Mapping[str, type[VectorMechanism]] = MappingProxyType(
    {kind.name: kind for kind in (VectorRadial, VectorPareto, KNormStaircase, TwoStageClip)}
)

#: Shares of epsilon that the first stage of `two-stage-clip` may take.
_SHARES: tuple[Exact, ...] = ("1/5", "1/4", "1/3", "2/5", "1/2", "3/5")


@lru_cache(maxsize=256)  # a plan of many tables asks for the same again and again
def automatic_vector(
    guarantee: Guarantee, cells: int, *, alone: bool = False
) -> tuple[VectorMechanism, str]:
    """The vector mechanism with the least error, by alpha, epsilon and the number of cells alone.

    Errors are compared in a group whose largest workplace has ten times 1 / alpha workers, and no
    other workplace if every group is a workplace `alone`.  The text says what was chosen, and why.
    """
    kinds: list[type[VectorMechanism]] = [VectorRadial, VectorPareto, TwoStageClip]
    if isinstance(guarantee.neighbours, Weak):
        kinds.insert(0, KNormStaircase)
    found: list[tuple[float, VectorMechanism]] = []
    refusals: dict[str, Refusal] = {}
    for kind in kinds:
        try:
            found += [(_error(made, alone), made) for made in _calibrated(kind, guarantee, cells)]
        except Refusal as refusal:
            refusals[kind.name] = refusal
    if not found:
        raise cheapest(reversed(refusals.values()))
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


def _error(made: VectorMechanism, alone: bool) -> float:
    """The mean error in a group whose largest workplace has ten times 1 / alpha workers.

    Such groups hold much of the error of a table: below 1 / alpha all noise is small, and larger
    ones are few.  Where noise looks at the counts, a group of several workplaces has three times as
    many workers.
    """
    largest = int(10 / alpha_of(made.guarantee, made.name))
    count = largest // made.cells
    if isinstance(made, TwoStageClip):
        error = made.whole_error(count=count, largest=largest)
    else:
        error = made.mean_error(count=count if alone else 3 * count, largest=largest)[0]
    return error if isfinite(error) else inf
