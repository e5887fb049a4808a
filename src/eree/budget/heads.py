"""Heads of a ledger, kept elsewhere: how a ledger that was rolled back is found.

A chain does not know how long it once was: an older copy of a ledger is a sound ledger.  So the
office names a second place, and whoever spends compares the ledger with it first.  That is a file,
to which the number and the hash of every new entry are added, or a folder of releases, each of
which records the entry that paid for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from eree.errors import Refusal

#: Lines of processes that add at the same moment may be swapped, so more than the last one is read.
_TAIL_BYTES = 1 << 14
_RECORD = "release.json"


class Head(NamedTuple):
    """An entry that a ledger must hold."""

    ledger: str
    number: int
    hash: str


@dataclass(frozen=True)
class Heads:
    """The place where heads are kept: a file, or a folder of releases."""

    place: Path

    @classmethod
    def at(cls, place: str | os.PathLike[str]) -> Heads:
        """A place by its full path, so that it is the same for whoever spends."""
        try:
            return cls(Path(place).absolute())
        except OSError:
            raise Refusal("the place for the ledger's heads cannot be looked at") from None

    def of(self, ledger: str) -> list[Head]:
        """What is kept here of one ledger."""
        try:
            found = self._released() if self.place.is_dir() else self._written()
            return [head for head in found if head.ledger == ledger]
        except (OSError, RuntimeError):  # a link to itself is a RuntimeError
            raise self._refused("cannot be read") from None

    def check(self, ledger: str, hash_of: Callable[[int], str | None]) -> None:
        """Refuse to spend from a ledger that has forgotten an entry; `hash_of` looks one up."""
        kept = self.of(ledger)
        if not kept and not self.place.is_dir():
            raise self._refused("says nothing of it")
        for head in kept:
            if hash_of(head.number) != head.hash:
                raise Refusal(
                    f"{self.place} knows entry {head.number} of this ledger, and the ledger does"
                    " not: entries were lost, or an older copy took its place; nothing can be"
                    " spent until the whole ledger is back"
                )

    def keep(self, head: Head) -> None:
        """Add a head, durably; a folder of releases is not written to."""
        if self.place.is_dir():
            return
        line = json.dumps({"ledger": head.ledger, "entry": head.number, "hash": head.hash})
        try:
            handle = os.open(self.place, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                os.write(handle, f"{line}\n".encode())
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError:
            words = f"cannot be written, so that entry {head.number} has no head there"
            raise self._refused(words) from None

    def _written(self) -> Iterator[Head]:
        """The last lines of the file, where there is one."""
        try:
            with self.place.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - _TAIL_BYTES, 0))
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return
        for line in lines[1 if size > _TAIL_BYTES else 0 :]:
            yield from _head(line, ("ledger", "entry", "hash"))

    def _released(self) -> Iterator[Head]:
        """The entry that paid for each release in the folder."""
        for record in sorted(self.place.glob(f"*/{_RECORD}")):
            yield from _head(record.read_bytes(), ("id", "entry", "hash"), within="ledger")

    def _refused(self, words: str) -> Refusal:
        return Refusal(
            f"heads of the ledger are kept in {self.place}, which {words}; put it right, or name"
            " another place that holds them with 'eree ledger heads'"
        )


def _head(text: bytes, names: tuple[str, str, str], within: str | None = None) -> Iterator[Head]:
    """The head that a text tells of, if it tells of one."""
    try:
        told: Any = json.loads(text)
        told = told if within is None else told[within]
        ledger, number, digest = (told[name] for name in names)
    except (KeyError, TypeError, ValueError, RecursionError):
        return  # a line that was cut off by a crash, or no release
    if isinstance(ledger, str) and type(number) is int and isinstance(digest, str):
        yield Head(ledger, number, digest)
