"""Exact drawing of rows: several whole numbers of one group that belong together.

As in `exact`, a law follows a recipe from uniform real numbers, fast in doubles wherever its error
bound leaves no doubt, else slow in interval arithmetic with more bits of the same numbers; only
that the result of a try is a row of numbers, accepted or rejected as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np
from flint import arb
from numpy.typing import NDArray

from eree.noise.coins import Coins
from eree.noise.exact import AT_ONCE, MOST, Law, Verdict, Whole, Words, settle, sure_less

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Row = tuple[int, ...]


class RowLaw(Protocol):
    """A family of laws of rows, one for each group, that can be drawn exactly."""

    @property
    def width(self) -> int:
        """How many numbers a row has."""

    @property
    def uniforms(self) -> int:
        """How many uniform numbers one try takes."""

    def fast(self, words: Words, groups: NDArray[np.intp]) -> tuple[Whole, NDArray[np.int8]]:
        """Rows and verdicts for one try in each of some groups; `words` has a row per uniform."""

    def slow(self, uniforms: Sequence[arb], group: int) -> Row | None:
        """The row of one try, None if rejected; raises `Doubt` if the balls are too wide."""


def draw_rows(law: RowLaw, groups: int, coins: Coins) -> Whole:
    """One exact draw of a row for each group."""
    drawn = np.empty((groups, law.width), dtype=np.int64)
    at_once = max(AT_ONCE // law.width, 64)
    pending = np.arange(groups)
    while pending.size:
        starts = range(0, pending.size, at_once)
        again = [_try(law, pending[start : start + at_once], coins, drawn) for start in starts]
        pending = np.concatenate(again)
    return drawn


def _try(law: RowLaw, groups: NDArray[np.intp], coins: Coins, drawn: Whole) -> NDArray[np.intp]:
    """Fill in the rows of some groups by one try each; the groups whose try was rejected."""
    words = coins.words(law.uniforms * groups.size).reshape(law.uniforms, groups.size)
    rows, verdicts = law.fast(words, groups)
    drawn[groups] = rows  # what is not accepted is overwritten below or by the next try
    again = verdicts == Verdict.REJECT
    for place in np.flatnonzero(verdicts == Verdict.DOUBT):
        row = settle_row(law, words[:, place], int(groups[place]), coins)
        if row is None:
            again[place] = True
        else:
            drawn[groups[place]] = [min(max(value, -MOST), MOST) for value in row]
    rejected: NDArray[np.intp] = groups[again]
    return rejected


def settle_row(law: RowLaw, words: Words, group: int, coins: Coins) -> Row | None:
    """Decide one try in interval arithmetic: `settle` hands on whatever the slow path returns."""
    return cast("Row | None", settle(cast("Law", law), words, group, coins))


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
