"""Small surveys for the tests of protection, counted record by record as the definition says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eree.policy.protected import Protected, protected_records
from eree.survey.shape import Impossible, Shape, Variable

Integers = NDArray[np.int64]
#: What is declared of every survey here.
PROTECTS = protected_records("data", "record_id", "establishment_id")


class Record(NamedTuple):
    """A record: its weight is in thousandths of a job, its cell a number in the dense order."""

    establishment: int
    cell: int
    weight: int


@dataclass(frozen=True)
class Sums:
    records: int
    weight: int
    squares: int
    establishment_squares: int


@dataclass(frozen=True, eq=False)
class Cube:
    """What protection asks of a confidential cube, and nothing else."""

    shape: Shape
    protects: Protected
    unweighted: Integers
    weighted: Integers
    sums: Sums
    most_weight: int | None
    most_records: int | None


def shape(*levels: int, impossible: Sequence[Impossible] = ()) -> Shape:
    """Variables a, b, … with so many codes each."""
    variables = []
    for name, level in zip("abcdefghijkl", levels, strict=False):
        codes = tuple(f"{name}{i}" for i in range(level))
        labels = tuple(f"Answer {i} to {name}" for i in range(level))
        variables.append(Variable(name, f"Question {name}", codes, labels))
    return Shape(tuple(variables), tuple(impossible))


def count(
    records: Sequence[Record],
    of: Shape,
    most_weight: int | None = None,
    most_records: int | None = None,
) -> Cube:
    """The cube of some records, which are in the order of their ids."""
    kept: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        if most_records is None or len(kept[record.establishment]) < most_records:
            weight = record.weight if most_weight is None else min(record.weight, most_weight)
            kept[record.establishment].append(record._replace(weight=weight))
    all_kept = [record for group in kept.values() for record in group]
    unweighted, weighted = (np.zeros(prod(of.levels), dtype=np.int64) for _ in range(2))
    for record in all_kept:
        unweighted[record.cell] += 1
        weighted[record.cell] += record.weight
    weights = [record.weight for record in all_kept]
    totals = [sum(record.weight for record in group) for group in kept.values()]
    sums = Sums(len(weights), sum(weights), sum(w * w for w in weights), sum(t * t for t in totals))
    arrays = unweighted.reshape(of.levels), weighted.reshape(of.levels)
    return Cube(of, PROTECTS, *arrays, sums, most_weight, most_records)


def survey(seed: int, of: Shape, records: int, most_weight: int = 2_000_000) -> list[Record]:
    """Synthetic records, five to an establishment, in cells that can be."""
    random = np.random.default_rng(seed)
    possible = np.arange(of.size) if of.possible is None else np.flatnonzero(of.possible)
    return [
        Record(i // 5, int(random.choice(possible)), int(random.integers(1, most_weight + 1)))
        for i in range(records)
    ]


def table_of(cells: Integers, of: Shape, by: Sequence[str]) -> Integers:
    """A table by some variables, as a sum over all other axes."""
    letters = "abcdefghijkl"[: cells.ndim]
    kept = "".join(letters[axis] for axis in of.axes(by))
    return np.asarray(np.einsum(f"{letters}->{kept}", cells))
