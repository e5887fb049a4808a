"""Runs the query tool: a catalogue behind a web server on this machine, and its connections."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from starlette.responses import PlainTextResponse, Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from eree.errors import Refusal
from eree.mechanisms.cache import left_closed
from eree.web.answer import TooLarge, answer
from eree.web.app import application
from eree.web.branding import Branding
from eree.web.catalogue import Catalogue
from eree.web.codelists import MOST_SENT, CodeLists
from eree.web.desk import SECURITY
from eree.web.operations import Counters, LogForm, Porch
from eree.web.query import default_query
from eree.web.render.maps import describe_fit

Progress = Callable[[str, float], None]
#: A path that all addresses begin with.
_PREFIX = re.compile(r"(/[A-Za-z0-9_-]+)*")
#: What stops a server: Ctrl-C, a polite kill, a closed terminal.
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: So many seconds may what is being answered take when it stops.
STOPPING_SECONDS = 5
#: So many new objects are made before any in circles are looked for: answers have many, and none.
_NEW_OBJECTS = 100_000
#: Connections at once whose questions are answered, and that are accepted at all.
MOST_CONNECTIONS, MOST_ACCEPTED = 512, 768
#: Bytes and lines of the headers of a request.
MOST_HEAD, MOST_LINES = 32_768, 100
#: Seconds within which a request arrives whole, and in which something of an answer is read.
ASK_SECONDS, READ_SECONDS = 15.0, 60.0
#: So long a refusal waits to be read, before the connection is closed.
LAST_SECONDS = 2.0


class Door:
    """A port of this machine that is taken; nobody is answered yet."""

    def __init__(self, host: str = "127.0.0.1", port: int = 8000) -> None:
        if not 0 <= port <= 65_535:
            raise Refusal("a port is a number from 0 to 65535")
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind((host, port))
        except (OSError, UnicodeError, OverflowError) as error:
            self.socket.close()
            raise Refusal(_untaken(host, port, error)) from None
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self.socket.getsockname()[1]}"

    def close(self) -> None:
        """Give the port back."""
        self.socket.close()

    def __enter__(self) -> Door:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


class QueryTool:
    """A query tool that is ready to be run: folders verified, a port taken."""

    def __init__(
        self,
        folders: Iterable[str | os.PathLike[str]],
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        home: str | None = None,
        maps: Iterable[str] = (),
        site: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
        door: Door | None = None,
        counters: Counters | None = None,
        lists: CodeLists | None = None,
        log: LogForm | None = None,
        left_out: Callable[[str], None] | None = None,
    ) -> None:
        """`door` is a port that was taken before, instead of `host` and `port`.

        `site` is a file that says the name, logo, colours and languages of pages.  With `counters`
        there is an address of metrics, and with `log` a line of stderr for each answer; `lists`
        are those that readers send, shared by all processes that fork from here.
        `left_out` hears why a folder is not served; without it that is refused.
        """
        self._door = door or Door(host, port)  # before anything slow is done
        try:
            public = None if home is None else _checked_home(home)
            branding = Branding() if site is None else Branding.read(site)
            self.catalogue = Catalogue.open(
                folders, progress, maps, branding.names, left_out, lists
            )
            self.address = self._door.address
            self.home = public or self.address
            self._front = application(self.catalogue, self.home, branding=branding)
            for data in self.catalogue.data_sets:
                with suppress(TooLarge):  # what the first pages need may be in the cache
                    answer(data, default_query(data))
        except BaseException:
            self._door.close()
            raise
        porch = Porch(
            self._front,
            self._front.desk,
            prefix=urlsplit(self.home).path,
            data_sets=len(self.catalogue.data_sets),
            counters=counters,
            log=log,
        )
        config = uvicorn.Config(
            porch,
            http=Connection,
            ws="none",
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            timeout_keep_alive=20,
            timeout_graceful_shutdown=STOPPING_SECONDS,
        )
        self._server = _Server(config)

    def maps(self) -> list[str]:
        """What each map fits, in a line."""
        found = self.catalogue
        return [describe_fit(name, one, found.data_sets) for name, one in found.maps.items()]

    def said(self) -> dict[str, Any]:
        """What is served: data sets, maps, and what each map fits, in a line."""
        names = [data.name for data in self.catalogue.data_sets]
        return {"data_sets": names, "maps": list(self.catalogue.maps), "lines": self.maps()}

    def run(self, ready: Callable[[], None] | None = None, alive: int | None = None) -> None:
        """Serve until interrupted or stopped; `ready` is called when the first may ask.

        `alive` is the end of a pipe that something can be read from when it is to stop.
        No file but a module is opened from here on, not even in the cache of certificates.
        """
        self._server.ready, self._server.alive = ready, alive
        threading.Thread(target=self._front.get_ready, daemon=True).start()
        try:
            with left_closed(), _few_collections():
                self._server.run(sockets=[self._door.socket])
        finally:
            self._door.close()

    def stop(self) -> None:
        """Let what is being answered come to its end, then stop."""
        self._server.should_exit = True


@contextmanager
def _few_collections() -> Iterator[None]:
    """Within it nobody looks for circles among what stays, and seldom among what is new."""
    usual = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


class _Server(uvicorn.Server):
    """A server for which a signal is the ordinary end, and no failure."""

    ready: Callable[[], None] | None = None
    alive: int | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.alive is not None:
            asyncio.get_running_loop().add_reader(self.alive, self._told)
        if self.ready is not None:
            self.ready()

    def _told(self) -> None:
        assert self.alive is not None
        asyncio.get_running_loop().remove_reader(self.alive)
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals stop the server, but for those that `nohup` or a shell has it ignore.

        They are not raised once more when it has stopped.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        heard = [n for n in _STOPS if signal.getsignal(n) is not signal.SIG_IGN]
        earlier = {number: signal.signal(number, self.handle_exit) for number in heard}
        try:
            yield
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)


class Connection(HttpToolsProtocol):
    """One connection of a browser: how long it may take to ask, and how much it may send.

    The web server has no such limits of its own.  Whoever sends a request a byte at a time, sends
    no end of headers or never reads the answer would hold a place for ever.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._answering = self.app
        self._size = self._lines = self._hosts = self._sent = 0
        self._asking = self._fresh = self._deaf = self._leaving = False
        self._unread = 0
        self._late: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        if len(self.connections) > MOST_ACCEPTED:
            transport.abort()
            return
        self._wait(ASK_SECONDS)
        self._watch = self.loop.call_later(READ_SECONDS, self._look)

    def shutdown(self) -> None:
        """The server stops: what was asked, or is on its way on a new connection, is answered."""
        asked: Any = self.cycle  # none before the first request
        if asked is not None:
            super().shutdown()
        elif not self.transport.is_closing():
            self._leaving = True
            self._wait(LAST_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget all clocks."""
        self._wait_no_more()
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; what is still no whole head after so much is refused."""
        if self._deaf:
            return
        self._fresh = False
        super().data_received(data)
        if self._asking and not self._fresh:
            self._size += len(data)
            if self._size > MOST_HEAD and not self.transport.is_closing():
                self._refuse(431, "the headers of a request are too large")

    def on_message_begin(self) -> None:
        """A request begins: it has so many seconds to arrive."""
        super().on_message_begin()
        self._size = self._lines = self._hosts = self._sent = 0
        self._asking = self._fresh = True
        self._wait(LAST_SECONDS if self._leaving else ASK_SECONDS)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count headers."""
        super().on_header(name, value)
        self._lines += 1
        self._hosts += self.headers[-1][0] == b"host"
        self._size += len(name) + len(value)

    def on_headers_complete(self) -> None:
        """A request is known: it is answered, unless it is too much."""
        self._asking = False
        self.app = self._answering
        if self._size > MOST_HEAD or self._lines > MOST_LINES:
            self.app = _refusal(431, "the headers of a request are too large")
        elif self._hosts > 1 or (self._hosts == 0 and self.parser.get_http_version() == "1.1"):
            self.app = _refusal(400, "a request names one host")
        elif len(self.connections) > MOST_CONNECTIONS:
            self.app = _refusal(503, "too many questions at once; try again soon")
        super().on_headers_complete()
        if self._leaving or self.parser.should_upgrade():  # whatever else it would speak, we do not
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take what is sent with POST; any other body passes by, unread."""
        room = MOST_SENT + 1 - self._sent  # one more than is taken, by which it is known
        self._sent += len(body)
        if self.scope["method"] == "POST" and room > 0:
            super().on_body(body[:room])

    def on_message_complete(self) -> None:
        """A request has arrived whole."""
        self._wait_no_more()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request."""
        del msg
        self._refuse(400, "this is no request that a browser makes")

    def _refuse(self, status: int, reason: str) -> None:
        """Answer at once, hear nothing more, and close when that may have been read.

        A connection that is closed at once, with something unread, is reset, and the answer lost.
        """
        self._deaf = True
        found = _refusal(status, reason)
        headers = [*self.server_state.default_headers, *found.raw_headers]
        lines = [b"%b: %b\r\n" % pair for pair in headers]
        self.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", found.body]))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._wait(LAST_SECONDS)

    def _wait(self, seconds: float) -> None:
        self._wait_no_more()
        self._late = self.loop.call_later(seconds, self._give_up)

    def _wait_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        """Close a connection on which no request has come to its end."""
        if not self.transport.is_closing():
            self.transport.close()

    def _look(self) -> None:
        """Break off an answer that nobody reads."""
        unread = self.transport.get_write_buffer_size()
        if unread and unread == self._unread:
            self.transport.abort()
            return
        self._unread = unread
        self._watch = self.loop.call_later(READ_SECONDS, self._look)


def _refusal(status: int, reason: str) -> Response:
    """A refusal in one line, after which the connection is closed."""
    headers = {"cache-control": "no-store", "connection": "close"}
    if status == 503:
        headers["retry-after"] = "2"
    found = PlainTextResponse(f"{reason}\n", status, headers)
    found.raw_headers += SECURITY
    return found


def _untaken(host: str, port: int, error: Exception) -> str:
    """Why a port cannot be taken, and what would work."""
    if isinstance(error, OSError) and not isinstance(error, socket.gaierror):
        if error.errno == errno.EADDRINUSE:
            return f"port {port} of {host} is in use; choose another with --port, or --port 0"
        if error.errno == errno.EACCES:
            return f"port {port} is kept for the system; choose one above 1023 with --port"
    return f"{host} is no address of this machine; choose one with --host, such as 127.0.0.1"


def _checked_home(home: str) -> str:
    """The public address without a slash at its end."""
    said = "the public address is one such as https://data.example.org"
    if not (home.isascii() and home.isprintable()) or set(home) & set(" \"'<>\\^`{|}"):
        raise Refusal(said)
    try:
        parts = urlsplit(home)
        _ = parts.port
    except ValueError:
        raise Refusal(said) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Refusal(said)
    if set(home) & set("?#@") or not _PREFIX.fullmatch(parts.path.rstrip("/")):
        raise Refusal(f"{said}, with a path of letters, digits, - and _ behind it or none")
    return home.rstrip("/")
