"""The confidential cube beside the published one, table by table.  Everything is confidential."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eree.survey.assess.findings import (
    ASSOCIATION,
    DISTRIBUTIONS,
    ERRORS,
    ESTIMATES,
    INTERVALS,
    MARK,
    NEAR_ZERO,
    PUBLISHABLE,
    WHOLE_TABLES,
    Collected,
    Item,
    cramers_v,
    hellinger,
    interval_overlap,
    mean,
    normal_factor,
    quantiles,
    root_mean_square,
)
from eree.survey.assess.public import Published
from eree.survey.assess.rules import RULES, Rule, Thresholds, near_zero
from eree.survey.cube import Cube
from eree.survey.estimates import deviations, querytool_standard_errors
from eree.survey.query import Query
from eree.survey.replicates import Sampling
from eree.survey.shape import By, Mask, Reals
from eree.survey.tables import Tabulator
from eree.workload import JOB

#: Quantiles of differences, and their labels.
_QUANTILES = {"median": 0.5, "90%": 0.9, "99%": 0.99, "largest": 1.0}
_RANGE = {"10%": 0.1, "median": 0.5, "90%": 0.9}


class Originals:
    """The tables of the confidential cube: employment in jobs, and records."""

    def __init__(self, cube: Cube) -> None:
        self._weighted = Tabulator(cube.shape, cube.weighted)
        self._unweighted = Tabulator(cube.shape, cube.unweighted)
        sums = cube.sums
        #: The average weight of a record, in jobs.
        self.average = sums.weight / sums.records / JOB if sums.records else 0.0

    def employment(self, by: By) -> Reals:
        """The exact employment of a table."""
        return np.asarray(self._weighted.table(Query(by)).values / JOB)

    def records(self, by: By) -> Reals:
        """The numbers of records of a table."""
        return self._unweighted.table(Query(by)).values.astype(np.float64)


@dataclass(frozen=True, eq=False, repr=False)
class Compared:
    """One table before and after, its cells one after the other; `sampling` if it is known."""

    by: By
    before: Reals
    after: Reals
    records: Reals
    noise: Reals
    published: Reals
    interval: tuple[Reals, Reals]
    sampling: Reals | None
    strengths: tuple[float | None, float | None]

    @property
    def distance(self) -> float | None:
        """Hellinger's distance."""
        return hellinger(self.before, self.after)

    def as_json(self) -> dict[str, Any]:
        """The table in a line, confidential."""
        apart = self.after - self.before
        return {
            "mark": MARK,
            "table": " × ".join(self.by) or "total",
            "dimension": len(self.by),
            "cells": self.before.size,
            "mean_absolute_difference": mean(np.abs(apart)),
            "root_mean_square_difference": root_mean_square(apart),
            "predicted_root_mean_square": root_mean_square(np.sqrt(self.noise)),
            "hellinger_distance": self.distance,
            "cramers_v_before": self.strengths[0],
            "cramers_v_after": self.strengths[1],
        }


def compared(
    by: By, originals: Originals, published: Published, sampling: Sampling | None, level: float
) -> Compared:
    """One table before and after."""
    before, after = originals.employment(by), published.table(by)
    strengths: tuple[float | None, float | None] = (None, None)
    if len(by) == 2:
        strengths = (cramers_v(before), cramers_v(after.whole.values / JOB))
    errors = None if sampling is None else published.cells(by, sampling.standard_errors(by))
    return Compared(
        by,
        published.cells(by, before),
        after.estimates,
        published.cells(by, originals.records(by)),
        after.noise_variances,
        after.standard_errors,
        after.interval(level),
        errors,
        strengths,
    )


def confidential_items(
    dimension: int, tables: Sequence[Compared], average: float, thresholds: Thresholds
) -> list[Item]:
    """All findings about the tables of one dimension that need the confidential cube."""
    collected = Collected([], dimension, False)
    add = collected.add
    before, after, noise, published = (
        np.concatenate([getattr(table, name) for table in tables])
        for name in ("before", "after", "noise", "published")
    )
    errors = [table.sampling for table in tables if table.sampling is not None]
    sampling = np.concatenate(errors) if errors else None
    limit = average / 2 if thresholds.near_zero is None else thresholds.near_zero
    _near_zero(add, before, after, limit, stated=thresholds.near_zero is not None)
    _publishable(add, tables, average, thresholds)
    _differences(add, before, after, noise, limit)
    low, high = (np.concatenate([table.interval[end] for table in tables]) for end in (0, 1))
    if before.size:
        inside = np.abs(after - before) <= deviations(thresholds.level) * np.sqrt(noise)
        add(INTERVALS, "noise alone covers", inside.mean(), "share")
        add(INTERVALS, "published covers", ((low <= before) & (before <= high)).mean(), "share")
    if sampling is not None:
        theirs = querytool_standard_errors(sampling**2, after, before)
        _errors(add, sampling, published, theirs)
        factor = normal_factor(thresholds.level)
        sure = sampling > 0
        add(INTERVALS, "cells with a sampling error", sure.sum(), "cells")
        for name, ends in (
            ("published", (low, high)),
            ("query tool's formula", (after - factor * theirs, after + factor * theirs)),
        ):
            both = (before - factor * sampling, before + factor * sampling, *ends)
            _overlap(add, name, interval_overlap(*(end[sure] for end in both)))
    distances = _some(table.distance for table in tables)
    for name, share in (("median", 0.5), ("largest", 1.0)):
        add(DISTRIBUTIONS, name, quantiles(distances, [share])[0], "distance")
    add(DISTRIBUTIONS, "mean", mean(distances), "distance")
    if dimension == 2:
        add(ASSOCIATION, "mean before", mean(_some(t.strengths[0] for t in tables)), "distance")
        moved = _some(
            None if t.strengths[0] is None or t.strengths[1] is None
            else abs(t.strengths[1] - t.strengths[0])
            for t in tables
        )  # fmt: skip
        add(ASSOCIATION, "mean absolute change", mean(moved), "distance")
        add(ASSOCIATION, "largest change", quantiles(moved, [1])[0], "distance")
    return collected.items


def _some(values: Any) -> Reals:
    return np.array([value for value in values if value is not None], dtype=np.float64)


def _near_zero(
    add: Callable[..., None], before: Reals, after: Reals, limit: float, *, stated: bool
) -> None:
    close, close_after = near_zero(before, limit), near_zero(after, limit)
    add(NEAR_ZERO, "near zero before", close.sum(), "cells")
    if not stated:  # where the limit is a public setting, this is a public finding
        add(NEAR_ZERO, "near zero after", close_after.sum(), "cells")
    add(NEAR_ZERO, "from near zero to non-zero", (close & ~close_after).sum(), "cells")
    add(NEAR_ZERO, "from non-zero to near zero", (~close & close_after).sum(), "cells")
    for name, of, moved in (
        ("share of near zero that became non-zero", close, ~close_after),
        ("share of non-zero that became near zero", ~close, close_after),
    ):
        add(NEAR_ZERO, name, moved[of].mean() if of.any() else None, "share")


def verdicts(
    table: Compared, average: float, thresholds: Thresholds
) -> dict[Rule, tuple[Mask | None, Mask]]:
    """For every rule, which cells of a table pass it before and after; None where not known.

    The release has no numbers of records.  After, the rule asks how many records the protected
    employment would be at the average weight.
    """
    implied = table.after / average if average else np.zeros(table.after.shape)
    variation = None
    if table.sampling is not None:
        variation = thresholds.variation_passes(table.before, table.sampling)
    found: dict[Rule, tuple[Mask | None, Mask]] = {
        "weighted": (
            thresholds.weighted_passes(table.before),
            thresholds.weighted_passes(table.after),
        ),
        "unweighted": (
            thresholds.unweighted_passes(table.records),
            thresholds.unweighted_passes(implied),
        ),
        "variation": (variation, thresholds.variation_passes(table.after, table.published)),
    }
    befores = [before for before, _ in found.values() if before is not None]
    whole = None if variation is None else np.logical_and.reduce(befores)
    found["all"] = (whole, np.logical_and.reduce([after for _, after in found.values()]))
    return found


def _publishable(
    add: Callable[..., None], tables: Sequence[Compared], average: float, thresholds: Thresholds
) -> None:
    judged = [verdicts(table, average, thresholds) for table in tables]
    for rule, label in RULES.items():
        public = rule in ("weighted", "variation")  # after, they need the release alone
        pairs = [one[rule] for one in judged]
        befores = [before for before, _ in pairs if before is not None]
        afters = [after for _, after in pairs]
        for measure, unit, was, now in (
            (
                PUBLISHABLE,
                "cells",
                np.concatenate(befores) if befores else None,
                np.concatenate(afters),
            ),
            (
                WHOLE_TABLES,
                "tables",
                np.array([before.all() for before in befores]) if befores else None,
                np.array([after.all() for after in afters]),
            ),
        ):
            if not public:
                add(measure, f"{label}: after", now.sum(), unit)
            if was is None:
                continue
            add(measure, f"{label}: before", was.sum(), unit)
            add(measure, f"{label}: become publishable", (~was & now).sum(), unit)
            add(measure, f"{label}: cease to be", (was & ~now).sum(), unit)
            if unit == "cells":
                add(measure, f"{label}: share that changes", (was != now).mean(), "share")


def _differences(
    add: Callable[..., None], before: Reals, after: Reals, noise: Reals, limit: float
) -> None:
    apart = after - before
    sizes = np.abs(apart)
    add(ESTIMATES, "mean", mean(apart), "jobs")
    add(ESTIMATES, "mean absolute", mean(sizes), "jobs")
    square = root_mean_square(apart)
    add(ESTIMATES, "root mean square", square, "jobs")
    expected = root_mean_square(np.sqrt(noise))
    ratio = square / expected if square is not None and expected else None
    add(ESTIMATES, "root mean square, divided by the predicted one", ratio, "ratio")
    for name, value in zip(_QUANTILES, quantiles(sizes, [*_QUANTILES.values()]), strict=True):
        add(ESTIMATES, f"absolute: {name}", value, "jobs")
    filled = ~near_zero(before, limit) & (before > 0)
    shares = sizes[filled] / before[filled]
    add(ESTIMATES, "relative, where not near zero: mean", mean(shares), "share")
    for name, value in zip(_QUANTILES, quantiles(shares, [*_QUANTILES.values()]), strict=True):
        add(ESTIMATES, f"relative, where not near zero: {name}", value, "share")
    total = np.abs(before).sum()
    add(
        ESTIMATES,
        "sum of absolute ones, divided by employment",
        sizes.sum() / total if total else None,
        "share",
    )


def _errors(add: Callable[..., None], sampling: Reals, published: Reals, theirs: Reals) -> None:
    add(ERRORS, "sampling: mean", mean(sampling), "jobs")
    add(ERRORS, "sampling: median", quantiles(sampling, [0.5])[0], "jobs")
    add(ERRORS, "query tool's formula: mean", mean(theirs), "jobs")
    add(ERRORS, "query tool's formula: median", quantiles(theirs, [0.5])[0], "jobs")
    for name, other in (("published", published), ("query tool's formula", theirs)):
        apart = other - sampling
        add(ERRORS, f"{name}, less sampling: mean", mean(apart), "jobs")
        add(ERRORS, f"{name}, less sampling: mean absolute", mean(np.abs(apart)), "jobs")
        add(ERRORS, f"{name}, less sampling: root mean square", root_mean_square(apart), "jobs")
    sure = sampling > 0
    ratios = published[sure] / sampling[sure]
    for name, value in zip(_RANGE, quantiles(ratios, [*_RANGE.values()]), strict=True):
        add(ERRORS, f"published, divided by sampling: {name}", value, "ratio")


def _overlap(add: Callable[..., None], name: str, common: Reals) -> None:
    add(INTERVALS, f"overlap, {name}: mean", mean(common), "share")
    for label, value in zip(_RANGE, quantiles(common, [*_RANGE.values()]), strict=True):
        add(INTERVALS, f"overlap, {name}: {label}", value, "share")
