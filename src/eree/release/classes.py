"""Classes of workplaces by their noisy sizes: public, because they are made of a release.

A later plan may then treat small and large workplaces differently.  Which class a workplace is in
is a function of what was released, so it costs nothing more, and every mechanism keeps its
guarantee whatever the class.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from re import fullmatch

import numpy as np
import pyarrow as pa

from eree.errors import Refusal
from eree.release.listing import outside, write_csv
from eree.release.release import Release


@dataclass(frozen=True)
class SizeClasses:
    """Every workplace and its class: the columns `value` and `group`, as `schema.toml` reads them.

    `key` is the attribute that names workplaces; `names` are the classes, the smallest first.
    """

    release: Release
    key: str
    names: tuple[str, ...]
    rows: pa.Table = field(repr=False)

    @property
    def counts(self) -> dict[str, int]:
        """How many workplaces every class has."""
        found = Counter(self.rows["group"].to_pylist())
        return {name: found[name] for name in self.names}

    def declaration(self, name: str, file: str) -> str:
        """What `schema.toml` has to say to make the classes an attribute of workplaces."""
        whole = pa.types.is_integer(self.rows["value"].type)
        lines = [
            f"[group.{name if fullmatch('[A-Za-z0-9_-]+', name) else _quoted(name)}]",
            f"of = {_quoted(self.key)}",
            f"members = {_quoted(file)}",
            *(['type = "integer"'] if whole else []),
        ]
        return "\n".join(lines)

    def write(self, out: str | os.PathLike[str]) -> Path:
        """Write all workplaces into a new CSV file."""
        return write_csv(self.rows, outside(self.release, out))


def size_classes(release: Release, table: str, cuts: Iterable[int]) -> SizeClasses:
    """Sort workplaces into classes by their noisy counts in a table of single workplaces.

    `cuts` are the sizes at which a new class begins, such as 40: below 40, and 40 or more.
    """
    starts = list(cuts)
    whole = all(type(start) is int and start >= 1 for start in starts)
    if not starts or not whole or len(set(starts)) < len(starts):
        raise Refusal("cuts are different whole numbers of 1 or more, such as 40")
    starts.sort()
    about, rows = release.about(table), release.table(table)
    schema = release.schema
    by = tuple(about["by"])
    workers = any(schema.attributes[name].owner == "worker" for name in by)
    if len(by) != 1 or workers or not (rows["workplaces"].to_numpy() == 1).all():
        raise Refusal(
            f"table {table} does not have a row for each workplace with all its workers; release"
            " one that is counted by the key of workplaces alone"
        )
    if about["where"]:
        raise Refusal(f"table {table} leaves out workplaces, and each needs a class; take all")
    names = tuple(_named(starts))
    place = np.searchsorted(np.array(starts), rows["noisy"].to_numpy(), side="right")
    groups = pa.array(np.array(names)[place], pa.string())
    return SizeClasses(release, by[0], names, pa.table({"value": rows[by[0]], "group": groups}))


def _quoted(text: str) -> str:
    """A text as TOML writes it."""
    return json.dumps(text, ensure_ascii=False)


def _named(starts: list[int]) -> Iterable[str]:
    """0-39, 40-99, 100+ for the cuts 40 and 100."""
    for first, following in pairwise([0, *starts]):
        yield f"{first}-{following - 1}"
    yield f"{starts[-1]}+"
