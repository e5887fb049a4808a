"""The query tool's evaluation: readings by brute force, expectations, and runs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from eree.errors import Refusal
from eree_study.querytool.convergence import (
    CHOSEN,
    CRITERIA,
    REDRAWN,
    Convergence,
    Criterion,
    raked_apart,
)
from eree_study.querytool.evaluation import (
    LEVELS,
    Runs,
    Settings,
    capped_distribution,
    capped_variance,
    evened,
    expected,
    simulate,
    some_runs,
    survey_cases,
)
from eree_study.querytool.readings import READINGS, Tables, nearest_reading
from eree_study.querytool.results import PRINTED

SMALL = (3, 2, 4)


def by_brute_force(errors: np.ndarray, dimension: int) -> dict[str, float]:
    """Every reading of one cube of errors, from its tables one by one."""
    tables = []
    for kept in combinations(range(errors.ndim), dimension):
        dropped = tuple(axis for axis in range(errors.ndim) if axis not in kept)
        tables.append(errors.sum(axis=dropped).ravel())
    cells = sum(len(table) for table in tables)
    return {
        "centred": sum(((t - t.mean()) ** 2).sum() for t in tables) / cells,
        "uncentred": sum((t**2).sum() for t in tables) / cells,
        "by table": np.mean([t.var() for t in tables]),
        "by table, n - 1": np.mean([t.var(ddof=1) for t in tables]),
        "all cells together": np.concatenate(tables).var(),
    }


def random_cases(seed: int, cases: int, levels: tuple[int, ...]) -> np.ndarray:
    """Cases drawn evenly, in thousandths."""
    rng, cube = np.random.default_rng(seed), np.zeros(levels, dtype=np.int64)
    np.add.at(cube, tuple(rng.integers(0, level, cases) for level in levels), 1_000)
    return cube


# ------------------------------------------------------------------------------------ readings


def test_one_transform_gives_the_variances_of_all_tables_by_every_reading() -> None:
    errors = np.random.default_rng(1).normal(size=(5, *SMALL))
    tables = Tables(SMALL)
    energies = tables.energies(errors)
    assert energies.sum(axis=1) == pytest.approx((errors**2).sum(axis=(1, 2, 3)))
    for reading in READINGS:
        for cube, figures in zip(errors, tables.figures(energies, reading), strict=True):
            for dimension in tables.dimensions:
                right = by_brute_force(cube, dimension)[reading]
                assert figures[dimension - 1] == pytest.approx(right)


def test_expected_readings_are_the_means_over_independent_errors() -> None:
    """Exact: the mean over errors in one cell at a time, in every direction, is the expectation."""
    tables = Tables(SMALL)
    found = tables.expected(np.ones(8))
    units = np.eye(24).reshape(24, *SMALL)
    for reading, figures in found.items():
        for dimension in tables.dimensions:
            right = sum(by_brute_force(unit, dimension)[reading] for unit in units)
            assert figures[dimension - 1] == pytest.approx(right)


def test_expectations_are_those_of_the_methods_page_and_table_4_is_centred() -> None:
    known = expected(LEVELS, Settings())["none"]
    assert known["centred"][:4] == pytest.approx([6.797, 3.439, 1.403, 0.541], abs=5e-4)
    assert known["uncentred"][:4] == pytest.approx([11.235, 4.068, 1.492, 0.554], abs=5e-4)
    assert nearest_reading(known, PRINTED[:4]) == "centred"


def test_least_squares_is_known_to_do_better_than_the_printed_raking() -> None:
    """By 56.9, 30.2 and 15.1% where the paper prints 48.3, 19.3 and 5.4."""
    known = expected(LEVELS, Settings())
    reduced = 1 - known["least-squares"]["centred"] / known["none"]["centred"]
    assert reduced[:4] == pytest.approx([1, 0.569, 0.302, 0.151], abs=5e-4)


def test_the_capped_noise_at_epsilon_7_changes_2_cells_in_1000() -> None:
    values, probabilities = capped_distribution(7, 1)
    assert list(values) == [-1, 0, 1]
    assert (
        1 - probabilities[1]
        == pytest.approx(capped_variance(7, 1))
        == pytest.approx(0.00182, abs=5e-6)
    )
    _, table_2 = capped_distribution(2, 7)
    assert table_2[7:10] == pytest.approx([0.76159, 0.10307, 0.013949], abs=5e-6)


# ---------------------------------------------------------------------------------------- runs


@pytest.fixture(scope="module")
def small() -> Runs:
    """A fuller and smaller cube with more noise, so that 200 runs are quick and tell something."""
    cube = random_cases(3, 300, (5, 4, 3, 3))
    [found] = simulate([cube], settings=Settings(runs=200, epsilon=2.0, cap=4), processes=2)
    return found


def test_simulated_figures_are_those_expected(small: Runs) -> None:
    """For all arms with a known expectation; 4 standard errors: a false alarm in 100 or fewer."""
    known = expected(small.levels, small.settings)
    assert set(known) == {"none", "least-squares", "least-squares, noisy controls"}
    for arm, readings in known.items():
        for reading in READINGS:
            found = small.variances[arm, reading]
            apart = np.abs(found.mean(axis=0) - readings[reading])
            assert (apart <= 4 * found.std(axis=0, ddof=1) / 200**0.5 + 1e-9).all()
            for factor in (0.9, 1.1):  # a variance 10% off would be found in the finest tables
                if arm == "none" and reading == "centred":
                    wrong = np.abs(found.mean(axis=0) - factor * readings[reading])
                    assert wrong[-1] > 4 * found.std(axis=0, ddof=1)[-1] / 200**0.5


def test_the_same_seed_gives_the_same_figures_on_any_number_of_cores() -> None:
    cubes = [random_cases(2, 50, SMALL), random_cases(3, 60, SMALL)]
    chosen = Settings(runs=25, epsilon=2.0)
    one, two = (simulate(cubes, settings=chosen, processes=k) for k in (1, 2))
    for first, second in zip(one, two, strict=True):
        for key, figures in first.variances.items():
            assert (figures == second.variances[key]).all()
        assert first.cases == second.cases
    assert [runs.cases for runs in one] == [50, 60]
    first, other = (
        some_runs(cubes[0], Settings(epsilon=2.0, seed=seed), 0, 1)["centred none"]
        for seed in (1, 2)
    )
    assert (first != other).any()


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(Refusal, match="two runs or more"):
        Settings(runs=1)
    with pytest.raises(Refusal, match="seed"):
        Settings(seed=-1)


# --------------------------------------------------------------------------------------- cases


def test_the_cases_are_those_of_the_made_up_survey_and_become_even_step_by_step() -> None:
    cubes = [survey_cases(4, redrawn) for redrawn in REDRAWN]
    assert {cube.shape for cube in cubes} == {LEVELS}
    assert {int(cube.sum()) for cube in cubes} == {182_000}
    with_pattern, without = cubes[0], cubes[-1]
    licence = [int(c) for c in with_pattern.sum(axis=tuple(range(9))) // 1_000]
    assert max(licence) > 2 * min(licence)
    # 182 fair random: 4 standard deviations are 27, a false alarm in 15,000
    for axis in range(5, 10):
        kept = without.sum(axis=tuple(k for k in range(10) if k != axis)) // 1_000
        assert abs(int(kept[0]) - 91) <= 27
    filled = [int((cube > 0).sum()) for cube in cubes]
    assert filled[0] < filled[1] < filled[2]


def test_answers_redrawn_at_one_chance_are_redrawn_alike_at_a_larger_one() -> None:
    counts = random_cases(1, 40, SMALL) // 1_000
    assert (evened(counts, 0.0, 1) == counts).all()
    few, more = evened(counts, 0.3, 1), evened(counts, 0.6, 1)
    assert few.sum() == more.sum() == 40
    assert np.abs(few - counts).sum() <= np.abs(more - counts).sum()
    assert (evened(counts, 0.3, 1) == few).all()


def test_differences_are_the_largest_to_a_control_relative_and_in_cases() -> None:
    """Controls that are met have a difference of nothing; and the smallest control is reported."""
    cube = random_cases(5, 4_000, (3, 2, 2))
    controls = [cube.sum(axis=axes) / 1_000 for axes in ((1, 2), (0, 2), (0, 1))]
    met, noise, smallest = raked_apart(cube, Settings(epsilon=4.0), 5)
    assert noise.shape == (5, 2, 3)
    assert (noise[:, 1, 0] < 1e-9).all() and (noise[:, 0, 0] > 0.1).any()
    assert met.shape == (5, 2)
    assert (met < 1e-6).all()
    assert smallest == min(float(control.min()) for control in controls)
    [[relative, cases]], _, _ = raked_apart(cube, Settings(epsilon=1.0, cap=9), 1, 1)
    assert 0 < relative < 0.1
    largest = max(float(control.max()) for control in controls)
    assert relative * smallest <= cases <= relative * largest


def hand_made() -> Convergence:
    """Two surveys, four runs: none converge at first, then one in four, then all."""
    apart = np.ones((3, 2, 4))
    apart[1, :, 0] = 1e-7
    apart[2] = 1e-9
    noise = np.arange(3 * 2 * 4 * 3, dtype=float).reshape(3, 2, 4, 3)
    return Convergence(
        (0.0, 0.25, 1.0), (1, 2), apart, 10 * apart, noise, 2 * noise, np.ones((3, 2))
    )


def test_shares_are_counted_by_criterion_and_the_nearest_to_the_printed_one_is_found() -> None:
    found = hand_made()
    assert found.runs == 4
    assert found.shares(CHOSEN).tolist() == [[0, 0], [0.25, 0.25], [1, 1]]
    assert found.shares(Criterion("relative", 1e-8)).tolist() == [[0, 0], [0, 0], [1, 1]]
    assert found.shares(Criterion("cases", 1e-5)).tolist() == [[0, 0], [0.25, 0.25], [1, 1]]
    assert found.matched == 0.25
    before, after = found.columns(0.25, CHOSEN)
    assert before.tolist() == found.before[1][:, 0].tolist()  # the first run of both surveys
    assert (after == 2 * before).all()
    assert [criterion.description for criterion in CRITERIA][:5] == [
        "10% of it",
        "1% of it",
        "0.1% of it",
        "0.01% of it",
        "0.0001% of it",
    ]
