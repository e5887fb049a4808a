"""No number of a confidential cube is in a release or the ledger, and a leak would be seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest

import eree
from eree.random.source import SeededRandom
from eree.survey.laplace import ShiftNoise
from small_cubes import Cube, count, shape, survey, table_of

SHAPE = shape(3, 4, 2)
CONTROLS = [("b",), ("c", "a"), ()]


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


def texts_of(value: int) -> set[bytes]:
    """How files would tell a number: as held, in jobs, and a sum of squares in squared jobs."""
    texts = {str(value), f"{value // 1000}.{value % 1000:03}"}
    if value >= 10**10:
        jobs = f"{value // 10**6}.{value % 10**6:06}"
        texts |= {jobs, jobs.rstrip("0").rstrip("."), repr(value / 10**6), repr(value / 10**3)}
    return {text.encode() for text in texts}


def told_by(made: eree.ProtectedCube) -> bytes:
    """All bytes of a release, and the values behind those that are packed."""
    files = [path for path in made.release.folder.rglob("*") if path.is_file()]
    packed = [parquet.read_table(path) for path in files if path.suffix == ".parquet"]
    values = [str(value) for rows in packed for column in rows for value in column.to_pylist()]
    return b"".join([path.read_bytes() for path in files]) + " ".join(values).encode()


def truths_of(cube: Cube) -> set[int]:
    tables = [table_of(cube.weighted, SHAPE, by) for by in (tuple("abc"), *CONTROLS)]
    found = {int(value) for table in tables for value in np.ravel(table)}
    return {value for value in found | {*vars(cube.sums).values()} if value >= 100_000}


def test_nothing_confidential_is_in_any_file_or_message(
    cube: Cube, ledger: eree.Ledger, tmp_path: Path
) -> None:
    """Seeded, so that no noisy value is a true one by accident; in the ledger, sums alone."""
    reported: list[str] = []
    settings: Any = {"controls": CONTROLS, "unit": "establishment"}
    settings["progress"] = lambda step, _done: reported.append(step)
    written = b""
    for squares in ("records", "establishments"):
        made = seeded(cube, tmp_path / squares, squares=squares, **settings)
        written += told_by(made) + repr(made).encode()
    written += " ".join(reported).encode()
    truths = truths_of(cube)
    assert len(truths) > 30
    eree.protect_cube(cube, epsilon=1, ledger=ledger, out=tmp_path / "paid", **settings)
    paid = (tmp_path / "ledger.db").read_bytes()
    for value in truths:
        for text in texts_of(value):
            assert text not in written
            assert value < 10**7 or text not in paid


@pytest.mark.parametrize("squares", ["records", "establishments"])
def test_without_noise_the_same_look_finds_every_number_that_should_be_hidden(
    cube: Cube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, squares: str
) -> None:
    """What the test above would see: cells and controls, or the sum of squares alone."""
    truths = truths_of(cube)
    sums = cube.sums
    square = sums.squares if squares == "records" else sums.establishment_squares
    settings: Any = {"controls": CONTROLS, "squares": squares}
    monkeypatch.setattr(ShiftNoise, "draw_one", lambda _noise, random: 0)
    written = told_by(seeded(cube, tmp_path / "squares", **settings))
    seen = {value for value in truths if any(text in written for text in texts_of(value))}
    assert seen == {square}
    monkeypatch.setattr(
        ShiftNoise, "draw", lambda _noise, numbers, random: np.zeros(numbers, dtype=np.int64)
    )
    written = told_by(seeded(cube, tmp_path / "cells", **settings))
    seen = {value for value in truths if any(text in written for text in texts_of(value))}
    assert truths - seen <= {sums.squares, sums.establishment_squares} - {square}
