"""The query tool's evaluation: readings by brute force, expectations, and the page it writes."""

from __future__ import annotations

import csv
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from eree.errors import Refusal
from eree.study.querytool import (
    ARMS,
    LEVELS,
    Runs,
    Settings,
    capped_law,
    capped_variance,
    expected,
    made_up_cube,
    simulate,
    some_runs,
)
from eree.study.querytool_findings import findings, querytool_study
from eree.study.querytool_readings import Tables, nearest_reading
from eree.study.querytool_results import PRINTED, Results

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


def test_one_transform_gives_the_variances_of_all_tables() -> None:
    errors = np.random.default_rng(1).normal(size=(5, *SMALL))
    tables = Tables(SMALL)
    energies = tables.energies(errors)
    assert energies.sum(axis=1) == pytest.approx((errors**2).sum(axis=(1, 2, 3)))
    for reading in ("centred", "uncentred"):
        found = tables.pooled(energies, centred=reading == "centred")
        for cube, figures in zip(errors, found, strict=True):
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
    assert known["centred"][:4] == pytest.approx([6.80, 3.44, 1.40, 0.541], rel=2e-3)
    assert known["uncentred"][:4] == pytest.approx([11.23, 4.07, 1.49, 0.554], rel=2e-3)
    assert nearest_reading(known, PRINTED[:4]) == "centred"


def test_the_capped_law_at_epsilon_7_changes_2_cells_in_1000() -> None:
    values, chances = capped_law(7, 1)
    assert list(values) == [-1, 0, 1]
    assert (
        1 - chances[1] == pytest.approx(capped_variance(7, 1)) == pytest.approx(0.00182, abs=5e-6)
    )
    _, table_2 = capped_law(2, 7)
    assert table_2[7:10] == pytest.approx([0.76159, 0.10307, 0.013949], abs=5e-6)


@pytest.fixture(scope="module")
def small() -> Runs:
    """A fuller and smaller cube with more noise, so that 200 runs are quick and tell something."""
    cube = made_up_cube(3, cases=400, levels=(4, 3, 2, 2), classes=3)
    return simulate(cube, settings=Settings(runs=200, epsilon=2.0, cap=4), processes=2)


def test_simulated_figures_are_those_expected(small: Runs) -> None:
    """For all arms with a known expectation; 4 standard errors: a false alarm in 1,000 or fewer."""
    known = expected(small.levels, small.settings)
    assert set(known) == {"none", "least-squares", "least-squares, noisy controls"}
    for arm, readings in known.items():
        for reading in ("centred", "uncentred"):
            found = small.variances[arm, reading]
            apart = np.abs(found.mean(axis=0) - readings[reading])
            assert (apart <= 4 * found.std(axis=0, ddof=1) / 200**0.5 + 1e-9).all()
            if arm == "none":  # a variance 10% off would be found in the finest tables
                wrong = np.abs(found.mean(axis=0) - 1.1 * readings[reading])
                assert wrong[-1] > 4 * found.std(axis=0, ddof=1)[-1] / 200**0.5


def test_the_same_seed_gives_the_same_figures_on_any_number_of_cores() -> None:
    cube = made_up_cube(2, cases=50, levels=SMALL)
    chosen = Settings(runs=25, epsilon=2.0)
    one, two = (simulate(cube, settings=chosen, processes=k) for k in (1, 2))
    for key, figures in one.variances.items():
        assert (figures == two.variances[key]).all()
    first, other = (
        some_runs(cube, 1_000, Settings(epsilon=2.0, seed=seed), 0, 1)["energies of none"]
        for seed in (1, 2)
    )
    assert (first != other).any()


def test_noise_in_units_of_the_average_weight_gives_the_same_figures() -> None:
    """All weights 37: the weighted cube is 37 times the unweighted one, and so is its noise."""
    cube = made_up_cube(2, cases=50, levels=SMALL)
    chosen = Settings(runs=3, epsilon=2.0)
    plain = some_runs(cube, 1_000, chosen, 0, 3)
    weighted = some_runs(37 * cube, 37_000, chosen, 0, 3)
    for name, figures in plain.items():
        if figures.max() < 1e6 and "difference" not in name:
            assert weighted[name] == pytest.approx(figures, rel=1e-6, abs=1e-9)


def test_clipped_runs_converge_and_selection_is_counted(small: Runs) -> None:
    results = Results(small)
    assert (small.differences["rake-nonnegative"] < 1e-3).all()
    assert results.nearest.mean() == pytest.approx(0.224, abs=0.005)
    kept = small.variances["rake", "centred"][results.nearest].mean(axis=0)
    assert results.means("rake", "nearest") == pytest.approx(kept)
    assert not results.as_published
    row = results.row("least-squares", 2)
    assert row is not None and row.expected is not None and row.printed is None


def test_the_page_the_table_and_the_figure_are_written(tmp_path: Path) -> None:
    """The published settings in 8 runs: enough to see that figures and words come from runs."""
    files = querytool_study(
        tmp_path / "out", made_up_cube(1), settings=Settings(runs=8), processes=2
    )
    assert [file.name for file in files] == [
        "querytool.csv",
        "querytool.md",
        "querytool.png",
        "querytool.svg",
    ]
    assert all(file.stat().st_size > 1_000 for file in files)
    with files[0].open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["arm"] for row in rows} == set(ARMS)
    finest = [
        float(row["mean"])
        for row in rows
        if (row["arm"], row["runs"], row["reading"]) == ("none", "all", "uncentred")
        and row["dimension"] == "10"
    ]
    page = files[1].read_text(encoding="utf-8")
    assert "| noise changes 23.5% of the cells | no | 0.182% by the law" in page
    assert "a made-up cube of 182 cases and 17,280 cells" in page
    assert "| printed | 6.592 |" in page
    assert finest == [pytest.approx(0.00182, rel=0.25)]


def test_other_settings_are_not_held_against_the_paper(small: Runs) -> None:
    page = "\n".join(findings(Results(small), 400))
    assert "What the paper says" not in page and "printed" not in page
    assert "What else could be done" in page


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(Refusal, match="two runs or more"):
        Settings(runs=1)
