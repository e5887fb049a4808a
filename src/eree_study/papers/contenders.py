"""Who is compared: the papers' mechanisms as published, ours, and what they really cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eree.cells import Cell
from eree.errors import Refusal
from eree.estimate.grids import can_be_shrunk, classes_for
from eree.estimate.groups import shrunk_counts
from eree.mechanisms.mechanism import SIZES, Mechanism
from eree.mechanisms.registry import (
    VECTOR_MECHANISMS,
    automatic_vector,
    calibrate,
    kind_of,
    mechanism,
    own_mechanisms,
)
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import NODE, Strong, Weak
from eree.random.exact import Array, Integers
from eree.random.source import Random
from eree_study.papers.workloads import Counted, Workload

#: Single-cell mechanisms with an alpha, as published and ours.
PUBLISHED = ("log-laplace", "smooth-gamma", "smooth-laplace")
OURS = (
    "log-laplace-tight",
    "linlog",
    "smooth-pareto",
    "radial",
    "leaning-staircase",
    "auto",
)
#: The greatest delta at which the paper shows a point of Smooth Laplace.
MOST_DELTA = 0.05
#: Where estimates are shrunk, which takes longer than a draw: alpha and epsilon of the goals.
SHRUNK_AT = {(Fraction(1, 10), Fraction(epsilon)) for epsilon in (1, 2, 4)}
#: More worker cells take too long, and no goal is for them.
MOST_SHRUNK = 8
THETAS = (2, 20, 50, 100, 200, 500)


@dataclass(frozen=True)
class Contender(ABC):
    """A way to protect the cells of a workload.

    `delta` is what it really has: for all worker cells where they are paid for together, for one
    where each is a query of its own.
    """

    name: str
    delta: float
    #: Whether a trial takes long.
    slow: ClassVar[bool] = False

    @abstractmethod
    def draw(self, cells: Counted, random: Random) -> Array:
        """Signed noisy counts."""

    def expected(self, cells: Counted) -> Array | None:
        """The mean absolute error of every cell; None, as here, where it has to be drawn."""
        del cells
        return None

    def root_mean_squares(self, cells: Counted) -> Array | None:
        """The root mean squared error of every cell; known where the mean absolute error is."""
        del cells
        return None


@dataclass(frozen=True)
class Single(Contender):
    """A mechanism for one count, each cell by itself."""

    mechanism: Mechanism
    strong: bool

    def draw(self, cells: Counted, random: Random) -> Array:
        """One draw for each cell."""
        drawn = self.mechanism.draw(cells.counts, cells.sizes(self.strong), random=random)
        return drawn.astype(np.float64)

    def expected(self, cells: Counted) -> Array:
        """By the largest workplace, or by the count where that is all the noise looks at."""
        return self.mechanism.mean_errors(cells.counts, cells.sizes(self.strong))

    def root_mean_squares(self, cells: Counted) -> Array:
        """By the same."""
        return _root_mean_squares(self.mechanism, cells.counts, cells.sizes(self.strong))


@dataclass(frozen=True)
class Truncated(Contender):
    """A mechanism that leaves workplaces above a size out of every count."""

    mechanism: Mechanism

    def _kept(self, cells: Counted) -> NDArray[np.int64]:
        assert self.mechanism.bound is not None
        return cells.below(self.mechanism.bound.theta)

    def draw(self, cells: Counted, random: Random) -> Array:
        """Noise on the counts of the small workplaces."""
        return self.mechanism.draw(self._kept(cells), random=random).astype(np.float64)

    def expected(self, cells: Counted) -> Array | None:
        """With the jobs that are left out."""
        if self.mechanism.decay is None:
            return None
        missing = (cells.counts - self._kept(cells)).astype(np.float64)
        error = self.mechanism.mean_error(Cell(0))[0]
        errors: Array = missing + np.exp(-self.mechanism.decay * missing) * error
        return errors

    def root_mean_squares(self, cells: Counted) -> Array | None:
        """What is left out, squared, and the variance of the noise, whose mean is 0."""
        if self.mechanism.decay is None:
            return None
        missing = (cells.counts - self._kept(cells)).astype(np.float64)
        return np.hypot(missing, self.mechanism.mean_error(Cell(0))[1])


@dataclass(frozen=True)
class Together(Contender):
    """A vector mechanism: all worker cells of a group at once."""

    mechanism: Mechanism

    def draw(
        self, cells: Counted, random: Random, bounds: NDArray[np.int64] | None = None
    ) -> Array:
        """One draw for each group; `bounds` are those of a first stage, if they are drawn."""
        groups = cells.counts.reshape(-1, cells.workers)
        largests = cells.largest_total[:: cells.workers]
        chosen = self.mechanism
        if chosen.first_stage is not None:
            bounds = chosen.bounds(largests, random=random) if bounds is None else bounds
            rows = cells.rows
            limit = bounds[rows.cell // cells.workers]
            share = chosen.unit * rows.jobs
            scaled = np.where(rows.size > limit, share * limit // rows.size, share)
            sums = np.bincount(rows.cell, weights=scaled.astype(np.float64), minlength=groups.size)
            thousandths = sums.astype(np.int64).reshape(groups.shape)
            return chosen.draw(thousandths, bounds, random=random).ravel().astype(np.float64)
        given = (largests,) if len(chosen.statistics()) > 1 else ()
        return chosen.draw(groups, *given, random=random).ravel().astype(np.float64)

    def expected(self, cells: Counted) -> Array | None:
        """By the largest total, or by transformed counts; two stages have to be drawn."""
        if self.mechanism.first_stage is not None:
            return None
        return self.mechanism.mean_errors(cells.counts, cells.largest_total)

    def root_mean_squares(self, cells: Counted) -> Array | None:
        """By the same."""
        if self.mechanism.first_stage is not None:
            return None
        return _root_mean_squares(self.mechanism, cells.counts, cells.largest_total)


@dataclass(frozen=True)
class Shrunk(Contender):
    """A vector mechanism, and estimates that are made of its noisy counts alone.

    `shape` has the number of values of each worker attribute.
    """

    mechanism: Mechanism
    shape: tuple[int, ...]
    slow = True

    def draw(self, cells: Counted, random: Random) -> Array:
        """Draw, and shrink what was drawn: whole counts of at least 0."""
        bounds: NDArray[np.int64] | None = None
        if self.mechanism.first_stage is not None:
            bounds = self.mechanism.bounds(cells.largest_total[:: cells.workers], random=random)
        noisy = Together(self.name, self.delta, self.mechanism).draw(cells, random, bounds)
        groups = noisy.astype(np.int64).reshape(-1, cells.workers)
        classed = classes_for(self.mechanism, groups, cells.workplaces, bounds)
        return shrunk_counts(groups, cells.kinds, classed, self.shape).ravel().astype(np.float64)


def _root_mean_squares(mechanism: Mechanism, counts: Integers, largests: Integers) -> Array:
    """By the count where noise is added to a transform of it, else by the largest workplace."""
    sizes = largests if mechanism.transform is None else counts
    return by_size(sizes, lambda x: mechanism.mean_error(Cell(x))[1])


def by_size(
    sizes: Integers,
    error: Callable[[int], float],
) -> Array:
    """An error that depends on a size alone: exact at many sizes, interpolated between them."""
    at = SIZES[: int(np.searchsorted(SIZES, sizes.max(initial=0))) + 1]
    known = np.array([error(int(x)) for x in at])
    finite = np.isfinite(known)
    errors: Array = np.interp(sizes, at, np.where(finite, known, 0.0))
    errors[np.interp(sizes, at, ~finite) > 0] = np.inf
    return errors


def contenders(
    workload: Workload, cells: int, alpha: Fraction | None, epsilon: Fraction
) -> Iterator[Contender]:
    """Everyone who may take part in a workload with so many worker cells, at one alpha and epsilon.

    Without an alpha: those that have none.  A mechanism that does not exist there is left out, as
    in the papers.
    """
    touched = cells > 1 or workload.worker_values is not None
    if alpha is None:
        for theta in THETAS:
            yield Truncated(
                f"truncated-laplace-{theta}",
                0.0,
                calibrate("truncated-laplace", Guarantee(NODE, epsilon), {"theta": theta}),
            )
        yield Single("edge-geometric", 0.0, mechanism("edge-geometric", epsilon=epsilon), False)
        yield from _own(None, epsilon, workload.strong, touched)
        return
    shares = cells if workload.paying == "together" else 1
    each, strong = epsilon / shares, workload.strong and touched
    together = workload.paying == "together" and cells > 1
    for name in (*PUBLISHED, *(OURS[:-1] if together else OURS)):
        made = _single(name, alpha, epsilon, each, workload.strong, touched)
        if made is not None:
            delta = shares * _true_delta(alpha, each) if name == "smooth-laplace" else 0.0
            yield Single(name, min(delta, 1.0), made, strong)
    yield from _own(alpha, each, workload.strong, touched, shares)
    if together:
        yield from _vectors(workload, cells, alpha, epsilon)


def _vectors(
    workload: Workload, cells: int, alpha: Fraction, epsilon: Fraction
) -> Iterator[Contender]:
    relation = Strong(alpha) if workload.strong else Weak(alpha, ["type"])
    guarantee = Guarantee(relation, epsilon)
    own = (name for name in own_mechanisms() if kind_of(name).together)
    for name in (*VECTOR_MECHANISMS, *own):
        try:
            chosen = calibrate(name, guarantee, {"cells": cells})
        except Refusal:
            continue
        yield Together(name, 0.0, chosen)
    try:
        chosen = automatic_vector(guarantee, cells)[0]
    except Refusal:
        return
    yield Together("auto", 0.0, chosen)
    if (alpha, epsilon) not in SHRUNK_AT or cells > MOST_SHRUNK:
        return
    if workload.strong and can_be_shrunk(chosen):
        yield Shrunk("auto-shrunk", 0.0, chosen, workload.worker_shape)


def _own(
    alpha: Fraction | None, epsilon: Fraction, strong: bool, touched: bool, shares: int = 1
) -> Iterator[Contender]:
    """Mechanisms of others for single cells, wherever they can be calibrated."""
    for name in own_mechanisms():
        kind = kind_of(name)
        try:
            has_alpha = hasattr(kind.relation(alpha), "alpha")
            if kind.together or has_alpha != (alpha is not None):
                continue
            made = mechanism(name, alpha=alpha, epsilon=epsilon)
            made.statistics(worker_attributes=touched and strong)
        except Refusal:
            continue
        delta = min(float(shares * made.guarantee.delta), 1.0)
        if made.bound is not None:
            yield Truncated(name, delta, made)
        else:
            yield Single(name, delta, made, strong and touched)


def _single(
    name: str, alpha: Fraction, epsilon: Fraction, each: Fraction, strong: bool, touched: bool
) -> Mechanism | None:
    """A mechanism for one cell, or None where it may not take part."""
    if name == "smooth-laplace" and float(kind_of(name).default_delta(alpha, epsilon)) > MOST_DELTA:
        return None
    try:
        made = mechanism(name, alpha=alpha, epsilon=each)
        if strong:  # refused where it has no guarantee
            made.statistics(worker_attributes=touched)
        if not np.isfinite(made.mean_error(Cell(1))[0]):
            return None
        return made
    except Refusal:
        return None


@lru_cache(maxsize=256)
def _true_delta(alpha: Fraction, epsilon: Fraction) -> float:
    """The delta that Smooth Laplace as published really has, from its probabilities."""
    try:
        return mechanism("smooth-laplace", alpha=alpha, epsilon=epsilon).certify().found_delta
    except Refusal:
        return 1.0
