"""A cube after noise was added: public, because nothing confidential is left in it.

What is made of it (a calibration, a model of variances, a table) costs nothing.  Employment is held
as whole thousandths of a job, so that sums are exact to the last digit; variances are in squared
thousandths.  Files say both in jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.policy.protected import Protected
from eree.random.exact import Whole
from eree.survey.bounds import By
from eree.survey.calibrate.controls import Control
from eree.survey.calibrate.rounding import LIMIT
from eree.survey.shape import Shape

Variances = NDArray[np.float64]


@dataclass(frozen=True)
class NoisyTotal:
    """A noisy sum of squares, in squared thousandths of a job, and the variance of its noise."""

    name: str
    noisy: int
    noise_variance: float


@dataclass(frozen=True)
class NoisyCube:
    """The cells of a cube with noise, and everything else that was paid for.

    `kept` says which cells are published, where not all that can be are; all others hold 0.
    `noise_variance` is the variance of the noise of every kept cell.
    """

    shape: Shape
    cells: Whole = field(repr=False)
    noise_variance: float
    controls: tuple[Control, ...] = ()
    totals: tuple[NoisyTotal, ...] = ()
    kept: NDArray[np.bool_] | None = field(default=None, repr=False)

    @property
    def present(self) -> NDArray[np.bool_] | None:
        """Which cells have a row in the release; None where all have."""
        return self.shape.possible if self.kept is None else self.kept


class SurveySums(Protocol):
    """Confidential sums over the records of a cube, of weights in thousandths of a job."""

    @property
    def records(self) -> int:
        """How many records there are."""

    @property
    def weight(self) -> int:
        """The sum of their weights."""

    @property
    def squares(self) -> int:
        """The sum of the squares of their weights."""

    @property
    def establishment_squares(self) -> int:
        """The sum of the squares of the total weights of establishments."""


class SurveyCube(Protocol):
    """A confidential cube, as far as protecting it asks for one.

    Weighted employment is in thousandths of a job.  Weights are trimmed to `most_weight`, each for
    itself; of an establishment at most `most_records` are in the cube, whatever others there are.
    """

    @property
    def shape(self) -> Shape:
        """The public shape."""

    @property
    def unweighted(self) -> Whole:
        """How many records a cell has."""

    @property
    def weighted(self) -> Whole:
        """The sum of their weights."""

    @property
    def most_weight(self) -> int | None:
        """The public bound of weights."""

    @property
    def most_records(self) -> int | None:
        """The public bound of the records of an establishment."""

    @property
    def protects(self) -> Protected:
        """What the survey declares to be protected."""

    @property
    def sums(self) -> SurveySums:
        """Sums over its records."""


def possible_of(shape: Shape, by: By) -> NDArray[np.bool_] | None:
    """Which cells of a table have a cell of the cube that can be; None where all have."""
    if shape.possible is None:
        return None
    axes = shape.axes(by)
    others = tuple(axis for axis in range(len(shape.variables)) if axis not in axes)
    kept = sorted(axes)
    found = np.asarray(shape.possible.any(axis=others))
    found = found.transpose([kept.index(axis) for axis in axes]).copy()
    return None if found.all() else found


def check_controls(shape: Shape, controls: Sequence[By]) -> None:
    """Refuse control tables that are none of this cube."""
    for by in controls:
        shape.axes(by)
        if len(set(by)) < len(by):
            raise Refusal("a control table names variables of the cube, each once")
    if len({frozenset(by) for by in controls}) < len(controls):
        raise Refusal("two control tables have the same variables; name each once")


def with_noise(
    truth: Whole, possible: NDArray[np.bool_] | None, draw: Callable[[int], Whole]
) -> Whole:
    """Add noise where a cell can be; what lies beyond the limit is set to it."""
    noisy = np.zeros(truth.shape, dtype=np.int64)
    if possible is None:
        np.add(truth, draw(truth.size).reshape(truth.shape), out=noisy)
    else:
        noisy[possible] = truth[possible] + draw(int(possible.sum()))
    return np.clip(noisy, -LIMIT, LIMIT, out=noisy)
