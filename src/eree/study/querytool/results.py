"""The figures of the query tool's evaluation as a tidy table, beside those that were printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from eree.study.querytool import CAP, CYCLES, EPSILON, LEVELS, TOLERANCE, Runs, expected

#: Table 4 as printed, for tables of 1 to 10 variables.
PRINTED = (6.592, 3.255, 1.340, 0.522, 0.200, 0.077, 0.030, 0.012, 0.005, 0.002)
PRINTED_RAKED = (0.000, 1.684, 1.082, 0.494, 0.200, 0.078, 0.030, 0.012, 0.004, 0.002)
PRINTED_REDUCTION = (1.0, 0.483, 0.193, 0.054, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
PRINTED_CONVERGED, PRINTED_CHANGED = 0.224, 0.235
#: As large a share of runs as converged in the paper: those that came nearest.
NEAREST = "nearest"
#: Dimensions whose printed figures have three digits, from which readings are told apart.
SHARP = 4


@dataclass(frozen=True)
class Row:
    """One figure: the variance of noise in tables of a dimension, by one way to calibrate.

    `expected` is known without a draw, `printed` stands in Table 4; each is None where there is
    none.  `share` is that of the runs that are counted.
    """

    arm: str
    runs: str
    reading: str
    dimension: int
    share: float
    mean: float
    standard_error: float
    median: float
    expected: float | None
    printed: float | None


class Results:
    """The figures of all runs, as rows and one by one."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.expected = expected(runs.levels, runs.settings)
        apart = runs.differences["rake"]
        self.converged = apart <= TOLERANCE
        self.nearest = apart <= np.quantile(apart, PRINTED_CONVERGED, method="lower")
        self.rows = list(self._rows())
        self._by = {(r.arm, r.runs, r.reading, r.dimension): r for r in self.rows}

    @property
    def as_published(self) -> bool:
        """Whether the settings are those of the paper, so that its figures can stand beside."""
        chosen = self.runs.settings
        same = (chosen.epsilon, chosen.cap, chosen.cycles) == (EPSILON, CAP, CYCLES)
        return same and self.runs.levels == LEVELS

    def row(
        self, arm: str, dimension: int, runs: str = "all", reading: str = "centred"
    ) -> Row | None:
        """One row; None where no run was counted."""
        return self._by.get((arm, runs, reading, dimension))

    def means(self, arm: str, runs: str = "all", reading: str = "centred") -> list[float]:
        """The means of all dimensions; empty where no run was counted."""
        found = [self.row(arm, d, runs, reading) for d in range(1, len(self.runs.levels) + 1)]
        return [row.mean for row in found if row is not None]

    def reductions(self, arm: str, runs: str = "all") -> list[float]:
        """By how much an arm reduces the variance of noise, in the same runs."""
        pairs = zip(self.means(arm, runs), self.means("none", runs), strict=True)
        return [1 - after / before for after, before in pairs]

    def _rows(self) -> Iterator[Row]:
        everyone = np.ones(len(self.converged), dtype=np.bool_)
        for (arm, reading), figures in self.runs.variances.items():
            selections = (("all", everyone), ("converged", self.converged), (NEAREST, self.nearest))
            for name, counted in selections:
                if not counted.any() or (name != "all" and arm not in ("none", "rake")):
                    continue
                for k, values in enumerate(figures[counted].T):
                    known = self.expected.get(arm) if name == "all" else None
                    yield Row(
                        arm,
                        name,
                        reading,
                        k + 1,
                        float(counted.mean()),
                        float(values.mean()),
                        float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0,
                        float(np.median(values)),
                        None if known is None else float(known[reading][k]),
                        self._printed(arm, name, reading, k),
                    )

    def _printed(self, arm: str, runs: str, reading: str, k: int) -> float | None:
        if not self.as_published or runs == "all" or reading != "centred":
            return None
        return {"none": PRINTED, "rake": PRINTED_RAKED}[arm][k]
