"""The mode `guaranteed`: noise scaled to public bounds, so that the weighted cube is private."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, ClassVar

from eree.errors import Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import plain
from eree.policy.plain_data import guarantee_of
from eree.random.source import Coins
from eree.survey.bounds import Bounds, By, Shares, Squares, Unit
from eree.survey.calibrate.controls import Control
from eree.survey.laplace import ShiftNoise
from eree.survey.noisy import (
    NoisyCube,
    NoisyTotal,
    SurveyCube,
    possible_of,
    with_noise,
)
from eree.survey.tables import Query, Tabulator
from eree.workload import JOB

#: A scale of noise beyond this, in thousandths of a job, is a mistake.
_MOST_SCALE = 10**10


@dataclass(frozen=True)
class Guaranteed:
    """How a cube is protected: what a unit of protection is, its bounds, and how the price is used.

    Theorem.  Under the neighbours of the unit the release is (epsilon, delta)-private: one step
    moves all cells of the cube, and those of any table of it, together by at most
    `bounds.shift(unit)`, and the sum of squares by at most `bounds.squared_shift`; each part is
    private at its share of the price (see `ShiftNoise`), and prices add up.
    """

    bounds: Bounds
    unit: Unit
    total: Guarantee
    shares: Shares
    squares: Squares | None = None
    name: ClassVar[str] = "guaranteed"
    covers: ClassVar[str] = "weighted employment in every cell and in every table of the cube"

    def __post_init__(self) -> None:
        if self.total.neighbours != self.bounds.relation(self.unit):
            raise Refusal("the price of a cube is one under the neighbours of its unit")
        if (self.squares is None) != (self.shares.variance == 0):
            raise Refusal("the sum of squares needs a share of the price, and nothing else does")
        _ = self.variance  # refused now, if at all
        for part in (self.cells, *self.tables.values()):
            if part.shift > part.guarantee.epsilon * _MOST_SCALE:
                raise Refusal(
                    "the noise would be ten million jobs and more; lower the bounds of the cube or"
                    " raise epsilon"
                )

    @property
    def price(self) -> Guarantee:
        """What all of it costs: the prices of the parts add up to it."""
        return self.total

    @property
    def controls(self) -> tuple[By, ...]:
        """The control tables."""
        return tuple(self.shares.controls)

    @cached_property
    def cells(self) -> ShiftNoise:
        """The noise of the cells."""
        return self._part(self.shares.cells, self.bounds.shift(self.unit))

    @cached_property
    def tables(self) -> Mapping[By, ShiftNoise]:
        """The noise of the control tables."""
        shift = self.bounds.shift(self.unit)
        shares = self.shares.controls.items()
        return MappingProxyType({by: self._part(share, shift) for by, share in shares})

    @cached_property
    def variance(self) -> ShiftNoise | None:
        """The noise of the sum of squares."""
        if self.squares is None:
            return None
        return self._part(self.shares.variance, self.bounds.squared_shift(self.unit, self.squares))

    def _part(self, share: Fraction, shift: int) -> ShiftNoise:
        price = Guarantee(
            self.total.neighbours, self.total.epsilon * share, self.total.delta * share
        )
        return ShiftNoise.calibrate(price, shift)

    def draw(self, cube: SurveyCube, coins: Coins) -> NoisyCube:
        """The cube and everything else that the price pays for, with noise."""
        shape = cube.shape
        cells = with_noise(cube.weighted, shape.possible, partial(self.cells.draw, coins=coins))
        controls, tables = [], Tabulator(shape, cube.weighted)
        for by, noise in self.tables.items():
            truth, possible = tables.table(Query(by)).values, possible_of(shape, by)
            noisy = with_noise(truth, possible, partial(noise.draw, coins=coins))
            controls.append(Control(by, noisy, noise.variance))
        totals: tuple[NoisyTotal, ...] = ()
        if self.variance is not None and self.squares is not None:
            sums = cube.sums
            squares = sums.squares if self.squares == "records" else sums.establishment_squares
            noisy_sum = squares + self.variance.draw_one(coins)
            totals = (NoisyTotal(self.squares, noisy_sum, self.variance.variance),)
        return NoisyCube(shape, cells, self.cells.variance, tuple(controls), totals)

    def as_json(self) -> dict[str, Any]:
        """The settings as plain data, from which `of` makes them anew."""
        return {
            "mode": self.name,
            "unit": self.unit,
            "bounds": self.bounds.as_json(),
            "shares": self.shares.as_json(),
            "squares": self.squares,
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Guaranteed:
        """The mode that a record speaks of."""
        return cls(
            Bounds.of(record["bounds"]),
            record["unit"],
            guarantee_of(record["guarantee"]),
            Shares.of(record["shares"]),
            record["squares"],
        )

    @property
    def assumptions(self) -> list[str]:
        """What the guarantee takes for granted, for people to read."""
        weight = plain(Fraction(self.bounds.weight or 0, JOB))
        found = [
            "The weight of a record is an attribute of that record: if it were not in the survey,"
            " all other weights would be the same. Changes of other weights are not hidden.",
            f"Weights above {weight} jobs count as {weight}. The bound was set without looking at"
            " the data, and so were the variables, their codes and the structural zeros.",
            "That the records are a sample is not counted in favour of the guarantee: it holds for"
            " a record of which everyone knows that it was drawn.",
        ]
        if self.bounds.records is not None:
            found.append(
                f"Of an establishment with more than {self.bounds.records:,} records so many are"
                " counted, by a rule that looks at no other. That bound, too, was set without"
                " looking at the data."
            )
        if self.squares == "records":
            found.append(
                "Sampling errors are modelled as if all records had been drawn one by one. Records"
                " of one establishment were not, and what they have in common makes true sampling"
                " errors larger than those that are stated."
            )
        if self.unit == "record":
            found.append(
                "What is hidden is one record. What several records of one establishment have in"
                " common is hidden at the price of all of them together."
            )
        return found

    @property
    def losses(self) -> list[str]:
        """What is given away beyond the guarantee: nothing."""
        return []
