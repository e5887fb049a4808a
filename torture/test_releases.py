"""Releases killed at random moments by the thousand, and changed byte by byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from release_campaigns import campaign, change_bytes, cube_campaign, signed_release

OUT = Path(__file__).parents[1] / "build" / "torture"


def write(name: str, found: dict[str, int]) -> None:
    """Keep the figures of a campaign."""
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"releases-{name}.json").write_text(json.dumps(found) + "\n", encoding="utf-8")


@pytest.mark.parametrize(("database", "kills"), [("sqlite", 1_000), ("postgres", 200)])
def test_no_kill_leaves_a_draw_unpaid(
    database: str, kills: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    ledger = str(tmp_path / "ledger.db")
    if database == "postgres":
        ledger = request.getfixturevalue("postgres").new_database()
    found = campaign(ledger, tmp_path, kills, 11)
    write(database, found)
    assert found["draws_without_payment"] == 0
    assert found["faulty_ledgers"] == 0
    assert found["broken_releases"] == 0
    assert found["settled_but_not_released"] == 0
    assert found["kills"] == kills


def test_no_kill_leaves_a_cube_unpaid(tmp_path: Path) -> None:
    found = cube_campaign(str(tmp_path / "ledger.db"), tmp_path, 1_000, 12)
    write("cubes", found)
    assert found["draws_without_payment"] == 0
    assert found["faulty_ledgers"] == 0
    assert found["broken_releases"] == 0
    assert found["settled_but_not_released"] == 0


@pytest.mark.parametrize("changes", [1_000, None], ids=["random", "all"])
def test_no_changed_byte_goes_unseen(changes: int | None, tmp_path: Path) -> None:
    """Bytes of random files, so that small files count as much; then every byte of all."""
    release = signed_release(tmp_path)
    size = sum(path.stat().st_size for path in release.rglob("*") if path.is_file())
    found = change_bytes(release, 11, changes)
    write("bytes" if changes else "every-byte", found)
    assert found["changes"] == (changes or size)
    assert found["found"] + found["refused"] == found["changes"]
    assert (found["unseen"], found["believed"]) == (0, 0)
