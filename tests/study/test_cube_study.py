"""`eree cube study`: its files, the same for a seed, and calibrations under a guarantee."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import eree
import eree_study
from eree.cli.exit_status import run as command
from eree.cli.interrupts import Interrupts
from eree.survey.settings import METHODS
from eree_study.querytool.calibrations import (
    CUBES,
    EPSILONS,
    MEASURES,
    calibrated_runs,
    full_shape,
)
from eree_study.querytool.evaluation import ARMS

FILES = [
    "querytool.md",
    "claims.csv",
    "table-4.csv",
    "convergence.csv",
    "columns.csv",
    "calibrations.csv",
    "noise.png",
    "noise.svg",
    "convergence.png",
    "convergence.svg",
    "calibrations.png",
    "calibrations.svg",
]


# ------------------------------------------------------------------------------- calibrations


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> eree.Cube:
    """A cube of 40 cells without structural zeros."""
    folder = tmp_path_factory.mktemp("survey") / "made"
    survey = eree.read_survey(eree_study.synthesize_survey(folder, establishments=400, seed=3))
    names = ["strength", "experience", "sitting"]
    return eree.build_cube(survey, variables=names, most_weight=2_500)


@pytest.fixture(scope="module")
def figures(cube: eree.Cube) -> np.ndarray:
    return calibrated_runs(cube, "1", range(100, 300))


def test_measures_of_uncalibrated_cells_are_those_of_their_noise(figures: np.ndarray) -> None:
    """A cell has the variance of noise that protects 2,500 jobs at half of epsilon 1.

    4 standard errors: a false alarm in 15,000; scales 10% off are rejected in the cells.
    """
    q = np.exp(-0.5 / 2_500_000)
    variance = 2 * q / (1 - q) ** 2 / 1e6
    plain = figures[:, METHODS.index("none")]
    sizes = [3 * 40 / 11, 3 * 40 / 38, 1.0]  # cells of the cube in a cell of a table, on average
    assert plain[0, :, 1] == pytest.approx([variance * size for size in sizes], rel=1e-6)
    for d in range(3):
        error = plain[:, d, 0].std(ddof=1) / len(plain) ** 0.5
        assert abs(plain[:, d, 0].mean() - variance * sizes[d]) < 4 * error
    error = plain[:, 2, 0].std(ddof=1) / len(plain) ** 0.5
    for scale in (0.9, 1.1):
        assert abs(plain[:, 2, 0].mean() - scale**2 * variance) > 4 * error


def test_least_squares_publishes_its_error_and_raking_a_bound_above_it(
    figures: np.ndarray,
) -> None:
    squares, published, covered = (figures[..., k].mean(axis=0) for k in range(len(MEASURES)))
    errors = figures[..., 0].std(axis=0, ddof=1) / len(figures) ** 0.5
    least = METHODS.index("least-squares")
    assert (np.abs(squares[least] - published[least]) < 4 * errors[least]).all()
    assert (published[least] < published[METHODS.index("none")]).all()
    for method in ("rake", "rake-nonnegative"):
        assert (squares[METHODS.index(method)] < published[METHODS.index(method)]).all()
    assert (covered > 0.9).all() and (covered <= 1).all()


def test_the_same_seeds_of_coins_give_the_same_measures(
    cube: eree.Cube, figures: np.ndarray
) -> None:
    assert (calibrated_runs(cube, "1", [100, 101]) == figures[:2]).all()
    assert (calibrated_runs(cube, "1", [7]) != figures[:1]).any()


def test_one_of_the_cubes_has_structural_zeros_and_one_has_none() -> None:
    shapes = [full_shape().of(variables) for variables in CUBES.values()]
    assert [shape.possible is None for shape in shapes] == [True, False]
    assert [shape.size for shape in shapes] == [11_040, 6_900]


# --------------------------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("study")


@pytest.fixture(scope="module")
def study(home: Path) -> eree_study.CubeStudy:
    return eree_study.cube_study(home / "here", runs=4, seed=5, processes=1)


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def test_everything_is_written_and_published(study: eree_study.CubeStudy, home: Path) -> None:
    assert [file.name for file in study.files] == FILES
    assert sorted(path.name for path in (home / "here").iterdir()) == sorted(FILES)
    assert all(file.stat().st_size > 1_000 for file in study.files if file.name != "columns.csv")
    found = rows(home / "here" / "table-4.csv")
    assert {row["arm"] for row in found} == set(ARMS)
    [finest] = [
        float(row["mean"])
        for row in found
        if (row["cases"], row["arm"], row["runs"], row["reading"], row["dimension"])
        == ("the survey as it is", "none", "all", "uncentred", "10")
    ]
    assert finest == pytest.approx(0.00182, rel=0.25)
    shares = rows(home / "here" / "convergence.csv")
    assert len(shares) == 8 * 5 * 5
    assert {row["seed"] for row in shares} == set("56789")
    compared = rows(home / "here" / "calibrations.csv")
    assert {row["epsilon"] for row in compared} == set(EPSILONS)
    assert {row["method"] for row in compared} == set(METHODS)
    page = (home / "here" / "querytool.md").read_text(encoding="utf-8")
    assert page.startswith("# The query tool's evaluation, rerun\n")
    assert "`eree cube study --runs 4 --seed 5` wrote this page." in page
    assert "| noise changes 23.5% of the cells | **no** |" in page
    judged = {(row["claim"], row["on"]): row for row in rows(home / "here" / "claims.csv")}
    noise = judged["noise changes 23.5% of the cells", ""]
    assert (noise["holds"], noise["figures"]) == ("no", "0.182% by the distribution")
    assert {on for _, on in judged} >= {*study.converged, "epsilon 1", "epsilon 4, zeros"}
    assert set(re.findall(r"\]\(([a-z]+\.png)\)", page)) == {f for f in FILES if "png" in f}
    assert study.verdicts["the variance of the noise is 0.00182"] == "yes"
    assert study.converged.keys() == {
        "the survey as it is",
        next(name for name in study.converged if "redrawn" in name),
    }


def test_the_command_writes_the_same_bytes_for_the_same_seed_on_any_number_of_cores(
    study: eree_study.CubeStudy,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(home)
    arguments = ["cube", "study", "--out", "there", "--runs", "4", "--seed", "5", "--json"]
    assert command(arguments, Interrupts()) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["files"] == [f"there/{name}" for name in FILES]
    assert said["verdicts"] == study.verdicts and said["converged"] == study.converged
    for name in FILES:
        assert (home / "there" / name).read_bytes() == (home / "here" / name).read_bytes(), name


def test_a_folder_in_use_and_settings_that_cannot_be_are_refused(
    study: eree_study.CubeStudy,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(home)
    for arguments, words in (
        (["--out", "here"], "here is not empty; name a new or empty folder"),
        (["--out", "new", "--runs", "1"], "the study needs two runs or more"),
        (["--out", "new", "--seed", "-1"], "the seed must be an integer"),
    ):
        assert command(["cube", "study", *arguments], Interrupts()) == 2
        assert words in " ".join(capsys.readouterr().err.split())
    assert not (home / "new").exists()
