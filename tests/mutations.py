"""Changes that a fuzz makes to sound inputs: to raw bytes, and to trees of settings.

Every change is drawn from a `random.Random`, so the same seed makes the same input again.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import date, datetime
from random import Random
from typing import Any

Rng = Random
#: Texts that programs stumble over.
ODD_TEXTS = (
    *("", " ", "\0", "\n", "\r\n", "a\nb", "\x1b[31m", "\x7f", "\ufeff", "\u202e", "\ud83d\ude00"),
    *("é", "e\u0301", "ß", "İ", "٣", "½", "'", '"', "`", "\\", "''", '";--', "%s", "{0}", "${x}"),
    *("..", "../../etc/passwd", "/", "/dev/null", "a/b", "C:\\x", "~", "*", "?", "[", "[[", "#"),
    *("nan", "inf", "-inf", "1e999", "-1", "-0", "0", "00", "1", "2", "0.1", "1/3", "1/0", "0/0"),
    *("1e-999", "0x10", "1_0", " 5 ", "9" * 30, "9" * 5000, "0." + "0" * 400 + "1", "1e100000"),
    *(
        "null",
        "None",
        "true",
        "select",
        "a,b",
        "a=b",
        "a=b=c",
        "=",
        ",",
        ";",
        "\t",
        "|",
        "A" * 70_000,
    ),
)
#: Values of every type that JSON and TOML know, of odd sizes.
ODD_VALUES: tuple[Any, ...] = (
    *(True, False, 0, 1, -1, 7, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**40),
    *(0.0, -0.0, 0.5, 1e308, 5e-324, math.nan, math.inf, -math.inf),
    *([], {}, [[]], [{}], [""], ["", ""], [0], [None], {"": ""}, {"a": {"a": {}}}, {"x": []}),
)
ODD_BYTES = (
    *(b"\0", b"\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3", b"\xed\xa0\x80", b"\r", b"\n", b'"'),
    *(b"'", b",", b"=", b"[", b"]", b"{", b"}", b"\\", b"#", b"-", b"0", b"9" * 5000, b"1e999"),
    *(b"[" * 3000, b"{" * 3000, b'{"a":' * 3000, b"A" * 70_000, b"\0" * 5000, b"PAR1", b"null"),
)


def some_bytes(raw: bytes, rng: Rng) -> bytes:
    """The bytes with one to four changes that know nothing of what they mean."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        raw = rng.choice(BYTE_CHANGES)(raw, rng)
    return raw


def _flipped(raw: bytes, rng: Rng) -> bytes:
    if not raw:
        return raw
    place = rng.randrange(len(raw))
    return raw[:place] + bytes([raw[place] ^ 1 << rng.randrange(8)]) + raw[place + 1 :]


def _replaced(raw: bytes, rng: Rng) -> bytes:
    if not raw:
        return raw
    place, length = rng.randrange(len(raw)), rng.choice((1, 1, 2, 4, 8))
    return raw[:place] + rng.randbytes(length) + raw[place + length :]


def _slice(raw: bytes, rng: Rng) -> tuple[int, int]:
    start = rng.randint(0, len(raw))
    return start, min(len(raw), start + rng.choice((1, 2, 5, 20, 100, 1000)))


def _without(raw: bytes, rng: Rng) -> bytes:
    start, end = _slice(raw, rng)
    return raw[:start] + raw[end:]


def _twice(raw: bytes, rng: Rng) -> bytes:
    start, end = _slice(raw, rng)
    return raw[:end] + raw[start:end] * rng.choice((1, 1, 3, 50)) + raw[end:]


def _moved(raw: bytes, rng: Rng) -> bytes:
    start, end = _slice(raw, rng)
    rest = raw[:start] + raw[end:]
    place = rng.randint(0, len(rest))
    return rest[:place] + raw[start:end] + rest[place:]


def _inserted(raw: bytes, rng: Rng) -> bytes:
    place = rng.randint(0, len(raw))
    return raw[:place] + rng.choice(ODD_BYTES) + raw[place:]


def _cut(raw: bytes, rng: Rng) -> bytes:
    return raw[: rng.randint(0, len(raw))]


def _number(raw: bytes, rng: Rng) -> bytes:
    """Another number in place of one."""
    places = [i for i, byte in enumerate(raw) if 48 <= byte <= 57]
    if not places:
        return raw
    place = rng.choice(places)
    odd = rng.choice((b"0", b"-1", b"1e999", b"nan", b"9" * 25, b"1.5", b"0.1", b"2", b""))
    return raw[:place] + odd + raw[place + 1 :]


def _encoded(raw: bytes, rng: Rng) -> bytes:
    text = raw.decode("latin-1")
    return text.encode(rng.choice(("utf-16", "utf-32", "utf-8-sig", "utf-7")))


def _lines(raw: bytes, rng: Rng) -> bytes:
    lines = raw.split(b"\n")
    if rng.random() < 0.5:
        rng.shuffle(lines)
        return b"\n".join(lines)
    return rng.choice((b"\r\n", b"\r", b"\n\n", b"")).join(lines)


BYTE_CHANGES: tuple[Callable[[bytes, Rng], bytes], ...] = (
    *(_flipped, _flipped, _replaced, _replaced, _without, _twice, _moved, _inserted, _inserted),
    *(_cut, _number, _number, _encoded, _lines),
)


def some_tree(tree: Any, rng: Rng, words: Sequence[Any] = ()) -> Any:
    """A tree of lists and mappings with one to three changes; `words` are values that fit."""
    found = deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        found = rng.choice(TREE_CHANGES)(found, rng, words)
    return found


def odd_value(rng: Rng, words: Sequence[Any] = ()) -> Any:
    """Any value that JSON knows."""
    kind = rng.random()
    if words and kind < 0.35:
        return deepcopy(rng.choice(words))
    if kind < 0.65:
        return rng.choice(ODD_TEXTS)
    if kind < 0.95:
        return deepcopy(rng.choice(ODD_VALUES))
    deep: Any = rng.choice(ODD_TEXTS)
    for _ in range(rng.choice((3, 30, 200))):
        deep = [deep] if rng.random() < 0.5 else {"a": deep}
    return deep


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every holder in a tree with each of its keys or numbers."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield tree, key
            yield from _places(value)
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield tree, number
            yield from _places(value)


def _place(tree: Any, rng: Rng) -> tuple[Any, Any]:
    """A place in the tree; small holders are met as often as those with thousands of values."""
    holders: dict[int, list[tuple[Any, Any]]] = {}
    for holder, key in _places(tree):
        holders.setdefault(id(holder), []).append((holder, key))
    if not holders:
        return [tree], 0
    if rng.random() < 0.5:
        return rng.choice(rng.choice(list(holders.values())))
    return rng.choice([place for places in holders.values() for place in places])


def _dropped(tree: Any, rng: Rng, _words: Sequence[Any]) -> Any:
    holder, key = _place(tree, rng)
    del holder[key]
    return tree


def _odd(tree: Any, rng: Rng, words: Sequence[Any]) -> Any:
    holder, key = _place(tree, rng)
    holder[key] = odd_value(rng, words)
    return tree


def _retyped(tree: Any, rng: Rng, _words: Sequence[Any]) -> Any:
    """The same value as another type."""
    holder, key = _place(tree, rng)
    value = holder[key]
    kinds: list[Callable[[], Any]] = [
        lambda: [value],
        lambda: {"value": value},
        lambda: str(value)[:1000],
        lambda: len(str(value)),
        lambda: bool(value),
        lambda: float(len(str(value))) / 3,
    ]
    if isinstance(value, dict):
        kinds += [lambda: list(value), lambda: list(value.values())]
    if isinstance(value, list):
        kinds += [lambda: dict(enumerate(map(str, value))), lambda: value[0] if value else None]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        kinds += [lambda: -value, lambda: value * 2, lambda: value + 1]
    holder[key] = rng.choice(kinds)()
    return tree


def _renamed(tree: Any, rng: Rng, words: Sequence[Any]) -> Any:
    holder, key = _place(tree, rng)
    if isinstance(holder, dict):
        names = [word for word in words if isinstance(word, str)]
        other = rng.choice((*ODD_TEXTS, *names, f"{key}x", str(key).upper()))
        holder[other] = holder.pop(key)
    return tree


def _added(tree: Any, rng: Rng, words: Sequence[Any]) -> Any:
    holder, _ = _place(tree, rng)
    value = odd_value(rng, words)
    if isinstance(holder, dict):
        holder[rng.choice([w for w in words if isinstance(w, str)] or ["added"])] = value
    else:
        holder.insert(rng.randint(0, len(holder)), value)
    return tree


def _copied(tree: Any, rng: Rng, _words: Sequence[Any]) -> Any:
    """A part of the tree in the place of another."""
    from_, key = _place(tree, rng)
    value = deepcopy(from_[key])
    to, other = _place(tree, rng)
    to[other] = value
    return tree


def _repeated(tree: Any, rng: Rng, _words: Sequence[Any]) -> Any:
    holder, key = _place(tree, rng)
    if isinstance(holder, list):
        holder += [deepcopy(holder[key]) for _ in range(rng.choice((1, 1, 2, 40)))]
    return tree


def _emptied(tree: Any, rng: Rng, _words: Sequence[Any]) -> Any:
    holder, key = _place(tree, rng)
    holder[key] = type(holder[key])() if holder[key] is not None else ""
    return tree


TREE_CHANGES: tuple[Callable[[Any, Rng, Sequence[Any]], Any], ...] = (
    *(_dropped, _dropped, _odd, _odd, _odd, _retyped, _retyped, _renamed, _added, _copied),
    *(_repeated, _emptied),
)


def toml_text(tree: Mapping[str, Any]) -> str:
    """A tree as TOML; what TOML does not know is left out, and one too deep is as deep."""
    try:
        return _toml_text(tree)
    except RecursionError:
        return "deep = " + "[" * sys.getrecursionlimit()


def _toml_text(tree: Mapping[str, Any]) -> str:

    def text(value: Any) -> str:
        match value:
            case bool():
                return str(value).lower()
            case int() | float():
                return str(value)
            case date() | datetime():
                return value.isoformat()
            case dict():
                inside = (f"{key(k)} = {text(v)}" for k, v in value.items() if v is not None)
                return "{ " + ", ".join(inside) + " }"
            case list() | tuple():
                return "[" + ", ".join(text(v) for v in value if v is not None) + "]"
        return key(str(value))

    def key(name: Any) -> str:
        return json.dumps(str(name), ensure_ascii=False).replace("\x7f", "\\u007f")

    plain = {k: v for k, v in tree.items() if not isinstance(v, dict) and not _tables(v)}
    lines = [f"{key(k)} = {text(v)}" for k, v in plain.items() if v is not None]
    for name, inner in tree.items():
        if isinstance(inner, dict):
            lines.append(f"[{key(name)}]")
            lines += [f"{key(k)} = {text(v)}" for k, v in inner.items() if v is not None]
        elif _tables(inner):
            for one in inner:
                lines.append(f"[[{key(name)}]]")
                lines += [f"{key(k)} = {text(v)}" for k, v in one.items() if v is not None]
    return "\n".join(lines) + "\n"


def _tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)


def as_utf8(text: str) -> bytes:
    """A text that may hold half a character."""
    return text.encode("utf-8", "surrogatepass")


def some_toml(tree: Mapping[str, Any], rng: Rng, words: Sequence[Any] = ()) -> bytes:
    """Settings that were changed as a tree, as bytes, or both."""
    way = rng.random()
    changed = some_tree(tree, rng, words) if way < 0.75 else tree
    raw = as_utf8(toml_text(changed))
    return some_bytes(raw, rng) if way > 0.7 else raw


def some_json(tree: Any, rng: Rng, words: Sequence[Any] = ()) -> bytes:
    """JSON that was changed as a tree, as bytes, or both."""
    way = rng.random()
    changed = some_tree(tree, rng, words) if way < 0.75 else tree
    raw = as_utf8(json.dumps(changed, ensure_ascii=rng.random() < 0.5))
    return some_bytes(raw, rng) if way > 0.7 else raw
