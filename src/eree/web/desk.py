"""The desk: where questions wait for their turn, and answers are kept.

Each data set has a line of its own, in which so many questions find a place; others are asked to
come again.  Lines take turns.  A question that nobody waits for any more leaves its place (a proxy
that keeps answers goes on waiting when its visitor is gone).
A release never changes, so neither do answers: those asked for last are kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from cachetools import LRUCache
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from eree.web.reply import HTML, SVG, Reply
from eree.web.words import say

Headers = list[tuple[bytes, bytes]]
#: What an answer depends on: the path, the query, and whether JSON is wanted.
Key = tuple[bytes, bytes, bool]
#: Says no to a question: the status, and why.
Refuse = Callable[[int, str, Key], "Kept"]

_LOG = logging.getLogger("eree.web")
#: How long others may keep an answer, and a refusal: so long that one is not asked for at once.
SHORT, _REFUSED = "public, max-age=300", "public, max-age=2"
#: The most bytes of answers that are kept.
_MOST_KEPT = 64 << 20
CONTENT_SECURITY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY: Headers = [
    (b"content-security-policy", CONTENT_SECURITY),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"vary", b"accept"),
]
#: The same for what any page may show in a frame: no script runs in it, and no form sends.
_FRAMED: Headers = [
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none';"
        b" form-action 'none'; frame-ancestors *",
    ),
    *(pair for pair in SECURITY[1:] if pair[0] != b"x-frame-options"),
]
#: The same for pictures, whose style is within them.
_PICTURES: Headers = [
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; sandbox"),
    *SECURITY[1:],
]


@dataclass(frozen=True)
class Limits:
    """How much is done at once, and for how long; `sending` is how long a body may be under way."""

    at_work: int = 2
    waiting: int = 64
    seconds: float = 20.0
    sending: float = 20.0
    address: int = 8_000


class Kept(Response):
    """A whole answer, as it is sent.

    By its tag a browser finds out that it has it already.
    """

    def __init__(self, reply: Reply, caching: str = "no-store", stamp: str = "") -> None:
        """With a `stamp`, the answer to any other query than this may be newer soon."""
        self.status_code, self.body, self._stamp = reply.status, reply.body, stamp.encode()
        safe = _FRAMED if reply.framed else _PICTURES if reply.kind == SVG else SECURITY
        self.raw_headers = [(b"content-type", reply.kind.encode()), *safe]
        self.raw_headers += [(name.encode(), value.encode()) for name, value in reply.headers]
        kept = {200: caching, 301: caching} | dict.fromkeys((400, 404, 413, 414), _REFUSED)
        self.raw_headers.append((b"cache-control", kept.get(reply.status, "no-store").encode()))
        if reply.kind != HTML:
            self.raw_headers.append((b"access-control-allow-origin", b"*"))
        if reply.status == 503:
            self.raw_headers.append((b"retry-after", b"2"))
        if reply.status == 408:  # what comes late is read no more
            self.raw_headers.append((b"connection", b"close"))
        # weak, because it is the same for the plain body and for the packed one
        self.tag = b'W/"' + blake2b(reply.body, digest_size=12).hexdigest().encode() + b'"'
        self.weight = len(reply.body) + 2_000  # with some for the bookkeeping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; its tag alone to a browser that has it."""
        del receive
        status, headers, body = self.status_code, [*self.raw_headers], self.body
        if self._stamp and scope["query_string"] != self._stamp:
            headers = [(k, SHORT.encode() if k == b"cache-control" else v) for k, v in headers]
        if status == 200:
            headers.append((b"etag", self.tag))
            known = header_of(scope, b"if-none-match")
            if known == b"*" or self.tag in known:
                status, body = 304, b""
        if status != 304:
            headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        sent = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": sent})


class _Line:
    """The questions of one data set that are open: as many work as may, the others wait."""

    def __init__(self, at_work: int) -> None:
        self.turns, self.open = asyncio.Semaphore(at_work), 0

    def leave(self) -> None:
        """One question less."""
        self.open -= 1


class Desk:
    """Where questions wait for their turn, and answers are kept."""

    def __init__(self, refuse: Refuse, limits: Limits | None = None) -> None:
        self._refuse = refuse
        self.limits = limits or Limits()
        self.kept: LRUCache[Key, Kept] = LRUCache(_MOST_KEPT, getsizeof=lambda one: one.weight)
        self._turns = asyncio.Semaphore(self.limits.at_work)
        self._lines: dict[str, _Line] = {}
        self.again = 0  # how often something was asked for that was kept

    def known(self, key: Key) -> Kept | None:
        """An answer, if it is kept."""
        found: Kept | None = self.kept.get(key)
        self.again += found is not None
        return found

    def __len__(self) -> int:
        """How many questions are worked on or wait."""
        return sum(line.open for line in self._lines.values())

    def full(self, line: _Line) -> bool:
        """Whether all places of a line are taken."""
        return line.open >= self.limits.waiting + self.limits.at_work

    def full_lines(self) -> int:
        """How many data sets answer no new question now."""
        return sum(map(self.full, self._lines.values()))

    async def answer(
        self, key: Key, work: Callable[[], Kept], receive: Receive, data_set: str
    ) -> Kept:
        """Work out an answer in its turn, in a thread, if there is room to wait for it.

        Whoever hangs up does not wait any more; nobody reads what is returned then.
        """
        line = self._lines.setdefault(data_set, _Line(self.limits.at_work))
        if self.full(line):
            return self._refuse(503, say("too many questions at once; try again soon"), key)
        begun = asyncio.Event()
        turn = asyncio.create_task(self._turn(line, key, work, begun))
        gone = asyncio.create_task(_hung_up(receive))
        line.open += 1
        turn.add_done_callback(lambda _: line.leave())
        try:
            seconds = self.limits.seconds
            await asyncio.wait((turn, gone), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not begun.is_set():
                turn.cancel()
        if turn.done() and not turn.cancelled():
            return turn.result()
        slow = say("this took too long; ask for less, or try again soon")
        return self._refuse(503, slow, key)

    async def _turn(
        self, line: _Line, key: Key, work: Callable[[], Kept], begun: asyncio.Event
    ) -> Kept:
        # so few of a line wait for the turns of all that no line keeps the others from theirs
        async with line.turns, self._turns:
            begun.set()
            return self._keep(key, await asyncio.to_thread(self._worked, key, work))

    def at_once(self, key: Key, work: Callable[[], Kept]) -> Kept:
        """An answer that is quickly made, for which nobody waits."""
        return self._keep(key, self._worked(key, work))

    def _worked(self, key: Key, work: Callable[[], Kept]) -> Kept:
        try:
            return work()
        except Exception:
            _LOG.exception("a question could not be answered")
            return self._refuse(500, say("please try another question"), key)

    def _keep(self, key: Key, answer: Kept) -> Kept:
        """Keep an answer that is no refusal and leaves room for others."""
        answer.weight += len(key[0]) + len(key[1])
        if answer.status_code == 200 and answer.weight <= _MOST_KEPT // 8:
            self.kept[key] = answer
        return answer


async def _hung_up(receive: Receive) -> None:
    """Comes to its end when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def header_of(scope: Scope, wanted: bytes) -> bytes:
    """A header of a request; empty where there is none."""
    return next((value for name, value in scope["headers"] if name == wanted), b"")
