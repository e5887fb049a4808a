"""What the study measures: every figure again in the plainest way, and its standard error."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

import eree
from eree.cells import Cell
from eree.random.source import Random
from eree_study.legacy.infusion import RAMP, WIDE
from eree_study.papers.claims import verdict
from eree_study.papers.comparison import Comparison, Estimate, correlation, infusions, seeded
from eree_study.papers.contenders import Contender, contenders
from eree_study.papers.workloads import WORKLOADS, Counted, Workload

TENTH, TWO = Fraction(1, 10), Fraction(2)


@dataclass(frozen=True)
class OnlyDrawn(Contender):
    """A contender whose expected error nobody knows."""

    of: Contender

    def draw(self, cells: Counted, random: Random) -> np.ndarray[Any, np.dtype[np.float64]]:
        return self.of.draw(cells, random)

    def expected(self, cells: Counted) -> None:
        return None


def drawn(workload: Workload, name: str) -> OnlyDrawn:
    [one] = [o for o in contenders(workload, 1, TENTH, TWO) if o.name == name]
    return OnlyDrawn(name, 0.0, one)


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
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 20, 300), rng.integers(0, 20, 300)
    assert correlation(rankdata(a), rankdata(b)) == pytest.approx(spearmanr(a, b).statistic)
    assert correlation(np.ones(3), np.arange(3.0)) == 1.0


def test_measures_are_what_their_names_say(places: Counted) -> None:
    """All of them again, from the same draws, in the plainest way."""
    workload, trials = WORKLOADS["ranking-1"], 7
    comparison = Comparison(workload, places, trials=trials, seed=5)
    one = drawn(workload, "smooth-pareto")
    found = {(row.stratum, row.measure): row for row in comparison.rows(one, TENTH, TWO)}
    counts = places.counts
    noisy = np.array(
        [
            one.draw(places, seeded(5, "ranking-1", "smooth-pareto", "0.1", "2", t))
            for t in range(trials)
        ]
    )
    infused = {
        suffix: np.array(list(infusions(places, ramp, trials, 5, f"infusion {name}")))
        for name, ramp, suffix in (("narrow", RAMP, ""), ("wide", WIDE, "_wide"))
    }
    for stratum, at in places.strata.items():
        errors = np.abs(noisy - counts)[:, at]
        expected = {"l1": errors.mean(axis=1), "bias": (noisy - counts)[:, at].mean(axis=1)}
        expected["dollars"] = 3.5 * errors.sum(axis=1)
        expected["bias_released"] = (np.maximum(noisy, 0) - counts)[:, at].mean(axis=1)
        expected["spearman_truth"] = np.array(
            [correlation(rankdata(n[at]), rankdata(counts[at])) for n in noisy]
        )
        for suffix, published in infused.items():
            expected["spearman" + suffix] = np.array(
                [
                    correlation(rankdata(n[at]), rankdata(p[at]))
                    for n, p in zip(noisy, published, strict=True)
                ]
            )
        some = counts[at] > 0
        expected["relative"] = (errors[:, some] / counts[at][some]).mean(axis=1)
        for measure, values in expected.items():
            row = found[stratum, measure]
            assert row.value == pytest.approx(values.mean())
            assert row.standard_error == pytest.approx(values.std(ddof=1) / np.sqrt(trials))
            assert row.trials == trials
        squares = (errors**2).mean(axis=1)
        root, spread = np.sqrt(squares.mean()), squares.std(ddof=1) / np.sqrt(trials)
        assert found[stratum, "l2"].value == pytest.approx(root)
        assert found[stratum, "l2"].standard_error == pytest.approx(spread / (2 * root))
        released = np.abs(np.maximum(noisy, 0) - counts)[:, at]
        for suffix, published in infused.items():
            theirs = np.abs(published - counts)[:, at]
            ratios = {"l1_ratio" + suffix: errors}
            if not suffix:
                ratios["l1_ratio_released"] = released
            for measure, mine in ratios.items():
                row, (a, b) = found[stratum, measure], (mine.mean(axis=1), theirs.mean(axis=1))
                assert row.value == pytest.approx(a.mean() / b.mean())
                relative = [v.std(ddof=1) / np.sqrt(trials) / v.mean() for v in (a, b)]
                assert row.standard_error == pytest.approx(row.value * np.hypot(*relative))
            roots = [np.sqrt((e**2).mean()) for e in (errors, theirs)]
            assert found[stratum, "l2_ratio" + suffix].value == pytest.approx(roots[0] / roots[1])
            shares = [(e[:, some] / counts[at][some]).mean() for e in (errors, theirs)]
            ratio = found[stratum, "relative_ratio" + suffix].value
            assert ratio == pytest.approx(shares[0] / shares[1])
            mine, theirs = (e.mean(axis=0)[some] / counts[at][some] for e in (errors, theirs))
            share = (mine <= theirs + 0.1).mean()
            assert found[stratum, "within_10_points" + suffix].value == pytest.approx(
                share, abs=2e-3
            )


def test_a_share_has_the_standard_error_that_repetition_shows(places: Counted) -> None:
    """Of 60 studies with other seeds: the errors they state, beside how much they differ."""
    workload = WORKLOADS["workload-1"]
    one = drawn(workload, "smooth-pareto")
    rows = []
    for seed in range(60):
        comparison = Comparison(workload, places, trials=10, seed=seed)
        rows += [
            row
            for row in comparison.rows(one, TENTH, TWO)
            if (row.stratum, row.measure) in (("all", "within_10_points"), ("all", "l1_ratio"))
        ]
    # a share of 87 cells moves in steps, and leaving out a fifth of the trials is rough
    for measure, low, high in (("within_10_points", 0.6, 1.7), ("l1_ratio", 0.8, 1.25)):
        mine = [row for row in rows if row.measure == measure]
        stated = np.sqrt(np.mean([row.standard_error**2 for row in mine]))
        assert low < stated / np.std([row.value for row in mine], ddof=1) < high


def test_errors_that_are_known_are_not_drawn(places: Counted) -> None:
    """Log-Laplace has tails so heavy that the mean of twenty trials is anything."""
    workload = WORKLOADS["workload-1"]
    [one] = [o for o in contenders(workload, 1, TENTH, TWO) if o.name == "log-laplace"]
    comparison = Comparison(workload, places, trials=2, seed=1)
    found = {row.measure: row for row in comparison.rows(one, TENTH, TWO) if row.stratum == "all"}
    made = eree.mechanism("log-laplace", alpha="0.1", epsilon="2")
    counts, times = np.unique(places.counts, return_counts=True)
    exact = [made.mean_error(Cell(int(n), int(n)))[0] for n in counts]
    assert found["l1"].value == pytest.approx(np.average(exact, weights=times), rel=1e-3)
    squares = [made.mean_error(Cell(int(n), int(n)))[1] ** 2 for n in counts]
    root = np.sqrt(np.average(squares, weights=times))
    assert found["l2"].value == pytest.approx(root, rel=1e-3)
    shares = np.array(exact)[counts > 0] / counts[counts > 0]
    mean = np.average(shares, weights=times[counts > 0])
    assert found["relative"].value == pytest.approx(mean, rel=1e-3)
    trials = {name: row.trials for name, row in found.items()}
    sizes = {f"{name}{ratio}" for name in ("l1", "l2", "relative") for ratio in ("", "_ratio")}
    assert {trials[name] for name in (*sizes, "dollars", "within_10_points")} == {0}
    assert trials["bias"] == trials["l1_ratio_released"] == 2


def test_an_infinite_mean_square_is_written_as_one(places: Counted) -> None:
    workload, epsilon = WORKLOADS["workload-1"], Fraction("0.3")
    [one] = [o for o in contenders(workload, 1, TENTH, epsilon) if o.name == "log-laplace"]
    comparison = Comparison(workload, places, trials=2, seed=1)
    rows = {r.measure: r for r in comparison.rows(one, TENTH, epsilon) if r.stratum == "all"}
    for measure in ("l2", "l2_ratio", "l2_ratio_wide"):
        assert (rows[measure].value, rows[measure].standard_error) == (np.inf, 0.0)
    assert np.isfinite(rows["l1"].value)


def test_one_trial_alone_is_not_sure_of_anything() -> None:
    assert np.isnan(Estimate.of([3.0]).error)
    assert np.isnan(Estimate.of([3.0]).over(Estimate(2.0)).error)
    assert verdict([(5.0, Estimate.of([3.0]).error)]) == "too close to tell"


def test_exact_errors_are_uncertain_only_by_what_they_are_held_against(places: Counted) -> None:
    workload = replace(WORKLOADS["report-3"], by=WORKLOADS["workload-1"].by)
    comparison = Comparison(workload, places, trials=4, seed=1)
    [one] = [o for o in contenders(workload, 1, TENTH, TWO) if o.name == "smooth-gamma"]
    found = {r.measure: r for r in comparison.rows(one, TENTH, TWO) if r.stratum == "all"}
    expected = one.expected(places)
    assert expected is not None
    assert (found["l1"].value, found["l1"].standard_error, found["l1"].trials) == (
        pytest.approx(expected.mean()),
        0.0,
        0,
    )
    infused = [r for r in comparison.infusion() if r.stratum == "all"]
    assert {row.measure for row in infused} == {"l1", "l2", "relative"}
    infusion = {row.mechanism: row for row in infused if row.measure == "l1"}
    assert {row.trials for row in infusion.values()} == {4}
    assert all(row.epsilon is None and row.alpha is None for row in infusion.values())
    for ratio, name in (("l1_ratio", "infusion"), ("l1_ratio_wide", "infusion-wide")):
        below = infusion[name]
        assert found[ratio].value == pytest.approx(expected.mean() / below.value)
        part = below.standard_error / below.value
        assert found[ratio].standard_error == pytest.approx(found[ratio].value * part)
        assert part > 0
