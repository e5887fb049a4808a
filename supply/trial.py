"""An installed eree, tried from a folder that knows nothing of the repository."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

PLAN = """\
data = "data"
[privacy]
neighbours = "strong"
alpha = "0.1"
epsilon = "2"
[[table]]
name = "jobs"
by = ["sector"]
epsilon = "2"
mechanism = "smooth-pareto"
"""
#: From data to a release that is verified.
OFFICE = (
    "--version",
    "synth data --jobs 2000",
    "check data",
    "ledger create ledger.db --neighbours strong --alpha 0.1 --epsilon 8",
    "release plan.toml --out out --ledger ledger.db",
    "verify out --ledger ledger.db",
)


def surroundings() -> dict[str, str]:
    """The environment of a Python that finds nothing but what is installed beside it."""
    left_out = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return kept | {"PYTHONWARNINGS": "error"}


def run(python: Path, line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command of the eree that is installed beside a Python."""
    return subprocess.run(
        [python.with_name("eree"), *line.split()],
        cwd=folder,
        env=surroundings(),
        capture_output=True,
        text=True,
    )


def faults(python: Path, folder: Path, lines: Iterable[str] = OFFICE) -> list[str]:
    """Which commands fail, and what they say."""
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8")
    done = ((line, run(python, line, folder)) for line in lines)
    return [f"eree {line}: {ended.stderr}" for line, ended in done if ended.returncode]
