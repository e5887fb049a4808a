"""Runs the query tool: a catalogue behind a web server on this machine."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import uvicorn

from eree.errors import Refusal
from eree.mechanisms.cache import left_closed
from eree.web.answer import TooLarge, answer
from eree.web.app import application
from eree.web.catalogue import Catalogue
from eree.web.connection import Connection
from eree.web.maps import told
from eree.web.query import usual

Progress = Callable[[str, float], None]
#: What stops a server: Ctrl-C, a polite kill, a closed terminal.
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: So long may what is being answered take when it stops.
_LAST_SECONDS = 5


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
        progress: Progress | None = None,
        door: Door | None = None,
    ) -> None:
        """`door` is a port that was taken before, instead of `host` and `port`."""
        self._door = door or Door(host, port)  # before anything slow is done
        try:
            public = None if home is None else _checked_home(home)
            self.catalogue = Catalogue.open(folders, progress, maps)
            for data in self.catalogue.data_sets:
                with suppress(TooLarge):
                    answer(data, usual(data))  # what the first pages need may be in the cache
        except BaseException:
            self._door.close()
            raise
        self.address = self._door.address
        self.home = public or self.address
        config = uvicorn.Config(
            application(self.catalogue, self.home),
            http=Connection,
            ws="none",
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            timeout_keep_alive=20,
            timeout_graceful_shutdown=_LAST_SECONDS,
        )
        self._server = _Server(config)

    def map_words(self) -> list[str]:
        """What each map fits, in a line."""
        found = self.catalogue
        return [told(area_map, found.data_sets) for area_map in found.maps.values()]

    def run(self, ready: Callable[[], None] | None = None) -> None:
        """Serve until interrupted or stopped; `ready` is called when the first may ask.

        No file is opened from here on, not even in the cache of certificates.
        """
        self._server.ready = ready
        try:
            with left_closed():
                self._server.run(sockets=[self._door.socket])
        finally:
            self._door.close()

    def stop(self) -> None:
        """Let what is being answered come to its end, then stop."""
        self._server.should_exit = True


class _Server(uvicorn.Server):
    """A server for which a signal is the ordinary end, and no failure."""

    ready: Callable[[], None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.ready is not None:
            self.ready()

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
    if parts.path not in ("", "/") or set(home) & set("?#@"):  # all links begin at the host
        raise Refusal(f"{said}, and nothing behind it")
    return home.rstrip("/")
