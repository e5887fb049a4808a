"""What groups of workplaces may be like: sizes and totals on a grid, by class of groups.

A class holds groups of which the same is known: about as many workplaces, or the same noisy bound.

Classes of groups by the variance of their noise: what estimates have to know of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.mechanisms.mechanism import Mechanism
from eree.random.exact import Array, Integers


def can_be_shrunk(mechanism: Mechanism) -> bool:
    """Whether the noisy counts of a mechanism can be shrunk."""
    return mechanism.at_once > 1 and mechanism.transform is None


def classes_for(
    mechanism: Mechanism,
    noisy: Integers,
    workplaces: Integers,
    bounds: Integers | None = None,
    of_totals: Mechanism | None = None,
) -> Classed:
    """Classes of groups for the noise of a mechanism; `bounds` are those of a first stage.

    `of_totals` is the mechanism of another table that has the totals of the same groups.
    """
    if not mechanism.together or mechanism.transform is not None:
        raise Refusal(f"the noise of {mechanism.name} cannot be shrunk")
    if bounds is not None:
        return by_bounds(bounds, workplaces, mechanism.variance)
    totals = None if of_totals is None else of_totals.variance
    return by_workplaces(noisy, workplaces, mechanism.variance, totals)


#: The variance of noise by the size of the largest workplace.
_BySize = Callable[[float], float]
#: From one size of the grid to the next.
STEP = 1.35
#: Sizes below the first step.
_SMALL = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0)
#: Ratios of all workers to those of the largest workplace, from 1 to the number of workplaces.
_RATIOS = 8
#: A noisy bound is at most so many steps above the largest workplace.
_BELOW = 8


@dataclass(frozen=True)
class Grid:
    """Sizes x of the largest workplace and totals n that groups of a class may have.

    `squares` is the sum of the squared sizes of all workplaces, `spread` the variance of a total
    around its point, `noise` that of the noise of one cell, and `total_noise` that of a total that
    another table has.
    """

    x: Array
    n: Array
    squares: Array
    spread: Array
    noise: Array
    total_noise: Array

    @classmethod
    def of(
        cls, sizes: Sequence[float], workplaces: float, noise: _BySize, totals: _BySize | None
    ) -> Grid:
        """Points with these largest workplaces, for groups of about so many workplaces.

        The other workplaces are taken to fall in size like 1/2, 1/3, 1/4, ... of the largest.
        """
        ranks = np.arange(1, int(workplaces) + 1)
        ratios = np.unique(workplaces ** (np.arange(_RATIOS) / (_RATIOS - 1)))
        x, ratio = (a.ravel() for a in np.meshgrid(np.array(sizes), ratios, indexing="ij"))
        n = x * ratio
        like = ((1 / ranks**2).sum() - 1) / max((1 / ranks).sum() - 1, 1e-9)
        step = max(STEP, float(ratios[-1]) ** (1 / (_RATIOS - 1)))
        spread = (n * (step - 1) / 2) ** 2 + 0.3
        own, others = (
            np.repeat([0.0 if by_size is None else by_size(size) for size in sizes], len(ratios))
            for by_size in (noise, totals)
        )
        return cls(x, n, x**2 + (n - x) * x * like, spread, own, others)

    def only(self, chosen: NDArray[np.intp]) -> Grid:
        """Some of the points."""
        columns = (self.x, self.n, self.squares, self.spread, self.noise, self.total_noise)
        return Grid(*(column[chosen] for column in columns))

    @property
    def scales(self) -> Array:
        """What the covariances of workplaces and of the whole group are multiplied by."""
        return np.stack([np.maximum(self.squares - self.n, 0.0), self.n**2])


@dataclass(frozen=True)
class Classed:
    """The class of every group, and the grid of every class."""

    classes: Integers
    grids: Sequence[Grid]


def by_workplaces(
    noisy: Integers, workplaces: Integers, noise: _BySize, totals: _BySize | None = None
) -> Classed:
    """Classes of 1, 2 to 3, 4 to 7 workplaces and so on; `noise` has its variance by the size x."""
    sizes = list(_SMALL)
    largest = 2 * max(float(noisy.sum(1).max(initial=0)), 10.0)
    while sizes[-1] < largest:
        sizes.append(sizes[-1] * STEP)
    known = {size: noise(size) for size in sizes}.__getitem__
    other = None if totals is None else {size: totals(size) for size in sizes}.__getitem__
    octaves = np.floor(np.log2(np.maximum(workplaces, 1) + 0.5)).astype(np.int64)
    distinct, classes = np.unique(octaves, return_inverse=True)
    grids = [
        Grid.of(sizes, float(np.median(workplaces[classes == c])), known, other)
        for c in range(len(distinct))
    ]
    return Classed(classes, grids)


def by_bounds(bounds: Integers, workplaces: Integers, noise: _BySize) -> Classed:
    """Classes of groups whose workplaces were scaled to about the same noisy bound T.

    `noise` has its variance by T.  Counts are those after scaling, in which no workplace has more
    than T workers: what scaling took away is not estimated.
    """
    steps = np.rint(np.log(np.maximum(bounds, 1)) / np.log(STEP)).astype(np.int64)
    distinct, classes = np.unique(steps, return_inverse=True)
    grids = []
    for c, step in enumerate(distinct.tolist()):
        bound = STEP**step
        sizes = [0.0, *(bound / STEP**below for below in range(_BELOW, -1, -1))]
        many, variance = float(np.median(workplaces[classes == c])), noise(bound)
        grids.append(Grid.of(sizes, many, dict.fromkeys(sizes, variance).__getitem__, None))
    return Classed(classes, grids)
