"""What a release has paid so far: reported together with whatever stops it.

Whoever reads that a release failed must know from the same sentence whether its price is spent and
whether the release is there all the same.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from eree.budget.ledger import Ledger, Reservation
from eree.errors import Cost, Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import plain
from eree.policy.protected import Protected
from eree.release.release import Release

_FULL = (errno.ENOSPC, errno.EDQUOT)
_OPEN = "its price stays reserved, and 'eree ledger close --release' settles it"
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass
class Payment:
    """The price of one release, and how far paying it has come."""

    price: Guarantee
    release: str
    target: Path
    paid_from: str = ""
    reserved: Reservation | None = None
    settling: Ledger | None = None
    digest: str = ""

    def reserve(
        self, ledger: Ledger, what: Mapping[str, str], protects: Protected, period: str
    ) -> Reservation:
        """Take the price out of a ledger."""
        self.paid_from = ledger.name
        self.reserved = ledger.reserve(
            self.price, release=self.release, what=what, protects=protects, period=period
        )
        return self.reserved

    def settle(self, ledger: Ledger, digest: str) -> None:
        """Let the ledger know what the price was paid for."""
        assert self.reserved is not None
        self.settling, self.digest = ledger, digest
        ledger.settle(self.reserved, digest)

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Let whatever goes wrong say what it cost.

        What the system or Arrow says may quote a path or a value, so only its kind is passed on.
        """
        try:
            yield
        except Refusal as refusal:
            if self.reserved is not None or not self.paid_from:  # else the ledger has said it
                cost = self.cost
                refusal.args = (f"{refusal}; {cost}",)
                refusal.add_note(cost)
            raise
        except (OSError, pa.ArrowException, MemoryError) as error:
            words, advice = self._failure(error)
            again = "" if self.appeared else f"; {advice} and release again"
            raise Refusal(f"{words}; {self.cost}{again}") from None
        except BaseException as error:
            error.add_note(self.cost)
            raise

    @property
    def cost(self) -> Cost:
        """What was spent, and on what."""
        if self.reserved is None:
            see = "see with 'eree ledger show' whether the price was taken"
            return Cost(see if self.paid_from else "nothing was spent")
        entry = f"entry {self.reserved.number} of {self.paid_from}"
        if self.appeared:
            return Cost(
                f"the release in {self.target} is whole and may be used; {self._state()} ({entry})"
            )
        delta = f" and delta {plain(self.price.delta)}" if self.price.delta else ""
        return Cost(
            f"the price of epsilon {plain(self.price.epsilon)}{delta} is spent ({entry}, never"
            " settled)"
        )

    def _state(self) -> str:
        """Whether the price is settled: the ledger knows, also where settling was interrupted."""
        assert self.reserved is not None
        if self.settling is None:
            return _OPEN
        try:
            account, number = self.settling.account(), self.reserved.number
        except Refusal:
            return "see with 'eree ledger show' whether its price is settled"
        if account.settled.get(number) == self.digest:
            return "its price is settled"
        state = account.state(number)
        if state == "reserved":
            return _OPEN
        how = "closed" if state == "closed" else "settled with another release"
        return f"its entry was {how} meanwhile, so 'eree verify --ledger' does not believe it"

    @property
    def appeared(self) -> bool:
        """Whether the release is in its place: it gets there whole, or not at all."""
        try:
            return Release.open(self.target).identity == self.release
        except (Refusal, KeyError):
            return False

    def _failure(self, error: Exception) -> tuple[str, str]:
        """What happened, and what to do about it."""
        code = error.errno if isinstance(error, OSError) else None
        if code in _FULL:
            return f"the disk of {self.target.parent} is full", "free space"
        if code in _FORBIDDEN:
            return f"nothing can be written in {self.target.parent}", "choose another folder"
        if isinstance(error, MemoryError):
            return "there is not enough memory", "free some"
        kind = os.strerror(code).lower() if code else type(error).__name__
        return f"{self.target} cannot be written ({kind})", "see to that"
