"""The shape of LODES: columns from released tables, as they are, signed and added up."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import eree
from uses import eree_command

WORKERS = ("age", "sex", "race", "ethnicity", "education")


def test_the_columns_fit_the_population_that_eree_makes(population: eree.Tables) -> None:
    """Every declared value has one column, and there is none for anything else."""
    attributes = population.schema.attributes
    for name in ("sector", *WORKERS):
        values = [
            value
            for kept in eree.LODES_COLUMNS.values()
            for attribute, listed in kept.items()
            if attribute == name
            for value in listed
        ]
        assert sorted(values) == sorted(attributes[name].values or ())
    assert list(eree.LODES_COLUMNS)[:5] == ["C000", "CA01", "CA02", "CA03", "CNS01"]
    assert eree.LODES_COLUMNS["CNS05"] == {"sector": ["31-33"]}
    assert eree.LODES_COLUMNS["CS02"] == {"sex": ["F"]}


def test_columns_of_one_table_add_up(release: eree.Release) -> None:
    one = eree.lodes(release, "tract", tables=["sexes"])
    assert one.rows.column_names == ["w_geocode", "C000", "CS01", "CS02"]
    assert "CA01" in one.missing
    noisy: Counter[str] = Counter()
    for row in release.table("sexes").to_pylist():
        noisy[row["tract"]] += row["noisy"]
    for row in one.rows.to_pylist():
        assert row["CS01"] + row["CS02"] == row["C000"] == noisy[row["w_geocode"]]
    sectors = eree.lodes(release, "tract", tables=["tracts"])
    for row in sectors.rows.to_pylist():
        assert sum(row[f"CNS{i:02}"] for i in range(1, 21)) == row["C000"]


def test_each_column_comes_from_the_table_that_adds_up_the_fewest_cells(
    release: eree.Release,
) -> None:
    found = eree.lodes(release, "tract")
    assert found.sources["C000"] == "totals"
    assert found.sources["CNS07"] == "tracts"
    assert found.sources["CA02"] == "ages"
    assert found.sources["CS01"] == "sexes"
    assert set(found.missing) == {
        *(f"CR0{i}" for i in (1, 2, 3, 4, 5, 7)),
        *(f"CT0{i}" for i in (1, 2)),
        *(f"CD0{i}" for i in (1, 2, 3, 4)),
    }
    codes = found.rows["w_geocode"].to_pylist()
    assert codes == sorted(set(release.table("tracts")["tract"].to_pylist()))
    said = {row["tract"]: row["noisy"] for row in release.table("totals").to_pylist()}
    assert found.rows["C000"].to_pylist() == [said[code] for code in codes]


def test_an_area_without_a_sector_has_none_of_its_jobs(release: eree.Release) -> None:
    cells = {(row["tract"], row["sector"]) for row in release.table("tracts").to_pylist()}
    rows = eree.lodes(release, "tract").rows.to_pylist()
    empty = [row for row in rows if (row["w_geocode"], "21") not in cells]
    assert empty
    assert {row["CNS02"] for row in empty} == {0}


def test_a_table_with_a_filter_serves_only_columns_inside_it(release: eree.Release) -> None:
    found = eree.lodes(release, "county", tables=["women"])
    assert found.sources == {"CS02": "women"}
    assert found.rows.num_rows == release.table("women").num_rows


def test_columns_can_be_declared(release: eree.Release, tmp_path: Path) -> None:
    file = tmp_path / "columns.toml"
    file.write_text(
        'OLD = { age = ["30-54", "55+"] }\nALL = {}\nODD = { age = ["60+"] }\n', encoding="utf-8"
    )
    found = eree.lodes(release, "tract", columns=file, tables=["ages"])
    assert found.rows.column_names == ["w_geocode", "OLD", "ALL"]
    assert found.missing == ("ODD",)
    noisy: Counter[str] = Counter()
    for row in release.table("ages").to_pylist():
        if row["age"] != "14-29":
            noisy[row["tract"]] += row["noisy"]
    assert dict(noisy) == dict(
        zip(found.rows["w_geocode"].to_pylist(), found.rows["OLD"].to_pylist(), strict=True)
    )
    assert found.sources == {"OLD": "ages", "ALL": "ages"}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"geocode": "shoe"}, "no table is counted by the workplace attribute 'shoe'; the release"),
        ({"geocode": "sex"}, "no table is counted by the workplace attribute 'sex'"),
        ({"tables": ["places"]}, "these can be exported by place, sector, ownership"),
        ({"tables": ["nothing"]}, "the release has no table 'nothing'"),
        ({"columns": {"X": {"race": ["white"]}}}, "no table by tract holds any of the columns"),
        ({"columns": "nowhere.toml"}, "there is no file nowhere.toml"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    release: eree.Release, asked: dict[str, Any], words: str
) -> None:
    with pytest.raises(eree.Refusal) as refused:
        eree.lodes(release, **{"geocode": "tract", **asked})
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no column"),
        ("A = 1", "A in columns.toml is no column: write it as CA01 = { age = ['14-29'] }"),
        ("A = { age = [] }", "A in columns.toml is no column"),
        ("A = { age = [true] }", "A in columns.toml is no column"),
        ("w_geocode = {}", "w_geocode in columns.toml is no column"),
        ("A = ", "columns.toml is not valid TOML"),
        (f"A = {'9' * 5000}", "columns.toml cannot be read as TOML"),
    ],
)
def test_a_faulty_file_of_columns_is_refused(
    release: eree.Release, text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("columns.toml").write_text(text, encoding="utf-8")
    with pytest.raises(eree.Refusal) as refused:
        eree.lodes(release, "tract", columns="columns.toml")
    assert words in str(refused.value)


# ---------------------------------------------------------------------------------- the command


def test_the_command_writes_the_file_and_says_what_it_lacks(
    release: eree.Release, tmp_path: Path
) -> None:
    out = tmp_path / "wac.csv"
    asked = ["lodes", release.folder, "--geocode", "tract", "--out"]
    status, shown, err = eree_command(*asked, out)
    assert (status, err) == (0, "")
    assert "CNS01–CNS20: tracts" in shown
    assert "CR01–CR07, CT01–CT02, CD01–CD04: left out, because no table holds them" in shown
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    found = eree.lodes(release, "tract")
    assert rows[0] == found.rows.column_names
    assert [int(row[1]) for row in rows[1:]] == found.rows["C000"].to_pylist()
    status, shown, err = eree_command(*asked, out)
    assert (status, shown) == (2, "")
    assert "exists already; choose another name or remove it" in err
    status, shown, err = eree_command(*asked, tmp_path / "again.csv", "--json")
    assert json.loads(shown) == {"file": str(tmp_path / "again.csv"), **found.as_json()}
