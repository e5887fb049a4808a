"""The entries of a ledger: what happened, as plain data, and the chain of hashes over it.

There are three kinds: a ledger is created with a total, a price is reserved before anything is
drawn, and a reservation is settled once its release is written.  An entry holds names, prices and
hashes alone; nothing that was ever counted gets into one.

The hash of an entry is the SHA-256 of its number, its kind, its body and the hash of the entry
before it, so an altered entry shows unless every later hash is altered too.  A body is JSON in one
form only (sorted keys, ASCII, no floats, fractions as texts in lowest terms), so that anyone can
recompute the chain.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from eree.errors import Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import EDGE, ESTABLISHMENT, NODE, RECORD, Neighbours, Strong, Weak

ORIGIN = "0" * 64
"""What stands for the hash of an entry before the first."""

_FORMAT = 1
_HASH = re.compile(r"[0-9a-f]{64}")
_ID = re.compile(r"[0-9a-f]{32}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_FRACTION = re.compile(r"([0-9]+)(?:/([0-9]+))?")
_MOST_NAME, _MOST_TOLD = 1_000, 100_000  # characters
_MOST_BITS = 3_300  # about a thousand digits: far beyond any price, and always quick to write


class Row(NamedTuple):
    """An entry as a database holds it."""

    number: int
    kind: str
    body: str
    previous: str
    hash: str

    @classmethod
    def after(cls, last: Row | None, event: Event) -> Row:
        """The row that records an event behind the last one (None: it is the first)."""
        number, previous = (last.number + 1, last.hash) if last else (1, ORIGIN)
        body = event.text()
        return cls(number, event.kind, body, previous, seal(number, event.kind, body, previous))


def seal(number: int, kind: str, body: str, previous: str) -> str:
    """The hash of an entry.  As a JSON list, no two entries share the text that is hashed."""
    return hashlib.sha256(_canonical([number, kind, body, previous]).encode("ascii")).hexdigest()


class _Body(ABC):
    """What the events share: the text of their body."""

    @abstractmethod
    def body(self) -> dict[str, Any]:
        """The body as a dictionary, as JSON holds it."""

    def text(self) -> str:
        """The body in its one form."""
        return _canonical(self.body())


@dataclass(frozen=True)
class Created(_Body):
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
        """The body as a dictionary, as JSON holds it."""
        named = {"data_set": self.data_set, "identity": self.identity, "format": _FORMAT}
        return named | {"at": self.at, "total": guarantee_body(self.total)}

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Created:
        """The event that a body tells of."""
        total = _guarantee(body["total"])
        return cls(body["identity"], body["data_set"], total, body["at"])


@dataclass(frozen=True)
class Reserved(_Body):
    """A price was taken out of the budget, before anything was drawn for its release."""

    kind: ClassVar[str] = "reserve"
    release: str
    what: Mapping[str, str]
    price: Guarantee
    at: str

    def __post_init__(self) -> None:
        check_name(self.release, "the id of the release")
        if not isinstance(self.what, Mapping):
            raise Refusal("what is released must be told as names with a text each")
        for name, told in self.what.items():
            check_name(name, "a name in what is released")
            check_name(told, f"what is released ({name})", most=_MOST_TOLD)
        object.__setattr__(self, "what", MappingProxyType(dict(self.what)))
        check_guarantee(self.price, "the price")
        _check_moment(self.at)

    def body(self) -> dict[str, Any]:
        """The body as a dictionary, as JSON holds it."""
        told = {"at": self.at, "release": self.release, "what": dict(self.what)}
        return told | {"price": guarantee_body(self.price)}

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Reserved:
        """The event that a body tells of."""
        return cls(body["release"], body["what"], _guarantee(body["price"]), body["at"])


@dataclass(frozen=True)
class Settled(_Body):
    """A release was written; `digest` is its SHA-256, `reserved` the hash of its reservation."""

    kind: ClassVar[str] = "settle"
    reservation: int
    reserved: str
    digest: str
    at: str

    def __post_init__(self) -> None:
        _must(type(self.reservation) is int, "a reservation is named by the number of its entry")
        _must(bool(_HASH.fullmatch(self.reserved)), "a hash is 64 hexadecimal digits")
        _must(
            isinstance(self.digest, str) and bool(_HASH.fullmatch(self.digest)),
            "the digest of a release is its SHA-256: 64 hexadecimal digits, in lower case",
        )
        _check_moment(self.at)

    def body(self) -> dict[str, Any]:
        """The body as a dictionary, as JSON holds it."""
        named = {"reservation": self.reservation, "reserved": self.reserved}
        return named | {"at": self.at, "digest": self.digest}

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Settled:
        """The event that a body tells of."""
        return cls(body["reservation"], body["reserved"], body["digest"], body["at"])


Event = Created | Reserved | Settled

_READERS: Mapping[str, Callable[[Mapping[str, Any]], Event]] = {
    Created.kind: Created.of,
    Reserved.kind: Reserved.of,
    Settled.kind: Settled.of,
}


@dataclass(frozen=True)
class Entry:
    """One entry of a ledger that was read and understood."""

    number: int
    event: Event
    hash: str

    @property
    def kind(self) -> str:
        """What happened: `create`, `reserve` or `settle`."""
        return self.event.kind

    def as_json(self) -> dict[str, Any]:
        """The entry as `eree ledger show --json` prints it."""
        told = {"number": self.number, "kind": self.kind, "hash": self.hash}
        return told | self.event.body()


@lru_cache(maxsize=10_000)  # a ledger is read as a whole for every entry that is added to it
def read_event(kind: str, body: str) -> Event | None:
    """The event of a row, or None where it is not written exactly as a ledger writes it.

    Writing the event once more must give the same text.  That alone rules out unknown settings,
    floats, fractions that are not in lowest terms, and any other form of the same JSON.
    """
    try:
        event = _READERS[kind](json.loads(body))
        return event if event.text() == body else None
    except (Refusal, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None
    except RecursionError:  # brackets within brackets within brackets
        return None


def guarantee_body(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee as JSON holds it, exactly."""
    relation = guarantee.neighbours
    neighbours: dict[str, Any] = {"name": relation.name}
    if isinstance(relation, (Strong, Weak)):
        neighbours["alpha"] = str(relation.alpha)
    if isinstance(relation, Weak):
        neighbours["types"] = list(relation.types)
    return {
        "neighbours": neighbours,
        "epsilon": str(guarantee.epsilon),
        "delta": str(guarantee.delta),
    }


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


def _guarantee(body: Mapping[str, Any]) -> Guarantee:
    return Guarantee(
        _relation(body["neighbours"]), _fraction(body["epsilon"]), _fraction(body["delta"])
    )


def _relation(body: Mapping[str, Any]) -> Neighbours:
    match body["name"]:
        case "strong":
            return Strong(_fraction(body["alpha"]))
        case "weak":
            return Weak(_fraction(body["alpha"]), body["types"])
        case "edge":
            return EDGE
        case "node":
            return NODE
        case "record":
            return RECORD
        case "establishment":
            return ESTABLISHMENT
    raise ValueError


def _fraction(text: str) -> Fraction:
    """A fraction as we write it; Fraction itself also reads 1e999999999, and computes it."""
    found = _FRACTION.fullmatch(text)
    if found is None:
        raise ValueError
    return Fraction(int(found[1]), int(found[2] or 1))


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _check_moment(moment: str) -> None:
    _must(bool(_MOMENT.fullmatch(moment)), "a time is UTC, such as 2026-07-14T12:00:00Z")


def _must(holds: bool, rule: str) -> None:
    if not holds:
        raise Refusal(rule)
