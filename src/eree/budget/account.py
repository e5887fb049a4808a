"""What a ledger says: as a whole, with its faults, or by its ends alone, to spend from it.

To spend, the first entry and the last two are enough: the last one carries what was spent before
it, under its hash.  `verify` reads every entry, and recomputes what each of them carries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eree.budget.entries import (
    ORIGIN,
    Closed,
    Created,
    Entry,
    HeadsKept,
    Reserved,
    Row,
    Settled,
    Standing,
    read_entry,
    seal,
    writable,
)
from eree.errors import Fault, Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Neighbours, Strong, Weak, implies, plain
from eree.policy.protected import Protected


@dataclass(frozen=True)
class Balance:
    """How a ledger stands at one moment, by its first and its last entries."""

    created: Created
    last: Entry

    @property
    def total(self) -> Guarantee:
        """What may ever be spent."""
        return self.created.total

    @property
    def spent(self) -> Guarantee:
        """The sum of everything ever reserved, settled or not."""
        return Guarantee(self.total.neighbours, self.last.then.epsilon, self.last.then.delta)

    @property
    def left(self) -> Guarantee:
        """What can still be reserved."""
        total, spent = self.total, self.spent
        epsilon, delta = total.epsilon - spent.epsilon, total.delta - spent.delta
        return Guarantee(total.neighbours, epsilon, delta)

    def check(self, price: Guarantee, protects: Protected) -> None:
        """Refuse a price that does not fit, to the last digit, or that protects something else."""
        if protects.data_set != self.created.data_set:
            raise Refusal(
                f"the ledger is for the data set {self.created.data_set!r}, and this release is of"
                f" {protects.data_set!r}; write the ledger's name as data_set in schema.toml or"
                " survey.toml, or make a ledger of this data set with --data-set"
            )
        bound = self.last.then.declaration
        if bound and bound != protects.digest:
            raise Refusal(
                "the ledger was spent from under another declaration of workplaces, workers,"
                " jobs or types, and prices under two of them do not add up; declare them as they"
                " were (a release that it paid for has it, under 'protects'), or make a new ledger"
            )
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


@dataclass(frozen=True)
class Account(Balance):
    """A sound ledger at one moment, with every entry.

    `settled` gives the digest of the release for every reservation that has one; `closed` names the
    reservations that pay for none.
    """

    entries: tuple[Entry, ...]
    settled: Mapping[int, str]
    closed: frozenset[int]

    @property
    def identity(self) -> str:
        """The random name of the ledger."""
        return self.created.identity

    @property
    def data_set(self) -> str:
        """The name of the data set that the ledger is for."""
        return self.created.data_set

    def state(self, reservation: int) -> str:
        """What became of a reservation."""
        if reservation in self.settled:
            return "settled"
        return "closed" if reservation in self.closed else "reserved"


def relation_words(relation: Neighbours) -> str:
    """A relation with all that belongs to it."""
    words = f"{relation.name} neighbours"
    if isinstance(relation, (Strong, Weak)):
        words += f" of alpha {plain(relation.alpha)}"
    if isinstance(relation, Weak):
        words += f" over the types {', '.join(relation.types)}"
    return words


def read_balance(first: Row | None, last: Sequence[Row], name: str) -> Balance:
    """How a ledger stands, by its first row and the last two; one with a fault is not believed."""
    reading = _Reading(name)
    if first is None:
        reading.none()
    else:
        reading.add(first)
        reading.skip_to(last)
    created, entry = reading.created, reading.last
    if reading.faults or created is None or entry is None:
        raise faulty(name, reading.faults)
    return Balance(created, entry)


def read_account(rows: Sequence[Row], name: str) -> tuple[Account | None, tuple[Fault, ...]]:
    """The account of a ledger, or None and every fault of it; rows come in order of number."""
    reading = _Reading(name)
    for row in rows:
        reading.add(row)
    if not rows:
        reading.none()
    return reading.account(), tuple(reading.faults)


def faulty(name: str, faults: Sequence[Fault]) -> Refusal:
    """What is said of a ledger with faults."""
    place = f"{faults[0].column} " if faults[0].column else ""
    return Refusal(
        f"{name} is faulty ({place}{faults[0].rule}), so nothing that it says is believed;"
        " 'eree ledger verify' lists every fault"
    )


@dataclass
class _Reading:
    """One pass over rows."""

    name: str
    faults: list[Fault] = field(default_factory=list)
    created: Created | None = None
    last: Entry | None = None
    entries: list[Entry] = field(default_factory=list)
    reserved: dict[int, str] = field(default_factory=dict)
    settled: dict[int, str] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    _end: tuple[int, str] = (0, ORIGIN)
    _then: Standing | None = field(default_factory=Standing)

    def none(self) -> None:
        """There are no rows at all."""
        self.faults.append(Fault("ledger", self.name, "", "has no entries, not even its first"))

    def skip_to(self, rows: Sequence[Row]) -> None:
        """Go on at the last rows of a ledger, after the first, without what stands between."""
        if rows[0].number == self._end[0]:
            rows = rows[1:]  # a short ledger, of which all was read
        elif rows[0].number != self._end[0] + 1:
            self._end, self._then = (rows[0].number - 1, rows[0].previous), None
        for row in rows:
            self.add(row, between=rows[0].number > 2)

    def add(self, row: Row, *, between: bool = False) -> None:
        """Look at the next row: does it follow, is it as it was written, does it make sense.

        After a gap (`between`) an entry may be about one that was not read.
        """
        number, previous = self._end
        if [type(value) for value in row[:5]] != [int, str, str, str, str]:
            self._fault(row, "holds something else than a number and texts")
            return
        self._end = row.number, row.hash
        if row.number != number + 1:
            before = f"entry {number}" if number else "the beginning"
            self._fault(row, f"follows {before}: what stood between is missing or out of order")
        elif row.previous != previous:
            self._fault(row, "does not continue the entry before it, or that one was altered")
        if row.hash != seal(*row[:4]):
            self._fault(row, "was altered: its hash is not that of its contents")
        entry = read_entry(row)
        if entry is None or row.about != entry.event.about:
            self._fault(row, "is not written as a ledger writes its entries")
            self._then = None
            return
        if self.last is not None and entry.event.at < self.last.event.at:
            self._fault(row, "is older than the entry before it")
        if self._then is not None and entry.event.then(self._then) != entry.then:
            self._fault(row, "carries another sum than that of all prices up to it")
        if self._beyond(entry.then) and (self._then is None or not self._beyond(self._then)):
            self._fault(row, "spends more than was left")
        self._then, self.last = entry.then, entry
        self.entries.append(entry)
        self._event(row, entry, between=between)

    def _event(self, row: Row, entry: Entry, *, between: bool) -> None:
        match entry.event:
            case Created() as event:
                self._create(row, event)
            case Reserved() as event:
                self._reserve(row, event, entry.then)
            case Settled() | Closed() as event if not between:
                self._end_reservation(row, event)
            case HeadsKept() if row.number == 1:
                self._fault(row, "is the first and does not create the ledger")

    def account(self) -> Account | None:
        """What all rows come to, where there is no fault."""
        if self.faults or self.created is None or self.last is None:
            return None
        closed = frozenset(self.closed)
        return Account(self.created, self.last, tuple(self.entries), self.settled, closed)

    def _create(self, row: Row, event: Created) -> None:
        if row.number == 1:
            self.created = event
        else:
            self._fault(row, "creates the ledger, which only the first entry can")

    def _reserve(self, row: Row, event: Reserved, then: Standing) -> None:
        if row.number == 1:
            self._fault(row, "is the first and does not create the ledger")
        self.reserved[row.number] = row.hash
        if event.declaration != then.declaration:
            self._fault(row, "is paid under another declaration than the ledger is bound to")
        if self.created is None:  # its fault is reported already
            return
        if not implies(event.price.neighbours, self.created.total.neighbours):
            self._fault(row, "is paid under neighbours that promise nothing under the ledger's")

    def _beyond(self, standing: Standing) -> bool:
        """Whether more is spent than the total, which one without a first entry does not have."""
        if self.created is None:
            return False
        total = self.created.total
        return standing.epsilon > total.epsilon or standing.delta > total.delta

    def _end_reservation(self, row: Row, event: Settled | Closed) -> None:
        verb, number = f"{event.kind}s", event.reservation
        reserved = self.reserved.get(number)
        if reserved is None:
            self._fault(row, f"{verb} entry {number}, which is no reservation")
        elif reserved != event.reserved:
            self._fault(row, f"{verb} another entry {number} than the one here")
        elif number in self.settled or number in self.closed:
            self._fault(row, f"{verb} entry {number}, which was settled or closed before")
        elif isinstance(event, Settled):
            self.settled[number] = event.digest
        else:
            self.closed.add(number)

    def _fault(self, row: Row, rule: str) -> None:
        self.faults.append(Fault("ledger", self.name, f"entry {row.number}", rule))
