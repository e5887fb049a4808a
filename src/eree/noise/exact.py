"""Exact drawing: whole numbers whose chances are exactly those that a law states.

A law turns real uniform numbers into a whole number: through a logarithm, a power, a rounding, and
perhaps a rejection.  A computer holds 64 bits of each uniform and rounds at every operation, so
what it computes is only near the truth; but the result is a whole number, and nearly always every
real number near the computed one leads to the same.  So each try is decided in one of two ways:

- fast, for all cells at once in doubles: the law says for which tries its error bound leaves no
  doubt;
- slow, for the few that are left: in interval arithmetic with more and more bits of the same
  uniforms, until no doubt is left.

Both follow the same real-number recipe with the same bits, so the result is exactly distributed
and does not depend on which of them decided.  No digit of the noise but the whole number leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from fractions import Fraction
from typing import Protocol

import numpy as np
from flint import arb, ctx, fmpq, fmpz
from numpy.typing import NDArray

from eree.noise.coins import Coins

#: Cells tried together: few enough for the cache, enough to make the last few tries cheap.
AT_ONCE = 1 << 16
#: Draws beyond this are set to it; what is made of them must not look beyond half of it.
MOST = 1 << 62
#: Below this a uniform number of 63 bits is too coarse for the error bounds of the fast paths.
COARSE = 2.0**-20

Words = NDArray[np.uint64]
Whole = NDArray[np.int64]


class Verdict(IntEnum):
    """What the fast path says of a try."""

    ACCEPT = 0
    REJECT = 1
    DOUBT = 2


class Doubt(Exception):
    """The bits known so far leave more than one possibility."""


class Law(Protocol):
    """A family of laws on the whole numbers, one for each cell, that can be drawn exactly."""

    @property
    def uniforms(self) -> int:
        """How many uniform numbers one try takes."""

    def fast(self, words: Words, cells: NDArray[np.intp]) -> tuple[Whole, NDArray[np.int8]]:
        """Values and verdicts for one try in each of some cells; `words` has a row per uniform."""

    def slow(self, uniforms: Sequence[arb], cell: int) -> int | None:
        """The value of one try, None if rejected; raises `Doubt` if the balls are too wide."""


def draw(law: Law, cells: int, coins: Coins) -> Whole:
    """One exact draw for each cell."""
    drawn = np.empty(cells, dtype=np.int64)
    for start in range(0, cells, AT_ONCE):
        _draw(law, np.arange(start, min(start + AT_ONCE, cells)), coins, drawn)
    return drawn


def _draw(law: Law, pending: NDArray[np.intp], coins: Coins, drawn: Whole) -> None:
    """Fill in the draws of some cells, trying until all are accepted."""
    while pending.size:
        words = coins.words(law.uniforms * pending.size).reshape(law.uniforms, pending.size)
        values, verdicts = law.fast(words, pending)
        drawn[pending] = values  # what is not accepted is overwritten below or in the next round
        again = verdicts == Verdict.REJECT
        for place in np.flatnonzero(verdicts == Verdict.DOUBT):
            value = settle(law, words[:, place], int(pending[place]), coins)
            if value is None:
                again[place] = True
            else:
                drawn[pending[place]] = min(max(value, -MOST), MOST)
        pending = pending[again]


def settle(law: Law, words: Words, cell: int, coins: Coins) -> int | None:
    """Decide one try in interval arithmetic, asking for more bits of its uniforms as needed."""
    numerators, bits = [int(word) for word in words], 64
    before = ctx.prec
    try:
        while True:
            ctx.prec = bits + 64
            try:
                return law.slow([ball(numerator, bits) for numerator in numerators], cell)
            except Doubt:
                more = coins.words(len(numerators))
                numerators = [n << 64 | int(w) for n, w in zip(numerators, more, strict=True)]
                bits += 64
    finally:
        ctx.prec = before


def ball(numerator: int, bits: int) -> arb:
    """All real numbers from numerator to numerator + 1, over 2^bits."""
    half = arb(fmpz(2 * numerator + 1))
    return (half + arb(0, 1)) * arb(2) ** (-bits - 1)


def sure_floor(value: arb) -> int:
    """The whole number below every point of a ball."""
    whole = value.floor().unique_fmpz()
    if whole is None:
        raise Doubt
    return int(whole)


def sure_round(value: arb) -> int:
    """The whole number nearest to every point of a ball; far beyond MOST, any that is too."""
    if abs(value) > 4 * MOST:
        return 2 * MOST if value > 0 else -2 * MOST
    return sure_floor(value + arb("0.5"))


def sure_less(left: arb, right: arb) -> bool:
    """Whether one ball lies below another."""
    if left < right:
        return True
    if left > right:
        return False
    raise Doubt


def halves(word: Words) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """A word as a sign (its top bit) and a uniform number in (0, 1) (the other 63).

    The number is the middle of the interval that the bits leave, to within 2^-53 of itself.
    """
    sign = 1 - 2 * (word >> np.uint64(63)).astype(np.int64)
    rest = (word & np.uint64(2**63 - 1)).astype(np.float64)
    return (rest + 0.5) * 2.0**-63, sign


def coarse(uniform: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Where a uniform number has too few bits for the fast paths."""
    return uniform < COARSE


def rounded(
    noise: NDArray[np.float64],
    error: NDArray[np.float64],
    doubt: NDArray[np.bool_],
) -> tuple[Whole, NDArray[np.int8]]:
    """Round numbers known to within some error; near a half there is doubt."""
    nearest = np.rint(noise)
    doubt = doubt | ~(0.5 - np.abs(noise - nearest) >= error)
    values = np.where(doubt, 0, nearest).astype(np.int64)
    return values, np.where(doubt, Verdict.DOUBT, Verdict.ACCEPT).astype(np.int8)


def exact_ball(value: Fraction | int) -> arb:
    """A fraction in interval arithmetic."""
    fraction = value if type(value) is Fraction else Fraction(value)  # asked for at every draw
    return arb(fmpq(fraction.numerator, fraction.denominator))


def sure_halves(uniform: arb) -> tuple[arb, int]:
    """The same in interval arithmetic: the first bit and what follows it."""
    negative = not sure_less(uniform, arb("0.5"))
    return (uniform * 2 - 1, -1) if negative else (uniform * 2, 1)
