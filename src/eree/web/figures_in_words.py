"""Figures and errors as people read them."""

from __future__ import annotations

from math import ceil, floor, isinf

from eree.web.answer import ABSENT, Cell
from eree.web.dataset import Error

MINUS = "−"


def figure(cell: Cell, decimals: int) -> str:
    """An estimate, exact to its last digit."""
    return number(cell.value / cell.unit if cell.unit > 1 else cell.value, decimals)


def number(value: float, decimals: int) -> str:
    """A number with a comma for thousands and a true minus sign."""
    shown = f"{value:,.{decimals}f}"
    if not shown.strip("-0.,"):
        shown = shown.removeprefix("-")
    return shown.replace("-", MINUS)


def interval(cell: Cell, decimals: int) -> str:
    """From the low to the high end, both rounded outwards, so that what is shown holds as well."""
    parts = 10**decimals
    low = number(floor(round(cell.low * parts, 3)) / parts, decimals)
    if isinf(cell.high):
        return f"{low} or more"
    return f"{low} to {number(ceil(round(cell.high * parts, 3)) / parts, decimals)}"


def error(cell: Cell, kind: Error, decimals: int) -> str:
    """The error of an estimate in the way that the reader chose."""
    if ABSENT in cell.flags:
        return ""
    if kind == "interval":
        return interval(cell, decimals)
    if kind == "standard-error":
        return "" if cell.deviation is None else number(cell.deviation, min(decimals, 1))
    if kind == "relative":
        return "–" if isinf(cell.relative) else f"{cell.relative:.1%}"
    return "no bound" if isinf(cell.margin) else f"±{number(cell.margin, min(decimals, 1))}"
