"""Control totals: low-dimensional tables, known better than the sums of the noisy cells.

And the sums of a dense cube that they control, with the way back, fast for millions of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import isfinite, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.survey.shape import By, Integers, Shape

#: Trailing axes are taken together up to about as many cells: long inner loops, small factors.
_BLOCK = 4096
#: The same for the last of the sums, where loops may be shorter.
_INNER = 64
#: Places of at most so many cells are kept in memory.
_REMEMBERED = 1 << 20


@dataclass(frozen=True)
class CubeMarginal:
    """The sums of a cube of some levels over all axes but `kept`, which are in rising order."""

    levels: tuple[int, ...]
    kept: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The levels of the axes that are kept."""
        return tuple(self.levels[axis] for axis in self.kept)

    @cached_property
    def _leading(self) -> int:
        """How many axes come before the block of trailing axes."""
        leading, block = len(self.levels), 1
        while leading and block * self.levels[leading - 1] <= _BLOCK:
            leading -= 1
            block *= self.levels[leading]
        return leading

    def sums(self, cells: NDArray[Any]) -> NDArray[Any]:
        """The sums of all cells with the same values on the axes that are kept."""
        now = np.asarray(cells)
        for shape, dropped in _steps(self.levels, self.kept):
            now = np.add.reduce(now.reshape(shape), axis=dropped)
        return now.reshape(self.shape)

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the marginal as an array that multiplies or adds to `wide` of a cube."""
        if self._places is not None:
            return np.asarray(values).take(self._places)
        return self._filled(np.asarray(values))

    @cached_property
    def _places(self) -> NDArray[np.intp] | None:
        """For every cell that `spread` fills its place in the table, unless they are too many."""
        places = np.arange(prod(self.shape))
        block = self.levels[self._leading :]
        return self._filled(places) if places.size * prod(block) <= _REMEMBERED else None

    def _filled(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values repeated along the block of trailing axes, unless all of it has the same."""
        leading = self._leading
        thin = values.reshape(
            [level if axis in self.kept else 1 for axis, level in enumerate(self.levels)]
        )
        lead, trail = thin.shape[:leading], self.levels[leading:]
        if not any(axis >= leading for axis in self.kept):
            return thin.reshape(*lead, 1)
        whole = np.broadcast_to(thin, (*lead, *trail))
        return np.ascontiguousarray(whole).reshape(*lead, prod(trail))

    def wide(self, cells: NDArray[Any]) -> NDArray[Any]:
        """A view of a whole cube in the shape that `spread` fits."""
        leading = self._leading
        return cells.reshape(*self.levels[:leading], prod(self.levels[leading:]))

    def scale(self, cells: NDArray[Any], factor: NDArray[Any]) -> None:
        """Multiply all cells by the factor that the marginal has for them."""
        view = self.wide(cells)
        view *= self.spread(factor)

    def at(self, places: NDArray[np.intp]) -> SparseMarginal:
        """The marginal of some cells, named by their places in the flat cube; all others are 0."""
        codes = np.unravel_index(places, self.levels)
        kept = tuple(codes[axis] for axis in self.kept)
        home = np.ravel_multi_index(kept, self.shape) if kept else np.zeros_like(places)
        return SparseMarginal(np.asarray(home), self.shape)


@lru_cache(maxsize=1 << 12)
def _steps(
    levels: tuple[int, ...], kept: tuple[int, ...]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Shapes and axes to sum over, in turn: outer axes first, over long inner runs."""
    found, left = [], list(enumerate(levels))
    for block in (_BLOCK, _INNER, 1):
        inner = len(left)
        while inner and prod(level for _, level in left[inner - 1 :]) <= block:
            inner -= 1
        groups: list[tuple[bool, int]] = []  # neighbours of one kind are one axis
        for axis, level in left[:inner]:
            stays = axis in kept
            if groups and groups[-1][0] == stays:
                level *= groups.pop()[1]
            groups.append((stays, level))
        dropped = tuple(k for k, (stays, _) in enumerate(groups) if not stays)
        if dropped:
            rest = prod(level for _, level in left[inner:])
            found.append(((*(level for _, level in groups), rest), dropped))
            left = [pair for k, pair in enumerate(left) if k >= inner or pair[0] in kept]
    return found


@dataclass(frozen=True, eq=False)
class SparseMarginal:
    """A marginal of a cube of which only a few cells, in a flat array, are not 0."""

    places: NDArray[np.intp]
    shape: tuple[int, ...]

    def sums(self, cells: NDArray[Any]) -> NDArray[Any]:
        """The sums of all cells with the same values on the axes that are kept."""
        found = np.bincount(self.places, weights=cells, minlength=prod(self.shape))
        return found.reshape(self.shape)

    def scale(self, cells: NDArray[Any], factor: NDArray[Any]) -> None:
        """Multiply all cells by the factor that the marginal has for them."""
        cells *= factor.take(self.places)


@dataclass(frozen=True)
class ControlNoise:
    """What is public about a control table before it is drawn: variables and noise variance.

    The variance is that of each of its cells, in thousandths of a job squared; 0 for totals
    without noise, which are not private.
    """

    variables: tuple[str, ...]
    variance: float

    def __post_init__(self) -> None:
        if not (isfinite(self.variance) and self.variance >= 0):
            raise Refusal("the noise variance of a control table must be a number, 0 or more")
        if len(set(self.variables)) < len(self.variables):
            raise Refusal("a control table names each of its variables once")

    def marginal(self, shape: Shape) -> CubeMarginal:
        """The marginal of a cube that the table controls."""
        return CubeMarginal(shape.levels, tuple(sorted(shape.axes(self.variables))))


@dataclass(frozen=True, eq=False, repr=False)
class Control:
    """A control table.

    One that was not noised is there only where a cube is protected as published.

    Args:
        variables: Its variables; without any it is the total.
        values: Its cells in thousandths of a job, the axes in the order of `variables`.
        variance: That of their noise; 0 where there is none.

    Examples:
        >>> eree.Control(["licence"], [60_000, 40_000], variance=5_000).exact
        False
    """

    variables: tuple[str, ...]
    values: Integers
    variance: float

    def __init__(self, variables: Sequence[str], values: NDArray[Any], variance: float) -> None:
        object.__setattr__(self, "variables", tuple(variables))
        object.__setattr__(self, "values", np.asarray(values))
        object.__setattr__(self, "variance", float(variance))
        if self.values.dtype != np.int64:
            raise Refusal("control totals are integer thousandths of a job, as int64")
        _ = self.noise

    @property
    def noise(self) -> ControlNoise:
        """The public part."""
        return ControlNoise(self.variables, self.variance)

    @property
    def exact(self) -> bool:
        """Whether it is confidential truth, published without noise."""
        return self.variance == 0

    def in_order(self, shape: Shape) -> Integers:
        """The values with axes in the order of the cube's."""
        axes = shape.axes(self.variables)
        expected = tuple(shape.levels[axis] for axis in axes)
        if self.values.shape != expected:
            raise Refusal(
                f"the control table by {', '.join(self.variables) or 'nothing'} needs the shape "
                f"{expected} of its variables"
            )
        return np.array(self.values.transpose(np.argsort(axes)), order="C")  # a total has no axis

    def __repr__(self) -> str:
        return f"Control({self.variables!r}, variance={self.variance!r})"


def check_controls(shape: Shape, controls: Sequence[By]) -> None:
    """Refuse control tables that are none of this cube."""
    for by in controls:
        shape.axes(by)
        if len(set(by)) < len(by):
            raise Refusal("a control table names variables of the cube, each once")
    if len({frozenset(by) for by in controls}) < len(controls):
        raise Refusal("two control tables have the same variables; name each once")
