"""How little error any private mechanism can have, and what could be had without privacy.

For cells that get noise one by one there are two limits, each for the largest workplaces x of a
table's cells:

- *step known*: the best noise that only has to protect a shift by the step s(x) = max([alpha x],
  1), as if x were public: geometric where s is 1, a staircase above (exact sums).
- *least*: no mechanism with the guarantee can have less on average over sizes that are drawn as
  these are, even one that knows everything but the size of each cell's largest workplace.  Up to
  `SMALL` workers it is the optimum of a linear programme over all mechanisms.  Above, sizes are
  taken as drawn with a density of c / x^2, which gives as many jobs to every range of the same
  ratio; for one output o, its probabilities w(x) differ by at most a factor e^eps between x and
  (1 + alpha) x, and the least of sum w |o - x| / x^2 over sum w / x among all such w bounds the
  error as a share of x.  That is scale free, and found by a small linear programme over sizes a
  part of a step apart: a mechanism for all sizes is no better than the best one for these.

For all worker cells of a group at once there is a bound for noise at a public scale
(`least_noise`), and two contenders that are not private: noise at scales that are taken from the
largest workplaces, and estimates that know every size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import comb, exp, log, log1p, sqrt
from pathlib import Path
from typing import ClassVar

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix, csr_matrix

from eree.estimate.groups import factors, shares_by_kind
from eree.mechanisms.cache import arrays_by_package
from eree.policy.plain_data import sha256
from eree.random.exact import Array, Integers, halves
from eree.random.source import Random
from eree_study.papers.contenders import MOST_SHRUNK, SHRUNK_AT, Contender
from eree_study.papers.workloads import Counted, Workload

#: Workers up to which mechanisms are optimised as a whole.
SMALL = 60
#: Sizes within one step, and e-folds of probability that are looked at on either side.
_PARTS, _FOLDS = 16, 20.0
#: The squares in which the bound of noise is looked for, and how far: the last is unbounded.
_SQUARE, _SQUARES = 0.01, 1.5
#: Totals vary so much more than noise does.
_FREE = 100.0


def step_of(sizes: Integers, alpha: Fraction) -> Integers:
    """The most by which a workplace of so many workers may grow in one step."""
    found: Integers = np.maximum(sizes * alpha.numerator // alpha.denominator, 1)
    return found


def known_step_error(step: int, epsilon: float) -> float:
    """The least mean error of noise on the integers that protects a shift by a known step.

    A centre of 2w + 1 outputs and plateaus of `step` outputs on either side, each e^-eps as likely
    as the one before; the best w is found by trying all.
    """
    q = exp(-epsilon)
    first, second = q / (1 - q), q / (1 - q) ** 2  # sums of q^j and of j q^j over j >= 1
    centre = np.arange(step, dtype=np.float64)
    weight = 2 * centre + 1 + 2 * step * first
    errors = centre * (centre + 1) + 2 * step * (
        first * (centre + (step + 1) / 2) + step * (second - first)
    )
    return float((errors / weight).min())


def known_step_errors(sizes: Integers, alpha: Fraction, epsilon: float) -> Array:
    """The same for the cells with these largest workplaces."""
    found: Array = np.empty(len(sizes))
    large = 1_000
    steps = step_of(sizes, alpha)
    for step in np.unique(np.minimum(steps, large)):
        found[steps == step] = known_step_error(int(step), epsilon)
    rest = steps > large
    found[rest] = known_step_error(large, epsilon) / large * steps[rest]
    return found


def _kept(what: str, least: Callable[[], float]) -> float:
    """What `what` names in full, found by these lines: it takes seconds, and is kept for users."""
    lines = sha256(Path(__file__).read_text(encoding="utf-8"))
    found = arrays_by_package(f"{what} {lines}", lambda: {"found": np.array([least()])})
    return float(found["found"][0])


@lru_cache(maxsize=64)
def least_share(alpha: Fraction, epsilon: float) -> float:
    """The least mean error, as a share of alpha times the size, for large workplaces."""
    return _kept(f"least share {alpha} {epsilon!r}", lambda: _least_share(alpha, epsilon))


def _least_share(alpha: Fraction, epsilon: float) -> float:
    side = _PARTS * (int(_FOLDS / epsilon) + 2)
    place = np.arange(-side, side + 1)
    sizes = (1 + float(alpha)) ** (place / _PARTS)
    at = np.arange(len(place))
    near = [(at[:-lag], at[lag:]) for lag in range(1, _PARTS + 1)]
    both = [pair for one, other in near for pair in ((one, other), (other, one))]
    limits = _privacy(both, len(place), epsilon)
    found = linprog(
        np.abs(1 - sizes)
        / sizes,  # c / x^2 dx is 1 / x for each of these sizes, and the error a share of x
        A_ub=limits,
        b_ub=np.zeros(limits.shape[0]),
        A_eq=np.ones((1, len(place))),
        b_eq=[1.0],
        bounds=(0, None),
        method="highs",
    )
    assert found.status == 0, found.message
    return float(found.fun) / float(alpha)


def least_small(alpha: Fraction, epsilon: float, weights: Array) -> float:
    """The least sum of weighted mean errors over workplaces of 0, 1, … workers."""
    asked = f"least small {alpha} {float(epsilon)!r} {weights.tolist()!r}"
    return _kept(asked, lambda: _least_small(alpha, float(epsilon), weights))


def _least_small(alpha: Fraction, epsilon: float, weights: Array) -> float:
    n = len(weights)
    steps = step_of(np.arange(n), alpha)
    outputs = np.arange(n)
    pairs = [(x, x + d) for x in range(n) for d in range(1, int(steps[x]) + 1) if x + d < n]
    both = [pair for x, y in pairs for pair in ((x, y), (y, x))]
    limits = _privacy([(n * x + outputs, n * y + outputs) for x, y in both], n * n, epsilon)
    size, output = np.repeat(outputs, n), np.tile(outputs, n)
    found = linprog(
        weights[size] * np.abs(size - output),
        A_ub=limits,
        b_ub=np.zeros(limits.shape[0]),
        A_eq=csr_matrix((np.ones(n * n), (size, np.arange(n * n))), shape=(n, n * n)),
        b_eq=np.ones(n),
        bounds=(0, 1),
        method="highs-ipm",
    )
    assert found.status == 0, found.message
    return float(found.fun)


def least_error(sizes: Integers, alpha: Fraction, epsilon: float) -> float:
    """The least mean error over cells whose largest workplaces are as these are.

    Large workplaces grow by integers of workers: what the last part of a step takes off is counted.
    """
    small = np.bincount(sizes[sizes <= SMALL], minlength=SMALL + 1).astype(np.float64)
    total = least_small(alpha, epsilon, small)
    large = sizes[sizes > SMALL].astype(np.float64)
    if large.size:
        steps = np.floor(float(alpha) * large * (1 - 1e-12))
        total += least_share(alpha, epsilon) * float(steps.sum())
    return total / len(sizes)


def _privacy(pairs: Sequence[tuple[Integers, Integers]], count: int, epsilon: float) -> csr_matrix:
    """Of so many probabilities the first of each pair is at most e^eps times the second."""
    more, less = (np.concatenate(side) for side in zip(*pairs, strict=True))
    rows, ones = np.arange(len(more)), np.ones(len(more))
    values = np.concatenate([exp(-epsilon) * ones, -ones])
    places = np.concatenate([rows, rows]), np.concatenate([more, less])
    return coo_matrix((values, places), shape=(len(more), count)).tocsr()


def least_noise(cells: int, epsilon: float) -> float:
    """A mean error of one of d cells, in units of S, that no noise added at a public scale S beats.

    S is large, so that counts are as good as real numbers.  Let T be the simplex of growths:
    vectors of numbers at least 0 with a sum of at most S.  Where the density of the noise is above
    h, moved by T, it is above h e^-eps, and so moved by -T; after k steps it is above h e^-(k eps)
    on A + U_k, U_k the union of all i T - (k - i) T.  Let R_k be the radius of a ball of the L1
    norm with the volume of the set where the density is above h e^-(k eps), and r_k that of U_k.
    By Brunn and Minkowski R_(j+k) >= R_j + r_k where the first set is not empty.  Of all sets of a
    volume the ball has the least mean norm.  So the mean norm of one cell is at least M / (d + 1),
    M the least of sum q^k R_k^(d+1) / sum q^k R_k^d over such sequences, q = e^-eps.

    M >= L if the sum of q^k p(R_k) is never below 0, p(R) = R^d (R - L).  p falls up to
    m = L d / (d + 1) and grows from there on.  Let K be the first k with R_K >= m, R_K = m + y and
    R_(K-1) = m - x, 0 <= x <= m.  Then y + x >= r_1, and

        R_(K+i) >= max(m + y + r_i, m - x + r_(i+1)), where p grows,
        R_(K-1-i) <= min(m - x - r_i, m + y - r_(i+1)), where p falls and is below 0,

    so the sum is at least that of p at these; if nothing is left at K - 1, x = m, and the second
    bound of R_(K+i) is no bound.  `_least_sum` takes the least over all x and y, in small squares.
    With one cell the bound is the best staircase itself.
    """
    steps = int(80 / epsilon) + 40 + 8 * cells
    radii = np.array([_radius(cells, k) for k in range(steps + 1)]) / 2
    low, high = 0.0, (cells + 1) / epsilon  # of Laplace noise
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        fits = _least_sum(cells, epsilon, radii, middle) >= 0
        low, high = (middle, high) if fits else (low, middle)
    return low / (cells + 1)


def _least_sum(cells: int, epsilon: float, radii: Array, scale: float) -> float:
    """A bound of the least sum of q^k p(R_k), L the scale, over q^K and L^d.

    In a square of x and y each radius is taken at the corner where the sum is least.
    """
    middle, steps = scale * cells / (cells + 1), np.arange(len(radii) - 1)
    edges = np.append(np.arange(0.0, _SQUARES, _SQUARE), np.inf)

    def p(radius: Array) -> Array:
        found: Array = (radius / scale) ** cells * (radius - scale)
        return found

    least = np.inf
    after = np.exp(-epsilon * steps)
    for left, right in pairwise(np.append(edges[edges < middle], middle)):
        some = edges[1:] + right >= radii[1]
        bottom, top = edges[:-1][some, None], edges[1:][some, None]
        outer = middle + bottom + radii[:-1]
        if right < middle:
            outer = np.maximum(outer, middle - right + radii[1:])
        inner = np.minimum(middle - left - radii[:-1], middle + top - radii[1:])
        kept = int((inner > 0).any(0).sum())  # radii only fall
        sums = p(outer) @ after
        sums += p(np.maximum(inner[:, :kept], 0.0)) @ np.exp(epsilon * (steps[:kept] + 1))
        least = min(least, float(sums.min()))
    return least


def _radius(cells: int, k: int) -> float:
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

    S is the scale of `vector-radial`: this is what it would have if S were public.
    """

    alpha: float
    epsilon: float

    def scales(self, cells: Counted) -> Array:
        """S of every group."""
        scales: Array = np.maximum(log1p(self.alpha) * cells.largest_total[:: cells.workers], 1.0)
        return scales

    def draw(self, cells: Counted, random: Random) -> Array:
        """Counts and Laplace noise."""
        uniform, sign = halves(random.words(len(cells.counts)))
        scale = np.repeat(self.scales(cells), cells.workers) / self.epsilon
        noisy: Array = cells.counts - np.log(uniform) * sign * scale
        return noisy

    def expected(self, cells: Counted) -> Array | None:
        """The scale: the mean size of Laplace noise."""
        return np.repeat(self.scales(cells) / self.epsilon, cells.workers)

    def root_mean_squares(self, cells: Counted) -> Array | None:
        """The variance of Laplace noise is twice its squared scale."""
        return np.repeat(sqrt(2) * self.scales(cells) / self.epsilon, cells.workers)


@dataclass(frozen=True)
class KnownScalesShrunk(KnownScales):
    """The same, and the best linear estimates for one who knows all sizes and how groups differ."""

    shape: tuple[int, ...]
    slow: ClassVar[bool] = True

    def expected(self, cells: Counted) -> None:
        """It has to be drawn."""
        del cells

    def root_mean_squares(self, cells: Counted) -> None:
        """That, too."""
        del cells

    def draw(self, cells: Counted, random: Random) -> Array:
        """Draw, and estimate with all that is confidential but the counts themselves."""
        d = cells.workers
        true = cells.counts.reshape(-1, d).astype(np.float64)
        noisy = super().draw(cells, random).reshape(-1, d)
        totals, squares = true.sum(1), squared_sizes(cells)
        noise = 2 * (self.scales(cells) / self.epsilon) ** 2
        shares = shares_by_kind(true, cells.kinds)
        contrasts = [factors(one, self.shape) for one in shares]
        correlations = _true_correlations(true, cells.kinds, shares, contrasts, squares)
        found = np.empty_like(noisy)
        for kind, share in enumerate(shares):
            at = np.flatnonzero(cells.kinds == kind)
            free = _FREE * noise[at] + totals[at] ** 2
            spread = free[:, None, None] * np.outer(share, share)
            for one, correlation in zip(contrasts[kind], correlations, strict=True):
                variance = correlation * np.maximum(squares - totals, 0)[at] + totals[at]
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
        if cells <= MOST_SHRUNK:
            yield KnownScalesShrunk("known-scales-shrunk", 1.0, *given, workload.worker_shape)


def squared_sizes(cells: Counted) -> Array:
    """The sum of the squared sizes of the workplaces of every group."""
    rows = cells.rows
    _, first = np.unique(rows.workplace, return_index=True)
    sizes = rows.size[first].astype(np.float64)
    groups = len(cells.counts) // cells.workers
    found = np.bincount(rows.cell[first] // cells.workers, weights=sizes**2, minlength=groups)
    return found.astype(np.float64)


def _true_correlations(
    true: Array,
    kinds: Integers,
    shares: Array,
    contrasts: list[list[Array]],
    squares: Array,
) -> Array:
    """Intra-class correlations in workplaces, from the true counts: moments, set by set."""
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
