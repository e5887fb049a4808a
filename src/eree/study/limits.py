"""What no mechanism has, to hold them against: public scales of noise, and all-knowing estimates.

Neither is private: they look at the largest workplace, and the estimates at every size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import comb, exp, log, log1p
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eree.estimate.groups import factors, usual_shares
from eree.noise.coins import Coins
from eree.noise.exact import halves
from eree.study.contenders import MOST_SHRUNK, SHRUNK_AT, Contender
from eree.study.workloads import WORKER_VALUES, Counted, Workload

Array = NDArray[np.float64]
#: Totals vary so much more than noise does.
_FREE = 100.0


def least_noise(cells: int, epsilon: float) -> float:
    """A mean error of one of d cells, in units of S, that no noise added at a public scale S beats.

    Let T be the simplex of growths: vectors of numbers at least 0 with a sum of at most S.  Where
    the density of the noise is above h, moved by T, it is above h e^-eps, and so moved by -T; after
    k steps it is above h e^-(k eps) on A + U, U the union of all i T - (k - i) T.  By Brunn and
    Minkowski the d-th root of the volume of A + U is at least that of A and that of U.  Of all sets
    of a volume the ball of the L1 norm has the least mean norm.  So the density is at least as
    spread as one on balls of these volumes with the heights 1, e^-eps, e^-2eps, ..., for the best
    first one.  With one cell that is the best staircase itself.
    """
    steps = int(80 / epsilon) + 40 + 8 * cells
    radii = np.array([_reach(cells, k) for k in range(steps)]) / 2
    heights = -epsilon * np.arange(steps)

    def mean(first: float) -> float:
        outer = first + radii
        inside = np.concatenate([[0.0], outer[:-1]]) / np.maximum(outer, 1e-300)
        size = heights + cells * np.log(np.maximum(outer, 1e-300))
        mass = np.exp(size - size.max())
        norms = mass * outer * (1 - inside ** (cells + 1)) / (cells + 1)
        return float(norms.sum() / (mass * (1 - inside**cells)).sum())

    return min(mean(first) for first in np.linspace(0.0, cells + 1.0, 100 * (cells + 1) + 1))


def _reach(cells: int, k: int) -> float:
    """The d-th root of the volume of the union of all i T - (k - i) T, that of T being 1.

    With j numbers above 0, of the sum a, and d - j below, of the sum -b, these are the points with
    ceil(a) + ceil(b) <= k.  Points with a up to a have the volume a^j / j!, those below likewise,
    and d! over j! and (d - j)! is a binomial, as is the number of ways to choose who is above.
    """
    volume = 2 * k**cells
    for j in range(1, cells):
        layers = ((i**j - (i - 1) ** j) * (k - i) ** (cells - j) for i in range(1, k))
        volume += comb(cells, j) ** 2 * sum(layers)
    return exp(log(volume) / cells) if volume else 0.0


@dataclass(frozen=True)
class KnownScales(Contender):
    """Laplace noise of the scale S / epsilon in each cell, S = max(b x, 1), b = ln(1 + alpha).

    S is the scale of `vector-radial`: this is what it would have if to hide S cost nothing.
    """

    alpha: float
    epsilon: float

    def scales(self, cells: Counted) -> Array:
        """S of every group."""
        scales: Array = np.maximum(log1p(self.alpha) * cells.largest_total[:: cells.workers], 1.0)
        return scales

    def draw(self, cells: Counted, coins: Coins) -> Array:
        """Counts and Laplace noise."""
        uniform, sign = halves(coins.words(len(cells.counts)))
        scale = np.repeat(self.scales(cells), cells.workers) / self.epsilon
        noisy: Array = cells.counts - np.log(uniform) * sign * scale
        return noisy

    def expected(self, cells: Counted) -> Array | None:
        """The scale: the mean size of Laplace noise."""
        return np.repeat(self.scales(cells) / self.epsilon, cells.workers)


@dataclass(frozen=True)
class KnownScalesShrunk(KnownScales):
    """The same, and the best linear estimates for one who knows all sizes and how groups differ."""

    shape: tuple[int, ...]
    slow: ClassVar[bool] = True

    def expected(self, cells: Counted) -> None:
        """Only draws tell it."""
        del cells

    def draw(self, cells: Counted, coins: Coins) -> Array:
        """Draw, and estimate with all that is confidential but the counts themselves."""
        d = cells.workers
        true = cells.counts.reshape(-1, d).astype(np.float64)
        noisy = super().draw(cells, coins).reshape(-1, d)
        totals, squares = true.sum(1), squared_sizes(cells)
        noise = 2 * (self.scales(cells) / self.epsilon) ** 2
        shares = usual_shares(true, cells.kinds)
        contrasts = [factors(one, self.shape) for one in shares]
        habits = _true_habits(true, cells.kinds, shares, contrasts, squares)
        found = np.empty_like(noisy)
        for kind, share in enumerate(shares):
            at = np.flatnonzero(cells.kinds == kind)
            free = _FREE * noise[at] + totals[at] ** 2
            spread = free[:, None, None] * np.outer(share, share)
            for one, habit in zip(contrasts[kind], habits, strict=True):
                variance = habit * np.maximum(squares - totals, 0)[at] + totals[at]
                spread = spread + variance[:, None, None] * (one @ one.T)
            whole = spread + noise[at, None, None] * np.eye(d)
            found[at] = (spread @ np.linalg.solve(whole, noisy[at, :, None]))[:, :, 0]
        estimates: Array = np.rint(np.maximum(found, 0)).ravel()
        return estimates


def limits(
    workload: Workload, cells: int, alpha: Fraction | None, epsilon: Fraction
) -> Iterator[Contender]:
    """Both, for whole worker marginals under the strong guarantee, where estimates are shrunk."""
    if workload.paying == "together" and workload.strong and (alpha, epsilon) in SHRUNK_AT:
        given = float(alpha or 0), float(epsilon)
        yield KnownScales("known-scales", 1.0, *given)
        shape = tuple(WORKER_VALUES[name] for name in workload.by if name in WORKER_VALUES)
        if cells <= MOST_SHRUNK:
            yield KnownScalesShrunk("known-scales-shrunk", 1.0, *given, shape)


def squared_sizes(cells: Counted) -> Array:
    """The sum of the squared sizes of the workplaces of every group."""
    rows = cells.rows
    _, first = np.unique(rows.workplace, return_index=True)
    sizes = rows.size[first].astype(np.float64)
    groups = len(cells.counts) // cells.workers
    found = np.bincount(rows.cell[first] // cells.workers, weights=sizes**2, minlength=groups)
    return found.astype(np.float64)


def _true_habits(
    true: Array,
    kinds: NDArray[np.int64],
    shares: Array,
    contrasts: list[list[Array]],
    squares: Array,
) -> Array:
    """How alike workers of one workplace are, from the true counts: moments, set by set."""
    totals = true.sum(1)
    above, below = np.zeros((2, len(contrasts[0])))
    weight = np.where(squares > totals, 1 / np.maximum(squares, 1), 0.0)
    for kind, share in enumerate(shares):
        at = np.flatnonzero(kinds == kind)
        away = (true[at] - totals[at, None] * share) / np.sqrt(share)
        for i, one in enumerate(contrasts[kind]):
            basis = np.linalg.qr(one / np.sqrt(share)[:, None])[0]
            energy, rank = ((away @ basis) ** 2).sum(1), one.shape[1]
            above[i] += (weight[at] * (energy - rank * totals[at])).sum()
            below[i] += (weight[at] * rank * (squares - totals)[at]).sum()
    return np.maximum(above / np.maximum(below, 1e-9), 0.0)
