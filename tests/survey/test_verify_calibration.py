"""What a cube says of its calibration, payment and privacy is checked against its tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest

import eree
from eree.random.source import SeededRandom
from eree.release.record import digest_of, file_digest, record_text
from eree.survey.files import as_text
from eree.survey.shape import Impossible
from small_cubes import count, shape, survey

SHAPE = shape(6, 5, 4)
CONTROLS = [("a",), ("c", "b")]
KINDS: dict[str, dict[str, Any]] = {
    "squares": {},
    "rake": {"calibration": "rake"},
    "clipped": {"calibration": "rake-nonnegative"},
    "published": {"mode": "as-published", "cap": 3},
    "noisy": {"mode": "as-published", "cap": 3, "exact_controls": False, "keep_empty": "1/2"},
}
ZEROS = Impossible({"a": ("a0",), "b": ("b1",)})
Row = list[Any]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cube of every calibration, without signatures."""
    folder = tmp_path_factory.mktemp("calibrated")
    cube = count(survey(1, SHAPE, 40), SHAPE, 2_000_000)
    ledger = eree.Ledger.create(
        folder / "l.db", eree.Guarantee(eree.RECORD, 100, "0.9"), data_set="data"
    )
    for name, more in KINDS.items():
        settings = {"epsilon": 4, "controls": CONTROLS} | more
        eree.protect_cube(cube, ledger=ledger, out=folder / name, **settings)
    return folder


def faults(folder: Path, change: Callable[[dict[str, Any]], object] | None = None) -> set[str]:
    """The faults after files or the record were changed, with all digests redone."""
    path = folder / "release.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    for table in record["tables"]:
        table["files"] = {file: file_digest(folder / file) for file in table["files"]}
    if change is not None:
        change(record)
    record["digest"] = digest_of(record)
    path.write_text(record_text(record), encoding="utf-8")
    return {f"{f.column}: {f.rule}" for f in eree.verify(eree.Release.open(folder)).faults}


def alter(folder: Path, table: str, column: str, new: Callable[[pa.Table], Row]) -> None:
    """Change a column of a table and of its CSV twin."""
    path = folder / "tables" / f"{table}.parquet"
    rows = parquet.read_table(path)
    place = rows.schema.get_field_index(column)
    field = rows.schema.field(place)
    changed = rows.set_column(place, field, pa.array(new(rows), field.type))
    parquet.write_table(changed, path)
    arrow_csv.write_csv(as_text(changed), path.with_suffix(".csv"))


@pytest.fixture
def copied(home: Path, tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(home / name, tmp_path / name))


@pytest.mark.parametrize("name", KINDS)
def test_untouched_cubes_are_sound(copied: Callable[[str], Path], name: str) -> None:
    assert faults(copied(name)) == set()


@pytest.mark.parametrize("unit", ["record", "establishment"])
@pytest.mark.parametrize("delta", ["0", "1e-6"])
@pytest.mark.parametrize("epsilon", ["0.01", "1", "30"])
@pytest.mark.parametrize("calibration", ["none", "least-squares", "rake", "rake-nonnegative"])
def test_sound_guaranteed_cubes_give_no_alarm(
    tmp_path: Path, unit: Any, delta: str, epsilon: str, calibration: Any
) -> None:
    kind = eree.RECORD if unit == "record" else eree.ESTABLISHMENT
    for number, one in enumerate((SHAPE, shape(3, 2, 2, impossible=[ZEROS]))):
        made = eree.protect_cube(
            count(survey(number, one, 10), one, 2_000_000, 5),
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            calibration=calibration,
            controls=None if calibration == "none" else CONTROLS,
            ledger=eree.Ledger.create(
                tmp_path / f"{number}.db", eree.Guarantee(kind, 100, "0.9"), data_set="data"
            ),
            out=tmp_path / str(number),
        )
        found = eree.verify(made.release)
        assert found.sound, found.faults


@pytest.mark.parametrize("calibration", ["none", "least-squares", "rake", "rake-nonnegative"])
@pytest.mark.parametrize("epsilon", ["0.1", "2", "12"])
@pytest.mark.parametrize("keep_empty", ["0", "1"])
def test_sound_cubes_as_published_give_no_alarm(
    tmp_path: Path, calibration: Any, epsilon: str, keep_empty: str
) -> None:
    total = eree.Guarantee(eree.RECORD, 100, "0.99999")
    ledger = eree.Ledger.create(tmp_path / "l.db", total, data_set="data")
    for exact in (True, False):
        made = eree.protect_cube(
            count(survey(2, SHAPE, 10), SHAPE, 2_000_000),
            epsilon=epsilon,
            cap=40,
            mode="as-published",
            calibration=calibration,
            controls=[] if calibration == "none" else CONTROLS,
            exact_controls=exact,
            keep_empty=keep_empty,
            ledger=ledger,
            out=tmp_path / str(exact),
        )
        found = eree.verify(made.release)
        assert found.sound, found.faults


def test_a_control_table_has_the_variances_of_its_noise(copied: Callable[[str], Path]) -> None:
    folder = copied("squares")
    alter(folder, "control-1", "noise_variance", lambda rows: [1e-9] * len(rows))
    assert faults(folder) == {": control-1.parquet has other variances than its record says"}


@pytest.mark.parametrize("name", ["rake", "clipped", "published", "noisy"])
@pytest.mark.parametrize(
    "lie",
    [
        {"difference": 123.0},
        {"difference": 123.0, "converged": False},
        {"difference": "<script>"},
        {"cycles": -7},
        {"cycles": "<script>"},
        {"cycles": True},
        {"stuck": 10**6},
        {"clipped": 10**6},
        {"clipped_controls": 10**6},
        {"diverged": 0},
        {"reconciled": None},
    ],
)
def test_what_raking_says_of_itself_is_checked(
    copied: Callable[[str], Path], name: str, lie: dict[str, Any]
) -> None:
    found = faults(copied(name), lambda record: record["calibration"].update(lie))
    assert len(found) == 1
    assert found.pop().startswith("calibration: ")


@pytest.mark.parametrize("name", ["rake", "clipped", "published", "noisy"])
def test_whether_raking_converged_is_checked(copied: Callable[[str], Path], name: str) -> None:
    def flip(record: dict[str, Any]) -> None:
        said = record["calibration"]
        said["converged"] = not said["converged"]

    assert faults(copied(name), flip) == {"calibration: is not written as eree writes it"}


def test_an_exact_control_is_the_one_that_was_raked_to(copied: Callable[[str], Path]) -> None:
    folder = copied("published")
    alter(folder, "control-1", "noisy", lambda rows: [Decimal("7.000")] * len(rows))
    assert "control-1: is further from the cells than noise can be" in faults(folder)
    wrong = "calibration: reports another difference to the controls than the cells have"
    assert wrong in faults(folder)


def test_a_reference_is_not_the_raked_cube(copied: Callable[[str], Path]) -> None:
    """With variances made to fit, it would halve the bound."""
    folder = copied("clipped")
    made = eree.ProtectedCube.open(folder)
    known = made.calibrated.noise.variances(eree.Query(["a", "b", "c"])).reshape(-1) * 2e-6
    alter(folder, "cells", "reference", lambda rows: rows["noisy"].to_pylist())
    alter(folder, "cells", "noise_variance", lambda rows: known.tolist())
    found = faults(folder)
    assert "calibration: counts other negative cells than its reference gives" in found


@pytest.mark.parametrize("name", ["rake", "clipped", "noisy"])
def test_a_reference_is_near_the_controls(copied: Callable[[str], Path], name: str) -> None:
    folder = copied(name)
    alter(folder, "cells", "reference", lambda rows: [x * 1000 for x in rows["noisy"].to_pylist()])
    assert "control-1: is further from the cells than noise can be" in faults(folder)


def test_cells_are_near_the_controls(copied: Callable[[str], Path]) -> None:
    folder = copied("squares")
    alter(folder, "cells", "noisy", lambda rows: [x * 1000 for x in rows["noisy"].to_pylist()])
    assert "control-1: is further from the cells than noise can be" in faults(folder)


@pytest.mark.parametrize("mode", ["guaranteed", "as-published"])
def test_a_seeded_cube_that_is_called_private_was_never_paid(tmp_path: Path, mode: Any) -> None:
    made = eree.protect_cube(
        count(survey(1, SHAPE, 8), SHAPE, 2_000_000),
        epsilon=1,
        cap=3 if mode == "as-published" else None,
        mode=mode,
        ledger=None,
        out=tmp_path / "out",
        random=SeededRandom(1),
    )
    assert made.release.seeded
    words = [statement.words for statement in made.guarantee.statements()]
    found = faults(tmp_path / "out", lambda r: r.update(private=True, statements=words))
    assert found == {
        "ledger: is not recorded: every release that is private was paid for"
        if mode == "guaranteed"
        else "private: is said of a release that gives away more than its price"
    }


@pytest.mark.parametrize("name", ["squares", "published"])
@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda r: r["ledger"].update(id=-1), "ledger: is not written as the entry"),
        (lambda r: r["ledger"].update(entry=1), "ledger: is not written as the entry"),
        (lambda r: r["ledger"].update(hash="0"), "ledger: is not written as the entry"),
        (lambda r: r["ledger"].pop("hash"), "ledger: is not recorded"),
        (lambda r: r.pop("release"), "release: is not the name of a release"),
        (lambda r: r["tables"][1].update(columns=[[]]), "control-1: is not what the price gives"),
    ],
)
def test_a_payment_and_columns_are_well_formed(
    copied: Callable[[str], Path], name: str, change: Callable[[dict[str, Any]], object], place: str
) -> None:
    (found,) = faults(copied(name), change)
    assert found.startswith(place)


def test_a_cube_as_published_never_says_that_it_is_private(copied: Callable[[str], Path]) -> None:
    folder = copied("published")
    opened = eree.Release.open(folder)
    assert (opened.private, opened.seeded, opened.record["private"]) == (False, False, False)
    assert eree.Release.open(copied("squares")).private
    found = faults(folder, lambda record: record.update(private=True))
    assert found == {"private: is said of a release that gives away more than its price"}
