"""A ledger pays under one declaration of what is protected, and refuses any other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import eree
from declared import (
    OTHER,
    WEAK,
    Change,
    book,
    members,
    next_year,
    other_key,
    planned,
    published,
    town,
)
from eree.policy.protected import Protected, protected_jobs
from eree.release import publish as publishing
from offices import privacy, settings, table, text
from town import Town
from uses import eree_command


@pytest.fixture
def ledger(tmp_path: Path) -> eree.Ledger:
    """A ledger that has paid for one release of the town as it is."""
    (tmp_path / "first").mkdir()
    made = book(tmp_path)
    published(town(), tmp_path / "first", made)
    return made


@pytest.mark.parametrize("name", OTHER)
def test_another_declaration_is_refused_before_anything_is_paid_or_counted(
    name: str, ledger: eree.Ledger, tmp_path: Path, monkeypatch: Any
) -> None:
    def counted(*_given: Any, **_named: Any) -> Any:
        raise AssertionError("nothing may be counted")

    before = ledger.entries()
    monkeypatch.setattr(publishing, "stream", counted)
    (tmp_path / "second").mkdir()
    with pytest.raises(eree.Refusal, match="spent from under another declaration of workplaces"):
        published(town(OTHER[name]), tmp_path / "second", ledger)
    assert ledger.entries() == before
    assert not (tmp_path / "second" / "out").exists()


def test_another_data_set_is_refused_before_anything_is_paid(
    ledger: eree.Ledger, tmp_path: Path
) -> None:
    before = ledger.entries()
    (tmp_path / "second").mkdir()
    with pytest.raises(eree.Refusal, match="for the data set 'data', and this release is of 'x'"):
        published(town(lambda t: t.schema.update(data_set="x")), tmp_path / "second", ledger)
    assert ledger.entries() == before


def relabelled(made: Town) -> None:
    made.schema["worker"]["attributes"]["sex"] = {
        "values": ["F", "M"],
        "labels": {"F": "Women", "M": "Men"},
        "label": "Sex",
    }
    made.schema["group"]["band"]["label"] = "Band of grades"


def moved(made: Town) -> None:
    for owner in ("workplace", "worker", "job"):
        made.schema[owner]["file"] = f"{owner}-2027.parquet"


def reordered(made: Town) -> None:
    made.schema["worker"]["attributes"] |= {"sex": ["M", "F"], "grade": {"values": [3, 1, 2]}}
    made.schema["group"]["band"]["members"] = {"high": [3], "low": [2, 1]}


def other_attributes(made: Town) -> None:
    made.schema["workplace"]["attributes"].pop("wages")
    made.schema["workplace"]["ignore"].append("wages")
    made.schema["group"]["goods"]["members"] = {"all": ["11", "23", "44-45"]}
    made.tables["worker"]["tenure"] = [1] * 6
    made.schema["worker"]["attributes"]["tenure"] = [1, 2]


def ignored(made: Town) -> None:
    made.tables["job"]["note"] = ["x"] * 6
    made.schema["job"]["ignore"].append("note")


@pytest.mark.parametrize(
    "change", [relabelled, moved, reordered, other_attributes, ignored, next_year]
)
def test_what_is_not_declared_to_be_protected_does_not_matter(
    change: Change, ledger: eree.Ledger, tmp_path: Path
) -> None:
    (tmp_path / "second").mkdir()
    second = published(town(change), tmp_path / "second", ledger)
    assert ledger.spent().epsilon == 2
    first = eree.Release.open(tmp_path / "first" / "out")
    assert first.record["protects"] == second.record["protects"]
    for release in (first, second):
        found = eree.verify(release, ledger=ledger)
        assert found.sound, found.faults


def test_the_record_and_the_ledger_have_the_period(tmp_path: Path) -> None:
    made = book(tmp_path)
    data = town().write(tmp_path / "data")
    plan = planned(data, period="2026-Q1")
    release = eree.publish(plan, eree.load(data), ledger=made, out=tmp_path / "out")
    assert (release.data_set, release.period) == ("data", "2026-Q1")
    assert made.entries()[1].as_json()["period"] == "2026-Q1"
    assert "Tables of the data set data, for 2026-Q1:" in eree.memo(eree.expected_accuracy(plan))


def test_a_plan_and_tables_under_other_keys_are_refused(tmp_path: Path) -> None:
    data = town().write(tmp_path / "data")
    plan, made = planned(data), book(tmp_path)
    renamed: Change = lambda t: t.schema.update(data_set="x")  # noqa: E731
    for number, change in enumerate([*list(OTHER.values())[:6], renamed]):
        other = town(change).write(tmp_path / f"other {number}")
        with pytest.raises(eree.Refusal, match="made for another schema"):
            eree.publish(plan, eree.load(other), ledger=made, out=tmp_path / "out")
    assert made.spent().epsilon == 0


# --------------------------------------------------------------------- relations that imply others

STRONG, NODE = privacy(epsilon="2"), privacy(neighbours="node", alpha=None, epsilon="2")


@pytest.mark.parametrize("relation", [STRONG, NODE])
def test_a_weak_ledger_binds_its_types_whatever_is_paid_from_it(
    relation: dict[str, Any], tmp_path: Path
) -> None:
    made = book(tmp_path)
    for name in ("first", "second", "third"):
        (tmp_path / name).mkdir()
    release = published(town(), tmp_path / "first", made, relation)
    assert set(release.record["protects"]["types"]) == {"band", "sex"}
    assert eree.verify(release, ledger=made).sound
    with pytest.raises(eree.Refusal, match="under another declaration"):
        published(town(OTHER["members of a type"]), tmp_path / "second", made, relation)
    without: Change = lambda t: t.schema["group"].pop("band")  # noqa: E731
    with pytest.raises(eree.Refusal, match="made of band, which is no worker attribute"):
        published(town(without), tmp_path / "third", made, relation)
    assert made.spent().epsilon == 1


def test_an_edge_ledger_binds_workers_and_not_workplaces(tmp_path: Path) -> None:
    """One worker more or less is the same step whatever a workplace or a type is."""
    made = book(tmp_path, eree.EDGE)
    for name, change in (("a", other_key("workplace")), ("b", members([1], [2, 3]))):
        (tmp_path / name).mkdir()
        release = published(town(change), tmp_path / name, made)
        assert set(release.record["protects"]["types"]) == {"band", "sex"}
        found = eree.verify(release, ledger=made)
        assert found.sound, found.faults
    (tmp_path / "c").mkdir()
    with pytest.raises(eree.Refusal, match="under another declaration"):
        published(town(other_key("worker")), tmp_path / "c", made)


def test_the_digest_is_of_the_declaration_in_one_form(tmp_path: Path) -> None:
    """What a ledger binds can be computed by anyone, from the record alone."""
    schema = eree.read_schema(town().write(tmp_path))
    found = protected_jobs(schema, WEAK)
    assert found.as_json() == {
        "data_set": "data",
        "workplace": {"key": "workplace_id", "column": "workplace_id"},
        "worker": {"key": "worker_id", "column": "worker_id"},
        "job": {"primary": None, "most_per_worker": 1},
        "types": {
            "band": {
                "column": "grade",
                "values": [1, 2, 3],
                "members": [[1, "low"], [2, "low"], [3, "high"]],
            },
            "sex": {"column": "sex", "values": ["F", "M"], "members": []},
        },
    }
    assert protected_jobs(schema, WEAK, eree.Strong("0.1")).under(WEAK).digest == found.digest
    assert protected_jobs(schema, eree.NODE).digest == found.under(eree.NODE).digest
    assert Protected("data", found.declared) == found


# ------------------------------------------------------------------------------------------- plans


def test_planning_says_that_a_ledger_does_not_fit(ledger: eree.Ledger, tmp_path: Path) -> None:
    """In the words of spending, and with exit status 1; and no page to sign is written."""
    where, memo = tmp_path / "ledger.db", tmp_path / "memo.md"
    plan = tmp_path / "plan.toml"
    weak = privacy(neighbours="weak", types=["band", "sex"], epsilon="2")
    plan.write_text(text(settings("data", privacy=weak, table=[table(by=["county"])])))
    asked = ("plan", str(plan), "--ledger", str(where), "--memo", str(memo))
    for name, words in (
        ("members of a type", "the ledger was spent from under another declaration of workplaces"),
        ("data set", "the ledger is for the data set 'data', and this release is of 'x'"),
    ):
        change = OTHER.get(name, lambda t: t.schema.update(data_set="x"))
        town(change).write(tmp_path / "data")
        status, out, _ = eree_command(*asked)
        assert (status, out.splitlines()[-1].startswith(f"NOT FIT for this ledger: {words}")) == (
            1,
            True,
        ), out
        status, out, _ = eree_command(*asked[:4], "--json")
        assert (status, json.loads(out)["unfit"].startswith(words)) == (1, True)
        assert not memo.exists()
    town().write(tmp_path / "data")
    status, out, _ = eree_command(*asked)
    assert (status, memo.exists()) == (0, True), out
    status, out, _ = eree_command(*asked[:4], "--json")
    assert (status, json.loads(out)["unfit"]) == (0, "")


def test_planning_says_what_spending_would_say_of_a_ledger_that_was_rolled_back(
    tmp_path: Path,
) -> None:
    ledger, memo, plan = tmp_path / "ledger.db", tmp_path / "memo.md", tmp_path / "plan.toml"
    made = book(tmp_path)
    made.keep_heads(tmp_path / "heads")
    shutil.copy(ledger, tmp_path / "older.db")
    data = town().write(tmp_path / "data")
    eree.publish(planned(data), eree.load(data), ledger=made, out=tmp_path / "out")
    shutil.copy(tmp_path / "older.db", ledger)
    weak = privacy(neighbours="weak", types=["band", "sex"], epsilon="2")
    quick = table(by=["county"], mechanism="smooth-pareto")
    plan.write_text(text(settings("data", privacy=weak, table=[quick])))
    asked = ("plan", str(plan), "--ledger", str(ledger), "--memo", str(memo))
    status, out, _ = eree_command(*asked)
    words = f"NOT FIT for this ledger: {tmp_path}/heads knows entry 3 of this ledger, and"
    assert (status, out.splitlines()[-1].startswith(words), memo.exists()) == (1, True, False), out
    with pytest.raises(eree.Refusal, match="heads knows entry 3 of this ledger"):
        eree.publish(eree.Plan.read(plan), eree.load(data), ledger=made, out=tmp_path / "again")


def test_planning_says_that_no_ledger_can_write_down_a_sum(tmp_path: Path) -> None:
    made = book(tmp_path, eree.Strong("0.1"))
    plan, digits = tmp_path / "plan.toml", "9" * 990
    protects = protected_jobs(eree.read_schema(town().write(tmp_path / "data")), eree.NODE)
    odd = eree.Guarantee(eree.Strong("0.1"), f"1/{digits}")
    made.reserve(odd, release="odd", what={}, protects=protects)
    wanted = table(by=["county"], epsilon="1.0000019", mechanism="smooth-pareto")
    plan.write_text(text(settings("data", privacy=privacy(epsilon="2"), table=[wanted])))
    status, out, _ = eree_command("plan", plan, "--ledger", made.name, "--json")
    words = "with this epsilon the sum of all prices would have more than a thousand digits"
    assert (status, json.loads(out)["unfit"].startswith(words)) == (1, True), out
