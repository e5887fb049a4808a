"""The noise of a cube: a two-sided geometric distribution by sensitivity, and its certificate."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, inf, log10, nextafter
from typing import Any

from flint import arb

from eree.errors import Refusal, integer
from eree.mechanisms.certificate import upper
from eree.mechanisms.geometric import CappedGeometric
from eree.mechanisms.parameters import check_range
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import RECORD, Exact, exact
from eree.random.exact import draw, exact_ball, exactly, settle
from eree.random.source import Random
from eree.survey.shape import Integers

#: The largest cap of noise that is drawn cell by cell.
_MOST_CAP = 1_000_000
_LEAST_DELTA = Fraction(1, 10**300)


@dataclass(frozen=True)
class ShiftNoise:
    """K with P(K = k) proportional to e^(-epsilon |k| / shift), for |k| <= cap if there is a cap.

    Theorem.  Let neighbours differ in integers, one or many, by at most `shift` together: their L1
    sensitivity.
    Then the numbers with independent noise K each are (epsilon, delta)-private, with delta = 0
    without a cap and else delta = P(K > cap - shift), if cap >= shift.

    Proof.  Where both neighbours can give an output its probabilities differ by a factor of at most
    e^(epsilon / shift) for every unit of the move, so by e^epsilon at most.  A number that moves by
    s gives with probability t(s) = P(K > cap - s) an output that the other cannot; t is convex for
    s <= cap and t(0) = 0, so -ln(1 - t) is too, and of all moves with the same sum the one of a
    single number gives the most: 1 - product of (1 - t(s_i)) <= t(shift).
    """

    guarantee: Guarantee
    shift: int
    cap: int | None = None

    def __post_init__(self) -> None:
        if self.shift < 1:
            raise Refusal("a shift must be at least 1")
        if self.cap is not None and self.cap < self.shift:
            raise Refusal("a cap must not be below the shift that the noise protects")

    @property
    def name(self) -> str:
        """The name that records use."""
        return "discrete-laplace" if self.cap is None else "capped-laplace"

    @property
    def distribution(self) -> CappedGeometric:
        """The distribution of the noise."""
        return CappedGeometric(self.guarantee.epsilon / self.shift, self.cap)

    @property
    def parameters(self) -> dict[str, str]:
        """What was calibrated, as exact texts."""
        cap = {} if self.cap is None else {"cap": str(self.cap)}
        return {"shift": str(self.shift)} | cap

    @classmethod
    def calibrate(cls, guarantee: Guarantee, shift: int) -> ShiftNoise:
        """The least noise of this kind that keeps a guarantee: with a delta, the least cap."""
        check_range(guarantee, "the noise of a cube")
        made = cls(guarantee, shift)
        if guarantee.delta == 0:
            return made
        low, high = shift - 1, 2 * shift
        while not cls(guarantee, shift, high).certify().holds:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            keeps = cls(guarantee, shift, middle).certify().holds
            low, high = (low, middle) if keeps else (middle, high)
        return cls(guarantee, shift, high)

    @classmethod
    def published(cls, epsilon: Exact, cap: int) -> ShiftNoise:
        """The noise of QUERYTOOL 3.2: for counts of records, one moved by 1, with a given cap.

        Its delta is P(K = cap), rounded up to three digits.
        """
        cap = integer(cap, f"cap must be an integer from 1 to {_MOST_CAP:,}", 1, _MOST_CAP)
        free = Guarantee(RECORD, exact(epsilon, "epsilon"))
        check_range(free, "capped-laplace")
        found = cls(free, 1, cap).certify().found
        if found < _LEAST_DELTA:
            raise Refusal("with this cap delta is below 1e-300; a lower cap is as good")
        return cls(Guarantee(RECORD, free.epsilon, rounded_up(found)), 1, cap)

    def draw(self, numbers: int, random: Random) -> Integers:
        """Noise for so many numbers."""
        return draw(self.distribution, numbers, random)

    def draw_one(self, random: Random) -> int:
        """Noise for one number, of whatever size."""
        drawn = settle(self.distribution, random.words(1), 0, random)
        assert drawn is not None  # nothing is ever rejected
        return drawn

    def probability(self, noise: int) -> arb:
        """The probability of a value of the noise, as a ball at the precision that is set."""
        tail, size = self.distribution.tail, abs(noise)
        return tail(size, 0) - tail(size + 1, 0) if size else 1 - 2 * tail(1, 0)

    @property
    def variance(self) -> float:
        """The variance of the noise.

        With q = e^-rate: 2 q / (1 - q)^2; with a cap c the sums to c in its place,
        sum of k^2 q^k = q (1 + q - q^c ((c + 1)^2 - (2 c^2 + 2 c - 1) q + c^2 q^2)) / (1 - q)^3.
        """
        with exactly():
            q = (-exact_ball(self.distribution.rate)).exp()
            if self.cap is None:
                return float(2 * q / (1 - q) ** 2)
            c, last = self.cap, q**self.cap
            ends = (c + 1) ** 2 - (2 * c * c + 2 * c - 1) * q + c * c * q**2
            squares = q * (1 + q - last * ends) / (1 - q) ** 3
            weights = q * (1 - last) / (1 - q)
            return float(2 * squares / (1 + 2 * weights))

    def certify(self) -> ShiftCertificate:
        """Recheck the claim from the probabilities alone, at the shift and the epsilon claimed."""
        with exactly():
            found = upper(shift_delta(self.distribution, self.shift, self.guarantee.epsilon))
        return ShiftCertificate(self.name, self.guarantee, self.shift, max(found, Fraction(0)))


@dataclass(frozen=True)
class ShiftCertificate:
    """What was claimed of the noise of a cube, and the delta that its probabilities show.

    `found` bounds, from above, the greatest difference of the probabilities of an event, one of
    them times e^epsilon, over all moves that add up to `shift` at most.
    """

    mechanism: str
    guarantee: Guarantee
    shift: int
    found: Fraction

    @property
    def found_delta(self) -> float:
        """What was found, rounded up."""
        return nextafter(float(self.found), inf) if self.found else 0.0

    @property
    def holds(self) -> bool:
        """Whether what was found is at most what was claimed, without any tolerance."""
        return self.found <= self.guarantee.delta

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "mechanism": self.mechanism,
            "shift": str(self.shift),
            "claimed_epsilon": str(self.guarantee.epsilon),
            "claimed_delta": str(self.guarantee.delta),
            "found_delta": self.found_delta,
            "holds": self.holds,
        }


def shift_delta(noise: CappedGeometric, shift: int, epsilon: Fraction) -> arb:
    """The least delta with which a number that moves by `shift` is (epsilon, delta)-private.

    It is the sum of max(0, P(k) - e^epsilon P(k - shift)) over all k.  ln P(k) - ln P(k - shift) =
    rate (|k - shift| - |k|) never grows with k, and below shift - cap only the first can be; so the
    sum is over all k up to one, which is found without rounding.  The noise is symmetric, so the
    other direction gives the same.
    """
    ends = []
    surplus = (shift - epsilon / noise.rate) / 2  # P(k) > e^epsilon P(k - shift) for 0 <= k < this
    if surplus > 0:
        ends.append(ceil(surplus) - 1)
    if noise.cap is not None:
        ends.append(shift - noise.cap - 1)
    if not ends:
        return arb(0)
    last = max(ends)
    return _at_most(noise, last) - exact_ball(epsilon).exp() * _at_most(noise, last - shift)


def _at_most(noise: CappedGeometric, value: int) -> arb:
    """The probability that the noise is at most a value."""
    return noise.tail(-value, 0) if value < 0 else 1 - noise.tail(value + 1, 0)


def rounded_up(number: Fraction, digits: int = 3) -> Fraction:
    """A decimal of so many digits that is not below a positive number."""
    places = digits - 1 - floor(log10(number.numerator) - log10(number.denominator))
    scale = Fraction(10) ** places
    return ceil(number * scale) / scale
