"""The desk: where questions wait for their turn, and answers are kept as they go over the line.

Only so many questions are worked on at once, and only so many wait; others are asked to come again.
The same question asked twice at once is worked on once.  A question that nobody waits for any more
leaves its place.  A release never changes, so neither do answers: those asked for last are kept.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

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
#: Bytes from which on a text is packed, and the most bytes of answers that are kept.
_WORTH_PACKING, _MOST_KEPT = 1_000, 64 << 20
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
_TOO_MANY = say("too many questions at once; try again soon")


@dataclass(frozen=True)
class Limits:
    """How much is done at once, and for how long."""

    at_work: int = 2
    waiting: int = 64
    seconds: float = 20.0
    address: int = 8_000


class Kept(Response):
    """A whole answer, as it goes over the line, plain and packed.

    By its tag a browser finds out that it has it already.
    """

    def __init__(self, reply: Reply, caching: str = "no-store") -> None:
        self.status_code, self.body = reply.status, reply.body
        safe = _FRAMED if reply.framed else _PICTURES if reply.kind == SVG else SECURITY
        self.raw_headers = [(b"content-type", reply.kind.encode()), *safe]
        self.raw_headers += [(name.encode(), value.encode()) for name, value in reply.headers]
        kept = caching if reply.status == 200 else "no-store"
        self.raw_headers.append((b"cache-control", kept.encode()))
        if reply.kind != HTML:
            self.raw_headers.append((b"access-control-allow-origin", b"*"))
        if reply.status == 503:
            self.raw_headers.append((b"retry-after", b"2"))
        if reply.status == 405:
            self.raw_headers.append((b"allow", b"GET, HEAD"))
        # weak, because it is the same for the plain body and for the packed one
        self.tag = b'W/"' + hashlib.sha256(reply.body).hexdigest()[:24].encode() + b'"'
        text = reply.kind.startswith(("text/", "application/json", "image/svg"))
        self.packable = text and len(reply.body) >= _WORTH_PACKING
        self.packed: bytes | None = None

    def pack(self) -> bytes:
        """The body, packed once."""
        if self.packed is None:
            self.packed = gzip.compress(self.body, 5, mtime=0)
        return self.packed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it: its tag alone to a browser that has it, packed to one that unpacks."""
        del receive
        status, headers, body = self.status_code, self.raw_headers, self.body
        if status == 200:
            headers = [*headers, (b"etag", self.tag)]
            known = header_of(scope, b"if-none-match")
            if known == b"*" or self.tag in known:
                status, body = 304, b""
        if body and self.packable and unpacks(scope):
            body = self.pack()
            headers = [*headers, (b"content-encoding", b"gzip")]
        if status != 304:
            headers = [*headers, (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        sent = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": sent})


class Cache:
    """The answers that were asked for last, as many as there is room for."""

    def __init__(self) -> None:
        self.size = self.found = 0  # bytes, and how often something was kept that was asked for
        self._kept: OrderedDict[Key, Kept] = OrderedDict()

    def get(self, key: Key) -> Kept | None:
        """An answer, if it is kept."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            self.found += 1
        return found

    def put(self, key: Key, answer: Kept) -> None:
        """Keep an answer that is no refusal; the oldest go where there is no more room."""
        weight = _weight(key, answer)
        if answer.status_code != 200 or weight > _MOST_KEPT // 8:
            return
        if key in self._kept:
            self.size -= _weight(key, self._kept.pop(key))
        self._kept[key] = answer
        self.size += weight
        while self.size > _MOST_KEPT:
            self.size -= _weight(*self._kept.popitem(last=False))


def _weight(key: Key, answer: Kept) -> int:
    """Bytes with what packing adds at most, and some for the bookkeeping."""
    return len(key[0]) + len(key[1]) + 2 * len(answer.body) + 1_000


@dataclass(eq=False)
class _Question:
    """A question at the desk: who waits for its answer, and whether it is worked on."""

    key: Key
    work: Callable[[], Kept]
    share: str
    waiting: int = 0
    begun: bool = False
    displaced: bool = False
    task: asyncio.Task[Kept] = field(init=False)


class Turns:
    """So many may work at once; those who wait come from each data set in turn."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def take(self, share: str) -> None:
        """Wait for a turn."""
        if self._free:
            self._free -= 1
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(share, deque()).append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():  # it was handed over just now
                self.release()
            raise

    def release(self) -> None:
        """Hand a turn over to the data set that waits longest for one."""
        while self._waiting:
            share, line = self._waiting.popitem(last=False)
            while line and line[0].done():  # nobody waits for it any more
                line.popleft()
            if not line:
                continue
            following = line.popleft()
            if line:
                self._waiting[share] = line
            following.set_result(None)
            return
        self._free += 1


class Desk:
    """Where questions wait for their turn, and answers are kept.

    Each data set has a share of the places: where all are taken, a question of one that has fewer
    than its share displaces the youngest of the one that has most.  What needs no data set (its
    share has no name) waits for nobody.
    """

    def __init__(self, refuse: Refuse, limits: Limits | None = None) -> None:
        self._refuse = refuse
        self.limits = limits or Limits()
        self.cache = Cache()
        self._turns = Turns(self.limits.at_work)
        self._open: dict[Key, _Question] = {}

    def __len__(self) -> int:
        """How many questions are worked on or wait."""
        return len(self._open)

    async def answer(
        self, key: Key, work: Callable[[], Kept], receive: Receive, share: str = ""
    ) -> Kept:
        """Work out an answer in its turn, in a thread, if there is room to wait for it.

        Whoever hangs up does not wait any more; nobody reads what is returned then.
        """
        question = self._open.get(key)
        if question is None:
            if not self._has_room(share):
                return self._refuse(503, _TOO_MANY, key)
            question = self._open[key] = _Question(key, work, share)
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
        slow = say("this took too long; ask for less, or try again soon")
        return self._refuse(503, _TOO_MANY if question.displaced else slow, key)

    def _has_room(self, share: str) -> bool:
        """Whether one more question of a share finds a place, or makes one."""
        taken = Counter(question.share for question in self._open.values())
        others = sum(taken.values()) - taken.pop("", 0)
        most = self.limits.waiting + self.limits.at_work
        if not share:  # so few that they fit beside all others
            return len(self._open) - others < most
        if others < most:
            return True
        if taken[share] >= most // len({*taken, share}):
            return False
        largest = max(taken, key=lambda name: taken[name])
        waiting = (q for q in self._open.values() if q.share == largest and not q.begun)
        youngest = next(reversed([*waiting]), None)
        if youngest is None:
            return False
        youngest.displaced = True
        youngest.task.cancel()
        self._leave(youngest)
        return True

    def at_once(self, key: Key, work: Callable[[], Kept]) -> Kept:
        """An answer that is quickly made, for which nobody waits."""
        try:
            found = work()
        except Exception:
            return self._fault(key)
        self.cache.put(key, found)
        return found

    async def _turn(self, question: _Question) -> Kept:
        try:
            if question.share:
                await self._turns.take(question.share)
            question.begun = True
            try:
                found = await asyncio.to_thread(question.work)
            finally:
                if question.share:
                    self._turns.release()
            self.cache.put(question.key, found)
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
        return self._refuse(500, say("please try another question"), key)


async def _hung_up(receive: Receive) -> None:
    """Comes to its end when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def header_of(scope: Scope, wanted: bytes) -> bytes:
    """A header of a request; empty where there is none."""
    return next((value for name, value in scope["headers"] if name == wanted), b"")


def unpacks(scope: Scope) -> bool:
    """Whether a browser unpacks gzip, and does not say that it would rather not."""
    _, found, rest = header_of(scope, b"accept-encoding").partition(b"gzip")
    quality = rest.partition(b",")[0].replace(b" ", b"")
    return bool(found) and not (quality.startswith(b";q=0") and not quality[4:].strip(b".0"))
