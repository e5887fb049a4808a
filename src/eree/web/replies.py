"""What is sent back for a question, and the parts of it that pages share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eree.errors import Refusal
from eree.web.blocks import FLAGS, Cell

HTML, JSON = "text/html; charset=utf-8", "application/json"


@dataclass(frozen=True)
class Reply:
    """What is sent back."""

    status: int
    kind: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


def as_plain(found: Mapping[str, Any], status: int = 200) -> Reply:
    """Plain data as JSON."""
    body = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Reply(status, JSON, body.encode())


def flags_on(cells: Iterable[Cell]) -> list[str]:
    """The flags that stand on some of the cells, in their order."""
    found = {flag for cell in cells for flag in cell.flags}
    return [flag for flag in FLAGS if flag in found]


def last_page(count: int, size: int, asked: int) -> int:
    """How many pages there are; refuses one that is not there."""
    pages = max(1, -(-count // size))
    if asked > pages:
        raise Refusal(f"there is no page {asked:,}; the last one is {pages:,}")
    return pages
