"""Rechecks what a release says of which areas lie in which: files, codes, and their agreement.

Where areas lie is public, and the word of whoever published it; that word must not contradict
itself, nor the tables.  The same holds for the members of groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from eree.estimate.size_distribution import told_apart
from eree.policy.schema import Schema
from eree.release.contents import area_columns
from eree.release.release import Release


def area_faults(release: Release) -> Iterator[tuple[str, str]]:
    """What is wrong with files of areas, or of groups: the file, and the rule that it breaks."""
    schema, read = release.schema, dict[str, pa.Table]()
    for about in release.record["areas"]:
        for file in about["files"]:
            try:
                rows = parquet.ParquetFile(release.folder / file).read()
            except (OSError, pa.ArrowException):
                yield file, "cannot be read"
                continue
            faults = list(_own_faults(schema, about, rows))
            yield from ((file, rule) for rule in faults)
            if not faults:
                read[about["of"]] = rows
    for about in release.record["areas"]:
        if about["of"] in read:
            (file,) = about["files"]
            yield from ((file, rule) for rule in _differences(read, about["of"]))
            yield from _known_otherwise(release, file, read[about["of"]])
    for about in release.record["members"]:
        (file,) = about["files"]
        yield from _known_otherwise(release, file, release.members(about["group"]))


def _known_otherwise(release: Release, file: str, codes: pa.Table) -> Iterator[tuple[str, str]]:
    """Where a file contradicts the tables of the release."""
    fine, *coarser = codes.column_names
    for table in release.tables:
        by = release.about(table)["by"]
        if fine in by:
            names = [fine, *(name for name in coarser if name in by)]
            rows = release.columns(table, names)
            rows = rows.take(told_apart([rows[name] for name in names])[0])
            for rule in _contradictions(codes, fine, rows):
                yield file, f"{rule} of table {table}"


def _own_faults(schema: Schema, about: Mapping[str, Any], rows: pa.Table) -> Iterator[str]:
    """What is wrong with a file by itself."""
    wanted, fine = area_columns(schema, about), about["of"]
    if (rows.schema.names, rows.schema.types) != (wanted.names, wanted.types):
        yield "has other columns than the record says"
        return
    codes = rows[fine]
    if rows.num_rows != about["rows"] or codes.null_count:
        yield "has another number of codes than the record says"
    elif len(codes.unique()) < rows.num_rows:
        yield f"has a {fine} twice, which could lie in two areas"
    for name in wanted.names:
        values = schema.attributes[name].values
        held = rows[name].unique().drop_null()
        if values is not None and not set(held.to_pylist()) <= set(values):
            yield f"has codes of {name} that the record does not declare"
        if not len(held):
            yield f"has no code of {name}"
    for name in about["above"]:
        group = schema.attributes[name]
        if group.of in wanted.names:
            members: Mapping[Any, Any] = group.members
            both = zip(rows[group.of].to_pylist(), rows[name].to_pylist(), strict=True)
            if any(members.get(one, two) != two for one, two in both if None not in (one, two)):
                yield f"puts codes of {group.of} into another {name} than the record does"


def _differences(read: Mapping[str, pa.Table], fine: str) -> Iterator[str]:
    """Where two files contradict each other: tracts lie where their counties lie."""
    rows = read[fine]
    for middle in rows.column_names[1:]:
        if middle not in read:
            continue
        upper = read[middle]
        for rule in _contradictions(upper, middle, rows):
            yield f"{rule} of the file of {middle}"


def _contradictions(areas: pa.Table, fine: str, rows: pa.Table) -> Iterator[str]:
    """What rows with codes of an attribute know otherwise than its file."""
    codes = rows[fine]
    place = pc.index_in(codes, areas[fine])
    if pc.any(pc.and_(pc.is_null(place), pc.is_valid(codes))).as_py():
        yield f"lacks a {fine}"
    for name in areas.column_names[1:]:
        if (
            name in rows.column_names
            and pc.any(pc.not_equal(rows[name], areas[name].take(place))).as_py()
        ):
            yield f"has another {name} of a {fine} than the rows"
