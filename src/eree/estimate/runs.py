"""Sums of cells of groups that are added up run by run, of one table or of several at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from eree.random.exact import Array, Integers


class Runs(Protocol):
    """Groups that are added up, run by run, with some `numbers` of cells of each."""

    @property
    def numbers(self) -> Integers:
        """How many cells of a group each kind of sum has."""

    @property
    def groups_of_runs(self) -> Integers:
        """How many groups each run has."""

    def members(self, runs: NDArray[np.bool_]) -> tuple[Integers, Integers]:
        """The groups of some runs, run by run, and where each of these begins."""


class SumsOfRuns(Protocol):
    """Sums of cells, a row for each run and a column for each kind.

    `of_runs` is what moments need, added up over the groups of each run.
    """

    @property
    def sums(self) -> Runs:
        """What is added up."""

    @property
    def table(self) -> Integers:
        """The sums."""

    @property
    def of_runs(self) -> Array | None:
        """The moments."""


def members(
    several: Sequence[tuple[SumsOfRuns, int]], chosen: NDArray[np.bool_]
) -> tuple[Integers, Integers]:
    """The groups of some runs of several tables, and where each of these begins."""
    groups, starts, at, size = [], [], 0, 0
    for one, _ in several:
        own, first = one.sums.members(chosen[at : at + len(one.table)])
        groups.append(own)
        starts.append(first + size)
        at, size = at + len(one.table), size + len(own)
    return np.concatenate(groups), np.concatenate(starts)
