"""Small linked databases and a plain-Python count of their cells: the oracle for every engine."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
from hypothesis import strategies as st

from eree.workload import Bound, DropFrom, ScaleEach, ScaleTo

REGIONS = {"north": ["a", "b"], "south": ["c'", 'd"\\']}
SECTORS = ["11", "31-33", "44-45"]
SEX = ["F", "M"]
GRADE = [1, 2, 3]  # a worker attribute of integers
MANNERS = ["plain", "it's; drop table", "Zoë ${x} %s", "\\n"]
LEARNT = {"yes": [2, 3], "no": [1]}  # a group over grade
HOURS = [40, 20]  # an attribute of jobs, of integers
TIME = {"part": [20], "whole": [40]}  # a group over hours

SCHEMA = """
[workplace]
file = "{workplace}"
key = "id"
[workplace.attributes.area]
[workplace.attributes.sector]
values = ["11", "31-33", "44-45"]
[workplace.attributes.band]
type = "integer"
[worker]
file = "{worker}"
key = "person"
[worker.attributes.sex]
values = ["F", "M"]
[worker.attributes.grade]
values = [1, 2, 3]
[worker.attributes.manner]
values = ["plain", "it's; drop table", "Zoë ${{x}} %s", '\\n']
[job]
file = "{job}"
worker = "person"
workplace = "at"
{primary}
[job.attributes.hours]
values = [40, 20]
[group.time]
of = "hours"
members = {{ part = [20], whole = [40] }}
[group.region]
of = "area"
members = {{ north = ["a", "b"], south = ["c'", 'd"\\'] }}
[group.learnt]
of = "grade"
members = {{ yes = [2, 3], no = [1] }}
"""

WORKPLACE_ATTRIBUTES = ["area", "sector", "band", "region"]
#: What is counted as a worker's: also the attribute of a job that counts.
WORKER_ATTRIBUTES = {
    "sex": SEX,
    "grade": GRADE,
    "manner": MANNERS,
    "learnt": list(LEARNT),
    "hours": HOURS,
    "time": list(TIME),
}


@dataclass(frozen=True)
class Database:
    """A linked database in plain Python; `extra` holds jobs that do not count, `more` some that do.

    `hours` of a worker, 40 if it is not there, are those of the first job that counts: they are
    written into the job table, where all other jobs of the worker have others.  Which jobs count is
    marked, or `chosen` by the greatest pay.
    """

    workplaces: list[dict[str, Any]]
    workers: list[dict[str, Any]]
    jobs: list[tuple[Any, Any]]
    extra: list[tuple[Any, Any]] = field(default_factory=list)
    more: list[tuple[Any, Any]] = field(default_factory=list)
    chosen: bool = False

    @property
    def most_per_worker(self) -> int:
        """The most jobs that count of any worker."""
        return max(Counter(person for person, _ in (*self.jobs, *self.more)).values())

    def counted(self) -> list[tuple[Any, dict[str, Any]]]:
        """The jobs that count: the workplace of each, and what is true of worker and job."""
        workers = {w["person"]: w for w in self.workers}
        others = [(p, at, 60 - workers[p].get("hours", 40)) for p, at in self.more]
        first = [(p, at, workers[p].get("hours", 40)) for p, at in self.jobs]
        return [(at, {**workers[p], "hours": hours}) for p, at, hours in (*first, *others)]

    def write(self, folder: Path, style: str = "parquet", parts: int = 1) -> Path:
        """Write the tables in a format, each as one file or as a folder of parts."""
        folder.mkdir(exist_ok=True)
        people = [{k: v for k, v in worker.items() if k != "hours"} for worker in self.workers]
        tables = {"workplace": self.workplaces, "worker": people, "job": self._job_rows()}
        names = {}
        for name, rows in tables.items():
            names[name] = f"{name}.{style}" if parts == 1 else name
            if parts > 1:
                (folder / name).mkdir()
            for part in range(parts):
                here = folder / (names[name] if parts == 1 else f"{name}/part-{part}.{style}")
                _write_rows(here, rows, rows[part::parts])
        primary = 'primary = "main"\n' if self.extra else ""
        if self.chosen:
            primary = 'primary = { greatest = "pay" }\n'
        if self.more:
            primary += f"most_per_worker = {self.most_per_worker}"
        text = SCHEMA.format(primary=primary, **names)
        (folder / "schema.toml").write_text(text, encoding="utf-8")
        return folder

    def _job_rows(self) -> list[dict[str, Any]]:
        hours = {w["person"]: w.get("hours", 40) for w in self.workers}
        rows = [
            {"person": p, "hours": hours.get(p, 40), "at": w, "main": True} for p, w in self.jobs
        ]
        rows += [
            {"person": p, "hours": 60 - hours[p], "at": w, "main": counts}
            for jobs, counts in ((self.extra, False), (self.more, True))
            for p, w in jobs
        ]
        if self.chosen:  # as texts 9 is more than 10
            return [
                {k: v for k, v in r.items() if k != "main"} | {"pay": 10 if r["main"] else 9 - n}
                for n, r in enumerate(reversed(rows))
            ]
        return rows if self.extra else [{k: v for k, v in r.items() if k != "main"} for r in rows]

    def values(self, attribute: str) -> list[Any]:
        """The values a filter on an attribute can name."""
        if attribute in WORKER_ATTRIBUTES:
            return WORKER_ATTRIBUTES[attribute]
        return sorted({workplace_value(w, attribute) for w in self.workplaces})


def _write_rows(path: Path, all_rows: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    columns = list(all_rows[0])
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as handle:
            writer = csv.DictWriter(handle, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        return
    kinds = pa.table({c: [row[c] for row in all_rows] for c in columns}).schema
    parquet.write_table(pa.table({c: [r[c] for r in rows] for c in columns}, schema=kinds), path)


def workplace_value(workplace: Mapping[str, Any], attribute: str) -> Any:
    """An attribute of a workplace, grouped where it is a group."""
    if attribute != "region":
        return workplace[attribute]
    return next(r for r, areas in REGIONS.items() if workplace["area"] in areas)


def worker_value(worker: Mapping[str, Any], attribute: str) -> Any:
    """An attribute of a worker or of a job that counts, grouped where it is a group."""
    match attribute:
        case "learnt":
            return next(name for name, grades in LEARNT.items() if worker["grade"] in grades)
        case "time":
            return next(name for name, h in TIME.items() if worker.get("hours", 40) in h)
        case "hours":
            return worker.get("hours", 40)
    return worker[attribute]


def count_cells(
    database: Database,
    by: Iterable[str],
    where: Mapping[str, list[Any]] | None = None,
    bound: Bound | None = None,
) -> list[dict[str, Any]]:
    """The cells of a marginal by looking at every workplace and every job, nothing clever."""
    by, where = list(by), where or {}
    staff: dict[Any, list[Mapping[str, Any]]] = {w["id"]: [] for w in database.workplaces}
    for at, worker in database.counted():
        staff[at].append(worker)
    kept = [
        w
        for w in database.workplaces
        if all(
            workplace_value(w, a) in values
            for a, values in where.items()
            if a not in WORKER_ATTRIBUTES
        )
    ]
    touched = any(a in WORKER_ATTRIBUTES for a in (*by, *where))
    places = [a for a in by if a not in WORKER_ATTRIBUTES]
    people = [a for a in by if a in WORKER_ATTRIBUTES]
    combinations = {tuple(workplace_value(w, a) for a in places) for w in kept}
    cells = []
    for place in combinations:
        limit = _limit(bound, dict(zip(places, place, strict=True)))
        inside = [w for w in kept if tuple(workplace_value(w, a) for a in places) == place]
        for person in product(*(WORKER_ATTRIBUTES[a] for a in people)):
            held = []
            for workplace in inside:
                everyone = staff[workplace["id"]]
                n = sum(
                    all(worker_value(w, a) == v for a, v in zip(people, person, strict=True))
                    and all(
                        worker_value(w, a) in values
                        for a, values in where.items()
                        if a in WORKER_ATTRIBUTES
                    )
                    for w in everyone
                )
                held.append(_bounded(n, len(everyone), limit))
            key = dict(zip(places, place, strict=True)) | dict(zip(people, person, strict=True))
            cell = {a: key[a] for a in by} | {"count": sum(held), "largest": max(held)}
            if touched:
                cell["largest_total"] = max(len(staff[w["id"]]) for w in inside)
            cells.append(cell | {"workplaces": len(inside)})
    ranks = {a: {v: i for i, v in enumerate(vs)} for a, vs in WORKER_ATTRIBUTES.items()}
    return sorted(cells, key=lambda c: [ranks[a][c[a]] if a in ranks else _order(c[a]) for a in by])


def _order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _limit(bound: Bound | None, place: Mapping[str, Any]) -> Bound | None:
    """What bounds the workplaces of one cell."""
    if not isinstance(bound, ScaleEach):
        return bound
    [total] = [
        row["_total"]
        for row in bound.totals.to_pylist()
        if all(row[name] == value for name, value in place.items())
    ]
    return ScaleTo(total)


def _bounded(n: int, size: int, bound: Bound | None) -> Any:
    match bound:
        case DropFrom(theta):
            return n if size < theta else 0
        case ScaleTo(total):
            thousandths = 1000 * n if size <= total else (1000 * n * total) // size
            return Decimal(thousandths) / 1000
    return n


@st.composite
def databases(
    draw: st.DrawFn, *, primary: bool = False, several: bool = False, chosen: bool = False
) -> Database:
    """Small databases: empty workplaces, cells of one workplace, string or number ids, gaps."""
    text_ids = draw(st.booleans())
    n = draw(st.integers(1, 6))
    numbers = draw(st.lists(st.integers(-(2**40), 2**40), min_size=n, max_size=n, unique=True))
    ids: list[Any] = [f"w'{i}" for i in numbers] if text_ids else numbers
    areas = [area for listed in REGIONS.values() for area in listed]
    workplaces = [
        {
            "id": i,
            "area": draw(st.sampled_from(areas)),
            "sector": draw(st.sampled_from(SECTORS)),
            "band": draw(st.integers(-1, 1)),
        }
        for i in ids
    ]
    # A few workplaces hold most of the jobs, so that one often dominates and some stay empty.
    employers = draw(st.lists(st.sampled_from(ids), min_size=1, max_size=25))
    people: list[Any] = [f"p{i}" if text_ids else 7 * i for i in range(len(employers))]
    workers = [
        {
            "person": p,
            "sex": draw(st.sampled_from(SEX)),
            "grade": draw(st.sampled_from(GRADE)),
            "manner": draw(st.sampled_from(MANNERS)),
            "hours": draw(st.sampled_from(HOURS)),
        }
        for p in people
    ]
    jobs = list(zip(people, employers, strict=True))
    second = st.lists(
        st.tuples(st.sampled_from(people), st.sampled_from(ids)), min_size=1, max_size=4
    )
    extra = draw(second) if primary else []
    more = draw(second) if several else []
    return Database(workplaces, workers, jobs, extra, more, chosen)


@st.composite
def requests(draw: st.DrawFn, database: Database) -> dict[str, Any]:
    """A marginal that fits a database: what to count by, what to keep, how to bound."""
    names = [*WORKPLACE_ATTRIBUTES, *WORKER_ATTRIBUTES]
    by = draw(st.lists(st.sampled_from(names), max_size=4, unique=True))
    filtered = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    where = {
        a: draw(st.lists(st.sampled_from(database.values(a)), min_size=1, max_size=2, unique=True))
        for a in filtered
    }
    places = [a for a in by if a not in WORKER_ATTRIBUTES]
    cells = sorted({tuple(workplace_value(w, a) for a in places) for w in database.workplaces})
    columns = {a: [cell[i] for cell in cells] for i, a in enumerate(places)}
    totals = st.lists(st.integers(1, 8), min_size=len(cells), max_size=len(cells))
    bounds = st.one_of(
        st.none(),
        st.builds(DropFrom, st.integers(1, 8)),
        st.builds(ScaleTo, st.integers(1, 8)),
        totals.map(lambda listed: ScaleEach(pa.table(columns | {"_total": listed}))),
    )
    return {"by": by, "where": where, "bound": draw(bounds)}
