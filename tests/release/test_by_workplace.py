"""A row for each workplace, protected by itself: released, checked, and added up to areas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eree
import eree_study
from eree.cells import Cell
from eree.mechanisms.registry import automatic_vector
from uses import PEOPLE, SITES, eree_command, shown, true_sums

pytestmark = pytest.mark.xdist_group("by workplace")  # what most tests look at is made once


@pytest.fixture(scope="module")
def county(tmp_path_factory: pytest.TempPathFactory) -> eree.Tables:
    folder = eree_study.synthesize(tmp_path_factory.mktemp("sites") / "data", jobs=60_000)
    shown(folder)
    return eree.load(folder)


@pytest.fixture(scope="module")
def sites(county: eree.Tables, tmp_path_factory: pytest.TempPathFactory) -> eree.Release:
    plan = eree.Plan.of(
        {
            "data": str(county.folder),
            "privacy": {
                "neighbours": "weak",
                "alpha": "0.1",
                "epsilon": "2",
                "types": ["sex", "education"],
            },
            "table": [
                {"name": "sites", "by": SITES, "epsilon": "1"},
                {"name": "groups", "by": PEOPLE, "epsilon": "1", "mechanism": "knorm-staircase"},
            ],
        }
    )
    out = tmp_path_factory.mktemp("released") / "out"
    return eree.publish(plan, county, ledger=None, out=out, random=eree.SeededRandom(7))


@pytest.fixture(scope="module")
def people(sites: eree.Release) -> eree.Shrunk:
    return eree.shrink(sites, "sites", PEOPLE)


def test_every_workplace_is_a_row_of_its_own(sites: eree.Release, county: eree.Tables) -> None:
    about, rows = sites.about("sites"), sites.table("sites")
    assert about["mechanism"] == "knorm-staircase"
    assert (rows["workplaces"].to_numpy() == 1).all()
    true = true_sums(county, SITES, SITES)
    assert [tuple(row.values()) for row in rows.select(SITES).to_pylist()] == sorted(
        true, key=lambda row: [*row[:4], county_order(county, row[4:])]
    )
    inside = [
        row["low"] <= true[tuple(row[name] for name in SITES)] <= row["high"]
        for row in rows.to_pylist()
    ]
    assert np.mean(inside) > 0.88  # at the level 0.9; each workplace has eight cells


def county_order(county: eree.Tables, values: tuple[Any, ...]) -> list[int]:
    """Worker cells come in the order of their declaration."""
    attributes = (county.schema.attributes[name] for name in ("sex", "education"))
    return [(a.values or ()).index(v) for a, v in zip(attributes, values, strict=True)]


def test_alone_a_workplace_is_protected_by_its_own_counts() -> None:
    """Among others the largest workplace is a part of the count, alone it is all of it."""
    weak = eree.Guarantee(eree.Weak("0.1", ["type"]), 2)
    assert automatic_vector(weak, 4, alone=True)[0].name == "knorm-staircase"
    assert automatic_vector(weak, 4)[0].name == "vector-mixture"


def test_estimates_of_areas_are_nearer_to_the_truth(
    people: eree.Shrunk, county: eree.Tables
) -> None:
    true = true_sums(county, PEOPLE, PEOPLE)
    rows = people.rows.to_pylist()
    counts = np.array([true[tuple(row[name] for name in PEOPLE)] for row in rows])
    noisy = np.array([max(row["noisy"], 0) for row in rows])
    estimates = np.array([row["estimate"] for row in rows])
    assert np.abs(estimates - counts).mean() < 0.85 * np.abs(noisy - counts).mean()
    assert abs(estimates.sum() / counts.sum() - 1) < 0.15  # giants are uncertain at epsilon 1


def test_areas_have_their_sums_intervals_and_workplaces(
    people: eree.Shrunk, sites: eree.Release, county: eree.Tables
) -> None:
    guaranteed = ["guaranteed_low", "guaranteed_high"]
    numbers = ["estimate", "low", "high", "noisy", *guaranteed, "workplaces"]
    assert people.rows.column_names == [*PEOPLE, *numbers]
    totals = eree.area_totals(sites, "sites", PEOPLE)
    assert people.rows.select(["noisy", *guaranteed]).equals(
        totals.rows.select(["noisy", *guaranteed])
    )
    exact = eree.tabulate(county, by=PEOPLE).confidential.to_pylist()
    known = {tuple(row[name] for name in PEOPLE): row["workplaces"] for row in exact}
    rows = people.rows.to_pylist()
    assert all(row["workplaces"] == known[tuple(row[n] for n in PEOPLE)] for row in rows)
    true = true_sums(county, PEOPLE, PEOPLE)
    for low, high, least in (("low", "high", 0.8), (*guaranteed, 0.9)):
        assert all(row[low] <= row["estimate"] <= row[high] for row in rows)
        inside = [row[low] <= true[tuple(row[n] for n in PEOPLE)] <= row[high] for row in rows]
        assert np.mean(inside) > least


@pytest.mark.parametrize("by", [["place"], ["place", "sex"], ["sector", "sex"]])
def test_sums_know_that_cells_of_a_workplace_err_together(
    sites: eree.Release, county: eree.Tables, by: list[str]
) -> None:
    """Errors of all worker cells of a workplace go with its size: apart they would cancel."""
    rows, true = eree.shrink(sites, "sites", by).rows.to_pylist(), true_sums(county, by, by)
    inside = [row["low"] <= true[tuple(row[n] for n in by)] <= row["high"] for row in rows]
    assert np.mean(inside) > 0.7
    narrow = [
        row["high"] - row["low"] < row["guaranteed_high"] - row["guaranteed_low"] for row in rows
    ]
    assert all(narrow)


def test_noisy_sums_of_cells_that_were_drawn_together_have_narrow_intervals_that_hold(
    sites: eree.Release, county: eree.Tables
) -> None:
    exact = eree.tabulate(county, by=["sector"]).confidential.to_pylist()
    jobs = {row["sector"]: row["count"] for row in exact}
    rows = eree.area_totals(sites, "sites", ["sector"], level="0.99").rows.to_pylist()
    wide, narrow = (
        [row[f"{kind}high"] - row[f"{kind}low"] for row in rows] for kind in ("guaranteed_", "")
    )
    held = [row["low"] <= jobs[row["sector"]] <= row["high"] for row in rows]
    assert sum(held) >= len(rows) - 4  # right ones would be fewer once in half a million seeds
    assert all(a <= b for a, b in zip(narrow, wide, strict=True))
    assert sum(narrow) < sum(wide) / 4


def test_areas_without_worker_attributes_count_each_workplace_once(
    sites: eree.Release, county: eree.Tables
) -> None:
    found = eree.shrink(sites, "sites", ["sector"]).rows.to_pylist()
    exact = eree.tabulate(county, by=["sector"]).confidential.to_pylist()
    assert {row["sector"]: row["workplaces"] for row in found} == {
        row["sector"]: row["workplaces"] for row in exact
    }
    jobs = {row["sector"]: row["count"] for row in exact}
    off = [abs(row["estimate"] - jobs[row["sector"]]) for row in found]
    assert sum(off) < 0.25 * sum(jobs.values())


def test_several_workplaces_together_cannot_be_told_apart(sites: eree.Release) -> None:
    with pytest.raises(eree.Refusal, match="several workplaces together in table groups"):
        eree.shrink(sites, "groups")


def test_worker_cells_of_groups_are_not_added_up(county: eree.Tables, tmp_path: Path) -> None:
    plan = eree.Plan.of(
        {
            "data": str(county.folder),
            "privacy": {"neighbours": "strong", "alpha": "0.1", "epsilon": "4"},
            "table": [{"name": "people", "by": PEOPLE, "epsilon": "4"}],
        }
    )
    made = eree.publish(
        plan, county, ledger=None, out=tmp_path / "out", random=eree.SeededRandom(1)
    )
    with pytest.raises(eree.Refusal, match="added up over workplaces, by sex, education as it is"):
        eree.shrink(made, "people", ["place"])


def test_the_command_adds_up_as_the_function_does(
    sites: eree.Release, people: eree.Shrunk, tmp_path: Path
) -> None:
    out = tmp_path / "people.csv"
    by = ",".join(PEOPLE)
    status, printed, _ = eree_command(
        "shrink", sites.folder, "sites", "--by", by, "--out", out, "--json"
    )
    assert status == 0
    assert json.loads(printed)["cells"] == len(people)
    people.write(tmp_path / "same.csv")
    assert out.read_bytes() == (tmp_path / "same.csv").read_bytes()
    status, _, told = eree_command(
        "shrink", sites.folder, "sites", "--by", "race", "--out", tmp_path / "no.csv"
    )
    assert status == 2
    assert "is not counted by 'race'" in told


def test_errors_of_single_workplaces_are_predicted_from_sizes_and_shares(
    county: eree.Tables, tmp_path: Path
) -> None:
    cells = eree.tabulate(county, by=SITES).confidential
    counts = cells["count"].to_numpy().reshape(-1, 8)
    found, number = np.unique(counts.sum(1), return_counts=True)
    sizes = tmp_path / "sizes.csv"
    lines = [f"{size},{size},{many}" for size, many in zip(found, number, strict=True)]
    sizes.write_text("\n".join(["from,to,workplaces", *lines]), encoding="utf-8")
    sexes, levels = cells["sex"].to_pylist()[:8], cells["education"].to_pylist()[:8]
    parts = zip(sexes, levels, counts.sum(0) / counts.sum(), strict=True)
    shares = tmp_path / "shares.csv"
    lines = [f"{sex},{level},{part}" for sex, level, part in parts]
    shares.write_text("\n".join(["sex,education,share", *lines]), encoding="utf-8")
    privacy = {"neighbours": "weak", "alpha": "0.1", "epsilon": "5", "types": ["sex", "education"]}
    alike = {"epsilon": "2", "mechanism": "knorm-staircase"}
    tables = [
        {"name": "sites", "by": SITES, **alike},
        {"name": "all", "by": PEOPLE, **alike},
        {"name": "sizes", "by": ["workplace_id"], "epsilon": "0.5"},
    ]
    plan = eree.Plan.of({"data": str(county.folder), "privacy": privacy, "table": tables})
    ahead = eree.expected_accuracy(
        plan,
        sizes=eree.WorkplaceSizes.read(sizes, plan.schema),
        shares=eree.WorkerShares.read(shares, plan.schema),
    )
    one, several, whole = (table.predicted for table in ahead.tables)
    assert one is not None
    assert several is not None
    assert whole is not None
    assert "grows with the count" in several.words
    made = plan.tables[0].measurement.mechanism
    values, back = np.unique(counts, return_inverse=True)
    errors = np.array([made.mean_error(Cell(int(n), int(n)))[0] for n in values])
    assert one.mean_error == pytest.approx(float(errors[back].mean()), rel=0.1)
    made = plan.tables[2].measurement.mechanism
    assert made.name == "linlog-integer"
    errors = np.array([made.mean_error(Cell(int(n), int(n)))[0] for n in found])
    assert whole.mean_error == pytest.approx(float(np.average(errors, weights=number)), rel=0.1)
