"""The records of a survey: weighted answers of sampled jobs.  Confidential.

A folder holds `survey.toml`, which is public, and the records in Parquet or CSV.  Both are
checked as they are read, a column at a time.  What is wrong with a column is a fault that says the
rule and how many records break it; no value is ever quoted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from eree.data.columns import EITHER, WORDS
from eree.data.sources import DAMAGED, UNREADABLE, Source, inspect_source
from eree.errors import Fault, Faulty
from eree.survey.checked import CheckedSurvey, Survey
from eree.survey.declaration import Declaration, inspect_declaration
from eree.survey.shape import Integers, Reals, Variable
from eree.workload import JOB

TABLE = "records"
#: The largest weight of a record, and of all records together, in jobs: sums stay exact.
MOST_WEIGHT = 10**9
MOST_TOTAL = 10**12
#: CSV files are read again for every so many columns, which bounds the memory.
_COLUMNS_AT_ONCE = 16
#: How a number is written in a CSV file.
_NUMBER = r"^-?[0-9]{1,20}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,2})?$"

Column = pa.ChunkedArray  # of any type
Progress = Callable[[str, float], None]


def check_survey(
    folder: str | os.PathLike[str], *, replicates: bool = True, progress: Progress | None = None
) -> CheckedSurvey:
    """Look at declaration, file and records: the survey if it is sound, and every fault.

    Without `replicates` replicate weights are checked but not kept.  Raises `Unreadable` only where
    there is no declaration to check against.

    Args:
        folder: A folder with its `survey.toml`.
        replicates: Whether replicate weights are kept.
        progress: Called with a step and the share that is done.

    Examples:
        >>> bool(eree.check_survey("survey"))
        True
    """
    home = Path(folder)
    declaration, found = inspect_declaration(home)
    if not declaration.file:
        return CheckedSurvey(None, found)
    source, problems = inspect_source(home.absolute(), TABLE, declaration.file)
    if source is None:
        return CheckedSurvey(None, (*found, *problems))
    types = _arrow_types(source) if not problems else {}
    reading = _Reading(declaration, source, types)
    reading.faults += (*found, *problems)
    reading.faults += _column_faults(declaration, source, types, whole=not found)
    reading.keep_replicates = replicates and not reading.faults
    if not problems:
        names = list(reading.columns())
        for done, (name, column) in enumerate(reading.read(names)):
            if progress:
                progress(f"reading {name}", done / len(names))
            reading.take(name, column)
        reading.conclude()
    if progress:
        progress("done", 1.0)
    survey = None if reading.faults else reading.survey(home)
    return CheckedSurvey(survey, tuple(reading.faults))


def read_survey(
    folder: str | os.PathLike[str], *, replicates: bool = True, progress: Progress | None = None
) -> Survey:
    """The survey of a folder; raises `Faulty` with every fault if there is one.

    Args:
        folder: A folder with its `survey.toml`.
        replicates: Whether replicate weights are kept.
        progress: Called with a step and the share that is done.

    Examples:
        >>> eree.read_survey("survey")
        <Survey in survey: records of job, education, licence, confidential>
    """
    checked = check_survey(folder, replicates=replicates, progress=progress)
    if checked.survey is None:
        raise Faulty(checked.faults, lists="eree cube check")
    return checked.survey


class _Reading:
    """One pass over the columns of the records; collects the faults of all of them."""

    def __init__(
        self, declaration: Declaration, source: Source, types: Mapping[str, pa.DataType]
    ) -> None:
        self.declaration, self.source, self.types = declaration, source, types
        self.csv = source.format == "csv"
        self.keep_replicates = False
        self.faults: list[Fault] = []
        self.rows: int | None = None
        self.answers: dict[str, NDArray[np.int32]] = {}
        self.replicates: Reals | None = None
        self.others: dict[str, Any] = {}  # weights, establishments and ids of a survey

    def add(self, column: str, rule: str, records: int | None) -> None:
        """Note that so many records break a rule, unless it is none."""
        if records != 0:
            self.faults.append(Fault(TABLE, self.declaration.file, column, rule, records))

    def survey(self, folder: Path) -> Survey:
        """The survey, once nothing was found wrong."""
        others = (self.others["weights"], self.others["establishments"])
        for array in (*self.answers.values(), *others, self.replicates):
            if array is not None:
                array.flags.writeable = False
        return Survey(
            folder, self.declaration, self.answers, replicates=self.replicates, **self.others
        )

    # ---------------------------------------------------------------- reading

    def columns(self) -> Iterator[str]:
        """The declared columns that are there and hold what they should."""
        for name, number in _wanted(self.declaration).items():
            held = self.types.get(name)
            if held is not None and (self.csv or _fits(held, number)):
                yield name

    def read(self, names: Sequence[str]) -> Iterator[tuple[str, Column[Any]]]:
        """Each column that can be read; one that cannot is a fault."""
        step = _COLUMNS_AT_ONCE if self.csv else 1
        for start in range(0, len(names), step):
            wanted = list(names[start : start + step])
            try:
                table = pa.concat_tables(self._parts(wanted))
                table.validate(full=True)
            except UNREADABLE:
                if self.csv:
                    self.add("", DAMAGED["csv"], None)
                    return
                self.add(wanted[0], DAMAGED["parquet"], None)
                continue
            for name in wanted:
                yield name, table.column(name)

    def _parts(self, names: list[str]) -> Iterator[pa.Table]:
        for path in self.source.paths:
            if self.csv:
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

    def take(self, name: str, column: Column[Any]) -> None:
        """Check a column and keep what it means."""
        said = self.declaration
        if self.rows is None:
            self.rows = len(column)
        if len(column) != self.rows:
            self.add(name, DAMAGED["parquet"], None)
        elif name == said.record:
            self.others["ids"] = self.ids(name, column)
        elif name == said.establishment:
            self.others["establishments"] = self.establishments(name, column)
        elif name == said.weight:
            self.others["weights"] = self.weights(name, column)
        elif name in said.replicates:
            values = self.replicate(name, column)
            if self.keep_replicates and values is not None:
                if self.replicates is None:
                    self.replicates = np.empty((len(said.replicates), len(values)))
                self.replicates[said.replicates.index(name)] = values
        else:
            found = self.places(self._variable(name), column)
            if found is not None:
                self.answers[name] = found

    def conclude(self) -> None:
        """Find the faults that need several columns, or none."""
        if self.rows == 0:
            self.add("", "the table is empty", None)
        for number, rule in enumerate(self.declaration.impossible, start=1):
            if not set(rule.codes) <= set(self.answers):
                continue
            inside = np.ones(self.rows or 0, dtype=np.bool_)
            for name, codes in rule.codes.items():
                variable = self._variable(name)
                among = np.zeros(len(variable.codes), dtype=np.bool_)
                among[[variable.places[code] for code in codes]] = True
                inside &= among[self.answers[name]]
            broken = f"the record is in a cell that impossible rule {number} leaves out"
            self.add(", ".join(rule.codes), broken, int(inside.sum()))

    def _variable(self, name: str) -> Variable:
        return next(v for v in self.declaration.variables if v.name == name)

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

    def establishments(self, name: str, column: Column[Any]) -> Integers | None:
        """The establishments' numbers, from 0 on in the order in which they first appear."""
        texts = self.texts(name, column)
        if texts.null_count or not len(texts):
            return None
        return pc.index_in(texts, texts.unique()).to_numpy().astype(np.int64)

    def places(self, variable: Variable, column: Column[Any]) -> NDArray[np.int32] | None:
        """The places of the records on a variable's axis."""
        texts = self.texts(variable.name, column)
        found = pc.index_in(texts, pa.array(variable.codes, pa.string()))
        undeclared = found.null_count - texts.null_count
        self.add(variable.name, "the value is not declared", undeclared)
        return None if found.null_count else found.to_numpy().astype(np.int32)

    def numbers(self, name: str, column: Column[Any]) -> Reals | None:
        """A column of numbers; None where one is missing, or is no finite number."""
        if pa.types.is_string(column.type):
            texts = self.texts(name, column)
            good = pc.match_substring_regex(texts, _NUMBER)
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

    def weights(self, name: str, column: Column[Any]) -> Integers | None:
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

    def replicate(self, name: str, column: Column[Any]) -> Reals | None:
        """Replicate weights: numbers of 0 or more."""
        values = self.numbers(name, column)
        if values is None:
            return None
        self.add(name, "the replicate weight is negative", int((values < 0).sum()))
        large = int((values > MOST_TOTAL).sum())
        self.add(name, f"the replicate weight is more than {MOST_TOTAL:,}", large)
        return values


def _arrow_types(source: Source) -> Mapping[str, pa.DataType]:
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


def _wanted(declaration: Declaration) -> dict[str, bool]:
    """The columns that the file must have, and whether each holds numbers."""
    texts = (declaration.record, declaration.establishment)
    wanted = dict.fromkeys((*texts, *(v.name for v in declaration.variables)), False)
    wanted |= dict.fromkeys((declaration.weight, *declaration.replicates), True)
    return {name: number for name, number in wanted.items() if name}


def _fits(held: pa.DataType, number: bool) -> bool:
    if number:
        return pa.types.is_floating(held) or pa.types.is_integer(held) or pa.types.is_decimal(held)
    texts = pa.types.is_string(held) or pa.types.is_large_string(held)
    return texts or (pa.types.is_integer(held) and held != pa.uint64())


def _column_faults(
    declaration: Declaration, source: Source, types: Mapping[str, pa.DataType], *, whole: bool
) -> Iterator[Fault]:
    """Columns that are missing, of the wrong type, or not declared in a `whole` file."""
    wanted, file = _wanted(declaration), declaration.file
    if source.format == "csv" and not wanted.keys() & source.columns.keys():
        # What stands in the first row may be a record: none of it is quoted.
        rule = "the first row names none of the declared columns; the header may be missing"
        yield Fault(TABLE, file, "", rule)
        return
    for name, number in wanted.items():
        if name not in source.columns:
            yield Fault(TABLE, file, name, "the column is missing")
        elif source.format == "parquet" and name in types and not _fits(types[name], number):
            asked = "numbers" if number else " or ".join(sorted(WORDS[kind] for kind in EITHER))
            found = WORDS[source.columns[name]]
            yield Fault(TABLE, file, name, f"the column holds {found}, not {asked}")
    for place, name in enumerate(source.columns, start=1):
        if whole and name not in wanted and name not in declaration.ignore:
            shown = f"column {place}" if source.format == "csv" else name
            rule = "the column is not declared; declare it or list it in records.ignore"
            yield Fault(TABLE, file, shown, rule)
    for name in declaration.ignore:
        if name not in source.columns:
            yield Fault(TABLE, file, name, "the column to ignore is missing")
