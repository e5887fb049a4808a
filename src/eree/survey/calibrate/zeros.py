"""Least squares in a cube with structural zeros: conjugate gradients over the control cells.

With A the control sums over the cells that can be, T the control variances and s² that of a cell,
the estimate is y + s² A' m with (s² A A' + T) m = c - A y: as many unknowns as control cells.  An
entry of A A' is the number of cells that two control cells have in common, which is a count of
possible cells in a small table, so that the cube itself is passed over a few times only.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.survey.calibrate.margins import Array, Margin

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Controls without noise get this share of what the noise of their cells would be.
_SURE = 1e-9
_TOLERANCE = 1e-11
_ROUNDS = 5_000


class ControlSystem:
    """The control equations of a cube in which only some cells are possible."""

    def __init__(
        self,
        possible: NDArray[np.bool_],
        margins: Sequence[Margin],
        variance: float,
        noises: Sequence[float],
    ) -> None:
        from scipy.sparse import coo_array, csr_array
        from scipy.sparse.linalg import LinearOperator

        self._possible, self._margins, self._variance = possible, tuple(margins), variance
        sizes = [prod(margin.shape) for margin in margins]
        self._starts = np.cumsum([0, *sizes])
        shared = _shared(possible, self._margins, self._starts)
        counts = shared.diagonal()
        self._empty = counts == 0  # a control of impossible cells says nothing
        noise = np.repeat(np.array(noises, dtype=np.float64), sizes)
        noise = np.where(noise > 0, noise, _SURE * variance * counts)
        noise[self._empty] = 1.0
        self._matrix = csr_array(variance * shared + coo_array((noise, (_up(noise), _up(noise)))))
        scale = 1 / self._matrix.diagonal()
        self._ready = LinearOperator(self._matrix.shape, matvec=lambda r: scale * r, dtype=float)

    def correction(self, apart: Sequence[Array]) -> tuple[Array, dict[str, object]]:
        """What is added to every cell, from the differences of controls to the noisy sums."""
        found, rounds = self._solve(np.concatenate([part.ravel() for part in apart]))
        added = np.zeros(self._possible.shape)
        for k, margin in enumerate(self._margins):
            part = found[self._starts[k] : self._starts[k + 1]].reshape(margin.shape)
            view = margin.wide(added)
            view += margin.spread(self._variance * part)
        added *= self._possible
        return added, {"solver": "conjugate gradients", "rounds": rounds}

    def variance(self, cells: NDArray[np.bool_]) -> float:
        """The exact noise variance, before rounding, of the sum of some cells; a solve.

        With u the possible cells of the sum, it is s² u'u - s⁴ (A u)' (s² A A' + T)^-1 (A u).
        """
        chosen = (cells & self._possible).astype(np.float64)
        sums = np.concatenate([margin.sums(chosen).ravel() for margin in self._margins])
        gained = sums @ self._solve(sums)[0]
        return max(float(self._variance * (chosen.sum() - self._variance * gained)), 0.0)

    def _solve(self, right: Array) -> tuple[Array, int]:
        from scipy.sparse.linalg import cg

        right = np.where(self._empty, 0.0, right)
        rounds = 0

        def count(_now: Array) -> None:
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


def _up(values: Array) -> NDArray[np.intp]:
    return np.arange(len(values))


def _shared(
    possible: NDArray[np.bool_], margins: Sequence[Margin], starts: NDArray[np.int_]
) -> csr_array:
    """How many possible cells each two control cells have in common."""
    from scipy.sparse import coo_array, csr_array

    whole = possible.astype(np.int64)
    rows, columns, values = [], [], []
    for a, b in combinations_with_replacement(range(len(margins)), 2):
        union = tuple(sorted({*margins[a].kept, *margins[b].kept}))
        counts = Margin(possible.shape, union).sums(whole)
        filled = np.flatnonzero(counts)
        places = np.unravel_index(filled, counts.shape) if union else ()
        ends = []
        for k in (a, b):
            mine = tuple(places[union.index(axis)] for axis in margins[k].kept)
            at = np.ravel_multi_index(mine, margins[k].shape) if mine else 0 * filled
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
