"""The settings that `plan.toml` may hold, one model for each kind of table in it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, StrictInt, StrictStr

from eree.errors import Faulty
from eree.policy.settings import FileFaults, FileName, Settings, Text
from eree.workload import POOLED_FROM

#: A plan's file when it was not read from one.
PLAN_FILE = "plan.toml"
#: What a table may be called, because it becomes a file's name.
TABLE_NAME = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
#: The highest level of an interval: above it doubles are too coarse for the probability to miss.
MOST_LEVEL = Fraction(999_999_999, 10**9)


def _plain(value: Any) -> Any:
    """A decimal, or an integer of NumPy, as TOML would have it."""
    if isinstance(value, Decimal):
        return str(value)
    return int(value) if isinstance(value, np.integer) else value


Exactly = Annotated[
    Annotated[StrictStr, Field(min_length=1)] | StrictInt,
    BeforeValidator(_plain),
    Field(description="must be a number in quotes, such as '0.5' or '1/3', or an integer"),
]


def _printable(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError
    return text


_Words = Annotated[StrictStr, AfterValidator(_printable)]
_RULE = "must be a text in quotes, on one line, of at most {} printable characters"
Title = Annotated[_Words, Field(max_length=200, description=_RULE.format(200))]
Words = Annotated[_Words, Field(max_length=4_000, description=_RULE.format("4,000"))]


class About(Settings):
    """What a release is about, in its publisher's words; nothing is promised by them."""

    title: Title = ""
    source: Words = ""
    publisher: Words = ""
    contact: Words = ""
    licence: Words = ""
    note: Words = ""

    @classmethod
    def of(cls, given: Mapping[str, Any], file: str = "about") -> About:
        """What settings say; raises `Faulty` with every fault of them."""
        faults = FileFaults(file)
        found = faults.read(cls, given, "")
        if faults.found:
            raise Faulty(faults.found)
        return found

    def as_json(self) -> dict[str, str]:
        """What was said, by name; nothing where it was left out."""
        return {name: str(text) for name, text in self if text}


class PrivacySettings(Settings):
    """What is protected, and how much may be spent."""

    required = ("neighbours", "epsilon")
    neighbours: Annotated[
        StrictStr, Field(min_length=1, description="must be 'strong', 'weak', 'edge' or 'node'")
    ] = ""
    alpha: Exactly = ""
    types: Annotated[
        list[StrictStr], Field(description="must be a list of worker attributes, such as ['sex']")
    ] = []
    epsilon: Exactly = ""
    delta: Exactly = "0"


class TargetSettings(Settings):
    """An accuracy instead of a price: so many cells of so many jobs within such a share."""

    required = ("cells", "jobs", "within")
    cells: Exactly = ""
    jobs: Annotated[
        StrictInt, Field(ge=1, le=10**12, description="must be an integer of jobs, 1 or more")
    ] = 0
    within: Exactly = ""


class TableSettings(Settings):
    """One table of the plan."""

    required = ("name", "by")
    name: Annotated[
        StrictStr,
        Field(
            pattern=TABLE_NAME,
            description="must be a name of letters, digits, '-', '_' and '.', because it becomes"
            " a file's",
        ),
    ] = ""
    title: Title = ""
    note: Words = ""
    by: Annotated[
        list[StrictStr], Field(description="must be a list of attributes, such as ['place']")
    ] = []
    marginals: Annotated[
        list[StrictStr | list[StrictStr]],
        Field(
            description="must be a list of worker attributes, such as ['age', ['sex', 'race']]: the"
            " marginals that are drawn at once"
        ),
    ] = []
    where: Annotated[
        dict[StrictStr, Any],
        Field(description="must give attributes their values, such as { sex = ['F'] }"),
    ] = {}
    count: Annotated[
        Literal["jobs", "workplaces"], Field(description="must be 'jobs' or 'workplaces'")
    ] = "jobs"
    sizes: Annotated[
        list[StrictInt], Field(description="must be a list of integers, such as [1, 10, 100]")
    ] = []
    pooled_from: Annotated[
        StrictInt, Field(ge=0, description="must be an integer of workers, 0 or more")
    ] = POOLED_FROM
    epsilon: Exactly = ""
    share: Exactly = ""
    target: Annotated[
        dict[StrictStr, Any] | None,
        Field(description="must be a table such as { cells = '0.9', jobs = 100, within = '0.05' }"),
    ] = None
    delta: Exactly = ""
    mechanism: Text = "auto"
    parameters: Annotated[
        dict[StrictStr, StrictInt | StrictStr],
        Field(
            description="must be a table of the mechanism's own settings, such as { theta = 50 }"
        ),
    ] = {}


class PlanSettings(Settings):
    """The whole file."""

    required = ("data", "privacy", "table")
    data: FileName = ""
    level: Exactly = "0.9"
    period: Annotated[
        _Words,
        Field(max_length=1_000, description="must be a text in quotes, such as '2026-Q1'"),
    ] = ""
    about: Annotated[dict[StrictStr, Any], Field(description="must be a table: [about]")] = {}
    privacy: Annotated[dict[StrictStr, Any], Field(description="must be a table: [privacy]")] = {}
    table: Annotated[
        list[Any], Field(description="must be a list of tables, each begun by [[table]]")
    ] = []
