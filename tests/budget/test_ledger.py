"""What a ledger promises, in each database: exact sums, one total, nothing given back."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime, timedelta
from fractions import Fraction
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event
from sqlalchemy.engine import CursorResult

import eree
from eree.errors import Refusal
from eree.policy.neighbours import EDGE, NODE, Strong, Weak
from ledgers import DIGEST, PROTECTS, STRONG, Place, grown, long, made, price, spend


def test_a_new_ledger_says_what_it_was_made_with(where: str) -> None:
    made(where, "2", "1e-6")
    ledger = eree.Ledger.open(where)
    assert ledger.total == ledger.left() == price("2", "1e-6")
    assert ledger.spent() == price(0)
    assert ledger.data_set == "jobs"
    (entry,) = ledger.entries()
    assert (entry.number, entry.kind) == (1, "create")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry.event.at)
    assert re.fullmatch(r"[0-9a-f]{32}", ledger.identity)
    assert ledger.verify() == ()


def test_no_two_ledgers_are_the_same(place: Place) -> None:
    first, second = made(place()), made(place())
    assert first.identity != second.identity
    assert first.entries()[0].hash != second.entries()[0].hash


def test_a_ledger_is_never_replaced(where: str) -> None:
    ledger = grown(where)
    entries = ledger.entries()
    with pytest.raises(Refusal, match="exists already, and a ledger is never replaced"):
        made(where)
    assert ledger.entries() == entries


def test_of_many_who_make_a_ledger_at_once_one_succeeds(where: str) -> None:
    outcomes: list[str] = []

    def make() -> None:
        try:
            outcomes.append(made(where).identity)
        except Refusal as refusal:
            outcomes.append(str(refusal))

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [outcome for outcome in outcomes if "exists already" in outcome]
    assert (len(outcomes), len(refused)) == (6, 5)
    assert eree.Ledger.open(where).identity in outcomes


def test_one_tenth_and_two_tenths_are_three_tenths(where: str) -> None:
    ledger = made(where, "0.3", "3e-9")
    spend(ledger, "0.1", delta="1e-9")
    spend(ledger, "0.2", delta="2e-9")
    assert ledger.spent() == ledger.total == price(Fraction(3, 10), Fraction(3, 10**9))
    assert ledger.left() == price(0)


def test_the_total_can_be_spent_to_the_end_and_not_beyond(where: str) -> None:
    ledger = made(where, "1")
    spend(ledger, "2/3")
    with pytest.raises(
        Refusal,
        match=r"^the ledger has 1/3 of epsilon left, and this release asks for 0.333334;"
        r" lower its price, or decide on a larger total in a new ledger$",
    ):
        spend(ledger, "0.333334")
    spend(ledger, "1/3")
    with pytest.raises(Refusal, match="the ledger has 0 of epsilon left"):
        spend(ledger, Fraction(1, 10**300))
    assert len(ledger.entries()) == 3


def test_delta_is_a_budget_of_its_own(where: str) -> None:
    ledger = made(where, "2", "1e-6")
    with pytest.raises(
        Refusal, match=r"has 0\.000001 of delta left, and this release asks for 0\.000002"
    ):
        spend(ledger, "1", delta="2e-6")
    spend(ledger, "1", delta="1e-6")
    with pytest.raises(Refusal, match="has 0 of delta left"):
        spend(ledger, "1", delta="1e-300")
    assert ledger.left() == price("1")


def test_no_sum_of_deltas_is_clipped(where: str) -> None:
    """Two guarantees that promise nothing add up to one that does; a ledger adds for itself."""
    ledger = made(where, "2", 1 - Fraction(1, 2**70))
    spend(ledger, "1", delta=1 - Fraction(1, 2**65))
    with pytest.raises(Refusal, match="of delta left"):
        spend(ledger, "1", delta="1/2")


def test_a_reserved_price_counts_as_spent_settled_or_not(where: str) -> None:
    ledger = made(where, "2")
    spend(ledger, "1/2")
    second = spend(ledger, "1/2")
    assert ledger.spent() == price("1")
    ledger.settle(second, DIGEST)
    assert ledger.spent() == price("1")
    assert ledger.account().settled == {second.number: DIGEST}


def test_a_reservation_says_what_was_reserved(where: str) -> None:
    ledger = made(where, "2")
    asked = price("1/2", neighbours=NODE)
    what = {"tables": "place × sector"}
    reserved = ledger.reserve(asked, release="a", what=what, protects=PROTECTS, period="2026-Q1")
    hash_ = ledger.entries()[1].hash
    assert reserved == eree.Reservation(2, hash_, asked, "a", ledger.identity)
    reported = ledger.entries()[1].event
    assert (reported.release, reported.what, reported.price) == ("a", what, asked)
    assert (reported.declaration, reported.period) == (PROTECTS.digest, "2026-Q1")


def test_a_release_is_settled_once_and_only_where_it_was_reserved(place: Place) -> None:
    ledger, other = made(place()), made(place())
    reserved = spend(ledger, "1/2")
    spend(other, "1/2")
    with pytest.raises(Refusal, match="has no such reservation 2; it was made in another ledger"):
        other.settle(reserved, DIGEST)
    with pytest.raises(Refusal, match=r"entry 1 of .* is no reservation"):
        first = ledger.entries()[0]
        ledger.settle(eree.Reservation(1, first.hash, price("1"), "r", ledger.identity), DIGEST)
    with pytest.raises(Refusal, match="64 hexadecimal digits"):
        ledger.settle(reserved, "done")
    ledger.settle(reserved, DIGEST)
    for digest in (DIGEST, "f" * 64):
        with pytest.raises(Refusal, match="reservation 2 is settled already"):
            ledger.settle(reserved, digest)
    assert [entry.kind for entry in ledger.entries()] == ["create", "reserve", "settle"]
    assert [entry.kind for entry in other.entries()] == ["create", "reserve"]


WEAK = Weak("0.1", ["sex", "age"])


@pytest.mark.parametrize(
    ("kept", "paid", "counts"),
    [
        (STRONG, Strong("0.1"), True),
        (STRONG, Strong("0.2"), True),
        (STRONG, Strong("0.05"), False),
        (STRONG, Weak("0.1", ["sex"]), False),
        (STRONG, EDGE, False),
        (STRONG, NODE, True),
        (WEAK, Weak("0.1", ["age", "sex"]), True),
        (WEAK, Weak("0.1", ["sex"]), True),
        (WEAK, Weak("0.1", ["sex", "age", "race"]), False),
        (WEAK, Weak("0.1", ["race"]), False),
        (WEAK, Weak("0.05", ["sex", "age"]), False),
        (WEAK, Strong("0.1"), True),
        (WEAK, Strong("0.05"), False),
        (WEAK, EDGE, False),
        (WEAK, NODE, True),
        (EDGE, EDGE, True),
        (EDGE, Strong("0.01"), True),
        (EDGE, Weak("0.01", ["sex"]), True),
        (EDGE, NODE, True),
        (NODE, NODE, True),
        (NODE, Strong("100"), False),
        (NODE, EDGE, False),
    ],
)
def test_a_price_counts_where_its_neighbours_imply_the_ledgers(
    place: Place, kept: Any, paid: Any, counts: bool
) -> None:
    ledger = made(place(), "2", neighbours=kept)
    if counts:
        spend(ledger, "1/2", neighbours=paid)
        assert ledger.spent() == price("1/2", neighbours=kept)
        assert ledger.verify() == ()
    else:
        with pytest.raises(Refusal, match="promises nothing under the ledger's") as refused:
            spend(ledger, "1/2", neighbours=paid)
        assert str(refused.value).endswith("; price the release under those")
        assert len(ledger.entries()) == 1


def test_a_refusal_names_both_relations_in_full(where: str) -> None:
    ledger = made(where, neighbours=WEAK)
    with pytest.raises(Refusal) as refused:
        spend(ledger, "1", neighbours=Weak("0.1", ["race"]))
    assert str(refused.value) == (
        "a price under weak neighbours of alpha 0.1 over the types race promises nothing under"
        " the ledger's weak neighbours of alpha 0.1 over the types age, sex; price the release"
        " under those"
    )


def test_prices_whose_sum_nobody_could_write_are_refused(where: str) -> None:
    ledger = made(where, "2")
    for denominator in (3**900, 5**400):
        spend(ledger, Fraction(1, denominator))
    with pytest.raises(Refusal, match="more than a thousand digits; round it up to a fraction"):
        spend(ledger, Fraction(1, 7**500))
    assert ledger.verify() == ()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"price": "1/2"}, "the price must be a Guarantee"),
        ({"release": ""}, "the id of the release must be a text"),
        ({"release": "a\nb"}, "the id of the release must be a text"),
        ({"what": {"count": 4711}}, r"what is released \(count\) must be a text"),
        ({"period": "a\nb"}, "the period of a release must be a text"),
        ({"period": 2026}, "the period of a release must be a text"),
        ({"protects": "jobs"}, "what is protected must be a Protected of plain data, such as"),
        ({"protects": eree.Protected("jobs", {"worker": object()})}, "a Protected of plain data"),
        ({"protects": eree.Protected("jobs", {"share": math.nan})}, "a Protected of plain data"),
    ],
)
def test_what_is_no_price_or_name_never_gets_in(
    where: str, asked: dict[str, Any], words: str
) -> None:
    ledger = made(where)
    given = {"price": price("1/2"), "release": "r", "what": {"tables": "place"}}
    given |= {"protects": PROTECTS} | asked
    with pytest.raises(Refusal, match=words):
        ledger.reserve(given.pop("price"), **given)
    assert len(ledger.entries()) == 1


def test_a_ledger_shows_where_it_is_and_no_more(where: str) -> None:
    ledger = made(where)
    assert repr(ledger) == f"<Ledger in {ledger.name}>"
    assert "eree@" not in ledger.name


# ------------------------------------------------------------------------------- what is protected


def test_the_first_reservation_binds_the_ledger_to_what_it_protects(where: str) -> None:
    ledger = made(where)
    spend(ledger, "1/10")
    recoded = eree.Protected("jobs", {**PROTECTS.declared, "worker": "name"})
    with pytest.raises(Refusal, match="another declaration of workplaces, workers, jobs or types"):
        spend(ledger, "1/10", protects=recoded)
    same = eree.Protected("jobs", dict(reversed(PROTECTS.declared.items())))
    spend(ledger, "1/10", protects=same)
    assert ledger.entries()[-1].then.declaration == PROTECTS.digest
    assert len(ledger.entries()) == 3


def test_a_ledger_pays_for_the_data_set_that_it_names(where: str) -> None:
    ledger = made(where)
    other = eree.Protected("wages", PROTECTS.declared)
    with pytest.raises(Refusal, match="is for the data set 'jobs', and this release is of 'wages'"):
        spend(ledger, "1/10", protects=other)
    assert len(ledger.entries()) == 1
    spend(ledger, "1/10")


# ----------------------------------------------------------------------------------------- closing


def test_a_closed_reservation_stays_spent_and_pays_for_nothing_more(where: str) -> None:
    ledger = made(where)
    reserved, settled = spend(ledger, "1/2"), spend(ledger, "1/2")
    ledger.settle(settled, DIGEST)
    ledger.close(reserved.number)
    assert ledger.spent() == price("1")
    account = ledger.account()
    assert [account.state(n) for n in (2, 3)] == ["closed", "settled"]
    assert (account.closed, account.settled) == ({2}, {3: DIGEST})
    with pytest.raises(Refusal, match="reservation 2 is closed already"):
        ledger.settle(reserved, DIGEST)
    for number, words in {
        1: "entry 1 of .* is no reservation",
        2: "reservation 2 is closed already",
        3: "reservation 3 is settled already",
        4: "entry 4 of .* is no reservation",
        99: "has no entry 99; 'eree ledger show' lists them",
        10**30: "has no entry 1000",
    }.items():
        with pytest.raises(Refusal, match=words):
            ledger.close(number)
    assert [entry.kind for entry in ledger.entries()][3:] == ["settle", "close"]
    assert ledger.verify() == ()


# -------------------------------------------------------------------------------------------- time


def moved(monkeypatch: pytest.MonkeyPatch, hours: float) -> None:
    """Another clock of this machine."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(hours=hours)

    monkeypatch.setattr("eree.budget.ledger.datetime", Clock)


def test_times_never_run_back_and_a_clock_that_does_is_reported(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = made(where)
    assert ledger.clock_note() is None
    moved(monkeypatch, 24)
    spend(ledger, "1/10")
    ahead = ledger.entries()[-1].event.at
    assert ledger.clock_note() is None
    moved(monkeypatch, 0)
    note = ledger.clock_note()
    assert note == (
        f"the last entry of {ledger.name} is of {ahead}, and this machine's clock is behind that;"
        " set the clock right, as new entries take the time of the last one until then"
    )
    spend(ledger, "1/10")
    ledger.close(2)
    assert [entry.event.at for entry in ledger.entries()][1:] == [ahead] * 3
    assert ledger.verify() == ()


# ---------------------------------------------------------------------------------- what it costs


def fetched(ledger: eree.Ledger, work: Callable[[], object]) -> tuple[int, int]:
    """How many statements some work sends, and how many rows they give back."""
    counted = [0, 0]

    def sent(*_: object) -> None:
        counted[0] += 1

    def taken(method: str) -> Callable[..., Any]:
        take = getattr(CursorResult, method)

        def counting(*given: Any) -> Any:
            found = take(*given)
            counted[1] += len(found) if isinstance(found, list) else found is not None
            return found

        return counting

    event.listen(ledger._store._engine, "before_cursor_execute", sent)
    with pytest.MonkeyPatch.context() as patched:
        for method in ("first", "all", "fetchall", "fetchone"):
            patched.setattr(CursorResult, method, taken(method))
        work()
    event.remove(ledger._store._engine, "before_cursor_execute", sent)
    return counted[0], counted[1]


def test_an_entry_of_a_long_ledger_reads_as_many_rows_as_one_of_a_short(place: Place) -> None:
    costs = []
    for entries in (10, 2_000):
        ledger = long(place(), entries)
        assert ledger.verify() == ()
        reserved: list[eree.Reservation] = []
        costs.append(
            [
                fetched(ledger, lambda ledger=ledger, r=reserved: r.append(spend(ledger, "1/10"))),
                fetched(ledger, lambda ledger=ledger, r=reserved: ledger.settle(r[0], DIGEST)),
            ]
        )
    assert costs[0] == costs[1]
    assert all(0 < rows_read <= 6 for _, rows_read in costs[0])


# --------------------------------------------------------------------------------- against a model

steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("reserve"),
            st.fractions(0, Fraction(1, 2), max_denominator=60),
            st.fractions(0, Fraction(1, 10), max_denominator=30),
        ),
        st.tuples(st.sampled_from(["settle", "close"]), st.integers(0, 9)),
        st.tuples(st.just("heads"), st.integers(0, 2)),
    ),
    max_size=14,
)


@settings(max_examples=25)
@given(steps)
def test_any_sequence_of_steps_leaves_what_a_plain_sum_leaves(
    place: Place, steps: list[tuple[Any, ...]]
) -> None:
    epsilon, delta = Fraction(1), Fraction(1, 5)
    ledger = made(place(), epsilon, delta)
    reserved: list[eree.Reservation] = []
    ended: dict[int, str] = {}
    expected = [("create", Fraction(1), Fraction(1, 5), "")]
    heads = ""
    with TemporaryDirectory() as folder:
        for kind, *figures in steps:
            if kind == "reserve":
                fits = figures[0] <= epsilon and figures[1] <= delta
                with nullcontext() if fits else pytest.raises(Refusal):
                    reserved.append(spend(ledger, figures[0], delta=figures[1]))
                    epsilon, delta = epsilon - figures[0], delta - figures[1]
                wrote = fits
            elif kind == "heads":
                heads = f"{folder}/heads {figures[0]}"
                ledger.keep_heads(heads)
                wrote = True
            else:
                if figures[0] >= len(reserved):
                    continue
                which = reserved[figures[0]]
                wrote = which.number not in ended
                with nullcontext() if wrote else pytest.raises(Refusal, match="already"):
                    if kind == "settle":
                        ledger.settle(which, DIGEST)
                    else:
                        ledger.close(which.number)
                    ended[which.number] = kind
            if wrote:
                expected.append((kind, epsilon, delta, heads))
        assert ledger.left() == price(epsilon, delta)
        reported = [(entry.kind, entry.then) for entry in ledger.entries()]
        assert [
            (kind, 1 - then.epsilon, Fraction(1, 5) - then.delta, then.heads)
            for kind, then in reported
        ] == expected
        account = ledger.account()
        for kind, numbers in (("settle", set(account.settled)), ("close", account.closed)):
            assert numbers == {n for n, how in ended.items() if how == kind}
        assert ledger.verify(against=reserved) == ()
