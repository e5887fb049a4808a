"""The codes of an attribute: the values it may take and their labels, inline or from a CSV file."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

from eree.policy.schema import Classes, Kind, Value
from eree.policy.settings import AttributeSettings, FileFaults

#: Longer ones are no numbers of 64 bits, and Python reads none of thousands of digits.
_WHOLE = re.compile("0|-?[1-9][0-9]{0,99}")

#: Numbers at which ranges begin, and numbers of a CSV file that are sorted into them.
NUMBER = "-?(0|[1-9][0-9]{0,17})([.][0-9]{1,10})?"
_MOST_YEARS = 1_000

#: Integers are kept in 64 bits.
LEAST, GREATEST = -(2**63), 2**63 - 1


class CodeBook:
    """Reads lists of codes that belong to a schema, reporting what is wrong with each."""

    def __init__(self, folder: Path, faults: FileFaults) -> None:
        self.folder = folder
        self.faults = faults

    def values(
        self, raw: list[str | int] | str, declared: Kind | None, place: str
    ) -> tuple[tuple[Value, ...] | None, Kind | None, dict[str, str]]:
        """The values, their type, and the labels that came with them; None if not understood."""
        labels: dict[str, str] = {}
        if isinstance(raw, str):
            rows = self._rows(raw, place)
            if rows is None:
                return None, declared, labels
            labels = {value: label for value, label in rows if label}
            texts = [value for value, _ in rows]
            listed = self._numbers(texts, place) if declared == "integer" else list(texts)
            if listed is None:
                return None, declared, labels
        else:
            listed = list(raw)
        if not listed:
            self.faults.add(place, "must list at least one value")
            return None, declared, labels
        kind = self.kind(listed, declared, place)
        if kind is None:
            return None, None, labels
        if len(set(listed)) < len(listed):
            self.faults.add(place, "lists a value more than once")
        self._well_formed(listed, place)
        return tuple(dict.fromkeys(listed)), kind, labels

    def classes(
        self, settings: AttributeSettings, place: str
    ) -> tuple[tuple[Value, ...] | None, Kind | None, Classes | None]:
        """The values that ranges or years make of numbers or dates, and how; None if not so."""
        asked = [name for name in ("ranges", "years") if getattr(settings, name) is not None]
        if not asked:
            return None, settings.type, None
        others = ("years", "values", "type", "missing")
        twice = [n for n in others if n not in asked[:1] and getattr(settings, n) is not None]
        for name in twice:
            self.faults.add(f"{place}.{name}", f"does not go with {asked[0]}; leave one out")
        if settings.ranges is None:
            first, last = settings.years or (1, 1)
            if not first <= last < first + _MOST_YEARS:
                rule = f"must be in order, and no more than {_MOST_YEARS:,} years"
                self.faults.add(f"{place}.years", rule)
                return None, "integer", None
            years = tuple(range(first, last + 1))
            begins = tuple(date(year, 1, 1) for year in years)
            return years, "integer", Classes(years, begins, by_year=True)
        found = [_bound(low) for low in settings.ranges.values()]
        numbers = tuple(low for low in found if isinstance(low, Decimal))
        dates = tuple(low for low in found if isinstance(low, date))
        if not found or len(found) not in (len(numbers), len(dates)):
            rule = "must all begin at numbers, with 10 decimals at most, or all at dates"
        elif any(a >= b for a, b in pairwise(numbers)) or any(a >= b for a, b in pairwise(dates)):
            rule = "must be in order, the least first"
        else:
            names = tuple(settings.ranges)
            return names, "string", Classes(names, numbers or dates)
        self.faults.add(f"{place}.ranges", rule)
        return None, "string", None

    def kind(self, values: Iterable[Value], declared: Kind | None, place: str) -> Kind | None:
        """The one type of some values; None if they have several or not the declared one."""
        values = list(values)
        kinds: set[Kind] = {"integer" if isinstance(v, int) else "string" for v in values}
        if len(kinds) > 1:
            self.faults.add(place, "must be all texts or all integers, not both")
            return None
        if any(isinstance(v, int) and not LEAST <= v <= GREATEST for v in values):
            self.faults.add(place, "holds an integer of more than 64 bits")
            return None
        found = next(iter(kinds), declared)
        if declared and found != declared:
            written = "texts" if found == "string" else "integers"
            self.faults.add(place, f'are {written}, but the type is declared as "{declared}"')
            return None
        return found

    def members(
        self, raw: Mapping[str, list[str | int]] | str, declared: Kind | None, place: str
    ) -> dict[str, list[Value]]:
        """The values of every group, inline or from a CSV file; nothing if not understood."""
        if not isinstance(raw, str):
            return {group: list(held) for group, held in raw.items()}
        rows = self._columns(
            raw, (["value", "group"], ["group", "value"]), "value and group", place
        )
        if rows is None:
            return {}
        values: list[Value] | None = [row["value"] for row in rows]
        if declared == "integer":
            values = self._numbers((row["value"] for row in rows), place)
        found: dict[str, list[Value]] = {}
        for value, row in zip(values or [], rows, strict=False):
            found.setdefault(row["group"], []).append(value)
        if not rows:
            self.faults.add(place, f"the file {raw} lists no value")
        return found

    def labels(self, raw: Mapping[str, str] | str, place: str) -> dict[str, str]:
        """The labels of codes."""
        if not isinstance(raw, str):
            return dict(raw)
        rows = self._rows(raw, place) or []
        if len({value for value, _ in rows}) < len(rows):
            self.faults.add(place, f"the file {raw} lists a value more than once")
        return {value: label for value, label in rows if label}

    def match(self, labels: Iterable[str], values: Iterable[Value], place: str) -> None:
        """Labels belong to values that are declared."""
        if set(labels) - {str(value) for value in values}:
            self.faults.add(place, "labels a value that is not declared")

    def _well_formed(self, values: Iterable[Value], place: str) -> None:
        texts = [value for value in values if isinstance(value, str)]
        if "" in texts:
            self.faults.add(place, "an empty text cannot be a value")
        if any("\0" in text for text in texts):
            self.faults.add(place, "a value cannot hold a NUL character")

    def _numbers(self, texts: Iterable[str], place: str) -> list[Value] | None:
        numbers: list[Value] = []
        for text in texts:
            if not _WHOLE.fullmatch(text):
                self.faults.add(place, "must be plainly written integers, as the type says")
                return None
            numbers.append(int(text))
        return numbers

    def _rows(self, file: str, place: str) -> list[tuple[str, str]] | None:
        """The values and labels of a CSV file; None, and a fault, if it cannot be used."""
        headers = (["value"], ["value", "label"], ["label", "value"])
        rows = self._columns(file, headers, "value and, if wanted, label", place)
        return None if rows is None else [(row["value"], row.get("label", "")) for row in rows]

    def _columns(
        self, file: str, headers: tuple[list[str], ...], wanted: str, place: str
    ) -> list[dict[str, str]] | None:
        """The rows of a CSV file with one of some headers."""
        try:
            with (self.folder / file).open(encoding="utf-8-sig", newline="") as handle:
                header, *rows = [row for row in csv.reader(handle, strict=True) if row] or [[]]
        except FileNotFoundError:
            self.faults.add(place, f"the file {file} does not exist")
            return None
        except (OSError, UnicodeDecodeError, csv.Error):
            self.faults.add(place, f"the file {file} cannot be read as CSV in UTF-8")
            return None
        if header not in headers:
            self.faults.add(place, f"the file {file} must have the columns {wanted}")
            return None
        if any(len(row) != len(header) for row in rows):
            self.faults.add(place, f"the file {file} has rows of another length than its header")
            return None
        return [dict(zip(header, row, strict=True)) for row in rows]


def _bound(low: str | int | date) -> Decimal | date | None:
    """The number, or the date, at which a range begins."""
    if isinstance(low, date):
        return low
    if re.fullmatch(NUMBER, str(low)):
        return Decimal(low)
    try:
        return date.fromisoformat(str(low)) if re.fullmatch("[0-9-]{10}", str(low)) else None
    except ValueError:
        return None
