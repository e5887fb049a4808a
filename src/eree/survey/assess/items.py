"""Findings of an assessment, each with whether it may be published and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Unit = Literal["tables", "cells", "jobs", "share", "ratio", "distance"]
#: Why a finding may be published, or may not.
MAY = "yes: made of the protected cube and public settings alone"
MAY_NOT = "no: computed from the confidential cube, and not paid for"
MARK, FREE = "CONFIDENTIAL", "PUBLIC"


@dataclass(frozen=True, repr=False)
class Item:
    """One figure: what it is about, what of it, and for tables of which dimension.

    `value` is None where there is nothing to measure.  `public` says that nothing but the protected
    cube and public settings went into it.  Printing it shows no value.
    """

    measure: str
    statistic: str
    dimension: int
    value: float | None
    unit: Unit
    public: bool

    @property
    def reason(self) -> str:
        """Whether it may be published, and why."""
        return MAY if self.public else MAY_NOT

    @property
    def mark(self) -> str:
        """The mark that it carries."""
        return FREE if self.public else MARK

    @property
    def text(self) -> str:
        """The value for people to read."""
        return shown(self.value, self.unit)

    def as_json(self) -> dict[str, Any]:
        """The finding as plain data."""
        return {
            "mark": self.mark,
            "measure": self.measure,
            "statistic": self.statistic,
            "dimension": self.dimension,
            "value": self.value,
            "unit": self.unit,
            "may_be_published": self.public,
            "reason": self.reason,
        }

    def __repr__(self) -> str:
        return f"<Item {self.measure}, {self.statistic}, dimension {self.dimension}: {self.mark}>"


def shown(value: float | None, unit: Unit) -> str:
    """A figure for people to read."""
    if value is None:
        return "–"
    if unit in ("tables", "cells"):
        return f"{round(value):,}"
    if unit == "share":
        return f"{value:.2%}"
    if unit == "jobs":
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.1f}"


@dataclass(frozen=True)
class Collected:
    """Findings about one dimension as they are made."""

    items: list[Item]
    dimension: int
    public: bool

    def add(self, measure: str, statistic: str, value: float | None, unit: Unit) -> None:
        """Keep a finding."""
        kept = None if value is None else float(value)
        self.items.append(Item(measure, statistic, self.dimension, kept, unit, self.public))

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)
