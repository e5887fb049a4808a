"""What a mechanism needs to exist: prices that a refusal names, and that are then accepted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction

from eree.errors import Refusal
from eree.policy.decimals import decimal_above, text_above

#: What mechanisms take.
LEAST_EPSILON, MOST_EPSILON = Fraction(1, 10**6), Fraction(500)
#: A threshold is known to within far less than this share of it.
_HAIR = 1e-6
#: Significant digits of the prices that are named.
_DIGITS = 4


class TooLittle(Refusal):
    """A price at which a mechanism does not exist, and the least at which it does.

    `epsilon` is enough at the delta that was asked for, `delta` at the epsilon; where one is
    missing, no such price is.
    """

    def __init__(
        self,
        name: str,
        *,
        epsilon: Fraction | None = None,
        delta: Fraction | None = None,
        why: str = "",
        advice: str,
        most: Fraction = MOST_EPSILON,
    ) -> None:
        self.name, self.epsilon, self.delta = name, epsilon, delta
        self.why, self.advice, self.most = why, advice, most
        ways = []
        if delta is not None and decimal_above(delta, _DIGITS) < 1:
            ways.append(f"a delta of {text_above(delta, _DIGITS)} or more")
        if epsilon is not None and decimal_above(epsilon, _DIGITS) <= most:
            ways.append(f"epsilon of {text_above(epsilon, _DIGITS)} or more")
        needs = f"needs {', or '.join(ways)}"
        if not ways:
            needs = "cannot be had at this price or any other"
            advice = re.sub("^raise it(, | or )", "", advice)
        super().__init__(f"{name} {needs}{' ' * bool(why)}{why}; {advice}")

    def one_by_one(self, cells: int) -> TooLittle:
        """The same of a table whose worker cells get equal parts of its price."""
        return TooLittle(
            self.name,
            epsilon=None if self.epsilon is None else cells * self.epsilon,
            delta=None if self.delta is None else cells * self.delta,
            why=f"{self.why}{' ' * bool(self.why)}for {cells} worker cells one by one",
            advice=self.advice,
            most=cells * self.most,
        )


def above(threshold: float) -> Fraction:
    """A price that is above a threshold, by a hair."""
    return Fraction(threshold * (1 + _HAIR))


def cheapest(refusals: Iterable[Refusal]) -> Refusal:
    """Of refusals of several mechanisms the one that names the least epsilon, or else the first."""
    found = list(refusals)
    named = [one for one in found if isinstance(one, TooLittle) and one.epsilon is not None]
    return min(named, key=lambda one: one.epsilon or 0) if named else found[0]
