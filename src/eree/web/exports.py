"""Answers as files: CSV, XLSX and Parquet, tidy, with what a reader must know of them.

A row for each cell of the table, without totals: they are sums of the rows.  Texts in CSV that a
spreadsheet would take for formulas get an apostrophe in front; numbers are never touched.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import xlsxwriter

from eree.survey.columns import decimals
from eree.web.answer import FLAGGED, MOST_CELLS, TAKEN, Answer, TooLarge
from eree.web.metadata import Metadata

#: What a spreadsheet takes for the beginning of a formula, in a cell or, in a country where
#: something else than a comma divides cells, within a text.
FORMULA = re.compile(r"""^(?=[\t\r\n])|(^|[;|\t\r\n])(?=[ '"]*[=+\-@＝＋－＠])""")


def tidy(answer: Answer) -> pa.Table:
    """A row for every cell: codes, labels, estimate, error, flags."""
    rows, cols, body = answer.rows, answer.cols, answer.body
    columns: dict[str, Any] = {}
    variables = {axis.name for axis in (*rows.axes, *cols.axes)}
    here = np.repeat(np.arange(len(rows)), len(cols))
    there = np.tile(np.arange(len(cols)), len(rows))
    for side, at in ((rows, here), (cols, there)):
        for k, axis in enumerate(side.axes):
            place = np.array([places[k] for places in side.places], dtype=np.int64)[at]
            name = f"{axis.name}_" if axis.name in TAKEN else axis.name
            columns[name] = pa.array(axis.codes, pa.string()).take(place)
            label = f"{axis.name}_label"
            while label in variables:
                label += "_"
            columns[label] = pa.array(axis.labels, pa.string()).take(place)
    values = np.ascontiguousarray(body.values).reshape(-1)
    columns["estimate"] = pa.array(values) if body.unit == 1 else decimals(values)
    if body.deviation is not None:
        columns["standard_error"] = pa.array(np.round(body.deviation.reshape(-1), 3))
    for name, numbers in (("low", body.low), ("high", body.high), ("margin", body.margin)):
        flat = np.round(numbers.reshape(-1), 3)
        known = np.isfinite(flat)
        kind = pa.int64() if body.unit == 1 else pa.float64()
        whole = np.where(known, flat, 0)
        columns[name] = pa.array(whole.astype(kind.to_pandas_dtype()), kind, mask=~known)
    texts = pa.array(map(" ".join, FLAGGED), pa.string())
    columns["flags"] = texts.take(body.flag_sums.reshape(-1))
    return pa.table(columns)


def as_csv(answer: Answer, metadata: Metadata) -> bytes:
    """CSV in UTF-8; the last column names the release."""
    table = tidy(answer)
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\r\n")
    lines.writerow([*map(safe, table.column_names), "release"])
    columns = [
        [safe(value) if isinstance(value, str) else value for value in column.to_pylist()]
        for column in table.columns
    ]
    release = [metadata.release] * table.num_rows
    lines.writerows(zip(*columns, release, strict=True))
    return b"\xef\xbb\xbf" + text.getvalue().encode()


def safe(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return FORMULA.sub(r"\1'", text)


def as_xlsx(answer: Answer, metadata: Metadata) -> bytes:
    """A workbook: the figures on one sheet, what to know of them on another.

    Texts are written as texts, which no spreadsheet reads as formulas; nothing is kept on disk.
    """
    table = tidy(answer)
    target = io.BytesIO()
    settings = {
        "in_memory": True,
        "strings_to_formulas": False,
        "strings_to_numbers": False,
        "strings_to_urls": False,
    }
    book = xlsxwriter.Workbook(target, settings)
    bold = book.add_format({"bold": True})
    sheet = book.add_worksheet("Data")
    for place, name in enumerate(table.column_names):
        sheet.write_string(0, place, name, bold)
        for line, value in enumerate(table[name].to_pylist(), start=1):
            if isinstance(value, str):
                sheet.write_string(line, place, value)
            elif value is not None:
                sheet.write_number(line, place, value)
    sheet.freeze_panes(1, 0)
    widths = {a.name: a.codes for a in (*answer.rows.axes, *answer.cols.axes)}
    widths |= {f"{a.name}_label": a.labels for a in (*answer.rows.axes, *answer.cols.axes)}
    for place, name in enumerate(table.column_names):
        longest = max(map(len, (name, *widths.get(name, ()))))
        sheet.set_column(place, place, min(max(longest, 12), 60))
    about = book.add_worksheet("About")
    for line, (name, words) in enumerate(metadata.pairs()):
        about.write_string(line, 0, name, bold)
        about.write_string(line, 1, words)
    about.set_column(0, 0, 18)
    about.set_column(1, 1, 100)
    book.close()
    return target.getvalue()


def as_parquet(answer: Answer, metadata: Metadata) -> bytes:
    """Parquet; what to know of it stands in the metadata of the schema, as JSON."""
    about = {"eree": json.dumps(metadata.as_json(), ensure_ascii=False)}
    table = tidy(answer).replace_schema_metadata(about)
    target = pa.BufferOutputStream()
    parquet.write_table(table, target)
    return target.getvalue().to_pybytes()


def as_jsonstat(answer: Answer, metadata: Metadata) -> bytes:
    """JSON-stat 2.0: a dimension for each variable, and one for the estimate and its error."""
    sides = [*answer.rows.axes, *answer.cols.axes]
    rows, cols, body = answer.rows, answer.cols, answer.body
    measured: dict[str, Any] = {
        "estimate": body.jobs,
        "low": body.low,
        "high": body.high,
        "margin": body.margin,
    }
    if body.deviation is not None:
        measured["standard_error"] = body.deviation
    used = [
        sorted({places[k] for places in side.places})
        for side in (rows, cols)
        for k in range(len(side.axes))
    ]
    size = [*(len(places) for places in used), len(measured)]
    if (cells := prod(size[:-1])) > MOST_CELLS:
        raise TooLarge(
            f"JSON-stat lists every combination, here {cells:,}, more than the {MOST_CELLS:,} of"
            " one answer; take the table as csv, or take off a variable"
        )
    at = [{place: i for i, place in enumerate(places)} for places in used]
    shape = tuple(size)
    values = np.zeros(shape)
    status: dict[str, str] = {}
    absent = np.ones(shape[:-1], dtype=np.bool_)
    for i, row in enumerate(rows.places):
        for j, col in enumerate(cols.places):
            place = tuple(known[p] for known, p in zip(at, (*row, *col), strict=True))
            absent[place] = False
            for k, numbers in enumerate(measured.values()):
                values[(*place, k)] = numbers[i, j]
            words = " ".join(name for name, mask in body.flags.items() if mask[i, j])
            if words:
                status[str(int(np.ravel_multi_index((*place, 0), shape)))] = words
    for place in map(tuple, np.argwhere(absent).tolist()):
        status[str(int(np.ravel_multi_index((*place, 0), shape)))] = "absent"
    flat = [
        None if not np.isfinite(number) else int(number) if body.unit == 1 else round(number, 3)
        for number in values.reshape(-1).tolist()
    ]
    dimension: dict[str, Any] = {
        axis.name: {
            "label": axis.label,
            "category": {
                "index": [axis.codes[place] for place in places],
                "label": {axis.codes[place]: axis.labels[place] for place in places},
            },
        }
        for axis, places in zip(sides, used, strict=True)
    }
    name = "figure"
    while name in dimension:
        name += "_"
    unit = answer.data.measures[answer.query.measure]
    dimension[name] = {
        "label": "Estimate and error",
        "category": {
            "index": list(measured),
            "label": {key: key.replace("_", " ") for key in measured},
            "unit": {
                key: {"label": unit, "decimals": 0 if body.unit == 1 else 3} for key in measured
            },
        },
    }
    found = {
        "version": "2.0",
        "class": "dataset",
        "label": metadata.caption,
        "source": metadata.citation,
        "updated": metadata.made,
        "note": list(metadata.notes),
        "id": list(dimension),
        "size": size,
        "role": {"metric": [name]},
        "dimension": dimension,
        "value": flat,
        "status": status,
        "extension": {"eree": metadata.as_json()},
    }
    return json.dumps(found, ensure_ascii=False).encode()


Export = Callable[[Answer, Metadata], bytes]
#: Endings of addresses, with the kind of file and what makes it.
EXPORTS: Mapping[str, tuple[str, Export]] = MappingProxyType(
    {
        "csv": ("text/csv; charset=utf-8", as_csv),
        "xlsx": ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", as_xlsx),
        "parquet": ("application/vnd.apache.parquet", as_parquet),
        "jsonstat": ("application/json", as_jsonstat),
    }
)
