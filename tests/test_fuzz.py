"""A sample of the inputs that `make torture` tries by the hundred thousand, and its judge."""

from __future__ import annotations

import filecmp
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import eree
from fuzz_arguments import LINES, commands, path_of
from fuzz_kinds import Command
from fuzz_office import PASSWORD, WORKER, make_office
from fuzzing import KINDS, Fuzz, attempt
from shared import made_once

#: Inputs of each kind; fewer where they open a query engine, draw pictures or need certificates.
SAMPLE = dict.fromkeys(KINDS, 25) | dict.fromkeys(("schema", "linked-csv", "linked-parquet"), 10)
SAMPLE |= {"release-record": 14, "map": 10, "ledger": 15, "study": 2}


@pytest.fixture(scope="session")
def office(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "office", make_office)


@pytest.mark.parametrize("kind", KINDS)
def test_changed_inputs_end_in_words(kind: str, office: Path, tmp_path: Path) -> None:
    fuzz = Fuzz(office, tmp_path)
    assert fuzz.run(kind, range(SAMPLE[kind]))["inputs"] == SAMPLE[kind]
    assert not fuzz.failed, "\n".join(fuzz.failed)


def test_every_command_has_a_line_that_is_changed() -> None:
    assert {path_of(line.split()) for line in LINES} == set(commands())


def test_an_input_is_made_again_by_its_name(office: Path, tmp_path: Path) -> None:
    fuzz = Fuzz(office, tmp_path / "work")
    for kind in KINDS:
        one, two = tmp_path / "one", tmp_path / "two"
        assert fuzz.make(kind, 7, one) == fuzz.make(kind, 7, two)
        files = [str(path.relative_to(one)) for path in one.rglob("*") if path.is_file()]
        made = [str(path.relative_to(two)) for path in two.rglob("*") if path.is_file()]
        assert sorted(files) == sorted(made)
        same, *_others = filecmp.cmpfiles(one, two, files, shallow=False)
        assert sorted(same) == sorted(files), kind


def prints(*_given: Any, **_named: Any) -> Any:
    print(f"row of {WORKER}17")
    return None, ()


def warns(*_given: Any, **_named: Any) -> Any:
    warnings.warn("not meant to be", stacklevel=2)


def raises(*_given: Any, **_named: Any) -> Any:
    raise eree.Refusal("refused") from KeyError(f"{WORKER}17")


def fails(*_given: Any, **_named: Any) -> Any:
    raise ZeroDivisionError


def leaves(*_given: Any, **_named: Any) -> Any:
    Path("rest.partial").touch()
    return None, ()


def leaves_aside(*_given: Any, **_named: Any) -> Any:
    tempfile.mkdtemp()
    return None, ()


def alters(*_given: Any, **_named: Any) -> Any:
    Path("given").write_text("altered")
    return None, ()


def never_ends(*_given: Any, **_named: Any) -> Any:
    while True:
        pass


@pytest.mark.parametrize(
    ("does", "trouble"),
    [
        (prints, "planted_values_shown"),
        (raises, "planted_values_shown"),
        (fails, "faults_of_its_own"),
        (warns, "faults_of_its_own"),
        (leaves, "left_behind"),
        (leaves_aside, "left_behind"),
        (alters, "left_behind"),
        (never_ends, "never_ended"),
    ],
)
def test_what_must_not_be_is_seen(
    does: Callable[..., Any], trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The campaign can fail: each trouble is found where a command makes it."""
    aside, folder = tmp_path / "aside", tmp_path / "folder"
    aside.mkdir()
    folder.mkdir()
    (folder / "given").write_text("sound")
    monkeypatch.setattr(tempfile, "tempdir", str(aside))
    monkeypatch.setattr(eree, "check", does)
    assert trouble in attempt(Command(["check", "data"]), folder, work=0.2).troubles


def test_a_planted_value_in_a_public_file_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def writes(*_given: Any, **_named: Any) -> Any:
        for name in ("public.csv", "confidential.csv"):
            Path(name).write_text(f"id\n{PASSWORD}\n")
        return eree.Checked(mock.Mock(workplaces=1), ())

    aside, folder = tmp_path / "aside", tmp_path / "folder"
    aside.mkdir()
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(aside))
    monkeypatch.setattr(eree, "check", writes)
    command = Command(["check", "data"], ("public.csv",), ("confidential.csv",))
    assert attempt(command, folder).troubles == {
        "planted_values_shown": f"{PASSWORD} in public.csv"
    }
