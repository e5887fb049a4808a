"""Decimals of few digits that are not below an exact number, and the powers of e that need them."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

#: Digits of powers of e; a bound is above its power by a share of 10^-40 of it at most.
_DIGITS, _ROOM = 60, Fraction(1, 10**40)
#: Larger powers of e are not computed.
MOST_POWER = 700
#: Numbers between these are written without an exponent.
_SHORT, _LONG = Fraction(1, 10**6), 10**9


def decimal_above(value: Fraction, digits: int) -> Fraction:
    """The least decimal of so many significant digits that is not below a positive number."""
    place = _magnitude(value) + 1 - digits
    grain = Fraction(10) ** place
    return -(-value // grain) * grain


def text_above(value: Fraction, digits: int = 3) -> str:
    """That decimal in digits: never below the number, and by less than one of the last digit."""
    if not value:
        return "0"
    shown = decimal_above(value, digits)
    size = _magnitude(shown)
    whole = int(shown * Fraction(10) ** (digits - 1 - size))
    exact = Decimal(whole).scaleb(size + 1 - digits).normalize()
    return f"{exact:,f}" if _SHORT <= shown < _LONG else f"{exact:.{digits}g}"


def exp_above(power: Fraction) -> Fraction:
    """e^power, or a hair more; exactly 1 for a power of 0."""
    if not power:
        return Fraction(1)
    with localcontext() as context:
        context.prec = _DIGITS
        found = (Decimal(power.numerator) / Decimal(power.denominator)).exp()
    return Fraction(found) * (1 + _ROOM)


def sum_of_exp_above(power: Fraction, terms: int) -> Fraction:
    """1 + e^power + e^(2 power) + … of so many terms, or a hair more, for a power of at least 0.

    Of 2 n terms the sum is that of n, times 1 + e^(n power): nothing is taken away from anything.
    """
    found, number = Fraction(0), 0
    for digit in f"{terms:b}":
        found, number = found * (1 + exp_above(number * power)), 2 * number
        if digit == "1":
            found, number = found * exp_above(power) + 1, number + 1
    return found


def _magnitude(value: Fraction) -> int:
    """The power of ten at which the first digit of a positive number stands."""
    guess = len(str(value.numerator)) - len(str(value.denominator))
    return guess if Fraction(10) ** guess <= value else guess - 1
