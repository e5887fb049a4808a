"""The key of an infusion: who holds it can undo every distortion, so only its owner can read it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from eree.errors import Refusal, Unreadable
from eree.random.source import Random

KEY_BYTES = 32
_LEAST, _MOST = 16, 64  # what a keyed BLAKE2b takes, and what nobody can guess


def checked_key(key: bytes) -> bytes:
    """A key that is long enough to be secret."""
    if not isinstance(key, bytes) or not _LEAST <= len(key) <= _MOST:
        raise Refusal(f"the key must have {_LEAST} to {_MOST} bytes; make one with new_key")
    return key


def new_key(file: str | os.PathLike[str]) -> bytes:
    """Make a key from secret chance and keep it in a new file that only its owner can read.

    The same key must serve every table and every year: tables infused under two keys show every
    workplace with two distortions, whose mean is nearer to the truth.
    """
    path, key = Path(file), Random().words(KEY_BYTES // 8).tobytes()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Refusal(f"{path} exists already; a key is never replaced, choose another") from None
    except OSError as error:
        raise Refusal(f"{path} cannot be written: {error.strerror}") from None
    with os.fdopen(handle, "w", encoding="ascii") as file_of_key:
        file_of_key.write(f"{key.hex()}\n")
    return key


def read_key(file: str | os.PathLike[str]) -> bytes:
    """The key of a file that `new_key` made."""
    path = Path(file)
    try:
        text = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        raise Unreadable(f"there is no key {path}; make one with --new-key") from None
    except (OSError, UnicodeDecodeError):
        raise Unreadable(f"{path} cannot be read as a key") from None
    if not re.fullmatch(f"[0-9a-f]{{{2 * KEY_BYTES}}}", text):
        raise Unreadable(f"{path} is no key: it must hold {2 * KEY_BYTES} hexadecimal digits")
    return bytes.fromhex(text)
