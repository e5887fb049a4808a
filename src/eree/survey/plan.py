"""What protecting a cube will cost and how good it will be, from public facts alone.

A plan is made before anything is paid and before a cell is looked at: from the shape of the cube,
its public bounds and the price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod, sqrt
from typing import Any

import numpy as np

from eree.errors import Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import plain
from eree.survey.bounds import Bounds, Shares
from eree.survey.calibrate.calibration import NoiseModel
from eree.survey.calibrate.controls import ControlNoise, check_controls
from eree.survey.cube import Cube, CubeOutline
from eree.survey.files import NOISY, REFERENCE, VARIANCE, levels_of
from eree.survey.laplace import ShiftNoise
from eree.survey.modes import AsPublished, Guaranteed, Mode
from eree.survey.query import Query
from eree.survey.settings import RAKED, SQUARES, CubeSettings, Method, Squares
from eree.survey.shape import By, Shape
from eree.survey.tables import Tabulator
from eree.workload import JOB

#: More cycles of raking than this are a mistake.
_MOST_CYCLES = 1_000


@dataclass(frozen=True)
class TableNoise:
    """How much noise the cells of a table will have: standard deviations of a typical cell.

    `drawn` is that of the sum of its cells before calibration, `left` after it.
    """

    by: By
    cells: int
    drawn: float
    left: float


@dataclass(frozen=True)
class CubePlan:
    """How a cube will be protected.

    Attributes:
        shape: The shape of the cube.
        mode: What noise is drawn, with the price.
        method: How the cube will be calibrated.
        cycles: How many cycles of raking at most.

    Examples:
        >>> eree.plan_cube(eree.CubeOutline.read("cube.eree"), epsilon=2).unit
        'jobs'
    """

    shape: Shape
    mode: Mode
    method: Method
    cycles: int | None = None

    @property
    def price(self) -> Guarantee:
        """What it costs; `mode.covers` says for what."""
        return self.mode.price

    @property
    def unit(self) -> str:
        """What noise is counted in: jobs, or average weights where those are all that is known."""
        return "jobs" if isinstance(self.mode, Guaranteed) else "average weights"

    @cached_property
    def noise(self) -> NoiseModel:
        """The noise that will be drawn and left; in squared thousandths of `unit`."""
        one = 1 if isinstance(self.mode, Guaranteed) else JOB**2
        known = {by: noise.variance * one for by, noise in self.mode.tables.items()}
        controls = [ControlNoise(by, known.get(by, 0.0)) for by in self.mode.controls]
        used = tuple(controls) if self.method != "none" else ()
        return NoiseModel(self.shape, self.method, self.mode.cells.variance * one, used)

    def predicted_noise(self) -> list[TableNoise]:
        """The noise of the total, of every one-way table, of the pairs and of the cells.

        For a raked cube what is left is that of least squares from the same cells and controls;
        what is published is a bound that is not known before.
        """
        shape, possible = self.shape, self.shape.possible
        names = tuple(variable.name for variable in shape.variables)
        drawn = NoiseModel(shape, "none", self.noise.cell)
        can_be = None if possible is None else Tabulator(shape, possible.astype(np.int64))
        pairs = combinations(names, 2) if len(names) > 2 else ()
        found = []
        for by in [(), *((name,) for name in names), *pairs]:
            counts = None if can_be is None else can_be.table(Query(by)).values
            typical = [
                float(np.mean(left if counts is None else left[counts > 0]))
                for left in (model.variances(Query(by), counts) for model in (drawn, self.noise))
            ]
            size = prod(levels_of(shape, by)) if counts is None else int((counts > 0).sum())
            found.append(TableNoise(by, size, *(sqrt(v) / JOB for v in typical)))
        if len(names) > 1:  # one cell, which is like all others
            one, alone = Query((), {v.name: v.codes[:1] for v in shape.variables}), np.array(1)
            each = (float(model.variances(one, alone)) for model in (drawn, self.noise))
            rows = shape.size if possible is None else int(possible.sum())
            found.append(TableNoise(names, rows, *(sqrt(v) / JOB for v in each)))
        return found

    def parts(self) -> list[tuple[str, ShiftNoise | None]]:
        """Everything that is drawn, by its name, and its noise; None for what gets none."""
        mode = self.mode
        found: list[tuple[str, ShiftNoise | None]] = [("every cell", mode.cells)]
        names = {by: " × ".join(by) or "total" for by in mode.controls}
        found += [(f"control {name}", mode.tables.get(by)) for by, name in names.items()]
        if isinstance(mode, Guaranteed) and mode.squares is not None:
            found.append((f"sum of squares of {mode.squares}", mode.variance))
        return found

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        price = self.price
        return {
            "mode": self.mode.name,
            "calibration": self.method,
            "epsilon": plain(price.epsilon),
            "delta": plain(price.delta),
            "neighbours": price.neighbours.name,
            "covers": self.mode.covers,
            "losses": self.mode.losses,
            "unit": self.unit,
            "parts": [
                {
                    "part": part,
                    "epsilon": None if noise is None else str(noise.guarantee.epsilon),
                    "delta": None if noise is None else str(noise.guarantee.delta),
                    "mechanism": "none" if noise is None else noise.name,
                    "deviation": self.deviation(part, noise),
                }
                for part, noise in self.parts()
            ],
            "tables": [
                {"by": list(o.by), "cells": o.cells, "drawn": o.drawn, "left": o.left}
                for o in self.predicted_noise()
            ],
        }

    def deviation(self, part: str, noise: ShiftNoise | None) -> float:
        """The standard deviation of the noise of a part, in `unit`, or in squared jobs for squares.

        As published noise is drawn in whole records, each an average weight.
        """
        if noise is None:
            return 0.0
        if not isinstance(self.mode, Guaranteed):
            return sqrt(noise.variance)
        return sqrt(noise.variance) / (JOB**2 if part.startswith("sum of squares") else JOB)


def plan_cube(cube: CubeOutline | Cube, **settings: Any) -> CubePlan:
    """How `protect_cube` would protect a cube with some `CubeSettings`; nothing is paid.

    Only what is public about the cube is looked at.

    Args:
        cube: A cube, or what is public about it.
        **settings: Those of `CubeSettings`.

    Examples:
        >>> plan = eree.plan_cube(eree.CubeOutline.read("cube.eree"), epsilon=2)
        >>> plan.price.epsilon
        Fraction(2, 1)
    """
    chosen, shape = CubeSettings(**settings), cube.shape.checked()
    if taken := {v.name for v in shape.variables} & {NOISY, VARIANCE, REFERENCE}:
        raise Refusal(
            f"a protected cube has a column {min(taken)!r} of its own; rename the variable"
        )
    bounds = Bounds(cube.most_weight, cube.most_records)
    made = _as_published if chosen.mode == "as-published" else _guaranteed
    mode = made(chosen, shape, bounds)
    return CubePlan(shape, mode, _method(chosen, mode), chosen.cycles)


def _as_published(chosen: CubeSettings, shape: Shape, bounds: Bounds) -> Mode:
    controls = chosen.controls
    if controls is None:
        controls = () if chosen.calibration == "none" else _one_way(shape)
    assert chosen.cap is not None
    return AsPublished(
        bounds,
        chosen.epsilon,
        chosen.cap,
        _checked(shape, controls),
        exact_controls=chosen.exact_controls is not False,
        keep_empty=1 if chosen.keep_empty is None else chosen.keep_empty,
    )


def _guaranteed(chosen: CubeSettings, shape: Shape, bounds: Bounds) -> Mode:
    neighbours, shares, controls = bounds.relation(chosen.unit), chosen.shares, chosen.controls
    if controls is None:
        controls = tuple(shares.controls) if shares else default_controls(shape, chosen.calibration)
    tables = _checked(shape, controls)
    squares = _squares(chosen, bounds)
    divided = shares or Shares.default(tables, variance=squares is not None)
    if set(divided.controls) != set(tables):
        raise Refusal("shares must be given for the control tables, and for no others")
    price = Guarantee(neighbours, chosen.epsilon, chosen.delta)
    return Guaranteed(bounds, chosen.unit, price, divided, squares)


def default_controls(shape: Shape, calibration: Method | None = None) -> tuple[By, ...]:
    """The control tables of a guaranteed cube where nobody names any, by its shape alone.

    All one-way tables, which take half of the price; unless that would leave more noise in them
    than to spend all of it on the cells, as in a small cube.  None without a calibration.
    """
    tables = _one_way(shape)
    if calibration == "none":
        return ()
    if calibration is not None:
        return tables
    deviations = []
    for controls in ((), tables):
        shares = Shares.default(controls)  # noise has a variance that goes with 1 / share²
        known = tuple(ControlNoise(by, 1 / float(s) ** 2) for by, s in shares.controls.items())
        method: Method = "least-squares" if controls else "none"
        model = NoiseModel(Shape(shape.variables), method, 1 / float(shares.cells) ** 2, known)
        deviations.append(np.concatenate([model.variances(Query(by)) for by in tables]).mean())
    return tables if deviations[1] < deviations[0] else ()


def _one_way(shape: Shape) -> tuple[By, ...]:
    return tuple((variable.name,) for variable in shape.variables)


def _checked(shape: Shape, controls: Sequence[Sequence[str]]) -> tuple[By, ...]:
    tables = tuple(map(tuple, controls))
    check_controls(shape, tables)
    return tables


def _squares(chosen: CubeSettings, bounds: Bounds) -> Squares | None:
    """Which squares are paid for: by default of establishments, if their records are bounded."""
    squares, shares = chosen.squares, chosen.shares
    if squares == "none" or (squares is None and shares is not None and not shares.variance):
        return None
    if squares is None:
        return "records" if bounds.records is None else "establishments"
    if squares not in SQUARES:
        raise Refusal("squares are added up over 'establishments' or 'records', or 'none'")
    return squares


def _method(chosen: CubeSettings, mode: Mode) -> Method:
    """How the cube is calibrated: by least squares, or raked as published, if it has controls."""
    default: Method = "least-squares" if isinstance(mode, Guaranteed) else "rake"
    method = chosen.calibration or (default if mode.controls else "none")
    if method != "none" and not mode.controls:
        raise Refusal("a cube is calibrated to control tables; name one or more")
    cycles = chosen.cycles
    if cycles is not None and (
        method not in RAKED or type(cycles) is not int or not 1 <= cycles <= _MOST_CYCLES
    ):
        raise Refusal(f"cycles are for raking, from 1 to {_MOST_CYCLES:,}")
    return method
