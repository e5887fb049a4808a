"""Rechecks the rows of a released table: its twin, its cells and its intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from eree.budget.compose import kept_workplaces
from eree.estimate.size_distribution import told_apart
from eree.mechanisms.intervals import UNBOUNDED
from eree.release.contents import SCALED_TO
from eree.release.measure import TableMeasure
from eree.release.price import Numbers
from eree.workload import SizeProfile

#: Rows of which intervals are made again at once.
_AT_ONCE = 1 << 18


def row_faults(folder: Path, table: Mapping[str, Any], measure: TableMeasure) -> Iterator[str]:
    """What is wrong with the rows of a table, from public things alone."""
    file, profile = folder / f"{table['name']}.parquet", measure.marginal
    pooled = isinstance(profile, SizeProfile)  # rows of all groups have empty fields
    try:
        columns = parquet.read_schema(file)
        texts = [] if pooled else [f.name for f in columns if pa.types.is_string(f.type)]
        rows = parquet.ParquetFile(file, read_dictionary=texts).read()
        rows.validate(full=True)  # a forged file may point outside its dictionaries
        rows = rows.unify_dictionaries()
        if not columns.equals(measure.columns) or rows.num_rows != table["rows"]:
            yield "has other columns or another number of rows than the record says"
            return
    except (OSError, ValueError, pa.ArrowException):  # a name that is not UTF-8 is a ValueError
        yield "cannot be read"
        return
    with ThreadPoolExecutor(1) as beside:  # the twin is read while the cells are looked at
        reading = beside.submit(
            _is_twin, file.with_suffix(".csv"), rows, measure.columns, pooled=pooled
        )
        found = list(
            _profile_faults(rows, measure, profile)
            if isinstance(profile, SizeProfile)
            else _cell_faults(rows, measure)
        )
        try:
            alike = reading.result()
        except (OSError, ValueError, pa.ArrowException):
            yield "cannot be read"
            return
    if not alike:
        yield "differs from its CSV twin"
    yield from found


def _cell_faults(rows: pa.Table, measure: TableMeasure) -> Iterator[str]:
    """What is wrong with the rows of a table of jobs."""
    noisy = rows["noisy"].to_numpy()
    if not (rows["employment"].to_numpy() == np.maximum(noisy, 0)).all():
        yield "employment is not the noisy count, or zero where that is negative"
    if rows.num_rows % measure.measurement.worker_cells:
        yield "has cells without some of their worker cells"
        return
    yield from _strange_keys(rows, measure)
    if _has_one_twice(rows, measure):
        yield "has two rows for one cell"
    numbers = {name: rows[name].to_numpy() for name in ("noisy", "workplaces")}
    if measure.measurement.clips:
        numbers[SCALED_TO] = rows[SCALED_TO].to_numpy()
        bounds = numbers[SCALED_TO].reshape(-1, measure.measurement.worker_cells)
        if not ((bounds == bounds[:, :1]) & (bounds >= 1)).all():
            yield "has groups without one bound of 1 or more for all their cells"
            return
    if not _has_its_ends(rows, numbers, measure):
        yield "low and high are not the ends that the noisy counts give"
    if not (rows["workplaces"].to_numpy() >= 1).all():
        yield "has cells without workplaces"


def _has_its_ends(rows: pa.Table, numbers: Numbers, measure: TableMeasure) -> bool:
    """Whether low and high are the ends that the numbers of whole groups give, piece by piece."""
    size = measure.measurement.worker_cells
    step = max(_AT_ONCE // size, 1) * size
    for start in range(0, rows.num_rows, step):
        low, high = measure.ends({n: own[start : start + step] for n, own in numbers.items()})
        some = rows.slice(start, step)
        said = some["high"].fill_null(pa.scalar(UNBOUNDED, pa.int64())).to_numpy()
        if not ((some["low"].to_numpy() == low).all() and (said == high).all()):
            return False
    return True


def _is_twin(path: Path, rows: pa.Table, columns: pa.Schema, *, pooled: bool) -> bool:
    """Whether a CSV file has the same rows; it is read piece by piece."""
    kinds = arrow_csv.ConvertOptions(
        column_types=columns, strings_can_be_null=pooled, quoted_strings_can_be_null=False
    )
    start = 0
    with arrow_csv.open_csv(path, convert_options=kinds) as pieces:
        if pieces.schema.names != columns.names:
            return False
        for piece in pieces:
            own = rows.slice(start, piece.num_rows).cast(columns)
            if not pa.Table.from_batches([piece]).cast(columns).equals(own):
                return False
            start += piece.num_rows
    return start == rows.num_rows


def _has_one_twice(rows: pa.Table, measure: TableMeasure) -> bool:
    """Whether a cell has two rows, in a table whose groups have each worker cell once."""
    size, known = measure.measurement.worker_cells, measure.schema.attributes
    first = rows.take(np.arange(0, rows.num_rows, size))
    keys = [name for name in measure.marginal.by if known[name].owner == "workplace"]
    # as values, because a forged dictionary may have one of them twice
    own = first.select(keys).cast(pa.schema([measure.columns.field(name) for name in keys]))
    return len(told_apart(own.columns)[0]) < first.num_rows


def _profile_faults(rows: pa.Table, measure: TableMeasure, profile: SizeProfile) -> Iterator[str]:
    """What is wrong with the rows of a size profile: its groups first, then all of them at once."""
    own = [size for size, pooled in zip(profile.sizes, profile.pooled, strict=True) if not pooled]
    over_all = profile.sizes[len(own) :]
    number = rows.num_rows - (len(over_all) if rows.num_rows else 0)
    groups = number // len(own) if own else 0
    if rows["at_least"].to_pylist() != [*own * groups, *(over_all if rows.num_rows else ())]:
        yield "does not have every threshold of every group in its place"
        return
    first, rest = rows.slice(0, number), rows.slice(number)
    keys = list(profile.by)
    if any(first[key].null_count or rest[key].null_count < len(rest) for key in keys):
        yield "has rows of a group among those of all, or of all among those of a group"
        return
    if first.group_by([*keys, "workplaces"]).aggregate([]).num_rows > groups or (
        first.group_by([*keys, "at_least"]).aggregate([]).num_rows < number
    ):
        yield "has two numbers of workplaces for one group, or two groups that are one"
    yield from _strange_keys(first, measure)
    workplaces, noisy = rows["workplaces"].to_numpy(), rows["noisy"].to_numpy()
    whole = workplaces[: number : len(own)].sum() if own else workplaces[:1].sum()
    if not (workplaces >= 1).all() or not (workplaces[number:] == whole).all():
        yield "has groups without workplaces, or others in all of them than in each"
    if not (rows["number"].to_numpy() == np.clip(noisy, 0, workplaces)).all():
        yield "number is not the noisy one within 0 and the workplaces of its group"
    low, high = measure.ends({"noisy": noisy, "workplaces": workplaces})
    if not ((rows["low"].to_numpy() == low).all() and (rows["high"].to_numpy() == high).all()):
        yield "low and high are not the ends that the noisy numbers give"


def _strange_keys(rows: pa.Table, measure: TableMeasure) -> Iterator[str]:
    """Rows that are no cells of the table, or stand where no cell of their group is expected."""
    size, known = measure.measurement.worker_cells, measure.schema.attributes
    attributes = [known[name] for name in measure.marginal.by]
    workers = [a for a in attributes if a.owner == "worker"]
    cells = list(product(*(range(len(a.values or ())) for a in workers)))
    for i, attribute in enumerate(workers):
        places = {value: place for place, value in enumerate(attribute.values or ())}
        column = _encoded(rows[attribute.name])
        own = np.array(
            [places.get(value, -1) for value in column.dictionary.to_pylist()], dtype=int
        )
        found = own[column.indices.to_numpy()].reshape(-1, size)
        if not (found == [cell[i] for cell in cells]).all():
            yield f"does not have every value of {attribute.name} in its place in every group"
            return
    kept = kept_workplaces(measure.schema, measure.marginal.where)
    for attribute in (a for a in attributes if a.owner == "workplace"):
        column = _encoded(rows[attribute.name])
        codes = column.indices.to_numpy().reshape(-1, size)
        if not (codes == codes[:, :1]).all():
            yield f"has groups of more than one {attribute.name}"
        known_values = measure.marginal.where.get(attribute.name, attribute.values)
        declared = kept.get(attribute.name, known_values)  # groups of the column may filter it too
        if declared is not None and not set(column.dictionary.to_pylist()) <= set(declared):
            yield f"has values of {attribute.name} that the record does not declare or keep"


def _encoded(column: pa.ChunkedArray[Any]) -> Any:
    """A column as places in a dictionary of its values."""
    whole: Any = column.combine_chunks()
    return whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
