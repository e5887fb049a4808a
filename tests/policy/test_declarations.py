from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import eree
from eree.errors import Faulty, Unreadable
from eree.policy.declarations import inspect_schema, read_schema
from eree.policy.schema import RESERVED
from town import Town, reported, schema_faults

GONE = object()


def spoilt(path: str, value: Any) -> Town:
    """A sound town but for one setting, which is set to a value or taken away."""
    town = Town()
    *outer, last = path.split("/")
    place: Any = town.schema
    for step in outer:
        place = place.setdefault(step, {})
    if value is GONE:
        del place[last]
    else:
        place[last] = value
    return town


def test_a_sound_schema_keeps_what_it_declares(tmp_path: Path) -> None:
    schema = read_schema(Town().write(tmp_path))
    assert list(schema.attributes) == [
        *("state", "county", "tract", "sector", "wages"),
        *("sex", "grade", "goods"),
    ]
    assert schema.attributes["state"].label == "State"
    assert schema.attributes["tract"].label == "tract"
    assert schema.attributes["sector"].describe("11") == "Farms"
    assert schema.attributes["sector"].describe("23") == "23"
    assert schema.attributes["grade"].values == (1, 2, 3)
    assert schema.attributes["grade"].kind == "integer"
    assert schema.attributes["wages"].confidential
    assert schema.attributes["goods"].members == {"11": "goods", "23": "goods", "44-45": "services"}
    assert schema.column("goods") is schema.attributes["sector"]
    assert schema.hierarchies["geography"] == ("tract", "county", "state")
    assert schema.references["county"].key == "county"


@pytest.mark.parametrize(
    ("path", "value", "place", "rule"),
    [
        ("extra", 1, "extra", "is not a setting that eree knows"),
        ("wokrer", {}, "wokrer", "is not a setting that eree knows; did you mean worker?"),
        ("job/kee", "x", "job.kee", "is not a setting that eree knows"),
        ("worker/attributes/sex", {"value": ["F", "M"], "values": ["F", "M"]},
         "worker.attributes.sex.value", "is not a setting that eree knows; did you mean values?"),
        ("group/goods/membres", {}, "group.goods.membres", "did you mean members?"),
        ("reference/county/path", "x", "reference.county.path", "is not a setting"),
        ("workplace", GONE, "workplace", "this table is not declared"),
        ("worker", GONE, "worker", "this table is not declared"),
        ("job", GONE, "job", "this table is not declared"),
        ("job", [1], "job", "must be a table of settings"),
        ("group", 3, "group", "must be a table of settings"),
        ("hierarchy", "x", "hierarchy", "must be a table of settings"),
        ("workplace/file", GONE, "workplace.file", "is required and missing"),
        ("workplace/file", 7, "workplace.file", "must be the name of a file"),
        ("workplace/file", "", "workplace.file", "must be the name of a file"),
        ("workplace/file", "a\0b.csv", "workplace.file", "must be the name of a file"),
        ("worker/key", GONE, "worker.key", "is required and missing"),
        ("worker/key", 'a"b', "worker.key", "must be the name of a column"),
        ("worker/key", ["a"], "worker.key", "must be the name of a column"),
        ("job/worker", "", "job.worker", "must be the name of a column"),
        ("job/primary", True, "job.primary", "must be the name of a column"),
        ("job/primary", {}, "job.primary", 'or a rule such as { greatest = "earnings" }'),
        ("job/primary", {"greatest": 3}, "job.primary", "or a rule such as"),
        ("job/primary", {"least": "pay"}, "job.primary", "or a rule such as"),
        ("job/primary", {"greatest": "pay", "of": 1}, "job.primary", "or a rule such as"),
        ("job/primary", {"greatest": "worker_id"}, "job", "names the column worker_id twice"),
        ("job/most_per_worker", 0, "job.most_per_worker", "must be an integer from 1 to 1,000"),
        ("job/most_per_worker", True, "job.most_per_worker", "must be an integer from 1 to 1,000"),
        ("job/most_per_worker", "2", "job.most_per_worker", "must be an integer from 1 to 1,000"),
        ("job/ignore", "pay", "job.ignore", "must be a list of column names"),
        ("worker/attributes", ["sex"], "worker.attributes", "one entry per attribute"),
        ("worker/attributes/sex", 3, "worker.attributes.sex", "must be a table of settings"),
        ("worker/attributes/sex", [], "worker.attributes.sex.values", "at least one value"),
        ("worker/attributes/sex", {}, "worker.attributes.sex.values",
         "a worker attribute declares all of its values"),
        ("worker/attributes/sex", ["F", "M", "F"], "worker.attributes.sex.values",
         "lists a value more than once"),
        ("worker/attributes/sex", ["F", "M", ""], "worker.attributes.sex.values",
         "an empty text cannot be a value"),
        ("worker/attributes/sex", ["F", "M", "\0"], "worker.attributes.sex.values", "NUL"),
        ("worker/attributes/sex", ["F", "M", 3], "worker.attributes.sex.values", "not both"),
        ("worker/attributes/sex", ["F", "M", 1.5], "worker.attributes.sex.values",
         "must be a list of texts or of integers"),
        ("worker/attributes/grade", [1, 2, 3, True], "worker.attributes.grade.values",
         "must be a list of texts or of integers"),
        ("worker/attributes/grade", [1, 2, 3, 2**63], "worker.attributes.grade.values",
         "more than 64 bits"),
        ("worker/attributes/grade", {"type": "string", "values": [1, 2, 3]},
         "worker.attributes.grade.values", "are integers, but the type is declared as"),
        ("worker/attributes/sex", {"type": "integer", "values": ["F", "M"]},
         "worker.attributes.sex.values", "are texts, but the type is declared as"),
        ("worker/attributes/sex", {"type": "float", "values": ["F", "M"]},
         "worker.attributes.sex.type", 'must be "string" or "integer"'),
        ("worker/attributes/sex", {"values": ["F", "M"], "confidential": True},
         "worker.attributes.sex.confidential", "worker attributes are always confidential"),
        ("workplace/attributes/wages/confidential", "yes",
         "workplace.attributes.wages.confidential", "must be true or false"),
        ("workplace/attributes/state/label", 1, "workplace.attributes.state.label", "a text"),
        ("workplace/attributes/sector/labels", {"99": "No"},
         "workplace.attributes.sector.labels", "labels a value that is not declared"),
        ("workplace/attributes/sector/labels", ["No"],
         "workplace.attributes.sector.labels", "must be a table such as"),
        ("workplace/attributes/sex", {}, "worker.attributes.sex",
         "the name is taken by workplace.attributes.sex"),
        ("workplace/attributes/SEX", {}, "worker.attributes.sex",
         "the name is taken by workplace.attributes.SEX"),
        ("workplace/attributes/State", {}, "workplace.attributes.State", "the name is taken"),
        ("workplace/attributes/_x", {}, "workplace.attributes._x", "kept for columns that eree"),
        ("workplace/attributes/a`b", {}, "workplace.attributes.a`b", "a name cannot be empty"),
        ("workplace/attributes/a\nb", {}, "workplace.attributes.a\N{REPLACEMENT CHARACTER}b",
         "a name cannot be empty or hold"),
        ("workplace/attributes/", {}, "workplace.attributes.", "a name cannot be empty"),
        ("workplace/attributes/workplace_id", {}, "workplace", "the column workplace_id twice"),
        ("workplace/attributes/Workplace_ID", {}, "workplace", "the column workplace_id twice"),
        ("worker/publish_key", True, "worker.publish_key", "who is in the data is confidential"),
        ("workplace/publish_key", 1, "workplace.publish_key", "must be true or false"),
        ("workplace/ignore", ["county"], "workplace", "names the column county twice"),
        ("worker/ignore", ["worker_id"], "worker", "names the column worker_id twice"),
        ("worker/ignore", ["pay", "Pay"], "worker", "names the column Pay twice"),
        ("job/workplace", "worker_id", "job", "names the column worker_id twice"),
        ("job/primary", "worker_id", "job", "names the column worker_id twice"),
        ("job/ignore", ["workplace_id"], "job", "names the column workplace_id twice"),
        ("job/attributes", ["pay"], "job.attributes", "one entry per attribute"),
        ("job/attributes/pay", {}, "job.attributes.pay.values",
         "a job attribute declares all of its values"),
        ("job/attributes/pay", {"values": [1], "confidential": True},
         "job.attributes.pay.confidential", "job attributes are always confidential"),
        ("job/attributes/Sex", ["F"], "job.attributes.Sex",
         "the name is taken by worker.attributes.sex"),
        ("job/attributes/county", ["1"], "job.attributes.county",
         "the name is taken by workplace.attributes.county"),
        ("job/attributes/count", ["1"], "job.attributes.count", "kept for columns that eree"),
        ("job/attributes/worker_id", [1], "job", "names the column worker_id twice"),
        ("job/attributes/Workplace_ID", [1], "job", "names the column workplace_id twice"),
        ("job/file", "worker.parquet", "job.file", "is, or lies inside, the file of worker"),
        ("job/file", "./x/../worker.parquet", "job.file", "the file of worker"),
        ("job/file", "worker.parquet/part.parquet", "job.file", "the file of worker"),
        ("reference/county/file", "worker.parquet", "reference.county.file", "file of worker"),
        ("group/goods/of", GONE, "group.goods.of", "is required and missing"),
        ("group/goods/of", "nowhere", "group.goods.of", "nowhere is not a column of a declared"),
        ("group/pay", {"of": "wages", "members": {"all": [5]}}, "group.pay.of",
         "wages is confidential and cannot be grouped"),
        ("group/goods/members", {}, "group.goods.members", "must list at least one group"),
        ("group/goods/members", GONE, "group.goods.members", "is required and missing"),
        ("group/goods/members", ["11"], "group.goods.members", "must give each group its list"),
        ("group/goods/members", {"g": ["11", "23"]}, "group.goods.members",
         "leaves out declared values of sector: 1"),
        ("group/goods/members", {"g": ["11", "23", "44-45"], "h": ["11"]}, "group.goods.members",
         "puts a value of sector into two groups"),
        ("group/goods/members", {"g": ["11", "23", "44-45", "99"]}, "group.goods.members",
         "holds values that sector does not declare: 1"),
        ("group/goods/members", {"g": ["11", "23", "44-45"], "h": []}, "group.goods.members",
         "has a group that holds no value"),
        ("group/goods/members", {"g": [11, "23", "44-45"]}, "group.goods.members", "not both"),
        ("group/goods/members", {"": ["11", "23", "44-45"]}, "group.goods.members", "empty text"),
        ("group/goods/labels", {"x": "X"}, "group.goods.labels", "labels a value that is not"),
        ("group/county", {"of": "sector", "members": {"g": ["11", "23", "44-45"]}},
         "group.county", "the name is taken by workplace.attributes.county"),
        ("group/Goods", {"of": "sector", "members": {"g": ["11", "23", "44-45"]}},
         "group.Goods", "the name is taken by group.goods"),
        ("hierarchy/h", ["tract"], "hierarchy.h", "must list two or more different attributes"),
        ("hierarchy/h", "tract", "hierarchy.h", "must list two or more different attributes"),
        ("hierarchy/h", ["tract", 3], "hierarchy.h", "must list two or more different attributes"),
        ("hierarchy/h", ["tract", "tract"], "hierarchy.h", "must list two or more different"),
        ("hierarchy/h", ["tract", "planet"], "hierarchy.h", "planet is not a declared workplace"),
        ("hierarchy/h", ["tract", "sex"], "hierarchy.h", "sex is not a declared workplace"),
        ("hierarchy/h", ["tract", "wages"], "hierarchy.h", "wages is confidential and cannot"),
        ("hierarchy/h", ["goods", "sector"], "hierarchy.h", "goods groups sector and so cannot"),
        ("reference/county/file", GONE, "reference.county.file", "is required and missing"),
        ("reference/county/key", "planet", "reference.county", "planet is not a column of the"),
        ("reference/county/key", "goods", "reference.county", "goods is not a column of the"),
        ("reference/county/key", "sex", "reference.county", "sex is not a column of the"),
        ("reference/county/key", "wages", "reference.county", "wages is confidential and cannot"),
    ],
)  # fmt: skip
def test_a_contradiction_is_reported_with_its_place_and_rule(
    tmp_path: Path, path: str, value: Any, place: str, rule: str
) -> None:
    found = schema_faults(spoilt(path, value).write(tmp_path))
    assert [r for p, r in found if p == place and rule in r], found
    if path not in ("workplace", "group"):  # others point to what these declare
        assert len({p for p, _ in found}) == 1, "one mistake is told in one place"


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_name_that_eree_needs_itself_is_refused(tmp_path: Path, name: str) -> None:
    town = spoilt(f"workplace/attributes/{name.title()}", {})
    assert schema_faults(town.write(tmp_path)) == [
        (f"workplace.attributes.{name.title()}",
         "the name is kept for columns that eree adds; rename it")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("worker/attributes/sex", ["F", "M", 3]),
        ("worker/attributes/sex", {"values": ["F", "M"], "type": "float"}),
        ("worker/attributes/sex", {}),
        ("worker/key", GONE),
        ("job/workplace", GONE),
        ("worker", GONE),
        ("workplace/attributes/grade", {}),
        ("group/goods/of", "planet"),
        ("group/goods/members", {"g": [11]}),
        ("hierarchy/geography", ["tract", "planet", "county", "state"]),
        ("reference/county/key", "planet"),
        ("reference/county/file", 3),
        ("extra", True),
    ],
)
def test_a_fault_of_the_schema_hides_no_fault_of_the_data(
    tmp_path: Path, path: str, value: Any
) -> None:
    town = spoilt(path, value)
    town.tables["workplace"]["sector"][1] = "99"
    town.tables["workplace"]["tract"][2] = "1711"
    found = reported(town.write(tmp_path))
    assert ("workplace", "sector", "the value is not declared", 1) in found
    assert ("workplace", "tract", "the tract lies in more than one county", 2) in found
    assert [table for table, _, _, _ in found if table == "schema.toml"]
    assert not [f for f in found if "the column is not declared" in f[2]], "no fault is made up"


def test_groups_settle_the_type_of_a_column_without_a_list_of_values(tmp_path: Path) -> None:
    town = spoilt("group/region", {"of": "county", "members": {"all": [171, 172, 181]}})
    found = reported(town.write(tmp_path))
    rule = "the column holds texts, not integers; make it integers, or declare texts"
    assert found[0] == ("workplace", "county", rule, None)


def test_two_groups_cannot_see_one_column_as_texts_and_as_numbers(tmp_path: Path) -> None:
    town = spoilt("group/north", {"of": "county", "members": {"all": [171, 172, 181]}})
    town.schema["group"]["south"] = {"of": "county", "members": {"all": ["171", "172", "181"]}}
    assert ("group.south.members", 'are texts, but the type is declared as "integer"') in (
        schema_faults(town.write(tmp_path))
    )


def test_read_schema_raises_every_fault_at_once(tmp_path: Path) -> None:
    town = spoilt("extra", 1)
    town.schema["job"]["worker"] = 3
    with pytest.raises(Faulty, match="and 1 more") as raised:
        read_schema(town.write(tmp_path))
    assert {fault.column for fault in raised.value.faults} == {"extra", "job.worker"}
    assert all(fault.rows is None for fault in raised.value.faults)


def test_the_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    folder = Town().write(tmp_path)
    text = (folder / "schema.toml").read_bytes()
    (folder / "schema.toml").write_bytes(b"\xef\xbb\xbf" + text)
    assert inspect_schema(folder)[1] == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[worker\n", "is not valid TOML"),
        (b"[worker]\n[worker]\n", "is not valid TOML"),
        (b"a = '\xff\xfe'\n", "is not UTF-8 text"),
        ("[worker]".encode("utf-16"), "is not UTF-8 text"),
        (b"a = " + b"[" * 5000 + b"]" * 5000, "is nested too deeply"),
        (b"a = " + b"9" * 5000, "holds a number that is too long"),
        (None, "holds no schema.toml"),
    ],
)
def test_what_cannot_be_read_at_all_is_unreadable(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    if content is not None:
        (tmp_path / "schema.toml").write_bytes(content)
    for door in (eree.check, eree.load, eree.read_schema):
        with pytest.raises(Unreadable, match=words):
            door(tmp_path)


def test_a_schema_that_is_a_folder_or_lies_in_no_folder_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").mkdir()
    with pytest.raises(Unreadable, match="cannot be read"):
        eree.check(tmp_path)
    for missing in (tmp_path / "nowhere", os.devnull, "a\0b"):
        with pytest.raises(Unreadable, match="is not a folder"):
            eree.check(missing)


def test_an_empty_schema_names_the_three_tables_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_bytes(b"")
    assert schema_faults(tmp_path) == [
        (table, "this table is not declared") for table in ("workplace", "worker", "job")
    ]
