"""The figures of the query tool's evaluation as a tidy table, beside those that were printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eree.random.exact import Array
from eree_study.querytool.convergence import CHOSEN, PRINTED_CONVERGED
from eree_study.querytool.evaluation import ARMS, CAP, EPSILON, LEVELS, RUNS, Runs, expected
from eree_study.querytool.readings import READINGS

#: Table 4 as printed, for tables of 1 to 10 variables.
PRINTED = (6.592, 3.255, 1.340, 0.522, 0.200, 0.077, 0.030, 0.012, 0.005, 0.002)
PRINTED_RAKED = (0.000, 1.684, 1.082, 0.494, 0.200, 0.078, 0.030, 0.012, 0.004, 0.002)
PRINTED_REDUCTION = (1.0, 0.483, 0.193, 0.054, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
PRINTED_CHANGED, PRINTED_VARIANCE = 0.235, 0.00182
#: How many runs the printed figures are means of.
PRINTED_RUNS = round(PRINTED_CONVERGED * RUNS)
#: Fewer runs than this are no column of a table.
FEWEST = 10
#: A run with so many times the noise that is expected without calibration has exploded.
EXPLODED = 10.0


@dataclass(frozen=True)
class Row:
    """One figure: the variance of noise in tables of a dimension, by one way to calibrate.

    `share` is that of the runs that are counted; `worse`, of those, the share with more noise than
    before calibration; `exploded`, with more than ten times what is expected without.  `expected`
    is known without a draw, `printed` stands in Table 4; each is None where there is none.
    """

    cases: str
    arm: str
    runs: str
    reading: str
    dimension: int
    share: float
    mean: float
    standard_error: float
    median: float
    worse: float
    exploded: float
    expected: float | None
    printed: float | None


class Results:
    """The figures of all runs on one cube, as rows and one by one."""

    def __init__(self, runs: Runs, name: str = "survey") -> None:
        self.runs, self.name = runs, name
        self.expected = expected(runs.levels, runs.settings)
        self.converged: NDArray[np.bool_] = runs.differences["rake"] <= CHOSEN.limit
        self.selections = {
            "all": np.ones(len(self.converged), dtype=np.bool_),
            "converged": self.converged,
            "not converged": ~self.converged,
        }

    @property
    def as_published(self) -> bool:
        """Whether the settings are those of the paper, so that its figures can stand beside."""
        chosen = self.runs.settings
        return (chosen.epsilon, chosen.cap, self.runs.levels) == (EPSILON, CAP, LEVELS)

    @property
    def dimensions(self) -> range:
        """1 to the number of variables."""
        return range(1, len(self.runs.levels) + 1)

    def values(self, arm: str, runs: str = "all", reading: str = "centred") -> Array:
        """The figures of the runs that are counted, by run and dimension; none if they are few."""
        found: Array = self.runs.variances[arm, reading][self.selections[runs]]
        return found if runs == "all" or len(found) >= FEWEST else found[:0]

    def means(self, arm: str, runs: str = "all") -> list[float]:
        """The means of all dimensions; empty where too few runs were counted."""
        found = self.values(arm, runs)
        return [float(mean) for mean in found.mean(axis=0)] if len(found) else []

    def medians(self, arm: str) -> list[float]:
        """The medians of all dimensions, over all runs."""
        return [float(median) for median in np.median(self.values(arm), axis=0)]

    def reductions(self, arm: str, runs: str = "all") -> list[float]:
        """By how much an arm reduces the mean variance of noise, in the same runs."""
        pairs = zip(self.means(arm, runs), self.means("none", runs), strict=True)
        return [1 - after / before for after, before in pairs]

    def worse(self, arm: str) -> list[float]:
        """For every dimension the share of runs with more noise than before calibration."""
        return [float(share) for share in (self.values(arm) > self.values("none")).mean(axis=0)]

    def exploded(self, arm: str) -> list[float]:
        """The share of runs with ten times the noise that is expected without calibration."""
        found = self.values(arm) > EXPLODED * self.expected["none"]["centred"]
        return [float(share) for share in found.mean(axis=0)]

    def rows(self) -> Iterator[Row]:
        """Everything, for a file."""
        for arm in ARMS:
            for name, counted in self.selections.items():
                if name != "all" and arm not in ("none", "rake"):
                    continue
                for reading in READINGS:
                    yield from self._rows(arm, name, reading, float(counted.mean()))

    def _rows(self, arm: str, runs: str, reading: str, share: float) -> Iterator[Row]:
        found = self.values(arm, runs, reading)
        if not len(found):
            return
        before = self.values("none", runs, reading)
        plain, known = self.expected["none"][reading], self.expected.get(arm)
        for k, values in enumerate(found.T):
            yield Row(
                self.name,
                arm,
                runs,
                reading,
                k + 1,
                share,
                float(values.mean()),
                float(values.std(ddof=1) / len(values) ** 0.5),
                float(np.median(values)),
                float((values > before[:, k]).mean()),
                float((values > EXPLODED * plain[k]).mean()),
                None if known is None or runs != "all" else float(known[reading][k]),
                self._printed(arm, runs, reading, k),
            )

    def _printed(self, arm: str, runs: str, reading: str, k: int) -> float | None:
        if not self.as_published or runs != "converged" or reading != "centred":
            return None
        return {"none": PRINTED, "rake": PRINTED_RAKED}[arm][k]
