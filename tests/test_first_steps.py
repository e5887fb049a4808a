"""What somebody meets who has seen the pages alone: kinds of values, words for one, results."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import eree
from eree.errors import how_many
from pages import command as run

SCHEMA: dict[str, Any] = {
    "workplace": {"key": "site", "attributes": {"town": {}}},
    "worker": {"key": "person", "attributes": {"grade": [1, 2]}},
    "job": {"worker": "person", "workplace": "site"},
}
PLAN: dict[str, Any] = {
    "privacy": {"neighbours": "strong", "alpha": "0.1", "epsilon": "2"},
    "table": [{"name": "jobs", "by": ["town"], "epsilon": "2", "mechanism": "smooth-pareto"}],
}


def frames(**others: Any) -> dict[str, Any]:
    """Two workplaces, of which one has two workers, in pandas."""
    return {
        "workplace": pd.DataFrame({"site": ["A", "B"], "town": ["Ostia", "Veii"]}),
        "worker": pd.DataFrame({"person": [1, 2], "grade": [1, 2]}),
        "job": pd.DataFrame({"person": [1, 2], "site": ["A", "A"]}),
    } | others


def jobs_of(people: Any) -> dict[str, Any]:
    return frames(job=pd.DataFrame({"person": people, "site": ["A", "A"]}))


def graded(values: Any) -> dict[str, Any]:
    schema = deepcopy(SCHEMA)
    schema["worker"]["attributes"]["grade"] = values
    return schema


# ------------------------------------------------------------------------------ kinds of values


@pytest.mark.parametrize(
    ("people", "rule"),
    [
        (
            [1.0, 2.0],
            "the column holds floating-point numbers (double); make them integers or texts (in"
            " pandas by .astype('Int64'))",
        ),
        (["1", "2"], "the ids are of another type than the key of worker: texts, not integers"),
        (
            pd.Series([1, "2"], dtype=object),
            "Arrow cannot read the column; if its values are of several types, make it one",
        ),
    ],
)
def test_columns_of_pandas_that_cannot_be_used_are_named_with_what_to_do(
    people: Any, rule: str
) -> None:
    [fault] = eree.check(jobs_of(people), SCHEMA).faults
    assert (fault.table, fault.column, fault.rule) == ("job", "person", rule)


def test_integers_of_pandas_with_gaps_are_integers() -> None:
    assert eree.check(jobs_of(pd.array([1, 2], dtype="Int64")), SCHEMA)
    found = eree.check(jobs_of(pd.array([1, None], dtype="Int64")), SCHEMA).faults
    assert "the value is missing" in {fault.rule for fault in found}


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, 2]),
        list(np.array([1, 2], dtype=np.int32)),
        {"values": pd.Series([1, 2]).unique()},
        {"values": pd.Series([2, 1])},
        (1, 2),
    ],
)
def test_values_of_a_schema_may_be_arrays_and_numbers_of_numpy(values: Any) -> None:
    tables = eree.load(frames(), graded(values))
    cells = eree.tabulate(tables, by=["grade"]).confidential
    assert sorted(cells["grade"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("values", [[1.0, 2.0], np.array([1.0, 2.0])])
def test_values_of_another_kind_are_named(values: Any) -> None:
    [fault] = eree.check(frames(), graded(values)).faults
    assert fault.rule.endswith("or the name of a CSV file; not what Python calls float")


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: eree.load(None), "give a folder, or data frames by name, such as"),
        (lambda: eree.load(frames()["job"], SCHEMA), "not what Python calls DataFrame"),
        (lambda: eree.load(frames(), [SCHEMA]), "give the folder of a schema.toml, or what it"),
        (lambda: eree.Plan.of("plan.toml"), "(Plan.read takes a file), not what Python calls str"),
        (lambda: eree.explore(PLAN), "give the name of a plan's file, not what Python calls dict"),
        (lambda: eree.Strong(0.1), "alpha must be exact, and what Python calls float is not"),
        (lambda: eree.Strong(np.float64(0.1)), "and what Python calls float64 is not: write a"),
    ],
)
def test_arguments_of_another_kind_are_refused_in_a_sentence(
    ask: Callable[[], object], words: str
) -> None:
    with pytest.raises(eree.Refusal, match=re.escape(words)):
        ask()


def test_a_float_in_a_plan_is_named() -> None:
    plan = PLAN | {"privacy": PLAN["privacy"] | {"alpha": 0.1}}
    with pytest.raises(eree.Refusal, match="or an integer; not what Python calls float"):
        eree.Plan.of(plan, tables=eree.load(frames(), SCHEMA))


# ------------------------------------------------------------------------------- words for one


def test_one_thing_is_not_several() -> None:
    assert [how_many(number, "column") for number in (0, 1, 2_000)] == [
        "0 columns",
        "1 column",
        "2,000 columns",
    ]


def test_a_draft_says_that_one_column_is_ignored(tmp_path: Path) -> None:
    rows = frames(
        worker=pd.DataFrame({"person": [1, 2, 3], "grade": [1, 2, 2], "pay": [0.5, 1.5, 2.5]}),
        job=pd.DataFrame({"person": [1, 2, 3], "site": ["A", "A", "B"]}),
    )
    for name, frame in rows.items():
        frame.to_parquet(tmp_path / f"{name}.parquet")
    done = run("schema", "init", *(tmp_path / f"{name}.parquet" for name in rows))
    assert "worker.parquet; 1 column is ignored\n" in done.out


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> eree.Release:
    folder = tmp_path_factory.mktemp("first")
    tables = eree.load(frames(), SCHEMA)
    total = eree.Guarantee(eree.Strong("0.1"), 2)
    ledger = eree.Ledger.create(folder / "ledger.db", total, data_set=tables.schema.data_set)
    plan = eree.Plan.of(PLAN, tables=tables)
    return eree.publish(plan, tables, ledger=ledger, out=folder / "out")


def test_one_table_and_one_mechanism_are_not_several(release: eree.Release) -> None:
    checks = eree.verify(release).checks
    assert "1 mechanism keeps its claim, by its certificate" in checks
    assert "1 table agrees with its twin, ends and signs" in checks


# ------------------------------------------------------------------------- results and commands


def test_results_print_what_commands_say(release: eree.Release) -> None:
    ahead = eree.expected_accuracy(eree.Plan.of(PLAN, tables=eree.load(frames(), SCHEMA)))
    assert repr(ahead) == "<ExpectedAccuracy of jobs: 1 table for epsilon 2 in all>"
    said = str(ahead).splitlines()
    assert said[:2] == ["jobs: town", "  epsilon 2; smooth-pareto; 2 cells"]
    assert said[-1] == "In all: epsilon 2, delta 0"
    assert str(release.guarantee) == "epsilon 2, delta 0 (strong neighbours, alpha 0.1)"
    certificate = eree.mechanism("smooth-pareto", alpha="0.1", epsilon="2").certify()
    assert str(certificate).startswith("smooth-pareto (strong neighbours, alpha 0.1): the claim")
    found = eree.compare(release, "jobs", {"town": "Ostia"}, {"town": "Veii"})
    assert re.fullmatch(r"<Comparison of .* jobs, .* apart: 1 row>", str(found))


def test_a_folder_that_holds_a_release_names_it(release: eree.Release) -> None:
    home = release.folder.parent
    done = run("verify", home)
    assert done.status == 2
    assert done.err == f"eree: {home} is no release, but holds some; name them: {home / 'out'}\n"


def test_certify_says_what_it_is_at() -> None:
    done = run("--verbose", "certify", "edge-geometric", "--epsilon", "2")
    steps = [line.split("Z ")[1] for line in done.err.splitlines()]
    assert steps == ["calibrating edge-geometric", "finding the worst loss of edge-geometric"]
