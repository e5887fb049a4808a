"""Layers point down, every outside thing has one door, and files stay a sitting's reading."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

#: From the bottom; rooms of one layer do not know each other.
LAYERS = (
    ("errors",),
    ("policy", "noise"),
    ("workload", "cells", "figures", "partial"),
    ("mechanisms", "data", "budget"),
    ("estimate",),
    ("release",),
    ("legacy", "survey"),
    ("study",),
    ("demo", "web"),
    ("cli",),
)
#: The one pair of neighbours that may meet: cells belong to a marginal.
MEETING = {("cells", "workload")}
HEIGHT = {room: height for height, layer in enumerate(LAYERS) for room in layer}

#: Outside things and the files, or folders, where each may enter.
DOORS = {
    ("duckdb", "_duckdb", "pyspark", "py4j"): ("data/engine.py",),
    ("matplotlib", "mpl_toolkits"): ("figures/", "figures.py"),
    ("click", "rich"): ("cli/", "cli.py"),
    ("secrets", "os.urandom", "os.getrandom", "random.SystemRandom"): ("noise/coins.py",),
    ("cryptography",): ("noise/coins.py", "release/signature.py"),
    ("random", "numpy.random"): ("data/synthetic/", "study/", "survey/synthetic.py"),
    ("sqlite3", "sqlalchemy", "psycopg"): ("budget/stores.py",),
    ("starlette", "fastapi", "uvicorn", "jinja2", "flask", "django", "http.server"): ("web/",),
    ("socket", "urllib.request", "http.client", "requests", "httpx", "aiohttp"): ("web/",),
}
MOST_LINES = 400
VAGUE = {"utils", "util", "helpers", "helper", "common", "base", "core", "manager", "managers"}


@dataclass(frozen=True)
class Module:
    """One file of the package: its path inside `eree`, and its text."""

    path: str
    text: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The name of the module, without `eree`."""
        names = self.path.removesuffix(".py").split("/")
        return tuple(names[:-1] if names[-1] == "__init__" else names)

    @property
    def room(self) -> str:
        """The file or folder of the package that it belongs to; empty for the public face."""
        return self.parts[0] if self.parts else ""

    def uses(self) -> Iterator[str]:
        """Everything it imports or reaches by a dotted name: inside functions and for types too."""
        known: dict[str, str] = {}
        tree = ast.parse(self.text)
        folder = ("eree", *self.parts)
        if not self.path.endswith("__init__.py"):
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


def modules(source: Path) -> list[Module]:
    """All files of the package under a source folder."""
    package = source / "eree"
    return [
        Module(path.relative_to(package).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted(package.rglob("*.py"))
    ]


def within(name: str, things: tuple[str, ...]) -> bool:
    """Whether a dotted name is one of the things, or lies inside one."""
    return any(name == thing or name.startswith(f"{thing}.") for thing in things)


def complaints(source: Path) -> list[str]:
    """Everything in the package that breaks the architecture."""
    found = modules(source)
    rooms = {module.room for module in found if module.room}
    bad = [f"{room} has no layer" for room in sorted(rooms - {*HEIGHT, "__main__"})]
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
    if within(name, ("eree",)):
        return wrong_layer(module.room, name)
    for things, doors in DOORS.items():
        inside = any(
            module.path.startswith(door) if door.endswith("/") else module.path == door
            for door in doors
        )
        if within(name, things) and not inside:
            return f"the door is {' or '.join(doors)}"
    return None


def wrong_layer(room: str, name: str) -> str | None:
    """Why a room may not use a name of the package, or None."""
    used = name.split(".")[1] if "." in name else ""
    if room == "__main__":
        return None if used in ("cli", "") else "__main__ is the command line"
    if room == "":
        return "the public face knows no surface" if used in ("cli", "web") else None
    if used not in HEIGHT:  # the public face itself, such as `import eree` or `eree.load`
        surface = HEIGHT.get(room, -1) >= HEIGHT["demo"]
        return None if surface else "only the surfaces look at the public face"
    if used == room or (room, used) in MEETING or HEIGHT[used] < HEIGHT.get(room, -1):
        return None
    return "it lies across or above"


def test_the_house_is_in_order() -> None:
    assert complaints(SOURCE) == []


def test_the_package_is_found() -> None:
    names = {module.path for module in modules(SOURCE)}
    assert {"errors.py", "data/engine.py", "policy/schema.py"} <= names


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("errors.py", "from eree.cells import Cells", "errors.py uses eree.cells.Cells: it lies"),
        ("policy/a.py", "import eree.data.tables", "policy/a.py uses eree.data.tables: it lies"),
        ("policy/a.py", "from ..data import tables", "policy/a.py uses eree.data.tables: it lies"),
        ("data/a.py", "from eree.budget import stores", "data/a.py uses eree.budget.stores: it"),
        ("figures.py", "def f():\n    import eree.cells", "figures.py uses eree.cells: it lies"),
        (
            "data/a.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from eree import cli",
            "data/a.py uses eree.cli: it lies",
        ),
        ("data/a.py", "import eree\neree.load", "data/a.py uses eree: only the surfaces"),
        ("__init__.py", "from eree.cli import main", "__init__.py uses eree.cli.main: the public"),
        ("data/tables.py", "import duckdb", "data/tables.py uses duckdb: the door is data/engine"),
        (
            "data/tables.py",
            "def f():\n    from pyspark.sql import SparkSession",
            "uses pyspark.sql",
        ),
        ("data/a.py", "import importlib\nimportlib.import_module('duckdb')", "uses duckdb: the"),
        ("demo.py", "import matplotlib.pyplot as plt", "demo.py uses matplotlib.pyplot: the door"),
        ("demo.py", "from rich import print", "demo.py uses rich.print: the door is cli/"),
        ("data/a.py", "import os\nos.urandom(8)", "data/a.py uses os.urandom: the door is noise"),
        ("data/a.py", "from os import urandom as u", "data/a.py uses os.urandom: the door is"),
        ("data/a.py", "import secrets", "data/a.py uses secrets: the door is noise/coins.py"),
        ("data/a.py", "import numpy as np\nnp.random.default_rng()", "uses numpy.random.default"),
        ("noise/laws.py", "import random", "noise/laws.py uses random: the door is data/synth"),
        ("data/a.py", "import sqlite3", "data/a.py uses sqlite3: the door is budget/stores.py"),
        ("release/a.py", "import starlette.app", "release/a.py uses starlette.app: the door is"),
        ("data/a.py", "x = 1\n" * 401, "data/a.py has more than 400 lines"),
        ("data/utils.py", "", "data/utils.py has a name that says nothing"),
        ("kitchen.py", "", "kitchen has no layer"),
    ],
)
def test_what_breaks_the_rules_is_caught(
    path: str, text: str, complaint: str, tmp_path: Path
) -> None:
    planted = tmp_path / "eree" / path
    planted.parent.mkdir(parents=True)
    planted.write_text(text, encoding="utf-8")
    found = complaints(tmp_path)
    assert any(complaint in line for line in found), found


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("data/engine.py", "import duckdb"),
        ("data/a.py", "from eree.policy.schema import Schema\nfrom . import tables"),
        ("data/synthetic/a.py", "import numpy as np\nrng = np.random.default_rng(1)"),
        ("noise/coins.py", "import os\nos.urandom(16)"),
        ("cli/commands.py", "import click\nimport eree\neree.load"),
        ("__main__.py", "from eree.cli import main"),
        ("__init__.py", "from eree.data.tables import load"),
    ],
)
def test_what_keeps_the_rules_is_left_alone(path: str, text: str, tmp_path: Path) -> None:
    planted = tmp_path / "eree" / path
    planted.parent.mkdir(parents=True)
    planted.write_text(text, encoding="utf-8")
    assert complaints(tmp_path) == []
