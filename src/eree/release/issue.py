"""Issuing a release: pay, make, let it appear, settle.

The order never changes: the price is reserved in the ledger before anything is made; then the
files are made beside their place; then they appear, all at once; then the reservation is settled
with the digest of what appeared.  Whatever stops in between, the price stays spent and nothing is
half published, and whoever reads that a release failed knows from the same sentence whether its
price is spent and whether the release is there all the same.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from eree.budget.ledger import Ledger
from eree.budget.reservation import Reservation
from eree.errors import Cost, Refusal
from eree.partial import kind_of, not_writable, partial_folder
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import plain
from eree.policy.protected import Protected
from eree.random.source import Random, fresh_name
from eree.release.record import RECORD, digest_of, record_text
from eree.release.release import Release
from eree.release.settings import About
from eree.release.signature import Signer

Progress = Callable[[str, float], None]
#: Draws, writes the files of a release into a folder, and returns what the record says of them.
Make = Callable[[Path, str], dict[str, Any]]
#: A disk without room for this is refused before anything is paid.
_TRIAL_BYTES = 1 << 20


@dataclass(frozen=True)
class Issue:
    """One release to come: its price, what it protects, where it appears, who pays and signs.

    `period` is the time that the release is about, and `about` what else is said of it.  A
    `rehearsal` is no release, says so in its record, and has no signature.
    """

    price: Guarantee
    protects: Protected
    target: Path
    ledger: Ledger | None
    random: Random
    signer: Signer | None = None
    period: str = ""
    about: About = field(default_factory=About)
    rehearsal: bool = False

    def __post_init__(self) -> None:
        if self.rehearsal and self.signer is not None:
            raise Refusal("a rehearsal is no release and is not signed; leave the key out")
        if self.ledger is None and self.random.secret:
            raise Refusal(
                "a release must be paid for; make a ledger with 'eree ledger create' and name it"
            )
        if self.ledger is not None and not self.random.secret:
            raise Refusal(
                "a release drawn from a seeded source is not private and cannot be paid for"
            )

    def issue(self, make: Make, what: Mapping[str, str], tell: Progress) -> Path:
        """Pay, make, let it appear and settle; `what` says in names what is released."""
        release = fresh_name()
        payment = Payment(self.price, release, self.target)
        with payment.reporting(), _in_the_making(self.target) as folder:
            reserved = None
            if self.ledger is not None:
                tell("reserving the price", 0.0)
                bound = self.protects.under(self.ledger.total.neighbours)
                if self.about.title:
                    what = {"title": self.about.title, **what}
                reserved = payment.reserve(self.ledger, what, bound, self.period)
            record = make(folder, release)
            record |= {"protects": self.protects.as_json(), "period": self.period}
            record["about"] = self.about.as_json()
            if self.rehearsal:
                record["rehearsal"] = True
            if reserved is not None:
                record["ledger"] = {
                    "id": reserved.ledger,
                    "entry": reserved.number,
                    "hash": reserved.hash,
                }
            record["digest"] = digest_of(record)
            if self.signer is not None:
                record["signature"] = self.signer.sign(record["digest"])
            (folder / RECORD).write_text(record_text(record), encoding="utf-8")
            _settle_on_disk(folder)
            _appear(folder, self.target)
            if self.ledger is not None and reserved is not None:
                tell("settling", 0.99)
                payment.settle(self.ledger, record["digest"])
            tell("done", 1.0)
        return self.target


def new_folder(out: Path) -> Path:
    """Where a release may appear; asked before anything is paid."""
    try:
        target = out.resolve()
        taken = target.exists() and (not target.is_dir() or any(target.iterdir()))
        housed = target.parent.is_dir()
    except (OSError, RuntimeError) as error:  # a link to itself is a RuntimeError
        raise Refusal(
            f"{out} cannot be looked at ({kind_of(error)}); name another folder"
        ) from None
    if taken:
        raise Refusal(f"{out} is not a new or empty folder; name another with --out")
    if not housed:
        raise Refusal(f"the folder {out.parent} does not exist; make it first")
    return target


@contextmanager
def _in_the_making(target: Path) -> Iterator[Path]:
    """A folder to fill, beside its later place; what cannot be is refused before it is paid."""
    with partial_folder(target) as folder:
        trial = folder / "trial"
        try:
            trial.write_bytes(bytes(_TRIAL_BYTES))
            trial.unlink()
        except OSError as error:
            raise not_writable(target.parent, error) from None
        _vacate(target)
        yield folder


def _vacate(target: Path) -> None:
    """Remove an empty folder: one that cannot be replaced is found before anything is paid."""
    try:
        if target.exists():
            target.rmdir()
    except OSError as error:
        raise Refusal(
            f"{target} cannot be replaced ({kind_of(error)}); name a new folder"
        ) from None


def _appear(folder: Path, target: Path) -> None:
    """Give a whole folder its name, at once."""
    try:
        folder.rename(target)
    except OSError:
        if os.path.lexists(target):
            raise Refusal(f"{target} was filled meanwhile; name another folder") from None
        raise
    with suppress(OSError):
        folder.parent.rmdir()
    _sync(target.parent)


def _settle_on_disk(folder: Path) -> None:
    """Make sure that every file is on the disk before the folder appears."""
    for path in sorted(folder.rglob("*")):
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder.

    Some file systems keep the names of a folder unasked, and refuse to be asked; what a disk fails
    to keep is an error all the same.
    """
    folder = path.is_dir()
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if not folder or error.errno in (errno.EIO, errno.ENOSPC, errno.EDQUOT):
            raise


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
