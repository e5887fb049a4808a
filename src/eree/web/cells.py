"""The cells of a released table as arrays, which the user's cache folder keeps for later starts.

They follow from the files of a release and the code alone, and are kept under a digest of all files
as long as these are what it was made of.  Kept ones stay in their file: what nobody asks for takes
no memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eree.mechanisms.cache import Arrays, arrays_by_package
from eree.policy.schema import Value
from eree.random.exact import Integers
from eree.web.columns import Codes, Columns
from eree.web.held import Held


@dataclass(frozen=True, eq=False)
class TableCells:
    """The cells of a table: `codes` of each attribute in order, their `columns`, and numbers.

    `numbers` has a number for each row, `by_cell` those that are shown, as sums take them.
    """

    codes: Mapping[str, list[Value]]
    columns: Columns
    numbers: Mapping[str, Integers]
    by_cell: Mapping[str, Integers]

    @classmethod
    def of(cls, release: Held, table: str, cells: int) -> TableCells:
        """Of a table whose groups have so many worker cells."""
        read = partial(cls._read, release, table, cells)
        if release.content is None:
            return read()
        what = f"cells {release.content} {table!r}"
        return cls._unpacked(arrays_by_package(what, lambda: read()._packed()))

    @classmethod
    def _read(cls, release: Held, table: str, cells: int) -> TableCells:
        about, attributes = release.about(table), release.schema.attributes
        by = list(about["by"])
        rows = release.coded(table, by)
        codes: dict[str, list[Value]] = {}
        columns: dict[str, Codes] = {}
        for attribute in map(attributes.__getitem__, by):
            column: Any = rows[attribute.name].combine_chunks()
            if not pa.types.is_dictionary(column.type):
                column = column.dictionary_encode()
            found: list[Any] = column.dictionary.to_pylist()
            # workplaces that a filter leaves out have no rows; workers have empty ones
            kept = about["where"].get(attribute.name) if attribute.owner == "workplace" else None
            declared = kept or attribute.values
            known = list(declared) if declared is not None else sorted(found)
            place = {code: i for i, code in enumerate(known)}
            small = np.min_scalar_type(max(len(known), 1))
            order = np.array([place[code] for code in found], dtype=small)
            codes[attribute.name] = known
            columns[attribute.name] = order[np.from_dlpack(column.indices)]
        numbers = {n: _numbers(rows[n]) for n in rows.column_names if n not in by}
        workers = [name for name in by if attributes[name].owner == "worker"]
        made = Columns.of(columns, workers, rows.num_rows, cells)
        shown = ["noisy"] if workers else ["noisy", "workplaces"]
        by_cell = {name: made.by_cell(numbers[name]) for name in shown}
        return cls(codes, made, numbers, by_cell)

    def _packed(self) -> Arrays:
        about = json.dumps([self.codes, self.columns.groups, self.columns.cells])
        parts = {
            "of_groups": self.columns.of_groups,
            "of_cells": self.columns.of_cells,
            "numbers": self.numbers,
            "by_cell": self.by_cell,
        }
        arrays = {
            f"{part} {name}": own for part, some in parts.items() for name, own in some.items()
        }
        return {"about": np.frombuffer(about.encode(), dtype=np.uint8), **arrays}

    @classmethod
    def _unpacked(cls, found: Arrays) -> TableCells:
        codes, groups, cells = json.loads(found["about"].tobytes())

        def part(name: str) -> dict[str, NDArray[Any]]:
            before = f"{name} "
            return {n.removeprefix(before): a for n, a in found.items() if n.startswith(before)}

        columns = Columns(part("of_groups"), part("of_cells"), groups, cells)
        return cls(codes, columns, part("numbers"), part("by_cell"))


def _numbers(column: Any) -> NDArray[Any]:
    """A column without gaps as an array, without a copy (and without pandas, which takes long)."""
    found: NDArray[Any] = np.from_dlpack(column.combine_chunks())
    return found
