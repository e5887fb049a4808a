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
import pages
from eree.mechanisms import registry

FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: value for name in eree.__all__ if inspect.isfunction(value := getattr(eree, name))
}
#: Those of the first page of the reference: what most work needs.
FIRST = [
    name
    for name in re.findall(
        r"^::: eree\.(\w+)$",
        (pages.ROOT / "docs" / "reference.md").read_text("utf-8"),
        re.MULTILINE,
    )
    if name in FUNCTIONS
]
WITH_EXAMPLES = [name for name, function in FUNCTIONS.items() if ">>> " in function.__doc__]
PLAN = """
data = "data"
[privacy]
neighbours = "strong"
alpha = "0.1"
epsilon = "6"
[[table]]
name = "jobs"
by = ["county", "sector"]
epsilon = "2"
[[table]]
name = "sexes"
by = ["tract", "sector", "sex"]
epsilon = "4"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, a plan, a ledger, a release of it and a key."""
    home = tmp_path_factory.mktemp("examples")
    eree_study.synthesize(home / "data", jobs=20_000, seed=1)
    (home / "plan.toml").write_text(PLAN, encoding="utf-8")
    plan = eree.Plan.read(home / "plan.toml")
    ledger = eree.Ledger.create(home / "ledger.db", plan.price(), data_set=plan.schema.data_set)
    eree.publish(plan, eree.load(home / "data"), ledger=ledger, out=home / "out")
    key = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (home / "key.pem").write_bytes(key)
    return home


def undocumented(function: Callable[..., Any]) -> set[str]:
    """The parameters that its docstring does not describe under `Args:`."""
    _, _, described = (inspect.getdoc(function) or "").partition("\nArgs:\n")
    named = re.findall(r"^    \*{0,2}(\w+): \S", described.split("\n\n")[0], re.MULTILINE)
    return set(inspect.signature(function).parameters) - set(named)


def test_functions_that_most_work_needs_have_arguments_and_an_example() -> None:
    assert {"load", "publish", "verify", "rank"} < set(FIRST)
    assert {name: missing for name in FIRST if (missing := undocumented(FUNCTIONS[name]))} == {}
    assert set(FIRST) - set(WITH_EXAMPLES) == set()


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_an_example_comes_out_as_it_is_shown(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(registry, "_OWN", {})
    example = doctest.DocTestParser().get_doctest(
        inspect.getdoc(FUNCTIONS[name]) or "", {"eree": eree}, name, None, None
    )
    said: list[str] = []
    found = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=said.append)
    assert found.attempted and not found.failed, "".join(said)


def test_an_argument_that_is_left_out_is_seen() -> None:
    def half(one: int, other: int) -> int:
        """Nothing.

        Args:
            one: A number.
        """
        return one + other

    assert undocumented(half) == {"other"}
