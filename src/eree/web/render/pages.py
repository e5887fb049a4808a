"""Pages: templates and the few files that they need, and the table of an answer on a page.

Every subtotal is a figure of its own, summed up from signed values, with an error of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import takewhile
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

import eree
from eree.web.answer import Answer, Side, in_a_line
from eree.web.block import ABSENT, NEGATIVE, OPEN, Block, Cell
from eree.web.dataset import ERRORS
from eree.web.query import CONFIDENCES, SORTS, carried, quoted, written
from eree.web.render.charts import decision_line, error, figure, interval, number, rank_line

KINDS = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
#: A variable with more codes is filtered on a page of its own.
SHORT_LIST = 24
#: A longer list of codes is cut, and says so.
MOST_LINES = 600
Places = tuple[int, ...]
#: A line of figures, and where in it those of given places are.
Part = tuple[Block, Mapping[Places, int]]


class Pages:
    """Renders templates; every file of the package is in memory before the first request."""

    def __init__(self, home: str) -> None:
        room = files("eree.web")
        sources = {
            path.name: path.read_text(encoding="utf-8")
            for path in room.joinpath("templates").iterdir()
            if path.name.endswith(".html")
        }
        self.static = {
            path.name: path.read_bytes()
            for path in room.joinpath("static").iterdir()
            if path.name.rpartition(".")[2] in KINDS
        }
        self._environment = Environment(
            loader=DictLoader(sources),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals |= {
            "version": eree.__version__,
            "stamp": self.stamp,
            "home": home,
            "errors": ERRORS,
            "confidence_choices": [(c, f"{float(c):.0%}") for c in CONFIDENCES],
            "error_choices": lambda data: [(k, ERRORS[k]) for k in data.errors],
            "sorts": SORTS,
            "short_list": SHORT_LIST,
            "most_lines": MOST_LINES,
            "error_of": error,
            "figure_of": lambda cell, decimals: _lighter(figure(cell, decimals), decimals),
            "interval_of": interval,
            "number": number,
            "carried": carried,
            "written": written,
            "quoted": quoted,
            "rank_line": rank_line,
            "decision_line": decision_line,
            "flag_means": {
                NEGATIVE: "below 0, which only noise can make; it is kept so that totals are right",
                OPEN: "nothing public bounds it from above",
            },
            "Markup": Markup,
        }
        for name in sources:
            self._environment.get_template(name)

    @cached_property
    def stamp(self) -> str:
        """Changes whenever a static file does."""
        whole = b"".join(self.static[name] for name in sorted(self.static))
        return hashlib.sha256(whole).hexdigest()[:12]

    def render(self, template: str, **given: Any) -> bytes:
        """A page."""
        return self._environment.get_template(template).render(**given).encode()


def _lighter(shown: str, decimals: int) -> Markup:
    """A figure whose decimals are there, and stand back."""
    if not decimals:
        return Markup.escape(shown)
    whole, _, rest = shown.partition(".")
    return Markup('{}<span class="rest">.{}</span>').format(whole, rest)


@dataclass(frozen=True)
class Line:
    """A row or a column: `places` of its codes; a subtotal has fewer of them than there are axes.

    `number` says which row or column of the answer it is, -1 for a subtotal.
    """

    places: Places
    number: int


@dataclass(frozen=True)
class Heading:
    """A heading that stands over, or beside, one or more lines."""

    name: str
    label: str
    code: str
    across: int
    down: int
    scope: str
    kind: str = ""


#: What stands at a line: headings that begin there, by level, and the names of all that it has.
Headed = tuple[list[tuple[int, Heading]], str]


@dataclass(frozen=True)
class Shown:
    """A cell of the page, with the names of the headings that it belongs to."""

    cell: Cell
    kind: str
    headings: str


@dataclass(frozen=True)
class Row:
    """A row of the page: headings that begin at it, then cells."""

    headings: tuple[Heading, ...]
    cells: tuple[Shown, ...]
    kind: str


class Layout:
    """How a page of an answer is laid out; `whole` is the answer with all of its pages."""

    def __init__(self, page: Answer, whole: Answer) -> None:
        self.page, self._query = page, page.query
        wanted = page.query.subtotals
        self._rows = _lines(page.rows, whole.rows, wanted)
        self._cols = _lines(page.cols, whole.cols, wanted)
        self.nested = len(page.rows.axes) > 1 or len(page.cols.axes) > 1
        self._row_heads = _headings(page.rows, self._rows, "r")
        self._col_heads = _headings(page.cols, self._cols, "c")
        self._parts: dict[tuple[int, int], Part] = {}

    @property
    def corner(self) -> Sequence[str]:
        """The labels of the variables on the rows."""
        known, groups = self.page.data.variable, self._query.groups
        return [known(name).side_label(groups.get(name)) for name in self._query.rows]

    @property
    def totals(self) -> bool:
        """Whether rows have totals of their own."""
        return bool(self._query.rows and self._query.cols)

    @cached_property
    def head(self) -> list[list[Heading]]:
        """Rows of column headings; there is one even where nothing is on the columns."""
        depth = max(1, len(self.page.cols.axes))
        if not self.page.cols.axes:
            measure = self.page.data.measures[self._query.measure]
            return [[Heading("c0-0", measure, "", 1, 1, "col")]]
        found: list[list[Heading]] = [[] for _ in range(depth)]
        for own, _ in self._col_heads:
            for level, heading in own:
                found[level].append(heading)
        if self.totals:
            found[0].append(Heading("c-total", "Total", "", 1, depth, "col", "total"))
        return found

    def rows(self) -> Iterator[Row]:
        """The rows of the body."""
        for line, (own, names) in zip(self._rows, self._row_heads, strict=True):
            kind = "" if line.number >= 0 else "subtotal"
            headings = tuple(heading for _, heading in own)
            yield Row(headings, tuple(self._cells(line, names)), kind)

    def foot(self) -> tuple[Shown, ...]:
        """The totals of the columns."""
        return tuple(self._cells(None, "r-total"))

    def _cells(self, row: Line | None, names: str) -> Iterator[Shown]:
        for j, col in enumerate(self._cols):
            both = f"{names} {self._col_heads[j][1] or 'c0-0'}"
            kind = "" if col.number >= 0 else "subtotal"
            yield Shown(self._cell(row, col), kind, both if self.nested else "")
        if self.totals:
            yield Shown(self._cell(row, None), "total", f"{names} c-total" if self.nested else "")

    def _cell(self, row: Line | None, col: Line | None) -> Cell:
        page = self.page
        if row is None and col is None:
            return page.total.cell(0)
        if row is None and col is not None and col.number >= 0:
            return page.col_totals.cell(col.number)
        if col is None and row is not None and row.number >= 0:
            return page.row_totals.cell(row.number)
        if row is not None and col is not None and min(row.number, col.number) >= 0:
            return page.body.cell(row.number, col.number)
        here: Places = () if row is None else row.places
        there: Places = () if col is None else col.places
        block, known = self._sums(len(here), len(there))
        number = known.get(here + there)
        if number is not None:
            return block.cell(number)
        nothing = None if block.deviation is None else 0.0
        return Cell(0, block.unit, 0.0, 0.0, nothing, 0.0, 0.0, (ABSENT,))

    def _sums(self, down: int, across: int) -> Part:
        """The figures by the first variables of the rows and of the columns."""
        if (down, across) not in self._parts:
            by = self._query.rows[:down] + self._query.cols[:across]
            figures = self.page.data.figures(self._query.asked().by_some(by))
            side, block = in_a_line(self.page.data, figures)
            self._parts[down, across] = block, {key: i for i, key in enumerate(side.places)}
        return self._parts[down, across]


def _lines(page: Side, whole: Side, subtotals: bool) -> list[Line]:
    """Rows or columns, each group followed by its subtotal where its last line is on the page."""
    found: list[Line] = []
    after: dict[Places, Places] = {}
    if subtotals:
        after = dict(zip(whole.places, whole.places[1:], strict=False))
    for place, places in enumerate(page.places):
        found.append(Line(places, place))
        if subtotals:
            following = after.get(places, ())
            found += [
                Line(places[:depth], -1)
                for depth in range(len(page.axes) - 1, 0, -1)
                if following[:depth] != places[:depth]
            ]
    return found


def _headings(side: Side, lines: Sequence[Line], letter: str) -> list[Headed]:
    """For each line the headings that begin at it, with their levels, and the names of all it has.

    Columns have the letter c, rows r.
    """
    depth, along = len(side.axes), "col" if letter == "c" else "row"
    found: list[Headed] = []
    names: list[str] = []
    for place, line in enumerate(lines):
        own: list[tuple[int, Heading]] = []
        before: Places = lines[place - 1].places if place else ()
        for level in range(len(line.places)):
            start = line.places[: level + 1]
            if before[: level + 1] == start:
                continue
            span, last = _span(lines[place:], start), level == depth - 1
            spans = (span, 1) if letter == "c" else (1, span)
            axis, scope = side.axes[level], along if last else f"{along}group"
            label, code = axis.labels[start[-1]], axis.codes[start[-1]]
            kind = "first" if level == 0 and letter == "r" else ""
            name = f"{letter}{level}-{place}"
            own.append((level, Heading(name, label, code, *spans, scope, kind)))
        if line.number < 0:
            level, rest = len(line.places), depth - len(line.places)
            spans = (1, rest) if letter == "c" else (rest, 1)
            name = f"{letter}{level}-{place}"
            own.append((level, Heading(name, "Total", "", *spans, along, "subtotal")))
        for level, heading in own:
            names = [*names[:level], heading.name]
        found.append((own, " ".join(names[: len(line.places) + (line.number < 0)])))
    return found


def _span(lines: Sequence[Line], start: Places) -> int:
    """How many lines in a row begin with the same places."""
    return sum(1 for _ in takewhile(lambda line: line.places[: len(start)] == start, lines))
