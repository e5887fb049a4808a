"""Runs the query tool: a catalogue behind a web server on this machine."""

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
from importlib import import_module
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp

from eree.errors import Refusal
from eree.mechanisms.cache import left_closed
from eree.web.answer import TooLarge, answer
from eree.web.app import application
from eree.web.branding import Branding
from eree.web.catalogue import Catalogue
from eree.web.codelists import CodeLists
from eree.web.operations import Counters, LogForm, Porch
from eree.web.query import default_query
from eree.web.render.maps import describe_fit, describe_names

Progress = Callable[[str, float], None]
#: A path that all addresses begin with.
_PREFIX = re.compile(r"(/[A-Za-z0-9_-]+)*")
#: What stops a server: Ctrl-C, a polite kill, a closed terminal.
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: So many seconds may what is being answered take when it stops.
STOPPING_SECONDS = 5
#: So many new objects are made before any in circles are looked for: answers have many, and none.
_NEW_OBJECTS = 100_000
#: Connections at once; others are asked to come again.
MOST_CONNECTIONS = 512
#: So long somebody who has just come may take to ask, when it stops.
_ASK_SECONDS = 0.5


class Door:
    """A port of this machine that is taken; nobody is answered yet.

    It is `public` where other machines may reach it.
    """

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
        taken = self.socket.getsockname()
        self.address = f"http://{shown}:{taken[1]}"
        self.public = not ip_address(taken[0].partition("%")[0]).is_loopback

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
        may_be_none: bool = False,
    ) -> None:
        """`door` is a port that was taken before, instead of `host` and `port`.

        `site` is a file that says the name, logo, colours and languages of pages.  With `counters`
        there is an address of metrics, and with `log` a line of stderr for each answer; `lists`
        are those that readers send, shared by all processes that fork from here.
        `left_out` hears why a folder is not served; without it that is refused.  There may be none
        to serve any more where releases come and go.
        """
        self._door = door or Door(host, port)  # before anything slow is done
        try:
            public = None if home is None else checked_home(home)
            branding = Branding() if site is None else Branding.read(site)
            self._names = branding.names
            self.catalogue = Catalogue.open(
                folders, progress, maps, branding.names, left_out, lists, may_be_none=may_be_none
            )
            self.address = self._door.address
            self.home = public or self.address
            self._front = application(self.catalogue, self.home, branding=branding)
            self._front.compile_pages()
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
        self._server = server_of(porch)

    def maps(self) -> list[str]:
        """What each map and each file of names fits, in a line."""
        found = self.catalogue
        lines = [describe_fit(name, one, found.data_sets) for name, one in found.maps.items()]
        return lines + [describe_names(*one, found.data_sets) for one in self._names.items()]

    def said(self) -> dict[str, Any]:
        """What is served: data sets, maps, and what maps and names fit, in a line each."""
        names = [data.name for data in self.catalogue.data_sets]
        folders = sorted({str(data.release.folder) for data in self.catalogue.data_sets})
        maps = list(self.catalogue.maps)
        return {"data_sets": names, "folders": folders, "maps": maps, "lines": self.maps()}

    def run(self, ready: Callable[[], None] | None = None, alive: int | None = None) -> None:
        """Serve until interrupted or stopped; `ready` is called when the first may ask.

        `alive` is the end of a pipe that something can be read from when it is to stop.
        No file but a module is opened from here on, not even in the cache of certificates.
        """

        def listening() -> None:
            if ready is not None:
                ready()
            threading.Thread(target=_load_modules, daemon=True).start()

        self._server.ready = listening
        self._server.ends = () if alive is None else (alive,)
        try:
            with left_closed(), _few_collections():
                self._server.run(sockets=[self._door.socket])
        finally:
            self._door.close()

    def stop(self) -> None:
        """Let what is being answered come to its end, then stop."""
        self._server.should_exit = True


def _load_modules() -> None:
    """Load what the first unusual questions would have to wait for."""
    for name in ("scipy.special", "xlsxwriter"):  # rankings and unusual levels, and workbooks
        import_module(name)


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


class Server(uvicorn.Server):
    """A server for which a signal is the ordinary end, and no failure."""

    ready: Callable[[], None] | None = None
    #: Ends of pipes; when something can be read from one, it stops.
    ends: tuple[int, ...] = ()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take the first in, and say so."""
        await super().startup(sockets)
        for end in self.ends:
            asyncio.get_running_loop().add_reader(end, self._told)
        if self.ready is not None:
            self.ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take nobody in any more; answer those who have just come, then all that was asked."""
        for listening in self.servers:
            listening.close()
        await asyncio.sleep(_ASK_SECONDS)
        await super().shutdown(sockets)

    def _told(self) -> None:
        for end in self.ends:
            asyncio.get_running_loop().remove_reader(end)
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


def server_of(app: ASGIApp) -> Server:
    """A server that runs an application."""
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        limit_concurrency=MOST_CONNECTIONS,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        timeout_keep_alive=20,
        timeout_graceful_shutdown=STOPPING_SECONDS,
    )
    return Server(config)


def _untaken(host: str, port: int, error: Exception) -> str:
    """Why a port cannot be taken, and what would work."""
    if isinstance(error, OSError) and not isinstance(error, socket.gaierror):
        if error.errno == errno.EADDRINUSE:
            return f"port {port} of {host} is in use; choose another with --port, or --port 0"
        if error.errno == errno.EACCES:
            return f"port {port} is kept for the system; choose one above 1023 with --port"
    return f"{host} is no address of this machine; choose one with --host, such as 127.0.0.1"


def checked_home(home: str) -> str:
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
