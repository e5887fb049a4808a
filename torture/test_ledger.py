"""Ledgers under races by the ten thousand, kills by the thousand, and bytes changed one by one."""

from __future__ import annotations

import json
from pathlib import Path

from ledgers import Place, change_bytes, flip_file, is_file, kill, race

OUT = Path(__file__).parents[1] / "build" / "torture"


def write(name: str, **figures: int) -> None:
    """Keep the figures of a campaign."""
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"ledger-{name}.json").write_text(json.dumps(figures) + "\n", encoding="utf-8")


def database(place: Place) -> str:
    return "sqlite" if is_file(place()) else "postgres"


def test_ten_thousand_reservations_never_pass_a_cap(place: Place) -> None:
    """Twenty-five races: what can go wrong does so at the moment when the last cent goes."""
    tried = race(place, races=25, attempts=400, cap=100)
    assert tried == 10_000
    write(f"races-{database(place)}", tried=tried)


def test_no_kill_loses_what_was_told(place: Place) -> None:
    kills = 1_000 if database(place) == "sqlite" else 200
    counted = kill(place, kills, seed=11)
    assert counted["kills"] == kills
    write(f"kills-{database(place)}", **counted)


def test_no_changed_byte_of_a_row_goes_unseen(where: str) -> None:
    change_bytes(where, changes=1_000, seed=11)
    write(f"bytes-{'sqlite' if is_file(where) else 'postgres'}", changes=1_000)


def test_no_changed_byte_of_a_file_goes_unseen(tmp_path: Path) -> None:
    counted = flip_file(tmp_path, flips=5_000, seed=11)
    assert sum(counted.values()) == 5_000
    write("file", **counted)
