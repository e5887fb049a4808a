"""The columns, segments and job types of LODES, and which jobs each of them is.

The Workplace Area Characteristics files have the columns `C000` (all jobs) and counts of jobs by
age (`CA`), earnings (`CE`), NAICS sector (`CNS`), race (`CR`), ethnicity (`CT`), education (`CD`),
sex (`CS`), and age and size of the firm (`CFA`, `CFS`).  Firms are not in the tables here, so that
`CFA` and `CFS` have no default.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from eree.errors import Refusal, Unreadable
from eree.policy.schema import Value

GEOCODE = "w_geocode"
#: The jobs with these values of these attributes; without any, all jobs.
Kept = Mapping[str, Sequence[Value]]
Columns = Mapping[str, Kept]

_SECTORS = (
    "11", "21", "22", "23", "31-33", "42", "44-45", "48-49", "51", "52",
    "53", "54", "55", "56", "61", "62", "71", "72", "81", "92",
)  # fmt: skip
_RACES = {1: "white", 2: "black", 3: "native", 4: "asian", 5: "pacific", 7: "two-or-more"}
_AGES = ("14-29", "30-54", "55+")
_EARNINGS = ("1250-or-less", "1251-3333", "more-than-3333")
_EDUCATION = ("no-diploma", "high-school", "some-college", "college")

LODES_COLUMNS: Columns = MappingProxyType(
    {
        "C000": {},
        **{f"CA0{i}": {"age": [age]} for i, age in enumerate(_AGES, start=1)},
        **{f"CE0{i}": {"earnings": [paid]} for i, paid in enumerate(_EARNINGS, start=1)},
        **{f"CNS{i:02}": {"sector": [sector]} for i, sector in enumerate(_SECTORS, start=1)},
        **{f"CR0{i}": {"race": [race]} for i, race in _RACES.items()},
        "CT01": {"ethnicity": ["not-hispanic"]},
        "CT02": {"ethnicity": ["hispanic"]},
        **{f"CD0{i}": {"education": [level]} for i, level in enumerate(_EDUCATION, start=1)},
        "CS01": {"sex": ["M"]},
        "CS02": {"sex": ["F"]},
    }
)
"""The columns of LODES for the attributes that `eree synth` makes.  There is no CR06.

Examples:
    >>> eree.LODES_COLUMNS["CA01"]
    {'age': ['14-29']}
"""

#: All columns of the files, in their order; those of firms have to be declared.
OFFICIAL = (
    *LODES_COLUMNS,
    *(f"CFA0{i}" for i in range(1, 6)),
    *(f"CFS0{i}" for i in range(1, 6)),
)
_GOODS = ("11", "21", "23", "31-33")
_TRADE = ("22", "42", "44-45", "48-49")
_SERVICES = tuple(sector for sector in _SECTORS if sector not in (*_GOODS, *_TRADE))

#: The segments of jobs that have files of their own: all, by age, by earnings, by industry.
SEGMENTS: Columns = MappingProxyType(
    {
        "S000": {},
        **{f"SA0{i}": {"age": [age]} for i, age in enumerate(_AGES, start=1)},
        **{f"SE0{i}": {"earnings": [paid]} for i, paid in enumerate(_EARNINGS, start=1)},
        "SI01": {"sector": _GOODS},
        "SI02": {"sector": _TRADE},
        "SI03": {"sector": _SERVICES},
    }
)

#: The job types: all, private and federal jobs, and the primary ones of each.
JOB_TYPES = {"JT00": "JT01", "JT02": "JT03", "JT04": "JT05"}
OWNERS: Columns = MappingProxyType(
    {"JT00": {}, "JT02": {"ownership": ["private"]}, "JT04": {"ownership": ["federal"]}}
)

#: States as files name them, by their FIPS codes.
POSTAL = {
    "01": "al", "02": "ak", "04": "az", "05": "ar", "06": "ca", "08": "co", "09": "ct",
    "10": "de", "11": "dc", "12": "fl", "13": "ga", "15": "hi", "16": "id", "17": "il",
    "18": "in", "19": "ia", "20": "ks", "21": "ky", "22": "la", "23": "me", "24": "md",
    "25": "ma", "26": "mi", "27": "mn", "28": "ms", "29": "mo", "30": "mt", "31": "ne",
    "32": "nv", "33": "nh", "34": "nj", "35": "nm", "36": "ny", "37": "nc", "38": "nd",
    "39": "oh", "40": "ok", "41": "or", "42": "pa", "44": "ri", "45": "sc", "46": "sd",
    "47": "tn", "48": "tx", "49": "ut", "50": "vt", "51": "va", "53": "wa", "54": "wv",
    "55": "wi", "56": "wy", "72": "pr",
}  # fmt: skip


def both(one: Kept, other: Kept) -> Kept | None:
    """The jobs that are among these and among those; None where no job can be."""
    found = {name: list(values) for name, values in one.items()}
    for name, values in other.items():
        found[name] = [v for v in values if name not in one or v in one[name]]
    return found if all(found.values()) else None


def columns_given(columns: Columns | str | os.PathLike[str] | None, otherwise: Columns) -> Columns:
    """Columns as they are, or from the file that has them; without either those `otherwise`."""
    if columns is None:
        return otherwise
    return columns if isinstance(columns, Mapping) else read_columns(columns)


def read_columns(file: str | os.PathLike[str]) -> Columns:
    """Columns from a TOML file with lines such as `CA01 = { age = ["14-29"] }`."""
    try:
        raw = tomllib.loads(Path(file).read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise Unreadable(f"there is no file {file}") from None
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"{file} is not valid TOML: {error}") from None
    except (OSError, ValueError, RecursionError):  # a number of many digits is a ValueError
        raise Unreadable(f"{file} cannot be read as TOML in UTF-8") from None
    for column, kept in raw.items():
        sound = isinstance(kept, dict) and all(
            isinstance(values, list)
            and values
            and all(isinstance(v, (str, int)) and not isinstance(v, bool) for v in values)
            for values in kept.values()
        )
        if not sound or column == GEOCODE:
            raise Refusal(
                f"{column} in {file} is no column: write it as CA01 = {{ age = ['14-29'] }}"
            )
    if not raw:
        raise Refusal(f"{file} names no column; write one as CA01 = {{ age = ['14-29'] }}")
    return raw


def alike(columns: Iterable[str], of: Callable[[str], object]) -> list[list[str]]:
    """Columns of which the same is to be said."""
    found: dict[object, list[str]] = {}
    for column in columns:
        found.setdefault(of(column), []).append(column)
    return list(found.values())


def kind_of(column: str) -> str:
    """What columns are about, such as CA for ages."""
    return column.rstrip("0123456789")


def runs(columns: Iterable[str]) -> str:
    """Columns in short: CA01–CA03 for three in a row, as LODES has them; there is no CR06."""
    found = list[list[str]]()
    for column in columns:
        last = found[-1][-1] if found else ""
        official = last in OFFICIAL and column in OFFICIAL
        follows = not official or OFFICIAL.index(column) == OFFICIAL.index(last) + 1
        if kind_of(last) == kind_of(column) and follows:
            found[-1].append(column)
        else:
            found.append([column])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else run[0] for run in found)
