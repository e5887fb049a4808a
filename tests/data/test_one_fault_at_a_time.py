"""Any sound database has no fault; any one mistake in it is found and counted."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oracle import GRADE, SECTORS, Database, databases
from selection import examples
from town import Reported, listed, reported

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Mistake:
    """How to spoil some rows of a database, and the rule that they then break."""

    table: str
    column: str
    rule: str
    spoil: Callable[[Database, list[int]], Database]

    def reported(self, rows: int) -> Reported:
        return self.table, self.column, self.rule, rows


def changed(rows: Rows, chosen: list[int], column: str, value: Any) -> Rows:
    return [r | {column: value} if i in chosen else r for i, r in enumerate(rows)]


def unseen(database: Database) -> Any:
    """An id, of the type of the others, that nobody has."""
    return "nobody" if isinstance(database.workers[0]["person"], str) else 2**50


def worker(column: str, value: Any) -> Callable[[Database, list[int]], Database]:
    return lambda d, chosen: replace(d, workers=changed(d.workers, chosen, column, value))


def workplace(column: str, value: Any) -> Callable[[Database, list[int]], Database]:
    return lambda d, chosen: replace(d, workplaces=changed(d.workplaces, chosen, column, value))


def orphaned(database: Database, chosen: list[int]) -> Database:
    nowhere = unseen(database)
    jobs = [(p, nowhere if i in chosen else at) for i, (p, at) in enumerate(database.jobs)]
    return replace(database, jobs=jobs)


def unknown_worker(database: Database, chosen: list[int]) -> Database:
    nobody = unseen(database)
    jobs = [(nobody if i in chosen else p, at) for i, (p, at) in enumerate(database.jobs)]
    return replace(database, jobs=jobs)


def without_job(database: Database, chosen: list[int]) -> Database:
    text = isinstance(database.workers[0]["person"], str)
    extra = [{"person": f"x{i}" if text else -i - 1, "sex": "F", "grade": 1, "manner": "plain"}
             for i in chosen]  # fmt: skip
    return replace(database, workers=[*database.workers, *extra])


def two_jobs(database: Database, chosen: list[int]) -> Database:
    return replace(database, jobs=[*database.jobs, *(database.jobs[i] for i in chosen)])


def repeated_worker(database: Database, chosen: list[int]) -> Database:
    return replace(database, workers=[*database.workers, *(database.workers[i] for i in chosen)])


def repeated_workplace(database: Database, chosen: list[int]) -> Database:
    again = [database.workplaces[i] for i in chosen]
    return replace(database, workplaces=[*database.workplaces, *again])


def no_link(database: Database, chosen: list[int]) -> Database:
    jobs = [(p, None if i in chosen else at) for i, (p, at) in enumerate(database.jobs)]
    return replace(database, jobs=jobs)


UNDECLARED, REPEATS = "the value is not declared", "the key repeats that of an earlier row"
SEVERAL = (
    "the worker has more than one job; mend wrong rows first, else name the column that marks the"
    " primary one as job.primary, or declare how many a worker has at most as job.most_per_worker,"
    " which weakens the promise"
)
MISTAKES = [
    Mistake("worker", "sex", UNDECLARED, worker("sex", "f")),
    Mistake("worker", "sex", "the value is missing", worker("sex", None)),
    Mistake("worker", "grade", UNDECLARED, worker("grade", max(GRADE) + 1)),
    Mistake("worker", "manner", UNDECLARED, worker("manner", "\\n ")),
    Mistake("workplace", "sector", UNDECLARED, workplace("sector", SECTORS[0] + "0")),
    Mistake("workplace", "sector", "the value is missing", workplace("sector", None)),
    Mistake("workplace", "area", "the value belongs to no region", workplace("area", "c")),
    Mistake("workplace", "band", "the value is missing", workplace("band", None)),
    Mistake("job", "hours", UNDECLARED, worker("hours", 60)),
    Mistake("job", "hours", "the value is missing", worker("hours", None)),
    Mistake("job", "at", "the workplace does not exist", orphaned),
    Mistake("job", "at", "the value is missing", no_link),
    Mistake("job", "person", "the worker does not exist", unknown_worker),
    Mistake("worker", "person", "the worker has no job", unknown_worker),
    Mistake("worker", "person", "the worker has no job", without_job),
    Mistake("worker", "person", SEVERAL, two_jobs),
    Mistake("worker", "person", REPEATS, repeated_worker),
    Mistake("workplace", "id", REPEATS, repeated_workplace),
]
#: The mistakes that break a second rule as well.
TWOFOLD = {unknown_worker: 2}


def size(database: Database, mistake: Mistake) -> int:
    """How many rows there are to choose from."""
    if mistake.spoil in (orphaned, no_link, unknown_worker, two_jobs):
        return len(database.jobs)
    return len(database.workplaces if mistake.table == "workplace" else database.workers)


@examples(20, torture=500)
@given(data=st.data(), style=st.sampled_from(["parquet", "csv"]), parts=st.integers(1, 2))
def test_one_mistake_in_a_sound_database_is_found_and_counted(
    data: st.DataObject, style: str, parts: int
) -> None:
    sound = data.draw(databases())
    with tempfile.TemporaryDirectory() as folder:
        assert reported(sound.write(Path(folder) / "sound", style, parts)) == []
        mistake = data.draw(st.sampled_from(MISTAKES))
        rows = st.sets(st.integers(0, size(sound, mistake) - 1), min_size=1, max_size=3)
        chosen = sorted(data.draw(rows))
        # nulls leave their column without a type where no other value is left
        keep = "missing" in mistake.rule and style == "parquet"
        if keep and len(chosen) == size(sound, mistake):
            chosen = chosen[1:]
        spoilt = mistake.spoil(sound, chosen)
        found = reported(spoilt.write(Path(folder) / "spoilt", style, parts))
        assert listed(Path(folder) / "spoilt") == [f for f in found if f[1]]
        expected = [mistake.reported(len(chosen))] if chosen else []
        assert [f for f in found if f in expected] == expected, found
        assert len(found) == (TWOFOLD.get(mistake.spoil, 1) if chosen else 0), found


@examples(8, torture=200)
@given(database=databases(primary=True), style=st.sampled_from(["parquet", "csv"]))
def test_a_sound_database_with_second_jobs_has_no_fault(database: Database, style: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert reported(database.write(Path(folder) / "sound", style)) == []
