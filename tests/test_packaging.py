"""What is installed: two packages, the commands that one adds to the other, extras, and pins.

A machine of tomorrow runs what was tested today.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from importlib.metadata import distribution, distributions, entry_points
from pathlib import Path
from zipfile import ZipFile

import click
import jsonschema_rs
import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import eree_study
import pages
from supply.__main__ import licences
from supply.bill import bill
from supply.packages import EXTRAS, installed, normal
from supply.trial import PLAN, faults, run, surroundings

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {normal(name): version for name, _, version in (line.partition("==") for line in lines)}


def test_every_package_that_is_installed_is_pinned_and_nothing_else() -> None:
    """Those that build others too: what is only in a cache is missing on a new machine."""
    found = {normal(d.metadata["Name"]): d.version for d in distributions()}
    assert found.pop("eree")
    assert pinned() == found


def test_bounds_on_packages_hold_what_is_tested_up_to_the_next_major_version() -> None:
    declared = PROJECT["dependencies"], *map(PROJECT["optional-dependencies"].get, EXTRAS)
    for needed in (Requirement(text) for part in declared for text in part):
        tested = pinned()[normal(needed.name)]
        major, minor = tested.split(".")[:2]
        assert needed.specifier == SpecifierSet(f">={major}.{minor},<{int(major) + 1}"), needed.name


def test_a_landing_is_tested_without_anything_left_from_before() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(r'HOME="\$home" CI=true PIP_NO_CACHE_DIR=1 make test$', script, re.MULTILINE)
    assert "home=$(mktemp -d)" in script


# -------------------------------------------------------------------------------- two packages


def built(source: Path, target: Path) -> Path:
    """The wheel of some sources."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(target)]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    [wheel] = target.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("wheel"))


one_wheel = pytest.mark.xdist_group("wheel")


@one_wheel
def test_a_wheel_holds_every_file_of_both_packages_and_nothing_else(wheel: Path) -> None:
    packed = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    there = {path for path in SOURCE.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert packed == {path.relative_to(SOURCE).as_posix() for path in there}
    kept = {Path(name).parts[0] for name in packed if name.endswith("py.typed")}
    assert kept == {"eree", "eree_study"}
    data = {"eree/survey/soc_2018.csv", "eree/web/templates/table.html"}
    assert data | {"eree_study/papers/study.py"} <= packed


@one_wheel
def test_a_wheel_has_the_same_bytes_wherever_and_whenever_it_is_built(
    wheel: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "elsewhere"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        copy.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, copy)  # of now, and not of when they were written
    shutil.copytree(SOURCE, copy / "src", copy_function=shutil.copy)
    assert built(copy, tmp_path).read_bytes() == wheel.read_bytes()


def bare(folder: Path, packages: Sequence[str]) -> Path:
    """The Python of an environment with some packages, linked from this one file by file."""
    environment = folder / "env"
    venv.create(environment, symlinks=True)
    [home] = environment.glob("lib/python*/site-packages")
    for package in map(distribution, packages):
        here = Path(str(package.locate_file("")))
        for file in package.files or ():
            if ".." not in file.parts and (here / file).is_file():  # not all that is compiled
                (home / file).parent.mkdir(parents=True, exist_ok=True)
                os.link(here / file, home / file)
    return environment / "bin" / "python"


@one_wheel
def test_who_installs_the_wheel_alone_can_publish_and_verify_but_not_serve(
    wheel: Path, tmp_path: Path
) -> None:
    """Without the repository, and with nothing but what eree itself says that it needs."""
    python = bare(tmp_path, [name for name in installed() if name != "eree"])
    pip = [sys.executable, "-m", "pip", "-q", "--python", str(python)]
    for words in (["install", "--no-index", "--no-deps", str(wheel)], ["check"]):
        subprocess.run([*pip, *words], check=True, capture_output=True, env=surroundings())
    office = tmp_path / "office"
    office.mkdir()
    assert faults(python, office) == []
    refused = run(python, "serve out", office)
    assert refused.returncode == 2
    assert re.fullmatch(r"eree: \w+ is not installed; .*'eree\[serve\]'\n", refused.stderr)


# ------------------------------------------------------------------------- licences and materials


def test_the_documentation_names_the_licence_of_every_package() -> None:
    assert (ROOT / "docs" / "licences.csv").read_text(encoding="utf-8") == licences()
    assert {"duckdb", "cffi", "pillow", "py4j", "psycopg-binary"} <= installed(EXTRAS).keys()


COMPONENT = {
    "type": "object",
    "required": ["type", "name"],
    "additionalProperties": False,
    "properties": {
        "type": {"enum": ["application", "library"]},
        "bom-ref": {"type": "string", "minLength": 1},
        "name": {"type": "string"},
        "version": {"type": "string"},
        "purl": {"type": "string", "pattern": r"^pkg:pypi/[a-z0-9-]+@\S+$"},
        "licenses": {
            "type": "array",
            "maxItems": 1,
            "items": {
                "oneOf": [
                    {
                        "required": ["expression"],
                        "additionalProperties": False,
                        "properties": {"expression": {"type": "string"}},
                    },
                    {
                        "required": ["license"],
                        "additionalProperties": False,
                        "properties": {"license": {"required": ["name"]}},
                    },
                ]
            },
        },
    },
}
#: What the published schema of CycloneDX 1.6 asks of the parts that ours has.
CYCLONEDX = {
    "type": "object",
    "required": ["bomFormat", "specVersion"],
    "additionalProperties": False,
    "properties": {
        "bomFormat": {"enum": ["CycloneDX"]},
        "specVersion": {"const": "1.6"},
        "serialNumber": {"pattern": "^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
        "version": {"type": "integer", "minimum": 1},
        "metadata": {
            "additionalProperties": False,
            "properties": {
                "timestamp": {"type": "string", "format": "date-time"},
                "component": COMPONENT,
            },
        },
        "components": {"type": "array", "items": COMPONENT, "uniqueItems": True},
        "dependencies": {
            "type": "array",
            "uniqueItems": True,
            "items": {
                "required": ["ref"],
                "additionalProperties": False,
                "properties": {
                    "ref": {"type": "string", "minLength": 1},
                    "dependsOn": {"type": "array", "uniqueItems": True},
                },
            },
        },
    },
}


def test_the_bill_of_materials_keeps_the_rules_of_cyclonedx_and_leaves_nothing_out() -> None:
    packages = installed(EXTRAS)
    made = json.loads(json.dumps(bill(packages)))
    jsonschema_rs.validate(CYCLONEDX, made, validate_formats=True)
    parts = [made["metadata"]["component"], *made["components"]]
    names = {part["bom-ref"] for part in parts}
    assert len(names) == len(parts) == len(packages)
    assert {one["ref"] for one in made["dependencies"]} == names
    assert {need for one in made["dependencies"] for need in one["dependsOn"]} < names
    assert {
        part["name"]: part["version"] for part in made["components"]
    }.items() <= pinned().items()
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(CYCLONEDX, made | {"specVersion": 1.6})


# ----------------------------------------------------------------------- commands of the study


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
    declared = [text for extra in extras for text in PROJECT["optional-dependencies"][extra]]
    missing = [Requirement(text).name for text in declared]
    code = f"""
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
for name in {missing}:
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
        ("plot", ["cube assess survey.cube public --out assessed"]),
        (
            "study",
            [
                "demo --out demo",
                "attack --out attacks",
                "study report study",
                "study wac --out study",
                "cube study --out study",
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
    assert without(EXTRAS, lines, tmp_path) == [(0, "")] * len(lines)


def test_who_has_a_wheel_and_no_make_is_told_the_commands_that_do_the_same() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    for target, line in (("demo", "eree demo"), ("serve", "eree demo --serve")):
        recipe = subprocess.run(
            ["make", "--dry-run", "--always-make", target],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert f"{line.replace('demo', 'demo --out build/demo')}\n" in recipe.stdout
        assert f"`{line}` is `make {target}`" in page


def test_make_installs_again_what_the_demo_needs_when_the_packages_change() -> None:
    recipe = subprocess.run(
        ["make", "--dry-run", "--what-if=pyproject.toml", "demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    before, _, after = recipe.stdout.partition("--editable '.[serve,study]'")
    assert "eree demo" in after
    assert "eree demo" not in before
