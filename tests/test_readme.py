"""Every statement of the README is run, or compared with the thing it speaks of."""

from __future__ import annotations

import re
import struct
import subprocess
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

import pages

README = (pages.ROOT / "README.md").read_text(encoding="utf-8")
PICTURE = pages.ROOT / "docs" / "images" / "released.png"


def pixels(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG file."""
    head = picture.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:24])
    return width, height


def test_what_the_readme_shows_is_what_comes_out(tmp_path: Path) -> None:
    complaints = pages.run(README, tmp_path, cold=True)
    assert not complaints, "\n\n".join(complaints)


def test_the_three_commands_exist_and_say_what_they_do() -> None:
    commands = re.findall(r"^make (\w+)", README, flags=re.MULTILINE)
    runs_of = {
        "demo": "eree demo --out build/demo",
        "serve": "eree demo --out build/demo --serve",
        "test": "pytest",
    }
    assert commands == list(runs_of)
    for target, runs in runs_of.items():
        recipe = subprocess.run(
            ["make", "--dry-run", target],
            cwd=pages.ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert runs in recipe.stdout


def test_the_pictures_are_those_that_the_demo_draws(tmp_path: Path) -> None:
    assert f"({PICTURE.relative_to(pages.ROOT)})" in README
    assert "demo/released.png" in pages.shell("eree demo --out demo --jobs 20000", tmp_path)
    for name in ("released.png", "exposure.png"):
        kept = PICTURE.with_name(name)
        assert kept.stat().st_size < 200_000
        assert pixels(tmp_path / "demo" / name) == pixels(kept)


def test_every_link_leads_to_a_file_of_the_project() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (pages.ROOT / target).is_file(), target


#: What builds packages that come as source, this one among them.
BUILDING = ("hatchling", "editables", "setuptools")


def test_the_table_of_dependencies_is_that_of_the_package() -> None:
    project = tomllib.loads((pages.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    table = README.split("## What it depends on")[1].split("##")[0]
    rows = re.findall(r"^\| ([^|]+) \|", table, flags=re.MULTILINE)[1:]
    named = {re.sub(r" \(.*", "", name) for row in rows for name in row.split(", ")}
    declared = project["dependencies"], *project["optional-dependencies"].values()
    needed = [Requirement(text) for part in declared for text in part]
    names = {one.name + "".join(f"[{extra}]" for extra in one.extras) for one in needed}
    assert named == {*names, *BUILDING}
    assert project["license"] in README


def test_the_project_speaks_of_itself_alone() -> None:
    texts = [pages.ROOT / "README.md", pages.ROOT / "CHANGELOG.md", *pages.ROOT.glob("docs/*.md")]
    for path in texts:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"https?://(?!host)", text), path.name
        assert not re.search(r"(?<![\w.~])/(?:work|home|root|tmp|Users)/", text), path.name
