"""A small town of linked tables that tests spoil on purpose, and what a check says about it."""

from __future__ import annotations

import copy
import csv
import io
import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

import eree
from eree.errors import Fault

SCHEMA: dict[str, Any] = {
    "workplace": {
        "file": "workplace.parquet",
        "key": "workplace_id",
        "attributes": {
            "state": {"label": "State"},
            "county": {},
            "tract": {},
            "sector": {"values": ["11", "23", "44-45"], "labels": {"11": "Farms"}},
            "wages": {"type": "integer", "confidential": True},
        },
    },
    "worker": {
        "file": "worker.parquet",
        "key": "worker_id",
        "attributes": {"sex": ["F", "M"], "grade": {"values": [1, 2, 3]}},
    },
    "job": {"file": "job.parquet", "worker": "worker_id", "workplace": "workplace_id"},
    "group": {"goods": {"of": "sector", "members": {"goods": ["11", "23"], "services": ["44-45"]}}},
    "hierarchy": {"geography": ["tract", "county", "state"], "industry": ["sector", "goods"]},
    "reference": {"county": {"file": "county.parquet"}},
}

TABLES: dict[str, dict[str, list[Any]]] = {
    "workplace": {
        "workplace_id": [10, 20, 30, 40],
        "state": ["17", "17", "17", "18"],
        "county": ["171", "171", "172", "181"],
        "tract": ["1711", "1712", "1721", "1811"],
        "sector": ["11", "23", "44-45", "11"],
        "wages": [5, 6, 7, 8],
    },
    "worker": {
        "worker_id": [1, 2, 3, 4, 5, 6],
        "sex": ["F", "M", "F", "F", "M", "M"],
        "grade": [1, 2, 3, 3, 2, 1],
    },
    "job": {"worker_id": [1, 2, 3, 4, 5, 6], "workplace_id": [10, 10, 20, 30, 30, 30]},
    "county": {"county": ["171", "172", "181", "182"], "population": [9, 9, 9, 9]},
}

Reported = tuple[str, str, str, int | None]


@dataclass
class Town:
    """The declaration and the rows of a sound town, free to be spoilt before it is written."""

    schema: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(SCHEMA))
    tables: dict[str, dict[str, list[Any]]] = field(default_factory=lambda: copy.deepcopy(TABLES))
    types: dict[tuple[str, str], pa.DataType] = field(default_factory=dict)

    def as_csv(self, *tables: str) -> Town:
        """Declare some tables (or all) as CSV files."""
        for table in tables or self.tables:
            place = self.schema["reference"] if table == "county" else self.schema
            place[table]["file"] = f"{table}.csv"
        return self

    def attribute(self, table: str, name: str) -> dict[str, Any]:
        """The settings of an attribute, in their long form."""
        attributes = self.schema[table]["attributes"]
        if isinstance(attributes[name], list):
            attributes[name] = {"values": attributes[name]}
        found: dict[str, Any] = attributes[name]
        return found

    def arrow(self, table: str) -> pa.Table:
        columns = self.tables[table]
        return pa.table({c: pa.array(v, self.types.get((table, c))) for c, v in columns.items()})

    def file(self, table: str) -> str:
        place = self.schema["reference"] if table == "county" else self.schema
        return str(place[table]["file"])

    def write(self, folder: Path) -> Path:
        """Write schema and tables."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schema.toml").write_text(toml(self.schema), encoding="utf-8")
        for table in self.tables:
            try:
                path = folder / self.file(table)
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.suffix == ".csv":
                    path.write_bytes(csv_bytes(self.tables[table]))
                else:
                    parquet.write_table(self.arrow(table), path)
            except (KeyError, TypeError, ValueError, OSError):
                continue  # the declaration names no file that can be written
        return folder


def csv_bytes(columns: Mapping[str, list[Any]], end: str = "\n", quoting: int = 0) -> bytes:
    """A table as CSV; None is an empty field, True and False are written small."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=end, quoting=quoting)
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow(str(v).lower() if isinstance(v, bool) else v for v in row)
    return text.getvalue().encode()


def toml(schema: Mapping[str, Any], path: tuple[str, ...] = ()) -> str:
    """A declaration as TOML, with every inner table in a section of its own."""

    def key(text: str) -> str:
        return json.dumps(text, ensure_ascii=False)

    plain = {k: v for k, v in schema.items() if not isinstance(v, Mapping)}
    lines = [f"[{'.'.join(map(key, path))}]"] if path else []
    lines += [f"{key(k)} = {json.dumps(v, ensure_ascii=False)}" for k, v in plain.items()]
    for name, inner in schema.items():
        if isinstance(inner, Mapping):
            lines.append(toml(inner, (*path, name)))
    return "\n".join(lines)


def reported(folder: Path, **options: Any) -> list[Reported]:
    """What a check finds: table, column, rule and rows; `load` must raise exactly the same."""
    found = eree.check(folder, **options)
    assert (found.tables is not None) == bool(found) == (not found.faults)
    return [short(fault) for fault in found.faults]


def listed(folder: Path, **options: Any) -> list[Reported]:
    """The faults of whose rows a check writes a list, each with the number of rows listed."""
    with tempfile.TemporaryDirectory() as home:
        out = Path(home) / "faulty.csv"
        found = eree.check(folder, rows=out, **options)
        assert out.exists() != bool(found)
        if found:
            return []
        assert out.stat().st_mode & 0o777 == 0o600
        with out.open(encoding="utf-8", newline="") as file:
            rows = Counter((r["table"], r["column"], r["rule"]) for r in csv.DictReader(file))
    counted = [(f.table, f.column, f.rule) for f in found.faults]
    return [(*about, rows.pop(about)) for about in counted if about in rows] + [
        (*about, number) for about, number in rows.items()
    ]


def short(fault: Fault) -> Reported:
    return fault.table, fault.column, fault.rule, fault.rows


def schema_faults(folder: Path) -> list[tuple[str, str]]:
    """The places of the schema that are wrong, with the rule."""
    return [(c, rule) for table, c, rule, rows in reported(folder) if table == "schema.toml"]


#: A value that no message may quote.
SECRET = "Zyzzyva-77231"


def repeated(town: Town) -> None:
    town.tables["worker"]["worker_id"][1] = 1


def orphan(town: Town) -> None:
    town.tables["job"]["workplace_id"][0] = 99


def missing(town: Town) -> None:
    town.tables["worker"]["sex"][0] = None


def undeclared_value(town: Town) -> None:
    town.tables["worker"]["sex"][0] = SECRET
