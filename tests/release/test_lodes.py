"""The shape of LODES: columns of released tables, as estimates that agree or as measured."""

from __future__ import annotations

import csv
import gzip
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import eree
import eree_study
from eree.estimate.estimates import estimated_cells
from uses import eree_command

WORKERS = ("age", "earnings", "sex", "race", "ethnicity", "education")


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
    kinds = dict.fromkeys(column.rstrip("0123456789") for column in eree.LODES_COLUMNS)
    assert list(kinds) == ["C", "CA", "CE", "CNS", "CR", "CT", "CD", "CS"]
    assert eree.LODES_COLUMNS["CE02"] == {"earnings": ["1251-3333"]}
    assert eree.LODES_COLUMNS["CNS05"] == {"sector": ["31-33"]}
    assert eree.LODES_COLUMNS["CS02"] == {"sex": ["F"]}


def hundredths(rows: pa.Table, columns: Iterable[str]) -> Any:
    """Columns added up in hundredths of jobs, which are integers."""
    numbers = [100 * rows[column].to_numpy() for column in columns]
    assert all(np.abs(own - np.rint(own)).max() < 1e-6 for own in numbers)
    return sum(np.rint(own).astype(np.int64) for own in numbers)


def kinds_of(found: eree.LodesTable) -> dict[str, list[str]]:
    """The columns of every kind that has all of them, but for C000."""
    kinds: dict[str, list[str]] = {}
    for column in eree.LODES_COLUMNS:
        kinds.setdefault(column.rstrip("0123456789"), []).append(column)
    return {k: own for k, own in kinds.items() if k != "C" and set(own) <= set(found.sources)}


def test_measured_columns_of_one_table_add_up(release: eree.Release) -> None:
    one = eree.lodes(release, "tract", tables=["sexes"], numbers="measured")
    assert one.rows.column_names == ["w_geocode", "C000", "CS01", "CS02"]
    assert "CA01" in one.missing
    noisy: Counter[str] = Counter()
    for row in release.table("sexes").to_pylist():
        noisy[row["tract"]] += row["noisy"]
    for row in one.rows.to_pylist():
        assert row["CS01"] + row["CS02"] == row["C000"] == noisy[row["w_geocode"]]
    sectors = eree.lodes(release, "tract", tables=["tracts"], numbers="measured")
    for row in sectors.rows.to_pylist():
        assert sum(row[f"CNS{i:02}"] for i in range(1, 21)) == row["C000"]


@pytest.mark.parametrize("geocode", ["tract", "county", "state"])
def test_estimates_add_up_whatever_table_they_are_from(release: eree.Release, geocode: str) -> None:
    found = eree.lodes(release, geocode)
    kinds = kinds_of(found)
    assert set(kinds) == {"CA", "CNS", "CS"}
    assert len({found.sources[columns[0]] for columns in kinds.values()}) == 3
    total = hundredths(found.rows, ["C000"])
    for columns in kinds.values():
        assert (hundredths(found.rows, columns) == total).all()
    assert (total % 100).any()
    measured = eree.lodes(release, geocode, numbers="measured")
    assert measured.sources == found.sources
    noisy = hundredths(measured.rows, ["C000"])
    assert (hundredths(measured.rows, kinds["CS"]) != noisy).any()
    assert (noisy != total).any()


def test_columns_of_some_tables_are_the_numbers_that_all_tables_agree_on(
    release: eree.Release,
) -> None:
    whole = eree.lodes(release, "tract").rows
    for table in ("totals", "sexes", "ages", "tracts"):
        own = eree.lodes(release, "tract", tables=[table]).rows
        for column in own.column_names:
            assert own[column].to_pylist() == whole[column].to_pylist(), (table, column)


def test_estimates_are_those_of_the_cells_that_eree_estimate_writes(release: eree.Release) -> None:
    found = eree.lodes(release, "tract")
    for column, kept in (("CA02", {"age": ["30-54"]}), ("CNS07", {"sector": ["44-45"]})):
        sums: Counter[str] = Counter()
        for row in estimated_cells(release, found.sources[column]).to_pylist():
            if all(row[name] in values for name, values in kept.items()):
                sums[row["tract"]] += round(100 * row["estimate"])
        own = hundredths(found.rows, [column]).tolist()
        assert own == [sums[area] for area in found.rows["w_geocode"].to_pylist()]


def test_biased_counts_are_integers_of_zero_or_more(release: eree.Release) -> None:
    found = eree.lodes(release, "tract", numbers="biased-counts")
    estimates = eree.lodes(release, "tract").rows
    for column in found.sources:
        assert found.rows.schema.field(column).type == pa.int64()
        own = found.rows[column].to_numpy()
        assert (own >= 0).all()
        assert np.abs(own - estimates[column].to_numpy()).max() < 40  # of up to thousands
    assert found.as_json()["numbers"] == "biased-counts"
    assert found.intervals.equals(eree.lodes(release, "tract").intervals)  # around the estimates


def test_earnings_come_from_an_attribute_of_jobs(population: eree.Tables, tmp_path: Path) -> None:
    tables = [{"name": "pay", "by": ["county", "earnings"], "epsilon": "6"}]
    privacy = {"neighbours": "strong", "alpha": "0.1", "epsilon": "6"}
    plan = eree.Plan.of({"data": str(population.folder), "privacy": privacy, "table": tables})
    random = eree.SeededRandom(1)
    made = eree.publish(plan, population, ledger=None, out=tmp_path / "out", random=random)
    found = eree.lodes(made, "county", numbers="measured")
    assert found.rows.column_names == ["w_geocode", "C000", "CE01", "CE02", "CE03"]
    noisy = {(r["county"], r["earnings"]): r["noisy"] for r in made.table("pay").to_pylist()}
    for row in found.rows.to_pylist():
        assert row["CE01"] == noisy[row["w_geocode"], "1250-or-less"]
        assert row["CE03"] == noisy[row["w_geocode"], "more-than-3333"]
        assert row["CE01"] + row["CE02"] + row["CE03"] == row["C000"]


def test_each_column_comes_from_the_table_with_the_least_predicted_error(
    release: eree.Release,
) -> None:
    """`totals` adds up one cell for each tract, and each has the noise of a whole tract."""
    found = eree.lodes(release, "tract", numbers="measured")
    assert found.sources["C000"] == "tracts"
    assert set(found.predicted["C000"]) == {"tracts", "totals", "sexes", "ages"}
    for column, source in found.sources.items():
        errors = found.predicted[column]
        least = min(error for error in errors.values() if error is not None)
        assert errors[source] is not None and errors[source] <= 1.02 * least
    assert found.sources["CNS07"] == "tracts"
    assert found.sources["CA02"] == "ages"
    assert found.sources["CS01"] == "sexes"
    assert set(found.missing) == {
        *(f"CE0{i}" for i in (1, 2, 3)),
        *(f"CR0{i}" for i in (1, 2, 3, 4, 5, 7)),
        *(f"CT0{i}" for i in (1, 2)),
        *(f"CD0{i}" for i in (1, 2, 3, 4)),
    }
    codes = found.rows["w_geocode"].to_pylist()
    assert codes == sorted(set(release.table("tracts")["tract"].to_pylist()))
    said: Counter[str] = Counter()
    for row in release.table("tracts").to_pylist():
        said[row["tract"]] += row["noisy"]
    assert found.rows["C000"].to_pylist() == [said[code] for code in codes]


def true_error(
    release: eree.Release, population: eree.Tables, geocode: str, table: str, column: str
) -> float:
    """The mean error of the areas of a column, from the confidential counts."""
    kept = {name: list(values) for name, values in eree.LODES_COLUMNS[column].items()}
    cells = eree.tabulate(population, by=[geocode], where=kept).confidential.to_pylist()
    true = {row[geocode]: row["count"] for row in cells}
    made = eree.lodes(release, geocode, tables=[table], numbers="measured").rows.to_pylist()
    return fmean(abs(row[column] - true.get(row["w_geocode"], 0)) for row in made)


def test_the_table_that_is_taken_is_truly_the_best_or_nearly_so(
    release: eree.Release, population: eree.Tables
) -> None:
    found = eree.lodes(release, "tract")
    for column in ("C000", "CNS07", "CS01", "CA02"):
        errors = {
            table: true_error(release, population, "tract", table, column)
            for table in found.predicted[column]
        }
        assert errors[found.sources[column]] <= 1.5 * min(errors.values()), (column, errors)
        for table, predicted in found.predicted[column].items():
            assert predicted is not None
            assert 1 / 4 < predicted / errors[table] < 4, (column, table)
    assert eree.lodes(release, "tract", numbers="measured").predicted == found.predicted


def test_fewer_cells_are_not_better_cells(population: eree.Tables, tmp_path: Path) -> None:
    """Cells of whole places have the noise of the largest workplace of the place."""
    tables = [
        {"name": "jobs", "by": ["place", "sector", "ownership"], "epsilon": "4"},
        {"name": "people", "by": ["place", "sex", "education"], "epsilon": "4"},
        {"name": "clip", "by": ["place", "age", "sex", "education"], "epsilon": "2"},
    ]
    privacy = {"neighbours": "strong", "alpha": "0.1", "epsilon": "10"}
    plan = eree.Plan.of({"data": str(population.folder), "privacy": privacy, "table": tables})
    random = eree.SeededRandom(4)
    made = eree.publish(plan, population, ledger=None, out=tmp_path / "out", random=random)
    assert made.about("clip")["mechanism"] == "two-stage-clip"
    found = eree.lodes(made, "place")
    assert (found.sources["C000"], found.sources["CS01"]) == ("jobs", "people")
    errors = {name: true_error(made, population, "place", name, "C000") for name in made.tables}
    assert errors["jobs"] < errors["people"] / 2 < errors["clip"]
    status, shown, _ = eree_command(
        "lodes", made.folder, "--geocode", "place", "--out", tmp_path / "wac.csv"
    )
    assert status == 0
    errors = found.predicted["C000"]
    assert errors["clip"] is None  # what was scaled away is not known
    assert (
        f"C000: jobs, predicted mean error {errors['jobs']:,.3g} an area as it was measured"
        f" ({errors['people']:,.3g} from people, not known from clip)"
    ) in shown
    measured = eree.lodes(made, "place", numbers="measured")
    assert f"mean error {errors['jobs']:,.3g} an area (" in measured.words[0]


def test_measured_columns_have_the_calibrated_intervals_of_their_sums(
    release: eree.Release, tmp_path: Path
) -> None:
    found = eree.lodes(release, "tract", numbers="measured")
    counts = {row["w_geocode"]: row for row in found.rows.to_pylist()}
    for column, where in (("C000", None), ("CNS07", {"sector": ["44-45"]})):
        sums = eree.area_totals(release, found.sources[column], ["tract"], where)
        ends = {row["tract"]: (row["low"], row["high"]) for row in sums.rows.to_pylist()}
        own = [row for row in found.intervals.to_pylist() if row["column"] == column]
        assert [row["w_geocode"] for row in own] == list(counts)
        for row in own:
            assert (row["low"], row["high"]) == ends.get(row["w_geocode"], (0, 0))
    files = tmp_path / "wac.csv", tmp_path / "intervals.csv"
    status, *_ = eree_command(
        *("lodes", release.folder, "--geocode", "tract", "--numbers", "measured"),
        *("--out", files[0], "--intervals", files[1]),
    )
    assert status == 0
    with files[1].open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(counts) * (len(found.rows.column_names) - 1)
    assert list(lines[0]) == ["w_geocode", "column", "low", "high"]
    assert [int(line["low"]) for line in lines] == found.intervals["low"].to_pylist()


def test_intervals_of_estimates_hold_and_are_narrower(
    population: eree.Tables, tmp_path: Path
) -> None:
    """Three tables of each tract, drawn apart, with one total; at the level of 90%.

    Areas without a workplace, of which 0 is known exactly, do not count.
    """
    tables = [{"name": by, "by": ["tract", by], "epsilon": "1"} for by in ("sector", "age", "sex")]
    privacy = {"neighbours": "strong", "alpha": "0.1", "epsilon": "3"}
    plan = eree.Plan.of({"data": str(population.folder), "privacy": privacy, "table": tables})
    true: dict[tuple[str, str], int] = {}
    for column, kept in eree.LODES_COLUMNS.items():
        where = {name: list(values) for name, values in kept.items()}
        for row in eree.tabulate(population, by=["tract"], where=where).confidential.to_pylist():
            true[row["tract"], column] = row["count"]
    held: dict[tuple[str, str], list[bool]] = {}
    wide: Counter[tuple[str, str]] = Counter()
    for seed in range(6):
        random, out = eree.SeededRandom(seed), tmp_path / str(seed)
        made = eree.publish(plan, population, ledger=None, out=out, random=random)
        for numbers in ("estimates", "measured"):
            for row in eree.lodes(made, "tract", numbers=numbers).intervals.to_pylist():
                key = numbers, row["column"].rstrip("0123456789")
                count = true.get((row["w_geocode"], row["column"]))
                if count is not None:
                    held.setdefault(key, []).append(row["low"] <= count <= row["high"])
                wide[key] += row["high"] - row["low"]
    for numbers in ("estimates", "measured"):
        every = [one for key, own in held.items() if key[0] == numbers for one in own]
        assert 0.86 < fmean(every) < 0.98, numbers
    for kind in ("C", "CNS", "CA", "CS"):
        assert wide["estimates", kind] < wide["measured", kind], kind


def test_a_table_of_which_no_error_is_known_is_taken_last(release: eree.Release) -> None:
    """Its mechanism has other parameters here than where it was made."""
    tables = [
        dict(about, parameters={}) if about["name"] == "tracts" else about
        for about in release.record["tables"]
    ]
    other = replace(release, record={**release.record, "tables": tables, "release": "other"})
    found = eree.lodes(other, "tract", numbers="measured")
    assert found.predicted["C000"]["tracts"] is None
    assert found.sources["C000"] != "tracts"
    assert (found.sources["CNS07"], found.predicted["CNS07"]) == ("tracts", {"tracts": None})
    own = [row for row in found.intervals.to_pylist() if row["column"] == "CNS07"]
    assert {None} <= {row["high"] for row in own} <= {None, 0}  # 0 where there is no workplace
    for numbers in ("estimates", "biased-counts"):
        with pytest.raises(eree.Refusal, match=r"other parameters.*; or take .*--numbers meas"):
            eree.lodes(other, "tract", tables=["sexes"], numbers=numbers)


@pytest.fixture(scope="module")
def recoded(population: eree.Tables, tmp_path_factory: pytest.TempPathFactory) -> eree.Release:
    """The same population with sexes called 1 and 2."""
    home = tmp_path_factory.mktemp("recoded")
    data = Path(shutil.copytree(population.folder, home / "data"))
    workers = parquet.read_table(data / "worker.parquet")
    place = workers.column_names.index("sex")
    codes = ["1" if sex == "M" else "2" for sex in workers["sex"].to_pylist()]
    parquet.write_table(workers.set_column(place, "sex", [codes]), data / "worker.parquet")
    schema = (data / "schema.toml").read_text(encoding="utf-8")
    text, changes = re.subn(
        r'values = \["F", "M"\]\n\[worker\.attributes\.sex\.labels\]\n.*\n.*\n',
        'values = ["1", "2"]\n',
        schema,
    )
    assert changes == 1
    (data / "schema.toml").write_text(text, encoding="utf-8")
    plan = eree.Plan.of(
        {
            "data": str(data),
            "privacy": {"neighbours": "strong", "alpha": "0.1", "epsilon": "10"},
            "table": [{"name": "people", "by": ["county", "sex"], "epsilon": "4"}],
        }
    )
    random = eree.SeededRandom(1)
    return eree.publish(plan, eree.load(data), ledger=None, out=home / "out", random=random)


def test_other_codes_are_told_apart_from_no_table(recoded: eree.Release, tmp_path: Path) -> None:
    found = eree.lodes(recoded, "county")
    assert list(found.sources) == ["C000"]
    why = (
        "the codes of sex in table people are not the official LODES codes (expected M, F, found 1,"
        " 2); say with --columns which codes a column has"
    )
    assert (found.missing["CS01"], found.missing["CS02"]) == (why, why)
    assert found.missing["CA01"] == "no table by county has age"
    status, shown, _ = eree_command(
        "lodes", recoded.folder, "--geocode", "county", "--out", tmp_path / "wac.csv"
    )
    assert status == 0
    assert f"  CS01–CS02: left out, because {why}\n" in shown
    assert "  CA01–CA03: left out, because no table by county has age\n" in shown
    columns = {"CS01": {"sex": ["1"]}, "CS02": {"sex": ["2"]}}
    assert not eree.lodes(recoded, "county", columns=columns).missing


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
    assert found.missing["C000"] == "the tables by county leave jobs out (women has sex F)"


def test_columns_can_be_declared(release: eree.Release, tmp_path: Path) -> None:
    file = tmp_path / "columns.toml"
    file.write_text(
        'OLD = { age = ["30-54", "55+"] }\nALL = {}\nODD = { age = ["60+"] }\n', encoding="utf-8"
    )
    found = eree.lodes(release, "tract", columns=file, tables=["ages"], numbers="measured")
    assert found.rows.column_names == ["w_geocode", "OLD", "ALL"]
    assert found.missing == {
        "ODD": "the codes of age in table ages are not those of the columns (expected 30-54, 55+,"
        " 60+, found 14-29, 30-54, 55+); say with --columns which codes a column has"
    }
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
    assert "CNS01–CNS20: tracts, predicted mean error " in shown
    assert "CR01–CR07: left out, because no table by tract has race" in shown
    assert "CD01–CD04: left out, because no table by tract has education" in shown
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    found = eree.lodes(release, "tract")
    assert rows[0] == found.rows.column_names
    assert [float(row[1]) for row in rows[1:]] == found.rows["C000"].to_pylist()
    assert all(len(field.partition(".")[2]) <= 2 for row in rows[1:] for field in row[1:])
    status, shown, err = eree_command(*asked, out)
    assert (status, shown) == (2, "")
    assert "exists already; choose another name or remove it" in err
    status, shown, err = eree_command(*asked, tmp_path / "again.csv", "--json")
    assert json.loads(shown) == {"file": str(tmp_path / "again.csv"), **found.as_json()}
    noisy = tmp_path / "noisy.csv"
    status, shown, err = eree_command(*asked, noisy, "--numbers", "measured", "--json")
    assert json.loads(shown)["numbers"] == "measured"
    with noisy.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    own = eree.lodes(release, "tract", numbers="measured").rows["C000"].to_pylist()
    assert [int(row[1]) for row in rows[1:]] == own
    status, shown, err = eree_command(*asked, tmp_path / "x.csv", "--numbers", "noisy")
    assert (status, shown) == (2, "")
    assert "'noisy' is not one of 'estimates', 'biased-counts', 'shrunk', 'measured'" in err


def test_the_command_writes_gzipped_files_without_a_time(
    release: eree.Release, tmp_path: Path
) -> None:
    asked = ["lodes", release.folder, "--geocode", "county"]
    files = [tmp_path / name for name in ("a.csv.gz", "b.csv.gz", "c.csv", "intervals.csv.gz")]
    for file in files[:3]:
        more = ["--intervals", files[3]] if file is files[0] else []
        status, _, err = eree_command(*asked, "--out", file, *more)
        assert (status, err) == (0, "")
    packed = [file.read_bytes() for file in files]
    assert packed[0] == packed[1]
    assert packed[0][4:8] == bytes(4)  # where a time would be
    assert gzip.decompress(packed[0]) == packed[2]
    assert gzip.decompress(packed[3]).startswith(b"w_geocode,column,low,high\n")
    for name in ("wac.gz", "wac.csv.zip"):
        status, _, err = eree_command(*asked, "--out", tmp_path / name)
        assert (status, "it must end in .csv or .csv.gz" in err) == (2, True)
    status, _, err = eree_command(
        "rank", release.folder, "places", "--by", "place", "--out", "x.csv.gz"
    )
    assert (status, "it must end in .csv" in err) == (2, True)


@pytest.fixture(scope="module")
def county(tmp_path_factory: pytest.TempPathFactory) -> eree.Tables:
    folder = tmp_path_factory.mktemp("county") / "data"
    return eree.load(eree_study.synthesize(folder, jobs=80_000, seed=3))


@pytest.fixture(scope="module")
def one_draw(county: eree.Tables, tmp_path_factory: pytest.TempPathFactory) -> eree.Release:
    tables = [
        {
            "name": "wac",
            "by": ["tract", "sector"],
            "marginals": ["sex", "age", "race", "education"],
            "epsilon": "2",
        },
        {"name": "jobs", "by": ["tract", "ownership"], "epsilon": "1"},
        {"name": "clip", "by": ["tract", "sex"], "epsilon": "1", "mechanism": "two-stage-clip"},
    ]
    privacy = {"neighbours": "strong", "alpha": "0.1", "epsilon": "4"}
    plan = eree.Plan.of({"data": str(county.folder), "privacy": privacy, "table": tables})
    out = tmp_path_factory.mktemp("one-draw") / "out"
    return eree.publish(plan, county, ledger=None, out=out, random=eree.SeededRandom(1))


def test_shrunk_columns_of_one_draw_add_up_and_are_nearer_to_the_truth(
    county: eree.Tables, one_draw: eree.Release
) -> None:
    found = eree.lodes(one_draw, "tract", numbers="shrunk")
    assert "jobs" not in found.sources.values()
    columns = {name: found.rows[name].to_numpy() for name in found.sources}
    for kind in ("CS", "CA", "CR", "CD", "CNS"):
        sums = sum(np.rint(100 * own) for name, own in columns.items() if name.startswith(kind))
        assert (sums == np.rint(100 * columns["C000"])).all(), kind
    errors: dict[Any, float] = {"shrunk": 0.0, "measured": 0.0}
    rows = {numbers: eree.lodes(one_draw, "tract", numbers=numbers).rows for numbers in errors}
    for name, kept in eree.LODES_COLUMNS.items():
        for attribute, values in kept.items():
            if name not in columns or attribute == "sector":
                continue
            exact = eree.tabulate(county, by=["tract"], where={attribute: values}).confidential
            true = dict(zip(*(exact[n].to_pylist() for n in ("tract", "count")), strict=True))
            real = [true.get(area, 0) for area in found.rows["w_geocode"].to_pylist()]
            for numbers, said in rows.items():
                errors[numbers] += float(np.abs(said[name].to_numpy() - real).sum())
    assert errors["shrunk"] < 0.85 * errors["measured"]


def test_shrunk_columns_have_no_intervals_and_leave_no_file(
    one_draw: eree.Release, tmp_path: Path
) -> None:
    found = eree.lodes(one_draw, "tract", numbers="shrunk")
    out, ends = tmp_path / "wac.csv", tmp_path / "ends.csv"
    with pytest.raises(eree.Refusal, match="its interval is not known; 'eree shrink"):
        found.write(out, intervals=ends)
    assert not list(tmp_path.iterdir())


def test_tables_that_cannot_be_shrunk_say_why(one_draw: eree.Release) -> None:
    with pytest.raises(eree.Refusal, match=r"no table by tract can be shrunk: .*cell by cell"):
        eree.lodes(one_draw, "tract", tables=["jobs"], numbers="shrunk")
    with pytest.raises(eree.Refusal, match=r"no table by county can be shrunk: .* areas; whether"):
        eree.lodes(one_draw, "county", tables=["wac-sex"], numbers="shrunk")
    with pytest.raises(eree.Refusal, match=r"no table by tract can be shrunk: .*scaled away"):
        eree.lodes(one_draw, "tract", tables=["clip"], numbers="shrunk")
    columns: dict[str, dict[str, list[Any]]] = {
        "P": {"ownership": ["private"]},
        "M": {"sex": ["M"]},
    }
    found = eree.lodes(one_draw, "tract", columns=columns, numbers="shrunk")
    assert list(found.sources) == ["M"]
    assert "jobs was protected cell by cell" in found.missing["P"]
