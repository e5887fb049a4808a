"""Exact sampling: integers whose probabilities are exactly those that a distribution states.

A distribution turns real uniform numbers into an integer: through a logarithm, a power, a rounding,
and perhaps a rejection.  A computer holds 64 bits of each uniform and rounds at every operation, so
what it computes is only near the truth; but the result is an integer, and nearly always every real
number near the computed one leads to the same.  So each try is decided in one of two ways:

- fast, for all cells at once in doubles: the distribution says for which tries its error bound
  leaves no doubt;
- slow, for the few that are left: in interval arithmetic with more and more bits of the same
  uniforms, until no doubt is left.

Both follow the same real-number recipe with the same bits, so the result is exactly distributed
and does not depend on which of them decided.  No digit of the noise but the integer leaves.  Where
several integers of a group belong together, a try gives a row of them, accepted or rejected as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from fractions import Fraction
from typing import Protocol, TypeVar, cast

import numpy as np
from flint import arb, ctx, fmpq, fmpz
from numpy.typing import NDArray

from eree.random.source import Random

#: Integers tried together: few enough for the cache, enough to make the last few tries cheap.
AT_ONCE = 1 << 16
#: Draws beyond this are set to it; what is made of them must not look beyond half of it.
MOST = 1 << 62
#: Below this a uniform number of 63 bits is too coarse for the error bounds of the fast paths.
COARSE = 2.0**-20

Words = NDArray[np.uint64]
#: Bits of exact probabilities: enough for tails that are differences of nearly equal numbers.
PRECISION = 320
Integers = NDArray[np.int64]
Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Row = tuple[int, ...]
#: What one try gives: an integer, or a row of them.
Drawn = TypeVar("Drawn", covariant=True)


class Verdict(IntEnum):
    """What the fast path says of a try."""

    ACCEPT = 0
    REJECT = 1
    DOUBT = 2


class Doubt(Exception):
    """The bits known so far leave more than one possibility."""


class Sampled(Protocol[Drawn]):
    """A family of distributions, one for each cell or group, that can be sampled exactly."""

    @property
    def uniforms(self) -> int:
        """How many uniform numbers one try takes."""

    def fast(self, words: Words, cells: NDArray[np.intp]) -> tuple[Integers, NDArray[np.int8]]:
        """Draws and verdicts for one try in each of some cells; `words` has a row per uniform."""

    def slow(self, uniforms: Sequence[arb], cell: int) -> Drawn | None:
        """The draw of one try, None if rejected; raises `Doubt` if the balls are too wide."""


class Distributions(Sampled[int], Protocol):
    """Distributions on the integers, one for each cell."""


class RowDistributions(Sampled[Row], Protocol):
    """Distributions of rows of integers, one for each group."""

    @property
    def width(self) -> int:
        """How many integers a row has."""


def draw(family: Distributions, cells: int, random: Random) -> Integers:
    """One exact draw for each cell."""
    return _sample(family, np.empty(cells, dtype=np.int64), random)


def draw_rows(family: RowDistributions, groups: int, random: Random) -> Integers:
    """One exact draw of a row for each group."""
    return _sample(family, np.empty((groups, family.width), dtype=np.int64), random)


def _sample(family: Distributions | RowDistributions, drawn: Integers, random: Random) -> Integers:
    """Fill in all draws, trying until all are accepted."""
    rows = drawn.reshape(len(drawn), -1) if drawn.size else drawn
    at_once = max(AT_ONCE * len(drawn) // max(drawn.size, 1), 64)
    for start in range(0, len(drawn), at_once):
        pending = np.arange(start, min(start + at_once, len(drawn)))
        while pending.size:
            words = random.words(family.uniforms * pending.size).reshape(
                family.uniforms, pending.size
            )
            drawn[pending], verdicts = family.fast(words, pending)
            again = verdicts == Verdict.REJECT
            for place in np.flatnonzero(verdicts == Verdict.DOUBT):
                decided = settle(family, words[:, place], int(pending[place]), random)
                if decided is None:
                    again[place] = True
                else:
                    row = cast("Row", decided if isinstance(decided, tuple) else (decided,))
                    rows[pending[place]] = [min(max(n, -MOST), MOST) for n in row]
            pending = pending[again]  # what was not accepted is overwritten by the next try
    return drawn


def settle(family: Sampled[Drawn], words: Words, cell: int, random: Random) -> Drawn | None:
    """Decide one try in interval arithmetic, asking for more bits of its uniforms as needed."""
    numerators, bits = [int(word) for word in words], 64
    before = ctx.prec
    try:
        while True:
            ctx.prec = bits + 64
            try:
                return family.slow([ball(numerator, bits) for numerator in numerators], cell)
            except Doubt:
                more = random.words(len(numerators))
                numerators = [n << 64 | int(w) for n, w in zip(numerators, more, strict=True)]
                bits += 64
    finally:
        ctx.prec = before


def ball(numerator: int, bits: int) -> arb:
    """All real numbers from numerator to numerator + 1, over 2^bits."""
    half = arb(fmpz(2 * numerator + 1))
    return (half + arb(0, 1)) * arb(2) ** (-bits - 1)


def sure_floor(value: arb) -> int:
    """The integer below every point of a ball."""
    whole = value.floor().unique_fmpz()
    if whole is None:
        raise Doubt
    return int(whole)


def sure_round(value: arb) -> int:
    """The integer nearest to every point of a ball; far beyond MOST, any that is too."""
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
) -> tuple[Integers, NDArray[np.int8]]:
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


def near(word: Words) -> Array:
    """A word as a uniform number in (0, 1), to within 2^-52."""
    uniform: Array = (word.astype(np.float64) + 0.5) * 2.0**-64
    return uniform


def near_choice(words: Words, wanted: Array) -> tuple[Flags, Flags]:
    """For each group, so many of the numbers as are wanted, all choices being equally likely.

    Of one number after another it is asked whether a uniform number times those left is below those
    still wanted.  The first array has a row per number; the second says where there is doubt.
    """
    chosen = np.empty(words.shape, dtype=np.bool_)
    doubt, wanted = np.zeros(len(wanted), dtype=np.bool_), wanted.copy()
    for i, word in enumerate(words):
        left = len(words) - i
        gap = near(word) * left - wanted
        doubt |= np.abs(gap) < left * 2.0**-48
        chosen[i] = gap < 0
        wanted -= chosen[i]
    return chosen, doubt


def sure_choice(uniforms: Sequence[arb], wanted: int) -> list[bool]:
    """The same for one group in interval arithmetic."""
    chosen: list[bool] = []
    for i, uniform in enumerate(uniforms):
        left, missing = len(uniforms) - i, wanted - sum(chosen)
        sure = missing in (0, left)  # then the uniform number does not matter
        chosen.append(missing > 0 if sure else sure_less(uniform * left, arb(missing)))
    return chosen


def verdicts_of(accepted: Flags, doubt: Flags) -> NDArray[np.int8]:
    """Verdicts from what is accepted and what is in doubt."""
    verdicts = np.where(accepted, Verdict.ACCEPT, Verdict.REJECT)
    return np.where(doubt, Verdict.DOUBT, verdicts).astype(np.int8)


@contextmanager
def exactly(bits: int = PRECISION) -> Iterator[None]:
    """Interval arithmetic with this many bits."""
    before, ctx.prec = ctx.prec, bits
    try:
        yield
    finally:
        ctx.prec = before
