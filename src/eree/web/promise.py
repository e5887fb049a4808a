"""What a release promises, in one line, and how its noise is spread, in a sentence."""

from __future__ import annotations

from math import ceil, floor

from eree.mechanisms.intervals import MeanNoise
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


#: What the record has of a distribution that is too long for it.
LEVELS_WORDS = say(
    "All plateaus of its distribution follow from alpha and epsilon; the record has a digest of"
    " them, by which anyone sees that they are those."
)


def mean_words(mean: MeanNoise) -> str:
    """How far figures are off on average, rounded outwards."""
    if mean.up_to is None:
        return say(
            "Figures are right on average but for their rounding, which moves the mean by half a"
            " job at most."
        )
    least, greatest = floor(mean.least * 100) / 100, ceil(mean.greatest * 100) / 100
    return say(
        "This noise is asymmetric. Its mean is not 0: it lies between %(least)s and %(greatest)s"
        " jobs where the largest workplace of a cell has up to %(workers)s workers, and is about"
        " %(share)s times the workers of that workplace above that. All of these numbers follow"
        " from alpha and epsilon, none from the data. Sums are off by the sum of these means;"
        " intervals allow for it.",
        least=f"{least:+.2f}",
        greatest=f"{greatest:+.2f}",
        workers=f"{mean.up_to:,}",
        share=f"{mean.share:+.2g}",
    )
