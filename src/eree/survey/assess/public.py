"""What a release says of any of its tables: estimates, the noise in them, and standard errors.

Everything here is made of the release alone, and public.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eree.survey.assess.findings import (
    ASSOCIATION,
    ERRORS,
    ESTIMATES,
    LOOKED_AT,
    NEAR_ZERO,
    PUBLISHABLE,
    WHOLE_TABLES,
    Collected,
    Item,
    cramers_v,
    mean,
    quantiles,
    root_mean_square,
)
from eree.survey.assess.rules import RULES, Choice, Rule, Thresholds, near_zero
from eree.survey.estimates import Estimates
from eree.survey.protected import ProtectedCube
from eree.survey.query import Query
from eree.survey.settings import RAKED
from eree.survey.shape import By, Mask, Reals
from eree.survey.tables import Tabulator
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

    def cells(self, by: By, values: Reals) -> Reals:
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
    def estimates(self) -> Reals:
        """The protected employment."""
        return self._of(self.whole.values / JOB)

    @property
    def noise_variances(self) -> Reals:
        """The variance of the noise, or its bound."""
        return self._of(self.whole.noise_variance / JOB**2)

    @property
    def standard_errors(self) -> Reals:
        """The published standard errors: sampling as modelled, where paid for, and noise."""
        return self._of(self.whole.standard_error / JOB)

    def interval(self, level: float) -> tuple[Reals, Reals]:
        """The ends of the published intervals."""
        low, high = self.whole.interval(level)
        return self._of(low / JOB), self._of(high / JOB)

    def _of(self, values: Reals) -> Reals:
        return _kept(self.possible, np.asarray(values))


def _kept(possible: Mask | None, values: Reals) -> Reals:
    return np.ravel(values) if possible is None else values[possible]


def public_items(
    published: Published,
    choice: Choice,
    thresholds: Thresholds,
    tell: Callable[[str, float], None] | None = None,
) -> list[Item]:
    """All findings that need nothing but the release and public settings."""
    shape = published.protected.shape
    chosen = choice.tables(shape)
    found: list[Item] = []
    for step, (dimension, tables) in enumerate(chosen.items()):
        if tell:
            tell(f"reading the release: dimension {dimension}", step / len(chosen))
        add = Collected(found, dimension, True).add
        add(LOOKED_AT, "tables", len(tables), "tables")
        add(LOOKED_AT, "tables that there are", choice.there_are(shape, dimension), "tables")
        read = [published.table(by) for by in tables]
        estimates = [table.estimates for table in read]
        noise = [table.noise_variances for table in read]
        errors = [table.standard_errors for table in read]
        together, spread, around = map(np.concatenate, (estimates, noise, errors))
        _of_cells(add, together, spread, around, thresholds)
        passing: dict[Rule, list[bool]] = {"weighted": [], "variation": []}
        for employment, error in zip(estimates, errors, strict=True):
            passing["weighted"].append(bool(thresholds.weighted_passes(employment).all()))
            precise = thresholds.variation_passes(employment, error)
            passing["variation"].append(bool(precise.all()))
        for rule, passes in passing.items():
            add(WHOLE_TABLES, f"{RULES[rule]}: after", sum(passes), "tables")
        if dimension == 2:
            strengths = [cramers_v(table.whole.values / JOB) for table in read]
            kept = np.array([strength for strength in strengths if strength is not None])
            add(ASSOCIATION, "mean after", mean(kept), "distance")
            add(ASSOCIATION, "largest after", quantiles(kept, [1])[0], "distance")
    return found


def _of_cells(
    add: Callable[..., None],
    estimates: Reals,
    noise: Reals,
    errors: Reals,
    thresholds: Thresholds,
) -> None:
    add(LOOKED_AT, "cells", estimates.size, "cells")
    add(LOOKED_AT, "cells below zero after", (estimates < 0).sum(), "cells")
    if thresholds.near_zero is not None:
        close = near_zero(estimates, thresholds.near_zero)
        add(NEAR_ZERO, "near zero after", close.sum(), "cells")
    weighted = thresholds.weighted_passes(estimates)
    precise = thresholds.variation_passes(estimates, errors)
    add(PUBLISHABLE, f"{RULES['weighted']}: after", weighted.sum(), "cells")
    add(PUBLISHABLE, f"{RULES['variation']}: after", precise.sum(), "cells")
    deviations = np.sqrt(noise)
    add(ESTIMATES, "predicted root mean square", root_mean_square(deviations), "jobs")
    add(ESTIMATES, "predicted largest standard deviation", quantiles(deviations, [1])[0], "jobs")
    add(ERRORS, "published: mean", mean(errors), "jobs")
    for name, value in zip(("median", "90%"), quantiles(errors, [0.5, 0.9]), strict=True):
        add(ERRORS, f"published: {name}", value, "jobs")
