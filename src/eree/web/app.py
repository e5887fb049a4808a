"""The addresses of the query tool, and the application that a server runs.

Only so many questions are worked on at once, and only so many wait; others are asked to come again.
The same question asked twice at once is worked on once.  A question that nobody waits for any more
leaves its place.  A release never changes, so neither do answers: those asked for last are kept.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from eree.errors import Refusal
from eree.web.address import Unknown, untracked
from eree.web.answer import TooLarge
from eree.web.catalogue import Catalogue, Missing
from eree.web.reply import HTML, Reply, moved
from eree.web.site import Site

Headers = list[tuple[bytes, bytes]]
#: What an answer depends on: the path, the query, and whether JSON is wanted.
Key = tuple[bytes, bytes, bool]
#: Makes a reply of the parts of a path, the query and whether JSON is wanted.
View = Callable[[Mapping[str, str], str, bool], Reply]
#: Says no: the status, why, and whether as JSON.
Refuse = Callable[[int, str, bool], "Kept"]

_LOG = logging.getLogger("eree.web")
_WEEK = "public, max-age=604800, immutable"
_SHORT = "public, max-age=300"
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
        self.raw_headers = [(b"content-type", reply.kind.encode()), *SECURITY]
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
            known = _header(scope, b"if-none-match")
            if known == b"*" or self.tag in known:
                status, body = 304, b""
        if body and self.packable and _unpacks(scope):
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
        self._size = 0
        self._kept: OrderedDict[Key, Kept] = OrderedDict()

    def get(self, key: Key) -> Kept | None:
        """An answer, if it is kept."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: Key, answer: Kept) -> None:
        """Keep an answer that is no refusal; the oldest go where there is no more room."""
        weight = _weight(key, answer)
        if answer.status_code != 200 or weight > _MOST_KEPT // 8:
            return
        if key in self._kept:
            self._size -= _weight(key, self._kept.pop(key))
        self._kept[key] = answer
        self._size += weight
        while self._size > _MOST_KEPT:
            self._size -= _weight(*self._kept.popitem(last=False))


def _weight(key: Key, answer: Kept) -> int:
    """Bytes with what packing adds at most, and some for the bookkeeping."""
    return len(key[0]) + len(key[1]) + 2 * len(answer.body) + 1_000


@dataclass(eq=False)
class _Question:
    """A question at the desk: who waits for its answer, and whether it is worked on."""

    key: Key
    work: Callable[[], Kept]
    waiting: int = 0
    begun: bool = False
    task: asyncio.Task[Kept] = field(init=False)


class Desk:
    """Where questions wait for their turn, and answers are kept."""

    def __init__(self, refuse: Refuse, limits: Limits | None = None) -> None:
        self._refuse = refuse
        self.limits = limits or Limits()
        self.cache = Cache()
        self._turns = asyncio.Semaphore(self.limits.at_work)
        self._open: dict[Key, _Question] = {}

    def __len__(self) -> int:
        """How many questions are worked on or wait."""
        return len(self._open)

    async def answer(self, key: Key, work: Callable[[], Kept], receive: Receive) -> Kept:
        """Work out an answer in its turn, in a thread, if there is room to wait for it.

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
            async with self._turns:
                question.begun = True
                found = await asyncio.to_thread(question.work)
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
        return self._refuse(500, "please try another question", key[2])


async def _hung_up(receive: Receive) -> None:
    """Comes to its end when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Front:
    """The door of the application: what is kept is sent at once, what is too long is refused."""

    def __init__(self, app: ASGIApp, desk: Desk, refuse: Refuse) -> None:
        self.app, self.desk, self._refuse = app, desk, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer: ASGIApp = self.app
        if scope["type"] == "http":
            key, most = _key_of(scope), self.desk.limits.address
            kept = self.desk.cache.get(key) if scope["method"] in ("GET", "HEAD") else None
            if kept is not None:
                answer = kept
            elif len(key[0]) + len(key[1]) > most:
                said = f"an address has at most {most:,} characters; keep fewer codes"
                answer = self._refuse(414, said, key[2])
        await answer(scope, receive, send)


def _key_of(scope: Scope) -> Key:
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    accept = _header(scope, b"accept")
    wants = b"application/json" in accept and b"text/html" not in accept
    files = (b".json", b".jsonstat", b".csv", b".xlsx", b".parquet")
    return path, scope["query_string"], wants or path.endswith(files)


def _header(scope: Scope, wanted: bytes) -> bytes:
    return next((value for name, value in scope["headers"] if name == wanted), b"")


def _unpacks(scope: Scope) -> bool:
    """Whether a browser unpacks gzip, and does not say that it would rather not."""
    _, found, rest = _header(scope, b"accept-encoding").partition(b"gzip")
    quality = rest.partition(b",")[0].replace(b" ", b"")
    return bool(found) and not (quality.startswith(b";q=0") and not quality[4:].strip(b".0"))


def application(catalogue: Catalogue, home: str, limits: Limits | None = None) -> ASGIApp:
    """The whole application over a catalogue; `home` is the address that citations give."""
    site = Site(catalogue, home)

    def refuse(status: int, reason: str, as_json: bool) -> Kept:
        return Kept(site.refused(status, reason, as_json))

    desk = Desk(refuse, limits)

    def route(path: str, view: View, caching: str = _SHORT, *, at_once: bool = False) -> Route:
        async def endpoint(request: Request) -> Response:
            key, parts = _key_of(request.scope), dict(request.path_params)
            if (rest := untracked(key[1])) != key[1]:
                where = key[0] + b"?" * bool(rest) + rest
                return Kept(moved(301, where.decode("latin-1")))

            def work() -> Kept:
                try:
                    made = Kept(view(parts, key[1].decode("ascii"), key[2]), caching)
                    if made.packable and _unpacks(request.scope):
                        made.pack()  # not while others wait for their turn to be sent theirs
                    return made
                except UnicodeDecodeError:
                    return refuse(400, "an address is written in plain letters and %XX", key[2])
                except Refusal as refusal:
                    status = {Missing: 404, TooLarge: 413}.get(type(refusal), 400)
                    if not isinstance(refusal, Unknown):
                        return refuse(status, str(refusal), key[2])
                    where = quote(request.scope["path"]) + "?" * bool(refusal.instead)
                    instead = where + refusal.instead, refusal.left
                    return Kept(site.refused(status, str(refusal), key[2], *instead))

            if at_once:
                return desk.at_once(key, work)
            return await desk.answer(key, work, request.receive)

        return Route(path, endpoint, methods=["GET"])

    async def lost(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        known = {404: "no page has this address", 405: "pages can only be read, with GET"}
        reason = known.get(error.status_code, "this cannot be answered")
        return refuse(error.status_code, reason, _key_of(request.scope)[2])

    data = "/d/{name}"
    routes = [
        route("/", lambda _p, q, j: site.first(q, j), at_once=True),
        route("/index.json", lambda _p, q, _j: site.first(q, True), at_once=True),
        route("/openapi.json", lambda _p, q, _j: site.api(q)),
        route("/api", lambda _p, q, _j: site.help(q)),
        route("/methods", lambda _p, q, _j: site.methods(q)),
        route("/static/{name}", lambda p, _q, _j: site.static(p["name"]), _WEEK, at_once=True),
        route(f"{data}/certificate.json", lambda p, q, _j: site.certificate(p["name"], q)),
        route(f"{data}/sizes/{{file}}", lambda p, q, _j: site.profile(p["name"], p["file"], q)),
        route(f"{data}/chart", lambda p, q, _j: site.chart(p["name"], q)),
        route(f"{data}/map", lambda p, q, _j: site.map(p["name"], q)),
        route(f"{data}/build", lambda p, q, _j: site.build(p["name"], q), "no-store"),
    ]
    pages: list[tuple[str, View]] = [
        ("/ranking", lambda p, q, j: site.ranking(p["name"], q, j)),
        ("/threshold", lambda p, q, j: site.threshold(p["name"], q, j)),
        ("/about", lambda p, q, j: site.about(p["name"], q, j)),
        ("/codes/{variable:path}", lambda p, q, j: site.codes(p["name"], p["variable"], q, j)),
        ("", lambda p, q, j: site.table(p["name"], q, j)),
    ]
    # an address with .json comes before the same without, whose last part would take it in
    routes += [route(f"{data}{path}.json", _as_json(page)) for path, page in pages]
    routes += [route(f"{data}{path}", page) for path, page in pages[:-1]]
    routes.append(
        route(f"{data}.{{ending}}", lambda p, q, _j: site.export(p["name"], p["ending"], q))
    )
    routes.append(route(data, pages[-1][1]))
    app = Starlette(routes=routes, exception_handlers={HTTPException: lost})
    app.router.redirect_slashes = False
    return Front(app, desk, refuse)


def _as_json(page: View) -> View:
    return lambda parts, query, _json: page(parts, query, True)
