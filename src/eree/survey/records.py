"""Columns of a survey's records: read, checked and turned into numbers, one at a time.

What is wrong with a column is a fault that says the rule and how many records break it; no value is
ever quoted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from eree.data.sources import DAMAGED, UNREADABLE, Source
from eree.errors import Fault
from eree.survey.shape import Variable
from eree.workload import JOB

TABLE = "records"
#: The largest weight of a record, and of all records together, in jobs: sums stay exact.
MOST_WEIGHT = 10**9
MOST_TOTAL = 10**12
#: CSV files are read again for every so many columns, which bounds the memory.
COLUMNS_AT_ONCE = 16
#: How a number is written in a CSV file.
NUMBER = r"^-?[0-9]{1,20}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,2})?$"

Column = pa.ChunkedArray  # of any type


class Columns:
    """Reads columns of a source, and collects the faults of all of them."""

    def __init__(self, source: Source, file: str) -> None:
        self.source, self.file = source, file
        self.faults: list[Fault] = []

    def add(self, column: str, rule: str, records: int | None) -> None:
        """Note that so many records break a rule, unless it is none."""
        if records != 0:
            self.faults.append(Fault(TABLE, self.file, column, rule, records))

    def read(self, names: Sequence[str]) -> Iterator[tuple[str, Column[Any]]]:
        """Each column that can be read; one that cannot is a fault."""
        step = COLUMNS_AT_ONCE if self.source.format == "csv" else 1
        for start in range(0, len(names), step):
            wanted = list(names[start : start + step])
            try:
                table = self._table(wanted)
                table.validate(full=True)
            except UNREADABLE:
                if self.source.format == "csv":
                    self.add("", DAMAGED["csv"], None)
                    return
                self.add(wanted[0], DAMAGED["parquet"], None)
                continue
            for name in wanted:
                yield name, table.column(name)

    def _table(self, names: list[str]) -> pa.Table:
        return pa.concat_tables(self._parts(names))

    def _parts(self, names: list[str]) -> Iterator[pa.Table]:
        for path in self.source.paths:
            if self.source.format == "csv":
                yield arrow_csv.read_csv(
                    path,
                    read_options=arrow_csv.ReadOptions(block_size=1 << 24),
                    parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
                    convert_options=arrow_csv.ConvertOptions(
                        column_types=dict.fromkeys(names, pa.string()),
                        include_columns=names,
                        strings_can_be_null=True,
                        null_values=[""],
                    ),
                )
                continue
            with parquet.ParquetFile(path) as file:
                found = file.read(columns=names)
            yield pa.table({name: _plain(found.column(name)) for name in names})

    # ------------------------------------------------------------- what they mean

    def texts(self, name: str, column: Column[Any]) -> Column[Any]:
        """A column of ids or codes as texts; an empty text is a missing value."""
        texts = column if pa.types.is_string(column.type) else column.cast(pa.string())
        blank = pc.equal(texts, pa.scalar(""))
        if pc.any(blank).as_py():
            texts = pc.if_else(blank, pa.scalar(None, pa.string()), texts)
        self.add(name, "the value is missing", texts.null_count)
        return texts

    def ids(self, name: str, column: Column[Any]) -> Column[Any] | None:
        """The ids of the records, each once."""
        texts = self.texts(name, column)
        repeated = len(texts) - texts.null_count - int(pc.count_distinct(texts).as_py())
        self.add(name, "the id repeats that of an earlier record", repeated)
        return None if repeated or texts.null_count else texts

    def establishments(self, name: str, column: Column[Any]) -> NDArray[np.int64] | None:
        """The establishments' numbers, from 0 on in the order in which they first appear."""
        texts = self.texts(name, column)
        if texts.null_count or not len(texts):
            return None
        return pc.index_in(texts, texts.unique()).to_numpy().astype(np.int64)

    def answers(self, variable: Variable, column: Column[Any]) -> NDArray[np.int32] | None:
        """The places of the records on a variable's axis."""
        texts = self.texts(variable.name, column)
        found = pc.index_in(texts, pa.array(variable.codes, pa.string()))
        undeclared = found.null_count - texts.null_count
        self.add(variable.name, "the value is not declared", undeclared)
        return None if found.null_count else found.to_numpy().astype(np.int32)

    def numbers(self, name: str, column: Column[Any]) -> NDArray[np.float64] | None:
        """A column of numbers; None where one is missing, or is no finite number."""
        if pa.types.is_string(column.type):
            texts = self.texts(name, column)
            good = pc.match_substring_regex(texts, NUMBER)
            plain = pc.if_else(good, texts, pa.scalar(None, pa.string()))
            wrong = plain.null_count - texts.null_count
            self.add(name, "the value is not a plainly written number", wrong)
            values = plain.cast(pa.float64()).to_numpy()
        else:
            self.add(name, "the value is missing", column.null_count)
            values = column.cast(pa.float64(), safe=False).to_numpy()
            wrong = len(values) - column.null_count - int(np.isfinite(values).sum())
            self.add(name, "the value is not a finite number", wrong)
        return values if bool(np.isfinite(values).all()) else None

    def weights(self, name: str, column: Column[Any]) -> NDArray[np.int64] | None:
        """Weights in thousandths of a job, rounded to the nearest, halves to even.

        Every weight of at most three decimals is kept exactly.
        """
        before = len(self.faults)
        values = self.numbers(name, column)
        if values is None:
            return None
        small = np.rint(np.minimum(values, MOST_WEIGHT) * JOB) < 1
        self.add(name, "the weight is less than a thousandth", int(small.sum()))
        large = int((values > MOST_WEIGHT).sum())
        self.add(name, f"the weight is more than {MOST_WEIGHT:,}", large)
        if len(self.faults) > before:
            return None
        found = np.rint(values * JOB).astype(np.int64)
        if float(found.sum(dtype=np.float64)) > MOST_TOTAL * JOB:
            self.add(name, f"the weights add up to more than {MOST_TOTAL:,}", None)
            return None
        return found

    def replicate(self, name: str, column: Column[Any]) -> NDArray[np.float64] | None:
        """Replicate weights: numbers of 0 or more."""
        values = self.numbers(name, column)
        if values is None:
            return None
        self.add(name, "the replicate weight is negative", int((values < 0).sum()))
        large = int((values > MOST_TOTAL).sum())
        self.add(name, f"the replicate weight is more than {MOST_TOTAL:,}", large)
        return values


def arrow_types(source: Source) -> Mapping[str, pa.DataType]:
    """The types of a source's columns, of values and not of their dictionary; CSV holds texts."""
    if source.format == "csv":
        return dict.fromkeys(source.columns, pa.string())
    schema = parquet.read_schema(source.paths[0])
    return {
        field.name: field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        for field in schema
    }


def _plain(column: Column[Any]) -> Column[Any]:
    """A column without dictionaries, of strings of one width."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.string()) if pa.types.is_large_string(column.type) else column
