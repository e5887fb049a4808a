"""The study of a LODES year: its truth, its plans, and its figures on a small population."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import eree
import eree_study
from eree_study.papers import wac, wac_columns
from eree_study.papers.wac_columns import (
    KINDS,
    WORKERS,
    Truth,
    best_split,
    tables_of,
)
from shared import lodes_year
from uses import eree_command

pytestmark = pytest.mark.xdist_group("wac")  # what most tests look at is made once


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lodes_year(tmp_path_factory, tmp_path_factory.mktemp("wac") / "study")


@pytest.fixture(scope="module")
def found(folder: Path) -> eree_study.WacStudy:
    return eree_study.wac_study(folder, jobs=20_000, epsilons=["4"])


def test_the_truth_is_what_the_rows_say(town: eree.Tables) -> None:
    read = {
        name: parquet.read_table(town.folder / f"{name}.parquet")
        for name in ("job", "worker", "workplace")
    }
    job, worker, workplace = (
        {column: read[name][column].to_numpy() for column in read[name].column_names}
        for name in ("job", "worker", "workplace")
    )
    employer, person = job["workplace_id"] - 1, job["worker_id"] - 1
    tract = workplace["tract"][employer]
    columns = {
        **{name: worker[name][person] for name in worker},
        "earnings": job["earnings"],
        "sector": workplace["sector"][employer],
    }
    truth = Truth.of(town)
    codes = truth.areas.to_pylist()
    assert codes == sorted(set(workplace["tract"]))
    for column, kept in eree.LODES_COLUMNS.items():
        chosen = np.ones(len(tract), dtype=bool)
        for name, values in kept.items():
            chosen &= np.isin(columns[name].astype(str), [*map(str, values)])
        expected = [int((chosen & (tract == code)).sum()) for code in codes]
        assert truth.columns[column].tolist() == expected, column


def test_errors_are_added_up_by_kind_whatever_the_order_of_areas(town: eree.Tables) -> None:
    truth = Truth.of(town)
    exact = pa.table(
        {"w_geocode": truth.areas, **{n: pa.array(c) for n, c in truth.columns.items()}}
    )
    assert truth.errors(exact) == dict.fromkeys(KINDS, 0.0)
    moved = exact.set_column(
        exact.column_names.index("CS01"), "CS01", pa.array(truth.columns["CS01"] - 2)
    )
    moved = moved.take(list(reversed(range(len(moved)))))
    expected = dict.fromkeys(KINDS, 0.0) | {"sex": 2.0 * len(moved)}
    assert truth.errors(moved) == expected


@pytest.mark.parametrize("way", wac_columns.READ)
@pytest.mark.parametrize("epsilon", ["2", "4", "8"])
def test_every_plan_spends_epsilon_and_no_more(town: eree.Tables, way: str, epsilon: str) -> None:
    privacy = {"neighbours": "strong", "alpha": "0.1", "epsilon": epsilon}
    tables = [*tables_of(way, Fraction(epsilon), town)]
    plan = eree.Plan.of({"data": str(town.folder), "privacy": privacy, "table": tables})
    assert plan.price().epsilon == Fraction(epsilon)


def test_no_other_division_between_six_tables_has_less_error() -> None:
    """Two tables by brute force; of six, whatever is moved from one to another makes it worse."""

    def error(shares: Mapping[str, Fraction], cells: Mapping[str, int]) -> float:
        return sum(wac_columns.error_of(share, cells[name]) for name, share in shares.items())

    two, total = {"sex": 2, "race": 6}, Fraction(2)
    best = best_split(total, two)
    assert sum(best.values()) == total
    tried = [Fraction(i, 100) for i in range(20, 143, 2)]
    least = min(error({"sex": sex, "race": total - sex}, two) for sex in tried)
    assert error(best, two) < 1.005 * least
    six = dict(zip(WORKERS, (2, 4, 3, 3, 6, 2), strict=True))
    best = best_split(Fraction(4), six)
    assert sum(best.values()) == 4
    for giving, taking in itertools.permutations(six, 2):
        other = best | {
            giving: best[giving] - Fraction(1, 20),
            taking: best[taking] + Fraction(1, 20),
        }
        assert error(other, six) > error(best, six)
    with pytest.raises(eree.Refusal, match=r"above 1\.906"):
        best_split(Fraction(19, 10), six)


def test_infusion_is_the_yardstick_and_one_draw_is_better_than_six(
    found: eree_study.WacStudy,
) -> None:
    for kind in (*KINDS, wac.TOGETHER):
        yardstick = found.row("infusion", None, kind)
        assert yardstick is not None and yardstick.ratio == 1 and yardstick.error > 0
        wide = found.row("infusion-wide", None, kind)
        assert wide is not None and wide.ratio > 1
    for row in found.rows:
        yardstick = found.row("infusion", None, row.kind)
        assert yardstick is not None and row.ratio == pytest.approx(row.error / yardstick.error)
    six, one = (found.row(f"{way}, measured", "4") for way in ("six", "one-draw"))
    assert six is not None and one is not None and one.error < 0.6 * six.error
    together = [found.row("one-draw, measured", "4", kind) for kind in WORKERS]
    assert one.error == pytest.approx(sum(row.error for row in together if row is not None))


def test_a_draw_alone_agrees_with_itself_and_what_cannot_be_had_is_said(
    found: eree_study.WacStudy,
) -> None:
    for kind in KINDS:
        measured, estimated = (
            found.row(f"one-draw, {numbers}", "4", kind) for numbers in ("measured", "estimates")
        )
        assert measured is not None and estimated is not None
        assert estimated.error == pytest.approx(measured.error, rel=0.05)
    assert set(found.refused) == {
        (way, "4") for way in ("log-laplace", "smooth-gamma", "smooth-laplace")
    }


def test_it_goes_on_where_it_was_and_draws_nothing_again(
    found: eree_study.WacStudy, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_given: object) -> None:
        raise AssertionError

    with monkeypatch.context() as patched:
        patched.setattr(wac, "released", never)
        patched.setattr(wac, "population_of", never)
        again = eree_study.wac_study(folder, jobs=20_000, epsilons=["4"])
    assert again.rows == found.rows or json.dumps(again.as_json()) == json.dumps(found.as_json())
    with (folder / "wac.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["error"]) for row in rows] == [row.error for row in found.rows]
    assert all(file.stat().st_size for file in found.files)
    assert not (folder / "wac" / "release").exists()
    status, shown, _ = eree_command(
        "study", "wac", "--out", folder, "--jobs", 20_000, "--epsilon", 4
    )
    assert status == 0
    assert "one-draw, measured" in shown and "smooth-gamma at epsilon 4: none" in shown
    (folder / "wac" / "apart_4_0.json").write_text("{", encoding="utf-8")
    status, _, said = eree_command(
        "study", "wac", "--out", folder, "--jobs", 20_000, "--epsilon", 4
    )
    assert status == 2 and "damaged" in said


@pytest.mark.parametrize("epsilon", ["", "0", "-1", "x", "4,,8"])
def test_a_wrong_epsilon_is_refused_before_a_folder_is_made(tmp_path: Path, epsilon: str) -> None:
    status, _, said = eree_command("study", "wac", "--out", tmp_path / "new", "--epsilon", epsilon)
    assert status == 2 and "epsilon" in said
    assert not (tmp_path / "new").exists()
