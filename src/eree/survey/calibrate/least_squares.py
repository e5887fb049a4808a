"""Minimum variance calibration: generalised least squares of noisy cells and noisy controls.

The estimate minimises |x - y|² / s² + sum over controls M of |A_M x - c_M|² / t_M².  It always
exists, is unbiased, and no linear unbiased estimate of any table has a smaller variance.

In a full cube it has a closed form.  The cells are the orthogonal sum of effects, one space E_S for
each set S of variables: vectors that depend on the variables of S only and sum to zero over each of
them.  With n cells, of which each cell of a control table M sums n / n_M, the map A_M' A_M is
n / n_M on E_S where M holds S, and 0 elsewhere.  So with noise of variance s² in cells and t_M² in
controls the normal equations are diagonal: the precision of E_S is

    1 / s² + sum over M that hold S of (n / n_M) / t_M²,

and only sets within some control table, the closure, are changed at all.  Controls without noise
are the limit t = 0; where they contradict each other, their effects are averaged.

With structural zeros it is solved for by conjugate gradients over the control cells.  With A the
control sums over the cells that can be and T the control variances, the estimate is y + s² A' m
with (s² A A' + T) m = c - A y: as many unknowns as control cells.  An entry of A A' is the number
of cells that two control cells have in common, which is a count of possible cells in a small table,
so that the cube itself is passed over a few times only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, combinations_with_replacement
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.survey.calibrate.controls import Control, CubeMarginal
from eree.survey.shape import Integers, Mask, Reals, Shape

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Axes = tuple[int, ...]
#: Controls without noise get this share of what the noise of their cells would be.
_SURE = 1e-9
_TOLERANCE = 1e-11
_ROUNDS = 5_000


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


def effect(values: Reals, axes: Axes, wanted: Axes) -> Reals:
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
    sizes: Sequence[int | Integers],
    rounding: float = 0.0,
) -> Reals:
    """The noise variance of sums over groups of codes: one axis for each axis of the cube.

    `sizes` has for each axis the number of codes in each group, or one number if all groups have as
    many: its axis then has length 1.  The indicator of k of n codes has a mean part of squared
    length k² / n and a centred part of k - k² / n, which is n / k - 1 times the other.  Each cell
    of the cube adds `rounding`.
    """
    count, means = 1.0, 1.0
    ratios: dict[int, float] = {}
    various: dict[int, tuple[Reals, Reals]] = {}
    cells: Any = 1.0  # an array once an axis has groups of various sizes
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
    shape = np.shape(cells) or (1,) * len(sizes)
    return np.asarray(np.maximum(found, 0.0) + rounding * count * cells).reshape(shape)


class ControlSystem:
    """The control equations of a cube in which only some cells are possible."""

    def __init__(
        self,
        possible: Mask,
        marginals: Sequence[CubeMarginal],
        variance: float,
        noises: Sequence[float],
    ) -> None:
        from scipy.sparse import coo_array, csr_array
        from scipy.sparse.linalg import LinearOperator

        self._possible, self._marginals, self._variance = possible, tuple(marginals), variance
        sizes = [prod(marginal.shape) for marginal in marginals]
        self._starts = np.cumsum([0, *sizes])
        shared = _shared(possible, self._marginals, self._starts)
        counts = shared.diagonal()
        self._empty = counts == 0  # a control of impossible cells says nothing
        noise = np.repeat(np.array(noises, dtype=np.float64), sizes)
        noise = np.where(noise > 0, noise, _SURE * variance * counts)
        noise[self._empty] = 1.0
        diagonal = np.arange(len(noise))
        self._matrix = csr_array(variance * shared + coo_array((noise, (diagonal, diagonal))))
        scale = 1 / self._matrix.diagonal()
        self._ready = LinearOperator(self._matrix.shape, matvec=lambda r: scale * r, dtype=float)

    def correction(self, apart: Sequence[Reals]) -> tuple[Reals, dict[str, object]]:
        """What is added to every cell, from the differences of controls to the noisy sums."""
        found, rounds = self._solve(np.concatenate([part.ravel() for part in apart]))
        added = np.zeros(self._possible.shape)
        for k, marginal in enumerate(self._marginals):
            part = found[self._starts[k] : self._starts[k + 1]].reshape(marginal.shape)
            view = marginal.wide(added)
            view += marginal.spread(self._variance * part)
        added *= self._possible
        return added, {"solver": "conjugate gradients", "rounds": rounds}

    def _solve(self, right: Reals) -> tuple[Reals, int]:
        from scipy.sparse.linalg import cg

        right = np.where(self._empty, 0.0, right)
        rounds = 0

        def count(_now: Reals) -> None:
            nonlocal rounds
            rounds += 1

        found, failed = cg(
            self._matrix,
            right,
            rtol=_TOLERANCE,
            maxiter=_ROUNDS,
            M=self._ready,
            callback=count,
        )
        if failed:
            raise Refusal(
                "the control tables are too badly conditioned to solve for; leave some of them out"
            )
        return np.asarray(found), rounds


def _shared(
    possible: Mask, marginals: Sequence[CubeMarginal], starts: NDArray[np.int_]
) -> csr_array:
    """How many possible cells each two control cells have in common."""
    from scipy.sparse import coo_array, csr_array

    whole = possible.astype(np.int64)
    rows, columns, values = [], [], []
    for a, b in combinations_with_replacement(range(len(marginals)), 2):
        union = tuple(sorted({*marginals[a].kept, *marginals[b].kept}))
        counts = CubeMarginal(possible.shape, union).sums(whole)
        filled = np.flatnonzero(counts)
        places = np.unravel_index(filled, counts.shape) if union else ()
        ends = []
        for k in (a, b):
            mine = tuple(places[union.index(axis)] for axis in marginals[k].kept)
            at = np.ravel_multi_index(mine, marginals[k].shape) if mine else 0 * filled
            ends.append(starts[k] + at)
        rows.append(ends[0])
        columns.append(ends[1])
        values.append(counts.ravel()[filled].astype(np.float64))
        if a != b:
            rows.append(ends[1])
            columns.append(ends[0])
            values.append(values[-1])
    where = (np.concatenate(rows), np.concatenate(columns))
    size = int(starts[-1])
    return csr_array(coo_array((np.concatenate(values), where), shape=(size, size)))


def correction(
    cells: Integers,
    shape: Shape,
    controls: Sequence[Control],
    variance: float,
    possible: Mask | None = None,
) -> tuple[Reals, dict[str, object]]:
    """What least squares adds to every noisy cell, and a report of how it was found.

    `possible` are the cells that have noise, the shape's own by default; all others stay 0.
    """
    possible = shape.possible if possible is None else possible
    marginals = [control.noise.marginal(shape) for control in controls]
    apart = [
        np.asarray(control.in_order(shape) - marginal.sums(cells), dtype=np.float64)
        for control, marginal in zip(controls, marginals, strict=True)
    ]
    if possible is not None:
        system = ControlSystem(possible, marginals, variance, [c.variance for c in controls])
        return system.correction(apart)
    tables = [(m.kept, c.variance) for m, c in zip(marginals, controls, strict=True)]
    gained = gains(shape.levels, variance, tables)
    added = np.zeros(shape.levels)
    for marginal, moved in zip(marginals, _moves(marginals, apart, gained), strict=True):
        if moved is not None:
            view = marginal.wide(added)
            view += marginal.spread(moved)
    return added, {"solver": "closed form", "effects": len(gained)}


def _moves(
    marginals: Sequence[CubeMarginal], apart: Sequence[Reals], gained: Sequence[Gain]
) -> list[Reals | None]:
    """The correction as a table over the variables of each control, or None for no part of it.

    Each effect is put into the first control that holds it, so that the cube is passed over once
    for a table and not once for an effect.
    """
    found: list[Reals | None] = [None] * len(marginals)
    for gain in gained:
        moved: Reals | None = None
        for marginal, difference, weight in zip(marginals, apart, gain.weights, strict=True):
            if weight:
                part = weight * effect(difference, marginal.kept, gain.axes)
                moved = part if moved is None else moved + part
        home = next(
            k for k, marginal in enumerate(marginals) if set(gain.axes) <= set(marginal.kept)
        )
        if moved is None:
            continue
        thin = moved.reshape(
            [
                marginals[home].levels[axis] if axis in gain.axes else 1
                for axis in marginals[home].kept
            ]
        )
        before = found[home]
        found[home] = (np.zeros(marginals[home].shape) if before is None else before) + thin
    return found
