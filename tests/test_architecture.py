"""Layers point down, every outside thing has one door, and files stay a sitting's reading."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

#: What an office runs, and what shows that it works; the first knows nothing of the second.
PACKAGES = ("eree", "eree_study")
#: From the bottom; rooms of one layer do not know each other.
LAYERS = (
    ("eree.errors",),
    ("eree.policy", "eree.random"),
    ("eree.workload", "eree.cells", "eree.figures", "eree.partial"),
    ("eree.mechanisms", "eree.data", "eree.budget"),
    ("eree.release",),
    ("eree.estimate",),
    ("eree.survey",),
    ("eree.verification",),
    ("eree_study.synth", "eree_study.figures"),
    ("eree_study.legacy", "eree_study.rehearsal"),
    ("eree_study.papers",),
    ("eree_study.querytool",),
    ("eree_study.demo", "eree.web"),
    ("eree.cli",),
    ("eree_study.cli",),
)
#: The one pair of neighbours that may meet: cells belong to a marginal.
MEETING = {("eree.cells", "eree.workload")}
HEIGHT = {room: height for height, layer in enumerate(LAYERS) for room in layer}
#: Rooms that may look at the public faces, and that the faces know nothing of.
LOWEST_SURFACE = HEIGHT["eree.web"]

#: Outside things and the files, or folders, where each may enter.
DOORS = {
    ("duckdb", "_duckdb"): ("eree/data/engine.py",),
    ("pyspark", "py4j"): ("eree/data/spark.py",),
    ("matplotlib", "mpl_toolkits"): ("eree/figures/", "eree_study/figures/"),
    ("click", "rich"): ("eree/cli/", "eree_study/cli/"),
    ("secrets", "os.urandom", "os.getrandom", "random.SystemRandom"): ("eree/random/source.py",),
    ("cryptography",): ("eree/random/source.py", "eree/release/signature.py"),
    ("random", "numpy.random"): (
        "eree_study/synth/",
        "eree_study/papers/",
        "eree_study/querytool/",
    ),
    ("sqlite3", "sqlalchemy"): ("eree/budget/stores.py",),
    ("psycopg",): ("eree/budget/stores.py", "eree/data/postgres.py"),
    ("starlette", "fastapi", "uvicorn", "flask", "django", "http.server"): ("eree/web/",),
    ("jinja2",): ("eree/web/", "eree_study/papers/markdown.py"),
    ("socket", "urllib.request", "http.client", "requests", "httpx", "aiohttp"): ("eree/web/",),
}
#: Confidential cells, and the files that may get hold of them: they are counted and written in
#: one, and one makes public rows of them; the others pass them on.
CELLS = tuple(
    f"eree.{name}"
    for home in ("", "cells.", "data.tabulate.")
    for name in (
        *(f"{home}Cells", f"{home}tabulate", f"{home}stream", f"{home}stream_weighted"),
        f"{home}write_cells",
    )
)
READERS = (
    "eree/__init__.pyi",
    "eree/data/tabulate.py",
    "eree/release/measure.py",
    "eree/release/publish.py",
    "eree/cli/commands.py",
    "eree_study/",
)
#: Rows of tables: engines read them where data are checked and counted, and nowhere else.
ROWS = ("eree.data.engine", "eree.data.spark", "eree.data.rows")
MOST_LINES = 400
VAGUE = {"utils", "util", "helpers", "helper", "common", "base", "core", "manager", "managers"}


@dataclass(frozen=True)
class Module:
    """One file of a package: its path under the sources, and its text."""

    path: str
    text: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The name of the module."""
        names = self.path.removesuffix("i").removesuffix(".py").split("/")
        return tuple(names[:-1] if names[-1] == "__init__" else names)

    @property
    def room(self) -> str:
        """The file or folder of its package that it belongs to; a package is its public face."""
        return room_of(".".join(self.parts))

    def uses(self) -> Iterator[str]:
        """Everything it imports or reaches by a dotted name: inside functions and for types too."""
        known: dict[str, str] = {}
        tree = ast.parse(self.text)
        folder = self.parts
        if not self.path.endswith(("__init__.py", "__init__.pyi")):
            folder = folder[:-1]
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    known[alias.asname or top] = alias.name if alias.asname else top
                    yield alias.name
            elif isinstance(node, ast.ImportFrom):
                above = folder[: len(folder) - node.level + 1] if node.level else ()
                origin = ".".join((*above, *((node.module,) if node.module else ())))
                for alias in node.names:
                    known[alias.asname or alias.name] = f"{origin}.{alias.name}"
                    yield f"{origin}.{alias.name}"
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                dotted, inner = [node.attr], node.value
                while isinstance(inner, ast.Attribute):
                    dotted.append(inner.attr)
                    inner = inner.value
                if isinstance(inner, ast.Name) and inner.id in known:
                    yield ".".join((known[inner.id], *reversed(dotted)))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                named = [a.value for a in node.args[:1] if isinstance(a, ast.Constant)]
                if called in ("__import__", "import_module") and named:
                    yield str(named[0])


def room_of(name: str) -> str:
    """The room of a dotted name, such as `eree.data` of `eree.data.tables`."""
    return ".".join(name.split(".")[:2])


def modules(source: Path) -> list[Module]:
    """All files of the packages under a source folder."""
    return [
        Module(path.relative_to(source).as_posix(), path.read_text(encoding="utf-8"))
        for package in PACKAGES
        for path in sorted((source / package).rglob("*.py*"))
        if path.suffix in (".py", ".pyi")
    ]


def within(name: str, things: tuple[str, ...]) -> bool:
    """Whether a dotted name is one of the things, or lies inside one."""
    return any(name == thing or name.startswith(f"{thing}.") for thing in things)


def complaints(source: Path) -> list[str]:
    """Everything in the packages that breaks the architecture."""
    found = modules(source)
    rooms = {module.room for module in found}
    known = {*HEIGHT, *PACKAGES, "eree.__main__"}
    bad = [f"{room} has no layer" for room in sorted(rooms - known)]
    for module in found:
        uses = sorted(set(module.uses()))
        bad += [
            f"{module.path} uses {name}: {why}" for name in uses if (why := wrong(module, name))
        ]
        if len(module.text.splitlines()) > MOST_LINES:
            bad.append(f"{module.path} has more than {MOST_LINES} lines")
        if VAGUE & set(module.parts):
            bad.append(f"{module.path} has a name that says nothing")
    return bad


def wrong(module: Module, name: str) -> str | None:
    """Why a module may not use a name, or None."""
    if within(name, PACKAGES) and (why := wrong_layer(module.room, name)):
        return why
    for things, doors in (DOORS | {CELLS: READERS, ROWS: ("eree/data/",)}).items():
        inside = any(
            module.path.startswith(door) if door.endswith("/") else module.path == door
            for door in doors
        )
        if within(name, things) and not inside:
            return f"the door is {' or '.join(doors)}"
    return None


def wrong_layer(room: str, name: str) -> str | None:
    """Why a room may not use a name of a package, or None."""
    used, height = room_of(name), HEIGHT.get(room, -1)
    if within(room, ("eree",)) and within(used, ("eree_study",)):
        return "eree knows nothing of eree_study"
    if room == "eree.__main__":
        return None if used in ("eree.cli", "eree") else "__main__ is the command line"
    if room in PACKAGES:
        surface = HEIGHT.get(used, -1) >= LOWEST_SURFACE
        return "the public face knows no surface" if surface else None
    if used not in HEIGHT:  # a public face itself, such as `import eree` or `eree.load`
        return None if height >= LOWEST_SURFACE else "only the surfaces look at the public face"
    if used == room or (room, used) in MEETING or HEIGHT[used] < height:
        return None
    return "it lies across or above"


def test_the_house_is_in_order() -> None:
    assert complaints(SOURCE) == []


def test_public_rows_are_made_in_one_place() -> None:
    home = "eree/release/measure.py"
    known = [module.path for module in modules(SOURCE) if "PublicRows" in module.text]
    assert known == [home]


def test_the_columns_of_confidential_cells_are_read_where_they_may_be() -> None:
    """An attribute of a schema may be `confidential` as well: these files ask that alone."""
    flags = ("eree/policy/", "eree/workload.py", "eree/estimate/sizes.py", "eree/survey/assess/")
    for module in modules(SOURCE):
        nodes = ast.walk(ast.parse(module.text))
        attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        if "confidential" in attributes and not module.path.startswith(flags):
            assert module.path.startswith(("eree/cells.py", *READERS)), module.path


def test_a_name_is_imported_from_its_home() -> None:
    """Else a door would be passed by way of whoever imports something there."""
    found = modules(SOURCE)
    passed_on: dict[str, set[str]] = {}
    for module in found:
        tree = ast.parse(module.text)
        names = [a for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names]
        assert all(alias.name != "*" for alias in names), module.path
        passed_on[".".join(module.parts)] = {a.asname or a.name for a in names}
    faces = {
        *PACKAGES,
        "eree_study.synth",
        "eree_study.demo",
        "eree.cli",
        "eree.web",
        "eree.figures",
    }
    for module in found:
        for node in ast.walk(ast.parse(module.text)):
            if isinstance(node, ast.ImportFrom) and node.module in passed_on and not node.level:
                again = {a.name for a in node.names} & passed_on[node.module]
                assert not again or node.module in faces, (module.path, node.module, again)


def test_nobody_asks_which_mechanism_it_has() -> None:
    """Outside `mechanisms` only the contract and the registry are known."""
    contract = ("mechanism", "expected", "certificate", "cache", "grid", "intervals", "parameters")
    # the last is a distribution, which the survey's noise has as well
    known = (*contract, "registry", "geometric")
    asked = [
        f"{module.path} uses {name}"
        for module in modules(SOURCE)
        if not module.path.startswith("eree/mechanisms/")
        for name in module.uses()
        if name.startswith("eree.mechanisms.") and name.split(".")[2] not in known
    ]
    assert asked == []


def test_the_packages_are_found() -> None:
    names = {module.path for module in modules(SOURCE)}
    assert {"eree/errors.py", "eree/data/engine.py", "eree_study/papers/study.py"} <= names
    assert {path.name for path in SOURCE.iterdir() if path.is_dir()} == set(PACKAGES)


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("eree/errors.py", "from eree.cells import Cells", "uses eree.cells.Cells: it lies"),
        ("eree/policy/a.py", "import eree.data.tables", "uses eree.data.tables: it lies"),
        ("eree/policy/a.py", "from ..data import tables", "uses eree.data.tables: it lies"),
        ("eree/data/a.py", "from eree.budget import stores", "uses eree.budget.stores: it"),
        ("eree/figures/a.py", "def f():\n    import eree.cells", "uses eree.cells: it lies"),
        (
            "eree/data/a.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from eree import cli",
            "uses eree.cli: it lies",
        ),
        ("eree/data/a.py", "import eree\neree.load", "uses eree: only the surfaces"),
        ("eree/__init__.py", "from eree.cli import main", "uses eree.cli.main: the public"),
        ("eree/data/tables.py", "import duckdb", "uses duckdb: the door is eree/data/engine"),
        (
            "eree/data/tables.py",
            "def f():\n    from pyspark.sql import SparkSession",
            "uses pyspark.sql",
        ),
        (
            "eree/data/a.py",
            "import importlib\nimportlib.import_module('duckdb')",
            "uses duckdb: the",
        ),
        (
            "eree_study/demo.py",
            "import matplotlib.pyplot as plt",
            "uses matplotlib.pyplot: the door",
        ),
        ("eree_study/demo.py", "from rich import print", "uses rich.print: the door is eree/cli/"),
        ("eree/data/a.py", "import os\nos.urandom(8)", "uses os.urandom: the door is eree/random"),
        ("eree/data/a.py", "from os import urandom as u", "uses os.urandom: the door is"),
        ("eree/data/a.py", "import secrets", "uses secrets: the door is eree/random/source.py"),
        (
            "eree/data/a.py",
            "import numpy as np\nnp.random.default_rng()",
            "uses numpy.random.default",
        ),
        ("eree/random/exact.py", "import random", "uses random: the door is eree_study/synth/"),
        ("eree/data/a.py", "import sqlite3", "uses sqlite3: the door is eree/budget/stores.py"),
        ("eree/release/a.py", "from eree.cells import Cells", "uses eree.cells.Cells: the door"),
        ("eree/web/a.py", "import eree\neree.tabulate", "uses eree.tabulate: the door is"),
        (
            "eree/estimate/a.py",
            "from eree.data import tabulate\ntabulate.stream",
            "uses eree.data.tabulate.stream: the door",
        ),
        ("eree/release/a.py", "import eree.data.engine", "uses eree.data.engine: the door is"),
        ("eree/release/a.py", "import starlette.app", "uses starlette.app: the door is"),
        ("eree/data/a.py", "x = 1\n" * 401, "has more than 400 lines"),
        ("eree/data/utils.py", "", "has a name that says nothing"),
        ("eree/kitchen.py", "", "eree.kitchen has no layer"),
        ("eree_study/kitchen.py", "", "eree_study.kitchen has no layer"),
        ("eree/survey/a.py", "import eree_study", "uses eree_study: eree knows nothing"),
        (
            "eree/cli/a.py",
            "from eree_study import synth",
            "uses eree_study.synth: eree knows nothing",
        ),
        ("eree/__init__.py", "from eree_study.synth import synthesize", "eree knows nothing of"),
        ("eree/cli/a.py", "__import__('eree_study.cli.demo')", "eree knows nothing of eree_study"),
        (
            "eree_study/synth/a.py",
            "from eree_study.legacy import games",
            "uses eree_study.legacy.games: it",
        ),
        (
            "eree_study/papers/a.py",
            "from eree.cli import options",
            "uses eree.cli.options: it lies",
        ),
        ("eree_study/demo/a.py", "import eree.web.server", "uses eree.web.server: it lies"),
        ("eree_study/papers/a.py", "import eree", "uses eree: only the surfaces"),
        (
            "eree_study/__init__.py",
            "from eree_study.demo import run_demo",
            "the public face knows no",
        ),
        ("eree_study/demo/a.py", "import random", "uses random: the door is eree_study/synth/"),
    ],
)
def test_what_breaks_the_rules_is_caught(
    path: str, text: str, complaint: str, tmp_path: Path
) -> None:
    planted = tmp_path / path
    planted.parent.mkdir(parents=True)
    planted.write_text(text, encoding="utf-8")
    found = complaints(tmp_path)
    assert any(complaint in line for line in found), found


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("eree/data/engine.py", "import duckdb"),
        ("eree/data/a.py", "from eree.policy.schema import Schema\nfrom . import tables"),
        ("eree_study/synth/a.py", "import numpy as np\nrng = np.random.default_rng(1)"),
        ("eree/random/source.py", "import os\nos.urandom(16)"),
        ("eree/cli/commands.py", "import click\nimport eree\neree.load"),
        ("eree/release/measure.py", "from eree.cells import Cells"),
        ("eree/estimate/a.py", "from eree.cells import Cell"),
        ("eree_study/papers/a.py", "from eree.survey import cube\nimport eree_study.legacy.games"),
        ("eree_study/figures/a.py", "import matplotlib\nfrom eree.figures import style"),
        ("eree_study/cli/a.py", "import click\nimport eree_study\nimport eree.cli.options"),
        ("eree/__main__.py", "from eree.cli import main"),
        ("eree/__init__.py", "from eree.data.tables import load"),
    ],
)
def test_what_keeps_the_rules_is_left_alone(path: str, text: str, tmp_path: Path) -> None:
    planted = tmp_path / path
    planted.parent.mkdir(parents=True)
    planted.write_text(text, encoding="utf-8")
    assert complaints(tmp_path) == []
