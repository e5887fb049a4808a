"""What a protected cube answers: sums of published cells, and errors of public values alone."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eree
from eree.random.source import SeededRandom
from eree.survey.estimates import Estimates, deviations
from eree.survey.query import Query
from eree.survey.settings import METHODS
from eree.survey.soc import group_of
from selection import examples
from small_cubes import Cube, Record, count, shape, survey
from small_survey import Sampled, kept, queries, samples


def protected(cube: Cube, out: Path, **given: Any) -> eree.ProtectedCube:
    usual = {"epsilon": 2, "random": SeededRandom(3), "ledger": None}
    return eree.protect_cube(cube, out=out, **usual | given)


@st.composite
def settings_of(draw: st.DrawFn, names: list[str]) -> dict[str, Any]:
    """Any way to protect and calibrate a cube."""
    tables = st.lists(st.sampled_from(names), unique=True, max_size=2).map(tuple)
    controls = draw(st.lists(tables, unique_by=frozenset, max_size=3))
    calibration = draw(st.sampled_from(METHODS if controls else ["none"]))
    found: dict[str, Any] = {"controls": controls, "calibration": calibration}
    if draw(st.booleans()):
        return found | {"squares": draw(st.sampled_from(["none", "records", "establishments"]))}
    given = {"mode": "as-published", "cap": 2, "keep_empty": draw(st.sampled_from(["1", "1/3"]))}
    return found | given | {"exact_controls": draw(st.booleans())}


def counted(sampled: Sampled) -> Cube:
    places = [int(np.ravel_multi_index(p, sampled.shape.levels)) for p in sampled.places]
    rows = zip(sampled.establishments, places, sampled.weights, strict=True)
    records = [Record(e, cell, min(weight, 10**7)) for e, cell, weight in rows]
    return count(records, sampled.shape, 10**7, 4)


@examples(20, torture=500)
@given(st.data(), samples())
def test_tables_are_sums_of_the_rows_that_are_published_and_agree_with_each_other(
    data: st.DataObject, sampled: Sampled
) -> None:
    shape = sampled.shape
    names = [variable.name for variable in shape.variables]
    chosen = data.draw(settings_of(names))
    query = data.draw(queries(shape))
    with tempfile.TemporaryDirectory() as folder:
        counts = counted(sampled)
        if "mode" in chosen:
            counts = replace(counts, most_records=None)  # as published, every record counts
        cube = protected(counts, Path(folder) / "out", **chosen)
        rows = cube.release.table("cells").to_pylist()
        whole = cube.table(Query(names))
        assert np.allclose(whole.noise_variance, cube.noise_variance)
        found = cube.table(query)
    sums: dict[tuple[str, ...], int] = {}
    for row in rows:
        if all(kept(shape.variable(n), row[n], codes) for n, codes in query.where.items()):
            key = tuple(
                group_of(row[name], query.levels[name]) if name in query.levels else row[name]
                for name in query.by
            )
            sums[key] = sums.get(key, 0) + int(row["noisy"] * 1000)
    for place, value in np.ndenumerate(found.values):
        codes = tuple(axis.codes[k] for axis, k in zip(found.axes, place, strict=True))
        assert value == sums.get(codes, 0)
        assert found.absent is None or found.absent[place] == (codes not in sums)
    for place, name in enumerate(query.by):  # additive, to the last digit
        rest = Query(
            [other for other in query.by if other != name],
            query.where,
            {n: level for n, level in query.levels.items() if n != name},
        )
        assert (found.values.sum(axis=place) == cube.table(rest).values).all()
    turned = cube.table(Query(query.by[::-1], query.where, query.levels))  # in any order
    for mine, theirs in (
        (found.values, turned.values),
        (found.noise_variance, turned.noise_variance),
        (found.standard_error, turned.standard_error),
    ):
        assert np.allclose(mine, theirs.T, rtol=1e-12)
    assert (found.noise_variance >= 0).all()
    if chosen["calibration"] == "none":
        cells = cube.calibrated.counts(query)
        if cells is None:
            cells = found.values * 0 + (shape.size if not query.by and not query.where else 0)
        if cells.any():
            assert np.allclose(found.noise_variance, cells * cube.drawn_variance)


@examples(20, torture=500)
@given(st.data(), samples())
def test_tables_from_one_look_at_the_cells_are_those_that_are_asked_for_alone(
    data: st.DataObject, sampled: Sampled
) -> None:
    chosen = data.draw(settings_of([variable.name for variable in sampled.shape.variables]))
    query = data.draw(queries(sampled.shape))
    names = st.lists(st.sampled_from(query.by or ("",)), unique=True).map(tuple)
    coarser = data.draw(st.lists(names, max_size=3)) if query.by else [()]
    with tempfile.TemporaryDirectory() as folder:
        counts = counted(sampled)
        if "mode" in chosen:
            counts = replace(counts, most_records=None)
        cube = protected(counts, Path(folder) / "out", **chosen)
    for by, mine in zip((query.by, *coarser), cube.tables(query, coarser), strict=True):
        levels = {name: level for name, level in query.levels.items() if name in by}
        alone = cube.table(Query(by, query.where, levels))
        assert mine.axes == alone.axes and mine.bounded == alone.bounded
        assert mine.query.by == by and np.array_equal(mine.values, alone.values)
        assert np.allclose(mine.noise_variance, alone.noise_variance, rtol=1e-12)
        for numbers, others in (
            (mine.sampling_variance, alone.sampling_variance),
            (mine.absent, alone.absent),
        ):
            assert (numbers is None) == (others is None)
            assert numbers is None or others is None or np.array_equal(numbers, others)


SHAPE = shape(4, 3, 5)
CUBE = count(survey(2, SHAPE, 300), SHAPE, 2_000_000, 5)


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> eree.ProtectedCube:
    out = tmp_path_factory.mktemp("cube") / "out"
    return protected(CUBE, out, controls=[("a",), ("b", "c")])


def test_errors_are_sampling_and_noise_together(cube: eree.ProtectedCube) -> None:
    found = cube.table(Query(["b"], {"a": ["a1", "a2"]}))
    assert found.sampling_variance is not None
    assert cube.sampling is not None
    assert (found.sampling_variance == cube.sampling.variances(found.values)).all()
    assert np.allclose(found.standard_error**2, found.sampling_variance + found.noise_variance)
    assert np.allclose(found.margin("0.9"), 1.6448536 * found.standard_error)
    assert np.allclose(found.margin(0.95), 2.1183 * found.standard_error, rtol=1e-4)
    low, high = found.interval("0.9")
    assert np.allclose(low, np.maximum(found.values - found.margin(), 0))
    assert np.allclose(high, np.maximum(found.values, 0) + found.margin())
    with pytest.raises(eree.Refusal, match=r"at least 0\.5 and below 1"):
        found.margin("95")


def test_estimates_are_flagged_by_public_thresholds() -> None:
    values = np.array([-5_000, 0, 1_000, 100_000, 0])
    noise = np.array([9e6, 9e6, 9e4, 1e6, 0.0])
    absent = np.array([False] * 4 + [True])
    axes = (eree.survey.query.Axis("a", "A", tuple("vwxyz"), tuple("VWXYZ")),)
    made = Estimates(Query("a"), axes, values, noise, None, absent=absent)
    assert made.variation.tolist() == [np.inf, np.inf, 0.3, 0.01, np.inf]
    low, high = made.interval()
    assert (low <= np.maximum(values, 0)).all() and (np.maximum(values, 0) <= high).all()
    assert high[0] == high[1] > 0 == high[4]  # below 0 as at 0; nobody where nobody can be
    assert made.negative.tolist() == [True, False, False, False, False]
    assert made.unreliable().tolist() == [True, True, False, False, False]
    assert made.unreliable(0.2).tolist() == [True, True, True, False, False]
    rows = made.rows()
    assert rows.column_names == [
        "a",
        "a_label",
        "jobs",
        "standard_error",
        "low",
        "high",
        "variation",
        "flag",
    ]
    assert rows["flag"].to_pylist() == ["negative", "unreliable", "", "", "absent"]
    assert rows["variation"].to_pylist() == [None, None, 0.3, 0.01, None]
    assert [str(jobs) for jobs in rows["jobs"].to_pylist()] == [
        "-5.000",
        "0.000",
        "1.000",
        "100.000",
        "0.000",
    ]
    assert rows["low"].to_pylist()[0] == 0
    reported = json.loads(json.dumps(made.as_json("0.95", 0.2)))
    assert (reported["level"], reported["errors"], reported["bounded"]) == (0.95, "noise", False)
    assert [row["flag"] for row in reported["rows"]][2] == "unreliable"
    assert repr(made) == "<Estimates of a (5)>"
    assert "5000" not in repr(made)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
def test_margins_hold_for_every_mixture_of_the_noise_and_a_normal_error(level: float) -> None:
    """Sums of some noisy cells and a normal error, by convolution: no randomness in it."""
    width, points = 60.0, 1 << 16
    x = (np.arange(points) - points // 2) * (2 * width / points)
    frequencies = 2 * np.pi * np.fft.fftfreq(points, 2 * width / points)
    for cells in (1, 2, 3, 10):
        for normal in (0.0, 0.3, 0.7):
            laplace = (1 + frequencies**2 * (1 - normal) / (2 * cells)) ** -float(cells)
            whole = laplace * np.exp(-(frequencies**2) * normal / 2)
            density = np.abs(np.fft.fftshift(np.fft.ifft(whole)).real)
            density /= density.sum()
            assert density @ x**2 == pytest.approx(1, abs=2e-3)
            assert density[np.abs(x) <= deviations(level)].sum() >= level - 2e-3


def test_the_errors_of_a_table_are_those_that_it_states(tmp_path: Path) -> None:
    """40 releases, 6,000 squared errors: a standard error of 3% at most, and 10% is out of it.

    A scale that is a tenth too small or too large is off by 17% or more.
    """
    large = shape(150, 13, 12)
    cube = count(survey(4, large, 900), large, 2_000_000, 5)
    truth = [cube.weighted.sum(axis=(1, 2)), cube.weighted.sum(axis=0)]
    asked = [Query("a"), Query(["b", "c"])]
    ratios: list[list[float]] = [[], []]
    for seed in range(40):
        given = {"controls": [("a",), ("b", "c")], "random": SeededRandom(seed)}
        made = protected(cube, tmp_path / f"{seed}", **given)
        for found, query, true in zip(ratios, asked, truth, strict=True):
            table = made.table(query)
            found.append(float(np.mean((table.values - true) ** 2 / table.noise_variance)))
    for found in ratios:
        pooled = np.mean(found)
        assert abs(pooled - 1) < 0.1
        assert all(abs(pooled / wrong**2 - 1) > 0.1 for wrong in (0.9, 1.1))
