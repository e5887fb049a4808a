"""Damage per job against a threshold: which areas are above it, or below, with all their interval.

A disaster may be declared where the damage is more than so much for each job.  The jobs of an area
are known within an interval only; all comparisons are exact.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from re import fullmatch
from typing import Any

import numpy as np
import pyarrow as pa

from eree.errors import Refusal, Unreadable, how_many, integer
from eree.estimate.listing import Listing, checked_level
from eree.estimate.totals import Areas
from eree.policy.neighbours import plain
from eree.policy.schema import Value
from eree.release.release import Release, opening

DAMAGE = "damage"

Amount = str | int | Decimal
Key = Value | tuple[Value, ...]


@dataclass(frozen=True, repr=False)
class Decisions(Listing):
    """Areas with their damage, in the order in which the damages were given.

    Columns: the attributes, `damage` as an exact text, the rest as in `AreaTotals`, `per_job`
    (damage for each job of the noisy sum, null where that is not above zero; a point without an
    interval), and `decision`: `above`, `below` or `undecided`.  All decisions hold together at the
    level, by calibrated intervals.

    Attributes:
        threshold: The damage for each job that decides.

    Examples:
        >>> found = eree.threshold("out", "jobs", ["county"], {"17001": "1000000"}, per_job=100)
        >>> found.threshold
        Fraction(100, 1)
    """

    threshold: Fraction

    def as_json(self, top: int | None = None) -> dict[str, Any]:
        """Plain data."""
        return super().as_json(top) | {"threshold": plain(self.threshold)}


@opening
def threshold(
    release: Release,
    table: str,
    by: Iterable[str],
    damage: Mapping[Key, Amount] | str | os.PathLike[str],
    per_job: Amount,
    level: float | str | Fraction = 0.9,
) -> Decisions:
    """Compare the damage of areas with a threshold for each of their jobs.

    `damage` gives areas their amounts: a mapping from the value of the attribute in `by`, or the
    values in their order, or a CSV file with these attributes and `damage` as columns.  Amounts are
    exact: texts such as "1250000.50", or integers.  Areas without one are left out.

    With N jobs, damage D and the threshold t an area is above if D > t N.  That is so for all of
    the interval if D > t high, and the contrary if D < t low; where high is not known nothing is
    above.

    Args:
        release: A release, or the name of its folder.
        table: The name of one of its tables.
        by: What makes the areas: attributes of the table, or coarser ones that these lie in.
        damage: Amounts by area, or a CSV file of them.
        per_job: The threshold.
        level: The confidence of the intervals.

    Examples:
        >>> eree.threshold("out", "jobs", ["county"], {"17001": "1000000"}, per_job=100)
        <Decisions of jobs by county, from release ...: 1 row>
    """
    least = _amount(per_job, "the threshold per job")
    if least == 0:
        raise Refusal("the threshold per job must be above 0, such as '3.50'")
    areas = Areas.read(release, table, by)
    names = areas.wanted.by
    if not names:
        raise Refusal("name the attributes of the areas that have damage, such as 'county'")
    integer = {name for name in names if pa.types.is_integer(areas.keys.schema.field(name).type)}
    amounts = (
        _from_mapping(damage, names)
        if isinstance(damage, Mapping)
        else _from_file(Path(damage), names, integer)
    )
    known = {
        key: i
        for i, key in enumerate(zip(*(areas.keys[name].to_pylist() for name in names), strict=True))
    }
    for key in amounts:
        if key not in known:
            raise Refusal(
                f"table {table} has no area {', '.join(map(str, key))}; leave it out, it has no"
                " workplace"
            )
    chosen = areas.only(np.array([known[key] for key in amounts], dtype=np.intp))
    totals = chosen.totals(checked_level(level), simultaneous=True)
    rows = totals.rows.to_pylist()
    decisions = [
        decide(amount, least, row["low"], row["high"])
        for amount, row in zip(amounts.values(), rows, strict=True)
    ]
    each = [
        float(amount / row["noisy"]) if row["noisy"] > 0 else None
        for amount, row in zip(amounts.values(), rows, strict=True)
    ]
    found = totals.rows.add_column(
        len(names), DAMAGE, pa.array([plain(amount) for amount in amounts.values()])
    )
    found = found.append_column("per_job", pa.array(each, pa.float64()))
    found = found.append_column("decision", pa.array(decisions))
    return Decisions(release, table, names, totals.where, totals.level, found, least)


def decide(damage: Fraction, per_job: Fraction, low: int, high: int | None) -> str:
    """Whether the damage for each of low to high jobs is above a threshold, or below, for all."""
    if high is not None and damage > per_job * high:
        return "above"
    return "below" if damage < per_job * low else "undecided"


def _from_mapping(
    damage: Mapping[Key, Amount], names: tuple[str, ...]
) -> dict[tuple[Value, ...], Fraction]:
    """Amounts by the values of the attributes."""
    found = {}
    for key, amount in damage.items():
        values = key if isinstance(key, tuple) else (key,)
        if len(values) != len(names):
            raise Refusal(f"each damage needs a value of {' and of '.join(names)}")
        found[values] = _amount(amount, f"the damage of {', '.join(map(str, values))}")
    if not found:
        raise Refusal("no area has damage; give at least one its amount")
    return found


def _from_file(
    path: Path, names: tuple[str, ...], integer: set[str]
) -> dict[tuple[Value, ...], Fraction]:
    """Amounts from the columns of a CSV file."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = list(csv.reader(file, strict=True))
    except FileNotFoundError:
        raise Unreadable(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError, csv.Error):
        raise Unreadable(f"{path} cannot be read as CSV in UTF-8") from None
    header = [name.strip() for name in lines[0]] if lines else []
    wanted = (*names, DAMAGE)
    if sorted(header) != sorted(wanted):
        raise Refusal(f"{path} must have the columns {', '.join(wanted)}, and no others")
    found: dict[tuple[Value, ...], Fraction] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not any(line):
            continue
        if len(line) != len(header):
            raise Refusal(
                f"line {number} of {path} has {how_many(len(line), 'column')}, not {len(header)}"
            )
        row = {name: text.strip() for name, text in zip(header, line, strict=True)}
        try:
            key = tuple(int(row[name]) if name in integer else row[name] for name in names)
        except ValueError:
            raise Refusal(f"line {number} of {path} has a text where codes are numbers") from None
        if key in found:
            raise Refusal(f"line {number} of {path} gives an area a second damage; give it one")
        found[key] = _amount(row[DAMAGE], f"line {number} of {path}")
    if not found:
        raise Refusal(f"{path} has no line below its header; give areas their damage")
    return found


def _amount(value: Amount, what: str) -> Fraction:
    """An amount of money without rounding: 0 or more."""
    words = f"{what} must be an exact number of 0 or more, such as '1250000.50'"
    text = f"{value:f}" if isinstance(value, Decimal) else value
    text = text.strip() if isinstance(text, str) else str(integer(text, words))
    if not fullmatch(r"[0-9]{1,18}(\.[0-9]{0,6})?", text):
        raise Refusal(words)
    return Fraction(text)
