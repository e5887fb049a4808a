"""The worst loss of noise that scales with the largest workplace, over all neighbours.

This file knows no calibration.  It looks at mechanisms that add noise of a scale S = max(pace x,
1), x the largest workplace of the cell: P(k) = w(|k| / S) / N(S), with a weight w that falls from
w(0) = 1.  All neighbours of a cell are a shift by rho S and a scale r S, with 1 <= r <= 1 +
max(alpha, pace) and 0 <= rho <= m(r): the largest workplace may grow, another may grow, or another
may take over.  `one_step` has m and the reason; with pace = alpha, m = 1.  With t = k / S the two
losses at an output are

    F = ln w(|t|) - ln w(|t - rho| / r) + ln N(rS)/N(S)
    G = ln w(|t - rho| / r) - ln w(|t|) - ln N(rS)/N(S).

- The size drops out: for all S >= 1, low ln r <= ln N(rS)/N(S) <= high ln r, where low and high
  bound the elasticity of N (they are both 1 for a density that is rounded afterwards).
- One side drops out, because w falls.  From the old centre, t = 0, to the new one, t = rho, F falls
  and G rises; F right of the new centre is at most ln N(rS)/N(S), less than F at the old one; and G
  at a distance a left of the old centre is at most G at that distance right of the new one, as
  w((a + rho) / r) <= w(a / r) and w(a) >= w(a + rho).  So F counts left of the old centre, and G
  right of the new one.
- The shift drops out, because both grow with rho there: rho = m(r).
- What is left are two functions of a distance a and of r, each a difference of ln w at two points,
  ln w(a) - ln w((a + m) / r) and ln w(a / r) - ln w(a + m).  As w falls, m grows and m / r falls, a
  box of distances and ratios bounds them from above; boxes are split until the greatest bound is
  within TOLERANCE, a share of what was claimed, of a value that the functions attain.  Where that
  takes many boxes the tolerance grows, up to the claim: a bound is never too low, but it may be
  less close.
- Where w is a power of 1 + curve t at both points, or of 1 - curve t at both, the functions are
  monotone in the distance, so a box is bounded at its two ends.
- Beyond the last position the density itself bounds how far w can fall between the two points.
- That the density is the one that is drawn is checked besides: for many sizes and outputs the
  probabilities must be those of w at the scale S.

Everything is computed in doubles.  A logarithm of w is off by at most a few units in its last
place, which ROUNDING times its size exceeds by far, and so is a position, which WIDER exceeds: the
first point is moved in and the second one out by that share, which can only raise the bound.

How far one step moves the counts and the scale: what bounds of scaled noise know of neighbours.

Noise has the scale s(x) = max(pace x, 1), x the largest workplace, or the largest total.  Let a
workplace of y <= x workers grow by D <= max(alpha y, 1).  The largest becomes x' = max(x, y + D),
the scale r s, s = s(x), and the counts move by rho s <= D in all.  Then

    1 <= r <= 1 + max(alpha, pace)   and   rho <= max(1, alpha r / (pace (1 + alpha))).

The first: x' <= max((1 + alpha) x, x + 1), and pace x' <= pace x + max(alpha pace x, pace), which
is at most (1 + max(alpha, pace)) s.  The second: if D <= 1, rho <= 1 / s <= 1.  Else D <= alpha y,
hence D <= alpha (y + D) / (1 + alpha) <= alpha x' / (1 + alpha), and pace x' <= r s.

Where pace = alpha, that is rho <= 1 and r <= 1 + alpha.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isfinite
from typing import Protocol

import numpy as np

from eree.cells import Cell
from eree.mechanisms.certificate import NEVER, Certificate, Probabilities, log_probability, worst_of
from eree.random.exact import Array


@dataclass(frozen=True)
class OneStep:
    """What one step can do to distributions whose scale grows by `pace` with each worker."""

    alpha: float
    pace: float

    @property
    def most_ratio(self) -> float:
        """The greatest r."""
        return 1 + max(self.alpha, self.pace)

    @property
    def slope(self) -> float:
        """From `kink` on the greatest rho is slope r."""
        return self.alpha / (self.pace * (1 + self.alpha))

    @property
    def kink(self) -> float:
        """The r up to which the greatest rho is 1."""
        return 1 / self.slope

    def most_shift(self, r: Array) -> Array:
        """The greatest rho at a ratio; it does not fall with r, and divided by r does not rise."""
        shift: Array = np.maximum(self.slope * r, 1.0)
        return shift


def scale_at(pace: Fraction, size: int) -> Fraction:
    """s(x), exactly."""
    return max(pace * size, Fraction(1))


def growths(alpha: Fraction, size: int, ratio: float) -> Iterator[tuple[int, int]]:
    """Workplaces of y workers and how many join them, in a cell whose largest workplace has `size`.

    The largest itself grows, by all that it can or by one worker; another one takes over, so that
    the largest grows by about `ratio`; and others grow while the largest stays.
    """
    found = {(size, max(int(alpha * size), 1)), (size, 1)}
    for after in (size, round(ratio * size)):
        joined = max(int(alpha * after / (1 + alpha)), 1)
        if 0 <= after - joined <= size:
            found.add((after - joined, joined))
    if size > 0:
        found.add((size - 1, 1))
    yield from sorted(found)


Bound = Callable[[Array, Array, Array, Array], tuple[Array, Array]]

TOLERANCE = 2e-7
ROUNDING = 2.0**-46
WIDER = 2.0**-45
#: After so many boxes the tolerance is ten times as large; after so many a bound is what it is.
PATIENCE, MOST_BOXES = 500_000, 20_000_000


class ScaledDensity(Protocol):
    """What the bound asks of a distribution."""

    def log_weight(self, t: Array) -> Array:
        """The logarithm of w(t) for t >= 0; it falls from 0."""

    def most_drop(self, stretch: Array, near: float, shift: Array) -> Array:
        """A bound of ln w(x) - ln w(y) over all x >= near and y <= stretch x + shift."""

    @property
    def far(self) -> float:
        """The position from which on `most_drop` is all that has to be known."""

    @property
    def power_from(self) -> float:
        """The t from which on w is a power of 1 + curve t; infinity where it never is."""

    @property
    def power_until(self) -> float:
        """The t up to which w is a power of 1 - curve t; 0 where it never is."""

    def normaliser_elasticity(self) -> tuple[float, float]:
        """Bounds, for all S >= 1, of the derivative of ln N(S) by ln S."""


class ScaledProbabilities(ScaledDensity, Probabilities, Protocol):
    """A mechanism of such a distribution."""

    @property
    def alpha(self) -> Fraction:
        """The share by which a workplace may grow in one step."""

    @property
    def pace(self) -> Fraction:
        """What the scale grows by with each worker of the largest workplace."""

    @property
    def one_step(self) -> OneStep:
        """Both in doubles."""


@dataclass(frozen=True)
class Loss:
    """An enclosure of the worst loss, and where it is attained.

    `found` is a bound that no neighbours exceed.  `attained` is the loss at shift `shift` S and
    scale ratio `ratio`, at the output `position` S away from the old count, with the bound of the
    normaliser's growth in place of the growth: exact for a density and where `ratio` is 1, a little
    above the loss otherwise.
    """

    found: float
    attained: float
    position: float
    shift: float
    ratio: float


def certify_scaled(mechanism: ScaledProbabilities) -> Certificate:
    """The certificate of a mechanism whose noise scales with the largest workplace."""
    loss = worst_loss(mechanism, mechanism.one_step, float(mechanism.guarantee.epsilon))
    sound = isfinite(loss.found) and probabilities_agree(mechanism)
    pair = worst_of(mechanism, _cells_like(loss, mechanism))
    return Certificate.pure(mechanism, Fraction(loss.found) if sound else NEVER, pair)


#: Workplaces so large that a scale which stops growing, or is cut off, is found.
LARGE_SIZES = (10**5, 10**7, 10**9)


def probabilities_agree(mechanism: ScaledProbabilities) -> bool:
    """Whether the probabilities of outputs are those of the weight at the scale S = max(pace x, 1).

    A probability lies between those that w has at the ends of the integer's own interval, over
    that of the integer 0: for a density that was rounded, and the more so on the lattice.
    """
    pace = mechanism.pace
    near = [ceil(m / pace) + d for m in (1, 2, 3, 7, 20) for d in (-1, 0, 1)]
    for size in (0, 1, 2, *near, ceil(300 / pace), *LARGE_SIZES):
        scale = float(scale_at(pace, size))
        centre = log_probability(mechanism, size, size)
        for away in (1.0, 4.0, 16.0, 64.0):
            k = ceil(away * scale)
            ends = np.array([0.0, 0.5, k - 0.5, k + 0.5]) / scale
            top, low, high, bottom = mechanism.log_weight(
                ends * np.array([1, 1, 1 - 1e-9, 1 + 1e-9])
            )
            ratio = log_probability(mechanism, size, size + k) - centre
            slack = 1e-6 * (1 + abs(ratio))
            if not bottom - top - slack <= ratio <= high - low + slack:
                return False
    return True


def worst_loss(density: ScaledDensity, step: OneStep, claim: float = 0.0) -> Loss:
    """The worst loss of a scaled distribution over all neighbours of all cells.

    `claim` is where a bound may rest if a close one takes too long.
    """
    low, high = density.normaliser_elasticity()
    last, most = density.far, step.most_ratio

    def drop(first: Array, second: Array) -> Array:
        """ln w(first) - ln w(second), rounded up."""
        top, bottom = (
            density.log_weight(first * (1 - WIDER)),
            density.log_weight(second * (1 + WIDER)),
        )
        return top - bottom + ROUNDING * (1 - top - bottom)

    def old_over_new(a: Array, b: Array, r: Array, s: Array) -> tuple[Array, Array]:
        second = (b + step.most_shift(r)) / r
        return drop(a, second) + high * np.log(s), np.maximum(b, second)

    def new_over_old(a: Array, b: Array, r: Array, s: Array) -> tuple[Array, Array]:
        second = b + step.most_shift(s)
        return drop(a / s, second) - low * np.log(r), second

    losses = []
    for bound, sign in ((old_over_new, -1), (new_over_old, 1)):
        powers = density.power_until, density.power_from * most
        attained, found, a, r = _greatest(bound, last, most, claim, powers)
        shift = float(step.most_shift(np.array(r)))
        losses.append(Loss(found, attained, a + shift if sign > 0 else -a, shift, r))
    # where the loss is greatest at infinity it is so for the greatest ratio: finer there
    grid = np.unique([*np.linspace(0, 1, 4_001), *(1 - 2.0 ** -np.arange(4, 45, 1 / 8))])
    grid = 1 + (most - 1) * grid
    left, right = grid[:-1], np.minimum(grid[1:] * (1 + WIDER), most)
    nearer, wider = step.most_shift(left) / left, step.most_shift(right)
    tails = np.maximum(
        density.most_drop(1 / left * (1 + WIDER), last, nearer * (1 + WIDER))
        + high * np.log(right),
        density.most_drop(right, last / most, wider * (1 + WIDER)) - low * np.log(left),
    )
    worst = max(losses, key=lambda loss: loss.attained)
    found = max(*(loss.found for loss in losses), float(tails.max()) + ROUNDING)
    return Loss(found, worst.attained, worst.position, worst.shift, worst.ratio)


def _greatest(
    bound: Bound, last: float, most: float, claim: float, powers: tuple[float, float]
) -> tuple[float, float, float, float]:
    """A value attained, a bound, and the place: of a function over [0, last] x [1, most].

    `bound(a0, a1, r0, r1)` bounds the function over a box, and the positions that it looks at; over
    a point it is its value.  Where all positions are within the first of `powers`, and where the
    distance is beyond the second, the function is monotone in the distance.
    """
    until, power = powers
    near = np.linspace(0.0, min(last, 2.0), 33)
    far = np.geomspace(2.0, last, 129)[1:] if last > 2.0 else near[:0]
    x, r = np.concatenate([near, far, [power] if power < last else []]), np.linspace(1.0, most, 9)
    x = np.unique(x)
    x0, r0 = (g.ravel() for g in np.meshgrid(x[:-1], r[:-1], indexing="ij"))
    x1, r1 = (g.ravel() for g in np.meshgrid(x[1:], r[1:], indexing="ij"))
    attained, found, place, seen = -np.inf, -np.inf, (0.0, 1.0), 0
    while x0.size:
        top, furthest = bound(x0, x1, r0, r1)
        monotone = (x0 >= power) | (furthest <= until)
        if monotone.any():
            ends = np.maximum(bound(x0, x0, r0, r1)[0], bound(x1, x1, r0, r1)[0])
            top = np.where(monotone, ends, top)
        for at_x in (x0, x1):
            for at_r in (r0, r1):
                value, _ = bound(at_x, at_x, at_r, at_r)
                i = int(np.argmax(value))
                if value[i] > attained:
                    attained, place = float(value[i]), (float(at_x[i]), float(at_r[i]))
        # a tolerance that grew must not raise the bound above the claim
        close = attained + (claim or 1.0) * TOLERANCE
        loose = attained + (claim or 1.0) * TOLERANCE * 10.0 ** (seen // PATIENCE)
        enough = max(close, min(loose, claim * (1 - 1e-12)))
        open_ = top > enough
        if not open_.all():
            found = max(found, float(top[~open_].max()))
        x0, x1, r0, r1, monotone = (side[open_] for side in (x0, x1, r0, r1, monotone))
        seen += x0.size
        if seen > MOST_BOXES:
            return attained, max(found, float(top.max())), *place
        wide = ((x1 - x0) / (1 + x0) >= r1 - r0) & ~monotone
        x, r = (x0 + x1) / 2, (r0 + r1) / 2
        x0, x1, r0, r1 = (
            np.concatenate([x0, np.where(wide, x, x0)]),
            np.concatenate([np.where(wide, x, x1), x1]),
            np.concatenate([r0, np.where(wide, r0, r)]),
            np.concatenate([np.where(wide, r1, r), r1]),
        )
    return attained, max(found, attained), *place


def _cells_like(
    loss: Loss, mechanism: ScaledProbabilities
) -> Iterator[tuple[Cell, Cell, Iterable[int]]]:
    """Cells of one workplace or two, one of which grows, and outputs, near where loss is worst."""
    alpha = mechanism.alpha
    for large in (0, 1, 2, 5, 20, 100, 1_000):
        size = ceil(large / alpha)
        scale = float(scale_at(mechanism.pace, size))
        for grows, joined in growths(alpha, size, loss.ratio):
            count = size if grows == size else size + grows
            middle = count + round(scale * loss.position)
            outputs = [middle - 1, middle, middle + 1, count, count + joined, -(10**9), 10**9]
            after = Cell(count + joined, max(size, grows + joined))
            yield Cell(count, size), after, outputs
