"""Releases that are killed: nothing is drawn unpaid, nothing half published, no ledger is lost."""

from __future__ import annotations

from pathlib import Path

from ledgers import place, postgres, where
from release_campaigns import campaign

__all__ = ["place", "postgres", "where"]


def test_a_killed_release_is_paid_or_never_began(where: str, tmp_path: Path) -> None:
    found = campaign(where, tmp_path, 12, 3)
    assert found["draws_without_payment"] == 0
    assert found["faulty_ledgers"] == 0
    assert found["broken_releases"] == 0
    assert found["settled_but_not_released"] == 0
    assert found["reserved"] >= found["released"] >= found["told"]
    assert found["reserved"] > 0
