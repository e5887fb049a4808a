"""What may be published about a protected cube: no confidential cube comes into this file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from eree.survey.assess.choice import Choice
from eree.survey.assess.items import Collected, Item
from eree.survey.assess.measures import Array, cramers_v, mean, quantiles, root_mean_square
from eree.survey.assess.published import Published
from eree.survey.assess.rules import Thresholds, near_zero
from eree.workload import JOB

LOOKED_AT = "tables looked at"
NEAR_ZERO = "near zero"
PUBLISHABLE = "publishable cells"
WHOLE_TABLES = "publishable whole tables"
ESTIMATES = "differences of estimates"
ERRORS = "standard errors"
INTERVALS = "intervals"
DISTRIBUTIONS = "Hellinger distance of tables"
ASSOCIATION = "Cramér's V of two-way tables"
BOUNDS = "bounds of the cube"
METHODS = "methods side by side"

Rule = Literal["weighted", "unweighted", "variation", "all"]
#: The names of the rules, in words.
RULES: dict[Rule, str] = {
    "weighted": "employment",
    "unweighted": "records",
    "variation": "coefficient of variation",
    "all": "all three rules",
}


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
    estimates: Array,
    noise: Array,
    errors: Array,
    thresholds: Thresholds,
) -> None:
    add(LOOKED_AT, "cells", estimates.size, "cells")
    add(LOOKED_AT, "cells below zero after", (estimates < 0).sum(), "cells")
    if thresholds.near_zero is not None:
        close = near_zero(estimates, thresholds.near_zero)
        add(NEAR_ZERO, "near zero after", close.sum(), "cells")
    add(
        PUBLISHABLE,
        f"{RULES['weighted']}: after",
        thresholds.weighted_passes(estimates).sum(),
        "cells",
    )
    add(
        PUBLISHABLE,
        f"{RULES['variation']}: after",
        thresholds.variation_passes(estimates, errors).sum(),
        "cells",
    )
    deviations = np.sqrt(noise)
    add(ESTIMATES, "predicted root mean square", root_mean_square(deviations), "jobs")
    add(ESTIMATES, "predicted largest standard deviation", quantiles(deviations, [1])[0], "jobs")
    add(ERRORS, "published: mean", mean(errors), "jobs")
    for name, value in zip(("median", "90%"), quantiles(errors, [0.5, 0.9]), strict=True):
        add(ERRORS, f"published: {name}", value, "jobs")
