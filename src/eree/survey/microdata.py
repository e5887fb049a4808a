"""The records of a survey: weighted answers of sampled jobs.  Confidential.

A folder holds `survey.toml`, which is public, and the records in Parquet or CSV.  Both are
checked as they are read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eree.data.columns import EITHER, WORDS
from eree.data.sources import DAMAGED, Source, inspect_source
from eree.errors import Fault, Faulty
from eree.survey.declaration import Declaration, inspect_declaration
from eree.survey.records import TABLE, Columns, arrow_types
from eree.survey.shape import Shape

Progress = Callable[[str, float], None]


@dataclass(frozen=True, repr=False, eq=False)
class Survey:
    """Records of a survey that passed every check.  Confidential: printing shows the shape only.

    - `answers`: for each variable, the place of every record on its axis;
    - `weights`: in thousandths of a job, rounded to the nearest, halves to even;
    - `establishments`: the number of each record's establishment, from 0 on;
    - `replicates`: replicate weights, a row for each replicate, if declared and asked for;
    - `ids`: the texts that name the records.
    """

    folder: Path
    declaration: Declaration
    answers: Mapping[str, NDArray[np.int32]] = field(repr=False)
    weights: NDArray[np.int64] = field(repr=False)
    establishments: NDArray[np.int64] = field(repr=False)
    ids: pa.ChunkedArray[Any] = field(repr=False)
    replicates: NDArray[np.float64] | None = field(default=None, repr=False)

    @property
    def shape(self) -> Shape:
        """The shape of the cube of all variables."""
        return self.declaration.shape

    def positions(self, shape: Shape | None = None) -> NDArray[np.int64]:
        """The cell of every record in a cube, numbered in the order of its axes, the last fastest.

        Without a shape, in the cube of all variables.
        """
        chosen = shape or self.shape
        found = np.zeros(len(self.weights), dtype=np.int64)
        for variable in chosen.variables:
            found *= len(variable.codes)
            found += self.answers[variable.name]
        return found

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The records in the order of their ids: shorter ids first, then by their characters.

        So 9 comes before 10; and how two records compare depends on nothing but their two ids.
        """
        keys = pa.table({"length": pc.binary_length(self.ids), "id": self.ids})
        by: list[tuple[str, Literal["ascending", "descending"]]]
        by = [("length", "ascending"), ("id", "ascending")]
        return pc.sort_indices(keys, sort_keys=by).to_numpy().astype(np.int64)

    def __repr__(self) -> str:
        names = ", ".join(variable.name for variable in self.shape.variables)
        return f"<Survey in {self.folder}: records of {names}, confidential>"


def check_survey(
    folder: str | os.PathLike[str], *, replicates: bool = True, progress: Progress | None = None
) -> tuple[Survey | None, tuple[Fault, ...]]:
    """Look at declaration, file and records: the survey if it is sound, and every fault.

    Without `replicates` replicate weights are checked but not kept.  Raises `Unreadable` only where
    there is no declaration to check against.
    """
    home = Path(folder)
    declaration, found = inspect_declaration(home)
    faults = list(found)
    if not declaration.file:
        return None, tuple(faults)
    source, problems = inspect_source(home.absolute(), TABLE, declaration.file)
    faults += problems
    if source is None:
        return None, tuple(faults)
    types = arrow_types(source) if not problems else {}
    faults += _column_faults(declaration, source, types, whole=not found)
    reading = _Reading(declaration, source, types, replicates and not faults)
    if not problems:
        steps = list(reading.columns())
        for done, (name, column) in enumerate(reading.read.read(steps)):
            if progress:
                progress(f"reading {name}", done / len(steps))
            reading.take(name, column)
        faults += reading.conclude()
    if progress:
        progress("done", 1.0)
    survey = None if faults else reading.survey(home)
    return survey, tuple(faults)


def read_survey(
    folder: str | os.PathLike[str], *, replicates: bool = True, progress: Progress | None = None
) -> Survey:
    """The survey of a folder; raises `Faulty` with every fault if there is one."""
    survey, faults = check_survey(folder, replicates=replicates, progress=progress)
    if survey is None:
        raise Faulty(faults, lists="eree cube check")
    return survey


class _Reading:
    """One pass over the columns of the records."""

    def __init__(
        self,
        declaration: Declaration,
        source: Source,
        types: Mapping[str, pa.DataType],
        keep: bool,
    ) -> None:
        self.declaration, self.types, self.keep = declaration, types, keep
        self.read = Columns(source, declaration.file)
        self.csv = source.format == "csv"
        self.rows: int | None = None
        self.answers: dict[str, NDArray[np.int32]] = {}
        self.weights: NDArray[np.int64] | None = None
        self.establishments: NDArray[np.int64] | None = None
        self.ids: pa.ChunkedArray[Any] | None = None
        self.replicates: NDArray[np.float64] | None = None

    def columns(self) -> Iterator[str]:
        """The declared columns that are there and hold what they should."""
        for name, number in _wanted(self.declaration).items():
            held = self.types.get(name)
            if held is not None and (self.csv or _fits(held, number)):
                yield name

    def take(self, name: str, column: pa.ChunkedArray[Any]) -> None:
        """Check a column and keep what it means."""
        said = self.declaration
        if self.rows is None:
            self.rows = len(column)
        if len(column) != self.rows:
            self.read.add(name, DAMAGED["parquet"], None)
            return
        if name == said.record:
            self.ids = self.read.ids(name, column)
        elif name == said.establishment:
            self.establishments = self.read.establishments(name, column)
        elif name == said.weight:
            self.weights = self.read.weights(name, column)
        elif name in said.replicates:
            values = self.read.replicate(name, column)
            if self.keep and values is not None:
                if self.replicates is None:
                    self.replicates = np.empty((len(said.replicates), len(values)))
                self.replicates[said.replicates.index(name)] = values
        else:
            variable = next(v for v in said.variables if v.name == name)
            found = self.read.answers(variable, column)
            if found is not None:
                self.answers[name] = found

    def conclude(self) -> list[Fault]:
        """All faults of the records, with those that need several columns."""
        if self.rows == 0:
            self.read.add("", "the table is empty", None)
        for number, rule in enumerate(self.declaration.impossible, start=1):
            if not set(rule.codes) <= set(self.answers):
                continue
            inside = np.ones(self.rows or 0, dtype=np.bool_)
            for name, codes in rule.codes.items():
                variable = next(v for v in self.declaration.variables if v.name == name)
                among = np.zeros(len(variable.codes), dtype=np.bool_)
                among[[variable.places[code] for code in codes]] = True
                inside &= among[self.answers[name]]
            words = f"the record is in a cell that impossible rule {number} leaves out"
            self.read.add(", ".join(rule.codes), words, int(inside.sum()))
        return self.read.faults

    def survey(self, folder: Path) -> Survey:
        """The survey, once nothing was found wrong."""
        assert self.weights is not None
        assert self.establishments is not None
        assert self.ids is not None
        for array in (*self.answers.values(), self.weights, self.establishments, self.replicates):
            if array is not None:
                array.flags.writeable = False
        return Survey(
            folder,
            self.declaration,
            self.answers,
            self.weights,
            self.establishments,
            self.ids,
            self.replicates,
        )


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
