"""Answers in the words of standards for statistical files: SDMX-CSV 2.0 and CSV on the Web."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

#: Figures beside the estimate, as SDMX names attributes; the flags become the status.
_ATTRIBUTES = {
    "standard_error": "STANDARD_ERROR",
    "low": "CONF_LOWER",
    "high": "CONF_UPPER",
    "margin": "MARGIN",
}
#: Codes of the status of an observation (CL_OBS_STATUS): normal, of low reliability, missing.
_NORMAL, _UNRELIABLE, _MISSING = "A", "U", "O"
_CSVW = "http://www.w3.org/ns/csvw"
_LAST_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_KINDS = {"int64": "integer", "double": "number"}


def interval_of(period: str) -> tuple[str, str] | None:
    """The first and the last day of a year, a quarter or a month; none of other times."""
    found = re.fullmatch(r"(\d{4})(?:-(?:Q([1-4])|(0[1-9]|1[0-2])))?", period)
    if found is None or found[1] == "0000":
        return None
    year, first, last = int(found[1]), 1, 12
    if found[2]:
        first, last = 3 * int(found[2]) - 2, 3 * int(found[2])
    elif found[3]:
        first = last = int(found[3])
    leap = last == 2 and (year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))
    return f"{found[1]}-{first:02}-01", f"{found[1]}-{last:02}-{_LAST_DAYS[last - 1] + leap}"


def sdmx_id(name: str) -> str:
    """A name as an identifier of SDMX: letters, digits and _, a letter first."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name).upper()
    return plain if plain[:1].isalpha() else f"V_{plain}"


def sdmx_csv(
    table: pa.Table, dimensions: Sequence[str], about: Mapping[str, str], unit: str
) -> bytes:
    """SDMX-CSV 2.0: a row for each observation, its dimensions, its value and its attributes.

    `about` has the `data_set`, its `agency` and its `period`, which is said where it is a time.
    """
    taken = {"STRUCTURE", "STRUCTURE_ID", "ACTION", "TIME_PERIOD", "OBS_VALUE", "OBS_STATUS"}
    taken |= {"UNIT_MEASURE", *_ATTRIBUTES.values()}
    names: list[str] = []
    for name in map(sdmx_id, dimensions):
        while name in taken:
            name += "_"
        taken.add(name)
        names.append(name)
    known = {column: own for column, own in _ATTRIBUTES.items() if column in table.column_names}
    when = [about["period"]] if interval_of(about["period"]) else []
    period = ["TIME_PERIOD"] * len(when)
    head = ["STRUCTURE", "STRUCTURE_ID", "ACTION", *names, *period]
    head += ["OBS_VALUE", "UNIT_MEASURE", *known.values(), "OBS_STATUS"]
    flow = f"{sdmx_id(about['agency'])}:{sdmx_id(about['data_set'])}(1.0)"
    columns = [table[name].to_pylist() for name in (*dimensions, "estimate", *known, "flags")]
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\r\n")
    lines.writerow(head)
    count = len(dimensions)
    for row in zip(*columns, strict=True):
        status = _UNRELIABLE if "unreliable" in row[-1].split() else _NORMAL
        status = _MISSING if row[count] is None else status
        figures = [row[count], unit, *row[count + 1 : -1], status]
        lines.writerow(["dataflow", flow, "I", *row[:count], *when, *figures])
    return text.getvalue().encode()


def csvw(table: pa.Table, dimensions: Sequence[str], about: Mapping[str, Any]) -> bytes:
    """The metadata of the CSV file of an answer, as CSV on the Web has them.

    `about` has the `url` of the file, a `title`, a `description`, and who made it when.
    """
    columns = []
    for field in table.schema:
        kind = _KINDS.get(str(field.type), "decimal" if "decimal" in str(field.type) else "string")
        column: dict[str, Any] = {
            "titles": field.name,
            "name": re.sub(r"[^A-Za-z0-9_]", "_", field.name).lstrip("_") or "column",
            "datatype": kind,
            "required": field.name in dimensions
            or (field.name == "estimate" and not table["estimate"].null_count),
        }
        if field.name == "flags":
            column["separator"] = " "
        columns.append(column)
    columns.append({"titles": "release", "name": "release", "datatype": "string"})
    taken = set[str]()
    for column in columns:
        while column["name"] in taken:
            column["name"] += "_"
        taken.add(column["name"])
    places = {column["titles"]: column["name"] for column in columns}
    found = {
        "@context": [_CSVW, {"@language": "en"}],
        "@type": "Table",
        "url": about["url"],
        "dc:title": about["title"],
        "dc:description": about["description"],
        "dc:publisher": about["publisher"],
        "dc:license": about["licence"],
        "dc:temporal": about["period"],
        "dc:issued": {"@value": about["made"], "@type": "xsd:date"},
        "dialect": {"encoding": "utf-8", "header": True, "lineTerminators": ["\r\n", "\n"]},
        "tableSchema": {
            "columns": columns,
            "primaryKey": [places[name] for name in dimensions],
        },
    }
    if not dimensions:
        del found["tableSchema"]["primaryKey"]  # one row, of all
    return json.dumps({k: v for k, v in found.items() if v}, ensure_ascii=False).encode()
