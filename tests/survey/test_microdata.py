"""Records of a survey: sound ones are read exactly, every fault of others is found and counted."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eree.errors import Fault, Faulty, Refusal
from eree.survey.microdata import check_survey, read_survey
from selection import examples
from small_survey import DECLARATION, RECORDS, Sampled, changed, samples, write_survey

STYLES = ("parquet", "csv")
REPLICATES = DECLARATION + '\n[replicates]\ncolumns = ["r1", "r2"]\n'
IGNORING = DECLARATION.replace('record = "id"', 'record = "id"\nignore = ["note", "extra"]')


def faults_of(folder: Path) -> set[tuple[str, str, int | None]]:
    checked = check_survey(folder)
    survey, faults = checked.survey, checked.faults
    assert survey is None
    assert all(fault.table in ("records", "survey.toml") for fault in faults)
    return {(fault.column, fault.rule, fault.rows) for fault in faults}


@pytest.mark.parametrize("style", STYLES)
def test_sound_records_are_read_exactly(tmp_path: Path, style: str) -> None:
    survey = read_survey(write_survey(tmp_path, style=style))
    assert survey.weights.tolist() == [10500, 2000, 1, 100250, 3142, 7000]
    assert survey.establishments.tolist() == [0, 0, 1, 1, 1, 2]
    assert {name: found.tolist() for name, found in survey.answers.items()} == {
        "job": [0, 2, 3, 4, 0, 1],
        "education": [2, 2, 1, 0, 0, 1],
        "licence": [0, 1, 1, 0, 0, 1],
    }
    levels = survey.shape.levels
    places = tuple(zip(*survey.answers.values(), strict=True))
    assert survey.positions().tolist() == [np.ravel_multi_index(p, levels) for p in places]
    coarse = survey.shape.of(["licence", "job"])
    assert survey.positions(coarse).tolist() == [0, 7, 8, 4, 0, 6]
    assert survey.replicates is None
    with pytest.raises(ValueError, match="read-only"):
        survey.weights[0] = 1


@examples(8, torture=200)
@given(sampled=samples(), style=st.sampled_from(STYLES))
def test_any_sound_sample_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, sampled: Sampled, style: str
) -> None:
    survey = read_survey(sampled.write(tmp_path_factory.mktemp("any"), style))
    assert survey.shape.levels == sampled.shape.levels
    assert survey.weights.tolist() == sampled.weights
    found = zip(*(survey.answers[v.name] for v in survey.shape.variables), strict=True)
    assert [tuple(int(p) for p in places) for places in found] == sampled.places
    numbers = {place: number for number, place in enumerate(dict.fromkeys(sampled.establishments))}
    assert survey.establishments.tolist() == [numbers[p] for p in sampled.establishments]
    assert [sampled.ids[i] for i in survey.order] == sorted(sampled.ids)


@pytest.mark.parametrize(
    ("written", "thousandths"),
    [("1", 1000), ("0.001", 1), ("1.0005", 1000), ("2.0015", 2002), ("2.5e3", 2_500_000),
     ("123456789.123", 123_456_789_123), ("0.0006", 1), ("1000000000", 10**12)],
)  # fmt: skip
def test_weights_are_rounded_to_thousandths_the_same_in_every_file(
    tmp_path: Path, written: str, thousandths: int
) -> None:
    text = pa.table(changed("weight", [written] * 6))
    number = pa.table(changed("weight", [float(written)] * 6))
    exact = pa.array([Decimal(written)] * 6, pa.decimal128(20, 6))
    decimal = number.set_column(2, "weight", exact)
    for name, table, style in (
        ("a", text, "csv"),
        ("b", number, "parquet"),
        ("c", decimal, "parquet"),
    ):
        found = read_survey(write_survey(tmp_path / name, table, style=style))
        assert set(found.weights.tolist()) == {thousandths}


def test_every_weight_of_three_decimals_is_exact(tmp_path: Path) -> None:
    chosen = [1, 999, 10**6 + 1, 10**12 - 1, 123_456_789_012, 987_654_321]
    values = [thousandths / 1000 for thousandths in chosen]
    assert read_survey(write_survey(tmp_path, changed("weight", values))).weights.tolist() == chosen


FAULTY: list[tuple[str, list[Any], list[tuple[str, str, int | None]]]] = [
    ("id", [1, 2, 2, 4, 1, 6], [("id", "the id repeats that of an earlier record", 2)]),
    ("id", [1, None, 3, 4, 5, None], [("id", "the value is missing", 2)]),
    ("id", [1, None, 3, 3, 5, 6],
     [("id", "the value is missing", 1), ("id", "the id repeats that of an earlier record", 1)]),
    ("place", ["a", None, "b", "", "b", "c"], [("place", "the value is missing", 2)]),
    ("job", ["15-1252", "x", "29-1221", "31-1121", "y", ""],
     [("job", "the value is not declared", 2), ("job", "the value is missing", 1)]),
    ("job", ["15-1250"] * 6, [("job", "the value is not declared", 6)]),
    ("education", ["degree", "none", "none", "none", "none", "school"],
     [("job, education", "the record is in a cell that impossible rule 1 leaves out", 2)]),
    ("licence", [0, 1, 1, 0, 0, 2], [("licence", "the value is not declared", 1)]),
    ("weight", [1, 2, 3, 0, -1, 0.0004], [("weight", "the weight is less than a thousandth", 3)]),
    ("weight", [1, 2, 3, 1e9 + 1, 1e15, 1],
     [("weight", "the weight is more than 1,000,000,000", 2)]),
    ("weight", [1, None, 3, None, 5, 6], [("weight", "the value is missing", 2)]),
]  # fmt: skip


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("column", "values", "rules"), FAULTY)
def test_every_fault_is_found_and_counted(
    tmp_path: Path, style: str, column: str, values: list[Any], rules: list[Any]
) -> None:
    assert faults_of(write_survey(tmp_path, changed(column, values), style=style)) == set(rules)


@pytest.mark.parametrize(
    ("values", "rule", "records"),
    [
        (["1", "nan", "3", "inf", "5", "-inf"], "the value is not a plainly written number", 3),
        (["1", " 2", "3 ", "0x10", "5,0", "1_000"], "the value is not a plainly written number", 5),
        (["1", "2", "3", "1e999", "5", "6"], "the value is not a plainly written number", 1),
    ],
)
def test_numbers_in_csv_are_written_plainly(
    tmp_path: Path, values: list[str], rule: str, records: int
) -> None:
    found = faults_of(write_survey(tmp_path, changed("weight", values), style="csv"))
    assert found == {("weight", rule, records)}


def test_numbers_in_parquet_are_finite(tmp_path: Path) -> None:
    values = [1.0, float("nan"), float("inf"), None, float("-inf"), 2.0]
    assert faults_of(write_survey(tmp_path, changed("weight", values))) == {
        ("weight", "the value is not a finite number", 3),
        ("weight", "the value is missing", 1),
    }


def test_weights_that_together_are_too_large_are_a_fault(tmp_path: Path) -> None:
    count = 1_001
    records = {name: [values[0]] * count for name, values in RECORDS.items()}
    records |= {"id": list(range(count)), "weight": [1e9] * count}
    rule = "the weights add up to more than 1,000,000,000,000"
    assert faults_of(write_survey(tmp_path, records)) == {("weight", rule, None)}


@pytest.mark.parametrize("style", STYLES)
def test_replicate_weights_are_kept_checked_or_left_aside(tmp_path: Path, style: str) -> None:
    records = RECORDS | {"r1": [1.5, 0, 2, 3, 4, 5], "r2": [0.25] * 6}
    folder = write_survey(tmp_path / "sound", records, REPLICATES, style)
    survey = read_survey(folder)
    assert survey.replicates is not None
    assert survey.replicates.tolist() == [records["r1"], records["r2"]]
    assert survey.declaration.replicate_scale == 2.0
    assert read_survey(folder, replicates=False).replicates is None
    records |= {"r2": [0.25, -1, None, 1e13, -0.001, 2]}
    assert faults_of(write_survey(tmp_path / "gap", records, REPLICATES, style)) == {
        ("r2", "the value is missing", 1),
    }
    records |= {"r2": [0.25, -1, 1, 1e13, -0.001, 2]}
    folder = write_survey(tmp_path / "wrong", records, REPLICATES, style)
    wrong = {
        ("r2", "the replicate weight is negative", 2),
        ("r2", "the replicate weight is more than 1,000,000,000,000", 1),
    }
    assert faults_of(folder) == wrong
    faults = check_survey(folder, replicates=False).faults  # not kept, and still checked
    assert {(fault.column, fault.rule, fault.rows) for fault in faults} == wrong


def test_missing_and_extra_columns_are_faults(tmp_path: Path) -> None:
    table = pa.table(RECORDS).drop_columns(["weight", "licence"])
    table = table.append_column("note", pa.array(["x"] * 6))
    undeclared = "the column is not declared; declare it or list it in records.ignore"
    missing = {
        ("weight", "the column is missing", None),
        ("licence", "the column is missing", None),
    }
    assert faults_of(write_survey(tmp_path / "a", table)) == missing | {("note", undeclared, None)}
    csv = write_survey(tmp_path / "b", table, style="csv")
    assert faults_of(csv) == missing | {("column 5", undeclared, None)}
    ignored = write_survey(tmp_path / "c", table, IGNORING)
    assert faults_of(ignored) == missing | {("extra", "the column to ignore is missing", None)}


@pytest.mark.parametrize(
    ("column", "values", "rule"),
    [
        ("weight", pa.array(["1"] * 6), "the column holds texts, not numbers"),
        ("weight", pa.array([True] * 6), "the column holds true or false, not numbers"),
        ("id", pa.array([1.5] * 6), "of another type, not integers or texts"),
        ("id", pa.array([1] * 6, pa.uint64()), "the column holds values of another type"),
        ("job", pa.array([b"x"] * 6), "the column holds values of another type"),
        ("licence", pa.array([True] * 6), "the column holds true or false, not integers or texts"),
        ("education", pa.array([["x"]] * 6), "the column holds values of another type"),
    ],
)
def test_columns_of_another_type_are_faults(
    tmp_path: Path, column: str, values: pa.Array, rule: str
) -> None:
    table = pa.table(RECORDS)
    table = table.set_column(table.column_names.index(column), column, values)
    found = faults_of(write_survey(tmp_path, table))
    assert len(found) == 1
    assert next(iter(found))[:2][0] == column
    assert rule in next(iter(found))[1]


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_string(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.string()),
    ],
)
def test_texts_may_be_stored_in_any_way(tmp_path: Path, kind: pa.DataType) -> None:
    table = pa.table(RECORDS)
    for name in ("job", "education", "place"):
        stored = table.column(name).cast(pa.string()).cast(kind)
        table = table.set_column(table.column_names.index(name), name, stored)
    assert read_survey(write_survey(tmp_path, table)).answers["job"].tolist() == [0, 2, 3, 4, 0, 1]


def test_records_may_come_in_parts(tmp_path: Path) -> None:
    text = DECLARATION.replace("[records]", '[records]\nfile = "parts"')
    folder = write_survey(tmp_path, declaration=text)
    (folder / "records.parquet").unlink()
    (folder / "parts").mkdir()
    table = pa.table(RECORDS)
    for number, (start, stop) in enumerate(((0, 2), (2, 6))):
        parquet.write_table(table[start:stop], folder / "parts" / f"{number}.parquet")
    assert read_survey(folder).weights.tolist() == [10500, 2000, 1, 100250, 3142, 7000]


@pytest.mark.parametrize("style", STYLES)
def test_no_records_at_all_are_a_fault(tmp_path: Path, style: str) -> None:
    empty = pa.table(RECORDS)[:0]
    assert ("", "the table is empty", None) in faults_of(write_survey(tmp_path, empty, style=style))


def test_faults_of_declaration_and_records_are_reported_together(tmp_path: Path) -> None:
    text = DECLARATION.replace('codes = ["none", "school", "degree"]', "codes = []")
    found = faults_of(write_survey(tmp_path, changed("weight", [0, 1, 1, 1, 1, 1]), text))
    assert ("variables.education.codes", "must list two or more codes", None) in found
    assert ("weight", "the weight is less than a thousandth", 1) in found
    assert not any("not declared" in rule for _, rule, _ in found)  # of a half-read declaration


def test_all_faults_are_in_the_refusal(tmp_path: Path) -> None:
    folder = write_survey(tmp_path, changed("weight", [0] * 6) | {"job": ["x"] * 6})
    with pytest.raises(Faulty, match="'eree cube check' lists them all") as refused:
        read_survey(folder)
    assert len(refused.value.faults) == 2


def test_ids_are_ordered_by_length_then_characters_whatever_their_type(tmp_path: Path) -> None:
    numbers = [10, 9, 100, 1, 11, 2]
    in_order = [3, 5, 1, 0, 4, 2]
    assert (
        read_survey(write_survey(tmp_path / "a", changed("id", numbers))).order.tolist() == in_order
    )
    texts = changed("id", [str(number) for number in numbers])
    assert read_survey(write_survey(tmp_path / "b", texts)).order.tolist() == in_order
    csv = write_survey(tmp_path / "c", changed("id", numbers), style="csv")
    assert read_survey(csv).order.tolist() == in_order


# --------------------------------------------------------------------------- nothing is quoted

SECRET = "hush-4711"


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("column", ["id", "place", "weight", "job", "education", "licence", "r1"])
def test_no_value_is_quoted_in_a_fault_or_shown_by_printing(
    tmp_path: Path, style: str, column: str
) -> None:
    values: list[str | None] = [SECRET, SECRET, SECRET, SECRET, None, ""]
    records = RECORDS | {"r1": [1.0] * 6, "r2": [2.0] * 6} | {column: values}
    faults = check_survey(write_survey(tmp_path, records, REPLICATES, style)).faults
    assert faults
    assert SECRET not in "".join(map(str, faults)) + repr(faults)


def test_a_header_that_may_be_a_record_is_not_quoted(tmp_path: Path) -> None:
    folder = write_survey(tmp_path)
    (folder / "records.parquet").unlink()
    (folder / "records.csv").write_text(f"{SECRET},1\nx,2\n", encoding="utf-8")
    rule = "the first row names none of the declared columns; the header may be missing"
    assert faults_of(folder) == {("", rule, None)}


def test_printing_a_survey_shows_its_variables_only(tmp_path: Path) -> None:
    survey = read_survey(write_survey(tmp_path / "s"))
    assert repr(survey) == (
        f"<Survey in {tmp_path / 's'}: records of job, education, licence, confidential>"
    )


# ------------------------------------------------------------------------------- damaged files


def file_faults(folder: Path) -> tuple[Fault, ...]:
    """Whatever stands in the files, the answer is a survey, faults or a refusal."""
    try:
        checked = check_survey(folder)
        survey, faults = checked.survey, checked.faults
    except Refusal:
        return ()
    assert (survey is None) == bool(faults)
    return faults


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The bytes of a few thousand sound records, in both formats."""
    folder = tmp_path_factory.mktemp("larger")
    count = 3_000
    rng = random.Random(1)
    table = pa.table(
        {name: [rng.choice(values) for _ in range(count)] for name, values in RECORDS.items()}
        | {"id": list(range(count)), "education": ["school"] * count}
    )
    parquet.write_table(table, folder / "records.parquet", row_group_size=700)
    arrow_csv.write_csv(table, folder / "records.csv")
    return {style: (folder / f"records.{style}").read_bytes() for style in STYLES}


def put(folder: Path, style: str, data: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "survey.toml").write_text(DECLARATION, encoding="utf-8")
    (folder / f"records.{style}").write_bytes(data)
    return folder


def test_the_larger_records_are_sound(tmp_path: Path, larger: dict[str, bytes]) -> None:
    for style, data in larger.items():
        assert file_faults(put(tmp_path / style, style, data)) == ()


@pytest.mark.parametrize("seed", range(25))
def test_parquet_cut_anywhere_is_a_fault(
    tmp_path: Path, larger: dict[str, bytes], seed: int
) -> None:
    data = larger["parquet"]
    cut = random.Random(seed).randrange(len(data))
    assert file_faults(put(tmp_path, "parquet", data[:cut]))


@pytest.mark.parametrize("seed", range(25))
def test_csv_cut_inside_a_row_is_a_fault(
    tmp_path: Path, larger: dict[str, bytes], seed: int
) -> None:
    data = larger["csv"]
    cut = random.Random(seed).randrange(100, len(data))
    while data[:cut].rsplit(b"\n", 1)[-1].count(b",") >= 5 or data[cut - 1 : cut] == b"\n":
        cut += 1  # at the end of a row, or in its last field, nobody can tell
    assert file_faults(put(tmp_path, "csv", data[: min(cut, len(data))])) or cut >= len(data)


@pytest.mark.parametrize("seed", range(60))
def test_scribbles_anywhere_never_end_in_anything_but_faults(
    tmp_path: Path, larger: dict[str, bytes], seed: int
) -> None:
    rng = random.Random(seed)
    style = STYLES[seed % 2]
    data = bytearray(larger[style])
    for _ in range(rng.randint(1, 5)):
        start = rng.randrange(len(data))
        for place in range(start, min(start + rng.randint(1, 40), len(data))):
            data[place] = rng.randrange(256)
    file_faults(put(tmp_path, style, bytes(data)))


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_are_a_fault(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    data = rng.randbytes(rng.randint(0, 4_000))
    if seed % 4 == 0:
        data = b"PAR1" + data + b"PAR1"
    for style in STYLES:
        assert file_faults(put(tmp_path / style, style, data))


@pytest.mark.parametrize("seed", range(40))
def test_scribbles_in_the_declaration_never_end_in_a_traceback(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    folder = write_survey(tmp_path)
    text = bytearray(DECLARATION.encode())
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(text))
        kind = rng.randrange(3)
        if kind == 0:
            text[start] = rng.choice(b"[]{}=\"'.,#0az\n\xff\x00")
        elif kind == 1:
            del text[start : start + rng.randint(1, 30)]
        else:
            again = rng.randrange(len(text))
            text[start:start] = text[again : again + rng.randint(1, 60)]
    (folder / "survey.toml").write_bytes(bytes(text))
    file_faults(folder)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_csv_in_another_encoding_is_a_fault(tmp_path: Path, encoding: str) -> None:
    text = "id,place,weight,job,education,licence\n1,Zürich,1,15-1252,none,0\n"
    (fault,) = file_faults(put(tmp_path, "csv", text.encode(encoding)))
    assert fault.rule == "is not UTF-8 text; save it as UTF-8"


def test_texts_in_parquet_that_are_not_utf8_are_a_fault_of_their_column(tmp_path: Path) -> None:
    bad = pa.array([b"15-1252", b"\xff\xfe", b"x", b"x", b"x", b"x"], pa.binary()).view(pa.string())
    table = pa.table(RECORDS)
    folder = write_survey(tmp_path, table.set_column(3, "job", bad))
    rule = "cannot be read to the end; the file is damaged"
    assert faults_of(folder) == {("job", rule, None)}


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda path: None, "the file does not exist"),
        (lambda path: path.mkdir(), "the folder holds no files"),
        (lambda path: path.symlink_to(path), "the file does not exist"),
        (lambda path: path.write_bytes(b""), "cannot be read as Parquet"),
    ],
)
def test_a_file_that_is_none_is_a_fault(tmp_path: Path, make: Any, rule: str) -> None:
    folder = write_survey(tmp_path)
    (folder / "records.parquet").unlink()
    make(folder / "records.parquet")
    (fault,) = file_faults(folder)
    assert fault.rule.startswith(rule)
