"""The confidential cube: exact counts, public bounds, and a file that cannot be damaged unseen."""

from __future__ import annotations

import hashlib
import json
import random
import stat
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eree.errors import Faulty, Refusal, Unreadable
from eree.survey.checked import Survey
from eree.survey.cube import DIGEST_BYTES, FIRST_LINE, Cube, Sums, build_cube, build_cube_file
from eree.survey.microdata import read_survey
from eree.survey.shape import Impossible, Shape, Variable
from selection import examples
from small_survey import DECLARATION, Sampled, changed, samples, write_survey


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    return read_survey(write_survey(tmp_path_factory.mktemp("small")))


def kept_records(sampled: Sampled, most: int | None) -> list[int]:
    """The records that a bound keeps, one establishment after the other."""
    held: dict[int, list[int]] = defaultdict(list)
    for record, establishment in enumerate(sampled.establishments):
        held[establishment].append(record)
    found = []
    for records in held.values():
        ordered = sorted(records, key=lambda r: (len(str(sampled.ids[r])), str(sampled.ids[r])))
        found += ordered[:most]
    return found


@examples(20, torture=600)
@given(
    sampled=samples(),
    most_records=st.none() | st.integers(1, 5),
    most_weight=st.none() | st.integers(1, 2 * 10**6),
)
def test_the_cube_counts_what_the_records_say(
    tmp_path_factory: pytest.TempPathFactory,
    sampled: Sampled,
    most_records: int | None,
    most_weight: int | None,
) -> None:
    found = read_survey(sampled.write(tmp_path_factory.mktemp("any")))
    bound = None if most_weight is None else Fraction(most_weight, 1000)
    cube = build_cube(found, most_weight=bound, most_records=most_records)
    unweighted = np.zeros(sampled.shape.levels, dtype=np.int64)
    weighted, weights, places = unweighted.copy(), [], Counter[int]()
    for record in kept_records(sampled, most_records):
        weight = min(sampled.weights[record], most_weight or 10**15)
        unweighted[sampled.places[record]] += 1
        weighted[sampled.places[record]] += weight
        weights.append(weight)
        places[sampled.establishments[record]] += weight
    assert np.array_equal(cube.unweighted, unweighted)
    assert np.array_equal(cube.weighted, weighted)
    assert cube.sums == Sums(
        len(weights),
        sum(weights),
        sum(w * w for w in weights),
        len(places),
        sum(total * total for total in places.values()),
    )
    assert (cube.most_weight, cube.most_records) == (most_weight, most_records)
    again = Cube.load(cube.save(tmp_path_factory.mktemp("saved") / "c"))
    assert np.array_equal(again.unweighted, cube.unweighted)
    assert np.array_equal(again.weighted, cube.weighted)
    assert (again.shape, again.sums) == (cube.shape, cube.sums)
    assert (again.most_weight, again.most_records) == (most_weight, most_records)


@examples(15, torture=400)
@given(sampled=samples(), most=st.integers(1, 3), gone=st.integers(0, 6))
def test_what_an_establishment_adds_depends_on_no_other(
    tmp_path_factory: pytest.TempPathFactory, sampled: Sampled, most: int, gone: int
) -> None:
    stay = [i for i, place in enumerate(sampled.establishments) if place != gone]
    leave = [i for i, place in enumerate(sampled.establishments) if place == gone]

    def cube(records: list[int]) -> np.ndarray:
        if not records:
            return np.zeros(sampled.shape.levels, dtype=np.int64)
        part = Sampled(
            sampled.shape,
            *(
                [column[i] for i in records]
                for column in (
                    sampled.places,
                    sampled.weights,
                    sampled.establishments,
                    sampled.ids,
                )
            ),
        )
        found = read_survey(part.write(tmp_path_factory.mktemp("part")))
        built = build_cube(found, most_weight=5000, most_records=most)
        assert int(built.weighted.sum()) <= 5_000_000 * most * built.sums.establishments
        return built.weighted

    everyone = cube(list(range(len(sampled.places))))
    assert np.array_equal(everyone, cube(stay) + cube(leave))


def test_a_cube_of_some_variables_is_the_sum_over_the_others(survey: Survey) -> None:
    whole = build_cube(survey)
    coarse = build_cube(survey, variables=["licence", "job"])
    assert np.array_equal(coarse.weighted, whole.weighted.sum(axis=1).T)
    assert coarse.shape.levels == (2, 5)
    assert coarse.shape.impossible == ()  # its rule needs education
    both = build_cube(survey, variables=["education", "job"])
    assert both.shape.impossible == survey.shape.impossible
    with pytest.raises(Refusal, match="the cube has no variable 'pay'"):
        build_cube(survey, variables=["pay"])


def test_a_rule_that_holds_whatever_a_variable_is_stays_without_it() -> None:
    one = Variable("a", "a", ("x", "y"), ("x", "y"))
    other = Variable("b", "b", ("x", "y"), ("x", "y"))
    shape = Shape((one, other), (Impossible({"a": ["x"], "b": ["y", "x"]}),))
    assert shape.of(["a"]).impossible == (Impossible({"a": ["x"]}),)
    assert shape.of(["b"]).impossible == ()
    assert shape.of(["b", "a"]).possible.sum() == shape.possible.sum() == 2


def test_a_cube_that_is_too_large_is_refused_before_memory_is_taken(survey: Survey) -> None:
    codes = tuple(map(str, range(1000)))
    variables = tuple(Variable(f"v{i}", "", codes, codes) for i in range(40))
    with pytest.raises(Refusal, match="more than the 50,000,000 that eree holds; choose fewer"):
        Shape(variables, (Impossible({"v1": ["1"]}),)).checked()
    assert survey.shape.checked() is survey.shape


def test_a_cube_without_a_cell_is_refused(survey: Survey) -> None:
    rules = [Impossible({"licence": ["0"]}), Impossible({"licence": ["1"]})]
    empty = Shape(survey.shape.variables, tuple(rules))
    with pytest.raises(Refusal, match="leave no cell of the cube"):
        empty.checked()


@pytest.mark.parametrize("weight", ["0", "-1", "0.0001", "1/3", "1000000001", "many", 0.5, True])
def test_a_bound_of_weights_is_exact_and_positive(survey: Survey, weight: Any) -> None:
    with pytest.raises(Refusal, match="the most weight must be"):
        build_cube(survey, most_weight=weight)


@pytest.mark.parametrize("records", [0, -1, True, 1.5])
def test_a_bound_of_records_is_a_whole_number(survey: Survey, records: Any) -> None:
    with pytest.raises(Refusal, match="the most records of an establishment must be"):
        build_cube(survey, most_records=records)


def test_printing_a_cube_shows_what_is_public(survey: Survey) -> None:
    assert repr(build_cube(survey)) == "<Cube of job, education, licence: 30 cells, confidential>"
    bounded = build_cube(survey, most_weight="12.5", most_records=2)
    assert repr(bounded) == (
        "<Cube of job, education, licence: 30 cells, weights of at most 12.5, at most 2 records of"
        " an establishment, confidential>"
    )
    assert repr(bounded.sums) == "<Sums, confidential>"


def test_the_cells_cannot_be_changed(survey: Survey) -> None:
    with pytest.raises(ValueError, match="read-only"):
        build_cube(survey).weighted[0, 0, 0] = 5


# -------------------------------------------------------------------------------------- the file


def test_the_file_is_its_owners_alone_and_replaces_none(tmp_path: Path, survey: Survey) -> None:
    cube = build_cube(survey)
    path = cube.save(tmp_path / "c.cube")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["c.cube"]
    with pytest.raises(Refusal, match="exists already"):
        cube.save(path)
    with pytest.raises(Refusal, match="does not exist; make it first"):
        cube.save(tmp_path / "none" / "c.cube")


def test_a_file_that_is_not_there_or_no_file_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="; make one with 'eree cube build'"):
        Cube.load(tmp_path / "c.cube")
    with pytest.raises(Unreadable, match="cannot be read"):
        Cube.load(tmp_path)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, survey: Survey) -> bytes:
    return build_cube(survey, most_weight=50).save(tmp_path_factory.mktemp("c") / "c").read_bytes()


def refused(folder: Path, data: bytes) -> None:
    (folder / "c.cube").write_bytes(data)
    with pytest.raises(Unreadable, match="is no cube, or is damaged; make it again"):
        Cube.load(folder / "c.cube")


def test_every_cut_and_every_changed_byte_shows(tmp_path: Path, saved: bytes) -> None:
    for cut in range(0, len(saved), 7):
        refused(tmp_path, saved[:cut])
    rng = random.Random(1)
    for place in rng.sample(range(len(saved)), 200):
        data = bytearray(saved)
        data[place] ^= 1 << rng.randrange(8)
        refused(tmp_path, bytes(data))
    refused(tmp_path, saved + b"\0")
    refused(tmp_path, rng.randbytes(len(saved)))


def sealed(body: Any, columns: list[list[int]], *, length: int | None = None) -> bytes:
    """A file with a right digest, whatever it holds."""
    header = body if isinstance(body, bytes) else json.dumps(body).encode()
    size = (len(header) if length is None else length).to_bytes(8, "big")
    content = FIRST_LINE + size + header + np.array(columns, dtype="<i8").tobytes()
    return content + hashlib.sha256(content).digest()


def test_a_file_that_was_never_a_cube_is_refused_though_its_digest_is_right(
    tmp_path: Path, saved: bytes, survey: Survey
) -> None:
    start = len(FIRST_LINE) + 8
    end = start + int.from_bytes(saved[len(FIRST_LINE) : start], "big")
    body = json.loads(saved[start:end])
    columns = np.frombuffer(saved[end:-DIGEST_BYTES], dtype="<i8").reshape(3, -1).tolist()
    (tmp_path / "whole").write_bytes(sealed(body, columns))
    assert Cube.load(tmp_path / "whole").shape == survey.shape
    places, counts, weights = columns
    wrong: list[tuple[Any, list[list[int]]]] = [
        (b"{", columns),
        (b"[1]", columns),
        (b"[" * 100_000, columns),
        ({}, columns),
        (body | {"shape": {}}, columns),
        (body | {"shape": {"variables": [], "impossible": []}}, columns),
        (body | {"shape": {"variables": 1, "impossible": []}}, columns),
        (body | {"sums": {}}, columns),
        (body | {"sums": body["sums"] | {"records": 10**30}}, columns),
        (body | {"sums": body["sums"] | {"squares": "1"}}, columns),
        (body | {"sums": [1]}, columns),
        (body | {"protects": None}, columns),
        (body | {"protects": {"data_set": "data", "record": "id"}}, columns),
        (body | {"protects": body["protects"] | {"record": ""}}, columns),
        (body | {"protects": body["protects"] | {"data_set": "\ud800"}}, columns),
        (body | {"more": float("inf")}, columns),
        (body | {"most_weight": -1}, columns),
        (body | {"most_records": "x"}, columns),
        (body | {"most_weight": 1}, columns),  # the cells do not keep that bound
        (body | {"sums": body["sums"] | {"establishments": 1}, "most_records": 1}, columns),
        (body, [[], [], []]),
        (body, [places[::-1], counts, weights]),
        (body, [[p - places[0] - 1 for p in places], counts, weights]),
        (body, [[*places[:-1], 30], counts, weights]),
        (body, [places, [*counts[:-1], 0], weights]),
        (body, [places, counts, [w + 1 for w in weights]]),
        (body, [[12, *places[1:]], counts, weights]),  # 12 is declared impossible
    ]
    impossible = np.flatnonzero(~survey.shape.possible.reshape(-1))
    assert 12 in impossible
    for given_body, given_columns in wrong:
        refused(tmp_path, sealed(given_body, given_columns))
    refused(tmp_path, sealed(body, columns, length=2**63))
    refused(tmp_path, sealed(body, columns, length=3))


def test_building_a_file_refuses_before_it_reads(tmp_path: Path) -> None:
    folder = write_survey(tmp_path / "s")
    cube = build_cube_file(folder, tmp_path / "a.cube", most_weight="2.5", most_records=1)
    assert np.array_equal(Cube.load(tmp_path / "a.cube").weighted, cube.weighted)
    assert cube.sums.records == 3
    (folder / "records.parquet").write_bytes(b"not parquet")
    with pytest.raises(Refusal, match="exists already"):
        build_cube_file(folder, tmp_path / "a.cube")
    with pytest.raises(Refusal, match="no variable 'x'"):
        build_cube_file(folder, tmp_path / "b.cube", variables=["x"])
    with pytest.raises(Refusal, match="the most weight"):
        build_cube_file(folder, tmp_path / "b.cube", most_weight="0")
    with pytest.raises(Faulty, match="cannot be read as Parquet"):
        build_cube_file(folder, tmp_path / "b.cube")
    assert not (tmp_path / "b.cube").exists()


def test_only_the_first_records_by_id_stay(tmp_path: Path) -> None:
    ids = ["b10", "b9", "z", "y", "aa", "c"]
    records = changed("id", ids) | {"place": ["a", "a", "b", "b", "b", "c"]}
    found = build_cube(read_survey(write_survey(tmp_path, records)), most_records=1)
    # b9 is shorter than b10, y comes before z, and both before aa
    assert sorted(found.weighted[found.weighted > 0].tolist()) == [2000, 7000, 100250]


def test_declared_zeros_stay_empty(survey: Survey) -> None:
    cube = build_cube(survey)
    assert DECLARATION.count("[[impossible]]") == 1
    assert not cube.unweighted[~survey.shape.possible].any()
    assert cube.unweighted.sum() == 6
