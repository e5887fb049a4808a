"""Long lists of codes that readers send: kept for a day under a short name, for all workers.

A list is named by a digest of what it holds.  So the same list has one name in all processes, no
name can be guessed, and what was overwritten by another list, or by half of one, is not found.
"""

from __future__ import annotations

import mmap
import re
import struct
import time
import zlib
from base64 import b32encode
from collections.abc import Iterable, Iterator, Sequence
from email.message import Message
from email.parser import BytesParser
from hashlib import blake2b
from urllib.parse import parse_qsl

import numpy as np

from eree.errors import Refusal
from eree.web.dataset import Variable

#: What the name of a list begins with, and how long the rest of it is.
MARK, _LETTERS = "~", 16
#: Seconds for which a list is kept, lists that are, and bytes of one, packed.
KEPT_SECONDS, _SLOTS, _SLOT = 24 * 3600, 512, 16_384
#: A list may have one of so many slots; the oldest makes room.
_WAYS = 4
#: Bytes of what a reader sends, and lines of it that are named because nothing is known of them.
MOST_SENT, MOST_NAMED = 1_000_000, 8
#: How browsers send forms; whatever else is sent is a list itself.
FORMS = FORM, WITH_FILES = "application/x-www-form-urlencoded", "multipart/form-data"
_HEAD = struct.Struct("<16sdI")
_BETWEEN = re.compile(r"[,;\t|]")
_QUOTES = " \"'\ufeff"


class CodeLists:
    """Lists of places of codes, in memory that processes share if it was made before they fork."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SLOTS * _SLOT)

    def keep(self, of: str, count: int, places: Iterable[int]) -> str:
        """Keep the places of some of so many codes; the name under which they are found."""
        chosen = np.zeros(count, dtype=np.bool_)
        chosen[list(places)] = True
        bits = np.packbits(chosen).tobytes()
        packed, name = zlib.compress(bits), _name(of, bits)
        if _HEAD.size + len(packed) > _SLOT:
            raise Refusal("this list has too many codes that follow no order; send half of it")
        known = [self._head(place) for place in _places(name)]
        names = [head[0] for head in known]
        way = names.index(name.encode()) if name.encode() in names else _oldest(known)
        start = _places(name)[way] * _SLOT
        head = _HEAD.pack(name.encode(), time.time() + KEPT_SECONDS, len(packed))
        self._memory[start : start + len(head) + len(packed)] = head + packed
        return f"{MARK}{name}"

    def find(self, of: str, count: int, name: str) -> tuple[int, ...] | None:
        """The places of codes that are kept under a name; nothing where it is not known."""
        plain = name.removeprefix(MARK)
        if not name.startswith(MARK) or len(plain) != _LETTERS or not plain.isascii():
            return None
        for place in _places(plain):
            own, until, length = self._head(place)
            if own != plain.encode() or until < time.time():
                continue
            start = place * _SLOT + _HEAD.size
            try:
                opened = zlib.decompressobj()
                bits = opened.decompress(self._memory[start : start + length], (count + 7) // 8)
            except zlib.error:
                continue
            if _name(of, bits) == plain:
                chosen = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=count)
                return tuple(np.flatnonzero(chosen).tolist())
        return None

    def _head(self, place: int) -> tuple[bytes, float, int]:
        return _HEAD.unpack_from(self._memory, place * _SLOT)


def _name(of: str, bits: bytes) -> str:
    found = blake2b(f"{of}\0".encode() + bits, digest_size=10).digest()
    return b32encode(found).decode().lower()


def _places(name: str) -> list[int]:
    first = zlib.crc32(name.encode())
    return [(first + way) % _SLOTS for way in range(_WAYS)]


def _oldest(heads: Sequence[tuple[bytes, float, int]]) -> int:
    return min(range(len(heads)), key=lambda way: heads[way][1])


def codes_in(variable: Variable, text: str, *, skip: bool = False) -> list[str]:
    """The codes and groups that the lines of a text name, in any column of a file.

    Refuses lines that name none, but for the first, which may be a heading; with `skip` they are
    left out.
    """
    found, unknown = list[str](), list[str]()
    for number, line in enumerate(text.splitlines()):
        fields = [field.strip(_QUOTES) for field in _BETWEEN.split(line)]
        if not any(fields):
            continue
        known = [field for field in fields if variable.knows(field)][:1] or [
            word for word in line.split() if variable.knows(word.strip(_QUOTES + ",;"))
        ]
        if not known and number:
            unknown.append(line.strip())
        found += [word.strip(_QUOTES + ",;") for word in known]
    if unknown and not skip:
        shown = "; ".join(repr(line[:40]) for line in unknown[:MOST_NAMED])
        more = " and others" if len(unknown) > MOST_NAMED else ""
        lines = "1 line names" if len(unknown) == 1 else f"{len(unknown):,} lines name"
        raise Refusal(f"{lines} no code of {variable.name}: {shown}{more}")
    if not found:
        raise Refusal(f"no line names a code of {variable.name}")
    return list(dict.fromkeys(found))


def fields_of(kind: str, body: bytes) -> list[tuple[str, str]]:
    """The fields of a form that was sent; what is no form is a list itself."""
    try:
        if kind.startswith(FORM):
            return parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=2_000)
        if not kind.startswith(WITH_FILES):
            return [("codes", body.decode())]
        return list(_parts(kind, body))
    except ValueError:
        raise Refusal("what was sent is no text in UTF-8, and no form") from None


def _parts(kind: str, body: bytes) -> Iterator[tuple[str, str]]:
    """The fields of a form with files in it."""
    head = f"Content-Type: {kind}\r\n\r\n".encode("latin-1")
    whole = BytesParser().parsebytes(head + body)
    for part in whole.get_payload() if whole.is_multipart() else ():
        assert isinstance(part, Message)
        name, held = (
            part.get_param("name", "", "content-disposition"),
            part.get_payload(decode=True),
        )
        if not isinstance(name, str) or not isinstance(held, bytes):
            raise ValueError
        yield name, held.decode()
