"""Several jobs of a worker count: one job is one step, and a worker as many as she has jobs."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eree
from declared import book
from eree.estimate.memo import memo
from eree.policy.schema import Counted
from eree.release.record import RECORD, digest_of, record_text
from eree.web.methods import protected_words, step_words
from offices import privacy, settings, table, text
from oracle import GRADE, MANNERS, SEX, Database, count_cells, databases, requests
from selection import examples
from town import Town, reported
from uses import eree_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = ["first", "second"]


def town(most: int | None = 2, *, primary: bool = False) -> Town:
    """Worker 1 has three jobs and worker 2 two; with marks, one of worker 1 does not count."""
    made = Town()
    made.tables["job"] = {
        "worker_id": [1, 2, 3, 4, 5, 6, 1, 2, 1],
        "workplace_id": [10, 10, 20, 30, 30, 30, 40, 10, 30],
        "kind": [*["first"] * 6, *["second"] * 3],
        "main": [*[True] * 8, False],
    }
    made.schema["job"]["attributes"] = {"kind": KINDS}
    made.schema["job"] |= {"primary": "main"} if primary else {"ignore": ["main"]}
    if most is not None:
        made.schema["job"]["most_per_worker"] = most
    return made


def counted(folder: Path, *by: str, **where: list[Any]) -> dict[Any, int]:
    cells = eree.tabulate(eree.load(folder), by, where).confidential.to_pylist()
    return {tuple(cell[name] for name in by): cell["count"] for cell in cells}


# ------------------------------------------------------------------------------- checks, counts


@pytest.mark.parametrize(
    ("most", "primary", "beyond", "words"),
    [
        (None, False, 2, "more than one job; mend wrong rows"),
        (None, True, 2, "more than one primary job"),
        (2, False, 1, "more than 2 jobs"),
        (2, True, 0, ""),
        (3, False, 0, ""),
    ],
)
def test_workers_beyond_the_declared_number_of_jobs_are_counted_and_not_named(
    tmp_path: Path, spark: SparkSession, most: int | None, primary: bool, beyond: int, words: str
) -> None:
    folder = town(most, primary=primary).write(tmp_path)
    for engine in ("duckdb", spark):
        found = reported(folder, engine=engine)
        assert [(one[0], one[1], one[3]) for one in found] == (
            [("worker", "worker_id", beyond)] if beyond else []
        )
        assert all(f"the worker has {words}" in one[2] for one in found)


def test_a_worker_without_a_job_that_counts_is_a_fault_whatever_the_most_is(tmp_path: Path) -> None:
    made = town(3, primary=True)
    made.tables["job"]["main"] = [True, True, False, *[True] * 6]
    found = reported(made.write(tmp_path))
    assert found == [("worker", "worker_id", "the worker has no primary job", 1)]


def test_jobs_are_counted_and_not_workers(tmp_path: Path) -> None:
    """Worker 2 is at workplace 10 twice, and makes it a workplace of three jobs."""
    folder = town(3).write(tmp_path)
    cells = eree.tabulate(eree.load(folder), ["county"]).confidential.to_pylist()
    assert [(c["count"], c["largest"]) for c in cells] == [(4, 3), (4, 4), (1, 1)]
    assert counted(folder, "sex") == {("F",): 5, ("M",): 4}
    assert counted(folder, "state", kind=["second"]) == {("17",): 2, ("18",): 1}
    assert counted(town(2, primary=True).write(tmp_path / "marked"), "sex") == {
        ("F",): 4,
        ("M",): 4,
    }


# -------------------------------------------------------------------------------- a chosen job


def chosen(jobs: list[tuple[int, int, str, int]], style: str = "parquet") -> Town:
    """A town where each worker counts at the workplace that pays the most."""
    made = Town()
    columns = ("worker_id", "workplace_id", "kind", "pay")
    made.tables["job"] = dict(zip(columns, map(list, zip(*jobs, strict=True)), strict=True))
    made.schema["job"] |= {"attributes": {"kind": KINDS}, "primary": {"greatest": "pay"}}
    return made if style == "parquet" else made.as_csv()


ALONE = [(p, 20, "first", 0) for p in (3, 4, 5, 6)]


@pytest.mark.parametrize("style", ["parquet", "csv"])
def test_the_greatest_counts_and_of_equal_ones_the_first(
    tmp_path: Path, spark: SparkSession, style: str
) -> None:
    """Worker 1 earns the same at two workplaces, worker 2 in two kinds at one."""
    jobs = [(1, 40, "first", 10), (1, 30, "second", 10), (1, 10, "first", 9)]
    jobs += [(2, 30, "second", 7), (2, 30, "first", 7), (2, 10, "first", -8)]
    tables = eree.load(chosen(jobs + ALONE, style).write(tmp_path))
    for engine in ("duckdb", spark):
        cells = eree.tabulate(tables, ["tract", "kind"], engine=engine).confidential.to_pylist()
        found = {(c["tract"], c["kind"]): c["count"] for c in cells if c["count"]}
        assert found == {("1712", "first"): 4, ("1721", "first"): 1, ("1721", "second"): 1}


@pytest.mark.parametrize(
    ("pay", "style", "fault"),
    [
        (["1", "x", "3"], "csv", ("job", "pay", "the value is not a plainly", 1)),
        (["1", "1.5", "3"], "csv", ("job", "pay", "the value is not a plainly", 1)),
        ([1, None, 3], "parquet", ("job", "pay", "the value is missing", 1)),
        ([1.0, 2.0, 3.0], "parquet", ("job", "pay", "the column holds", None)),
        (["1", "2", "3"], "parquet", ("job", "pay", "the column holds texts, not integers", None)),
    ],
)
def test_what_cannot_be_compared_is_a_fault(
    tmp_path: Path, pay: list[Any], style: str, fault: tuple[str, str, str, int | None]
) -> None:
    made = chosen([(1, 10, "first", 1), (1, 30, "first", 2), (2, 30, "first", 3), *ALONE], style)
    made.tables["job"]["pay"] = pay + [type(pay[0])(9)] * 4
    [found] = reported(made.write(tmp_path))
    assert (found[0], found[1], found[3]) == (fault[0], fault[1], fault[3])
    assert found[2].startswith(fault[2])


@examples(30, torture=1000)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 2),
            st.sampled_from([10, 20, 30, 40]),
            st.sampled_from(KINDS),
            st.integers(0, 2),
        ),
        min_size=1,
        max_size=6,
    ),
    st.tuples(
        st.just(1),
        st.sampled_from([10, 20, 30, 40]),
        st.sampled_from(KINDS),
        st.integers(0, 3),
    ),
)
def test_a_job_beside_others_lets_one_leave_and_another_join(
    jobs: list[tuple[int, int, str, int]], more: tuple[int, int, str, int]
) -> None:
    """Two steps of counted jobs at most, and a worker with all of her jobs is one."""
    base = [*ALONE, (1, 10, "first", 1), (2, 10, "first", 1), *jobs]

    def cells(listed: list[tuple[int, int, str, int]]) -> list[int]:
        with tempfile.TemporaryDirectory() as folder:
            made = chosen(listed)
            kept = sorted({job[0] for job in listed})
            made.tables["worker"] = {
                name: [values[p - 1] for p in kept]
                for name, values in made.tables["worker"].items()
            }
            tables = eree.load(made.write(Path(folder) / "data"))
            found = eree.tabulate(tables, ["tract", "kind"]).confidential.to_pylist()
        return [cell["count"] for cell in found]

    before, after = cells(base), cells([*base, more])
    changes = [b - a for a, b in zip(before, after, strict=True) if a != b]
    assert sorted(changes) in ([], [-1, 1])
    gone = cells([job for job in base if job[0] != 1])
    assert [a - b for a, b in zip(before, gone, strict=True) if a != b] == [1]


# ----------------------------------------------------------------------------------- neighbours


def cells_of(database: Database, request: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells by the engine, which must be those of brute force."""
    with tempfile.TemporaryDirectory() as folder:
        tables = eree.load(database.write(Path(folder) / "data"))
        cells = eree.tabulate(tables, **request).confidential.to_pylist()
    assert cells == count_cells(database, **request)
    return cells


def without(database: Database, person: Any, jobs: int) -> Database:
    """The database without some jobs of a worker, and without her if none is left."""
    kept = database
    for _ in range(jobs):
        if any(p == person for p, _ in kept.more):
            last = max(i for i, (p, _) in enumerate(kept.more) if p == person)
            kept = replace(kept, more=[job for i, job in enumerate(kept.more) if i != last])
        else:
            kept = replace(
                kept,
                jobs=[job for job in kept.jobs if job[0] != person],
                extra=[job for job in kept.extra if job[0] != person],
                workers=[w for w in kept.workers if w["person"] != person],
            )
    return kept


def other(worker: dict[str, Any]) -> dict[str, Any]:
    """A worker of whom everything is otherwise."""
    turned = {
        name: values[(values.index(worker[name]) + 1) % len(values)]
        for name, values in (("sex", SEX), ("grade", GRADE), ("manner", MANNERS))
    }
    return worker | turned | {"hours": 60 - worker["hours"]}


def distance(one: list[dict[str, Any]], two: list[dict[str, Any]]) -> int:
    assert len(one) == len(two)
    return sum(abs(a["count"] - b["count"]) for a, b in zip(one, two, strict=True))


@examples(25, torture=800)
@given(data=st.data(), primary=st.booleans())
def test_a_job_moves_a_marginal_by_one_a_worker_by_her_jobs_and_an_attribute_by_twice_as_many(
    data: st.DataObject, primary: bool
) -> None:
    """Also the sizes that noise scales with: one job moves them by one at most."""
    database = data.draw(databases(primary=primary, several=True))
    request = data.draw(requests(database)) | {"bound": None}
    person = data.draw(st.sampled_from(sorted({p for p, _ in database.jobs}, key=str)))
    jobs = sum(p == person for p, _ in (*database.jobs, *database.more))
    assert jobs <= database.most_per_worker
    whole = cells_of(database, request)
    if len(database.workers) > 1 or jobs > 1:
        less = cells_of(without(database, person, 1), request)
        assert distance(whole, less) <= 1
        for size in ("largest", "largest_total"):
            steps = (a.get(size, 0) - b.get(size, 0) for a, b in zip(whole, less, strict=True))
            assert set(steps) <= {0, 1}
    if len(database.workers) > 1:
        assert distance(whole, cells_of(without(database, person, jobs), request)) <= jobs
    workers = [other(w) if w["person"] == person else w for w in database.workers]
    changed = cells_of(replace(database, workers=workers), request)
    assert distance(whole, changed) <= 2 * jobs


def loss(mechanism: Any, one: list[dict[str, Any]], two: list[dict[str, Any]]) -> float:
    """The worst privacy loss between two tables of workplace cells, from probabilities alone."""
    total = 0.0
    for a, b in zip(one, two, strict=True):
        first, second = (eree.Cell(count=c["count"], largest=c["largest"]) for c in (a, b))
        if first != second:
            total += max(
                abs(mechanism.log_pmf(first, k) - mechanism.log_pmf(second, k))
                for k in range(-12, 45)
            )
    return total


@examples(10, torture=300)
@given(st.data())
def test_the_loss_of_a_worker_is_at_most_epsilon_for_each_of_her_jobs(data: st.DataObject) -> None:
    mechanism = eree.mechanism("smooth-pareto", alpha="0.1", epsilon="2")
    database = data.draw(databases(several=True))
    person = data.draw(st.sampled_from([p for p, _ in database.more]))
    jobs = sum(p == person for p, _ in (*database.jobs, *database.more))
    by = {"by": ["area", "sector"]}
    whole = count_cells(database, **by)
    assert loss(mechanism, whole, count_cells(without(database, person, 1), **by)) <= 2 + 1e-9
    left = without(database, person, jobs)
    assert loss(mechanism, whole, count_cells(left, **by)) <= 2 * jobs + 1e-9


def test_a_second_job_elsewhere_does_cost_a_second_epsilon() -> None:
    """That a worker costs more than a job is no matter of words."""
    places = [{"id": i, "area": a, "sector": "11", "band": 0} for i, a in enumerate("ab")]
    workers = [{"person": 1, "sex": "F", "grade": 1, "manner": "plain", "hours": 40}]
    database = Database(places, workers, [(1, 0)], more=[(1, 1)])
    nobody = Database(places, [], [])
    mechanism = eree.mechanism("smooth-pareto", alpha="0.1", epsilon="2")
    by = {"by": ["area"]}
    found = loss(mechanism, count_cells(database, **by), count_cells(nobody, **by))
    assert 3.9 < found <= 4 + 1e-9


# ------------------------------------------------------------------------- plans and releases

WORDS = [
    "Whether a job is in the data: a release changes the odds by at most a factor of 7.39.",
    "What a job is like, or where it is: a release changes the odds by at most a factor of 54.6.",
    "Whether a worker is in the data, with all of at most 3 jobs: a release changes the odds by at"
    " most a factor of 404.",
]
QUICK = {"mechanism": "smooth-pareto", "epsilon": "1"}


def test_the_guarantee_is_said_for_a_job_and_for_a_worker_wherever_it_is_said(
    tmp_path: Path,
) -> None:
    """In plans, memos and records, at the price of one job; a record cannot say otherwise."""
    data = town(3).write(tmp_path / "data")
    wanted = [table(name=k, by=["county"], where={"kind": [k]}, **QUICK) for k in KINDS]
    file, written = tmp_path / "plan.toml", tmp_path / "memo.md"
    file.write_text(text(settings("data", table=wanted)), encoding="utf-8")
    status, shown, _ = eree_command("plan", file, "--memo", written)
    assert status == 0
    assert "In all: epsilon 2, delta 0; nothing was spent." in shown
    page = written.read_text(encoding="utf-8")
    for words in WORDS:
        assert f"  {words}\n" in shown
        assert f"- {words}\n" in page
    assert "one job more or less at any workplace" in page
    assert "A worker has at most 3 jobs that count" in page
    status, shown, _ = eree_command("plan", file, "--json")
    assert json.loads(shown)["statements"][:3] == WORDS
    made = book(tmp_path, eree.Strong("0.1"))
    plan = eree.Plan.read(file)
    release = eree.publish(plan, eree.load(data), ledger=made, out=tmp_path / "out")
    assert release.record["statements"][:3] == WORDS
    assert release.record["protects"]["job"] == {"primary": None, "most_per_worker": 3}
    assert release.schema.job.most_per_worker == 3
    assert made.spent().epsilon == 2  # job types are filters on the same workplaces: prices add
    assert eree.verify(release, ledger=made).sound
    copied = Path(shutil.copytree(release.folder, tmp_path / "copy"))
    record = json.loads((copied / RECORD).read_text(encoding="utf-8"))
    record["protects"]["job"]["most_per_worker"] = 1
    record["digest"] = digest_of(record)
    (copied / RECORD).write_text(record_text(record), encoding="utf-8")
    faults = eree.verify(eree.Release.open(copied)).faults
    assert [(f.column, f.rule) for f in faults] == [
        ("statements", "do not say what the guarantee means")
    ]


def test_plan_memo_record_and_verifying_say_what_a_choice_costs(tmp_path: Path) -> None:
    data = chosen([(1, 10, "first", 1), (1, 30, "first", 2), (2, 30, "first", 3), *ALONE])
    folder = data.write(tmp_path / "data")
    made = book(tmp_path, eree.Strong("0.1"))
    plan = eree.Plan.of(
        settings(folder, privacy=privacy(), table=[table(by=["county"], epsilon="1")])
    )
    page = memo(eree.expected_accuracy(plan))
    assert "with the jobs that count elsewhere held fixed.**" in page
    release = eree.publish(plan, eree.load(folder), ledger=made, out=tmp_path / "out")
    assert release.record["protects"]["job"]["primary"] == {"greatest": "pay"}
    assert release.record["statements"][0] == (
        "Whether a job is in the data beside others of its worker: a release changes the odds by"
        " at most a factor of 7.39."
    )
    assert release.schema.job.greatest == "pay"
    assert eree.verify(release, ledger=made).sound


def test_job_types_are_a_marginal_of_one_draw_as_any_worker_attribute(tmp_path: Path) -> None:
    data = town(3).write(tmp_path / "data")
    wanted = table(name="m", by=["state"], marginals=["kind", "sex"], epsilon="4")
    plan = eree.Plan.of(settings(data, privacy=privacy(), table=[wanted]))
    assert plan.price().epsilon == 4
    random = eree.SeededRandom(3)
    out = tmp_path / "out"
    release = eree.publish(plan, eree.load(data), ledger=None, out=out, random=random)
    sums = []
    for name in release.tables:
        rows = release.table(name).to_pylist()
        sums.append([sum(r["noisy"] for r in rows if r["state"] == s) for s in ("17", "18")])
    assert len(sums) == 2 and sums[0] == sums[1]


def test_the_query_tool_says_what_a_step_is_for_jobs_and_for_workers() -> None:
    strong = eree.Strong("0.1")
    assert step_words(strong, Counted(3)) == (
        "one workplace gets more jobs, of any kind: one, or up to 0.1 times as many as it has"
    )
    assert step_words(eree.EDGE, Counted(3)) == "one job joins one workplace"
    assert protected_words(strong, Counted(3)).startswith(
        "every job, and so every worker, who has at most 3 jobs and is as many steps, and how many"
        " jobs a workplace has within a share of alpha; "
    )
    for words in (step_words, protected_words):
        assert words(strong, Counted(1)) == words(strong)
        assert "job" not in words(strong)
    assert step_words(strong, Counted(1, True)).startswith("one workplace gets more counted jobs")
    assert "with those elsewhere held fixed" in protected_words(strong, Counted(1, True))
