"""What is installed is pinned, so that a machine of tomorrow runs what was tested today."""

from __future__ import annotations

import re
from importlib.metadata import distributions
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[1]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {normal(name): version for name, _, version in (line.partition("==") for line in lines)}


def test_every_package_that_is_installed_is_pinned_and_nothing_else() -> None:
    """Those that build others too: what is only in a cache is missing on a new machine."""
    installed = {normal(d.metadata["Name"]): d.version for d in distributions()}
    assert installed.pop("eree")
    assert pinned() == installed


def test_a_landing_is_tested_without_anything_left_from_before() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(r'HOME="\$home" PIP_NO_CACHE_DIR=1 make test$', script, re.MULTILINE)
    assert "home=$(mktemp -d)" in script


def test_a_wheel_has_every_file_of_the_package_and_its_data() -> None:
    packed = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    source = ROOT / "src"
    there = {path.relative_to(source).as_posix() for path in (source / "eree").rglob("*.*")}
    assert packed >= {path for path in there if "__pycache__" not in path and path != "eree"}
    assert "eree/survey/soc_2018.csv" in packed
