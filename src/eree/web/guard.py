"""What every request passes: limits before any work, and headers on every answer.

Only so many questions are worked on at once, and only so many wait; others are told to come again.
The same question asked twice at once is worked on once.  A question that nobody waits for any more
leaves its place.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Receive, Scope, Send

from eree.web.memory import Headers, Kept, Key, Memory

#: Works out an answer; runs in a thread.
Work = Callable[[], Kept]
#: Says no: the status, why, and whether as JSON.
Refuse = Callable[[int, str, bool], Kept]

_LOG = logging.getLogger("eree.web")

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
    (b"vary", b"accept, accept-encoding"),
]


@dataclass(frozen=True)
class Limits:
    """How much is done at once, and for how long."""

    at_work: int = 2
    waiting: int = 64
    seconds: float = 20.0
    address: int = 8_000


@dataclass(eq=False)
class _Question:
    """A question at the desk: who waits for its answer, and whether it is worked on."""

    key: Key
    work: Work
    waiting: int = 0
    begun: bool = False
    task: asyncio.Task[Kept] = field(init=False)


class Desk:
    """Where questions wait for their turn, and answers are kept."""

    def __init__(self, refuse: Refuse, limits: Limits | None = None) -> None:
        self._refuse = refuse
        self.limits = limits or Limits()
        self.memory = Memory()
        self._turns = asyncio.Semaphore(self.limits.at_work)
        self._open: dict[Key, _Question] = {}

    def __len__(self) -> int:
        """How many questions are worked on or wait."""
        return len(self._open)

    async def answer(self, key: Key, work: Work, receive: Receive) -> Kept:
        """Work out an answer in its turn, if there is room to wait for it.

        Whoever hangs up does not wait any more; nobody reads what is returned then.
        """
        question = self._open.get(key)
        if question is None:
            if len(self._open) >= self.limits.waiting + self.limits.at_work:
                return self._refuse(503, "too many questions at once; try again soon", key[2])
            question = self._open[key] = _Question(key, work)
            question.task = asyncio.create_task(self._turn(question))
        question.waiting += 1
        gone = asyncio.create_task(_hung_up(receive))
        try:
            await asyncio.wait(
                (question.task, gone),
                timeout=self.limits.seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            gone.cancel()
            question.waiting -= 1
            if not question.waiting and not question.begun:
                question.task.cancel()
                self._leave(question)
        if question.task.done() and not question.task.cancelled():
            return question.task.result()
        return self._refuse(503, "this took too long; ask for less, or try again soon", key[2])

    def at_once(self, key: Key, work: Work) -> Kept:
        """An answer that is quickly made, for which nobody waits."""
        try:
            found = work()
        except Exception:
            return self._fault(key)
        if found.status == 200:
            self.memory.put(key, found)
        return found

    async def _turn(self, question: _Question) -> Kept:
        try:
            async with self._turns:
                question.begun = True
                found = await asyncio.to_thread(question.work)
            if found.status == 200:
                self.memory.put(question.key, found)
            return found
        except Exception:
            return self._fault(question.key)
        finally:
            self._leave(question)

    def _leave(self, question: _Question) -> None:
        if self._open.get(question.key) is question:
            del self._open[question.key]

    def _fault(self, key: Key) -> Kept:
        _LOG.exception("a question could not be answered")
        return self._refuse(500, "please try another question", key[2])


async def _hung_up(receive: Receive) -> None:
    """Comes to its end when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Front:
    """The door of the application: what is known is given at once, what is too long is refused."""

    def __init__(self, app: ASGIApp, desk: Desk, refuse: Refuse) -> None:
        self.app, self.desk, self._refuse = app, desk, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        key = key_of(scope)
        kept = self.desk.memory.get(key) if scope["method"] in ("GET", "HEAD") else None
        if kept is None and len(key[0]) + len(key[1]) > self.desk.limits.address:
            most = self.desk.limits.address
            said = f"an address has at most {most:,} characters; keep fewer codes"
            kept = self._refuse(414, said, key[2])
        if kept is None:
            await self.app(scope, receive, send)
        else:
            await give(kept, scope, send)


def key_of(scope: Scope) -> Key:
    """What an answer depends on: the address, and whether JSON is wanted."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    accept = _header(scope, b"accept")
    wants = b"application/json" in accept and b"text/html" not in accept
    query: bytes = scope["query_string"]
    files = (b".json", b".jsonstat", b".csv", b".xlsx", b".parquet")
    return path, query, wants or path.endswith(files)


def packs(scope: Scope) -> bool:
    """Whether the client unpacks what is packed."""
    return _unpacks(_header(scope, b"accept-encoding"))


def _header(scope: Scope, wanted: bytes) -> bytes:
    for name, value in scope["headers"]:
        if name == wanted:
            found: bytes = value
            return found
    return b""


def _unpacks(accepted: bytes) -> bool:
    """Whether a browser unpacks gzip, and does not say that it would rather not."""
    _, found, rest = accepted.partition(b"gzip")
    quality = rest.partition(b",")[0].replace(b" ", b"")
    return bool(found) and not (quality.startswith(b";q=0") and not quality[4:].strip(b".0"))


async def give(answer: Kept, scope: Scope, send: Send) -> None:
    """Send an answer: nothing but its tag to a browser that has it, packed to one that unpacks."""
    body, headers, status = answer.body, answer.headers, answer.status
    if status == 200:
        headers = [*headers, (b"etag", answer.tag)]
        known = _header(scope, b"if-none-match")
        if known == b"*" or answer.tag in known:
            status, body = 304, b""
    if body and answer.packable and packs(scope):
        body = answer.pack()
        headers = [*headers, (b"content-encoding", b"gzip")]
    if status != 304:
        headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    sent = b"" if scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": sent})
