"""The ledger of a data set: how much may ever be learned from it, and how much was spent.

A price is reserved before anything is drawn and settled after the release is written.  What was
reserved is spent, whether or not it was settled: a process that dies in between may have shown its
draws to somebody.  Nothing is ever given back, changed or removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from eree.budget.account import Account, Balance, faulty, read_account, read_balance
from eree.budget.entries import (
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
from eree.budget.heads import Head, Heads
from eree.budget.refusals import DamagedStore
from eree.budget.reservation import Reservation
from eree.errors import Fault, Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.protected import Protected
from eree.random.source import fresh_name

if TYPE_CHECKING:
    from eree.budget.stores import Store, View

#: Clocks of one office agree to within this.
_BEHIND = timedelta(minutes=1)


class Ledger:
    """The budget of one data set, in a file or in a PostgreSQL database.

    No connection is kept open between two calls, so any number of processes may use a ledger at the
    same time.  What is spent and what is left is read off the last entry; `account` and `verify`
    read them all.

    Args:
        store: Where entries are kept; `create` and `open` take a file or an address instead.

    Examples:
        >>> eree.Ledger.open("ledger.db").left().epsilon
        Fraction(0, 1)
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    def create(
        cls,
        where: str | os.PathLike[str],
        total: Guarantee,
        *,
        data_set: str,
        heads: str | os.PathLike[str] | None = None,
    ) -> Ledger:
        """Make a ledger with a total that never changes, where there is none yet.

        `where` is a file, or an address such as `postgresql://user@host/database`.  `heads` names a
        second place that knows how far the ledger has come (see `keep_heads`).
        """
        from eree.budget.stores import store_at  # a database takes a while to load

        store = store_at(where)
        if heads is not None:
            Heads.at(heads).prepare()
        event = Created(fresh_name(), data_set, total, _now())
        store.create(Row.after(None, event, Standing()))
        ledger = cls(store)
        if heads is not None:
            ledger.keep_heads(heads)
        return ledger

    @classmethod
    def open(cls, where: str | os.PathLike[str]) -> Ledger:
        """A ledger that exists.  A faulty one opens too, so that `verify` can tell its faults."""
        from eree.budget.stores import store_at

        ledger = cls(store_at(where))
        with suppress(DamagedStore):
            ledger._store.read(lambda view: view.last_two())
        return ledger

    @property
    def name(self) -> str:
        """Where the ledger is kept, in words that hold no password."""
        return self._store.name

    @property
    def identity(self) -> str:
        """A random name that no other ledger has; a release says by it what it was paid from."""
        return self.balance().created.identity

    @property
    def total(self) -> Guarantee:
        """What may ever be spent."""
        return self.balance().total

    @property
    def data_set(self) -> str:
        """The name of the data set that the ledger is for."""
        return self.balance().created.data_set

    def balance(self) -> Balance:
        """How the ledger stands, by its first and last entries."""
        return self._store.read(self._balance)

    def account(self) -> Account:
        """Everything that the ledger says, at one moment, every entry checked."""
        account, faults = read_account(self._store.read(lambda view: view.all()), self.name)
        if account is None:
            raise faulty(self.name, faults)
        return account

    def entries(self) -> tuple[Entry, ...]:
        """All entries, from the first."""
        return self.account().entries

    def spent(self) -> Guarantee:
        """The sum of everything ever reserved, settled or not."""
        return self.balance().spent

    def left(self) -> Guarantee:
        """What can still be reserved."""
        return self.balance().left

    def reserve(
        self,
        price: Guarantee,
        *,
        release: str,
        what: Mapping[str, str],
        protects: Protected,
        period: str = "",
    ) -> Reservation:
        """Take a price out of the budget; it is spent when this returns, whatever comes after.

        The price may be one under other neighbours, where those imply the ledger's; it then counts
        in full under the ledger's.  `what` says in names what is released, and `period` what time
        it is about.  None of it may come from a confidential row: entries are there to be shown.
        `protects` is what is declared to be protected; the first one binds the ledger.
        """
        try:
            declaration = protects.digest
        except (AttributeError, TypeError, ValueError):
            raise Refusal(
                "what is protected must be a Protected of plain data, such as Protected('jobs',"
                " {'worker': 'id'})"
            ) from None

        def decide(balance: Balance, _view: View) -> Event:
            event = Reserved(release, what, price, declaration, period, _after(balance.last))
            balance.check(price, protects)
            return event

        row, ledger = self._append(decide)
        return Reservation(row.number, row.hash, price, release, ledger)

    def settle(self, reservation: Reservation, digest: str) -> None:
        """Record that the release of a reservation was written; once.

        `digest` is the SHA-256 of the release, in hexadecimal digits.
        """

        def decide(balance: Balance, view: View) -> Event:
            held = view.row(reservation.number)
            if held is None or held.hash != reservation.hash:
                raise Refusal(
                    f"{self.name} has no such reservation {reservation.number}; it was made in"
                    " another ledger, or an older copy took this one's place"
                )
            self._check_open(held, view)
            at = _after(balance.last)
            return Settled(reservation.number, reservation.hash, digest, at)

        self._append(decide)

    def close(self, number: int) -> None:
        """Record that a reservation pays for no release, and never will; its price stays spent.

        Until then whoever can read the ledger could claim that something was its release.
        """

        def decide(balance: Balance, view: View) -> Event:
            held = view.row(number)
            if held is None:
                raise Refusal(f"{self.name} has no entry {number}; 'eree ledger show' lists them")
            self._check_open(held, view)
            return Closed(number, held.hash, _after(balance.last))

        self._append(decide)

    def keep_heads(self, place: str | os.PathLike[str]) -> None:
        """Keep the last number and hash at a second place too, and compare before every spending.

        `place` is a file, to which every new entry is added, or a folder of releases, which record
        the entries that paid for them.  Where heads were kept before, the old place or the new one
        must know this ledger, and neither may know more than the ledger holds.
        """
        new = Heads.at(place)
        new.prepare()

        def decide(balance: Balance, view: View) -> Event:
            identity, old = balance.created.identity, balance.last.then.heads
            known = new.of(identity)
            if known or new.folder:
                new.check(identity, view.hashes, lambda: _released(view), known)
            if old:
                place = Heads.named(old)
                place.check_left(identity, view.hashes, lambda: _released(view), bool(known))
            # a crash right after the commit then leaves a place that knows the ledger
            new.keep(Head(identity, balance.last.number, balance.last.hash), first=True)
            return HeadsKept(new.text, _after(balance.last))

        self._append(decide, moving=True)

    def check_heads(self) -> None:
        """Refuse a ledger that its heads know more of, as spending does."""
        heads = self._store.read(_heads)
        if heads is not None:
            place, identity = heads
            known = place.of(identity)  # before the rows, as in `verify`
            self._store.read(
                lambda view: place.check(identity, view.hashes, lambda: _released(view), known)
            )

    def clock_note(self) -> str | None:
        """What to tell whoever spends, where this machine's clock is behind the last entry.

        New entries then take the time of the last one, so that times never run back.
        """
        last, now = self.balance().last.event.at, datetime.now(UTC)
        if datetime.fromisoformat(last) - now < _BEHIND:
            return None
        return (
            f"the last entry of {self.name} is of {last}, and this machine's clock is behind that;"
            " set the clock right, as new entries take the time of the last one until then"
        )

    def verify(self, *, against: Iterable[Reservation] = ()) -> tuple[Fault, ...]:
        """Every fault of the ledger: broken links, gaps, altered entries, wrong sums.

        A ledger that lost its last entries, or was replaced by an older copy of itself, is sound in
        itself.  That shows only where heads of it are kept (see `keep_heads`), and `against`
        reservations that releases have kept.
        """
        try:
            heads = self._store.read(_heads)
            # before the rows: an entry that comes meanwhile must not look forgotten
            known = _known(heads)
            rows = self._store.read(lambda view: view.all())
        except DamagedStore:
            words = "cannot be read any more: it is damaged, or it is no ledger"
            return (Fault("ledger", self.name, "", words),)
        _, faults = read_account(rows, self.name)
        kept = {row.number: row.hash for row in rows}
        forgotten: list[Fault] = []
        if heads is not None:
            place, identity = heads
            released = any(row.kind == Settled.kind for row in rows)
            try:
                if isinstance(known, Refusal):
                    raise known
                place.check(identity, lambda _: kept, lambda: released, known)
            except Refusal as refusal:
                forgotten.append(Fault("ledger", self.name, "heads", str(refusal)))
        lost = [r for r in against if kept.get(r.number) != r.hash]
        return (
            *faults,
            *forgotten,
            *(
                Fault(
                    "ledger",
                    self.name,
                    f"entry {reservation.number}",
                    f"is not the one that release {reservation.release} was paid from: entries were"
                    " lost, an older copy took the ledger's place, or another ledger paid",
                )
                for reservation in lost
            ),
        )

    def _append(
        self, decide: Callable[[Balance, View], Event], *, moving: bool = False
    ) -> tuple[Row, str]:
        """Add the entry that `decide` makes, and its head; returns it with the ledger's identity.

        Heads are compared before anything is decided, unless it is their place that changes.
        """
        balance: Balance | None = None
        then = Standing()

        def work(view: View) -> Row:
            nonlocal balance, then
            balance = self._balance(view)
            before = balance.last.then
            if before.heads and not moving:
                heads = Heads.named(before.heads)
                heads.check(balance.created.identity, view.hashes, lambda: _released(view))
                heads.ready()
            event = decide(balance, view)
            then = event.then(before)
            return Row.after(balance.last, event, then)

        row = self._store.append(work)
        assert balance is not None
        head = Head(balance.created.identity, row.number, row.hash)
        old = balance.last.then.heads
        if old not in ("", then.heads):
            # a copy from before the move compares with the old place; that may be gone
            with suppress(Refusal):
                Heads.named(old).keep(head)
        if then.heads:
            # the head of a reservation knows its price; what ends one may be reported late
            with suppress(Refusal) if row.about is not None else nullcontext():
                Heads.named(then.heads).keep(head)
        return row, head.ledger

    def _balance(self, view: View) -> Balance:
        """How the ledger stands; a faulty one is not believed in anything."""
        return read_balance(view.row(1), view.last_two(), self.name)

    def _check_open(self, held: Row, view: View) -> None:
        """Refuse what is no reservation, or was settled or closed."""
        entry = read_entry(held)
        if held.hash != seal(*held[:4]):
            raise Refusal(
                f"entry {held.number} of {self.name} was altered; 'eree ledger verify' lists every"
                " fault"
            )
        if entry is None or not isinstance(entry.event, Reserved):
            raise Refusal(
                f"entry {held.number} of {self.name} is no reservation; 'eree ledger show' lists"
                " them"
            )
        ended = view.about(held.number)
        if ended is not None:
            word = "settled" if ended.kind == Settled.kind else "closed"
            raise Refusal(
                f"reservation {held.number} is {word} already; a release is settled once, and"
                " another release takes another reservation"
            )

    def __repr__(self) -> str:
        return f"<Ledger in {self.name}>"


def _heads(view: View) -> tuple[Heads, str] | None:
    """Where heads are kept, and the identity of the ledger, as far as that can be read."""
    rows = view.row(1), *view.last_two()
    first, last = (None if row is None else read_entry(row) for row in (rows[0], rows[-1]))
    if first is None or last is None or not isinstance(first.event, Created) or not last.then.heads:
        return None
    return Heads.named(last.then.heads), first.event.identity


def _known(heads: tuple[Heads, str] | None) -> list[Head] | Refusal:
    """Everything that is kept of a ledger, or why that cannot be said."""
    try:
        return [] if heads is None else heads[0].of(heads[1], whole=True)
    except Refusal as refusal:
        return refusal


def _released(view: View) -> bool:
    """Whether any release was written."""
    return view.first_of(Settled.kind) is not None


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _after(last: Entry) -> str:
    """The time, or that of the last entry where the clock is behind it: times never run back."""
    return max(_now(), last.event.at)
