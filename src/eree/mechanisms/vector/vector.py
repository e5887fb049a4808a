"""Vector mechanisms: all worker cells of a workplace cell protected together, and paid for once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, nextafter
from operator import index
from typing import Self

import numpy as np
from flint import arb

from eree.cells import Group
from eree.errors import Refusal, integer
from eree.mechanisms.certificate import Certificate, WorstPair, upper
from eree.mechanisms.mechanism import Mechanism
from eree.mechanisms.parameters import alpha_of
from eree.policy.guarantee import Guarantee
from eree.random.exact import Integers, exactly
from eree.random.source import Random


@dataclass(frozen=True)
class VectorMechanism(Mechanism):
    """A joint distribution of the noisy counts of a group: all `cells` of one workplace cell.

    Groups hold different workplaces, so all groups together cost what one does.  `tail`, `pmf`,
    `quantile` and `expected_error` speak of one cell of a group, `joint_pmf` of all of them; its
    probabilities are those before outputs beyond 2^61 are set to it.
    """

    cells: int
    together = True

    @property
    def at_once(self) -> int:
        """All cells of a group."""
        return self.cells

    @classmethod
    @abstractmethod
    def calibrate(cls, guarantee: Guarantee, *, cells: int = 1) -> Self:
        """The least noise of this kind that keeps a guarantee for groups of so many cells."""

    @abstractmethod
    def statistics(self, *, worker_attributes: bool = True) -> tuple[str, ...]:
        """The statistics that a draw needs: the count of each cell, and one number of the group."""

    @abstractmethod
    def group_pmf(self, group: Group, outputs: Sequence[int]) -> arb:
        """The probability of all outputs of a group."""

    @property
    def alpha(self) -> Fraction:
        """The share by which a workplace may grow in one step."""
        return alpha_of(self.guarantee, self.name)

    def draw(
        self, counts: Integers, largests: Integers | None = None, *, random: Random
    ) -> Integers:
        """Noisy counts of groups: `counts` and the result have a row per group.

        `largests` has one number per group, or that number for each of its cells, where
        `statistics` asks for one.
        """
        counts = np.asarray(counts)
        if counts.ndim != 2 or counts.shape[1] != self.cells:
            raise Refusal(
                f"{self.name} was calibrated for groups of {self.cells} cells: counts need a row"
                f" per workplace cell and {self.cells} columns"
            )
        if largests is None and len(self.statistics()) > 1:
            raise Refusal(f"{self.name} needs {self.statistics()[1]} of every group")
        if largests is not None:
            largests = np.asarray(largests)
            if largests.shape == counts.shape[:1]:
                largests = np.repeat(largests, self.cells)
            each = largests.reshape(counts.shape) if largests.size == counts.size else None
            if each is None or (each != each[:, :1]).any():
                raise Refusal(f"every group needs one {self.statistics()[-1]}")
        return super().draw(counts, largests, random=random)

    def draw_outputs(self, counts: Integers, largests: Integers, random: Random) -> Integers:
        """Cell after cell; each group has its number once for every cell."""
        groups = counts.reshape(-1, self.cells)
        return self.draw_groups(groups, largests[:: self.cells], random).reshape(-1)

    @abstractmethod
    def draw_groups(self, counts: Integers, largests: Integers, random: Random) -> Integers:
        """Outputs of groups before those beyond the limit are set to it."""

    def joint_pmf(self, group: Group, outputs: Sequence[int]) -> arb:
        """The probability of all outputs of a group, as a ball at the precision that is set."""
        if not len(outputs) == len(group.counts) == self.cells:
            raise Refusal(f"{self.name} was calibrated for groups of {self.cells} cells")
        return self.group_pmf(group, [*map(index, outputs)])

    def joint_log_pmf(self, group: Group, outputs: Sequence[int]) -> float:
        """The logarithm of the probability of all outputs of a group."""
        with exactly():
            probability = self.joint_pmf(group, outputs)
            return float(probability.log()) if probability > 0 else -inf


def group_size(name: str, cells: int, most: int) -> int:
    """A number of cells, checked; `most` is how many a mechanism can protect in reasonable time."""
    return integer(cells, f"{name} protects groups of 1 to {most:,} cells", 1, most)


@dataclass(frozen=True)
class GroupPair(WorstPair):
    """Two neighbouring groups and the outputs that tell them apart best, of those looked at.

    `output` is the sum of the outputs.
    """

    outputs: tuple[int, ...] = ()

    @classmethod
    def between(cls, before: Group, after: Group, outputs: Iterable[int], loss: float) -> Self:
        """A pair with its outputs."""
        outputs = tuple(outputs)
        return cls(before, after, sum(outputs), loss, outputs=outputs)


@dataclass(frozen=True)
class VectorCertificate(Certificate):
    """A certificate of a vector mechanism: it holds for all cells of a group together."""

    def words(self) -> list[str]:
        """What was found, for people to read."""
        pair = self.worst_pair
        outputs = pair.outputs if isinstance(pair, GroupPair) else (pair.output,)
        last = (
            f"  worst pair seen: ({pair.before.words()}) and ({pair.after.words()}),"
            f" outputs {', '.join(map(str, outputs))}: {pair.loss:.7g}"
        )
        return [*super().words()[:-1], last]


def loss_of(old: arb, new: arb) -> float:
    """The loss of two probabilities of the same outputs, rounded down."""
    if not (old > 0 and new > 0):
        return inf if old > 0 or new > 0 else 0.0
    least = -upper(-abs((old / new).log()))
    return max(nextafter(float(least), -inf), 0.0)


def worst_groups(
    mechanism: VectorMechanism, candidates: Iterable[tuple[Group, Group, Iterable[tuple[int, ...]]]]
) -> GroupPair:
    """The pair and outputs with the greatest loss among some, from joint probabilities alone."""

    def pair(before: Group, after: Group, outputs: tuple[int, ...]) -> GroupPair:
        old, new = (mechanism.joint_pmf(group, outputs) for group in (before, after))
        return GroupPair.between(before, after, outputs, loss_of(old, new))

    with exactly():
        found = [pair(before, after, row) for before, after, rows in candidates for row in rows]
    return max(found, key=lambda one: one.loss)
