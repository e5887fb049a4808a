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
UNIT, MOST_ERROR = 1_000, 0.5


def measured(counted: str, of: str) -> str:
    """What figures are: counts, or percents of some of them."""
    return Joined(": ", (counted, SHARES[of])) if of else counted


def level_of_parts(level: float) -> float:
    """The level of two intervals that hold together at a level, by the union bound."""
    return 1 - (1 - level) / 2


def share(part: Block, whole: Block) -> Block:
    """What percent of its whole each part is; `whole` has a figure for each, or for each line."""
    total, absent = np.broadcast_to(whole.jobs, part.values.shape), part.flags[ABSENT]
    least = np.broadcast_to(whole.low, part.values.shape)
    most = np.broadcast_to(whole.high, part.values.shape)
    known = total > 0
    value = np.zeros(part.values.shape)
    np.divide(100 * part.jobs, total, out=value, where=known)
    low, high = np.zeros(value.shape), np.full(value.shape, 100.0)
    np.divide(100 * part.low, most, out=low, where=most > 0)
    np.divide(100 * part.high, least, out=high, where=least > 0)
    low, high = np.clip(low, 0, 100), np.where(part.high == 0, 0.0, np.clip(high, 0, 100))
    value = np.where(absent, 0.0, value)
    margin = np.maximum(value - low, high - value)
    rounded = np.round(value * UNIT).astype(np.int64)
    weak = ((margin > MOST_ERROR * value) & (margin > 0)) | ~known
    flags = {
        NEGATIVE: rounded < 0,
        UNRELIABLE: weak & ~absent,
        ABSENT: absent,
        OPEN: np.zeros(absent.shape, np.bool_),
    }
    return Block(rounded, UNIT, low, high, None, margin, flags)


def whole(block: Block) -> Block:
    """Shares of totals in themselves: exactly 100 percent, wherever anything can be."""
    absent = block.flags[ABSENT]
    percent = np.where(absent, 0.0, 100.0)
    never = np.zeros(absent.shape, np.bool_)
    flags = {NEGATIVE: never, UNRELIABLE: never, ABSENT: absent, OPEN: never}
    values = (percent * UNIT).astype(np.int64)
    return Block(values, UNIT, percent, percent, None, np.zeros(absent.shape), flags)
