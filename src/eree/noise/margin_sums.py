"""Sums of the noise of margins given its norm: what a half of the workers, or all, are off by.

`eree.noise.margins` has the noise (e, f) of the norm t.  With the chance v / D the point e / t lies
on the sides of the ball B of v numbers and f / t is uniform from -1 to 1; else e / t is uniform in
B and f / t is 1 or -1.  V is the sum of the numbers of a uniform point on the sides.  With i of
them above 0, which i are with the chance binomial(v, i) / 2^v, their share of the norm is a beta
number of (i, v - i), and V is twice that less 1; it is 1 if all are above 0, -1 if none is.  The
sum of a point of B is r V, r with the density v r^(v - 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np
from numpy.typing import NDArray

from eree.noise.vector_radial import signed_within

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MarginSums:
    """The laws of |sum of the e_c| and of |sum of the e_c + f| / 2, over the norm.

    `values` is v.
    """

    values: int

    def total_within(self, share: Array) -> Array:
        """The chance that the size of the sum of the e_c is at most `share` of the norm."""
        v, inside = self.values, 1 - 2 * self.ball_below(-np.minimum(share, 1.0))
        return np.asarray((v * signed_within(v, share) + inside) / (v + 1))

    def half_within(self, share: Array) -> Array:
        """The chance that the size of half the sum and f is at most `share` of the norm.

        With V and a uniform f it is a mean over f of the chance that V lies between
        -2 share - f and 2 share - f, an integral of V's own; else f may be taken for 1.
        """
        v, c = self.values, 2 * np.minimum(share, 1.0)
        area = self._area
        sides = (area(c + 1) - area(c - 1) - area(1 - c) + area(-1 - c)) / 2
        return np.asarray((v * sides + self.ball_below(c - 1)) / (v + 1))

    def ball_below(self, y: Array) -> Array:
        """The chance that r V is at most y, from -1 to 1.

        For y < 0 it is the integral of v r^(v - 1) P(V <= y / r) over r from -y to 1, and the
        chance of V is a polynomial of y / r: so it is one of r, of a degree below v, which the
        nodes integrate exactly.  r V is as likely as -r V.
        """
        y = np.asarray(y, dtype=np.float64)
        low = np.minimum(np.abs(y), 1.0)[..., None]
        nodes, weights = self._nodes
        r = low + (1 - low) * nodes
        below = self._sides_below(-low / np.maximum(r, 1e-300))
        found = ((1 - low) * weights * self.values * r ** (self.values - 1) * below).sum(-1)
        return np.asarray(np.where(y < 0, found, 1 - found))

    @cached_property
    def _nodes(self) -> tuple[Array, Array]:
        nodes, weights = np.polynomial.legendre.leggauss(self.values // 2 + 2)
        return (nodes + 1) / 2, weights / 2

    def _sides_below(self, y: Array) -> Array:
        """P(V <= y) for y from -1 on and below 1."""
        from scipy.special import betainc

        v, b = self.values, np.clip((1 + y) / 2, 0.0, 1.0)
        found = np.full(y.shape, 1 / 2**v)  # none is above 0
        for i in range(1, v):
            found += comb(v, i) / 2**v * betainc(i, v - i, b)
        return found

    def _area(self, y: Array) -> Array:
        """The integral of P(V <= u) over u from -1 to y."""
        from scipy.special import betainc

        v, low = self.values, np.clip(y, -1.0, 1.0)
        b = (1 + low) / 2
        found = (1 + low) / 2**v
        for i in range(1, v):
            upto = b * betainc(i, v - i, b) - i / v * betainc(i + 1, v - i, b)
            found += comb(v, i) / 2**v * 2 * upto
        return np.asarray(found + np.maximum(y - 1, 0.0))
