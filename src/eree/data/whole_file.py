"""Confidential files: closed to other users, and there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eree.errors import Refusal
from eree.noise.coins import fresh_name


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
    # its name is known before it is there, so that no interrupt can leave it behind
    partial = path.with_name(f".{path.name}.partial-{fresh_name()[:8]}")
    try:
        partial.touch(mode=0o600, exist_ok=False)
        yield partial
        try:
            os.link(partial, path)  # unlike a rename, never over a file that came meanwhile
        except OSError:  # it came, or the disk knows no links
            partial.replace(new_path(path))
    finally:
        partial.unlink(missing_ok=True)
