"""Heads that are kept elsewhere: a ledger that was rolled back is found, and no other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eree
import pages
from disks import OBEDIENT, full, small_disk
from eree.budget import heads
from eree.budget.heads import Head, Heads
from eree.budget.stores import View
from eree.errors import Refusal
from ledgers import (
    DIGEST,
    Place,
    campaign,
    is_file,
    kill,
    long,
    made,
    price,
    rows,
    spend,
    spoil,
)

__all__ = ["small_disk"]

FORGOTTEN = (
    r"knows entry \d+ of this ledger, and the ledger does not: entries were lost, or an older"
)
SILENT = "which says nothing of this ledger, so nothing is spent"


def roll_back(where: str, last: int) -> None:
    """Put an older copy of a ledger back."""
    spoil(where, f"DELETE FROM eree_ledger WHERE number > {last}")


def lines(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in place.read_text().splitlines()]


def found(ledger: eree.Ledger) -> str:
    """What `verify` says of heads, and of nothing else."""
    (fault,) = ledger.verify()
    assert fault.column == "heads"
    return fault.rule


def release(folder: Path, name: str, paid: eree.Reservation) -> Path:
    """The part of a release's record that is a head."""
    home = folder / name
    home.mkdir(parents=True)
    reported = {"id": paid.ledger, "entry": paid.number, "hash": paid.hash}
    (home / "release.json").write_text(json.dumps({"release": name, "ledger": reported}))
    return home


# ------------------------------------------------------------------------------------ rolled back


def test_every_entry_has_a_head(where: str, tmp_path: Path) -> None:
    place = tmp_path / "heads.jsonl"
    ledger = made(where, heads=place)
    reserved = [spend(ledger, "1/10") for _ in range(2)]
    ledger.settle(reserved[0], DIGEST)
    ledger.close(reserved[1].number)
    entries = ledger.entries()
    assert entries[-1].then.heads == str(place)
    assert lines(place) == [
        {"ledger": ledger.identity, "entry": entry.number, "hash": entry.hash} for entry in entries
    ]
    assert ledger.verify() == ()


@pytest.mark.parametrize("last", [2, 3, 4, 5])
def test_a_ledger_that_was_rolled_back_is_found(where: str, tmp_path: Path, last: int) -> None:
    ledger = made(where, heads=tmp_path / "heads")
    reserved = [spend(ledger, "1/10") for _ in range(4)]
    roll_back(where, last)
    before = rows(where)
    for use in (
        lambda: spend(ledger, "1/10"),
        lambda: ledger.settle(reserved[0], DIGEST),
        lambda: ledger.close(reserved[0].number),
        lambda: ledger.keep_heads(tmp_path / "new"),
        lambda: ledger.keep_heads(tmp_path / "heads"),
    ):
        with pytest.raises(Refusal, match=FORGOTTEN):
            use()
    assert rows(where) == before
    assert "knows entry" in found(ledger)


def test_an_older_file_put_back_is_found_and_the_whole_one_goes_on(tmp_path: Path) -> None:
    where, old = tmp_path / "ledger.db", tmp_path / "old.db"
    ledger = made(str(where), heads=tmp_path / "heads")
    spend(ledger, "1/10")
    shutil.copy(where, old)
    spend(ledger, "1/10")
    whole = tmp_path / "whole.db"
    where.rename(whole)
    shutil.copy(old, where)
    with pytest.raises(Refusal, match=FORGOTTEN):
        spend(eree.Ledger.open(where), "1/10")
    shutil.copy(whole, where)
    assert spend(eree.Ledger.open(where), "1/10").number == 5


def test_entries_that_took_the_place_of_lost_ones_are_found(where: str, tmp_path: Path) -> None:
    place = tmp_path / "heads"
    ledger = made(where, heads=place)
    for _ in range(3):
        spend(ledger, "1/10", "a")
    kept = place.read_bytes()
    roll_back(where, 3)
    place.write_bytes(kept[: kept.index(b'"entry": 4')].rpartition(b"\n")[0] + b"\n")
    for _ in range(5):
        spend(ledger, "1/10", "b")
    place.write_bytes(kept)
    with pytest.raises(Refusal, match="knows entry 4 of this ledger"):
        spend(ledger, "1/10")
    assert "knows entry 4" in found(ledger)


def test_verify_looks_at_every_head_and_spending_at_the_last(where: str, tmp_path: Path) -> None:
    place = tmp_path / "heads"
    ledger = made(where, "100", heads=place)
    for _ in range(60):
        spend(ledger, "1/10")
    old = place.read_text().splitlines()
    old[4] = old[4].replace('"hash": "', '"hash": "f')
    place.write_text("\n".join(old) + "\n")
    spend(ledger, "1/10")
    assert "knows entry 5" in found(ledger)


# --------------------------------------------------------------------------- a folder of releases


def test_releases_are_heads_too(where: str, tmp_path: Path) -> None:
    folder = tmp_path / "releases"
    folder.mkdir()
    ledger = made(where, heads=folder)
    assert ledger.entries()[-1].then.heads == f"{folder}/"
    paid = [spend(ledger, "1/10") for _ in range(2)]
    home = release(folder, "first", paid[0])
    ledger.settle(paid[0], DIGEST)
    release(folder, "second", paid[1])
    (folder / "letter.txt").write_text("Dear Sir")
    (folder / "empty").mkdir()
    other = made(f"{where}2" if is_file(where) else str(tmp_path / "other.db"))
    release(folder, "of another ledger", spend(other, "1/10"))
    spend(ledger, "1/10")
    assert ledger.verify() == ()
    roll_back(where, 3)
    with pytest.raises(Refusal, match="knows entry 4 of this ledger"):
        spend(ledger, "1/10")
    assert "knows entry 4" in found(ledger)
    assert home.is_dir()


def test_a_folder_without_any_release_is_believed_only_before_the_first(
    where: str, tmp_path: Path
) -> None:
    folder = tmp_path / "releases"
    folder.mkdir()
    ledger = made(where, heads=folder)
    paid = spend(ledger, "1/10")
    home = release(folder, "first", paid)
    ledger.settle(paid, DIGEST)
    shutil.rmtree(home)  # or the disk of the releases is not mounted
    with pytest.raises(Refusal, match=SILENT):
        spend(ledger, "1/10")
    assert SILENT in found(ledger)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with pytest.raises(Refusal, match=SILENT):
        ledger.keep_heads(elsewhere)
    release(elsewhere, "first", paid)
    ledger.keep_heads(elsewhere)
    spend(ledger, "1/10")


# ---------------------------------------------------------------------------------------- moving


def test_a_copy_from_before_the_heads_moved_is_found(where: str, tmp_path: Path) -> None:
    """It compares with the old place, which knows of the move."""
    ledger = made(where, heads=tmp_path / "old")
    spend(ledger, "1/10")
    ledger.keep_heads(tmp_path / "new")
    assert lines(tmp_path / "old")[-1]["entry"] == lines(tmp_path / "new")[-1]["entry"] == 4
    spend(ledger, "1/10")
    assert lines(tmp_path / "old")[-1]["entry"] == 4
    assert ledger.verify() == ()
    roll_back(where, 3)
    with pytest.raises(Refusal, match="old knows entry 4"):
        spend(ledger, "1/10")


def test_a_lost_place_is_replaced_by_one_that_knows_the_ledger(where: str, tmp_path: Path) -> None:
    place, copy = tmp_path / "heads", tmp_path / "copy"
    ledger = made(where, heads=place)
    paid = spend(ledger, "1/10")
    shutil.copy(place, copy)
    place.unlink()
    with pytest.raises(Refusal, match=SILENT):
        ledger.keep_heads(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    ledger.keep_heads(copy)
    copy.unlink()
    release(tmp_path / "releases", "first", paid)
    ledger.keep_heads(tmp_path / "releases")
    ledger.keep_heads(tmp_path / "new")
    spend(ledger, "1/10")
    assert ledger.verify() == ()


def test_an_older_copy_of_both_is_found_by_the_place_that_it_leaves(
    where: str, tmp_path: Path
) -> None:
    """A copy of the heads is as old as that of the ledger, and agrees with it."""
    place, copy = tmp_path / "heads", tmp_path / "copy"
    ledger = made(where, heads=place)
    paid = spend(ledger, "1/10")
    shutil.copy(place, copy)
    release(tmp_path / "releases", "first", paid)
    spend(ledger, "1")
    roll_back(where, paid.number)
    for other in (copy, tmp_path / "releases"):
        with pytest.raises(Refusal, match="heads knows entry 4"):
            ledger.keep_heads(other)
    assert [row[1] for row in rows(where)] == ["create", "heads", "reserve"]


def test_ledgers_may_share_a_file(place: Place, tmp_path: Path) -> None:
    shared = tmp_path / "heads"
    quiet, busy = made(place(), heads=shared), made(place(), "100", heads=shared)
    kept = shared.stat().st_size
    while shared.stat().st_size < kept + 2 * heads._TAIL_BYTES:
        spend(busy, "1/10")
    spend(quiet, "1/10")
    assert quiet.verify() == busy.verify() == ()


def test_a_ledger_from_before_it_had_heads_is_found_when_they_are_named_again(
    where: str, tmp_path: Path
) -> None:
    ledger = made(where)
    spend(ledger, "1/10")
    ledger.keep_heads(tmp_path / "heads")
    roll_back(where, 2)
    assert ledger.verify() == ()  # it names no place
    with pytest.raises(Refusal, match=FORGOTTEN):
        ledger.keep_heads(tmp_path / "heads")


# ------------------------------------------------------------------------------ places of all kinds


def removed(place: Path) -> None:
    place.unlink()


def emptied(place: Path) -> None:
    place.write_bytes(b"")


def a_pipe(place: Path) -> None:
    place.unlink()
    os.mkfifo(place)


def a_folder(place: Path) -> None:
    place.unlink()
    place.mkdir()


def a_loop(place: Path) -> None:
    place.unlink()
    place.symlink_to(place)


def garbage(place: Path) -> None:
    place.write_bytes(bytes(range(256)) * 40)


def brackets(place: Path) -> None:
    place.write_bytes(b"[" * 100_000)


@pytest.mark.parametrize("spoiled", [removed, emptied, a_pipe, a_folder, a_loop, garbage, brackets])
def test_a_place_that_knows_nothing_stops_spending_at_once(
    where: str, tmp_path: Path, spoiled: Callable[[Path], None]
) -> None:
    place = tmp_path / "heads"
    ledger = made(where, heads=place)
    spend(ledger, "1/10")
    spoiled(place)
    words = rf"^heads of the ledger are kept in {place}, which (cannot be read|says nothing of)"
    with pytest.raises(Refusal, match=words) as refused:
        spend(ledger, "1/10")
    assert "\n" not in str(refused.value)
    assert len(rows(where)) == 3
    assert found(ledger) == str(refused.value)


@pytest.mark.parametrize("cut", [1, 20, 80])
def test_a_line_that_was_cut_off_is_passed_over_and_the_next_is_whole(
    where: str, tmp_path: Path, cut: int
) -> None:
    place = tmp_path / "heads"
    ledger = made(where, heads=place)
    spend(ledger, "1/10")
    place.write_bytes(place.read_bytes()[:-cut])
    spend(ledger, "1/10")
    assert json.loads(place.read_bytes().splitlines()[-1])["entry"] == 4
    assert ledger.verify() == ()
    roll_back(where, 3)
    with pytest.raises(Refusal, match="knows entry 4"):
        spend(ledger, "1/10")


@given(st.lists(st.binary(max_size=30), max_size=5), st.integers(0, 400))
def test_whatever_a_file_holds_is_read_without_a_word(junk: list[bytes], cut: int) -> None:
    with TemporaryDirectory() as folder:
        place = Path(folder) / "heads"
        kept = Heads(place, folder=False)
        kept.keep(Head("a", 7, DIGEST), first=True)
        with place.open("ab") as file:
            file.write(b"\n".join(junk)[:cut])
        kept.keep(Head("a", 8, DIGEST))
        assert kept.of("a", whole=True)[0] == Head("a", 7, DIGEST)
        assert kept.of("a")[-1] == Head("a", 8, DIGEST)


@pytest.mark.parametrize("number", ["-1", "0", "9" * 30, "2.0", '"2"', "true", "null"])
def test_a_number_that_no_entry_has_is_no_accident(where: str, tmp_path: Path, number: str) -> None:
    place = tmp_path / "heads"
    ledger = made(where, heads=place)
    with place.open("a") as file:
        file.write(f'{{"ledger": "{ledger.identity}", "entry": {number}, "hash": "{DIGEST}"}}\n')
    if number.strip("-").isdigit():
        with pytest.raises(Refusal, match=f"knows entry {number} of this ledger"):
            spend(ledger, "1/10")
    else:
        spend(ledger, "1/10")  # it is no head at all


@pytest.mark.parametrize("kind", ["letter", "ledger", "pipe", "loop", "nowhere", "a\nb", "a\0b"])
def test_heads_are_kept_in_no_other_file(where: str, tmp_path: Path, kind: str) -> None:
    place = tmp_path / kind
    if kind == "letter":
        place.write_text("Dear Sir or Madam\n")
    elif kind == "ledger":
        made(str(place))
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "loop":
        place.symlink_to(place)
    elif kind == "nowhere":
        place = place / "heads"
    content = place.read_bytes() if kind in ("letter", "ledger") else b""
    with pytest.raises(Refusal):
        made(where, heads=place)
    with pytest.raises(Refusal, match="no ledger"):
        eree.Ledger.open(where)  # it was refused before anything was made
    ledger = made(where)
    with pytest.raises(Refusal):
        ledger.keep_heads(place)
    assert len(ledger.entries()) == 1
    if content:
        assert place.read_bytes() == content
    spend(ledger, "1/10")


def test_a_place_that_may_not_be_written_is_refused_before_anything_is_spent(
    tmp_path: Path,
) -> None:
    where, place = tmp_path / "ledger.db", tmp_path / "heads"
    made(str(where), heads=place)
    place.chmod(0o444)
    assert OBEDIENT or os.geteuid() != 0
    code = (
        "import eree, ledgers\n"
        f"ledger = eree.Ledger.open({str(where)!r})\n"
        "try:\n    ledgers.spend(ledger, '1/10')\n"
        "except eree.Refusal as refusal:\n    print(refusal)\n"
    )
    surroundings = pages.environment()
    tests = str(Path(__file__).parents[1])
    surroundings["PYTHONPATH"] = os.pathsep.join([tests, surroundings.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*OBEDIENT, sys.executable, "-c", code], env=surroundings, capture_output=True, text=True
    )
    assert "which cannot be written, so nothing is spent" in done.stdout
    assert len(rows(str(where))) == 2


def test_a_head_that_finds_no_room_is_reported_with_what_was_spent(small_disk: Path) -> None:
    where, place = small_disk.parent / "ledger.db", small_disk / "heads"
    ledger = made(str(where), heads=place)
    place.write_bytes(place.read_bytes().ljust(4096 * 4, b"\n"))
    paid = spend(ledger, "1/10")
    place.write_bytes(place.read_bytes().ljust(4096 * 6, b"\n"))
    with full(small_disk, place.stat().st_size):
        with pytest.raises(Refusal) as refused:
            spend(ledger, "1/10")
        assert str(refused.value) == (
            f"entry 4 is in the ledger and counts, but its head cannot be written to {place}; see"
            " that there is room and that it may be written, before anything is spent"
        )
        ledger.settle(paid, DIGEST)  # its price has its head
    assert ledger.spent() == price("2/10")
    assert ledger.verify() == ()
    spend(ledger, "1/10")
    assert lines_without_blanks(place)[-1]["entry"] == 6
    assert ledger.verify() == ()


def lines_without_blanks(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in place.read_text().splitlines() if line.strip()]


# -------------------------------------------------------------------------------- crashes and races


@pytest.mark.parametrize("at", ["first", "later"])
def test_a_crash_between_an_entry_and_its_head_is_no_rollback(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    place = tmp_path / "heads"
    ledger = made(where, heads=tmp_path / "older")
    keep = Heads.keep

    def crash(kept: Heads, head: Head, *, first: bool = False) -> None:
        if not first:
            raise KeyboardInterrupt
        keep(kept, head, first=first)

    if at == "later":
        ledger.keep_heads(place)
    count = len(rows(where))
    with monkeypatch.context() as patched:
        patched.setattr(Heads, "keep", crash)
        with pytest.raises(KeyboardInterrupt):
            ledger.keep_heads(place) if at == "first" else spend(ledger, "1/10")
    assert len(rows(where)) == count + 1
    assert ledger.verify() == ()
    spend(ledger, "1/10")
    assert ledger.verify() == ()


def test_no_kill_at_any_moment_makes_heads_cry_wolf(place: Place, tmp_path: Path) -> None:
    kills = 8 if place().startswith("postgresql:") else 25
    assert kill(place, kills, seed=5, heads=tmp_path / "heads")["kills"] == kills


def test_eight_processes_race_and_every_head_is_right(where: str, tmp_path: Path) -> None:
    kept = tmp_path / "heads"
    found = campaign("race", where, 8, 160, 60, kept)
    assert (found["granted"], found["as_told"], found["faults"]) == (60, True, [])
    entries = {entry.number: entry.hash for entry in eree.Ledger.open(where).entries()}
    written = {line["entry"]: line["hash"] for line in lines(kept)}
    assert written == entries


def test_who_verifies_while_others_spend_sees_no_rollback(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry that comes while a ledger is read is in the heads, or in the rows, or in both."""
    ledger = made(where, heads=tmp_path / "heads")
    read = heads.Heads.of

    def overtaken(kept: Heads, name: str, *, whole: bool = False) -> list[Head]:
        if whole:
            spend(ledger, "1/10")
        known = read(kept, name, whole=whole)
        if whole:
            spend(ledger, "1/10")
        return known

    monkeypatch.setattr(Heads, "of", overtaken)
    assert ledger.verify() == ()
    assert len(rows(where)) == 4


def test_heads_cost_the_same_for_a_long_ledger(where: str, tmp_path: Path) -> None:
    ledger = long(where, 500)
    ledger.keep_heads(tmp_path / "heads")
    asked: list[int] = []
    for _ in range(60):
        spend(ledger, "1/1000")
    look = View.hashes

    def counting(view: View, numbers: Any) -> dict[int, str]:
        wanted = list(numbers)
        asked.append(len(wanted))
        return look(view, wanted)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(View, "hashes", counting)
        spend(ledger, "1/1000")
    assert len(asked) == 1
    assert 10 < asked[0] < 40
