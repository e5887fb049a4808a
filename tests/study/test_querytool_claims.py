"""What the page of the query tool's evaluation says, on hand-made runs whose verdicts are known."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from eree.survey.settings import METHODS
from eree_study.papers.claims import Claim
from eree_study.querytool import claims
from eree_study.querytool.calibrations import MEASURES, Calibrations
from eree_study.querytool.convergence import REDRAWN, Convergence
from eree_study.querytool.evaluation import ARMS, LEVELS, RAKED, Runs, Settings, expected
from eree_study.querytool.readings import READINGS
from eree_study.querytool.results import PRINTED, PRINTED_RAKED, PRINTED_REDUCTION, Results
from eree_study.querytool.study import Study, study_page
from eree_study.querytool.tables import pairs

RUNS = 1_000
#: What is left in the runs that converge, as Table 4 has it, and in the others.
LEFT = 1 - np.array(PRINTED_REDUCTION)
RUNAWAY = 1_000.0


def hand_made(
    converged: int = 224, *, noise: float = 0.95, left: np.ndarray = LEFT, spread: float = 0.1
) -> Runs:
    """Runs of which the first converge, with some part of the expected noise before calibration.

    A run has the expected noise times a factor of its own, whose standard deviation is `spread`.
    """
    known, rng = expected(LEVELS, Settings()), np.random.default_rng(1)
    few = np.arange(RUNS) < converged
    factor = rng.normal(1.0, spread, RUNS) * np.where(few, noise, 1.0)
    before = {reading: factor[:, None] * known["none"][reading] for reading in READINGS}
    variances = {}
    for arm in ARMS:
        for reading in READINGS:
            if arm in known:
                variances[arm, reading] = factor[:, None] * known[arm][reading]
            elif "nonnegative" in arm:
                variances[arm, reading] = 0.4 * before[reading]
            else:
                variances[arm, reading] = before[reading] * np.where(few[:, None], left, RUNAWAY)
    apart = {arm: np.where(few, 1e-7, 3.0) for arm in RAKED}
    apart["rake-nonnegative"] = np.full(RUNS, 1e-7)
    later = {arm: np.full(RUNS, 1e-7) for arm in RAKED if "nonnegative" in arm}
    some = np.full(RUNS, 0.00182)
    return Runs(Settings(RUNS), LEVELS, 182, variances, apart, later, 17_280 * some / 2)


def verdicts(found: list[Claim]) -> dict[str, str]:
    return {claim.statement: claim.holds for claim in found}


SELECTED = "runs that converge had less noise than the others before any calibration"
FIRST = "the first column is that of the runs that converge, for 1 to 4 variables"
THIRD = "the third column: what is left of the noise, for 2 to 4 variables"
BARELY = "and “barely changed” for 5 to 10 variables"


def test_runs_like_those_of_table_4_reproduce_it() -> None:
    found = verdicts(list(claims.selection_claims(Results(hand_made()))))
    assert set(found.values()) == {"yes"}
    assert {SELECTED, FIRST, THIRD, BARELY} <= set(found)


def test_runs_without_selection_and_with_less_left_do_not() -> None:
    runs = hand_made(noise=1.2, left=0.5 * LEFT)
    found = verdicts(list(claims.selection_claims(Results(runs))))
    assert found[SELECTED] == found[FIRST] == found[THIRD] == found[BARELY] == "no"


def test_what_standard_errors_cannot_tell_is_too_close() -> None:
    """The same means with 20 times the spread: half of all runs would have to be ten times off."""
    found = verdicts(list(claims.selection_claims(Results(hand_made(spread=2.0)))))
    assert found[SELECTED] == found[FIRST] == "too close to tell"


def test_a_column_of_fewer_than_10_runs_is_none() -> None:
    runs = Results(hand_made(9))
    assert runs.means("rake", "converged") == []
    assert len(runs.means("rake", "not converged")) == 10
    found = verdicts(list(claims.selection_claims(runs)))
    assert found[SELECTED] == found[FIRST] == found[THIRD] == "–"


def test_readings_are_told_apart_by_a_tenth_of_what_is_printed() -> None:
    found = list(claims.reading_claims(Results(hand_made())))
    assert [claim.holds for claim in found] == ["yes", "no", "no", "no", "too close to tell"]
    assert found[0].figures.startswith("6.797, 3.439, 1.403, 0.541: 3.1%, 5.6%, 4.7%, 3.7% above")


def test_raking_that_runs_away_reduces_nothing_in_expectation() -> None:
    found = list(claims.expectation_claims(Results(hand_made())))
    assert [claim.holds for claim in found] == ["no", "no"]
    better = list(claims.expectation_claims(Results(hand_made(RUNS))))
    assert [claim.holds for claim in better] == ["yes", "yes"]


def test_what_the_distribution_decides_is_held_against_the_printed_digits() -> None:
    assert [claim.holds for claim in claims.noise_claims()] == ["no", "yes"]


def test_other_ways_are_judged_in_the_same_runs() -> None:
    found = verdicts(list(claims.other_claims(Results(hand_made()))))
    assert found["with negatives clipped, more runs converge in 10 cycles"] == "yes"
    assert found["least squares: the figures are those known before any draw"] == "yes"
    noisy = "raked, noisy controls: more than half of the runs converge in 10 cycles"
    assert found[noisy] == "no"
    assert verdicts(list(claims.other_claims(Results(hand_made(500)))))[noisy] == (
        "too close to tell"
    )


def test_shares_of_runs_have_an_error_where_all_are_alike() -> None:
    share, error = claims.share_of(np.ones(100, dtype=np.bool_))
    assert share == 1 and error == pytest.approx((102 / 104 * 2 / 104 / 104) ** 0.5)


def test_a_few_runs_that_run_away_do_not_conceal_that_a_figure_is_greater() -> None:
    """One run of 100 has a million times the noise: a difference would be one standard error."""
    calm, wild = np.ones(100), np.ones(100)
    wild[0] = 1e6
    for one, other, sign in ((calm, wild, 1), (wild, calm, -1)):
        margin, error = claims.less(one, other)
        assert margin == pytest.approx(sign, abs=1e-3)
        assert 2 * error < 1e-3
    assert claims.less(calm, calm) == (0, 0)


def test_rows_count_what_they_say() -> None:
    results = Results(hand_made(), "by hand")
    rows = {(r.arm, r.runs, r.reading, r.dimension): r for r in results.rows()}
    raked = rows["rake", "all", "centred", 2]
    assert (raked.worse, raked.exploded, raked.share) == (0.776, 0.776, 1.0)
    kept = rows["rake", "converged", "centred", 2]
    assert (kept.share, kept.worse, kept.printed) == (0.224, 0.0, 1.684)
    values = results.runs.variances["rake", "centred"][:224, 1]
    assert kept.mean == pytest.approx(values.mean())
    assert kept.standard_error == pytest.approx(values.std(ddof=1) / 224**0.5)
    assert kept.median == pytest.approx(np.median(values))
    assert rows["least-squares", "all", "centred", 2].expected == pytest.approx(1.483, abs=5e-4)
    assert ("least-squares", "converged", "centred", 2) not in rows


# --------------------------------------------------------------------------------- convergence


def grid(*shares: float) -> Convergence:
    """Shares of 200 runs that converge at every step, in 5 surveys; half by a strict criterion."""
    apart = np.ones((len(shares), 5, 200))
    for k, share in enumerate(shares):
        apart[k, :, : round(200 * share)] = 1e-5
        apart[k, :, : round(100 * share)] = 1e-7
    before = np.ones((*apart.shape, 10)) * np.array(PRINTED)
    after = np.ones((*apart.shape, 10)) * np.array(PRINTED_RAKED)
    after[-1] *= 2  # even cases leave twice as much as is printed
    smallest = np.ones((len(shares), 5))
    return Convergence(REDRAWN, (1, 2, 3, 4, 5), apart, apart, before, after, smallest)


def test_convergence_that_depends_on_cases_and_criterion_is_seen() -> None:
    found = list(claims.convergence_claims(grid(0, 0.22, 0.7, 1, 1)))
    assert [claim.holds for claim in found] == ["yes", "yes", "no"]
    alike = list(claims.convergence_claims(grid(0.22, 0.22, 0.22, 0.22, 0.22)))
    assert [claim.holds for claim in alike] == ["too close to tell", "yes", "too close to tell"]


# ------------------------------------------------------------------------------- calibrations


def compared(
    least: float = 1.0, raked: float = 3.0, bound: float = 7.0, zeros: int = 0
) -> Calibrations:
    """100 runs with these squared errors, 1 published for least squares; 94% and 99% covered."""
    rng = np.random.default_rng(2)
    figures = np.ones((100, len(METHODS), 6, len(MEASURES)))
    for k, method in enumerate(METHODS):
        of_least = method in ("none", "least-squares")
        figures[:, k, :, 0] = least if of_least else raked
        figures[:, k, :, 1] = 1.0 if of_least else bound
        figures[:, k, :, 2] = 0.94 if of_least else 0.99
    figures[..., 0] *= rng.normal(1, 0.02, figures[..., 0].shape)
    return Calibrations(tuple("abcdef"), 640, zeros, "1", figures)


def test_what_is_published_of_errors_is_held_against_them() -> None:
    assert {claim.holds for claim in claims.calibration_claims(compared())} == {"yes"}
    wrong = list(claims.calibration_claims(compared(least=1.3, raked=1.2, bound=1.1)))
    holds = [claim.holds for claim in wrong[:7]]
    assert holds == ["no"] * 7  # the variance, and for both ways to rake the bound and the order
    above = list(claims.calibration_claims(compared(least=0.5, zeros=3)))
    assert above[0].holds == "yes"  # less than what is published is no fault with zeros
    assert next(claims.calibration_claims(compared(least=0.5))).holds == "no"


def test_intervals_that_cover_too_little_are_seen() -> None:
    found = compared()
    figures = found.figures.copy()
    figures[..., 2] = 0.9
    poor = list(claims.calibration_claims(replace(found, figures=figures)))
    assert [claim.holds for claim in poor[-3:]] == ["no"] * 3


# ---------------------------------------------------------------------------------------- page


def text(evened: Runs, survey: Runs) -> str:
    study = Study(
        grid(0, 0.22, 0.7, 1, 1),
        Results(survey, "a survey"),
        Results(evened, "an even one"),
        [compared(), compared(zeros=3)],
    )
    return study_page(study, ["a.png", "b.png", "c.png"])


def test_the_page_says_what_was_found_in_numbers() -> None:
    said = text(hand_made(), hand_made(0))
    assert (
        "a synthetic cube" not in said and "A synthetic cube of 182 cases and 17,280 cells" in said
    )
    assert "nearest reading is “centred”: 6.797, 3.439, 1.403, 0.541" in said
    assert "From 0.0% to 100.0% of the runs converge" in said
    assert "25% of the answers are redrawn evenly, with 22.4%" in said
    assert "leaves 48.3%, 19.3%, 5.4% less than before for 2 to 4 variables (below zero" in said
    assert "| 2 | 3.255 | 1.684 | 48.3% |" in said
    assert "| noise changes 23.5% of the cells | **no** |" in said
    assert "| **yes** |" not in said  # in claims.csv, as are claims of ours
    assert "less error than by least squares" not in said
    assert "missed by more than 0.1% of it" in said
    for picture in ("a.png", "b.png", "c.png"):
        assert f"]({picture})" in said
    assert "nan" not in said.lower().replace("finance", "")


def test_the_page_says_when_no_run_converged() -> None:
    said = text(hand_made(0), hand_made(0))
    assert "Fewer than 10 runs converged" in said
    assert "converged: without" not in said
    assert "for 2 to 4 variables | **–** |" in said


def test_columns_of_pairs_agree_or_do_not() -> None:
    found = {(pair.redrawn, pair.criterion.limit): pair for pair in pairs(grid(0, 0.22, 0.7, 1, 1))}
    assert (0.0, 0.1) not in found  # too few runs
    assert found[0.25, 1e-6].share == 0.11
    near, far = found[0.25, 1e-3], found[1.0, 0.1]
    assert near.before == pytest.approx([6.592, 3.255, 1.340, 0.522])
    assert near.after[1:] == pytest.approx([1.684, 1.082, 0.494])
    assert far.after[1:] == pytest.approx([3.368, 2.164, 0.988])
    assert (near.share, near.reduced) == (0.22, "yes")
    assert (far.share, far.reduced) == (1.0, "no")


def test_every_table_of_the_page_has_as_many_cells_in_every_line() -> None:
    lines = text(hand_made(), hand_made(0)).splitlines()
    for line, following in pairwise(lines):
        if line.startswith("|") and following.startswith("|"):
            assert line.count("|") == following.count("|"), line
