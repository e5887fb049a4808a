"""Members of groups: which value of a group each code of the finer attribute belongs to.

A group may be one of workplaces, of which there are millions, so a release has the members of each
group in a file of its own, in the order of their codes.  The record says how many they are and has
the SHA-256 of the file: other members are another record, with another digest.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from eree.errors import Unreadable
from eree.policy.schema import Attribute, Value
from eree.release.record import file_fault

#: The folder that says which codes every group has.
MEMBERS = "members"


def member_rows(fine: Attribute, group: Attribute) -> pa.Table:
    """The members of a group in the order of their codes, as a release has them."""
    columns = _columns(fine, group)
    both = zip(*sorted(group.members.items()), strict=True) if group.members else ((), ())
    arrays = [pa.array(one, kind) for one, kind in zip(both, columns.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=columns)


@dataclass(frozen=True, eq=False)
class Members(Mapping[Value, str]):
    """The members of a released group, read from their file when they are first asked for.

    `about` is what the record says of the file; `group` has no members of its own.
    """

    folder: Path
    about: Mapping[str, Any]
    fine: Attribute
    group: Attribute

    @cached_property
    def rows(self) -> pa.Table:
        """The codes of the finer attribute, in order, and the value of the group of each."""
        rows, fault = self._looked_at()
        if rows is None or fault is not None:
            raise Unreadable(
                f"the file of the members of {self.group.name} {fault}; run 'eree verify'"
            )
        return rows

    @property
    def fault(self) -> str | None:
        """What is wrong with the file, if anything is."""
        return self._looked_at()[1]

    def _looked_at(self) -> tuple[pa.Table | None, str | None]:
        ((file, digest),) = self.about["files"].items()
        path = self.folder / MEMBERS / Path(file).name
        if rule := file_fault(path, digest):
            return None, rule
        try:
            rows = parquet.ParquetFile(path).read()
        except (OSError, pa.ArrowException):
            return None, "cannot be read"
        return rows, next(self._faults(rows), None)

    def _faults(self, rows: pa.Table) -> Iterator[str]:
        wanted, fine, group = _columns(self.fine, self.group), self.fine, self.group
        if (rows.schema.names, rows.schema.types) != (wanted.names, wanted.types):
            yield "has other columns than the record says"
            return
        codes, groups = rows.columns
        if rows.num_rows != self.about["rows"] or codes.null_count or groups.null_count:
            yield "has another number of members than the record says"
            return
        found: list[Any] = codes.to_pylist()
        if found != sorted(set(found)):
            yield f"does not have every {fine.name} once and in order"
        if set(groups.to_pylist()) != set(group.values or ()):
            yield f"has other values of {group.name} than the record declares"
        if fine.values is not None and set(found) != set(fine.values):
            yield f"has other codes of {fine.name} than the record declares"

    @cached_property
    def _pairs(self) -> dict[Value, str]:
        codes, groups = self.rows.columns
        held: list[Any] = codes.to_pylist()
        few: dict[Any, Any] = {}  # one text for all members of a value
        return dict(zip(held, (few.setdefault(n, n) for n in groups.to_pylist()), strict=True))

    def __getitem__(self, code: Value) -> str:
        return self._pairs[code]

    def __iter__(self) -> Iterator[Value]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def items(self) -> ItemsView[Value, str]:
        """All members, as fast as those of a dictionary."""
        return self._pairs.items()


def _columns(fine: Attribute, group: Attribute) -> pa.Schema:
    codes = pa.int64() if fine.kind == "integer" else pa.string()
    return pa.schema([pa.field(fine.name, codes, False), pa.field(group.name, pa.string(), False)])
