"""A size profile as a table: counted, planned, paid for, released, rechecked, left alone."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import eree
import eree_study
from eree.cli.exit_status import cli
from eree.data.tabulate import stream
from eree.release.record import RECORD, digest_of, file_digest
from eree.web.catalogue import Catalogue
from eree.workload import SizeProfile
from offices import TOTAL, privacy, settings, table, text
from oracle import SECTORS, Database, databases, workplace_value
from selection import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZES = {"name": "sizes", "count": "workplaces", "by": ["sector"], "epsilon": "0.04"}
JOBS = {"name": "jobs", "by": ["place", "sector"], "epsilon": "2"}

# ------------------------------------------------------------------------------------- counting


def profile_rows(
    database: Database, by: list[str], where: Mapping[str, Any], sizes: list[int], pooled_from: int
) -> list[dict[str, Any]]:
    """The rows of a profile by looking at every workplace, nothing clever."""
    kept = [
        w
        for w in database.workplaces
        if all(workplace_value(w, name) in values for name, values in where.items())
    ]
    held = {w["id"]: sum(at == w["id"] for at, _ in database.counted()) for w in kept}
    keys = {tuple(workplace_value(w, name) for name in by) for w in kept}

    def row(key: tuple[Any, ...] | None, size: int) -> dict[str, Any]:
        inside = [w for w in kept if key is None or tuple(workplace_value(w, n) for n in by) == key]
        return {
            **dict(zip(by, key or [None] * len(by), strict=True)),
            "at_least": size,
            "number": sum(held[w["id"]] >= size for w in inside),
            "workplaces": len(inside),
        }

    def order(key: tuple[Any, ...]) -> list[Any]:
        return [value.encode() if isinstance(value, str) else value for value in key]

    rows = [row(k, size) for k in sorted(keys, key=order) for size in sizes if size <= pooled_from]
    return rows + [row(None, size) for size in sizes if size > pooled_from and kept]


def agree(database: Database, wanted: list[dict[str, Any]], engine: object, style: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tables = eree.load(database.write(Path(folder) / "data", style, 2))
        for request in wanted:
            parts = stream(tables, SizeProfile.of(tables.schema, **request), engine=engine)
            rows = [row for part in parts for row in part.confidential.to_pylist()]
            assert rows == profile_rows(database, **request), request


@st.composite
def profiles(draw: st.DrawFn, database: Database) -> dict[str, Any]:
    names = st.sampled_from(["area", "sector", "band", "region"])
    return {
        "by": draw(st.lists(names, max_size=3, unique=True)),
        "where": {
            name: [draw(st.sampled_from(database.values(name)))]
            for name in draw(st.lists(names, max_size=1))
        },
        "sizes": sorted(draw(st.sets(st.integers(1, 12), min_size=1, max_size=6))),
        "pooled_from": draw(st.sampled_from([0, 3, 100])),
    }


@examples(12, torture=1000)
@given(st.data(), st.sampled_from(["parquet", "csv"]), st.booleans(), st.booleans())
def test_duckdb_counts_what_brute_force_counts(
    data: st.DataObject, style: str, primary: bool, several: bool
) -> None:
    database = data.draw(databases(primary=primary, several=several))
    wanted = data.draw(st.lists(profiles(database), min_size=1, max_size=4))
    agree(database, wanted, "duckdb", style)


def test_spark_counts_what_brute_force_counts(spark: SparkSession) -> None:
    database = Database(
        [
            {"id": f"w'{i}", "area": area, "sector": SECTORS[i % 2], "band": -i}
            for i, area in enumerate(["a", "b", "c'", 'd"\\'])
        ],
        [{"person": f"p{i}", "sex": "F", "grade": 1, "manner": "plain"} for i in range(12)],
        [(f"p{i}", f"w'{(i > 2) + (i > 6)}") for i in range(12)],  # the last has no job
        [("p0", "w'3")],
    )
    wanted = {"by": ["region", "band"], "where": {"sector": SECTORS[:2]}, "sizes": [1, 3, 4, 9]}
    agree(database, [wanted | {"pooled_from": 3}], spark, "csv")


# ------------------------------------------------------------------------------------- planning


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return eree_study.synthesize(tmp_path_factory.mktemp("profile") / "data", jobs=3_000)


def plan(data: Path, *tables: Mapping[str, Any], **changes: Any) -> eree.Plan:
    return eree.Plan.of(settings(data, table=list(tables), **changes))


def test_a_profile_is_priced_and_predicted_like_any_table(data: Path) -> None:
    planned = plan(data, JOBS, SIZES, SIZES | {"name": "few", "sizes": [1, 10], "by": []})
    assert planned.price().epsilon == eree.Guarantee(eree.Strong("0.1"), "2.08").epsilon
    _, sizes, few = eree.expected_accuracy(planned).tables
    assert sizes.mechanism == few.mechanism == "threshold-geometric"
    assert sizes.counts == "workplaces"
    assert sizes.errors[1] == pytest.approx(24.99, abs=0.01)
    assert sizes.note.startswith("107 thresholds, of which one step passes at most 1: noise at")
    assert (few.cells, few.what) == (2, "workplaces by size")
    memo = eree.memo(eree.expected_accuracy(planned))
    assert "| sizes: workplaces by size × sector |" in memo
    assert "sizes: mean error 25 workplaces, and 90% of numbers within 58." in memo


def test_profiles_of_workplaces_that_share_none_cost_what_one_does(data: Path) -> None:
    known = eree.read_schema(data).attributes["ownership"].values or ()
    tables = [
        SIZES | {"name": "one", "where": {"ownership": [known[0]]}},
        SIZES | {"name": "others", "where": {"ownership": list(known[1:])}},
    ]
    assert plan(data, *tables).price().epsilon == TOTAL.epsilon / 2500
    assert plan(data, *tables, SIZES).price().epsilon == 2 * TOTAL.epsilon / 2500


def test_dense_thresholds_share_the_price(data: Path) -> None:
    (table,) = plan(data, SIZES | {"sizes": [100, 101, 102, 200]}).tables
    assert table.measurement.mechanism.parameters["passed"] == "3"
    assert table.price.epsilon == TOTAL.epsilon / 2500
    assert "one step passes at most 3: noise at epsilon 1/75 for each" in table.measurement.note


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"count": "firms"}, "table sizes.count: must be 'jobs' or 'workplaces'"),
        ({"sizes": [3, 1]}, "table sizes: sizes must be increasing integers"),
        ({"sizes": []}, "table sizes: sizes must be increasing integers"),
        ({"sizes": ["1"]}, "table sizes.sizes: must be a list of integers"),
        ({"pooled_from": -1}, "table sizes.pooled_from: must be an integer of workers"),
        ({"by": ["sex"]}, "table sizes: workplaces are counted by and among attributes of"),
        ({"where": {"sex": ["F"]}}, "table sizes: workplaces are counted by and among"),
        ({"delta": "0.0001"}, "table sizes: threshold-geometric needs no delta"),
        ({"parameters": {"sizes": "1"}}, "table sizes: threshold-geometric takes sizes from the"),
        ({"mechanism": "radial"}, "table sizes: radial is not for numbers of workplaces; use auto"),
        ({"mechanism": "gauss"}, "table sizes: gauss is not for numbers of workplaces"),
        (
            {"target": {"cells": "0.9", "jobs": 9, "within": "0.1"}, "epsilon": None},
            "table sizes.target: is of jobs",
        ),
        ({"count": "jobs", "sizes": [1]}, "table sizes.sizes: is for tables with count"),
        ({"count": "jobs", "pooled_from": 1}, "table sizes.pooled_from: is for tables with"),
        (
            {"count": "jobs", "mechanism": "threshold-geometric"},
            "table sizes: threshold-geometric is for numbers of workplaces; add count",
        ),
    ],
)
def test_what_cannot_be_counted_is_refused(data: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(eree.Faulty) as refused:
        plan(data, table(**(SIZES | changes)))
    told = [f"{fault.column}: {fault.rule}" for fault in refused.value.faults]
    assert any(line.startswith(words) for line in told), told


def test_other_neighbours_have_profiles_too(data: Path) -> None:
    weak = privacy(neighbours="weak", types=["sex"])
    for relation in (weak, privacy(neighbours="edge", alpha=None)):
        (table,) = plan(data, SIZES, privacy=relation).tables
        assert table.measurement.mechanism.parameters["passed"] == "1"
    node = privacy(neighbours="node", alpha=None)
    (table,) = plan(data, SIZES | {"sizes": [1, 10, 100]}, privacy=node).tables
    assert table.measurement.mechanism.parameters["passed"] == "3"
    with pytest.raises(eree.Faulty, match="under node neighbours one step may pass all"):
        plan(data, SIZES, privacy=node)


def test_a_plan_without_a_profile_is_offered_one_that_can_be_pasted(
    data: Path, tmp_path: Path
) -> None:
    def shown(*tables: Mapping[str, Any], **changes: Any) -> str:
        file = tmp_path / "plan.toml"
        file.write_text(text(settings(data, table=list(tables), **changes)), encoding="utf-8")
        done = CliRunner().invoke(cli, ["plan", str(file)])
        assert done.exit_code == 0, done.output
        return done.output

    offer = "A size profile of all workplaces would cost 2% of epsilon:\n"
    _, found, offered = shown(JOBS).partition(offer)
    assert found
    with (tmp_path / "plan.toml").open("a", encoding="utf-8") as file:
        file.write(offered)
    taken = eree.Plan.read(tmp_path / "plan.toml")
    assert taken.price().epsilon == eree.Guarantee(eree.Strong("0.1"), "2.08").epsilon
    said = shown(JOBS, SIZES)
    assert offer not in said
    assert "  mean error 25 workplaces, and 90% of numbers within 58\n" in said
    assert offer not in shown(JOBS, privacy=privacy(neighbours="edge", alpha=None))


# ------------------------------------------------------------------------------------ releasing


@pytest.fixture(scope="module")
def home(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of jobs and of three profiles, one of them of all workplaces, and its ledger."""
    folder = tmp_path_factory.mktemp("released")
    ledger = eree.Ledger.create(folder / "ledger.db", TOTAL, data_set="data")
    whole = {"name": "whole", "count": "workplaces", "by": [], "share": "0.2"}
    both = {"name": "both", "by": ["place", "sector"], "sizes": [1, 30, 200], "epsilon": "0.2"}
    planned = plan(data, JOBS, SIZES | {"epsilon": "1"}, whole, SIZES | both)
    eree.publish(planned, eree.load(data), ledger=ledger, out=folder / "out")
    return folder


@pytest.fixture
def copy(home: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(home / "out", tmp_path / "copy"))


def test_a_profile_is_released_and_paid_for(data: Path, home: Path) -> None:
    ledger, release = eree.Ledger.open(home / "ledger.db"), eree.Release.open(home / "out")
    assert ledger.spent().epsilon == 4
    found = eree.verify(release, ledger=ledger)
    assert found.sound, found.faults
    rows = release.table("sizes")
    tables = eree.load(data)
    profile = SizeProfile.of(
        tables.schema, ["sector"], None, release.about("sizes")["profile"]["sizes"]
    )
    truth = pa.concat_tables(part.confidential for part in stream(tables, profile))
    same = ["sector", "at_least", "workplaces"]
    assert rows.select(same).equals(truth.select(same))
    assert rows.column_names == [
        *("sector", "at_least", "number", "noisy", "low", "high", "workplaces")
    ]
    noisy, most = rows["noisy"].to_numpy(), rows["workplaces"].to_numpy()
    off = noisy - truth["number"].to_numpy()
    assert 0 < np.abs(off).mean() < 2  # 0.85 is expected, of 800 rows: never by chance
    assert (rows["number"].to_numpy() == np.clip(noisy, 0, most)).all()
    low, high = rows["low"].to_numpy(), rows["high"].to_numpy()
    assert ((low >= 0) & (low <= high) & (high <= most)).all()
    covered = (low <= truth["number"].to_numpy()) & (truth["number"].to_numpy() <= high)
    assert covered.mean() > 0.83  # 0.9 or more is meant, and 6 standard deviations are 0.064
    assert release.table("whole").column_names[0] == "at_least"
    pooled = (home / "out" / "tables" / "sizes.csv").read_text(encoding="utf-8").splitlines()[-1]
    assert pooled.startswith(",58290,")


def changed(folder: Path, change: Callable[[dict[str, Any]], None]) -> list[str]:
    """The faults of a release whose record was changed and given a new digest."""
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    change(record)
    record["digest"] = digest_of(record)
    written = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (folder / RECORD).write_text(written, encoding="utf-8")
    return [f"{f.column}: {f.rule}" for f in eree.verify(eree.Release.open(folder)).faults]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t["profile"].update(sizes=[1, 2]), "sizes.parameters: is not what the price"),
        (lambda t: t["profile"].update(pooled_from=9), "sizes: does not have every threshold"),
        (lambda t: t["profile"].update(sizes=[2, 1]), ": sizes must be increasing integers"),
        (lambda t: t["profile"].pop("pooled_from"), ": is not written as a release's record is"),
        (lambda t: t["parameters"].update(passed="2"), "sizes.parameters: is not what the price"),
        (lambda t: t.pop("profile"), "sizes: its mechanism does not exist at its price"),
        (lambda t: t.update(mechanism="radial"), "sizes: its mechanism does not exist"),
        (lambda t: t["price"].update(epsilon="2"), "sizes.each: is not what the price gives"),
        (lambda t: t.update(rows=3), "sizes: has other columns or another number of rows"),
    ],
)
def test_a_record_that_was_made_to_look_right_is_found(
    copy: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    told = changed(copy, lambda record: change(record["tables"][1]))
    assert any(line.startswith(words) for line in told), told


def _swapped(rows: pa.Table) -> pa.Table:
    place = list(range(rows.num_rows))
    place[0], place[1] = 1, 0
    return rows.take(place)


def _set(name: str, row: int, value: object) -> Callable[[pa.Table], pa.Table]:
    def made(rows: pa.Table) -> pa.Table:
        values = rows[name].to_pylist()
        values[row] = values[row] + value if isinstance(value, int) else value
        place, field = rows.column_names.index(name), rows.field(name)
        return rows.set_column(place, field, pa.array(values, field.type))

    return made


def _turned(rows: pa.Table) -> pa.Table:
    """A noisy number below 0 where the number is above, and above all workplaces where it is 0."""
    beyond = -1 if rows["number"][3].as_py() else rows["workplaces"][3].as_py() + 1
    return _set("noisy", 3, beyond - rows["noisy"][3].as_py())(rows)


@pytest.mark.parametrize(
    ("trick", "words"),
    [
        (_turned, "number is not the noisy one"),
        (_set("number", 3, 1), "number is not the noisy one"),
        (_set("low", 3, 1), "low and high are not the ends"),
        (_set("high", -1, 1), "low and high are not the ends"),
        (_set("at_least", 3, 1), "does not have every threshold"),
        (_set("workplaces", 3, 1), "has two numbers of workplaces for one group"),
        (_set("workplaces", -1, 1), "or others in all of them than in each"),
        (_set("sector", 0, None), "has rows of a group among those of all"),
        (_set("sector", -1, "11"), "has rows of a group among those of all"),
        (_set("sector", 0, "none"), "has values of sector that the record does not declare"),
        (_swapped, "does not have every threshold"),
    ],
)
def test_rows_that_were_made_to_look_right_are_found(
    copy: Path, trick: Callable[[pa.Table], pa.Table], words: str
) -> None:
    """Both twins are changed, and the record says so."""
    path = copy / "tables" / "sizes.parquet"
    rows = trick(parquet.read_table(path))
    parquet.write_table(rows, path)
    arrow_csv.write_csv(rows, path.with_suffix(".csv"))

    def renewed(record: dict[str, Any]) -> None:
        for file in record["tables"][1]["files"]:
            record["tables"][1]["files"][file] = file_digest(copy / file)

    told = changed(copy, renewed)
    assert any(words in line for line in told), told
    assert not any("twin" in line for line in told), told


def test_a_file_that_was_changed_or_differs_from_its_twin_is_found(copy: Path) -> None:
    path = copy / "tables" / "sizes.csv"
    path.write_text(path.read_text(encoding="utf-8").replace(",58290,", ",58291,"), "utf-8")
    assert not eree.verify(eree.Release.open(copy)).sound

    def renewed(record: dict[str, Any]) -> None:
        record["tables"][1]["files"]["tables/sizes.csv"] = file_digest(path)

    assert changed(copy, renewed) == ["sizes: differs from its CSV twin"]


# ----------------------------------------------------------------------------------------- uses


def test_what_adds_up_jobs_refuses_a_profile(home: Path, tmp_path: Path) -> None:
    release = eree.Release.open(home / "out")
    damage = tmp_path / "damage.csv"
    damage.write_text("sector,damage\n11,5\n", encoding="utf-8")
    for ask in (
        lambda: eree.area_totals(release, "sizes", ["sector"]),
        lambda: eree.rank(release, "sizes", ["sector"]),
        lambda: eree.threshold(release, "sizes", ["sector"], damage, "3.5"),
        lambda: eree.lodes(release, "sector", tables=["sizes"]),
        lambda: eree.shrink(release, ["sizes"]),
        lambda: eree.size_strata(release, "sizes", [4]),
    ):
        with pytest.raises(eree.Refusal, match=r"^table sizes counts workplaces by size, not jobs"):
            ask()
    assert set(eree.lodes(release, "place").sources.values()) == {"jobs"}


def test_the_query_tool_serves_the_jobs_beside_a_profile(
    data: Path, home: Path, tmp_path: Path
) -> None:
    found = Catalogue.open([home / "out"])
    assert [data.title for data in found.data_sets] == ["Jobs: by place, NAICS sector"]
    ledger = eree.Ledger.create(tmp_path / "ledger.db", TOTAL, data_set="data")
    eree.publish(plan(data, SIZES), eree.load(data), ledger=ledger, out=tmp_path / "out")
    with pytest.raises(eree.Refusal, match="has no table of jobs to serve"):
        Catalogue.open([tmp_path / "out"])
