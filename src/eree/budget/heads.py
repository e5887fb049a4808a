"""Heads of a ledger, kept elsewhere: how a ledger that was rolled back is found.

A chain does not know how long it once was: an older copy of a ledger is a sound ledger.  So the
office names a second place, and whoever spends compares the ledger with it first.  That is a file,
to which the number and the hash of every new entry are added, or a folder of releases, each of
which records the entry that paid for it.

A head is written after its entry is on disk, so that a crash between the two leaves a place that
knows less than the ledger, and never one that knows more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from eree.budget.entries import check_name
from eree.budget.files import opened, sync_folder
from eree.errors import Refusal

#: Lines of processes that add at the same moment may be swapped, so more than the last one is read.
_TAIL_BYTES = 1 << 12
_ADDING = os.O_RDWR | os.O_APPEND
_RECORD = "release.json"
_FILE_NAMES, _RELEASE_NAMES = ("ledger", "entry", "hash"), ("id", "entry", "hash")


class Head(NamedTuple):
    """An entry that a ledger must hold."""

    ledger: str
    number: int
    hash: str


#: Looks up the hashes of entries by their numbers; those that are not there are left out.
Lookup = Callable[[Iterable[int]], Mapping[int, str]]


@dataclass(frozen=True)
class Heads:
    """The place where heads are kept: a file, or a folder of releases."""

    place: Path
    folder: bool

    @classmethod
    def at(cls, place: str | os.PathLike[str]) -> Heads:
        """A place to be named, by its full path, so that it is the same for whoever spends."""
        try:
            path = Path(place).absolute()
            return cls(path, path.is_dir())
        except (OSError, ValueError):
            raise Refusal(
                "the place for the ledger's heads cannot be looked at; name a file, or a folder"
                " of releases"
            ) from None

    @classmethod
    def named(cls, text: str) -> Heads:
        """The place that an entry names; what was named as a folder must still be one."""
        return cls(Path(text), text.endswith("/"))

    @property
    def text(self) -> str:
        """The place as an entry names it: a folder ends with a slash."""
        return f"{str(self.place).rstrip('/')}/" if self.folder else str(self.place)

    def prepare(self) -> None:
        """Refuse to name a place that cannot be written, or that holds something else."""
        check_name(self.text, "the place of a ledger's heads")
        try:
            if self.folder:
                next(self.place.iterdir(), None)
                return
            if not os.path.lexists(self.place):
                if not os.access(self.place.parent, os.W_OK | os.X_OK):
                    raise PermissionError
                return
            with opened(self.place, os.O_RDWR) as handle:
                begun = os.read(handle, _TAIL_BYTES).split(b"\n")[0]
        except OSError:
            raise Refusal(
                f"heads cannot be kept in {self.text}; name a file that may be written, in a"
                " folder that exists, or a folder of releases"
            ) from None
        if begun and not list(_head(begun, _FILE_NAMES)):
            raise Refusal(
                f"{self.place} is no file of heads, and is left alone; name a new file, or a"
                " folder of releases"
            )

    def of(self, ledger: str, *, whole: bool = False) -> list[Head]:
        """What is kept here of one ledger: the last of it or, if `whole`, everything."""
        try:
            if self.folder:
                return [head for head in self._released() if head.ledger == ledger]
            for most in (*(() if whole else (_TAIL_BYTES,)), None):
                # a file may be shared, and the end of it be about other ledgers alone
                if kept := [head for head in self._written(most) if head.ledger == ledger]:
                    return kept
            return []
        except OSError:
            raise self._refused("cannot be read") from None

    def check(
        self,
        ledger: str,
        lookup: Lookup,
        released: Callable[[], bool],
        kept: list[Head] | None = None,
    ) -> None:
        """Refuse a ledger that has forgotten an entry, or that this place does not know.

        A folder may be empty as long as nothing was `released`.
        """
        kept = self.of(ledger) if kept is None else kept
        if not kept and (not self.folder or released()):
            raise self._refused("says nothing of this ledger")
        found = lookup({head.number for head in kept})
        for head in kept:
            if found.get(head.number) != head.hash:
                raise Refusal(
                    f"{self.place} knows entry {head.number} of this ledger, and the ledger does"
                    " not: entries were lost, or an older copy took its place; nothing can be"
                    " spent until the whole ledger is back"
                )

    def check_left(
        self, ledger: str, lookup: Lookup, released: Callable[[], bool], lost: bool
    ) -> None:
        """The same for a place that is left for another; it may be `lost` if that one knows it.

        The other may be a copy as old as the ledger, which does not know what was forgotten either.
        """
        kept: list[Head] = []
        with suppress(Refusal) if lost else nullcontext():
            kept = self.of(ledger)
        if kept or not lost:
            self.check(ledger, lookup, released, kept)

    def keep(self, head: Head, *, first: bool = False) -> None:
        """Add a head, durably; the `first` one makes the file.  No folder is written to."""
        if self.folder:
            return
        stated = dict(zip(_FILE_NAMES, head, strict=True))
        line = f"{json.dumps(stated)}\n".encode()
        try:
            with opened(self.place, _ADDING | (os.O_CREAT if first else 0)) as handle:
                size = os.fstat(handle).st_size
                if size and os.pread(handle, 1, size - 1) != b"\n":
                    line = b"\n" + line  # behind one that was cut off
                if os.write(handle, line) != len(line):
                    raise OSError
                os.fsync(handle)
            if first:
                sync_folder(self.place.parent)
        except OSError:
            raise Refusal(
                f"entry {head.number} is in the ledger and counts, but its head cannot be written"
                f" to {self.place}; see that there is room and that it may be written, before"
                " anything is spent"
            ) from None

    def ready(self) -> None:
        """Refuse, before anything is spent, where a head could not be written afterwards."""
        if self.folder:
            return
        try:
            with opened(self.place, _ADDING):
                pass
        except OSError:
            raise self._refused("cannot be written") from None

    def _written(self, most: int | None) -> Iterator[Head]:
        """The lines of the file, or those in so many bytes at its end."""
        try:
            with (
                opened(self.place, os.O_RDONLY) as handle,
                open(handle, "rb", closefd=False) as file,
            ):
                size = os.fstat(handle).st_size
                begin = 0 if most is None else max(size - most, 0)
                file.seek(begin)
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return
        for line in lines[1 if begin else 0 :]:
            yield from _head(line, _FILE_NAMES)

    def _released(self) -> Iterator[Head]:
        """The entry that paid for each release in the folder."""
        for folder in sorted(self.place.iterdir()):
            record = folder / _RECORD
            if record.is_file():
                yield from _head(record.read_bytes(), _RELEASE_NAMES, within="ledger")

    def _refused(self, words: str) -> Refusal:
        return Refusal(
            f"heads of the ledger are kept in {self.text}, which {words}, so nothing is spent; put"
            " it back, or name another place that holds them with 'eree ledger heads'"
        )


def _head(text: bytes, names: tuple[str, str, str], within: str | None = None) -> Iterator[Head]:
    """The head that a text tells of, if it tells of one."""
    try:
        stated: Any = json.loads(text)
        stated = stated if within is None else stated[within]
        ledger, number, digest = (stated[name] for name in names)
    except (KeyError, TypeError, ValueError, RecursionError):
        return  # a line that was cut off by a crash, or no release
    if isinstance(ledger, str) and type(number) is int and isinstance(digest, str):
        yield Head(ledger, number, digest)
