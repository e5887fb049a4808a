"""Answers that were given, kept ready: a release never changes, so neither does an answer."""

from __future__ import annotations

import gzip
import hashlib
from collections import OrderedDict
from dataclasses import dataclass

#: The most bytes of answers that are kept.
MOST_BYTES = 64 << 20
_WORTH_PACKING = 1_000
_TEXTS = (b"text/", b"application/json", b"image/svg")

Key = tuple[bytes, bytes, bool]
Headers = list[tuple[bytes, bytes]]


@dataclass
class Kept:
    """A whole answer, as it goes over the line, plain and packed."""

    status: int
    headers: Headers
    body: bytes
    tag: bytes
    packed: bytes | None = None

    @classmethod
    def of(cls, status: int, headers: Headers, body: bytes) -> Kept:
        """An answer with its tag, by which a browser finds out that it has it already."""
        # weak, because it is the same for the plain body and for the packed one
        tag = b'W/"' + hashlib.sha256(body).hexdigest()[:24].encode() + b'"'
        return cls(status, headers, body, tag)

    @property
    def packable(self) -> bool:
        """Whether packing it saves anything worth it."""
        kind = dict(self.headers).get(b"content-type", b"")
        return len(self.body) >= _WORTH_PACKING and kind.startswith(_TEXTS)

    def pack(self) -> bytes:
        """The body, packed once."""
        if self.packed is None:
            self.packed = gzip.compress(self.body, 5, mtime=0)
        return self.packed


class Memory:
    """The answers that were asked for last."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most, self._size = most, 0
        self._kept: OrderedDict[Key, Kept] = OrderedDict()

    def get(self, key: Key) -> Kept | None:
        """An answer, if it is kept."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: Key, answer: Kept) -> None:
        """Keep an answer; the oldest go where there is no more room."""
        weight = _weight(key, answer)
        if weight > self._most // 8:
            return
        if key in self._kept:
            self._size -= _weight(key, self._kept.pop(key))
        self._kept[key] = answer
        self._size += weight
        while self._size > self._most:
            old, gone = self._kept.popitem(last=False)
            self._size -= _weight(old, gone)


def _weight(key: Key, answer: Kept) -> int:
    """Bytes with what packing adds at most, and some for the bookkeeping."""
    return len(key[0]) + len(key[1]) + 2 * len(answer.body) + 1_000
