"""Errata of the query tool, each shown by a computation.  See `docs/errata.md`."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from cases import made
from eree.cells import Cell
from eree.random.source import SeededRandom
from eree.survey.calibrate.rake import rake, rake_nonnegative
from eree_study.querytool.evaluation import LEVELS, Evaluation, Settings, survey_cases
from eree_study.querytool.readings import Tables

WEIGHT = 20  # the average weight of a record
EVALUATED = {"epsilon": "7", "delta": "0.001", "cap": 1}  # what section 4 evaluates


def test_a_cap_of_1_at_epsilon_7_changes_2_cells_in_1000_and_not_23_in_100() -> None:
    """The variance that section 4 prints beside the 23.5% is the right one."""
    chosen = made("capped-laplace", None, **EVALUATED)
    up, down = (math.exp(chosen.log_pmf(Cell(5), 5 + k)) for k in (1, -1))
    assert up + down == pytest.approx(2 * math.exp(-7) / (1 + 2 * math.exp(-7)))
    # noise of 1: variance and probability agree
    assert up + down == pytest.approx(0.00182, abs=5e-6)
    assert chosen.mean_error(Cell(0, 0))[1] ** 2 == pytest.approx(0.00182, abs=5e-6)
    assert 17_280 * (up + down) == pytest.approx(31.5, abs=0.1)


def weighted_loss(record: int, output: int) -> float:
    """The loss at a weighted output whether a record of some weight is in an empty cell or not.

    The output is the weighted count plus the average weight times noise without any cap.
    """
    noise = made("edge-geometric", None)

    def log_probability(count: int) -> float:
        steps = Fraction(output - count, WEIGHT)
        if steps.denominator > 1:
            return -math.inf
        return noise.log_pmf(Cell(1_000), 1_000 + int(steps))

    present, absent = log_probability(record), log_probability(0)
    return present - absent if present > -math.inf else -math.inf


def test_noise_in_multiples_of_the_average_weight_gives_a_record_of_another_weight_away() -> None:
    """Epsilon is 2.  A record of twice the average weight loses 4; one of 1.5 times it, all."""
    assert weighted_loss(20, 400) == pytest.approx(2)
    assert weighted_loss(40, 400) == pytest.approx(4)
    for output in range(-600, 601, 10):
        found = weighted_loss(30, output)
        assert math.isinf(found)
        assert (found > 0) == (output % WEIGHT == 10)  # present, or absent, for certain


def raked(cells: np.ndarray, controls: list[np.ndarray]) -> np.ndarray:
    """Cells multiplied until the sums along each axis are the controls."""
    for _ in range(200):
        cells = cells * (controls[0] / cells.sum(axis=1))[:, None]
        cells = cells * (controls[1] / cells.sum(axis=0))[None, :]
    return cells


def test_cells_raked_to_totals_without_noise_tell_neighbours_apart_for_certain() -> None:
    """Seeded, though any draws would do: the sums of the output are the true ones."""
    truth = np.array([[5, 18], [9, 30], [12, 4]])
    more = truth + np.array([[1, 0], [0, 0], [0, 0]])  # one record joins the first row
    noise, changed = made("capped-laplace", None, "2"), 0
    for seed in range(20):
        for cells, first_row in ((truth, 23), (more, 24)):
            noisy = noise.draw(cells.ravel(), random=SeededRandom(seed)).reshape(cells.shape)
            controls = [cells.sum(axis=1), cells.sum(axis=0)]
            published = raked(np.maximum(noisy, 0.5), controls)
            assert published.sum(axis=1) == pytest.approx(controls[0], abs=1e-6)
            assert published[0].sum() == pytest.approx(first_row, abs=1e-6)
            changed += not np.allclose(published, cells, atol=1e-3)
    assert changed > 20  # the cells themselves do not stay what they were


def published_error(original: float, estimate: float, variance: float) -> float:
    """The standard error of section 3.4."""
    return math.sqrt(variance + (estimate - original) ** 2)


def test_a_standard_error_of_the_published_form_gives_the_original_away() -> None:
    """Whoever knows the sampling variance is left with two candidates for the original."""
    for noise in range(-7, 8):  # an empty cell has no sampling variance
        estimate = noise * WEIGHT
        assert published_error(0, estimate, 0) == abs(estimate)
    for original, variance in ((300, 50.0**2), (100, 30.0**2), (500, 0.0)):
        for noise in (-2, -1, 1, 3):
            estimate = original + noise * WEIGHT
            away = math.sqrt(published_error(original, estimate, variance) ** 2 - variance)
            candidates = [estimate - away, estimate + away]
            assert min(abs(candidate - original) for candidate in candidates) < 1e-6
            assert max(abs(candidate - original) for candidate in candidates) > WEIGHT


def test_table_4_is_the_variance_about_each_tables_mean() -> None:
    """Noise of variance v in n cells: a table of m cells has sums of variance v n / m.

    About the table's mean m - 1 directions of m are left.  Pooled over the cells of all tables.
    """
    variance, n = 2 * math.exp(-7) / (1 + 2 * math.exp(-7)), math.prod(LEVELS)
    printed = (6.592, 3.255, 1.340, 0.522)
    for dimension, told in enumerate(printed, start=1):
        sizes = [math.prod(levels) for levels in combinations(LEVELS, dimension)]
        about_zero = sum(variance * n / m * m for m in sizes) / sum(sizes)
        about_mean = sum(variance * n / m * (m - 1) for m in sizes) / sum(sizes)
        assert about_mean == pytest.approx((6.797, 3.439, 1.403, 0.541)[dimension - 1], abs=5e-4)
        assert about_zero == pytest.approx((11.235, 4.068, 1.492, 0.554)[dimension - 1], abs=5e-4)
        assert 1.03 < about_mean / told < 1.06 < about_zero / told


def test_runs_that_converge_are_a_selection_and_the_others_explode() -> None:
    """A synthetic survey, a quarter of whose answers are redrawn evenly; 300 seeded runs.

    Before any calibration the runs that converge have less noise in one-way tables than the others.
    Over all runs raking multiplies the noise; with negative cells clipped all of them converge.
    """
    cube = survey_cases(1, 0.25)
    evaluation, tables = Evaluation(cube, Settings()), Tables(LEVELS)
    controls = [total.astype(float) for total in evaluation.sums]
    met, noise, negative, clipped = [], [], [], []
    for run in range(300):
        cells = evaluation.noisy(run)[0].astype(float)
        after, report = rake(cells, evaluation.marginals, controls, cycles=10, tolerance=1e-3)
        _, better = rake_nonnegative(
            cells, evaluation.marginals, controls, cycles=10, tolerance=1e-3
        )
        energies = tables.energies((np.stack([cells, after]) - cube) / 1_000)
        noise.append(tables.figures(energies, "centred"))
        met.append(report.converged)
        clipped.append(better.converged)
        negative.append((cells < 0).sum())
    before, after_it = np.moveaxis(np.array(noise), 1, 0)
    few = np.array(met)
    assert 0.1 < few.mean() < 0.4  # 22.4% are printed
    assert all(clipped)
    assert np.mean(negative) == pytest.approx(17_280 * 0.00091, rel=0.05)  # nearly all of them
    assert before[few, 0].mean() < 0.9 * before[~few, 0].mean()
    for k in (1, 2, 3):  # tables of 2 to 4 variables
        assert np.median(after_it[:, k]) > 10 * np.median(before[:, k])
        assert after_it[:, k].mean() > 100 * before[:, k].mean()


def test_how_many_runs_converge_is_decided_by_the_cases() -> None:
    """Of 40 seeded runs none in a survey with small categories, nearly all where they are even."""
    shares = []
    for redrawn in (0.0, 1.0):
        evaluation = Evaluation(survey_cases(1, redrawn), Settings())
        controls = [total.astype(float) for total in evaluation.sums]
        reports = [
            rake(
                evaluation.noisy(run)[0], evaluation.marginals, controls, cycles=10, tolerance=1e-3
            )
            for run in range(40)
        ]
        shares.append(np.mean([report.converged for _, report in reports]))
    assert shares[0] < 0.05 and shares[1] > 0.9
