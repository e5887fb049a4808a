"""What is sent back for a question, and the parts of it that pages share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
