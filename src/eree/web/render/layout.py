"""How the table of an answer is laid out on a page, and on paper.

Every subtotal is a figure of its own, summed up from signed values, with an error of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import inf
from typing import NamedTuple

from markupsafe import escape

from eree.web.answer import Answer, Side, in_a_line
from eree.web.block import ABSENT, FLAG_NAMES, Block, Cell
from eree.web.render.charts import NOT_KNOWN, UNKNOWN, ends, error, figure
from eree.web.words import say, spoken

Places = tuple[int, ...]
#: A line of figures, and where in it those of given places are.
Part = tuple[Block, Mapping[Places, int]]
#: Letters of a line on paper, of a heading of a row and of one of a column: at most, and at least.
PAPER, PAPER_SIDE, PAPER_COLUMN = 100, 20, 10
TOTAL = say("Total")
BETWEEN, GIVE = say("%(low)s to %(high)s"), say("give or take %(margin)s")


def marks(cell: Cell) -> str:
    """The flags of a figure, but for the one that says that it is 0, as HTML."""
    if not cell.flags:
        return ""
    words = [(name, spoken(FLAG_NAMES[name])) for name in cell.flags if name != ABSENT]
    return "".join(
        f'<span class="flag {name}" title="{word}" aria-hidden="true">{name[0]}</span>'
        f'<span class="sr">{word}; </span>'
        for name, word in words
    )


def marked(cell: Cell, decimals: int | None) -> str:
    """A figure with its flags as HTML; its decimals stand back."""
    return f"{marks(cell)}{divided(figure(cell, decimals))}"


def divided(shown: str) -> str:
    """A figure as HTML; its decimals stand back, and that it is not known is said."""
    if shown == UNKNOWN:
        return f'<span aria-hidden="true">{shown}</span><span class="sr">{spoken(NOT_KNOWN)}</span>'
    whole, point, rest = shown.partition(".")
    return f'{whole}<span class="rest">.{rest}</span>' if point else whole


class Line(NamedTuple):
    """A row or a column: `places` of its codes; a subtotal has fewer of them than there are axes.

    `number` says which row or column of the answer it is, -1 for a subtotal.
    """

    places: Places
    number: int


class Heading(NamedTuple):
    """A heading that stands over, or beside, one or more lines."""

    name: str
    label: str
    code: str
    across: int
    down: int
    scope: str
    kind: str = ""

    def html(self, nested: bool, column: bool = False) -> str:
        """The heading of a table, with its code where it is one of rows."""
        made = f'<th scope="{self.scope}"'
        made += f' id="{self.name}"' if nested else ""
        made += f' class="{self.kind}"' if self.kind else ""
        made += f' colspan="{self.across}"' if self.across > 1 else ""
        made += f' rowspan="{self.down}"' if self.down > 1 else ""
        inside = _titled(spoken(self.label), "" if column else self.code)
        if self.down > 1 and not column:
            inside = f"<div>{inside}</div>"
        elif self.across > 1 and column:
            inside = f"<span>{inside}</span>"
        return f"{made}>{inside}</th>"


@lru_cache(maxsize=4096)  # codes come again and again
def _titled(label: str, code: str) -> str:
    """What a heading says, with its code where that is something else, as HTML."""
    found = str(escape(label))
    same = not code or label.casefold() == code.casefold()
    return found if same else f'{found} <span class="code">{escape(code)}</span>'


#: What stands at a line: headings that begin there, by level, and the names of all that it has.
Headed = tuple[list[tuple[int, Heading]], str]


class Row(NamedTuple):
    """A row of the page: headings that begin at it, then cells; `every` is all that it is under.

    Cells refer to headings by `names`.
    """

    headings: tuple[Heading, ...]
    every: tuple[Heading, ...]
    names: str
    cells: list[Cell]
    kind: str


@dataclass(frozen=True)
class Sheet:
    """Some columns of a table that is too wide for paper: their headings, and which they are."""

    head: list[list[Heading]]
    first: int
    last: int


class Layout:
    """How a page of an answer is laid out; `whole` is the answer with all of its pages."""

    def __init__(self, page: Answer, whole: Answer) -> None:
        self.page, self._query = page, page.query
        self._wide, self._decimals = len(page.cols), page.shown_decimals
        wanted = page.query.subtotals and not page.query.share
        self._rows = _lines(page.rows, whole.rows, wanted)
        self._cols = _lines(page.cols, whole.cols, wanted)
        self.nested = len(page.rows.axes) > 1 or len(page.cols.axes) > 1
        self._row_heads = _headings(page.rows, self._rows, "r")
        self._col_heads = _headings(page.cols, self._cols, "c")
        self._parts: dict[tuple[int, int], Part] = {}
        self._cells = [page.whole.cells[part] for part in page.parts]
        self._marks: dict[tuple[str, ...], str] = {}
        self._between, self._give = spoken(BETWEEN), spoken(GIVE)
        self._simple = all(col.number >= 0 for col in self._cols)
        # what columns are and how they are headed, and that of the totals of rows
        totals = [("total", "c-total")] if self.totals else []
        kinds = [
            ("" if col.number >= 0 else "subtotal", names or "c0-0")
            for col, (_, names) in zip(self._cols, self._col_heads, strict=True)
        ] + totals
        starts = [f'<td class="{kind}"' if kind else "<td" for kind, _ in kinds]
        self._plain = [f"{start}>%s</td>" for start in starts]
        # with the names of the headings of a row between the parts
        named = [
            f' {names}">%s</td>{start} headers="' if start else f' {names}">%s</td>'
            for (_, names), start in zip(kinds, [*starts[1:], ""], strict=False)
        ]
        self._named = [f'{starts[0]} headers="', *named] if kinds else [""]

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
        if not self.page.cols.axes:
            return [[Heading("c0-0", spoken(self.page.measure), "", 1, 1, "col")]]
        return self._head(self._col_heads, self.totals)

    def _head(self, heads: Sequence[Headed], total: bool) -> list[list[Heading]]:
        depth = len(self.page.cols.axes)
        found: list[list[Heading]] = [[] for _ in range(depth)]
        for own, _ in heads:
            for level, heading in own:
                found[level].append(heading)
        if total:
            found[0].append(Heading("c-total", spoken(TOTAL), "", 1, depth, "col", "total"))
        return found

    def heads(self, line: Sequence[Heading], *, on_paper: bool = False) -> str:
        """A row of column headings."""
        nested = self.nested and not on_paper
        return "".join([heading.html(nested, column=True) for heading in line])

    @cached_property
    def rows(self) -> list[Row]:
        """The rows of the body."""
        found, every = [], tuple[Heading, ...]()
        for line, (own, names) in zip(self._rows, self._row_heads, strict=True):
            kind = "" if line.number >= 0 else "subtotal"
            headings = tuple([heading for _, heading in own])
            every = every[: own[0][0]] + headings if own else every
            found.append(Row(headings, every, names, self._line(line), kind))
        return found

    def body(self, sheet: Sheet | None = None) -> str:
        """The rows of the body, or what of them is on a sheet of paper."""
        lines = []
        for row, inside in zip(self.rows, self._insides, strict=True):
            kind = f' class="{row.kind}"' if row.kind else ""
            lines.append(f"<tr{kind}>{self._html(row, inside, sheet)}</tr>")
        return ("\n" if sheet is None else "").join(lines)

    def total(self, sheet: Sheet | None = None) -> str:
        """The same of the totals of the columns."""
        return self._html(self.foot, self._inside_of_foot, sheet)

    def _html(self, row: Row, inside: tuple[str, ...], sheet: Sheet | None) -> str:
        """The headings and cells of a row; on paper all of its headings, without names."""
        if sheet is None and self.nested:
            headings = [heading.html(nested=True) for heading in row.headings]
            return "".join(headings) + row.names.join(self._named) % inside
        some = slice(None) if sheet is None else slice(sheet.first, sheet.last)
        own = [heading._replace(down=1, scope="row") for heading in row.every]
        headings = [heading.html(nested=False) for heading in own]
        return "".join(headings) + "".join(self._plain[some]) % inside[some]

    @cached_property
    def foot(self) -> Row:
        """The totals of the columns."""
        return Row((), (), "r-total", self._line(None), "")

    @cached_property
    def sheets(self) -> list[Sheet]:
        """Blocks of columns that fit on paper one after the other.

        None where all do at once, unless rows are in groups, which paper splits.
        """
        room = PAPER - PAPER_SIDE * len(self._query.rows)
        wide = [self._width(place, cell) for place, cell in enumerate(self.foot.cells)]
        if sum(wide) <= room and len(self._query.rows) < 2:
            return []
        starts, left = [0], float(room)
        for place, width in enumerate(wide):
            if width > left and place > starts[-1]:
                starts.append(place)
                left = room
            left -= width
        if self.totals and starts[-1] == len(self._cols) and starts[-1] - 1 not in (-1, *starts):
            starts[-1] -= 1  # totals do not stand alone
        ends = [*starts[1:], len(wide)]
        return [self._sheet(first, last) for first, last in zip(starts, ends, strict=True)]

    def _sheet(self, first: int, last: int) -> Sheet:
        own = _headings(self.page.cols, self._cols[first:last], "c")
        wide = self._head(own, last > len(self._cols)) if self.page.cols.axes else self.head
        return Sheet(wide, first, last)

    def _width(self, place: int, cell: Cell) -> float:
        """About how many letters a column is wide: its total is the longest figure in it."""
        decimals, measured = self._decimals, self._query.measure == "jobs"
        said = error(cell, self._query.show, decimals) if measured else ""
        labels: list[str] = [TOTAL]
        if place < len(self._cols):
            own = zip(self.page.cols.axes, self._cols[place].places, strict=False)
            labels = [axis.labels[at] for axis, at in own]
        word = max((len(word) for label in labels for word in label.split()), default=0)
        figures = max(len(figure(cell, decimals)) + 2, 0.9 * len(said))
        return 2 + max(PAPER_COLUMN, figures, min(word, 16))

    def _line(self, row: Line | None) -> list[Cell]:
        """The cells of a row, or of the foot."""
        number = -1 if row is None else row.number
        if self._simple and number >= 0:
            body, totals, *_ = self._cells
            own = body[number * self._wide : (number + 1) * self._wide]
            return [*own, totals[number]] if self.totals else own
        columns: list[Line | None] = [*self._cols, None] if self.totals else [*self._cols]
        return [self._cell(row, col) for col in columns]

    @cached_property
    def _insides(self) -> list[tuple[str, ...]]:
        """What stands in the cells of each row."""
        return [tuple([self._inside(cell) for cell in row.cells]) for row in self.rows]

    @cached_property
    def _inside_of_foot(self) -> tuple[str, ...]:
        return tuple([self._inside(cell) for cell in self.foot.cells])

    def _inside(self, cell: Cell) -> str:
        """What stands in a cell, as HTML: a figure with its error, and words of ours alone."""
        if ABSENT in cell.flags:
            return '<span class="none">0</span>'
        decimals, query = self._decimals, self._query
        if (flags := self._marks.get(cell.flags)) is None:
            flags = self._marks[cell.flags] = marks(cell)
        estimate = f'<span class="estimate">{flags}{divided(figure(cell, decimals))}</span>'
        if query.measure != "jobs" or (query.share and not cell.margin > 0):
            return estimate
        if query.show == "interval" and cell.high != inf:
            low, high = ends(cell, decimals)
            said = self._between % {"low": low, "high": high}
        else:
            said = spoken(error(cell, query.show, decimals))
        if said[:1] == "±":  # which few readers of screens say
            words = self._give % {"margin": said[1:]}
            said = f'<span aria-hidden="true">{said}</span><span class="sr">, {words}</span>'
        return f'{estimate}<span class="error">{said}</span>'

    def _cell(self, row: Line | None, col: Line | None) -> Cell:
        body, row_totals, col_totals, total = self._cells
        if row is None and col is None:
            return total[0]
        if row is None and col is not None and col.number >= 0:
            return col_totals[col.number]
        if col is None and row is not None and row.number >= 0:
            return row_totals[row.number]
        if row is not None and col is not None and row.number >= 0 <= col.number:
            return body[row.number * self._wide + col.number]
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
            last = level == depth - 1
            span = 1 if last else _span(lines, place, start)
            spans = (span, 1) if letter == "c" else (1, span)
            axis, scope = side.axes[level], along if last else f"{along}group"
            labels = axis.told_apart if letter == "c" else axis.labels
            label, code = labels[start[-1]], axis.codes[start[-1]]
            kind = f"at-{level}" if letter == "r" else ""
            name = f"{letter}{level}-{place}"
            own.append((level, Heading(name, label, code, *spans, scope, kind)))
        if line.number < 0:
            level, rest = len(line.places), depth - len(line.places)
            spans = (1, rest) if letter == "c" else (rest, 1)
            name = f"{letter}{level}-{place}"
            kind = f"subtotal at-{level}" if letter == "r" else "subtotal"
            own.append((level, Heading(name, spoken(TOTAL), "", *spans, along, kind)))
        for level, heading in own:
            names = [*names[:level], heading.name]
        found.append((own, " ".join(names[: len(line.places) + (line.number < 0)])))
    return found


def _span(lines: Sequence[Line], place: int, start: Places) -> int:
    """How many lines in a row, from a place on, begin with the same places."""
    end = place
    while end < len(lines) and lines[end].places[: len(start)] == start:
        end += 1
    return end - place
