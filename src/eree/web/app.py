"""The addresses of the query tool, and the application that a server runs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from hashlib import blake2b
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from eree.errors import Refusal
from eree.web.address import Unknown, one_address, untracked
from eree.web.answer import TooLarge
from eree.web.branding import Branding
from eree.web.catalogue import Catalogue, Missing
from eree.web.codelists import FORMS, MOST_SENT, kind_of, sender_of
from eree.web.desk import SHORT, Desk, Kept, Key, Limits, Refuse, header_of
from eree.web.embed import embedded
from eree.web.lists import checked, list_file
from eree.web.refusals import reason_of
from eree.web.reply import PARQUET, XLSX, Reply, moved
from eree.web.site import Site
from eree.web.words import say, speaking

#: Makes a reply of the parts of a path, the query and whether JSON is wanted.
View = Callable[[Mapping[str, str], str, bool], Reply]
_WEEK = "public, max-age=604800, immutable"
#: Who knows gzip and would rather not have it.
_UNWANTED = re.compile(rb"gzip\s*;\s*q=0(\.0*)?\s*(,|$)")
#: A slash within a name, which names of variables alone may have: they are the rest of a path.
_SLASH = re.compile(rb"(?i)^(?!(/[a-z]+)?/d/[^/%]+/(codes|lists)/).*%2f")
#: What is packed already.
_PACKED = (*DEFAULT_EXCLUDED_CONTENT_TYPES, XLSX, PARQUET)
#: Lists that are received at once, but for those of so few bytes.
MOST_BODIES, SMALL_BODY = 16, 65_536


class Front:
    """The door of the application: what is kept is sent at once, what is too long is refused."""

    def __init__(
        self, app: ASGIApp, desk: Desk, refuse: Refuse, compile_pages: Callable[[], None]
    ) -> None:
        """`compile_pages` does what the first pages would have to wait for."""
        self.app, self.desk, self.refuse, self.compile_pages = app, desk, refuse, compile_pages
        self._packed = GZipMiddleware(self._plain, 1_000, 5, exclude_content_types=_PACKED)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, packed for those who unpack."""
        accepted = header_of(scope, b"accept-encoding") if scope["type"] == "http" else b""
        packed = b"gzip" in accepted and not _UNWANTED.search(accepted)
        await (self._packed if packed else self._plain)(scope, receive, send)

    async def _plain(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp = self.app
        if scope["type"] == "http":
            key, most = key_of(scope), self.desk.limits.address
            kept = self.desk.known(key) if scope["method"] in ("GET", "HEAD") else None
            if kept is not None:
                answer = kept
            elif _SLASH.search(key[0]):
                answer = self.refuse(404, say("no page has this address"), key)
            elif len(key[0]) + len(key[1]) > most:
                said = say(
                    "an address has at most %(most)s characters; keep fewer codes",
                    most=f"{most:,}",
                )
                answer = self.refuse(414, said, key)
        await answer(scope, receive, send)


def key_of(scope: Scope) -> Key:
    """What the answer to a request depends on."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    accept = header_of(scope, b"accept")
    wants = b"application/json" in accept and b"text/html" not in accept
    files = (b".json", b".jsonstat", b".csv", b".xlsx", b".parquet", b".sdmx", b".csvm")
    query = b"" if path.startswith(b"/static/") else scope["query_string"]  # a stamp, for browsers
    return path, query, wants or path.endswith(files)


def application(
    catalogue: Catalogue,
    home: str,
    limits: Limits | None = None,
    branding: Branding | None = None,
) -> Front:
    """The whole application over a catalogue; `home` is the address that citations give.

    Where that has a path, links on pages begin with it; requests come without it.
    """
    site = Site(catalogue, home, branding)
    others = {code: site.within(code) for code in site.pages.branding.languages[1:]}

    def refuse(status: int, reason: str, key: Key) -> Kept:
        first = key[0].removeprefix(b"/").partition(b"/")[0].decode("latin-1")
        return Kept(others.get(first, site).refused(status, reason, key[2]))

    desk = Desk(refuse, limits)

    def elsewhere(scope: Scope) -> Kept | None:
        """Leads on from an address with other slashes or capital letters than ours."""
        prefix, rest = one_address(scope["path"], site.language, others, catalogue.by_name)
        asked = {**scope, "path": rest, "root_path": ""}
        there = rest and any(one.matches(asked)[0] is Match.FULL for one in plain)
        if not there or prefix + rest == scope["path"] or scope["method"] not in ("GET", "HEAD"):
            return None
        query = b"?" * bool(scope["query_string"]) + scope["query_string"]
        return Kept(moved(301, site.path + quote(prefix + rest) + query.decode("latin-1")), SHORT)

    async def lost(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404 and (found := elsewhere(request.scope)):
            return found
        path, allowed = request.scope["path"], b"GET, HEAD"
        known = {404: say("no page has this address"), 405: say("pages can only be read, with GET")}
        if "/lists/" in path:
            known[405], allowed = say("a list of codes is sent here, with POST"), b"POST"
        reason = known.get(error.status_code, say("this cannot be answered"))
        answer = refuse(error.status_code, reason, key_of(request.scope))
        if error.status_code == 405:
            more = b", POST" if path.endswith("/build") else b""
            answer.raw_headers.append((b"allow", allowed + more))
        return answer

    plain = _routes(site, desk, elsewhere)
    routes: list[BaseRoute] = [
        Mount(f"/{code}", routes=_routes(other, desk, elsewhere)) for code, other in others.items()
    ]
    routes += plain
    app = Starlette(routes=routes, exception_handlers={HTTPException: lost})
    app.router.redirect_slashes = False

    return Front(app, desk, refuse, site.pages.compile)


def _routes(site: Site, desk: Desk, elsewhere: Callable[[Scope], Kept | None]) -> list[Route]:
    """The addresses of pages in one language, and of all that is no page."""
    stamp = f"v={site.pages.stamp}"

    def refuse(status: int, reason: str, as_json: bool, *more: Any) -> Kept:
        return Kept(site.refused(status, reason, as_json, *more))

    def route(path: str, view: View, caching: str = SHORT) -> Route:
        async def endpoint(request: Request) -> Response:
            key, parts = key_of(request.scope), dict(request.path_params)
            if (rest := untracked(key[1])) != key[1]:
                where = key[0] + b"?" * bool(rest) + rest
                return Kept(moved(301, site.path + where.decode("latin-1")), SHORT)

            def work() -> Kept:
                try:
                    with speaking(site.language):
                        made = view(parts, key[1].decode("ascii"), key[2])
                        return Kept(made, caching, stamp if caching == _WEEK else "")
                except UnicodeDecodeError:
                    said = say("an address is written in plain letters and %(coded)s", coded="%XX")
                    return refuse(400, said, key[2], parts.get("name", ""))
                except Refusal as refusal:
                    status = {Missing: 404, TooLarge: 413}.get(type(refusal), 400)
                    if status == 404 and (found := elsewhere(request.scope)):
                        return found
                    reason = reason_of(refusal)
                    if not isinstance(refusal, Unknown):
                        return refuse(status, reason, key[2], parts.get("name", ""))
                    where = quote(request.scope["path"]).removeprefix(site.prefix)
                    where += "?" * bool(refusal.instead)
                    instead = where + refusal.instead, refusal.left
                    return refuse(status, reason, key[2], parts.get("name", ""), *instead)

            if parts.get("name") not in site.catalogue.by_name:  # nothing is worked out
                return desk.at_once(key, work)
            return await desk.answer(key, work, request.receive, parts["name"])

        return Route(path, endpoint, methods=["GET"])

    bodies = asyncio.Semaphore(MOST_BODIES)

    async def take(request: Request) -> Response:
        kind = header_of(request.scope, b"content-type").decode("latin-1")
        as_json, name = kind_of(kind) not in FORMS, request.path_params["name"]
        if name not in site.catalogue.by_name:
            return refuse(404, say("there is no data set of this name here"), as_json)
        said = header_of(request.scope, b"content-length")
        small = said.isdigit() and int(said[:20]) <= SMALL_BODY  # nobody waits for many of these
        if not small and bodies.locked():
            return refuse(503, say("too many lists at once; try again soon"), as_json)
        try:
            async with nullcontext() if small else bodies, asyncio.timeout(desk.limits.sending):
                body = await _body(request)
        except TimeoutError:
            return refuse(408, say("this took too long to arrive; send it once more"), as_json)
        if body is None:
            most = say("what is sent has at most %(most)s bytes", most=f"{MOST_SENT:,}")
            return refuse(413, most, as_json)

        client = (request.scope.get("client") or ("",))[0]
        sender = sender_of(client, ",".join(request.headers.getlist("x-forwarded-for")))

        def work() -> Kept:
            parts = {**request.path_params, "sender": sender}
            try:
                with speaking(site.language):
                    made = site.keep_list if "variable" in parts else site.send
                    return Kept(made(**parts, sent_as=(kind, body), as_json=as_json))
            except Refusal as refusal:
                status = 404 if isinstance(refusal, Missing) else 400
                return refuse(status, reason_of(refusal), as_json, name)

        key = request.scope["path"].encode(), blake2b(kind.encode() + body).digest(), as_json
        return await desk.answer(key, work, request.receive, name)

    data = "/d/{name}"
    routes: list[Route] = [
        route("/", lambda _p, q, j: site.first(q, j)),
        route("/index.json", lambda _p, q, _j: site.first(q, True)),
        route("/openapi.json", lambda _p, q, _j: site.api(q)),
        route("/robots.txt", lambda _p, _q, _j: site.machines.robots()),
        route("/favicon.ico", lambda _p, _q, _j: moved(301, f"{site.path}/static/icon.svg")),
        route("/sitemap.xml", lambda _p, _q, _j: site.machines.sitemap()),
        route("/data.json", lambda _p, _q, _j: site.machines.dcat_us()),
        route("/catalogue.jsonld", lambda _p, _q, _j: site.machines.dcat_ap()),
        route("/api", lambda _p, q, _j: site.help(q)),
        route("/methods", lambda _p, q, _j: site.methods(q)),
        route("/static/{name}", lambda p, _q, _j: site.static(p["name"]), _WEEK),
        route(f"{data}/certificate.json", lambda p, q, _j: site.certificate(p["name"], q)),
        route(f"{data}/sizes/{{file}}", lambda p, q, _j: site.profile(p["name"], p["file"], q)),
        route(f"{data}/chart.svg", lambda p, q, _j: site.chart(p["name"], q, file=True)),
        route(f"{data}/map.svg", lambda p, q, _j: site.map(p["name"], q, file=True)),
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
    shown: list[tuple[str, View]] = [
        ("", lambda p, q, _j: site.table(p["name"], q, False)),
        ("/chart", lambda p, q, _j: site.chart(p["name"], q)),
        ("/map", lambda p, q, _j: site.map(p["name"], q)),
    ]
    for path, page in shown:
        routes.append(route(f"{data}{path}/embed", _in_frame(page)))
    for path, page in pages[:2]:  # rankings and decisions
        routes.append(route(f"{data}{path}.{{ending}}", _as_file(page)))
    routes += [route(f"{data}{path}", page) for path, page in pages[:-1]]
    for path in ("/lists/{variable:path}", "/build"):
        routes.append(Route(f"{data}{path}", take, methods=["POST"]))
    routes.append(
        route(f"{data}.{{ending}}", lambda p, q, _j: site.export(p["name"], p["ending"], q))
    )
    routes.append(route(data, pages[-1][1]))
    # tables are asked for most; no other pattern than those of two parts fits their addresses
    return sorted(routes, key=lambda one: one.path.count("/") != 2)


async def _body(request: Request) -> bytes | None:
    """What was sent; nothing where it is more than is read, or where nobody waits any more."""
    said = header_of(request.scope, b"content-length")
    if said.isdigit() and int(said[:20]) > MOST_SENT:
        return None
    parts, size = list[bytes](), 0
    with suppress(ClientDisconnect):
        async for part in request.stream():
            parts.append(part)
            size += len(part)
            if size > MOST_SENT:
                return None
        return b"".join(parts)
    return None


def _in_frame(page: View) -> View:
    return lambda parts, query, as_json: embedded(page(parts, query, as_json))


def _as_file(page: View) -> View:
    def made(parts: Mapping[str, str], query: str, _json: bool) -> Reply:
        ending = checked(parts["ending"])
        return list_file(page(parts, query, True), ending)

    return made


def _as_json(page: View) -> View:
    return lambda parts, query, _json: page(parts, query, True)
