"""Addresses as they are passed on: with parts that others added, or that mean nothing here."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from urllib.parse import quote, unquote

from eree.errors import Refusal
from eree.web.dataset import MOST_FIND, MOST_WORDS, DataSet
from eree.web.query import GROUP, MOST_PARTS, WHERE, Query, default_query, parse, read, written
from eree.web.refusals import reason_of, too_many_words, twice
from eree.web.words import say

#: Parts that mail programs, networks and search engines add to see where readers come from.
_TRACKING = re.compile(
    rb"(utm_\w+|fbclid|[gdty]clid|gclsrc|gad_\w+|[gw]braid|msclkid|twclid|ttclid|li_fat_id|igshid"
    rb"|igsh|mc_[ce]id|mkt_tok|srsltid|_ga|_gl|_hsenc|_hsmi|__hs\w+|__s|oly_\w+|vero_\w+|wickedid"
    rb"|pk_\w+|mtm_\w+|at_(?:medium|campaign)|s_cid)(=|$)",
    re.IGNORECASE,
)
#: So many parts that were left out are named, each by so many letters.
_MOST_NAMED, _MOST_LETTERS = 8, 60


def untracked(query: bytes) -> bytes:
    """A query string without empty parts and without those that only say where a reader came from.

    All other parts stay as they are: no setting of a query has such a name.
    """
    return b"&".join(p for p in query.split(b"&") if p and not _TRACKING.match(p))


def one_address(
    path: str, main: str, codes: Collection[str], names: Collection[str]
) -> tuple[str, str]:
    """The one address that a path with other slashes or capital letters may mean.

    That is the beginning of its language, one of some codes, and the rest; the main language has no
    beginning.  Names are those of data sets, of which one must be named where the path is of one.
    """
    parts = [part for part in path.split("/") if part]
    first = parts[0].lower() if parts else ""
    prefix = f"/{first}" if first in codes else ""
    rest = parts[1:] if prefix or first == main else parts
    of_data = len(rest) > 1 and rest[0] in ("d", "D")
    own = 3 if of_data else 1  # what follows are names that readers gave
    rest[:own] = [part.lower() for part in rest[:own]]
    if not parts or (of_data and rest[1].partition(".")[0] not in names):
        return "", ""
    return prefix, "/" + "/".join(rest)


class Unknown(Refusal):
    """A query has parts that mean nothing here.

    `instead` is the query string without them, and `left` are these parts, as people read them.
    """

    def __init__(self, reason: str, instead: str, left: Sequence[str]) -> None:
        super().__init__(reason)
        shown = [unquote(part)[:_MOST_LETTERS] for part in left[:_MOST_NAMED]]
        self.instead, self.left = instead, (*shown, *["…"] * (len(left) > len(shown)))


def as_asked(address: str, query: str) -> str:
    """An address with a query as it was written, for which metadata must be."""
    return address + "?" * bool(query) + quote(query, safe="%!$&'()*+,;=:@/?-._~")


def described_by(address: str, query: str, ending: str) -> str:
    """Where a file of a data set is described, for the header of it; its `query` is as written."""
    found = f'<{address}/about.json>; rel="describedby"'
    if ending == "csv":
        own = f"<{as_asked(f'{address}.csvm', query)}>"
        found += f', {own}; rel="describedby"; type="application/csvm+json"'
    return found


def refuse_settings(page: str, query: str) -> None:
    """Refuse a query where there is nothing to ask."""
    if query:
        raise Unknown(say("%(page)s takes no settings", page=page), "", query.split("&"))


def looked_for(page: str, query: str) -> str:
    """The words that a page is asked to find; refuses other settings."""
    pairs = read(query) if query else []
    if any(name != "find" for name, _ in pairs) or len(pairs) > 1:
        said = say("%(page)s takes no settings but find", page=page)
        raise Unknown(said, "", query.split("&"))
    find = pairs[0][1] if pairs else ""
    if len(find) > MOST_FIND or len(find.split()) > MOST_WORDS:
        raise too_many_words(MOST_WORDS)
    return find


def query_of(data: DataSet, text: str) -> Query:
    """The query of a query string; the one that a reader sees first where that is empty."""
    return with_own_settings(data, text, ())[0]


def with_own_settings(
    data: DataSet, text: str, names: Sequence[str]
) -> tuple[Query, dict[str, str]]:
    """The query of a query string, and the settings in it that belong to one page alone."""
    own: dict[str, str] = {}
    rest: list[tuple[str, str]] = []
    try:
        for name, value in read(text):
            if name not in names:
                rest.append((name, value))
            elif name in own:
                raise twice(name)
            else:
                own[name] = value
        return parse(data, rest) if rest else default_query(data), own
    except Refusal as refusal:
        raise _without_unknown(data, text, names, refusal) from None


def _without_unknown(data: DataSet, text: str, names: Sequence[str], refusal: Refusal) -> Refusal:
    """A refusal that knows what is left of a query without the parts that mean nothing."""
    parts = text.split("&")
    if len(parts) > MOST_PARTS:
        return refusal
    kept: dict[tuple[str, ...], tuple[str, str]] = {}
    left = []
    for part in parts:
        try:
            ((name, value),) = read(part)
            alone = [(name, value)]
            if name.startswith(GROUP):  # a level goes with a variable of the table
                alone.insert(0, ("rows", name.removeprefix(GROUP)))
            if name not in names:
                parse(data, alone)
        except (Refusal, ValueError):
            left.append(part)
            continue
        key = (name, value) if name.startswith(WHERE) else (name,)
        if name in ("rows", "cols"):  # a variable stands once
            key = ("", value)
        if key in kept:
            left.append(part)
        else:
            kept[key] = name, value
    pairs = list(kept.values())
    sides = [value for name, value in pairs if name in ("rows", "cols")]
    for name, value in [pair for pair in pairs if pair[0].startswith(GROUP)]:
        if name.removeprefix(GROUP) not in sides:
            pairs.remove((name, value))
            left.append(written([(name, value)]))
    try:
        parse(data, [pair for pair in pairs if pair[0] not in names])
    except Refusal:
        return refusal
    return Unknown(reason_of(refusal), written(pairs), left)
