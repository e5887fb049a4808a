"""Tables of several marginals from one draw: plans, prices, rows, verification, estimates."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import eree
import eree_study
from cases import FALSE_ALARM
from eree.cells import Cells
from eree.data.engine import DuckEngine
from eree.estimate.calibrated import calibrated_table
from eree.mechanisms.mechanism import EMPTY
from eree.mechanisms.registry import OF_MARGINALS, calibrate
from eree.release import publish as publishing
from eree.release.draw import draws_of
from eree.release.measure import evenly, measure_of
from eree.release.price import measurement_for
from eree.release.record import RECORD, digest_of, file_digest
from eree.verification.tables import TableRecheck
from uses import eree_command, true_sums

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACE = ["tract", "sector", "ownership"]
MARGINALS = ["age", "race", ["sex", "education"]]
NAMES = ("wac-age", "wac-race", "wac-sex-education")
VALUES = {"wac-age": 3, "wac-race": 6, "wac-sex-education": 8}
WAC = {"name": "wac", "by": PLACE, "marginals": MARGINALS, "epsilon": "4"}
TRACTS = {"name": "tracts", "by": ["tract"], "epsilon": "1", "mechanism": "smooth-pareto"}


def planned(tables: eree.Tables, *asked: dict[str, Any], **privacy: Any) -> eree.Plan:
    given = {"neighbours": "strong", "alpha": "0.1", "epsilon": "9"} | privacy
    kept = {name: value for name, value in given.items() if value is not None}
    return eree.Plan.of({"data": str(tables.folder), "privacy": kept, "table": list(asked)})


def drawn(plan: eree.Plan, tables: eree.Tables, out: Path, seed: int = 5) -> eree.Release:
    return eree.publish(plan, tables, ledger=None, out=out, random=eree.SeededRandom(seed))


def totals(release: eree.Release, table: str) -> list[int]:
    values = release.about(table)["worker_cells"]
    sums = release.table(table)["noisy"].to_numpy().reshape(-1, values).sum(axis=1)
    found: list[int] = sums.tolist()
    return found


def checked(release: eree.Release) -> list[str]:
    """Where a release has faults, past its seeded source, at which `verify` would stop."""
    recheck = TableRecheck(release, lambda _step, _done: None)
    recheck.contents()
    return [fault.column for fault in recheck.faults]


@pytest.fixture(scope="module")
def paid(population: eree.Tables, tmp_path_factory: pytest.TempPathFactory) -> eree.Release:
    """A release that a ledger paid for, of three marginals and of one more table."""
    home = tmp_path_factory.mktemp("marginals")
    plan = planned(population, WAC, TRACTS)
    ledger = eree.Ledger.create(home / "ledger.db", plan.total, data_set="data")
    return eree.publish(plan, population, ledger=ledger, out=home / "out")


@pytest.fixture(scope="module")
def seeded(population: eree.Tables, tmp_path_factory: pytest.TempPathFactory) -> eree.Release:
    return drawn(planned(population, WAC), population, tmp_path_factory.mktemp("seeded") / "out")


# ------------------------------------------------------------------------------ plans


def test_marginals_become_tables_of_one_price(population: eree.Tables) -> None:
    plan = planned(population, WAC, TRACTS)
    assert [table.name for table in plan.tables] == [*NAMES, "tracts"]
    assert [table.marginal.by for table in plan.tables[:3]] == [
        (*PLACE, "age"),
        (*PLACE, "race"),
        (*PLACE, "sex", "education"),
    ]
    assert [draw.name for draw in plan.draws] == [", ".join(NAMES), "tracts"]
    assert plan.price().epsilon == 5
    for table in plan.tables[:3]:
        made = table.measurement
        assert made.mechanism.name == OF_MARGINALS
        assert made.worker_cells == made.mechanism.at_once == VALUES[table.name]
        assert made.settings == {
            "blocks": "3,6,8",
            "shown": NAMES.index(table.name),
            "tables": list(NAMES),
        }


@given(
    marginals=st.permutations(["age", "race", "sex", "education", "ethnicity"]),
    number=st.integers(2, 5),
    epsilon=st.fractions("2", 8, max_denominator=50),
    sector=st.booleans(),
)
def test_any_number_of_marginals_costs_what_one_costs(
    population: eree.Tables,
    marginals: list[str],
    number: int,
    epsilon: Fraction,
    sector: bool,
) -> None:
    where = {"sector": ["62"]} if sector else {}
    asked = WAC | {"marginals": marginals[:number], "epsilon": str(epsilon), "where": where}
    rest = {"name": "rest", "by": ["tract"], "where": {"sector": ["72"]}, "epsilon": "1"}
    rest |= {"mechanism": "smooth-pareto"}
    plan = planned(population, asked, rest)
    assert len(plan.tables) == number + 1
    # other sectors are other workplaces; without a filter some workplaces are in both
    assert plan.price().epsilon == (max(epsilon, Fraction(1)) if sector else epsilon + 1)
    assert {table.price.epsilon for table in plan.tables[:-1]} == {epsilon}


def test_a_share_and_a_target_price_all_marginals_at_once(population: eree.Tables) -> None:
    wanted = {name: value for name, value in WAC.items() if name != "epsilon"}
    assert planned(population, wanted | {"share": "1/3"}).price().epsilon == 3
    target = {"cells": "0.9", "jobs": 100, "within": "0.3"}
    found = planned(population, wanted | {"target": target})
    price = found.price().epsilon

    def within(plan: eree.Plan) -> int:
        cell = eree.Cell(100)
        made = [table.measurement.mechanism for table in plan.tables]
        return max(mechanism.total_quantile(0.9, cell) for mechanism in made)

    assert within(found) <= 30
    less = planned(population, WAC | {"epsilon": str(price - Fraction(1, 1000))})
    assert within(less) > 30


@pytest.mark.parametrize(
    ("changes", "privacy", "words"),
    [
        ({"marginals": []}, {}, "two or more"),
        ({"marginals": ["age"]}, {}, "two or more"),
        ({"marginals": ["age", []]}, {}, "needs two or more values"),
        ({"marginals": ["age", "age"]}, {}, "age and age, which are of one column"),
        ({"marginals": ["age", ["sex", "age"]]}, {}, "age and age, which are of one column"),
        ({"marginals": [["sex", "sex"], "age"]}, {}, "sex and sex, which are of one column"),
        ({"marginals": ["age", "sector"]}, {}, "sector, which is of workplaces"),
        ({"marginals": ["age", "nothing"]}, {}, "does not declare"),
        ({"marginals": "age"}, {}, "must be a list of worker attributes"),
        ({"marginals": ["age", 7]}, {}, "must be a list of worker attributes"),
        ({"by": ["tract", "sex"]}, {}, "by names sex, which is of workers"),
        ({"by": ["tract", "tract"]}, {}, "names an attribute twice"),
        ({"mechanism": "vector-radial"}, {}, "use auto or marginals-radial"),
        ({"parameters": {"blocks": "3,6,8"}}, {}, "leave parameters out"),
        ({"delta": "0.01"}, {"delta": "0.1"}, "leave delta out"),
        ({"epsilon": "1", "mechanism": "marginals-radial"}, {}, "needs epsilon of 1.43"),
        ({}, {"neighbours": "edge", "alpha": None}, "under strong or weak neighbours"),
        ({}, {"neighbours": "node", "alpha": None}, "under strong or weak neighbours"),
        (
            {},
            {"neighbours": "weak", "types": ["sex", "age"]},
            "race is not one of the worker types",
        ),
        ({"count": "workplaces"}, {}, "are of jobs"),
        ({"name": "x" * 95}, {}, "cannot be a file's name"),
        ({"where": {"sex": ["X"]}}, {}, "is not a declared value of sex"),
    ],
)
def test_what_cannot_be_drawn_at_once_is_refused(
    population: eree.Tables, changes: dict[str, Any], privacy: dict[str, Any], words: str
) -> None:
    with pytest.raises(eree.Faulty) as caught:
        planned(population, WAC | changes, **privacy)
    assert words in " ".join(fault.rule for fault in caught.value.faults)


def test_auto_draws_marginals_apart_where_one_draw_is_not_possible_and_says_why(
    population: eree.Tables,
) -> None:
    """And one draw wherever it is possible: it has less error than draws apart at equal price."""
    little = planned(population, WAC | {"epsilon": "1"})
    assert little.price().epsilon == 1
    assert [table.price.epsilon for table in little.tables] == [Fraction(1, 3)] * 3
    assert not any(table.measurement.drawn_with for table in little.tables)
    words = little.tables[0].measurement.note
    assert words.startswith("auto: each marginal from a draw of its own, at 1/3, because")
    needed = re.search(r"epsilon ([0-9.]+) would have ([0-9]+)% of the error", words)
    assert needed is not None
    assert int(needed[2]) < 50
    enough = planned(population, WAC | {"epsilon": needed[1]})
    assert len(enough.draws) == 1
    assert re.match(
        r"auto: one draw has [1-9][0-9]?% of the error of a draw for each marginal; drawn at once",
        enough.tables[0].measurement.note,
    )


def test_marginals_of_a_column_and_of_its_groups_are_refused(tmp_path: Path) -> None:
    data = eree_study.synthesize(tmp_path / "data", jobs=1_000)
    group = '\n[group.sexes]\nof = "sex"\nmembers = { a = ["F"], b = ["M"] }\n'
    one = '\n[group.everyone]\nof = "race"\nmembers = { a = {} }\n'
    races = eree.load(data).schema.attributes["race"].values or ()
    text = (data / "schema.toml").read_text(encoding="utf-8") + group
    text += one.replace("{}", json.dumps(races))
    (data / "schema.toml").write_text(text, encoding="utf-8")
    tables = eree.load(data)
    with pytest.raises(eree.Faulty, match="sex and sexes, which are of one column"):
        planned(tables, WAC | {"marginals": ["sex", ["age", "sexes"]]})
    with pytest.raises(eree.Faulty, match="needs two or more values"):
        planned(tables, WAC | {"marginals": ["sex", "everyone"]})
    assert planned(tables, WAC | {"marginals": ["sexes", "age"]}).price().epsilon == 4


@pytest.mark.parametrize("first", [True, False])
def test_the_names_of_marginals_are_not_used_twice(population: eree.Tables, first: bool) -> None:
    for other in (
        {"name": "WAC-Age", "by": ["tract"], "epsilon": "1"},
        {"name": "wac", "by": ["tract"], "epsilon": "1"},
        {"name": "WAC", "by": ["county"], "marginals": ["age", "sex"], "epsilon": "3"},
    ):
        with pytest.raises(eree.Faulty) as caught:
            planned(population, *((other, WAC) if first else (WAC, other)))
        assert "used twice" in " ".join(fault.rule for fault in caught.value.faults)


def test_weak_neighbours_whose_types_are_known_will_do(population: eree.Tables) -> None:
    types = ["age", "race", "sex", "education"]
    assert planned(population, WAC, neighbours="weak", types=types).price().epsilon == 4


def test_a_plan_of_half_a_draw_is_refused(population: eree.Tables) -> None:
    """Before anything is paid: what rides free would be a draw that nobody paid for."""
    plan = planned(population, WAC, TRACTS)
    age, race, crossed, alone = plan.tables
    cheaper = planned(population, WAC | {"epsilon": "2"}).tables
    filtered = planned(population, WAC | {"where": {"sector": ["62"]}}).tables
    coarser = planned(population, WAC | {"by": ["county", "sector", "ownership"]}).tables
    lonely = replace(race, measurement=replace(race.measurement, drawn_with=()))
    free = replace(alone, measurement=replace(alone.measurement, drawn_with=NAMES))
    for tables in (
        (age, race),
        (race,),
        (age, race, crossed, replace(race, name="another")),
        (age, cheaper[1], crossed),
        (age, filtered[1], crossed),
        (age, coarser[1], crossed),
        (age, lonely, crossed),
        (age, race, crossed, free),
        (age, replace(crossed, name="wac-race"), replace(race, name="wac-sex-education")),
        (age, age, race, crossed),
    ):
        with pytest.raises(eree.Refusal, match=r"not drawn at once|two tables of one name"):
            replace(plan, tables=tables)
    assert replace(plan, tables=(crossed, alone, age, race)).price().epsilon == 5


def test_no_record_makes_a_marginal_of_other_settings(population: eree.Tables) -> None:
    schema, table = population.schema, planned(population, WAC).tables[0]
    sound = dict(table.measurement.settings)
    for changes in (
        {"blocks": "3,6"},
        {"blocks": "03,6,8"},
        {"blocks": [3, 6, 8]},
        {"blocks": "4,6,8"},
        {"blocks": ""},
        {"shown": 1},
        {"shown": 3},
        {"shown": -1},
        {"shown": "0"},
        {"shown": True},
        {"tables": list(NAMES[:2])},
        {"tables": ["wac-age", "wac-age", "wac-race"]},
        {"tables": "abc"},
        {"tables": [1, 2, 3]},
        {"tables": None},
        {"more": 1},
    ):
        with pytest.raises(eree.Refusal, match="marginals"):
            measurement_for(schema, table.marginal, table.price, OF_MARGINALS, sound | changes)
    for missing in sound:
        some = {name: value for name, value in sound.items() if name != missing}
        with pytest.raises(eree.Refusal, match="marginals"):
            measurement_for(schema, table.marginal, table.price, OF_MARGINALS, some)
    made = measurement_for(schema, table.marginal, table.price, OF_MARGINALS, sound)
    assert replace(made, note=table.measurement.note) == table.measurement


# ------------------------------------------------------------------------------ what is drawn


@pytest.mark.parametrize("where", [{}, {"sector": ["62", "72"]}, {"sex": ["F"], "age": ["30-54"]}])
def test_all_marginals_are_made_of_one_draw(
    population: eree.Tables, tmp_path: Path, where: dict[str, Any]
) -> None:
    """The same draw of counts that were found in another way: of all attributes crossed."""
    plan = planned(population, WAC | {"where": where, "by": ["county", "sector"]})
    release = drawn(plan, population, tmp_path / "out")
    by = ["age", "race", "sex", "education"]
    cells = eree.tabulate(population, ["county", "sector", *by], where).confidential
    counts = cells["count"].to_numpy().reshape(-1, 3, 6, 8)
    stacked = np.concatenate([counts.sum((2, 3)), counts.sum((1, 3)), counts.sum((1, 2))], axis=1)
    largests = cells["largest_total"].to_numpy()[::144]
    whole = calibrate(OF_MARGINALS, plan.price(), {"blocks": "3,6,8"})
    expected = whole.draw(stacked, largests, random=eree.SeededRandom(5))
    for name, own in zip(NAMES, np.split(expected, [3, 9], axis=1), strict=True):
        rows = release.table(name)
        assert rows["noisy"].to_pylist() == own.ravel().tolist()
        exact = eree.tabulate(population, release.about(name)["by"], where).confidential
        for column in (*release.about(name)["by"], "workplaces"):
            assert rows[column].to_pylist() == exact[column].to_pylist()
    assert checked(release) == ["statements"]  # nothing is promised of a seeded release


def test_all_tables_have_one_total_in_every_group(paid: eree.Release) -> None:
    first, *others = (totals(paid, name) for name in NAMES)
    assert all(other == first for other in others)
    assert eree.verify(paid).sound


def test_a_seed_makes_the_same_release_on_either_engine(
    population: eree.Tables, seeded: eree.Release, tmp_path: Path, spark: SparkSession
) -> None:
    plan = planned(population, WAC)
    for engine in ("duckdb", spark):
        again = drawn(plan, replace(population, engine=engine), tmp_path / str(type(engine)))
        for name in NAMES:
            assert again.table(name).equals(seeded.table(name))


def test_a_marginal_is_never_drawn_by_itself(population: eree.Tables) -> None:
    table = planned(population, WAC).tables[0]
    measure = measure_of(population.schema, table.marginal, table.measurement, 0.9)
    with pytest.raises(eree.Refusal, match="none by itself"):
        next(measure.public_rows(lambda _: [], eree.SeededRandom(1)))


def test_a_table_without_workplaces_has_no_rows(population: eree.Tables, tmp_path: Path) -> None:
    cells = eree.tabulate(population, ["sector", "ownership"]).confidential
    there = {*zip(cells["sector"].to_pylist(), cells["ownership"].to_pylist(), strict=True)}
    sectors = population.schema.attributes["sector"].values or ()
    sector = next(str(one) for one in sectors if (one, "public") not in there)
    where = {"sector": [sector], "ownership": ["public"]}
    release = drawn(planned(population, WAC | {"where": where}), population, tmp_path / "out")
    assert [release.table(name).num_rows for name in NAMES] == [0, 0, 0]
    assert checked(release) == ["statements"]  # nothing is promised of a seeded release


@pytest.mark.parametrize(
    "disturb",
    [
        lambda rows: rows.slice(0, rows.num_rows - 1),
        lambda rows: rows.take(np.arange(rows.num_rows)[::-1]),
        lambda rows: rows.set_column(
            rows.column_names.index("_count_0"),
            "_count_0",
            pa.array(rows["_count_0"].to_numpy() + 1),
        ),
    ],
)
def test_marginals_that_do_not_fit_are_not_drawn(
    population: eree.Tables,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    disturb: Callable[[pa.Table], pa.Table],
) -> None:
    """An engine that counts wrong: nothing appears, and no count is quoted."""
    query = DuckEngine.query

    def disturbed(engine: DuckEngine, sql: str) -> pa.RecordBatchReader:
        found = query(engine, sql)
        return disturb(found.read_all()).to_reader() if "_count_0" in sql else found

    monkeypatch.setattr(DuckEngine, "query", disturbed)
    plan = planned(population, WAC)
    ledger = eree.Ledger.create(tmp_path / "ledger.db", plan.total, data_set="data")
    with pytest.raises(eree.EngineFailure, match=r"came|missing") as caught:
        eree.publish(plan, population, ledger=ledger, out=tmp_path / "out")
    assert "the price of epsilon 4 is spent" in str(caught.value)
    assert ledger.spent().epsilon == 4
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} == {"ledger.db"}


def test_draws_do_not_hang_on_how_an_engine_cuts_its_rows() -> None:
    rows, marginal = pa.table({"n": list(range(24))}), eree.Marginal((), {})
    for cuts in ([24], [1, 23], [5, 5, 14], [23, 1], [0, 8, 16], [3] * 8):
        starts = np.cumsum([0, *cuts])
        parts = [Cells(marginal, rows.slice(s, n)) for s, n in zip(starts, cuts, strict=False)]
        found = [cells.confidential["n"].to_pylist() for cells in evenly(parts, 10)]
        assert found == [list(range(10)), list(range(10, 20)), list(range(20, 24))]
    assert list(evenly([], 10)) == []


def test_what_is_killed_between_two_tables_leaves_nothing(
    population: eree.Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    written = publishing._Files.write
    files: list[str] = []

    def killed(self: Any, rows: pa.Table) -> None:
        files.append(self.table.name)
        if len(files) == 2:
            raise Killed
        written(self, rows)

    monkeypatch.setattr(publishing._Files, "write", killed)
    plan = planned(population, WAC)
    ledger = eree.Ledger.create(tmp_path / "ledger.db", plan.total, data_set="data")
    with pytest.raises(Killed):
        eree.publish(plan, population, ledger=ledger, out=tmp_path / "out")
    assert files == list(NAMES[:2])
    assert ledger.spent().epsilon == 4
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} == {"ledger.db"}


# ------------------------------------------------------------------------------ verification


def rewritten(
    release: eree.Release, out: Path, change: Callable[[dict[str, Any], dict[str, Any]], Any]
) -> list[str]:
    """The faults of a copy whose record was changed and given digests to match."""
    shutil.copytree(release.folder, out)
    record = json.loads((out / RECORD).read_text(encoding="utf-8"))
    change({table["name"]: table for table in record["tables"]}, record)
    for table in record["tables"]:
        table["files"] = {name: file_digest(out / name) for name in table["files"]}
    record["digest"] = digest_of(record)
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (out / RECORD).write_text(text, encoding="utf-8")
    return [f"{f.column}: {f.rule}" for f in eree.verify(eree.Release.open(out)).faults]


def _priced(record: dict[str, Any], epsilon: str) -> None:
    """Let a record promise what it would if its tables cost so much."""
    price = eree.Guarantee(eree.Strong("0.1"), epsilon)
    record["guarantee"]["epsilon"] = epsilon
    record["statements"] = [statement.words for statement in price.statements()]


def test_a_release_of_marginals_is_sound_and_paid_for_once(
    paid: eree.Release, tmp_path: Path
) -> None:
    found = eree.verify(paid)
    assert found.sound, found.faults
    assert paid.guarantee.epsilon == 5
    assert "2 mechanisms keep their claims, by their certificates" in found.checks
    assert any("drawn at once" in check for check in found.checks)
    assert rewritten(paid, tmp_path / "out", lambda *_: None) == []


def _removed(known: dict[str, Any], record: dict[str, Any]) -> None:
    record["tables"].remove(known["wac-race"])


def _removed_and_unnamed(known: dict[str, Any], record: dict[str, Any]) -> None:
    record["tables"].remove(known["wac-race"])
    for place, name in enumerate(("wac-age", "wac-sex-education")):
        said = {"blocks": "3,8", "shown": place, "tables": ["wac-age", "wac-sex-education"]}
        known[name]["settings"] = said


def _free(_known: dict[str, Any], record: dict[str, Any]) -> None:
    _priced(record, "1")


def _each(_known: dict[str, Any], record: dict[str, Any]) -> None:
    _priced(record, "13")


def _other_name(known: dict[str, Any], _record: dict[str, Any]) -> None:
    known["wac-age"]["settings"]["tables"] = ["wac-age", "wac-race", "tracts"]


def _other_order(known: dict[str, Any], _record: dict[str, Any]) -> None:
    for name in NAMES:
        known[name]["settings"]["tables"] = [*NAMES[1:], NAMES[0]]


def _other_filter(known: dict[str, Any], record: dict[str, Any]) -> None:
    record["attributes"]["sector"]["values"] = record["attributes"]["sector"]["values"]
    known["wac-age"]["where"] = {"sector": record["attributes"]["sector"]["values"]}


def _alone(known: dict[str, Any], _record: dict[str, Any]) -> None:
    known["wac-age"]["settings"] = {}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_removed, "was not drawn at once with the tables that it names"),
        (_removed_and_unnamed, "wac-age.parameters: is not what the price gives"),
        (_free, "guarantee: is not what the prices"),
        (_each, "guarantee: is not what the prices"),
        (_other_name, "was not drawn at once with the tables that it names"),
        (_other_order, "was not drawn at once with the tables that it names"),
        (_other_filter, "was not drawn at once with the tables that it names"),
        (_alone, "wac-age.parameters: is not what the price gives"),
    ],
)
def test_a_record_of_another_draw_is_found(
    paid: eree.Release,
    tmp_path: Path,
    change: Callable[[dict[str, Any], dict[str, Any]], Any],
    words: str,
) -> None:
    def changed(known: dict[str, Any], record: dict[str, Any]) -> None:
        change(known, record)
        for name in set(known) - {table["name"] for table in record["tables"]}:
            for file in (tmp_path / "out" / "tables").glob(f"{name}.*"):
                file.unlink()

    assert words in " ".join(rewritten(paid, tmp_path / "out", changed))


def test_a_table_of_another_draw_is_found(
    population: eree.Tables, paid: eree.Release, tmp_path: Path
) -> None:
    other = drawn(planned(population, WAC), population, tmp_path / "other")

    def swap(_known: dict[str, Any], _record: dict[str, Any]) -> None:
        for suffix in ("csv", "parquet"):
            name = f"tables/wac-race.{suffix}"
            shutil.copy(other.folder / name, tmp_path / "out" / name)

    assert rewritten(paid, tmp_path / "out", swap) == [
        "wac-race: has other groups or totals than wac-age: they are of two draws"
    ]


def test_a_changed_total_is_found(paid: eree.Release, tmp_path: Path) -> None:
    """With ends that fit the changed count."""
    about = paid.about("wac-age")
    marginal = eree.Marginal.over(paid.schema, about["by"], about["where"])
    made = measurement_for(
        paid.schema, marginal, planned_price(), about["mechanism"], about["settings"]
    )
    measure = measure_of(paid.schema, marginal, made, 0.9)

    def change(_known: dict[str, Any], _record: dict[str, Any]) -> None:
        rows = paid.table("wac-age")
        noisy = rows["noisy"].to_numpy().copy()
        noisy[4] += 1
        public = measure.rows(rows.select([*marginal.by, "workplaces"]), noisy).rows
        home = tmp_path / "out" / "tables"
        parquet.write_table(public, home / "wac-age.parquet")
        arrow_csv.write_csv(public, home / "wac-age.csv")

    assert rewritten(paid, tmp_path / "out", change) == [
        "wac-race: has other groups or totals than wac-age: they are of two draws",
        "wac-sex-education: has other groups or totals than wac-age: they are of two draws",
    ]


def planned_price() -> eree.Guarantee:
    return eree.Guarantee(eree.Strong("0.1"), 4)


def test_a_file_that_is_gone_is_found(paid: eree.Release, tmp_path: Path) -> None:
    shutil.copytree(paid.folder, tmp_path / "out")
    (tmp_path / "out" / "tables" / "wac-race.csv").unlink()
    found = eree.verify(eree.Release.open(tmp_path / "out")).faults
    assert [(fault.file, fault.rule) for fault in found] == [("tables/wac-race.csv", "is missing")]


def test_draws_are_found_among_tables_in_any_order(population: eree.Tables) -> None:
    tables = planned(population, WAC, TRACTS).tables
    for order in ((3, 2, 1, 0), (1, 3, 0, 2)):
        found = draws_of(population.schema, [tables[i] for i in order])
        assert sorted(draw.name for draw in found) == ["tracts", ", ".join(NAMES)]
    assert draws_of(population.schema, []) == []


# ------------------------------------------------------------------------------ estimates


def test_intervals_hold_for_true_counts(population: eree.Tables, seeded: eree.Release) -> None:
    """Those of any data at least as often as they promise, those of the model about as often."""
    for name in NAMES:
        by = seeded.about(name)["by"]
        true = true_sums(population, by, by)
        rows = eree.area_totals(seeded, name, by).rows.to_pylist()
        counts = np.array([true[tuple(row[n] for n in by)] for row in rows])
        for low, high, least in (("guaranteed_low", "guaranteed_high", 0.9), ("low", "high", 0.84)):
            ends = [(row[low], np.inf if row[high] is None else row[high]) for row in rows]
            missed = sum(not a <= n <= b for (a, b), n in zip(ends, counts, strict=True))
            found = stats.binomtest(missed, len(rows), 1 - least, alternative="greater")
            assert found.pvalue > FALSE_ALARM, (name, low)
        made = calibrated_table(seeded, name)
        assert made is not None
        assert made.fit is None  # there is no other table, and those of one draw are no check


def test_totals_of_all_marginals_are_the_same(seeded: eree.Release) -> None:
    found = [eree.area_totals(seeded, name, ["sector"]).rows for name in NAMES]
    for column in ("sector", "noisy", "guaranteed_low", "guaranteed_high"):
        assert len({tuple(rows[column].to_pylist()) for rows in found}) == 1


def test_public_noise_is_as_wide_as_drawn_noise(population: eree.Tables) -> None:
    """The draws that estimates are made of have the variances that the mechanism states."""
    for table in planned(population, WAC).tables:
        mechanism = table.measurement.mechanism
        for size in (0, 25, 1_000):
            noise = mechanism.public_noise(size, 1 << 14)
            assert noise is not None
            assert noise.shape == (1 << 14, VALUES[table.name])
            assert np.array_equal(noise, np.rint(noise))
            stated = mechanism.covariance(eree.Cell(0, size))  # type: ignore[attr-defined]
            assert np.cov(noise.T) == pytest.approx(stated, rel=0.15, abs=0.1 * stated.max())
        assert mechanism.public_noise(5, 1 << 15) is None
        assert mechanism.whole.public_noise(5, 100) is None
        assert mechanism.mean_error(EMPTY)[0] > 0


def test_lodes_takes_its_columns_from_marginals(population: eree.Tables, tmp_path: Path) -> None:
    marginals = ["age", "earnings", "race", "ethnicity", "education", "sex"]
    plan = planned(population, {**WAC, "by": ["tract", "sector"], "marginals": marginals})
    release = drawn(plan, population, tmp_path / "out")
    made = eree.lodes(release, "tract", numbers="measured")
    assert made.missing == {}
    for prefix, name in (("CA", "age"), ("CR", "race"), ("CT", "ethnicity"), ("CS", "sex")):
        own = [column for column in made.sources if column.startswith(prefix)]
        assert {made.sources[column] for column in own} == {f"wac-{name}"}
        sums = sum(made.rows[column].to_numpy() for column in own)
        assert sums.tolist() == made.rows["C000"].to_pylist()


def test_ranks_and_estimates_are_made_of_each(seeded: eree.Release, tmp_path: Path) -> None:
    shutil.copytree(seeded.folder, tmp_path / "out")
    release = eree.Release.open(tmp_path / "out")
    assert eree.rank(release, "wac-sex-education", by=["sector"]).rows.num_rows > 5
    assert eree.shrink(release, ["wac-race"]).rows.num_rows == release.table("wac-race").num_rows
    assert set(eree.write_estimates(release).tables) == set(NAMES)
    assert checked(release) == ["statements"]  # nothing is promised of a seeded release


# ------------------------------------------------------------------------------ commands


def test_the_plan_shows_one_price_and_every_table(population: eree.Tables, tmp_path: Path) -> None:
    text = f'data = "{population.folder}"\n[privacy]\nneighbours = "strong"\nalpha = "0.1"\n'
    text += 'epsilon = "4"\n[[table]]\nname = "wac"\nby = ["county", "sector"]\n'
    text += 'marginals = ["age", "race", ["sex", "education"]]\nepsilon = "4"\n'
    (tmp_path / "plan.toml").write_text(text, encoding="utf-8")
    done = eree_command("plan", tmp_path / "plan.toml", "--memo", tmp_path / "memo.md")
    assert done[0] == 0, done
    lines = done[1].splitlines()
    assert lines[0] == f"{', '.join(NAMES)}: marginals that are drawn at once"
    assert lines[1] == "  epsilon 4 for all of them; marginals-radial; one total in every group"
    assert [line.partition(":")[0] for line in lines if line.startswith("  wac")] == [
        f"  {name}" for name in NAMES
    ]
    assert done[1].count("mean error, and 90% of cells within") == 3
    assert "In all: epsilon 4, delta 0" in done[1]
    memo = (tmp_path / "memo.md").read_text(encoding="utf-8")
    assert memo.count("| marginals-radial | 4 | 0 |") == 1
    assert memo.count("| marginals-radial | with wac-age | |") == 2
    assert "all 3 tables are paid for once" in memo
    found = json.loads(eree_command("plan", tmp_path / "plan.toml", "--json")[1])
    assert [table["drawn_with"] for table in found["tables"]] == [list(NAMES)] * 3
    assert found["price"]["epsilon"] == "4"
