"""Forms that are sent: what no address has room for is kept under a short name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import quote

from eree.web.codelists import MARK, CodeLists
from eree.web.comparison import MOST_DAMAGE, Slips
from eree.web.damages import MOST_AREAS, Slip
from eree.web.dataset import MOST_FIND, DataSet
from eree.web.query import WHERE, Sent, written
from eree.web.words import say

#: So many codes are named one by one in the address of a form, in so many letters; and damage.
MOST_NAMED, MOST_LETTERS = 100, 3_000
#: Lines of damage that are kept, of which some may be empty.
MOST_LINES = 2 * MOST_AREAS


def shortened(data: DataSet, made: Sent, lists: CodeLists, sender: str) -> Sent:
    """The same with long filters and lines of damage under short names.

    Raises `Slips` where the lines are more than are kept.
    """
    where = dict(made.query.where)
    for name in sorted(where, key=lambda one: -len(where[one])):
        named = [(f"{WHERE}{n}", code) for n, codes in where.items() for code in codes]
        if len(named) <= MOST_NAMED and len(written(named)) <= MOST_LETTERS:
            break
        variable, codes = data.variable(name), where[name]
        if len(codes) > 1:
            held = variable.held(codes)
            kept = lists.keep(data.list_of(variable), len(variable.codes), held, sender)
            where[name] = (kept,)
    extras = tuple(
        (n, _kept(data, text, lists, sender) if n == "damage" else text[:MOST_FIND])
        for n, text in made.extras
    )
    return replace(made, query=replace(made.query, where=where), extras=extras)


def _kept(data: DataSet, text: str, lists: CodeLists, sender: str) -> str:
    if len(text) <= MOST_LETTERS and len(quote(text)) <= MOST_LETTERS:
        return text
    few = len(text) <= MOST_DAMAGE and len(text.splitlines()) <= MOST_LINES
    if not few or not (found := lists.keep_text(data.name, text, sender)):
        why = say("this is more than is kept; compare fewer areas at once")
        raise Slips([Slip(1, "", why)])
    return found


def damage_of(data: DataSet, text: str, lists: CodeLists) -> tuple[str, Iterable[Slip]]:
    """Lines of damage, be they kept under a name; a slip where they are not any more."""
    if not text.startswith(MARK) or len(text.split()) != 1:
        return text, ()
    found = lists.find_text(data.name, text)
    if found is not None:
        return found, ()
    why = say(
        "lines of damage are kept for a day, or until the tool is started again; send these"
        " once more"
    )
    return "", (Slip(1, "", why),)
