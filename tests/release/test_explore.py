"""Errors against epsilon: the plan's own at one, and refusals where a table cannot be had."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from matplotlib.image import imread

import eree
from eree.cells import Cell
from eree.estimate.explore import TIMES, WORKERS
from uses import eree_command

PLAN = """
data = "{data}"

[privacy]
neighbours = "strong"
alpha = "0.1"
epsilon = "2"

[[table]]
name = "jobs"
by = ["county", "sector"]
share = "1/4"

[[table]]
name = "both"
by = ["county"]
marginals = ["sex", "education"]
epsilon = "1"

[[table]]
name = "sizes"
count = "workplaces"
by = []
epsilon = "0.02"

[[table]]
name = "target"
by = ["county"]
target = {{ cells = "0.9", jobs = 100, within = "50" }}
"""


@pytest.fixture(scope="module")
def plan(population: eree.Tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explore") / "plan.toml"
    path.write_text(PLAN.format(data=population.folder), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def found(plan: Path) -> eree.Exploration:
    return eree.explore(plan)


def test_every_table_of_jobs_is_looked_at_at_every_price(found: eree.Exploration) -> None:
    assert found.tables == ["jobs", "both-sex", "both-education"]
    for table in found.tables:
        assert [point.times for point in found.of(table)] == [
            "0.25", "0.375", "0.5", "0.75", "1", "1.5", "2", "3", "4"
        ]  # fmt: skip
    assert len(found.points) == 3 * len(TIMES)


def test_at_its_own_price_a_table_is_what_the_plan_says(
    found: eree.Exploration, plan: Path
) -> None:
    planned = eree.Plan.read(plan)
    for table in found.tables:
        (own,) = (point for point in found.of(table) if point.times == "1")
        made = planned.table(table).measurement
        assert own.epsilon == str(made.price.epsilon) or own.epsilon == "0.5"
        assert own.mechanism == made.mechanism.name
        assert own.error == made.mechanism.total_error(Cell(WORKERS))


def test_errors_fall_as_epsilon_grows_and_what_cannot_be_had_is_said(
    found: eree.Exploration,
) -> None:
    for table in found.tables:
        points = found.of(table)
        errors = [point.error for point in points if point.error is not None]
        assert errors == sorted(errors, reverse=True)
        assert len(errors) >= 7
        for point in points:
            assert (point.error is None) == bool(point.why) == (not point.mechanism)
    assert any("marginals-radial needs epsilon" in point.why for point in found.of("both-sex"))
    assert all(point.error is not None for point in found.of("jobs"))


def test_with_public_sizes_errors_are_shares_of_jobs(plan: Path, tmp_path: Path) -> None:
    sizes = tmp_path / "sizes.csv"
    sizes.write_text("from,to,workplaces,jobs\n0,9,100,300\n10,49,30,600\n50,,5,900\n")
    found = eree.explore(plan, sizes=sizes)
    assert found.shares
    planned = eree.Plan.read(plan)
    ahead = eree.expected_accuracy(planned, sizes=eree.WorkplaceSizes.read(sizes, planned.schema))
    predicted = {table.name: table.predicted for table in ahead.tables}
    for table in found.tables:
        (own,) = (point for point in found.of(table) if point.times == "1")
        assert own.error == getattr(predicted[table], "share", None)


def test_the_command_draws_and_lists(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "errors.png"
    status, shown, _ = eree_command("plan", plan, "--explore", out)
    assert status == 0
    assert "both-education" in shown and "marginals-radial needs epsilon" in shown
    assert imread(out).std() > 0.05
    status, _, said = eree_command("plan", plan, "--explore", out)
    assert status == 2 and "exists already" in said
    status, _, said = eree_command("plan", plan, "--explore", tmp_path / "errors.pdf")
    assert status == 2 and ".png or .svg" in said
    status, shown, _ = eree_command("plan", plan, "--explore", tmp_path / "e.svg", "--json")
    assert status == 0 and len(json.loads(shown)["points"]) == 3 * len(TIMES)
    status, _, said = eree_command("plan", plan, "--explore", out, "--memo", tmp_path / "m.md")
    assert status == 2 and "stands alone" in said


def test_a_plan_of_targets_alone_has_nothing_to_explore(
    population: eree.Tables, tmp_path: Path
) -> None:
    path = tmp_path / "plan.toml"
    head, *tables = PLAN.format(data=population.folder).split("[[table]]")
    path.write_text(f"{head}[[table]]{tables[-1]}", encoding="utf-8")
    with pytest.raises(eree.Refusal, match="no table of jobs of this plan"):
        eree.explore(path)
