"""The file of a confidential cube: its filled cells, and a digest that shows any damage.

The bytes are, in order: a first line; the length of the header; the header in JSON; three columns
of 64-bit numbers (the places of the filled cells, their records, their weight); and the SHA-256 of
all before it.  The digest is checked before anything else is looked at.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from eree.errors import Unreadable
from eree.partial import appearing_file, new_path
from eree.policy.plain_data import parsed

FIRST_LINE = b"eree cube 1: CONFIDENTIAL\n"
DIGEST_BYTES = hashlib.sha256().digest_size
LENGTH_BYTES = 8
#: A longer header is no cube's.
MOST_HEADER = 1 << 28
Columns = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, repr=False, eq=False)
class CubeFile:
    """What the file of a cube holds: a header of plain data, and three columns."""

    body: Mapping[str, Any]
    columns: Columns

    @staticmethod
    def damaged(file: str | os.PathLike[str]) -> Unreadable:
        """What to raise where the file is not one that eree wrote."""
        return Unreadable(f"{file} is no cube, or is damaged; make it again with 'eree cube build'")


def write_cube_file(cube: CubeFile, out: str | os.PathLike[str]) -> Path:
    """Write a new file that only its owner can read, whole or not at all."""
    path = new_path(out)
    header = json.dumps(cube.body).encode()
    digest = hashlib.sha256()
    with appearing_file(path) as partial, partial.open("wb") as file:
        parts = (FIRST_LINE, len(header).to_bytes(LENGTH_BYTES, "big"), header)
        for part in (*parts, *(column.astype("<i8").tobytes() for column in cube.columns)):
            digest.update(part)
            file.write(part)
        file.write(digest.digest())
    return path


def read_cube_header(file: str | os.PathLike[str]) -> Mapping[str, Any]:
    """The header alone, without the cells; the digest, which is of all, is not looked at."""
    with _opened(file) as data:
        begin = data.read(len(FIRST_LINE) + LENGTH_BYTES)
        length = int.from_bytes(begin[len(FIRST_LINE) :], "big")
        if not begin.startswith(FIRST_LINE) or length > MOST_HEADER:
            raise CubeFile.damaged(file)
        return _body(data.read(length), file)


def read_cube_file(file: str | os.PathLike[str]) -> CubeFile:
    """What a file holds; raises `Unreadable` if it is not there, or not as it was written."""
    with _opened(file) as opened:
        data = opened.read()
    content, digest = data[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
    start = len(FIRST_LINE) + LENGTH_BYTES
    sound = content.startswith(FIRST_LINE) and hashlib.sha256(content).digest() == digest
    if not sound or len(content) < start:
        raise CubeFile.damaged(file)
    end = start + int.from_bytes(content[len(FIRST_LINE) : start], "big")
    columns, rest = divmod(len(content) - end, 3 * 8)
    if rest or columns < 0:
        raise CubeFile.damaged(file)
    body = _body(content[start:end], file)
    numbers = np.frombuffer(content, dtype="<i8", offset=end).astype(np.int64)
    one, two, three = numbers.reshape(3, columns)
    return CubeFile(body, (one, two, three))


@contextmanager
def _opened(file: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """The bytes of a file; what goes wrong with it is said in a sentence."""
    try:
        with Path(file).open("rb") as opened:
            yield opened
    except FileNotFoundError:
        raise Unreadable(f"there is no cube {file}; make one with 'eree cube build'") from None
    except OSError as error:
        raise Unreadable(f"{file} cannot be read: {error.strerror}") from None


def _body(header: bytes, file: str | os.PathLike[str]) -> Mapping[str, Any]:
    try:
        body = parsed(header)
    except (ValueError, RecursionError):
        raise CubeFile.damaged(file) from None
    if not isinstance(body, dict):
        raise CubeFile.damaged(file)
    return body
