"""The door to secret randomness: a stream of random words that nobody can predict or repeat.

The stream is AES-256 in counter mode under a key from the operating system.  It is never written,
shown, copied or carried over a fork: a repeated word of noise would undo the protection of both
counts that it protects.
"""

from __future__ import annotations

import hashlib
import os
import threading
from typing import NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from eree.errors import Refusal, integer

#: Zero bytes that are encrypted at once; the stream is what comes out.
_CHUNK = bytes(1 << 20)
#: How many forks lie between the first process and this one.  A process number would not do: in a
#: namespace of its own a child can have the number of its parent.
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class Random:
    """Secret randomness.  Each object has a key of its own.

    Examples:
        >>> eree.Random().words(2).shape
        (2,)
    """

    #: Whether a release drawn with this source counts as private.
    secret = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._renew()

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` words of 64 independent fair bits."""
        if count < 0:
            raise Refusal("the number of words must not be negative")
        with self._lock:
            if self._fork != _forks:  # a fork must not repeat its parent's words
                self._renew()
            wanted = 8 * count
            pieces = [self._stream.update(_CHUNK) for _ in range(wanted // len(_CHUNK))]
            pieces.append(self._stream.update(_CHUNK[: wanted % len(_CHUNK)]))
        return np.frombuffer(b"".join(pieces), dtype="<u8").astype(np.uint64, copy=False)

    def _renew(self) -> None:
        self._fork = _forks
        self._stream = _keystream(os.urandom(32))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce__(self) -> NoReturn:
        raise Refusal(
            "a random source cannot be copied or stored: the copy would repeat the same words"
        )


class SeededRandom(Random):
    """Randomness that repeats for a seed: for tests, studies and public draws, never a release.

    Args:
        seed: The seed.

    Examples:
        >>> bool((eree.SeededRandom(1).words(2) == eree.SeededRandom(1).words(2)).all())
        True
    """

    secret = False

    def __init__(self, seed: int) -> None:
        self._seed = integer(seed, "the seed must be an integer, 0 or more", 0)
        super().__init__()

    def _renew(self) -> None:
        self._fork = _forks
        name = f"eree test coins {self._seed}"
        self._stream = _keystream(hashlib.sha256(name.encode()).digest())


def fresh_name() -> str:
    """A name of 32 random digits that nothing else has."""
    return os.urandom(16).hex()


def _keystream(key: bytes) -> CipherContext:
    return Cipher(AES256(key), CTR(bytes(16))).encryptor()
