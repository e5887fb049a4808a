"""JSON as texts: columns are written each at once, and then put side by side, row by row.

So an answer of many rows is made without an object for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
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
    def rows(cls, columns: Mapping[str, pa.StringArray]) -> Json:
        """A list of objects, from the texts of each of their parts."""
        parts, start = list[Any](), "{"
        for name, texts in columns.items():
            parts += [f"{start}{text_of(name)}:", texts]
            start = ","
        joined = pc.binary_join_element_wise(*parts, "},", "")
        if not len(joined):
            return cls(b"[]")
        _, offsets, data = joined.buffers()
        end = int(np.frombuffer(offsets, np.int32)[len(joined)])
        return cls(b"".join((b"[", memoryview(data)[: end - 1], b"]")))


def text_of(value: Any) -> str:
    """A value as JSON."""
    return to_json(value, inf_nan_mode="null").decode()


def texts_of(numbers: NDArray[Any]) -> pa.StringArray:
    """Each of some numbers as JSON; those without a bound, and what is none, are null."""
    real = numbers.dtype.kind == "f"
    found = pc.cast(pa.array(numbers + 0.0 if real else numbers), pa.string())  # no -0
    if real and not (known := np.isfinite(numbers)).all():
        found = pc.if_else(pa.array(known), found, "null")
    assert isinstance(found, pa.StringArray)
    return found
