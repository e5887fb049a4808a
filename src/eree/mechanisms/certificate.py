"""A certificate: what was claimed of a mechanism, and what its probabilities show.

Certificates know no calibration.  Whatever the family of a mechanism, the two cells that come
nearest to the bound are named, and their loss is computed once more from `pmf` alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction
from math import inf, nextafter
from typing import Any, Protocol

from flint import arb, ctx

from eree.cells import Cell
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Strong, Weak

#: Bits for probabilities in the far tails.
_BITS = 320
#: A loss that stands for one without bound.
NEVER = Fraction(10**18)


class Probabilities(Protocol):
    """What a certificate asks of any mechanism."""

    @property
    def name(self) -> str:
        """The name of the mechanism."""

    @property
    def guarantee(self) -> Guarantee:
        """What is claimed."""

    def pmf(self, cell: Cell, output: int) -> arb:
        """The probability of an output."""


@dataclass(frozen=True)
class WorstPair:
    """Two neighbouring cells and an output that distinguish them best, of those looked at.

    `loss` is the logarithm of the ratio of the probabilities of the output, rounded down; `delta`,
    the greatest difference of the probabilities of an event, one of them times e^epsilon.
    """

    before: Cell
    after: Cell
    output: int
    loss: float
    delta: float = 0.0


@dataclass(frozen=True)
class Certificate:
    """What was claimed of a mechanism, and what its probabilities show.

    `found_epsilon` and `found_delta` bound the loss over all neighbouring cells and all outputs;
    where a delta is claimed, `found_epsilon` is the epsilon at which `found_delta` was found.

    Attributes:
        mechanism: Its name.
        guarantee: What was claimed.
        bound: The bound of the loss.
        found_delta: The delta that was found.
        worst_pair: The neighbouring cells that lose most.

    Examples:
        >>> eree.mechanism("edge-geometric", epsilon=1).certify().holds
        True
    """

    mechanism: str
    guarantee: Guarantee
    bound: Fraction
    found_delta: float
    worst_pair: WorstPair

    @classmethod
    def pure(cls, mechanism: Probabilities, bound: Fraction, pair: WorstPair) -> Certificate:
        """Of a mechanism without delta; cells that are seen to lose more overrule the bound."""
        seen = Fraction(pair.loss) if pair.loss < inf else NEVER
        return cls(mechanism.name, mechanism.guarantee, max(bound, seen), 0.0, pair)

    @property
    def claimed_epsilon(self) -> float:
        """The epsilon that was claimed."""
        return float(self.guarantee.epsilon)

    @property
    def claimed_delta(self) -> float:
        """The delta that was claimed."""
        return float(self.guarantee.delta)

    @property
    def found_epsilon(self) -> float:
        """The bound of the loss."""
        return float(self.bound)

    def __bool__(self) -> bool:
        return self.holds

    @property
    def holds(self) -> bool:
        """Whether what was found is at most what was claimed, without any tolerance."""
        claimed = self.guarantee
        return self.bound <= claimed.epsilon and Fraction(self.found_delta) <= claimed.delta

    def __str__(self) -> str:
        return "\n".join(self.words())

    def words(self) -> list[str]:
        """What was found, for people to read."""
        neighbours, pair = self.guarantee.neighbours, self.worst_pair
        whose = f"{neighbours.name} neighbours"
        if isinstance(neighbours, (Strong, Weak)):
            whose += f", alpha {float(neighbours.alpha):g}"
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        lines = [
            f"{self.mechanism} ({whose}): the claim {verdict}",
            f"  claimed epsilon {self.claimed_epsilon:.7g}, found {self.found_epsilon:.7g}",
        ]
        if self.claimed_delta or self.found_delta:
            lines.append(
                f"  claimed delta   {self.claimed_delta:.4g}, found {self.found_delta:.4g}"
            )
        lines.append(
            f"  worst pair seen: ({pair.before.words()}) and ({pair.after.words()}),"
            f" output {pair.output}: {pair.loss:.7g}"
        )
        return lines

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        neighbours = self.guarantee.neighbours
        alpha = str(neighbours.alpha) if isinstance(neighbours, (Strong, Weak)) else None
        return {
            "mechanism": self.mechanism,
            "neighbours": neighbours.name,
            "alpha": alpha,
            "claimed_epsilon": self.claimed_epsilon,
            "claimed_delta": self.claimed_delta,
            "found_epsilon": self.found_epsilon,
            "found_delta": self.found_delta,
            "holds": self.holds,
            "worst_pair": asdict(self.worst_pair),
        }


def upper(value: arb) -> Fraction:
    """The upper end of a ball, as a fraction."""
    return _fraction(value.upper()) if value.is_finite() else NEVER


def _fraction(point: arb) -> Fraction:
    mantissa, exponent = point.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def log_probability(mechanism: Probabilities, size: int, output: int) -> float:
    """The logarithm of the probability of an output of a cell that is one workplace."""
    saved, ctx.prec = ctx.prec, _BITS
    try:
        return float(mechanism.pmf(Cell(size), output).log())
    finally:
        ctx.prec = saved


def loss_between(
    mechanism: Probabilities, before: Cell, after: Cell, output: int, *, bits: int = _BITS
) -> float:
    """The loss at an output, from the probabilities alone, rounded down."""
    saved, ctx.prec = ctx.prec, bits
    try:
        old = mechanism.pmf(before, output)
        new = mechanism.pmf(after, output)
        if not (old > 0 and new > 0):
            return inf if old > 0 or new > 0 else 0.0
        least = _fraction(abs((old / new).log()).lower())
        return max(
            nextafter(float(least), 0) if Fraction(float(least)) > least else float(least), 0
        )
    finally:
        ctx.prec = saved


def worst_of(
    mechanism: Probabilities,
    candidates: Iterable[tuple[Cell, Cell, Iterable[int]]],
    *,
    bits: int = _BITS,
) -> WorstPair:
    """The pair and output with the greatest loss among some."""
    pairs = (
        WorstPair(before, after, output, loss_between(mechanism, before, after, output, bits=bits))
        for before, after, outputs in candidates
        for output in outputs
    )
    return max(pairs, key=lambda pair: pair.loss)
