"""Rankings: the ranks that the truth may have, and no others."""

from __future__ import annotations

import csv
import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import eree
from cases import FALSE_ALARM
from eree.estimate.rank import rank_intervals
from selection import EVERYTHING
from uses import Redrawing, eree_command, true_sums

CELLS = ["place", "sector", "ownership"]


def rank_of(numbers: tuple[int, ...], i: int) -> int:
    """By definition: 1 and how many are larger."""
    return 1 + sum(number > numbers[i] for number in numbers)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=5))
def test_the_ranks_are_those_that_some_truth_has(pairs: list[tuple[int, int]]) -> None:
    """Brute force over all numbers inside the intervals."""
    low = np.array([first for first, _ in pairs])
    high = np.array([first + length for first, length in pairs])
    best, worst = rank_intervals(low.astype(float), high.astype(float))
    truths = list(product(*(range(a, b + 1) for a, b in zip(low, high, strict=True))))
    for i in range(len(pairs)):
        ranks = {rank_of(truth, i) for truth in truths}
        assert (min(ranks), max(ranks)) == (best[i], worst[i])


def test_without_a_high_end_an_area_may_be_first() -> None:
    low, high = np.array([5.0, 9.0, 0.0]), np.array([np.inf, 12.0, 1.0])
    best, worst = rank_intervals(low, high)
    assert best.tolist() == [1, 1, 3]
    assert worst.tolist() == [2, 2, 3]


def test_the_largest_come_first_and_ties_share_a_rank(release: eree.Release) -> None:
    found = eree.rank(release, "places", ["place", "sector"])
    rows = found.rows.to_pylist()
    noisy = [row["noisy"] for row in rows]
    assert noisy == sorted(noisy, reverse=True)
    assert len(set(noisy)) < len(noisy)  # there are ties
    assert [row["rank"] for row in rows] == [1 + sum(n > m for n in noisy) for m in noisy]
    assert all(row["best"] <= row["rank"] <= row["worst"] for row in rows)
    assert all(row["best"] <= row["own_best"] <= row["own_worst"] <= row["worst"] for row in rows)
    assert found.rows.column_names == [
        *("rank", "best", "worst", "own_best", "own_worst", "place", "sector"),
        *("noisy", "estimate", "low", "high", "guaranteed_low", "guaranteed_high", "cells"),
    ]


def test_all_true_ranks_are_inside_together_with_the_stated_probability(
    release: eree.Release, population: eree.Tables, tmp_path: Path
) -> None:
    """Of many releases; a right ranking fails less often than once in a million runs."""
    truth = true_sums(population, CELLS, ["place"])
    again = Redrawing(release, population, "places", tmp_path)
    held, number = 0, 240 if EVERYTHING else 80
    for seed in range(number):
        rows = eree.rank(again.drawn(seed), "places", ["place"], level=0.9).rows.to_pylist()
        numbers = tuple(truth[(row["place"],)] for row in rows)
        held += all(
            row["best"] <= rank_of(numbers, i) <= row["worst"]
            and row["low"] <= numbers[i] <= row["high"]
            for i, row in enumerate(rows)
        )
    assert stats.binomtest(held, number, 0.9, alternative="less").pvalue > FALSE_ALARM


# ---------------------------------------------------------------------------------- the command


def test_the_command_shows_ranks_and_writes_all_areas(
    release: eree.Release, tmp_path: Path
) -> None:
    out = tmp_path / "places.csv"
    status, shown, err = eree_command(
        *("rank", release.folder, "places", "--by", "sector,ownership"),
        *("--where", "sector=44-45,62,72", "--top", "2", "--out", out),
    )
    assert (status, err) == (0, "")
    assert max(len(line) for line in shown.splitlines() if ".csv" not in line) <= 80
    assert "Jobs by sector × ownership, sector 44-45, 62, 72" in shown
    assert "62 Health" in shown  # labels of values
    assert "hold together at 0.9 if sizes of workplaces are" in shown
    assert "this release protects nothing" in shown
    found = eree.rank(release, "places", ["sector", "ownership"], {"sector": ["44-45", "62", "72"]})
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["noisy"] for row in rows] == [str(n) for n in found.rows["noisy"].to_pylist()]
    assert f"{len(found) - 2} more areas" in shown


def test_the_filter_of_a_table_is_reported(release: eree.Release, tmp_path: Path) -> None:
    """A table of women is not one of all jobs, whoever asks for what."""
    asked = ("rank", release.folder, "women", "--by", "county")
    status, shown, _ = eree_command(*asked, "--out", tmp_path / "women.csv")
    assert status == 0
    assert shown.splitlines()[0].strip() == "Jobs by county, sex F"
    with (tmp_path / "women.csv").open(encoding="utf-8", newline="") as file:
        assert {row["filter"] for row in csv.DictReader(file)} == {"sex F"}
    status, shown, _ = eree_command(*asked, "--json")
    assert json.loads(shown)["where"] == {"sex": ["F"]}
    county = release.table("women")["county"].to_pylist()[0]
    found = eree.area_totals(release, "women", ["county"], {"county": [county]})
    assert found.where == {"sex": ("F",), "county": (county,)}
    assert found.filter == f"sex F and county {county}"
    assert eree.rank(release, "places", ["place"]).where == {}
    eree.rank(release, "places", ["place"]).write(tmp_path / "all.csv")
    assert "filter" not in (tmp_path / "all.csv").read_text(encoding="utf-8")


def test_of_a_filtered_attribute_what_is_kept_is_what_both_filters_keep(
    population: eree.Tables, tmp_path: Path
) -> None:
    table = {"name": "t", "by": ["sector"], "where": {"sector": ["62", "72"]}, "epsilon": "4"}
    privacy = {"neighbours": "strong", "alpha": "0.1", "epsilon": "4"}
    plan = eree.Plan.of({"data": str(population.folder), "privacy": privacy, "table": [table]})
    random = eree.SeededRandom(1)
    made = eree.publish(plan, population, ledger=None, out=tmp_path / "out", random=random)
    assert eree.rank(made, "t", ["sector"]).where == {"sector": ("62", "72")}
    both = eree.rank(made, "t", ["sector"], {"sector": ["72", "11"]})
    assert both.where == {"sector": ("72",)}
    assert both.rows["sector"].to_pylist() == ["72"]


def test_the_command_gives_one_object(release: eree.Release) -> None:
    status, shown, err = eree_command(
        "rank", release.folder, "places", "--by", "place", "--top", "3", "--json"
    )
    assert (status, err) == (0, "")
    assert json.loads(shown) == eree.rank(release, "places", ["place"]).as_json(3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--by", "shoe"], "table places is not counted by 'shoe'"),
        (["--by", "place", "--level", "2"], "the level must be at least 0.5"),
        (["--by", "place", "--top", "0"], "--top must be an integer, 1 or more"),
        (["--by", "place", "--out", "a.txt"], "'a.txt' is no name for a list of areas"),
        (["--by", "place", "--out", "no/a.csv"], "the folder no does not exist"),
        ([], "Missing option '--by'"),
    ],
)
def test_a_wrong_request_gets_one_sentence(
    release: eree.Release, arguments: list[str], words: str, tmp_path: Path
) -> None:
    status, shown, err = eree_command("rank", release.folder, "places", *arguments, cwd=tmp_path)
    assert (status, shown) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
