"""Contenders of the drafts: the report's Algorithms 2 and 3, and Smooth Gamma of the slides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from eree.random.exact import Array
from eree.random.source import Random
from eree_study.papers.contenders import Contender, by_size
from eree_study.papers.report_algorithms import (
    draw_quartic,
    draw_report,
    mean_report_errors,
    root_mean_square_report,
    worst_delta,
)
from eree_study.papers.workloads import Counted, Workload


@dataclass(frozen=True)
class Reported(Contender):
    """Algorithm 2 or 3 of the report, as printed: not private."""

    alpha: Fraction
    epsilon: Fraction
    strong: bool

    @property
    def _algorithm(self) -> int:
        return 2 if self.name == "report-laplace" else 3

    def draw(self, cells: Counted, random: Random) -> Array:
        """In doubles, with the scale of the largest workplace."""
        return draw_report(
            self._algorithm,
            cells.counts,
            cells.sizes(self.strong),
            alpha=self.alpha,
            epsilon=self.epsilon,
            random=random,
        )

    def expected(self, cells: Counted) -> Array:
        """By the largest workplace."""

        def error(x: int) -> float:
            return mean_report_errors(self._algorithm, x, self.alpha, self.epsilon)

        return by_size(cells.sizes(self.strong), error)

    def root_mean_squares(self, cells: Counted) -> Array:
        """By the largest workplace."""

        def error(x: int) -> float:
            return root_mean_square_report(self._algorithm, x, self.alpha, self.epsilon)

        return by_size(cells.sizes(self.strong), error)


@dataclass(frozen=True)
class Slides(Contender):
    """Smooth Gamma of the slides, n + (16 S / epsilon) Z with S = max(alpha x, 1), in doubles.

    Theorem.  It is private at 0.893 epsilon where epsilon >= 4 b, b = ln(1 + alpha): a shift by S
    costs 3^(3/4) epsilon / 16, and another scale at most 3 b <= 3 epsilon / 4.
    """

    alpha: Fraction
    epsilon: Fraction
    strong: bool

    def _scales(self, cells: Counted) -> Array:
        steps = np.maximum(float(self.alpha) * cells.sizes(self.strong), 1.0)
        scales: Array = steps * float(16 / self.epsilon)
        return scales

    def draw(self, cells: Counted, random: Random) -> Array:
        """Counts and quartic noise."""
        noise = draw_quartic(len(cells.counts), random)
        noisy: Array = cells.counts + self._scales(cells) * noise
        return noisy

    def expected(self, cells: Counted) -> Array:
        """The mean of |Z| is one over the root of 2."""
        errors: Array = self._scales(cells) / np.sqrt(2)
        return errors

    def root_mean_squares(self, cells: Counted) -> Array:
        """The variance of Z is 1."""
        return self._scales(cells)


def drafts(
    workload: Workload, cells: int, alpha: Fraction | None, epsilon: Fraction
) -> Iterator[Contender]:
    """Those of the text that a workload is from, wherever their conditions hold."""
    if alpha is None:
        return
    shares = cells if workload.paying == "together" else 1
    touched = cells > 1 or workload.worker_values is not None
    given = alpha, epsilon / shares, workload.strong and touched
    gamma = float(given[1]) >= 4 * float(np.log1p(float(alpha)))
    if workload.study == "paper":
        if gamma:
            yield Slides("slides-gamma", 0.0, *given)
        return
    yield Reported("report-laplace", min(shares * _worst_delta(*given[:2]), 1.0), *given)
    if gamma:
        yield Reported("report-gamma", 1.0, *given)


_worst_delta = lru_cache(maxsize=256)(worst_delta)
