from __future__ import annotations

from pathlib import Path

import pytest

import eree
from town import Town, reported, schema_faults


def listed(content: bytes, attribute: str = "sex", **settings: str) -> Town:
    """A town whose attribute takes its values from a file."""
    town = Town()
    town.schema["worker"]["attributes"][attribute] = {"values": "codes.csv"} | settings
    return town


@pytest.mark.parametrize(
    "content",
    [
        b"value,label\nF,Female\nM,Male\n",
        b"label,value\nFemale,F\nMale,M\n",
        b'\xef\xbb\xbf"value","label"\r\n"F","Female"\r\n"M","Male"\r\n\r\n',
    ],
)
def test_values_and_labels_come_from_a_file(tmp_path: Path, content: bytes) -> None:
    folder = listed(content).write(tmp_path)
    (folder / "codes.csv").write_bytes(content)
    sex = eree.load(folder).schema.attributes["sex"]
    assert sex.values == ("F", "M")
    assert sex.labels == {"F": "Female", "M": "Male"}


def test_a_file_of_values_needs_no_labels_and_inline_labels_win(tmp_path: Path) -> None:
    town = Town()
    town.schema["worker"]["attributes"]["sex"] = {"values": "codes.csv", "labels": {"F": "Women"}}
    folder = town.write(tmp_path)
    (folder / "codes.csv").write_bytes(b"value,label\nF,Female\nM,\n")
    sex = eree.load(folder).schema.attributes["sex"]
    assert (sex.values, sex.labels) == (("F", "M"), {"F": "Women"})
    (folder / "codes.csv").write_bytes(b"value\nF\nM\n")
    assert eree.load(folder).schema.attributes["sex"].values == ("F", "M")


def test_labels_come_from_a_file_of_their_own(tmp_path: Path) -> None:
    town = Town()
    town.attribute("workplace", "county")["labels"] = "lists/county.csv"
    town.schema["group"]["goods"]["labels"] = "lists/goods.csv"
    folder = town.write(tmp_path)
    (folder / "lists").mkdir()
    (folder / "lists/county.csv").write_text("value,label\n171,Cook\n999,Nowhere\n")
    (folder / "lists/goods.csv").write_text("value,label\ngoods,Goods\n")
    attributes = eree.load(folder).schema.attributes
    assert attributes["county"].describe("171") == "Cook"
    assert attributes["goods"].describe("goods") == "Goods"


def test_whole_numbers_come_from_a_file_when_the_type_says_so(tmp_path: Path) -> None:
    folder = listed(b"", "grade", type="integer").write(tmp_path)
    (folder / "codes.csv").write_bytes(b"value,label\n1,low\n2,middle\n3,high\n-4,none\n")
    tables = eree.load(folder)
    assert tables.schema.attributes["grade"].values == (1, 2, 3, -4)
    counted = eree.tabulate(tables, by=["grade"]).confidential.to_pydict()
    assert counted["grade"] == [1, 2, 3, -4]
    assert counted["count"] == [2, 2, 2, 0]


def test_numbers_in_a_file_are_texts_unless_the_type_says_otherwise(tmp_path: Path) -> None:
    folder = listed(b"", "grade").write(tmp_path)
    (folder / "codes.csv").write_bytes(b"value\n1\n2\n3\n")
    rule = "the column holds integers, not texts; make it texts, or declare integers"
    assert reported(folder) == [("worker", "grade", rule, None)]


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (None, "the file codes.csv does not exist"),
        (b"", "the file codes.csv must have the columns value and, if wanted, label"),
        (b"code,label\nF,Female\n", "must have the columns value and"),
        (b"value,lable\nF,Female\n", "must have the columns value and"),
        (b"value,label,more\nF,Female,x\n", "must have the columns value and"),
        (b"value,label\nF\nM,Male\n", "has rows of another length than its header"),
        (b"value\n\xff\n", "cannot be read as CSV in UTF-8"),
        (b'value\n"F\n', "cannot be read as CSV in UTF-8"),
        (b"value\n", "must list at least one value"),
        (b"value\nF\nM\nF\n", "lists a value more than once"),
        (b'value,label\nF,a\nM,b\n"",c\n', "an empty text cannot be a value"),
    ],
)
def test_a_file_of_values_that_cannot_be_used_is_a_fault(
    tmp_path: Path, content: bytes | None, rule: str
) -> None:
    folder = listed(content or b"").write(tmp_path)
    if content is not None:
        (folder / "codes.csv").write_bytes(content)
    found = schema_faults(folder)
    assert [p for p, r in found if rule in r] == ["worker.attributes.sex.values"], found


@pytest.mark.parametrize(
    "number", ["01", "-0", "+1", " 1", "1.0", "1_0", "\N{FULLWIDTH DIGIT ONE}", "x", "9" * 5000]
)
def test_a_number_in_a_file_is_written_plainly(tmp_path: Path, number: str) -> None:
    folder = listed(b"", "grade", type="integer").write(tmp_path)
    (folder / "codes.csv").write_text(f"value\n{number}\n", encoding="utf-8")
    assert schema_faults(folder) == [
        ("worker.attributes.grade.values",
         "must be plainly written integers, as the type says")
    ]  # fmt: skip


def test_a_file_that_labels_a_value_twice_or_an_undeclared_one_is_a_fault(tmp_path: Path) -> None:
    town = Town()
    town.attribute("worker", "sex")["labels"] = "codes.csv"
    folder = town.write(tmp_path)
    (folder / "codes.csv").write_bytes(b"value,label\nF,Female\nF,Woman\nX,Other\n")
    assert schema_faults(folder) == [
        ("worker.attributes.sex.labels", "the file codes.csv lists a value more than once"),
        ("worker.attributes.sex.labels", "labels a value that is not declared"),
    ]


def test_a_folder_in_place_of_a_file_of_values_is_a_fault(tmp_path: Path) -> None:
    folder = listed(b"").write(tmp_path)
    (folder / "codes.csv").mkdir()
    assert schema_faults(folder) == [
        ("worker.attributes.sex.values", "the file codes.csv cannot be read as CSV in UTF-8")
    ]


def test_the_members_of_groups_may_come_from_a_file(tmp_path: Path) -> None:
    town = Town()
    inline = town.schema["group"]["goods"]["members"]
    town.schema["group"]["goods"]["members"] = "goods.csv"
    folder = town.write(tmp_path)
    lines = [f"{value},{group}" for group, held in inline.items() for value in held]
    (folder / "goods.csv").write_text("\n".join(["value,group", *lines]), encoding="utf-8")
    goods = eree.load(folder).schema.attributes["goods"]
    assert goods.values == tuple(inline)
    assert goods.members == {value: group for group, held in inline.items() for value in held}


def test_members_in_a_file_are_numbers_where_the_type_says_so(tmp_path: Path) -> None:
    town = Town()
    town.schema["workplace"]["publish_key"] = True
    town.schema["group"]["size"] = {"of": "workplace_id", "members": "size.csv", "type": "integer"}
    keys = town.tables["workplace"]["workplace_id"]
    folder = town.write(tmp_path)
    lines = [f"{key},{'first' if key == keys[0] else 'others'}" for key in keys]
    (folder / "size.csv").write_text("\n".join(["value,group", *lines]), encoding="utf-8")
    counted = eree.tabulate(eree.load(folder), by=["size"]).confidential.to_pydict()
    assert counted["size"] == ["first", "others"]
    assert counted["workplaces"] == [1, len(keys) - 1]
    (folder / "size.csv").write_text("\n".join(["value,group", *lines[1:]]), encoding="utf-8")
    assert reported(folder) == [("workplace", "workplace_id", "the value belongs to no size", 1)]


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (None, "the file goods.csv does not exist"),
        (b"", "the file goods.csv must have the columns value and group"),
        (b"value,label\n11,a\n", "must have the columns value and group"),
        (b"value,group\n11\n", "has rows of another length than its header"),
        (b"value,group\n", "the file goods.csv lists no value"),
        (b"value,group\n11,a\n23,a\n44-45,b\n11,b\n", "puts a value of sector into two groups"),
        (b"value,group\n11,a\n23,a\n", "leaves out declared values of sector: 1"),
        (b'value,group\n11,a\n23,a\n44-45,""\n', "an empty text cannot be the name of a group"),
    ],
)
def test_a_file_of_members_that_cannot_be_used_is_a_fault(
    tmp_path: Path, content: bytes | None, rule: str
) -> None:
    town = Town()
    town.schema["group"]["goods"]["members"] = "goods.csv"
    folder = town.write(tmp_path)
    if content is not None:
        (folder / "goods.csv").write_bytes(content)
    assert [p for p, r in schema_faults(folder) if rule in r] == ["group.goods.members"]
