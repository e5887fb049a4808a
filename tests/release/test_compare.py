"""Two areas compared: differences and ratios, their intervals, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import eree
from cases import FALSE_ALARM
from uses import Redrawing, true_sums

CELLS = ["place", "sector", "ownership"]


def largest(release: eree.Release, number: int) -> list[str]:
    rows = eree.rank(release, "places", ["place"]).rows
    found: list[str] = rows["place"].to_pylist()[:number]
    return found


def test_a_comparison_is_of_the_estimates(release: eree.Release) -> None:
    rows = eree.area_totals(release, "places", ["place"]).rows.to_pylist()
    known = {row["place"]: row["estimate"] for row in rows}
    one, two = largest(release, 2)
    found = eree.compare(release, "places", {"place": one}, {"place": two})
    again = eree.compare(release, "places", {"place": two}, {"place": one})
    assert found.estimates == (known[one], known[two])
    assert found.difference == pytest.approx(known[one] - known[two])
    assert found.low <= found.difference <= found.high
    assert (again.low, again.high) == (-found.high, -found.low)
    assert found.ratio == pytest.approx(known[one] / known[two])
    assert found.ratio_low is not None
    assert again.ratio_high == pytest.approx(1 / found.ratio_low)
    assert found.as_json()["larger"] == found.larger
    assert (found.larger == 1) == (found.low > 0)


def test_differences_and_ratios_hold_the_truth(
    release: eree.Release, population: eree.Tables, tmp_path: Path
) -> None:
    """Sixty releases; right intervals fail less often than once in a million runs."""
    one, two = largest(release, 2)
    truth = true_sums(population, CELLS, ["place"])
    true = truth[(one,)], truth[(two,)]
    again = Redrawing(release, population, "places", tmp_path)
    held, ratios = [], []
    for seed in range(60):
        found = eree.compare(again.drawn(seed), "places", {"place": one}, {"place": two})
        held.append(found.low <= true[0] - true[1] <= found.high)
        assert found.ratio_low is not None
        assert found.ratio_high is not None
        ratios.append(found.ratio_low <= true[0] / true[1] <= found.ratio_high)
    for each in (held, ratios):
        worst = stats.binomtest(int(np.sum(each)), 60, 0.75, alternative="less")
        assert worst.pvalue > FALSE_ALARM  # for one pair of areas the share is not the level


def test_cells_drawn_at_once_are_compared_too(release: eree.Release) -> None:
    found = eree.compare(release, "sexes", {"sex": "F"}, {"sex": "M"})
    rows = eree.area_totals(release, "sexes", ["sex"]).rows.to_pylist()
    known = {row["sex"]: row["estimate"] for row in rows}
    assert found.difference == pytest.approx(known["F"] - known["M"])
    assert found.low < found.high


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({}, {}, "give both areas by the same attributes"),
        ({"place": "1"}, {"sector": "11"}, "give both areas by the same attributes"),
        ({"sector": "11"}, {"sector": "11"}, "both areas are the same"),
        ({"sector": "72"}, {"sector": "none"}, "has no area sector none"),
        ({"shoe": 1}, {"shoe": 2}, "is not counted by 'shoe'"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    release: eree.Release, first: dict[str, Any], second: dict[str, Any], words: str
) -> None:
    with pytest.raises(eree.Refusal, match=words):
        eree.compare(release, "places", first, second)
