"""Vector radial: a density of the L1 norm whose loss is the same at every instant of a growth."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, log1p, sqrt
from typing import Self

import numpy as np

from eree.cells import Cell
from eree.mechanisms.parameters import TooLittle, above, alpha_of, rounded_up
from eree.mechanisms.scaled.certificate import scale_at
from eree.mechanisms.scaled.scaled import least, rounded_half_width
from eree.mechanisms.vector.radial_density import RoundedVectorRadial, VectorRadialShape
from eree.mechanisms.vector.scaled import MOST_CELLS, ScaledVector
from eree.mechanisms.vector.vector import group_size
from eree.policy.guarantee import Guarantee
from eree.random.exact import Array, Integers, exactly

#: From this mean on rounding no longer changes an error: by less than a 10^7th of it.
_LARGE = 1e3


@dataclass(frozen=True)
class RadialVector(ScaledVector):
    """Counts and s Z, rounded; Z of a density g of a norm t in which a worker makes a step of 1.

    -g'/g = (rate - d b) / (1 - b t) up to t = d / rate, (rate + d b) / (1 + b t) beyond; d the
    dimension of the space of counts, b >= ln(1 + alpha), rate a hair below epsilon,
    s = max(b * largest, 1), `largest` the largest total of a workplace of the group.
    """

    rate: Fraction
    curve: Fraction

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """d."""

    @classmethod
    def rate_and_curve(
        cls, guarantee: Guarantee, d: int, protected: str, fewer: str
    ) -> tuple[Fraction, Fraction]:
        """The rate is epsilon but for a millionth, which the certificate's bounds need."""
        step = log1p(float(alpha_of(guarantee, cls.name)))
        rate = guarantee.epsilon * (1 - Fraction(1, 1 << 20))
        if float(rate) <= (least := d * step * (1 + 1e-3)):
            raise TooLittle(
                cls.name,
                epsilon=above(least),
                why=f"(above {d} ln(1 + alpha)) to protect {protected}",
                advice=f"raise it, lower alpha, publish fewer {fewer}, or use two-stage-clip (any"
                " number of cells)",
            )
        return rate, rounded_up(step)

    @property
    def pace(self) -> Fraction:
        """b: the scale grows as fast as the proof leads it."""
        return self.curve

    @property
    def parameters(self) -> dict[str, str]:
        """With the pace: another one makes another distribution of the same shape."""
        return super().parameters | {"pace": str(self.pace)}

    @cached_property
    def shape(self) -> VectorRadialShape:
        """The density."""
        return VectorRadialShape(self.rate, self.curve, self.dimensions)

    def log_weight(self, t: Array) -> Array:
        """The logarithm of the density up to a constant."""
        d, shape, y = self.dimensions, self.shape, float(self.curve) * t
        m, edge = float(shape.turns), float(shape.edge)
        inner, outer = np.minimum(y, edge), np.maximum(y, edge)
        return (m - d) * np.log1p(-inner) - (m + d) * (np.log1p(outer) - log1p(edge))

    def log_slope(self, t: Array) -> Array:
        """(rate - d curve) / (1 - curve t), then (rate + d curve) / (1 + curve t)."""
        rate, curve, edge = float(self.rate), float(self.curve), float(self.shape.edge)
        inner = (rate - self.dimensions * curve) / (1 - np.minimum(curve * t, edge))
        outer = (rate + self.dimensions * curve) / (1 + np.maximum(curve * t, edge))
        slope: Array = np.where(curve * t < edge, inner, outer)
        return slope

    @property
    def steepest(self) -> float:
        """Where the two parts meet; both are `rate` there."""
        return self.dimensions / float(self.rate)

    @property
    def far_power(self) -> float:
        """That of the outer part."""
        return float(self.shape.turns) + self.dimensions

    def normaliser_elasticity(self) -> tuple[float, float]:
        """Both d: a density in d dimensions."""
        return float(self.dimensions), float(self.dimensions)


@dataclass(frozen=True)
class VectorRadial(RadialVector):
    """counts + s Z, each number rounded; the norm is the L1 norm, and d the number of cells.

    Theorem.  For epsilon > d b all outputs of a group together are (alpha, epsilon)-private with
    delta = 0 under strong neighbours, and so under weak ones; noise has a finite mean.

    Proof.  Let the workers who join do so one after another, without leaps, and let time pass as
    they join over s(x), x the largest total so far: as for `Radial` the counts then move, in the
    L1 norm, by at most one scale in unit time, the logarithm of the scale grows at a rate
    beta <= b, and it all takes at most unit time.  At a distance of t scales the loss grows at the
    rate (1 + beta t) |g'/g| - d beta at most if the counts move towards the output, and
    (1 - beta t) |g'/g| + d beta if they move away.  Up to t = d / rate, |g'/g| t <= d: the first is
    at most |g'/g| <= rate, the second at most (1 - b t) |g'/g| + d b = rate.  Beyond,
    |g'/g| t >= d, and the other way round.  Rounding costs nothing.
    """

    name = "vector-radial"

    @classmethod
    def calibrate(cls, guarantee: Guarantee, *, cells: int = 1) -> Self:
        """For groups of so many cells."""
        d = group_size(cls.name, cells, MOST_CELLS)
        return cls(guarantee, d, *cls.rate_and_curve(guarantee, d, f"{d} cells", "cells"))

    @property
    def dimensions(self) -> int:
        """One for each cell."""
        return self.cells

    def distribution(self, largests: Integers) -> RoundedVectorRadial:
        """The distributions of the noise of some groups."""
        return RoundedVectorRadial(self.scales(largests, Fraction(1)), self.shape)

    def half_width(self, level: float, sizes: Integers) -> Integers:
        """From the tail of one number before it is rounded."""
        away = least(lambda z: 2 * self.shape.near_tail(z) <= 1 - level)
        return rounded_half_width(self.near_scales(sizes) * away, 0.5)

    def group_half_width(self, level: float, sizes: Integers, _cells: int = 0) -> Integers:
        """Given the norm, the sum is a share of it; rounding moves it by d / 2 at most."""
        shape = self.shape
        away = least(lambda z: shape.near_sum_tail(z) <= (1 - level) * (1 - 1e-9))
        return rounded_half_width(self.near_scales(sizes) * away, -self.cells / 2)

    def mean_error(self, cell: Cell) -> tuple[float, float]:
        """Sums of the tail over integers, and its integral where they no longer differ."""
        scale = float(scale_at(self.pace, cell.largest))
        mean, square = self.real_error
        if scale * mean > _LARGE:
            return scale * mean, scale * square
        last = int(3_000 + 30 * scale * self.cells / float(self.rate))
        y: Array = np.arange(last, dtype=np.float64) + 0.5
        tail = self.shape.near_tail(y / scale)
        # beyond the last one the tail is a power of u = 1 + curve x
        m, curve = float(self.shape.turns), float(self.curve)
        x = last / scale
        u = 1 + curve * x
        end = float(self.shape.near_tail(np.array([x]))[0])
        mean = 2 * (float(tail.sum()) + scale * end * u / (curve * (m - 1)))
        if m <= 2:
            return mean, inf
        rest = 2 * end * u * (u / (m - 2) - 1 / (m - 1)) / curve**2
        return mean, sqrt(2 * (float((2 * y * tail).sum()) + scale**2 * rest))

    @cached_property
    def real_error(self) -> tuple[float, float]:
        """The mean and root mean square of one number before rounding, in units of s.

        Given the norm t, a size is t times a number of the distribution Beta(1, d - 1).
        """
        d = self.cells
        with exactly():
            mean = float(self.shape.norm_moment(1)) / d
            if self.shape.turns <= 2:
                return mean, inf
            return mean, sqrt(2 * float(self.shape.norm_moment(2)) / (d * (d + 1)))
