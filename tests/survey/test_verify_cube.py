"""Protected cubes that were killed or touched: paid or never begun, and no change goes unseen."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import eree
from eree.random.source import SeededRandom
from eree.release.record import digest_of, file_digest, record_text
from eree.release.signature import Signer
from release_campaigns import assert_harmless, campaign, change_bytes
from small_cubes import count, shape, survey
from test_cli import run

SHAPE = shape(3, 2, 2)


def test_a_killed_cube_is_paid_or_never_began(tmp_path: Path) -> None:
    """`make torture` kills a thousand."""
    found = campaign("anywhere", "cube", lambda: str(tmp_path / "ledger.db"), tmp_path, 10, 3)
    assert_harmless(found)
    assert found["kills"] == 10
    assert found["reserved"] > 0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed cube of every kind, and the ledgers that paid for them."""
    folder = tmp_path_factory.mktemp("cubes")
    cube = count(survey(1, SHAPE, 8), SHAPE, 2_000_000, 5)
    signer = Signer(Ed25519PrivateKey.generate())
    for relation in (eree.RECORD, eree.ESTABLISHMENT):
        total = eree.Guarantee(relation, 100, "0.1")
        eree.Ledger.create(folder / f"{relation.name}.db", total, data_set="data")
    eree.protect_cube(
        cube,
        epsilon=1,
        delta="1e-6",
        unit="establishment",
        ledger=eree.Ledger.open(folder / "establishment.db"),
        out=folder / "guaranteed",
        controls=[("a",), ("c", "b")],
        squares="records",
        signer=signer,
    )
    eree.protect_cube(
        replace(cube, most_records=None),
        epsilon=1,
        cap=3,
        mode="as-published",
        ledger=eree.Ledger.open(folder / "record.db"),
        out=folder / "as-published",
        controls=[("a",)],
        keep_empty="1/2",
        signer=signer,
    )
    eree.protect_cube(
        cube,
        epsilon=1,
        unit="establishment",
        ledger=eree.Ledger.open(folder / "establishment.db"),
        out=folder / "clipped",
        controls=[("a",), ("c", "b")],
        calibration="rake-nonnegative",
        signer=signer,
    )
    return folder


@pytest.fixture(params=["guaranteed", "as-published", "clipped"])
def copy(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(home / request.param, tmp_path / "copy"))


@pytest.fixture
def guaranteed(home: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(home / "guaranteed", tmp_path / "copy"))


def test_untouched_cubes_are_sound_and_the_command_says_so(home: Path) -> None:
    for name, ledger, words in (
        ("guaranteed", "establishment", "calibrated by least-squares (not done again)"),
        ("as-published", "record", "calibrated by rake (not done again)"),
        ("clipped", "establishment", "calibrated by rake-nonnegative (not done again)"),
    ):
        found = eree.verify(
            eree.Release.open(home / name), ledger=eree.Ledger.open(home / f"{ledger}.db")
        )
        assert found.sound, found.faults
        assert f"the cells are {words}; variances follow from the noise" in found.checks
    done = run("verify", "guaranteed", "--ledger", "establishment.db", cwd=home)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("guaranteed: sound\n  the record is the one that was written\n")
    assert "  3 mechanisms keep their claims, by their certificates\n" in done.out
    assert "  3 tables have every row in its place\n" in done.out
    assert "  the prices add up to epsilon 1, delta 0.000001\n" in done.out
    assert "  entry 2 of the ledger paid for it (settled)\n" in done.out


def test_another_ledger_did_not_pay(home: Path) -> None:
    other = eree.Ledger.open(home / "record.db")
    found = eree.verify(eree.Release.open(home / "guaranteed"), ledger=other)
    assert [fault.column for fault in found.faults] == ["ledger"]


def test_a_changed_byte_is_found(copy: Path) -> None:
    found = change_bytes(copy, seed=5, changes=60)
    assert (found["changes"], found["unseen"], found["believed"]) == (60, 0, 0)
    assert eree.verify(eree.Release.open(copy)).sound


def test_a_record_without_a_name_is_refused_where_it_is_asked_for(copy: Path) -> None:
    path = copy / "release.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    del record["release"]
    path.write_text(record_text(record), encoding="utf-8")
    with pytest.raises(eree.Unreadable, match="release is not what a release writes"):
        _ = eree.Release.open(copy).identity


def rewritten(folder: Path, change: Callable[[dict[str, Any]], None]) -> set[str]:
    """The faults of a record that somebody changed and gave a new digest, without a signature."""
    path = folder / "release.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    del record["signature"]
    change(record)
    record["digest"] = digest_of(record)
    path.write_text(record_text(record), encoding="utf-8")
    return {f"{f.column}: {f.rule}" for f in eree.verify(eree.Release.open(folder)).faults}


def test_a_record_without_its_signature_is_as_sound_as_before(copy: Path) -> None:
    assert rewritten(copy, lambda record: None) == set()


PRICE = "is not what the price gives"
SETTINGS = "is not what the settings of the cube give"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda r: r["guarantee"].update(epsilon="1/2"), f"cells: {PRICE}"),
        (lambda r: r["guarantee"].update(delta="1/2000000"), f"cells: {PRICE}"),
        (lambda r: r["guarantee"].update(neighbours="record"), ": the price of a cube is one"),
        (lambda r: r.update(unit="record"), ": the price of a cube is one under the neighbours"),
        (lambda r: r["bounds"].update(weight="1000"), f"cells: {PRICE}"),
        (lambda r: r["bounds"].update(records=3), f"cells: {PRICE}"),
        (lambda r: r["shares"].update(cells="1/2"), ": the shares of the price must add up"),
        (lambda r: r.update(squares="establishments"), "totals: are not what the price gives"),
        (lambda r: r["tables"][0]["parameters"].update(shift="5"), f"cells: {PRICE}"),
        (lambda r: r["tables"][0]["parameters"].update(cap="99"), f"cells: {PRICE}"),
        (lambda r: r["tables"][1]["price"].update(epsilon="1/3"), f"control-1: {PRICE}"),
        (lambda r: r["tables"][1].update(mechanism="none"), f"control-1: {PRICE}"),
        (lambda r: r["tables"][0].update(noise_variance=1.0), "cells: has other variances"),
        (lambda r: r["totals"][0].update(noise_variance=1.0), "totals: are not what the price"),
        (lambda r: r["totals"].clear(), "totals: are not what the price gives"),
        (lambda r: r["assumptions"].pop(), f"assumptions: {SETTINGS}"),
        (lambda r: r.update(losses=["none"]), f"losses: {SETTINGS}"),
        (lambda r: r.update(statements=[]), f"statements: {SETTINGS}"),
        (lambda r: r.update(covers="everything"), f"covers: {SETTINGS}"),
        (lambda r: r["tables"].reverse(), ": control-2.parquet has other columns than"),
        (lambda r: r.update(mode="best"), ": the release was made in a mode that is none of"),
        (lambda r: r.pop("calibration"), ": what "),
        (lambda r: r["calibration"].update(method="rake"), ": what "),
        (lambda r: r["calibration"].update(method="none"), "cells: has other variances"),
        (lambda r: r["calibration"].pop("solver"), "calibration: is not written as eree writes"),
        (lambda r: r["calibration"].update(best=True), "calibration: is not written as eree"),
        (lambda r: r.update(sampling=None), "sampling: is not what the cells and the sum"),
        (lambda r: r["sampling"].update(total=1e9), "sampling: is not what the cells"),
        (lambda r: r["sampling"]["squares"][0].update(value=1), "sampling: is not what"),
        (lambda r: r["variables"][0]["codes"].reverse(), ": cells.parquet has rows that are"),
        (lambda r: r["variables"].pop(), ": cells.parquet has other columns"),
        (lambda r: r.update(impossible=[{"a": ["a0"]}]), ": cells.parquet has another number"),
        (lambda r: r.update(kind="box"), ": the release is a cube and not tables"),
        (lambda r: r.update(private=False), "private: the noise was drawn from a seeded source"),
    ],
)
def test_a_record_that_was_written_again_is_still_wrong(
    guaranteed: Path, change: Callable[[dict[str, Any]], None], fault: str
) -> None:
    found = rewritten(guaranteed, change)
    assert any(f.startswith(fault) for f in found), found


def resealed(folder: Path, file: str) -> set[str]:
    """The faults after a file was changed, and its digest and that of the record with it."""

    def change(record: dict[str, Any]) -> None:
        for table in record["tables"]:
            if file in table["files"]:
                table["files"][file] = file_digest(folder / file)

    return rewritten(folder, change)


def test_a_table_and_its_twin_must_agree(guaranteed: Path) -> None:
    file = "tables/cells.csv"
    text = (guaranteed / file).read_text(encoding="utf-8")
    first = text.split("\n")[1].split(",")
    changed = text.replace(first[3], "1.000", 1)
    (guaranteed / file).write_text(changed, encoding="utf-8")
    assert resealed(guaranteed, file) == {"cells: differs from its CSV twin"}


def test_variances_must_be_those_of_the_noise(guaranteed: Path) -> None:
    file = "tables/cells.parquet"
    rows = parquet.read_table(guaranteed / file)
    column = rows.schema.get_field_index("noise_variance")
    field = rows.schema.field(column)
    for wrong, rule in ((0.5, "has other variances than the noise"), (-1.0, "are no variances")):
        values = rows["noise_variance"].to_numpy() * wrong
        parquet.write_table(rows.set_column(column, field, [values]), guaranteed / file)
        found = resealed_copy(guaranteed, file)
        assert any(rule in fault for fault in found)


def test_a_clipped_cube_has_no_cell_below_zero_and_its_bound_follows_from_its_reference(
    home: Path, tmp_path: Path
) -> None:
    file = "tables/cells.parquet"
    for name, fault in (
        ("noisy", "cells: has cells below 0, which its calibration cannot give"),
        ("reference", "cells: has other variances than the noise"),
    ):
        folder = Path(shutil.copytree(home / "clipped", tmp_path / name))
        rows = parquet.read_table(folder / file)
        column = rows.schema.get_field_index(name)
        values = [value - 10**6 for value in rows[name].to_pylist()]
        field = rows.schema.field(column)
        changed = rows.set_column(column, field, pa.array(values, field.type))
        parquet.write_table(changed, folder / file)
        assert fault in resealed(folder, file)


def resealed_copy(folder: Path, file: str) -> set[str]:
    copied = Path(shutil.copytree(folder, folder.parent / "resealed", dirs_exist_ok=True))
    return resealed(copied, file)


def test_missing_rows_are_found(copy: Path) -> None:
    file = "tables/control-1.parquet"
    parquet.write_table(parquet.read_table(copy / file).slice(1), copy / file)
    found = resealed(copy, file)
    assert found == {": control-1.parquet has another number of rows than its cube has cells"}


def test_a_cube_of_seeded_coins_never_verifies(tmp_path: Path) -> None:
    cube = count([], SHAPE, 2_000_000, 5)
    made = eree.protect_cube(
        cube, epsilon=1, ledger=None, out=tmp_path / "out", random=SeededRandom(1)
    )
    found = eree.verify(made.release)
    assert [fault.column for fault in found.faults] == ["private"]
    assert np.count_nonzero(made.noisy) > 0
