"""Plain files beside a ledger: opened without waiting for anybody, and written to the disk."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


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
