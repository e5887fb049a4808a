"""The page of the long campaigns: it is made of what a run left, and keeps what was not run."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from torture import campaigns_page, figures, marks
from torture.figures import PARTS, Case, Clock

import pages

KILLS = Case(
    "ledger", "no kill loses", "sqlite", {"kills": 1_000, "lost": 0}, True, "2024-05-01", 61.2, 9.6
)
DRAWS = [
    Case("draws", "draws", str(i), {"draws": 10**7, "smallest_p": p}, True, "2024-05-02", 30, 30)
    for i, p in enumerate([0.5, 0.0123, 0.25, 0.125, 0.75])
]
NONE = ",".join(campaigns_page.HEADS) + "\n"
SHARES = {"sqlite": 0.25, "postgres": 0.75}
EMPTY = "".join(f"<!-- {part}:begin -->\n{part}\n<!-- {part}:end -->\n" for part in PARTS)


def test_the_page_has_a_place_for_every_part_that_make_torture_runs() -> None:
    page = campaigns_page.PAGE.read_text(encoding="utf-8")
    parts = {path.stem.removeprefix("test_") for path in (pages.ROOT / "torture").glob("test_*.py")}
    assert set(PARTS) == parts
    for part in PARTS:
        assert marks.shown(page, part) != ""
    makefile = (pages.ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"ONLY={', '.join(PARTS[:-1])} or {PARTS[-1]}" in makefile


def test_a_part_that_was_run_gets_a_new_list_and_the_others_keep_theirs() -> None:
    page = campaigns_page.written(EMPTY, [KILLS])
    assert marks.shown(page, "ledger") == "- no kill loses: 1,000 kills, 0:10\n"
    assert [marks.shown(page, part) for part in PARTS if part != "ledger"] == [
        f"{part}\n" for part in PARTS if part != "ledger"
    ]


def test_a_part_that_failed_keeps_the_list_that_it_had() -> None:
    failed = replace(KILLS, campaign="another", held=False)
    assert campaigns_page.written(EMPTY, [KILLS, failed]) == EMPTY
    assert campaigns_page.kept(NONE, [KILLS, failed]) == NONE


def test_many_cases_are_one_line_with_the_smallest_a_sum_or_a_span() -> None:
    shown = marks.shown(campaigns_page.written(EMPTY, DRAWS), "draws")
    assert shown == "- draws: 0.0123 smallest p, 2:30\n"
    counted = [replace(draw, figures={"lost": 0, "draws": 10**7}) for draw in DRAWS]
    assert campaigns_page.listed(counted) == "- draws: 50,000,000 draws, 2:30\n"
    assert campaigns_page.listed([replace(KILLS, figures={})]) == "- no kill loses: 0:10\n"
    shares = [replace(KILLS, case=name, figures={"share": share}) for name, share in SHARES.items()]
    assert campaigns_page.listed(shares) == "- no kill loses: 0.25 to 0.75 share, 0:19\n"


def test_the_file_has_every_figure_and_keeps_what_was_not_run() -> None:
    grid = campaigns_page.kept(NONE, [KILLS, *DRAWS])
    assert "ledger,no kill loses,sqlite,2024-05-01,61.2,9.6,lost,0\n" in grid
    assert campaigns_page.read(grid) == [*DRAWS, KILLS]  # in the order of the parts
    again = campaigns_page.kept(grid, [replace(KILLS, figures={}, case="")])
    assert "ledger,no kill loses,,2024-05-01,61.2,9.6,,\n" in again
    assert campaigns_page.read(again) == [*DRAWS, replace(KILLS, figures={}, case="")]


def test_the_page_shows_what_the_file_has() -> None:
    page = campaigns_page.PAGE.read_text(encoding="utf-8")
    cases = campaigns_page.read(campaigns_page.GRID.read_text(encoding="utf-8"))
    for part in PARTS:
        made = campaigns_page.listed([case for case in cases if case.part == part])
        assert marks.shown(page, part) == made, part


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="the page has no place for ledger"):
        campaigns_page.written("no marks", [KILLS])


def test_a_case_is_kept_with_its_times_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "OUT", tmp_path / "out")
    clock = Clock()
    sum(range(1_000_000))
    case = replace(KILLS, date="")
    file = clock.stop(case)
    assert file == tmp_path / "out" / "ledger-no-kill-loses-sqlite.json"
    assert figures.read(file) == case
    assert case.wall_seconds < 60
    assert 0 < case.processor_seconds < 60
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", case.date)
