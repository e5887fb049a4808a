"""What tests of rows of noise share: the fast path and the slow one, draws and probabilities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from eree.cells import Group
from eree.random.exact import Verdict, exactly, settle
from eree.random.source import SeededRandom


def check_fast_against_slow(chosen: Any, tries: int) -> None:
    """What the fast path is sure of the slow one says too, try for try; few are in doubt."""
    words = SeededRandom(11).words(chosen.uniforms * tries).reshape(chosen.uniforms, tries)
    rows, verdicts = chosen.fast(words, np.arange(tries))
    for i in range(tries):
        settled = settle(chosen, words[:, i], i, SeededRandom(i))
        if verdicts[i] == Verdict.ACCEPT:
            assert settled == tuple(rows[i].tolist())
        elif verdicts[i] == Verdict.REJECT:
            assert settled is None
    assert np.count_nonzero(verdicts == Verdict.DOUBT) < 5


@dataclass(frozen=True)
class CommonRows:
    """The rows most common in one half of the draws, and how often the other half has them."""

    rows: Sequence[tuple[int, ...]]
    observed: Sequence[int]

    @classmethod
    def of(cls, drawn: Any) -> CommonRows:
        n = len(drawn) // 2
        first, second = (Counter(map(tuple, half.tolist())) for half in (drawn[:n], drawn[n:]))
        rows = [row for row, times in first.most_common(40) if times > 80]
        times = [second[row] for row in rows]
        return cls(rows, [*times, n - sum(times)])

    def fit(self, distribution: Any, counts: tuple[int, ...], largest: int) -> float:
        """How likely a distribution of the outputs of a group differs as much from the draws."""
        with exactly():
            probabilities = [
                float(distribution.joint_pmf(Group.of(counts, largest), row)) for row in self.rows
            ]
        expected = np.array([*probabilities, 1 - sum(probabilities)]) * sum(self.observed)
        return float(stats.chisquare(self.observed, expected).pvalue)
