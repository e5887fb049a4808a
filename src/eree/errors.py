"""What eree says when it will not go on.

Every refusal is one sentence in the domain's words that says what would work instead.  It names
tables, columns and rules, never a value from a confidential row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from operator import index
from typing import SupportsIndex, cast


@dataclass(frozen=True, order=True)
class Fault:
    """One rule that a schema or a table breaks.

    Attributes:
        table: The table.
        file: Its file.
        column: The column, if it is one.
        rule: The rule, in words.
        rows: How many rows break it, if they were counted.

    Examples:
        >>> print(eree.Fault("worker", "worker.csv", "sex", "the value is missing", 3))
        worker (worker.csv), sex: the value is missing [3 rows]
    """

    table: str
    file: str
    column: str
    rule: str
    rows: int | None = None

    def __str__(self) -> str:
        where = f"{self.table} ({self.file})" if self.file != self.table else self.file
        column = f", {self.column}" if self.column else ""
        rows = "" if self.rows is None else f" [{how_many(self.rows, 'row')}]"
        return f"{where}{column}: {self.rule}{rows}"


def how_many(number: int, thing: str) -> str:
    """A number of things, in words for one as well as for several."""
    return f"{number:,} {thing}{'s' * (number != 1)}"


class Refusal(Exception):
    """eree refuses, and says in one sentence why and what would work.

    Examples:
        >>> eree.mechanism("capped", epsilon=1)
        Traceback (most recent call last):
        eree.errors.Refusal: there is no mechanism named 'capped'; ...
    """


def expect(given: object, kind: type | tuple[type, ...], what: str) -> None:
    """Refuse what is of another kind than a function takes, and say what that is."""
    if not isinstance(given, kind):
        raise Refusal(f"give {what}, not what Python calls {type(given).__name__}")


class Unreadable(Refusal):
    """Something needed before any check can start cannot be read at all.

    Examples:
        >>> eree.load("nowhere")
        Traceback (most recent call last):
        eree.errors.Unreadable: nowhere is not a folder; ...
    """


class Faulty(Refusal):
    """Tables, their schema or a plan break rules.

    Args:
        faults: Every fault that was found; kept as `faults`.
        lists: The command that lists all of them.

    Examples:
        >>> raise eree.Faulty([eree.Fault("worker", "worker.csv", "sex", "it is missing", 3)])
        Traceback (most recent call last):
        eree.errors.Faulty: worker (worker.csv), sex: it is missing [3 rows]
    """

    def __init__(self, faults: Iterable[Fault], *, lists: str = "eree check") -> None:
        self.faults = tuple(sorted(faults, key=lambda f: (f.table, f.column, f.rule)))
        first, others = self.faults[0], len(self.faults) - 1
        more = f" (and {others} more; '{lists}' lists them all)" if others else ""
        super().__init__(f"{first}{more}")


class EngineFailure(Refusal):
    """The query engine stopped; its own words are withheld because they may quote a row.

    Examples:
        >>> issubclass(eree.EngineFailure, eree.Refusal)
        True
    """


class DamagedFile(EngineFailure):
    """The query engine could not read a table's file to its end."""


def require(extra: str, *packages: str) -> None:
    """Refuse where packages of an extra are not installed, and name the extra."""
    for name in packages:
        if find_spec(name) is None:
            words = f"{name} is not installed; install it with: pip install 'eree[{extra}]'"
            raise Refusal(words)


def integer(value: object, words: str, least: int | None = None, most: int | None = None) -> int:
    """An integer, of Python or of NumPy, as a plain one; refused with `words` where it is none.

    So is one below `least` or above `most`.
    """
    try:
        found = None if isinstance(value, bool) else index(cast(SupportsIndex, value))
    except TypeError:
        found = None
    if (
        found is None
        or not (least is None or least <= found)
        or not (most is None or found <= most)
    ):
        raise Refusal(words)
    return found


def hint(name: object, known: Iterable[str]) -> str:
    """What was perhaps meant by a name that is not known: the end of a refusal, or nothing."""
    alike = {other.casefold(): other for other in known}
    near = get_close_matches(str(name).casefold(), alike, n=1, cutoff=0.7)
    return f"; did you mean {alike[near[0]]}?" if near else ""


class Cost(str):
    """What was spent before a failure, in our own words: a note on the exception that tells it."""
