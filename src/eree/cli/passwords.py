"""Passwords in arguments: taken out before a command sees them, so that no words can quote them.

Whatever an argument was meant for, it may come back in a sentence: a surplus one, a value that is
none, a path that is not there.  Only the address of a ledger gets its password back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from eree.errors import Refusal

#: A password in an address, perhaps a mistyped one: of its user, or by its name.  It may hold
#: anything, so nothing that follows is shown.
_PASSWORD = re.compile(
    r"(://|(?<=postgres):/?|(?<=postgresql):/?)[^:@/]*:.+@.*|((?:ssl)?password\s*=).*",
    re.IGNORECASE | re.DOTALL,
)
_ADDRESS = re.compile(r"postgres(ql)?://.*", re.DOTALL)
_known: ContextVar[Mapping[str, str]] = ContextVar("_known", default={})  # noqa: B039  # read only


@contextmanager
def hidden(arguments: Sequence[str]) -> Iterator[list[str]]:
    """Arguments without their passwords; within it `with_password` knows them."""
    shown = [_without(argument) for argument in arguments]
    known: dict[str, str] = {}
    for full, without in zip(arguments, shown, strict=True):
        found = _ADDRESS.search(full) if without != full else None
        if found and known.setdefault(_without(found[0]), found[0]) != found[0]:
            raise Refusal("two addresses with passwords are one too many; name one ledger")
    token = _known.set(known)
    try:
        yield shown
    finally:
        _known.reset(token)


def with_password(address: str) -> str:
    """The address of a ledger as it was given."""
    return _known.get().get(address, address)


def _without(argument: str) -> str:
    return _PASSWORD.sub(lambda found: f"{found[1] or found[2]}***", argument)
