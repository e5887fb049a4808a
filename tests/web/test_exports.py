"""Downloads are read back, by the libraries that read them, as what the page says."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from decimal import Decimal
from math import prod

import numpy as np
import openpyxl
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from eree.policy.plain_data import sha256
from eree.web.answer import Answer, TooLarge, answer
from eree.web.catalogue import Catalogue
from eree.web.cubes import CubeSet
from eree.web.export import EXPORTS, Metadata, file_name, metadata, safe
from eree.web.linked import LinkedTable
from eree.web.query import Query

KEPT = "-by-place-sector-44-45-ownership-public"
QUERIES = {
    "jobs": Query(("place",), ("ownership",)),
    "people": Query(("sex",), ("education",)),
    "women": Query(),
    "cube": Query(("occupation",), ("education",), groups={"occupation": "major"}),
}


@pytest.fixture(params=QUERIES)
def made(request: pytest.FixtureRequest, catalogue: Catalogue) -> tuple[Answer, Metadata]:
    (data,) = (d for d in catalogue.data_sets if d.name.startswith(request.param))
    query = QUERIES[request.param]
    about = metadata(data, query, catalogue.noised_apart(data), "http://home")
    return answer(data, query), about


def test_json_stat_refuses_more_combinations_than_one_answer_may_have(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    (data,) = (d for d in catalogue.data_sets if d.name.startswith("tracts"))
    query = Query(("county", "tract"))
    found, about = answer(data, query), metadata(data, query, (), "http://home")
    combinations = prod(len(variable.codes) for variable in data.variables)
    assert len(found.rows) < combinations
    monkeypatch.setattr("eree.web.export.MOST_CELLS", combinations)
    assert EXPORTS["jsonstat"][1](found, about)
    monkeypatch.setattr("eree.web.export.MOST_CELLS", combinations - 1)
    with pytest.raises(TooLarge, match="take the table as csv"):
        EXPORTS["jsonstat"][1](found, about)


def cells(found: Answer) -> list[tuple[tuple[str, ...], Decimal]]:
    """Codes and estimates of every cell, row by row."""
    return [
        (
            found.rows.codes(i) + found.cols.codes(j),
            Decimal(int(found.body.values[i, j])) / found.body.unit,
        )
        for i in range(len(found.rows))
        for j in range(len(found.cols))
    ]


def names(found: Answer) -> list[str]:
    return [axis.name for axis in (*found.rows.axes, *found.cols.axes)]


def test_csv(made: tuple[Answer, Metadata]) -> None:
    found, about = made
    text = EXPORTS["csv"][1](found, about).decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    read = [(tuple(r[n] for n in names(found)), Decimal(r["estimate"])) for r in rows]
    assert read == cells(found)
    assert {r["release"] for r in rows} == {about.release}
    high = [None if r["high"] == "" else float(r["high"]) for r in rows]
    want = [None if not np.isfinite(v) else round(float(v), 3) for v in found.body.high.ravel()]
    assert high == want


def test_xlsx(made: tuple[Answer, Metadata]) -> None:
    found, about = made
    book = openpyxl.load_workbook(io.BytesIO(EXPORTS["xlsx"][1](found, about)))
    head, *rows = book["Data"].iter_rows(values_only=True)
    place = {name: i for i, name in enumerate(head)}
    for row, (codes, value) in zip(rows, cells(found), strict=True):
        assert tuple(row[place[name]] for name in names(found)) == codes
        assert float(row[place["estimate"]]) == float(value)
        assert isinstance(row[place["estimate"]], int | float)
    sheet = dict(book["About"].iter_rows(values_only=True))
    assert about.release in sheet["Release"] and sheet["Guarantee"] == about.promise


def test_parquet(made: tuple[Answer, Metadata]) -> None:
    found, about = made
    table = parquet.read_table(io.BytesIO(EXPORTS["parquet"][1](found, about)))
    rows = table.to_pylist()
    read = [(tuple(r[n] for n in names(found)), Decimal(r["estimate"])) for r in rows]
    assert read == cells(found)
    assert json.loads(table.schema.metadata[b"eree"])["release"] == about.release


def test_json_stat(made: tuple[Answer, Metadata]) -> None:
    found, about = made
    body = json.loads(EXPORTS["jsonstat"][1](found, about))
    assert (body["version"], body["class"]) == ("2.0", "dataset")
    assert len(body["value"]) == np.prod(body["size"])
    assert body["id"][:-1] == names(found) and body["role"]["metric"] == body["id"][-1:]
    values = np.array(body["value"], dtype=object).reshape(body["size"])
    index = [body["dimension"][name]["category"]["index"] for name in body["id"]]
    assert [len(codes) for codes in index] == body["size"]
    for codes, value in cells(found):
        place = tuple(known.index(code) for known, code in zip(index, codes, strict=False))
        assert float(values[(*place, 0)]) == float(value)
    assert body["extension"]["eree"]["release"] == about.release
    status = {int(place) for place in body["status"]}
    assert status <= set(range(len(body["value"])))


#: Texts of what matters here, so that many are nearly formulas.
NEARLY = st.one_of(st.text(), st.text(alphabet="=+-@＝;|\t\r\n '\"a1,"))


@given(NEARLY)
def test_no_text_of_a_csv_is_a_formula_whatever_divides_cells(text: str) -> None:
    """Where commas are decimal signs, a semicolon or a tab begins a new cell."""
    made = safe(text)
    for cell in re.split("[;|\t\r\n]", made):
        assert not cell.strip(" ").startswith(tuple("=+-@＝＋－＠"))
        assert not cell.strip(" '\"").startswith(tuple("=+-@＝＋－＠")) or cell.startswith("'")
    assert not made.startswith(("\t", "\r", "\n"))


@given(NEARLY)
def test_nothing_is_taken_from_a_text(text: str) -> None:
    made, left = iter(safe(text)), list(reversed(text))
    for letter in made:
        if left and left[-1] == letter:
            left.pop()
        else:
            assert letter == "'"
    assert not left


@pytest.mark.parametrize("text", ["Managers, all other", "22-0000", "a - b", "x;y", "", "O'Neill"])
def test_ordinary_texts_stay_as_they_are(text: str) -> None:
    assert safe(text) == text


def test_a_label_that_is_a_formula_is_only_a_text(catalogue: Catalogue) -> None:
    (data,) = (d for d in catalogue.data_sets if d.name.startswith("people"))
    found = answer(data, Query(("sex",)))
    (axis,) = found.rows.axes
    evil = ('=HYPERLINK("http://evil")', "+1", "@x", "-2")[: len(axis.codes)]
    rows = replace(found.rows, axes=(replace(axis, labels=evil),))
    about = metadata(data, found.query, (), "http://home")
    changed = replace(found, rows=rows)
    text = EXPORTS["csv"][1](changed, about).decode("utf-8-sig")
    labels = [r["sex_label"] for r in csv.DictReader(io.StringIO(text, newline=""))]
    assert labels == [f"'{label}" for label in evil]
    book = openpyxl.load_workbook(io.BytesIO(EXPORTS["xlsx"][1](changed, about)))
    kinds = {cell.data_type for row in book["Data"].iter_rows() for cell in row}
    assert "f" not in kinds


def test_negative_numbers_stay_numbers(catalogue: Catalogue) -> None:
    (data,) = (d for d in catalogue.data_sets if d.name.startswith("cube"))
    found = answer(data, Query(("occupation", "education")))
    assert (found.body.values < 0).any()
    about = metadata(data, found.query, (), "http://home")
    text = EXPORTS["csv"][1](found, about).decode("utf-8-sig")
    estimates = [r["estimate"] for r in csv.DictReader(io.StringIO(text, newline=""))]
    assert any(value.startswith("-") for value in estimates)
    assert all(Decimal(value).is_finite() for value in estimates)


def test_the_name_of_a_file_says_what_is_in_it(
    client: TestClient, tables: dict[str, LinkedTable], cube: CubeSet
) -> None:
    data = tables["jobs"]
    five = data.variable("sector").codes[:5]
    sectors = "".join(f"&where.sector={code}" for code in five)
    for query, words in (
        ("rows=sector&cols=ownership", "-by-sector-ownership"),
        ("rows=place&group.place=county", "-by-place-county"),
        ("rows=place&where.sector=44-45&where.ownership=public", KEPT),
        (f"rows=place{sectors}", f"-by-place-sector-5-codes-{sha256(list(five))[:8]}"),
        ("measure=workplaces&rows=sector", "-by-sector-workplaces"),
        ("show=margin", "-total"),
    ):
        for ending, suffix in (("csv", "csv"), ("xlsx", "xlsx"), ("jsonstat", "jsonstat.json")):
            said = client.get(f"/d/{data.name}.{ending}?{query}").headers["content-disposition"]
            assert said == f'attachment; filename="{data.name}{words}.{suffix}"'
        said = client.get(f"/d/{data.name}.json?{query}").headers["content-disposition"]
        assert said == f'inline; filename="{data.name}{words}.json"'
    ranked = client.get(f"/d/{data.name}/ranking.json?rows=place").headers["content-disposition"]
    assert ranked == f'inline; filename="{data.name}-by-place.ranking.json"'
    sizes = client.get(f"/d/{data.name}/sizes/sizes.csv").headers["content-disposition"]
    assert sizes == f'attachment; filename="{data.name}-sizes.csv"'


def test_the_period_is_in_the_name_of_a_file_and_nothing_odd_is(
    cube: CubeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(cube.release), "period", '2026 Q1/é"\r\n')
    query = Query(("education",), where={"occupation": ("29-1141",)})
    want = f"{cube.name}-by-education-occupation-29-1141-2026-Q1-e.csv"
    assert file_name(cube, query, "csv") == want
    names = {
        file_name(cube, one, "csv", *own)
        for one, own in (
            (query, ()),
            (replace(query, confidence="0.95"), ()),
            (query, ("above-3.50", "1a2b3c4d")),
            (query, ("heat",)),
            (query, ("heat", "page-2")),
        )
    }
    assert len(names) == 5
    kept = {v.name: v.codes[:3] for v in cube.variables}
    long = Query(tuple(kept), where=kept)
    others = [replace(long, where=kept | {n: codes[:1]}) for n, codes in kept.items()]
    others += [replace(long, confidence=level) for level in ("0.95", "0.99")]
    every = [(one, own) for one in (long, *others) for own in ((), ("heat",), ("heat", "page-2"))]
    names = {file_name(cube, one, "parquet", *own) for one, own in every}
    assert len(names) == len(every) and max(map(len, names)) <= 128
    assert all("-2026-Q1-e." in name for name in names)
