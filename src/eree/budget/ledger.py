"""The ledger of a data set: how much may ever be learned from it, and how much was spent.

A price is reserved before anything is drawn and settled after the release is written.  What was
reserved is spent, whether or not it was settled: a process that dies in between may have shown its
draws to somebody.  Nothing is ever given back, changed or removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from eree.budget.account import Account, read_account
from eree.budget.entries import Created, Entry, Reserved, Row, Settled
from eree.budget.troubles import DamagedStore
from eree.errors import Fault, Refusal
from eree.noise.coins import fresh_name
from eree.policy.guarantee import Guarantee

if TYPE_CHECKING:
    from eree.budget.stores import Store


@dataclass(frozen=True)
class Reservation:
    """A price that was taken out of a ledger for a release.

    `number` and `hash` are those of its entry.  A release keeps them: they show later that the
    ledger still is the one it was paid from.
    """

    number: int
    hash: str
    price: Guarantee
    release: str


class Ledger:
    """The budget of one data set, in a file or in a PostgreSQL database.

    Every call reads the whole ledger anew, and no connection is kept open between two calls, so
    any number of processes may use a ledger at the same time.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    def create(cls, where: str | os.PathLike[str], total: Guarantee, *, data_set: str) -> Ledger:
        """Make a ledger with a total that never changes, where there is none yet.

        `where` is a file, or an address such as `postgresql://user@host/database`.
        """
        from eree.budget.stores import store_at  # a database takes a while to load

        store = store_at(where)
        event = Created(fresh_name(), data_set, total, _now())
        store.create(Row.after(None, event))
        return cls(store)

    @classmethod
    def open(cls, where: str | os.PathLike[str]) -> Ledger:
        """A ledger that exists.  A faulty one opens too, so that `verify` can tell its faults."""
        from eree.budget.stores import store_at

        ledger = cls(store_at(where))
        with suppress(DamagedStore):
            ledger._store.rows()
        return ledger

    @property
    def name(self) -> str:
        """Where the ledger is kept, in words that hold no password."""
        return self._store.name

    @property
    def identity(self) -> str:
        """A random name that no other ledger has; a release says by it what it was paid from."""
        return self.account().identity

    @property
    def total(self) -> Guarantee:
        """What may ever be spent."""
        return self.account().total

    @property
    def data_set(self) -> str:
        """The name of the data set that the ledger is for."""
        return self.account().data_set

    def account(self) -> Account:
        """Everything that the ledger says, at one moment."""
        return self._sound(self._store.rows())

    def entries(self) -> tuple[Entry, ...]:
        """All entries, from the first."""
        return self.account().entries

    def spent(self) -> Guarantee:
        """The sum of everything ever reserved, settled or not."""
        return self.account().spent

    def left(self) -> Guarantee:
        """What can still be reserved."""
        return self.account().left

    def reserve(self, price: Guarantee, *, release: str, what: Mapping[str, str]) -> Reservation:
        """Take a price out of the budget; it is spent when this returns, whatever comes after.

        The price may be one under other neighbours, where those imply the ledger's; it then counts
        in full under the ledger's.  `what` says in names what is released.  Neither may come from
        a confidential row: entries are there to be shown.
        """

        def decide(rows: Sequence[Row]) -> Row:
            event = Reserved(release, what, price, _now())
            self._sound(rows).check(price)
            return Row.after(rows[-1], event)

        row = self._store.append(decide)
        return Reservation(row.number, row.hash, price, release)

    def settle(self, reservation: Reservation, digest: str) -> None:
        """Record that the release of a reservation was written; once.

        `digest` is the SHA-256 of the release, in hexadecimal digits.
        """

        def decide(rows: Sequence[Row]) -> Row:
            event = Settled(reservation.number, reservation.hash, digest, _now())
            account = self._sound(rows)
            if not _holds(account.entries, reservation):
                raise Refusal(
                    f"{self.name} has no such reservation {reservation.number}; it was made in"
                    " another ledger, or an older copy took this one's place"
                )
            if reservation.number in account.settled:
                raise Refusal(
                    f"reservation {reservation.number} is settled already; a release is settled"
                    " once, and another release takes another reservation"
                )
            return Row.after(rows[-1], event)

        self._store.append(decide)

    def verify(self, *, against: Iterable[Reservation] = ()) -> tuple[Fault, ...]:
        """Every fault of the ledger: broken links, gaps, altered entries, wrong sums.

        A ledger that lost its last entries, or was replaced by an older copy of itself, is sound in
        itself.  That shows only `against` reservations that releases have kept.
        """
        try:
            rows = self._store.rows()
        except DamagedStore:
            words = "cannot be read any more: it is damaged, or it is no ledger"
            return (Fault("ledger", self.name, "", words),)
        _, faults = read_account(rows, self.name)
        kept = {row.number: row.hash for row in rows}
        lost = [r for r in against if kept.get(r.number) != r.hash]
        return faults + tuple(
            Fault(
                "ledger",
                self.name,
                f"entry {reservation.number}",
                f"is not the one that release {reservation.release} was paid from: entries were"
                " lost, or an older copy took the ledger's place",
            )
            for reservation in lost
        )

    def _sound(self, rows: Sequence[Row]) -> Account:
        """The account of a ledger without a fault; a faulty one is not believed in anything."""
        account, faults = read_account(rows, self.name)
        if account is None:
            place = f"{faults[0].column} " if faults[0].column else ""
            raise Refusal(
                f"{self.name} is faulty ({place}{faults[0].rule}), so nothing can be spent from it;"
                " 'eree ledger verify' lists every fault"
            )
        return account

    def __repr__(self) -> str:
        return f"<Ledger in {self.name}>"


def _holds(entries: Sequence[Entry], reservation: Reservation) -> bool:
    """Whether a reservation is an entry here, by its hash."""
    return any(
        entry.number == reservation.number
        and entry.hash == reservation.hash
        and isinstance(entry.event, Reserved)
        for entry in entries
    )


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
