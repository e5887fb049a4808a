"""Reads `survey.toml`: what the records of a survey mean.  All of it is public.

Every fault of the file is found at once, as for the schema of linked tables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StrictFloat, StrictInt, StrictStr

from eree.errors import Fault, Faulty, Refusal, Unreadable
from eree.policy.codes import CodeBook
from eree.policy.protected import Protected, protected_records
from eree.policy.schema import DATA_SET, RESERVED, Value
from eree.policy.settings import (
    Codes,
    ColumnName,
    ColumnNames,
    FileFaults,
    FileName,
    Labels,
    Settings,
    Text,
    read_toml,
)
from eree.survey.shape import Impossible, Shape, Variable
from eree.survey.soc import level_of, title_of

SURVEY_FILE = "survey.toml"
RECORDS_FILES = ("records.parquet", "records.csv")
SECTIONS = dict.fromkeys(("data_set", "records", "replicates", "variables", "impossible"))
#: Columns that eree adds to the cells of a cube.
CUBE_COLUMNS = frozenset(("unweighted", "weighted", "noise_variance"))


class RecordsSettings(Settings):
    """The file of the records, and the columns that are no variables."""

    required = ("record", "establishment", "weight", "occupation")
    file: FileName = ""
    record: ColumnName = ""
    establishment: ColumnName = ""
    weight: ColumnName = ""
    occupation: ColumnName = ""
    ignore: ColumnNames = []


class ReplicateSettings(Settings):
    """The columns of replicate weights, and how a variance is made of them."""

    required = ("columns",)
    columns: ColumnNames = []
    scale: Annotated[
        StrictFloat | StrictInt,
        Field(
            gt=0,
            lt=1e9,
            description="must be a positive number, by which squared differences are multiplied",
        ),
    ] = 0


class VariableSettings(Settings):
    """One variable of the cube."""

    required = ("codes",)
    label: Text = ""
    codes: Annotated[
        Codes | FileName,
        Field(description="must be a list of texts or of integers, or the name of a CSV file"),
    ] = ""
    labels: Labels = {}
    hierarchy: Annotated[StrictStr, Field(pattern="^soc$", description='must be "soc"')] = ""


@dataclass(frozen=True)
class Declaration:
    """What `survey.toml` says: the file and columns of the records, and the variables of the cube.

    A text that was not understood is empty.  `replicate_scale` times the sum of squared differences
    between replicate estimates and the estimate is the sampling variance; 4 / R, as in successive
    difference replication, where the file says nothing else.
    """

    file: str
    record: str
    establishment: str
    weight: str
    occupation: str
    variables: tuple[Variable, ...]
    impossible: tuple[Impossible, ...] = ()
    replicates: tuple[str, ...] = ()
    replicate_scale: float | None = None
    ignore: tuple[str, ...] = ()
    data_set: str = DATA_SET

    @property
    def protects(self) -> Protected:
        """What is declared to be protected: whose records, and what an establishment is."""
        return protected_records(self.data_set, self.record, self.establishment)

    @cached_property
    def shape(self) -> Shape:
        """The shape of the cube of all variables."""
        return Shape(self.variables, self.impossible)


def inspect_declaration(folder: Path) -> tuple[Declaration, tuple[Fault, ...]]:
    """Read `folder/survey.toml`: what could be understood of it, and every fault.

    Raises `Unreadable` only where there is nothing to inspect: no folder, no file, not TOML.
    """
    if not folder.is_dir():
        raise Unreadable(f"{folder} is not a folder; name the folder that holds {SURVEY_FILE}")
    missing = f"{folder} holds no {SURVEY_FILE}; write one, or make a survey with 'eree cube synth'"
    reading = _Reading(folder, read_toml(folder / SURVEY_FILE, missing=missing))
    found = reading.declaration()
    return found, tuple(reading.faults.found)


def read_declaration(folder: str | os.PathLike[str]) -> Declaration:
    """The declaration of a survey; raises `Faulty` with every fault of it.  Reads no record."""
    found, faults = inspect_declaration(Path(folder))
    if faults:
        raise Faulty(faults, lists="eree cube check")
    return found


class _Reading:
    """One pass over the file; collects faults instead of stopping at the first."""

    def __init__(self, folder: Path, raw: Mapping[str, Any]) -> None:
        self.folder, self.raw = folder, raw
        self.faults = FileFaults(SURVEY_FILE)
        self.codes = CodeBook(folder, self.faults)

    def declaration(self) -> Declaration:
        self.faults.unknown(self.raw, SECTIONS)
        records = self.faults.read(RecordsSettings, self.raw.get("records", {}), "records")
        replicates, scale = self.replicates()
        variables = self.variables(records.occupation)
        self.purposes(records, replicates, [v.name for v in variables])
        return Declaration(
            records.file or self.found_file(),
            records.record,
            records.establishment,
            records.weight,
            records.occupation,
            variables,
            self.impossible(variables),
            replicates,
            scale,
            tuple(records.ignore),
            self.faults.data_set(self.raw),
        )

    def found_file(self) -> str:
        """The file of the records where none is named: CSV only if there is no Parquet."""
        there = [name for name in RECORDS_FILES if (self.folder / name).exists()]
        return there[0] if there else RECORDS_FILES[0]

    def replicates(self) -> tuple[tuple[str, ...], float | None]:
        if "replicates" not in self.raw:
            return (), None
        known = len(self.faults.found)
        found = self.faults.read(ReplicateSettings, self.raw["replicates"], "replicates")
        if len(found.columns) < 2:
            if len(self.faults.found) == known:
                self.faults.add("replicates.columns", "must name two or more columns")
            return (), None
        return tuple(found.columns), float(found.scale) or 4 / len(found.columns)

    def purposes(
        self, records: RecordsSettings, replicates: Sequence[str], variables: Sequence[str]
    ) -> None:
        """One column has one purpose."""
        seen: set[str] = set()
        named = [records.record, records.establishment, records.weight, *replicates]
        for column in filter(None, [*variables, *named, *records.ignore]):
            if column.casefold() in seen:
                rule = f"names the column {column} twice (names that differ only in case are one)"
                self.faults.add("records", rule)
            seen.add(column.casefold())

    # --------------------------------------------------------------- variables

    def variables(self, occupation: str) -> tuple[Variable, ...]:
        raw = self.raw.get("variables", {})
        if not isinstance(raw, Mapping) or not raw:
            self.faults.add("variables", "must declare one or more variables")
            return ()
        if occupation and occupation not in raw:
            self.faults.add("records.occupation", f"{occupation} is not a declared variable")
        found = [self.variable(name, given, name == occupation) for name, given in raw.items()]
        return tuple(variable for variable in found if variable is not None)

    def variable(self, name: str, raw: Any, occupation: bool) -> Variable | None:
        place = f"variables.{name}"
        if not self.named(name, place):
            return None
        settings = self.faults.read(VariableSettings, raw, place)
        if not settings.codes:
            if settings.codes == []:
                self.faults.add(f"{place}.codes", "must list two or more codes")
            return None
        values, _, labels = self.codes.values(settings.codes, None, f"{place}.codes")
        if values is None:
            return None
        labels |= self.codes.labels(settings.labels, f"{place}.labels")
        self.codes.match(labels, values, f"{place}.labels")
        codes = tuple(map(str, values))
        soc = occupation or settings.hierarchy == "soc"
        if len(codes) < 2:
            self.faults.add(f"{place}.codes", "must list two or more codes")
            return None
        if soc and not self.occupations(values, f"{place}.codes"):
            return None
        shown = (labels.get(code) or (title_of(code) if soc else code) for code in codes)
        return Variable(name, settings.label or name, codes, tuple(shown), "soc" if soc else None)

    def named(self, name: str, place: str) -> bool:
        """Whether a name can be that of a column and of an axis of the cube."""
        if not name or any(c in '"`\\' or not c.isprintable() for c in name):
            rule = "a name cannot be empty or hold quotes, backslashes or control characters"
            self.faults.add(place, rule)
            return False
        if name.casefold() in RESERVED | CUBE_COLUMNS or name.startswith("_"):
            self.faults.add(place, "the name is kept for columns that eree adds; rename it")
            return False
        return True

    def occupations(self, values: Sequence[Value], place: str) -> bool:
        """Whether all codes are detailed occupations."""
        for value in values:
            try:
                if level_of(str(value)) == "detailed":
                    continue
            except Refusal:
                pass
            self.faults.add(place, f"{value} is not a detailed occupation of SOC 2018")
            return False
        return True

    # -------------------------------------------------------- structural zeros

    def impossible(self, variables: Sequence[Variable]) -> tuple[Impossible, ...]:
        raw = self.raw.get("impossible", [])
        if not isinstance(raw, list) or not all(isinstance(rule, Mapping) for rule in raw):
            self.faults.add("impossible", "must be tables of their own, each under [[impossible]]")
            return ()
        known = {variable.name: variable for variable in variables}
        found = [self.rule(i, rule, known) for i, rule in enumerate(raw, start=1)]
        return tuple(rule for rule in found if rule is not None)

    def rule(
        self, number: int, raw: Mapping[str, Any], known: Mapping[str, Variable]
    ) -> Impossible | None:
        place, kept = f"impossible.{number}", dict[str, tuple[str, ...]]()
        if not raw:
            self.faults.add(place, "must name one or more variables, and codes of each")
        section = self.raw.get("variables")
        declared = section if isinstance(section, Mapping) else known
        for name, codes in raw.items():
            listed = codes if isinstance(codes, list) else []
            if name not in declared:
                self.faults.add(f"{place}.{name}", "is not a declared variable")
            elif not listed or not all(isinstance(c, str | int) for c in listed):
                self.faults.add(f"{place}.{name}", "must list one or more codes")
            elif name in known:
                try:
                    kept[name] = known[name].held([str(code) for code in listed])
                except Refusal as refusal:
                    self.faults.add(f"{place}.{name}", str(refusal))
        return Impossible(kept) if raw and len(kept) == len(raw) else None
