"""The effects of a full cube: what least squares takes from control tables, in closed form.

The cells of a full cube are the orthogonal sum of effects, one space E_S for each set S of
variables: vectors that depend on the variables of S only and sum to zero over each of them.  With
n cells, of which each cell of a control table M sums n / n_M, the map A_M' A_M is n / n_M on E_S
where M holds S, and 0 elsewhere.  So with noise of variance s² in cells and t_M² in controls the
normal equations are diagonal: the precision of E_S is

    1 / s² + sum over M that hold S of (n / n_M) / t_M²,

and only sets within some control table, the closure, are changed at all.  Controls without noise
are the limit t = 0; where they contradict each other, their effects are averaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from eree.survey.calibrate.margins import Array, Whole

Axes = tuple[int, ...]


def closure(tables: Iterable[Axes]) -> list[Axes]:
    """All sets of axes within some table, small ones first."""
    found = {
        subset
        for table in tables
        for subset in chain.from_iterable(
            combinations(sorted(table), k) for k in range(len(table) + 1)
        )
    }
    return sorted(found, key=lambda axes: (len(axes), axes))


def effect(values: Array, axes: Axes, wanted: Axes) -> Array:
    """The effect of some axes in a table over `axes`: means over the others, then centred."""
    found = values.mean(axis=tuple(k for k, axis in enumerate(axes) if axis not in wanted))
    for k in range(len(wanted)):
        found = found - found.mean(axis=k, keepdims=True)
    return np.asarray(found)


@dataclass(frozen=True)
class Gain:
    """What least squares makes of one effect: its variance left, and the weight of each control.

    `left` is the inverse of its precision.  The effect moves by the sum over controls of `weights`
    times the effect of the control's difference to the sums of the noisy cells.
    """

    axes: Axes
    left: float
    weights: tuple[float, ...]


def gains(
    levels: Sequence[int], variance: float, controls: Sequence[tuple[Axes, float]]
) -> list[Gain]:
    """The gain of every effect in the closure of some controls, each with axes and variance."""
    cells = prod(levels)
    found = []
    for axes in closure(table for table, _ in controls):
        shares = [  # n / n_M where the table holds the effect
            cells / prod(levels[axis] for axis in table) if set(axes) <= set(table) else 0.0
            for table, _ in controls
        ]
        exact = [t == 0 and share > 0 for share, (_, t) in zip(shares, controls, strict=True)]
        if any(exact):
            weights = [
                1 / share / sum(exact) if sure else 0.0
                for share, sure in zip(shares, exact, strict=True)
            ]
            found.append(Gain(axes, 0.0, tuple(weights)))
            continue
        ratio = 1 + sum(
            share * variance / t for share, (_, t) in zip(shares, controls, strict=True) if share
        )
        weights = [
            variance / t / ratio if share else 0.0
            for share, (_, t) in zip(shares, controls, strict=True)
        ]
        found.append(Gain(axes, variance / ratio, tuple(weights)))
    return found


def variances(
    levels: Sequence[int], variance: float, gained: Sequence[Gain], sizes: Sequence[Whole]
) -> Array:
    """The noise variance of sums over groups of codes: one axis for each axis of the cube.

    `sizes` has for each axis the number of codes in each group, or one number for all groups.  The
    indicator of k of n codes has a mean part of squared length k² / n and a centred part of
    k - k² / n, which is n / k - 1 times the other.
    """
    means = prod(float(k[0]) ** 2 / n for k, n in zip(sizes, levels, strict=True) if len(k) == 1)
    ratios = {i: n / float(k[0]) - 1 for i, (k, n) in _numbered(sizes, levels) if len(k) == 1}
    various = {
        i: (_along(k * k / n, i, sizes), _along(k - k * k / n, i, sizes))
        for i, (k, n) in _numbered(sizes, levels)
        if len(k) > 1
    }
    found = variance * product_of(sizes)
    taken: dict[Axes, float] = {}  # by the axes with groups of various sizes
    for gain in gained:
        part = prod((ratios[i] for i in gain.axes if i in ratios), start=means)
        own = tuple(i for i in gain.axes if i in various)
        taken[own] = taken.get(own, 0.0) + (variance - gain.left) * part
    for own, part in taken.items():
        along = [centred if i in own else mean for i, (mean, centred) in various.items()]
        found = found - prod(along, start=np.float64(part))
    return np.maximum(found, 0.0)


def product_of(sizes: Sequence[Whole]) -> Array:
    """How many cells of the cube each combination of groups has."""
    alike = prod(float(k[0]) for k in sizes if len(k) == 1)
    found = np.full((1,) * len(sizes), alike)
    for axis, k in enumerate(sizes):
        if len(k) > 1:
            found = found * _along(k.astype(np.float64), axis, sizes)
    return found


def _numbered(
    sizes: Sequence[Whole], levels: Sequence[int]
) -> Iterable[tuple[int, tuple[Whole, int]]]:
    return enumerate(zip(sizes, levels, strict=True))


def _along(values: NDArray[np.float64], axis: int, sizes: Sequence[Whole]) -> Array:
    return values.reshape([-1 if i == axis else 1 for i in range(len(sizes))])
