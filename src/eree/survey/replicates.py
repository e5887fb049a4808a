"""Successive difference replication: the sampling variance of a survey from replicate weights.

Unit i, in the order in which the sample was drawn, has two rows of a Hadamard matrix, and in
replicate r its weight times

    1 + 2^(-3/2) (a[first(i), r] - a[second(i), r]),

which is 1.7, 1 or 0.3.  The variance of any estimate is 4 / R times the sum of its squared
differences over the R replicates.  Units are what the first stage of the sample drew: records, or
establishments, all records of which have the same two rows.  Everything here is confidential.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.survey.checked import Survey
from eree.survey.cube import Cube, build_cube, first_records
from eree.survey.shape import By, Integers, Reals, Shape
from eree.workload import JOB

#: The number of replicates of the American Community Survey.
REPLICATES = 80
#: Successive differences need as many rows as this.
MINIMUM_ORDER = 4
#: Orders beyond this are not looked for.
LARGEST_ORDER = 1_000


@lru_cache(maxsize=4)
def hadamard(order: int) -> NDArray[np.int8]:
    """A matrix of 1 and -1 of some order whose rows are orthogonal; its first row is all 1.

    Made by doubling (Sylvester) and from squares in a finite field (Paley, both kinds).
    """
    if order > LARGEST_ORDER or order < 1 or (order > 2 and order % 4):
        raise Refusal(
            f"there is no Hadamard matrix of order {order} here; take 80, or another multiple of 4"
        )
    found = _constructed(order)
    if found is None:
        near = [k for k in range(4, LARGEST_ORDER + 1, 4) if _constructible(k)]
        best = min(near, key=lambda k: abs(k - order))
        raise Refusal(f"no Hadamard matrix of order {order} is known here; {best} is the nearest")
    # signs of columns, so that the first row is all 1
    found = np.asarray(found * found[0], dtype=np.int8)
    found.flags.writeable = False
    return found


def _constructible(order: int) -> bool:
    if order <= 2:
        return order >= 1
    if order % 4:
        return False
    return (
        _prime(order - 1) or (order // 2 % 2 == 0 and _constructible(order // 2)) or _second(order)
    )


def _second(order: int) -> bool:
    """Whether the second kind of Paley applies: a field of order / 2 - 1 elements."""
    size = order // 2 - 1
    return size % 4 == 1 and (_prime(size) or (_prime(isqrt(size)) and isqrt(size) ** 2 == size))


def _constructed(order: int) -> NDArray[np.int8] | None:
    if order == 1:
        return np.ones((1, 1), dtype=np.int8)
    if order == 2:
        return np.array([[1, 1], [1, -1]], dtype=np.int8)
    if not _constructible(order):
        return None
    if _prime(order - 1):
        core = np.zeros((order, order), dtype=np.int8)
        core[0, 1:], core[1:, 0] = 1, -1
        core[1:, 1:] = _residues(order - 1)
        return core + np.eye(order, dtype=np.int8)
    half = _constructed(order // 2)
    if half is not None:
        return np.kron(np.array([[1, 1], [1, -1]], dtype=np.int8), half)
    size = order // 2 - 1
    core = np.ones((size + 1, size + 1), dtype=np.int8)
    core[0, 0] = 0
    core[1:, 1:] = _residues(size) if _prime(size) else _residues_of_pairs(isqrt(size))
    plus, stand = np.array([[1, 1], [1, -1]]), np.array([[1, -1], [-1, -1]])
    found = np.kron(core, plus) + np.kron(np.eye(size + 1, dtype=np.int8), stand)
    return found.astype(np.int8)


def _prime(number: int) -> bool:
    return number > 1 and all(number % k for k in range(2, int(number**0.5) + 1))


def _signs(prime: int) -> NDArray[np.int8]:
    """For every residue 1 if it is a square, -1 if it is none, and 0 for 0."""
    signs = np.full(prime, -1, dtype=np.int8)
    signs[np.arange(1, prime) ** 2 % prime] = 1
    signs[0] = 0
    return signs


def _residues(prime: int) -> NDArray[np.int8]:
    """At i, j: 1 where i - j is a square, -1 where it is none, 0 on the diagonal."""
    places = np.arange(prime)
    return np.asarray(_signs(prime)[(places[:, None] - places[None, :]) % prime])


def _residues_of_pairs(prime: int) -> NDArray[np.int8]:
    """The same in the field of a + b t, where t² is no square: a square has a norm that is one."""
    signs = _signs(prime)
    other = int(np.flatnonzero(signs == -1)[0])
    a, b = np.divmod(np.arange(prime * prime), prime)
    norm = (a[:, None] - a[None, :]) ** 2 - other * (b[:, None] - b[None, :]) ** 2
    return np.asarray(signs[norm % prime])


def row_pairs(records: int, replicates: int = REPLICATES) -> tuple[NDArray[np.intp], ...]:
    """The two rows of every record, as in the American Community Survey.

    Rows 1 to R - 1 are walked through in cycles, the row of all 1 left out: in the first cycle
    neighbours share a row, (1, 2), (2, 3), …, (R - 1, 1); in the next ones the step from the first
    to the second row is longer, as long as it has no divisor in common with R - 1, so that each
    cycle is one chain through all rows.
    """
    rows = replicates - 1
    steps = [step for step in range(1, rows) if np.gcd(step, rows) == 1]
    cycle, place = np.divmod(np.arange(records), rows)
    step = np.array(steps)[cycle % len(steps)]
    first = place * step % rows
    return first + 1, (first + step) % rows + 1


def in_order(units: NDArray[np.integer[Any]]) -> NDArray[np.intp]:
    """The number of every record's unit, from 0 on, in the order of their first records."""
    _, firsts, numbers = np.unique(units, return_index=True, return_inverse=True)
    turns = np.empty(len(firsts), dtype=np.intp)
    turns[np.argsort(firsts)] = np.arange(len(firsts))
    return np.asarray(turns[numbers])


def successive_factors(
    replicates: int, replicate: int, first: NDArray[np.intp], second: NDArray[np.intp]
) -> Reals:
    """What the weights of records are multiplied by in one replicate, from their two rows."""
    column = hadamard(replicates)[:, replicate].astype(np.float64)
    return np.asarray(1 + 2**-1.5 * (column[first] - column[second]))


@dataclass(frozen=True, eq=False)
class Replicates:
    """Weights of a sample and their replicates, one row for each replicate; confidential.

    `coefficient` times the sum of squared differences over replicates is a variance: 4 / R for
    successive differences and for Fay's method with a factor of 1/2, 1 / R for balanced half
    samples, (R - 1) / R for the jackknife.
    """

    weights: Reals = field(repr=False)
    factors: Callable[[int], Reals] = field(repr=False)
    replicates: int
    coefficient: float

    @classmethod
    def successive(
        cls,
        weights: Reals,
        replicates: int = REPLICATES,
        units: NDArray[np.integer[Any]] | None = None,
    ) -> Replicates:
        """Successive difference replicates of records in the order in which they were drawn.

        `units` names the unit of the first stage of every record, such as its establishment; all
        records of one share its rows.  Units take their turns in the order in which the first
        record of each stands.  Without it every record is one.
        """
        if replicates < MINIMUM_ORDER:
            raise Refusal(f"successive differences need {MINIMUM_ORDER} replicates or more")
        hadamard(replicates)  # refused now, if at all
        turns = np.arange(len(weights)) if units is None else in_order(units)
        if len(turns) != len(weights):
            raise Refusal("every record needs the unit that it was drawn with")
        first, second = (rows[turns] for rows in row_pairs(len(weights), replicates))

        def factors(replicate: int) -> Reals:
            return weights * successive_factors(replicates, replicate, first, second)

        return cls(np.asarray(weights, dtype=np.float64), factors, replicates, 4 / replicates)

    @classmethod
    def given(cls, weights: Reals, replicate_weights: Reals, coefficient: float) -> Replicates:
        """Replicate weights that came with the data, one row for each replicate."""
        held = np.asarray(replicate_weights, dtype=np.float64)
        if held.ndim != 2 or held.shape[1] != len(weights) or not len(held):
            raise Refusal("replicate weights need a row for each replicate, as long as the weights")
        if not (np.isfinite(coefficient) and coefficient > 0):
            raise Refusal("the coefficient of replicates must be above 0, such as 4 / R")
        return cls(np.asarray(weights, dtype=np.float64), lambda r: held[r], len(held), coefficient)

    def variances(self, places: NDArray[np.intp], cells: int) -> tuple[Reals, Reals]:
        """Weighted totals of cells and their sampling variances, record i in cell `places[i]`.

        A pass over the records for each replicate; memory for three cubes.
        """
        if len(places) != len(self.weights):
            raise Refusal("every record needs the place of its cell")
        totals = np.bincount(places, self.weights, minlength=cells)
        squares = np.zeros(cells)
        for replicate in range(self.replicates):
            apart = np.bincount(places, self.factors(replicate), minlength=cells) - totals
            squares += apart * apart
        return np.asarray(totals, dtype=np.float64), self.coefficient * squares

    def variance(self, estimate: Callable[[Reals], float]) -> float:
        """The sampling variance of any function of the weights."""
        whole = estimate(self.weights)
        apart = [estimate(self.factors(r)) - whole for r in range(self.replicates)]
        return self.coefficient * float(np.square(apart).sum())


@dataclass(frozen=True, eq=False, repr=False)
class Sampling:
    """Replicates of the records that a cube holds.  Confidential.

    `trimmed` is the share of the survey's employment that the bounds of the cube took away,
    `left_out` that of its records.
    """

    shape: Shape
    answers: Mapping[str, NDArray[np.int32]]
    replicates: Replicates
    given: bool
    trimmed: float
    left_out: float

    @classmethod
    def of(cls, survey: Survey, cube: Cube, replicates: int = REPLICATES) -> Sampling:
        """The replicates of a cube's records: those that came with them, or else successive ones.

        The cube is counted again from the survey, to be sure that it is its own.  Where weights
        are trimmed, replicate weights are by the same share.  Successive differences are those of
        establishments, in the order of the file: they are what was drawn first, and records of one
        are alike.
        """
        weights, kept = _same(survey, cube)
        answers = {v.name: survey.answers[v.name][kept] for v in cube.shape.variables}
        before = survey.weights[kept]
        scale = survey.declaration.replicate_scale
        if survey.replicates is not None and scale is not None:
            held = survey.replicates[:, kept] * (weights / before * JOB)
            made = Replicates.given(weights.astype(np.float64), held, scale)
        else:
            made = Replicates.successive(
                weights.astype(np.float64), replicates, survey.establishments[kept]
            )
        total = int(survey.weights.sum())
        return cls(
            cube.shape,
            answers,
            made,
            survey.replicates is not None,
            1 - int(weights.sum()) / total,
            1 - len(kept) / len(survey.weights),
        )

    def standard_errors(self, by: By) -> Reals:
        """The standard errors of a table, in jobs; 0 where there is no record."""
        levels = tuple(self.shape.levels[axis] for axis in self.shape.axes(by))
        places = np.zeros(len(self.replicates.weights), dtype=np.int64)
        for name, level in zip(by, levels, strict=True):
            places = places * level + self.answers[name]
        filled, among = np.unique(places, return_inverse=True)
        _, variances = self.replicates.variances(among.astype(np.intp), len(filled))
        found = np.zeros(int(np.prod(levels, dtype=np.int64)))
        found[filled] = np.sqrt(variances) / JOB
        return found.reshape(levels)


def _same(survey: Survey, cube: Cube) -> tuple[Integers, NDArray[np.intp]]:
    """The weights of the records that the cube holds, and which they are; refused if not its own.

    Whether they are the same is all that is reported; no value is.
    """
    other = Refusal(
        "the survey is not the one that the cube was built from; name that one, or build its cube"
        " again"
    )
    try:
        bounds: dict[str, Any] = {"most_records": cube.most_records}
        if cube.most_weight is not None:
            bounds["most_weight"] = Fraction(cube.most_weight, JOB)
        again = build_cube(survey, variables=[v.name for v in cube.shape.variables], **bounds)
    except Refusal:
        raise other from None
    if again.shape != cube.shape or not (
        np.array_equal(again.weighted, cube.weighted)
        and np.array_equal(again.unweighted, cube.unweighted)
    ):
        raise other
    kept = np.arange(len(survey.weights))
    if cube.most_records is not None:
        kept = first_records(survey, cube.most_records)
    weights = survey.weights[kept]
    if cube.most_weight is not None:
        weights = np.minimum(weights, cube.most_weight)
    return weights, kept
