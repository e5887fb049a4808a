"""Ledgers under races by the ten thousand, kills by the thousand, and bytes changed one by one."""

from __future__ import annotations

from pathlib import Path

from ledgers import Place, campaign, change_bytes, flip_file, is_file, kill, race
from torture.figures import Figures


def test_ten_thousand_reservations_never_pass_a_cap(place: Place, figures: Figures) -> None:
    """Twenty-five races: what can go wrong does so at the moment when the last cent goes."""
    figures["reservations_tried"] = race(place, races=25, attempts=400, cap=100)
    assert figures["reservations_tried"] == 10_000


def test_no_kill_loses_what_was_reported(place: Place, figures: Figures) -> None:
    kills = 1_000 if is_file(place()) else 200
    figures |= kill(place, kills, seed=11)
    assert figures["kills"] == kills
    assert figures["between_reservation_and_settling"] >= kills / 3


def test_heads_never_cry_wolf(place: Place, figures: Figures, tmp_path: Path) -> None:
    """Races and kills of a ledger that is compared with its heads at every entry."""
    heads = tmp_path / "heads.jsonl"
    figures["reservations_tried"] = race(place, races=5, attempts=400, cap=100, heads=heads)
    figures |= kill(place, 300 if is_file(place()) else 60, seed=13, heads=heads)
    assert figures["lost"] == figures["faults"] == 0


def test_no_race_by_two_names_overspends(tmp_path: Path, figures: Figures) -> None:
    """A file with a second name by a hard link: nobody writes, by either name."""
    for i in range(25):
        found = campaign("links", tmp_path / f"{i}.db", 100)
        assert (found["granted"], found["refused"], found["failed"]) == (0, 200, 0)
        assert (found["entries"], found["faults"]) == (3, [])
    figures["reservations_refused"] = 25 * 200


def test_no_changed_byte_of_a_row_goes_unseen(where: str, figures: Figures) -> None:
    change_bytes(where, changes=1_000, seed=11)
    figures["changes_found"] = 1_000


def test_no_changed_byte_of_a_file_goes_unseen(tmp_path: Path, figures: Figures) -> None:
    figures |= flip_file(tmp_path, flips=5_000, seed=11)
    assert sum(figures.values()) == 5_000
