"""The words of pages, in English and in other languages.

English words are written where they are used, and are the keys of the other languages: each has a
file `languages/CODE.json` that gives every English text its own.  A `Said` is an English text that
remembers its key, so that plain data is English in all languages, and a page translates it when it
is shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import Any

ENGLISH = "en"
_SPOKEN: ContextVar[Mapping[str, str]] = ContextVar("spoken")


class Said(str):
    """An English text, with the key and the parts that it was made of."""

    __slots__ = ("given", "key")

    def __new__(cls, key: str, given: Mapping[str, Any]) -> Said:
        """The key with its parts filled in."""
        made = super().__new__(cls, key % given if given else key)
        made.key, made.given = key, given
        return made

    key: str
    given: Mapping[str, Any]


class Joined(str):
    """Several texts with something between them, each said in the language of the page."""

    __slots__ = ("between", "parts")

    def __new__(cls, between: str, parts: Iterable[str]) -> Joined:
        """The parts, one after the other."""
        kept = tuple(parts)
        made = super().__new__(cls, between.join(kept))
        made.between, made.parts = between, kept
        return made

    between: str
    parts: tuple[str, ...]


def say(key: str, **given: Any) -> Said:
    """An English text; its parts are named as in "%(count)s rows"."""
    return Said(key, given)


def spoken(text: Any) -> Any:
    """A text in the language of the page; what was not said by `say` stays as it is."""
    kind = type(text)
    if kind is Joined:
        return spoken(text.between).join(map(spoken, text.parts))
    if kind is not Said:
        return text
    found = translated(text.key)
    if not text.given:
        return found
    return found % {name: spoken(part) for name, part in text.given.items()}


def translated(key: str) -> str:
    """The text of a key in the language of the page."""
    known = _SPOKEN.get({})
    return known.get(key, key)


def translated_number(one: str, several: str, count: int) -> str:
    """The same, by how many there are."""
    return translated(one if count == 1 else several)


@cache
def language(code: str) -> Mapping[str, str]:
    """The texts of a language by their English keys; English has none."""
    if code == ENGLISH:
        return {}
    room = files("eree.web").joinpath("languages", f"{code}.json")
    found: dict[str, str] = json.loads(room.read_text(encoding="utf-8"))
    return found


@cache
def languages() -> Mapping[str, str]:
    """All languages by their codes, each with its own name."""
    room = files("eree.web").joinpath("languages").iterdir()
    codes = sorted(one.name.removesuffix(".json") for one in room if one.name.endswith(".json"))
    return {ENGLISH: "English"} | {code: language(code)["English"] for code in codes}


@contextmanager
def speaking(code: str) -> Iterator[None]:
    """Pages that are made meanwhile, in this thread, are in a language."""
    with speaking_by(language(code)):
        yield


@contextmanager
def speaking_by(known: Mapping[str, str]) -> Iterator[None]:
    """The same with texts that are given."""
    before = _SPOKEN.set(known)
    try:
        yield
    finally:
        _SPOKEN.reset(before)
