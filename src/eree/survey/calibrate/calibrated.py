"""Calibrate a noisy cube by any method: whole cells, a report, and the noise that is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.random.source import Coins
from eree.survey.calibrate.controls import Control
from eree.survey.calibrate.least_squares import correction
from eree.survey.calibrate.margins import Array, Whole
from eree.survey.calibrate.noise import METHODS, RAKED, Method, NoiseModel
from eree.survey.calibrate.rake import TOLERANCE, rake, rake_nonnegative
from eree.survey.calibrate.rounding import LIMIT, rounded
from eree.survey.calibrate.zeros import ControlSystem
from eree.survey.tables import Axis, Query, Table, Tabulator

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class Sums:
    """The sums of one table: of the cells, of how many have noise, and of the reference.

    The last two are None where a cube needs none; see `Calibrated`.
    """

    axes: tuple[Axis, ...]
    values: Whole
    counts: Whole | None
    reference: Whole | None

    def by(self, names: Sequence[str]) -> Sums:
        """Their sums by some of the variables, in the order in which they are named."""
        known = [axis.name for axis in self.axes]
        places = [known.index(name) for name in names]
        away = tuple(k for k in range(len(known)) if k not in places)
        rest = sorted(places)
        order = [rest.index(place) for place in places]

        def summed(numbers: Whole | None) -> Whole | None:
            if numbers is None:
                return None
            return np.asarray(np.add.reduce(numbers, axis=away)).transpose(order)

        values = summed(self.values)
        assert values is not None
        axes = tuple(self.axes[place] for place in places)
        return Sums(axes, values, summed(self.counts), summed(self.reference))


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A calibrated cube in whole thousandths of a job: every table is a sum of its cells.

    `reference` is the least squares cube from the same cells and controls, which the bound for a
    raked cube needs; None for other methods.  `present` are the cells that have noise, where not
    all have; the others are 0.  All of it is made of protected values only.
    """

    cells: Whole = field(repr=False)
    noise: NoiseModel
    report: Mapping[str, object]
    reference: Whole | None = field(default=None, repr=False)
    present: Mask | None = field(default=None, repr=False)

    @property
    def method(self) -> Method:
        """How it was calibrated."""
        return self.noise.method

    def table(self, query: Query) -> Table:
        """A table of the cube."""
        return self._sums.table(query)

    def sums(self, query: Query) -> Sums:
        """All that a table and its variances are made of."""
        found = self.table(query)
        reference = None if self._references is None else self._references.table(query).values
        return Sums(found.axes, found.values, self.counts(query), reference)

    def variances(self, query: Query, sums: Sums | None = None) -> Array:
        """The noise variance of every cell of a table; its bound for a raked cube.

        `sums` are those that the query asks for, if they are at hand.
        """
        found = sums or self.sums(query)
        known = self.noise.variances(query, found.counts)
        if found.reference is None:
            return known
        bound = self.noise.bound(known, found.values, found.reference)
        return bound if found.counts is None else np.where(found.counts > 0, bound, 0.0)

    def counts(self, query: Query) -> Whole | None:
        """How many cells with noise each cell of a table adds up; None where all have it."""
        return None if self._counts is None else self._counts.table(query).values

    def exact_variances(self, query: Query) -> Array:
        """The same for least squares with structural zeros, solved for in every cell.

        It is never above `variances`, and slow: for a few cells at a time.
        """
        shape = self.noise.shape
        if self.method != "least-squares" or self.present is None:
            return self.variances(query)
        margins = [control.margin(shape) for control in self.noise.controls]
        noises = [control.variance for control in self.noise.controls]
        system = ControlSystem(self.present, margins, self.noise.cell, noises)
        table = self.table(query)
        found = np.empty(table.values.shape)
        for place in np.ndindex(found.shape):
            shown = {a.name: a.codes[k] for a, k in zip(table.axes, place, strict=True)}
            chosen = np.zeros(shape.levels, dtype=np.bool_)
            within = []
            for variable in shape.variables:
                codes = set(variable.held(query.where.get(variable.name, variable.codes)))
                if variable.name in shown:
                    codes &= set(variable.held([shown[variable.name]]))
                within.append(sorted(variable.places[code] for code in codes))
            chosen[np.ix_(*within)] = True
            rounding = self.noise.rounding * int((chosen & self.present).sum())
            found[place] = system.variance(chosen) + rounding
        return found

    @cached_property
    def _sums(self) -> Tabulator:
        return Tabulator(self.noise.shape, self.cells)

    @cached_property
    def _references(self) -> Tabulator | None:
        if self.reference is None:
            return None
        return Tabulator(self.noise.shape, self.reference)

    @cached_property
    def _counts(self) -> Tabulator | None:
        if self.present is None:
            return None
        return Tabulator(self.noise.shape, self.present.astype(np.int64))


def calibrate(
    noise: NoiseModel,
    cells: Whole,
    controls: Sequence[Control],
    *,
    coins: Coins,
    cycles: int | None = None,
    tolerance: float = TOLERANCE,
    reconcile: bool = False,
    kept: Mask | None = None,
) -> Calibrated:
    """Calibrate noisy cells to control tables by the method of the noise model.

    Cells are whole thousandths of a job, 0 where they cannot be.  `coins` round the result.
    `cycles` are at most 10 for raking as published and 50 for non-negative
    cells.  Noisy controls contradict each other in their common sums, and raking cannot converge
    to all of them; with `reconcile` it goes to the sums of the least squares cube instead, which
    agree.  `kept` are the cells that got noise where a published rule left more out than those that
    cannot be; the others stay 0, and the variances of the noise model are still an upper bound.
    """
    shape = noise.shape
    possible = shape.possible if kept is None else kept
    _check(noise, cells, controls, possible)
    if noise.method == "none":
        return Calibrated(cells.copy(), noise, {}, None, possible)
    added, solved = correction(cells, shape, controls, noise.cell, possible)
    reference = np.clip(cells + rounded(added, coins), -LIMIT, LIMIT)
    if noise.method == "least-squares":
        return Calibrated(reference, noise, solved, None, possible)
    margins = [control.noise.margin(shape) for control in controls]
    del added
    targets = [
        margin.sums(reference) if reconcile else control.in_order(shape)
        for margin, control in zip(margins, controls, strict=True)
    ]
    if possible is not None:  # a control of impossible cells is 0, whatever noise says
        can_be = possible.astype(np.int64)
        targets = [t * (m.sums(can_be) > 0) for m, t in zip(margins, targets, strict=True)]
    wanted = [target.astype(np.float64) for target in targets]
    start = cells.astype(np.float64)
    if noise.method == "rake":
        raked, report = rake(start, margins, wanted, cycles=cycles or 10, tolerance=tolerance)
    else:
        raked, report = rake_nonnegative(
            start, margins, wanted, cycles=cycles or 50, tolerance=tolerance
        )
    told = {"reconciled": reconcile, **report.as_json()}
    most = min(LIMIT, (1 << 62) // cells.size)  # sums stay exact however far raking runs away
    made = rounded(np.clip(raked, -most, most), coins)
    return Calibrated(made, noise, told, reference, possible)


def _check(
    noise: NoiseModel,
    cells: Whole,
    controls: Sequence[Control],
    possible: Mask | None,
) -> None:
    if cells.dtype != np.int64 or cells.shape != noise.shape.levels:
        raise Refusal("the cells must be whole thousandths of a job (int64) in the cube's shape")
    if tuple(control.noise for control in controls) != noise.controls:
        raise Refusal("the control tables must be those that the noise model lists, in its order")
    if possible is not None and possible.shape != noise.shape.levels:
        raise Refusal("the cells that are kept must be told for every cell of the cube")
    if possible is not None and cells[~possible].any():
        raise Refusal("cells that cannot be must be 0: structural zeros get no noise")


__all__ = ["METHODS", "RAKED", "Calibrated", "Sums", "calibrate"]
