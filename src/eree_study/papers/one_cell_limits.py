"""How little error any private mechanism can have: what ours is held against.

Two limits, each for the largest workplaces x of a table's cells:

- *step known*: the best noise that only has to hide a shift by the step s(x) = max([alpha x], 1),
  as if x were public: geometric where s is 1, a staircase beyond (exact sums).
- *least*: no mechanism with the guarantee can have less on average over sizes that are drawn as
  these are, even one that is told everything but the size of each cell's largest workplace.  Up to
  `SMALL` workers it is the optimum of a linear programme over all mechanisms.  Beyond, sizes are
  taken as drawn with a density of c / x^2, which gives as many jobs to every range of the same
  ratio; for one output o, the chances w(x) of it differ by at most a factor e^eps between x and
  (1 + alpha) x, and the least of sum w |o - x| / x^2 over sum w / x among all such w bounds the
  error as a share of x.  That is scale free, and found by a small linear programme over sizes a
  part of a step apart: a mechanism for all sizes is no better than the best one for these.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import exp

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix, csr_matrix

from eree.random.exact import Array, Integers

#: Workers up to which mechanisms are optimised as a whole.
SMALL = 60
#: Sizes within one step, and e-folds of chance that are looked at on either side.
_PARTS, _FOLDS = 16, 20.0


def step_of(sizes: Integers, alpha: Fraction) -> Integers:
    """The most by which a workplace of so many workers may grow unseen."""
    found: Integers = np.maximum(sizes * alpha.numerator // alpha.denominator, 1)
    return found


def known_step_error(step: int, epsilon: float) -> float:
    """The least mean error of noise on the integers that hides a shift by a known step.

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
    beyond = steps > large
    found[beyond] = known_step_error(large, epsilon) / large * steps[beyond]
    return found


@lru_cache(maxsize=64)
def least_share(alpha: Fraction, epsilon: float) -> float:
    """The least mean error, as a share of alpha times the size, for large workplaces."""
    reach = _PARTS * (int(_FOLDS / epsilon) + 2)
    place = np.arange(-reach, reach + 1)
    sizes = (1 + float(alpha)) ** (place / _PARTS)
    near = [(a, b) for lag in range(1, _PARTS + 1) for a, b in _pairs(len(place), lag)]
    limits = _within(np.concatenate([a for a, _ in near]), np.concatenate([b for _, b in near]))
    found = linprog(
        np.abs(1 - sizes)
        / sizes,  # c / x^2 dx is 1 / x for each of these sizes, and the error a share of x
        A_ub=_privacy(limits, len(place), epsilon),
        b_ub=np.zeros(len(limits)),
        A_eq=np.ones((1, len(place))),
        b_eq=[1.0],
        bounds=(0, None),
        method="highs",
    )
    return float(found.fun) / float(alpha)


def least_small(alpha: Fraction, epsilon: float, weights: Array) -> float:
    """The least sum of weighted mean errors over workplaces of 0, 1, … workers."""
    return _least_small(alpha, float(epsilon), tuple(weights.tolist()))


@lru_cache(maxsize=64)
def _least_small(alpha: Fraction, epsilon: float, known: tuple[float, ...]) -> float:
    """The same, once for each question: the programme has thousands of unknowns."""
    weights, n = np.array(known), len(known)
    steps = step_of(np.arange(n), alpha)
    outputs = np.arange(n)
    pairs = [(x, x + d) for x in range(n) for d in range(1, int(steps[x]) + 1) if x + d < n]
    both = [pair for x, y in pairs for pair in ((x, y), (y, x))]
    more = np.concatenate([n * x + outputs for x, _ in both])
    less = np.concatenate([n * y + outputs for _, y in both])
    limits = _within(more, less)
    size, output = np.repeat(outputs, n), np.tile(outputs, n)
    found = linprog(
        weights[size] * np.abs(size - output),
        A_ub=_privacy(limits, n * n, epsilon),
        b_ub=np.zeros(len(limits)),
        A_eq=csr_matrix((np.ones(n * n), (size, np.arange(n * n))), shape=(n, n * n)),
        b_eq=np.ones(n),
        bounds=(0, 1),
        method="highs-ipm",
    )
    return float(found.fun)


def least_error(sizes: Integers, alpha: Fraction, epsilon: float) -> float:
    """The least mean error over cells whose largest workplaces are as these are.

    Large workplaces grow by whole workers: what the last part of a step takes off is counted.
    """
    small = np.bincount(sizes[sizes <= SMALL], minlength=SMALL + 1).astype(np.float64)
    total = least_small(alpha, epsilon, small)
    large = sizes[sizes > SMALL].astype(np.float64)
    if large.size:
        steps = np.floor(float(alpha) * large * (1 - 1e-12))
        total += least_share(alpha, epsilon) * float(steps.sum())
    return total / len(sizes)


def _pairs(count: int, lag: int) -> list[tuple[Integers, Integers]]:
    first = np.arange(count - lag)
    return [(first, first + lag), (first + lag, first)]


def _within(more: Integers, less: Integers) -> Integers:
    """Pairs of chances of which the first is at most e^eps times the second."""
    return np.stack([more, less], axis=1)


def _privacy(limits: Integers, count: int, epsilon: float) -> csr_matrix:
    rows = np.arange(len(limits))
    ones = np.ones(len(limits))
    return coo_matrix(
        (
            np.concatenate([exp(-epsilon) * ones, -ones]),
            (np.concatenate([rows, rows]), np.concatenate([limits[:, 0], limits[:, 1]])),
        ),
        shape=(len(limits), count),
    ).tocsr()
