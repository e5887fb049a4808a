"""Plain files of and beside a ledger: opened without waiting for anybody, and written to disk."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: What Linux tells a process of its mounts; names have some characters as octal numbers.
_MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(rb"\\([0-7]{3})")


def is_mounted(path: Path) -> bool:
    """Whether a file is mounted by itself: what is beside it is not what is beside the original."""
    try:
        mounts = _MOUNTS.read_bytes().splitlines()
    except OSError:  # another system
        return False
    points = (mount.split(b" ", 5)[4] for mount in mounts)
    name = os.fsencode(path)
    return any(_OCTAL.sub(lambda n: bytes([int(n[1], 8)]), point) == name for point in points)


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """A plain file, as a handle; a pipe or a device is an OSError, and nobody is waited for."""
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "no plain file")
        yield handle
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder durable; some file systems do that unasked, and refuse."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
