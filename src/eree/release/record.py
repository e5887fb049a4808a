"""`release.json`: what a release says of itself, and how a change of it is found.

The record is plain data.  Its digest is the SHA-256 of its canonical text (sorted keys, no spaces,
ASCII) without the digest and the signature; it has the SHA-256 of every file of the release.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from eree.policy.guarantee import Guarantee
from eree.policy.plain_data import guarantee_as_json, sha256

RECORD = "release.json"
FORMAT = 5
#: What the digest does not cover, because it comes after it.
_AFTERWARDS = ("digest", "signature")


def record_text(record: Mapping[str, Any]) -> str:
    """The one text of a record, as it stands in its file."""
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def beginning(release: str, price: Guarantee, *, private: bool, jobs: int = 1) -> dict[str, Any]:
    """What every record begins with: who made it, when, and what it promises.

    `jobs` is how many a worker has at most.
    """
    statements = price.statements(jobs=jobs) if private else ()
    return {
        "format": FORMAT,
        "eree": version("eree"),
        "release": release,
        "made": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "private": private,
        "guarantee": guarantee_as_json(price),
        "statements": [statement.words for statement in statements],
    }


def digest_of(record: Mapping[str, Any]) -> str:
    """The digest that a record must carry."""
    covered = {name: value for name, value in record.items() if name not in _AFTERWARDS}
    return sha256(covered)


def file_digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_fault(path: Path, digest: str) -> str | None:
    """What is wrong with a file that should have a digest."""
    try:
        if not path.is_file():
            return "is missing"
        if file_digest(path) != digest:
            return "was changed: its SHA-256 is not the one in the record"
    except OSError:
        return "cannot be read"
    return None
