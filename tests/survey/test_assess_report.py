"""The report of an assessment: confidential as a whole, and public where it says so."""

from __future__ import annotations

import csv
import inspect
import json
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import eree
import eree_study
from eree.cli.cube import assess
from eree.cli.exit_status import run as command
from eree.cli.interrupts import Interrupts
from eree.random.source import SeededRandom
from eree.survey.assess import report
from eree.survey.assess.page import confidential_page, public_page
from eree.survey.cube import Cube
from eree.survey.estimates import querytool_standard_errors
from eree.survey.replicates import Replicates, Sampling, hadamard, row_pairs


def with_cells(made: eree.ProtectedCube, cells: NDArray[np.int64]) -> eree.ProtectedCube:
    """The same release with other cells."""
    return replace(made, calibrated=replace(made.calibrated, cells=cells))


VARIABLES = ("education", "strength", "telework")
BOUNDS = {"most_weight": 2_000, "most_records": 3}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A synthetic survey with and one without replicate weights, their cubes, and a release."""
    folder = tmp_path_factory.mktemp("home")
    for name, replicates in (("survey", 0), ("replicated", 8)):
        eree_study.synthesize_survey(
            folder / name, establishments=80, replicates=replicates, seed=2 + replicates
        )
        eree.build_cube_file(folder / name, folder / f"{name}.cube", variables=VARIABLES, **BOUNDS)
    eree.protect_cube(
        Cube.load(folder / "survey.cube"),
        epsilon=8,
        ledger=None,
        out=folder / "release",
        controls=[("education",)],
        squares="establishments",
        random=SeededRandom(3),
    )
    return folder


@pytest.fixture
def cube(home: Path) -> Cube:
    return Cube.load(home / "survey.cube")


@pytest.fixture
def release(home: Path) -> eree.ProtectedCube:
    return eree.ProtectedCube.open(home / "release")


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes seconds; other tests look at what is drawn."""
    monkeypatch.setattr(report, "assessment_figure", lambda paths, **panels: None)


# ------------------------------------------------------------------------- sampling errors


def by_establishment(weights: NDArray[np.float64], where: list[int]) -> Replicates:
    """Successive differences as written down: two rows for each establishment in its turn."""
    turns = list(dict.fromkeys(where))
    matrix, (first, second) = hadamard(80).astype(float), row_pairs(len(turns))
    turn = [turns.index(establishment) for establishment in where]
    factors = 1 + 2**-1.5 * (matrix[first[turn]] - matrix[second[turn]])
    return Replicates.given(weights, weights * factors.T, 4 / 80)


@pytest.mark.parametrize("name", ["survey", "replicated"])
def test_sampling_errors_are_those_of_replicates_of_each_cell(name: str, home: Path) -> None:
    survey, cube = eree.read_survey(home / name), Cube.load(home / f"{name}.cube")
    sampling = Sampling.of(survey, cube)
    assert sampling.given == (name == "replicated")
    kept = eree.build_cube(survey, variables=VARIABLES, most_records=3)
    assert kept.sums.records < len(survey.weights)  # the bound left some out
    rank = {int(record): k for k, record in enumerate(survey.order)}
    places = [
        [i for i in range(len(survey.weights)) if survey.establishments[i] == e]
        for e in range(int(survey.establishments.max()) + 1)
    ]
    held = sorted(i for group in places for i in sorted(group, key=rank.__getitem__)[:3])
    weights = np.minimum(survey.weights[held], 2_000_000) / 1000
    if survey.replicates is None:
        replicates = by_establishment(weights, survey.establishments[held].tolist())
    else:
        shrunk = survey.replicates[:, held] * weights / (survey.weights[held] / 1000)
        replicates = Replicates.given(weights, shrunk, 4 / 8)
    errors = sampling.standard_errors(("education", "telework"))
    for (x, y), error in np.ndenumerate(errors):
        inside = (survey.answers["education"][held] == x) & (survey.answers["telework"][held] == y)
        variance = replicates.variance(lambda w, inside=inside: float(w[inside].sum()))
        assert error == pytest.approx(variance**0.5, abs=1e-9)
    assert sampling.trimmed == pytest.approx(1 - weights.sum() * 1000 / survey.weights.sum())
    assert sampling.left_out == pytest.approx(1 - len(held) / len(survey.weights))


def test_findings_about_errors_are_plain_figures_of_them(
    home: Path, cube: Cube, release: eree.ProtectedCube
) -> None:
    survey = eree.read_survey(home / "survey")
    found = eree.assess_cube(cube, release, survey=survey, most_dimensions=1)
    sampling = Sampling.of(survey, cube).standard_errors(VARIABLES)
    can_be = (
        np.ones(cube.shape.levels, bool) if cube.shape.possible is None else cube.shape.possible
    )
    sampling = sampling[can_be]
    before, after = cube.weighted[can_be] / 1000, release.noisy[can_be] / 1000
    theirs = querytool_standard_errors(sampling**2, after, before)
    for statistic, expected in (
        ("sampling: mean", sampling.mean()),
        ("query tool's formula: mean", theirs.mean()),
        ("query tool's formula, less sampling: mean absolute", (theirs - sampling).mean()),
    ):
        assert found.value("standard errors", statistic, 3) == pytest.approx(expected)
    sure = sampling > 0
    assert found.value("intervals", "cells with a sampling error", 3) == sure.sum()
    precise = (before > 0) & (sampling <= 0.3 * before)
    count = found.value("publishable cells", "coefficient of variation: before", 3)
    assert count == precise.sum()
    every = precise & (before >= 1000) & (cube.unweighted[can_be] >= 3)
    assert found.value("publishable cells", "all three rules: before", 3) == every.sum()
    same = eree.assess_cube(cube, with_cells(release, cube.weighted), survey=survey)
    for dimension in same.dimensions:
        assert same.value("intervals", "overlap, query tool's formula: mean", dimension) == 1
        less = "query tool's formula, less sampling: root mean square"
        assert same.value("standard errors", less, dimension) == 0


def test_a_survey_that_is_not_the_cubes_own_is_refused(
    home: Path, cube: Cube, release: eree.ProtectedCube
) -> None:
    own, other = eree.read_survey(home / "survey"), eree.read_survey(home / "replicated")
    assert Sampling.of(own, cube).shape == cube.shape
    with pytest.raises(eree.Refusal, match="not the one that the cube was built from"):
        eree.assess_cube(cube, release, survey=other)
    unbounded = eree.build_cube(own, variables=VARIABLES)
    with pytest.raises(eree.Refusal, match="not the one that the cube was built from"):
        Sampling.of(own, replace(unbounded, most_weight=2_000_000))


# ------------------------------------------------------------------------------- the folder


def test_every_file_is_closed_and_marked(
    home: Path, tmp_path: Path, open_umask: None, cube: Cube, release: eree.ProtectedCube
) -> None:
    out = tmp_path / "report"
    out.mkdir(mode=0o777)
    survey = eree.read_survey(home / "survey")
    made = eree.assess_cube(cube, release, survey=survey, methods=True)
    eree.write_assessment(made, out)
    assert stat.S_IMODE(out.stat().st_mode) == 0o700
    files = sorted(out.iterdir())
    pictures = ["estimates", "likeness", "methods", "overlap", "publishable"]
    assert [file.name for file in files] == sorted(
        ["assessment.csv", "assessment.json", "assessment.md", "public.md", "tables.csv"]
        + [f"{name}.{suffix}" for name in pictures for suffix in ("png", "svg")]
    )
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert list(tmp_path.iterdir()) == [out]
    for file in files:
        assert (b"CONFIDENTIAL" in file.read_bytes()) == (file.name != "public.md")
    page = (out / "assessment.md").read_text(encoding="utf-8")
    assert page.startswith("# CONFIDENTIAL")
    for name in pictures:
        assert f"({name}.png)" in page
    whole = json.loads((out / "assessment.json").read_text(encoding="utf-8"))
    assert whole["mark"] == "CONFIDENTIAL"
    assert len(whole["items"]) == len(list(made))
    with (out / "assessment.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(whole["items"])
    for row, item in zip(rows, made, strict=True):
        assert row["mark"] == ("PUBLIC" if item.public else "CONFIDENTIAL")
        assert row["reason"].startswith("yes: " if item.public else "no: ")
        if item.value is not None:
            assert float(row["value"]) == item.value
    with pytest.raises(eree.Refusal, match="not a new or empty folder"):
        eree.write_assessment(made, out)


@pytest.mark.usefixtures("without_pictures")
def test_every_line_of_the_page_says_whether_it_may_be_published(
    tmp_path: Path, cube: Cube, release: eree.ProtectedCube
) -> None:
    eree.write_assessment(eree.assess_cube(cube, release), tmp_path / "report")
    page = (tmp_path / "report" / "assessment.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    body = [line for line in lines if not line.endswith("may be published |")]
    verdicts = [line.split(" | ")[-1] for line in body]
    assert len(body) > 50
    assert all(verdict.startswith(("yes: ", "no: ", "no, ")) for verdict in verdicts)
    assert any("predicted root mean square" in line and "| yes: " in line for line in body)
    assert any("| root mean square |" in line and "| no: " in line for line in body)


def other_cubes(cube: Cube) -> Iterator[Cube]:
    """Confidential cubes of the same shape and bounds: empty but for a cell, turned, doubled."""
    lone = np.zeros_like(cube.weighted)
    lone.flat[5] = 1_000
    one = cube.weighted > 0
    alone = {"squares": 1_000**2, "establishments": 1, "establishment_squares": 1_000**2}
    sums = replace(cube.sums, records=1, weight=1_000, **alone)
    yield replace(cube, weighted=lone, unweighted=(lone > 0).astype(np.int64), sums=sums)
    yield replace(
        cube, weighted=cube.weighted[::-1].copy(), unweighted=cube.unweighted[::-1].copy()
    )
    sums = replace(cube.sums, weight=2 * cube.sums.weight, records=int(one.sum()))
    yield replace(cube, weighted=2 * cube.weighted, unweighted=one.astype(np.int64), sums=sums)


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("near_zero", [None, 500.0])
def test_the_public_page_is_the_same_whatever_the_confidential_cube(
    near_zero: float | None, home: Path, tmp_path: Path, cube: Cube, release: eree.ProtectedCube
) -> None:
    rules = eree.Thresholds(near_zero=near_zero)
    survey = eree.read_survey(home / "survey")
    first = eree.assess_cube(cube, release, thresholds=rules, survey=survey, methods=True)
    eree.write_assessment(first, tmp_path / "first")
    page = (tmp_path / "first" / "public.md").read_bytes()
    for other in other_cubes(cube):
        made = eree.assess_cube(other, release, thresholds=rules)
        assert public_page(made.settings, made.public).encode() == page
        assert made.public == first.public
        assert confidential_page(made, []) != confidential_page(first, [])
    eree.write_assessment(made, tmp_path / "last")
    assert (tmp_path / "last" / "public.md").read_bytes() == page
    noisier = with_cells(release, release.noisy + 1_000_000)
    made = eree.assess_cube(cube, noisier, thresholds=rules)
    assert made.public != first.public
    assert (b"| near zero after |" in page) == (near_zero is not None)
    assert not any("before" in item.statistic for item in first.public)


def test_nothing_confidential_is_printed(cube: Cube, release: eree.ProtectedCube) -> None:
    made = eree.assess_cube(cube, release)
    assert repr(made) == "<Assessment of 50 cells, confidential>"
    for item in made:
        assert item.value is None or repr(item).endswith(
            f"dimension {item.dimension}: {item.mark}>"
        )


@pytest.mark.parametrize(
    "wrong",
    [{"weighted": -1.0}, {"variation": float("nan")}, {"near_zero": -2.0}, {"level": 1.0}],
)
def test_rules_that_are_none_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(eree.Refusal):
        eree.Thresholds(**wrong)


# ------------------------------------------------------------------------------ the command


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    said: str


Run = Callable[..., Done]


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(home)

    def run(*arguments: str) -> Done:
        status = command(["cube", "assess", *arguments], Interrupts())
        said = capsys.readouterr()
        return Done(status, said.out, said.err)

    return run


@pytest.mark.usefixtures("without_pictures")
def test_the_command_writes_the_report_and_shows_no_confidential_figure(
    run: Run, tmp_path: Path, cube: Cube
) -> None:
    out = tmp_path / "report"
    done = run("survey.cube", "release", "--out", str(out), "--survey", "survey", "--methods")
    assert (done.status, done.said) == (0, "")
    assert done.out == (
        f"{out}: a confidential assessment of 8 tables; read assessment.md\n"
        f"{out}/public.md holds what may be published\n"
    )
    reported = []
    lone, *_ = other_cubes(cube)
    for name, other in (("own", cube), ("lone", lone)):
        file = other.save(tmp_path / f"{name}.cube")
        done = run(str(file), "release", "--out", str(tmp_path / name), "--json")
        assert done.status == 0
        reported.append(json.loads(done.out) | {"folder": ""})
    assert reported[0]["confidential"] is True
    assert "assessment.md" in reported[0]["files"]
    assert all(item["may_be_published"] for item in reported[0]["public"])
    assert reported[0] == reported[1]


def test_the_command_takes_the_rules_of_the_library() -> None:
    rules = eree.Thresholds()
    defaults = {option.name: option.default for option in assess.params}
    for name in ("weighted", "unweighted", "variation", "level"):
        assert defaults[name] == getattr(rules, name)
    assert defaults["near_zero"] is None
    taken = inspect.signature(eree.assess_cube).parameters
    for name in ("most_dimensions", "most_tables", "seed"):
        assert defaults[name] == taken[name].default


def test_what_cannot_be_assessed_is_refused_in_a_sentence(
    run: Run, home: Path, tmp_path: Path, cube: Cube
) -> None:
    (tmp_path / "text").write_text("no cube", encoding="utf-8")
    small = eree.build_cube(eree.read_survey(home / "survey"), variables=VARIABLES[:2], **BOUNDS)
    file = small.save(tmp_path / "small.cube")
    loose = eree.build_cube(eree.read_survey(home / "survey"), variables=VARIABLES)
    loose_file = loose.save(tmp_path / "loose.cube")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("", encoding="utf-8")
    (tmp_path / "loop").symlink_to("loop")
    out = ("--out", str(tmp_path / "report"))
    for arguments, sentence in (
        ((str(tmp_path / "text"), "release", *out), "is no cube, or is damaged"),
        (("nowhere.cube", "release", *out), "there is no cube nowhere.cube"),
        (("survey.cube", "survey", *out), "survey"),
        ((str(file), "release", *out), "other variables, codes or structural zeros"),
        ((str(loose_file), "release", *out, "--methods"), "other bounds than the one"),
        (("survey.cube", "release", *out, "--survey", "replicated"), "not the one that the cube"),
        (("survey.cube", "release", *out, "--level", "2"), "the level must be at least 0.5"),
        (("survey.cube", "release", *out, "--most-tables", "0"), "integers from 1 on"),
        (("survey.cube", "release", "--out", str(tmp_path / "full")), "not a new or empty folder"),
        (("survey.cube", "release", "--out", str(tmp_path / "loop")), "cannot be looked at"),
        (("survey.cube", "release", "--out", "no/where"), "the folder no does not exist"),
    ):
        done = run(*arguments)
        assert done.status == 2, arguments
        assert sentence in done.said
        assert len(done.said.splitlines()) == 1
        assert not (tmp_path / "report").exists()
