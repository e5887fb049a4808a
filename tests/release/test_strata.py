"""Workplaces sorted by noisy size: large ones protected one by one, small ones together."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest

import eree
import eree_study
from eree.policy.plain_data import guarantee_of
from eree.release.measure import TableMeasure
from eree.release.price import measurement_for
from eree.verification.rows import row_faults
from uses import PEOPLE, SITES, eree_command, shown, true_sums

pytestmark = pytest.mark.xdist_group("strata")  # what most tests look at is made once

CUT = 40


def planned(folder: Path, tables: list[dict[str, Any]]) -> eree.Plan:
    privacy = {"neighbours": "weak", "alpha": "0.1", "epsilon": "5", "types": ["sex", "education"]}
    return eree.Plan.of({"data": str(folder), "privacy": privacy, "table": tables})


def by_stratum(by: list[str], epsilon: str) -> list[dict[str, Any]]:
    """Large workplaces one by one, and small ones together by some attributes."""
    large, small = ({"size_stratum": [name]} for name in (f"{CUT}+", f"0-{CUT - 1}"))
    together = {"name": "small", "by": by, "where": small, "mechanism": "vector-radial"}
    return [
        {"name": "large", "by": SITES, "where": large, "epsilon": epsilon},
        {**together, "epsilon": epsilon},
    ]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Linked tables with strata by noisy size, and the releases `sizes` and `people`."""
    folder = tmp_path_factory.mktemp("strata")
    data = eree_study.synthesize(folder / "data", jobs=60_000)
    shown(data)
    plan = planned(data, [{"name": "sizes", "by": ["workplace_id"], "epsilon": "0.15"}])
    random = eree.SeededRandom(3)
    sizes = eree.publish(plan, eree.load(data), ledger=None, out=folder / "sizes", random=random)
    assert sizes.about("sizes")["mechanism"] == "linlog-integer"
    made = eree.size_strata(sizes, "sizes", [CUT])
    made.write(data / "size_stratum.csv")
    with (data / "schema.toml").open("a", encoding="utf-8") as file:
        file.write(f"\n{made.declaration('size_stratum', 'size_stratum.csv')}\n")
    tables: list[dict[str, Any]] = [
        *by_stratum(PEOPLE, "3.85"),
        {"name": "all", "by": PEOPLE, "mechanism": "vector-radial", "epsilon": "1"},
    ]
    plan = planned(data, tables)
    ledger = eree.Ledger.create(folder / "ledger.db", plan.total, data_set="data")
    eree.publish(plan, eree.load(data), ledger=ledger, out=folder / "people")
    return folder


@pytest.fixture(scope="module")
def people(home: Path) -> eree.Release:
    return eree.Release.open(home / "people")


@pytest.fixture(scope="module")
def both(people: eree.Release) -> eree.Shrunk:
    return eree.shrink(people, ["large", "small"], PEOPLE)


def test_a_stratum_is_where_the_noisy_size_lies(home: Path) -> None:
    rows = eree.Release.open(home / "sizes").table("sizes").to_pylist()
    noisy = {str(row["workplace_id"]): row["noisy"] for row in rows}
    with (home / "data" / "size_stratum.csv").open(encoding="utf-8") as file:
        held = {row["value"]: row["group"] for row in csv.DictReader(file)}
    assert held == {key: f"{CUT}+" if n >= CUT else f"0-{CUT - 1}" for key, n in noisy.items()}


def test_tables_of_two_strata_cost_what_one_does(home: Path, people: eree.Release) -> None:
    """No workplace is in both: 3.85 for either, and 1 for the table of all."""
    assert people.guarantee.epsilon == Fraction("4.85")
    assert eree.verify(people).sound
    rows = [people.table(name) for name in ("large", "small")]
    total = int(rows[0]["workplaces"].to_numpy()[::8].sum())
    total += int(rows[1]["workplaces"].to_numpy()[::8].sum())
    assert total == eree.Release.open(home / "sizes").table("sizes").num_rows


def test_small_workplaces_are_protected_together_and_large_ones_alone(people: eree.Release) -> None:
    assert (people.table("large")["workplaces"].to_numpy() == 1).all()
    assert people.table("small")["workplaces"].to_numpy().max() > 20


def test_estimates_of_both_are_added_up_and_beat_a_row_for_each_workplace(
    home: Path, both: eree.Shrunk
) -> None:
    data = eree.load(home / "data")
    true = true_sums(data, PEOPLE, PEOPLE)
    rows = both.rows.to_pylist()
    assert {tuple(row[n] for n in PEOPLE) for row in rows} == set(true)
    counts = np.array([true[tuple(row[n] for n in PEOPLE)] for row in rows])
    estimates = np.array([row["estimate"] for row in rows])
    sites = planned(home / "data", [{"name": "sites", "by": SITES, "epsilon": "4"}])
    random = eree.SeededRandom(4)
    alone = eree.publish(sites, data, ledger=None, out=home / "sites", random=random)
    one_by_one = eree.shrink(alone, "sites", PEOPLE).rows.to_pylist()
    assert [[row[n] for n in PEOPLE] for row in one_by_one] == [
        [row[n] for n in PEOPLE] for row in rows
    ]
    before = np.abs(np.array([row["estimate"] for row in one_by_one]) - counts).mean()
    assert np.abs(estimates - counts).mean() < 0.95 * before
    assert abs(estimates.sum() / counts.sum() - 1) < 0.06


def test_numbers_of_two_tables_are_added_up_and_intervals_hold(
    home: Path, people: eree.Release, both: eree.Shrunk
) -> None:
    parts = [eree.area_totals(people, name, PEOPLE, level="0.95") for name in ("large", "small")]
    sums: dict[tuple[Any, ...], list[int]] = {}
    for part in parts:
        for row in part.rows.to_pylist():
            so_far = sums.setdefault(tuple(row[n] for n in PEOPLE), [0, 0, 0])
            for i, name in enumerate(("noisy", "guaranteed_low", "guaranteed_high")):
                so_far[i] += row[name]
    data = eree.load(home / "data")
    true = true_sums(data, PEOPLE, PEOPLE)
    exact = eree.tabulate(data, by=PEOPLE).confidential.to_pylist()
    there = {tuple(row[n] for n in PEOPLE): row["workplaces"] for row in exact}
    inside = []
    for row in both.rows.to_pylist():
        key = tuple(row[n] for n in PEOPLE)
        assert [row["noisy"], row["guaranteed_low"], row["guaranteed_high"]] == sums[key]
        assert row["workplaces"] == there[key]
        assert row["guaranteed_low"] <= row["estimate"] <= row["guaranteed_high"]
        assert row["low"] <= row["estimate"] <= row["high"]
        inside.append(row["guaranteed_low"] <= true[key] <= row["guaranteed_high"])
    assert np.mean(inside) > 0.9


def test_tables_that_may_share_workplaces_are_not_added_up(people: eree.Release) -> None:
    with pytest.raises(eree.Refusal, match="large and all may count the same workplaces"):
        eree.shrink(people, ["large", "all"], PEOPLE)
    with pytest.raises(eree.Refusal, match="say by which attributes"):
        eree.shrink(people, ["large", "small"])
    with pytest.raises(eree.Refusal, match="added up over workplaces, by sex, education"):
        eree.shrink(people, ["large", "small"], ["sector", "sex"])
    with pytest.raises(eree.Refusal, match="name a table"):
        eree.shrink(people, [], PEOPLE)


@pytest.mark.parametrize("cuts", [[], [0], [-1], [40, 40], [1.5], [True], ["40"]])
def test_cuts_are_different_sizes(home: Path, cuts: list[Any]) -> None:
    with pytest.raises(eree.Refusal, match="cuts are different integers"):
        eree.size_strata(eree.Release.open(home / "sizes"), "sizes", cuts)


@pytest.mark.parametrize("table", ["large", "small", "all"])
def test_strata_are_made_of_a_row_for_each_workplace(people: eree.Release, table: str) -> None:
    with pytest.raises(eree.Refusal, match="does not have a row for each workplace"):
        eree.size_strata(people, table, [CUT])


def test_every_workplace_needs_a_stratum(home: Path, tmp_path: Path) -> None:
    table = {"name": "some", "by": ["workplace_id"], "where": {"ownership": ["private"]}}
    plan = planned(home / "data", [{**table, "epsilon": "1"}])
    random = eree.SeededRandom(5)
    data = eree.load(home / "data")
    some = eree.publish(plan, data, ledger=None, out=tmp_path / "some", random=random)
    with pytest.raises(eree.Refusal, match="leaves out workplaces"):
        eree.size_strata(some, "some", [CUT])


def test_strata_are_written_outside_the_release(home: Path) -> None:
    sizes = eree.Release.open(home / "sizes")
    with pytest.raises(eree.Refusal, match="no part of a signed release"):
        eree.size_strata(sizes, "sizes", [CUT]).write(sizes.folder / "size_stratum.csv")


def test_a_row_of_another_stratum_is_found(
    home: Path, people: eree.Release, tmp_path: Path
) -> None:
    """That two tables share no workplace is part of the price."""
    schema = people.schema
    about = people.about("large")
    marginal = eree.Marginal.over(schema, about["by"], about["where"])
    price = guarantee_of(about["price"])
    measurement = measurement_for(schema, marginal, price, about["mechanism"], about["settings"])
    measure = TableMeasure(schema, marginal, measurement, 0.9)
    assert not list(row_faults(people.folder / "tables", about, measure))
    rows = people.table("large")
    large = set(rows["workplace_id"].to_pylist())
    small = next(n for n in schema.attributes["size_stratum"].members if n not in large)
    ids = [small if i < 8 else n for i, n in enumerate(rows["workplace_id"].to_pylist())]
    changed = rows.set_column(0, rows.schema.field("workplace_id"), pa.array(ids))
    parquet.write_table(changed, tmp_path / "large.parquet")
    arrow_csv.write_csv(changed, tmp_path / "large.csv")
    assert list(row_faults(tmp_path, about, measure)) == [
        "has values of workplace_id that the record does not declare or keep"
    ]


def test_errors_are_not_predicted_where_the_filter_is_one_by_size(
    home: Path, tmp_path: Path
) -> None:
    where = {"size_stratum": [f"{CUT}+"]}
    plan = planned(home / "data", [{"name": "large", "by": SITES, "where": where, "epsilon": "2"}])
    shares = tmp_path / "shares.csv"
    cells = [
        (sex, level)
        for sex in ("F", "M")
        for level in plan.schema.attributes["education"].values or ()
    ]
    shares.write_text(
        "\n".join(["sex,education,share", *(f"{a},{b},0.125" for a, b in cells)]), encoding="utf-8"
    )
    known = eree.WorkerShares.read(shares, plan.schema)
    for text, said in (
        ("from,to,workplaces\n1,100,1000\n", "not given by size_stratum"),
        ("size_stratum,from,to,workplaces\n0-39,1,39,1000\n40+,40,400,100\n", "predicted"),
    ):
        sizes = tmp_path / "sizes.csv"
        sizes.write_text(text, encoding="utf-8")
        read = eree.WorkplaceSizes.read(sizes, plan.schema)
        (table,) = eree.expected_accuracy(plan, sizes=read, shares=known).tables
        assert table.predicted is not None
        assert said in table.predicted.words


def test_a_table_of_few_groups_joins_with_its_noisy_counts(home: Path, tmp_path: Path) -> None:
    by = ["sector", "sex", "education"]
    plan, data = planned(home / "data", by_stratum(by, "4")), eree.load(home / "data")
    random = eree.SeededRandom(6)
    made = eree.publish(plan, data, ledger=None, out=tmp_path / "out", random=random)
    with pytest.raises(eree.Refusal, match="30 or more"):
        eree.shrink(made, "small")
    true = true_sums(data, by, by)
    for row in eree.shrink(made, ["large", "small"], by).rows.to_pylist():
        assert row["estimate"] == pytest.approx(true[tuple(row[n] for n in by)], rel=0.25, abs=40)


def test_many_strata_have_names_of_their_own(home: Path) -> None:
    made = eree.size_strata(eree.Release.open(home / "sizes"), "sizes", [500, 40])
    assert made.names == ("0-39", "40-499", "500+")
    assert sum(made.counts.values()) == made.rows.num_rows
    assert made.declaration("size stratum", "x.csv") == (
        '[group."size stratum"]\nof = "workplace_id"\nmembers = "x.csv"\ntype = "integer"\n'
        f'provenance = {{ release = "{made.release.identity}",'
        f' digest = "{made.release.record["digest"]}", table = "sizes", cuts = [40, 500] }}'
    )


def test_the_commands_do_as_the_functions_do(home: Path, both: eree.Shrunk, tmp_path: Path) -> None:
    out = tmp_path / "size_stratum.csv"
    arguments = ("strata", home / "sizes", "sizes", "--cut", CUT, "--out", out)
    status, printed, _ = eree_command(*arguments)
    assert status == 0
    assert '[group.size_stratum]\nof = "workplace_id"\nmembers = "size_stratum.csv"' in printed
    assert "drawn from a seeded source" in printed
    assert out.read_bytes() == (home / "data" / "size_stratum.csv").read_bytes()
    by = ",".join(PEOPLE)
    found = tmp_path / "people.csv"
    status, printed, _ = eree_command(
        "shrink", home / "people", "large", "small", "--by", by, "--out", found, "--json"
    )
    assert status == 0
    said = json.loads(printed)
    assert said["cells"] == len(both)
    large, small = {"size_stratum": ["40+"]}, {"size_stratum": ["0-39"]}
    assert said["filters"] == {"large": large, "small": small}
    assert said["where"] == {"size_stratum": ["40+", "0-39"]}
    assert both.filters_in_words == {"large": "size_stratum 40+", "small": "size_stratum 0-39"}
    both.write(tmp_path / "same.csv")
    assert found.read_bytes() == (tmp_path / "same.csv").read_bytes()
