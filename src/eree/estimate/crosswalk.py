"""A crosswalk: the codes of an attribute with those of all coarser areas that they lie in.

The file of LODES has a row for each block, with `st`, `stname`, `cty`, `ctyname` and so on; here
the columns have the names of the declared attributes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from eree.estimate.above import above
from eree.policy.schema import Attribute
from eree.release.release import Release


def crosswalk(release: Release, name: str, codes: pa.Array[Any]) -> pa.Table:
    """Some codes of an attribute, and those above each, null where it lies in no one.

    Where the release has labels of an attribute, they follow as `{attribute}name`.
    """
    known = release.schema.attributes
    chunked = pa.chunked_array([codes])
    found = {name: chunked}
    found |= {coarse: one.of(chunked) for coarse, one in above(release, [name]).items()}
    columns: dict[str, Any] = {}
    for own, held in found.items():
        columns[own] = held
        if known[own].labels and f"{own}name" not in known:
            columns[f"{own}name"] = pa.array(_labels(known[own], held), pa.string())
    return pa.table(columns)


def _labels(attribute: Attribute, codes: pa.ChunkedArray[Any]) -> Iterator[str | None]:
    return (attribute.labels.get(str(code)) for code in codes.to_pylist())
