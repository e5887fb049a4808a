"""Figures as people read them: numbers, bars with their intervals, heat maps, ranks, decisions.

A chart is text that everyone can read, with small drawings beside it whose places are shares of
their width: so it fits every screen, and no label is cut.  Colours come from the style sheet by
class, so that they follow the reader's choice of light or dark, and nothing is styled inline.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite, isinf, log10
from typing import Any

import numpy as np

from eree.web.answer import Answer
from eree.web.block import ABSENT, UNRELIABLE, Cell, digits
from eree.web.dataset import Error
from eree.web.words import Joined, say, spoken

MINUS = "−"
#: What stands for a share that is not known, and how that is said.
UNKNOWN, NOT_KNOWN = "–", say("not known")
#: The most bars of a page.
MOST_BARS = 60
SHADES = 7
#: A shade stands for less of the greatest figure than its number says: most figures are small.
POWER = 3
#: How two sides are drawn: bars of a row together, a panel for each column, or a heat map.
CHARTS = {"grouped": say("Grouped bars"), "panels": say("Panels"), "heat": say("Heat map")}
#: The most columns of grouped bars, and of panels, and the most rows of these.
MOST_GROUPED, MOST_PANELS, MOST_PANEL_ROWS = 4, 12, 20
#: A heat map of more columns has no numbers in its fields.
MOST_NUMBERED = 24
#: The width of an axis on a phone, and of a letter, in pixels.
_PHONE, _LETTER = 270, 8


def places(cell: Cell, decimals: int | None) -> int:
    """How many decimals a figure is shown with; below 0 it is rounded to tens, hundreds and so on.

    Where none are asked for, the error says so: two of its digits are shown.
    """
    if decimals is not None:
        return decimals
    error = cell.margin if isfinite(cell.margin) else cell.estimate - cell.low
    finest = digits(cell.unit)
    if error <= 0 and cell.value % cell.unit:  # exact: thousandths, or three digits
        return min(finest, max(3, 2 - floor(log10(abs(cell.estimate)))))
    return 0 if error <= 0 else min(finest, 1 - floor(log10(error)))


def figure(cell: Cell, decimals: int | None) -> str:
    """An estimate, exact to its last digit, or rounded to what its error supports."""
    return number(cell.estimate, places(cell, decimals)) if cell.known else UNKNOWN


def number(value: float, decimals: int) -> str:
    """A number with a comma for thousands and a true minus sign."""
    if decimals < 0:
        value, decimals = round(value, decimals), 0
    shown = f"{value:,.{decimals}f}"
    if shown[0] != "-":
        return shown
    return f"{MINUS if shown.strip('-0.,') else ''}{shown[1:]}"


def _outwards(value: float, decimals: int, side: Callable[[float], int]) -> str:
    """An end of an interval, or a margin, rounded so that what is shown holds as well."""
    if decimals < 0:
        return number(side(round(value / 10**-decimals, 6)) * 10**-decimals, 0)
    return number(side(round(value * 10**decimals, 3)) / 10**decimals, decimals)


def interval(cell: Cell, decimals: int | None) -> str:
    """From the low to the high end, both rounded outwards, so that what is shown holds as well."""
    if not cell.known:
        return NOT_KNOWN
    low, high = ends(cell, decimals)
    if not high:
        return say("%(low)s or more", low=low)
    return say("%(low)s to %(high)s", low=low, high=high)


def ends(cell: Cell, decimals: int | None) -> tuple[str, str]:
    """The ends of an interval; the high one is empty where nothing bounds the figure."""
    kept = places(cell, decimals)
    high = "" if isinf(cell.high) else _outwards(cell.high, kept, ceil)
    return _outwards(cell.low, kept, floor), high


def error(cell: Cell, kind: Error, decimals: int | None) -> str:
    """The error of an estimate in the way that the reader chose."""
    if ABSENT in cell.flags or not cell.known:
        return ""
    if kind == "interval":
        return interval(cell, decimals)
    if kind == "standard-error":
        return "" if cell.deviation is None else _standard_error(cell.deviation, decimals)
    if kind == "relative":
        return "–" if isinf(cell.relative) else f"{cell.relative:.1%}"
    if isinf(cell.margin):
        return say("no bound")
    if decimals is not None:
        return f"±{number(cell.margin, min(decimals, max(1, decimals - 3)))}"
    kept = places(cell, None)
    off = abs(cell.estimate - round(cell.estimate, kept))  # the figure beside it is rounded
    return f"±{_outwards(cell.margin + off, kept, ceil)}"


def _standard_error(deviation: float, decimals: int | None) -> str:
    if decimals is None and deviation > 0:
        return number(deviation, min(3, 1 - floor(log10(deviation))))
    return number(deviation, min(decimals or 0, 1))


@dataclass(frozen=True)
class Scale:
    """Round numbers from the bottom to the top, and where a number is between them."""

    bottom: float
    top: float
    step: float

    @classmethod
    def over(cls, low: float, high: float) -> Scale:
        """The scale of numbers from low to high; a little below 0 takes no whole step."""
        step = _step(max(high - low, 1e-9) / 5)  # a quarter is empty at most
        bottom = low if -step / 2 < low < 0 < high else step * (low // step)
        return cls(bottom, step * -(-high // step), step)

    def at(self, number: float) -> str:
        """Where a number is, as a share of the width."""
        share = (number - self.bottom) / (self.top - self.bottom)
        return f"{100 * min(max(share, 0.0), 1.0):.2f}%"

    @property
    def ticks(self) -> list[float]:
        """The round numbers."""
        last = round(self.top / self.step)
        first = ceil(self.bottom / self.step - 1e-6)
        return [k * self.step for k in range(first, last + 1)]

    def axis(self) -> str:
        """The numbers of the scale; those that a phone has no room for are spare."""
        parts = ['<svg class="chart ticks" aria-hidden="true" width="100%" height="18">']
        every = next((n for n in (1, 2) if self._apart(n)), 5)
        for number in self.ticks:
            spare = "" if self._labelled(number, every) else " spare"
            parts.append(
                f'<text class="tick{spare}" x="{self.at(number)}" y="13"'
                f' text-anchor="{self._anchor(number)}">{short(number)}</text>'
            )
        return "".join([*parts, "</svg>"])

    def _labelled(self, number: float, every: int) -> bool:
        return round(number / self.step) % every == 0

    def _anchor(self, number: float) -> str:
        share = (number - self.bottom) / (self.top - self.bottom)
        return "start" if share < 0.02 else "end" if share > 0.98 else "middle"

    def _apart(self, every: int) -> bool:
        """Whether labels of every so many of the numbers lie apart on a phone."""
        end = -inf
        for number in (one for one in self.ticks if self._labelled(one, every)):
            at = _PHONE * (number - self.bottom) / (self.top - self.bottom)
            width = _LETTER * len(short(number))
            start = at - width * {"start": 0, "middle": 0.5, "end": 1}[self._anchor(number)]
            if start < end + _LETTER:
                return False
            end = start + width
        return True

    @property
    def lines(self) -> str:
        """Lines at the round numbers, the one at 0 stronger."""
        return "".join(
            f'<line class="{"axis" if abs(number) < 1e-9 else "grid"}" x1="{self.at(number)}"'
            f' x2="{self.at(number)}" y1="0" y2="100%"/>'
            for number in self.ticks
        )


@dataclass(frozen=True)
class Bar:
    """One bar of a chart."""

    labels: tuple[str, ...]
    figure: str
    interval: str
    cell: Cell
    drawing: str


@dataclass(frozen=True)
class Bars:
    """Bars with their intervals, on one scale."""

    scale: Scale
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Grouped:
    """Groups of bars on one scale: those of a row together, or those of a column in a panel."""

    panels: bool
    groups: tuple[tuple[tuple[str, ...], Bars], ...]


def bars(answer: Answer) -> Bars:
    """A bar for every row of an answer without columns."""
    cells = answer.body.cells[:MOST_BARS]
    labels = [answer.rows.told_apart(i) for i in range(len(cells))]
    return _bars(answer, cells, labels, _scale(cells))


def grouped(answer: Answer, *, panels: bool) -> Grouped:
    """The bars of every row together, or of every column in a panel of its own."""
    wide, every = len(answer.cols), answer.body.cells
    cells = [every[wide * row : wide * (row + 1)] for row in range(len(answer.rows))]
    scale = _scale(every)
    outer, inner = (answer.cols, answer.rows) if panels else (answer.rows, answer.cols)
    lines = [list(line) for line in zip(*cells, strict=True)] if panels else cells
    labels = [inner.told_apart(k) for k in range(len(inner))]
    made = [_bars(answer, line, labels, scale) for line in lines]
    groups = zip((outer.told_apart(k) for k in range(len(outer))), made, strict=False)
    return Grouped(panels, tuple(groups))


def chart_of(answer: Answer, asked: str) -> str:
    """How an answer is drawn: as is asked for, or by how many rows and columns it has."""
    rows, cols = len(answer.rows), len(answer.cols)
    if not answer.query.cols:
        return "bars"
    if asked in CHARTS and (asked == "heat" or cols <= MOST_PANELS):
        return asked
    if cols <= MOST_GROUPED:
        return "grouped"
    return "panels" if cols <= MOST_PANELS and rows <= MOST_PANEL_ROWS else "heat"


def drawing(whole: Answer, asked: str) -> dict[str, Any]:
    """What the page of a chart shows of an answer: its bars or fields, and what they are by."""
    drawn = chart_of(whole, asked)
    few = MOST_BARS // max(len(whole.cols), 1) if drawn == "grouped" else MOST_BARS
    page, query, known = whole.page(few), whole.query, whole.data.variable
    groups = drawn in ("grouped", "panels")
    corner = {
        side: Joined(" · ", (known(name).side_label(query.groups.get(name)) for name in names))
        for side, names in (("rows", query.rows), ("cols", query.cols))
    }
    return {
        "answer": page,
        "pages": whole.pages(few),
        "of": list(zip(whole.asked(few), (len(whole.rows), len(whole.cols)), strict=True)),
        "drawn": drawn,
        "bars": bars(page) if drawn == "bars" else None,
        "grouped": grouped(page, panels=drawn == "panels") if groups else None,
        "heat": heat_map(page) if drawn == "heat" else None,
        "charts": CHARTS if len(whole.cols) <= MOST_PANELS else {},
        "corner": corner,
    }


def _scale(cells: Sequence[Cell]) -> Scale:
    cells = [cell for cell in cells if cell.known]
    ends = [cell.estimate if isinf(cell.high) else cell.high for cell in cells]
    top = max([1.0, *ends, *(cell.estimate for cell in cells)])
    return Scale.over(min([0.0, *(cell.estimate for cell in cells)]), top)


def _bars(
    answer: Answer, cells: Sequence[Cell], labels: Sequence[tuple[str, ...]], scale: Scale
) -> Bars:
    found = []
    for cell, own in zip(cells, labels, strict=True):
        shown_interval = "" if ABSENT in cell.flags else interval(cell, answer.shown_decimals)
        shown = figure(cell, answer.shown_decimals)
        found.append(Bar(own or (say("All"),), shown, shown_interval, cell, _bar(cell, scale)))
    return Bars(scale, tuple(found))


def _bar(cell: Cell, scale: Scale) -> str:
    low, high = sorted((0.0, float(cell.estimate)))
    weak = " weak" if UNRELIABLE in cell.flags else ""
    wide = 100 * (high - low) / (scale.top - scale.bottom)
    parts = [
        '<svg class="chart" aria-hidden="true" width="100%" height="22">',
        scale.lines,
        f'<rect class="bar{weak}" x="{scale.at(low)}" y="4" width="{wide:.2f}%" height="14"/>',
    ]
    if ABSENT not in cell.flags and cell.known:
        open_ = isinf(cell.high)
        start, end = scale.at(cell.low), scale.at(scale.top if open_ else cell.high)
        parts.append(f'<line class="whisker" x1="{start}" x2="{end}" y1="11" y2="11"/>')
        parts += [
            f'<line class="whisker" x1="{at}" x2="{at}" y1="7" y2="15"/>'
            for at in ((start,) if open_ else (start, end))
        ]
    return "".join([*parts, "</svg>"])


@dataclass(frozen=True)
class Field:
    """One field of a heat map."""

    kind: str
    text: str
    said: str


@dataclass(frozen=True)
class HeatMap:
    """Fields by rows and columns, darker where there are more; and where each shade begins."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Field, ...]], ...]
    shades: tuple[str, ...]
    dense: bool


def heat_map(answer: Answer) -> HeatMap:
    """A field for every cell of a page."""
    rows, cols = min(len(answer.rows), MOST_BARS), len(answer.cols)
    values = answer.body.jobs[:rows]
    starts = shades_up_to(float(np.max(np.nan_to_num(values), initial=0.0)))
    columns = tuple(" · ".join(answer.cols.told_apart(j)) for j in range(cols))
    found = []
    for i in range(rows):
        name = " · ".join(answer.rows.told_apart(i)) or spoken(say("All"))
        cells = answer.body.cells[cols * i : cols * (i + 1)]
        fields = tuple(
            _field(cell, starts, f"{name}, {column}", answer.shown_decimals)
            for cell, column in zip(cells, columns, strict=True)
        )
        found.append((name, fields))
    return HeatMap(columns, tuple(found), tuple(map(short, starts)), cols > MOST_NUMBERED)


def _field(cell: Cell, starts: Sequence[float], name: str, decimals: int | None) -> Field:
    said = f"{name}: {figure(cell, decimals)}"
    if ABSENT in cell.flags:
        return Field("none", "0", spoken(say("%(figure)s, absent", figure=said)))
    if not cell.known:
        return Field("unknown", UNKNOWN, f"{name}: {spoken(NOT_KNOWN)}")
    shade = bisect(starts, max(float(cell.estimate), 0.0)) - 1 if starts[-1] else 0
    weak = UNRELIABLE in cell.flags
    kind = f"heat-{shade}{' weak' if weak else ''}"
    said += f", {spoken(interval(cell, decimals))}"
    if weak:
        said = spoken(say("%(figure)s, unreliable", figure=said))
    return Field(kind, short(round(float(cell.estimate), places(cell, decimals)) + 0.0, 2), said)


def shades_up_to(top: float) -> list[float]:
    """Where each shade begins: numbers of one digit, with noughts."""
    rough = [max(top, 0.0) * (shade / SHADES) ** POWER for shade in range(SHADES)]
    return [round(value, -floor(log10(value))) if value > 0 else 0.0 for value in rough]


def _step(rough: float) -> float:
    """A round number near a rough step."""
    power = 10.0 ** floor(log10(max(rough, 1e-9)))
    return next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= rough * 0.999)


def short(value: float, digits: int = 3) -> str:
    """A number in few digits; those below 1,000 have three."""
    for size, word in ((1e9, "bn"), (1e6, "m"), (1e3, "k")):
        if abs(value) >= size:
            part = value / size
            shown = f"{part:,.0f}" if abs(part) >= 10 ** (digits - 1) else f"{part:.{digits}g}"
            return f"{shown}{word}".replace("-", MINUS)
    if 0 < abs(value) < 1e-4:  # a small share
        return number(value, 2 - floor(log10(abs(value))))
    return f"{value:,.3g}".replace("-", MINUS)
