"""What is sent back for a question, and the parts of it that pages share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eree.errors import Refusal
from eree.web.blocks import FLAGS, Cell

HTML, JSON = "text/html; charset=utf-8", "application/json"
Pairs = Sequence[tuple[str, str]]


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


def split(pairs: Pairs, names: tuple[str, ...]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Settings of a page of its own, each once, and those of the query."""
    own: dict[str, str] = {}
    for name, value in pairs:
        if name in names:
            if name in own:
                raise Refusal(f"{name} is given twice; give it once")
            own[name] = value
    return own, [(name, value) for name, value in pairs if name not in names]


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
