"""Folders that are made once for a run, whichever of its processes needs one first."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import eree_study


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder of this name that `make` has filled; tests must not change what is in it."""
    top = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        top = top.parent  # one for all workers
    folder, made = top / name, top / f"{name}.made"
    with (top / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)  # what a failure left
            folder.mkdir()
            make(folder)
            made.touch()
    return folder


def lodes_year(factory: pytest.TempPathFactory, folder: Path) -> Path:
    """A new folder with a small study of a LODES year, which takes long to make."""

    def make(out: Path) -> None:
        eree_study.wac_study(out, jobs=20_000, epsilons=["4"])

    return shutil.copytree(made_once(factory, "lodes-year", make), folder)
