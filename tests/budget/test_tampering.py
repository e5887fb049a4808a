"""A ledger that was changed behind its back: what is found, and what cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import eree
from eree.budget.entries import Closed, Created, Event, Reserved, Row, Settled, Standing, seal
from eree.errors import Refusal
from eree.policy.neighbours import EDGE
from ledgers import (
    DIGEST,
    PROTECTS,
    STRONG,
    change_bytes,
    execute,
    flip_file,
    grown,
    is_file,
    literal,
    made,
    price,
    raw,
    rows,
    spend,
    spoil,
)

AT = "2026-07-14T12:00:00Z"
ALTERED = "was altered: its hash is not that of its contents"
SUM = "carries another sum than that of all prices up to it"
BROKEN = "does not continue the entry before it, or that one was altered"


def reported(ledger: eree.Ledger) -> list[tuple[str, str]]:
    return [(fault.column, fault.rule) for fault in ledger.verify()]


def reserve(name: str, asked: Any, declaration: str = PROTECTS.digest, at: str = AT) -> Reserved:
    return Reserved(name, {}, asked, declaration, "", at)


def forge(where: str, *events: Event, then: Mapping[int, Standing] | None = None) -> eree.Ledger:
    """A ledger with a perfect chain over whatever events, as a faulty program could write it.

    `then` are standings that some entries carry instead of the true ones.
    """
    ledger = made(where)
    last, standing, texts = None, Standing(), []
    for number, event in enumerate(events, 1):
        standing = (then or {}).get(number, event.then(standing))
        last = Row.after(last, event, standing)
        values = [v.encode() if isinstance(v, str) else v for v in last]
        texts.append(", ".join(literal(value, where) for value in values))
    inserts = [f"INSERT INTO eree_ledger VALUES ({text})" for text in texts]
    # without the guards, and without the rule that no two entries are about the same one
    columns = "number BIGINT PRIMARY KEY, kind TEXT, body TEXT, previous TEXT, hash TEXT"
    table = f"CREATE TABLE eree_ledger ({columns}, about BIGINT)"
    execute(where, "DROP TABLE eree_ledger", table, *inserts)
    return ledger


def test_every_change_of_a_byte_is_found(where: str) -> None:
    change_bytes(where, changes=200, seed=1)


def test_every_changed_byte_of_a_file_is_found_or_changes_nothing(tmp_path: Path) -> None:
    counted = flip_file(tmp_path, flips=200, seed=1)
    assert sum(counted.values()) == 200
    assert counted["found"] > 20


def test_a_removed_entry_is_found(where: str) -> None:
    ledger = grown(where)
    spoil(where, "DELETE FROM eree_ledger WHERE number = 3")
    assert (
        "entry 4",
        "follows entry 2: what stood between is missing or out of order",
    ) in reported(ledger)


def test_a_removed_beginning_is_found(where: str) -> None:
    ledger = grown(where)
    spoil(where, "DELETE FROM eree_ledger WHERE number <= 2")
    assert reported(ledger)[0] == (
        "entry 3",
        "follows the beginning: what stood between is missing or out of order",
    )


def test_an_emptied_ledger_is_found(where: str) -> None:
    ledger = grown(where)
    spoil(where, "DELETE FROM eree_ledger")
    assert reported(ledger) == [("", "has no entries, not even its first")]
    with pytest.raises(Refusal, match=r"is faulty \(has no entries, not even its first\)"):
        spend(ledger, "1/10")


def test_removed_entries_with_all_later_ones_renumbered_are_found(where: str) -> None:
    ledger = grown(where)
    spoil(where, "DELETE FROM eree_ledger WHERE number = 3")
    spoil(where, *(f"UPDATE eree_ledger SET number = {n - 1} WHERE number = {n}" for n in (4, 5)))
    assert {("entry 3", BROKEN), ("entry 3", ALTERED), ("entry 4", ALTERED)} <= set(
        reported(ledger)
    )


def test_two_entries_that_changed_places_are_found(where: str) -> None:
    ledger = grown(where)
    spoil(
        where,
        "UPDATE eree_ledger SET number = 99 WHERE number = 2",
        "UPDATE eree_ledger SET number = 2 WHERE number = 3",
        "UPDATE eree_ledger SET number = 3 WHERE number = 99",
    )
    found = set(reported(ledger))
    assert {(f"entry {n}", rule) for n in (2, 3) for rule in (BROKEN, ALTERED)} <= found
    assert ("entry 4", BROKEN) in found


def test_an_altered_price_is_found_even_with_a_new_hash(where: str) -> None:
    """Whoever alters an entry and its hash breaks the link of the next one."""
    ledger = grown(where)
    number, kind, body, previous, *_ = rows(where)[1]
    cheap = Row(number, kind, body.replace('"1/2"', '"1/9"'), previous, "", None)
    digest = seal(*cheap[:4])
    spoil(
        where,
        f"UPDATE eree_ledger SET body = {literal(cheap.body.encode(), where)}, hash = '{digest}'"
        f" WHERE number = {number}",
    )
    assert reported(ledger) == [("entry 3", BROKEN), ("entry 3", SUM)]


def test_nothing_is_spent_or_reported_while_there_is_a_fault(where: str) -> None:
    ledger = grown(where)
    reserved = spend(ledger, "1/2")
    last = reserved.number
    spoil(where, f"UPDATE eree_ledger SET kind = 'settle' WHERE number = {last}")
    count = len(rows(where))
    for use in (
        lambda: spend(ledger, "1/2"),
        lambda: ledger.settle(reserved, DIGEST),
        ledger.spent,
        ledger.left,
        ledger.entries,
        lambda: ledger.total,
        lambda: ledger.identity,
    ):
        words = rf"is faulty \(entry {last} was altered.*'eree ledger verify'"
        with pytest.raises(Refusal, match=words):
            use()
    assert len(rows(where)) == count


def test_a_fault_between_the_ends_shows_to_those_who_read_every_entry(where: str) -> None:
    ledger = grown(where)
    spoil(where, f"UPDATE eree_ledger SET hash = '{DIGEST}' WHERE number = 2")
    with pytest.raises(Refusal) as refused:
        ledger.account()
    assert "is faulty (entry 2 was altered" in str(refused.value)
    assert "spent" not in str(refused.value)  # it can be: whoever spends reads the ends alone
    spend(ledger, "1/2")
    assert reported(ledger) == [("entry 2", ALTERED), ("entry 3", BROKEN)]


def test_lost_last_entries_show_only_against_what_was_kept_outside(where: str) -> None:
    """A chain cannot know how long it once was: a truncated ledger is a sound shorter one."""
    ledger = made(where)
    kept = [spend(ledger, "1/2", f"release {i}") for i in range(4)]
    spoil(where, "DELETE FROM eree_ledger WHERE number > 3")
    assert ledger.verify() == ()
    assert ledger.verify(against=kept[:2]) == ()
    assert [(f.column, f.rule) for f in ledger.verify(against=kept)] == [
        (
            f"entry {number}",
            f"is not the one that release release {number - 2} was paid from: entries were lost,"
            " an older copy took the ledger's place, or another ledger paid",
        )
        for number in (4, 5)
    ]
    with pytest.raises(Refusal, match="has no such reservation 5"):
        ledger.settle(kept[3], DIGEST)
    spend(ledger, "1/10")  # and an entry that took the place of a lost one is not it
    assert [f.column for f in ledger.verify(against=kept)] == ["entry 4", "entry 5"]


def test_more_spent_than_there_is_is_found_even_in_a_perfect_chain(where: str) -> None:
    ledger = forge(
        where,
        Created("0f" * 16, "jobs", price("1", "1e-6"), AT),
        reserve("a", price("2/3")),
        reserve("b", price("1/3")),
        reserve("c", price("1/100")),
        reserve("d", price("0", "1e-5")),
        reserve("e", price("0", neighbours=EDGE)),
    )
    assert reported(ledger) == [
        ("entry 4", "spends more than was left"),
        ("entry 6", "is paid under neighbours that promise nothing under the ledger's"),
    ]
    with pytest.raises(Refusal, match=r"is faulty \(entry 5 spends more than was left\)"):
        ledger.left()


def test_wrong_settlements_are_found_even_in_a_perfect_chain(where: str) -> None:
    created = Created("0f" * 16, "jobs", price("1"), AT)
    reserved = reserve("a", price("1/2"))
    first = Row.after(None, created, Standing())
    digest = Row.after(first, reserved, reserved.then(Standing())).hash
    ledger = forge(
        where,
        created,
        reserved,
        Settled(2, "ab" * 32, DIGEST, AT),
        Settled(2, digest, DIGEST, AT),
        Settled(2, digest, DIGEST, AT),
        Settled(1, digest, DIGEST, AT),
        Settled(9, digest, DIGEST, AT),
        Closed(2, digest, AT),
        Closed(7, digest, AT),
    )
    assert reported(ledger) == [
        ("entry 3", "settles another entry 2 than the one here"),
        ("entry 5", "settles entry 2, which was settled or closed before"),
        ("entry 6", "settles entry 1, which is no reservation"),
        ("entry 7", "settles entry 9, which is no reservation"),
        ("entry 8", "closes entry 2, which was settled or closed before"),
        ("entry 9", "closes entry 7, which is no reservation"),
    ]


def test_a_closed_reservation_that_is_settled_is_found(where: str) -> None:
    created = Created("0f" * 16, "jobs", price("1"), AT)
    reserved = reserve("a", price("1/2"))
    first = Row.after(None, created, Standing())
    digest = Row.after(first, reserved, reserved.then(Standing())).hash
    ledger = forge(where, created, reserved, Closed(2, digest, AT), Settled(2, digest, DIGEST, AT))
    assert reported(ledger) == [("entry 4", "settles entry 2, which was settled or closed before")]


def test_an_entry_under_another_declaration_is_found(where: str) -> None:
    other = eree.Protected("wages", PROTECTS.declared).digest
    ledger = forge(
        where,
        Created("0f" * 16, "jobs", price("1"), AT),
        reserve("a", price("1/10")),
        reserve("b", price("1/10"), other),
        reserve("c", price("1/10")),
    )
    assert reported(ledger) == [
        ("entry 3", "is paid under another declaration than the ledger is bound to")
    ]


def test_times_that_run_back_are_found(where: str) -> None:
    ledger = forge(
        where,
        Created("0f" * 16, "jobs", price("1"), AT),
        reserve("a", price("1/10"), at="1999-12-31T23:59:59Z"),
        reserve("b", price("1/10")),
    )
    assert reported(ledger) == [("entry 2", "is older than the entry before it")]


@pytest.mark.parametrize(
    "wrong",
    [
        Standing(Fraction(1, 10), declaration=PROTECTS.digest),
        Standing(Fraction(1, 5), Fraction(1, 100), PROTECTS.digest),
        Standing(Fraction(1, 5), declaration=DIGEST),
        Standing(Fraction(1, 5)),
        Standing(Fraction(1, 5), declaration=PROTECTS.digest, heads="/elsewhere"),
    ],
)
@pytest.mark.parametrize("entries", [3, 9])
def test_an_entry_that_carries_something_else_than_the_sum_is_found(
    where: str, wrong: Standing, entries: int
) -> None:
    """Also by one who reads the ends alone, if it is the last."""
    ledger = forge(
        where,
        Created("0f" * 16, "jobs", price("1"), AT),
        *(reserve(str(i), price("1/10" if i < 2 else "0")) for i in range(entries - 1)),
        then={entries: wrong},
    )
    found = reported(ledger)
    assert (f"entry {entries}", SUM) in found
    with pytest.raises(Refusal, match=rf"is faulty \(entry {entries} carries another sum"):
        spend(ledger, "1/10")


@pytest.mark.parametrize("lost", ["2, 3, 4", "4, 5, 6", "7", "2, 3, 4, 5, 6, 7", "1"])
def test_who_spends_sees_entries_missing_at_the_ends(where: str, lost: str) -> None:
    ledger = grown(where)
    spoil(where, f"DELETE FROM eree_ledger WHERE number IN ({lost})")
    assert reported(ledger)
    left = [row[0] for row in rows(where)]
    seen = left[0] != 1 or left[-1] - left[-2] != 1
    words = "has no entries" if left[0] != 1 else f"entry 8 follows entry {left[-2]}"
    with pytest.raises(Refusal, match=rf"is faulty \({words}") if seen else nullcontext():
        spend(ledger, "1/10")


def test_a_ledger_is_created_by_its_first_entry_and_no_other(where: str) -> None:
    created = Created("0f" * 16, "jobs", price("1"), AT)
    ledger = forge(where, reserve("a", price("1/2")), created)
    assert reported(ledger) == [
        ("entry 1", "is the first and does not create the ledger"),
        ("entry 2", "creates the ledger, which only the first entry can"),
    ]


def test_what_is_no_text_is_found(tmp_path: Path) -> None:
    """SQLite keeps whatever it is given in any column but the number's."""
    where = str(tmp_path / "ledger.db")
    ledger = grown(where)
    spoil(where, "UPDATE eree_ledger SET body = CAST(body AS BLOB) WHERE number = 2")
    assert reported(ledger)[0] == ("entry 2", "holds something else than a number and texts")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE eree_ledger SET body = '{}' WHERE number = 2",
        "UPDATE eree_ledger SET number = 77 WHERE number = 2",
        "DELETE FROM eree_ledger WHERE number = 2",
        "DELETE FROM eree_ledger",
        "TRUNCATE eree_ledger",
        "INSERT OR REPLACE INTO eree_ledger"
        " SELECT 2, kind, '{}', previous, hash, about FROM eree_ledger",
        "INSERT OR REPLACE INTO eree_ledger"
        " SELECT 9, 'close', '{}', hash, hash, 3 FROM eree_ledger WHERE number = 8",
        "INSERT INTO eree_ledger SELECT 2, kind, '{}', previous, hash, 9 FROM eree_ledger LIMIT 1"
        " ON CONFLICT (number) DO UPDATE SET body = '{}'",
    ],
)
def test_the_databases_themselves_refuse_changes(where: str, statement: str) -> None:
    ledger = grown(where)
    before = rows(where)
    connection = raw(where)
    with pytest.raises(Exception, match=r"of a ledger are|syntax error|near \"(TRUNCATE|ON)\""):
        connection.execute(statement)
    connection.close()
    assert rows(where) == before
    assert ledger.verify() == ()


def test_a_file_accepts_new_entries_at_its_end_alone(tmp_path: Path) -> None:
    where = str(tmp_path / "ledger.db")
    grown(where)
    with pytest.raises(Exception, match="only added at its end"):
        execute(where, "INSERT INTO eree_ledger VALUES (99, 'reserve', '{}', '', '', NULL)")


def test_a_copy_made_between_two_uses_is_whole(tmp_path: Path) -> None:
    where = tmp_path / "ledger.db"
    entries = grown(str(where)).entries()
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]
    copy = tmp_path / "copy.db"
    copy.write_bytes(where.read_bytes())
    assert eree.Ledger.open(copy).entries() == entries
    assert is_file(str(copy))
    assert eree.Ledger.open(copy).total.neighbours == STRONG
