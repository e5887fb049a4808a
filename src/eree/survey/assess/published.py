"""What a release says of any of its tables: estimates, the noise in them, and standard errors.

Everything here is made of the release alone, and public.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eree.survey.assess.measures import Array, Mask
from eree.survey.bounds import By
from eree.survey.calibrate.noise import RAKED
from eree.survey.estimates import Estimates
from eree.survey.protected import ProtectedCube
from eree.survey.tables import Query, Tabulator
from eree.workload import JOB


@dataclass(frozen=True, eq=False, repr=False)
class Published:
    """The tables of a protected cube, in jobs."""

    protected: ProtectedCube

    def table(self, by: By) -> PublishedTable:
        """One table."""
        return PublishedTable(self.protected.table(Query(by)), self.possible(by))

    def possible(self, by: By) -> Mask | None:
        """Which cells of a table can be; None where all can."""
        if self._possible is None:
            return None
        return np.asarray(self._possible.table(Query(by)).values > 0)

    def cells(self, by: By, values: Array) -> Array:
        """The cells of a table that can be, one after the other."""
        return _kept(self.possible(by), values)

    @property
    def bounded(self) -> bool:
        """Whether the noise of tables has a bound instead of a variance: in raked cubes."""
        return self.protected.calibrated.method in RAKED

    @cached_property
    def _possible(self) -> Tabulator | None:
        possible = self.protected.shape.possible
        if possible is None:
            return None
        return Tabulator(self.protected.shape, possible.astype(np.int64))


@dataclass(frozen=True, eq=False, repr=False)
class PublishedTable:
    """A published table: cells that can be, one after the other, in jobs."""

    whole: Estimates
    possible: Mask | None

    @property
    def estimates(self) -> Array:
        """The protected employment."""
        return self._of(self.whole.values / JOB)

    @property
    def noise_variances(self) -> Array:
        """The variance of the noise, or its bound."""
        return self._of(self.whole.noise_variance / JOB**2)

    @property
    def standard_errors(self) -> Array:
        """The published standard errors: sampling as modelled, where paid for, and noise."""
        return self._of(self.whole.standard_error / JOB)

    def interval(self, level: float) -> tuple[Array, Array]:
        """The ends of the published intervals."""
        low, high = self.whole.interval(level)
        return self._of(low / JOB), self._of(high / JOB)

    def _of(self, values: Array) -> Array:
        return _kept(self.possible, np.asarray(values))


def _kept(possible: Mask | None, values: Array) -> Array:
    return np.ravel(values) if possible is None else values[possible]
