"""What a release says of any of its tables: estimates, the noise in them, and standard errors.

Everything here is made of the release alone, and public.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, cast

import numpy as np

from eree.errors import Refusal
from eree.noise.exact import Whole
from eree.noise.thousandths import JOB
from eree.survey.assess.measures import Array, Mask
from eree.survey.bounds import By
from eree.survey.calibrate.controls import ControlNoise
from eree.survey.calibrate.noise import METHODS, RAKED, Method, NoiseModel
from eree.survey.protected import ProtectedCube
from eree.survey.tables import Query, Tabulator
from eree.survey.variances import SamplingModel, Squares, published_standard_errors

#: How much is known of the noise in a table.
Known = Literal["variance", "bound", "sum of bounds"]


@dataclass(frozen=True, eq=False, repr=False)
class Published:
    """The tables of a protected cube, in jobs."""

    protected: ProtectedCube

    def estimates(self, by: By) -> Array:
        """The protected employment of a table."""
        return np.asarray(self._thousandths(by) / JOB)

    def noise_variances(self, by: By) -> Array:
        """The variance of the noise in each cell of a table, or what it is at most; see `known`."""
        return np.asarray(self._noise(by) / JOB**2)

    def standard_errors(self, by: By) -> Array:
        """The published standard errors: sampling as modelled, where that was paid for, and noise.

        Of a release without a sum of squares they hold the noise alone.
        """
        if self.sampling is None:
            return np.asarray(np.sqrt(self._noise(by)) / JOB)
        found = published_standard_errors(
            self._thousandths(by), self._noise(by), self.sampling, fixed=by
        )
        return np.asarray(found / JOB)

    def possible(self, by: By) -> Mask | None:
        """Which cells of a table can be; None where all can."""
        if self._possible is None:
            return None
        return np.asarray(self._possible.table(Query(by)).values > 0)

    def cells(self, by: By, values: Array) -> Array:
        """The cells of a table that can be, one after the other."""
        possible = self.possible(by)
        return np.ravel(values) if possible is None else values[possible]

    @cached_property
    def known(self) -> Known:
        """What `noise_variances` tells.

        For cells as they were drawn and for least squares it is the variance.  For raked cells it
        is a bound on the mean squared error.  Where a release does not say how its cells were
        calibrated, the errors of cells may all go the same way: the bound is the squared sum of
        the roots of theirs.
        """
        if self._model is None:
            return "sum of bounds"
        return "bound" if self._model.method in RAKED else "variance"

    @cached_property
    def sampling(self) -> SamplingModel | None:
        """The model of sampling variances, from the sum of squares in the release, if it has one.

        Squares of records stand for a sample of records, each for itself.
        """
        totals = {total.name: total for total in self.protected.totals}
        total = totals.get("establishments") or totals.get("records")
        if total is None:
            return None
        try:
            squares = Squares((), total.noisy, total.noise_variance)
            return SamplingModel(float(self._thousandths(())), [squares])
        except Refusal:  # noise has made of it what no model can use
            return None

    @cached_property
    def _possible(self) -> Tabulator | None:
        possible = self.protected.shape.possible
        if possible is None:
            return None
        return Tabulator(self.protected.shape, possible.astype(np.int64))

    @cached_property
    def _tables(self) -> Tabulator:
        return Tabulator(self.protected.shape, self.protected.noisy)

    @cached_property
    def _reference(self) -> Tabulator | None:
        """The least squares cube that a raked release publishes beside its own."""
        columns = self.protected.columns
        cells = columns.get("reference", next(iter(columns.values()), None))
        return None if cells is None else Tabulator(self.protected.shape, cells)

    @cached_property
    def _model(self) -> NoiseModel | None:
        cube, drawn = self.protected, self.protected.drawn_variance
        method = "none" if cube.calibration is None else cube.calibration.get("method")
        raked = method in RAKED
        if method not in METHODS or drawn <= 0 or (raked and self._reference is None):
            return None
        controls = [ControlNoise(table.by, table.noise_variance) for table in cube.controls]
        kept = () if method == "none" else tuple(controls)
        return NoiseModel(cube.shape, cast(Method, method), drawn, kept)

    def _thousandths(self, by: By) -> Whole:
        return self._tables.table(Query(by)).values

    def _noise(self, by: By) -> Array:
        model = self._model
        if model is None:
            return self._sum_of_roots(by) ** 2
        found = model.variances(by)
        if model.method in RAKED and self._reference is not None:
            reference = self._reference.table(Query(by)).values
            found = model.bound(found, self._thousandths(by), reference)
        return found

    def _sum_of_roots(self, by: By) -> Array:
        shape = self.protected.shape
        axes = shape.axes(by)
        others = tuple(axis for axis in range(len(shape.variables)) if axis not in axes)
        return np.asarray(np.sqrt(self.protected.noise_variance).sum(axis=others))
