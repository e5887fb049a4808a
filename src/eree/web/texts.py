"""JSON as texts: columns are written each at once, and then put side by side, row by row.

So an answer of many rows is made without an object for each; those of thousands by Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic_core import to_json

#: So many numbers are written sooner by Arrow, which takes longer to begin.
MANY = 2_000
#: Integers below it are floating-point numbers as well.
_EXACT = 2**53
Texts = Sequence[str] | NDArray[np.object_] | pa.StringArray


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
    def rows(cls, columns: Mapping[str, Texts], count: int) -> Json:
        """A list of so many objects, from the texts of each of their parts."""
        if not count:
            return cls(b"[]")
        names = [f"{',' if place else '{'}{text_of(name)}:" for place, name in enumerate(columns)]
        every: list[Any] = list(columns.values())
        if any(isinstance(texts, pa.StringArray) for texts in every):
            pairs: Any = chain(*zip(names, map(pa.array, every), strict=True))
            _, offsets, data = pc.binary_join_element_wise(*pairs, "},", "").buffers()
            end = int(np.frombuffer(offsets, np.int32)[count])
            return cls(b"".join((b"[", memoryview(data)[: end - 1], b"]")))
        width = 2 * len(columns) + 1
        parts = ["},"] * (width * count)
        for place, (name, texts) in enumerate(zip(names, every, strict=True)):
            parts[2 * place :: width] = [name] * count
            parts[2 * place + 1 :: width] = texts
        parts[-1] = "}"
        return cls(f"[{''.join(parts)}]".encode())


def text_of(value: Any) -> str:
    """A value as JSON."""
    return to_json(value, inf_nan_mode="null").decode()


def texts_of(numbers: NDArray[Any]) -> Texts:
    """Each of some numbers as JSON, whole ones as such; what is none, or has no bound, is null."""
    numbers = numbers + 0  # which -0 is not
    if len(numbers) < MANY:
        text = f"{text_of(numbers.tolist())[1:-1]},"  # no number has a comma in it
        return text.replace(".0,", ",").split(",")[: len(numbers)]
    known = np.isfinite(numbers)
    every = np.where(known, numbers, 0)
    if not (every % 1).any() and np.abs(every).max(initial=0) < _EXACT:  # no exponents
        every = every.astype(np.int64)
    found = pc.cast(pa.array(every), pa.string())
    if not known.all():
        found = pc.if_else(pa.array(known), found, "null")
    assert isinstance(found, pa.StringArray)
    return found
