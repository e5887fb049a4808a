"""Two margins of a release that are drawn at once: plans, prices, rows, ends, proofs, estimates."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest
from scipy import stats

import eree
import eree_study
from cases import FALSE_ALARM
from eree.estimate.margins import learn_from_margins
from eree.mechanisms.margins_radial import MarginsRadial
from eree.release.contents import schema_of
from eree.release.margins import drawn_at_once, pays
from eree.release.record import RECORD, digest_of, file_digest
from eree.release.sums import Areas
from eree.release.treatment import treat
from uses import PEOPLE, eree_command, true_sums

ALL = ["place", "sector", "ownership"]
PAIR = ("people-sex", "people-education")
TABLE = {"name": "people", "by": PEOPLE, "mechanism": "margins-radial", "epsilon": "2"}

PLACES = {"name": "places", "by": ["place"], "epsilon": "1", "mechanism": "smooth-pareto"}


def planned(tables: eree.Tables, *asked: dict[str, Any], **privacy: Any) -> eree.Plan:
    given = {"neighbours": "strong", "alpha": "0.1", "epsilon": "9"} | privacy
    kept = {name: value for name, value in given.items() if value is not None}
    return eree.Plan.of({"data": str(tables.folder), "privacy": kept, "table": list(asked)})


def drawn(plan: eree.Plan, tables: eree.Tables, out: Path, seed: int = 5) -> eree.Release:
    return eree.publish(plan, tables, ledger=None, out=out, coins=eree.SeededCoins(seed))


@pytest.fixture(scope="module")
def paid(population: eree.Tables, tmp_path_factory: pytest.TempPathFactory) -> eree.Release:
    """A release that a ledger paid for, of both margins and of one more table."""
    home = tmp_path_factory.mktemp("margins")
    plan = planned(population, TABLE, PLACES)
    ledger = eree.Ledger.create(home / "ledger.db", plan.total, data_set="data")
    return eree.publish(plan, population, ledger=ledger, out=home / "out")


# ------------------------------------------------------------------------------ plans


def test_a_table_by_two_attributes_becomes_two_that_are_paid_for_once(
    population: eree.Tables,
) -> None:
    plan = planned(population, TABLE, PLACES)
    assert [table.name for table in plan.tables] == [*PAIR, "places"]
    assert [table.marginal.by for table in plan.tables[:2]] == [
        (*ALL, "sex"),
        (*ALL, "education"),
    ]
    assert [table.drawn_with for table in plan.tables] == [PAIR[1], PAIR[0], None]
    assert plan.price().epsilon == 3
    looked = eree.outlook(plan).tables
    assert [table.epsilon for table in looked] == ["2", "2", "1"]
    assert "drawn at once with the counts by education" in looked[0].note
    assert [table.drawn_with for table in looked] == [PAIR[1], PAIR[0], None]


def test_a_target_is_met_by_both_margins(population: eree.Tables) -> None:
    wanted = {k: v for k, v in TABLE.items() if k != "epsilon"}
    target = {"cells": "0.9", "jobs": 100, "within": "0.3"}
    found = planned(population, wanted | {"target": target})
    within = [table.treatment.quantile(0.9, 100) for table in found.tables]
    assert max(within) <= 30
    price = found.tables[0].price.epsilon
    less = planned(population, TABLE | {"epsilon": str(price - Fraction(1, 1000))})
    assert max(table.treatment.quantile(0.9, 100) for table in less.tables) > 30


@pytest.mark.parametrize(
    ("changes", "privacy", "words"),
    [
        ({"by": [*ALL, "sex"]}, {}, "two worker attributes, one of which has two values"),
        ({"by": [*PEOPLE, "age"]}, {}, "two worker attributes, one of which has two values"),
        ({"by": [*ALL, "age", "education"]}, {}, "one of which has two values"),
        ({"parameters": {"with": "sex"}}, {}, "takes no parameters"),
        ({"delta": "0.01"}, {"delta": "0.1"}, "leave delta out"),
        ({"epsilon": "0.4"}, {}, "needs epsilon of 0.4771 or more (above 5 ln"),
        ({}, {"neighbours": "edge", "alpha": None}, "needs strong or weak neighbours"),
        ({}, {"neighbours": "weak", "types": ["sex"]}, "education is not one of the worker types"),
        ({"name": "x" * 95}, {}, "is too long"),
        ({"by": [*ALL, "sex", "sex"]}, {}, "names an attribute twice"),
    ],
)
def test_what_has_no_margins_is_refused(
    population: eree.Tables, changes: dict[str, Any], privacy: dict[str, Any], words: str
) -> None:
    with pytest.raises(eree.Faulty) as caught:
        planned(population, TABLE | changes, **privacy)
    assert words in " ".join(fault.rule for fault in caught.value.faults)


def test_an_attribute_and_a_group_of_it_have_no_margins(tmp_path: Path) -> None:
    data = eree_study.synthesize(tmp_path / "data", jobs=1_000)
    group = '\n[group.sexes]\nof = "sex"\nmembers = { a = ["F"], b = ["M"] }\n'
    with (data / "schema.toml").open("a", encoding="utf-8") as file:
        file.write(group)
    tables = eree.load(data)
    with pytest.raises(eree.Faulty, match="are made of the same column"):
        planned(tables, TABLE | {"by": ["place", "sex", "sexes"]})
    price = eree.Guarantee(eree.Strong("0.1"), 2)
    marginal = eree.Marginal.over(tables.schema, ["place", "sex"])
    with pytest.raises(eree.Refusal, match="are made of the same column"):
        treat(tables.schema, marginal, price, MarginsRadial.name, {"with": "sexes"})


def test_an_attribute_whose_name_is_no_files_is_told(tmp_path: Path) -> None:
    data = eree_study.synthesize(tmp_path / "data", jobs=1_000)
    known = eree.load(data).schema.attributes["education"].values or ()
    group = f"""
[group."any/how"]
of = "education"
members = {{ a = {json.dumps(known[:1])}, b = {json.dumps(known[1:])} }}
"""
    with (data / "schema.toml").open("a", encoding="utf-8") as file:
        file.write(group)
    with pytest.raises(eree.Faulty, match="cannot stand in a file's"):
        planned(eree.load(data), TABLE | {"by": ["place", "sex", "any/how"]})


@pytest.mark.parametrize("first", [True, False])
def test_the_name_of_a_margin_is_not_used_twice(population: eree.Tables, first: bool) -> None:
    other = {"name": "People-Sex", "by": ["place"], "epsilon": "1"}
    tables = [other, TABLE] if first else [TABLE, other]
    with pytest.raises(eree.Faulty) as caught:
        planned(population, *tables)
    assert "used twice" in " ".join(fault.rule for fault in caught.value.faults)


def test_one_margin_by_itself_has_no_treatment(population: eree.Tables) -> None:
    schema, price = population.schema, planned(population, TABLE).tables[0].price
    name = MarginsRadial.name
    for by, settings in (
        ([*ALL, "sex"], {}),
        ([*ALL, "sex"], {"with": "sex"}),
        ([*ALL, "sex"], {"with": "sector"}),
        ([*ALL, "sex"], {"with": "nothing"}),
        ([*ALL, "sex"], {"with": ["education"]}),
        ([*ALL, "sex"], {"with": "education", "more": 1}),
        (ALL, {"with": "sex"}),
        ([*ALL, "age"], {"with": "education"}),
    ):
        with pytest.raises(eree.Refusal, match="margins-radial"):
            treat(schema, eree.Marginal.over(schema, by), price, name, settings)


# ------------------------------------------------------------------------------ what is drawn


@pytest.mark.parametrize(
    ("by", "where"),
    [
        (PEOPLE, {}),
        (["education", "place", "sex"], {}),
        (["place", "sex", "age"], {"education": ["college"]}),
        (["sex", "education"], {"sector": ["62", "72"]}),
    ],
)
def test_both_margins_are_made_of_one_draw(
    population: eree.Tables, tmp_path: Path, by: list[str], where: dict[str, Any]
) -> None:
    """The law of both is drawn anew by itself, from counts that were found in another way."""
    plan = planned(population, TABLE | {"by": by, "where": where, "epsilon": "4"})
    release = drawn(plan, population, tmp_path / "out")
    half, value = "sex", next(name for name in by if name in ("education", "age"))
    own = [name for name in by if name not in (half, value)]
    cells = eree.tabulate(population, by=[*own, half, value], where=where).confidential
    values = len(population.schema.attributes[value].values or ())
    counts = cells["count"].to_numpy().reshape(-1, 2 * values)
    largests = cells["largest_total"].to_numpy()[:: 2 * values]
    law = MarginsRadial.calibrate(plan.tables[0].price, values=values)
    expected = law.draw(counts, largests, coins=eree.SeededCoins(5))
    by_half, by_value = (release.table(f"people-{name}") for name in (half, value))
    assert by_half["noisy"].to_pylist() == expected[:, values:].ravel().tolist()
    assert by_value["noisy"].to_pylist() == expected[:, :values].ravel().tolist()
    for name in own:
        assert by_half[name].to_pylist()[::2] == cells[name].to_pylist()[:: 2 * values]
        assert by_value[name].to_pylist()[::values] == cells[name].to_pylist()[:: 2 * values]
    for rows, name in ((by_half, half), (by_value, value)):
        known = list(population.schema.attributes[name].values or ())
        assert rows[name].to_pylist() == known * (rows.num_rows // len(known))
        assert rows.column_names[: len(by) - 1] == [n for n in by if n in (*own, name)]


def test_two_attributes_of_two_values_are_halved_by_the_first_of_them(tmp_path: Path) -> None:
    """Which of both is the half follows from names, the same in both tables."""
    data = eree_study.synthesize(tmp_path / "data", jobs=3_000)
    text = (data / "schema.toml").read_text(encoding="utf-8")
    group = '\n[group.schooling]\nof = "education"\nlabels = { low = "Low", high = "High" }\n'
    known = eree.load(data).schema.attributes["education"].values or ()
    group += f"members = {{ low = {json.dumps(known[:2])}, high = {json.dumps(known[2:])} }}\n"
    (data / "schema.toml").write_text(text + group, encoding="utf-8")
    tables = eree.load(data)
    for i, by in enumerate((["place", "sex", "schooling"], ["place", "schooling", "sex"])):
        plan = planned(tables, TABLE | {"by": by})
        release = drawn(plan, tables, tmp_path / f"out{i}")
        halves, values = release.table("people-schooling"), release.table("people-sex")
        sums = (rows["noisy"].to_numpy().reshape(-1, 2).sum(axis=1) for rows in (halves, values))
        assert np.array_equal(*sums)
        assert [fault.column for fault in eree.verify(release).faults] == ["private"]


def test_ends_hold_for_true_counts(population: eree.Tables, tmp_path: Path) -> None:
    """At the level of 90%, in groups and in sums of them; ends are not those of everything."""
    plan = planned(population, TABLE)
    release = drawn(plan, population, tmp_path / "out")
    for name, attribute in zip(PAIR, ("sex", "education"), strict=True):
        by = [*ALL, attribute]
        true = true_sums(population, by, by)
        rows = release.table(name).to_pylist()
        missed = [
            not row["low"] <= true[tuple(row[n] for n in by)] <= (row["high"] or 0)
            for row in rows
            if row["high"] is not None
        ]
        assert len(missed) == len(rows)
        assert stats.binomtest(sum(missed), len(missed), 0.1, alternative="greater").pvalue > (
            FALSE_ALARM
        )
        wide = np.array([row["high"] - row["low"] for row in rows])
        assert np.median(wide) < 30


def test_sums_of_either_margin_are_the_same(paid: eree.Release, population: eree.Tables) -> None:
    found = [eree.area_totals(paid, name, ["sector"]) for name in PAIR]
    for column in ("sector", "noisy", "low", "high"):
        assert found[0].rows[column].to_pylist() == found[1].rows[column].to_pylist()
    true = true_sums(population, ALL, ["sector"])
    for row in found[0].rows.to_pylist():
        assert row["low"] <= row["noisy"] <= row["high"]
        assert abs(row["noisy"] - true[(row["sector"],)]) < 0.5 * true[(row["sector"],)] + 500


# ------------------------------------------------------------------------------ verification


def test_a_release_of_margins_is_sound_and_paid_for_once(paid: eree.Release) -> None:
    found = eree.verify(paid)
    assert found.sound, found.faults
    assert paid.guarantee.epsilon == 3
    assert "2 mechanisms keep their claims, by their certificates" in found.checks
    assert paid.about(PAIR[0])["drawn_with"] == PAIR[1]
    assert "drawn_with" not in paid.about("places")


def rewritten(release: eree.Release, out: Path, change: Any) -> eree.Verification:
    """A copy with a record that was changed and given a digest anew."""
    shutil.copytree(release.folder, out)
    record = json.loads((out / RECORD).read_text(encoding="utf-8"))
    change({table["name"]: table for table in record["tables"]}, record)
    for table in record["tables"]:
        table["files"] = {name: file_digest(out / name) for name in table["files"]}
    record["digest"] = digest_of(record)
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (out / RECORD).write_text(text, encoding="utf-8")
    return eree.verify(eree.Release.open(out))


def test_a_record_that_is_written_anew_is_as_sound_as_before(
    paid: eree.Release, tmp_path: Path
) -> None:
    """So what is found below is found because of what it changes."""
    assert rewritten(paid, tmp_path / "out", lambda *_: None).sound


def _priced(record: dict[str, Any], epsilon: str) -> None:
    """Let a record promise what it would if its tables cost so much."""
    price = eree.Guarantee(eree.Strong("0.1"), epsilon)
    record["guarantee"]["epsilon"] = epsilon
    record["statements"] = [statement.words for statement in price.statements()]


NOT_DRAWN = "was not drawn at once with the table that it names"


def _alone(known: dict[str, Any], record: dict[str, Any]) -> set[tuple[str, str]]:
    for name in PAIR:
        del known[name]["drawn_with"]
    _priced(record, "5")
    return {(name, NOT_DRAWN) for name in PAIR}


def _itself(known: dict[str, Any], record: dict[str, Any]) -> set[tuple[str, str]]:
    for name in PAIR:
        known[name]["drawn_with"] = name
    _priced(record, "1")
    return {(name, NOT_DRAWN) for name in PAIR}


def _nobody(known: dict[str, Any], _record: dict[str, Any]) -> set[tuple[str, str]]:
    known[PAIR[0]]["drawn_with"] = "a-nobody"  # and so it would not pay
    return {(name, NOT_DRAWN) for name in PAIR}


def _one_way(known: dict[str, Any], record: dict[str, Any]) -> set[tuple[str, str]]:
    del known[PAIR[1]]["drawn_with"]
    return {(name, NOT_DRAWN) for name in PAIR}


def _free_rider(known: dict[str, Any], record: dict[str, Any]) -> set[tuple[str, str]]:
    """A table of another mechanism claims to have been paid for with a margin."""
    known["places"]["drawn_with"] = PAIR[1]
    _priced(record, "2")
    return {("places", "is said to be drawn with another table, and is not")}


@pytest.mark.parametrize("change", [_alone, _itself, _nobody, _one_way, _free_rider])
def test_a_false_claim_of_one_draw_is_found(
    paid: eree.Release, tmp_path: Path, change: Any
) -> None:
    """Whatever else the record says is made to agree with the claim."""
    expected: set[tuple[str, str]] = set()
    found = rewritten(paid, tmp_path / "out", lambda *given: expected.update(change(*given)))
    assert {(fault.column, fault.rule) for fault in found.faults} == expected


def record_of(plan: eree.Plan, i: int, **changes: Any) -> dict[str, Any]:
    table = plan.tables[i]
    said = {
        "name": table.name,
        "by": list(table.marginal.by),
        "where": dict(table.marginal.where),
        "price": {"epsilon": "2"},
        "drawn_with": table.drawn_with,
        **table.treatment.as_json(),
    }
    return said | changes


def test_two_margins_are_of_one_draw_if_all_they_share_is_the_same(
    population: eree.Tables,
) -> None:
    schema, plan = population.schema, planned(population, TABLE)
    one, other = record_of(plan, 0), record_of(plan, 1)
    assert drawn_at_once(schema, one, other)
    assert drawn_at_once(schema, other, one)
    more = planned(population, TABLE | {"by": [*ALL, "sex", "age"]})
    for changed in (
        {"drawn_with": "another"},
        {"drawn_with": None},
        {"name": "another"},
        {"where": {"sector": ["62"]}},
        {"price": {"epsilon": "1"}},
        {"mechanism": "another"},
        {"by": [*ALL[:2], "education"]},
        {"by": [*ALL, "age"]},
        {"settings": {"with": "age"}, "by": [*ALL, "education"]},
        record_of(more, 1, name=other["name"], drawn_with=one["name"]),
        # both are the same margin
        {"by": one["by"], "settings": one["settings"]},
    ):
        assert not drawn_at_once(schema, one, other | changed)
        assert not drawn_at_once(schema, other | changed, one)


def test_of_two_tables_of_one_draw_one_pays_and_of_all_others_each() -> None:
    for one, other in (PAIR, ("a", "B"), ("a", "a-b")):
        assert pays(one, other) != pays(other, one)
        assert pays(one, None)
        assert not pays(one, one)


# ------------------------------------------------------------------------------ plans made by hand


def test_a_plan_whose_tables_only_say_that_they_are_drawn_at_once_is_refused(
    population: eree.Tables,
) -> None:
    """Before anything is paid: a table that rides free would be a draw that nobody paid for."""
    plan = planned(population, TABLE, PLACES)
    sex, education, alone = plan.tables
    cheaper = planned(population, TABLE | {"epsilon": "1"})
    filtered = planned(population, TABLE | {"where": {"sector": ["62"]}})
    for tables in (
        (sex, education, replace(sex, name="z-sex"), alone),
        (education, alone),
        (sex, education, replace(alone, drawn_with=sex.name)),
        (sex, education, replace(alone, drawn_with="a")),
        (replace(sex, drawn_with=None), education),
        (replace(sex, drawn_with=None), replace(education, drawn_with=None)),
        (replace(sex, drawn_with=sex.name), replace(education, drawn_with=education.name)),
        (sex, cheaper.tables[1]),
        (sex, filtered.tables[1]),
        (sex, replace(sex, name=education.name, drawn_with=sex.name)),
        (alone, alone),
    ):
        with pytest.raises(eree.Refusal, match=r"read the plan anew|two tables of one name"):
            replace(plan, tables=tables)
    assert replace(plan, tables=(alone, education, sex)).price().epsilon == 3


def test_margins_of_two_draws_are_not_taken_for_one(
    population: eree.Tables, paid: eree.Release, tmp_path: Path
) -> None:
    """Both were paid for once each; together they would be one table too many."""
    other = drawn(planned(population, TABLE), population, tmp_path / "other")

    def swap(_known: dict[str, Any], _record: dict[str, Any]) -> None:
        for suffix in ("csv", "parquet"):
            name = f"tables/{PAIR[1]}.{suffix}"
            shutil.copy(other.folder / name, tmp_path / "out" / name)

    found = rewritten(paid, tmp_path / "out", swap)
    assert [(fault.column, fault.rule) for fault in found.faults] == [
        (PAIR[1], f"has other sums than {PAIR[0]}, so they were not drawn at once")
    ]


def test_margins_of_other_groups_are_not_taken_for_one(paid: eree.Release, tmp_path: Path) -> None:
    def shorten(known: dict[str, Any], _record: dict[str, Any]) -> None:
        """Leave the last group out of one of the tables."""
        path = tmp_path / "out" / "tables" / PAIR[0]
        rows = parquet.read_table(path.with_suffix(".parquet"))[:-2]
        parquet.write_table(rows, path.with_suffix(".parquet"))
        arrow_csv.write_csv(rows, path.with_suffix(".csv"))
        known[PAIR[0]]["rows"] -= 2

    found = rewritten(paid, tmp_path / "out", shorten)
    assert any("has other groups than" in fault.rule for fault in found.faults)


@pytest.mark.parametrize("size", [1e-12, 0, None])
def test_a_record_of_strange_groups_has_a_fault(
    paid: eree.Release, tmp_path: Path, size: object
) -> None:
    def change(known: dict[str, Any], _record: dict[str, Any]) -> None:
        known[PAIR[0]]["worker_cells"] = size

    found = rewritten(paid, tmp_path / "out", change)
    assert [fault.rule for fault in found.faults] == ["is not what the price gives"]


# ------------------------------------------------------------------------------ estimates


@pytest.fixture(scope="module")
def shrunk(paid: eree.Release) -> eree.Shrunk:
    return eree.shrink(paid, PAIR)


def test_estimates_of_all_cells_are_made_of_both_margins(
    population: eree.Tables, paid: eree.Release, shrunk: eree.Shrunk
) -> None:
    true = true_sums(population, PEOPLE, PEOPLE)
    rows = shrunk.rows.to_pylist()
    assert shrunk.by == tuple(PEOPLE)
    assert len(rows) == len(true)
    counts = np.array([true[tuple(row[name] for name in PEOPLE)] for row in rows])
    estimates = np.array([row["estimate"] for row in rows])
    assert (estimates >= 0).all()
    # far nearer than spreading the mean
    assert np.abs(estimates - counts).mean() < 0.5 * np.abs(counts - counts.mean()).mean()
    assert all(row["noisy"] is None for row in rows)
    assert set(shrunk.habits) == {"sex", "education"}
    by_half = paid.table(PAIR[0])["noisy"].to_numpy().reshape(-1, 2)
    by_value = paid.table(PAIR[1])["noisy"].to_numpy().reshape(-1, 4)
    kinds: dict[Any, int] = {}
    labels = list(zip(*(paid.table(PAIR[0])[n].to_pylist()[::2] for n in ALL[1:]), strict=True))
    of_kind = np.array([kinds.setdefault(label, len(kinds)) for label in labels])
    law = MarginsRadial.calibrate(eree.Guarantee(eree.Strong("0.1"), 2), values=4)
    seen = np.column_stack([by_value, by_half[:, 0] - by_half[:, 1]])
    workplaces = paid.table(PAIR[0])["workplaces"].to_numpy()[::2]
    learnt = learn_from_margins(law, seen, workplaces, of_kind).estimates().ravel()
    inside = np.clip(
        np.rint(np.maximum(learnt, 0)), [r["low"] for r in rows], [r["high"] for r in rows]
    )
    assert estimates.tolist() == inside.tolist()


def test_ends_of_cells_follow_from_those_of_margins(
    population: eree.Tables, paid: eree.Release, shrunk: eree.Shrunk
) -> None:
    true = true_sums(population, PEOPLE, PEOPLE)
    rows = shrunk.rows.to_pylist()
    missed = sum(
        not row["low"] <= true[tuple(row[name] for name in PEOPLE)] <= row["high"] for row in rows
    )
    assert stats.binomtest(missed, len(rows), 0.1, alternative="greater").pvalue > FALSE_ALARM
    ends: dict[Any, tuple[int, int]] = {}
    for name, attribute in zip(PAIR, ("sex", "education"), strict=True):
        areas = Areas.read(paid, name, ())
        third = areas.treatment.intervals(areas.schema, areas.counted, 1 - 0.1 / 3)(areas.numbers)
        keys = paid.table(name).select([*ALL, attribute]).to_pylist()
        ends |= {
            tuple(key.values()): (int(low), int(high))
            for key, low, high in zip(keys, *third, strict=True)
        }
    for row in rows:
        group, other = tuple(row[name] for name in ALL), "M" if row["sex"] == "F" else "F"
        by_sex, rest = ends[*group, row["sex"]], ends[*group, other]
        by_education = ends[*group, row["education"]]
        assert row["high"] == min(by_sex[1], by_education[1])
        assert row["low"] == min(max(by_education[0] - rest[1], 0), row["high"])


def test_the_order_of_the_tables_does_not_matter(paid: eree.Release, shrunk: eree.Shrunk) -> None:
    assert eree.shrink(paid, PAIR[::-1]).rows.equals(shrunk.rows)


def test_margins_whose_files_do_not_belong_together_are_not_estimated_from(
    population: eree.Tables, paid: eree.Release, tmp_path: Path
) -> None:
    other = drawn(planned(population, TABLE), population, tmp_path / "other")
    shutil.copytree(paid.folder, tmp_path / "out")
    name = f"tables/{PAIR[0]}.parquet"
    shutil.copy(other.folder / name, tmp_path / "out" / name)
    with pytest.raises(eree.Unreadable, match="so they were not drawn at once; run 'eree verify'"):
        eree.shrink(eree.Release.open(tmp_path / "out"), PAIR)


@pytest.mark.parametrize(
    ("tables", "by", "words"),
    [
        (PAIR[:1], (), "name both"),
        (PAIR, ("place",), "of all their cells"),
        ((*PAIR, "places"), ("place",), "may count the same workplaces"),
    ],
)
def test_estimates_that_margins_do_not_give_are_refused(
    paid: eree.Release, tables: tuple[str, ...], by: tuple[str, ...], words: str
) -> None:
    with pytest.raises(eree.Refusal, match=words):
        eree.shrink(paid, tables, by)


def test_estimates_need_all_workers_and_enough_groups(
    population: eree.Tables, tmp_path: Path
) -> None:
    few = planned(population, TABLE | {"by": ["sector", "sex", "education"]})
    with pytest.raises(eree.Refusal, match="can be learnt from 30 or more"):
        eree.shrink(drawn(few, population, tmp_path / "few"), PAIR)
    some = planned(population, TABLE | {"where": {"age": ["30-54"]}})
    with pytest.raises(eree.Refusal, match="leaves out workers"):
        eree.shrink(drawn(some, population, tmp_path / "some"), PAIR)


def test_the_command_estimates_from_both(paid: eree.Release, tmp_path: Path) -> None:
    done = eree_command("shrink", paid.folder, *PAIR, "--out", tmp_path / "cells.csv")
    assert done[0] == 0
    assert "how alike workers of one workplace seem to be: education" in done[1]
    header = (tmp_path / "cells.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header == ",".join([*PEOPLE, "estimate,noisy,low,high,workplaces"])


def test_the_record_is_enough_to_make_both_margins_anew(paid: eree.Release) -> None:
    schema = schema_of(paid.record)
    for name in PAIR:
        about = paid.about(name)
        marginal = eree.Marginal.over(schema, about["by"], about["where"])
        price = eree.Guarantee(eree.Strong("0.1"), 2)
        made = treat(schema, marginal, price, about["mechanism"], about["settings"])
        assert made.as_json()["parameters"] == about["parameters"]
