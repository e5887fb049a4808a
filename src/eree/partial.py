"""Things in the making: beside their place, closed to other users, and there whole or not at all.

A file or folder is made as `.NAME.partial-…` and gets its own name when it is whole.  Its maker
holds a lock on it, which the system lets go when the maker ends, however it ends.  So whoever makes
something in the same folder next can tell what a killed process left from what another is working
on: the one is removed, with a word about it, and the other is left alone.

A single confidential file has no name at all while it is written, where the file system can do
that: then nothing is left in the first place.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from eree.errors import Refusal
from eree.random.source import fresh_name

LOG = logging.getLogger("eree.partial")
_NAME = re.compile(r"\..+\.partial-[0-9a-f]{16}", re.DOTALL)
#: What SQLite may have beside a ledger in the making.
_BESIDE = ("-journal", "-wal", "-shm")
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def new_path(out: str | os.PathLike[str]) -> Path:
    """The path of a file that can be made; asked before the work starts."""
    path = Path(out)
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise Refusal("the file's name is not UTF-8; choose another name") from None
    if path.exists():
        raise Refusal(f"{path} exists already; choose another name or remove it")
    if not path.parent.is_dir():
        raise Refusal(f"the folder {path.parent} does not exist; make it first")
    return path


@contextmanager
def appearing_file(path: Path) -> Iterator[Path]:
    """A file to write, readable by its owner only, that becomes `path` at the end.

    If anything fails nothing is left, and a file that came meanwhile is never replaced.
    """
    sweep(path.parent)
    handle = _nameless(path.parent)
    if handle is None:
        with held_file(path) as partial:
            yield partial
            _name(partial, path)
        return
    try:
        nameless = Path(f"/proc/self/fd/{handle}")
        yield nameless
        try:
            os.link(nameless, path, src_dir_fd=handle, follow_symlinks=True)
        except OSError:  # a file came, or the disk gives no name to what has none
            with held_file(new_path(path)) as partial:
                shutil.copyfile(nameless, partial)
                _name(partial, path)
    finally:
        os.close(handle)


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """The same for a file that takes the place of what is there."""
    sweep(path.parent)
    with held_file(path) as partial:
        yield partial
        partial.replace(path)


@contextmanager
def appearing_folder(target: Path) -> Iterator[Path]:
    """A folder to write into that becomes `target` at the end, or vanishes if anything fails."""
    with partial_folder(target) as folder:
        yield folder
        if target.exists():
            shutil.copymode(target, folder)
        try:
            folder.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            raise Refusal(f"{target} was filled meanwhile; choose a new or empty folder") from error


@contextmanager
def partial_folder(target: Path) -> Iterator[Path]:
    """A folder to fill; whatever has not been moved to its place at the end vanishes.

    It lies in another one that is closed to other users, and has itself the user's ordinary mode,
    so that the result has it.
    """
    sweep(target.parent)
    with ExitStack() as stack:
        try:
            outer = stack.enter_context(_held(target, lambda path: path.mkdir(mode=0o700)))
            inner = outer / target.name
            inner.mkdir()
        except OSError as error:
            raise not_writable(target.parent, error) from None
        yield inner


def temporary_folder(name: str) -> AbstractContextManager[Path]:
    """A folder for as long as it is needed, where temporary files are kept."""
    return partial_folder(Path(tempfile.gettempdir()) / name)


@contextmanager
def held_file(path: Path, mode: int = 0o600) -> Iterator[Path]:
    """An empty file beside its later place; it is removed at the end, if it is still there."""

    def make(partial: Path) -> None:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))

    with _held(path, make) as partial:
        yield partial


def not_writable(folder: Path, error: OSError) -> Refusal:
    """What to raise where nothing can be made in a folder."""
    return Refusal(
        f"nothing can be written in {folder} ({kind_of(error)}); choose a folder that you may write"
        " to and that has room"
    )


def kind_of(error: Exception) -> str:
    """What the system says, without the names that it says it of."""
    code = error.errno if isinstance(error, OSError) else errno.ELOOP
    return os.strerror(code).lower() if code else "the system refused"


def is_partial(path: Path) -> bool:
    """Whether something is in the making, or was when its maker was killed."""
    return _NAME.fullmatch(path.name) is not None


def sweep(folder: Path) -> None:
    """Remove what killed processes of this user have left in a folder, and say so."""
    found: list[Path] = []
    with suppress(OSError):  # a folder that is not there, or cannot be listed
        found = sorted(filter(is_partial, folder.iterdir()))
    for path in found:
        with suppress(OSError):  # it went meanwhile, or nobody may look at it
            _sweep(path)


def _sweep(path: Path) -> None:
    handle = os.open(path, _LOOK)
    try:
        about = os.fstat(handle)
        ours = about.st_uid == os.geteuid()
        if not ours or not (stat.S_ISDIR(about.st_mode) or stat.S_ISREG(about.st_mode)):
            return
        try:
            left = _lock(handle, path)
        except OSError:
            LOG.warning(
                "%s may have been left by a process that was killed; its disk has no locks, so"
                " remove it if no other process is at work there",
                path,
            )
            return
        if not left:
            return
        empty = not (about.st_size if stat.S_ISREG(about.st_mode) else any(path.iterdir()))
        _remove(path)
        if os.path.lexists(path):
            LOG.warning("%s was left by a process that was killed, and cannot be removed", path)
        elif not empty:  # one that is empty may only just have been made, and is then made again
            LOG.warning("%s was left by a process that was killed, and is removed", path)
    finally:
        os.close(handle)


@contextmanager
def _held(target: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """Something beside its later place that nobody takes for left behind while we live."""
    handle = None
    path = _beside(target)  # known before it is there, so that no interrupt can leave it behind
    try:
        make(path)
        while (handle := _hold(path)) is None:  # it was swept before we had the lock
            path = _beside(target)
            make(path)
        yield path
    finally:
        _remove(path)
        if handle is not None:
            os.close(handle)


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.partial-{fresh_name()[:16]}")


def _hold(path: Path) -> int | None:
    """A handle with the lock, or None where another process came first."""
    try:
        handle = os.open(path, _LOOK)
    except FileNotFoundError:
        return None
    try:
        taken = not _lock(handle, path)
    except OSError:  # a disk without locks, where nobody sweeps
        taken = False
    if taken:
        os.close(handle)
        return None
    return handle


def _lock(handle: int, path: Path) -> bool:
    """Take the lock of what is open; False where another has it, or it is no longer there.

    Raises OSError where the disk has no locks.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
        return
    for beside in (*_BESIDE, ""):
        with suppress(OSError):
            path.with_name(path.name + beside).unlink()


def _nameless(folder: Path) -> int | None:
    """A new file without a name, for its owner; None where that cannot be."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not Path("/proc/self/fd").is_dir():  # it gets its name from there
        return None
    try:
        return os.open(folder, flag | os.O_RDWR, 0o600)
    except OSError:  # whatever else is wrong shows when a named one is made
        return None


def _name(partial: Path, path: Path) -> None:
    try:
        os.link(partial, path)  # unlike a rename, never over a file that came meanwhile
    except OSError:  # it came, or the disk knows no links
        partial.replace(new_path(path))
