"""The study: its cells, its contenders, what it measures, and that it goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as arrow_csv
import pytest

import eree
from eree.legacy.infusion import RAMP
from eree.study.claims import Claim, Finding, Judge
from eree.study.compare import Comparison, Row, correlation, infusions, seeded
from eree.study.contenders import Single, Together, by_size, contenders
from eree.study.findings import judged
from eree.study.reported import draw_report_gamma, draw_report_laplace, mean_report_errors
from eree.study.run import Part, work
from eree.study.tidy import Figures
from eree.study.workloads import STRATA, WORKLOADS, Counted, counted_for
from uses import eree_command

TENTH, TWO = Fraction(1, 10), Fraction(2)


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> eree.Tables:
    return eree.load(eree.synthesize(tmp_path_factory.mktemp("study") / "data", jobs=20_000))


@pytest.fixture(scope="module")
def places(town: eree.Tables) -> Counted:
    return counted_for(town, WORKLOADS["workload-1"])


@pytest.fixture(scope="module")
def people(town: eree.Tables) -> Counted:
    return counted_for(town, WORKLOADS["workload-3"])


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
    assert set(places.strata) <= {"all", *STRATA}
    sizes = [len(at) for name, at in places.strata.items() if name != "all"]
    assert sum(sizes) == len(places.strata["all"]) == len(places.counts)


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


def test_errors_between_known_sizes_are_close() -> None:
    made = eree.mechanism("smooth-pareto", alpha="0.1", epsilon="2")
    sizes = np.array([0, 1, 7, 9, 10, 11, 13, 40, 333, 4_321, 50_000])
    exact = [made.mean_error(count=0, largest=int(x))[0] for x in sizes]
    found = by_size(sizes, lambda x: made.mean_error(count=0, largest=x)[0])
    assert found == pytest.approx(exact, rel=0.02)


def test_errors_of_the_reports_algorithms_agree_with_draws() -> None:
    n = 400_000
    for algorithm, draw in ((2, draw_report_laplace), (3, draw_report_gamma)):
        for largest in (0, 3, 50):
            counts = np.zeros(n, dtype=np.int64)
            drawn = np.abs(
                draw(
                    counts,
                    np.full(n, largest),
                    alpha="0.1",
                    epsilon="2",
                    coins=eree.SeededCoins(algorithm),
                )
            )
            mean = mean_report_errors(algorithm, largest, "0.1", "2")
            assert abs(drawn.mean() - mean) < 6 * drawn.std() / np.sqrt(n)


def test_who_takes_part_follows_from_the_guarantee() -> None:
    def names(workload: str, cells: int, alpha: Any = TENTH, epsilon: Any = TWO) -> set[str]:
        return {one.name for one in contenders(WORKLOADS[workload], cells, alpha, epsilon)}

    assert {"log-laplace", "smooth-laplace", "auto"} <= names("workload-1", 1)
    assert "log-laplace" in names("workload-2", 8)
    assert not names("workload-2-strong", 8) & {"log-laplace", "linlog", "log-laplace-tight"}
    assert "knorm-linlog" in names("workload-3", 8)
    assert "knorm-linlog" not in names("workload-3-strong", 8)
    assert names("workload-3-strong", 8) >= {"vector-radial", "two-stage-clip", "auto"}
    assert names("report-6-true", 36) & {"vector-radial", "vector-pareto"} == set()
    assert names("workload-1", 1, None) >= {"truncated-laplace-2", "edge-geometric"}
    assert "smooth-gamma" not in names("workload-1", 1, TENTH, Fraction(1, 4))
    assert "smooth-laplace" not in names("workload-1", 1, Fraction(1, 5), Fraction(1, 4))


def test_the_price_of_a_whole_marginal_is_paid_once_or_shared_out() -> None:
    for one in contenders(WORKLOADS["workload-3"], 8, TENTH, Fraction(4)):
        assert isinstance(one, (Single, Together))
        epsilon = one.mechanism.guarantee.epsilon
        assert epsilon == (Fraction(4) if isinstance(one, Together) else Fraction(1, 2))


def test_smooth_laplace_has_the_delta_that_it_really_has() -> None:
    """At an eighth of the price its delta is far above the one that is claimed for the whole."""
    single = {o.name: o for o in contenders(WORKLOADS["workload-1"], 1, TENTH, TWO)}
    shared = {o.name: o for o in contenders(WORKLOADS["workload-3"], 8, TENTH, TWO)}
    assert 0 < single["smooth-laplace"].delta < 1e-5
    assert shared["smooth-laplace"].delta > 0.04
    assert all(o.delta == 0 for n, o in single.items() if n != "smooth-laplace")


# -------------------------------------------------------------------------------- the measures


def test_infusion_of_one_workplace_is_off_by_its_factor(places: Counted) -> None:
    """In cells of one workplace the mean error is E|f - 1| = s + (t - s) / 3 of the count."""
    rows = places.rows
    alone = np.bincount(rows.cell, minlength=len(places.counts)) == 1
    alone &= places.counts >= 20
    errors = np.mean(
        [np.abs(p - places.counts) for p in infusions(places, RAMP, 400, 1, "test")], axis=0
    )
    ratio = (errors[alone] / places.counts[alone]).mean()
    assert ratio == pytest.approx(0.05 + 0.1 / 3, rel=0.02)
    zero = places.counts == 0
    assert (errors[zero] == 0).all()


def test_a_correlation_of_ranks_is_spearmans() -> None:
    from scipy.stats import rankdata, spearmanr

    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 20, 300), rng.integers(0, 20, 300)
    assert correlation(rankdata(a), rankdata(b)) == pytest.approx(spearmanr(a, b).statistic)
    assert correlation(np.ones(3), np.arange(3.0)) == 1.0


def test_measures_are_what_their_names_say(places: Counted) -> None:
    comparison = Comparison(WORKLOADS["ranking-1"], places, trials=3, seed=5)
    [one] = [
        o for o in contenders(WORKLOADS["ranking-1"], 1, TENTH, TWO) if o.name == "smooth-pareto"
    ]
    found = {(row.stratum, row.measure): row for row in comparison.rows(one, TENTH, TWO)}
    noisy = [
        one.draw(places, seeded(5, "ranking-1", "smooth-pareto", "0.1", "2", t)) for t in range(3)
    ]
    mean = np.mean([np.abs(n - places.counts).mean() for n in noisy])
    assert found["all", "l1"].value == pytest.approx(mean)
    assert found["all", "dollars"].value == pytest.approx(3.5 * mean * len(places.counts))
    infused = comparison.yardstick.errors["narrow"].mean()
    assert found["all", "l1_ratio"].value == pytest.approx(mean / infused)
    assert found["all", "bias"].value == pytest.approx(
        np.mean([(n - places.counts).mean() for n in noisy])
    )
    assert found["all", "bias_released"].value >= found["all", "bias"].value
    assert 0 <= found["all", "within_10_points"].value <= 1
    assert found["all", "spearman_truth"].value > 0.9
    assert found["all", "l1"].trials == 3
    assert found["all", "l1"].standard_error > 0


# --------------------------------------------------------------------------------- the findings


def figures(**values: float) -> Figures:
    rows = [
        Row(
            "paper",
            "workload-1",
            name.replace("_", "-"),
            "0.1",
            "2",
            0.0,
            "all",
            "l1_ratio",
            v,
            0,
            1,
        )
        for name, v in values.items()
    ]
    return Figures(rows)


def test_claims_are_judged_by_the_numbers() -> None:
    judge = Judge(figures(log_laplace=2.5, smooth_gamma=2.9, smooth_laplace=1.1))
    first = judged(judge)[0]
    assert [claim.holds for claim in first.claims[:2]] == [True, False]
    assert first.claims[2].holds is None
    assert first.judgement == "partly"
    good = judged(Judge(figures(log_laplace=2.5, smooth_gamma=2.9, smooth_laplace=0.9)))[0]
    assert good.judgement == "reproduced"
    bad = judged(Judge(figures(log_laplace=3.5, smooth_gamma=2.9, smooth_laplace=1.9)))[0]
    assert bad.judgement == "not"
    assert Finding("x", "y", (Claim("a", None, ""),)).judgement == "not judged"


# ---------------------------------------------------------------------- running and going on


def test_a_study_is_the_same_for_a_seed_and_goes_on_where_it_was(tmp_path: Path) -> None:
    given = {"jobs": 5_000, "trials": 2, "seed": 3, "only": ["workload-1", "ranking-1"]}
    for name in ("one", "two"):
        eree.run_study(tmp_path / name, **given)
    parts = sorted((tmp_path / "one" / "parts").iterdir())
    for path in parts[:5]:
        path.unlink()
    kept = {path: path.stat().st_mtime_ns for path in parts[5:]}
    eree.run_study(tmp_path / "one", **given)
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    texts = []
    for name in ("one", "two"):
        made = eree.study_report(tmp_path / name)
        assert all(path.exists() for path in made.files)
        texts.append((tmp_path / name / "errors.csv").read_bytes())
    assert texts[0] == texts[1]
    table = arrow_csv.read_csv(tmp_path / "one" / "errors.csv")
    assert table.column_names == [
        *("study", "workload", "mechanism", "alpha", "epsilon", "delta", "stratum", "measure"),
        *("value", "standard_error", "trials"),
    ]
    assert set(table["measure"].to_pylist()) >= {"l1_ratio", "spearman", "within_10_points"}
    page = (tmp_path / "one" / "findings.md").read_text(encoding="utf-8")
    assert "| Finding 1 |" in page
    assert "made-up data" in page


def test_a_study_that_was_killed_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "study"
    command = [
        *(Path(sys.executable).with_name("eree"), "study", "run", "--out", out),
        *("--jobs", "5000", "--trials", "2", "--only", "workload-1"),
    ]
    process = subprocess.Popen(command, start_new_session=True)
    while len(list(out.glob("parts/*.json"))) < 3:
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    there = len(list(out.glob("parts/*.json")))
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    assert there < len(list(out.glob("parts/*.json"))) == 36


def test_every_part_can_be_done_alone(tmp_path: Path) -> None:
    study = eree.run_study(tmp_path / "s", jobs=5_000, trials=1, only=["report-4-true"])
    part = Part("report-4-true", "0.1", "4")
    before = part.file(study.folder).read_bytes()
    part.file(study.folder).unlink()
    work(study, part)
    assert part.file(study.folder).read_bytes() == before
    names = {row["mechanism"] for row in json.loads(before)}
    assert {"report-laplace", "vector-radial", "two-stage-clip"} <= names


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "--out", "full"), "full is not a new or empty folder; name another with --out"),
        (
            ("run", "--out", "other", "--jobs", "7000"),
            "other holds a study with other settings; name a new folder with --out",
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
    kept = {"jobs": 5000, "trials": 20, "seed": 1}
    (tmp_path / "other" / "study.json").write_text(json.dumps(kept))
    status, _, err = eree_command("study", *arguments, cwd=tmp_path)
    assert status == 2
    assert err.startswith(f"eree: {words}")
    assert err.count("\n") == 1


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "study.json").write_text(json.dumps({"jobs": 1, "trials": 1, "seed": 1}))
    (tmp_path / "parts" / "a.json").write_text("[{]")
    with pytest.raises(eree.Refusal, match=r"a\.json was damaged; remove it and run the study"):
        eree.study_report(tmp_path)


def test_the_reports_algorithms_have_the_delta_that_they_really_have() -> None:
    """Far above the one that is claimed, and in every worker cell anew."""
    claimed = {o.name: o for o in contenders(WORKLOADS["report-6"], 36, TENTH, TWO)}
    assert claimed["report-laplace"].delta == pytest.approx(0.0206, abs=1e-4)
    true = list(contenders(WORKLOADS["report-6-true"], 36, TENTH, TWO))
    assert all(0 <= one.delta <= 1 for one in true)
    assert {o.name: o for o in true}["report-laplace"].delta > 0.5


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
