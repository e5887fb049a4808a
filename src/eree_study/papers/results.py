"""The figures of a study as one tidy table, and single figures out of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from pydantic import TypeAdapter

from eree.errors import Refusal
from eree_study.papers.workloads import WHOLE


@dataclass(frozen=True)
class Row:
    """One figure of the study: a line of `errors.csv`."""

    study: str
    workload: str
    mechanism: str
    alpha: str | None
    epsilon: str | None
    delta: float
    stratum: str
    measure: str
    value: float
    standard_error: float
    trials: int

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


NAMES = tuple(field.name for field in fields(Row))
_ROWS = TypeAdapter(list[Row])
_NUMBERS = {"delta": pa.float64(), "value": pa.float64(), "standard_error": pa.float64()}
_KINDS = {**_NUMBERS, "trials": pa.int64()}
SCHEMA = pa.schema([pa.field(name, _KINDS.get(name, pa.string())) for name in NAMES])


@dataclass(frozen=True)
class Part:
    """One workload at one alpha and epsilon; without an alpha, those that have none."""

    workload: str
    alpha: str | None
    epsilon: str

    def file(self, folder: Path) -> Path:
        """Where its figures stand."""
        return folder / "parts" / f"{self.workload}_{self.alpha or 'none'}_{self.epsilon}.json"

    @classmethod
    def of(cls, file: Path) -> Part:
        """The part whose figures stand in a file."""
        workload, alpha, epsilon = file.stem.split("_")
        return cls(workload, None if alpha == "none" else alpha, epsilon)

    def describe(self) -> str:
        """For people to read."""
        return f"{self.workload} at {f'alpha {self.alpha}, ' if self.alpha else ''}" + (
            f"epsilon {self.epsilon}"
        )


class Results:
    """All figures of a study, by what they are of, and the parts that were run.

    A part that was run has no figure of a mechanism that does not exist there.
    """

    def __init__(self, rows: Iterable[Row], parts: Iterable[Part]) -> None:
        self.rows = sorted(rows, key=_order)
        self.parts = frozenset(parts)
        self._by = {
            (r.workload, r.mechanism, r.alpha, r.epsilon, r.stratum, r.measure): r
            for r in self.rows
        }

    @classmethod
    def read(cls, folder: Path) -> Results:
        """The parts of a study that are there."""
        rows, parts = [], []
        for path in sorted((folder / "parts").glob("*.json")):
            try:
                read = _ROWS.validate_json(path.read_bytes(), strict=True)
                rows += sorted(read, key=_order)  # here an alpha that is no number shows
                parts.append(Part.of(path))
            except (ValueError, TypeError):
                raise Refusal(f"{path} was damaged; remove it and run the study again") from None
        if not rows:
            raise Refusal(f"the study in {folder} has no part yet; run it first")
        return cls(rows, parts)

    def row(
        self,
        workload: str,
        mechanism: str,
        alpha: str | None,
        epsilon: str | None,
        measure: str = "l1_ratio",
        stratum: str = WHOLE,
    ) -> Row | None:
        """One figure with its standard error, or None where there is none."""
        return self._by.get((workload, mechanism, alpha, epsilon, stratum, measure))

    def write(self, folder: Path) -> list[Path]:
        """`errors.parquet` and `errors.csv`."""
        columns = {name: [getattr(row, name) for row in self.rows] for name in NAMES}
        table = pa.table(columns, schema=SCHEMA)
        paths = [folder / "errors.parquet", folder / "errors.csv"]
        parquet.write_table(table, paths[0])
        arrow_csv.write_csv(table, paths[1])
        return paths


def _order(row: Row) -> tuple[object, ...]:
    return (
        row.study,
        row.workload,
        row.mechanism,
        float(row.alpha or 0),
        float(row.epsilon or 0),
        row.stratum,
        row.measure,
    )
