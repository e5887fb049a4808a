"""Members of groups are in files of a release; its record has their number and their digest."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eree
from declared import book, town
from eree.policy.schema import Attribute
from eree.release.members import MEMBERS, Members, member_rows
from eree.release.record import RECORD, file_digest
from offices import privacy, settings, table
from town import Town
from uses import with_members

SIZES = {"small": [40, 10], "large": [30, 20]}
CHEAP = {"epsilon": "1", "mechanism": "smooth-pareto"}
STRONG = eree.Strong("0.1")


def sized(made: Town) -> None:
    """Groups of single workplaces, which are public, and one that no file can be named after."""
    made.schema["workplace"]["publish_key"] = True
    made.schema["group"]["size"] = {"of": "workplace_id", "members": SIZES}
    made.schema["group"]["a/b"] = {"of": "county", "members": {"all": ["171", "172", "181"]}}


def released(home: Path, made: Town) -> eree.Release:
    data = made.write(home / "data")
    wanted = [
        table(name="goods", by=["sector", "goods"], **CHEAP),
        table(name="small", by=["county"], where={"size": ["small"]}, **CHEAP),
        table(name="large", by=["workplace_id"], where={"size": ["large"]}, **CHEAP),
    ]
    plan = eree.Plan.of(settings(data, privacy=privacy(), table=wanted))
    ledger = book(home, STRONG)
    return eree.publish(plan, eree.load(data), ledger=ledger, out=home / "out")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with groups of sectors, counties and workplaces, and its ledger."""
    home = tmp_path_factory.mktemp("members")
    released(home, town(sized))
    return home


def members_of(release: eree.Release) -> dict[str, dict[Any, str]]:
    attributes = release.schema.attributes
    return {name: dict(one.members) for name, one in attributes.items() if one.of is not None}


def test_the_record_has_number_and_digest_and_the_file_the_members(home: Path) -> None:
    out = eree.Release.open(home / "out")
    assert {one["group"]: one["rows"] for one in out.record["members"]} == {
        "goods": 3,
        "size": 4,
        "a/b": 3,
    }
    for one in out.record["members"]:
        [(file, digest)] = one["files"].items()
        assert digest == file_digest(out.folder / file)
    assert not any("members" in said for said in out.record["attributes"].values())
    rows = parquet.read_table(out.folder / MEMBERS / "size.parquet")
    assert rows.to_pydict() == {
        "workplace_id": [10, 20, 30, 40],
        "size": ["small", "large", "large", "small"],
    }
    assert rows.equals(out.members("size"))
    assert members_of(out) == {
        "goods": {"11": "goods", "23": "goods", "44-45": "services"},
        "size": {10: "small", 20: "large", 30: "large", 40: "small"},
        "a/b": dict.fromkeys(["171", "172", "181"], "all"),
    }
    assert eree.verify(out, ledger=eree.Ledger.open(home / "ledger.db")).sound


def test_the_order_of_a_declaration_is_not_in_the_files(home: Path, tmp_path: Path) -> None:
    def turned(made: Town) -> None:
        turned = {name: codes[::-1] for name, codes in reversed(SIZES.items())}
        made.schema["group"]["size"]["members"] = turned

    released(tmp_path, town(sized, turned))
    file = Path("out", MEMBERS, "size.parquet")
    assert (tmp_path / file).read_bytes() == (home / file).read_bytes()


def test_a_release_without_groups_has_no_members(tmp_path: Path) -> None:
    data = town().write(tmp_path / "data")
    wanted = [table(name="c", by=["county"], **CHEAP)]
    plan = eree.Plan.of(settings(data, privacy=privacy(), table=wanted))
    random = eree.SeededRandom(1)
    out = eree.publish(plan, eree.load(data), ledger=None, out=tmp_path / "out", random=random)
    assert out.record["members"] == []
    assert not (out.folder / MEMBERS).exists()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda f: (f / "size.parquet").unlink(), "is missing"),
        (lambda f: shutil.rmtree(f), "is missing"),
        (lambda f: (f / "size.parquet").write_text("x"), "was changed"),
        (lambda f: shutil.copy(f / "goods.parquet", f / "size.parquet"), "was changed"),
        (lambda f: (f / "more.parquet").write_text("x"), "is not part of the release"),
    ],
)
def test_files_of_members_are_part_of_the_release(
    home: Path, tmp_path: Path, change: Callable[[Path], object], rule: str
) -> None:
    copy = Path(shutil.copytree(home / "out", tmp_path / "copy"))
    change(copy / MEMBERS)
    made = eree.Release.open(copy)
    assert {rule in fault.rule for fault in eree.verify(made).faults} == {True}
    if "missing" in rule or "changed" in rule:
        with pytest.raises(eree.Unreadable, match=f"file of the members of size {rule}"):
            eree.rank(made, "large", ["size"])


def swapped(rows: pa.Table) -> pa.Table:
    """The first two codes, each in the group of the other."""
    groups = rows.columns[1].take([1, 0, *range(2, rows.num_rows)])
    return rows.set_column(1, rows.field(1), groups)


def of_all(rows: pa.Table) -> pa.Table:
    return rows.set_column(1, rows.field(1), pa.array(["large"] * rows.num_rows))


@pytest.mark.parametrize(
    ("group", "change", "rule"),
    [
        ("size", lambda t: t.select([1, 0]), "has other columns"),
        ("size", lambda t: t.append_column("more", t[0]), "has other columns"),
        ("size", lambda t: t.set_column(0, t.column_names[0], t[1]), "has other columns"),
        ("size", lambda t: pa.concat_tables([t, t.slice(3)]), "once and in order"),
        ("size", lambda t: t.take([1, 0, 2, 3]), "once and in order"),
        ("size", of_all, "has other values of size than the record declares"),
        ("goods", lambda t: t.take([0, 2]), "has other codes of sector than the record declares"),
        ("size", lambda t: t.take([0, 1, 3]), "lacks a workplace_id of table large"),
        ("size", swapped, "has values of workplace_id that the record does not declare or keep"),
        ("goods", lambda t: swapped(t.take([0, 2, 1])).take([0, 2, 1]), "has another goods of a"),
    ],
)
def test_members_that_cannot_be_are_found_whoever_signs_them(
    home: Path, tmp_path: Path, group: str, change: Callable[[pa.Table], pa.Table], rule: str
) -> None:
    copy = Path(shutil.copytree(home / "out", tmp_path / "copy"))
    made = with_members(copy, group, change)
    found = eree.verify(made).faults
    assert any(rule in fault.rule for fault in found), found


def test_another_number_of_members_is_found(home: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(home / "out", tmp_path / "copy"))
    made = with_members(copy, "size", lambda rows: rows, number=5)
    [fault] = eree.verify(made).faults
    assert fault.rule == "has another number of members than the record says"


def test_other_members_are_not_what_the_ledger_settled(home: Path, tmp_path: Path) -> None:
    """Nothing in the release contradicts them; the entry that paid has another digest."""
    copy = Path(shutil.copytree(home / "out", tmp_path / "copy"))

    def moved(rows: pa.Table) -> pa.Table:
        """Workplace 40, which no table names, becomes a large one."""
        return rows.set_column(1, rows.field(1), pa.array(["small", "large", "large", "large"]))

    made, ledger = with_members(copy, "size", moved), eree.Ledger.open(home / "ledger.db")
    before = eree.Release.open(home / "out")
    assert made.record["digest"] != before.record["digest"]
    assert [fault.rule for fault in eree.verify(made, ledger=ledger).faults] == [
        "entry 2 was settled with another release"
    ]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda r: r["members"].pop(), "members"),
        (lambda r: r["members"].append(r["members"][0]), "members"),
        (lambda r: r["members"][0].update(group="sector"), "members"),
        (lambda r: r["members"][0].update(files={}), "members.0.files"),
        (lambda r: r["members"][0].update(rows="3"), "members.0.rows"),
        (lambda r: r.pop("members"), "members"),
    ],
)
def test_a_record_says_one_file_for_each_group(
    home: Path, tmp_path: Path, change: Callable[[Any], object], place: str
) -> None:
    copy = Path(shutil.copytree(home / "out", tmp_path / "copy"))
    record = json.loads((copy / RECORD).read_text(encoding="utf-8"))
    change(record)
    (copy / RECORD).write_text(json.dumps(record), encoding="utf-8")
    made = eree.Release.open(copy)
    with pytest.raises(eree.Unreadable, match=rf"is damaged \({place} is not"):
        eree.rank(made, "goods", ["sector"])
    assert not eree.verify(made).sound


codes = st.one_of(
    st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.sampled_from("ab"), min_size=1),
    st.dictionaries(st.text("aZ\u00e9\U0001f600 ,\"'"), st.sampled_from("ab"), min_size=1),
)


@given(codes)
def test_members_are_read_as_they_were_declared(held: dict[Any, str]) -> None:
    kind = "integer" if isinstance(next(iter(held)), int) else "string"
    fine = Attribute("fine", "workplace", "", kind, None)
    values = tuple(sorted(set(held.values())))
    group = Attribute("g", "workplace", "", "string", values, of="fine", members=held)
    rows = member_rows(fine, group)
    assert dict(zip(*rows.to_pydict().values(), strict=True)) == held
    with TemporaryDirectory() as place:
        path = Path(place, MEMBERS, "g.parquet")
        path.parent.mkdir()
        parquet.write_table(rows, path)
        files = {f"{MEMBERS}/g.parquet": file_digest(path)}
        read = Members(Path(place), {"rows": len(held), "files": files}, fine, group)
        assert read.fault is None
        assert read == held
        assert all(read[code] == name for code, name in held.items())
