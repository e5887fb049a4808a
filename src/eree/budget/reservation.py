"""What was taken out of a ledger for a release."""

from __future__ import annotations

from dataclasses import dataclass

from eree.policy.guarantee import Guarantee


@dataclass(frozen=True)
class Reservation:
    """A price that was taken out of a ledger for a release.

    A release keeps it: it shows later that the ledger still is the one it was paid from.

    Attributes:
        number: That of its entry.
        hash: That of its entry.
        price: What was taken.
        release: The identity of the release.
        ledger: The identity of the ledger.

    Examples:
        >>> eree.Release.open("out").reservation.ledger == eree.Ledger.open("ledger.db").identity
        True
    """

    number: int
    hash: str
    price: Guarantee
    release: str
    ledger: str
