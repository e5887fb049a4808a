"""Assess a protected cube beside the confidential one: for the curator, and for nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from eree.errors import Refusal
from eree.policy.neighbours import plain
from eree.random.source import SeededRandom
from eree.survey.assess.comparison import Originals, compared, confidential_items
from eree.survey.assess.findings import (
    BOUNDS,
    SIDE_BY_SIDE,
    Collected,
    Item,
    hellinger,
    mean,
    root_mean_square,
)
from eree.survey.assess.public import Published, public_items
from eree.survey.assess.rules import Choice, Thresholds
from eree.survey.bounds import Bounds
from eree.survey.calibrate.calibration import Calibrated, NoiseModel, calibrate
from eree.survey.calibrate.controls import Control
from eree.survey.checked import Survey
from eree.survey.cube import Cube
from eree.survey.microdata import Progress
from eree.survey.modes import Mode, NoisyCube, mode_of
from eree.survey.protected import ProtectedCube
from eree.survey.query import Query
from eree.survey.replicates import REPLICATES, Sampling
from eree.survey.settings import METHODS, Method
from eree.survey.shape import By
from eree.survey.tables import Tabulator
from eree.workload import JOB


@dataclass(frozen=True, eq=False, repr=False)
class WhatIf:
    """What became of each method: figures by dimension, and what each says of itself."""

    items: tuple[Item, ...]
    reports: Mapping[Method, Mapping[str, object]]


def check_what_if(cube: Cube, protected: ProtectedCube) -> Mode:
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
            " that the release states"
        )
    return mode


def what_if(
    cube: Cube,
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
    drawn = mode.draw(cube, SeededRandom(choice.seed))
    reconcile = not all(table.exact for table in drawn.controls)
    chosen = choice.tables(cube.shape)
    found: list[Item] = []
    reports: dict[Method, Mapping[str, object]] = {}
    for step, method in enumerate(METHODS):
        if tell:
            tell(f"what if: {method}", step / len(METHODS))
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
    random = SeededRandom(seed + 1)
    return calibrate(
        model, drawn.cells, controls, random=random, reconcile=reconcile, kept=drawn.kept
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
    add(SIDE_BY_SIDE, f"{method}: root mean square", root_mean_square(differences), "jobs")
    predicted = root_mean_square(np.sqrt(np.concatenate(noise)))
    add(SIDE_BY_SIDE, f"{method}: predicted root mean square", predicted, "jobs")
    add(SIDE_BY_SIDE, f"{method}: mean absolute", mean(np.abs(differences)), "jobs")
    add(SIDE_BY_SIDE, f"{method}: mean Hellinger distance", mean(np.array(distances)), "distance")
    add(SIDE_BY_SIDE, f"{method}: cells below zero", below, "cells")


@dataclass(frozen=True, repr=False, eq=False)
class Assessment:
    """What protection did to a cube.  Confidential but for `public`: printing it shows no figure.

    Attributes:
        settings: How it was assessed; public.
        public: Findings made of the release and public settings alone, the same for every cube.
        confidential: All other findings.
        tables: A line for each table that was looked at.
        reports: What each method says of itself, where methods were compared.

    Examples:
        >>> cube, protected = eree.Cube.load("cube.eree"), eree.ProtectedCube.open("public")
        >>> eree.assess_cube(cube, protected, most_dimensions=1).dimensions
        (0, 1, 3)
    """

    settings: Mapping[str, Any]
    public: tuple[Item, ...]
    confidential: tuple[Item, ...] = field(repr=False)
    tables: tuple[Mapping[str, Any], ...] = field(repr=False)
    reports: Mapping[Method, Mapping[str, object]] = field(repr=False)

    def __iter__(self) -> Iterator[Item]:
        yield from self.public
        yield from self.confidential

    def value(self, measure: str, statistic: str, dimension: int) -> float | None:
        """One figure; None where there is nothing to measure, refused where it was not measured."""
        for item in self:
            if (item.measure, item.statistic, item.dimension) == (measure, statistic, dimension):
                return item.value
        raise Refusal(f"{measure}, {statistic} was not measured for dimension {dimension}")

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The dimensions of the tables that were looked at; the last is the whole cube."""
        return tuple(sorted({item.dimension for item in self}))

    def __repr__(self) -> str:
        return f"<Assessment of {self.settings['cells']:,} cells, confidential>"


def assess_cube(
    cube: Cube,
    protected: ProtectedCube,
    *,
    survey: Survey | None = None,
    thresholds: Thresholds | None = None,
    most_dimensions: int = 3,
    most_tables: int = 200,
    seed: int = 1,
    replicates: int = REPLICATES,
    methods: bool = False,
    progress: Progress | None = None,
) -> Assessment:
    """Compare a confidential cube with the protected one that was made of it.

    All tables of up to `most_dimensions` variables are looked at, or `most_tables` of each
    dimension; and the whole cube.

    Args:
        cube: The confidential cube.
        protected: The one that was made of it.
        survey: What the cube was built from; with it sampling errors are known too.
        thresholds: The rules of the office.
        most_dimensions: How many variables a table has at most.
        most_tables: How many tables of each dimension are looked at, at most.
        seed: A public seed that chooses tables.
        replicates: How many are made by successive differences, where the survey has none.
        methods: Whether all methods of calibration are tried on a new draw with that seed.
        progress: Called with a step and the share that is done.

    Examples:
        >>> cube, protected = eree.Cube.load("cube.eree"), eree.ProtectedCube.open("public")
        >>> eree.assess_cube(cube, protected, most_dimensions=1)
        <Assessment...>
    """
    tell = progress or (lambda _step, _done: None)
    rules, choice = thresholds or Thresholds(), Choice(most_dimensions, most_tables, seed)
    check_pair(cube, protected)
    if methods:
        check_what_if(cube, protected)
    published, originals = Published(protected), Originals(cube)
    sampling = None
    if survey is not None:
        tell("counting the survey again", 0.0)
        sampling = Sampling.of(survey, cube, replicates)
    public = public_items(published, choice, rules, lambda step, done: tell(step, 0.3 * done))
    chosen = choice.tables(cube.shape)
    found = _general(cube, originals, rules, sampling)
    lines: list[Mapping[str, Any]] = []
    number = sum(map(len, chosen.values()))
    for dimension, names in chosen.items():
        tables = []
        for by in names:
            tell(f"comparing: dimension {dimension}", 0.3 + 0.5 * len(lines) / number)
            tables.append(compared(by, originals, published, sampling, rules.level))
            lines.append(tables[-1].as_json())
        found += confidential_items(dimension, tables, originals.average, rules)
    tried = WhatIf((), {})
    if methods:
        tried = what_if(
            cube, originals, published, choice, lambda step, done: tell(step, 0.8 + 0.2 * done)
        )
    tell("done", 1.0)
    return Assessment(
        _settings(published, rules, choice),
        tuple(public),
        (*found, *tried.items),
        tuple(lines),
        tried.reports,
    )


def check_pair(cube: Cube, protected: ProtectedCube) -> None:
    """Refuse a cube and a release that cannot be of each other: their shapes differ."""
    if cube.shape != protected.shape:
        raise Refusal(
            "the cube has other variables, codes or structural zeros than the release; name the"
            " cube that was protected"
        )


def _general(
    cube: Cube, originals: Originals, rules: Thresholds, sampling: Sampling | None
) -> list[Item]:
    """What is about the cube as a whole."""
    collected = Collected([], len(cube.shape.variables), False)
    collected.add(BOUNDS, "average weight of a record", originals.average, "jobs")
    if rules.near_zero is None:
        collected.add(BOUNDS, "limit of near zero", originals.average / 2, "jobs")
    if sampling is not None:
        collected.add(BOUNDS, "employment of the survey left out", sampling.trimmed, "share")
        collected.add(BOUNDS, "records of the survey left out", sampling.left_out, "share")
    return collected.items


def _settings(published: Published, rules: Thresholds, choice: Choice) -> dict[str, Any]:
    """What the figures were made with: public, whatever the confidential cube is."""
    protected = published.protected
    record, price = protected.release.record, protected.guarantee
    return {
        "release": record["release"],
        "private": record["private"],
        "seeded": protected.release.seeded,
        "mode": protected.mode,
        "guarantee": {
            "neighbours": price.neighbours.name,
            "epsilon": plain(price.epsilon),
            "delta": plain(price.delta),
        },
        "covers": protected.covers,
        "calibration": protected.calibration["method"],
        "variables": [variable.name for variable in protected.shape.variables],
        "cells": protected.shape.size,
        "noise_bounded": published.bounded,
        "sampling_model": protected.sampling is not None,
        "thresholds": asdict(rules),
        "choice": asdict(choice),
    }
