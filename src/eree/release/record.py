"""`release.json`: what a release says of itself, and how a change of it is found.

The record is plain data.  Its digest is the SHA-256 of its canonical text (sorted keys, no spaces)
without the digest and the signature; every file of the release is in it with its own SHA-256.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from eree.errors import Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import EDGE, NODE, Establishment, Neighbours, Record, Strong, Weak

RECORD = "release.json"
FORMAT = 1
#: What the digest does not cover, because it comes after it.
_AFTERWARDS = ("digest", "signature")


def canonical(data: Mapping[str, Any]) -> bytes:
    """One text for the same data."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def record_text(record: Mapping[str, Any]) -> str:
    """The one text of a record, as it stands in its file."""
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def beginning(release: str, price: Guarantee, *, private: bool) -> dict[str, Any]:
    """What every record begins with: who made it, when, and what it promises."""
    return {
        "format": FORMAT,
        "eree": version("eree"),
        "release": release,
        "made": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "private": private,
        "guarantee": guarantee_as_json(price),
        "statements": [statement.words for statement in price.statements()] if private else [],
    }


def digest_of(record: Mapping[str, Any]) -> str:
    """The digest that a record must carry."""
    covered = {name: value for name, value in record.items() if name not in _AFTERWARDS}
    return hashlib.sha256(canonical(covered)).hexdigest()


def file_digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def guarantee_as_json(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee as plain data, numbers as exact texts."""
    relation = guarantee.neighbours
    found: dict[str, Any] = {"neighbours": relation.name}
    if isinstance(relation, (Strong, Weak)):
        found["alpha"] = str(relation.alpha)
    if isinstance(relation, Weak):
        found["types"] = list(relation.types)
    return found | {"epsilon": str(guarantee.epsilon), "delta": str(guarantee.delta)}


def guarantee_of(data: Any) -> Guarantee:
    """The guarantee behind plain data; refuses what is none."""
    try:
        name = data["neighbours"]
        relation: Neighbours
        if name in ("edge", "node"):
            relation = EDGE if name == "edge" else NODE
        elif name == "weak":
            relation = Weak(data["alpha"], data["types"])
        elif name == "strong":
            relation = Strong(data["alpha"])
        elif name in ("record", "establishment"):
            relation = Record() if name == "record" else Establishment()
        else:
            raise Refusal("the release names neighbours that do not exist")
        return Guarantee(relation, data["epsilon"], data["delta"])
    except (KeyError, TypeError):
        raise Refusal("the release states no guarantee that can be read") from None
