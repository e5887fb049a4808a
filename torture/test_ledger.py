"""Ledgers under races by the ten thousand, kills by the thousand, and bytes changed one by one."""

from __future__ import annotations

from pathlib import Path

from ledgers import Place, change_bytes, flip_file, is_file, kill, race
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


def test_no_changed_byte_of_a_row_goes_unseen(where: str, figures: Figures) -> None:
    change_bytes(where, changes=1_000, seed=11)
    figures["changes_found"] = 1_000


def test_no_changed_byte_of_a_file_goes_unseen(tmp_path: Path, figures: Figures) -> None:
    figures |= flip_file(tmp_path, flips=5_000, seed=11)
    assert sum(figures.values()) == 5_000
