"""LinLog: a transform that is straight for small counts and logarithmic for large ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, exp, log1p
from typing import Self

from eree.mechanisms.parameters import TooLittle, above, alpha_of, rounded_up
from eree.mechanisms.transformed.laplace import TransformedMechanism
from eree.mechanisms.transformed.transform import Knots
from eree.policy.guarantee import Guarantee

#: How many steps of the integer form are taken before the logarithm.
_STEPS = 64


@dataclass(frozen=True)
class LinLog(TransformedMechanism):
    """g^-1(g(count) + L / epsilon), rounded; L of the density e^-|z| / 2.

    g(n) = n up to 1 / alpha, then 1 / alpha + ln(1 + b (n - 1 / alpha)) / b, b = ln(1 + alpha).

    Theorem.  The output is private as every `TransformedMechanism`; its mean is finite for
    epsilon > b.  Proof.  Below 1 / alpha one step is one worker, and the slope of g is at most 1.
    Above, g((1 + alpha) n) - g(n) <= 1 is 1 - b / alpha <= (1 + alpha)(1 - b / alpha), and
    b <= alpha.
    """

    spread: Fraction = Fraction(1)
    rate: Fraction = Fraction(1)  # b, rounded up
    name = "linlog"

    @classmethod
    def calibrate(cls, guarantee: Guarantee) -> Self:
        """The scale 1 / epsilon."""
        step, epsilon = log1p(float(alpha_of(guarantee, cls.name))), float(guarantee.epsilon)
        if epsilon <= step * (1 + 1e-9):
            raise TooLittle(
                cls.name,
                epsilon=above(step),
                why="(above ln(1 + alpha)) for an output of finite mean",
                advice="raise it or lower alpha",
            )
        return cls(guarantee, rounded_up(1 / epsilon), rounded_up(step))

    @cached_property
    def transform(self) -> Knots:
        """g and its inverse."""
        corner = 1 / self.alpha
        return Knots((Fraction(0), corner), (Fraction(1),), Fraction(1), self.rate)

    def exact_forward(self, count: int) -> Fraction | None:
        """Up to the last knot."""
        return self.transform.exact_forward(count)

    def elasticity_from(self) -> tuple[int, Fraction]:
        """Where the logarithm has begun u / (step + rate (u - T)), step >= rate T: 1 / rate."""
        return ceil(self.transform.at[-1]), 1 / self.rate

    @property
    def tail_from(self) -> float:
        """The last knot."""
        return float(self.transform.at[-1])

    def turning_counts(self) -> Iterable[int]:
        """Between knots what a step adds to the transformed count is linear in the count.

        So it is greatest where the count, or where the step leads, is at a knot.
        """
        alpha, found = self.alpha, {0, 1, 2}
        for knot in self.transform.at:
            middle = ceil(knot)
            joined = max(int(alpha * middle), 1)
            for near in (middle, middle - joined, ceil(middle / (1 + alpha))):
                found |= {near + d for d in range(-3, 4)}
        last = self.elasticity_from()[0]
        return sorted(count for count in found if 0 <= count <= last)

    def power_tail(self, count: int) -> tuple[float, float, float]:
        """Beyond the last knot h is a logarithm, so an exponential tail becomes a power."""
        transform, rate = self.transform, float(self.rate)
        unit = float(transform.step) / rate
        offset = unit - float(transform.at[-1])
        base = unit * exp(rate * (float(self.forward(count)) - float(transform.values[-1])))
        return offset, base, 1 / (float(self.spread) * rate)


@dataclass(frozen=True)
class IntegerLinLog(LinLog):
    """LinLog on the scale of integers: phi(n) = sum over i < n of 1 / max(floor(alpha i), 1).

    From the count T at which a step is 64 workers on, the scale grows like a logarithm, with the
    slope 1 / (step + b (n - T)), step = max(64, b T).

    Theorem.  The output is private as every `TransformedMechanism`.  Proof.  A step from n < T
    leads over at most s = max(floor(alpha n), 1) integers, on each of which the slope is at most
    1 / s: phi falls in slope, and the logarithm starts at 1 / step <= 1 / s.  Beyond T,
    u / (step + b (u - T)) <= 1 / b, so a growth by alpha raises phi by at most 1.
    """

    name = "linlog-integer"

    @cached_property
    def transform(self) -> Knots:
        """phi and its inverse: a knot wherever floor(alpha n) grows."""
        knots, slopes = [0], []
        for step in range(1, _STEPS):
            end = ceil((step + 1) / self.alpha)
            if end > knots[-1]:
                knots.append(end)
                slopes.append(Fraction(1, max(int(self.alpha * (end - 1)), 1)))
        at = tuple(Fraction(knot) for knot in knots)
        last = max(int(self.alpha * knots[-1]), 1)
        return Knots(at, tuple(slopes), max(Fraction(last), self.rate * knots[-1]), self.rate)
