"""How much of its cases a test runs: some in `make test`, all of them in `make torture`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from hypothesis import settings

#: Set by `make torture`: every combination of parameters, and more examples of each property.
EVERYTHING = bool(os.environ.get("EREE_TORTURE"))


def combinations(
    first: Sequence[Any], second: Sequence[Any], *, each: int, start: int = 0
) -> list[tuple[Any, ...]]:
    """Each value of `first` with `each` values of `second` in rotation: every value is met.

    Two properties whose rotations start apart share all pairs between them.  A value that is a
    tuple fills several parameters.
    """
    stride = -(-len(second) // len(first))
    assert stride <= each, "some values would never be met"
    pairs: Iterable[tuple[Any, Any]] = product(first, second)
    if not EVERYTHING:
        pairs = (
            (value, second[(i * stride + start + j) % len(second)])
            for i, value in enumerate(first)
            for j in range(min(each, len(second)))
        )
    return [sum((v if isinstance(v, tuple) else (v,) for v in pair), ()) for pair in pairs]


def examples(some: int, *, torture: int) -> settings:
    """How many examples of a property are tried, here and in `make torture`."""
    return settings(max_examples=torture if EVERYTHING else some)
