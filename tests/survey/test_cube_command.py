"""`eree cube`: each command says in a line what it did, and never shows a figure of the data."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import eree
from eree.cli.exit_status import run as command
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
        (("synth", "s", "--replicates", "7"), "no Hadamard matrix of order 7"),
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


# ------------------------------------------------------------------------- plan, protect, show

BOUNDED = ("--most-weight", "200", "--most-records", "3")


@pytest.fixture
def built(run: Run, tmp_path: Path) -> Path:
    """A cube of the small survey, with public bounds, and a ledger for it."""
    write_survey(tmp_path / "s")
    assert run("build", "s", "--out", "s.cube", *BOUNDED).status == 0
    total = eree.Guarantee(eree.ESTABLISHMENT, 10, "0.01")
    eree.Ledger.create(tmp_path / "l.db", total, data_set="data")
    return tmp_path


def test_a_plan_needs_no_cell_and_spends_nothing(run: Run, built: Path) -> None:
    cube = (built / "s.cube").read_bytes()
    (built / "s.cube").write_bytes(cube[:-150])  # the cells are gone, and the digest
    done = run("plan", "s.cube", "--epsilon", "4", "--unit", "establishment", "--control", "job")
    assert (done.status, done.said) == (0, "")
    lines = done.out.splitlines()
    drawn = next(line for line in lines if line.startswith("│ every cell"))
    assert drawn.split("│")[2:4] == ["     1.9 ", "     0 "]
    assert "In all: epsilon 4, delta 0; calibration: least-squares; nothing was spent." in lines
    assert any("sum of squares of establishments" in line for line in lines)
    assert "an establishment is in the survey" in done.out
    reported = json.loads(
        run("plan", "s.cube", "--epsilon", "4", "--unit", "establishment", "--json").out
    )
    plan = eree.plan_cube(eree.CubeOutline.read(built / "s.cube"), epsilon=4, unit="establishment")
    assert reported == json.loads(json.dumps(plan.as_json()))
    assert (reported["neighbours"], reported["calibration"], reported["losses"]) == (
        "establishment",
        "none",
        [],
    )
    assert [table["by"] for table in reported["tables"]][:3] == [[], ["job"], ["education"]]
    assert reported["tables"][0]["cells"] == 1
    cells = 5 * 3 * 2 - 2 * 1 * 2
    assert reported["tables"][-1]["cells"] == cells
    assert reported["tables"][0]["left"] == pytest.approx(
        reported["tables"][-1]["left"] * cells**0.5
    )


def test_as_published_a_plan_says_what_is_lost(run: Run, built: Path) -> None:
    assert run("build", "s", "--out", "all.cube").status == 0
    given = ("--mode", "as-published", "--epsilon", "7", "--cap", "1", "--keep-empty", "1/4")
    assert "every record counts" in run("plan", "s.cube", *given).said
    done = run("plan", "all.cube", *given)
    assert done.status == 0
    assert "0: the truth" in done.out
    assert "average weights" in done.out
    assert done.out.count("\n- ") == 4
    reported = json.loads(run("plan", "all.cube", *given, "--noisy-controls", "--json").out)
    assert (reported["unit"], reported["calibration"], len(reported["losses"])) == (
        "average weights",
        "rake",
        3,
    )
    assert [part["part"] for part in reported["parts"]] == [
        "every cell",
        "control job",
        "control education",
        "control licence",
    ]
    assert reported["epsilon"] == "28"


def test_a_cube_is_protected_verified_and_asked(run: Run, built: Path) -> None:
    settings = ("--epsilon", "2", "--unit", "establishment", "--out", "out")
    refused = run("protect", "s.cube", *settings)
    assert refused.status == 2
    assert (
        "make one with 'eree ledger create survey.db --neighbours establishment --epsilon 2'"
        in refused.said
    )
    done = run(
        "protect", "s.cube", *settings, "--ledger", "l.db", "--control", "job",
        "--control", "licence,education", "--calibration", "rake", "--cycles", "3",
        "--period", "2026",
    )  # fmt: skip
    assert (done.status, done.said) == (0, "")
    assert "a guaranteed cube of 30 cells for epsilon 2, delta 0." in done.out
    assert "Next: eree verify out, eree cube show out" in done.out
    made = eree.ProtectedCube.open(built / "out")
    assert made.release.period == "2026"
    assert [control.variables for control in made.controls] == [("job",), ("licence", "education")]
    assert made.calibration["cycles"] <= 3
    ledger = eree.Ledger.open(built / "l.db")
    assert ledger.left().epsilon == 8
    assert eree.verify(made.release, ledger=ledger).sound
    query = eree.Query(["education"], {"job": ["29-0000", "15-1252"]})
    asked = ("show", "out", "--by", "education", "--where", "job=29-0000,15-1252")
    reported = json.loads(run(*asked, "--json").out)
    expected = made.table(query).as_json("0.9")
    assert reported == json.loads(json.dumps(expected)) | {
        "release": made.release.identity,
        "private": True,
        "mode": "guaranteed",
    }
    done = run(*asked, "--out", "table.csv", "--confidence", "0.95")
    assert "Jobs by education, job 29-0000, 15-1252" in done.out
    assert "Standard errors are of sampling and noise; that of noise is a bound." in done.out
    assert "margin (0.95)" in done.out
    lines = (built / "table.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("education,education_label,jobs,standard_error,low,high,variation")
    assert len(lines) == 4
    first = lines[1].split(",")
    assert float(first[2]) == reported["rows"][0]["jobs"]
    assert float(first[5]) > reported["rows"][0]["high"]
    groups = json.loads(run("show", "out", "--by", "job", "--level", "job=major", "--json").out)
    assert [row["job"] for row in groups["rows"]] == ["15-0000", "29-0000", "31-0000"]
    total = json.loads(run("show", "out", "--json").out)["rows"]
    assert len(total) == 1
    assert total[0]["jobs"] == pytest.approx(sum(row["jobs"] for row in groups["rows"]))


def test_as_published_says_again_what_is_lost(run: Run, built: Path) -> None:
    total = eree.Guarantee(eree.RECORD, 10, "0.01")
    eree.Ledger.create(built / "r.db", total, data_set="data")
    assert run("build", "s", "--out", "all.cube").status == 0
    done = run(
        "protect", "all.cube", "--out", "out", "--ledger", "r.db", "--mode", "as-published",
        "--epsilon", "7", "--cap", "1",
    )  # fmt: skip
    assert done.status == 0
    assert "What is given away:\n- The price" in done.out
    done = run("show", "out", "--by", "licence")
    assert "Standard errors are of noise alone; that of noise is a bound." in done.out
    assert "The cube is as published: its price covers unweighted counts" in done.out


def test_long_tables_are_cut_on_the_terminal_only(run: Run, built: Path) -> None:
    assert run("synth", "big", "--establishments", "30").status == 0
    given = ("--variables", "occupation", "--most-weight", "900")
    assert run("build", "big", "--out", "big.cube", *given).status == 0
    eree.protect_cube(
        Cube.load(built / "big.cube"),
        epsilon=1,
        ledger=None,
        out=built / "big-out",
        random=eree.SeededRandom(1),
    )
    done = run("show", "big-out", "--by", "occupation", "--out", "all.csv")
    assert "29 more rows; --out FILE.csv writes all.\n" in done.out
    assert "all.csv: 69 rows" in done.out
    assert "drawn from a seeded source: this release protects nothing." in done.out
    assert len((built / "all.csv").read_text(encoding="utf-8").splitlines()) == 70


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "none.cube", "--epsilon", "1"), "there is no cube none.cube; make one with"),
        (("plan", "s", "--epsilon", "1"), "s cannot be read"),
        (("plan", "l.db", "--epsilon", "1"), "l.db is no cube, or is damaged"),
        (("plan", "s.cube"), "Missing option '--epsilon'"),
        (("plan", "s.cube", "--epsilon", "1", "--control", "zip"), "has no variable 'zip'"),
        (("plan", "s.cube", "--epsilon", "1", "--cap", "3"), "are for cubes as published"),
        (("plan", "s.cube", "--epsilon", "1", "--noisy-controls"), "are for cubes as published"),
        (
            ("protect", "s.cube", "--epsilon", "1", "--out", "s", "--ledger", "l.db"),
            "s is not a new or empty",
        ),
        (("show", "none"), "none holds no release.json"),
        (("show", "s", "--level", "job"), "'job' cannot be read; write it as in a=major"),
        (("show", "s", "--level", "job=huge"), "no level 'huge'; there are major, minor"),
        (("show", "s", "--where", "job=a", "--where", "job=b"), "filtered twice"),
        (("show", "s", "--confidence", "95"), "the level must be at least 0.5"),
        (("show", "s", "--out", "x.txt"), "must end in .csv"),
    ],
)
def test_a_wrong_request_about_protection_is_refused(
    run: Run, built: Path, arguments: tuple[str, ...], words: str
) -> None:
    before = sorted(path.name for path in built.iterdir())
    done = run(*arguments)
    assert done.status == 2
    assert words in done.said
    assert len(done.said.splitlines()) == 1
    assert sorted(path.name for path in built.iterdir()) == before
    assert eree.Ledger.open(built / "l.db").spent().epsilon == 0


HELPS = [(), ("synth",), ("check",), ("build",), ("plan",), ("protect",), ("show",)]


@pytest.mark.parametrize("words", HELPS)
def test_every_help_has_examples_and_fits_a_terminal(run: Run, words: tuple[str, ...]) -> None:
    done = run(*words, "--help")
    assert done.status == 0
    assert "Examples:" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
