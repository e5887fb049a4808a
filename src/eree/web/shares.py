"""Shares of totals, in percent, with intervals that hold if those of part and whole do.

A true share x / t lies between low(x) / high(t) and high(x) / low(t) wherever x and t lie within
their intervals.  These are asked for at a level at which both hold together with the probability
that is wanted, so that an interval of a share never promises too much, and is often too wide.
"""

from __future__ import annotations

import numpy as np

from eree.web.block import ABSENT, NEGATIVE, OPEN, UNRELIABLE, Block
from eree.web.words import Joined, say

#: What a figure may be a share of, and how that is called.
SHARES = {
    "rows": say("Percent of the row's total"),
    "cols": say("Percent of the column's total"),
    "all": say("Percent of all"),
}
#: Parts of a percent that a share is counted in, and what share of it makes one unreliable.
UNIT, MOST_ERROR = 10**9, 0.5
#: A part that is so many times its total says nothing, nor is there room for it.
FARTHEST = 10**7


def measured(counted: str, of: str) -> str:
    """What figures are: counts, or percents of some of them."""
    return Joined(": ", (counted, SHARES[of])) if of else counted


def level_of_parts(level: float) -> float:
    """The level of two intervals that hold together at a level, by the union bound."""
    return 1 - (1 - level) / 2


def share(part: Block, whole: Block) -> Block:
    """What percent of its whole each part is; `whole` has a figure for each, or for each line.

    A part beside which nobody is in its line is the whole: exactly 100 percent.  Of a total of 0
    or less no share is known.  An interval ends at 0 and 100, or at an estimate that lies beyond.
    """
    absent, shape = part.flags[ABSENT], part.values.shape
    total, least, most = (
        np.broadcast_to(numbers, shape) for numbers in (whole.jobs, whole.low, whole.high)
    )
    sizes = (1,) * (len(shape) - whole.values.ndim) + whole.values.shape
    line = tuple(place for place, size in enumerate(sizes) if size == 1)
    alone = ~absent & ((~absent).sum(axis=line, keepdims=True) == 1) & (part.jobs == total)
    alone &= total > 0
    known = absent | alone | ((total > 0) & (np.abs(part.jobs) < FARTHEST * total))
    value, low, high = np.zeros(shape), np.zeros(shape), np.full(shape, 100.0)
    np.divide(100 * part.jobs, total, out=value, where=total > 0)
    np.divide(100 * part.low, most, out=low, where=most > 0)
    np.divide(100 * part.high, least, out=high, where=least > 0)
    low, high = np.clip(low, 0, 100), np.where(part.high == 0, 0.0, np.clip(high, 0, 100))
    low, high = np.minimum(low, value), np.maximum(high, value)
    for exact, percent in ((alone, 100.0), (absent, 0.0)):
        value, low, high = (np.where(exact, percent, end) for end in (value, low, high))
    margin = np.where(known, np.maximum(value - low, high - value), np.nan)
    low, high = (np.where(known, np.rint(end * UNIT) / UNIT, np.nan) for end in (low, high))
    weak = ((margin > MOST_ERROR * value) & (margin > 0)) | ~known
    flags = {
        NEGATIVE: known & (value < 0),
        UNRELIABLE: weak,
        ABSENT: absent,
        OPEN: np.zeros(shape, np.bool_),
    }
    parts = np.rint(np.where(known, value, 0.0) * UNIT).astype(np.int64)
    return Block(parts, UNIT, low, high, None, margin, flags)
