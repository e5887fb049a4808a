"""Occupations: codes of the Standard Occupational Classification of 2018, and their groups.

A code such as 15-1252 is a detailed occupation (its last digit is not 0).  It lies in a broad group
(15-1250), that in a minor group (15-1200) and that in a major group (15-0000).  Minor groups end in
000 but for three: 15-1200, 31-1100 and 51-5100.  Broad groups replace the last digit by 0, but for
the physicians 29-1221 to 29-1229, who belong to 29-1210.

`soc_2018.csv` has the titles of all major and minor groups, and of a few dozen detailed occupations
with their broad groups.  The classification is a work of the government of the United States.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal, cast

from eree.errors import Refusal

Level = Literal["major", "minor", "broad", "detailed"]
#: From the coarsest.
LEVELS: tuple[Level, ...] = ("major", "minor", "broad", "detailed")

_FORM = re.compile(r"[0-9]{2}-[0-9]{4}")
#: Broad groups by the first digits of what they hold, where those are not the group's own.
_IRREGULAR_BROAD = {"29-122": "29-1210"}


@cache
def titles() -> Mapping[Level, Mapping[str, str]]:
    """Every title that is known, by level and code."""
    found: dict[Level, dict[str, str]] = {level: {} for level in LEVELS}
    with files("eree.survey").joinpath("soc_2018.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found[cast(Level, row["level"])][row["code"]] = row["title"]
    return found


def level_of(code: str) -> Level:
    """The level of a code; refuses what can be no code of SOC 2018.

    Major and minor groups are checked against the classification.  Of broad groups and detailed
    occupations only the groups above them are, so a code that was never given out may pass.
    """
    known = titles()
    if code in known["major"]:
        return "major"
    if code in known["minor"]:
        return "minor"
    if not _well_formed(code):
        raise Refusal(
            f"{code!r} is no code of SOC 2018; codes look like 15-1252, its groups like 15-1250,"
            " 15-1200 and 15-0000"
        )
    return "broad" if code.endswith("0") else "detailed"


def group_of(code: str, level: Level) -> str:
    """The group at a level that a code lies in; at its own level, the code itself."""
    if level not in LEVELS:
        raise Refusal(f"{level!r} is no level of occupations; choose from {', '.join(LEVELS)}")
    own = level_of(code)
    if LEVELS.index(level) > LEVELS.index(own):
        raise Refusal(f"{code} is a {own} group; it has no {level} group above it")
    if level == own:
        return code
    if level == "major":
        return f"{code[:2]}-0000"
    if level == "minor":
        minor = _minor(code)
        assert minor is not None
        return minor
    return _IRREGULAR_BROAD.get(code[:-1], f"{code[:-1]}0")


def title_of(code: str) -> str:
    """The official title of a code, or the code itself where eree does not know it."""
    return next((known[code] for known in titles().values() if code in known), code)


def _minor(code: str) -> str | None:
    """The minor group of a broad group or a detailed occupation, if there is one."""
    return next((m for m in (f"{code[:5]}00", f"{code[:4]}000") if m in titles()["minor"]), None)


def _well_formed(code: str) -> bool:
    """Whether a code can be a broad group or a detailed occupation."""
    if not isinstance(code, str) or not _FORM.fullmatch(code) or _minor(code) is None:
        return False
    if code[5] == "0":  # broad groups begin at ten
        return False
    return not (code.endswith("0") and code[:-1] in _IRREGULAR_BROAD)
