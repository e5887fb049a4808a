"""The public bounds of a cube, what one step of the data can move, and how a price is divided.

One step of the data moves the cells of a cube, and the cells of every table of it, by whole
thousandths of a job, together by no more than the public bounds allow.  So cells, control tables
and the sum of squares get noise of the same distribution, each scaled to its sensitivity: the most
that a step can move it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from eree.errors import Refusal
from eree.policy.neighbours import (
    ESTABLISHMENT,
    RECORD,
    Establishment,
    Exact,
    Record,
    exact,
    plain,
)
from eree.survey.settings import SQUARES, UNITS, Squares, Unit
from eree.survey.shape import By
from eree.workload import JOB

#: Weights, in thousandths of a job, and numbers of records beyond these are a mistake.
_MOST_WEIGHT, _MOST_RECORDS = 10**10, 10**6
#: What the sum of squares and the cells get where nobody says.
_FOR_VARIANCE, _FOR_CELLS = Fraction(1, 20), Fraction(1, 2)


@dataclass(frozen=True)
class Bounds:
    """The public bounds of a cube: of weights, in thousandths of a job, and of records.

    Weights above `weight` are trimmed to it.  Of an establishment with more than `records` records
    so many are kept, by a rule that looks at no other establishment.
    """

    weight: int | None = None
    records: int | None = None

    def __post_init__(self) -> None:
        for bound, most in ((self.weight, _MOST_WEIGHT), (self.records, _MOST_RECORDS)):
            if bound is not None and (type(bound) is not int or not 1 <= bound <= most):
                raise Refusal(
                    "the bounds of a cube are from 0.001 to 10,000,000 jobs for a weight, and from"
                    f" 1 to {_MOST_RECORDS:,} for the records of an establishment"
                )

    def relation(self, unit: Unit) -> Record | Establishment:
        """The neighbours of a unit of protection; refused where the bounds give no guarantee."""
        if unit not in UNITS:
            raise Refusal("the unit of protection is 'record' or 'establishment'")
        if self.weight is None:
            raise Refusal(
                "weighted employment can be protected only if weights have a public bound; build"
                " the cube with one"
            )
        if unit == "establishment" and self.records is None:
            raise Refusal(
                "establishments can be protected only if the records of one have a public bound;"
                " build the cube with one, or protect records"
            )
        return RECORD if unit == "record" else ESTABLISHMENT

    def shift(self, unit: Unit) -> int:
        """The sensitivity of the cells of the cube together, and of those of any table.

        A record moves one cell by its weight, at most W; where records are bounded it may take the
        place of another that is then left out, and both move at most 2 W.  An establishment that
        joins has m records at most in the cube, of m W.
        """
        self.relation(unit)
        weight, records = self.weight or 0, self.records
        one = 1 if records is None else 2
        return weight * (one if unit == "record" else max(records or 0, one))

    def squared_shift(self, unit: Unit, squares: Squares) -> int:
        """The sensitivity of a sum of squares.

        Of records, with weights of at most W: W^2 for one, whether or not it takes the place of
        another, and m W^2 for an establishment.  Of the totals of establishments, which are at most
        m W: (m W)^2 if one joins.  If a record does, the total goes from c + v to c + w, with
        c <= (m - 1) W and v, w <= W (v = 0 if it takes no other's place), and its square by
        |w - v| (2 c + v + w) <= (2 m - 1) W^2, which is no more than (m W)^2.
        """
        self.relation(unit)
        weight, records = self.weight or 0, self.records
        if squares not in SQUARES:
            raise Refusal("squares are added up over 'establishments' or 'records'")
        if squares == "records":
            return weight**2 * (1 if unit == "record" else records or 0)
        if records is None:
            raise Refusal(
                "the squared totals of establishments need a public bound of the records of one;"
                " build the cube with that bound, or add up the squares of records"
            )
        return weight**2 * (2 * records - 1 if unit == "record" else records**2)

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        weight = None if self.weight is None else plain(Fraction(self.weight, JOB))
        return {"weight": weight, "records": self.records}

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Bounds:
        """The bounds behind plain data."""
        if said["weight"] is None:
            return cls(None, said["records"])
        weight = exact(said["weight"], "the bound of weights") * JOB
        if weight.denominator > 1:
            raise Refusal("the bound of weights must be an integer number of thousandths of a job")
        return cls(int(weight), said["records"])


@dataclass(frozen=True)
class Shares:
    """How the price is divided: exact fractions that add up to 1.

    Args:
        cells: For the cells.
        controls: For control tables, each named by its variables.
        variance: For the sum of squares.

    Examples:
        >>> eree.Shares("0.5", {("education",): "0.4"}, "0.1").cells
        Fraction(1, 2)
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
    def default(cls, controls: Sequence[By] = (), *, variance: bool = False) -> Shares:
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
