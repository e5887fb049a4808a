"""Certificates that are kept: used again, never believed from others, and never missed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eree
import eree_study
import pages
from disks import disk, full
from eree.mechanisms import cache
from eree.mechanisms.cache import arrays_of, certificate_of, computed_again
from eree.mechanisms.certificate import Certificate
from offices import settings

KINDS: dict[str, Callable[[], eree.Mechanism]] = {
    name: lambda name=name: eree.mechanism(
        name,
        alpha="0.1",
        epsilon="2",
        **({"cells": 3} if name in eree.VECTOR_MECHANISMS else {}),
        **({"theta": 50} if name == "truncated-laplace" else {}),
    )
    for name in (*eree.MECHANISMS, *eree.VECTOR_MECHANISMS)
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder for one test."""
    monkeypatch.setenv("EREE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Counted:
    """A mechanism that counts how often its certificate is computed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mechanism = eree.mechanism("linlog", alpha="0.1", epsilon="2")
        self.times = 0
        certify = type(self.mechanism).certify

        def counted(mechanism: Any) -> Certificate:
            self.times += 1
            return certify(mechanism)

        monkeypatch.setattr(type(self.mechanism), "certify", counted)

    def certified(self) -> tuple[Certificate, bool]:
        return certificate_of(self.mechanism)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def planted(path: Path, entry: bytes) -> None:
    """An entry with the digest of its bytes, as whoever may write to the folder can make it."""
    path.write_bytes(sha256(entry).digest() + entry)


# ------------------------------------------------------------------------------------ entries


def test_an_entry_is_used_the_second_time(folder: Path, counted: Counted) -> None:
    first, computed = counted.certified()
    assert (computed, counted.times, len(list(folder.iterdir()))) == (True, 1, 1)
    assert counted.certified() == (first, False)
    assert counted.times == 1
    other = eree.mechanism("linlog", alpha="0.1", epsilon="1")
    assert certificate_of(other)[1]
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_kept_certificate_is_the_computed_one(folder: Path, kind: str) -> None:
    mechanism = KINDS[kind]()
    made, computed = certificate_of(mechanism)
    kept, again = certificate_of(mechanism)
    assert (computed, again) == (True, False)
    assert (kept, type(kept), repr(kept)) == (made, type(made), repr(made))
    assert (kept.words(), kept.as_json(), kept.holds) == (made.words(), made.as_json(), made.holds)
    assert list(folder.iterdir()) != []


def test_what_a_mechanism_shows_of_itself_is_all_that_it_is() -> None:
    """Its entry is found by it: two mechanisms that differ must not show the same."""
    shown = {repr(make()) for make in KINDS.values()}
    assert len(shown) == len(KINDS)
    for name in eree.MECHANISMS:
        if name not in ("truncated-laplace", "leaning-staircase"):
            more = {
                repr(eree.mechanism(name, alpha=alpha, epsilon=epsilon))
                for alpha, epsilon in (("0.1", "2.1"), ("0.11", "2.2"), ("0.1", "2.0000001"))
            }
            assert len(more) == 3
            assert not more & shown


def test_fresh_computes_again_and_replaces(folder: Path, counted: Counted) -> None:
    made, _ = counted.certified()
    (path,) = folder.iterdir()
    entry = path.read_bytes()
    false = entry[32:].replace(b'"found_delta": 0.0', b'"found_delta": 0.5')
    planted(path, false)
    assert counted.certified()[0] != made
    with computed_again():
        assert counted.certified() == (made, True)
    assert counted.times == 2
    assert path.read_bytes() == entry
    assert counted.certified() == (made, False)


def test_other_sources_have_other_entries(
    folder: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted.certified()
    monkeypatch.setattr(cache, "_source", lambda: "another version")
    assert counted.certified()[1]
    assert len(list(folder.iterdir())) == 2


def test_the_digest_of_the_sources_changes_with_each_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest() -> str:
        cache._source.cache_clear()
        return cache._source()

    here = digest()
    package = Path(cache.__file__).parents[1]
    copy = tmp_path / "eree"
    sources = ("errors.py", "workload.py", "policy/guarantee.py", "random/exact.py")
    for name in (*sources, "mechanisms/cache.py"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((package / name).read_bytes())
    monkeypatch.setattr(cache, "__file__", str(copy / "mechanisms" / "cache.py"))
    found = [digest()]
    for path in sorted(copy.rglob("*.py")):
        path.write_bytes(path.read_bytes() + b"#\n")
        found.append(digest())
    (copy / "random" / "more.py").touch()
    found.append(digest())
    monkeypatch.setattr(cache, "version", lambda _name: "0")
    found.append(digest())
    monkeypatch.undo()
    assert len({here, *found}) == 1 + len(found) == 9
    assert digest() == here


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: b"",
        lambda entry: entry[:20],
        lambda entry: entry[:-1],
        lambda entry: entry + b" ",
        lambda entry: entry[:40] + bytes([entry[40] ^ 1]) + entry[41:],
        lambda entry: bytes([entry[0] ^ 1]) + entry[1:],
    ],
    ids=["empty", "no-digest", "truncated", "longer", "changed", "other-digest"],
)
def test_a_damaged_entry_is_computed_again(
    folder: Path, counted: Counted, damage: Callable[[bytes], bytes]
) -> None:
    made, _ = counted.certified()
    (path,) = folder.iterdir()
    entry = path.read_bytes()
    path.write_bytes(damage(entry))
    assert counted.certified() == (made, True)
    assert path.read_bytes() == entry


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\xff", b"7", b'"x"', b"[]", b"{}", b'{"fraction": 1}'),
        b'{"kind": "Cell", "parts": {"count": 1, "largest": 1}}',
        b'{"kind": "os.system", "parts": {}}',
        b'{"kind": "Certificate", "parts": {"bound": 1}}',
    ],
)
def test_an_entry_that_is_no_certificate_is_computed_again(
    folder: Path, counted: Counted, content: bytes
) -> None:
    made, _ = counted.certified()
    (path,) = folder.iterdir()
    planted(path, content)
    assert counted.certified() == (made, True)


def test_arrays_are_kept_as_they_are(folder: Path) -> None:
    times = []

    def compute() -> dict[str, Any]:
        times.append(1)
        return {"a": np.array([[0.1, -np.inf]]), "b": np.array(7), "c": np.array([], dtype=np.int8)}

    for _ in range(2):
        found = arrays_of("some", compute)
        for name, array in compute().items():
            assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
            assert (found[name] == array).all()
    assert len(times) == 3
    (path,) = folder.iterdir()
    entry = path.read_bytes()
    for content in (b"", b"PK", entry[32:60], b'{"a": 1}'):
        planted(path, content)
        assert (arrays_of("some", compute)["b"], path.read_bytes()) == (7, entry)


def test_arrays_outlive_their_entry(folder: Path) -> None:
    def compute() -> dict[str, Any]:
        return {"a": np.arange(1 << 17), "b": np.array([["x", "yz"]])}

    arrays_of("some", compute)
    found = arrays_of("some", compute)
    (path,) = folder.iterdir()
    with computed_again():
        arrays_of("some", lambda: {"a": np.zeros(1)})
    path.unlink()
    for name, array in compute().items():
        assert (found[name] == array).all() and not found[name].flags.writeable


def test_arrays_of_addresses_are_computed_again(folder: Path) -> None:
    arrays_of("some", lambda: {"a": np.zeros(8)})
    (path,) = folder.iterdir()
    planted(path, path.read_bytes()[32:].replace(b"<f8", b"|O8"))
    assert arrays_of("some", lambda: {"a": np.ones(8)})["a"].sum() == 8


@pytest.mark.parametrize("about", [b"[" * 100_000, b'[["a","<i,,",[8]]]', b'[["a","<f8",[-8]]]'])
def test_arrays_of_no_type_or_shape_are_computed_again(about: bytes, folder: Path) -> None:
    arrays_of("some", lambda: {"a": np.zeros(8)})
    (path,) = folder.iterdir()
    planted(path, len(about).to_bytes(8, "little") + about)
    assert arrays_of("some", lambda: {"a": np.ones(8)})["a"].sum() == 8


def test_the_digest_of_a_large_entry_is_known_until_it_is_written_to(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compute() -> dict[str, Any]:
        return {"a": np.arange(1 << 10)}

    monkeypatch.setattr(cache, "LARGE", 1 << 12)
    monkeypatch.setattr(cache, "SETTLED", 0)
    arrays_of("some", compute)
    (path,) = folder.iterdir()
    entry = path.read_bytes()
    for _ in range(2):
        assert (arrays_of("some", compute)["a"] == np.arange(1 << 10)).all()
    assert len(list(folder.iterdir())) == 2  # with its digest
    path.write_bytes(entry[:-1] + b"x")
    assert (arrays_of("some", compute)["a"] == np.arange(1 << 10)).all()
    assert path.read_bytes() == entry


def test_entries_beyond_the_limit_make_room(
    folder: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MOST_ENTRIES", 10)
    for number in range(10):
        arrays_of(f"entry {number}", lambda: {"a": np.zeros(1)})
        newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, (number, number))
    assert len(list(folder.iterdir())) == 10
    counted.certified()
    ages = sorted(path.stat().st_mtime for path in folder.iterdir())
    assert ages[:-1] == [5, 6, 7, 8, 9]
    assert not counted.certified()[1]


# --------------------------------------------------------------------------------- the folder


def test_the_folder_is_made_for_the_user_alone(
    tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the umask is; those above it too, or others could replace it."""
    monkeypatch.setenv("EREE_CACHE", str(tmp_path / "a" / "b"))
    before = os.umask(0)
    try:
        counted.certified()
    finally:
        os.umask(before)
    (entry,) = (tmp_path / "a" / "b").iterdir()
    for path in (entry.parent, entry.parent.parent):
        assert path.stat().st_mode & 0o777 == 0o700
    assert entry.stat().st_mode & 0o777 == 0o600
    assert not counted.certified()[1]


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused(
    folder: Path, counted: Counted, mode: int
) -> None:
    counted.certified()
    folder.chmod(mode)
    with pytest.raises(eree.Refusal) as why:
        counted.certified()
    assert str(why.value) == (
        f"others may write to {folder}, so that no certificate kept there can be believed;"
        " change that, or name another folder in EREE_CACHE (empty for none)"
    )
    assert counted.times == 1


def test_a_folder_that_others_may_replace_is_refused(
    tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("EREE_CACHE", str(tmp_path / "home" / "cache"))
    counted.certified()
    for mode in (0o777, 0o770):
        (tmp_path / "home").chmod(mode)
        with pytest.raises(eree.Refusal, match=f"others may replace cache in {tmp_path}/home, so"):
            counted.certified()
    (tmp_path / "home").chmod(0o1777)  # as /tmp is: nobody may replace what others have there
    assert not counted.certified()[1]
    (tmp_path / "link").symlink_to("home/cache")
    monkeypatch.setenv("EREE_CACHE", str(tmp_path / "link"))
    assert not counted.certified()[1]
    (tmp_path / "home").chmod(0o777)
    with pytest.raises(eree.Refusal, match="others may replace"):
        counted.certified()


def test_the_folder_of_another_user_is_refused(
    folder: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted.certified()
    if os.geteuid() == 0:
        os.chown(folder, 65534, -1)
    else:
        own = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(eree.Refusal, match=f"{folder} belongs to another user, so that no"):
        counted.certified()


def test_a_refused_folder_is_a_sentence_of_every_command(folder: Path, release: Path) -> None:
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    certify = ("certify", "linlog", "--alpha", "0.1", "--epsilon", "2")
    verify = ("verify", release)
    for arguments in (certify, (*certify, "--fresh")):
        done = pages.command(*arguments)
        assert (done.status, done.out) == (2, "")
        assert done.err.startswith(f"eree: others may write to {folder}, so that no certificate")
    done = pages.command(*verify)
    assert done.status != 0
    assert f"others may write to {folder}, so that no certificate" in done.out + done.err
    assert list(folder.iterdir()) == []
    assert pages.command(*certify, env={"EREE_CACHE": ""}).status == 0


@pytest.mark.parametrize(
    "environment",
    [
        {"EREE_CACHE": ""},
        {"HOME": None},
        {"HOME": ""},
        {"HOME": "relative"},
        {"HOME": "/proc/nowhere"},
        {"HOME": "FILE"},
        {"XDG_CACHE_HOME": "relative"},
    ],
    ids=lambda environment: "-".join(f"{k}={v}" for k, v in environment.items()),
)
def test_without_a_place_everything_is_computed(
    counted: Counted,
    environment: dict[str, str | None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "file").touch()
    for name in ("EREE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value.replace("FILE", str(tmp_path / "file")))
    monkeypatch.chdir(tmp_path)
    assert cache.cache_folder() is None
    for _ in range(2):
        assert counted.certified()[1]
    assert counted.times == 2
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_folder_is_where_caches_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EREE_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.cache_folder() == tmp_path / ".cache" / "eree"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_folder() == tmp_path / "xdg" / "eree"


def test_a_read_only_folder_is_read(folder: Path) -> None:
    """In a process that permissions bind; two certificates, of which the folder holds one."""
    certify = ("certify", "linlog", "--alpha", "0.1", "--json", "--epsilon")
    assert pages.command(*certify, "2").status == 0
    (entry,) = folder.iterdir()
    folder.chmod(0o500)
    kept, computed = pages.command(*certify, "2"), pages.command(*certify, "1")
    assert json.loads(kept.out)["kept"] is True
    assert json.loads(computed.out)["kept"] is False
    assert list(folder.iterdir()) == [entry]
    folder.chmod(0)
    assert json.loads(pages.command(*certify, "2").out)["kept"] is False
    folder.chmod(0o700)


def test_a_full_disk_stops_no_certificate(
    tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    with disk(tmp_path / "disk", "1m") as room:
        room.chmod(0o700)
        monkeypatch.setenv("EREE_CACHE", str(room / "cache"))
        (room / "cache").mkdir(mode=0o700)
        with full(room, 100):
            for _ in range(2):
                assert counted.certified()[1]
            assert list((room / "cache").iterdir()) == []
        assert counted.certified()[1]
        assert not counted.certified()[1]


def test_processes_that_write_at_once_leave_a_whole_entry(folder: Path) -> None:
    code = (
        "import eree\n"
        "from eree.mechanisms.cache import certificate_of, computed_again\n"
        "mechanism = eree.mechanism('linlog', alpha='0.1', epsilon='2')\n"
        "made = mechanism.certify()\n"
        "for number in range(60):\n"
        "    with computed_again():\n"
        "        assert certificate_of(mechanism) == (made, True)\n"
        "    assert certificate_of(mechanism) == (made, False)\n"
    )
    with Path(os.devnull).open("rb+") as nothing:
        streams = [nothing.fileno()] * 3
        writing = [pages.started([], streams, code=code) for _ in range(4)]
        assert [process.wait() for process in writing] == [0] * 4
    (entry,) = folder.iterdir()
    kept = entry.read_bytes()
    assert sha256(kept[32:]).digest() == kept[:32]


def test_a_killed_process_leaves_no_partial_entry_that_is_believed(folder: Path) -> None:
    """What it leaves has a name that nobody looks for, and goes with the next entry."""
    code = (
        "import os, signal, eree\n"
        "from pathlib import Path\n"
        "from eree.mechanisms.cache import certificate_of\n"
        "Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "certificate_of(eree.mechanism('linlog', alpha='0.1', epsilon='2'))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    (partial,) = folder.iterdir()
    mechanism = eree.mechanism("linlog", alpha="0.1", epsilon="2")
    assert certificate_of(mechanism)[1]
    assert not certificate_of(mechanism)[1]
    assert [path.name for path in folder.iterdir() if path == partial] == []


# ----------------------------------------------------------------------------------- commands


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release that was paid for."""
    home = tmp_path_factory.mktemp("kept")
    tables = eree.load(eree_study.synthesize(home / "data", jobs=1_000))
    wanted = settings(tables.folder)
    for table in wanted["table"]:
        table["mechanism"] = "radial"  # its certificate is quick to compute
    plan = eree.Plan.of(wanted)
    total = eree.Guarantee(eree.Strong("0.1"), 10)
    ledger = eree.Ledger.create(home / "ledger.db", total, data_set="data")
    return eree.publish(plan, tables, ledger=ledger, out=home / "out").folder


def verified(release: Path, *more: str) -> dict[str, Any]:
    done = pages.command("verify", release, "--json", *more)
    assert done.status == 0, done.out
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_the_commands_say_what_was_kept(folder: Path, release: Path) -> None:
    assert verified(release)["kept_certificates"] == 0
    assert verified(release)["kept_certificates"] == 2
    entries = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert verified(release, "--fresh")["kept_certificates"] == 0
    assert {path.name for path in folder.iterdir()} == {path.name for path in entries}
    assert all(path.stat().st_mtime_ns > then for path, then in entries.items())
    certify = ("certify", "radial", "--alpha", "0.1", "--epsilon", "2", "--json")
    assert json.loads(pages.command(*certify).out)["kept"] is True


def test_fresh_computes_again_what_a_mechanism_was_calibrated_to(folder: Path) -> None:
    certify = ("certify", "leaning-staircase", "--alpha", "0.1", "--epsilon", "9", "--json")
    made = json.loads(pages.command(*certify).out)
    entries = {path: path.read_bytes() for path in folder.iterdir()}
    assert len(entries) > 1
    for path in entries:
        path.write_bytes(b"")
    fresh = json.loads(pages.command(*certify, "--fresh").out)
    assert fresh == made
    assert {path: len(path.read_bytes()) for path in folder.iterdir()} == {
        path: len(entry) for path, entry in entries.items()
    }


def test_nothing_is_ever_written_beside_a_release(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seen() -> dict[str, int]:
        paths = [release.parent, *release.parent.rglob("*")]
        return {str(path): path.stat().st_mtime_ns for path in paths}

    before = seen()
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for environment in ({"EREE_CACHE": None}, {"EREE_CACHE": ""}, {"EREE_CACHE": str(tmp_path)}):
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        for name, value in environment.items():
            monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)
        assert pages.command("verify", release, cwd=release.parent).status == 0
        assert pages.command("verify", "out", "--fresh", cwd=release.parent).status == 0
    assert seen() == before
    assert {path.name for path in tmp_path.iterdir()} > {"home"}


def test_a_false_certificate_is_believed_from_nowhere_but_the_users_own_folder(
    folder: Path, release: Path, tmp_path: Path
) -> None:
    """Who can write there is the user, who could as well change the program."""
    verified(release)
    for path in folder.iterdir():
        entry = path.read_bytes()[32:]
        if entry.startswith(b"{"):
            planted(path, entry.replace(b'"found_delta": 0.0', b'"found_delta": 0.5'))
    false = pages.command("verify", release)
    assert false.status == 1
    assert "does not keep its claim" in false.out
    assert pages.command("verify", release, "--fresh").status == 0
    # beside a release, below it, or in the folder where the command runs, it is not even seen
    for place in (release.parent / ".cache", release.parent / "eree"):
        folder.replace(place)
        with_home = {"EREE_CACHE": "", "HOME": str(tmp_path)}
        assert pages.command("verify", release, cwd=release.parent, env=with_home).status == 0
        place.replace(folder)
