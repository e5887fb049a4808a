"""What is installed: two packages, the commands that one adds to the other, extras, and pins.

A machine of tomorrow runs what was tested today.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib.metadata import distributions, entry_points
from pathlib import Path
from zipfile import ZipFile

import click
import pytest

import eree_study
import pages

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Distributions whose package is called otherwise.
IMPORTED_AS = {"psycopg[binary]": "psycopg"}


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


# -------------------------------------------------------------------------------- two packages


def test_a_wheel_holds_every_file_of_both_packages_and_nothing_else(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    packed = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    there = {path for path in SOURCE.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert packed == {path.relative_to(SOURCE).as_posix() for path in there}
    kept = {Path(name).parts[0] for name in packed if name.endswith("py.typed")}
    assert kept == {"eree", "eree_study"}
    data = {"eree/survey/soc_2018.csv", "eree/web/templates/table.html"}
    assert data | {"eree_study/papers/study.py"} <= packed


def test_the_commands_of_the_study_are_installed_as_entry_points() -> None:
    declared = PROJECT["entry-points"]["eree.commands"]
    points = {point.name: point for point in entry_points(group="eree.commands")}
    assert {name: point.value for name, point in points.items()} == declared
    for name, point in points.items():
        command = point.load()
        assert isinstance(command, click.Command)
        assert (point.module.rpartition(".")[0], command.name) == (
            "eree_study.cli",
            name.rpartition(".")[2],
        )


def fresh(code: str, folder: Path) -> str:
    """What Python prints that has imported nothing yet."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=pages.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_module_of_the_study_is_imported_for_a_command_of_an_office(tmp_path: Path) -> None:
    code = """
import sys
from eree.cli.exit_status import run
from eree.cli.interrupts import Interrupts
for line in ("check nowhere", "ledger show nowhere.db", "cube check nowhere", "verify nowhere"):
    assert run(line.split(), Interrupts()) == 2
print([name for name in sys.modules if name.startswith("eree_study")])
assert run(["synth", "data", "--seed", "-1"], Interrupts()) == 2
print("eree_study.synth" in sys.modules, "eree_study.papers" in sys.modules)
"""
    assert fresh(code, tmp_path) == "[]\nTrue False\n"


def test_names_of_the_study_are_public_in_its_package() -> None:
    for name in eree_study.__all__:
        assert getattr(eree_study, name) is not None
    assert dir(eree_study) == sorted(eree_study.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        eree_study.nothing  # noqa: B018


# -------------------------------------------------------------------------------------- extras


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return eree_study.synthesize(tmp_path_factory.mktemp("packaging") / "data", jobs=1_000)


def without(extras: Sequence[str], commands: Sequence[str], folder: Path) -> list[tuple[int, str]]:
    """Status and words on stderr of commands where nothing of some extras is installed."""
    missing = [name for extra in extras for name in PROJECT["optional-dependencies"][extra]]
    code = f"""
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
for name in {[IMPORTED_AS.get(name, name) for name in missing]}:
    sys.modules[name] = None
from eree.cli.exit_status import run
from eree.cli.interrupts import Interrupts
ended = []
for command in {list(commands)}:
    with redirect_stderr(io.StringIO()) as err, redirect_stdout(io.StringIO()):
        ended.append((run(command.split(), Interrupts()), err.getvalue()))
print(json.dumps(ended))
"""
    return [(status, words) for status, words in json.loads(fresh(code, folder))]


@pytest.mark.parametrize(
    ("extra", "commands"),
    [
        ("serve", ["serve out", "demo --serve"]),
        (
            "plot",
            [
                "demo --out demo",
                "attack --out attacks",
                "study report study",
                "study wac --out study",
                "cube study --out study",
                "cube assess survey.cube public --out assessed",
            ],
        ),
        ("spark", ["check data --engine spark"]),
        ("postgres", ["ledger show postgresql://localhost:1/jobs"]),
    ],
)
def test_what_an_extra_is_needed_for_is_refused_by_its_name(
    extra: str, commands: list[str], data: Path
) -> None:
    for status, words in without([extra], commands, data.parent):
        assert status == 2
        assert re.fullmatch(r"eree: [^\n]+\n", words)
        assert f"eree[{extra}]" in words
    assert list(data.parent.iterdir()) == [data]


PLAN = """
data = "data"
[privacy]
neighbours = "strong"
alpha = "0.1"
epsilon = "2"
[[table]]
name = "jobs"
by = ["sector"]
epsilon = "2"
"""


def test_an_office_publishes_without_any_extra(data: Path, tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(data)
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    lines = [
        "check data",
        "ledger create ledger.db --neighbours strong --alpha 0.1 --epsilon 8 --data-set data",
        "plan plan.toml",
        "release plan.toml --out out --ledger ledger.db",
        "verify out --ledger ledger.db",
        "rank out jobs --by sector",
        "cube synth survey --establishments 50",
        "cube build survey --out survey.cube",
    ]
    extras = ("serve", "plot", "spark", "postgres")
    assert without(extras, lines, tmp_path) == [(0, "")] * len(lines)


def test_make_installs_again_what_the_demo_needs_when_the_packages_change() -> None:
    recipe = subprocess.run(
        ["make", "--dry-run", "--what-if=pyproject.toml", "demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    before, _, after = recipe.stdout.partition("--editable '.[serve,plot]'")
    assert "eree demo" in after
    assert "eree demo" not in before
