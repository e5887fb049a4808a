"""A survey's ledger pays under one declaration of records and establishments."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eree
from eree.release.record import RECORD, digest_of, record_text
from eree.survey import protect
from eree.survey.cube import CubeOutline
from small_survey import DECLARATION, RECORDS, write_survey

#: Beside the columns of a record and of an establishment lies a copy of each.
TWINS = RECORDS | {"other": RECORDS["id"], "firm": ["x", "x", "x", "y", "y", "y"]}
IGNORED = 'occupation = "job"\nignore = ["other", "firm"]'
DECLARED = DECLARATION.replace('occupation = "job"', IGNORED)
FIRMS = DECLARED.replace('"place"', '"firm"').replace('"other", "firm"', '"other", "place"')
OTHERS = DECLARED.replace('record = "id"', 'record = "other"').replace('["other"', '["id"')


def cube(folder: Path, declaration: str = DECLARED, **given: Any) -> eree.Cube:
    records = given.pop("records", TWINS)
    write_survey(folder, records, declaration)
    return eree.build_cube_file(
        folder, folder.with_suffix(".cube"), most_weight=200, most_records=3, **given
    )


def ledger(folder: Path, relation: Any, data_set: str = "data") -> eree.Ledger:
    total = eree.Guarantee(relation, 10)
    return eree.Ledger.create(folder / f"{relation.name}.db", total, data_set=data_set)


def paid(made: eree.Cube, book: eree.Ledger, out: Path, **given: Any) -> eree.Release:
    unit: Any = {"epsilon": 1, "unit": "establishment", "calibration": "none"}
    return eree.protect_cube(made, ledger=book, out=out, **unit | given).release


def test_the_file_of_a_cube_says_what_is_protected(tmp_path: Path) -> None:
    cube(tmp_path / "s", f'data_set = "survey of 2026"\n{DECLARED}')
    said = {"data_set": "survey of 2026", "record": "id", "establishment": "place"}
    for read in (eree.Cube.load, CubeOutline.read):
        assert read(tmp_path / "s.cube").protects.as_json() == said


@pytest.mark.parametrize("other", [FIRMS, OTHERS, f'data_set = "x"\n{DECLARED}'])
def test_another_declaration_is_refused_before_anything_is_drawn(
    other: str, tmp_path: Path, monkeypatch: Any
) -> None:
    book = ledger(tmp_path, eree.ESTABLISHMENT)
    paid(cube(tmp_path / "s"), book, tmp_path / "out")
    before = book.entries()
    words = "is for the data set 'data'" if "data_set" in other else "under another declaration"
    monkeypatch.setattr(protect, "_write", None)
    with pytest.raises(eree.Refusal, match=words):
        paid(cube(tmp_path / "t", other), book, tmp_path / "again")
    assert book.entries() == before
    assert not (tmp_path / "again").exists()


def test_record_neighbours_hang_on_no_establishment(tmp_path: Path) -> None:
    """Whatever pays, the record says what an establishment is."""
    book = ledger(tmp_path, eree.RECORD)
    for name, declaration in (("s", DECLARED), ("t", FIRMS)):
        release = paid(cube(tmp_path / name, declaration), book, tmp_path / f"out {name}")
        assert set(release.record["protects"]) == {"data_set", "record", "establishment"}
        assert eree.verify(release, ledger=book).sound
    with pytest.raises(eree.Refusal, match="under another declaration"):
        paid(cube(tmp_path / "u", OTHERS), book, tmp_path / "out u", unit="record")
    assert book.spent().epsilon == 2


def test_another_year_with_other_variables_is_the_same_series(tmp_path: Path) -> None:
    book = ledger(tmp_path, eree.ESTABLISHMENT)
    first = paid(cube(tmp_path / "s"), book, tmp_path / "out", period="2026")
    assert (first.data_set, first.period) == ("data", "2026")
    assert book.entries()[1].as_json()["period"] == "2026"
    rows = TWINS | {"place": ["c", "d", "e", "f", "g", "h"], "weight": [1.0] * 6}
    relabelled = DECLARED.replace('"Education"', '"Schooling"')
    again = cube(tmp_path / "t", relabelled, records=rows, variables=["job", "licence"])
    second = paid(again, book, tmp_path / "again", period="2027")
    for release in (first, second):
        found = eree.verify(release, ledger=book)
        assert found.sound, found.faults


def sealed(folder: Path, change: Callable[[Any], object]) -> eree.Release:
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    change(record)
    record["digest"] = digest_of(record)
    (folder / RECORD).write_text(record_text(record), encoding="utf-8")
    return eree.Release.open(folder)


def test_a_declaration_that_was_altered_is_found(tmp_path: Path) -> None:
    book = ledger(tmp_path, eree.ESTABLISHMENT)
    paid(cube(tmp_path / "s"), book, tmp_path / "out")
    changes: list[tuple[Callable[[Any], object], str, bool]] = [
        (lambda r: r["protects"].update(more=1), "is not written as a declaration", False),
        (lambda r: r["protects"].update(record=""), "is not written as a declaration", False),
        (lambda r: r["protects"].pop("establishment"), "is not written as a declaration", False),
        (lambda r: r["protects"].update(establishment="firm"), "that entry 2 paid under", True),
        (lambda r: r["protects"].update(data_set="x"), "is not of the data set data", True),
        (lambda r: r.update(period="2027"), "is not the one that entry 2 paid for", True),
    ]
    for number, (change, words, only_by_the_ledger) in enumerate(changes):
        copied = Path(shutil.copytree(tmp_path / "out", tmp_path / f"copy {number}"))
        forged = sealed(copied, change)
        assert eree.verify(forged).sound is only_by_the_ledger
        found = eree.verify(forged, ledger=book)
        assert any(words in fault.rule for fault in found.faults), found.faults
