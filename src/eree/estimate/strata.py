"""Strata of workplaces by their noisy sizes: public, because they are made of a release.

A later plan may then treat small and large workplaces differently.  Which stratum a workplace is in
is a function of what was released, so it costs nothing more, and every mechanism keeps its
guarantee whatever the stratum.

The strata say which release, table and cuts they were made of.  The schema and the record of the
later release carry that on, so that whoever has both releases can make the strata again.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from re import fullmatch
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eree.errors import Refusal, Unreadable, integer
from eree.estimate.listing import outside, write_csv
from eree.policy.schema import Provenance
from eree.release.record import digest_of, file_fault
from eree.release.release import Release, opening, said_of
from eree.release.tabular import Tabular


@dataclass(frozen=True, repr=False)
class SizeStrata(Tabular):
    """Every workplace and its stratum: columns `value` and `group`, as `schema.toml` reads them.

    Attributes:
        release: What they were made of.
        provenance: The same, as a schema says it.
        key: The attribute that names workplaces.
        names: The strata, the smallest first.
        rows: The workplaces.

    Examples:
        >>> eree.size_strata("sizes", "sizes", [40]).rows.column_names
        ['value', 'group']
    """

    release: Release
    provenance: Provenance
    key: str
    names: tuple[str, ...]
    rows: pa.Table = field(repr=False)

    def _table(self) -> pa.Table:
        return self.rows

    def _title(self) -> str:
        return f"of {self.key} ({', '.join(self.names)}), from {said_of(self.release)}"

    @property
    def counts(self) -> dict[str, int]:
        """How many workplaces every stratum has."""
        found = Counter(self.rows["group"].to_pylist())
        return {name: found[name] for name in self.names}

    def declaration(self, name: str, file: str) -> str:
        """What `schema.toml` has to say to make the strata an attribute of workplaces."""
        whole = pa.types.is_integer(self.rows["value"].type)
        lines = [
            f"[group.{name if fullmatch('[A-Za-z0-9_-]+', name) else _quoted(name)}]",
            f"of = {_quoted(self.key)}",
            f"members = {_quoted(file)}",
            *(['type = "integer"'] if whole else []),
            f"provenance = {{ release = {_quoted(self.provenance.release)},"
            f" digest = {_quoted(self.provenance.digest)},"
            f" table = {_quoted(self.provenance.table)}, cuts = {list(self.provenance.cuts)} }}",
        ]
        return "\n".join(lines)

    def write(self, out: str | os.PathLike[str]) -> Path:
        """Write all workplaces into a new CSV file."""
        return write_csv(self.rows, outside(self.release, out))


@opening
def size_strata(release: Release, table: str, cuts: Iterable[int]) -> SizeStrata:
    """Sort workplaces into strata by their noisy counts in a table of single workplaces.

    `cuts` are the sizes at which a new stratum begins, such as 40: below 40, and 40 or more.

    Args:
        release: A release, or the name of its folder.
        table: The name of a table of single workplaces.
        cuts: The sizes at which a new stratum begins.

    Examples:
        >>> eree.size_strata("sizes", "sizes", [40]).names
        (...)
    """
    words = "cuts are different integers of 1 or more, such as 40"
    starts = [integer(start, words, 1) for start in cuts]
    if not starts or len(set(starts)) < len(starts):
        raise Refusal(words)
    starts.sort()
    about, rows = release.about_jobs(table), release.table(table)
    schema, digest = release.schema, release.record["digest"]
    file = f"tables/{table}.parquet"
    if digest != digest_of(release.record) or file_fault(
        release.folder / file, about["files"].get(file, "")
    ):
        raise Unreadable(f"table {table} or its record was changed; run 'eree verify'")
    by = tuple(about["by"])
    workers = any(schema.attributes[name].owner == "worker" for name in by)
    if len(by) != 1 or workers or not (rows["workplaces"].to_numpy() == 1).all():
        raise Refusal(
            f"table {table} does not have a row for each workplace with all its workers; release"
            " one that is counted by the key of workplaces alone"
        )
    if about["where"]:
        raise Refusal(f"table {table} leaves out workplaces, and each needs a stratum; take all")
    names = tuple(_named(starts))
    place = np.searchsorted(np.array(starts), rows["noisy"].to_numpy(), side="right")
    groups = pa.array(np.array(names)[place], pa.string())
    made_of = Provenance(release.identity, digest, table, tuple(starts))
    found = pa.table({"value": rows[by[0]], "group": groups})
    return SizeStrata(release, made_of, by[0], names, found)


def unmade(
    attributes: Mapping[str, Any], sizes: Mapping[str, Release]
) -> Iterator[tuple[str, str]]:
    """The groups of single workplaces that a record says and `sizes` cannot make again.

    `sizes` are sound releases by their names.  Each group comes with what is on its author's word.
    """
    for name, said in attributes.items():
        if not attributes.get(said["of"] or "", {}).get("key"):
            continue
        made_of = said.get("provenance")
        if made_of is None:
            yield name, "groups workplaces, and nothing says what it was made of"
        elif made_of["release"] not in sizes:
            yield (
                name,
                (
                    f"is said to be made of table {made_of['table']} of release"
                    f" {made_of['release'][:8]}, which was not given (--size-release)"
                ),
            )


def misplaced(made_of: Mapping[str, Any], members: pa.Table, sizes: Release) -> str | None:
    """What is wrong with strata that a record says to be made of a release, if anything is.

    `made_of` is what it says, and `members` are the workplaces and their strata.
    """
    if made_of["digest"] != sizes.record["digest"]:
        return "was made of a release with another digest than the one that was given"
    made = size_strata(sizes, made_of["table"], made_of["cuts"])
    true, (held, strata) = made.rows.sort_by("value"), members.columns
    if not true["value"].equals(held):
        return "has other workplaces than the released sizes"
    wrong = int(pc.not_equal(true["group"], strata).to_numpy().sum())
    if wrong:
        return f"puts {wrong:,} of {len(held):,} workplaces into other strata than their sizes do"
    return None


def _quoted(text: str) -> str:
    """A text as TOML writes it."""
    return json.dumps(text, ensure_ascii=False)


def _named(starts: list[int]) -> Iterable[str]:
    """0-39, 40-99, 100+ for the cuts 40 and 100."""
    for first, following in pairwise([0, *starts]):
        yield f"{first}-{following - 1}"
    yield f"{starts[-1]}+"
