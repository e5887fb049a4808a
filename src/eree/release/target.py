"""An accuracy that is wanted, and the least epsilon that reaches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from eree.errors import Refusal
from eree.policy.neighbours import plain
from eree.release.treatment import Treatment

#: Prices are looked for in steps of this.
STEP = Fraction(1, 1_000)


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
            raise Refusal("jobs of a target must be a whole number, 1 or more")
        if self.within < 0:
            raise Refusal("within of a target must be a share of the count, such as '0.05'")

    def met(self, treatment: Treatment) -> bool:
        """Whether noisy counts are that accurate."""
        within = treatment.quantile(float(self.cells), self.jobs)
        return within <= int(self.within * self.jobs)

    def least_epsilon(self, treated: Callable[[Fraction], Treatment], most: Fraction) -> Fraction:
        """The least price, in steps of a thousandth, at which the target is met."""

        def enough(steps: int) -> bool:
            try:
                return self.met(treated(steps * STEP))
            except Refusal:  # too little for the mechanism to exist
                return False

        high = int(most / STEP)
        if high < 1 or not enough(high):
            treated(most)  # where the mechanism itself is refused, its own sentence says why
            raise Refusal(
                f"even the whole epsilon of {plain(most)} does not bring {float(self.cells):.0%} of"
                f" cells of {self.jobs:,} jobs within {float(self.within):.1%}; ask for less"
            )
        low = 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high * STEP
