"""An accuracy that is wanted, and the least epsilon that meets it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log

from eree.cells import Cell
from eree.errors import Refusal, how_many
from eree.policy.neighbours import plain
from eree.release.price import Measurement

#: Prices are looked for in steps of this.
STEP = Fraction(1, 1_000)
#: After so many tries the range of prices is halved, wherever the line leads.
_HALVE = 7


@dataclass(frozen=True)
class Target:
    """A share of cells, of so many jobs in one workplace, within a share of their count."""

    cells: Fraction
    jobs: int
    within: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.cells < 1:
            raise Refusal("cells of a target must be a share between 0 and 1, such as '0.9'")
        if self.jobs < 1:
            raise Refusal("jobs of a target must be an integer, 1 or more")
        if not 0 <= self.within <= 1_000:
            raise Refusal("within of a target must be a share of the count, such as '0.05'")

    def met(self, measurement: Measurement) -> bool:
        """Whether noisy counts are that accurate."""
        return measurement.mechanism.total_quantile(float(self.cells), Cell(self.jobs)) <= int(
            self.within * self.jobs
        )

    def least_epsilon(self, priced: Callable[[Fraction], Measurement], most: Fraction) -> Fraction:
        """The least price, in steps of a thousandth, at which the target is met.

        The next price to try is where the probability to miss, whose logarithm is nearly a line,
        would be as asked for.  It only says where to look: a price is taken if it meets the target
        and the one below does not.
        """
        known = {0: -log(1 - float(self.cells))}  # at no price every cell misses

        def enough(steps: int) -> bool:
            try:
                measurement = priced(steps * STEP)
            except Refusal:  # too little for the mechanism to exist
                return False
            known[steps] = self._lack(measurement)
            return self.met(measurement)

        high = int(most / STEP)
        if high < 1 or not enough(high):
            priced(most)  # where the mechanism itself is refused, its own sentence says why
            raise Refusal(
                f"even the whole epsilon of {plain(most)} does not bring {float(self.cells):.0%} of"
                f" cells of {how_many(self.jobs, 'job')} within {float(self.within):.1%}; ask for"
                " less"
            )
        low, turn = 0, 0
        while high - low > 1:
            turn += 1
            halve = turn % _HALVE == 0 or low not in known  # a line leads nowhere if refused
            middle = (low + high) // 2 if halve else _guess(known, low, high)
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high * STEP

    def _lack(self, measurement: Measurement) -> float:
        """The logarithm of the probability to miss, less that of the one that is allowed."""
        within, cell = int(self.within * self.jobs), Cell(self.jobs)
        mechanism = measurement.mechanism
        outside = sum(float(mechanism.tail(cell, within + 1, side)) for side in (1, -1))
        return log(max(outside, 1e-300)) - log(1 - float(self.cells))


def _guess(known: Mapping[int, float], low: int, high: int) -> int:
    """The first number of steps, between two others, at which nothing should be lacking."""
    nearest = sorted(known, key=lambda steps: abs(known[steps]))[:2]
    one, other = (float(steps) for steps in nearest)
    fall = known[nearest[0]] - known[nearest[1]]
    root = one - known[nearest[0]] * (one - other) / fall if fall else (low + high) / 2
    return min(max(ceil(min(max(root, low), high)), low + 1), high - 1)
