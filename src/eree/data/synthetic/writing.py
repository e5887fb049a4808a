"""Files of a population: Parquet with plain string columns, in a folder that appears whole."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.noise.coins import fresh_name

ROWS_AT_ONCE = 1 << 20
# Engines share out a file by its row groups: half a million workplaces must be several.
ROWS_A_GROUP = 1 << 17
# The tracts of the nation fill a dictionary of 1.2 MB; beyond the limit a column falls back to
# plain strings, several times larger.
_DICTIONARY_BYTES = 8 << 20


@contextmanager
def appearing_whole(target: Path) -> Iterator[Path]:
    """A folder to write into that becomes `target` at the end, or vanishes if anything fails.

    The outer folder is closed to other users while it is written; the inner one is made with the
    user's ordinary mode, so that the result has it.
    """
    # its name is known before it is there, so that no interrupt can leave it behind
    outer = target.with_name(f".{target.name}.partial-{fresh_name()[:8]}")
    try:
        try:
            outer.mkdir(mode=0o700)
        except OSError as error:
            raise Refusal(
                f"nothing can be written in {target.parent}; choose a folder that you may write to"
            ) from error
        inner = outer / target.name
        inner.mkdir()
        yield inner
        if target.exists():
            shutil.copymode(target, inner)
        try:
            inner.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            raise Refusal(f"{target} was filled meanwhile; choose a new or empty folder") from error
    finally:
        shutil.rmtree(outer, ignore_errors=True)


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
