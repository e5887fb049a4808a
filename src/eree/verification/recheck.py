"""What is rechecked of every release: its record, its files, its signature and its ledger."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from eree.budget.account import Account
from eree.budget.entries import Entry, Reserved
from eree.budget.ledger import Ledger
from eree.errors import Fault, Faulty, Refusal, how_many
from eree.policy.neighbours import Weak
from eree.policy.plain_data import guarantee_of
from eree.policy.protected import Protected
from eree.release.record import RECORD, digest_of, file_fault, record_text
from eree.release.release import Release
from eree.release.settings import About
from eree.release.signature import signature_holds

Progress = Callable[[str, float], None]
#: What a record of another shape than ours raises where it is believed.
_MISWRITTEN = (
    *(LookupError, TypeError, ValueError, AttributeError),
    *(ArithmeticError, RecursionError, pa.ArrowException),
)
#: What is wrong with a rehearsal, however well it went.
REHEARSAL = "it was made of synthetic data to try a plan: it is no release"
#: Names of ledgers and of releases, and hashes of entries.
_NAME, _HASH = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, repr=False)
class Verification:
    """What was rechecked; false if there is a fault.

    Attributes:
        checks: What was rechecked.
        faults: Every fault that was found.
        kept: How many certificates were not computed now but taken from the user's cache.

    Examples:
        >>> eree.verify("out", ledger=eree.Ledger.open("ledger.db")).faults
        ()
    """

    checks: tuple[str, ...]
    faults: tuple[Fault, ...]
    kept: int = 0

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    def __bool__(self) -> bool:
        return self.sound

    def __repr__(self) -> str:
        found = "; ".join(map(str, self.faults)) or "sound"
        return f"<Verification, {how_many(len(self.checks), 'check')}: {found}>"


class Recheck(ABC):
    """One pass over a release; collects faults instead of stopping at the first."""

    def __init__(self, release: Release, tell: Progress) -> None:
        self.release, self.record, self.tell = release, release.record, tell
        self.faults: list[Fault] = []
        self.checks: list[str] = []
        self.kept = 0

    def fault(self, place: str, rule: str, file: str = RECORD) -> None:
        """Note a fault."""
        self.faults.append(Fault("release", file, place, rule))

    #: The folders of a release, which are parts of its record as well.
    homes: tuple[str, ...] = ("tables",)

    @property
    def promised(self) -> bool:
        """Whether a release of this kind is private, if its source is secret."""
        return True

    def beside(self, _name: str) -> bool:
        """Whether a file or folder may lie beside the tables, and is checked by itself."""
        return False

    @abstractmethod
    def contents(self) -> None:
        """Check what is particular to a kind of release."""

    @abstractmethod
    def declared(self) -> Protected:
        """What the record says is protected; refuses one that contradicts the rest of it."""

    def all(self, ledger: Ledger | None, public_key: str | None) -> Verification:
        """Check everything; `ledger` and `public_key` are those that it must belong to."""
        try:
            self._digest(public_key)
            self._files()
            if not self.faults:  # what follows believes the record and the files
                self.contents()
                protects = self._protects()
                if ledger is not None and protects is not None:
                    self._ledger(ledger, protects, signed=public_key is not None)
                if not self.faults:
                    self._paid()
        except _MISWRITTEN:
            self.fault("", "is not written as a release's record is")
        except OSError:
            self.fault("", "cannot be read to its end")
        except Refusal as refusal:
            self.fault("", str(refusal))
        if self.release.rehearsal:
            self.fault("rehearsal", REHEARSAL)
        return Verification(tuple(self.checks), tuple(self.faults), self.kept)

    # ------------------------------------------------------------- the record and the files

    def _digest(self, public_key: str | None) -> None:
        self.tell("checking the record", 0.0)
        if self.record.get("digest") != digest_of(self.record):
            self.fault("digest", "is not that of the record: something in it was changed")
        # bytes, because a text has one line end for all kinds of them
        text = (self.release.folder / RECORD).read_bytes()
        if text != record_text(self.record).encode():
            self.fault("", "is not written as a release writes it")
        signature = self.record.get("signature")
        if signature is not None and not signature_holds(signature, str(self.record["digest"])):
            self.fault("signature", "does not belong to this record")
        elif public_key is not None and (signature or {}).get("public_key") != public_key:
            self.fault("signature", "was not made with the key that was given")
        private = self.record.get("private")
        if private is not self.promised and private is True:
            self.fault("private", "is said of a release that gives away more than its price")
        elif private is not self.promised or (not private and "ledger" not in self.record):
            self.fault("private", "the noise was drawn from a seeded source: nothing is protected")
        self.checks.append("the record is the one that was written")
        if signature is not None:
            self.checks.append(f"the signature is by the key {signature['public_key'][:16]}…")

    def _files(self) -> None:
        folder, listed, folders = self.release.folder, set[str](), {"tables"}
        within: list[tuple[str, str]] = []
        for home in self.homes:
            own = self.record[home] if home == "tables" else self.record.get(home, ())
            for file, digest in [pair for one in own for pair in one["files"].items()]:
                if Path(file).parent != Path(home):
                    self.fault("", f"lies outside the {home} of the release", file)
                else:
                    within.append((file, digest))
                listed.add(file)
                folders.add(home)
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            rules = threads.map(lambda one: file_fault(folder / one[0], one[1]), within)
            for (file, _), wrong in zip(within, rules, strict=True):
                if wrong:
                    self.fault("", wrong, file)
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if self.beside(name):
                continue
            if name not in (*listed, RECORD) and not (path.is_dir() and name in folders):
                self.fault("", "is not part of the release", name)
            elif path.is_symlink():
                self.fault("", "is a link to something else, and no part of the release", name)
        one = "1 file is the one that was written"
        several = f"{len(listed)} files are the ones that were written"
        self.checks.append(one if len(listed) == 1 else several)

    def _protects(self) -> Protected | None:
        """What a neighbour is hangs on the declaration: a record has all that its guarantee names.

        What it has beside it are the types of the ledger that paid.
        """
        period = self.record["period"]
        if not isinstance(period, str) or not (period.isprintable() and len(period) <= 1_000):
            self.fault("period", "is not a text of printable characters")
        self._about()
        try:
            found = self.declared()
        except Refusal as refusal:
            self.fault("protects", str(refusal))
            return None
        relation = guarantee_of(self.record["guarantee"]).neighbours
        for name in relation.types if isinstance(relation, Weak) else ():
            if name not in found.declared["types"]:
                self.fault("protects", f"does not say what the worker type {name} is")
        self.checks.append(f"what is protected of the data set {found.data_set} is declared")
        return found

    def _about(self) -> None:
        """What is said of the release, and of each table, is written as a plan may say it."""
        said = {"about": self.record["about"]}
        if "kind" not in self.record:
            said |= {f"table {one['name']}.about": one["about"] for one in self.record["tables"]}
        for place, words in said.items():
            try:
                About.of(words)
            except Faulty as faulty:
                for fault in faulty.faults:
                    self.fault(f"{place}.{fault.column}".rstrip("."), fault.rule)

    def _paid(self) -> None:
        """Secret noise is never drawn without a payment: a record says which, and for what."""
        said, release = self.record.get("ledger"), self.record.get("release")
        if not isinstance(release, str) or not _NAME.fullmatch(release):
            self.fault("release", "is not the name of a release")
        if not isinstance(said, dict) or set(said) != {"id", "entry", "hash"}:
            self.fault("ledger", "is not recorded: every release that is private was paid for")
        elif not (
            all(isinstance(said[name], str) for name in ("id", "hash"))
            and _NAME.fullmatch(said["id"])
            and _HASH.fullmatch(said["hash"])
            and type(said["entry"]) is int
            and said["entry"] > 1  # the first entry of a ledger pays for nothing
        ):
            self.fault("ledger", "is not written as the entry of a ledger that paid")

    def _ledger(self, ledger: Ledger, protects: Protected, *, signed: bool) -> None:
        """Compare with the entry that paid; `signed` is one whose signature was asked for."""
        said, account = self.record.get("ledger"), ledger.account()
        if said is None or said["id"] != account.identity:
            self.fault("ledger", f"is not the one in {ledger.name}")
            return
        entry = next((e for e in account.entries if e.number == said["entry"]), None)
        if entry is None or entry.hash != said["hash"] or not isinstance(entry.event, Reserved):
            self.fault("ledger", f"entry {said['entry']} is not the one that paid for this release")
            return
        if entry.event.release != self.release.identity:
            self.fault("ledger", f"entry {said['entry']} paid for another release")
        if entry.event.price != guarantee_of(self.record["guarantee"]):
            self.fault("ledger", f"entry {said['entry']} paid another price")
        if protects.data_set != account.data_set:
            self.fault("protects", f"is not of the data set {account.data_set} of the ledger")
        elif entry.event.declaration != protects.under(account.total.neighbours).digest:
            self.fault("protects", f"is not the declaration that entry {said['entry']} paid under")
        if entry.event.period != self.record["period"]:
            self.fault("period", f"is not the one that entry {said['entry']} paid for")
        if entry.event.what.get("title", "") != self.record["about"].get("title", ""):
            self.fault("about.title", f"is not the one that entry {said['entry']} paid for")
        self._settled(account, entry, signed=signed)

    def _settled(self, account: Account, entry: Entry, *, signed: bool) -> None:
        """An entry that is not settled names no digest, so whoever can read it could claim it."""
        number, state = entry.number, account.state(entry.number)
        if state == "closed":
            self.fault("ledger", f"entry {number} is closed: it pays for no release")
        elif state == "settled" and account.settled[number] != self.record["digest"]:
            self.fault("ledger", f"entry {number} was settled with another release")
        elif state != "settled" and not signed:
            self.fault(
                "ledger",
                f"entry {number} was never settled, so anyone who can read the ledger could claim"
                " it; give the key that must have signed the release with --key, or let someone"
                f" who may write the ledger settle it: eree ledger close LEDGER {number} --release"
                " DIR",
            )
        words = "settled" if state == "settled" else "reserved, never settled"
        self.checks.append(f"entry {number} of the ledger paid for it ({words})")
