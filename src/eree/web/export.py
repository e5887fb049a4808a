"""Answers as files (CSV, XLSX, Parquet, JSON-stat), and what a reader must know of every answer.

A row for each cell of the table, without totals: they are sums of the rows.  Texts in CSV that a
spreadsheet would take for formulas get an apostrophe in front; numbers are never touched.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from math import isfinite, prod
from typing import Any
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from eree.policy.plain_data import guarantee_as_json, sha256
from eree.survey.estimates import decimals
from eree.survey.query import Axis
from eree.web.answer import MOST_CELLS, Answer, TooLarge
from eree.web.block import ABSENT, FLAGGED, FLAGS, TAKEN, digits, labelled
from eree.web.dataset import DataSet
from eree.web.figures import JOBS, Reals, combined
from eree.web.notes import notes
from eree.web.query import Query
from eree.web.reply import PARQUET, XLSX
from eree.web.shares import UNIT, measured
from eree.web.standards import csvw, interval_of, sdmx_csv
from eree.web.words import Joined, say
from eree.web.workbook import workbook

#: A year or a part of one, and what variables are called whose codes are such.
_TIME = re.compile(r"(1[89]|2[01])\d\d(-?(Q[1-4]|0[1-9]|1[0-2]))?")
_CALLED_TIME = re.compile(r"(\b|_)(year|quarter|month|period|time|date)", re.IGNORECASE)

#: Letters of an address in which the codes of a list are named one by one, and of a file's name.
MOST_ADDRESS, MOST_LETTERS = 7_900, 120
#: What a spreadsheet takes for the beginning of a formula, in a cell or, in a country where
#: something else than a comma divides cells, within a text.
FORMULA = re.compile(r"""^(?=[\t\r\n])|(^|[;|\t\r\n])(?=[ '"]*[=+\-@＝＋－＠])""")


@dataclass(frozen=True)
class Metadata:
    """All that goes with the figures of an answer into every download."""

    caption: str
    data_set: str
    title: str
    release: str
    made: str
    period: str
    about: Mapping[str, str]
    note: str
    promise: str
    guarantee: dict[str, Any]
    measure: str
    universe: str
    filters: tuple[str, ...]
    confidence: str
    notes: tuple[str, ...]
    address: str
    citation: str
    lists: Mapping[str, list[str]]  # codes that a list stands for, by variable

    def pairs(self) -> list[tuple[str, str]]:
        """Names and texts, for a sheet."""
        return [
            ("Table", self.caption),
            ("Data set", f"{self.title} ({self.data_set})"),
            ("Release", f"{self.release}, made {self.made}"),
            *([("Period", self.period)] if self.period else []),
            *((name.capitalize(), text) for name, text in self.about.items()),
            *([("Note", self.note)] if self.note else []),
            ("Guarantee", self.promise),
            ("Measure", self.measure),
            ("Universe", self.universe),
            ("Filters", "; ".join(self.filters) or "none"),
            ("Confidence", self.confidence),
            *(("Note", note) for note in self.notes),
            ("Address", self.address),
            ("Cite as", self.citation),
            *(
                (f"List of {name}", " ".join(codes[start : start + 1_000]))
                for name, codes in self.lists.items()
                for start in range(0, len(codes), 1_000)
            ),
        ]

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        found = {name: value for name, value in vars(self).items() if name != "promise"}
        return found if self.lists else {n: v for n, v in found.items() if n != "lists"}


def metadata(data: DataSet, query: Query, apart: tuple[DataSet, ...], home: str) -> Metadata:
    """The metadata of an answer; `home` is the public address of the query tool."""
    filters: tuple[str, ...] = tuple(
        Joined(": ", (variable.label, Joined(", ", map(variable.describe, codes))))
        for variable, codes in ((data.variable(n), codes) for n, codes in query.where.items())
    )
    measure = measured(data.measures[query.measure], query.share)
    labels = [data.variable(name).side_label(query.groups.get(name)) for name in query.by]
    caption: str = say("%(measure)s in all", measure=measure)
    if labels:
        caption = say("%(measure)s by %(by)s", measure=measure, by=Joined(" × ", labels))
    if filters:
        kept = "; ".join(t if len(t) <= 80 else t[:77].rstrip() + "…" for t in filters)
        caption = Joined("", (caption, f" ({kept})"))
    address = f"{home}/d/{data.name}?{query.address()}"
    lists: dict[str, list[str]] = {}
    if data.keeps_lists(query.where):  # what is cited is what stays
        where = {n: tuple(data.variable(n).spelled_out(c)) for n, c in query.where.items()}
        whole = f"{home}/d/{data.name}?{replace(query, where=where).address()}"
        address = whole if len(whole) <= MOST_ADDRESS else address
        lists = {n: list(codes) for n, codes in where.items() if codes != query.where[n]}
    return Metadata(
        caption,
        data.name,
        data.title,
        data.release.identity,
        data.made,
        data.release.period,
        dict(data.release.described),
        data.note,
        data.promise,
        guarantee_as_json(data.guarantee),
        measure,
        data.universe,
        filters,
        query.confidence,
        notes(data, query, apart),
        address,
        data.citation(address),
        lists,
    )


def file_name(data: DataSet, query: Query, ending: str, *own: str) -> str:
    """The name of a file that says what is in it: data set, variables, what is kept, period.

    What belongs to one page alone stands in `own`.
    """
    by = (f"{name}-{query.groups[name]}" if name in query.groups else name for name in query.by)
    parts = [data.name, "by" if query.by else "total", *by]
    parts += [query.measure] if query.measure != JOBS else []
    parts += [f"percent-of-{query.share}"] if query.share else []
    for name, codes in query.where.items():
        several = f"{len(codes)}-codes-{sha256(list(codes))[:8]}"
        parts += [name, *(codes if len(codes) <= 3 else (several,))]
    if query.confidence != Query.confidence:
        own = (f"at-{float(query.confidence):.0%}", *own)
    last = plain_name("-".join([*own, data.release.period]), MOST_LETTERS // 2)
    name, room = plain_name("-".join(parts), MOST_ADDRESS), MOST_LETTERS - len(last) - 1
    odd = any(plain_name(c) != c.lstrip("~") for codes in query.where.values() for c in codes)
    if odd or len(name) > room:  # others are written like it, or begin like it
        name = f"{plain_name(name, room - 9)}-{sha256(parts)[:8]}"
    return f"{'-'.join(filter(None, (name, last)))}.{ending}"


def plain_name(text: str, most: int = MOST_LETTERS) -> str:
    """A text as the name of a file that every system takes."""
    latin = normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9.]+", "-", latin)[:most].strip("-.")


def tidy(answer: Answer) -> pa.Table:
    """A row for every cell: codes, labels, estimate, error, flags."""
    body = answer.body
    columns: dict[str, Any] = {}
    axes = _axes(answer)
    for (axis, places), label in zip(axes, labelled([axis for axis, _ in axes]), strict=True):
        name = f"{axis.name}_" if axis.name in TAKEN else axis.name
        columns[name] = pa.array(axis.codes, pa.string()).take(places)
        columns[label] = pa.array(axis.labels, pa.string()).take(places)
    values = np.ascontiguousarray(body.values).reshape(-1)
    if body.unit == UNIT:
        columns["estimate"] = pa.array(body.jobs.reshape(-1), from_pandas=True)
    else:
        columns["estimate"] = pa.array(values) if body.unit == 1 else decimals(values)
    if body.deviation is not None:
        columns["standard_error"] = pa.array(np.round(body.deviation.reshape(-1), 3))
    shown = {"low": body.low, "high": body.high, "margin": body.margin, **guaranteed(answer)}
    for name, numbers in shown.items():
        flat = np.round(numbers.reshape(-1), body.digits)
        known = np.isfinite(flat)
        kind = pa.int64() if body.unit == 1 else pa.float64()
        whole = np.where(known, flat, 0)
        columns[name] = pa.array(whole.astype(kind.to_pandas_dtype()), kind, mask=~known)
    texts = pa.array(map(" ".join, FLAGGED), pa.string())
    columns["flags"] = texts.take(body.flag_sums.reshape(-1))
    return pa.table(columns)


def guaranteed(answer: Answer) -> dict[str, Reals]:
    """Ends of intervals that hold whatever the data are, where others are shown."""
    data, query = answer.data, answer.query
    if data.intervals != "calibrated" or query.measure != JOBS or query.share:
        return {}
    figures = data.figures(replace(query.asked(), guaranteed=True))
    axes = _axes(answer)
    keys = combined(
        [axis for axis, _ in axes], [places for _, places in axes], answer.body.values.size
    )
    at = np.minimum(np.searchsorted(figures.keys, keys), len(figures) - 1)
    there = figures.keys[at] == keys  # where no workplace is there are no jobs, exactly
    ends = {"guaranteed_low": figures.low, "guaranteed_high": figures.high}
    return {name: np.where(there, end[at], 0.0) for name, end in ends.items()}


def _axes(answer: Answer) -> list[tuple[Axis, NDArray[np.intp]]]:
    """Each axis of an answer, with the place on it of every cell, row by row."""
    rows, cols = (side.grid.astype(np.intp) for side in (answer.rows, answer.cols))
    places = [*np.repeat(rows, len(cols), axis=0).T, *np.tile(cols, (len(rows), 1)).T]
    return list(zip((*answer.rows.axes, *answer.cols.axes), places, strict=True))


def as_csv(answer: Answer, metadata: Metadata) -> bytes:
    """CSV in UTF-8; the last column names the release."""
    return csv_of(tidy(answer), metadata.release)


def csv_of(table: pa.Table, release: str) -> bytes:
    """Rows as CSV in UTF-8; the last column names the release."""
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\r\n")
    lines.writerow([*map(safe, table.column_names), "release"])
    columns = [
        [safe(value) if isinstance(value, str) else value for value in column.to_pylist()]
        for column in table.columns
    ]
    lines.writerows(zip(*columns, [release] * table.num_rows, strict=True))
    return b"\xef\xbb\xbf" + text.getvalue().encode()


def safe(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return FORMULA.sub(r"\1'", text)


def as_xlsx(answer: Answer, metadata: Metadata) -> bytes:
    """A workbook: the figures on one sheet, what to know of them on another."""
    return workbook(tidy(answer), metadata.pairs())


def as_parquet(answer: Answer, metadata: Metadata) -> bytes:
    """Parquet; what to know of it stands in the metadata of the schema, as JSON."""
    about = {"eree": json.dumps(metadata.as_json(), ensure_ascii=False)}
    table = tidy(answer).replace_schema_metadata(about)
    target = pa.BufferOutputStream()
    parquet.write_table(table, target)
    return target.getvalue().to_pybytes()


def as_jsonstat(answer: Answer, metadata: Metadata) -> bytes:
    """JSON-stat 2.0: a dimension for each variable, and one for the estimate and its error."""
    axes, body = _axes(answer), answer.body
    measured: dict[str, Any] = {"estimate": body.jobs}
    measured |= {name: getattr(body, name) for name in ("low", "high", "margin")}
    if body.deviation is not None:
        measured["standard_error"] = body.deviation
    found = [np.unique(places, return_inverse=True) for _, places in axes]
    shape = [len(used) for used, _ in found]
    if (cells := prod(shape)) > MOST_CELLS:
        raise TooLarge(
            say(
                "JSON-stat lists every combination, here %(cells)s, more than the %(most)s of one"
                " answer; take the table as csv, or take off a variable",
                cells=f"{cells:,}",
                most=f"{MOST_CELLS:,}",
            )
        )
    at = np.zeros(body.values.size, dtype=np.intp)
    for used, place in found:
        at = at * len(used) + place
    values = np.zeros((cells, len(measured)))
    values[at] = np.stack([numbers.reshape(-1) for numbers in measured.values()], axis=1)
    flags = np.full(cells, 1 << FLAGS.index(ABSENT))
    flags[at] = body.flag_sums.reshape(-1)
    status = {
        str(number * len(measured)): " ".join(FLAGGED[flag])
        for number, flag in enumerate(flags.tolist())
        if flag
    }
    whole, kept = body.unit == 1, body.digits
    flat = [
        None if not isfinite(number) else int(number) if whole else round(number, kept)
        for number in values.reshape(-1).tolist()
    ]
    dimension: dict[str, Any] = {
        axis.name: {
            "label": axis.label,
            "category": {
                "index": [axis.codes[place] for place in used],
                "label": {axis.codes[place]: axis.labels[place] for place in used},
            },
        }
        for (axis, _), (used, _) in zip(axes, found, strict=True)
    }
    time, period = [axis.name for axis, _ in axes if _is_time(axis)], answer.data.release.period
    if interval_of(period) and not time:  # all figures are of one
        time, one = [_free("time", dimension)], {"index": [period], "label": {period: period}}
        dimension[time[0]] = {"label": "Period", "category": one}
        shape.append(1)
    name, unit = _free("figure", dimension), metadata.measure
    dimension[name] = {
        "label": "Estimate and error",
        "category": {
            "index": list(measured),
            "label": {key: key.replace("_", " ") for key in measured},
            "unit": {key: {"label": unit, "decimals": digits(body.unit)} for key in measured},
        },
    }
    geo = [axis.name for axis, _ in axes if axis.name in answer.data.areas]
    made = {
        "version": "2.0",
        "class": "dataset",
        "label": metadata.caption,
        "source": metadata.citation,
        "updated": metadata.made,
        "note": list(metadata.notes),
        "id": list(dimension),
        "size": [*shape, len(measured)],
        "role": {"metric": [name]} | {k: v for k, v in (("geo", geo), ("time", time)) if v},
        "dimension": dimension,
        "value": flat,
        "status": status,
        "extension": {"eree": metadata.as_json()},
    }
    return json.dumps(made, ensure_ascii=False).encode()


def _free(name: str, taken: Collection[str]) -> str:
    return name if name not in taken else _free(f"{name}_", taken)


def _is_time(axis: Axis) -> bool:
    """Whether a variable is called a time, and its codes are years or parts of years."""
    called = _CALLED_TIME.search(f"{axis.name} {axis.label}")
    return called is not None and all(map(_TIME.fullmatch, axis.codes))


def profile_file(data: DataSet, file: str) -> tuple[str, bytes] | None:
    """Numbers of workplaces by size as they were released, as NAME.csv or NAME.json."""
    name, _, ending = file.rpartition(".")
    rows, release = data.profiles.get(name), data.release.identity
    if rows is None or ending not in ("csv", "json"):
        return None
    if ending == "csv":
        return EXPORTS["csv"][0], csv_of(rows, release)
    about = {"release": release, "made": data.made, "table": name, "rows": rows.to_pylist()}
    return "application/json", json.dumps(about, ensure_ascii=False).encode()


def as_sdmx(answer: Answer, metadata: Metadata) -> bytes:
    """SDMX-CSV."""
    agency = metadata.about.get("publisher") or "EREE"
    about = {"agency": agency, "data_set": metadata.data_set, "period": metadata.period}
    return sdmx_csv(tidy(answer), _columns_of(answer), about, metadata.measure)


def as_csvw(answer: Answer, metadata: Metadata) -> bytes:
    """What CSV on the Web says of the CSV file, whose address the metadata have."""
    about = {
        "url": metadata.address,
        "title": metadata.caption,
        "description": " ".join(metadata.notes),
        "publisher": metadata.about.get("publisher", ""),
        "licence": metadata.about.get("licence", ""),
        "period": metadata.period,
        "made": metadata.made,
    }
    return csvw(tidy(answer), _columns_of(answer), about)


def _columns_of(answer: Answer) -> list[str]:
    """The columns of codes of a file."""
    names = (axis.name for axis in (*answer.rows.axes, *answer.cols.axes))
    return [f"{name}_" if name in TAKEN else name for name in names]


Export = Callable[[Answer, Metadata], bytes]
#: Endings of addresses, with the kind of file and what makes it.
EXPORTS: Mapping[str, tuple[str, Export]] = {
    "csv": ("text/csv; charset=utf-8", as_csv),
    "xlsx": (XLSX, as_xlsx),
    "parquet": (PARQUET, as_parquet),
    "jsonstat": ("application/json", as_jsonstat),
    "sdmx": ("application/vnd.sdmx.data+csv;version=2.0.0", as_sdmx),
    "csvm": ("application/csvm+json", as_csvw),
}
