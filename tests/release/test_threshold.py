"""Thresholds: decided where that is sure, exact at the boundary."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

import eree
from cases import FALSE_ALARM
from eree.estimate.threshold import decide
from eree.policy.neighbours import plain
from uses import Redrawing, eree_command, true_sums

CENT = Fraction(1, 100)


@pytest.mark.parametrize("high", [0, 7, 123_457])
def test_damage_at_the_boundary_is_undecided(high: int) -> None:
    each = Fraction("3.50")
    assert decide(each * high, each, 0, high) == "undecided"
    assert decide(each * high + CENT, each, 0, high) == "above"
    assert decide(each * high + CENT, each, 0, None) == "undecided"
    assert decide(each * high, each, high, high) == "undecided"
    if high:
        assert decide(each * high - CENT, each, high, None) == "below"


def test_a_tenth_of_a_dollar_is_a_tenth(release: eree.Release) -> None:
    """In floating point 0.1 times 3 is above 0.3."""
    rows = eree.area_totals(release, "places", ["place"], simultaneous=True).rows.to_pylist()
    exactly = {row["place"]: plain(Fraction(row["high"], 10)) for row in rows}
    found = eree.threshold(release, "places", ["place"], exactly, "0.1")
    assert set(found.rows["decision"].to_pylist()) == {"undecided"}
    more = {place: plain(Fraction(damage) + CENT) for place, damage in exactly.items()}
    found = eree.threshold(release, "places", ["place"], more, "0.1")
    assert set(found.rows["decision"].to_pylist()) == {"above"}


def test_areas_come_in_the_order_of_their_damage(release: eree.Release) -> None:
    places = eree.area_totals(release, "places", ["place"]).rows["place"].to_pylist()
    given = {places[3]: "100", (places[0],): 2_000_000, places[1]: Decimal("0.5")}
    found = eree.threshold(release, "places", ["place"], given, "3.50")
    assert found.rows.column_names == [
        *("place", "damage", "noisy", "estimate", "low", "high"),
        *("guaranteed_low", "guaranteed_high", "cells", "per_job", "decision"),
    ]
    assert found.rows["place"].to_pylist() == [places[3], places[0], places[1]]
    assert found.rows["damage"].to_pylist() == ["100", "2000000", "0.5"]
    for row in found.rows.to_pylist():
        assert row["per_job"] == pytest.approx(float(row["damage"]) / row["noisy"])
    three = eree.area_totals(
        release, "places", ["place"], {"place": [*places[:2], places[3]]}, simultaneous=True
    )
    assert sorted(found.rows["low"].to_pylist()) == sorted(three.rows["low"].to_pylist())


def test_an_area_whose_noisy_sum_is_not_above_zero_has_no_point(
    release: eree.Release, population: eree.Tables, tmp_path: Path
) -> None:
    again = Redrawing(release, population, "places", tmp_path)
    for seed in range(200):  # a small cell is soon drawn at zero
        redrawn = again.drawn(seed)
        rows = [row for row in redrawn.table("places").to_pylist() if row["noisy"] <= 0]
        if rows:
            break
    key = tuple(rows[0][name] for name in ("place", "sector", "ownership"))
    found = eree.threshold(redrawn, "places", ["place", "sector", "ownership"], {key: "9"}, "1")
    assert found.rows["per_job"].to_pylist() == [None]


def test_decisions_are_true_together_with_the_stated_probability(
    release: eree.Release, population: eree.Tables, tmp_path: Path
) -> None:
    """A right rule fails the test less often than once in a million runs."""
    truth = true_sums(population, ["place", "sector", "ownership"], ["place"])
    again = Redrawing(release, population, "places", tmp_path)
    true, decided = 0, 0
    for seed in range(20):
        redrawn = again.drawn(seed)
        for each, false in (("1.75", "above"), ("3.49", "above"), ("3.51", "below")):
            given = {place: plain(Fraction(each) * jobs) for (place,), jobs in truth.items()}
            found = eree.threshold(redrawn, "places", ["place"], given, "3.50", level=0.8)
            said = found.rows["decision"].to_pylist()
            true += false not in said
            decided += len(said) - said.count("undecided")
    assert decided > 0
    assert stats.binomtest(true, 60, 0.8, alternative="less").pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"damage": {"nowhere": "1"}}, "table places has no area nowhere; leave it out"),
        ({"damage": {("a", "b"): "1"}}, "each damage needs a value of place"),
        ({"damage": {}}, "no area has damage; give at least one its amount"),
        ({"damage": {"1718085": 0.5}}, "the damage of 1718085 must be an exact number"),
        ({"damage": {"1718085": "-1"}}, "the damage of 1718085 must be an exact number"),
        ({"damage": {"1718085": "1e3"}}, "the damage of 1718085 must be an exact number"),
        ({"per_job": "0"}, "the threshold per job must be above 0, such as '3.50'"),
        ({"per_job": 3.5}, "the threshold per job must be an exact number of 0 or more"),
        ({"by": []}, "name the attributes of the areas that have damage"),
        ({"damage": "nowhere.csv"}, "there is no file nowhere.csv"),
    ],
)
def test_what_is_not_exact_or_not_there_is_refused(
    release: eree.Release, asked: dict[str, Any], words: str
) -> None:
    usual = {"table": "places", "by": ["place"], "damage": {"1718085": "1"}, "per_job": "3.50"}
    with pytest.raises(eree.Refusal) as refused:
        eree.threshold(release, **{**usual, **asked})
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must have the columns place, damage, and no others"),
        ("place,harm\n1,2\n", "must have the columns place, damage, and no others"),
        ("place,damage\n", "has no line below its header"),
        ("place,damage\n1718085\n", "line 2 of damage.csv has 1 column, not 2"),
        ("place,damage\n1718085,1\n1718085,2\n", "line 3 of damage.csv gives an area a second"),
        ("place,damage\n1718085,much\n", "line 2 of damage.csv must be an exact number"),
        ("place,damage\n\xff,1\n", "damage.csv cannot be read as CSV in UTF-8"),
    ],
)
def test_a_faulty_file_is_refused_with_its_line(
    release: eree.Release, text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("damage.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(eree.Refusal) as refused:
        eree.threshold(release, "places", ["place"], "damage.csv", "3.50")
    assert words in str(refused.value)


# ---------------------------------------------------------------------------------- the command


def test_damage_for_some_jobs_is_called_so(release: eree.Release, tmp_path: Path) -> None:
    county = release.table("women")["county"].to_pylist()[0]
    damage = tmp_path / "damage.csv"
    damage.write_text(f"county,damage\n{county},100\n", encoding="utf-8")
    asked = ("threshold", release.folder, "women", "--by", "county", "--damage", damage)
    status, shown, _ = eree_command(*asked, "--per-job", "3", "--out", tmp_path / "out.csv")
    assert status == 0
    assert "Damage per job by county, sex F" in " ".join(shown.split())
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()[1].endswith(",sex F")
    status, shown, _ = eree_command(*asked, "--per-job", "3", "--json")
    assert json.loads(shown)["where"] == {"sex": ["F"]}


def test_the_command_decides(release: eree.Release, tmp_path: Path) -> None:
    places = eree.area_totals(release, "places", ["place"]).rows["place"].to_pylist()
    file = tmp_path / "damage.csv"
    file.write_text(f"damage,place\n0,{places[0]}\n\n99000000,{places[1]}\n", encoding="utf-8")
    asked = ["threshold", release.folder, "places", "--by", "place", "--damage", file]
    status, shown, err = eree_command(*asked, "--per-job", "3.50", "--out", tmp_path / "out.csv")
    assert (status, err) == (0, "")
    assert "below" in shown
    assert "above" in shown
    table = [line for line in shown.splitlines() if str(tmp_path) not in line]
    assert max(map(len, table)) <= 80
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").startswith("place,damage,noisy,")
    status, shown, err = eree_command(*asked, "--per-job", "3.50", "--json")
    found = eree.threshold(release, "places", ["place"], file, "3.50")
    assert (status, json.loads(shown), err) == (0, found.as_json(), "")
    assert found.as_json()["threshold"] == "3.5"
    status, shown, err = eree_command(*asked, "--per-job", "a lot")
    assert (status, shown) == (2, "")
    assert "the threshold per job must be an exact number of 0 or more" in err
