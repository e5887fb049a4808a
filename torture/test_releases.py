"""Releases killed at random moments by the thousand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from release_campaigns import campaign

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("database", "kills"), [("sqlite", 1_000), ("postgres", 200)])
def test_no_kill_leaves_a_draw_unpaid(
    database: str, kills: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    ledger = str(tmp_path / "ledger.db")
    if database == "postgres":
        ledger = request.getfixturevalue("postgres").new_database()
    found = campaign(ledger, tmp_path, kills, 11)
    out = ROOT / "build" / "torture"
    out.mkdir(parents=True, exist_ok=True)
    (out / f"releases-{database}.json").write_text(json.dumps(found) + "\n", encoding="utf-8")
    assert found["draws_without_payment"] == 0
    assert found["faulty_ledgers"] == 0
    assert found["broken_releases"] == 0
    assert found["kills"] == kills
