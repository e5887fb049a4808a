"""The files of LODES in full: by state, segment and job type, with all columns in their order."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eree
from eree.estimate.lodes_columns import OFFICIAL, SEGMENTS, both, runs
from selection import examples
from town import Town
from uses import eree_command

HEADER = (
    "w_geocode,C000,CA01,CA02,CA03,CE01,CE02,CE03,CNS01,CNS02,CNS03,CNS04,CNS05,CNS06,CNS07,CNS08,"
    "CNS09,CNS10,CNS11,CNS12,CNS13,CNS14,CNS15,CNS16,CNS17,CNS18,CNS19,CNS20,CR01,CR02,CR03,CR04,"
    "CR05,CR07,CT01,CT02,CD01,CD02,CD03,CD04,CS01,CS02,CFA01,CFA02,CFA03,CFA04,CFA05,CFS01,CFS02,"
    "CFS03,CFS04,CFS05,createdate"
)
QUICK = {"mechanism": "smooth-pareto"}
TABLES: list[dict[str, Any]] = [
    {"name": "jobs", "by": ["state", "tract", "sector", "ownership"], "epsilon": "4"} | QUICK,
    {"name": "pay", "by": ["tract", "earnings"], "epsilon": "4"},
    {"name": "young", "by": ["tract", "sex"], "where": {"age": ["14-29"]}, "epsilon": "4"},
]


def published(data: eree.Tables, out: Path, tables: list[dict[str, Any]], **more: Any) -> Any:
    privacy = {"neighbours": "strong", "alpha": "0.1", "epsilon": "100"}
    plan = eree.Plan.of({"data": str(data.folder), "privacy": privacy, "table": tables, **more})
    return eree.publish(plan, data, ledger=None, out=out, random=eree.SeededRandom(7))


@pytest.fixture(scope="module")
def made(population: eree.Tables, tmp_path_factory: pytest.TempPathFactory) -> eree.Release:
    out = tmp_path_factory.mktemp("files") / "out"
    release: eree.Release = published(population, out, TABLES, period="2026-Q1")
    return release


def read(path: Path) -> list[dict[str, str]]:
    text = gzip.decompress(path.read_bytes()).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def summed(release: eree.Release, table: str, kept: Any) -> dict[Any, int]:
    """What a table has of some jobs, row by row; its own filter keeps no others."""
    about = release.about(table)
    for name, values in about["where"].items():
        assert set(values) <= set(kept[name])
    found: dict[Any, int] = {}
    for row in release.table(table).to_pylist():
        if all(row[name] in values for name, values in kept.items() if name in about["by"]):
            found[row["tract"]] = found.get(row["tract"], 0) + row["noisy"]
    return found


# -------------------------------------------------------------------------------- what is written


def test_files_are_named_and_shaped_as_lodes_has_them(made: eree.Release, tmp_path: Path) -> None:
    folder = eree.lodes_files(made, "tract").write(tmp_path / "wac")
    parts = [(s, "JT00") for s in SEGMENTS if s not in ("SA02", "SA03")]
    parts += [(s, "JT02") for s in ("S000", "SI01", "SI02", "SI03")]
    expected = {f"{st}_wac_{s}_{t}_2026.csv.gz" for st in ("il", "in", "wi") for s, t in parts}
    walks = {f"{state}_xwalk.csv.gz" for state in ("il", "in", "wi")}
    assert {path.name for path in folder.iterdir()} == {*expected, *walks, "notes.txt"}
    states = {row["tract"]: row["state"] for row in made.table("jobs").to_pylist()}
    day = made.record["made"][:10].replace("-", "")
    for name in expected:
        text = gzip.decompress((folder / name).read_bytes()).decode()
        assert text.startswith(HEADER + "\n")
        code = {"il": "17", "in": "18", "wi": "55"}[name[:2]]
        rows = read(folder / name)
        areas = [row["w_geocode"] for row in rows]
        assert areas == sorted(area for area, state in states.items() if state == code)
        assert {row["createdate"] for row in rows} == {day}
    for state in ("il", "in", "wi"):
        rows = read(folder / f"{state}_xwalk.csv.gz")
        assert list(rows[0]) == ["tract", "county", "state", "statename"]
        areas = [row["w_geocode"] for row in read(folder / f"{state}_wac_S000_JT00_2026.csv.gz")]
        assert [row["tract"] for row in rows] == areas
        assert {row["state"] for row in rows} == {states[area] for area in areas}


def test_every_count_is_the_sum_of_released_cells_a_true_zero_or_empty(made: eree.Release) -> None:
    """Against a sum row by row, for every file, column and area, as measured."""
    found = eree.lodes_files(made, "tract", numbers="measured")
    files, owners = found.files(), {"JT00": {}, "JT02": {"ownership": ["private"]}}
    filled = 0
    for part, state in product(found.parts, ("il", "in", "wi")):
        rows = files[f"{state}_wac_{part.segment}_{part.job_type}_2026.csv.gz"].to_pylist()
        assert set(part.counts) | set(part.missing) == set(OFFICIAL)
        for column in OFFICIAL:
            if column in part.missing:
                assert column not in part.sources
                assert {row[column] for row in rows} == {None}
                continue
            sets = [SEGMENTS[part.segment], owners[part.job_type], eree.LODES_COLUMNS[column]]
            names = {name for kept in sets for name in kept}
            kept = {n: set.intersection(*(set(k[n]) for k in sets if n in k)) for n in names}
            if not all(kept.values()):
                assert column not in part.sources
                assert {row[column] for row in rows} == {0}
                continue
            sums = summed(made, part.sources[column], kept)
            assert [row[column] for row in rows] == [sums.get(r["w_geocode"], 0) for r in rows]
            filled += 1
    sectors = (1 + 4) + (1 + 4) + (1 + 12)  # of SI01 to SI03, each with its total
    assert filled == 3 * (25 + 4 + 3 * 2 + sectors + 21 + sectors)


def kinds_apart(
    rows: list[dict[str, Any]], empty: Any, times: int
) -> Iterator[tuple[str, list[int]]]:
    """Of each kind that a file has all columns of, what they are more than C000, in integers."""
    for kind in dict.fromkeys(column.rstrip("0123456789") for column in OFFICIAL[1:]):
        columns = [column for column in OFFICIAL if column.rstrip("0123456789") == kind]
        if any(row[column] == empty for row in rows for column in (*columns, "C000")):
            continue
        exact = [{c: times * Decimal(str(row[c])) for c in ("C000", *columns)} for row in rows]
        assert all(number == int(number) for row in exact for number in row.values())
        yield kind, [int(sum(row[c] for c in columns) - row["C000"]) for row in exact]


def test_estimates_add_up_in_every_file(made: eree.Release, tmp_path: Path) -> None:
    """As the files have them, in decimals; tables were drawn one by one."""
    folder = eree.lodes_files(made, "tract").write(tmp_path / "wac")
    seen: dict[str, set[str]] = {}
    for path in sorted(folder.glob("*_wac_*.csv.gz")):
        for kind, apart in kinds_apart(read(path), "", 100):
            assert set(apart) == {0}, (path.name, kind)
            seen.setdefault(path.name[3:16], set()).add(kind)
    assert seen["wac_S000_JT00"] == {"CNS", "CE"}
    assert seen["wac_SA01_JT00"] == {"CA", "CS"}
    assert {name for name, kinds in seen.items() if "CNS" in kinds} == {
        f"wac_{segment}_{kind}" for segment in ("S000", "SI01", "SI02", "SI03")
        for kind in ("JT00", "JT02")
    }  # fmt: skip
    notes = (folder / "notes.txt").read_text(encoding="utf-8")
    assert notes.count(": adds up to C000 in every area\n") == sum(map(len, seen.values()))
    assert "differs from C000" not in notes
    assert "Numbers are estimates that agree with each other; noise makes some negative.\n" in notes


def test_segments_add_up_to_all_jobs_as_estimates(made: eree.Release) -> None:
    found = eree.lodes_files(made, "tract")
    parts = {part.segment: part.counts for part in found.parts if part.job_type == "JT00"}
    for some in (("SI01", "SI02", "SI03"), ("SE01", "SE02", "SE03")):
        added = sum(parts[segment]["C000"] for segment in some)
        assert added == pytest.approx(parts["S000"]["C000"], abs=1e-6)


def test_biased_counts_of_files_are_integers_of_zero_or_more(made: eree.Release) -> None:
    found = eree.lodes_files(made, "tract", numbers="biased-counts")
    for part in found.parts:
        for counts in part.counts.values():
            assert counts.dtype == np.int64
            assert (counts >= 0).all()
    sums = {(part.segment, part.job_type): part.sums for part in found.parts}
    assert sums["S000", "JT00"]["CNS"] == (0.0, 0.0)
    rows = found.files()["il_wac_S000_JT00_2026.csv.gz"].to_pylist()
    apart = dict(kinds_apart(rows, None, 1))
    assert set(apart) == {"CNS", "CE"}
    assert set(apart["CNS"]) == {0}
    assert "small ones are too large" in found.notes()
    assert found.as_json()["numbers"] == "biased-counts"


def test_measured_kinds_add_up_or_the_notes_say_by_how_much_not(made: eree.Release) -> None:
    found = eree.lodes_files(made, "tract", numbers="measured")
    parts = {(part.segment, part.job_type): part for part in found.parts}
    whole = parts["S000", "JT00"]
    assert whole.sources["CE01"] == whole.sources["CE03"] == "pay"
    off = [
        abs(int(sum(whole.counts[f"CE0{k}"][i] for k in (1, 2, 3)) - whole.counts["C000"][i]))
        for i in range(len(found.areas))
    ]
    assert max(off) > 0
    assert whole.sums["CNS"] == (0.0, 0)
    assert whole.sums["CE"] == (pytest.approx(sum(off) / len(off)), max(off))
    assert set(whole.sums) == {"CNS", "CE"}
    assert set(parts["SA01", "JT00"].sums) == {"CA", "CS"}  # ages are 0 but one
    notes = found.notes()
    assert f", {max(off):,} at most: it is from pay and C000 from jobs\n" in notes
    assert "  CNS: adds up to C000 in every area\n" in notes
    assert "this release protects nothing" in notes


def test_a_kind_comes_from_one_table_though_another_has_a_better_column(
    population: eree.Tables, tmp_path: Path
) -> None:
    """One age alone is more exact from the table of the young, and would not add up."""
    young = {"name": "young", "by": ["tract"], "where": {"age": ["14-29"]}, "epsilon": "12"}
    ages = {"name": "ages", "by": ["tract", "age"], "epsilon": "4"}
    release = published(population, tmp_path / "out", [TABLES[0], ages, young], period="2026")
    found = eree.lodes_files(release, "tract", tables=["ages", "young"], numbers="measured")
    [whole, *_] = found.parts
    assert {whole.sources[f"CA0{i}"] for i in (1, 2, 3)} == {"ages"}
    assert whole.sums["CA"] == (0.0, 0)
    one = eree.lodes(release, "tract")
    assert (one.sources["CA01"], one.sources["CA02"]) == ("young", "ages")
    for numbers, apart in (("estimates", False), ("measured", True)):
        rows = eree.lodes(release, "tract", tables=["ages", "young"], numbers=numbers).rows
        total, *ages = (rows[c].to_numpy() for c in ("C000", "CA01", "CA02", "CA03"))
        assert bool((np.abs(sum(ages) - total) > 1e-6).any()) == apart


def test_what_cannot_be_filled_is_named_with_the_reason(made: eree.Release) -> None:
    found = eree.lodes_files(made, "tract")
    parts = {(part.segment, part.job_type): part.missing for part in found.parts}
    assert parts["S000", "JT00"]["CR01"] == "no table by tract has race"
    assert parts["S000", "JT00"]["CA02"] == "no table by tract has age for all of its jobs"
    assert parts["SA01", "JT00"]["CNS01"] == "no table by tract has age and sector together"
    assert parts["S000", "JT02"]["CE01"] == "no table by tract has ownership and earnings together"
    assert parts["S000", "JT00"]["CFA01"].startswith("firms are not in the tables; say with")
    assert found.missing["SA02 JT00"] == "no table by tract has age for all of its jobs"
    assert found.missing["JT01"] == "every worker has one job, so that it is what JT00 has"
    assert found.missing["S000 JT04"].startswith(
        "the codes of ownership in table jobs are not the official LODES codes (expected private,"
        " federal, found private, public)"
    )
    assert "  SA02 JT00, SA03 JT00: no table by tract has age for all of" in found.notes()


def test_columns_segments_and_job_types_can_be_declared(made: eree.Release, tmp_path: Path) -> None:
    file = tmp_path / "columns.toml"
    file.write_text(
        "CFA01 = { sector = ['11'], ownership = ['private'] }\n"
        "JT04 = { ownership = ['public'] }\n"
        "SI01 = { sector = ['11', '23'] }\n",
        encoding="utf-8",
    )
    found = eree.lodes_files(made, "tract", columns=file, numbers="measured")
    parts = {(part.segment, part.job_type): part for part in found.parts}
    assert parts["S000", "JT00"].sources["CFA01"] == "jobs"
    assert "CFA02" in parts["S000", "JT00"].missing
    farms = summed(made, "jobs", {"sector": ["11"], "ownership": ["private"]})
    areas = found.areas.to_pylist()
    assert list(parts["S000", "JT00"].counts["CFA01"]) == [farms.get(area, 0) for area in areas]
    public = summed(made, "jobs", {"ownership": ["public"]})
    assert list(parts["S000", "JT04"].counts["C000"]) == [public.get(area, 0) for area in areas]
    assert set(parts["S000", "JT04"].counts["CFA01"]) == {0}  # of private firms alone
    goods = summed(made, "jobs", {"sector": ["11", "23"]})
    assert list(parts["SI01", "JT00"].counts["C000"]) == [goods.get(area, 0) for area in areas]


def test_the_same_release_gives_the_same_bytes(made: eree.Release, tmp_path: Path) -> None:
    for name in ("one", "two"):
        eree.lodes_files(made, "tract").write(tmp_path / name)
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / n).iterdir()} for n in ("one", "two"))
    assert one == two
    undated = replace(made, record={n: v for n, v in made.record.items() if n != "made"})
    rows = next(iter(eree.lodes_files(undated, "tract").files().values()))
    assert rows.column_names == HEADER.removesuffix(",createdate").split(",")


@examples(50, torture=2000)
@given(*[st.dictionaries(st.sampled_from("ab"), st.sets(st.integers(0, 2), min_size=1))] * 2)
def test_two_filters_keep_the_jobs_that_each_keeps(one: Any, other: Any) -> None:
    jobs = [dict(zip("ab", values, strict=True)) for values in product(range(3), repeat=2)]

    def kept(job: dict[str, int], by: Any) -> bool:
        return by is not None and all(job[name] in values for name, values in by.items())

    found = both({n: sorted(v) for n, v in one.items()}, {n: sorted(v) for n, v in other.items()})
    assert [kept(job, found) for job in jobs] == [kept(j, one) and kept(j, other) for j in jobs]


def test_runs_of_columns_have_no_gap() -> None:
    assert runs(["CA01", "CA03", "CR05", "CR07"]) == "CA01, CA03, CR05–CR07"
    assert runs(["C000", "CS01", "CS02", "X1", "X3", "Y"]) == "C000, CS01–CS02, X1–X3, Y"


# ----------------------------------------------------------------------------- states and job types


def town(change: Any = None) -> Town:
    """A small town; the first worker has a second job, of another kind."""
    new = Town()
    new.tables["job"] = {
        "worker_id": [1, 2, 3, 4, 5, 6, 1],
        "workplace_id": [10, 10, 20, 30, 30, 30, 40],
        "kind": [*["primary"] * 6, "other"],
    }
    new.schema["job"] |= {"attributes": {"kind": ["primary", "other"]}, "most_per_worker": 2}
    if change is not None:
        change(new)
    return new


def of_town(tmp_path: Path, tables: list[dict[str, Any]], change: Any = None) -> eree.Release:
    data = eree.load(town(change).write(tmp_path / "data"))
    listed = [{"epsilon": "4"} | QUICK | table for table in tables]
    release: eree.Release = published(data, tmp_path / "out", listed, period="2026")
    return release


KINDS = {"name": "kinds", "by": ["tract", "kind"], "epsilon": "8", "mechanism": "auto"}


def test_primary_jobs_are_declared_and_private_ones_follow(tmp_path: Path) -> None:
    release = of_town(tmp_path, [KINDS])
    found = eree.lodes_files(release, "tract")
    assert [(part.segment, part.job_type) for part in found.parts] == [("S000", "JT00")]
    assert found.missing["JT01"].startswith("which jobs are primary is not known; say it with")
    declared = {"JT01": {"kind": ["primary"]}, "JT02": {"kind": ["other"]}}
    found = eree.lodes_files(release, "tract", columns=declared, numbers="measured")
    types = {part.job_type: part for part in found.parts if part.segment == "S000"}
    assert list(types) == ["JT00", "JT01", "JT02"]
    sums = (types["JT01"].counts["C000"], types["JT02"].counts["C000"])
    assert list(types["JT00"].counts["C000"]) == [int(a + b) for a, b in zip(*sums, strict=True)]
    assert found.missing["JT03"] == "no job can be of both"


def test_jobs_that_are_marked_as_primary_are_no_jobs_of_all_types(tmp_path: Path) -> None:
    def marked(made: Town) -> None:
        made.tables["job"]["main"] = [True] * 6 + [False]
        made.schema["job"] |= {"primary": "main", "most_per_worker": 1}

    found = eree.lodes_files(of_town(tmp_path, [{"name": "t", "by": ["tract"]}], marked), "tract")
    assert [(part.segment, part.job_type) for part in found.parts] == [("S000", "JT01")]
    assert found.missing["JT00"] == "only one job of each worker is counted, the primary one"


def test_jobs_that_a_rule_chose_are_primary_ones(tmp_path: Path) -> None:
    """The second job has the greater pay; what the release says of it is what verifying says."""

    def chosen(made: Town) -> None:
        made.tables["job"]["pay"] = [9] * 6 + [10]
        made.schema["job"] |= {"primary": {"greatest": "pay"}, "most_per_worker": 1}

    release = of_town(tmp_path, [{"name": "t", "by": ["tract"]}], chosen)
    found = eree.lodes_files(release, "tract")
    assert [(part.segment, part.job_type) for part in found.parts] == [("S000", "JT01")]
    assert found.missing["JT00"] == "only one job of each worker is counted, the primary one"
    assert release.record["protects"]["job"] == {
        "primary": {"greatest": "pay"},
        "most_per_worker": 1,
    }


@pytest.mark.parametrize(
    ("geocode", "by", "areas", "states"),
    [
        ("tract", ["tract"], True, ["il", "in"]),  # the release says which areas lie in which
        ("county", ["tract"], True, ["il", "in"]),
        ("tract", ["tract", "state"], False, ["il", "in"]),
        ("state", ["state", "county"], False, ["il", "in"]),
        ("tract", ["tract"], False, ["us"]),
    ],
)
def test_the_state_of_an_area_is_a_public_attribute_and_never_guessed(
    tmp_path: Path, geocode: str, by: list[str], areas: bool, states: list[str]
) -> None:
    """The codes begin with 17 and 18 in all cases."""

    def flat(made: Town) -> None:
        made.schema["hierarchy"].pop("geography")

    release = of_town(tmp_path, [{"name": "t", "by": by}], None if areas else flat)
    assert ("tract" in release.areas) == areas
    found = eree.lodes_files(release, geocode)
    files = ("wac_S000_JT00_2026", "xwalk")
    assert list(found.files()) == [f"{s}_{file}.csv.gz" for s in states for file in files]
    if states != ["us"]:
        codes = {s: found.files()[f"{s}_xwalk.csv.gz"][geocode].to_pylist() for s in states}
        assert all(code.startswith("17") for code in codes["il"])
        assert all(code.startswith("18") for code in codes["in"])
    assert found.as_json()["states"] == states
    assert ("No table says which state" in found.notes()) == (states == ["us"])


def test_a_group_of_the_geocode_is_its_state(tmp_path: Path) -> None:
    def grouped(made: Town) -> None:
        made.schema["workplace"]["attributes"].pop("state")
        made.schema["workplace"]["ignore"] = ["state"]
        members = {"North": ["1711", "1811"], "17": ["1712", "1721"]}
        made.schema["group"]["state"] = {"of": "tract", "members": members}
        made.schema["hierarchy"].pop("geography")

    tables = [{"name": "t", "by": ["tract"]}, {"name": "s", "by": ["state"]}]
    found = eree.lodes_files(of_town(tmp_path, tables, grouped), "tract")
    files = found.files()
    assert {n[:5]: rows["w_geocode"].to_pylist() for n, rows in files.items() if "wac" in n} == {
        "il_wa": ["1712", "1721"],
        "north": ["1711", "1811"],
    }
    assert files["north_xwalk.csv.gz"].to_pylist() == [
        {"tract": "1711", "state": "North"},
        {"tract": "1811", "state": "North"},
    ]


def test_an_area_in_two_states_and_a_state_without_a_word_are_refused(tmp_path: Path) -> None:
    def across(made: Town) -> None:
        made.tables["workplace"]["tract"] = ["1711", "1712", "1721", "1711"]
        made.schema["hierarchy"].pop("geography")

    def odd(made: Town) -> None:
        made.tables["workplace"]["state"] = ["a/b", "a/b", "a/b", "18"]

    for name, change, words in (
        ("across", across, "tract 1711 lies in more than one state"),
        ("odd", odd, "the state 'a/b' cannot stand in the name of a file"),
    ):
        (tmp_path / name).mkdir()
        release = of_town(tmp_path / name, [{"name": "t", "by": ["tract", "state"]}], change)
        with pytest.raises(eree.Refusal, match=words):
            eree.lodes_files(release, "tract")


# -------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"geocode": "shoe"}, "no table is counted by the workplace attribute 'shoe'"),
        ({"columns": {"OLD": {"age": ["55+"]}}}, "OLD is no column, segment or job type of LODES"),
        ({"year": 2025}, "2025 is not the year of the release, whose period is 2026-Q1"),
    ],
)
def test_what_cannot_be_written_is_refused(
    made: eree.Release, asked: dict[str, Any], words: str
) -> None:
    with pytest.raises(eree.Refusal, match=words):
        eree.lodes_files(made, **{"geocode": "tract", **asked})


def test_a_release_that_fills_no_column_is_refused(tmp_path: Path) -> None:
    table = {"name": "t", "by": ["tract"], "where": {"grade": [1]}}
    with pytest.raises(eree.Refusal, match="no table by tract holds any of the columns"):
        eree.lodes_files(of_town(tmp_path, [table]), "tract")


@pytest.mark.parametrize("period", ["", "spring", "2025 to 2026", 7, None])
def test_a_release_without_a_year_needs_one(made: eree.Release, period: Any) -> None:
    other = replace(made, record={**made.record, "period": period})
    with pytest.raises(eree.Refusal, match="say it with --year"):
        eree.lodes_files(other, "tract")
    for year in (0, 10_000):
        with pytest.raises(eree.Refusal, match=f"{year} is not the year"):
            eree.lodes_files(other, "tract", year=year)
    if period == "spring":
        assert eree.lodes_files(other, "tract", year=2026).year == 2026


# ------------------------------------------------------------------------------------ the command


def test_the_command_writes_a_folder(made: eree.Release, tmp_path: Path) -> None:
    asked = ["lodes", made.folder, "--geocode", "tract", "--folder"]
    status, shown, err = eree_command(*asked, tmp_path / "wac")
    assert (status, err) == (0, "")
    found = eree.lodes_files(made, "tract")
    assert shown.splitlines()[:2] == [
        f"{tmp_path}/wac: {len(found.files())} files, {len(found.areas)} areas, 2026",
        "  S000 JT00: 25 of 51 columns",
    ]
    assert f"  {len(found.missing)} segments and job types have no file" in shown
    notes = (tmp_path / "wac" / "notes.txt").read_text(encoding="utf-8")
    assert notes == found.notes()
    status, shown, _ = eree_command(*asked, tmp_path / "again", "--year", "2026", "--json")
    told = json.loads(shown)
    assert told.pop("folder") == str(tmp_path / "again")
    assert told.pop("files") == list(found.files())
    assert told == found.as_json()
    status, shown, _ = eree_command(*asked, tmp_path / "noisy", "--numbers", "measured", "--json")
    measured = eree.lodes_files(made, "tract", numbers="measured")
    assert json.loads(shown)["parts"] == measured.as_json()["parts"]
    assert (tmp_path / "noisy" / "notes.txt").read_text(encoding="utf-8") == measured.notes()
    for more, words in (
        ([*asked, tmp_path / "wac"], "exists already"),
        ([*asked, made.folder / "wac"], "no part of a signed release"),
        ([*asked, tmp_path / "x", "--out", tmp_path / "x.csv"], "one file with --out, or all with"),
        (asked[:-1], "say where to write"),
        ([*asked, tmp_path / "x", "--intervals", tmp_path / "i.csv"], "go with --out, and not"),
        ([*asked, tmp_path / "x", "--crosswalk", tmp_path / "c.csv"], "go with --out, and not"),
        ([*asked[:-1], "--out", tmp_path / "x.csv", "--year", "2026"], "--year goes with"),
    ):
        status, shown, err = eree_command(*more)
        assert (status, shown) == (2, "")
        assert words in err
    assert not (tmp_path / "x").exists()
