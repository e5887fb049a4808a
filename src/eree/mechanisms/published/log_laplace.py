"""Log-Laplace: Laplace noise on the logarithm of the count, as published and tight."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf, log1p, sqrt
from typing import ClassVar, Literal, Self

from eree.cells import Cell
from eree.errors import Refusal
from eree.mechanisms.intervals import MeanNoise
from eree.mechanisms.parameters import TooLittle, above, alpha_of, rounded_up
from eree.mechanisms.transformed.laplace import TransformedMechanism
from eree.mechanisms.transformed.transform import Logarithm
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Exact, exact

#: What the factor on the output is chosen for; `plain` is the published output, factor 1.
Aim = Literal["plain", "unbiased", "absolute", "squares"]


@dataclass(frozen=True)
class LogLaplace(TransformedMechanism):
    """factor (count + offset) e^eta - offset, rounded; eta Laplace noise of a scale lambda.

    Algorithm 1 of the paper: lambda = 2 b / epsilon, b = ln(1 + alpha), offset = 1 / alpha and
    factor 1.  With the report's additive factor Delta, offset = Delta / alpha: then Delta workers
    who join at once are protected as well.

    Theorem.  With lambda >= b / epsilon and Delta >= 1 the output is private as every
    `TransformedMechanism`; its mean is finite for lambda < 1.  Proof.  ln(n + Delta / alpha) grows
    by at most ln(1 + alpha / Delta) <= b while one worker joins, and by less than b while alpha n
    do.  The paper's lambda is twice what is needed, so its loss is at most epsilon / 2.
    """

    spread: Fraction = Fraction(1)  # lambda
    offset: Fraction = Fraction(1)
    factor: Fraction = Fraction(1)
    name = "log-laplace"
    share: ClassVar[int] = 2

    @classmethod
    def calibrate(cls, guarantee: Guarantee, *, additive: Exact = 1) -> Self:
        """The published scale and offset."""
        spread, offset = cls._scale(guarantee, additive, 1.0)
        return cls(guarantee, spread, offset)

    @classmethod
    def _scale(
        cls, guarantee: Guarantee, additive: Exact, most: float, why: str = ""
    ) -> tuple[Fraction, Fraction]:
        """The spread, which must be below `most`, and the offset."""
        alpha, workers = alpha_of(guarantee, cls.name), exact(additive, "additive")
        step = log1p(float(alpha))
        if workers < 1:
            raise Refusal(
                "additive must be at least 1 worker, or one worker would not be protected"
            )
        if cls.share * step >= float(guarantee.epsilon) * most * (1 - 1e-9):
            words = f"{cls.share} ln(1 + alpha)" if cls.share > 1 else "ln(1 + alpha)"
            raise TooLittle(
                cls.name,
                epsilon=above(cls.share * step / most),
                why=why or f"(above {words}) for an output of finite mean",
                advice="raise it or lower alpha",
            )
        return rounded_up(cls.share * step / float(guarantee.epsilon)), workers / alpha

    @property
    def transform(self) -> Logarithm:
        """ln(n + offset), and back."""
        return Logarithm(self.offset, self.factor)

    def elasticity_from(self) -> tuple[int, Fraction]:
        """u / (u + offset) is below 1."""
        return ceil(1 / self.alpha), Fraction(1)

    def turning_counts(self) -> Iterable[int]:
        """The logarithm is concave: of steps of one worker the first is the greatest."""
        last = ceil(1 / self.alpha)
        return (*range(min(last, 20)), last)

    def power_tail(self, count: int) -> tuple[float, float, float]:
        """P(Y >= y) = ((y + offset) / (factor (count + offset)))^(-1 / lambda) / 2."""
        base = float(self.factor * (count + self.offset))
        return float(self.offset), base, float(1 / self.spread)

    @property
    def tail_from(self) -> float:
        """Above the median; sums go beyond it."""
        return 0.0

    def real_error(self, cell: Cell) -> tuple[float, float]:
        """Before rounding, in closed form where the factor is 1: see `relative_moments`."""
        if self.factor != 1:
            return super().real_error(cell)
        _, absolute, squared = relative_moments(float(self.spread))
        true = float(cell.count + self.offset)
        return true * absolute, true * sqrt(squared) if squared < inf else inf


@dataclass(frozen=True)
class TightLogLaplace(LogLaplace):
    """Log-Laplace with the scale that is needed, lambda = b / epsilon, and a factor on the output.

    The factor c looks at the noisy number alone, so it costs nothing.  `unbiased` takes
    c = 1 - lambda^2; `absolute`, the least mean absolute error, c = (1 + lambda)^(-lambda /
    (1 - lambda)); `squares`, the least mean square, c = (1 - 4 lambda^2) / (1 - lambda^2), for
    lambda < 1/2; `plain` leaves the output as it is.  Theorem and proof as in `LogLaplace`.
    """

    name = "log-laplace-tight"
    share: ClassVar[int] = 1

    @property
    def mean_noise(self) -> MeanNoise | None:
        """Where the factor is the unbiased one, rounding alone moves the mean."""
        unbiased = abs(self.factor - (1 - self.spread**2)) < 1e-6
        return MeanNoise(-0.5, 0.5) if unbiased else None

    @classmethod
    def calibrate(cls, guarantee: Guarantee, *, additive: Exact = 1, aim: Aim = "unbiased") -> Self:
        """The needed scale, and the factor for an aim."""
        why = "" if aim in ("plain", "unbiased") else f"for the aim {aim}"
        spread, offset = cls._scale(guarantee, additive, _most_spread(aim), why)
        factor = _factor(aim, float(spread))
        return cls(guarantee, spread, offset, Fraction(round(factor * 2**40), 2**40))


def _factor(aim: Aim, size: float) -> float:
    """The factor for an aim, at a spread below 1; it falls with the spread."""
    match aim:
        case "plain":
            return 1.0
        case "unbiased":
            return 1 - size**2
        case "absolute":
            return float((1 + size) ** (-size / (1 - size)))
        case "squares":
            return (1 - 4 * size**2) / (1 - size**2)
    raise Refusal("aim must be plain, unbiased, absolute or squares")


def _most_spread(aim: Aim) -> float:
    """The largest spread at which the factor leaves a millionth of the output."""
    low, high = 0.0, 1.0
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if _factor(aim, middle) >= 2**-20 else (low, middle)
    return low


def relative_moments(size: float) -> tuple[float, float, float]:
    """E[e^eta], E|e^eta - 1| and E[(e^eta - 1)^2], eta Laplace noise of the scale `size`.

    Lemma 8.2 and Theorem 8.3 of the paper: 1 / (1 - size^2), size / (1 - size^2), and
    (2 size^2 + 4 size^4) / ((1 - 4 size^2)(1 - size^2)).
    """
    if size >= 1:
        return inf, inf, inf
    mean, absolute = 1 / (1 - size**2), size / (1 - size**2)
    if size >= 0.5:
        return mean, absolute, inf
    return mean, absolute, (2 * size**2 + 4 * size**4) / ((1 - 4 * size**2) * (1 - size**2))
