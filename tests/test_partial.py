"""Things in the making: what is swept, what is left alone, and disks that can do less."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eree.errors import Refusal
from eree.partial import (
    appearing_file,
    appearing_folder,
    held_file,
    is_partial,
    partial_folder,
    replacing_file,
    sweep,
)

LEFT = ".out.partial-0123456789abcdef"


def refusing(code: int) -> Callable[..., Any]:
    def fail(*_given: Any, **_named: Any) -> Any:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.fixture(params=["nameless", "named"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file system with files that have no name, and one without."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE")
    return str(request.param)


def test_a_file_appears_whole_for_its_owner_alone(tmp_path: Path, either: str) -> None:
    out = tmp_path / "out"
    with appearing_file(out) as partial:
        partial.write_text("half")
        assert [is_partial(path) for path in tmp_path.iterdir()] == [True] * (either == "named")
        assert stat.S_IMODE(partial.stat().st_mode) == 0o600
        partial.write_text("whole")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (out.read_text(), stat.S_IMODE(out.stat().st_mode)) == ("whole", 0o600)


@pytest.mark.usefixtures("either")
def test_a_file_that_came_meanwhile_is_never_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with (
        pytest.raises(Refusal, match="exists already; choose another name"),
        appearing_file(out) as partial,
    ):
        partial.write_text("ours")
        out.write_text("theirs")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert out.read_text() == "theirs"


@pytest.mark.usefixtures("either")
def test_a_file_whose_making_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), appearing_file(tmp_path / "out") as partial:
        partial.write_text("half")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("either")
def test_a_disk_without_links_gets_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", refusing(errno.EPERM))
    out = tmp_path / "out"
    with appearing_file(out) as partial:
        partial.write_text("whole")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (out.read_text(), stat.S_IMODE(out.stat().st_mode)) == ("whole", 0o600)


def test_a_folder_is_closed_while_it_is_filled(tmp_path: Path) -> None:
    with appearing_folder(tmp_path / "out") as folder:
        [outer] = tmp_path.iterdir()
        assert stat.S_IMODE(outer.stat().st_mode) == 0o700
        assert folder.parent == outer
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_was_left_is_removed_with_a_word_about_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, file = tmp_path / LEFT, tmp_path / ".a.db.partial-0000000000000000"
    (folder / "out").mkdir(parents=True)
    (folder / "out" / "table.csv").write_text("x")
    for beside in ("", "-journal", "-wal", "-shm"):
        file.with_name(file.name + beside).write_text("x")
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert sorted(caplog.messages) == sorted(
        f"{path} was left by a process that was killed, and is removed" for path in (folder, file)
    )


def test_what_is_held_or_not_ours_or_no_file_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "file").touch()
    (tmp_path / LEFT).symlink_to("target")
    os.mkfifo(tmp_path / ".pipe.partial-0123456789abcdef")
    for name in (".out.partial-0123", ".out.partial-", "out.partial-0123456789abcdef", ".partial"):
        (tmp_path / name).touch()
    if os.geteuid() == 0:
        other = tmp_path / ".other.partial-0123456789abcdef"
        other.touch()
        shutil.chown(other, 65534)
    with held_file(tmp_path / "a"), partial_folder(tmp_path / "b") as folder:
        (folder / "file").touch()
        before = sorted(tmp_path.rglob("*"))
        sweep(tmp_path)
        with replacing_file(tmp_path / "c"), appearing_folder(tmp_path / "d"):
            sweep(tmp_path)
        assert sorted({*tmp_path.rglob("*")} - {tmp_path / "c", tmp_path / "d"}) == before
    assert caplog.messages == []


def test_a_disk_without_locks_is_written_and_never_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / LEFT).mkdir()
    monkeypatch.setattr(fcntl, "flock", refusing(errno.ENOLCK))
    with appearing_folder(tmp_path / "out"), replacing_file(tmp_path / "file"):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {LEFT, "out", "file"}
    assert f"{tmp_path / LEFT} may have been left by a process that was killed" in caplog.text


def test_one_that_is_swept_before_it_is_held_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep between the making and the locking; and one that holds the lock just then."""
    flock, moments = fcntl.flock, ["swept", "held"]

    def late(handle: int, how: int) -> None:
        moment = moments.pop(0) if moments else ""
        if moment == "swept":
            [made] = tmp_path.iterdir()
            made.rmdir()
        if moment == "held":
            raise BlockingIOError(errno.EAGAIN, "held")
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with appearing_folder(tmp_path / "out") as folder:
        assert folder.is_dir()
    assert moments == []
    assert (tmp_path / "out").is_dir()


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOSPC])
def test_a_folder_that_cannot_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(Path, "mkdir", refusing(code))
    with pytest.raises(Refusal, match="nothing can be written in") as why:
        appearing_folder(tmp_path / "out").__enter__()
    assert os.strerror(code).lower() in str(why.value)
