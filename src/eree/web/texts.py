"""JSON as texts: columns are written each at once, and then put side by side, row by row.

So an answer of many rows is made without an object for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json


class Json(bytes):
    """JSON that is written already."""

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Json:
        """An object; what of it is written stays as it is, and what has no bound is null."""
        parts = (
            to_json(name)
            + b":"
            + (value if isinstance(value, Json) else to_json(value, inf_nan_mode="null"))
            for name, value in found.items()
        )
        return cls(b"{" + b",".join(parts) + b"}")

    @classmethod
    def rows(cls, columns: Mapping[str, Sequence[str]], count: int) -> Json:
        """A list of so many objects, from the texts of each of their parts."""
        if not count:
            return cls(b"[]")
        width, start = 2 * len(columns) + 1, "{"
        parts = ["},"] * (width * count)
        for place, (name, texts) in enumerate(columns.items()):
            parts[2 * place :: width] = [f"{start}{text_of(name)}:"] * count
            parts[2 * place + 1 :: width] = texts
            start = ","
        parts[-1] = "}"
        return cls(f"[{''.join(parts)}]".encode())


def text_of(value: Any) -> str:
    """A value as JSON."""
    return to_json(value, inf_nan_mode="null").decode()


def texts_of(numbers: list[Any]) -> list[str]:
    """Each of some numbers as JSON; no number has a comma in it."""
    return text_of(numbers)[1:-1].split(",")
