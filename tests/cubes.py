"""Random small cubes, and generalised least squares by brute force."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eree.survey.calibrate.controls import Control
from eree.survey.query import Query
from eree.survey.shape import Impossible, Shape, Variable
from eree.survey.tables import table


def shaped(levels: Sequence[int], impossible: Sequence[Impossible] = ()) -> Shape:
    """A cube of variables v0, v1, … whose codes are 0, 1, …"""
    return Shape(
        tuple(
            Variable(f"v{k}", f"variable {k}", codes, codes)
            for k, level in enumerate(levels)
            for codes in [tuple(map(str, range(level)))]
        ),
        tuple(impossible),
    )


def indicators(shape: Shape, by: Sequence[str], where: dict[str, tuple[str, ...]]) -> np.ndarray:
    """One row for each cell of a table, one column for each cell of the cube, cell by cell."""
    kept = [
        [k for k, code in enumerate(v.codes) if code in where.get(v.name, v.codes)]
        for v in shape.variables
    ]
    rows = []
    for cell in np.ndindex(*shape.levels):
        column = np.zeros([len(kept[axis]) for axis in shape.axes(by)])
        if all(cell[axis] in places for axis, places in enumerate(kept)):
            column[tuple(kept[axis].index(cell[axis]) for axis in shape.axes(by))] = 1
        rows.append(column.ravel())
    return np.array(rows).T


def brute_force(
    shape: Shape, cells: np.ndarray, controls: Sequence[Control], variance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate and covariance of the possible cells by one dense system; nothing for the rest.

    Controls without noise get a variance of a billionth of what their cells have.
    """
    can_be = np.ones(shape.size, bool) if shape.possible is None else shape.possible.ravel()
    precision = np.eye(int(can_be.sum())) / variance
    right = cells.ravel()[can_be] / variance
    for control in controls:
        sums = indicators(shape, control.variables, {})[:, can_be]
        counts = np.maximum(sums.sum(axis=1), 1)
        noise = control.variance if control.variance else 1e-9 * variance * counts
        weighted = sums / np.broadcast_to(noise, counts.shape)[:, None]
        precision = precision + sums.T @ weighted
        right = right + weighted.T @ control.values.ravel()
    covariance = np.linalg.inv(precision)
    estimate, wide = np.zeros(shape.size), np.zeros((shape.size, shape.size))
    estimate[can_be] = covariance @ right
    wide[np.ix_(can_be, can_be)] = covariance
    return estimate.reshape(shape.levels), wide


def controlled(
    shape: Shape,
    truth: np.ndarray,
    tables: Sequence[tuple[tuple[str, ...], float]],
    rng: np.random.Generator,
) -> list[Control]:
    """Control tables of a true cube with rounded normal noise of some variances."""
    found = []
    for names, variance in tables:
        sums = table(shape, truth, Query(names)).values
        noise = np.rint(rng.normal(0, variance**0.5, sums.shape)).astype(np.int64)
        found.append(Control(names, sums + noise, variance))
    return found
