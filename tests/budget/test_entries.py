"""Entries: one form for each, and a chain that anyone can recompute."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eree.budget.entries import (
    ORIGIN,
    Closed,
    Created,
    Entry,
    Event,
    HeadsKept,
    Reserved,
    Row,
    Settled,
    Standing,
    read_entry,
    seal,
)
from eree.errors import Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import EDGE, ESTABLISHMENT, NODE, RECORD, Strong, Weak

AT = "2026-07-14T12:00:00Z"
TOTAL = Guarantee(Weak("1/10", ["sex", "age"]), "2", "1e-6")
CREATED = Created("0f" * 16, "jobs", TOTAL, AT)
PAID = Guarantee(Strong("0.1"), "1/2")
RESERVED = Reserved("r", {"tables": "place"}, PAID, "ef" * 32, "2026-Q1", AT)
SETTLED = Settled(2, "ab" * 32, "cd" * 32, AT)
CLOSED = Closed(2, "ab" * 32, AT)
HEADS = HeadsKept("/elsewhere/heads.jsonl", AT)

names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20)
alphas = st.fractions(Fraction(1, 1000), 10)
relations = st.one_of(
    st.just(EDGE),
    st.just(NODE),
    st.just(RECORD),
    st.just(ESTABLISHMENT),
    st.builds(Strong, alphas),
    st.builds(Weak, alphas, st.lists(names, min_size=1, max_size=3, unique=True)),
)
guarantees = st.builds(
    Guarantee, relations, st.fractions(0, 100), st.fractions(0, Fraction(999, 1000))
)
hashes = st.binary(min_size=32, max_size=32).map(bytes.hex)
moments = st.datetimes().map(lambda moment: f"{moment:%Y-%m-%dT%H:%M:%SZ}".rjust(20, "0"))
numbers = st.integers(1, 2**63 - 1)
events = st.one_of(
    st.builds(Created, st.just("0f" * 16), names, guarantees, moments),
    st.builds(
        Reserved,
        names,
        st.dictionaries(names, names),
        guarantees,
        hashes,
        st.one_of(st.just(""), names),
        moments,
    ),
    st.builds(Settled, numbers, hashes, hashes, moments),
    st.builds(Closed, numbers, hashes, moments),
    st.builds(HeadsKept, names, moments),
)
standings = st.builds(
    Standing,
    st.fractions(0, 100),
    st.fractions(0, 1),
    st.one_of(st.just(""), hashes),
    st.one_of(st.just(""), names),
)


def text(event: Event) -> str:
    """The body of an event in an otherwise empty ledger."""
    return Row.after(None, event, Standing()).body


@given(
    events, standings, st.one_of(st.none(), st.builds(Entry, numbers, events, standings, hashes))
)
def test_an_event_is_read_as_it_was_written(
    event: Event, then: Standing, last: Entry | None
) -> None:
    row = Row.after(last, event, then)
    assert row.body.isascii()
    assert read_entry(row) == Entry(row.number, event, then, row.hash)
    assert json.loads(row.body) == event.body() | {"then": then.as_json()}
    assert row.about == event.about


def test_a_body_has_exact_numbers_and_the_types_of_weak_neighbours() -> None:
    assert text(CREATED) == (
        '{"at":"2026-07-14T12:00:00Z","data_set":"jobs","format":2,'
        '"identity":"0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f",'
        '"then":{"declaration":"","heads":"","spent":{"delta":"0","epsilon":"0"}},'
        '"total":{"alpha":"1/10","delta":"1/1000000","epsilon":"2","neighbours":"weak",'
        '"types":["age","sex"]}}'
    )


def test_every_event_says_how_the_ledger_stands_after_it() -> None:
    before = Standing(Fraction(1), Fraction(1, 10), "cd" * 32, "/old")
    for same in (CREATED, SETTLED, CLOSED):
        assert same.then(before) == before
    then = Standing(Fraction(3, 2), Fraction(1, 10), "cd" * 32, "/old")
    assert RESERVED.then(before) == then  # the first declaration binds, whatever comes later
    assert RESERVED.then(Standing()).declaration == RESERVED.declaration
    assert HEADS.then(before) == Standing(before.epsilon, before.delta, "cd" * 32, HEADS.place)


def test_the_hash_covers_number_kind_body_and_the_hash_before() -> None:
    first = Row.after(None, CREATED, Standing())
    assert first[:4] == (1, "create", text(CREATED), ORIGIN)
    second = Row.after(first, RESERVED, Standing())
    assert (second.number, second.previous) == (2, first.hash)
    hashed = json.dumps([2, "reserve", text(RESERVED), first.hash], separators=(",", ":"))
    assert second.hash == hashlib.sha256(hashed.encode()).hexdigest()
    assert len({seal(1, "a", "b", "c"), seal(11, "a", "b", "c"), seal(1, "ab", "", "c")}) == 3


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("create", '"format":2', '"format":1'),
        ("create", '"format":2', '"format":2.0'),
        ("create", '"at"', '"extra":0,"at"'),
        ("create", '"at":"2026-07-14T12:00:00Z",', ""),
        ("create", "12:00:00Z", "12:00:00+00:00"),
        ("create", "12:00:00Z", "24:61:00Z"),
        ("create", "2026-07-14", "2026-02-30"),
        ("create", '"declaration":""', '"declaration":0'),
        ("create", '"declaration":""', '"declaration":"EF"'),
        ("create", '"heads":""', '"heads":null'),
        ("create", '"heads":""', '"heads":"a\\nb"'),
        ("create", '"spent":{"delta":"0"', '"spent":{"delta":"0/1"'),
        ("create", '"spent":{"delta":"0"', '"spent":{"delta":"-1"'),
        ("create", '"spent":{"delta":"0"', '"spent":{"delta":"1e9"'),
        ("create", '"then"', '"now"'),
        ("create", '"epsilon":"2"', '"epsilon":"4/2"'),
        ("create", '"epsilon":"2"', '"epsilon":"2.0"'),
        ("create", '"epsilon":"2"', '"epsilon":2'),
        ("create", '"epsilon":"2"', '"epsilon":"-2"'),
        ("create", '"epsilon":"2"', '"epsilon":"2/0"'),
        ("create", '"epsilon":"2"', '"epsilon":"1e999999999"'),
        ("create", '"epsilon":"2"', f'"epsilon":"{"9" * 5000}"'),
        ("create", '"delta":"1/1000000"', '"delta":"1"'),
        ("create", '["age","sex"]', '["sex","age"]'),
        ("create", '["age","sex"]', "[]"),
        ("create", '"neighbours":"weak"', '"neighbours":"strong"'),
        ("create", '"neighbours":"weak"', '"neighbours":"mild"'),
        ("create", '"data_set":"jobs"', '"data_set":""'),
        ("create", '"data_set":"jobs"', '"data_set":"a\\nb"'),
        ("create", '"data_set":"jobs"', '"data_set": "jobs"'),
        ("create", "0f0f", "0F0F"),
        ("reserve", '{"tables":"place"}', '{"tables":7}'),
        ("reserve", '{"tables":"place"}', '["place"]'),
        ("reserve", '"release":"r"', '"release":null'),
        ("reserve", '"period":"2026-Q1"', '"period":null'),
        ("reserve", '"period":"2026-Q1"', '"period":" "'),
        ("reserve", "efef", "EFEF"),
        ("close", '"reserved"', '"digest":"","reserved"'),
        ("close", '"reservation":2', '"reservation":"2"'),
        ("heads", "/elsewhere", "\\n"),
        ("heads", '"place"', '"folder"'),
        ("settle", '"reservation":2', '"reservation":2.0'),
        ("settle", '"reservation":2', '"reservation":true'),
        ("settle", "cdcd", "CDCD"),
        ("settle", "cdcd", ""),
        ("settle", "{", "[" * 100_000),
        ("settle", "{", ""),
        ("burn", "{", "{"),
    ],
)
def test_a_body_in_any_other_form_is_not_an_entry(kind: str, old: str, new: str) -> None:
    known = (CREATED, RESERVED, SETTLED, CLOSED, HEADS)
    written = {event.kind: text(event) for event in known}.get(kind, "{}")
    changed = written.replace(old, new, 1)
    assert changed != written or kind == "burn"
    assert read_entry(Row(1, kind, changed, ORIGIN, "", None)) is None


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Created("x", "jobs", TOTAL, AT), "32 hexadecimal digits"),
        (lambda: Created("0f" * 16, " ", TOTAL, AT), "the name of the data set must be a text"),
        (lambda: Created("0f" * 16, "x" * 1001, TOTAL, AT), "at most 1,000 characters"),
        (lambda: Created("0f" * 16, "jobs", "2", AT), "the total must be a Guarantee"),
        (lambda: Created("0f" * 16, "jobs", TOTAL, "now"), "a time is UTC"),
        (lambda: Reserved(7, {}, TOTAL, "ef" * 32, "", AT), "the id of the release must be a text"),
        (lambda: Reserved("r", [], TOTAL, "ef" * 32, "", AT), "names with a text each"),
        (
            lambda: Reserved("r", {"count": 7}, TOTAL, "ef" * 32, "", AT),
            r"what is released \(count\) must be a",
        ),
        (
            lambda: Reserved("r", {"a\tb": "x"}, TOTAL, "ef" * 32, "", AT),
            "a name in what is released must be",
        ),
        (lambda: Reserved("r", {}, TOTAL, "ef", "", AT), "the digest of a declaration is a SHA"),
        (lambda: Reserved("r", {}, TOTAL, "ef" * 32, "a\nb", AT), "the period of a release must"),
        (lambda: HeadsKept("", AT), "the place of a ledger's heads must be"),
        (lambda: Closed("2", "ab" * 32, AT), "by the number of its entry"),
        (lambda: Settled("2", "ab" * 32, "cd" * 32, AT), "by the number of its entry"),
        (lambda: Settled(2, "ab", "cd" * 32, AT), "a hash is a SHA-256: 64"),
        (lambda: Settled(2, "ab" * 32, "CD" * 32, AT), "64 hexadecimal digits, in lower case"),
        (lambda: Settled(2, "ab" * 32, b"cd" * 32, AT), "64 hexadecimal digits, in lower case"),
        (
            lambda: Reserved("r", {}, Guarantee(EDGE, Fraction(1, 10**2000)), "ef" * 32, "", AT),
            "the price has figures of more than a thousand digits; round them up",
        ),
        (
            lambda: Reserved("r", {}, Guarantee(Weak("0.1", ["a\nb"]), 1), "ef" * 32, "", AT),
            "a worker type must be a text",
        ),
    ],
)
def test_what_cannot_be_written_down_is_refused_at_birth(make: Any, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        make()


def test_what_an_entry_tells_cannot_be_changed_afterwards() -> None:
    reported = {"tables": "place"}
    event = Reserved("r", reported, TOTAL, "ef" * 32, "", AT)
    reported["tables"] = "everything"
    assert event.what == {"tables": "place"}
    with pytest.raises(TypeError):
        event.what["tables"] = "nothing"
