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
    levels: Sequence[int],
    variance: float,
    gained: Sequence[Gain],
    sizes: Sequence[int | Whole],
    rounding: float = 0.0,
) -> Array:
    """The noise variance of sums over groups of codes: one axis for each axis of the cube.

    `sizes` has for each axis the number of codes in each group, or one number if all groups have as
    many: its axis then has length 1.  The indicator of k of n codes has a mean part of squared
    length k² / n and a centred part of k - k² / n, which is n / k - 1 times the other.  Each cell
    of the cube adds `rounding`.
    """
    count, means = 1.0, 1.0
    ratios: dict[int, float] = {}
    various: dict[int, tuple[Array, Array]] = {}
    cells = np.ones((1,) * len(sizes))
    for i, (k, n) in enumerate(zip(sizes, levels, strict=True)):
        if isinstance(k, int):
            count, means, ratios[i] = count * k, means * k * k / n, n / k - 1
        else:
            along = k.astype(np.float64).reshape([-1 if j == i else 1 for j in range(len(sizes))])
            mean = along * along / n
            cells, various[i] = cells * along, (mean, along - mean)
    taken: dict[Axes, float] = {}  # by the axes with groups of various sizes
    for gain in gained:
        part, own = (variance - gain.left) * means, []
        for i in gain.axes:
            if i in ratios:
                part *= ratios[i]
            else:
                own.append(i)
        taken[tuple(own)] = taken.get(tuple(own), 0.0) + part
    found = variance * count * cells
    for axes, part in taken.items():
        found = found - part * prod(c if i in axes else m for i, (m, c) in various.items())
    return np.maximum(found, 0.0) + rounding * count * cells
