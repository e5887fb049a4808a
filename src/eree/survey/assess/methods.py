"""What if: all methods of calibration on one and the same draw, beside each other.

The draw is made anew from the confidential cube with a seed that anyone may know.  It protects
nothing, is never paid for, never written and never published; only figures about it are shown, and
they are confidential.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from eree.errors import Refusal
from eree.random.source import SeededCoins
from eree.survey.assess.choice import Choice
from eree.survey.assess.comparison import Originals
from eree.survey.assess.items import Collected, Item
from eree.survey.assess.measures import hellinger, mean, root_mean_square
from eree.survey.assess.predicted import METHODS
from eree.survey.assess.published import Published
from eree.survey.bounds import Bounds, By
from eree.survey.calibrate.calibrated import Calibrated, calibrate
from eree.survey.calibrate.controls import Control
from eree.survey.calibrate.noise import METHODS as ALL
from eree.survey.calibrate.noise import Method, NoiseModel
from eree.survey.noisy import NoisyCube, SurveyCube
from eree.survey.plan import Mode, mode_of
from eree.survey.protected import ProtectedCube
from eree.survey.tables import Query, Tabulator
from eree.workload import JOB


@dataclass(frozen=True, eq=False, repr=False)
class WhatIf:
    """What became of each method: figures by dimension, and what each says of itself."""

    items: tuple[Item, ...]
    reports: Mapping[Method, Mapping[str, object]]


def check_what_if(cube: SurveyCube, protected: ProtectedCube) -> Mode:
    """How the release was drawn, if methods can be compared for it; asked before the work."""
    if not protected.controls:
        raise Refusal(
            "the release has no control tables, and without them all methods are the same; compare"
            " methods for a release that has some"
        )
    mode = mode_of(protected.release.record)
    if mode.bounds != Bounds(cube.most_weight, cube.most_records):
        raise Refusal(
            "the cube has other bounds than the one that was protected; build it with the bounds"
            " that the release tells"
        )
    return mode


def what_if(
    cube: SurveyCube,
    originals: Originals,
    published: Published,
    choice: Choice,
    tell: Callable[[str, float], None] | None = None,
) -> WhatIf:
    """Draw once as the release was drawn, calibrate by every method, and compare with the truth.

    Raking goes to exact control tables as they are, and to noisy ones once least squares has
    reconciled them, as in a release.
    """
    protected = published.protected
    mode = check_what_if(cube, protected)
    drawn = mode.draw(cube, SeededCoins(choice.seed))
    reconcile = not all(table.exact for table in drawn.controls)
    chosen = choice.tables(cube.shape)
    found: list[Item] = []
    reports: dict[Method, Mapping[str, object]] = {}
    for step, method in enumerate(ALL):
        if tell:
            tell(f"what if: {method}", step / len(ALL))
        made = _calibrated(drawn, method, reconcile, choice.seed)
        reports[method] = made.report
        tables = Tabulator(cube.shape, made.cells)
        for dimension, names in chosen.items():
            collected = Collected(found, dimension, False)
            _of_dimension(collected, made, tables, originals, published, names)
    return WhatIf(tuple(found), reports)


def _calibrated(drawn: NoisyCube, method: Method, reconcile: bool, seed: int) -> Calibrated:
    controls: list[Control] = []
    if method != "none":
        controls = list(drawn.controls)
    noises = tuple(control.noise for control in controls)
    model = NoiseModel(drawn.shape, method, drawn.noise_variance, noises)
    coins = SeededCoins(seed + 1)
    return calibrate(
        model, drawn.cells, controls, coins=coins, reconcile=reconcile, kept=drawn.kept
    )


def _of_dimension(
    collected: Collected,
    made: Calibrated,
    tables: Tabulator,
    originals: Originals,
    published: Published,
    names: tuple[By, ...],
) -> None:
    method = made.method
    apart, noise, distances, below = [], [], [], 0
    for by in names:
        after = published.cells(by, np.asarray(tables.table(Query(by)).values / JOB))
        before = published.cells(by, originals.employment(by))
        apart.append(after - before)
        noise.append(published.cells(by, np.asarray(made.variances(Query(by)))) / JOB**2)
        distance = hellinger(before, after)
        if distance is not None:
            distances.append(distance)
        below += int((after < 0).sum())
    differences = np.concatenate(apart)
    add = collected.add
    add(METHODS, f"{method}: root mean square", root_mean_square(differences), "jobs")
    predicted = root_mean_square(np.sqrt(np.concatenate(noise)))
    add(METHODS, f"{method}: predicted root mean square", predicted, "jobs")
    add(METHODS, f"{method}: mean absolute", mean(np.abs(differences)), "jobs")
    add(METHODS, f"{method}: mean Hellinger distance", mean(np.array(distances)), "distance")
    add(METHODS, f"{method}: cells below zero", below, "cells")
