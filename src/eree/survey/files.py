"""The files of a protected cube: its tables, and what `release.json` says of them.

A table has one row for each cell, in the order of the dense array: the codes of the variables,
`noisy` employment in jobs with three decimals, and the variance of its noise in squared jobs.
Numbers are exact: a decimal is an integer number of thousandths of a job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from eree.errors import Refusal, Unreadable
from eree.policy.neighbours import exact, plain
from eree.policy.plain_data import guarantee_as_json
from eree.survey.estimates import JOBS, decimals
from eree.survey.laplace import ShiftNoise
from eree.survey.noisy_total import NoisyTotal
from eree.survey.shape import By, Integers, Mask, Reals, Shape, Variable
from eree.workload import JOB

KIND = "cube"
CELLS = "cells"
#: The column of the least squares cube that the bound of a raked one needs.
REFERENCE = "reference"
#: What a record of another form than ours raises where it is believed.
MISWRITTEN = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
NOISY, VARIANCE = "noisy", "noise_variance"
CODES = pa.dictionary(pa.int32(), pa.string())
#: A cube with more rows has no CSV twin.
MOST_CSV_ROWS = 100_000
#: Rows that are written together.
_AT_ONCE = 1 << 18


def columns_of(variables: Sequence[Variable], others: Sequence[str] = ()) -> pa.Schema:
    """The columns of a table: codes, `noisy`, its variance, and further numbers of each cell."""
    types: list[tuple[str, Any]] = [(variable.name, CODES) for variable in variables]
    types += [(NOISY, JOBS), (VARIANCE, pa.float64()), *((name, JOBS) for name in others)]
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in types])


def rows_of(levels: Sequence[int], present: Mask | None) -> int:
    """How many cells have a row."""
    return prod(levels) if present is None else int(present.sum())


def write_table(
    home: Path,
    name: str,
    variables: Sequence[Variable],
    noisy: Integers,
    variance: Reals | float,
    present: Mask | None,
    others: Mapping[str, Integers] | None = None,
) -> list[Path]:
    """Write a table, with a CSV twin if it is small; returns the files."""
    extra = others or {}
    schema = columns_of(variables, tuple(extra))
    levels = tuple(len(variable.codes) for variable in variables)
    variances = np.broadcast_to(np.asarray(variance, dtype=np.float64) / JOB**2, levels)
    flat = [np.ascontiguousarray(array).ravel() for array in (noisy, *extra.values())]
    dictionaries = [pa.array(variable.codes, pa.string()) for variable in variables]
    rows = rows_of(levels, present)
    sizes = [min(_AT_ONCE, rows - start) for start in range(0, rows, _AT_ONCE)]
    small = rows <= MOST_CSV_ROWS
    paths = [home / f"{name}.{suffix}" for suffix in ("parquet", "csv")[: 2 if small else 1]]
    few: Any = [variable.name for variable in variables]  # columns of few values
    if not extra:  # bounds of a raked cube are all different
        few.append(VARIANCE)
    with parquet.ParquetWriter(
        paths[0], schema, compression="zstd", use_dictionary=few, write_statistics=False
    ) as columns:
        for cells, places in _batches(levels, present, sizes):
            codes: list[Any] = [
                pa.DictionaryArray.from_arrays(place.astype(np.int32), dictionary)
                for place, dictionary in zip(places, dictionaries, strict=True)
            ]
            first, *rest = (decimals(array[cells]) for array in flat)
            left: Any = variances[places] if levels else variances.reshape(1)
            batch = pa.record_batch([*codes, first, pa.array(left), *rest], schema=schema)
            columns.write_batch(batch)
    if small:
        arrow_csv.write_csv(as_text(parquet.read_table(paths[0])), paths[1])
    return paths


def read_table(
    path: Path,
    variables: Sequence[Variable],
    present: Mask | None,
    others: Sequence[str] = (),
) -> tuple[Integers, Reals, dict[str, Integers]]:
    """The dense arrays of a table; cells without a row are 0.  Refuses any other rows or order."""
    levels = tuple(len(variable.codes) for variable in variables)
    names = (NOISY, *others)
    try:
        with parquet.ParquetFile(path) as file:
            if not file.schema_arrow.equals(columns_of(variables, others)):
                raise Unreadable(f"{path.name} has other columns than its record says")
            if file.metadata.num_rows != rows_of(levels, present):
                raise Unreadable(f"{path.name} has another number of rows than its cube has cells")
            values = {name: np.zeros(prod(levels), dtype=np.int64) for name in names}
            variances = np.zeros(prod(levels), dtype=np.float64)
            sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            for i, (cells, places) in enumerate(_batches(levels, present, sizes)):
                batch = file.read_row_group(i)
                for variable, place in zip(variables, places, strict=True):
                    if not _agree(batch[variable.name], variable, place):
                        raise Unreadable(f"{path.name} has rows that are missing or out of order")
                for name in names:
                    values[name][cells] = _thousandths(batch[name])
                variances[cells] = batch[VARIANCE].to_numpy() * JOB**2
    except (OSError, pa.ArrowException, KeyError, ValueError):
        raise Unreadable(f"{path.name} cannot be read; run 'eree verify'") from None
    dense = {name: array.reshape(levels) for name, array in values.items()}
    return dense.pop(NOISY), variances.reshape(levels), dense


def present_in(path: Path, variables: Sequence[Variable], possible: Mask | None) -> Mask:
    """Which cells have a row in a table, where that is not public beforehand."""
    levels = tuple(len(variable.codes) for variable in variables)
    found = np.zeros(prod(levels), dtype=np.bool_)
    try:
        with parquet.ParquetFile(path) as file:
            if not set(file.schema_arrow.names) >= {variable.name for variable in variables}:
                raise Unreadable(f"{path.name} has other columns than its record says")
            for i in range(file.num_row_groups):
                rows = file.read_row_group(i, [variable.name for variable in variables])
                places = [_places(rows[variable.name], variable) for variable in variables]
                found[np.ravel_multi_index(places, levels)] = True
    except (OSError, pa.ArrowException, KeyError, ValueError):
        raise Unreadable(f"{path.name} cannot be read; run 'eree verify'") from None
    present = found.reshape(levels)
    if possible is not None and (present & ~possible).any():
        raise Unreadable(f"{path.name} has rows of cells that cannot be")
    return present


def as_text(rows: pa.Table) -> pa.Table:
    """Rows with codes as plain texts, as a CSV file holds them."""
    plain = [
        pa.field(f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type, False)
        for f in rows.schema
    ]
    return rows.cast(pa.schema(plain))


def _batches(
    levels: Sequence[int], present: Mask | None, sizes: Iterable[int]
) -> Iterator[tuple[Integers, tuple[NDArray[np.intp], ...]]]:
    """The cells that have a row, so many at a time, and their places on the axes."""
    with_row = None if present is None else np.flatnonzero(present)
    end = 0
    for size in sizes:
        start, end = end, end + size
        cells = np.arange(start, end) if with_row is None else with_row[start:end]
        yield cells, np.unravel_index(cells, tuple(levels)) if levels else ()


def _thousandths(column: pa.ChunkedArray[Any]) -> Integers:
    """Decimals of three digits as thousandths."""
    parts = []
    for chunk in column.chunks:
        bits: Any = chunk.buffers()[1]
        wide = np.frombuffer(bits, dtype=np.int64).reshape(-1, 2)
        wide = wide[chunk.offset : chunk.offset + len(chunk)]
        if chunk.null_count or (wide[:, 1] != wide[:, 0] >> 63).any():
            raise ValueError
        parts.append(wide[:, 0])
    return np.concatenate(parts)


def _agree(column: pa.ChunkedArray[Any], variable: Variable, places: NDArray[np.intp]) -> bool:
    """Whether the codes of a column are those at some places of an axis."""
    found = _places(column, variable)
    return len(found) == len(places) and bool((found == places).all())


def _places(column: pa.ChunkedArray[Any], variable: Variable) -> NDArray[np.intp]:
    """The places on its axis of the codes of a column; a code that is none is a ValueError."""
    chunks: list[Any] = column.chunks
    known = [
        np.array([variable.codes.index(code) for code in chunk.dictionary.to_pylist()], np.intp)
        for chunk in chunks
    ]
    places = [k[c.indices.to_numpy()] for k, c in zip(known, chunks, strict=True)]
    return np.concatenate([np.empty(0, np.intp), *places])


def control_name(number: int) -> str:
    """The name of the file of a control table, counted from 1."""
    return f"control-{number}"


def shape_of(record: Mapping[str, Any]) -> Shape:
    """The shape of the cube that a record speaks of."""
    if record.get("kind") != KIND:
        raise Unreadable("the release holds tables of linked data and no cube")
    try:
        return Shape.of_json(record).checked()
    except (Refusal, *MISWRITTEN):
        raise Unreadable("the record of the cube has variables that cannot be read") from None


def table_entry(
    name: str,
    by: By,
    levels: Sequence[int],
    present: Mask | None,
    noise: ShiftNoise | None,
    variance: float,
    others: Sequence[str] = (),
) -> dict[str, Any]:
    """What a record says of a table, but its files.

    `variance` is that of the noise as it was drawn, in squared thousandths of a job.
    """
    return {
        "name": name,
        "by": list(by),
        "rows": rows_of(levels, present),
        "columns": list(others),
        **_mechanism(noise),
        "noise_variance": variance / JOB**2,
    }


def total_entry(total: NoisyTotal, noise: ShiftNoise) -> dict[str, Any]:
    """What a record says of a sum of squares, in squared jobs."""
    return {
        "name": total.name,
        "noisy": plain(Fraction(total.noisy, JOB**2)),
        **_mechanism(noise),
        "noise_variance": total.noise_variance / JOB**4,
    }


def total_of(said: Mapping[str, Any]) -> NoisyTotal:
    """The sum of squares that a record speaks of."""
    noisy = exact(said["noisy"], "a sum of squares") * JOB**2
    if noisy.denominator > 1:
        raise Unreadable("the record of the cube has a sum of squares that cannot be read")
    return NoisyTotal(_text(said["name"]), int(noisy), float(said["noise_variance"]) * JOB**4)


def levels_of(shape: Shape, by: By) -> tuple[int, ...]:
    """The numbers of codes of some variables."""
    return tuple(np.take(shape.levels, shape.axes(by)).tolist()) if by else ()


def _mechanism(noise: ShiftNoise | None) -> dict[str, Any]:
    """The price and the mechanism of a part; without noise there is none."""
    if noise is None:
        return {"price": None, "mechanism": "none", "parameters": {}}
    return {
        "price": guarantee_as_json(noise.guarantee),
        "mechanism": noise.name,
        "parameters": noise.parameters,
    }


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
