"""A clerk who may look and insert on a server, and what he cannot stop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import count
from typing import Any

import psycopg
import pytest

import eree
from eree.budget import stores
from eree.budget.entries import Event, HeadsKept, Reserved, Row, Standing, read_entry, seal
from eree.errors import Refusal
from eree.policy.plain_data import canonical
from ledgers import DIGEST, PROTECTS, PostgresServer, fill, grown, price, rows, spend

IN_TURN = "entries of a ledger are only added at its end"
SEALED = "entries of a ledger have the hash of their contents"
CARRIED = "entries of a ledger carry on what the last one carries"
NAMES = count(1)


@pytest.fixture(scope="module")
def office(postgres: PostgresServer) -> Iterator[tuple[str, str]]:
    """The addresses of a ledger for its owner and for a clerk."""
    name, clerk = postgres.make_database(), f"clerk_{next(NAMES)}"
    grown(postgres.address(name))
    postgres.execute(
        name,
        f"CREATE ROLE {clerk} LOGIN",
        f"GRANT SELECT, INSERT ON eree_ledger TO {clerk}",
        f"GRANT CREATE ON SCHEMA public TO {clerk}",
        f"GRANT CREATE, TEMPORARY ON DATABASE {name} TO {clerk}",
    )
    yield postgres.address(name), postgres.address(name, clerk)


def following(where: str, *events: Event) -> list[Row]:
    """Rows in turn behind the last one, with the sums that follow from it."""
    last, chain = Row(*rows(where)[-1]), []
    then = standing(last)
    for event in events:
        then = event.then(then)
        last = Row.after(last, event, then)
        chain.append(last)
    return chain


def standing(row: Row) -> Standing:
    """What a row carries."""
    entry = read_entry(row)
    assert entry is not None
    return entry.then


def sealed(row: Row, **changes: Any) -> Row:
    """A row with something changed, and the hash of that."""
    changed = row._replace(**changes)
    return changed._replace(hash=seal(*changed[:4]))


def wrong(name: str, last: Row) -> list[Row]:
    """What a clerk may try, by name: rows that are not the next, or not sealed."""
    event = Reserved("r", {}, price("1/10"), PROTECTS.digest, "", "2026-07-14T12:00:00Z")
    sums = event.then(standing(last))
    good = Row.after(last, event, sums)
    then = Row.after(good, event, event.then(sums))
    return {
        "far ahead": [sealed(good, number=500)],
        "before the first": [sealed(good, number=0)],
        "the same number": [sealed(good, number=last.number)],
        "the last number of all": [sealed(good, number=2**63 - 1)],
        "behind another entry": [sealed(good, previous=DIGEST)],
        "the second of two": [good, sealed(then, number=then.number + 1)],
        "two of one number": [good, sealed(then, number=good.number)],
        "out of order": [then, good],
        "without its hash": [good._replace(hash=DIGEST)],
        "another body": [good._replace(body="{}")],
        "another kind": [good._replace(kind="burn")],
    }[name]


@pytest.mark.parametrize("how", ["insert", "copy", "behind a table of his own"])
@pytest.mark.parametrize(
    "name",
    [
        "far ahead",
        "before the first",
        "the same number",
        "the last number of all",
        "behind another entry",
        "the second of two",
        "two of one number",
        "out of order",
        "without its hash",
        "another body",
        "another kind",
    ],
)
def test_no_row_out_of_turn_stops_the_office(office: tuple[str, str], name: str, how: str) -> None:
    owner, clerk = office
    before = rows(owner)
    tried = wrong(name, Row(*before[-1]))
    with psycopg.connect(clerk, autocommit=True) as connection:
        table = "public.eree_ledger"
        if how == "behind a table of his own":
            # in front of the ledger on his path, and with rows that would make his the next
            like = "(LIKE public.eree_ledger)"
            connection.execute(f"CREATE TEMPORARY TABLE eree_ledger {like}".encode())
            connection.execute("CREATE SCHEMA IF NOT EXISTS mine")
            connection.execute(f"CREATE TABLE IF NOT EXISTS mine.eree_ledger {like}".encode())
            first = tried[0]
            for mine in ("pg_temp", "mine"):
                values = (first.number - 1, "reserve", "{}", "", first.previous, None)
                connection.execute(
                    f"INSERT INTO {mine}.eree_ledger VALUES (%s, %s, %s, %s, %s, %s)".encode(),
                    values,
                )
            connection.execute("SET search_path = pg_temp, mine, public")
        with pytest.raises(psycopg.Error, match=f"{IN_TURN}|{SEALED}|duplicate key|out of range"):
            if how == "copy":
                with connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
                    for row in tried:
                        copy.write_row(row)
            else:
                places = ", ".join(["(%s, %s, %s, %s, %s, %s)"] * len(tried))
                values = [value for row in tried for value in row]
                connection.execute(f"INSERT INTO {table} VALUES {places}".encode(), values)
    assert rows(owner) == before
    spend(eree.Ledger.open(clerk), "1/1000")  # the office goes on
    assert eree.Ledger.open(owner).verify() == ()


def forgetting(name: str, last: Row, at: str) -> list[Row]:
    """Two rows in turn, sealed, that agree with each other and not with what stood before."""
    then = standing(last)
    free = Reserved("r", {}, price("0"), PROTECTS.digest, "", at)
    body = json.loads(Row.after(last, free, then).body)
    odd = {
        "a negative price": ("-5", "0"),
        "a price without a denominator": ("1/0", "0"),
        "a price that is no number": ("NaN", "0"),
        "a sum that is no number": ("0", "zero"),
    }
    if name in odd:
        asked, spent = odd[name]
        body["price"]["epsilon"] = asked
        body["then"]["spent"]["epsilon"] = spent
        first = sealed(Row.after(last, free, then), body=canonical(body))
        return [first, Row.after(first, free, replace(then, epsilon=Fraction(0)))]
    if name == "without a word of sums":
        del body["then"]
        first = sealed(Row.after(last, free, then), body=canonical(body))
        return [first, Row.after(first, free, Standing(declaration=PROTECTS.digest))]
    lost = {
        "nothing was spent": replace(then, epsilon=Fraction(0)),
        "a hair less was spent": replace(then, epsilon=then.epsilon - Fraction(1, 10**900)),
        "more was spent": replace(then, epsilon=then.epsilon + 1),
        "a delta was spent": replace(then, delta=Fraction(1, 10**9)),
        "bound to nothing": replace(then, declaration=""),
        "bound to something else": replace(then, declaration=DIGEST),
        "heads elsewhere": replace(then, heads="/elsewhere"),
        "paid under something else": then,
        "heads where none were named": then,
    }[name]
    event: Event = free
    if name in ("bound to something else", "paid under something else"):
        event = replace(free, declaration=DIGEST)
    if name == "heads where none were named":
        event = HeadsKept("/elsewhere", at)
    first = Row.after(last, event, lost)
    return [first, Row.after(first, free, lost)]


@pytest.mark.parametrize(
    "name",
    [
        "nothing was spent",
        "a hair less was spent",
        "more was spent",
        "a delta was spent",
        "bound to nothing",
        "bound to something else",
        "heads elsewhere",
        "paid under something else",
        "heads where none were named",
        "a negative price",
        "a price without a denominator",
        "a price that is no number",
        "a sum that is no number",
        "without a word of sums",
    ],
)
def test_no_two_rows_that_agree_forget_what_was_spent(office: tuple[str, str], name: str) -> None:
    """Whoever spends reads the last two rows alone, and would believe them."""
    owner, clerk = office
    before = rows(owner)
    last = Row(*before[-1])
    ledger = eree.Ledger.open(owner)
    spent = ledger.spent()
    with pytest.raises(psycopg.Error, match=CARRIED):
        fill(clerk, forgetting(name, last, ledger.entries()[-1].event.at))
    assert rows(owner) == before
    spend(eree.Ledger.open(clerk), "1/1000")
    assert ledger.spent() == spent + price("1/1000")
    assert ledger.verify() == ()


def test_rows_in_turn_are_taken_one_by_one_or_many_at_once(office: tuple[str, str]) -> None:
    owner, clerk = office
    ledger = eree.Ledger.open(owner)
    last, then = Row(*rows(owner)[-1]), ledger.entries()[-1].then
    chain = []
    for i in range(5):
        at = ledger.entries()[-1].event.at
        event = Reserved(f'r × {i} "\\', {"tables": "ä"}, price("1/100"), PROTECTS.digest, "", at)
        then = event.then(then)
        last = Row.after(last, event, then)
        chain.append(last)
    fill(clerk, chain[:3])
    with psycopg.connect(clerk, autocommit=True) as connection:
        places = ", ".join(["(%s, %s, %s, %s, %s, %s)"] * 2)
        values = [value for row in chain[3:] for value in row]
        connection.execute(f"INSERT INTO eree_ledger VALUES {places}".encode(), values)
    assert ledger.verify() == ()
    spend(ledger, "1/10")


def test_who_waits_for_ever_to_commit_holds_the_office_only_so_long(
    office: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, clerk = office
    ledger = eree.Ledger.open(owner)
    event = Reserved("r", {}, price("1/10"), PROTECTS.digest, "", "2026-07-14T12:00:00Z")
    with psycopg.connect(clerk) as connection:
        places = "(%s, %s, %s, %s, %s, %s)"
        (row,) = following(owner, event)
        connection.execute(f"INSERT INTO eree_ledger VALUES {places}".encode(), row)
        with monkeypatch.context() as hasty:
            hasty.setattr(stores, "WAIT_SECONDS", 0.3)
            with pytest.raises(Refusal, match="another process has been writing"):
                spend(ledger, "1/10")
        connection.rollback()
    spend(ledger, "1/10")
    assert ledger.verify() == ()


def test_a_clerk_with_a_pen_can_stop_the_office_and_its_owner_lets_it_go_on(
    office: tuple[str, str],
) -> None:
    """A row that is sealed and makes no sense; docs/ledger.md tells what the owner does then."""
    owner, clerk = office
    before = rows(owner)
    under = price("1/10", neighbours=eree.EDGE)
    event = Reserved("r", {}, under, PROTECTS.digest, "", "2026-07-14T12:00:00Z")
    fill(clerk, following(owner, event))
    ledger = eree.Ledger.open(owner)
    with pytest.raises(Refusal, match="is faulty"):
        spend(ledger, "1/10")
    number = ledger.verify()[0].column.removeprefix("entry ")
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute("ALTER TABLE eree_ledger DISABLE TRIGGER USER")
        connection.execute("DELETE FROM eree_ledger WHERE number = %s", (number,))
        connection.execute("ALTER TABLE eree_ledger ENABLE TRIGGER USER")
    assert rows(owner) == before
    spend(ledger, "1/10")
    assert ledger.verify() == ()
