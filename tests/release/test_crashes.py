"""Releases that are killed: nothing is drawn unpaid, nothing half published, no ledger is lost.

`make torture` runs the same campaigns at length.
"""

from __future__ import annotations

from pathlib import Path

from ledgers import Place, place, postgres
from release_campaigns import APPEARED, MAKING, assert_harmless, campaign

__all__ = ["place", "postgres"]


def test_a_killed_release_is_paid_or_never_began(place: Place, tmp_path: Path) -> None:
    found = campaign("anywhere", "release", place, tmp_path, 12, 3)
    assert_harmless(found)
    assert found["kills"] == 12
    assert found[MAKING] > 0
    assert found["draws"] > 0


def test_a_release_killed_before_it_settles_is_whole_and_stays_paid(tmp_path: Path) -> None:
    found = campaign("settling", "release", lambda: str(tmp_path / "ledger.db"), tmp_path, 10, 3)
    assert_harmless(found)
    assert found[APPEARED] == found["settled_afterwards"] == 10
