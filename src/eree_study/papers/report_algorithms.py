"""Algorithms 2 and 3 of the report, as printed: for its figure only, because they are not private.

Both add noise of the scale S = alpha x, x the largest workplace, without a floor at 1, and besides
Laplace noise of the scale 1 / epsilon for the single worker:

- Algorithm 2: n + (2 S / epsilon) L + (1 / epsilon) L';
- Algorithm 3: n + (16 S / epsilon) Z + (1 / epsilon) L', Z of the density proportional to
  1 / (1 + z^4).

One worker who joins an empty workplace changes the distribution of Algorithm 3 from Laplace to one
with the tails of a power: no epsilon bounds that.  In Algorithm 2 a workplace that grows from one
worker to two doubles the scale: the mass above e^epsilon is hundreds of times the delta claimed.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import exp, log1p, sqrt

import numpy as np
from scipy.integrate import quad

from eree.errors import Refusal
from eree.policy.neighbours import Exact, exact
from eree.random.exact import Array, Integers, halves
from eree.random.source import Random

#: The scale of either algorithm's noise, in units of S / epsilon.
_TIMES = {2: 2, 3: 16}


def draw_report(
    algorithm: int,
    counts: Integers,
    largests: Integers,
    *,
    alpha: Exact,
    epsilon: Exact,
    random: Random,
) -> Array:
    """Algorithm 2 or 3 of the report, in doubles.  Not private: for synthetic data only."""
    share, rate = exact(alpha, "alpha"), exact(epsilon, "epsilon")
    if share <= 0 or rate <= 0:
        raise Refusal("alpha and epsilon must be above 0")
    if algorithm == 3 and log1p(float(share)) > float(rate) / 4:
        raise Refusal("the report's Algorithm 3 needs epsilon of at least 4 ln(1 + alpha)")
    scales = largests * np.float64(_TIMES[algorithm] * share / rate)
    drawn = (_laplace if algorithm == 2 else draw_quartic)(len(counts), random)
    noisy: Array = counts + (scales * drawn + _laplace(len(counts), random) / float(rate))
    return noisy


def claimed_delta(alpha: Exact, epsilon: Exact) -> float:
    """The delta that the report claims for Algorithm 2."""
    step = log1p(float(exact(alpha, "alpha")))
    return exp(-float(exact(epsilon, "epsilon")) / (2 * step))


def true_delta(alpha: Exact, epsilon: Exact, before: int, after: int) -> float:
    """The delta of Algorithm 2 between a workplace alone in its cell before and after a growth.

    The mass of either distribution above e^epsilon times the other, summed over short intervals
    by their distribution functions: never above the true one, and below it by less than 10^-4 of
    it.
    """
    share, rate = exact(alpha, "alpha"), exact(epsilon, "epsilon")
    if not 0 <= before < after:
        raise Refusal("sizes must be integers of workers, the smaller one first")
    factor, far = exp(float(rate)), 60 * float(max(2 * share * after, Fraction(1)) / rate)
    away = np.concatenate([np.linspace(0, far / 20, 4_000), np.linspace(far / 20, far, 2_000)])
    edges = np.unique(
        np.concatenate([before - away, np.linspace(before, after, 4_000), after + away])
    )
    masses = [
        np.diff(_two_laplaces(edges - size, float(2 * share * size / rate), float(1 / rate)))
        for size in (before, after)
    ]
    above = [masses[i] - factor * masses[1 - i] for i in (0, 1)]
    return max(float(np.maximum(one, 0.0).sum()) for one in above)


def worst_delta(alpha: Exact, epsilon: Exact) -> float:
    """The greatest delta of Algorithm 2 found over sizes up to 8 / alpha and steps of growth.

    One worker joins, or as many as alpha allows; of both steps the greater.
    """
    share = exact(alpha, "alpha")
    sizes = {int(size) for size in np.geomspace(1, 8 / float(share), 60)} | {0}
    steps = {(size, size + growth) for size in sizes for growth in (1, max(int(share * size), 1))}
    return max(true_delta(alpha, epsilon, *step) for step in steps)


def loss_of_report_gamma(alpha: Exact, epsilon: Exact, output: float) -> float:
    """The loss of Algorithm 3 at an output when one worker joins an empty workplace.

    It grows without bound with the output.
    """
    share, rate = exact(alpha, "alpha"), float(exact(epsilon, "epsilon"))
    scale = float(16 * share) / rate

    def mixed(z: float) -> float:
        """The density of the Laplace part at what the quartic part leaves."""
        laplace = rate / 2 * np.exp(-rate * abs(output - 1 - scale * z))
        return float(np.sqrt(2) / np.pi / (1 + z**4) * laplace)

    centre = (output - 1) / scale
    points = sorted({-1.0, 0.0, 1.0, centre - 5 / (rate * scale), centre, centre + 5 / scale})
    edges = [-np.inf, *points, np.inf]
    new = sum(quad(mixed, a, b, limit=300)[0] for a, b in pairwise(edges))
    old = rate / 2 * np.exp(-rate * abs(output))
    return float(abs(np.log(new / old)))


def _two_laplaces(x: Array, a: float, b: float) -> Array:
    """The probability that a L + b L' is at most x; a may be 0."""
    low = -np.abs(x)
    if a == 0:
        lower = np.exp(low / b) / 2
    elif abs(a - b) < 1e-9 * b:
        lower = (2 - low / b) * np.exp(low / b) / 4
    else:
        lower = (a * a * np.exp(low / a) - b * b * np.exp(low / b)) / (2 * (a * a - b * b))
    found: Array = np.where(x > 0, 1 - lower, lower)
    return found


def _laplace(cells: int, random: Random) -> Array:
    uniform, sign = halves(random.words(cells))
    noise: Array = np.log(uniform) * -sign
    return noise


def draw_quartic(cells: int, random: Random) -> Array:
    """Draws of Z: of Cauchy draws a share (1 + z^2) / (1 + z^4), over its greatest, is kept."""
    drawn = np.empty(cells)
    pending = np.arange(cells)
    while pending.size:
        uniform, sign = halves(random.words(pending.size))
        z = sign / np.tan(uniform * (np.pi / 2))
        level, _ = halves(random.words(pending.size))
        drawn[pending] = z
        kept = level * (1 + np.sqrt(2)) / 2 * (1 + z**4) < 1 + z**2
        pending = pending[~kept]
    return drawn


def mean_report_errors(algorithm: int, largest: int, alpha: Exact, epsilon: Exact) -> float:
    """The mean absolute error of Algorithm 2 or 3 in a cell with such a largest workplace.

    With a L + b L' it is (a^2 + a b + b^2) / (a + b).  With a Z + b L' it is that of a Z, and b
    times the mean of e^(-a |Z| / b): given a Z = z, the mean of |z + b L'| is |z| + b e^(-|z| / b).
    """
    a, b = _scales(algorithm, largest, alpha, epsilon)
    if algorithm == 2:
        return (a * a + a * b + b * b) / (a + b)

    def density(z: float) -> float:
        return float(2 * np.sqrt(2) / np.pi / (1 + z**4))

    def rest(z: float) -> float:
        return density(z) * exp(-a * z / b)

    edges = [0.0, min(1.0, b / a if a else 1.0), 5.0, np.inf]
    decay = sum(quad(rest, low, high, limit=200)[0] for low, high in pairwise(edges))
    return float(a / np.sqrt(2) + b * decay)


def root_mean_square_report(algorithm: int, largest: int, alpha: Exact, epsilon: Exact) -> float:
    """The root of the mean squared error: the variance of L is 2, and that of Z is 1."""
    a, b = _scales(algorithm, largest, alpha, epsilon)
    return sqrt((2 if algorithm == 2 else 1) * a * a + 2 * b * b)


def _scales(algorithm: int, largest: int, alpha: Exact, epsilon: Exact) -> tuple[float, float]:
    """The scales of both noises in a cell with such a largest workplace."""
    share, rate = exact(alpha, "alpha"), exact(epsilon, "epsilon")
    return float(_TIMES[algorithm] * share * largest / rate), float(1 / rate)
