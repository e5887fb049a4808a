"""How files of LODES are called: by the state of their areas, and by the year."""

from __future__ import annotations

import re
from collections.abc import Sequence

from eree.errors import Refusal
from eree.estimate.above import above
from eree.estimate.lodes_columns import POSTAL
from eree.policy.schema import Value
from eree.release.release import Release

#: The attribute that says which state an area is in, and what stands for one where none does.
STATE, EVERYWHERE = "state", "us"


def state_of(release: Release, geocode: str, areas: Sequence[Value]) -> dict[Value, str]:
    """The state of each area, as files are called; empty where nothing says it of all areas.

    It is the public attribute `state`: what the release says the areas lie in, or what a table has
    beside the geocode.  Nothing is read from the digits of a code.
    """
    if geocode == STATE:
        return {area: _file_word(area) for area in areas}
    known = above(release, [geocode]).get(STATE)
    found = {} if known is None else known.pairs
    own = {area: found.get(area) for area in areas}
    if known is None or None in own.values():
        return _beside(release, geocode, areas)
    return {area: _file_word(state) for area, state in own.items() if state is not None}


def _beside(release: Release, geocode: str, areas: Sequence[Value]) -> dict[Value, str]:
    """The same, of tables that have the state beside the geocode."""
    found: dict[Value, Value] = {}
    for name in release.tables:
        if not {geocode, STATE} <= set(release.about(name)["by"]) or release.of_workplaces(name):
            continue
        rows = release.table(name)
        pairs = rows.group_by([geocode, STATE]).aggregate([])
        for area, state in zip(*(pairs[n].to_pylist() for n in (geocode, STATE)), strict=True):
            if found.setdefault(area, state) != state:
                raise Refusal(
                    f"{geocode} {area} lies in more than one state, and files are by state; choose"
                    " areas that lie in one each, or write one file with --out"
                )
    return {a: _file_word(found[a]) for a in areas} if set(areas) <= set(found) else {}


def _file_word(state: Value) -> str:
    """A state as files name it: by its postal letters where it is a known code."""
    code = f"{state:02}" if isinstance(state, int) else state
    word = POSTAL.get(code, code.lower())
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", word):
        raise Refusal(f"the state {code!r} cannot stand in the name of a file; give it a code")
    return word


def year_of(release: Release, year: int | None) -> int:
    """The year of the files: the given one, or the one that the release's period names."""
    period = str(release.record.get("period", ""))
    named = {int(y) for y in re.findall(r"(?<![0-9])[1-9][0-9]{3}(?![0-9])", period)}
    if year is not None and not (1_000 <= year <= 9_999 and named <= {year}):
        said = f", whose period is {period}" if period else ""
        raise Refusal(f"{year} is not the year of the release{said}")
    if year is None and len(named) != 1:
        raise Refusal(
            "the release does not say in its period which year it is about; say it with --year, and"
            " with period in the next plan"
        )
    return year if year is not None else named.pop()


def day_of(release: Release) -> int | None:
    """The day on which the release was made, as 20270131; None where its record has none."""
    day = re.match(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T", str(release.record.get("made", "")))
    return None if day is None else int("".join(day.groups()))
