"""Docstrings of public functions: they name every argument, and their examples run."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import eree
import eree_study
from eree.mechanisms import registry
from small_survey import write_survey
from uses import shown

FUNCTIONS: dict[str, Callable[..., Any]] = {
    f"{package.__name__}.{name}": value
    for package in (eree,)
    for name in package.__all__
    if inspect.isfunction(value := getattr(package, name))
}
PLAN = """
data = "data"
[privacy]
neighbours = "strong"
alpha = "0.1"
epsilon = "6"
[[table]]
name = "jobs"
mechanism = "smooth-pareto"
by = ["county", "sector"]
epsilon = "2"
[[table]]
name = "sexes"
by = ["tract", "sector", "sex"]
epsilon = "4"
"""


SIZES = {
    "privacy": {"neighbours": "strong", "alpha": "0.1", "epsilon": "1"},
    "table": [{"name": "sizes", "by": ["workplace_id"], "epsilon": "1"}],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what examples use: data, a plan, a ledger, releases, a key and a survey."""
    home = tmp_path_factory.mktemp("examples")
    eree_study.synthesize(home / "data", jobs=20_000, seed=1)
    shown(home / "data")
    (home / "plan.toml").write_text(PLAN, encoding="utf-8")
    plan, tables = eree.Plan.read(home / "plan.toml"), eree.load(home / "data")
    ledger = eree.Ledger.create(home / "ledger.db", plan.price(), data_set=plan.schema.data_set)
    eree.publish(plan, tables, ledger=ledger, out=home / "out")
    seeded = eree.SeededRandom(1)
    single = eree.Plan.of({**SIZES, "data": str(home / "data")})
    eree.publish(single, tables, ledger=None, out=home / "sizes", random=seeded)
    key = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (home / "key.pem").write_bytes(key)
    write_survey(home / "survey")
    bounds = {"most_weight": 200, "most_records": 5}
    cube = eree.build_cube_file(home / "survey", home / "cube.eree", **bounds)
    eree.protect_cube(cube, ledger=None, out=home / "public", random=seeded, epsilon=2)
    return home


def undocumented(function: Callable[..., Any]) -> set[str]:
    """The parameters that its docstring does not describe under `Args:`."""
    _, _, described = (inspect.getdoc(function) or "").partition("\nArgs:\n")
    named = re.findall(r"^    \*{0,2}(\w+): \S", described.split("\n\n")[0], re.MULTILINE)
    return set(inspect.signature(function).parameters) - set(named)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_names_its_arguments(name: str) -> None:
    assert undocumented(FUNCTIONS[name]) == set()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_example_comes_out_as_it_is_shown(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(registry, "_OWN", {})
    example = doctest.DocTestParser().get_doctest(
        inspect.getdoc(FUNCTIONS[name]) or "",
        {"eree": eree, "eree_study": eree_study},
        name,
        None,
        None,
    )
    said: list[str] = []
    found = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=said.append)
    assert found.attempted, "there is no example"
    assert not found.failed, "".join(said)


def test_an_argument_that_is_left_out_is_seen() -> None:
    def half(one: int, other: int) -> int:
        """Nothing.

        Args:
            one: A number.
        """
        return one + other

    assert undocumented(half) == {"other"}
