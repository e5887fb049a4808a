"""What readers send that no address has room for: kept for a day under a short name.

Lists of codes and lines of damage are known to all workers, until the tool is started again.  Each
is named by a digest of what it holds, under a key that the server keeps to itself.  So the same
list has one name in all processes, nobody finds out by a name who sent what, and what was
overwritten by another list, or by half of one, is not found.
"""

from __future__ import annotations

import mmap
import re
import struct
import time
import zlib
from base64 import b32encode
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from itertools import islice
from threading import Lock
from urllib.parse import parse_qsl

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.random.source import fresh_name
from eree.web.dataset import Variable
from eree.web.words import say

#: What the name of a list begins with, and how long the rest of it is.
MARK, _LETTERS = "~", 16
#: Seconds for which a list is kept at most, lists that are, and bytes of one, packed.
KEPT_SECONDS, _SLOTS, _SLOT = 24 * 3600, 1_024, 16_384
#: The same of texts, which are longer.
_TEXTS, _TEXT = 256, 65_536
#: Lists that a process need not unpack again.
_UNPACKED = 32
#: Bytes of what a reader sends, and lines of it that are named because nothing is known of them.
MOST_SENT, MOST_NAMED = 1_000_000, 8
#: Columns of a file with codes.
_MOST_COLUMNS = 200
#: Parts of a form with files, and fields of one without, where each code may be ticked.
_MOST_FIELDS, _MOST_TICKED = 2_000, 50_000
#: How browsers send forms; whatever else is sent is a list itself.
FORMS = FORM, WITH_FILES = "application/x-www-form-urlencoded", "multipart/form-data"
#: Of a place in memory: the name of its list, until when it is kept, who sent it, and its length.
_HEAD, _SENDER = struct.Struct("<16sd8sI"), 8
#: An address with a port behind it, for which one of IPv6 is in brackets.
_WITH_PORT = re.compile(r"(?:\[(.+)\]|([\d.]+))(?::\d+)?")
_BETWEEN = re.compile(r"[,;\t|]")
#: A field of a line with quotation marks in it, and what stands behind it.
_QUOTED = re.compile(r' *(?:"((?:[^"]|"")*)" *(?=[,;\t|]|$)|([^,;\t|]*))([,;\t|]|$)')
_QUOTES = " \"'\ufeff"
_BOUNDARY = re.compile(r'boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))', re.IGNORECASE)
_FIELD = re.compile(rb'(?:^|\n)content-disposition:[^\n]*;\s*name="([^"\n]*)"', re.IGNORECASE)


class Shelf:
    """What readers send, packed in places of memory that processes share if they fork later."""

    def __init__(self, slots: int, slot: int) -> None:
        """So many places of so many bytes each."""
        self._memory, self._slots, self._slot = mmap.mmap(-1, slots * slot), slots, slot
        self._key = fresh_name().encode()

    def put(self, of: str, body: bytes, sender: str) -> str | None:
        """Keep what was sent; the name under which it is found, or none where it is too much.

        Where there is no more room, whoever has most loses the oldest of it: nobody can push out
        what others sent with more than an equal share of the memory.
        """
        packed, name = zlib.compress(body), self._name(of, body)
        if _HEAD.size + len(packed) > self._slot:
            return None
        own = blake2b(sender.encode(), digest_size=_SENDER, key=self._key).digest()
        slot, sent_by = self._slot_for(name, own)
        head = _HEAD.pack(name.encode(), time.time() + KEPT_SECONDS, sent_by, len(packed))
        start = slot * self._slot
        self._memory[start : start + len(head) + len(packed)] = head + packed
        return f"{MARK}{name}"

    def get(self, of: str, name: str, most: int) -> tuple[bytes, float] | None:
        """What is kept under a name, of at most so many bytes, and until when it is."""
        plain = name.removeprefix(MARK)
        if not name.startswith(MARK) or len(plain) != _LETTERS or not plain.isascii():
            return None
        for slot in self._slots_of(plain):
            own, until, _, length = _HEAD.unpack_from(self._memory, slot * self._slot)
            start = slot * self._slot + _HEAD.size
            if own != plain.encode() or until < time.time():
                continue
            try:
                opened = zlib.decompressobj()
                body = opened.decompress(self._memory[start : start + length], most)
            except zlib.error:
                continue
            if self._name(of, body) == plain:
                return body, until
        return None

    def _name(self, of: str, body: bytes) -> str:
        found = blake2b(f"{of}\0".encode() + body, digest_size=10, key=self._key).digest()
        return b32encode(found).decode().lower()

    def _heads(self) -> NDArray[np.uint8]:
        """The names, times and senders of all slots, a row for each."""
        whole = np.frombuffer(self._memory, dtype=np.uint8).reshape(self._slots, self._slot)
        found: NDArray[np.uint8] = whole[:, : _LETTERS + 8 + _SENDER].copy()
        return found

    def _slots_of(self, name: str) -> list[int]:
        own = np.frombuffer(name.encode(), dtype=np.uint8)
        found: list[int] = np.flatnonzero((self._heads()[:, :_LETTERS] == own).all(1)).tolist()
        return found

    def _slot_for(self, name: str, sender: bytes) -> tuple[int, bytes]:
        """Where a list goes, and whose it is then: where it is already, a free place, or another's.

        Two processes that choose the same place at once lose one list, which nobody finds then.
        """
        heads = self._heads()
        until = heads[:, _LETTERS:-_SENDER].copy().view(np.float64).ravel()
        sent_by = heads[:, -_SENDER:].copy().view(np.uint64).ravel()
        own = np.frombuffer(sender, dtype=np.uint64)[0]
        if known := self._slots_of(name):  # two sent it: it is that one's who has fewer
            first, there = sent_by[known[0]], sent_by[until >= time.time()]
            fewer = np.count_nonzero(there == own) < np.count_nonzero(there == first)
            return known[0], sender if fewer else first.tobytes()
        if until.min() >= time.time():  # all are taken
            senders, where, counts = np.unique(sent_by, return_inverse=True, return_counts=True)
            mine = counts + (senders == own)
            until = np.where(mine[where] == mine.max(), until, np.inf)
        return int(np.argmin(until)), sender


class CodeLists(Shelf):
    """Lists of places of codes, and lines of damage, in memory that processes share."""

    def __init__(self) -> None:
        super().__init__(_SLOTS, _SLOT)
        self._texts = Shelf(_TEXTS, _TEXT)
        self._lock = Lock()
        self._unpacked: OrderedDict[tuple[str, str], tuple[float, tuple[int, ...]]] = OrderedDict()

    def keep(self, of: str, count: int, places: Iterable[int], sender: str = "") -> str:
        """Keep the places of some of so many codes; the name under which they are found."""
        chosen = np.zeros(count, dtype=np.bool_)
        chosen[list(places)] = True
        found = self.put(of, np.packbits(chosen).tobytes(), sender)
        if found is None:
            raise Refusal(say("this list has too many codes that follow no order; send half of it"))
        return found

    def find(self, of: str, count: int, name: str) -> tuple[int, ...] | None:
        """The places of codes that are kept under a name; nothing where it is not known."""
        with self._lock:
            until, places = self._unpacked.get((of, name), (0.0, ()))
        if until > time.time():
            return places
        kept = self.get(of, name, (count + 7) // 8)
        if kept is None:
            return None
        chosen = np.unpackbits(np.frombuffer(kept[0], dtype=np.uint8), count=count)
        places = tuple(np.flatnonzero(chosen).tolist())
        with self._lock:
            self._unpacked[of, name] = kept[1], places
            while len(self._unpacked) > _UNPACKED:
                self._unpacked.popitem(last=False)
        return places

    def keep_text(self, of: str, text: str, sender: str = "") -> str:
        """Keep a text; the name under which it is found, or nothing where it is too long."""
        body = text.encode()
        return (self._texts.put(of, body, sender) if len(body) <= MOST_SENT else None) or ""

    def find_text(self, of: str, name: str) -> str | None:
        """The text that is kept under a name; nothing where it is not known."""
        kept = self._texts.get(of, name, MOST_SENT)
        return None if kept is None else kept[0].decode()


def sender_of(client: str, forwarded: str) -> str:
    """Who sends something: an address, or the network that one reader has of IPv6.

    A proxy on this machine says whom it asks for; the last that it names is whom it sees itself.
    """
    try:
        found = _plain_address(client)
        if found.is_loopback and forwarded:
            found = _plain_address(forwarded.rpartition(",")[2].strip())
    except ValueError:
        return ""
    if isinstance(found, IPv6Address):
        return str(IPv6Network((found, 64), strict=False))
    return str(found)


def _plain_address(text: str) -> IPv4Address | IPv6Address:
    """An address without its port; it may be one of IPv4 that is written as one of IPv6."""
    with_port = _WITH_PORT.fullmatch(text)
    found = ip_address(text if with_port is None else with_port[1] or with_port[2])
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


@dataclass(frozen=True)
class Listed:
    """What a text names: codes and groups, and the line that was taken for a heading."""

    codes: tuple[str, ...]
    heading: str


def codes_in(variable: Variable, text: str, *, skip: bool = False) -> Listed:
    """The codes and groups that the lines of a text name, alone or in one column of a file.

    Refuses lines that name none, but for a first one without digits or of a file, which is a
    heading; with `skip` they are left out.
    """
    lines = [line for line in map(str.strip, text.splitlines()) if line.strip(_QUOTES)]
    fields = [_fields(variable, line) for line in lines]
    column = _column(variable, fields) if any(len(row) > 1 for row in fields) else None
    found, unknown, heading = list[str](), list[str](), ""
    for number, line in enumerate(lines):
        named = _named(variable, fields[number], column, line)
        found += named
        if not named and not number and (column is not None or not any(map(str.isdigit, line))):
            heading = line
        elif not named:
            unknown.append(line)
    if unknown and not skip:
        shown = "; ".join(repr(line[:40]) for line in unknown[:MOST_NAMED])
        given = {"name": variable.name, "lines": shown, "count": f"{len(unknown):,}"}
        if len(unknown) == 1:
            raise Refusal(say("1 line names no code of %(name)s: %(lines)s", **given))
        if len(unknown) <= MOST_NAMED:
            raise Refusal(say("%(count)s lines name no code of %(name)s: %(lines)s", **given))
        said = say("%(count)s lines name no code of %(name)s: %(lines)s and others", **given)
        raise Refusal(said)
    if not found:
        raise Refusal(say("no line names a code of %(name)s", name=variable.name))
    return Listed(tuple(dict.fromkeys(found)), heading)


def _named(variable: Variable, row: Sequence[str], column: int | None, line: str) -> list[str]:
    """The codes of a line: in a column of a file, or all of its words."""
    if variable.declares(row[0]) and (column is None or len(row) == 1):
        return [row[0]]
    if column is not None:
        return [field for field in row[column : column + 1] if variable.declares(field)]
    words = [word.strip(_QUOTES) for word in line.split()]
    return words if all(map(variable.declares, words)) else []


def _fields(variable: Variable, line: str) -> list[str]:
    """The fields of a line, without quotation marks around them; a code alone may hold anything."""
    if variable.declares(line):
        return [line]
    if '"' in line:
        found = [(inner or plain).replace('""', '"') for inner, plain, _ in _quoted(line)]
    else:
        found = _BETWEEN.split(line, _MOST_COLUMNS)
    if len(found) > _MOST_COLUMNS:
        raise Refusal(
            say(
                "a line has more than %(most)s columns; put each code on a line of its own",
                most=_MOST_COLUMNS,
            )
        )
    known = variable.kept_by
    return [field if field in known else field.strip(_QUOTES) for field in map(str.strip, found)]


def _quoted(line: str) -> list[tuple[str, str, str]]:
    """The same of a line in which quotation marks may stand around what is between fields."""
    found = []
    for match in islice(_QUOTED.finditer(line), _MOST_COLUMNS + 1):
        found.append((match[1] or "", match[2] or "", match[3]))
        if not match[3]:
            break
    return found


def _column(variable: Variable, rows: Sequence[Sequence[str]]) -> int:
    """The column of a file that has the codes: the one of this name, or with most of them."""
    called = {variable.name.casefold(), variable.label.casefold()}
    for column, field in enumerate(rows[0]):
        if field.casefold() in called:
            return column
    codes, groups = Counter[int](), Counter[int]()
    for row in rows:
        for column, field in enumerate(row):
            if field in variable.kept_by:  # as all codes are
                groups[column] += 1
                codes[column] += field in variable.places
    columns = range(max(map(len, rows)))
    best = max(columns, key=lambda column: (codes[column], groups[column]))
    most = codes[best], groups[best]
    if [(codes[c], groups[c]) for c in columns].count(most) > 1 and any(most):
        raise Refusal(
            say(
                "several columns name codes of %(name)s; call one of them %(name)s",
                name=variable.name,
            )
        )
    return best


def kind_of(content_type: str) -> str:
    """The kind of what is sent, without what is said of it besides."""
    return content_type.partition(";")[0].strip().lower()


def fields_of(content_type: str, body: bytes) -> list[tuple[str, str]]:
    """The fields of a form that was sent; what is no form is a list itself."""
    try:
        match kind_of(content_type):
            case "application/x-www-form-urlencoded":
                text = body.decode()
                return parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_TICKED)
            case "multipart/form-data":
                return _parts(content_type, body)
        return [("codes", body.decode())]
    except ValueError:
        raise Refusal(say("what was sent is no text in UTF-8, and no form")) from None


def _parts(content_type: str, body: bytes) -> list[tuple[str, str]]:
    """The fields of a form with files in it."""
    named = _BOUNDARY.search(content_type)
    if named is None:
        raise ValueError
    between = b"\r\n--" + (named[1] or named[2]).encode("latin-1")
    _before, *parts = (b"\r\n" + body).split(between, _MOST_FIELDS)
    if not parts or not parts[-1].startswith(b"--"):
        raise ValueError
    found = []
    for part in parts[:-1]:
        head, blank, value = part.partition(b"\r\n\r\n")
        field = _FIELD.search(head)
        if field is None or not blank:
            raise ValueError
        found.append((field[1].decode(), value.decode()))
    return found
