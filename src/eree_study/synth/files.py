"""Files of synthetic data: Parquet with plain string columns, schema.toml and survey.toml.

The attributes of workplaces and workers, their values and labels, are those of the `schema.toml`
beside this file; only its states depend on the size of a population.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from eree.survey.shape import Shape

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


_TEXT = files("eree_study.synth").joinpath("schema.toml").read_text(encoding="utf-8")
SCHEMA: dict[str, Any] = tomllib.loads(_TEXT)


def schema_text(states: Iterable[tuple[str, str]]) -> str:
    """schema.toml for the files of `synthesize`, with the codes and names of its states."""
    head = "[workplace.attributes.state.labels]\n"
    labels = (f'"{code}" = "{name}"\n' for code, name in sorted(states))
    return _TEXT.replace(head, head + "".join(labels))


def _list(values: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{v}"' for v in values) + "]"


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
