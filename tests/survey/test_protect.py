"""Protecting a cube: what is drawn, paid, written and read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
from scipy import stats

import eree
from eree.random.source import SeededRandom
from eree.survey import files, protect
from eree.survey.calibrate.calibration import NoiseModel
from eree.survey.calibrate.least_squares import correction
from eree.survey.estimates import SamplingModel
from eree.survey.modes import MODES, with_noise
from eree.survey.plan import default_controls
from eree.survey.settings import MODE_NAMES
from eree.survey.shape import Impossible
from small_cubes import Cube, count, shape, survey, table_of
from uses import eree_command

SHAPE = shape(3, 4, 2)
CONTROLS = [("b",), ("c", "a"), ()]
FALSE_ALARM = 1e-6


@pytest.fixture
def cube() -> Cube:
    return count(survey(1, SHAPE, 60), SHAPE, 2_000_000, 5)


@pytest.fixture
def ledger(tmp_path: Path) -> eree.Ledger:
    total = eree.Guarantee(eree.ESTABLISHMENT, 10, "0.01")
    return eree.Ledger.create(tmp_path / "ledger.db", total, data_set="data")


def seeded(cube: Cube, out: Path, seed: int = 1, **settings: Any) -> eree.ProtectedCube:
    """Cells as they are drawn from a seeded source: not private, and paid by no ledger."""
    plain = {"controls": (), "calibration": "none", "squares": "none"}
    settings = {"epsilon": 1, "unit": "establishment"} | plain | settings
    return eree.protect_cube(cube, ledger=None, out=out, random=SeededRandom(seed), **settings)


def test_a_cube_is_paid_written_and_read(cube: Cube, ledger: eree.Ledger, tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = eree.protect_cube(
        cube,
        epsilon="2",
        delta="1e-6",
        unit="establishment",
        ledger=ledger,
        out=out,
        controls=CONTROLS,
    )
    assert ledger.spent() == eree.Guarantee(eree.ESTABLISHMENT, 2, "1e-6")
    account = ledger.account()
    assert account.settled == {2: made.release.record["digest"]}
    assert dict(account.entries[1].event.what) == {
        "cube": "a × b × c",
        "mode": "guaranteed",
        "controls": "b; c × a; total",
    }
    read = eree.ProtectedCube.open(out)
    assert read.shape == SHAPE
    assert (read.noisy == made.noisy).all()
    assert (read.noisy != cube.weighted).all()
    assert [control.variables for control in read.controls] == CONTROLS
    assert [control.values.shape for control in read.controls] == [(4,), (2, 3), ()]
    assert (read.mode, read.present) == ("guaranteed", None)
    assert read.calibration == {"method": "least-squares", "solver": "closed form", "effects": 5}
    assert read.guarantee == eree.Guarantee(eree.ESTABLISHMENT, 2, "1e-6")
    assert read.total("records") is None
    total = read.total("establishments")
    assert total is not None
    assert abs(total.noisy - cube.sums.establishment_squares) < 60 * total.noise_variance**0.5
    assert (read.noise_variance < read.drawn_variance).all()
    assert eree.verify(made.release, ledger=ledger).sound
    assert {path.name for path in tmp_path.iterdir()} == {"ledger.db", "out"}
    with pytest.raises(ValueError, match="read-only"):
        read.noisy[0, 0, 0] = 1


def test_the_record_says_what_is_promised_and_taken_for_granted(cube: Cube, tmp_path: Path) -> None:
    record = seeded(cube, tmp_path / "out", controls=CONTROLS).release.record
    assert record["kind"] == "cube"
    assert record["private"] is False
    assert record["bounds"] == {"weight": "2000", "records": 5}
    assert record["covers"].startswith("weighted employment in every cell")
    said = " ".join(record["assumptions"])
    for words in ("all other weights would be the same", "above 2000 jobs", "a sample", "than 5"):
        assert words in said
    assert record["losses"] == []
    assert record["variables"][0] == {
        "name": "a",
        "label": "Question a",
        "codes": ["a0", "a1", "a2"],
        "labels": ["Answer 0 to a", "Answer 1 to a", "Answer 2 to a"],
        "hierarchy": None,
    }
    assert [table["mechanism"] for table in record["tables"]] == ["discrete-laplace"] * 4
    assert record["tables"][0]["parameters"] == {"shift": "10000000"}
    shares = [Fraction(table["price"]["epsilon"]) for table in record["tables"]]
    assert shares == [Fraction(1, 2), *[Fraction(1, 6)] * 3]


def test_files_are_for_people_too(cube: Cube, tmp_path: Path) -> None:
    made = seeded(cube, tmp_path / "out", controls=CONTROLS)
    rows = parquet.read_table(made.release.folder / "tables" / "cells.parquet")
    assert rows.column_names == ["a", "b", "c", "noisy", "noise_variance"]
    assert rows["b"].to_pylist()[:4] == ["b0", "b0", "b1", "b1"]
    thousandths = [int(value * 1000) for value in rows["noisy"].to_pylist()]
    assert thousandths == made.noisy.ravel().tolist()
    first, second = (
        (made.release.folder / "tables" / "cells.csv").read_text(encoding="utf-8").split("\n")[:2]
    )
    assert first == '"a","b","c","noisy","noise_variance"'
    jobs, variance = second.split(",")[3:]
    assert Fraction(jobs) * 1000 == made.noisy[0, 0, 0]
    assert len(jobs.partition(".")[2]) == 3
    assert float(variance) * 1e6 == pytest.approx(made.drawn_variance)


def test_the_noise_of_a_release_is_the_noise_that_was_priced(tmp_path: Path) -> None:
    """Cells and control tables, and not with a scale that is a tenth too small or too large."""
    large = shape(12, 11, 10, 9, 2)
    cube = count([], large, 3_000, 4)
    mode = {
        "controls": [("a", "b", "c", "d")],
        "shares": eree.Shares("1/4", {tuple("abcd"): "3/4"}),
    }
    made = seeded(cube, tmp_path / "out", **mode)
    for noisy, epsilon in ((made.noisy, 0.25), (made.controls[0].values, 0.75)):
        scale = 12_000 / epsilon
        sizes = np.abs(noisy).ravel()
        for stretch, fits in ((1, True), (0.9, False), (1.1, False)):
            tail = np.exp(-np.array([0.1, 0.3, 0.7, 1.2, 2.0]) / stretch)
            cuts = np.array([0.1, 0.3, 0.7, 1.2, 2.0]) * scale
            observed = np.bincount(np.searchsorted(cuts, sizes), minlength=6)
            expected = -np.diff([1.0, *tail, 0.0]) * sizes.size
            p = stats.chisquare(observed, expected).pvalue
            assert (p > FALSE_ALARM) == fits
    sums = table_of(made.noisy, large, tuple("abcd"))
    assert (sums != made.controls[0].values).any()  # a draw of its own


def test_every_table_is_a_sum_of_cells_to_the_last_digit(cube: Cube, tmp_path: Path) -> None:
    made = seeded(cube, tmp_path / "out")
    rows = made.release.table("cells").to_pylist()
    for by in (("a",), ("c", "b"), ()):
        table = table_of(made.noisy, SHAPE, by)
        sums: dict[tuple[str, ...], Any] = {}
        for row in rows:
            key = tuple(row[name] for name in by)
            sums[key] = sums.get(key, 0) + row["noisy"]
        for key, total in sums.items():
            place = tuple(
                SHAPE.variable(name).codes.index(code) for name, code in zip(by, key, strict=True)
            )
            assert int(total * 1000) == table[place]


# ------------------------------------------------------------------------ structural zeros

ZEROS = [Impossible({"a": ["a0"], "b": ["b1", "b2"]}), Impossible({"b": ["b3"]})]


def test_cells_that_cannot_be_get_no_noise_and_no_row(tmp_path: Path) -> None:
    of = shape(3, 4, 2, impossible=ZEROS)
    cube = count(survey(5, of, 50), of, 2_000_000, 5)
    made = seeded(cube, tmp_path / "out", controls=[("b",), ("a", "c"), ()])
    assert of.possible is not None
    assert not made.noisy[~of.possible].any()
    assert made.noisy[of.possible].all()
    assert made.release.record["tables"][0]["rows"] == int(of.possible.sum()) == 14
    assert [len(made.release.table(f"control-{i}")) for i in (1, 2, 3)] == [3, 6, 1]
    assert made.controls[0].values[3] == 0
    assert made.release.record["impossible"] == [
        {"a": ["a0"], "b": ["b1", "b2"]},
        {"b": ["b3"]},
    ]
    assert eree.ProtectedCube.open(tmp_path / "out").shape == of


def test_noise_beyond_the_limit_is_set_to_it() -> None:
    def far(numbers: int) -> Any:
        return np.full(numbers, 2**62)

    truth = np.arange(6, dtype=np.int64).reshape(2, 3)
    assert (with_noise(truth, None, far) == 10**15).all()
    some = np.array([[True, False, True], [False] * 3])
    assert with_noise(truth, some, far).tolist() == [[10**15, 0, 10**15], [0, 0, 0]]


# ----------------------------------------------------------------------------- calibration


def test_a_cube_is_calibrated_to_the_controls_that_were_drawn_with_it(
    cube: Cube, tmp_path: Path
) -> None:
    raw = seeded(cube, tmp_path / "raw", controls=CONTROLS)
    made = seeded(cube, tmp_path / "out", controls=CONTROLS, calibration=None)
    for mine, theirs in zip(made.controls, raw.controls, strict=True):
        assert (mine.values == theirs.values).all()
    added, _ = correction(raw.noisy, SHAPE, raw.controls, raw.drawn_variance)
    assert (np.abs(made.noisy - raw.noisy - added) < 1).all()  # rounded up or down
    assert (made.noisy != raw.noisy + np.rint(added)).any()  # at random, not to the nearest
    known = NoiseModel(
        SHAPE, "least-squares", raw.drawn_variance, tuple(c.noise for c in raw.controls)
    )
    assert made.calibrated.noise == known
    assert np.allclose(made.noise_variance, known.variances(eree.Query(list("abc"))))
    again = seeded(cube, tmp_path / "again", controls=CONTROLS, calibration="least-squares")
    assert (again.noisy == made.noisy).all()  # rounding, too, takes the randomness of the release


@pytest.mark.parametrize("method", ["rake", "rake-nonnegative"])
def test_a_raked_cube_has_the_reference_that_its_bound_needs(
    cube: Cube, tmp_path: Path, method: str
) -> None:
    made = seeded(cube, tmp_path / "out", controls=CONTROLS, calibration=method, epsilon=50)
    squared = seeded(cube, tmp_path / "squared", controls=CONTROLS, calibration=None, epsilon=50)
    reference = made.calibrated.reference
    assert reference is not None
    assert (reference == squared.noisy).all()
    assert made.calibration["method"] == method
    assert made.calibration["reconciled"] is True
    rows = made.release.table("cells")
    assert rows.column_names == ["a", "b", "c", "noisy", "noise_variance", "reference"]
    query = eree.Query(["c"], {"a": ["a1", "a2"]})
    apart = made.table(query).values - np.maximum(reference[1:].sum(axis=(0, 1)), 0)
    known = 2 * squared.table(query).noise_variance + 2 * apart.astype(float) ** 2
    assert np.allclose(made.table(query).noise_variance, known)
    assert made.table(query).bounded
    found = eree.verify(made.release)
    assert [fault.column for fault in found.faults] == ["private"]  # seeded, and nothing else


def test_as_published_a_cube_is_raked_to_its_exact_one_way_tables(tmp_path: Path) -> None:
    cube = count(survey(6, SHAPE, 400), SHAPE)
    settings: Any = {"mode": "as-published", "unit": "record", "cap": 1, "epsilon": 7}
    usual: Any = {"controls": None, "calibration": None, "squares": None}
    made = seeded(cube, tmp_path / "out", **settings, **usual)
    assert [control.variables for control in made.controls] == [("a",), ("b",), ("c",)]
    assert all(control.exact for control in made.controls)
    said = made.calibration
    assert (said["method"], said["reconciled"], said["converged"]) == ("rake", False, True)
    assert said["cycles"] <= 10
    for control in made.controls:
        sums = made.table(eree.Query(control.variables)).values
        assert (control.values == table_of(cube.weighted, SHAPE, control.variables)).all()
        assert np.abs(sums / control.values - 1).max() < 2e-6
    assert made.sampling is None
    assert made.table(eree.Query("a")).sampling_variance is None


def test_small_cubes_spend_all_on_their_cells_and_large_ones_half_on_one_way_tables() -> None:
    assert default_controls(SHAPE) == ()
    assert default_controls(shape(7)) == ()
    large = shape(5, 4, 3, 3, 3, 2, 2, 2, 2, 2)
    assert default_controls(large) == tuple((name,) for name in "abcdefghij")
    assert default_controls(large, "none") == ()
    assert default_controls(SHAPE, "rake") == (("a",), ("b",), ("c",))


@pytest.mark.parametrize("zeros", [(), ZEROS])
def test_a_plan_foretells_the_noise_of_the_release(tmp_path: Path, zeros: Sequence[Any]) -> None:
    of = shape(3, 4, 2, impossible=zeros)
    cube = count(survey(5, of, 50), of, 2_000_000, 5)
    settings: Any = {"unit": "establishment", "epsilon": 3, "controls": [("b",), ("a", "c")]}
    plan = eree.plan_cube(cube, **settings)
    made = seeded(cube, tmp_path / "out", **settings, calibration=None, squares=None)
    raw = seeded(cube, tmp_path / "raw", **settings, squares=None)
    assert plan.price == made.guarantee
    assert plan.noise.controls == made.calibrated.noise.controls
    assert [noise.by for noise in plan.predicted_noise()] == [
        *((), ("a",), ("b",), ("c",)),
        *(("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c")),
    ]
    for noise in plan.predicted_noise():
        for cube_, predicted in ((made, noise.left), (raw, noise.drawn)):
            found = cube_.table(eree.Query(noise.by))
            there = found.noise_variance[() if found.absent is None else ~found.absent]
            assert there.size == noise.cells
            assert predicted * 1000 == pytest.approx(there.mean() ** 0.5, rel=1e-6)


def test_a_calibration_that_has_no_solution_leaves_the_cells_as_they_were_drawn(
    cube: Cube, ledger: eree.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hopeless(*_given: Any, **_named: Any) -> Any:
        raise eree.Refusal("too badly conditioned")

    monkeypatch.setattr(protect, "calibrate", hopeless)
    made = eree.protect_cube(
        cube,
        epsilon=1,
        unit="establishment",
        ledger=ledger,
        out=tmp_path / "out",
        controls=CONTROLS,
    )
    assert made.calibration == {"method": "none", "given_up": "least-squares"}
    assert np.allclose(made.noise_variance, made.drawn_variance)
    assert eree.verify(made.release, ledger=ledger).sound


def test_the_sum_of_squares_becomes_the_model_of_sampling_variances(
    cube: Cube, tmp_path: Path
) -> None:
    for named, most in ((None, 10_000_000), ("establishments", 10_000_000), ("records", 2_000_000)):
        made = seeded(cube, tmp_path / f"{named}", squares=named, epsilon=500)
        (total,) = made.totals
        assert total.name == named or (named is None and total.name == "establishments")
        assert made.sampling is not None
        known = SamplingModel.of_whole(
            int(made.noisy.sum()), float(total.noisy), total.noise_variance, most
        )
        query = eree.Query(["b", "a"])
        found = made.table(query)
        assert found.sampling_variance == pytest.approx(known.variances(found.values))
        assert made.release.record["sampling"] == known.as_json()
    loose = replace(cube, most_records=None)
    assert (
        seeded(loose, tmp_path / "loose", squares=None, unit="record").totals[0].name == "records"
    )


# --------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mode": "best"}, "there is no mode 'best'; there are guaranteed, as-published"),
        ({"unit": "worker"}, "the unit of protection is"),
        ({"epsilon": 0.5}, "epsilon must be exact"),
        ({"epsilon": 0}, "takes an epsilon from"),
        ({"controls": [("a", "a")]}, "names variables of the cube, each once"),
        ({"controls": [("z",)]}, "the cube has no variable 'z'"),
        ({"controls": [("a", "b"), ("b", "a")]}, "the same variables"),
        ({"cap": 3}, "are for cubes as published"),
        ({"keep_empty": "1/2"}, "are for cubes as published"),
        ({"exact_controls": True, "controls": [("a",)]}, "are for cubes as published"),
        ({"shares": eree.Shares("1/2", {("a",): "1/2"}), "controls": [("b",)]}, "for no others"),
        ({"squares": "weights"}, "added up over"),
        ({"calibration": "magic"}, "no calibration 'magic'; there are none, rake"),
        ({"calibration": "rake", "controls": ()}, "name one or more"),
        ({"cycles": 3}, "cycles are for raking"),
        ({"calibration": "rake", "cycles": 0}, "cycles are for raking, from 1 to 1,000"),
        ({"shares": eree.Shares(), "squares": "records"}, "needs a share of the price"),
        ({"mode": "as-published", "unit": "establishment", "cap": 2}, "leave out unit, delta"),
        ({"mode": "as-published", "unit": "record"}, "noise has a cap"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_paid(
    cube: Cube, ledger: eree.Ledger, tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    settings = {"epsilon": 1, "unit": "establishment"} | settings
    with pytest.raises(eree.Refusal, match=words):
        eree.protect_cube(cube, ledger=ledger, out=tmp_path / "out", **settings)
    assert ledger.spent().epsilon == 0
    assert {path.name for path in tmp_path.iterdir()} == {"ledger.db"}


def test_a_cube_without_bounds_is_refused(cube: Cube, tmp_path: Path) -> None:
    with pytest.raises(eree.Refusal, match="weights have a public bound"):
        seeded(replace(cube, most_weight=None), tmp_path / "out")
    with pytest.raises(eree.Refusal, match="records of one have a public bound"):
        seeded(replace(cube, most_records=None), tmp_path / "out")
    with pytest.raises(eree.Refusal, match="integers"):
        seeded(replace(cube, weighted=cube.weighted.astype(float)), tmp_path / "out")
    made = seeded(replace(cube, most_records=None), tmp_path / "out", unit="record")
    assert made.release.record["tables"][0]["parameters"] == {"shift": "2000000"}
    bounded = seeded(cube, tmp_path / "bounded", unit="record")
    assert bounded.release.record["tables"][0]["parameters"] == {"shift": "4000000"}


RELATIONS = [eree.RECORD, eree.ESTABLISHMENT, eree.NODE, eree.EDGE, eree.Strong("0.1")]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("unit", ["record", "establishment"])
def test_a_ledger_of_another_relation_is_refused(
    cube: Cube, tmp_path: Path, relation: Any, unit: Any
) -> None:
    total = eree.Guarantee(relation, 10)
    ledger = eree.Ledger.create(tmp_path / "ledger.db", total, data_set="data")
    settings: Any = {"epsilon": 1, "unit": unit, "ledger": ledger, "out": tmp_path / "out"}
    settings["squares"] = "none"
    if relation == eree.RECORD or (relation == eree.ESTABLISHMENT and unit == "establishment"):
        assert eree.verify(eree.protect_cube(cube, **settings).release, ledger=ledger).sound
        return
    with pytest.raises(eree.Refusal, match="promises nothing under the ledger's"):
        eree.protect_cube(cube, **settings)
    assert ledger.spent().epsilon == 0
    assert not (tmp_path / "out").exists()


def test_no_cube_without_a_ledger_and_no_seeded_cube_with_one(
    cube: Cube, ledger: eree.Ledger, tmp_path: Path
) -> None:
    settings: Any = {"epsilon": 1, "unit": "establishment", "out": tmp_path / "out"}
    with pytest.raises(eree.Refusal, match="must be paid for"):
        eree.protect_cube(cube, ledger=None, **settings)
    with pytest.raises(eree.Refusal, match="a seeded source is not private"):
        eree.protect_cube(cube, ledger=ledger, random=SeededRandom(1), **settings)
    with pytest.raises(eree.Refusal, match="has 10 of epsilon left"):
        eree.protect_cube(cube, ledger=ledger, **settings | {"epsilon": 11})
    assert ledger.spent().epsilon == 0


def test_what_stops_after_paying_says_that_the_price_is_spent(
    cube: Cube, ledger: eree.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_given: Any, **_named: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(protect, "calibrate", broken)
    with pytest.raises(eree.Refusal, match="not enough memory; the price of epsilon 1 is spent"):
        eree.protect_cube(
            cube,
            epsilon=1,
            unit="establishment",
            ledger=ledger,
            out=tmp_path / "out",
            controls=CONTROLS,
        )
    assert (ledger.spent().epsilon, ledger.account().settled) == (1, {})
    assert {path.name for path in tmp_path.iterdir()} == {"ledger.db"}


def test_as_published_is_released_with_its_losses(tmp_path: Path) -> None:
    cube = count(survey(6, SHAPE, 8), SHAPE)
    total = eree.Guarantee(eree.RECORD, 10, "0.01")
    ledger = eree.Ledger.create(tmp_path / "ledger.db", total, data_set="data")
    made = eree.protect_cube(
        cube,
        epsilon=7,
        cap=1,
        mode="as-published",
        ledger=ledger,
        out=tmp_path / "out",
        controls=[("a",)],
        keep_empty="1/4",
    )
    record = made.release.record
    assert (record["statements"], len(record["losses"])) == ([], 4)
    assert (made.mode, made.controls[0].exact) == ("as-published", True)
    assert ledger.spent() == eree.Guarantee(eree.RECORD, 7, Fraction(911, 10**6))
    what = ledger.entries()[1].event.what
    assert what["losses"] == (
        "the price covers unweighted counts of records alone, which are not published"
    )
    shown = eree_command("ledger", "show", ledger.name)[1]
    assert "what was released for entry 2 loses more than its price ('losses'), so the sum" in shown
    assert made.present is not None
    assert made.present[cube.unweighted > 0].all()
    assert record["tables"][0]["rows"] == made.present.sum() < SHAPE.size
    found = eree.verify(made.release, ledger=ledger)
    assert found.sound
    assert any(check.startswith("the cube is as published") for check in found.checks)


@pytest.mark.parametrize("mode", [{"mode": "as-published", "cap": 1}, {}])
def test_a_cube_that_was_never_settled_is_settled_late(
    mode: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = eree.Guarantee(eree.RECORD, 10, "0.01")
    ledger = eree.Ledger.create(tmp_path / "ledger.db", total, data_set="data")
    bounds = () if mode else (2_000_000, 5)
    cube, out = count(survey(6, SHAPE, 8), SHAPE, *bounds), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(eree.Ledger, "settle", lambda *_: None)
        made = eree.protect_cube(cube, epsilon=7, ledger=ledger, out=out, **mode)
    assert not eree.verify(made.release, ledger=ledger).sound
    done = eree_command("ledger", "close", ledger.name, "2", "--release", out)
    assert (done[0], done[2]) == (0, "")
    assert eree.verify(made.release, ledger=ledger).sound


# ------------------------------------------------------------------------------------- files


def test_large_cubes_have_no_csv_twin_and_are_read_in_parts(
    cube: Cube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_CSV_ROWS", 10)
    monkeypatch.setattr(files, "_AT_ONCE", 7)
    made = seeded(cube, tmp_path / "out", controls=[("a",)])
    names = sorted(path.name for path in (tmp_path / "out" / "tables").iterdir())
    assert names == ["cells.parquet", "control-1.csv", "control-1.parquet"]
    assert parquet.ParquetFile(tmp_path / "out" / "tables" / "cells.parquet").num_row_groups == 4
    monkeypatch.undo()
    assert (eree.ProtectedCube.open(tmp_path / "out").noisy == made.noisy).all()
    again = seeded(cube, tmp_path / "again", controls=[("a",)])
    assert (made.noisy == again.noisy).all()


def change(folder: Path, how: Sequence[Any], value: Any) -> None:
    path = folder / "release.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    place = record
    for name in how[:-1]:
        place = place[name]
    place[how[-1]] = value
    path.write_text(json.dumps(record), encoding="utf-8")


@pytest.mark.parametrize(
    ("how", "value"),
    [
        (["kind"], "tables"),
        (["variables"], None),
        (["variables", 0, "codes"], ["a0", "a1", 3]),
        (["variables", 0, "codes"], ["a0", "a1"]),
        (["variables", 0, "codes"], [f"a{i}" for i in range(10**4)] * 10),
        (["variables", 0, "codes", 2], "a9"),
        (["variables", 0, "name"], "b"),
        (["impossible"], [{"a": ["a0"]}]),
        (["impossible"], 3),
        (["tables"], []),
        (["tables", 0, "columns"], ["reference"]),
        (["tables", 1, "by"], ["c"]),
        (["tables", 1, "by"], ["z"]),
        (["totals"], [{"name": "records", "noisy": "0.0000001", "noise_variance": 1}]),
        (["totals"], 5),
        (["calibration"], None),
        (["calibration"], {"method": "rake"}),
        (["calibration", "method"], "magic"),
        (["sampling"], {"total": 1}),
        (["sampling"], 3),
        (["mode"], None),
    ],
)
def test_a_malformed_folder_is_refused(
    cube: Cube, tmp_path: Path, how: Sequence[Any], value: Any
) -> None:
    out = seeded(cube, tmp_path / "out", controls=[("b",)]).release.folder
    change(out, how, value)
    if how == ["mode"]:  # read as it is, but nothing that can be verified
        faults = eree.verify(eree.Release.open(out)).faults
        assert any("digest" in fault.column for fault in faults)
        return
    with pytest.raises(eree.Refusal):
        eree.ProtectedCube.open(out)


def test_rows_that_are_missing_or_out_of_order_are_refused(cube: Cube, tmp_path: Path) -> None:
    out = seeded(cube, tmp_path / "out").release.folder
    file = out / "tables" / "cells.parquet"
    rows = parquet.read_table(file)
    for wrong in (
        rows.slice(1),
        rows.take([1, 0, *range(2, len(rows))]),
        rows.rename_columns(["b", "a", "c", "noisy", "noise_variance"]),
        rows.drop_columns(["noise_variance"]),
    ):
        parquet.write_table(wrong, file)
        with pytest.raises(eree.Unreadable, match=r"cells\.parquet"):
            eree.ProtectedCube.open(out)
    file.write_bytes(b"PAR1")
    with pytest.raises(eree.Unreadable, match=r"cells\.parquet cannot be read"):
        eree.ProtectedCube.open(out)
    file.unlink()
    with pytest.raises(eree.Unreadable, match=r"cells\.parquet cannot be read"):
        eree.ProtectedCube.open(out)
    with pytest.raises(eree.Unreadable, match=r"but holds some; name them: .*out"):
        eree.ProtectedCube.open(tmp_path)


def test_tables_of_linked_data_and_cubes_are_not_taken_for_each_other(
    cube: Cube, tmp_path: Path
) -> None:
    made = seeded(cube, tmp_path / "out")
    with pytest.raises(eree.Refusal, match="is a cube and not tables"):
        eree.rank(made.release, "cells", by=["a"])


def test_the_modes_that_can_be_named_are_those_that_there_are() -> None:
    assert tuple(MODES) == MODE_NAMES
