"""The mode `as-published`: the query tool as its paper prints it, with what it gives away.

Noise is drawn for the unweighted counts and carried to weighted employment: noise times the average
weight of all records is added to the weighted cell.  It is here to be studied and compared; the
mode `guaranteed` is for publishing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Exact, exact, plain
from eree.random.exact import Whole
from eree.random.source import Coins
from eree.survey.bounds import Bounds, By
from eree.survey.calibrate.controls import Control
from eree.survey.laplace import ShiftNoise
from eree.survey.noisy import (
    NoisyCube,
    SurveyCube,
    possible_of,
    with_noise,
)
from eree.survey.tables import Query, Tabulator


@dataclass(frozen=True)
class AsPublished:
    """Capped noise on the counts of records, times their average weight.

    Theorem.  The unweighted counts with that noise would be (epsilon, delta)-private under record
    neighbours, with delta = P(K = cap).  The weighted values that are published have no guarantee:
    for a record whose weight is no multiple of the average weight no value can come both with and
    without it.

    `exact_controls` publishes control tables without noise, as in the paper's evaluation; else each
    is perturbed as the cells are, and paid for as they are.  `keep_empty` is the share of empty
    cells that are kept, drawn at random; the others are left out.
    """

    bounds: Bounds
    epsilon: Fraction
    cap: int
    controls: tuple[By, ...] = ()
    exact_controls: bool = True
    keep_empty: Fraction = Fraction(1)
    name: ClassVar[str] = "as-published"
    covers: ClassVar[str] = "unweighted counts of records alone, which are not published"

    def __init__(
        self,
        bounds: Bounds,
        epsilon: Exact,
        cap: int,
        controls: tuple[By, ...] = (),
        *,
        exact_controls: bool = True,
        keep_empty: Exact = 1,
    ) -> None:
        object.__setattr__(self, "bounds", bounds)
        object.__setattr__(self, "epsilon", exact(epsilon, "epsilon"))
        object.__setattr__(self, "cap", cap)
        object.__setattr__(self, "controls", tuple(map(tuple, controls)))
        object.__setattr__(self, "exact_controls", bool(exact_controls))
        object.__setattr__(self, "keep_empty", exact(keep_empty, "keep_empty"))
        if not 0 <= self.keep_empty <= 1:
            raise Refusal("keep_empty is a share from 0 to 1")
        if bounds.records is not None:  # a record may then take the place of another: two counts
            raise Refusal(
                "as published, every record counts; build the cube without a bound of the records"
                " of an establishment"
            )

    @cached_property
    def cells(self) -> ShiftNoise:
        """The noise of the counts of the cells."""
        return ShiftNoise.published(self.epsilon, self.cap)

    @property
    def tables(self) -> Mapping[By, ShiftNoise]:
        """The noise of the control tables that have any."""
        return {} if self.exact_controls else dict.fromkeys(self.controls, self.cells)

    @property
    def variance(self) -> None:
        """No sum of squares is published."""

    @property
    def price(self) -> Guarantee:
        """The price of the unweighted counts: of cells, and of tables that have noise."""
        total = each = self.cells.guarantee
        for _ in self.tables:
            total += each
        return total

    def draw(self, cube: SurveyCube, coins: Coins) -> NoisyCube:
        """The cube with noise, and its control tables."""
        shape = cube.shape
        sums = cube.sums
        average = Fraction(sums.weight, sums.records) if sums.records else Fraction(0)
        steps = np.array(
            [round(k * average) for k in range(-self.cap, self.cap + 1)], dtype=np.int64
        )

        def carried(numbers: int) -> Whole:
            found: Whole = steps[self.cells.draw(numbers, coins) + self.cap]
            return found

        kept = self._kept(cube, coins)
        cells = with_noise(cube.weighted, shape.possible if kept is None else kept, carried)
        variance = self.cells.variance * float(average) ** 2
        controls, tables = [], Tabulator(shape, cube.weighted)
        for by in self.controls:
            truth = tables.table(Query(by)).values
            if not self.exact_controls:
                truth = with_noise(truth, possible_of(shape, by), carried)
            controls.append(Control(by, truth, 0.0 if self.exact_controls else variance))
        return NoisyCube(shape, cells, variance, tuple(controls), (), kept)

    def _kept(self, cube: SurveyCube, coins: Coins) -> NDArray[np.bool_] | None:
        """Which cells are published: all that are not empty, and a share of those that are."""
        if self.keep_empty == 1:
            return None
        bar = np.uint64(int(self.keep_empty * 2**64))
        kept = (cube.unweighted > 0) | (coins.words(cube.unweighted.size) < bar).reshape(
            cube.shape.levels
        )
        return kept if cube.shape.possible is None else kept & cube.shape.possible

    def as_json(self) -> dict[str, Any]:
        """The settings as plain data, from which `of` makes them anew."""
        return {
            "mode": self.name,
            "unit": "record",
            "bounds": self.bounds.as_json(),
            "epsilon": str(self.epsilon),
            "cap": self.cap,
            "controls": [list(by) for by in self.controls],
            "exact_controls": self.exact_controls,
            "keep_empty": str(self.keep_empty),
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> AsPublished:
        """The mode that a record speaks of."""
        return cls(
            Bounds.of(record["bounds"]),
            record["epsilon"],
            record["cap"],
            tuple(tuple(by) for by in record["controls"]),
            exact_controls=record["exact_controls"],
            keep_empty=record["keep_empty"],
        )

    @property
    def assumptions(self) -> list[str]:
        """What the price takes for granted, for people to read."""
        return [
            "The weight of a record is an attribute of that record: if it were not in the survey,"
            " all other weights would be the same."
        ]

    @property
    def losses(self) -> list[str]:
        """What is given away beyond the price, for people to read."""
        price = self.price
        found = [
            f"The price, epsilon {plain(price.epsilon)} and delta {plain(price.delta)} for one"
            " record, is that of the unweighted counts. Weighted employment has no guarantee: the"
            " noise comes in multiples of the average weight, so a record whose weight is no"
            " multiple of it is given away for certain by its cell, to whoever knows the rest.",
            "The average weight of all records is published without noise: the variance of the"
            " noise shows it.",
        ]
        if self.controls and self.exact_controls:
            found.append(
                "Control tables are published without noise: they have no guarantee, and neither"
                " has any sum of cells that is calibrated to them."
            )
        if self.keep_empty < 1:
            found.append(
                "A cell that is left out is known to be empty: no record of the survey is in it."
            )
        return found
