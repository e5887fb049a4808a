"""Calibrate a noisy cube by any method: integer cells, a report, and the noise that is left.

What is known of the noise follows from public facts alone.  All variances are in thousandths of a
job squared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite

import numpy as np

from eree.errors import Refusal
from eree.random.source import Random
from eree.survey.calibrate.controls import Control, ControlNoise
from eree.survey.calibrate.least_squares import Gain, correction, gains, variances
from eree.survey.calibrate.rake import rake, rake_nonnegative
from eree.survey.query import Axis, Query
from eree.survey.settings import METHODS, Method
from eree.survey.shape import Integers, Mask, Reals, Shape
from eree.survey.tables import Table, Tabulator, table

#: The most that rounding adds to the variance of one cell, in thousandths squared.
ROUNDING = 0.25
#: Cells beyond this many thousandths of a job are set to it.
LIMIT = 10**15
#: Integers beyond this are not exact in floating-point numbers.
LARGEST = 2.0**53


@dataclass(frozen=True)
class NoiseModel:
    """The noise of a cube: that of its cells, that of its controls, and how they were joined.

    Cells have independent noise of mean 0 and variance `cell`, and so have the cells of each
    control table with a variance of its own.  `variances` is that of least squares, or of cells as
    they are where there are no controls.  For raked cubes it is that of the least squares cube
    from the same cells and controls, from which `bound` goes on.  In a cube with structural zeros
    it is an upper bound, as zeros that are known can only help.
    """

    shape: Shape
    method: Method
    cell: float
    controls: tuple[ControlNoise, ...] = ()

    def __post_init__(self) -> None:
        if not (isfinite(self.cell) and self.cell > 0):
            raise Refusal("the noise variance of a cell must be a number above 0")
        if self.method not in METHODS:
            raise Refusal(f"the method must be one of {', '.join(METHODS)}")
        if (self.method == "none") != (not self.controls):
            raise Refusal("a cube is calibrated to one control table or more, or by no method")
        for control in self.controls:
            self.shape.axes(control.variables)

    @cached_property
    def gains(self) -> list[Gain]:
        """What least squares makes of every effect that the controls know of."""
        tables = [(c.marginal(self.shape).kept, c.variance) for c in self.controls]
        return gains(self.shape.levels, self.cell, tables)

    @property
    def rounding(self) -> float:
        """The most that rounding to thousandths adds to a cell."""
        return 0.0 if self.method == "none" else ROUNDING

    def variances(self, query: Query, counts: Integers | None = None) -> Reals:
        """The noise variance of every cell of a table; see the class for raked cubes.

        `counts` says how many cells with noise each of them adds up, where that is not all that
        the query names: by default those that can be.
        """
        shape, sides = self.shape, query.sides(self.shape)
        if counts is None and shape.possible is not None:
            counts = table(shape, shape.possible.astype(np.int64), query).values
        axes, sizes = shape.axes(query.by), [side.sizes for side in sides]
        rounding = self.rounding if counts is None else 0.0
        found = variances(shape.levels, self.cell, self.gains, sizes, rounding)
        kept = sorted(axes)
        found = found.reshape([found.shape[axis] for axis in kept])
        found = found.transpose([kept.index(axis) for axis in axes])
        if counts is None:
            return np.broadcast_to(found, [sides[axis].length for axis in axes])
        return np.asarray(np.minimum(found, self.cell * counts) + self.rounding * counts)

    def bound(self, variances: Reals, raked: Integers, reference: Integers) -> Reals:
        """A bound on the mean squared error of cells of a raked table.

        `variances` are those of the same cells, `raked` their values and `reference` those of the
        least squares cube.  As the truth x is not negative, |max(r, 0) - x| <= |r - x|, so

            (raked - x)² <= 2 (r - x)² + 2 (raked - max(r, 0))²,

        and the mean of what is returned is no less than the mean squared error, whatever the
        cube, whether raking converged or not.
        """
        apart = np.asarray(raked, dtype=np.float64) - np.maximum(reference, 0)
        return np.asarray(2 * variances + 2 * apart * apart)


def rounded(cells: Reals, random: Random) -> Integers:
    """Each cell rounded up with the probability of its fraction, else down, apart from all others.

    So the error of a cell has mean 0 and variance f (1 - f) <= 1/4, errors are independent, and a
    table of k cells gains a variance of at most k / 4 square thousandths.  Rounding to the nearest
    would move all cells of a table alike where a correction is the same in all of them: k / 2
    thousandths.  Integers, zeros among them, stay as they are.
    """
    if not (np.abs(cells) < LARGEST).all():
        raise Refusal("the cells are too large to be held in integer thousandths of a job")
    down = np.floor(cells)
    words = random.words(cells.size).reshape(cells.shape)
    uniform = (words >> np.uint64(11)) * 2.0**-53
    return np.asarray(down, dtype=np.int64) + (uniform < cells - down)


@dataclass(frozen=True, eq=False, repr=False)
class Sums:
    """The sums of one table: of the cells, of how many have noise, and of the reference.

    The last two are None where a cube needs none; see `Calibrated`.
    """

    axes: tuple[Axis, ...]
    values: Integers
    counts: Integers | None
    reference: Integers | None

    def by(self, names: Sequence[str]) -> Sums:
        """Their sums by some of the variables, in the order in which they are named."""
        known = [axis.name for axis in self.axes]
        places = [known.index(name) for name in names]
        away = tuple(k for k in range(len(known)) if k not in places)
        rest = sorted(places)
        order = [rest.index(place) for place in places]

        def summed(numbers: Integers | None) -> Integers | None:
            if numbers is None:
                return None
            return np.asarray(np.add.reduce(numbers, axis=away)).transpose(order)

        values = summed(self.values)
        assert values is not None
        axes = tuple(self.axes[place] for place in places)
        return Sums(axes, values, summed(self.counts), summed(self.reference))


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A calibrated cube in integer thousandths of a job: every table is a sum of its cells.

    `reference` is the least squares cube from the same cells and controls, which the bound for a
    raked cube needs; None for other methods.  `present` are the cells that have noise, where not
    all have; the others are 0.  All of it is made of protected values only.
    """

    cells: Integers = field(repr=False)
    noise: NoiseModel
    report: Mapping[str, object]
    reference: Integers | None = field(default=None, repr=False)
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

    def variances(self, query: Query, sums: Sums | None = None) -> Reals:
        """The noise variance of every cell of a table; its bound for a raked cube.

        `sums` are those that the query asks for, if they are at hand.
        """
        found = sums or self.sums(query)
        known = self.noise.variances(query, found.counts)
        if found.reference is None:
            return known
        bound = self.noise.bound(known, found.values, found.reference)
        return bound if found.counts is None else np.where(found.counts > 0, bound, 0.0)

    def counts(self, query: Query) -> Integers | None:
        """How many cells with noise each cell of a table adds up; None where all have it."""
        return None if self._counts is None else self._counts.table(query).values

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
    cells: Integers,
    controls: Sequence[Control],
    *,
    random: Random,
    cycles: int | None = None,
    reconcile: bool = False,
    kept: Mask | None = None,
) -> Calibrated:
    """Calibrate noisy cells to control tables by the method of the noise model.

    Cells are integer thousandths of a job, 0 where they cannot be.  `random` rounds the result.
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
    reference = np.clip(cells + rounded(added, random), -LIMIT, LIMIT)
    if noise.method == "least-squares":
        return Calibrated(reference, noise, solved, None, possible)
    marginals = [control.noise.marginal(shape) for control in controls]
    del added
    targets = [
        marginal.sums(reference) if reconcile else control.in_order(shape)
        for marginal, control in zip(marginals, controls, strict=True)
    ]
    if possible is not None:  # a control of impossible cells is 0, whatever noise says
        can_be = possible.astype(np.int64)
        targets = [t * (m.sums(can_be) > 0) for m, t in zip(marginals, targets, strict=True)]
    wanted = [target.astype(np.float64) for target in targets]
    start = cells.astype(np.float64)
    if noise.method == "rake":
        raked, report = rake(start, marginals, wanted, cycles=cycles or 10)
    else:
        raked, report = rake_nonnegative(start, marginals, wanted, cycles=cycles or 50)
    reported = {"reconciled": reconcile, **report.as_json()}
    most = min(LIMIT, (1 << 62) // cells.size)  # sums stay exact however far raking runs away
    made = rounded(np.clip(raked, -most, most), random)
    return Calibrated(made, noise, reported, reference, possible)


def _check(
    noise: NoiseModel,
    cells: Integers,
    controls: Sequence[Control],
    possible: Mask | None,
) -> None:
    if cells.dtype != np.int64 or cells.shape != noise.shape.levels:
        raise Refusal("the cells must be integer thousandths of a job (int64) in the cube's shape")
    if tuple(control.noise for control in controls) != noise.controls:
        raise Refusal("the control tables must be those that the noise model lists, in its order")
    if possible is not None and possible.shape != noise.shape.levels:
        raise Refusal("the cells that are kept must be given for every cell of the cube")
    if possible is not None and cells[~possible].any():
        raise Refusal("cells that cannot be must be 0: structural zeros get no noise")
