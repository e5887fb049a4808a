"""Rankings and decisions as files: the list that the JSON answer has, a row for each area."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from eree.web.catalogue import Missing
from eree.web.export import EXPORTS, csv_of
from eree.web.reply import Reply
from eree.web.words import say
from eree.web.workbook import workbook

#: Kinds of files of a list.
LISTS = ("csv", "xlsx")


def checked(ending: str) -> str:
    """The kind of a file by its ending; refuses others."""
    if ending not in LISTS:
        raise no_such_file(LISTS)
    return ending


def no_such_file(known: Iterable[str]) -> Missing:
    """A refusal of a kind of files that there is not."""
    there = ", ".join(known)
    return Missing(say("there is no file of this kind; there are %(known)s and json", known=there))


def list_file(answer: Reply, ending: str) -> Reply:
    """A list as a file, from the answer that has it as JSON."""
    found = json.loads(answer.body)
    table, about = _table(found["areas"]), found["metadata"]
    pairs = list(_pairs(about))
    body = csv_of(table, about["release"]) if ending == "csv" else workbook(table, pairs)
    said = dict(answer.headers)["content-disposition"]
    name = said.partition('filename="')[2].removesuffix('.json"')
    return Reply(200, EXPORTS[ending][0], body).named(f"{name}.{ending}", "attachment")


def _table(areas: list[dict[str, Any]]) -> pa.Table:
    for area in areas:
        area["flags"] = " ".join(area["flags"])
    return pa.Table.from_pylist(areas)


def _pairs(about: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What goes with a list, as names and texts; the guarantee is in the citation."""
    for name, value in about.items():
        if name == "about":
            yield from ((key.capitalize(), str(text)) for key, text in value.items())
        elif isinstance(value, list):
            yield from ((name.capitalize(), str(text)) for text in value)
        elif isinstance(value, str) and value:
            yield name.replace("_", " ").capitalize(), value
