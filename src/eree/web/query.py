"""A query and its address: the URL is the query, one URL for each.

    rows=place&cols=sector&where.ownership=private&group.occupation=major
    &measure=jobs&show=margin&confidence=0.9&sort=-jobs&page=2&across=2&subtotals=yes&exact=yes

Names may come several times: each adds one variable, or one code that is kept.  Defaults are
left out of an address, but for `show`, so that no query has an empty one.

Forms name every variable, as browsers do; addresses name only what is asked.  A form is answered by
sending the reader on to the address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Literal, cast
from urllib.parse import quote, unquote

from eree.errors import Refusal
from eree.web.codelists import MARK
from eree.web.dataset import ERRORS, DataSet, Error
from eree.web.figures import Asked
from eree.web.refusals import no_code, no_error, no_level, no_measure, no_setting, twice
from eree.web.shares import SHARES, level_of_parts
from eree.web.words import say

#: Confidence levels of intervals.
CONFIDENCES = ("0.8", "0.9", "0.95", "0.99")
Sort = Literal["code", "jobs", "-jobs"]
SORTS: Mapping[Sort, str] = MappingProxyType(
    {"code": say("As listed"), "-jobs": say("Largest first"), "jobs": say("Smallest first")}
)
MOST_SIDES = 4
#: A chart of a variable with more codes is drawn from the largest figure on.
MOST_AS_LISTED = 8
MOST_PARTS = 2_000
MOST_PAGE = 100_000
WHERE, GROUP, AT, YES, SIDES = "where.", "group.", "at.", "yes", ("rows", "cols")
#: The pages of a data set that show what a query asks for; the first has no name of its own.
TABS = {
    "": say("Table"),
    "chart": say("Chart"),
    "map": say("Map"),
    "ranking": say("Ranking"),
    "threshold": say("Threshold"),
    "about": say("About"),
}
#: Settings of the page of thresholds alone.
EXTRAS = ("per_job", "damage")
_SINGLE = (
    *("measure", "share", "show", "confidence", "sort", "page", "across", "subtotals", "exact"),
)
#: Settings that are asked for, or left out.
_TICKED = ("subtotals", "exact")
_GONE = say("a list is kept for a day, or until the tool is started again; send this one again")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CONTROL_IN_LINES = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@dataclass(frozen=True)
class Query:
    """What is asked of a data set, checked against it by `parse`."""

    rows: tuple[str, ...] = ()
    cols: tuple[str, ...] = ()
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    measure: str = "jobs"
    show: Error = "margin"
    confidence: str = "0.9"
    sort: Sort = "code"
    page: int = 1
    across: int = 1
    subtotals: bool = False
    exact: bool = False
    share: str = ""  # of which total figures are percents; none where they are counts

    @property
    def by(self) -> tuple[str, ...]:
        """All variables of the table."""
        return self.rows + self.cols

    def asked(self, *, together: bool = False) -> Asked:
        """The figures that are needed; all intervals may have to hold together."""
        level = float(self.confidence)
        level = level_of_parts(level) if self.share else level
        return Asked(self.by, self.where, self.groups, self.measure, level, together)

    def pairs(self) -> list[tuple[str, str]]:
        """Names and values of the address, in their one order."""
        found = [("rows", name) for name in self.rows] + [("cols", name) for name in self.cols]
        found += [(f"{GROUP}{name}", level) for name, level in self.groups.items()]
        found += [(f"{WHERE}{n}", code) for n, codes in self.where.items() for code in codes]
        for name in ("measure", "share", "confidence", "sort", "page", "across"):
            if (value := getattr(self, name)) != getattr(Query, name):  # which is the default
                found.append((name, str(value)))
        found += [(name, YES) for name in _TICKED if getattr(self, name)]
        return [*found, ("show", self.show)]

    def address(self, own: Sequence[tuple[str, str]] = ()) -> str:
        """The query string, with settings behind it that belong to one page alone."""
        return f"{self._address}&{written(own)}" if own else self._address

    @cached_property
    def _address(self) -> str:
        return written(self.pairs())  # which a page has many times

    def on_page(self, page: int, across: int = 1) -> Query:
        """The same query, another page of its rows, or of its columns."""
        here = (page, across) == (self.page, self.across)
        return self if here else replace(self, page=page, across=across)

    def charted(self, data: DataSet) -> Query:
        """The same query as a chart shows it first: many bars are drawn from the largest on."""
        many = self.rows and len(data.variable(self.rows[0]).codes) > MOST_AS_LISTED
        return replace(self, sort="-jobs") if many and self.sort == "code" else self

    def counted(self) -> Query:
        """The same query with counts, where it asks for shares."""
        return replace(self, share="")

    def rounded(self, *, exact: bool = False) -> Query:
        """The same query with figures that are rounded to what their errors support, or not."""
        return replace(self, exact=exact)

    def swapped(self) -> Query:
        """Rows for columns."""
        return self.with_sides(self.cols, self.rows, self.groups)

    def with_sides(
        self, rows: tuple[str, ...], cols: tuple[str, ...], groups: Mapping[str, str]
    ) -> Query:
        """The same of other variables, from the first page on; groups of others are left out."""
        kept = {name: level for name, level in groups.items() if name in rows + cols}
        return replace(self, rows=rows, cols=cols, groups=kept, page=1, across=1)


def written(pairs: Sequence[tuple[str, str]]) -> str:
    """Names and values as a query string."""
    return "&".join(f"{quoted(n)}={quoted(v)}" for n, v in pairs)


@lru_cache(maxsize=4096)  # names and codes come again and again
def quoted(text: str) -> str:
    """A text as a part of an address."""
    return quote(text, safe="")


def read(text: str) -> list[tuple[str, str]]:
    """The names and values of a query string; refuses what is none."""
    try:
        parts = [part.partition("=") for part in text.replace("+", " ").split("&") if text]
        if len(parts) > MOST_PARTS or not all(equals for _, equals, _ in parts):
            raise ValueError
        found = [(unquote(n, errors="strict"), unquote(v, errors="strict")) for n, _, v in parts]
    except (ValueError, UnicodeDecodeError):
        raise Refusal(
            say(
                "the address cannot be read; it is made of at most %(most)s parts such as"
                " %(example)s",
                most=f"{MOST_PARTS:,}",
                example="rows=place&show=margin",
            )
        ) from None
    return readable(found)


def readable(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same names and values; refuses characters that nothing has."""
    for name, value in pairs:
        if _CONTROL.search(name) or _CONTROL_IN_LINES.search(value):
            raise Refusal(say("the address holds characters that no code has"))
    return pairs


def parse(data: DataSet, pairs: Sequence[tuple[str, str]]) -> Query:
    """The query of names and values; refuses what the data set does not know."""
    rows: list[str] = []
    cols: list[str] = []
    where: dict[str, list[str]] = {}
    groups: dict[str, str] = {}
    single: dict[str, str] = {}
    for name, value in pairs:
        if name in SIDES:
            (rows if name == "rows" else cols).append(data.variable(value).name)
        elif name.startswith(WHERE):
            variable = data.variable(name.removeprefix(WHERE))
            if not variable.knows(value):
                if value.startswith(MARK):
                    raise Refusal(_GONE)
                raise no_code(variable.name, value, variable.kept_by)
            where.setdefault(variable.name, []).append(value)
        elif name.startswith(GROUP):
            variable = data.variable(name.removeprefix(GROUP))
            if value not in variable.levels:
                raise no_level(variable.name, value, variable.levels)
            if variable.name in groups:
                raise Refusal(say("%(name)s has two levels; give it one", name=variable.name))
            groups[variable.name] = value
        elif name in _SINGLE:
            if name in single:
                raise twice(name)
            single[name] = value
        else:
            raise no_setting(name, ("rows", "cols", f"{WHERE}NAME", f"{GROUP}NAME", *_SINGLE))
    return _checked(data, rows, cols, where, groups, single)


def _checked(
    data: DataSet,
    rows: Sequence[str],
    cols: Sequence[str],
    where: Mapping[str, Sequence[str]],
    groups: Mapping[str, str],
    single: Mapping[str, str],
) -> Query:
    sides = (*rows, *cols)
    if len(set(sides)) < len(sides):
        raise Refusal(
            say("a variable stands twice in the table; put each on rows or on columns, once")
        )
    if len(sides) > MOST_SIDES:
        raise Refusal(
            say("a table may have at most %(most)s variables; take some off", most=MOST_SIDES)
        )
    if extra := [name for name in groups if name not in sides]:
        raise Refusal(
            say("a level is given for %(name)s, which the table is not by", name=repr(extra[0]))
        )
    kept = {}
    for variable in data.variables:  # in one order
        if variable.name not in where:
            continue
        codes = where[variable.name]
        if len(set(codes)) < len(codes):
            raise Refusal(say("%(name)s keeps a code twice; name each once", name=variable.name))
        kept[variable.name] = variable.ordered(codes)
    default = Query()
    measure, show = single.get("measure", default.measure), single.get("show", default.show)
    if measure not in data.measures:
        raise no_measure(measure, data.measures)
    if show not in data.errors:
        raise no_error(show, data.errors, ERRORS)
    confidence = single.get("confidence", default.confidence)
    sort = single.get("sort", default.sort)
    if confidence not in CONFIDENCES:
        raise Refusal(say("the confidence is one of %(known)s", known=", ".join(CONFIDENCES)))
    if sort not in SORTS:
        raise Refusal(say("rows are sorted by one of %(known)s", known=", ".join(SORTS)))
    share = single.get("share", default.share)
    if share and share not in SHARES:
        raise Refusal(
            say(
                "figures are shares of one of %(known)s, or counts without share",
                known=", ".join(SHARES),
            )
        )
    if share and show == "standard-error":
        raise Refusal(say("a share has no standard error; choose margin, interval or relative"))
    for name in _TICKED:
        if single.get(name, YES) != YES:
            raise Refusal(
                say("%(name)s is asked for with %(name)s=%(yes)s, or left out", name=name, yes=YES)
            )
    return Query(
        tuple(rows),
        tuple(cols),
        kept,
        {v.name: groups[v.name] for v in data.variables if v.name in groups},
        measure,
        show,
        confidence,
        cast(Sort, sort),
        _page(single, "page"),
        _page(single, "across"),
        "subtotals" in single,
        "exact" in single,
        share,
    )


def _page(single: Mapping[str, str], name: str) -> int:
    page = single.get(name, "1")
    if not (page.isascii() and page.isdigit() and 1 <= int(page[:9]) <= MOST_PAGE):
        raise Refusal(
            say("%(name)s is an integer from 1 to %(most)s", name=name, most=f"{MOST_PAGE:,}")
        )
    if page != str(int(page[:9])):
        raise Refusal(say("%(name)s is written without a zero in front", name=name))
    return int(page)


def default_query(data: DataSet) -> Query:
    """The table that a reader sees first: by a variable that fits on a page, if there is one."""
    fitting = [v for v in data.variables if 2 <= len(v.codes) <= 40]
    names = {variable.name for variable in data.variables}
    for variable in data.variables:  # a long list is shown by its groups
        level = next(iter(variable.levels), "")
        groups = len(variable.levels.get(level, ()))
        if level not in names and len(variable.codes) > 40 >= groups > 1:
            return Query((variable.name,), groups={variable.name: level})
    chosen = max(fitting, key=lambda v: len(v.codes), default=None)
    if chosen is None:
        chosen = min(data.variables, key=lambda v: len(v.codes), default=None)
    return Query((chosen.name,) if chosen else ())


@dataclass(frozen=True)
class Sent:
    """Where a form leads: a page, the query, and what else the page needs."""

    page: str
    query: Query
    extras: tuple[tuple[str, str], ...] = ()

    def address(self, data: DataSet) -> str:
        """The address to go on to."""
        page = f"/{self.page}" if self.page else ""
        return f"/d/{data.name}{page}?{self.query.address(self.extras)}"


def sent(data: DataSet, pairs: Sequence[tuple[str, str]]) -> Sent:
    """Read a form; refuses what a page of ours does not send."""
    places: dict[str, str] = {}
    order: list[str] = []
    where: dict[str, list[str]] = {}
    groups: dict[str, str] = {}
    plain: list[tuple[str, str]] = []
    buttons: dict[str, str] = {}
    for name, value in pairs:
        if name.startswith(AT):
            if value not in ("", *SIDES):
                raise Refusal(say("a variable stands on rows, on cols, or nowhere"))
            places[data.variable(name.removeprefix(AT)).name] = value
        elif name == "order":
            order.append(data.variable(value).name)
        elif name.startswith(WHERE):
            where.setdefault(data.variable(name.removeprefix(WHERE)).name, []).append(value)
        elif name.startswith(GROUP):
            if value:
                groups[data.variable(name.removeprefix(GROUP)).name] = value
        elif name in ("measure", "share", "show", "confidence", "sort", *_TICKED):
            plain += [(name, value)] if value or name != "share" else []
        elif name in ("tab", "choose", "swap", "earlier", "find", "again", *EXTRAS):
            buttons[name] = value
        else:
            raise Refusal(say("there is no field %(name)s in this form", name=repr(name)))
    names = [*dict.fromkeys(order), *(v.name for v in data.variables if v.name not in order)]
    if moved := buttons.get("earlier"):  # before the one that stands before it on its side
        side_of = places.get(data.variable(moved).name)
        beside = [name for name in names if places.get(name) == side_of]
        if side_of and beside.index(moved):
            names.remove(moved)
            names.insert(names.index(beside[beside.index(moved) - 1]), moved)
    asked = [(side, name) for side in SIDES for name in names if places.get(name) == side]
    shown = {name for _, name in asked}
    asked += [(f"{GROUP}{name}", level) for name, level in groups.items() if name in shown]
    for name, codes in where.items():
        kept = list(dict.fromkeys(codes))
        if set(kept) >= set(data.variable(name).codes):
            continue  # all of them: no filter
        asked += [(f"{WHERE}{name}", code) for code in kept]
    if any(name == "share" for name, _ in plain):  # which has no standard error
        plain = [(n, "margin" if v == "standard-error" else v) for n, v in plain]
    query = parse(data, asked + plain)
    if "swap" in buttons:
        query = query.swapped()
    tab = buttons.get("tab", "")
    if tab not in TABS:
        raise Refusal(say("there is no such page of a data set"))
    own = [(name, buttons[name]) for name in EXTRAS if tab == "threshold" and buttons.get(name)]
    if chosen := buttons.get("choose") or buttons.get("again"):
        extras = [*([("tab", tab)] if tab else []), *own]
        if "again" in buttons and buttons.get("find"):
            extras.append(("find", buttons["find"]))
        return Sent(f"codes/{quoted(data.variable(chosen).name)}", query, tuple(extras))
    return Sent(tab, query, tuple(own))


def carried(query: Query, *, without: str | None = None) -> list[tuple[str, str]]:
    """A query as hidden fields of a form, without the filter of one variable."""
    found = [(f"{AT}{name}", "rows") for name in query.rows]
    found += [(f"{AT}{name}", "cols") for name in query.cols]
    found += [("order", name) for name in query.by]
    found += [(f"{GROUP}{name}", level) for name, level in query.groups.items()]
    found += [
        (f"{WHERE}{n}", code) for n, codes in query.where.items() if n != without for code in codes
    ]
    settings = ("measure", "share", "show", "confidence", "sort")
    found += [(n, getattr(query, n)) for n in settings if getattr(query, n)]
    return found + [(name, YES) for name in _TICKED if getattr(query, name)]
