"""What is sent back: a status, a kind, a body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from eree.web.texts import Json
from eree.web.words import say

HTML, JSON = "text/html; charset=utf-8", "application/json"
PLAIN = "text/plain; charset=utf-8"
SVG = "image/svg+xml"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PARQUET = "application/vnd.apache.parquet"


#: What a page says first that refuses, by its status.
HEADINGS = {
    400: say("This address asks for something that cannot be answered"),
    404: say("There is nothing here"),
    405: say("Pages can only be read"),
    408: say("This was not sent in time"),
    413: say("This table is too large"),
    414: say("This address is too long"),
    500: say("Something went wrong on our side"),
    503: say("This cannot be answered just now"),
}
OTHERWISE = say("This cannot be answered")


@dataclass(frozen=True)
class Reply:
    """What is sent back."""

    status: int
    kind: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    framed: bool = False  # whether pages of others may show it in a frame

    def named(self, file: str, how: str = "inline") -> Reply:
        """The same, to be saved under a name: where it is shown, or at once as an attachment."""
        said = ("content-disposition", f'{how}; filename="{file}"')
        return replace(self, headers=(*self.headers, said))


def as_json(found: Mapping[str, Any], status: int = 200) -> Reply:
    """Plain data as a reply."""
    return Reply(status, JSON, Json.of(found))


def moved(status: int, where: str) -> Reply:
    """Leads to another address of ours."""
    return Reply(status, PLAIN, b"", (("location", where),))
