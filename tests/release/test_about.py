"""What a release says it is about: checked in the plan, carried into whatever is made of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import eree
from declared import book, planned, town
from eree.release.record import RECORD, digest_of, record_text
from offices import settings, table
from small_cubes import PROTECTS
from uses import eree_command

ABOUT = {
    "title": "Jobs by county",
    "source": "Quarterly census, state of Illinois",
    "publisher": "Office of Job Statistics",
    "contact": "jobs@example.org",
    "licence": "CC BY 4.0",
    "note": "Preliminary.",
}


@pytest.fixture(scope="module")
def data(population: eree.Tables) -> Path:
    return population.folder


def released(home: Path, **changes: Any) -> tuple[eree.Release, eree.Ledger]:
    ledger, data = book(home), town().write(home / "data")
    plan = planned(data, **changes)
    return eree.publish(plan, eree.load(data), ledger=ledger, out=home / "out"), ledger


def test_what_a_plan_says_is_in_the_record_and_in_the_ledger(tmp_path: Path) -> None:
    release, ledger = released(tmp_path, about=ABOUT, period="2026")
    assert dict(release.described) == release.record["about"] == ABOUT
    assert repr(release["counties"]).startswith(
        f"<ReleasedTable counties of release {release.identity[:8]} (Jobs by county, 2026):"
    )
    reserved = ledger.entries()[1].event
    assert reserved.what == {"title": ABOUT["title"], "tables": "counties"}  # type: ignore[attr-defined]
    assert eree.verify(release, ledger=ledger).sound


def test_a_release_that_says_nothing_has_nothing(tmp_path: Path) -> None:
    release, ledger = released(tmp_path)
    assert release.described == {}
    assert release.about("counties")["about"] == {}
    assert ledger.entries()[1].event.what == {"tables": "counties"}  # type: ignore[attr-defined]


def test_a_table_has_a_title_and_a_note_and_each_marginal_says_what_it_is_by(data: Path) -> None:
    own = table(name="w", title="Workers", note="Ages as of July.", marginals=["sex", "education"])
    one = table(name="p", title="Places")
    tables = eree.Plan.of(settings(data, table=[own | {"epsilon": "3"}, one], privacy=WIDE)).tables
    assert [(t.title, t.note) for t in tables] == [
        ("Workers: Sex", "Ages as of July."),
        ("Workers: Education", "Ages as of July."),
        ("Places", ""),
    ]


WIDE = {"neighbours": "strong", "alpha": "0.1", "epsilon": "10"}
LINE = "on one line, of at most 200 printable characters"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"about": {"license": "x"}}, "about.license: is not a setting that eree knows; did you"),
        ({"about": {"period": "2026"}}, "about.period: is not a setting that eree knows"),
        ({"about": {"title": ""}}, f"about.title: must be a text in quotes, {LINE}"),
        ({"about": {"title": "a\nb"}}, f"about.title: must be a text in quotes, {LINE}"),
        ({"about": {"title": "a\u202eb"}}, f"about.title: must be a text in quotes, {LINE}"),
        ({"about": {"title": "a" * 201}}, f"about.title: must be a text in quotes, {LINE}"),
        ({"about": {"title": 7}}, f"about.title: must be a text in quotes, {LINE}"),
        ({"about": {"note": "a" * 4_001}}, "about.note: must be a text in quotes, on one line"),
        ({"about": "jobs"}, "about: must be a table: [about]"),
        ({"table": [table(title=" ")]}, f"table t.title: must be a text in quotes, {LINE}"),
        ({"table": [table(titel="x")]}, "table t.titel: is not a setting that eree knows; did you"),
    ],
)
def test_what_cannot_be_said_is_refused_by_its_place(
    data: Path, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(eree.Faulty) as refused:
        eree.Plan.of(settings(data, **given))
    assert words in str(refused.value)


def test_the_board_reads_it_too(data: Path) -> None:
    plan = eree.Plan.of(
        settings(data, about=ABOUT, period="2026", table=[table(title="Places", note="Old ones.")])
    )
    ahead = eree.expected_accuracy(plan)
    assert ahead.as_json()["about"] == ABOUT
    page = eree.memo(ahead)
    assert "**Jobs by county**" in page
    assert "- t: Places. Old ones." in page
    for name in ("source", "publisher", "contact", "licence", "note"):
        assert f"- {name}: {ABOUT[name]}" in page


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r["about"].update(title="Others"), "about.title: is not the one that entry 2"),
        (lambda r: r["about"].update(other="x"), "about.other: is not a setting that eree knows"),
        (lambda r: r["about"].update(note="a\u0085b"), "about.note: must be a text in quotes"),
        (lambda r: r["tables"][0]["about"].update(note="\t"), "table counties.about.note: must"),
    ],
)
def test_other_words_than_those_that_were_paid_for_are_found(
    change: Any, words: str, tmp_path: Path
) -> None:
    release, ledger = released(tmp_path, about=ABOUT)
    record = json.loads((release.folder / RECORD).read_text(encoding="utf-8"))
    change(record)
    record["digest"] = digest_of(record)
    (release.folder / RECORD).write_text(record_text(record), encoding="utf-8")
    faults = eree.verify(eree.Release.open(release.folder), ledger=ledger).faults
    assert any(words in str(fault) for fault in faults), faults


def test_a_cube_says_what_it_is_about(tmp_path: Path) -> None:
    eree_command("cube", "synth", tmp_path / "s", "--shape", "querytool")
    wanted = ("--variables", "occupation,telework", "--most-weight", "2500")
    eree_command("cube", "build", "s", "--out", "s.cube", *wanted, cwd=tmp_path)
    total = eree.Guarantee(eree.RECORD, 4)
    ledger = eree.Ledger.create(tmp_path / "l.db", total, data_set=PROTECTS.data_set)
    protect = ("cube", "protect", "s.cube", "--out", "out", "--ledger", "l.db", "--epsilon", "2")
    file = tmp_path / "about.toml"
    file.write_text('titel = "Telework"\n', encoding="utf-8")
    status, _, said = eree_command(*protect, "--about", "about.toml", cwd=tmp_path)
    assert (status, "about.toml, titel: is not a setting that eree knows; did" in said) == (2, True)
    assert len(ledger.entries()) == 1
    status, _, said = eree_command(*protect, "--about", "none.toml", cwd=tmp_path)
    assert (status, "there is no file none.toml" in said) == (2, True)
    file.write_text('title = "Telework"\nlicence = "CC0"\n', encoding="utf-8")
    assert eree_command(*protect, "--about", "about.toml", cwd=tmp_path)[0] == 0
    release = eree.Release.open(tmp_path / "out")
    assert release.described == {"title": "Telework", "licence": "CC0"}
    assert ledger.entries()[1].event.what["title"] == "Telework"  # type: ignore[attr-defined]
    assert eree.verify(release, ledger=ledger).sound
