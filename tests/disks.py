"""Disks that are full and files that nobody may touch: real ones, for root and for anybody else."""

from __future__ import annotations

import os
import re
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

#: What a command begins with so that permissions of files bind it, even if root runs it.
OBEDIENT = (
    ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--"] if os.geteuid() == 0 else []
)
PAGE = 4096


def may_mount() -> bool:
    """Whether this process may mount: the capability CAP_SYS_ADMIN is number 21."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> 21 & 1)


@contextmanager
def disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of some size where mounting is allowed, and else a folder."""
    folder.mkdir()
    if may_mount():
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        subprocess.run(mount, check=True)
    try:
        yield folder
    finally:
        if may_mount():
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 300 KB."""
    with disk(tmp_path / "disk", "300k") as folder:
        yield folder


@contextmanager
def full(folder: Path, limit: int, spare: int = 0) -> Iterator[None]:
    """No room left, but for some pages: a disk that is filled, or a limit on the size of files."""
    if may_mount():
        fill(folder, spare)
        try:
            yield
        finally:
            (folder / "filler").unlink()
    else:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fill(folder: Path, spare: int) -> None:
    """Fill a disk to its last byte, and give some pages back."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (PAGE, 512, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass
        if spare:
            file.truncate(file.tell() - spare * PAGE)
