"""Entries: one form for each, and a chain that anyone can recompute."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eree.budget.entries import ORIGIN, Created, Reserved, Row, Settled, read_event, seal
from eree.errors import Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import EDGE, ESTABLISHMENT, NODE, RECORD, Strong, Weak

AT = "2026-07-14T12:00:00Z"
TOTAL = Guarantee(Weak("1/10", ["sex", "age"]), "2", "1e-6")
CREATED = Created("0f" * 16, "jobs", TOTAL, AT)
RESERVED = Reserved("r", {"tables": "place"}, Guarantee(Strong("0.1"), "1/2"), AT)
SETTLED = Settled(2, "ab" * 32, "cd" * 32, AT)

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
events = st.one_of(
    st.builds(Created, st.just("0f" * 16), names, guarantees, st.just(AT)),
    st.builds(Reserved, names, st.dictionaries(names, names), guarantees, st.just(AT)),
    st.builds(Settled, st.integers(1, 10**9), st.just("ab" * 32), st.just("cd" * 32), st.just(AT)),
)


@given(events)
def test_an_event_is_read_as_it_was_written(event: Created | Reserved | Settled) -> None:
    text = event.text()
    assert text.isascii()
    assert read_event(event.kind, text) == event
    assert json.loads(text) == event.body()


def test_a_body_has_exact_numbers_and_the_types_of_weak_neighbours() -> None:
    assert CREATED.text() == (
        '{"at":"2026-07-14T12:00:00Z","data_set":"jobs","format":1,'
        '"identity":"0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f","total":{"delta":"1/1000000","epsilon":"2",'
        '"neighbours":{"alpha":"1/10","name":"weak","types":["age","sex"]}}}'
    )


def test_the_hash_covers_number_kind_body_and_the_hash_before() -> None:
    first = Row.after(None, CREATED)
    assert first[:4] == (1, "create", CREATED.text(), ORIGIN)
    second = Row.after(first, RESERVED)
    assert (second.number, second.previous) == (2, first.hash)
    hashed = json.dumps([2, "reserve", RESERVED.text(), first.hash], separators=(",", ":"))
    assert second.hash == hashlib.sha256(hashed.encode()).hexdigest()
    assert len({seal(1, "a", "b", "c"), seal(11, "a", "b", "c"), seal(1, "ab", "", "c")}) == 3


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("create", '"format":1', '"format":2'),
        ("create", '"format":1', '"format":1.0'),
        ("create", '"at"', '"extra":0,"at"'),
        ("create", '"at":"2026-07-14T12:00:00Z",', ""),
        ("create", "12:00:00Z", "12:00:00+00:00"),
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
        ("create", '"name":"weak"', '"name":"strong"'),
        ("create", '"name":"weak"', '"name":"mild"'),
        ("create", '"data_set":"jobs"', '"data_set":""'),
        ("create", '"data_set":"jobs"', '"data_set":"a\\nb"'),
        ("create", '"data_set":"jobs"', '"data_set": "jobs"'),
        ("create", "0f0f", "0F0F"),
        ("reserve", '{"tables":"place"}', '{"tables":7}'),
        ("reserve", '{"tables":"place"}', '["place"]'),
        ("reserve", '"release":"r"', '"release":null'),
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
    texts = {event.kind: event.text() for event in (CREATED, RESERVED, SETTLED)}
    text = texts.get(kind, "{}")
    changed = text.replace(old, new, 1)
    assert changed != text or kind == "burn"
    assert read_event(kind, changed) is None


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Created("x", "jobs", TOTAL, AT), "32 hexadecimal digits"),
        (lambda: Created("0f" * 16, " ", TOTAL, AT), "the name of the data set must be a text"),
        (lambda: Created("0f" * 16, "x" * 1001, TOTAL, AT), "at most 1,000 characters"),
        (lambda: Created("0f" * 16, "jobs", "2", AT), "the total must be a Guarantee"),
        (lambda: Created("0f" * 16, "jobs", TOTAL, "now"), "a time is UTC"),
        (lambda: Reserved(7, {}, TOTAL, AT), "the id of the release must be a text"),
        (lambda: Reserved("r", [], TOTAL, AT), "names with a text each"),
        (lambda: Reserved("r", {"count": 7}, TOTAL, AT), r"what is released \(count\) must be a"),
        (lambda: Reserved("r", {"a\tb": "x"}, TOTAL, AT), "a name in what is released must be"),
        (lambda: Settled("2", "ab" * 32, "cd" * 32, AT), "by the number of its entry"),
        (lambda: Settled(2, "ab", "cd" * 32, AT), "a hash is 64"),
        (lambda: Settled(2, "ab" * 32, "CD" * 32, AT), "64 hexadecimal digits, in lower case"),
        (lambda: Settled(2, "ab" * 32, b"cd" * 32, AT), "64 hexadecimal digits, in lower case"),
        (
            lambda: Reserved("r", {}, Guarantee(EDGE, Fraction(1, 10**2000)), AT),
            "the price has figures of more than a thousand digits; round them up",
        ),
        (
            lambda: Reserved("r", {}, Guarantee(Weak("0.1", ["a\nb"]), 1), AT),
            "a worker type must be a text",
        ),
    ],
)
def test_what_cannot_be_written_down_is_refused_at_birth(make: Any, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        make()


def test_what_an_entry_tells_cannot_be_changed_afterwards() -> None:
    told = {"tables": "place"}
    event = Reserved("r", told, TOTAL, AT)
    told["tables"] = "everything"
    assert event.what == {"tables": "place"}
    with pytest.raises(TypeError):
        event.what["tables"] = "nothing"
