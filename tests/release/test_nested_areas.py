"""Areas within areas: coarser areas of released tables, by public hierarchies and references."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eree
from eree.estimate.above import above
from eree.release import publish as publishing
from eree.release.record import RECORD, digest_of, file_digest, record_text
from offices import TOTAL, left, settings, table
from town import Town
from uses import eree_command

NUMBERS = ("noisy", "estimate", "low", "high", "guaranteed_low", "guaranteed_high", "cells")


def published(
    tables: eree.Tables, out: Path, *wanted: dict[str, Any], **given: Any
) -> eree.Release:
    """A seeded release of some tables."""
    privacy = {"neighbours": "strong", "alpha": "0.1", "epsilon": "100"}
    plan = eree.Plan.of(
        {"data": str(tables.folder), "privacy": privacy, "table": list(wanted)} | given
    )
    return eree.publish(plan, tables, ledger=None, out=out, random=eree.SeededRandom(5))


def lies_in(tables: eree.Tables, fine: str, coarse: str) -> dict[str, str]:
    """Where areas lie by the file of workplaces."""
    rows = parquet.read_table(tables.folder / "workplace.parquet", columns=[fine, coarse])
    return dict(zip(rows[fine].to_pylist(), rows[coarse].to_pylist(), strict=True))


# ---------------------------------------------------------------------------- what can be asked


def test_places_are_ranked_within_a_state(release: eree.Release, population: eree.Tables) -> None:
    state_of = lies_in(population, "place", "state")
    sums: Counter[str] = Counter()
    for row in release.table("places").to_pylist():
        if state_of[row["place"]] == "17":
            sums[row["place"]] += row["noisy"]
    found = eree.rank(release, "places", ["place"], {"state": ["17"]})
    assert 1 < len(found) < len(set(state_of))
    said = {row["place"]: row["noisy"] for row in found.rows.to_pylist()}
    assert said == dict(sums)
    ordered = sorted(sums.values(), reverse=True)
    assert found.rows["rank"].to_pylist() == [1 + ordered.index(n) for n in ordered]
    assert found.where == {"state": ("17",)}
    named = eree.rank(release, "places", ["place"], {"place": list(sums)})
    assert named.rows.equals(found.rows)  # as if the places had been named


def test_the_command_ranks_places_within_a_state(release: eree.Release) -> None:
    folder = release.folder
    asked = ("rank", folder, "places", "--by", "place", "--where", "state=17", "--json")
    status, out, _ = eree_command(*asked)
    assert status == 0
    found = eree.rank(release, "places", ["place"], ["state=17"])
    assert json.loads(out) == json.loads(json.dumps(found.as_json()))
    status, out, _ = eree_command("rank", folder, "tracts", "--by", "state")
    assert status == 0
    assert "Illinois" in out  # labels of coarser areas are published as well
    status, _, err = eree_command("rank", folder, "places", "--by", "tract")
    assert status == 2
    assert "can be added up by county, state, supersector" in " ".join(err.split())


@pytest.mark.parametrize("coarse", ["county", "state"])
def test_sums_are_those_of_a_table_that_was_counted_by_both(
    population: eree.Tables, tmp_path: Path, coarse: str
) -> None:
    """The same cells, drawn from the same seed: with the coarser attribute, and without it."""
    wanted = [("jobs", ["tract", "sector"]), ("sexes", ["tract", "sex"])]
    people = {"name": "people", "by": [coarse, "education"], "epsilon": "8"}
    women = {"name": "women", "by": ["tract"], "where": {"sex": ["F"]}, "epsilon": "1"}
    alone = published(
        population,
        tmp_path / "alone",
        *({"name": name, "by": by, "epsilon": "4"} for name, by in wanted),
        people,
        women,
    )
    joined = published(
        population,
        tmp_path / "joined",
        *({"name": n, "by": [by[0], coarse, by[1]], "epsilon": "4"} for n, by in wanted),
        people,
        women | {"by": ["tract", coarse]},
    )
    for name in ("jobs", "sexes", "people", "women"):
        assert alone.table(name)["noisy"].equals(joined.table(name)["noisy"])
        for together in (False, True):
            one, two = (
                eree.area_totals(made, name, [coarse], simultaneous=together).rows
                for made in (alone, joined)
            )
            assert one.column_names == [coarse, *NUMBERS]
            assert one.equals(two), (name, together)
        ranked = [eree.rank(made, name, [coarse], level="0.8").rows for made in (alone, joined)]
        assert ranked[0].equals(ranked[1])
    codes = eree.area_totals(alone, "jobs", [coarse]).rows[coarse].to_pylist()
    kept = {coarse: codes[:1]}
    for name, by in wanted:
        one, two = (eree.area_totals(made, name, by, kept).rows for made in (alone, joined))
        assert one.equals(two)
    one, two = ({coarse: code} for code in codes[:2])
    assert eree.compare(alone, "sexes", one, two) == eree.compare(joined, "sexes", one, two)
    damage = dict.fromkeys(codes, 1_000_000)
    decided = [eree.threshold(m, "jobs", [coarse], damage, "3.5").rows for m in (alone, joined)]
    assert decided[0].equals(decided[1])


def test_groups_of_workers_and_of_coarser_areas_add_up(tmp_path: Path) -> None:
    town = Town()
    town.schema["group"] |= {
        "band": {"of": "grade", "members": {"low": [1, 2], "high": [3]}},
        "region": {"of": "state", "members": {"north": ["17", "18"]}},
    }
    made = published(
        eree.load(town.write(tmp_path / "data")),
        tmp_path / "out",
        {"name": "t", "by": ["tract", "sector", "grade"], "epsilon": "4"},
    )
    assert list(above(made, ["tract", "sector", "grade"])) == [
        *("county", "state", "region", "goods", "band")
    ]
    rows = made.table("t").to_pylist()
    found = eree.area_totals(made, "t", ["region", "band", "goods"]).rows.to_pylist()
    assert {(row["region"], row["band"], row["goods"]) for row in found} == {
        ("north", band, goods) for band in ("low", "high") for goods in ("goods", "services")
    }
    assert found[0]["noisy"] == sum(
        row["noisy"] for row in rows if row["grade"] == 3 and row["sector"] in ("11", "23")
    )
    assert sum(row["noisy"] for row in found) == sum(row["noisy"] for row in rows)
    with pytest.raises(eree.Refusal, match="worker cells are not added up by band; ask by grade"):
        eree.shrink(made, "t", ["tract", "band"])


# ------------------------------------------------------------------------------ what is declared


def places_town(states: list[str | None], format_: str = "parquet") -> Town:
    """Counties in the states that a reference says, and no hierarchy."""
    town = Town()
    town.schema["hierarchy"] = {}
    town.tables["county"]["state"] = states
    town.types["county", "state"] = pa.string()
    return town.as_csv() if format_ == "csv" else town


BY_COUNTY = {"name": "t", "by": ["county", "sector"], "epsilon": "4", "mechanism": "smooth-pareto"}


@pytest.mark.parametrize("format_", ["parquet", "csv"])
def test_a_code_without_a_coarser_one_is_left_out_of_filters_and_refused_in_sums(
    tmp_path: Path, format_: str
) -> None:
    data = places_town(["17", None, "18", "18"], format_).write(tmp_path / "data")
    made = published(eree.load(data), tmp_path / "out", BY_COUNTY)
    assert made.areas["county"].to_pylist() == [
        {"county": "171", "state": "17"},
        {"county": "172", "state": None},
        {"county": "181", "state": "18"},
    ]
    kept = eree.area_totals(made, "t", ["county"], {"state": ["17", "18"]})
    assert kept.rows["county"].to_pylist() == ["171", "181"]
    for by, where in (
        (["state"], None),
        (["sector"], {"state": ["17"]}),
        (["county", "state"], None),
        ([], {"state": ["18"]}),
    ):
        with pytest.raises(eree.Refusal, match="some codes of county lie in no one state"):
            eree.area_totals(made, "t", by, where)
    named = eree.area_totals(made, "t", ["state"], {"county": ["171", "181"]})
    assert named.rows["state"].to_pylist() == ["17", "18"]
    with pytest.raises(eree.Refusal, match=r"can be exported by county, sector, goods$"):
        eree.lodes(made, "state")
    only = eree.lodes(made, "county", columns={"C000": {}}, where={"state": ["17"]})
    assert only.rows["w_geocode"].to_pylist() == ["171"]
    every = eree.lodes(made, "county", columns={"C000": {}})
    assert every.crosswalk.to_pylist()[1] == {"county": "172", "state": None}


def test_a_reference_that_workplaces_contradict_is_none_and_that_is_said(tmp_path: Path) -> None:
    data = places_town(["17", "18", "18", "18"]).write(tmp_path / "data")
    eree.Ledger.create(tmp_path / "ledger.db", TOTAL, data_set="data")
    (tmp_path / "plan.toml").write_text(
        f'data = "{data}"\n[privacy]\nneighbours = "strong"\nalpha = "0.1"\nepsilon = "4"\n'
        '[[table]]\nname = "t"\nby = ["county"]\nepsilon = "4"\nmechanism = "smooth-pareto"\n'
    )
    out = tmp_path / "out"
    asked = ("release", tmp_path / "plan.toml", "--ledger", tmp_path / "ledger.db", "--out", out)
    status, said, _ = eree_command(*asked)
    assert status == 0
    assert "In which state each county lies, the reference and the workplaces disagree" in said
    made = eree.Release.open(out)
    assert made.record["areas"] == [
        {"of": "county", "above": [], "crossing": ["state"], "rows": 0, "files": {}}
    ]
    assert left(out) == {"release.json", "tables"}
    assert eree.verify(made).sound
    with pytest.raises(eree.Refusal, match=r"not counted by 'state'; it is by county$"):
        eree.rank(made, "t", ["state"])


def test_what_is_confidential_or_not_declared_of_a_reference_is_not_published(
    tmp_path: Path,
) -> None:
    town = places_town(["17", "17", "18", "18"])
    town.tables["county"] |= {"wages": [5, 7, 8, 9], "mayor": ["a", "b", "c", "d"]}
    made = published(eree.load(town.write(tmp_path / "data")), tmp_path / "out", BY_COUNTY)
    assert made.areas["county"].column_names == ["county", "state"]
    assert set(made.record["attributes"]) == {"county", "state", "sector", "goods"}


def test_an_attribute_may_have_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    town = Town()
    name = "tract/../../of"
    town.tables["workplace"][name] = town.tables["workplace"].pop("tract")
    attributes = town.schema["workplace"]["attributes"]
    attributes[name] = attributes.pop("tract")
    town.schema["hierarchy"]["geography"][0] = name
    wanted = {"name": "t", "by": [name], "epsilon": "4", "mechanism": "smooth-pareto"}
    made = published(eree.load(town.write(tmp_path / "data")), tmp_path / "out", wanted)
    assert sorted(path.name for path in (tmp_path / "out" / "areas").iterdir()) == [
        *("_0.parquet", "county.parquet")
    ]
    assert eree.area_totals(made, "t", ["county"]).rows["county"].to_pylist() == [
        *("171", "172", "181")
    ]


# ---------------------------------------------------------------------- what is paid, and appears


def test_areas_are_looked_up_before_anything_is_paid(
    population: eree.Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_given: object) -> None:
        raise eree.EngineFailure("the engine failed")

    monkeypatch.setattr(publishing, "nestings", fails)
    ledger = eree.Ledger.create(tmp_path / "ledger.db", TOTAL, data_set="data")
    plan = eree.Plan.of(settings(population.folder, table=[table()]))
    with pytest.raises(eree.EngineFailure):
        eree.publish(plan, population, ledger=ledger, out=tmp_path / "out")
    assert ledger.account().spent.epsilon == 0
    assert left(tmp_path) == set()


def test_what_fails_between_the_files_leaves_nothing(
    population: eree.Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path) -> str:
        if path.parent.name == "areas":
            raise OSError(28, "no space")
        return file_digest(path)

    monkeypatch.setattr(publishing, "file_digest", fails)
    ledger = eree.Ledger.create(tmp_path / "ledger.db", TOTAL, data_set="data")
    plan = eree.Plan.of(settings(population.folder, table=[table()]))
    with pytest.raises(eree.Refusal, match="the price of epsilon 1 is spent"):
        eree.publish(plan, population, ledger=ledger, out=tmp_path / "out")
    assert left(tmp_path) == set()


# --------------------------------------------------------------------------------- what is checked


@pytest.fixture(scope="module")
def paid(population: eree.Tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release that was paid for, whose rows show every code of every level."""
    home = tmp_path_factory.mktemp("paid")
    ledger = eree.Ledger.create(home / "ledger.db", TOTAL, data_set="data")
    by = ["tract", "county", "state", "place"]
    wanted = [
        table(name="all", by=by, mechanism="smooth-pareto"),
        table(name="branches", by=["sector", "supersector"], mechanism="smooth-pareto"),
    ]
    plan = eree.Plan.of(settings(population.folder, table=wanted))
    return eree.publish(plan, population, ledger=ledger, out=home / "out").folder


def rewritten(folder: Path, name: str, rows: pa.Table) -> eree.Release:
    """Another file of areas, with the record of someone who means it."""
    file = folder / "areas" / f"{name}.parquet"
    parquet.write_table(rows, file)
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    for about in record["areas"]:
        if about["of"] == name:
            about["files"] = {f"areas/{name}.parquet": file_digest(file)}
            about["rows"] = rows.num_rows
    record["digest"] = digest_of(record)
    (folder / RECORD).write_text(record_text(record), encoding="utf-8")
    return eree.Release.open(folder)


def test_a_sound_release_says_whose_word_it_is(paid: Path) -> None:
    found = eree.verify(eree.Release.open(paid))
    assert found.sound
    assert (
        "on its author's word, without contradiction: tract in county, state; county in state;"
        " place in county, state"
    ) in found.checks


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda f: (f / "areas" / "tract.parquet").unlink(), "is missing"),
        (lambda f: (f / "areas" / "more.parquet").write_text("x"), "is not part of the release"),
        (lambda f: (f / "areas" / "tract.parquet").write_text("x"), "was changed"),
    ],
)
def test_files_of_areas_are_part_of_the_release(
    paid: Path, tmp_path: Path, change: Callable[[Path], object], rule: str
) -> None:
    copy = Path(shutil.copytree(paid, tmp_path / "copy"))
    change(copy)
    made = eree.Release.open(copy)
    faults = eree.verify(made).faults
    assert [rule in fault.rule for fault in faults] == [True]
    if "missing" in rule or "changed" in rule:
        with pytest.raises(eree.Unreadable, match="areas above tract cannot be read"):
            eree.rank(made, "all", ["place"])


@pytest.mark.parametrize(
    ("name", "change", "rule"),
    [
        ("tract", lambda t: t.slice(1), "lacks a tract of table all"),
        ("tract", lambda t: pa.concat_tables([t, t.slice(0, 1)]), "has a tract twice"),
        ("tract", lambda t: t.drop_columns("state"), "has other columns"),
        ("county", lambda t: t.slice(1), "lacks a county of the file of county"),
        (
            "county",
            lambda t: t.set_column(1, "state", pa.nulls(len(t), pa.string())),
            "has no code of state",
        ),
    ],
)
def test_a_file_that_contradicts_itself_is_a_fault_whoever_signs_it(
    paid: Path, tmp_path: Path, name: str, change: Callable[[pa.Table], pa.Table], rule: str
) -> None:
    copy = Path(shutil.copytree(paid, tmp_path / "copy"))
    rows = parquet.read_table(copy / "areas" / f"{name}.parquet")
    found = eree.verify(rewritten(copy, name, change(rows)))
    assert any(rule in fault.rule for fault in found.faults), found.faults


@given(st.data())
def test_one_other_code_is_found_where_the_rows_know_better(
    paid: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    copy = tmp_path_factory.mktemp("changed") / "copy"
    shutil.copytree(paid, copy)
    name = data.draw(st.sampled_from(["tract", "county", "place"]))
    rows = parquet.read_table(copy / "areas" / f"{name}.parquet")
    column = data.draw(st.sampled_from(rows.column_names))
    values = rows[column].to_pylist()
    at = data.draw(st.integers(0, len(values) - 1))
    other = data.draw(st.sampled_from([*sorted(set(values)), "", "x"]))
    changed = other != values[at]
    values[at] = other
    place = rows.column_names.index(column)
    made = rewritten(copy, name, rows.set_column(place, column, pa.array(values, pa.string())))
    faults = [f for f in eree.verify(made).faults if f.file.startswith("areas/")]
    assert bool(faults) == changed
    shutil.rmtree(copy.parent)


# ---------------------------------------------------------------------------------------- LODES


@pytest.mark.parametrize("geocode", ["county", "state"])
def test_lodes_by_coarser_areas_adds_tracts_up(
    release: eree.Release, population: eree.Tables, geocode: str
) -> None:
    found = eree.lodes(release, geocode, tables=["tracts", "sexes", "ages"], numbers="measured")
    area_of = lies_in(population, "tract", geocode)
    for column, source in found.sources.items():
        sums: Counter[str] = Counter()
        kept = eree.LODES_COLUMNS[column]
        for row in release.table(source).to_pylist():
            if all(row[name] in values for name, values in kept.items()):
                sums[area_of[row["tract"]]] += row["noisy"]
        areas = found.rows["w_geocode"].to_pylist()
        assert areas == sorted(set(area_of.values()))
        assert found.rows[column].to_pylist() == [sums[area] for area in areas]
    ends = {
        (r["w_geocode"], r["column"]): (r["low"], r["high"]) for r in found.intervals.to_pylist()
    }
    totals = eree.area_totals(release, found.sources["C000"], [geocode], level="0.9").rows
    for row in totals.to_pylist():
        assert ends[row[geocode], "C000"] == (row["low"], row["high"])


def test_lodes_keeps_one_state_and_says_where_its_tracts_lie(
    release: eree.Release, population: eree.Tables, tmp_path: Path
) -> None:
    whole, files = eree.lodes(release, "tract"), ("wac.csv", "xwalk.csv.gz")
    out, walk = (tmp_path / name for name in files)
    asked = ("lodes", release.folder, "--geocode", "tract", "--where", "state=18", "--out", out)
    status, said, _ = eree_command(*asked, "--crosswalk", walk, "--json")
    assert status == 0
    assert json.loads(said)["where"] == {"state": ["18"]}
    county_of = lies_in(population, "tract", "county")
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    tracts = [tract for tract in whole.rows["w_geocode"].to_pylist() if tract.startswith("18")]
    assert [row["w_geocode"] for row in rows] == tracts
    for row, all_ in zip(
        rows, (r for r in whole.rows.to_pylist() if r["w_geocode"] in tracts), strict=True
    ):
        same = [c for c in whole.sources if whole.sources[c] == json.loads(said)["sources"][c]]
        assert "CS01" in same
        assert [float(row[c]) for c in same] == [all_[c] for c in same]
    with gzip.open(walk, "rt", encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert lines == [
        {"tract": t, "county": county_of[t], "state": "18", "statename": "Indiana"} for t in tracts
    ]


def test_columns_may_be_of_coarser_attributes(release: eree.Release) -> None:
    columns = {"goods": {"supersector": ["goods"]}, "all": {}}
    found = eree.lodes(release, "tract", columns=columns, tables=["tracts"], numbers="measured")
    sectors = release.schema.attributes["supersector"].members
    sums: Counter[str] = Counter()
    for row in release.table("tracts").to_pylist():
        sums[row["tract"]] += row["noisy"] if sectors[row["sector"]] == "goods" else 0
    assert found.rows["goods"].to_pylist() == [
        sums[tract] for tract in found.rows["w_geocode"].to_pylist()
    ]
    with pytest.raises(eree.Refusal, match="no table by tract has rows with state 99"):
        eree.lodes(release, "tract", where="state=99")
