"""Strata of workplaces say which released sizes they were made of, and are remade from them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

import eree
import eree_study
from eree.policy.declarations import inspect_schema
from eree.release.record import RECORD, digest_of, record_text
from uses import eree_command, shown, with_members

CUT = 15
WORD = "on its author's word: size_stratum "
SMALL = {"name": "small", "by": ["sector"], "where": {"size_stratum": ["0-14"]}, "epsilon": "1"}


def released(home: Path, table: dict[str, Any], out: str) -> eree.Release:
    """A paid release of one table of the data in a folder."""
    privacy = {"neighbours": "strong", "alpha": "0.1", "epsilon": table["epsilon"]}
    data = home / "data"
    plan = eree.Plan.of({"data": str(data), "privacy": privacy, "table": [table]})
    ledger = eree.Ledger.open(home / "ledger.db")
    return eree.publish(plan, eree.load(data), ledger=ledger, out=home / out)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data with strata of noisy sizes, and the releases `sizes` and `out`."""
    home = tmp_path_factory.mktemp("provenance")
    shown(eree_study.synthesize(home / "data", jobs=2_000))
    total = eree.Guarantee(eree.Strong("0.1"), "100")
    eree.Ledger.create(home / "ledger.db", total, data_set="data")
    table = {"name": "sizes", "by": ["workplace_id"], "epsilon": "1"}
    made = eree.size_strata(released(home, table, "sizes"), "sizes", [CUT])
    made.write(home / "data" / "size_stratum.csv")
    with (home / "data" / "schema.toml").open("a", encoding="utf-8") as file:
        file.write(f"\n{made.declaration('size_stratum', 'size_stratum.csv')}\n")
    released(home, SMALL, "out")
    return home


def copied(home: Path, tmp_path: Path) -> Path:
    """The same data and sizes, to be changed, and a ledger of their own."""
    for name in ("data", "sizes"):
        shutil.copytree(home / name, tmp_path / name)
    total = eree.Guarantee(eree.Strong("0.1"), "100")
    eree.Ledger.create(tmp_path / "ledger.db", total, data_set="data")
    return tmp_path


def rules(release: eree.Release, *sizes: eree.Release) -> list[str]:
    return [fault.rule for fault in eree.verify(release, sizes=sizes).faults]


def resealed(folder: Path, record: dict[str, Any]) -> eree.Release:
    """A release whose record was written again, with the digest that fits it."""
    record["digest"] = digest_of(record)
    (folder / RECORD).write_text(record_text(record), encoding="utf-8")
    return eree.Release.open(folder)


def test_the_record_says_what_the_strata_were_made_of(home: Path) -> None:
    out, sizes = (eree.Release.open(home / name) for name in ("out", "sizes"))
    assert out.record["attributes"]["size_stratum"]["provenance"] == {
        "release": sizes.identity,
        "digest": sizes.record["digest"],
        "table": "sizes",
        "cuts": [CUT],
    }
    found = eree.verify(out, sizes=[sizes])
    assert found.sound
    assert f"size_stratum is what table sizes of {home / 'sizes'} makes it" in found.checks
    assert not any("author" in check for check in found.checks)


def test_without_the_sizes_strata_are_on_the_word_of_their_author(home: Path) -> None:
    sizes = eree.Release.open(home / "sizes")
    status, told, _ = eree_command("verify", home / "out")
    assert status == 0
    said = f"is said to be made of table sizes of release {sizes.identity[:8]}, which was not given"
    assert f"{WORD}{said} (--size-release)" in told
    status, told, _ = eree_command("verify", home / "out", "--size-release", home / "sizes")
    assert status == 0
    assert "author" not in told
    assert "size_stratum is what table sizes of" in told


def test_one_workplace_in_another_stratum_is_found(home: Path, tmp_path: Path) -> None:
    copy = copied(home, tmp_path)
    path = copy / "data" / "size_stratum.csv"
    header, first, *lines = path.read_text(encoding="utf-8").splitlines()
    value, group = first.split(",")
    first = f"{value},{'0-14' if group == '15+' else '15+'}"
    path.write_text("\n".join([header, first, *lines, ""]), encoding="utf-8")
    out, sizes = released(copy, SMALL, "out"), eree.Release.open(copy / "sizes")
    assert eree.verify(out).sound
    number = sizes.table("sizes").num_rows
    words = f"puts 1 of {number:,} workplaces into other strata than their sizes do"
    assert rules(out, sizes) == [words]
    status, told, _ = eree_command("verify", copy / "out", "--size-release", copy / "sizes")
    assert status == 1
    assert f"attributes.size_stratum: {words}" in told


def test_a_workplace_too_few_is_found(home: Path, tmp_path: Path) -> None:
    """Whoever leaves one out of the file can seal it again; only the sizes know."""
    copy = Path(shutil.copytree(home / "out", tmp_path / "fewer"))
    fewer = with_members(copy, "size_stratum", lambda rows: rows.slice(1))
    assert eree.verify(fewer).sound
    assert rules(fewer, eree.Release.open(home / "sizes")) == [
        "has other workplaces than the released sizes"
    ]


def test_strata_of_nothing_are_on_the_word_of_their_author(home: Path, tmp_path: Path) -> None:
    copy = copied(home, tmp_path)
    path = copy / "data" / "schema.toml"
    text = re.sub("provenance = .*\n", "", path.read_text(encoding="utf-8"))
    path.write_text(text, encoding="utf-8")
    out = released(copy, SMALL, "out")
    assert "provenance" not in out.record["attributes"]["size_stratum"]
    found = eree.verify(out)
    assert found.sound
    assert f"{WORD}groups workplaces, and nothing says what it was made of" in found.checks
    assert rules(out, eree.Release.open(copy / "sizes")) == [
        f"no group is made of the release in {copy / 'sizes'}"
    ]


def any_ownership(data: Path, more: str = "") -> str:
    """A group that is not one of workplaces."""
    values = json.dumps(eree.read_schema(data).attributes["ownership"].values)
    return f'\n[group.any]\nof = "ownership"\nmembers = {{ any = {values} }}\n{more}\n'


def test_other_groups_are_not_spoken_of(home: Path, tmp_path: Path) -> None:
    """A group of sectors or owners is a coding that everybody can read."""
    copy = copied(home, tmp_path)
    group = any_ownership(copy / "data")
    with (copy / "data" / "schema.toml").open("a", encoding="utf-8") as file:
        file.write(group)
    out = released(copy, {"name": "all", "by": ["any"], "epsilon": "1"}, "out")
    assert not any("author" in check for check in eree.verify(out).checks)


def test_sizes_that_were_changed_prove_nothing(home: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(home / "sizes", tmp_path / "sizes"))
    rows = parquet.read_table(copy / "tables" / "sizes.parquet")
    noisy = [n + 1 for n in rows["noisy"].to_pylist()]
    place = rows.column_names.index("noisy")
    other = rows.set_column(place, rows.schema.field("noisy"), [noisy])
    parquet.write_table(other, copy / "tables" / "sizes.parquet")
    [rule] = rules(eree.Release.open(home / "out"), eree.Release.open(copy))
    assert rule.startswith(f"the release in {copy} is faulty: ")
    with pytest.raises(eree.Unreadable, match="table sizes or its record was changed"):
        eree.size_strata(eree.Release.open(copy), "sizes", [CUT])


def test_a_release_of_the_same_name_with_another_digest_is_found(
    home: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(home / "sizes", tmp_path / "sizes"))
    record = json.loads((copy / RECORD).read_text(encoding="utf-8"))
    other = resealed(copy, {**record, "made": "2020-01-01T00:00:00Z"})
    assert eree.verify(other).sound
    assert rules(eree.Release.open(home / "out"), other) == [
        "was made of a release with another digest than the one that was given"
    ]


@pytest.mark.parametrize(
    ("before", "after", "place", "rule"),
    [
        ('release = "', 'release = "x', ".release", "must be the name of a release: 32 digits"),
        ('digest = "', 'digest = "0', ".digest", "must be the digest of a release: 64 digits"),
        ("cuts = [15]", "cuts = []", ".cuts", "must be a list of integers of 1 or more"),
        ("cuts = [15]", "cuts = [15, 15]", ".cuts", "names a size twice"),
        ("cuts = [15]", "cuts = [15], by = 1", ".by", "is not a setting that eree knows"),
        (', table = "sizes"', "", ".table", "is required and missing"),
        ("nance = {", "nance = 1 #", "", "must be a table with release, digest, table and cuts"),
    ],
)
def test_a_faulty_provenance_is_reported(
    home: Path, tmp_path: Path, before: str, after: str, place: str, rule: str
) -> None:
    copy = Path(shutil.copytree(home / "data", tmp_path / "data"))
    text = (copy / "schema.toml").read_text(encoding="utf-8")
    assert text.count(before) == 1
    (copy / "schema.toml").write_text(text.replace(before, after), encoding="utf-8")
    told = [(fault.column, fault.rule) for fault in inspect_schema(copy)[1]]
    assert told == [(f"group.size_stratum.provenance{place}", rule)]


def test_only_workplaces_have_released_sizes(home: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(home / "data", tmp_path / "data"))
    text = (copy / "schema.toml").read_text(encoding="utf-8")
    [line] = re.findall("(?m)^provenance = .*$", text)
    (copy / "schema.toml").write_text(text + any_ownership(copy, line), encoding="utf-8")
    [fault] = inspect_schema(copy)[1]
    assert fault.rule == "only a group of the key of workplaces is made of their sizes"
