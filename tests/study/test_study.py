"""The study: its cells, its contenders, what it measures, and that it goes on where it was."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest
from scipy.integrate import quad

import eree
import eree_study
from eree.cells import Cell
from eree.mechanisms.registry import automatic, calibrate
from eree.mechanisms.vector.knorm_staircase import KNormStaircase
from eree.mechanisms.vector.radial import VectorRadial
from eree.mechanisms.vector.vector import VectorMechanism
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Weak
from eree_study.papers import study as running
from eree_study.papers.comparison import Row, seeded
from eree_study.papers.contenders import Shrunk, Single, Together, contenders
from eree_study.papers.drafts import drafts
from eree_study.papers.limits import limits
from eree_study.papers.report_algorithms import (
    draw_report,
    mean_report_errors,
    root_mean_square_report,
    true_delta,
)
from eree_study.papers.study import MAIN, Part, Results, Study, work
from eree_study.papers.workloads import STRATA, WORKLOADS, Counted, WorkplaceCounts, counted_for
from eree_study.papers.workplaces import BySize, BySizeShrunk, ByWorkplace, by_workplace
from processes import ended
from selection import EVERYTHING
from uses import eree_command

TENTH, TWO = Fraction(1, 10), Fraction(2)


# ----------------------------------------------------------------------------------- the cells


@pytest.mark.parametrize("name", ["workload-1", "workload-3", "report-6"])
def test_what_workplaces_add_up_to_is_what_is_tabulated(town: eree.Tables, name: str) -> None:
    workload = WORKLOADS[name]
    counted = counted_for(town, workload)
    exact = eree.tabulate(town, by=workload.by).confidential
    assert (counted.rows.sums(len(counted.counts)) == exact["count"].to_numpy()).all()
    small = eree.tabulate(town, by=workload.by, bound=eree.DropFrom(20)).confidential
    assert counted.below(20).tolist() == small["count"].to_pylist()
    assert counted.rows.size.min() >= 1
    assert "confidential" in repr(counted.rows)


def test_a_ranking_by_some_workers_looks_at_them_alone(town: eree.Tables, people: Counted) -> None:
    graduates = counted_for(town, WORKLOADS["ranking-2"])
    where = {"sex": ["F"], "education": ["college"]}
    exact = eree.tabulate(town, by=["place", "sector", "ownership"], where=where).confidential
    assert graduates.counts.tolist() == exact["count"].to_pylist()
    assert graduates.largest.tolist() == exact["largest"].to_pylist()
    assert graduates.largest_total.tolist() == exact["largest_total"].to_pylist()
    assert (graduates.rows.sums(len(exact)) == graduates.counts).all()


def test_kept_cells_are_the_same(tmp_path: Path, people: Counted) -> None:
    people.save(tmp_path / "cells.npz")
    again = Counted.read(tmp_path / "cells.npz")
    assert (again.counts == people.counts).all()
    assert (again.rows.size == people.rows.size).all()
    assert again.workers == people.workers == 8


def test_strata_are_those_of_the_places(town: eree.Tables, places: Counted) -> None:
    """Place by place: the stratum of every cell follows from its population."""
    cells = eree.tabulate(town, by=WORKLOADS["workload-1"].by).confidential
    known = parquet.read_table(town.folder / "place.parquet")
    people = dict(zip(known["place"].to_pylist(), known["population"].to_pylist(), strict=True))
    names = np.full(len(cells), "", dtype=object)
    for name, at in places.strata.items():
        if name != "all":
            assert (names[at] == "").all()
            names[at] = name
    for place, name in zip(cells["place"].to_pylist(), names, strict=True):
        least = STRATA[name]
        above = [start for start in STRATA.values() if start > least]
        assert least <= people[place] < min(above, default=10**9)
    assert set(places.strata) == {"all", *names}
    assert len(set(names)) >= 3


# ------------------------------------------------------------------------------ the contenders


def test_expected_errors_are_those_of_draws(people: Counted) -> None:
    """Every contender with a known error, 60 draws each: means over all cells agree."""
    for workload in ("workload-2", "workload-3", "workload-3-strong"):
        for one in contenders(WORKLOADS[workload], 8, TENTH, Fraction(4)):
            expected = one.expected(people)
            if one.name in ("log-laplace", "smooth-gamma") or expected is None:
                continue  # tails so heavy that 60 draws say little
            found = [
                np.abs(one.draw(people, seeded("test", one.name, t)) - people.counts).mean()
                for t in range(60)
            ]
            spread = np.std(found) / np.sqrt(len(found))
            assert abs(np.mean(found) - expected.mean()) < 6 * spread + 0.02 * expected.mean()


def test_expected_squares_are_those_of_draws(people: Counted) -> None:
    """Contenders of light tails, 60 draws each; who has a mean error has its mean square too."""
    light = {"smooth-laplace", "vector-radial", "knorm-staircase", "known-scales", "edge-geometric"}
    seen = set()
    for workload, alpha in (
        ("workload-1", None),
        ("workload-2", TENTH),
        ("workload-3", TENTH),
        ("workload-3-strong", TENTH),
    ):
        for those in (contenders, drafts, by_workplace, limits):
            for one in those(WORKLOADS[workload], 8, alpha, Fraction(4)):
                roots = one.root_mean_squares(people)
                assert (roots is None) == (one.expected(people) is None)
                if roots is None or not one.name.startswith((*light, "truncated")):
                    continue
                seen.add(one.name)
                found = [
                    ((one.draw(people, seeded("test", one.name, t)) - people.counts) ** 2).mean()
                    for t in range(60)
                ]
                spread, mean = np.std(found) / np.sqrt(len(found)), (roots**2).mean()
                assert abs(np.mean(found) - mean) < 6 * spread + 0.02 * mean
    assert light | {"truncated-laplace-2"} <= seen


@pytest.mark.parametrize("name", ["log-laplace", "smooth-gamma", "leaning-staircase"])
def test_squares_between_known_sizes_are_close(name: str) -> None:
    made = eree.mechanism(name, alpha="0.1", epsilon="4")
    sizes = np.array([0, 1, 7, 13, 40, 101, 141, 419, 1_234, 4_321, 50_000])
    exact = [made.mean_error(Cell(int(x), int(x)))[1] for x in sizes]
    found = Single(name, 0.0, made, False).root_mean_squares(_only_sizes(sizes))
    assert found == pytest.approx(exact, rel=0.03)


def test_a_mean_square_without_a_bound_is_infinite() -> None:
    """Log-Laplace has none from a scale of 1/2 on, which is that of epsilon 4 b."""
    sizes = np.array([0, 3, 5_000])
    for epsilon, finite in (("0.38", False), ("0.39", True)):
        made = eree.mechanism("log-laplace", alpha="0.1", epsilon=epsilon)
        found = Single("log-laplace", 0.0, made, False).root_mean_squares(_only_sizes(sizes))
        assert np.isfinite(found).all() if finite else np.isposinf(found).all()


def test_smooth_gamma_of_the_slides_has_the_error_of_its_density() -> None:
    """By integrals of |z| / (1 + z^4) and z^2 / (1 + z^4), and by draws."""
    workload, sizes = WORKLOADS["workload-1"], np.array([0, 4, 10, 15, 3_000])
    (one,) = drafts(workload, 1, TENTH, TWO)
    scales = 8 * np.maximum(sizes / 10, 1)
    mass, first, second = (
        2 * quad(lambda z, k=k: z**k / (1 + z**4), 0, np.inf)[0] for k in range(3)
    )
    assert one.expected(_only_sizes(sizes)) == pytest.approx(scales * first / mass)
    assert one.root_mean_squares(_only_sizes(sizes)) == pytest.approx(
        scales * (second / mass) ** 0.5
    )
    many = _only_sizes(np.full(200_000, 30))
    drawn = np.abs(one.draw(many, seeded("slides")) - many.counts)
    expected = one.expected(many)
    assert expected is not None
    assert abs(drawn.mean() - expected[0]) < 6 * drawn.std() / np.sqrt(len(drawn))
    assert (one.name, one.delta) == ("slides-gamma", 0.0)
    assert not list(drafts(workload, 1, TENTH, Fraction("0.38")))  # epsilon is below 4 b
    assert {o.name for o in drafts(WORKLOADS["report-3"], 1, TENTH, TWO)} == {
        "report-laplace",
        "report-gamma",
    }


@pytest.mark.parametrize("alpha", ["0.01", "0.1"])
@pytest.mark.parametrize("name", ["smooth-gamma", "smooth-pareto", "radial"])
def test_errors_between_known_sizes_are_close(name: str, alpha: str) -> None:
    made = eree.mechanism(name, alpha=alpha, epsilon="4")
    sizes = np.array([0, 1, 7, 9, 13, 40, 77, 101, 118, 141, 333, 419, 1_234, 4_321, 50_000])
    exact = [made.mean_error(Cell(0, int(x)))[0] for x in sizes]
    found = Single(name, 0.0, made, False).expected(_only_sizes(sizes))
    assert found == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("name", ["vector-radial", "vector-pareto"])
def test_errors_of_vectors_between_known_sizes_are_close(name: str) -> None:
    guarantee = eree.Guarantee(eree.Strong("0.01"), "4")
    made = calibrate(name, guarantee, {"cells": 8})
    assert isinstance(made, VectorMechanism)
    sizes = np.array([0, 7, 77, 101, 118, 141, 333, 648, 1_234, 50_000])
    exact = [made.mean_error(Cell(0, int(x)))[0] for x in sizes]
    found = Together(name, 0.0, made).expected(_only_sizes(sizes))
    assert found == pytest.approx(exact, rel=0.015)


def _only_sizes(sizes: np.ndarray[Any, np.dtype[np.int64]]) -> Counted:
    """Cells of nothing but a largest workplace."""
    none = np.zeros(0, dtype=np.int64)
    rows = WorkplaceCounts(none, none, none, none)
    return Counted(sizes, sizes, sizes, np.full(len(sizes), -1, dtype=np.int8), 1, rows)


def test_errors_of_the_reports_algorithms_agree_with_draws() -> None:
    n = 400_000
    for algorithm in (2, 3):
        for largest in (0, 3, 50):
            counts = np.zeros(n, dtype=np.int64)
            drawn = np.abs(
                draw_report(
                    algorithm,
                    counts,
                    np.full(n, largest),
                    alpha="0.1",
                    epsilon="2",
                    random=eree.SeededRandom(algorithm),
                )
            )
            mean = mean_report_errors(algorithm, largest, "0.1", "2")
            assert abs(drawn.mean() - mean) < 6 * drawn.std() / np.sqrt(n)
            root = root_mean_square_report(algorithm, largest, "0.1", "2")
            if algorithm == 2 or not largest:  # the fourth moment of the other is infinite
                spread = (drawn**2).std() / np.sqrt(n)
                assert abs((drawn**2).mean() - root**2) < 6 * spread
            else:
                assert root**2 == pytest.approx((16 * 0.1 * largest / 2) ** 2 + 2 / 4)


def test_who_takes_part_follows_from_the_guarantee() -> None:
    def names(workload: str, cells: int, alpha: Any = TENTH, epsilon: Any = TWO) -> set[str]:
        return {one.name for one in contenders(WORKLOADS[workload], cells, alpha, epsilon)}

    assert {"log-laplace", "smooth-laplace", "auto"} <= names("workload-1", 1)
    assert "log-laplace" in names("workload-2", 8)
    assert not names("workload-2-strong", 8) & {"log-laplace", "linlog", "log-laplace-tight"}
    assert "knorm-staircase" in names("workload-3", 8)
    assert "knorm-staircase" not in names("workload-3-strong", 8)
    assert names("workload-3-strong", 8) >= {"vector-radial", "two-stage-clip", "auto"}
    assert names("report-6-true", 36) & {"vector-radial", "vector-pareto"} == set()
    assert names("workload-1", 1, None) >= {"truncated-laplace-2", "edge-geometric"}
    assert "smooth-gamma" not in names("workload-1", 1, TENTH, Fraction(1, 4))
    assert "smooth-laplace" not in names("workload-1", 1, Fraction(1, 5), Fraction(1, 4))


def test_the_price_of_a_whole_marginal_is_paid_once_or_shared_out() -> None:
    for one in contenders(WORKLOADS["workload-3"], 8, TENTH, Fraction(4)):
        assert isinstance(one, (Single, Together))
        epsilon = one.mechanism.guarantee.epsilon
        assert epsilon == (Fraction(1, 2) if isinstance(one, Single) else Fraction(4))
    for one in by_workplace(WORKLOADS["workload-3"], 8, TENTH, Fraction(4)):
        if isinstance(one, BySize):
            for second in (one.alone, one.together):
                assert one.sizes.guarantee.epsilon + second.guarantee.epsilon == 4
        else:
            assert isinstance(one, ByWorkplace)
            assert one.mechanism.guarantee.epsilon == 4


@pytest.mark.parametrize("name", ["auto-shrunk", "clipped"])
def test_estimates_are_made_of_what_a_contender_draws(people: Counted, name: str) -> None:
    """They are integers of at least 0, and on the whole nearer to the truth than what was drawn.

    Twenty seeded draws are 4.5% nearer; single ones may be a little further.
    """
    known = {o.name: o for o in contenders(WORKLOADS["workload-3-strong"], 8, TENTH, TWO)}
    shrunk = known["auto-shrunk"]
    assert isinstance(shrunk, Shrunk)
    if name == "clipped":
        clip = known["two-stage-clip"]
        assert isinstance(clip, Together)
        shrunk = Shrunk("clipped", 0.0, clip.mechanism, shrunk.shape)
    assert shrunk.shape == (2, 4)
    plain = Together("plain", 0.0, shrunk.mechanism)
    noisy, estimates = (
        np.array([one.draw(people, seeded(t)) for t in range(20 if EVERYTHING else 2)])
        for one in (plain, shrunk)
    )
    before, after = (np.abs(drawn - people.counts).mean() for drawn in (noisy, estimates))
    assert after < 0.97 * before
    assert (estimates >= 0).all()
    assert (estimates == np.rint(estimates)).all()
    assert shrunk.expected(people) is None


def test_estimates_are_shrunk_where_the_goals_are() -> None:
    for workload, alpha, epsilon, there in (
        ("workload-3-strong", TENTH, Fraction(1), {"auto-shrunk"}),
        ("workload-3", TENTH, Fraction(1), {"by-workplace-shrunk", "by-size-shrunk"}),
        ("report-4-true", TENTH, Fraction(4), {"auto-shrunk"}),
        ("report-6-true", TENTH, Fraction(4), set()),
        ("workload-3-strong", TENTH, Fraction(1, 2), set()),
        ("workload-3", Fraction(1, 20), TWO, set()),
        ("workload-2", TENTH, TWO, set()),
    ):
        cells = {"report-4-true": 3, "report-6-true": 36}.get(workload, 8)
        names = {
            one.name
            for those in (contenders, by_workplace)
            for one in those(WORKLOADS[workload], cells, alpha, epsilon)
        }
        assert {name for name in names if name.endswith("-shrunk")} == there


def test_workplaces_have_their_own_counts_and_those_without_jobs_are_there(
    people: Counted,
) -> None:
    groups, counts = people.by_workplace()
    assert np.array_equal(np.bincount(groups), people.workplaces)
    sums = np.zeros((len(people.workplaces), 8), dtype=np.int64)
    np.add.at(sums, groups, counts)
    assert np.array_equal(sums.ravel(), people.counts)
    more = replace(people, workplaces=people.workplaces + 2)
    groups, counts = more.by_workplace()
    assert np.array_equal(np.bincount(groups), more.workplaces)
    assert not counts[-2 * len(people.workplaces) :].any()


@pytest.mark.parametrize("name", ["by-workplace-shrunk", "by-size-shrunk"])
def test_estimates_by_workplace_are_whole_and_near_the_truth(people: Counted, name: str) -> None:
    known = {o.name: o for o in by_workplace(WORKLOADS["workload-3"], 8, TENTH, TWO)}
    (plain,) = (o for o in contenders(WORKLOADS["workload-3"], 8, TENTH, TWO) if o.name == "auto")
    one = known[name]
    assert one.expected(people) is None
    estimates = one.draw(people, seeded(1))
    assert (estimates >= 0).all()
    assert (estimates == np.rint(estimates)).all()
    noisy = plain.draw(people, seeded(1))
    assert np.abs(estimates - people.counts).mean() < np.abs(noisy - people.counts).mean()


def test_every_workplace_is_in_one_class_and_noise_has_no_other_source(people: Counted) -> None:
    """Without noise to speak of, large workplaces and small ones add up to the truth."""
    (one,) = (
        o
        for o in by_workplace(WORKLOADS["workload-3"], 8, TENTH, TWO)
        if isinstance(o, BySize) and not isinstance(o, BySizeShrunk)
    )
    sure = Guarantee(Weak("0.1", ["type"]), 150)
    exact = replace(
        one,
        sizes=automatic(sure, alone=True),
        alone=KNormStaircase.calibrate(sure, cells=8),
        together=VectorRadial.calibrate(sure, cells=8),
    )
    groups, counts = people.by_workplace()
    large, small = exact.parts(people, seeded(2))
    single = counts.sum(1) >= one.large
    assert np.array_equal(np.sort(large.groups), np.sort(groups[single]))
    assert small.workplaces.sum() == (~single).sum()
    drawn = exact.draw(people, seeded(2))
    assert (drawn == people.counts).mean() > 0.9  # large counts keep some noise
    assert np.abs(drawn - people.counts).mean() < 0.02 * people.counts.mean()
    assert np.array_equal(one.draw(people, seeded(3)), one.draw(people, seeded(3)))


def test_groups_know_their_kind_and_their_workplaces(
    people: Counted, town: eree.Tables, tmp_path: Path
) -> None:
    cells = eree.tabulate(town, by=WORKLOADS["workload-3"].by).confidential
    assert np.array_equal(np.repeat(people.workplaces, 8), cells["workplaces"].to_numpy())
    pairs = list(zip(cells["sector"].to_pylist(), cells["ownership"].to_pylist(), strict=True))
    numbers = np.repeat(people.kinds, 8).tolist()
    assert len(set(zip(numbers, pairs, strict=True))) == len(set(numbers)) == len(set(pairs))
    people.save(tmp_path / "cells.npz")
    again = Counted.read(tmp_path / "cells.npz")
    assert np.array_equal(again.kinds, people.kinds)
    assert np.array_equal(again.workplaces, people.workplaces)


def test_smooth_laplace_has_the_delta_that_it_really_has() -> None:
    """At an eighth of the price its delta is far above the one that is claimed for the whole."""
    single = {o.name: o for o in contenders(WORKLOADS["workload-1"], 1, TENTH, TWO)}
    shared = {o.name: o for o in contenders(WORKLOADS["workload-3"], 8, TENTH, TWO)}
    assert 0 < single["smooth-laplace"].delta < 1e-5
    assert shared["smooth-laplace"].delta > 0.04
    assert all(o.delta == 0 for n, o in single.items() if n != "smooth-laplace")


# ---------------------------------------------------------------------- running and going on


GIVEN: dict[str, Any] = {
    "jobs": 5_000,
    "trials": 2,
    "seed": 3,
    "only": ["workload-1", "ranking-1"],
    "processes": 1,
}
#: The grid of the studies of these tests; `make torture` takes the whole one.
GRID = {"ALPHAS": ("0.05", "0.1"), "EPSILONS": ("0.25", "1", "4")}
if EVERYTHING:
    GRID = {"ALPHAS": running.ALPHAS, "EPSILONS": running.EPSILONS}
PARTS = (1 + len(GRID["ALPHAS"])) * len(GRID["EPSILONS"])  # of each workload
#: The command over the same grid.
COMMAND = f"""
from eree.cli import main
from eree_study.papers import study as running
vars(running).update({GRID})
main()
"""


@pytest.fixture
def grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study has a part for each point of this grid."""
    for name, values in GRID.items():
        monkeypatch.setattr(running, name, values)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that nobody stopped; whoever changes it changes a copy."""
    out = tmp_path_factory.mktemp("studies") / "undisturbed"
    with pytest.MonkeyPatch.context() as patch:
        for name, values in GRID.items():
            patch.setattr(running, name, values)
        return eree_study.run_study(out, **GIVEN).folder


def errors_of(study: Path, home: Path) -> bytes:
    """The figures of a study as its report writes them."""
    home.mkdir()
    Results.read(study).write(home)
    return (home / "errors.csv").read_bytes()


def test_a_study_goes_on_where_it_was(undisturbed: Path, tmp_path: Path, grid: None) -> None:
    one = shutil.copytree(undisturbed, tmp_path / "one")
    parts = sorted((one / "parts").iterdir())
    gone = [path for path in parts if path.name.startswith("ranking-1_")][::3]
    for path in gone:
        path.unlink()
    kept = {path: path.stat().st_mtime_ns for path in parts if path not in gone}
    eree_study.run_study(one, **GIVEN)
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    for path in parts:
        assert path.read_bytes() == (undisturbed / "parts" / path.name).read_bytes()
    assert len(parts) == 2 * PARTS
    made = eree_study.study_report(one)
    assert all(path.exists() for path in made.files)
    assert (one / "errors.csv").read_bytes() == errors_of(undisturbed, tmp_path / "again")
    table = arrow_csv.read_csv(one / "errors.csv")
    assert table.column_names == [
        *("study", "workload", "mechanism", "alpha", "epsilon", "delta", "stratum", "measure"),
        *("value", "standard_error", "trials"),
    ]
    assert set(table["measure"].to_pylist()) >= {"l1_ratio", "spearman", "within_10_points"}
    short = Results.of_all_places(one / "study-errors.csv")
    assert short.rows
    for row in Results.read(one).rows:
        again = short.row(row.workload, row.mechanism, row.alpha, row.epsilon, row.measure)
        if row.stratum == "all" and row.measure in MAIN:
            assert again is not None
            assert again.value == pytest.approx(row.value, rel=1e-5)
            assert again.standard_error == pytest.approx(row.standard_error, rel=1e-2)
        elif row.measure not in MAIN:
            assert again is None
    page = (one / "findings.md").read_text(encoding="utf-8")
    assert "| Finding 1 |" in page
    assert "synthetic data" in page
    judged = {finding.name: finding for finding in made.findings}
    assert (made.run, made.parts) == (2 * PARTS, len(WORKLOADS) * PARTS)
    assert judged["Finding 3"].judgement == judged["Report 4"].judgement == "not looked at"
    assert judged["Finding 5"].judgement.startswith("partly looked at (")
    status, text, _ = eree_command("study", "report", "one", cwd=tmp_path)
    assert status == 0
    lines = text.splitlines()
    assert lines[2].split(maxsplit=2)[2].startswith("not looked at  ")
    assert f"The study is not complete: {2 * PARTS} of its" in text
    assert f"is not complete: {2 * PARTS} of its {made.parts} parts were run" in page
    status, text, _ = eree_command("study", "report", "one", "--json", cwd=tmp_path)
    said = json.loads(text)
    assert said["run"] == 2 * PARTS < said["parts"]
    assert said["findings"][2] | {"parts": 0} == {
        "finding": "Finding 3",
        "judged": "not looked at",
        "wide": "not looked at",
        "looked_at": 0,
        "parts": 0,
    }


#: The end of the name of what a killed process left.
LEFT = "partial-0123456789abcdef"
#: A study that is killed, with all its workers, when three of its parts are done.
KILLED = f"""
import os, signal, sys
from eree_study.papers import study as running
vars(running).update({GRID})
on_every_core = running.on_every_core
def killed(*given):
    for number, done in enumerate(on_every_core(*given), start=1):
        if number > 3:
            os.killpg(0, signal.SIGKILL)
        yield done
running.on_every_core = killed
from eree.cli import main
main()
"""


def test_a_study_that_was_killed_goes_on_and_is_the_same_for_a_seed(
    undisturbed: Path, tmp_path: Path
) -> None:
    """Whenever it is killed, and whatever that leaves behind: the figures are the same ones."""
    out = tmp_path / "study"
    arguments = [
        *("study", "run", "--out", str(out), "--seed", "3"),
        *("--jobs", "5000", "--trials", "2", "--only", "workload-1"),
    ]
    out.mkdir()
    (out / f".study.json.{LEFT}").write_text("{")  # of one that was killed before it began
    killed = ended([sys.executable, "-c", KILLED, *arguments], start_new_session=True)
    assert killed.returncode == -signal.SIGKILL
    there = len(list(out.glob("parts/*.json")))
    assert there >= 3
    command = [sys.executable, "-c", COMMAND, *arguments]
    (out / f".data.{LEFT}").mkdir()
    (out / f".data.{LEFT}" / "job.parquet").write_bytes(b"x")
    (out / "parts" / f".a.json.{LEFT}").write_text("[")
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr.count(f"{LEFT} was left by a process that was killed, and is removed") >= 2
    assert sorted(path.name for path in out.iterdir()) == ["cells", "data", "parts", "study.json"]
    assert there < len(list((out / "parts").iterdir())) == PARTS
    for path in (out / "parts").iterdir():
        assert path.read_bytes() == (undisturbed / "parts" / path.name).read_bytes()


def test_a_part_can_be_done_alone(
    tmp_path: Path, grid: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One alpha; that all parts can be done is seen in the campaigns of `make torture`."""
    monkeypatch.setattr(running, "ALPHAS", ("0.1",))
    study = eree_study.run_study(
        tmp_path / "s", jobs=5_000, trials=1, only=["report-4-true"], processes=1
    )
    part = Part("report-4-true", "0.1", "4")
    before = part.file(study.folder).read_bytes()
    part.file(study.folder).unlink()
    work(study, part)
    assert part.file(study.folder).read_bytes() == before
    names = {row["mechanism"] for row in json.loads(before)}
    assert {"report-laplace", "vector-radial", "two-stage-clip"} <= names
    assert len(list((study.folder / "parts").iterdir())) == 2 * len(GRID["EPSILONS"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "--out", "full"), "full is not a new or empty folder; name another with --out"),
        (
            ("run", "--out", "other", "--jobs", "7000"),
            "other holds a study with other settings, or of another version of eree; name a new",
        ),
        (("run", "--out", "x", "--only", "w"), "there is no workload named 'w'; there are workl"),
        (("run", "--out", "x", "--trials", "0"), "a study needs at least one trial"),
        (("report", "full"), "full holds no study; run one with 'eree study run --out full'"),
        (("report", "other"), "the study in other has no part yet; run it first"),
    ],
)
def test_what_is_no_study_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    (tmp_path / "other" / "parts").mkdir(parents=True)
    kept = {
        "jobs": 5000,
        "trials": 20,
        "seed": 1,
        "assumptions": "usual",
        "version": Study(tmp_path, 1, 1, 1).version,
    }
    (tmp_path / "other" / "study.json").write_text(json.dumps(kept))
    status, _, err = eree_command("study", *arguments, cwd=tmp_path)
    assert status == 2
    assert err.startswith(f"eree: {words}")
    assert err.count("\n") == 1


def test_a_study_of_another_version_is_not_continued(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text(json.dumps({"jobs": 1, "trials": 1, "seed": 1}))
    with pytest.raises(eree.Refusal, match="holds a study of another version of eree; run a new"):
        eree_study.study_report(tmp_path)


ROW = asdict(Row("paper", "workload-1", "auto", "0.1", "1", 0.0, "all", "l1_ratio", 1.5, 0.1, 1))


@pytest.mark.parametrize(
    "part",
    [
        "[{]",
        "{}",
        json.dumps([ROW, {}]),
        json.dumps([ROW, ROW | {"measure": ["l1"]}]),
        json.dumps([ROW | {"value": "much"}]),
        json.dumps([ROW | {"alpha": "some"}]),
    ],
)
def test_a_damaged_part_is_named(tmp_path: Path, part: str) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "study.json").write_text(
        json.dumps({"jobs": 1, "trials": 1, "seed": 1, "assumptions": "usual", "version": "1"})
    )
    (tmp_path / "parts" / "a.json").write_text(part)
    with pytest.raises(eree.Refusal, match=r"a\.json was damaged; remove it and run the study"):
        eree_study.study_report(tmp_path)


def test_the_reports_algorithms_have_the_delta_that_they_really_have() -> None:
    """Far above the one that is claimed, in every worker cell again, and at whatever size."""
    claimed = {o.name: o for o in drafts(WORKLOADS["report-6"], 36, TENTH, TWO)}
    assert claimed["report-laplace"].delta == pytest.approx(0.0206, abs=1e-4)
    true = list(drafts(WORKLOADS["report-6-true"], 36, TENTH, TWO))
    assert all(0 <= one.delta <= 1 for one in true)
    assert {o.name: o for o in true}["report-laplace"].delta > 0.5
    fine = {o.name: o for o in drafts(WORKLOADS["report-6"], 36, Fraction(1, 100), Fraction(1))}
    small = max(true_delta("0.01", "1", size, size + 1) for size in range(4))
    assert fine["report-laplace"].delta == pytest.approx(0.00146, abs=1e-5)
    assert fine["report-laplace"].delta > 1.3 * small


def test_truncated_counts_have_the_error_that_is_expected(people: Counted) -> None:
    for one in contenders(WORKLOADS["workload-3"], 8, None, Fraction(4)):
        expected = one.expected(people)
        assert expected is not None
        found = [
            np.abs(one.draw(people, seeded("truncated", one.name, t)) - people.counts).mean()
            for t in range(40)
        ]
        spread = np.std(found) / np.sqrt(len(found))
        assert abs(np.mean(found) - expected.mean()) < 6 * spread
