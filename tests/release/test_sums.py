"""Sums of released cells: what they add up, what their intervals are, and what is refused."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import eree
from cases import FALSE_ALARM
from eree.estimate.sum_bounds import summed
from eree.estimate.totals import Areas
from eree.mechanisms.intervals import UNBOUNDED
from uses import Redrawing, true_sums

CELLS = ["place", "sector", "ownership"]


def test_noisy_counts_are_added_up(release: eree.Release) -> None:
    sums: dict[str, int] = defaultdict(int)
    cells: dict[str, int] = defaultdict(int)
    for row in release.table("places").to_pylist():
        sums[row["place"]] += row["noisy"]
        cells[row["place"]] += 1
    found = eree.area_totals(release, "places", ["place"])
    assert found.rows.column_names == [
        *("place", "noisy", "estimate", "low", "high"),
        *("guaranteed_low", "guaranteed_high", "cells"),
    ]
    assert found.rows["place"].to_pylist() == sorted(sums)
    assert dict(zip(sorted(sums), found.rows["noisy"].to_pylist(), strict=True)) == sums
    assert dict(zip(sorted(sums), found.rows["cells"].to_pylist(), strict=True)) == cells
    assert (found.level, found.simultaneous, found.private) == (0.9, False, False)
    assert len(found) == len(sums)


def test_without_areas_the_total_comes_out(release: eree.Release) -> None:
    found = eree.area_totals(release, "places", []).rows.to_pylist()
    rows = release.table("places")
    assert len(found) == 1
    assert found[0]["noisy"] == sum(rows["noisy"].to_pylist())
    assert found[0]["cells"] == rows.num_rows


def test_a_filter_keeps_values(release: eree.Release) -> None:
    kept = {"sector": ["72", "44-45"], "ownership": "private"}
    found = eree.area_totals(release, "places", ["place"], kept)
    rows = [
        row
        for row in release.table("places").to_pylist()
        if row["sector"] in ("72", "44-45") and row["ownership"] == "private"
    ]
    assert sum(found.rows["cells"].to_pylist()) == len(rows)
    assert sum(found.rows["noisy"].to_pylist()) == sum(row["noisy"] for row in rows)
    texts = ["sector=72,44-45", "ownership=private"]
    assert eree.area_totals(release, "places", "place", texts).rows.equals(found.rows)
    one = eree.area_totals(release, "places", "place", "sector=72")
    assert one.where == {"sector": ("72",)}


def test_a_cell_alone_has_the_interval_that_was_released(release: eree.Release) -> None:
    for table in ("places", "totals", "bent", "sexes", "ages"):
        rows = release.table(table)
        by = list(release.about(table)["by"])
        found = eree.area_totals(release, table, by).rows
        said = rows.sort_by([(name, "ascending") for name in by])
        for name in (*by, "noisy"):
            assert found[name].to_pylist() == said[name].to_pylist(), (table, name)
        low, high = Areas.read(release, table, by).own_ends(1 - 0.9)
        assert low.tolist() == said["low"].to_pylist()
        assert [None if end == UNBOUNDED else end for end in high.tolist()] == said[
            "high"
        ].to_pylist()
        if table in ("places", "totals", "bent"):  # no other table bounds these
            assert found["guaranteed_low"].to_pylist() == said["low"].to_pylist()


def test_sums_of_published_tables_hold_the_truth(
    release: eree.Release, population: eree.Tables, tmp_path: Path
) -> None:
    """Forty releases; a right interval fails the test less often than once in a million runs."""
    truth = true_sums(population, CELLS, ["place"])
    again = Redrawing(release, population, "places", tmp_path)
    held = []
    for seed in range(40):
        rows = eree.area_totals(
            again.drawn(seed), "places", ["place"], level="0.8"
        ).rows.to_pylist()
        held += [
            row["guaranteed_low"] <= truth[(row["place"],)] <= row["guaranteed_high"]
            for row in rows
        ]
    assert stats.binomtest(sum(held), len(held), 0.8, alternative="less").pvalue > FALSE_ALARM


def test_intervals_that_hold_together_are_wider(release: eree.Release) -> None:
    each = eree.area_totals(release, "places", ["place"])
    all_ = eree.area_totals(release, "places", ["place"], simultaneous=True)
    one = eree.area_totals(release, "places", ["place"], level=1 - 0.1 / len(each))
    assert all_.simultaneous
    for kind in ("", "guaranteed_"):
        assert (np.array(all_.rows[f"{kind}low"]) <= np.array(each.rows[f"{kind}low"])).all()
        assert (np.array(all_.rows[f"{kind}high"]) >= np.array(each.rows[f"{kind}high"])).all()
    for end in ("guaranteed_low", "guaranteed_high"):
        assert all_.rows[end].equals(one.rows[end])


@pytest.mark.parametrize(("table", "by"), [("bent", ["county"]), ("ages", ["age"])])
def test_where_noise_does_not_cancel_the_ends_of_cells_are_added_up(
    release: eree.Release, table: str, by: list[str]
) -> None:
    areas = Areas.read(release, table, by)
    found = eree.area_totals(release, table, by).rows.to_pylist()
    rows, own = release.table(table), areas.own_ends(1 - 0.9)
    for row, least, most in zip(found, *(side.tolist() for side in own), strict=True):
        share = 2 ** int(np.ceil(np.log2(row["cells"])))
        level = 1 - 0.1 / share
        ends = areas.measurement.intervals(areas.schema, areas.counted, level)
        low, high = ends({"noisy": rows["noisy"].to_numpy()})
        inside = np.array([value == row[by[0]] for value in rows[by[0]].to_pylist()])
        assert least == low[inside].sum()
        assert most == (UNBOUNDED if UNBOUNDED in high[inside] else high[inside].sum())


def test_counts_that_leave_large_workplaces_out_have_no_high_end(
    population: eree.Tables, tmp_path: Path
) -> None:
    plan = eree.Plan.of(
        {
            "data": str(population.folder),
            "privacy": {"neighbours": "node", "epsilon": "1"},
            "table": [
                {
                    "name": "small",
                    "by": ["place", "sector"],
                    "epsilon": "1",
                    "mechanism": "truncated-laplace",
                    "parameters": {"theta": 50},
                }
            ],
        }
    )
    made = eree.publish(
        plan, population, ledger=None, out=tmp_path / "out", random=eree.SeededRandom(3)
    )
    rows = eree.area_totals(made, "small", ["place"]).rows
    assert rows["high"].null_count == rows.num_rows
    truth = true_sums(population, ["place", "sector"], ["place"])
    assert all(row["low"] <= truth[(row["place"],)] for row in rows.to_pylist())


def test_nothing_of_its_own_bounds_a_table_behind_a_worker_filter(release: eree.Release) -> None:
    rows = eree.area_totals(release, "women", ["county"]).rows
    assert rows["guaranteed_low"].to_pylist() == [0] * rows.num_rows
    low, high = Areas.read(release, "women", ["county"]).own_ends(0.1)
    assert (low == 0).all()
    assert (high == UNBOUNDED).all()
    assert rows["guaranteed_high"].null_count == 0  # the table of all jobs does
    assert rows["high"].null_count == 0  # the sizes of workplaces do


# ------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"table": "nothing"}, "the release has no table 'nothing'; it has places, tracts"),
        ({"by": ["shoe"]}, "table places is not counted by 'shoe'; it is by place, sector, owner"),
        ({"by": ["tract"]}, "table places is not counted by 'tract'"),
        ({"by": ["place", "place"]}, "by names an attribute twice"),
        ({"where": {"tract": ["1"]}}, "table places is not counted by 'tract'"),
        ({"where": ["tract=1"]}, "table places is not counted by 'tract'"),
        ({"where": ["place"]}, "'place' is not a filter"),
        ({"where": {"sector": ["99"]}}, "'99' is not a declared value of sector"),
        ({"where": {"place": ["nowhere"]}}, "table places has no row that the filter keeps"),
        ({"level": 1}, "the level must be at least 0.5 and below 1"),
        ({"level": "high"}, "the level must be at least 0.5 and below 1"),
        ({"level": "1e999999999"}, "the level must be at least 0.5 and below 1"),
        ({"level": Fraction(1, 3)}, "the level must be at least 0.5 and below 1"),
    ],
)
def test_what_cannot_be_added_up_is_refused(
    release: eree.Release, asked: dict[str, Any], words: str
) -> None:
    with pytest.raises(eree.Refusal) as refused:
        eree.area_totals(release, **{"table": "places", "by": ["place"], **asked})
    assert words in str(refused.value)
    assert not str(refused.value).endswith(".")


def test_a_mechanism_of_another_version_is_refused(release: eree.Release) -> None:
    tables = [
        about | {"parameters": {"power": "20", "slope": "1/10"}} if i == 0 else about
        for i, about in enumerate(release.record["tables"])
    ]
    other = replace(release, record={**release.record, "tables": tables, "eree": "9.9"})
    with pytest.raises(eree.Refusal, match=r"made by eree 9\.9, whose leaning-staircase has other"):
        eree.area_totals(other, "places", ["place"])


@pytest.mark.parametrize("listed", [None, {}, "places", [{}], [None], [{"name": "a"}, 1]])
def test_a_record_whose_tables_have_no_names_is_refused(
    release: eree.Release, listed: object
) -> None:
    nameless = eree.Release(release.folder, {**release.record, "tables": listed})
    for use in (
        lambda: nameless.tables,
        lambda: nameless.table("places"),
        lambda: eree.area_totals(nameless, "places", ["sector"]),
        lambda: eree.shrink(nameless, ["places", "tracts"], ["sector"]),
    ):
        with pytest.raises(eree.Unreadable, match=r"is damaged \(tables.*; run 'eree verify'"):
            use()


def test_a_record_that_says_nothing_is_refused(release: eree.Release) -> None:
    other = replace(release, record={**release.record, "attributes": {}})
    with pytest.raises(eree.Refusal, match=r"is damaged \(members is not what"):
        eree.area_totals(other, "places", ["place"])


def test_sums_beyond_all_counts_do_not_go_round() -> None:
    """Four noisy counts may each be 2^61, and the ends of thousands of cells 2^50 each."""
    values = np.array([1 << 61] * 5 + [-(1 << 61)] * 7 + [3, -5], dtype=np.int64)
    found = summed(values, np.array([0, 5, 12]))
    assert found.tolist() == [1 << 61, -(1 << 61), -2]
    many = np.full(20_000, 1 << 50, dtype=np.int64)
    assert summed(many, np.array([0, 10])).tolist() == [10 << 50, 1 << 61]
