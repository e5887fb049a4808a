"""The page of calibrated intervals: its tables and its picture are made of what a campaign kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torture import intervals_page, marks
from torture.interval_tallies import Held, Tally, by_bounds, enough, fault

FIGURES = ("joint span", "joint sums held", "joint ranks held", "own span", "own coverage")
DECIDED = ("undecided", "a decision wrong")


def stratum(kind: str, label: str, coverage: float = 0.9, pairs: int = 5_000) -> dict[str, Any]:
    return {
        "kind": kind,
        "label": label,
        "pairs": pairs,
        "coverage": coverage,
        "known": 0.91,
        "width": 1.05,
    }


def kept(folder: Path) -> None:
    """Small results of a whole campaign."""
    sums = [stratum("sums", f"by {name}") for name in ("place", "sector", "state")]
    strata = [stratum("cells", "all"), stratum("sector", "62", 0.5), *sums]
    strata.append(stratum("noisy count", "200 to 999"))
    ranks = {
        f"{way}: {figure}": 0.5
        for way in ("calibrated", "scale known")
        for figure in (*FIGURES, *DECIDED)
    }
    found = {"redraws": 7, "strata": strata, "ranks": ranks, "ranked": 3, "guaranteed": 0.97}
    found["single"] = {"sectors": {"62": 0.25}}
    names = [f"{n}-{e}" for n in intervals_page.POPULATIONS for e in intervals_page.EPSILONS]
    shares = [f"share-{share}" for share in intervals_page.SHARES]
    for name in (*names, *shares, *(f"{unlike}-2" for unlike in intervals_page.UNLIKE)):
        (folder / f"{name}.json").write_text(json.dumps(found))
    of_workers = [stratum("cells", "all")]
    of_workers += [stratum("sums", f"by {name}") for name in ("sex and place", "sex and education")]
    for name in intervals_page.POPULATIONS:
        text = json.dumps({"redraws": 7, "strata": of_workers})
        (folder / f"workers-{name}-2.json").write_text(text)


def test_tables_and_picture_are_written_from_what_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(tmp_path)
    page = tmp_path / "intervals.md"
    names = [getattr(intervals_page, name) for name in dir(intervals_page) if name.endswith("MARK")]
    page.write_text("".join(f"<!-- {n}:begin -->\n<!-- {n}:end -->\n" for n in names))
    for name, value in (("RESULTS", tmp_path), ("PAGE", page), ("IMAGES", tmp_path)):
        monkeypatch.setattr(intervals_page, name, value)
    intervals_page.write()
    text = page.read_text()
    assert "| epsilon 1 | 7 | 90.0 (91.0)% · 1.05 |" in marks.shown(text, names[0])
    assert "| 1 of 6 |" in marks.shown(text, names[0])
    assert "50.0 (91.0)% · 1.05 | 25% of redraws | 97.0% |" in marks.shown(text, names[1])
    lines = page.with_suffix(".csv").read_text().splitlines()
    assert "share-0.02,7,noisy count,200 to 999,5000,0.9000,0.9100,1.0500" in lines
    assert "other-4,3,ranks,own span,,0.5000,0.5000," in lines
    assert b"<svg" in (tmp_path / "intervals.svg").read_bytes()


def test_a_tally_counts_what_held_by_stratum() -> None:
    truth = np.array([0, 5, 9])
    held = Held.of(truth, (truth, truth + 1), (truth + 1, truth + 1))
    tally = Tally()
    tally.add("noisy count", *by_bounds(truth, (1, 6), ""), held)
    found = tally.as_json()
    assert [one["label"] for one in found] == ["below 1", "1 to 5", "6 or more"]
    assert [one["coverage"] for one in found] == [1, 1, 1]
    assert [one["known"] for one in found] == [0, 0, 0]
    assert [round(one["width"], 9) for one in found] == [2, 2, 2]


@pytest.mark.parametrize(
    ("kind", "coverage", "missed"),
    [
        ("sector", 0.89, False),
        ("sector", 0.87, True),
        ("sector", 0.95, True),
        ("noisy count", 0.895, False),
        ("noisy count", 0.88, True),
        ("share of the largest", 0.81, False),
        ("share of the largest", 0.79, True),
    ],
)
def test_a_stratum_misses_its_goal(kind: str, coverage: float, missed: bool) -> None:
    assert bool(fault(stratum(kind, "a", coverage))) is missed


def test_few_pairs_are_not_judged_unless_sums_have_many_redraws() -> None:
    assert not enough(stratum("sector", "a", pairs=2_999), 100)
    assert not enough(stratum("sums", "a", pairs=20), 99)
    assert enough(stratum("sums", "a", pairs=20), 100)
