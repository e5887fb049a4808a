"""`eree cube`: each command says in a line what it did, and never shows a figure of the data."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from eree.cli.ending import run as command
from eree.cli.interrupts import Interrupts
from eree.survey.cube import Cube
from small_survey import changed, write_survey


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    said: str


Run = Callable[..., Done]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `eree cube …` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Done:
        status = command(["cube", *arguments], Interrupts())
        said = capsys.readouterr()
        return Done(status, said.out, said.err)

    return run


def test_synth_then_check_then_build(run: Run, tmp_path: Path) -> None:
    done = run("synth", "made up", "--establishments", "40", "--seed", "7")
    assert done.out == "Made a survey in made up.  Next: eree cube check 'made up'\n"
    done = run("check", "made up")
    assert (done.status, done.out) == (
        0,
        "made up: no fault found; 10 variables, 993,600 cells.\n",
    )
    done = run(
        "build", "made up", "--out", "a.cube", "--variables", "occupation,strength",
        "--variables", "telework", "--most-weight", "2500.5", "--most-records", "3"
    )  # fmt: skip
    assert (done.status, done.said) == (0, "")
    assert done.out == "a.cube: a confidential cube of 690 cells\n"
    cube = Cube.load(tmp_path / "a.cube")
    assert (cube.most_weight, cube.most_records) == (2_500_500, 3)
    assert [v.name for v in cube.shape.variables] == ["occupation", "strength", "telework"]
    assert stat.S_IMODE((tmp_path / "a.cube").stat().st_mode) == 0o600


def test_json_is_one_object_and_nothing_else(run: Run, tmp_path: Path) -> None:
    done = run("synth", "q", "--shape", "querytool", "--json")
    assert json.loads(done.out) == {"folder": "q", "shape": "querytool", "seed": 1}
    done = run("check", "q", "--json")
    assert json.loads(done.out) == {"sound": True, "cells": 17_280, "faults": []}
    done = run("build", "q", "--out", "q.cube", "--json")
    assert json.loads(done.out) == {"file": "q.cube", "cells": 17_280, "confidential": True}
    done = run("build", "q", "--out", "q.cube", "--json")
    assert done.status == 2
    assert "q.cube exists already" in json.loads(done.out)["error"]


def test_check_lists_every_fault_and_exits_with_1(run: Run, tmp_path: Path) -> None:
    records = changed("weight", [-4711, 1, 1, 1, 1, 1]) | {"job": ["hush"] * 6}
    write_survey(tmp_path / "s", records)
    done = run("check", "s")
    assert done.status == 1
    assert done.out.splitlines() == [
        "s: 2 faults",
        "  records (records.parquet), job: the value is not declared [6 rows]",
        "  records (records.parquet), weight: the weight is less than a thousandth [1 row]",
    ]
    assert "4711" not in done.out + done.said
    found = json.loads(run("check", "s", "--json").out)
    assert (found["sound"], found["cells"], len(found["faults"])) == (False, None, 2)
    done = run("build", "s", "--out", "s.cube")
    assert done.status == 2
    assert "(and 1 more; 'eree cube check' lists them all)" in done.said
    assert not (tmp_path / "s.cube").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("synth", "s", "--establishments", "0"), "has 1 to 1,000,000 establishments"),
        (("synth", "s", "--replicates", "7"), "replicates must be 0 or one of"),
        (("synth", "s", "--shape", "round"), "'round' is not one of"),
        (("check", "none"), "none is not a folder"),
        (("check", "."), "holds no survey.toml; write one, or make a survey with"),
        (("build", "none", "--out", "x"), "none is not a folder"),
        (("build", "s"), "Missing option '--out'; see 'eree cube build --help'"),
    ],
)
def test_a_wrong_request_gets_one_sentence_and_status_2(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = run(*arguments)
    assert done.status == 2
    assert words in done.said
    assert len(done.said.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [(), ("synth",), ("check",), ("build",)])
def test_every_help_has_examples_and_fits_a_terminal(run: Run, words: tuple[str, ...]) -> None:
    done = run(*words, "--help")
    assert done.status == 0
    assert "Examples:" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
