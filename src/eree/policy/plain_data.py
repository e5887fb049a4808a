"""Guarantees as plain data, and the one text of plain data that is hashed.

The canonical text is JSON with sorted keys, without spaces and in ASCII.
"""

from __future__ import annotations

import hashlib
import json
from math import isfinite
from typing import Any

from eree.errors import Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import EDGE, ESTABLISHMENT, NODE, RECORD, Neighbours, Strong, Weak

#: Relations that have nothing but their name.
PLAIN = {relation.name: relation for relation in (EDGE, NODE, RECORD, ESTABLISHMENT)}


def parsed(text: str | bytes) -> Any:
    """JSON as it can be written again; a ValueError for what cannot.

    That are numbers which are none or too large, and halves of characters, which no file can hold.
    """
    data = json.loads(text, parse_constant=_finite, parse_float=_finite)
    json.dumps(data, ensure_ascii=False).encode()
    return data


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError
    return number


def canonical(data: object) -> str:
    """One text for the same data."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256(data: object) -> str:
    """The SHA-256 of the canonical text, in hexadecimal digits."""
    return hashlib.sha256(canonical(data).encode("ascii")).hexdigest()


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
        if name == "weak":
            relation = Weak(data["alpha"], data["types"])
        elif name == "strong":
            relation = Strong(data["alpha"])
        elif name in PLAIN:
            relation = PLAIN[name]
        else:
            raise Refusal("the guarantee names neighbours that do not exist")
        return Guarantee(relation, data["epsilon"], data["delta"])
    except (KeyError, TypeError):
        raise Refusal("there is no guarantee that can be read") from None
