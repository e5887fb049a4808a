"""The entries of a ledger: what happened, as plain data, and the chain of hashes over it.

A ledger is created with a total; a price is reserved before anything is drawn; a reservation is
settled once its release is written, or closed where none ever was; and the place where heads of the
ledger are kept can be named.  An entry holds names, prices, times and hashes alone; nothing that
was ever counted gets into one.

The hash of an entry is the SHA-256 of its number, its kind, its body and the hash of the entry
before it, so an altered entry shows unless every later hash is altered too.  A body is JSON in one
form only (sorted keys, ASCII, no floats, fractions as texts in lowest terms), so that anyone can
recompute the chain.  Each body ends with how the ledger then stands, so that the last entry alone
tells what is spent.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from eree.errors import Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.plain_data import canonical, guarantee_as_json, guarantee_of, sha256

ORIGIN = "0" * 64
"""What stands for the hash of an entry before the first."""

_FORMAT = 2
_HASH = re.compile(r"[0-9a-f]{64}")
_ID = re.compile(r"[0-9a-f]{32}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_FRACTION = re.compile(r"([0-9]+)(?:/([0-9]+))?")
_MOST_NAME, _MOST_TEXT = 1_000, 100_000  # characters
_MOST_BITS = 3_300  # about a thousand digits: far beyond any price, and always quick to write


@dataclass(frozen=True)
class Standing:
    """How a ledger stands after an entry.

    `declaration` is the digest of what the ledger's budget protects, from the first reservation on;
    `heads` is the place where heads of the ledger are kept, if anywhere.
    """

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    declaration: str = ""
    heads: str = ""

    def __post_init__(self) -> None:
        if self.declaration != "":
            _check_hash(self.declaration, "the digest of a declaration")
        if self.heads != "":
            check_name(self.heads, "the place of a ledger's heads")

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        spent = {"epsilon": str(self.epsilon), "delta": str(self.delta)}
        return {"spent": spent, "declaration": self.declaration, "heads": self.heads}

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Standing:
        """The standing that plain data tell of."""
        spent = body["spent"]
        epsilon, delta = _fraction(spent["epsilon"]), _fraction(spent["delta"])
        return cls(epsilon, delta, body["declaration"], body["heads"])


class Row(NamedTuple):
    """An entry as a database holds it.

    `about` repeats the number of the reservation that the entry settles or closes; a database lets
    no two entries be about the same one.
    """

    number: int
    kind: str
    body: str
    previous: str
    hash: str
    about: int | None

    @classmethod
    def after(cls, last: Row | Entry | None, event: Event, standing: Standing) -> Row:
        """The row that records an event behind the last one (None: it is the first)."""
        number, previous = (last.number + 1, last.hash) if last else (1, ORIGIN)
        body = canonical(event.body() | {"then": standing.as_json()})
        sealed = seal(number, event.kind, body, previous)
        return cls(number, event.kind, body, previous, sealed, event.about)


def seal(number: int, kind: str, body: str, previous: str) -> str:
    """The hash of an entry.  As a JSON list, no two entries share the text that is hashed."""
    return sha256([number, kind, body, previous])


class _Event(ABC):
    """What the events share."""

    kind: ClassVar[str]
    at: str

    @property
    def about(self) -> int | None:
        """The reservation that this settles or closes."""
        return None

    @abstractmethod
    def body(self) -> dict[str, Any]:
        """The event as plain data."""

    @abstractmethod
    def then(self, before: Standing) -> Standing:
        """How the ledger stands after it."""


@dataclass(frozen=True)
class Created(_Event):
    """A ledger was made: so much may ever be spent on this data set, under these neighbours."""

    kind: ClassVar[str] = "create"
    identity: str
    data_set: str
    total: Guarantee
    at: str

    def __post_init__(self) -> None:
        _must(bool(_ID.fullmatch(self.identity)), "a ledger's identity is 32 hexadecimal digits")
        check_name(self.data_set, "the name of the data set")
        check_guarantee(self.total, "the total")
        _check_moment(self.at)

    def body(self) -> dict[str, Any]:
        """The event as plain data."""
        named = {"data_set": self.data_set, "identity": self.identity, "format": _FORMAT}
        return named | {"at": self.at, "total": guarantee_as_json(self.total)}

    def then(self, before: Standing) -> Standing:
        """How the ledger stands after it."""
        return before

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Created:
        """The event that a body tells of."""
        return cls(body["identity"], body["data_set"], guarantee_of(body["total"]), body["at"])


@dataclass(frozen=True)
class Reserved(_Event):
    """A price was taken out of the budget, before anything was drawn for its release.

    `declaration` is the digest of what the release's schema declares to be protected; `period` is
    what the release is about, where that was said.
    """

    kind: ClassVar[str] = "reserve"
    release: str
    what: Mapping[str, str]
    price: Guarantee
    declaration: str
    period: str
    at: str

    def __post_init__(self) -> None:
        check_name(self.release, "the id of the release")
        if not isinstance(self.what, Mapping):
            raise Refusal("what is released must be given as names with a text each")
        for name, text in self.what.items():
            check_name(name, "a name in what is released")
            check_name(text, f"what is released ({name})", most=_MOST_TEXT)
        object.__setattr__(self, "what", MappingProxyType(dict(self.what)))
        check_guarantee(self.price, "the price")
        _check_hash(self.declaration, "the digest of a declaration")
        if self.period != "":
            check_name(self.period, "the period of a release")
        _check_moment(self.at)

    def body(self) -> dict[str, Any]:
        """The event as plain data."""
        stated = {"at": self.at, "release": self.release, "what": dict(self.what)}
        about = {"declaration": self.declaration, "period": self.period}
        return stated | about | {"price": guarantee_as_json(self.price)}

    def then(self, before: Standing) -> Standing:
        """How the ledger stands after it."""
        return Standing(
            before.epsilon + self.price.epsilon,
            before.delta + self.price.delta,
            before.declaration or self.declaration,
            before.heads,
        )

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Reserved:
        """The event that a body tells of."""
        price = guarantee_of(body["price"])
        about = body["declaration"], body["period"]
        return cls(body["release"], body["what"], price, *about, body["at"])


@dataclass(frozen=True)
class _About(_Event):
    """What ends a reservation; `reserved` is the hash of its entry."""

    reservation: int
    reserved: str

    def __post_init__(self) -> None:
        _must(type(self.reservation) is int, "a reservation is named by the number of its entry")
        _check_hash(self.reserved, "a hash")

    @property
    def about(self) -> int | None:
        """The reservation that this settles or closes."""
        return self.reservation

    def body(self) -> dict[str, Any]:
        """The event as plain data."""
        return {"at": self.at, "reservation": self.reservation, "reserved": self.reserved}

    def then(self, before: Standing) -> Standing:
        """How the ledger stands after it."""
        return before


@dataclass(frozen=True)
class Settled(_About):
    """A release was written; `digest` is its SHA-256."""

    kind: ClassVar[str] = "settle"
    digest: str
    at: str

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_hash(self.digest, "the digest of a release")
        _check_moment(self.at)

    def body(self) -> dict[str, Any]:
        """The event as plain data."""
        return super().body() | {"digest": self.digest}

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Settled:
        """The event that a body tells of."""
        return cls(body["reservation"], body["reserved"], body["digest"], body["at"])


@dataclass(frozen=True)
class Closed(_About):
    """A reservation pays for no release, and never will; its price stays spent."""

    kind: ClassVar[str] = "close"
    at: str

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_moment(self.at)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Closed:
        """The event that a body tells of."""
        return cls(body["reservation"], body["reserved"], body["at"])


@dataclass(frozen=True)
class HeadsKept(_Event):
    """From now on the last number and hash are kept at this place too, and compared.

    The place is a file, or a folder of releases if it ends with a slash.
    """

    kind: ClassVar[str] = "heads"
    place: str
    at: str

    def __post_init__(self) -> None:
        check_name(self.place, "the place of a ledger's heads")
        _check_moment(self.at)

    def body(self) -> dict[str, Any]:
        """The event as plain data."""
        return {"at": self.at, "place": self.place}

    def then(self, before: Standing) -> Standing:
        """How the ledger stands after it."""
        return Standing(before.epsilon, before.delta, before.declaration, self.place)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> HeadsKept:
        """The event that a body tells of."""
        return cls(body["place"], body["at"])


Event = Created | Reserved | Settled | Closed | HeadsKept

_READERS: Mapping[str, Callable[[Mapping[str, Any]], Event]] = {
    event.kind: event.of for event in (Created, Reserved, Settled, Closed, HeadsKept)
}


@dataclass(frozen=True)
class Entry:
    """One entry of a ledger that was read and understood."""

    number: int
    event: Event
    then: Standing
    hash: str

    @property
    def kind(self) -> str:
        """What happened: `create`, `reserve`, `settle`, `close` or `heads`."""
        return self.event.kind

    def as_json(self) -> dict[str, Any]:
        """The entry as `eree ledger show --json` prints it."""
        stated = {"number": self.number, "kind": self.kind, "hash": self.hash}
        return stated | self.event.body() | {"then": self.then.as_json()}


def read_entry(row: Row) -> Entry | None:
    """The entry of a row, or None where it is not written exactly as a ledger writes it.

    Writing the event once more must give the same text.  That alone rules out unknown settings,
    floats, fractions that are not in lowest terms, and any other form of the same JSON.
    """
    try:
        body = json.loads(row.body)
        event, then = _READERS[row.kind](body), Standing.of(body["then"])
        same = canonical(event.body() | {"then": then.as_json()}) == row.body
        return Entry(row.number, event, then, row.hash) if same else None
    except (Refusal, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None
    except RecursionError:  # brackets within brackets within brackets
        return None


def check_name(name: object, what: str, most: int = _MOST_NAME) -> None:
    """Refuse what is not a plain text: a name has no line breaks, and no number is a name."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise Refusal(f"{what} must be a text of printable characters, and not empty")
    if len(name) > most:
        raise Refusal(f"{what} must have at most {most:,} characters")


def check_guarantee(guarantee: object, what: str) -> None:
    """Refuse what is not a guarantee, or has figures that nobody could write down."""
    if not isinstance(guarantee, Guarantee):
        raise Refusal(f"{what} must be a Guarantee, such as Guarantee(Strong('0.1'), '2')")
    alpha = getattr(guarantee.neighbours, "alpha", Fraction(0))
    if not all(map(writable, (alpha, guarantee.epsilon, guarantee.delta))):
        raise Refusal(f"{what} has figures of more than a thousand digits; round them up to fewer")
    for name in getattr(guarantee.neighbours, "types", ()):
        check_name(name, "a worker type")


def writable(number: Fraction) -> bool:
    """Whether a fraction has at most about a thousand digits above and below the line."""
    return max(number.numerator.bit_length(), number.denominator.bit_length()) <= _MOST_BITS


def _fraction(text: str) -> Fraction:
    """A fraction as we write it; Fraction itself also reads 1e999999999, and computes it."""
    found = _FRACTION.fullmatch(text)
    if found is None:
        raise ValueError
    return Fraction(int(found[1]), int(found[2] or 1))


def _check_moment(moment: str) -> None:
    try:
        holds = bool(_MOMENT.fullmatch(moment) and datetime.fromisoformat(moment))
    except ValueError:  # the 99th of a month
        holds = False
    _must(holds, "a time is UTC, such as 2026-07-14T12:00:00Z")


def _check_hash(text: object, what: str) -> None:
    _must(
        isinstance(text, str) and bool(_HASH.fullmatch(text)),
        f"{what} is a SHA-256: 64 hexadecimal digits, in lower case",
    )


def _must(holds: bool, rule: str) -> None:
    if not holds:
        raise Refusal(rule)
