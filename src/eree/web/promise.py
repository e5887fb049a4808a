"""What a release promises, in one line."""

from __future__ import annotations

from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Strong, Weak, plain
from eree.web.words import Joined, say

_NEIGHBOURS = {
    "strong": say("strong neighbours"),
    "weak": say("weak neighbours"),
    "edge": say("edge neighbours"),
    "node": say("node neighbours"),
    "record": say("record neighbours"),
    "establishment": say("establishment neighbours"),
}


def in_one_line(guarantee: Guarantee) -> str:
    """A guarantee in one line."""
    relation, line = guarantee.neighbours, [f"epsilon {plain(guarantee.epsilon)}"]
    if guarantee.delta:
        line.append(f"delta {plain(guarantee.delta)}")
    if isinstance(relation, (Strong, Weak)):
        line.append(f"alpha {plain(relation.alpha)}")
    return Joined(", ", [*line, _NEIGHBOURS[relation.name]])
