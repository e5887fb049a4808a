"""The public bounds of a cube, what one step of the data can move, and how a price is divided.

One step of the data moves the cells of a cube, and the cells of every table of it, by whole
thousandths of a job in one direction, together by at most the public bound of a weight for every
record that joins.  So cells, control tables and the sum of squares are hidden by the same law, each
scaled to what a step can move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Literal, get_args

from eree.errors import Refusal
from eree.noise.thousandths import JOB
from eree.policy.neighbours import RECORD, Establishment, Exact, Record, exact, plain

Unit = Literal["record", "establishment"]
#: Which squares are added up for the model of sampling variances.
Squares = Literal["establishments", "records"]
By = tuple[str, ...]

#: A weight beyond this, in thousandths of a job, is a mistake.
_MOST_WEIGHT = 10**10
#: What the sum of squares and the cells get where nobody says.
_FOR_VARIANCE, _FOR_CELLS = Fraction(1, 20), Fraction(1, 2)


@dataclass(frozen=True)
class Bounds:
    """The public bounds of a cube: of weights, in thousandths of a job, and perhaps of records.

    `records` is the most that one establishment has.  Weights above the bound are trimmed to it.
    The bound of records is a fact of the survey's design: data that break it are refused, and no
    record is left out for it.
    """

    weight: int
    records: int | None = None

    def __post_init__(self) -> None:
        if type(self.weight) is not int or not 1 <= self.weight <= _MOST_WEIGHT:
            raise Refusal("the bound of weights must be from 0.001 to 10,000,000 jobs")
        if self.records is not None:
            Establishment(self.records)

    def relation(self, unit: Unit) -> Record | Establishment:
        """The neighbours of a unit of protection."""
        if unit == "record":
            return RECORD
        if unit not in get_args(Unit):
            raise Refusal("the unit of protection is 'record' or 'establishment'")
        if self.records is None:
            raise Refusal(
                "to protect establishments the cube needs a public bound of the records of one;"
                " build it with that bound, or protect records"
            )
        return Establishment(self.records)

    def shift(self, unit: Unit) -> int:
        """The most that one step moves all cells of a table together."""
        relation = self.relation(unit)
        return self.weight * (relation.records if isinstance(relation, Establishment) else 1)

    def squared_shift(self, unit: Unit, squares: Squares) -> int:
        """The most that one step moves a sum of squares.

        Of records, with weights of at most W: W^2 for each that joins.  Of the totals of
        establishments, which are at most m W: (m W)^2 where a whole one may join, and where one
        record joins (t + w)^2 - t^2 = 2 t w + w^2 <= (2 m - 1) W^2, because t <= (m - 1) W.
        """
        if squares not in get_args(Squares):
            raise Refusal("squares are added up over 'establishments' or 'records'")
        if squares == "records":
            return self.weight * self.shift(unit)
        if self.records is None:
            raise Refusal(
                "the squared totals of establishments need a public bound of the records of one;"
                " build the cube with that bound, or add up the squares of records"
            )
        if unit == "establishment":
            return self.shift(unit) ** 2
        return (2 * self.records - 1) * self.weight**2

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"weight": plain(Fraction(self.weight, JOB)), "records": self.records}

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Bounds:
        """The bounds behind plain data."""
        weight = exact(said["weight"], "the bound of weights") * JOB
        if weight.denominator > 1:
            raise Refusal("the bound of weights must be a whole number of thousandths of a job")
        return cls(int(weight), said["records"])


@dataclass(frozen=True)
class Shares:
    """How the price is divided: among the cells, the control tables and the sum of squares.

    Exact fractions that add up to 1.  A control table is named by its variables.
    """

    cells: Fraction
    controls: Mapping[By, Fraction]
    variance: Fraction

    def __init__(
        self,
        cells: Exact = 1,
        controls: Mapping[By, Exact] | None = None,
        variance: Exact = 0,
    ) -> None:
        given = {tuple(by): exact(share, "a share") for by, share in (controls or {}).items()}
        object.__setattr__(self, "cells", exact(cells, "a share"))
        object.__setattr__(self, "controls", MappingProxyType(given))
        object.__setattr__(self, "variance", exact(variance, "a share"))
        if self.cells <= 0 or self.variance < 0 or any(share <= 0 for share in given.values()):
            raise Refusal("the share of the cells and that of every control table must be above 0")
        if self.cells + sum(given.values()) + self.variance != 1:
            raise Refusal("the shares of the price must add up to 1, exactly")

    @classmethod
    def usual(cls, controls: Sequence[By] = (), *, variance: bool = False) -> Shares:
        """A twentieth for the squares; of the rest half for the cells, the other for the tables."""
        squares = _FOR_VARIANCE if variance else Fraction(0)
        rest = 1 - squares
        cells = rest * _FOR_CELLS if controls else rest
        return cls(cells, {by: (rest - cells) / len(controls) for by in controls}, squares)

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        tables = [{"by": list(by), "share": str(share)} for by, share in self.controls.items()]
        return {"cells": str(self.cells), "controls": tables, "variance": str(self.variance)}

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Shares:
        """The shares behind plain data."""
        controls = {tuple(table["by"]): table["share"] for table in said["controls"]}
        return cls(said["cells"], controls, said["variance"])
