"""Files with two names, links to themselves, pipes: what is no ledger, or could be two."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import pytest

import eree
import pages
from disks import may_mount
from eree.budget import files, stores
from eree.errors import Refusal, Unreadable
from ledgers import DIGEST, campaign, grown, made, rows, spend
from processes import PATIENCE, running
from test_cli import run

TWO_NAMES = r"has more than one name \(a hard link\), and who spends under the other would not be"
#: Makes a ledger, and stops for ever at a moment inside.
MAKE_AND_STOP = """
import sys, time, ledgers
from eree import partial
from disks import may_mount
from eree.budget import files, stores
def stop(*_):
    print("there", flush=True)
    time.sleep(10**6)
{moment} = stop
ledgers.made(sys.argv[1])
"""
#: Spends while a reader is there, which keeps the entry beside the file, and stops for ever.
SPEND_AND_STOP = """
import sys, time, ledgers
ledger, reader = ledgers.made(sys.argv[1], "3"), ledgers.raw(sys.argv[1])
reader.execute("SELECT count(*) FROM eree_ledger").fetchall()
ledgers.spend(ledger, "2")
print("there", flush=True)
time.sleep(10**6)
"""


def killed(code: str, path: Path) -> None:
    """Run some Python about a ledger until it says that it is there, and kill it."""
    surroundings = pages.environment()
    tests = str(Path(__file__).parents[1])
    surroundings["PYTHONPATH"] = os.pathsep.join([tests, surroundings.get("PYTHONPATH", "")])
    with running([sys.executable, "-c", code, str(path)], env=surroundings) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait(PATIENCE) == -signal.SIGKILL


def test_nothing_is_written_to_a_file_of_two_names(tmp_path: Path) -> None:
    first, second = tmp_path / "ledger.db", tmp_path / "other.db"
    ledger = grown(str(first))
    reserved = spend(ledger, "1/10")
    os.link(first, second)
    before = rows(str(first))
    for name in (first, second):
        opened = eree.Ledger.open(name)
        for write in (
            lambda opened=opened: spend(opened, "1/10"),
            lambda opened=opened: opened.settle(reserved, DIGEST),
            lambda opened=opened: opened.close(2),
            lambda opened=opened: opened.keep_heads(tmp_path / "heads"),
        ):
            with pytest.raises(Refusal, match=TWO_NAMES):
                write()
        assert opened.verify() == ()  # looking does no harm
    second.unlink()
    assert rows(str(first)) == before
    spend(ledger, "1/10")


def test_who_comes_by_another_name_overspends_nothing(tmp_path: Path) -> None:
    """Two processes race, each by a name of its own; before, some of such races were lost."""
    assert campaign("links", tmp_path / "ledger.db", 20) == {
        "before": 2,
        "entries": 3,
        "granted": 0,
        "refused": 40,
        "faults": [],
        "failed": 0,
    }


@contextmanager
def mounted(path: Path, point: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file mounted over another, as into a container, or a table of mounts that says so."""
    point.touch()
    if may_mount():
        subprocess.run(["mount", "--bind", str(path), str(point)], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", "--lazy", str(point)], check=True)
        return
    name = str(point).replace("\\", r"\134").replace(" ", r"\040")
    table = point.with_name("mounts")
    table.write_text(f"36 35 98:0 {path} {name} rw,noatime - ext4 /dev/sda rw\n")
    point.unlink()
    point.write_bytes(path.read_bytes())
    monkeypatch.setattr(files, "_MOUNTS", table)
    yield


def test_nothing_is_written_to_a_file_that_is_mounted_without_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is at work at its first name keeps entries beside it, where the mount does not show."""
    path, home = tmp_path / "ledger.db", tmp_path / "a container \\"
    home.mkdir()
    ledger = made(str(path), "1")
    spend(ledger, "1/2")
    with mounted(path, home / "ledger.db", monkeypatch):
        inside = eree.Ledger.open(home / "ledger.db")
        words = "is mounted without its folder, and who spends where it comes from would not be"
        for use in (lambda: spend(inside, "1/2"), lambda: inside.close(2)):
            with pytest.raises(Refusal, match=words):
                use()
        assert inside.left().epsilon == Fraction(1, 2)
        spend(ledger, "1/2")
    assert ledger.verify() == ()


def test_entries_behind_another_name_are_not_forgotten(tmp_path: Path) -> None:
    """The last entry is in a file beside the ledger, where the other name does not see it."""
    first, second = tmp_path / "ledger.db", tmp_path / "other.db"
    killed(SPEND_AND_STOP, first)
    assert (tmp_path / "ledger.db-wal").stat().st_size > 0
    os.link(first, second)
    with pytest.raises(Refusal, match=TWO_NAMES):
        spend(eree.Ledger.open(second), "2")
    second.unlink()
    assert str(eree.Ledger.open(first).left().epsilon) == "1"


def test_a_creator_killed_between_its_two_names_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    killed(MAKE_AND_STOP.format(moment="partial._remove"), path)
    assert path.stat().st_nlink == 2
    assert len(list(tmp_path.glob(".ledger.db.partial-*"))) == 1
    ledger = eree.Ledger.open(path)
    assert ledger.verify() == ()
    spend(ledger, "1/10")
    assert [found.name for found in tmp_path.iterdir()] == ["ledger.db"]


@pytest.mark.parametrize("moment", ["stores.SQLiteStore._make", "stores.SQLiteStore._share"])
def test_what_a_killed_creator_left_goes_with_the_next_ledger(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "ledger.db"
    killed(MAKE_AND_STOP.format(moment=moment), path)
    assert not path.exists()
    assert len(list(tmp_path.iterdir())) >= 1
    foreign = tmp_path / ".ledger.db.partial-x"
    foreign.touch()
    made(str(path))
    assert {found.name for found in tmp_path.iterdir()} == {"ledger.db", foreign.name}


def test_a_creator_whose_file_is_swept_away_learns_that_there_is_a_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    share = stores.SQLiteStore._share

    def overtaken(store: stores.SQLiteStore) -> None:
        monkeypatch.setattr(stores.SQLiteStore, "_share", share)
        made(str(path))
        share(store)

    monkeypatch.setattr(stores.SQLiteStore, "_share", overtaken)
    with pytest.raises(Refusal, match="exists already, and a ledger is never replaced"):
        made(str(path))
    assert [found.name for found in tmp_path.iterdir()] == ["ledger.db"]


def test_a_link_that_looks_like_a_leftover_is_no_second_name(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = made(str(path))
    soft = tmp_path / ".ledger.db.partial-0123456789abcdef"
    soft.symlink_to(path)
    os.link(path, tmp_path / "second.db")
    with pytest.raises(Refusal, match=TWO_NAMES):
        spend(ledger, "1/10")
    assert soft.is_symlink()


@pytest.mark.parametrize("kind", ["loop", "pipe", "device", "folder"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "loop":
        path.symlink_to(path)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/null")
    else:
        path.mkdir()
    words = f"{path} cannot be opened; a ledger is a file, and it takes the permission to read it"
    with pytest.raises(Unreadable) as refused:
        eree.Ledger.open(path)
    assert str(refused.value) == words
    for command in (["show"], ["verify"], ["close"], ["heads"]):
        more = {"close": ["2"], "heads": [str(tmp_path / "heads")]}.get(command[0], [])
        done = run("ledger", *command, str(path), *more)
        assert (done.status, done.out, done.err) == (2, "", f"eree: {words}\n")
    done = run(
        *("ledger", "create", str(path)), "--neighbours", "edge", "--epsilon", "1", cwd=tmp_path
    )
    assert (done.status, done.out) == (2, "")
    assert "exists already, and a ledger is never replaced" in done.err


def test_many_who_make_a_ledger_at_once_leave_nothing_else_behind(tmp_path: Path) -> None:
    outcomes: list[str] = []

    def make() -> None:
        try:
            outcomes.append(made(str(tmp_path / "ledger.db")).identity)
        except Refusal as refusal:
            outcomes.append(str(refusal))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum("exists already" in outcome for outcome in outcomes) == 7
    assert [found.name for found in tmp_path.iterdir()] == ["ledger.db"]
    spend(eree.Ledger.open(tmp_path / "ledger.db"), "1/10")
