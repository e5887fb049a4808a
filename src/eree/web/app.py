"""The addresses of the query tool, and the application that a server runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from eree.errors import Refusal
from eree.web.answer import TooLarge
from eree.web.catalogue import Catalogue, Missing
from eree.web.guard import SECURITY, Desk, Front, Limits, give, key_of, packs
from eree.web.memory import Headers, Kept
from eree.web.pages import KINDS
from eree.web.replies import HTML, Reply
from eree.web.site import Site

#: Makes a reply of the parts of a path, the query and whether JSON is wanted.
View = Callable[[Mapping[str, str], str, bool], Reply]
_WEEK = "public, max-age=604800, immutable"
_SHORT = "public, max-age=300"


class Given(Response):
    """A kept answer as the framework's response."""

    def __init__(self, kept: Kept) -> None:
        super().__init__()
        self.kept = kept

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        del receive
        await give(self.kept, scope, send)


def application(catalogue: Catalogue, home: str, limits: Limits | None = None) -> ASGIApp:
    """The whole application over a catalogue; `home` is the address that citations give."""
    site = Site(catalogue, home)

    def refuse(status: int, words: str, as_json: bool) -> Kept:
        return _kept(site.refused(status, words, as_json))

    desk = Desk(refuse, limits)

    def route(path: str, view: View, cache: str = _SHORT, *, at_once: bool = False) -> Route:
        async def endpoint(request: Request) -> Response:
            key, parts = key_of(request.scope), dict(request.path_params)

            def work() -> Kept:
                try:
                    query = key[1].decode("ascii")
                    made = _kept(view(parts, query, key[2]), cache)
                    if made.packable and packs(request.scope):
                        made.pack()  # not while others wait for their turn to be sent theirs
                    return made
                except UnicodeDecodeError:
                    return refuse(400, "an address is written in plain letters and %XX", key[2])
                except Missing as missing:
                    return refuse(404, str(missing), key[2])
                except TooLarge as large:
                    return refuse(413, str(large), key[2])
                except Refusal as refusal:
                    return refuse(400, str(refusal), key[2])

            if at_once:
                return Given(desk.at_once(key, work))
            return Given(await desk.answer(key, work, request.receive))

        return Route(path, endpoint, methods=["GET"])

    def static(parts: Mapping[str, str], _query: str, _json: bool) -> Reply:
        name = parts["name"]
        if name not in site.pages.static:
            raise Missing("there is no such file")
        return Reply(200, KINDS[name.rpartition(".")[2]], site.pages.static[name])

    async def lost(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        words = {404: "no page has this address", 405: "pages can only be read, with GET"}
        said = words.get(error.status_code, "this cannot be answered")
        return Given(refuse(error.status_code, said, key_of(request.scope)[2]))

    data = "/d/{name}"
    app = Starlette(
        routes=[
            route(f"{data}.json", lambda p, q, _j: site.table(p["name"], q, True)),
            route("/", lambda _p, q, j: site.first(q, j), at_once=True),
            route("/index.json", lambda _p, q, _j: site.first(q, True), at_once=True),
            route("/openapi.json", lambda _p, q, _j: site.api(q)),
            route("/api", lambda _p, q, _j: site.help(q)),
            route("/methods", lambda _p, q, _j: site.methods(q)),
            route("/static/{name}", static, _WEEK, at_once=True),
            *(
                route(f"{data}/{word}{ending}", _paged(page, ending != ""))
                for word, page in (
                    ("ranking", site.ranking),
                    ("threshold", site.threshold),
                    ("about", site.about),
                )
                for ending in (".json", "")
            ),
            route(f"{data}/certificate.json", lambda p, q, _j: site.certificate(p["name"], q)),
            route(f"{data}/chart", lambda p, q, _j: site.chart(p["name"], q)),
            route(f"{data}/map", lambda p, q, _j: site.map(p["name"], q)),
            route(f"{data}/build", lambda p, q, _j: site.build(p["name"], q), "no-store"),
            route(
                f"{data}/codes/{{variable:path}}.json",
                lambda p, q, _j: site.codes(p["name"], p["variable"], q, True),
            ),
            route(
                f"{data}/codes/{{variable:path}}",
                lambda p, q, j: site.codes(p["name"], p["variable"], q, j),
            ),
            route(f"{data}.{{ending}}", lambda p, q, _j: site.export(p["name"], p["ending"], q)),
            route(data, lambda p, q, j: site.table(p["name"], q, j)),
        ],
        exception_handlers={HTTPException: lost},
    )
    app.router.redirect_slashes = False
    return Front(app, desk, refuse)


def _paged(page: Callable[[str, str, bool], Reply], always: bool) -> View:
    return lambda parts, query, as_json: page(parts["name"], query, always or as_json)


def _kept(reply: Reply, cache: str = "no-store") -> Kept:
    """A reply with every header that it needs."""
    headers: Headers = [(b"content-type", reply.kind.encode()), *SECURITY]
    for name, value in reply.headers:
        headers.append((name.encode(), value.encode("ascii")))
    headers.append((b"cache-control", (cache if reply.status == 200 else "no-store").encode()))
    if reply.kind != HTML:
        headers.append((b"access-control-allow-origin", b"*"))
    if reply.status == 503:
        headers.append((b"retry-after", b"2"))
    if reply.status == 405:
        headers.append((b"allow", b"GET, HEAD"))
    return Kept.of(reply.status, headers, reply.body)
