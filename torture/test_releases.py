"""Releases killed by the thousand, at random moments and before they settle; bytes changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledgers import Place, is_file
from release_campaigns import (
    APPEARED,
    MAKING,
    assert_harmless,
    campaign,
    change_bytes,
    signed_release,
)
from torture.figures import Figures


@pytest.fixture
def files(tmp_path: Path) -> Place:
    """Names a new file for a ledger at every call."""
    names = iter(range(1_000))
    return lambda: str(tmp_path / f"ledger {next(names)}.db")


def test_no_kill_leaves_a_draw_unpaid(place: Place, tmp_path: Path, figures: Figures) -> None:
    kills = 1_000 if is_file(place()) else 200
    figures |= campaign("anywhere", "release", place, tmp_path, kills, 11)
    assert_harmless(figures)
    assert figures["kills"] == kills
    assert figures[MAKING] + figures[APPEARED] >= kills / 3


def test_no_kill_leaves_a_cube_unpaid(files: Place, tmp_path: Path, figures: Figures) -> None:
    figures |= campaign("anywhere", "cube", files, tmp_path, 1_000, 12)
    assert_harmless(figures)
    assert figures["kills"] == 1_000
    assert figures[MAKING] + figures[APPEARED] >= 1_000 / 3


def test_a_release_killed_before_it_settles_is_whole_and_stays_paid(
    place: Place, tmp_path: Path, figures: Figures
) -> None:
    kills = 500 if is_file(place()) else 100
    figures |= campaign("settling", "release", place, tmp_path, kills, 13)
    assert_harmless(figures)
    assert figures[APPEARED] == figures["settled_afterwards"] == kills


def test_a_cube_killed_before_it_settles_is_whole_and_stays_paid(
    files: Place, tmp_path: Path, figures: Figures
) -> None:
    figures |= campaign("settling", "cube", files, tmp_path, 500, 14)
    assert_harmless(figures)
    assert figures[APPEARED] == figures["settled_afterwards"] == 500


@pytest.mark.parametrize("changes", [1_000, None], ids=["random", "all"])
def test_no_changed_byte_goes_unseen(changes: int | None, tmp_path: Path, figures: Figures) -> None:
    """Bytes of random files, so that small files count as much; then every byte of all."""
    release = signed_release(tmp_path)
    size = sum(path.stat().st_size for path in release.rglob("*") if path.is_file())
    figures |= change_bytes(release, 11, changes)
    assert figures["changes"] == (changes or size)
    assert figures["found"] + figures["refused"] == figures["changes"]
    assert (figures["unseen"], figures["believed"]) == (0, 0)
