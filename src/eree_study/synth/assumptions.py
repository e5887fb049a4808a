"""What a synthetic population assumes where public figures say nothing, and another way to do it.

What is tuned on one population must be judged on another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from eree.errors import Refusal


@dataclass(frozen=True)
class Assumptions:
    """What nobody has measured.

    `concentration` multiplies the weights of the workplaces' own shares of workers: less makes
    workplaces differ more.  `local` is the least spread of all shares between places, and again
    between states.  `tail` is the slope of the largest workplaces.  `tie` is the part of workers
    whose education goes with their sex inside a workplace.  `uneven` multiplies how much the jobs
    per resident vary between places.
    """

    concentration: float = 1.0
    local: float = 0.0
    tail: float = 2.05
    tie: float = 0.0
    uneven: float = 1.0


USUAL = "usual"
ASSUMPTIONS: Mapping[str, Assumptions] = MappingProxyType(
    {
        USUAL: Assumptions(),
        "other": Assumptions(concentration=0.5, local=0.2, tail=1.85, tie=0.3, uneven=1.6),
    }
)


def assumptions_named(name: str) -> Assumptions:
    """Assumptions by their name."""
    if name not in ASSUMPTIONS:
        raise Refusal(f"there are no assumptions {name!r}; there are {', '.join(ASSUMPTIONS)}")
    return ASSUMPTIONS[name]
