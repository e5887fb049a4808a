"""Estimates from a release: made of it alone, nearer to the truth, with two kinds of intervals."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eree
import eree_study
from eree.cells import Cell
from eree.estimate.grids import classes_for
from eree.estimate.measured import MeasuredTable
from eree.estimate.shrinkage import _Part
from eree.estimate.shrunk_draw import _totals_elsewhere
from eree.estimate.totals import Areas
from eree.mechanisms.registry import calibrate
from eree.mechanisms.vector.pareto import VectorPareto
from eree.mechanisms.vector.radial import VectorRadial
from uses import eree_command

pytestmark = pytest.mark.xdist_group("shrink")  # what most tests look at is made once

PEOPLE = ["place", "sector", "ownership", "sex", "education"]
TABLES: list[dict[str, Any]] = [
    {"name": "people", "by": PEOPLE, "epsilon": "1"},
    {"name": "clipped", "by": PEOPLE, "epsilon": "1", "mechanism": "two-stage-clip"},
    {"name": "worker-first", "by": ["sex", "tract", "education"], "epsilon": "1"},
    {"name": "states", "by": ["state", "sex"], "epsilon": "1"},
    {"name": "women", "by": ["place", "education"], "where": {"sex": ["F"]}, "epsilon": "1"},
    {"name": "places", "by": ["place"], "epsilon": "1"},
]


@pytest.fixture(scope="module")
def county(tmp_path_factory: pytest.TempPathFactory) -> eree.Tables:
    return eree.load(
        eree_study.synthesize(tmp_path_factory.mktemp("shrink") / "data", jobs=100_000)
    )


@pytest.fixture(scope="module")
def crowd(county: eree.Tables, tmp_path_factory: pytest.TempPathFactory) -> eree.Release:
    plan = eree.Plan.of(
        {
            "data": str(county.folder),
            "privacy": {"neighbours": "strong", "alpha": "0.1", "epsilon": "100"},
            "table": TABLES,
        }
    )
    out = tmp_path_factory.mktemp("crowd") / "out"
    return eree.publish(plan, county, ledger=None, out=out, random=eree.SeededRandom(1))


@pytest.fixture(scope="module")
def people(crowd: eree.Release) -> eree.Shrunk:
    return eree.shrink(crowd, "people")


@pytest.mark.parametrize("name", ["people", "clipped", "worker-first"])
def test_estimates_are_nearer_to_the_truth(
    crowd: eree.Release, county: eree.Tables, name: str
) -> None:
    by = crowd.about(name)["by"]
    exact = eree.tabulate(county, by=by).confidential
    true = {tuple(row[a] for a in by): row["count"] for row in exact.to_pylist()}
    rows = eree.shrink(crowd, name).rows.to_pylist()
    counts = np.array([true[tuple(row[a] for a in by)] for row in rows])
    noisy = np.array([max(row["noisy"], 0) for row in rows])
    estimates = np.array([row["estimate"] for row in rows])
    assert np.abs(estimates - counts).mean() < 0.95 * np.abs(noisy - counts).mean()


def test_everything_else_stays_as_it_was_released(crowd: eree.Release, people: eree.Shrunk) -> None:
    released = crowd.table("people")
    kept = [*PEOPLE, "noisy", "low", "high", "workplaces"]
    guaranteed = [*PEOPLE, "noisy", "guaranteed_low", "guaranteed_high", "workplaces"]
    assert people.rows.column_names == [*PEOPLE, "estimate", "low", "high", *guaranteed[5:]]
    same = people.rows.select(guaranteed).rename_columns(kept)
    assert same.to_pydict() == released.select(kept).to_pydict()
    assert people.level == 0.9
    assert people.by == tuple(PEOPLE)
    assert not people.private


def test_estimates_are_whole_and_inside_both_intervals(people: eree.Shrunk) -> None:
    estimate = people.rows["estimate"].to_numpy()
    for kind in ("", "guaranteed_"):
        assert (estimate >= people.rows[f"{kind}low"].to_numpy()).all()
        for value, high in zip(estimate, people.rows[f"{kind}high"].to_pylist(), strict=True):
            assert high is None or value <= high


def test_calibrated_intervals_of_estimates_hold_and_are_narrower(
    crowd: eree.Release, county: eree.Tables, people: eree.Shrunk
) -> None:
    exact = eree.tabulate(county, by=PEOPLE).confidential
    true = {tuple(row[a] for a in PEOPLE): row["count"] for row in exact.to_pylist()}
    counts = np.array([true[key] for key in zip(*keys(people.rows), strict=True)])
    low, high = (people.rows[name].to_numpy() for name in ("low", "high"))
    assert ((low <= counts) & (counts <= high)).mean() > 0.82  # learnt from 242 groups; nominal 0.9
    cells = eree.area_totals(crowd, "people", PEOPLE).rows
    place = {key: i for i, key in enumerate(zip(*keys(cells), strict=True))}
    same = np.array([place[key] for key in zip(*keys(people.rows), strict=True)])
    wide = (cells["high"].to_numpy() - cells["low"].to_numpy() + 1)[same]
    assert np.log((high - low + 1) / wide).mean() < np.log(0.9)


def keys(rows: pa.Table) -> list[list[Any]]:
    return [rows[name].to_pylist() for name in PEOPLE]


def test_what_was_scaled_before_has_the_guaranteed_interval_alone(crowd: eree.Release) -> None:
    rows = eree.shrink(crowd, "clipped").rows
    for name in ("low", "high"):
        assert rows[name].equals(rows[f"guaranteed_{name}"])


def test_only_the_release_is_used(crowd: eree.Release, people: eree.Shrunk, tmp_path: Path) -> None:
    """A copy of the folder, with nothing else at hand, gives the same estimates."""
    shutil.copytree(crowd.folder, tmp_path / "copy")
    again = eree.shrink(eree.Release.open(tmp_path / "copy"), "people")
    assert again.rows.equals(people.rows)
    assert again.correlations == people.correlations


def test_it_gives_the_correlation_of_workers_of_a_workplace(people: eree.Shrunk) -> None:
    assert list(people.correlations) == ["education", "sex", "sex × education"]
    assert all(0 < value < 1 for value in people.correlations.values())


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("places", "protected cell by cell by leaning-staircase"),
        ("women", "leaves out workers"),
        (
            "states",
            "has 3 groups of worker cells; the shares of kinds can be learnt from 30 or more",
        ),
        ("nowhere", "the release has no table 'nowhere'"),
    ],
)
def test_tables_without_a_gain_are_refused(crowd: eree.Release, name: str, why: str) -> None:
    with pytest.raises(eree.Refusal, match=why):
        eree.shrink(crowd, name)


def test_a_file_is_written_beside_the_release_and_never_into_it(
    crowd: eree.Release, people: eree.Shrunk, tmp_path: Path
) -> None:
    for inside in ("people.csv", "tables/estimates.csv"):
        with pytest.raises(eree.Refusal, match="no part of a signed release"):
            people.write(crowd.folder / inside)
    written = people.write(tmp_path / "people.csv")
    with written.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(people)
    assert [int(line["estimate"]) for line in lines] == people.rows["estimate"].to_pylist()


def test_the_variance_of_noise_grows_with_the_square_of_large_workplaces() -> None:
    guarantee = eree.Guarantee(eree.Strong("0.1"), 2)
    made = VectorRadial.calibrate(guarantee, cells=8)
    known = made.variance
    assert known(3.0) == pytest.approx(known(9.4))
    for size in (10, 300, 900):
        assert known(size) == pytest.approx(made.mean_error(Cell(0, size))[1] ** 2)
    assert known(1e6) == pytest.approx(100 * known(1e5))


def test_noise_without_a_variance_is_measured_by_its_mean() -> None:
    made = VectorPareto.calibrate(eree.Guarantee(eree.Strong("0.1"), "0.45"), cells=3)
    mean, square = made.mean_error(Cell(0, 100))
    assert square == float("inf")
    assert made.variance(100.0) == pytest.approx(np.pi / 2 * mean**2)


def test_noise_that_looks_at_the_counts_is_not_shrunk() -> None:
    weak = eree.Guarantee(eree.Weak("0.1", ["sex"]), 1)
    made = calibrate("knorm-staircase", weak, {"cells": 2})
    counts = np.ones((40, 2), dtype=np.int64)
    with pytest.raises(eree.Refusal, match="knorm-staircase cannot be shrunk"):
        classes_for(made, counts, counts[:, 0])


def test_the_command_writes_what_the_function_finds(
    crowd: eree.Release, people: eree.Shrunk, tmp_path: Path
) -> None:
    out = tmp_path / "people.csv"
    status, printed, _ = eree_command("shrink", crowd.folder, "people", "--out", out, "--json")
    assert status == 0
    said = json.loads(printed)
    assert said["cells"] == len(people)
    assert said["correlations"] == pytest.approx(people.correlations)
    people.write(tmp_path / "same.csv")
    assert out.read_bytes() == (tmp_path / "same.csv").read_bytes()
    status, printed, _ = eree_command(
        "shrink", crowd.folder, "people", "--out", tmp_path / "printed.csv"
    )
    assert status == 0
    assert f"{len(people):,} cells" in printed
    assert "protects nothing" in printed
    status, _, told = eree_command("shrink", crowd.folder, "people", "--out", out)
    assert status == 2
    assert "exists already" in told


WORKERS = ("sex", "education", "age")


@pytest.fixture(scope="module")
def together(county: eree.Tables, tmp_path_factory: pytest.TempPathFactory) -> eree.Release:
    """Three marginals of one draw, and jobs of the same groups."""
    plan = eree.Plan.of(
        {
            "data": str(county.folder),
            "privacy": {"neighbours": "strong", "alpha": "0.1", "epsilon": "3"},
            "table": [
                {"name": "w", "by": ["tract", "sector"], "marginals": WORKERS, "epsilon": "1.4"},
                {"name": "sizes", "count": "workplaces", "by": ["sector"], "epsilon": "0.1"},
            ],
        }
    )
    out = tmp_path_factory.mktemp("together") / "out"
    return eree.publish(plan, county, ledger=None, out=out, random=eree.SeededRandom(4))


@pytest.mark.parametrize("name", WORKERS)
def test_sums_of_marginals_of_one_draw_are_nearer_to_the_truth(
    together: eree.Release, county: eree.Tables, name: str
) -> None:
    found = eree.shrink(together, f"w-{name}", ["tract", name])
    exact = eree.tabulate(county, by=["tract", name]).confidential.to_pylist()
    true = {(row["tract"], row[name]): row["count"] for row in exact}
    assert list(found.correlations) == [name]
    rows = found.rows.to_pylist()
    counts = np.array([true.get((row["tract"], row[name]), 0) for row in rows])
    noisy, estimate, low, high = (
        np.array([row[column] for row in rows]) for column in ("noisy", "estimate", "low", "high")
    )
    assert np.abs(estimate - counts).mean() < 0.95 * np.abs(np.maximum(noisy, 0) - counts).mean()
    covered = ((low <= counts) & (counts <= high)).mean()
    assert covered > 0.8  # 55 tracts; nominal 0.9
    assert (low <= estimate).all()
    assert (estimate <= high).all()


@pytest.mark.parametrize(
    ("by", "why"),
    [
        (["sector", "sex"], "are learnt from the noisy sums"),
        (["supersector", "sex"], "are learnt from the noisy sums"),
        (["county", "sex"], "there are . areas; whether estimates may be added up"),
        (["tract"], "are added up over workplaces, by sex as it is counted"),
    ],
)
def test_sums_that_gain_nothing_are_refused(
    together: eree.Release, by: list[str], why: str
) -> None:
    with pytest.raises(eree.Refusal, match=why):
        eree.shrink(together, "w-sex", by)


def test_sums_are_widened_by_what_the_groups_of_an_area_have_in_common(
    together: eree.Release,
) -> None:
    """Estimates that are all off the same way in an area; where it is too much, noisy sums win."""
    part = _Part.of(Areas.read(together, "w-sex", ["tract", "sex"]), several=False)
    noise = part.noise
    assert noise is not None
    plain = part.sums(0.9)["variance"].to_numpy()
    areas = np.empty(len(part.estimates))
    areas[part.areas.place] = np.repeat(
        np.where(np.arange(len(part.areas.starts)) % 4 < 2, 1.0, -1.0),
        np.diff([*part.areas.starts, len(part.areas.place)]),
    )
    off = replace(part, estimates=part.estimates + 0.4 * areas * np.sqrt(noise))
    assert (off.sums(0.9)["variance"].to_numpy() > 1.5 * plain).all()
    with pytest.raises(eree.Refusal, match="further off than noisy sums"):
        replace(part, estimates=part.estimates + 3 * areas * np.sqrt(noise)).sums(0.9)


@pytest.mark.parametrize(("epsilon", "used"), [("0.25", False), ("1", True)])
def test_totals_of_another_table_are_used_unless_their_noise_has_heavy_tails(
    county: eree.Tables, tmp_path: Path, epsilon: str, used: bool
) -> None:
    tables = [
        {"name": "people", "by": PEOPLE, "epsilon": "1"},
        {"name": "jobs", "by": PEOPLE[:3], "epsilon": epsilon},
    ]
    privacy = {"neighbours": "strong", "alpha": "0.1", "epsilon": "2"}
    plan = eree.Plan.of({"data": str(county.folder), "privacy": privacy, "table": tables})
    out, random = tmp_path / "out", eree.SeededRandom(1)
    release = eree.publish(plan, county, ledger=None, out=out, random=random)
    found = _totals_elsewhere(release, MeasuredTable.read(release, "people"), ("people",))
    assert (found is not None) == used
    if found is not None:
        exact = eree.tabulate(county, by=PEOPLE[:3]).confidential["count"].to_numpy()
        assert len(found[1]) == len(exact)
        assert np.corrcoef(found[1], exact)[0, 1] > 0.9
