"""What a mechanism takes, and what it needs to exist: prices that a refusal names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from math import ceil, floor

from eree.errors import Refusal
from eree.policy.decimals import decimal_above, text_above
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Strong, Weak

#: What mechanisms take.
_LEAST_ALPHA, _MOST_ALPHA = Fraction(1, 10**6), Fraction(1_000)
_LEAST_DELTA = Fraction(1, 10**300)
LEAST_EPSILON, MOST_EPSILON = Fraction(1, 10**6), Fraction(500)
#: A threshold is known to within far less than this share of it.
_HAIR = 1e-6
#: Significant digits of the prices that are named.
_DIGITS = 4
#: Parameters are multiples of 1 over this, rounded towards more noise.
GRAIN = 1 << 40


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
        if epsilon is not None and self.enough is not None:
            ways.append(f"epsilon of {text_above(epsilon, _DIGITS)} or more")
        needs = f"needs {', or '.join(ways)}"
        if not ways:
            needs = "cannot be had at this price or any other"
            advice = re.sub("^raise it(, | or )", "", advice)
        super().__init__(f"{name} {needs}{' ' * bool(why)}{why}; {advice}")

    @property
    def enough(self) -> Fraction | None:
        """The epsilon that the words name, where they name one."""
        if self.epsilon is None or decimal_above(self.epsilon, _DIGITS) > self.most:
            return None
        return decimal_above(self.epsilon, _DIGITS)

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


def alpha_of(guarantee: Guarantee, name: str) -> Fraction:
    """The alpha of a guarantee, for a mechanism that needs one."""
    if not isinstance(guarantee.neighbours, (Strong, Weak)):
        raise Refusal(
            f"{name} needs strong or weak neighbours, which have an alpha; edge-geometric is for"
            " edge neighbours, truncated-laplace for node neighbours"
        )
    check_range(guarantee, name)
    return guarantee.neighbours.alpha


def check_range(guarantee: Guarantee, name: str) -> None:
    """Refuse parameters so small or large that doubles cannot tell them from nothing."""
    alpha = getattr(guarantee.neighbours, "alpha", Fraction(1))
    if not _LEAST_ALPHA <= alpha <= _MOST_ALPHA:
        raise Refusal(
            f"{name} takes an alpha from 0.000001 to 1000; for less use edge neighbours, for more"
            " node neighbours"
        )
    if not LEAST_EPSILON <= guarantee.epsilon <= MOST_EPSILON:
        raise Refusal(f"{name} takes an epsilon from 0.000001 to 500")
    if 0 < guarantee.delta < _LEAST_DELTA:
        raise Refusal(f"{name} takes a delta of 0, or from 1e-300")


def rounded_up(value: float) -> Fraction:
    """A multiple of the grain that is no less, whatever the last bits of the value."""
    return Fraction(ceil(value * (1 + 2**-48) * GRAIN), GRAIN)


def rounded_down(value: float) -> Fraction:
    """A multiple of the grain that is no more, whatever the last bits of the value."""
    return Fraction(floor(value * (1 - 2**-48) * GRAIN), GRAIN)


def parameters_from_text(texts: Iterable[str]) -> dict[str, int | str]:
    """Parameters of a mechanism from texts such as `theta=50`; integers become numbers.

    Args:
        texts: Names and values.

    Examples:
        >>> eree.parameters_from_text(["theta=50", "aim=squares"])
        {'theta': 50, 'aim': 'squares'}
    """
    given: dict[str, int | str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise Refusal(f"{text!r} is not a parameter; write it as name=value, such as theta=50")
        value = value.strip()
        given[name.strip()] = int(value) if re.fullmatch("[0-9]{1,18}", value) else value
    return given
