"""Cells rounded to whole thousandths of a job, so that every table is an exact sum."""

from __future__ import annotations

import numpy as np

from eree.errors import Refusal
from eree.random.source import Coins
from eree.survey.calibrate.margins import Array, Whole

#: The most that rounding adds to the variance of one cell, in thousandths squared.
ROUNDING = 0.25
#: Cells beyond this many thousandths of a job are set to it.
LIMIT = 10**15
#: Whole numbers beyond this have no room in sums of int64.
LARGEST = 2.0**53


def rounded(cells: Array, coins: Coins) -> Whole:
    """Each cell rounded up with the chance of its fraction, else down, apart from all others.

    So the error of a cell has mean 0 and variance f (1 - f) <= 1/4, errors are independent, and a
    table of k cells gains a variance of at most k / 4 square thousandths.  Rounding to the nearest
    would move all cells of a table alike where a correction is the same in all of them: k / 2
    thousandths.  Whole numbers, zeros among them, stay as they are.
    """
    if not (np.abs(cells) < LARGEST).all():
        raise Refusal("the cells are too large to be held in whole thousandths of a job")
    down = np.floor(cells)
    words = coins.words(cells.size).reshape(cells.shape)
    chance = (words >> np.uint64(11)) * 2.0**-53
    return np.asarray(down, dtype=np.int64) + (chance < cells - down)
