"""The worst loss of vectors of noise that scales with the largest workplace, over all neighbours.

This file knows no calibration.  It looks at distributions that add to the d counts of a group a
noise of the probabilities, or the density, w(|k| / S) / N(S): |k| the L1 norm, S = max(pace x, 1),
x the largest total of a workplace of the group.  Let one workplace of y <= x workers grow by D <=
max(floor(alpha y), 1).  Then S becomes r S with 1 <= r <= 1 + max(alpha, pace), and the counts move
by a vector of norm at most D <= m(r) S (less than D, if the group does not show all workers);
`one_step` has m and the reason; with pace = alpha, m = 1.  So if an output is u S away from the old
counts and v r S from the new ones,

    |u - r v| <= m, hence v <= (u + m) / r and u <= r v + m,

and as w falls, with low ln r <= ln N(rS)/N(S) <= high ln r, the losses are at most

    F(u, r) = ln w(u) - ln w((u + m) / r) + high ln r      old over new,
    G(v, r) = ln w(v) - ln w(r v + m) - low ln r           new over old.

- The size, the direction and the number of cells have dropped out.
- Boxes of positions and ratios are bounded by the value in their middle and the greatest slopes in
  them; where a loss only rises or only falls with one of the two, the box shrinks to that side.
  No box extends over the ratio from which on m grows.
  Where w is a power of a straight line at both points, the loss is monotone in the position, and
  only its two ends count.  Boxes are split until the greatest bound is within TOLERANCE of a value
  that is attained.
- Far out w falls like t^-power, so that F goes to (high - power) ln r and G to (power - low) ln r,
  and on the way there, from a last position on, both are monotone.

Everything is computed in doubles.  A logarithm of w is off by a few units in the last place of its
size and of its slope times its position, which ROUNDING times them exceeds by far, as WIDER times a
slope exceeds what that is off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from eree.mechanisms.scaled.certificate import OneStep
from eree.random.exact import Array

Flags = NDArray[np.bool_]

TOLERANCE = 1e-7
ROUNDING = 2.0**-46
WIDER = 2.0**-40
MOST_BOXES = 20_000_000


class RadialWeight(Protocol):
    """What the bound asks of a distribution."""

    def log_weight(self, t: Array) -> Array:
        """The logarithm of w(t) for t >= 0; it falls from 0."""

    def log_slope(self, t: Array) -> Array:
        """The slope of -ln w at t."""

    @property
    def steepest(self) -> float:
        """Where that slope is greatest; before and after, w is a power of a straight line in t."""

    @property
    def far_power(self) -> float:
        """The power of that line after `steepest`: w falls like t^-power."""

    def normaliser_elasticity(self) -> tuple[float, float]:
        """Bounds, for all S >= 1, of the derivative of ln N(S) by ln S."""


@dataclass(frozen=True)
class VectorLoss:
    """A bound of the worst loss, and the place where it is nearly attained.

    `found` is a bound that no neighbours exceed.  `attained` is the loss where the scale grows by
    `ratio` and the counts move as far as they then can, at an output `distance` S from the old
    counts, away from the new ones; if `new_over_old`, from the new counts, in units of their own
    scale, away from the old ones.
    """

    found: float
    attained: float
    distance: float
    ratio: float
    new_over_old: bool


def worst_vector_loss(density: RadialWeight, step: OneStep) -> VectorLoss:
    """The worst loss over all neighbours of all groups."""
    (low, high), power = density.normaliser_elasticity(), density.far_power
    if high == inf:
        return VectorLoss(inf, inf, 0.0, 1.0, False)
    most = 1 + (step.most_ratio - 1) * (1 + 2.0**-40)
    # from here on both points lie after the steepest one
    furthest = 2 * most * density.steepest + 10
    losses = [
        _Loss(density, step, high, False).greatest(furthest, most),
        _Loss(density, step, low, True).greatest(furthest, most),
    ]
    for limit, new_over_old in ((high - power, False), (power - low, True)):
        top = max(limit, 0.0) * log(most) * (1 + ROUNDING)
        losses.append(VectorLoss(top, top, inf, most, new_over_old))
    worst = max(losses, key=lambda loss: loss.attained)
    return replace(worst, found=max(loss.found for loss in losses))


@dataclass(frozen=True)
class _Loss:
    """F or G as a function of the first position u and the ratio r."""

    density: RadialWeight
    step: OneStep
    elasticity: float
    new_over_old: bool

    def second(self, u: Array, r: Array) -> Array:
        """The second position."""
        shift = self.step.most_shift(r)
        return r * u + shift if self.new_over_old else (u + shift) / r

    def value(self, u: Array, r: Array) -> Array:
        """The loss, rounded up."""
        v = self.second(u, r)
        first, second = self.density.log_weight(u), self.density.log_weight(v)
        steep = self.density.log_slope(u) * u + self.density.log_slope(v) * v
        growth = (-1 if self.new_over_old else 1) * self.elasticity * np.log(r)
        return first - second + growth + ROUNDING * (1 - first - second + steep)

    def slopes(self, u0: Array, u1: Array, r0: Array, r1: Array) -> tuple[Array, ...]:
        """The least and the greatest slope over boxes, by the position and then by the ratio."""
        if self.new_over_old:  # v = r u + m
            v0, v1, rate0, rate1 = self.second(u0, r0), self.second(u1, r1), r0, r1
        else:  # v = (u + m) / r, which falls with r
            v0, v1, rate0, rate1 = self.second(u0, r1), self.second(u1, r0), 1 / r1, 1 / r0
        first0, first1 = self._slope_range(u0, u1)
        second0, second1 = self._slope_range(v0, v1)
        by_u = second0 * rate0 - first1, second1 * rate1 - first0
        # how fast m grows with r; by r, (u + m) / r falls as (v - that) / r
        shift = np.where(r0 >= self.step.kink, self.step.slope, 0.0)
        if self.new_over_old:
            by_r = (
                second0 * (u0 + shift) - self.elasticity / r0,
                second1 * (u1 + shift) - self.elasticity / r1,
            )
        else:
            down = self.elasticity - second1 * (v1 - shift)
            up = self.elasticity - second0 * np.maximum(v0 - shift, 0.0)
            by_r = np.minimum(down / r0, down / r1), np.maximum(up / r0, up / r1)
        return *by_u, *by_r

    def _slope_range(self, t0: Array, t1: Array) -> tuple[Array, Array]:
        """The least and the greatest slope of -ln w from t0 to t1."""
        ends = self.density.log_slope(t0), self.density.log_slope(t1)
        top = self.density.log_slope(np.clip(self.density.steepest, t0, t1))
        return np.minimum(*ends) * (1 - WIDER), top * (1 + WIDER)

    def bound(self, u0: Array, u1: Array, r0: Array, r1: Array) -> tuple[Array, Flags]:
        """A bound over boxes, and whether it is their positions that should be split."""
        turn, r = self.density.steepest, (r0, r1) if self.new_over_old else (r1, r0)
        before = np.maximum(u1, self.second(u1, r[1])) <= turn
        after = np.minimum(u0, self.second(u0, r[0])) >= turn
        top, by_u, by_r = self._bound(u0, u1, r0, r1)
        ends = np.maximum(self._bound(u0, u0, r0, r1)[0], self._bound(u1, u1, r0, r1)[0])
        monotone = before | after
        return np.where(monotone, np.minimum(ends, top), top), (by_u >= by_r) & ~monotone

    def _bound(self, u0: Array, u1: Array, r0: Array, r1: Array) -> tuple[Array, Array, Array]:
        """A bound from slopes, and what position and ratio add in it to the value in the middle."""
        for _ in range(2):  # a side that shrinks may let the other one shrink too
            down_u, up_u, down_r, up_r = self.slopes(u0, u1, r0, r1)
            u0, u1 = np.where(down_u >= 0, u1, u0), np.where((up_u <= 0) & (down_u < 0), u0, u1)
            r0, r1 = np.where(down_r >= 0, r1, r0), np.where((up_r <= 0) & (down_r < 0), r0, r1)
        down_u, up_u, down_r, up_r = self.slopes(u0, u1, r0, r1)
        by_u = np.maximum(-down_u, up_u) * (u1 - u0) / 2
        by_r = np.maximum(-down_r, up_r) * (r1 - r0) / 2
        middle = self.value((u0 + u1) / 2, (r0 + r1) / 2)
        return middle + (by_u + by_r) * (1 + ROUNDING), by_u, by_r

    def greatest(self, furthest: float, most: float) -> VectorLoss:
        """A bound over all positions up to `furthest` and ratios up to `most`, and a place."""
        u = np.concatenate([np.linspace(0.0, 2.0, 33), np.geomspace(2.0, furthest, 65)[1:]])
        r = np.unique([*np.linspace(1.0, most, 9), np.clip(self.step.kink, 1.0, most)])
        u0, r0 = (side.ravel() for side in np.meshgrid(u[:-1], r[:-1], indexing="ij"))
        u1, r1 = (side.ravel() for side in np.meshgrid(u[1:], r[1:], indexing="ij"))
        attained, found, place, seen = -inf, -inf, (0.0, 1.0), 0
        while u0.size:
            for at_u, at_r in ((u0, r0), (u0, r1), (u1, r0), (u1, r1)):
                value = self.value(at_u, at_r)
                i = int(np.argmax(value))
                if value[i] > attained:
                    attained, place = float(value[i]), (float(at_u[i]), float(at_r[i]))
            top, by_position = self.bound(u0, u1, r0, r1)
            split = top > attained + TOLERANCE * abs(attained)
            seen += int(split.sum())
            split &= seen <= MOST_BOXES
            found = max(found, float(top[~split].max(initial=-inf)))
            u0, u1, r0, r1 = (side[split] for side in (u0, u1, r0, r1))
            by_position = by_position[split]
            u, r = (u0 + u1) / 2, (r0 + r1) / 2
            u0, u1, r0, r1 = (
                np.concatenate([u0, np.where(by_position, u, u0)]),
                np.concatenate([np.where(by_position, u, u1), u1]),
                np.concatenate([r0, np.where(by_position, r0, r)]),
                np.concatenate([np.where(by_position, r1, r), r1]),
            )
        return VectorLoss(max(found, attained), attained, *place, self.new_over_old)
