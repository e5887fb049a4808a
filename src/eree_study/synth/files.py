"""Files of synthetic data: Parquet with plain string columns, schema.toml and survey.toml."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from eree.survey.shape import Shape
from eree_study.synth.geography import Geography
from eree_study.synth.sectors import GROUPS, OWNERSHIPS, SECTORS
from eree_study.synth.workers import ATTRIBUTES

ROWS_AT_ONCE = 1 << 20
# Engines share out a file by its row groups: half a million workplaces must be several.
ROWS_A_GROUP = 1 << 17
# The tracts of the nation fill a dictionary of 1.2 MB; above the limit a column falls back to
# plain strings, several times larger.
_DICTIONARY_BYTES = 8 << 20


def coded(codes: NDArray[np.integer], values: Sequence[str]) -> pa.DictionaryArray[Any, Any]:
    """A string column from value numbers: Parquet stores it as it is, without making strings."""
    return pa.DictionaryArray.from_arrays(pa.array(codes), values)


class TableFile:
    """A Parquet file written a batch at a time.

    The Arrow schema is not stored, so that readers see dictionary columns as plain strings.
    zstd was measured a fifth smaller than snappy here, and no slower to read.
    """

    def __init__(self, path: Path, schema: pa.Schema, sequences: Sequence[str] = ()) -> None:
        """`sequences` are columns that count up, stored as differences."""
        coded_columns = [f.name for f in schema if pa.types.is_dictionary(f.type)]
        self._schema = schema
        self._writer = pq.ParquetWriter(
            path,
            schema,
            compression="zstd",
            use_dictionary=coded_columns,  # type: ignore[arg-type]  # a list is documented
            column_encoding=dict.fromkeys(sequences, "DELTA_BINARY_PACKED"),
            dictionary_pagesize_limit=_DICTIONARY_BYTES,
            store_schema=False,
        )

    def write(self, *columns: pa.Array[Any]) -> None:
        """Add rows."""
        batch = pa.record_batch(list(columns), schema=self._schema)
        self._writer.write_batch(batch, row_group_size=ROWS_A_GROUP)

    def __enter__(self) -> TableFile:
        return self

    def __exit__(self, *reason: object) -> None:
        self._writer.close()


def text(name: str) -> pa.Field[Any]:
    """A column of texts that repeat."""
    return pa.field(name, pa.dictionary(pa.int32(), pa.string()), nullable=False)


def schema_text(geography: Geography) -> str:
    """schema.toml for the files of `synthesize`; keys of labels are quoted, so any code works."""
    lines = [
        "# A synthetic population: no row describes a real workplace or worker.",
        "[workplace]",
        'file = "workplace.parquet"',
        'key = "workplace_id"',
    ]
    states = sorted((s.code, s.name) for s in geography.states)
    lines += _attribute("workplace", "state", "State", labels=states)
    lines += _attribute("workplace", "county", "County")
    lines += _attribute("workplace", "place", "Place")
    lines += _attribute("workplace", "tract", "Census tract")
    sectors = [(s.code, s.label) for s in SECTORS]
    lines += _attribute("workplace", "sector", "NAICS sector", (s.code for s in SECTORS), sectors)
    owners = list(zip(OWNERSHIPS, ("Private", "Public"), strict=True))
    lines += _attribute("workplace", "ownership", "Ownership", OWNERSHIPS, owners)
    lines += ["", "[worker]", 'file = "worker.parquet"', 'key = "worker_id"']
    for a in ATTRIBUTES:
        labels = zip(a.values, a.labels, strict=True)
        lines += _attribute("worker", a.name, a.label, a.values, labels)
    lines += [
        "",
        "[job]",
        'file = "job.parquet"',
        'worker = "worker_id"',
        'workplace = "workplace_id"',
        "",
        "[hierarchy]",
        'geography = ["tract", "county", "state"]',
        "",
        "[group.supersector]",
        'label = "Sector group"',
        'of = "sector"',
        "[group.supersector.members]",
    ]
    lines += [f'"{g}" = {_list(s.code for s in SECTORS if s.group == g)}' for g in GROUPS]
    lines += ["[group.supersector.labels]", *_table(GROUPS.items())]
    lines += ["", "[reference.place]", 'file = "place.parquet"', 'key = "place"']
    return "\n".join(lines) + "\n"


def _attribute(
    table: str,
    name: str,
    label: str,
    values: Iterable[str] = (),
    labels: Iterable[tuple[str, str]] = (),
) -> list[str]:
    lines = ["", f"[{table}.attributes.{name}]", f'label = "{label}"']
    if listed := list(values):
        lines.append(f"values = {_list(listed)}")
    if pairs := list(labels):
        lines += [f"[{table}.attributes.{name}.labels]", *_table(pairs)]
    return lines


def _list(values: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{v}"' for v in values) + "]"


def _table(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [f'"{key}" = "{label}"' for key, label in pairs]


def survey_text(shape: Shape, replicates: Sequence[str] = ()) -> str:
    """survey.toml for the file of `synthesize_survey`."""
    lines = [
        "# A synthetic survey: no record describes a real job.",
        "[records]",
        'file = "records.parquet"',
        'record = "record_id"',
        'establishment = "establishment_id"',
        'weight = "weight"',
        'occupation = "occupation"',
    ]
    for variable in shape.variables:
        lines += [
            "",
            f"[variables.{variable.name}]",
            f'label = "{variable.label}"',
            f"codes = {_list(variable.codes)}",
        ]
        if variable.hierarchy:
            lines.append(f'hierarchy = "{variable.hierarchy}"')
        lines.append(f"[variables.{variable.name}.labels]")
        pairs = zip(variable.codes, variable.labels, strict=True)
        lines += [f'"{code}" = "{label}"' for code, label in pairs]
    for rule in shape.impossible:
        lines += ["", "[[impossible]]"]
        lines += [f"{name} = {_list(codes)}" for name, codes in rule.codes.items()]
    if replicates:
        lines += ["", "[replicates]", f"columns = {_list(replicates)}"]
    return "\n".join(lines) + "\n"
