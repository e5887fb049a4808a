"""The columns of the LODES files: which jobs each of them counts."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from eree.errors import Refusal, Unreadable
from eree.policy.schema import Value

GEOCODE = "w_geocode"
#: A column is the jobs with these values of these attributes; without any, all jobs.
Columns = Mapping[str, Mapping[str, Sequence[Value]]]

_SECTORS = (
    "11", "21", "22", "23", "31-33", "42", "44-45", "48-49", "51", "52",
    "53", "54", "55", "56", "61", "62", "71", "72", "81", "92",
)  # fmt: skip
_RACES = {1: "white", 2: "black", 3: "native", 4: "asian", 5: "pacific", 7: "two-or-more"}
_AGES = ("14-29", "30-54", "55+")
_EARNINGS = ("1250-or-less", "1251-3333", "more-than-3333")
_EDUCATION = ("no-diploma", "high-school", "some-college", "college")

#: The columns of LODES for the attributes that `eree synth` makes.  There is no CR06.
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
