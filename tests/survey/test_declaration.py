"""survey.toml: what it says is understood, and every fault of it is found at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from eree.errors import Faulty, Unreadable
from eree.survey.declaration import inspect_declaration, read_declaration
from eree.survey.shape import Impossible
from small_survey import DECLARATION, write_survey


def faults(folder: Path, text: str) -> list[tuple[str, str]]:
    (folder / "survey.toml").write_text(text, encoding="utf-8")
    _, found = inspect_declaration(folder)
    return [(fault.column, fault.rule) for fault in found]


def test_what_the_file_says_is_understood(tmp_path: Path) -> None:
    found = read_declaration(write_survey(tmp_path))
    assert (found.file, found.record, found.establishment) == ("records.parquet", "id", "place")
    assert (found.weight, found.occupation, found.replicates) == ("weight", "job", ())
    job, education, licence = found.shape.variables
    assert (job.hierarchy, job.label) == ("soc", "job")
    assert job.labels[0] == "Software Developers"
    assert job.labels[1] == "15-1299"  # a title that eree does not know
    assert (education.hierarchy, education.label) == (None, "Education")
    assert education.labels == ("No education", "school", "degree")
    assert licence.codes == ("0", "1")
    physicians = Impossible({"job": ["29-1215", "29-1221"], "education": ["none"]})
    assert found.shape.impossible == (physicians,)
    assert found.shape.levels == (5, 3, 2)
    assert int((~found.shape.possible).sum()) == 2 * 1 * 2


def test_codes_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("value,label\n11-1021,Boss\n15-1252,\n", encoding="utf-8")
    text = DECLARATION.replace(
        'codes = ["15-1252", "15-1299", "29-1215", "29-1221", "31-1121"]', 'codes = "codes.csv"'
    ).split("[[impossible]]")[0]
    found = read_declaration(write_survey(tmp_path, declaration=text))
    assert found.variables[0].codes == ("11-1021", "15-1252")
    assert found.variables[0].labels == ("Boss", "Software Developers")


def test_replicates_have_the_scale_of_successive_differences_unless_they_say_another(
    tmp_path: Path,
) -> None:
    columns = '\n[replicates]\ncolumns = ["r1", "r2", "r3", "r4", "r5"]\n'
    found = read_declaration(write_survey(tmp_path, declaration=DECLARATION + columns))
    assert found.replicates == ("r1", "r2", "r3", "r4", "r5")
    assert found.replicate_scale == 4 / 5
    text = DECLARATION + columns + "scale = 0.25\n"
    assert read_declaration(write_survey(tmp_path, declaration=text)).replicate_scale == 0.25


@pytest.mark.parametrize(
    ("old", "new", "place", "rule"),
    [
        ("[records]", "[record]", "records.record", "is required and missing"),
        ("[records]", "[recordz]", "recordz", "is not a setting that eree knows; did you mean"),
        ('record = "id"', "record = 1", "records.record", "must be the name of a column"),
        ('record = "id"', 'recrd = "id"', "records.recrd", "did you mean record?"),
        ('weight = "weight"', 'weight = "job"', "records", "names the column job twice"),
        ('weight = "weight"', 'weight = "ID"', "records", "names the column ID twice"),
        ('occupation = "job"', 'occupation = "work"', "records.occupation", "work is not a decl"),
        ('occupation = "job"', 'occupation = "education"', "variables.education.codes",
         "none is not a detailed occupation"),
        ('"15-1252", ', '"15-1250", ', "variables.job.codes", "15-1250 is not a detailed occ"),
        ('"15-1252", ', '"15-1111", ', "variables.job.codes", "15-1111 is not a detailed occ"),
        ('"15-1252", ', '"15-1299", ', "variables.job.codes", "lists a value more than once"),
        ('["none", "school", "degree"]', '["none"]', "variables.education.codes",
         "must list two or more codes"),
        ('["none", "school", "degree"]', "[]", "variables.education.codes", "two or more codes"),
        ('["none", "school", "degree"]', '["none", 1]', "variables.education.codes",
         "must be all texts or all integers"),
        ('["none", "school", "degree"]', '["none", ""]', "variables.education.codes",
         "an empty text cannot be a value"),
        ('["none", "school", "degree"]', "1.5", "variables.education.codes", "must be a list"),
        ('["none", "school", "degree"]', '"no.csv"', "variables.education.codes",
         "the file no.csv does not exist"),
        ('{ none = "No education" }', '{ nine = "X" }', "variables.education.labels",
         "labels a value that is not declared"),
        ("codes = [0, 1]", "", "variables.licence.codes", "is required and missing"),
        ("codes = [0, 1]", 'codes = [0, 1]\nhierarchy = "isco"', "variables.licence.hierarchy",
         'must be "soc"'),
        ("[variables.licence]", "[variables.weighted]", "variables.weighted", "is kept for"),
        ("[variables.licence]", "[variables._x]", "variables._x", "is kept for columns"),
        ("[variables.licence]", "[variables.'a\"b']", 'variables.a"b', "cannot be empty or hold"),
        ("[variables.licence]", "[variables.licence.x]", "variables.licence.codes",
         "is required and missing"),
        ('job = ["29-1210"]', 'work = ["29-1210"]', "impossible.1.work", "is not a declared var"),
        ('job = ["29-1210"]', 'job = ["11-0000"]', "impossible.1.job", "has no code and no group"),
        ('job = ["29-1210"]', "job = []", "impossible.1.job", "must list one or more codes"),
        ('job = ["29-1210"]', "job = 3", "impossible.1.job", "must list one or more codes"),
        ('education = ["none"]', 'education = ["nine"]', "impossible.1.education", "has no code"),
        ("[[impossible]]", "[[impossible]]\n[[impossible]]", "impossible.1", "must name one or"),
        ("[[impossible]]", "[impossible]", "impossible", "must be tables of their own"),
        ("[records]", "replicates = 3\n[records]", "replicates", "must be a table of settings"),
        ("[records]", "[replicates]\n[records]", "replicates.columns", "is required and missing"),
        ("[records]", "[replicates]\ncolumns = ['r']\n[records]", "replicates.columns",
         "must name two or more columns"),
        ("[records]", "[replicates]\ncolumns = ['r', 's']\nscale = -1\n[records]",
         "replicates.scale", "must be a positive number"),
        ("[records]", "[replicates]\ncolumns = ['r', 's']\nscale = nan\n[records]",
         "replicates.scale", "must be a positive number"),
        ("[records]", "[replicates]\ncolumns = ['r', 'id']\n[records]", "records",
         "names the column id twice"),
    ],
)  # fmt: skip
def test_every_fault_says_its_place_and_its_rule(
    tmp_path: Path, old: str, new: str, place: str, rule: str
) -> None:
    assert old in DECLARATION
    found = faults(tmp_path, DECLARATION.replace(old, new, 1))
    assert any(where == place and rule in told for where, told in found), found


def test_all_faults_are_reported_at_once(tmp_path: Path) -> None:
    text = DECLARATION.replace('weight = "weight"', "").replace('"none", "school"', "1, 1")
    found = faults(tmp_path, text + "\n[variables.x]\ncodes = []\n[extra]\n")
    assert {place for place, _ in found} >= {
        "records.weight", "variables.education.codes", "variables.x.codes", "extra",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "records = 1", "variables = 1", "variables = []",
                                  "[variables]\nx = 1", "impossible = 1\n[variables]\nx = []",
                                  "[[impossible]]\nx = [1]\n", "variables = 'x'\nimpossible = [{}]",
                                  "[records]\nrecord = []\nignore = {}"])  # fmt: skip
def test_a_file_that_says_nothing_right_has_faults_and_no_traceback(
    tmp_path: Path, text: str
) -> None:
    assert faults(tmp_path, text)
    with pytest.raises(Faulty):
        read_declaration(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[records\n", "is not valid TOML"),
        (b"a = '\xff'\n", "is not UTF-8 text"),
        (b"a = " + b"[" * 5000 + b"]" * 5000, "is nested too deeply"),
        (b"a = " + b"9" * 5000, "holds a number that is too long"),
        (b"\x00" * 100, "is not valid TOML"),
        (None, "holds no survey.toml"),
    ],
)
def test_what_cannot_be_read_at_all_is_unreadable(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    if content is not None:
        (tmp_path / "survey.toml").write_bytes(content)
    with pytest.raises(Unreadable, match=words):
        read_declaration(tmp_path)
    with pytest.raises(Unreadable, match="is not a folder"):
        read_declaration(tmp_path / "survey.toml")
