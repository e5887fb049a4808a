"""What the forms of a page say, turned into the address of a query.

Forms name every variable, as browsers do; addresses name only what is asked.  A form is answered by
sending the reader on to the address.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eree.errors import Refusal
from eree.web.dataset import DataSet
from eree.web.query import GROUP, WHERE, YES, Query, parse, quoted, written

AT = "at."
#: The pages of a data set that show what a query asks for; the first has no name of its own.
TABS = {
    "": "Table",
    "chart": "Chart",
    "map": "Map",
    "ranking": "Ranking",
    "threshold": "Threshold",
    "about": "About",
}
EXTRAS = ("per_job", "damage")


@dataclass(frozen=True)
class Sent:
    """Where a form leads: a page, the query, and what else the page needs."""

    page: str
    query: Query
    extras: tuple[tuple[str, str], ...] = ()

    def address(self, data: DataSet) -> str:
        """The address to go on to."""
        page = f"/{self.page}" if self.page else ""
        return f"/d/{data.name}{page}?{written([*self.query.pairs(), *self.extras])}"


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
            places[data.variable(name.removeprefix(AT)).name] = value
        elif name == "order":
            order.append(data.variable(value).name)
        elif name.startswith(WHERE):
            where.setdefault(data.variable(name.removeprefix(WHERE)).name, []).append(value)
        elif name.startswith(GROUP):
            if value:
                groups[data.variable(name.removeprefix(GROUP)).name] = value
        elif name in ("measure", "show", "confidence", "sort", "subtotals"):
            plain.append((name, value))
        elif name in ("tab", "choose", "swap", "find", "again", *EXTRAS):
            buttons[name] = value
        else:
            raise Refusal(f"there is no field {name!r} in this form")
    names = [*dict.fromkeys(order), *(v.name for v in data.variables if v.name not in order)]
    asked: list[tuple[str, str]] = []
    for side in ("rows", "cols"):
        asked += [(side, name) for name in names if places.get(name) == side]
    shown = {name for _, name in asked}
    asked += [(f"{GROUP}{name}", level) for name, level in groups.items() if name in shown]
    for name, codes in where.items():
        kept = list(dict.fromkeys(codes))
        if set(kept) >= set(data.variable(name).codes):
            continue  # all of them: no filter
        asked += [(f"{WHERE}{name}", code) for code in kept]
    query = parse(data, asked + plain)
    if "swap" in buttons:
        query = query.swapped()
    tab = buttons.get("tab", "")
    if tab not in TABS:
        raise Refusal("there is no such page of a data set")
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
    found += [(n, getattr(query, n)) for n in ("measure", "show", "confidence", "sort")]
    return [*found, ("subtotals", YES)] if query.subtotals else found
