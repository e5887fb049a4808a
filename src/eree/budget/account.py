"""What a ledger says as a whole: its faults, or what was spent and what is left.

Both readings come from one pass over the rows, so nothing is ever spent on the word of a ledger
that would not pass `verify`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from eree.budget.entries import (
    ORIGIN,
    Created,
    Entry,
    Reserved,
    Row,
    Settled,
    read_event,
    seal,
    writable,
)
from eree.errors import Fault, Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Neighbours, Strong, Weak, implies, plain


@dataclass(frozen=True)
class Account:
    """A sound ledger at one moment.

    `spent` is the sum of everything ever reserved: a reservation counts from the moment it is
    written, whether or not it was settled.  `settled` gives the digest of the release for every
    reservation that was.
    """

    identity: str
    data_set: str
    total: Guarantee
    spent: Guarantee
    entries: tuple[Entry, ...]
    settled: Mapping[int, str]

    @property
    def left(self) -> Guarantee:
        """What can still be reserved."""
        return Guarantee(
            self.total.neighbours,
            self.total.epsilon - self.spent.epsilon,
            self.total.delta - self.spent.delta,
        )

    def check(self, price: Guarantee) -> None:
        """Refuse a price that does not fit, to the last digit."""
        if not implies(price.neighbours, self.total.neighbours):
            raise Refusal(
                f"a price under {relation_words(price.neighbours)} promises nothing under the"
                f" ledger's {relation_words(self.total.neighbours)}; price the release under those"
            )
        for name in ("epsilon", "delta"):
            left, asked = getattr(self.left, name), getattr(price, name)
            if asked > left:
                raise Refusal(
                    f"the ledger has {plain(left)} of {name} left, and this release asks for"
                    f" {plain(asked)}; lower its price, or decide on a larger total in a new ledger"
                )
            if not writable(getattr(self.spent, name) + asked):
                raise Refusal(
                    f"with this {name} the sum of all prices would have more than a thousand"
                    " digits; round it up to a fraction such as 1/10"
                )


def relation_words(relation: Neighbours) -> str:
    """A relation with all that belongs to it."""
    words = f"{relation.name} neighbours"
    if isinstance(relation, (Strong, Weak)):
        words += f" of alpha {plain(relation.alpha)}"
    if isinstance(relation, Weak):
        words += f" over the types {', '.join(relation.types)}"
    return words


def read_account(rows: Sequence[Row], name: str) -> tuple[Account | None, tuple[Fault, ...]]:
    """The account of a ledger, or None and every fault of it; rows come in order of number."""
    reading = _Reading(name)
    for row in rows:
        reading.add(row)
    if not rows:
        reading.faults.append(Fault("ledger", name, "", "has no entries, not even its first"))
    return reading.result()


class _Reading:
    """One pass over the rows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.faults: list[Fault] = []
        self.created: Created | None = None
        self.epsilon = self.delta = Fraction(0)
        self.entries: list[Entry] = []
        self.reserved: dict[int, str] = {}
        self.settled: dict[int, str] = {}
        self.last = (0, ORIGIN)

    def add(self, row: Row) -> None:
        """Look at the next row: does it follow, is it as it was written, does it make sense."""
        number, previous = self.last
        if [type(field) for field in row] != [int, str, str, str, str]:
            self._fault(row, "holds something else than a number and texts")
            return
        self.last = row.number, row.hash
        if row.number != number + 1:
            before = f"entry {number}" if number else "the beginning"
            self._fault(row, f"follows {before}: what stood between is missing or out of order")
        elif row.previous != previous:
            self._fault(row, "does not continue the entry before it, or that one was altered")
        if row.hash != seal(*row[:4]):
            self._fault(row, "was altered: its hash is not that of its contents")
        event = read_event(row.kind, row.body)
        if event is None:
            self._fault(row, "is not written as a ledger writes its entries")
            return
        self.entries.append(Entry(row.number, event, row.hash))
        match event:
            case Created():
                self._create(row, event)
            case Reserved():
                self._reserve(row, event)
            case Settled():
                self._settle(row, event)

    def result(self) -> tuple[Account | None, tuple[Fault, ...]]:
        """What the rows come to."""
        if self.faults or self.created is None:
            return None, tuple(self.faults)
        total = self.created.total
        spent = Guarantee(total.neighbours, self.epsilon, self.delta)
        account = Account(
            self.created.identity,
            self.created.data_set,
            total,
            spent,
            tuple(self.entries),
            self.settled,
        )
        return account, ()

    def _create(self, row: Row, event: Created) -> None:
        if row.number == 1:
            self.created = event
        else:
            self._fault(row, "creates the ledger, which only the first entry can")

    def _reserve(self, row: Row, event: Reserved) -> None:
        if row.number == 1:
            self._fault(row, "is the first and does not create the ledger")
        self.reserved[row.number] = row.hash
        self.epsilon += event.price.epsilon
        self.delta += event.price.delta
        if self.created is None:  # its fault is told already
            return
        total = self.created.total
        if not implies(event.price.neighbours, total.neighbours):
            self._fault(row, "is paid under neighbours that promise nothing under the ledger's")
        if self.epsilon > total.epsilon or self.delta > total.delta:
            self._fault(row, "spends more than was left")

    def _settle(self, row: Row, event: Settled) -> None:
        reserved = self.reserved.get(event.reservation)
        if reserved is None:
            self._fault(row, f"settles entry {event.reservation}, which is no reservation")
        elif reserved != event.reserved:
            self._fault(row, f"settles another entry {event.reservation} than the one here")
        elif event.reservation in self.settled:
            self._fault(row, f"settles entry {event.reservation} a second time")
        else:
            self.settled[event.reservation] = event.digest

    def _fault(self, row: Row, rule: str) -> None:
        self.faults.append(Fault("ledger", self.name, f"entry {row.number}", rule))
