"""Minimum variance calibration: generalised least squares of noisy cells and noisy controls.

The estimate minimises |x - y|² / s² + sum over controls M of |A_M x - c_M|² / t_M².  It always
exists, is unbiased, and no linear unbiased estimate of any table has a smaller variance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eree.survey.calibrate.controls import Control
from eree.survey.calibrate.effects import Gain, effect, gains
from eree.survey.calibrate.margins import Array, Margin, Whole
from eree.survey.calibrate.zeros import ControlSystem
from eree.survey.shape import Shape


def correction(
    cells: Whole,
    shape: Shape,
    controls: Sequence[Control],
    variance: float,
    possible: NDArray[np.bool_] | None = None,
) -> tuple[Array, dict[str, object]]:
    """What least squares adds to every noisy cell, and a report of how it was found.

    `possible` are the cells that have noise, the shape's own by default; all others stay 0.
    """
    possible = shape.possible if possible is None else possible
    margins = [control.noise.margin(shape) for control in controls]
    apart = [
        np.asarray(control.in_order(shape) - margin.sums(cells), dtype=np.float64)
        for control, margin in zip(controls, margins, strict=True)
    ]
    if possible is not None:
        system = ControlSystem(possible, margins, variance, [c.variance for c in controls])
        return system.correction(apart)
    tables = [(m.kept, c.variance) for m, c in zip(margins, controls, strict=True)]
    gained = gains(shape.levels, variance, tables)
    added = np.zeros(shape.levels)
    for margin, moved in zip(margins, _moves(margins, apart, gained), strict=True):
        if moved is not None:
            view = margin.wide(added)
            view += margin.spread(moved)
    return added, {"solver": "closed form", "effects": len(gained)}


def _moves(
    margins: Sequence[Margin], apart: Sequence[Array], gained: Sequence[Gain]
) -> list[Array | None]:
    """The correction as a table over the variables of each control, or None for no part of it.

    Each effect is put into the first control that holds it, so that the cube is passed over once
    for a table and not once for an effect.
    """
    found: list[Array | None] = [None] * len(margins)
    for gain in gained:
        moved: Array | None = None
        for margin, difference, weight in zip(margins, apart, gain.weights, strict=True):
            if weight:
                part = weight * effect(difference, margin.kept, gain.axes)
                moved = part if moved is None else moved + part
        home = next(k for k, margin in enumerate(margins) if set(gain.axes) <= set(margin.kept))
        if moved is None:
            continue
        thin = moved.reshape(
            [margins[home].levels[axis] if axis in gain.axes else 1 for axis in margins[home].kept]
        )
        before = found[home]
        found[home] = (np.zeros(margins[home].shape) if before is None else before) + thin
    return found
