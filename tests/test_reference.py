"""Docstrings of public names: they say what each is made of, and their examples run."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import eree
import eree_study
from eree.mechanisms import registry
from eree_study.papers import study
from shared import lodes_year
from small_survey import write_survey
from uses import shown

NAMES = {
    f"{package.__name__}.{name}": getattr(package, name)
    for package in (eree, eree_study)
    for name in package.__all__
}
CLASSES = [name for name, value in NAMES.items() if inspect.isclass(value)]
FUNCTIONS = [name for name, value in NAMES.items() if inspect.isfunction(value)]
VALUES = [name for name in NAMES if name not in CLASSES and name not in FUNCTIONS]
#: A study takes long: its findings are shown where it is run.
SHOWN_BY = {
    "eree_study.CubeStudy": "eree_study.cube_study",
    "eree_study.StudyReport": "eree_study.study_report",
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
    (home / "sizes.csv").write_text("from,to,workplaces\n1,9,800\n10,999,167\n", encoding="utf-8")
    (home / "shares.csv").write_text("sex,share\nF,0.48\nM,0.52\n", encoding="utf-8")
    write_survey(home / "survey")
    bounds = {"most_weight": 200, "most_records": 5}
    cube = eree.build_cube_file(home / "survey", home / "cube.eree", **bounds)
    eree.protect_cube(cube, ledger=None, out=home / "public", random=seeded, epsilon=2)
    return home


@pytest.fixture(scope="module")
def wac(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study there that goes on in an example, at its end."""
    return lodes_year(tmp_path_factory, folder / "wac")


def said_below(source: str, name: str) -> str:
    """The text below a value of a module, which the reference takes for its docstring."""
    for line, below in pairwise(ast.parse(source).body):
        target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
        if isinstance(target, ast.Name) and target.id == name and isinstance(below, ast.Expr):
            return inspect.cleandoc(ast.literal_eval(below.value))
    return ""


def docstring(name: str) -> str:
    """What the reference says of a name."""
    if name not in VALUES:
        return inspect.getdoc(NAMES[name]) or ""
    package, _, value = name.partition(".")
    return said_below(inspect.getsource(import_module(eree.homes_of(package)[value])), value)


def _described(named: object) -> set[str]:
    """What the docstring of a function or class describes under `Args:` or `Attributes:`."""
    text = named.__doc__ or ""
    _, _, listed = re.sub("^Attributes:$", "Args:", inspect.cleandoc(text), flags=re.M).partition(
        "\nArgs:\n"
    )
    return set(re.findall(r"^    \*{0,2}(\w+): \S", listed.split("\n\n")[0], re.M))


def undocumented(named: type | Callable[..., Any]) -> set[str]:
    """The parameters that no docstring describes: its own or, of a class, one that it extends."""
    if not inspect.isclass(named):
        return set(inspect.signature(named).parameters) - _described(named)
    said = {name for c in named.__mro__ if c in (named, *NAMES.values()) for name in _described(c)}
    if not inspect.isfunction(named.__init__):  # an exception takes its words
        return set()
    return set(inspect.signature(named.__init__).parameters) - {"self"} - said


def silent(named: type) -> set[str]:
    """The public methods and properties of a class that say nothing of themselves."""
    members = {name: value for c in named.__mro__[-2::-1] for name, value in vars(c).items()}
    return {
        name
        for name, value in members.items()
        if not name.startswith("_")
        and (inspect.isroutine(value) or isinstance(value, property | cached_property))
        and not inspect.getdoc(getattr(named, name))
    }


def ran(text: str, name: str) -> int:
    """How many examples of a docstring were run; all of them must come out as shown."""
    names = {"eree": eree, "eree_study": eree_study}
    example = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    said: list[str] = []
    found = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=said.append)
    assert not found.failed, "".join(said)
    return found.attempted


@pytest.mark.parametrize("name", [*CLASSES, *FUNCTIONS])
def test_a_name_says_what_it_takes(name: str) -> None:
    assert undocumented(NAMES[name]) == set()


@pytest.mark.parametrize("name", CLASSES)
def test_methods_and_properties_say_what_they_do(name: str) -> None:
    assert silent(NAMES[name]) == set()


@pytest.mark.parametrize("name", NAMES)
def test_an_example_comes_out_as_it_is_shown(
    name: str, folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "wac_study(" in docstring(name):
        request.getfixturevalue("wac")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(registry, "_OWN", {})
    monkeypatch.setattr(study, "ALPHAS", ("0.1",))
    monkeypatch.setattr(study, "EPSILONS", ("4",))
    if name in SHOWN_BY:
        function = SHOWN_BY[name]
        assert f"`{function.partition('.')[2]}`" in docstring(name)
        assert f"eree_study.{NAMES[function].__annotations__['return']}" == name
    else:
        assert ran(docstring(name), name), "there is no example"


def test_what_is_left_out_is_seen() -> None:
    def half(one: int, other: int) -> int:
        """Nothing.

        Args:
            one: A number.
        """
        return one + other

    class Half(eree.Cell):
        """Nothing.

        Attributes:
            one: A number.
        """

        def __init__(self, one: int, other: int, count: int) -> None: ...

        @property
        def mute(self) -> int:
            return 1

        @classmethod
        def muter(cls) -> None: ...

    assert undocumented(half) == {"other"}
    assert undocumented(Half) == {"other"}, "what the extended class says is said"
    assert silent(Half) == {"mute", "muter"}
    assert not ran("Nothing.", "half")
    assert said_below("A = 1\n'Of A.'\nB = 2\nC = 'no docstring'", "A") == "Of A."
    assert said_below("A = 1\n'Of A.'\nB = 2\nC = 'no docstring'", "B") == ""
    with pytest.raises(AssertionError, match="Expected:"):
        ran("It is 2:\n\n>>> 1\n2", "half")
