"""A contender that measures margins only: fewer numbers, each with less noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.estimate.margins import learn_from_margins
from eree.mechanisms.margins_radial import MarginsRadial
from eree.noise.coins import Coins
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Strong
from eree_study.papers.contenders import SHRUNK_AT, Contender
from eree_study.papers.workloads import WORKER_VALUES, Counted, Workload

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MarginsShrunk(Contender):
    """The margins of two attributes hidden at once, and estimates of all cells made of them."""

    mechanism: MarginsRadial
    slow: ClassVar[bool] = True

    def draw(self, cells: Counted, coins: Coins) -> Array:
        """Draw, and estimate: whole counts of at least 0."""
        groups = cells.counts.reshape(-1, cells.workers)
        largests = cells.largest_total[:: cells.workers]
        noisy = self.mechanism.draw_differences(groups, largests, coins=coins)
        learnt = learn_from_margins(self.mechanism, noisy, cells.workplaces, cells.kinds)
        return np.rint(np.maximum(learnt.estimates(), 0)).ravel()

    def expected(self, cells: Counted) -> None:
        """Only draws tell it."""
        del cells


def by_margins(
    workload: Workload, cells: int, alpha: Fraction | None, epsilon: Fraction
) -> Iterator[Contender]:
    """For whole marginals of two values by some, strong, where estimates are shrunk."""
    shape = tuple(WORKER_VALUES[name] for name in workload.by if name in WORKER_VALUES)
    if workload.paying != "together" or not workload.strong or alpha is None:
        return
    if (alpha, epsilon) not in SHRUNK_AT or len(shape) != 2 or shape[0] != 2:
        return
    assert prod(shape) == cells
    try:
        made = MarginsRadial.calibrate(Guarantee(Strong(alpha), epsilon), values=shape[1])
    except Refusal:
        return
    yield MarginsShrunk("margins-shrunk", 0.0, made)
