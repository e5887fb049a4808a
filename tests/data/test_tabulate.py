"""What the cells of a marginal are, by example."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest

import eree
from oracle import Database

PEOPLE = [  # person, sex, grade, workplace
    (1, "F", 1, 10),
    (2, "F", 2, 10),
    (3, "M", 3, 10),
    (4, "M", 3, 10),
    (5, "M", 3, 20),
    (6, "F", 3, 30),
]
WORKPLACES = [(10, "a", "11"), (20, "a", "11"), (30, "c'", "44-45"), (40, "b", "31-33")]


@pytest.fixture
def tables(tmp_path: Path) -> eree.Tables:
    database = Database(
        [{"id": i, "area": area, "sector": s, "band": 0} for i, area, s in WORKPLACES],
        [{"person": p, "sex": x, "grade": g, "manner": "plain"} for p, x, g, _ in PEOPLE],
        [(p, w) for p, _, _, w in PEOPLE],
    )
    return eree.load(database.write(tmp_path / "data"))


def cells(tables: eree.Tables, **request: Any) -> list[dict[str, Any]]:
    return eree.tabulate(tables, **request).confidential.to_pylist()


def test_a_cell_has_its_jobs_its_largest_workplace_and_its_workplaces(tables: eree.Tables) -> None:
    assert cells(tables, by=["area"]) == [
        {"area": "a", "count": 5, "largest": 4, "workplaces": 2},
        {"area": "b", "count": 0, "largest": 0, "workplaces": 1},
        {"area": "c'", "count": 1, "largest": 1, "workplaces": 1},
    ]


def test_worker_cells_are_crossed_with_all_declared_values(tables: eree.Tables) -> None:
    assert cells(tables, by=["sector", "sex"], where={"area": ["a", "b"]}) == [
        {"sector": s, "sex": x, "count": n, "largest": m, "largest_total": t, "workplaces": w}
        for s, x, n, m, t, w in [
            ("11", "F", 2, 2, 4, 2),
            ("11", "M", 3, 2, 4, 2),
            ("31-33", "F", 0, 0, 0, 1),
            ("31-33", "M", 0, 0, 0, 1),
        ]
    ]


def test_a_worker_filter_narrows_counts_but_not_the_largest_total(tables: eree.Tables) -> None:
    [cell] = cells(tables, by=["sector"], where={"sector": "11", "grade": [3]})
    assert cell == {"sector": "11", "count": 3, "largest": 2, "largest_total": 4, "workplaces": 2}


def test_the_empty_marginal_is_the_total(tables: eree.Tables) -> None:
    assert cells(tables, by=[]) == [{"count": 6, "largest": 4, "workplaces": 4}]
    assert cells(tables, by=[], where={"sex": "F"}) == [
        {"count": 3, "largest": 2, "largest_total": 4, "workplaces": 4}
    ]


def test_cells_without_workplaces_are_absent(tables: eree.Tables) -> None:
    assert cells(tables, by=[], where={"area": ["nowhere"]}) == []
    assert cells(tables, by=["sex"], where={"area": ["nowhere"]}) == []


def test_a_group_counts_like_an_attribute(tables: eree.Tables) -> None:
    assert cells(tables, by=["region"], where={"region": ["north"]}) == [
        {"region": "north", "count": 5, "largest": 4, "workplaces": 3}
    ]
    found = cells(tables, by=["learnt"], where={"region": ["north"]})
    assert [(c["learnt"], c["count"]) for c in found] == [("yes", 4), ("no", 1)]


def test_dropped_workplaces_leave_counts_but_stay_public(tables: eree.Tables) -> None:
    assert cells(tables, by=["sector", "sex"], where={"sector": "11"}, bound=eree.DropFrom(4)) == [
        {
            "sector": "11",
            "sex": sex,
            "count": n,
            "largest": n,
            "largest_total": 4,
            "workplaces": 2,
        }
        for sex, n in (("F", 0), ("M", 1))
    ]


def test_a_scaled_workplace_keeps_its_shares_in_thousandths(tables: eree.Tables) -> None:
    found = cells(tables, by=["grade"], where={"sector": "11"}, bound=eree.ScaleTo(3))
    assert [c["count"] for c in found] == [Decimal("0.75"), Decimal("0.75"), Decimal("2.5")]
    [total] = cells(tables, by=[], bound=eree.ScaleTo(3))
    assert total["count"] == Decimal(5)


def test_the_order_of_by_is_the_order_of_columns_and_rows(tables: eree.Tables) -> None:
    found = eree.tabulate(tables, by=["learnt", "area", "sex"]).confidential
    assert found.column_names[:3] == ["learnt", "area", "sex"]
    keys = [tuple(r.values())[:3] for r in found.to_pylist()]
    assert keys == [(g, a, s) for g in ("yes", "no") for a in ("a", "b", "c'") for s in "FM"]


def test_counts_are_whole_and_never_null(tables: eree.Tables) -> None:
    schema = eree.tabulate(tables, by=["band", "grade"]).confidential.schema
    assert schema.field("band").type == schema.field("grade").type == pa.int64()
    for name in ("count", "largest", "largest_total", "workplaces"):
        assert schema.field(name) == pa.field(name, pa.int64(), nullable=False)


def test_printing_cells_or_tables_shows_their_shape_only(tables: eree.Tables) -> None:
    found = eree.tabulate(tables, by=["sector", "sex"], where={"grade": [1]})
    shown = "<Cells of sector × sex where grade in 1: 6 cells, confidential>"
    assert repr(found) == str(found) == f"{found}" == shown
    assert repr(tables).endswith("4 workplaces, the rest confidential>")
    assert len(found) == 6


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"by": "area"}, "by must be a list"),
        ({"by": 5}, "by must be a list"),
        ({"by": None}, "by must be a list"),
        ({"by": [], "where": {"sex": None}}, "its values are texts"),
        ({"by": [], "where": {"sex": [["F"]]}}, "its values are texts"),
        ({"by": [], "where": {"area": "\udcff"}}, "its values are texts"),
        ({"by": [], "where": {"grade": 1.0}}, "its values are integers"),
        ({"by": [], "where": {"band": 2**63}}, "its values are integers of 64 bits"),
        ({"by": [], "engine": "local[257]"}, "may use 1 to 256 threads"),
        ({"by": ["nothing"]}, "by names 'nothing', which the schema does not declare; it has area"),
        ({"by": ["area", "area"]}, "by names an attribute twice"),
        ({"by": [3]}, "by names 3"),
        ({"by": [], "where": {"id": [10]}}, "where names 'id'"),
        ({"by": [], "where": ["sex"]}, "where must give each attribute its values"),
        ({"by": [], "where": {"sex": []}}, "where keeps no value of sex"),
        ({"by": [], "where": {"sex": ["F", "F"]}}, "where lists a value of sex twice"),
        ({"by": [], "where": {"sex": ["X"]}}, "'X' is not a declared value of sex; it has F, M"),
        ({"by": [], "where": {"sector": "99"}}, "'99' is not a declared value of sector"),
        ({"by": [], "where": {"grade": ["1"]}}, "its values are integers"),
        ({"by": [], "where": {"area": [1]}}, "its values are texts"),
        ({"by": [], "where": {"grade": True}}, "its values are integers"),
        ({"by": [], "bound": 7}, "bound must be DropFrom"),
        ({"by": [], "engine": "oracle"}, "there is no engine named 'oracle'"),
        ({"by": [], "engine": 7}, "engine must be"),
    ],
)
def test_what_the_schema_does_not_declare_is_refused(
    tables: eree.Tables, request_: dict[str, Any], words: str
) -> None:
    with pytest.raises(eree.Refusal, match=words.replace("(", r"\(")):
        eree.tabulate(tables, **request_)


def test_numbers_of_numpy_are_numbers(tables: eree.Tables) -> None:
    assert cells(tables, by=[], where={"grade": np.int64(3)}) == cells(
        tables, by=[], where={"grade": [3]}
    )


def test_a_marginal_made_past_its_checks_is_refused(tmp_path: Path) -> None:
    database = Database(
        [{"id": i, "area": area, "sector": s, "band": 777} for i, area, s in WORKPLACES],
        [{"person": p, "sex": x, "grade": g, "manner": "plain"} for p, x, g, _ in PEOPLE],
        [(p, w) for p, _, _, w in PEOPLE],
    )
    folder = database.write(tmp_path / "data")
    schema = folder / "schema.toml"
    text = schema.read_text("utf-8").replace('type = "integer"', "confidential = true")
    schema.write_text(text, encoding="utf-8")
    tables = eree.load(folder)
    for marginal in (eree.Marginal(("band",), {}), eree.Marginal((), {"band": (777,)})):
        with pytest.raises(eree.Refusal, match="band is a confidential workplace attribute"):
            list(eree.stream(tables, marginal))
        with pytest.raises(eree.Refusal, match="confidential"):
            eree.write_cells(tables, marginal, tmp_path / "cells.csv")


@pytest.mark.parametrize("value", [0, -1, 10**9 + 1, 2.5, True])
def test_a_bound_is_a_sensible_whole_number(value: Any) -> None:
    for bound in (eree.DropFrom, eree.ScaleTo):
        with pytest.raises(eree.Refusal, match="integer of workers"):
            bound(value)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_cells_are_written_whole_and_for_their_owner_alone(
    tables: eree.Tables, tmp_path: Path, suffix: str
) -> None:
    out = tmp_path / f"cells{suffix}"
    marginal = eree.Marginal.over(tables.schema, ["area", "sex"])
    assert eree.write_cells(tables, marginal, out) == 6
    read = parquet.read_table if suffix == ".parquet" else arrow_csv.read_csv
    assert read(out).to_pylist() == cells(tables, by=["area", "sex"])
    assert out.stat().st_mode & 0o777 == 0o600
    with pytest.raises(eree.Refusal, match="exists already"):
        eree.write_cells(tables, marginal, out)
    assert sorted(p.name for p in tmp_path.iterdir()) == [out.name, "data"]


def test_cells_that_cannot_be_written_leave_nothing(tables: eree.Tables, tmp_path: Path) -> None:
    marginal = eree.Marginal.over(tables.schema, ["area"])
    for out, words in (
        (tmp_path / "cells.xlsx", "must end in .parquet or .csv"),
        (tmp_path / ".csv", "'.csv' is no name for cells"),
        (tmp_path / "\udcff.csv", "not UTF-8"),
        (tmp_path / "no" / "cells.csv", "does not exist"),
    ):
        with pytest.raises(eree.Refusal, match=words):
            eree.write_cells(tables, marginal, out)
    (tmp_path / "data" / "job.parquet").write_bytes(b"PAR1 gone")
    with pytest.raises(eree.EngineFailure):
        eree.write_cells(tables, marginal, tmp_path / "cells.csv")
    assert [p.name for p in tmp_path.iterdir()] == ["data"]


def test_a_filter_can_be_written_as_text(tables: eree.Tables) -> None:
    kept = eree.Marginal.filter_from_text(tables.schema, ["area=a, b", "grade=1", "grade=3"])
    assert kept == {"area": ["a", "b"], "grade": [1, 3]}
    for text, words in (("area", "is not a filter"), ("aera=a", "does not declare")):
        with pytest.raises(eree.Refusal, match=words):
            eree.Marginal.filter_from_text(tables.schema, [text])
    for text in ("grade=--5", "grade=1e3", "band=99999999999999999999999"):
        kept = eree.Marginal.filter_from_text(tables.schema, [text])
        with pytest.raises(eree.Refusal, match="its values are integers"):
            eree.tabulate(tables, by=[], where=kept)


def test_a_file_that_came_meanwhile_is_not_overwritten(
    tables: eree.Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "cells.csv"
    marginal = eree.Marginal.over(tables.schema, ["area"])

    def meanwhile(*arguments: Any, **settings: Any) -> Iterator[pa.RecordBatch]:
        out.write_text("precious", encoding="utf-8")
        return iter(())

    monkeypatch.setattr("eree.data.tabulate.stream", meanwhile)
    with pytest.raises(eree.Refusal, match="exists already"):
        eree.write_cells(tables, marginal, out)
    assert out.read_text("utf-8") == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cells.csv", "data"]
